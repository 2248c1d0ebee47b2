"""Where time comes from.

The API speaks seconds (`float`); stores keep integer microseconds, rounded once by `us`. Job time comes only from a
`Clock`. Waiting (for a lock, a server, a poll) is on monotonic time, through `monotonic`, `pause` and `Flag`.
"""

import math
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from qlab.forks import free_in_children

NEVER = 2**53
"""The microsecond that never comes: larger than every moment, and exact as the double that a sorted set keeps."""

_UNHEARD = 0.5  # seconds; a signal that comes just before a wait is heard only after it
_LIMIT = NEVER // 1_000_000 - 1
_LAST = float(_LIMIT)  # floats, because they are compared with floats at every step of every job
_FIRST = -_LAST
_IN_1973 = 1e8  # seconds since 1970
_LONGEST = _LIMIT // 2  # a duration from today on ends before the limit


def us(seconds: float) -> int:
    """Round seconds to the microseconds that stores keep.

    Args:
        seconds: A moment or a duration in seconds; `math.inf` is `NEVER`.

    Raises:
        ValueError: It is NaN, or more than 285 years from 0.
    """
    if _FIRST <= seconds <= _LAST:
        return round(seconds * 1_000_000)
    if seconds == math.inf:
        return NEVER
    raise ValueError(f"{seconds!r} seconds is not a time: use a number between -{_LIMIT} and {_LIMIT}")


def from_us(microseconds: int) -> float:
    """Turn a store's microseconds into seconds; `NEVER` is `math.inf`. The inverse of `us`."""
    return math.inf if microseconds >= NEVER else microseconds / 1_000_000


def is_simulated(moment: float) -> bool:
    """Tell whether a moment, in seconds, is a simulated clock's: one that began at 0 hardly comes as far as 1973."""
    return abs(moment) < _IN_1973


def duration(seconds: float, what: str) -> float:
    """Check a duration that a caller gave.

    Args:
        seconds: The duration in seconds.
        what: What it is, for the message.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative, NaN or infinite.
    """
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{what} is {seconds!r}: use a number of seconds")
    if not 0 <= seconds <= _LONGEST:
        raise ValueError(f"{what} is {seconds!r} s: use a number of seconds from 0 up to {_LONGEST}")
    return float(seconds)


@runtime_checkable
class Clock(Protocol):
    """What a queue asks for the time of its jobs.

    Example:
        >>> from qlab import Clock, Queue, SimulatedClock
        >>> isinstance(SimulatedClock(), Clock)
        True
        >>> Queue("memory://").clock
        SystemClock()
    """

    def now(self) -> float:
        """Tell the present moment, in seconds."""

    def spend(self, seconds: float) -> None:
        """Let this many seconds of job time go by, from 0 up."""

    def moment(self, when: float | datetime) -> float:
        """Turn a moment as a person writes it into this clock's seconds.

        Raises:
            ValueError: It is a naive datetime, or this clock does not know which day its 0 is.
        """


