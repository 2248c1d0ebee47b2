"""Flaws of the fence: a worker that was superseded changes something, or one that was not is refused."""

from qlab.clock import us
from qlab.flaws.flaw import Flaw
from qlab.job import Reservation


class CompletesById(Flaw):
    """Whoever completes a job deletes it by its id, also a worker that was superseded while another runs it.

    Laravel's database queue deletes so (laravel/framework#22394). The late completion is accepted, and that of the
    worker whose job it is by now is not: two runs, of which the wrong one counts.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("one_job", driver=flaws.CompletesById).first_broken.says
        'job 1 is nowhere now, while worker 2 still has it in hand'
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

    Example:
        >>> from qlab import explore, flaws
        >>> explore("takes_two", driver=flaws.ReleasesSuperseded).first_broken.says
        'job 1 is ready now, while worker 2 still has it in hand'
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

    Example:
        >>> from qlab import explore, flaws
        >>> explore("one_job", driver=flaws.RevokesOnRunningOut).first_broken.says
        'nobody else had job 1, and yet what worker 1 did counts for nothing'
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
