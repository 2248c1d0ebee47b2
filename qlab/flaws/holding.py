"""Flaws of the reservations: there are none, or they are for ever."""

import math

from qlab.flaws.flaw import Flaw
from qlab.job import Reservation


class DeletesAtReserve(Flaw):
    """A job leaves the store when it is reserved: it runs at most once, and is nowhere but in its worker's hands.

    huey pops its jobs so (coleifer/huey#253), and Celery's transport lost messages between its two steps
    (celery/kombu#305). Nothing ever runs twice; what a worker holds when it dies is lost.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("crash", driver=flaws.DeletesAtReserve).first_broken.says
        'job 1 was never done, nobody has it, and the store does not know it'
    """

    name = "deleted at reserve"
    keeps = False
    promise = "A job that a worker holds is still in the store, and comes back when the worker dies."
    does = "Reserving deletes the job; giving it back inserts it again."

    def __init__(self) -> None:
        super().__init__()
        self._in_hand: set[str] = set()

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            for held in found:
                self._take_out(held.job)
                self._in_hand.add(held.token)
            return found

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        with self._lock:
            held = self._holds(reservation)
            self._in_hand.discard(reservation.token)
            return held

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            return self._back(reservation) and super().release(reservation, now=now, delay=delay)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        with self._lock:
            return self._holds(reservation)

    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        with self._lock:
            return self._back(reservation) and super()._stage(reservation, now, attempts, error, traceback)

    def _holds(self, reservation: Reservation) -> bool:
        self._queue(reservation.job.queue)  # refuses where it is closed
        return reservation.token in self._in_hand

    def _back(self, reservation: Reservation) -> bool:
        held = DeletesAtReserve.complete(self, reservation, now=0.0)
        if held:
            self._put_in(reservation)
        return held


class NeverRunsOut(Flaw):
    """A reservation is for ever, whatever its policy says, so that what a dead worker held stays with the dead.

    Solid Queue's claim lasted as long as its worker's process, also when only the run had ended
    (rails/solid_queue#748). The job is reserved, nobody runs it, and nobody ever will unless it is recovered by force.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("crash", driver=flaws.NeverRunsOut).first_broken.says
        'job 1 is reserved, nobody has it, and nobody will ever get it'
    """

    name = "no running out"
    promise = "What a dead worker held is due again when its reservation runs out."
    does = "Reservations never run out."

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        return super().reserve(queue, now=now, retry_after=None, limit=limit)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return super().extend(reservation, now=now, seconds=math.inf)
