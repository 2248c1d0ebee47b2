"""Broken queues to learn from: the memory driver with one promise broken in each.

They are for the lab only. No address opens one: make it, as in `FLAWS["completion by id"]()`, and give it to a lab, a
queue or a simulation. Each says which promise it breaks (`promise`), and what it does instead (`does`); who shipped the
same is in its docstring. `together` makes one of several.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

from qlab.clock import us
from qlab.drivers.memory import MemoryDriver
from qlab.job import Job, Reservation


class Flaw(MemoryDriver):
    """A memory driver that breaks one promise.

    Attributes:
        promise: The promise that it breaks.
        does: What it does instead.
    """

    promise: ClassVar[str]
    does: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.url = f"flaw:{quote(self.name)}"

    @property
    def description(self) -> str:
        return f"memory with a flaw: {self.name}"

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        with self._lock:
            completed = self.complete(reservation, now=now)
            following = self.reserve(reservation.job.queue, now=now, retry_after=retry_after)
            return completed, following[0] if following else None


# -- the fence --


class CompletesById(Flaw):
    """Whoever completes a job deletes it by its id, also a worker that was superseded while another runs it.

    Laravel's database queue deletes so (laravel/framework#22394). The late completion is accepted, and that of the
    worker whose job it is by now is not: two runs, of which the wrong one counts.
    """

    name = "completion by id"
    promise = "A worker whose reservation was superseded completes nothing."
    does = "A completion deletes the job by its id, whoever holds it by now."

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        with self._lock:
            return self._take_out(reservation.job)


class ReleasesSuperseded(Flaw):
    """Whoever releases a job puts it into the queue, also a worker that was superseded, also when the job is done.

    Both of Laravel's queues insert again without asking whether anything was there to give back
    (laravel/framework#22844). A job that is done rises from the dead, and one that another worker runs is taken from
    it.
    """

    name = "superseded release re-inserts"
    promise = "A worker whose reservation was superseded never brings a job back."
    does = "A release puts the job into the queue, also where it is another's by now, or done."

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            self._put_in(reservation)
            return super().release(reservation, now=now, delay=delay)


class RevokesOnRunningOut(Flaw):
    """A reservation is worth nothing from its deadline on, whether or not anybody has taken the job since.

    BullMQ keeps a lock that expires by itself, and refuses whoever ends a job without it (taskforcesh/bullmq#3463). A
    worker that is a moment late has worked for nothing: the job runs again, and may fail at last though every run of
    it succeeded.
    """

    name = "token revoked by running out"
    promise = "Running out ends nothing by itself: a late worker that nobody has superseded settles its job."
    does = "From the deadline on, whatever the worker says of the job is refused."

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        with self._lock:
            return self._in_time(reservation, us(now)) and super().complete(reservation, now=now)

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            return self._in_time(reservation, us(now)) and super().release(reservation, now=now, delay=delay)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        with self._lock:
            return self._in_time(reservation, us(now)) and super().extend(reservation, now=now, seconds=seconds)

    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        with self._lock:
            return self._in_time(reservation, now) and super()._stage(reservation, now, attempts, error, traceback)

    def _in_time(self, reservation: Reservation, now: int) -> bool:
        row = self._row(reservation.job)
        return row is not None and now < row.available_at


# -- attempts --


class CountsFailures(Flaw):
    """An attempt counts when its job is given back, so that one which ends in no such way counts as none.

    Laravel's Redis queue counted so once (laravel/framework#8577), and Sidekiq does (sidekiq/sidekiq#4069, #5300). A
    job that kills its worker is never used up: it runs for ever, and takes a worker each time.
    """

    name = "attempts counted at failure"
    promise = "An attempt counts when the job is reserved, whatever becomes of the worker."
    does = "An attempt counts when the job is given back; a worker that dies gives back nothing."

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            for held in found:
                self._recount(held.job, -1)
            return found

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            released = super().release(reservation, now=now, delay=delay)
            if released:
                self._recount(reservation.job, 1)
            return released


# -- reservations --


class DeletesAtReserve(Flaw):
    """A job leaves the store when it is reserved: it runs at most once, and is nowhere but in its worker's hands.

    huey pops its jobs so (coleifer/huey#253), and Celery's transport lost messages between its two steps
    (celery/kombu#305). Nothing ever runs twice; what a worker holds when it dies is lost.
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
    """

    name = "no running out"
    promise = "What a dead worker held is due again when its reservation runs out."
    does = "Reservations never run out."

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        return super().reserve(queue, now=now, retry_after=None, limit=limit)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return super().extend(reservation, now=now, seconds=math.inf)


# -- order --


class _KeepsPlaces(Flaw):
    """What the two flaws of order share: where each job stood when it was reserved."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], tuple[int, int]] = {}

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            for held in found:
                row = self._row(held.job)
                if row is not None:
                    self._places[queue, held.job.id] = us(held.claimable_since), row.seq
            return found

    def _to_its_place(self, job: Job, now: float) -> None:
        self._place(job, *self._places[job.queue, job.id], us(now))


class ReleasesInPlace(_KeepsPlaces):
    """A job that is released without a delay goes back to where it was, before all that has waited since.

    RabbitMQ puts what a consumer hands back to its first position if it can, and beanstalkd orders by id alone within a
    priority. One job that always fails is at the head again at once: the rest wait until its attempts are used up, or
    for ever where they never are.
    """

    name = "release in place"
    promise = "A released job goes behind those that are claimable by then."
    does = "A job that is released without a delay goes back to where it stood, before all others."

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            released = super().release(reservation, now=now, delay=delay)
            if released and us(delay) == 0:
                self._to_its_place(reservation.job, now)
            return released


class RecoversInPlace(_KeepsPlaces):
    """A recovered job goes back to where it was, before all that has waited since.

    A list does it to whose head a dead worker's jobs are pushed back; Sidekiq came to need a rule against jobs that
    kill one process after another (sidekiq/sidekiq#4633). A job that kills its worker kills the next one before any
    good job has had its turn.
    """

    name = "recover in place"
    promise = "A recovered job goes behind those that are claimable now."
    does = "A recovered job goes back to where it stood, before all others."

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        with self._lock:
            recovered = super().recover(queue, now=now, force=force)
            for job in recovered:
                self._to_its_place(job, now)
            return _those(self.jobs(queue, now=now), recovered)


# -- sweeps that go by a worker's name --


class _Sweeps(NeverRunsOut):
    """What the two sweeps share: no reservation runs out, since a sweep is to bring back what a dead worker held.

    Whoever steps a worker says so first (`hear`), because no verb of the contract tells who calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self._caller = ""
        self._owned: dict[tuple[str, int], tuple[str, Reservation]] = {}

    def hear(self, worker: str, *, now: float) -> None:
        """Learn who reserves, settles or recovers next, and when, in seconds."""
        self._caller = worker

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            self._owned |= {(queue, held.job.id): (self._caller, held) for held in found}
            return found

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        with self._lock:
            held = [held for owner, held in self._owned.values() if held.job.queue == queue and self._takes(owner, now)]
            swept = [each.job for each in held if self.release(each, now=now)]
            return _those(self.jobs(queue, now=now), swept)

    def _takes(self, owner: str, now: float) -> bool:
        raise NotImplementedError


class SweepsItsOwn(_Sweeps):
    """A worker that starts brings back what a worker of the same name held, at once, and nothing else ever does.

    Sidekiq's reliable fetch kept a list for each process name (sidekiq/sidekiq#5540, #6951). It is quick and robs
    nobody; where the name changes with the restart, as a container's does, the job is an orphan for ever.
    """

    name = "sweep of one's own"
    promise = "Recovery goes by the reservation alone: whoever recovers finds what a dead worker held."
    does = "A sweep takes what a worker of the caller's name holds, and nothing else; nothing runs out."

    def _takes(self, owner: str, now: float) -> bool:
        return owner == self._caller


class SweepsDeadOwners(_Sweeps):
    """A sweep brings back what workers held that were not heard of for a minute, by their names.

    Oban and Procrastinate look for producers or workers that are gone (oban-bg/oban#862,
    procrastinate-org/procrastinate#1518). Where a worker dies and another starts under its name in time, the name is
    alive, and its job is an orphan for ever.

    Args:
        silent_for: After how many seconds without a word a name counts as dead.
    """

    name = "sweep of dead owners"
    promise = "Recovery goes by the reservation alone, and not by whether a worker of some name is alive."
    does = "A sweep takes what workers hold whose name was not heard of for a minute; nothing runs out."

    def __init__(self, silent_for: float = 60.0) -> None:
        super().__init__()
        self._silent_for = us(silent_for)
        self._heard: dict[str, int] = {}

    def hear(self, worker: str, *, now: float) -> None:
        super().hear(worker, now=now)
        self._heard[worker] = us(now)

    def _takes(self, owner: str, now: float) -> bool:
        return self._heard.get(owner, 0) + self._silent_for <= us(now)


def together(*flaws: type[Flaw]) -> type[Flaw]:
    """Make a flaw that breaks the promises of several, as real queues do.

    Args:
        flaws: The flaws; where two turn one verb, the first is asked first.
    """
    if not flaws:
        raise ValueError("together() was given no flaw: name those to put together, as in qlab.flaws.FLAWS")
    parts = {part: {getattr(flaw, part): None for flaw in flaws} for part in ("name", "promise", "does")}
    said = {"name": " and ".join(parts["name"]), "promise": " ".join(parts["promise"]), "does": " ".join(parts["does"])}
    return type("Together", flaws, said)


def _those(jobs: Sequence[Job], which: Sequence[Job]) -> list[Job]:
    ids = {job.id for job in which}
    return [job for job in jobs if job.id in ids]


FLAWS: Mapping[str, type[Flaw]] = MappingProxyType(
    {
        flaw.name: flaw
        for flaw in (
            CompletesById,
            ReleasesSuperseded,
            RevokesOnRunningOut,
            CountsFailures,
            DeletesAtReserve,
            NeverRunsOut,
            ReleasesInPlace,
            RecoversInPlace,
            SweepsItsOwn,
            SweepsDeadOwners,
        )
    }
)
"""The flaws by name."""
