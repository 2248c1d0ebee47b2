"""A driver before a driver, which takes the time of each call that reserves or completes a job."""

from array import array
from collections.abc import Callable

from qlab.clock import Clock, monotonic
from qlab.driver import Driver
from qlab.drivers.before import Before
from qlab.errors import DriverUnavailable
from qlab.job import Reservation

TELL_EVERY = 0.25  # seconds
_US = 1_000_000


class Timed(Before):
    """A driver that stands before another one and takes its time, for one worker.

    Args:
        store: The driver that keeps the jobs; it closes with this one.
        clock: The clock of the jobs.
        tell: Told how many jobs are done, at most four times a second.

    Attributes:
        began: From when waits count at the earliest, in seconds of the clock: jobs were there before the workers.
        reserves: The microseconds of each call that brought a job.
        completes: The microseconds of each call that completed one; one that did both counts in both.
        waits: The microseconds from a job's dispatch to the end of the call that reserved it first.
        done: How many jobs were completed or have failed for good.
        last_done: When the last of them was, on the monotonic clock.
        lock_errors: How many calls the store gave up.
    """

    def __init__(self, store: Driver, clock: Clock, tell: Callable[[int], object]) -> None:
        super().__init__(store)
        self.began = 0.0
        self.reserves, self.completes, self.waits = array("q"), array("q"), array("q")
        self.done, self.last_done, self.lock_errors = 0, 0.0, 0
        self._now, self._tell, self._tell_at = clock.now, tell, 0.0

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        asked = monotonic()
        try:
            found = self._store.reserve(queue, now=now, retry_after=retry_after, limit=limit)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        for held in found:
            self._took(held, asked, monotonic())
        return found

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        asked = monotonic()
        try:
            done = self._store.complete(reservation, now=now)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        self._completed(asked, monotonic(), done)
        return done

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        asked = monotonic()
        try:
            done, following = self._store.complete_and_reserve(reservation, now=now, retry_after=retry_after)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        answered = monotonic()
        if following is not None:
            self._took(following, asked, answered)
        self._completed(asked, answered, done)
        return done, following

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        failed = self._store.fail(reservation, now=now, attempts=attempts, error=error, traceback=traceback)
        self._count(monotonic(), failed)
        return failed

    def _took(self, held: Reservation, asked: float, answered: float) -> None:
        self.reserves.append(round((answered - asked) * _US))
        job = held[0]
        if job.attempts == 1:
            self.waits.append(round((self._now() - max(job.dispatched_at, self.began)) * _US))

    def _completed(self, asked: float, answered: float, done: bool) -> None:
        self.completes.append(round((answered - asked) * _US))
        self._count(answered, done)

    def _count(self, answered: float, done: bool) -> None:
        self.done += done
        self.last_done = answered
        if answered >= self._tell_at:
            self._tell_at = answered + TELL_EVERY
            self._tell(self.done)
