"""A flaw of the attempts: they count at another moment than they should."""

from qlab.flaws.flaw import Flaw
from qlab.job import Reservation


class CountsFailures(Flaw):
    """An attempt counts when its job is given back, so that one which ends in no such way counts as none.

    Laravel's Redis queue counted so once (laravel/framework#8577), and so did Sidekiq Pro, until it counted recoveries
    apart (sidekiq/sidekiq#4069, #4633). A job that kills its worker is never used up: it runs for ever, and takes a
    worker each time.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("one_try", driver=flaws.CountsFailures).first_broken.says
        'job 1 has 1 try, and was started 2 times'
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