class SimulatedClock:
    """A clock that only moves when you move it; safe to use from several threads.

    Args:
        start: Where it stands at first, in seconds.
        epoch: The moment that 0 is, as an aware `datetime`; without it the clock knows seconds but no days.

    Attributes:
        epoch: The same; None without it.

    Raises:
        TypeError: The start is not a number.
        ValueError: The start is NaN or infinite, or the epoch is naive.

    Example:
        >>> from datetime import UTC, datetime
        >>> from qlab import SimulatedClock
        >>> clock = SimulatedClock(epoch=datetime(2030, 1, 1, tzinfo=UTC))
        >>> clock.advance(90)
        90.0
        >>> clock
        SimulatedClock(2030-01-01 00:01:30+00:00)
    """

    def __init__(self, start: float = 0.0, *, epoch: datetime | None = None) -> None:
        if epoch is not None and epoch.utcoffset() is None:
            raise ValueError(f"epoch {epoch!r} is naive: {_aware_hint(epoch)}")
        if isinstance(start, bool) or not isinstance(start, int | float):
            raise TypeError(f"start is {start!r}: use a number of seconds, and epoch= for the moment that 0 is")
        if start == math.inf:
            raise ValueError(f"start is {start!r}: use a moment that comes")
        self.epoch = epoch
        self._us = us(start)
        self._lock = threading.Lock()
        free_in_children(self)

    def now(self) -> float:
        """Tell the present moment, in seconds."""
        return self._us / 1_000_000

    def advance(self, seconds: float) -> float:
        """Move the clock forward.

        Args:
            seconds: How far, from 0 up.

        Returns:
            The new moment, in seconds.

        Raises:
            ValueError: It is negative, NaN or infinite: this clock never goes back.
        """
        step = us(duration(seconds, "advance"))
        with self._lock:
            self._us += step
            return self.now()

    def advance_to(self, moment: float | datetime) -> float:
        """Move the clock forward to a moment, such as the one that `Queue.next_due` names.

        Returns:
            The new moment, in seconds.

        Raises:
            ValueError: The moment is behind the clock.
        """
        target = us(self.moment(moment))
        with self._lock:
            if target == NEVER:
                raise ValueError(f"the clock cannot be moved to {moment!r}: use a moment that comes")
            if target < self._us:
                raise ValueError(f"the clock stands at {self.now()} s and cannot go back to {from_us(target)} s")
            self._us = target
            return self.now()

    def jump(self, microseconds: int) -> None:
        """Move the clock forward to a moment that is known to come, in microseconds."""
        if microseconds > self._us:
            self._us = microseconds

    def spend(self, seconds: float) -> None:
        """Let this many seconds of job time go by: the clock moves at once."""
        self.advance(seconds)

    def moment(self, when: float | datetime) -> float:
        """Turn a moment as a person writes it (seconds, or an aware datetime) into this clock's seconds."""
        if type(when) is float and _FIRST <= when <= _LAST:
            return round(when * 1_000_000) / 1_000_000
        if not isinstance(when, datetime):
            return from_us(us(_number(when)))
        if when.utcoffset() is None:
            raise ValueError(f"{when!r} is naive: {_aware_hint(when)}")
        if self.epoch is None:
            raise ValueError(
                f"{when!r} means nothing to a clock without an epoch: use seconds, or SimulatedClock(epoch=datetime(…))"
            )
        # In UTC: a difference within one zone would be the clock face's, wrong across a change to summer time.
        return (when.astimezone(UTC) - self.epoch.astimezone(UTC)).total_seconds()

    def date(self, moment: float | None = None) -> datetime:
        """Tell a moment (now, by default) as an aware datetime in the epoch's time zone.

        Raises:
            ValueError: The clock has no epoch.
        """
        if self.epoch is None:
            raise ValueError("this clock has no epoch: use SimulatedClock(epoch=datetime(…))")
        since = timedelta(seconds=self.now() if moment is None else moment)
        return (self.epoch.astimezone(UTC) + since).astimezone(self.epoch.tzinfo)

    def __repr__(self) -> str:
        return f"SimulatedClock({self.now():g} s)" if self.epoch is None else f"SimulatedClock({self.date()})"


class SystemClock:
    """The machine's clock: seconds since 1970-01-01 UTC, the same for every process.

    Example:
        >>> from datetime import UTC, datetime
        >>> from qlab import SystemClock
        >>> SystemClock().moment(datetime(2030, 1, 1, tzinfo=UTC))
        1893456000.0
    """

    now = staticmethod(time.time)
    """Tells the present moment, in seconds since 1970-01-01 UTC."""

    def spend(self, seconds: float) -> None:
        """Let this many seconds of job time go by: really wait."""
        pause(seconds)

    def moment(self, when: float | datetime) -> float:
        """Turn a moment as a person writes it (seconds since 1970, or an aware datetime) into seconds since 1970."""
        if not isinstance(when, datetime):
            return from_us(us(_number(when)))
        if when.utcoffset() is None:
            raise ValueError(f"{when!r} is naive: {_aware_hint(when)}")
        return when.timestamp()

    def __repr__(self) -> str:
        return "SystemClock()"


monotonic = time.monotonic
"""Tells the seconds on a clock that never goes back: for waiting, never for job time."""


processor_time = time.process_time
"""Tells the seconds that this process has had of a processor: for measuring what others on the machine do not touch."""


def pause(seconds: float) -> None:
    """Wait, in real time, for this many seconds."""
    time.sleep(seconds)


class Flag:
    """Something that happens once, and can be waited for in real time.

    Unlike a `threading.Event` it may be set by a signal's handler that interrupts the very wait for it.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Let it happen: whoever waits goes on at once."""
        self._is_set = True
        self._open()

    def is_set(self) -> bool:
        """Tell whether it has happened."""
        return self._is_set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it happens, for so many seconds at the most, and tell whether it has."""
        until = math.inf if seconds is None else monotonic() + seconds
        while not self._is_set and (left := until - monotonic()) > 0:
            if self._gate.acquire(timeout=min(left, _UNHEARD)):
                self._open()
        return self._is_set

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open already
            self._gate.release()


def _number(when: object) -> float:
    if when is None:
        raise TypeError("the moment is None: next_due() gives None where nothing will ever be due")
    if isinstance(when, bool) or not isinstance(when, int | float):
        raise TypeError(f"the moment is {when!r}: use seconds, or an aware datetime")
    return when


def _aware_hint(when: datetime) -> str:
    return (
        f"say which zone it is in, as in {when.replace(tzinfo=UTC)!r} or when.replace(tzinfo=ZoneInfo('Europe/Paris'))"
    )
