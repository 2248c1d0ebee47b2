"""A driver before a driver, which takes the time of each call that reserves or completes a job."""

from array import array
from collections.abc import Callable

from qlab.clock import Clock, monotonic
from qlab.driver import Driver
from qlab.drivers.before import Before
from qlab.errors import DriverUnavailable
from qlab.job import Reservation

TELL_EVERY = 0.25
"""How many seconds lie between two words of how many jobs are done, at least."""


class Timed(Before):
    """A driver that stands before another one and takes its time, for one worker; that costs a job about a microsecond.

    Args:
        store: The driver that keeps the jobs; it closes with this one.
        clock: The clock of the jobs.
        tell: Told now and then how many jobs are done.

    Attributes:
        began: From when waits count at the earliest, in seconds of the clock: jobs were there before the workers.
        reserves: The seconds of each call that brought a job.
        completes: The seconds of each call that completed one; one that did both counts in both.
        waits: The seconds from a job's dispatch to the end of the call that reserved it first.
        done: How many jobs were completed or have failed for good.
        last_done: When the last of them was, on the monotonic clock.
        lock_errors: How many calls the store gave up.
    """

    def __init__(self, store: Driver, clock: Clock, tell: Callable[[int], object]) -> None:
        super().__init__(store)
        self.began = 0.0
        self.reserves, self.completes, self.waits = array("d"), array("d"), array("d")
        self.done, self.last_done, self.lock_errors = 0, 0.0, 0
        self._now, self._tell, self._tell_at = clock.now, tell, 0.0
        self._fused = store.complete_and_reserve

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        asked = monotonic()
        try:
            found = self._store.reserve(queue, now=now, retry_after=retry_after, limit=limit)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        for held in found:
            self._took(held, monotonic() - asked)
        return found

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        asked = monotonic()
        try:
            done = self._store.complete(reservation, now=now)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        answered = monotonic()
        self.completes.append(answered - asked)
        self._count(answered, done)
        return done

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        asked = monotonic()
        try:
            answer = self._fused(reservation, now=now, retry_after=retry_after)
        except DriverUnavailable:
            self.lock_errors += 1
            raise
        answered = monotonic()
        took = answered - asked
        done, following = answer
        if following is not None:
            self._took(following, took)
        self.completes.append(took)
        self._count(answered, done)
        return answer

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        failed = self._store.fail(reservation, now=now, attempts=attempts, error=error, traceback=traceback)
        self._count(monotonic(), failed)
        return failed

    def _took(self, held: Reservation, seconds: float) -> None:
        self.reserves.append(seconds)
        job = held[0]
        if job.attempts == 1:
            self.waits.append(self._now() - max(self.began, job.dispatched_at))

    def _count(self, answered: float, done: bool) -> None:
        self.done += done
        self.last_done = answered
        if answered >= self._tell_at:
            self._tell_at = answered + TELL_EVERY
            self._tell(self.done)
