"""Any driver in trouble: away or locked for a while, or with replies that are lost after the work was done.

It reads no clock, as no driver does, and waits for nothing: what happens is decided by the moment that a verb is told.
"""

import math
import threading
from collections.abc import Iterable, Sequence

from qlab.clock import duration, from_us, us
from qlab.driver import Counts, Driver
from qlab.drivers.before import Before
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable, ReplyLost
from qlab.faults import IN_STORE, Away, Locked, LostReply
from qlab.forks import free_in_children
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.show import seconds as shown

LOCK_WAIT = 30.0
"""For how many seconds a lock is waited for where the store has no rule of its own."""


class Troubled(Before):
    """A driver whose store is in trouble at moments that are known beforehand.

    - `Away`: each verb is refused, and nothing is done.
    - `Locked`: a verb waits until the lock is gone; one that would wait longer than `lock_wait` is refused, and nothing
      is done. It is the caller who lets the time go by: `opens_at` says until when.
    - `LostReply`: the verb is carried out, and its caller hears `ReplyLost`. The reply of a verb that has found nothing
      to do is not lost. Where one call completes and reserves, it has two replies to lose.

    A verb that is told no moment (`failed`, `failed_ids`, `forget`) goes by the last one that any verb was told; marks
    and waiting, which are in real time, know no trouble.

    Args:
        store: The driver that keeps the jobs; it closes with this one.
        faults: A scenario's faults; those that are not a store's are left alone.
        lock_wait: For how many seconds a lock is waited for; by default what the store does, and 30 where it has no
            rule.

    Attributes:
        faults: Those of the faults that are a store's.
        lock_wait: For how many seconds a lock is waited for.
    """

    def __init__(self, store: Driver, faults: Iterable[object], *, lock_wait: float | None = None) -> None:
        super().__init__(store)
        self.faults = tuple(fault for fault in faults if isinstance(fault, IN_STORE))
        self.lock_wait = _lock_wait(store.store) if lock_wait is None else duration(lock_wait, "lock_wait")
        self._away, self._locked = _spans(self.faults, Away), _spans(self.faults, Locked)
        self._lossy = [fault for fault in self.faults if isinstance(fault, LostReply)]
        self._left = [math.inf if fault.times is None else fault.times for fault in self._lossy]
        self._now = 0.0
        self._lock = threading.Lock()
        free_in_children(self)

    @property
    def calm(self) -> Driver:
        """The driver behind the trouble, which may itself stand before another."""
        return self._store

    def on(self, store: Driver) -> "Troubled":
        """Make the same trouble, as far as it has come, before another store: a copy of this one's, for example."""
        other = Troubled(store, self.faults, lock_wait=self.lock_wait)
        other._left, other._now = list(self._left), self._now
        return other

    def opens_at(self, now: float) -> float:
        """Tell when a verb that asks now is carried out or refused, so that a caller can let this time go by first.

        Args:
            now: The moment, in seconds.

        Returns:
            A moment, in seconds: where there is a lock, when it is gone; `now` where there is none, and where it lasts
            longer than it is waited for.
        """
        began = moment = us(now)
        while (until := _end(self._locked, moment)) is not None:
            moment = until
        return from_us(moment) if began < moment <= began + us(self.lock_wait) else now

    def _ask(self, verb: str, now: float | None) -> None:
        """Come to the store at a moment; without one, at the last that was told.

        Raises:
            DriverUnavailable: It is away, or locked for too long.
        """
        with self._lock:
            self._now = now = self._now if now is None else now
        opened = us(self.opens_at(now))
        if (until := _end(self._away, opened)) is not None:
            raise DriverUnavailable(
                f"the store is away until {shown(from_us(until))}, {verb} came at {shown(now)}: nothing was done"
            )
        if (until := _end(self._locked, opened)) is not None:
            raise DriverUnavailable(
                f"the store is locked until {shown(from_us(until))}, {verb} came at {shown(now)} and waits for "
                f"{shown(self.lock_wait)} at the most: nothing was done"
            )

    def _answer(self, verb: str, now: float, names: Iterable[str]) -> None:
        """Answer for what was done to jobs with these names.

        Raises:
            ReplyLost: The answer gets lost.
        """
        for name in names:
            for number, loss in enumerate(self._lossy):
                if loss.verb == verb and us(loss.at) <= us(now) and loss.handler in (None, name) and self._lose(number):
                    raise ReplyLost(f"the store did {verb} at {shown(now)}, and its reply was lost")

    def _lose(self, number: int) -> bool:
        with self._lock:
            losing = self._left[number] > 0
            self._left[number] -= losing
        return losing

    # -- verbs whose reply may be lost --

    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        self._ask("push", now)
        pushed = super().push(queue, jobs, now=now, resent=resent)
        self._answer("push", now, [job.name for job in jobs])
        return pushed

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        self._ask("reserve", now)
        found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
        self._answer("reserve", now, [held.job.name for held in found])
        return found

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        self._ask("complete", now)
        done = super().complete(reservation, now=now)
        self._answer("complete", now, [reservation.job.name] if done else [])
        return done

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        self._ask("complete and reserve", now)
        done, following = super().complete_and_reserve(reservation, now=now, retry_after=retry_after)
        self._answer("complete", now, [reservation.job.name] if done else [])
        self._answer("reserve", now, [following.job.name] if following else [])
        return done, following

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        self._ask("release", now)
        done = super().release(reservation, now=now, delay=delay)
        self._answer("release", now, [reservation.job.name] if done else [])
        return done

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        self._ask("fail", now)
        done = super().fail(reservation, now=now, attempts=attempts, error=error, traceback=traceback)
        self._answer("fail", now, [reservation.job.name] if done else [])
        return done

    # -- the others --

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        self._ask("extend", now)
        return super().extend(reservation, now=now, seconds=seconds)

    def progress(self, reservation: Reservation, *, now: float, done: int, total: int) -> None:
        self._ask("progress", now)
        super().progress(reservation, now=now, done=done, total=total)

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        self._ask("recover", now)
        return super().recover(queue, now=now, force=force)

    def clear(self, queue: str, *, now: float) -> int:
        self._ask("clear", now)
        return super().clear(queue, now=now)

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        self._ask("failed", None)
        return super().failed(queue, after=after, limit=limit)

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        self._ask("failed_ids", None)
        return super().failed_ids(queue, before=before)

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        self._ask("retry", now)
        return super().retry(queue, ids, now=now, body=body)

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        self._ask("forget", None)
        return super().forget(queue, ids)

    def counts(self, queue: str, *, now: float) -> Counts:
        self._ask("counts", now)
        return super().counts(queue, now=now)

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        self._ask("jobs", now)
        return super().jobs(queue, now=now)

    def next_due(self, queue: str, *, now: float) -> float | None:
        self._ask("next_due", now)
        return super().next_due(queue, now=now)

    def check(self, queue: str, *, now: float) -> list[str]:
        self._ask("check", now)
        return super().check(queue, now=now)


def _spans(faults: Iterable[object], kind: type[Away | Locked]) -> list[tuple[int, int]]:
    """Tell from when until when, in microseconds, there is trouble of a kind."""
    found = [fault for fault in faults if isinstance(fault, kind)]
    return [(us(fault.at), us(fault.at) + us(fault.seconds)) for fault in found]


def _end(spans: Iterable[tuple[int, int]], moment: int) -> int | None:
    """Tell when the span ends that a moment is in; None where it is in none."""
    return next((end for began, end in spans if began <= moment < end), None)


def _lock_wait(store: Driver) -> float:
    return store.database.lock_wait if isinstance(store, SqliteDriver) else LOCK_WAIT
