"""What goes wrong in an experiment, one line each.

Where a fault has a moment `at`, that is a number of seconds, or a process such as `Poisson(0.01)`: then it happens
again and again (`When` is either). A fault with a `handler` strikes the worker that has a job of this handler. `Fault`
is any of them: what `simulate(faults=…)` takes a list of.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol, TypeAlias

from qlab.clock import duration

__all__ = [
    "Away",
    "Crash",
    "Drain",
    "Fault",
    "Locked",
    "LostReply",
    "Pause",
    "Process",
    "Restart",
    "Skew",
    "When",
]


class Process(Protocol):
    """What tells moments, such as `workload.Poisson`.

    Example:
        >>> from qlab import faults
        >>> from qlab.workload import Poisson
        >>> faults.Restart(at=Poisson(rate=0.01), back_after=5)
        Restart(at=Poisson(rate=0.01), back_after=5, what='process')
    """

    def moments(self, random: Random, /) -> Iterator[float]:
        """Tell moments in seconds, in order."""


When: TypeAlias = float | Process
Step: TypeAlias = Literal["reserved", "completing"]


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker vanishes with what it holds, also one that stands still; the store is told nothing.

    Attributes:
        handler: Strikes the worker that has a job of this handler, as long as the job has attempts left.
        back_after: After how many seconds the worker is started again; None for never.
        at: When; a process strikes each worker by itself.
        worker: Which worker, from 1; None for every one. Only with `at`.
        when: With `handler`: when it has `reserved` the job, or when its handler has ended and it is `completing` it.
        times: With `handler`: how many times; None for every time.
        recover: What it sweeps when it is back: reservations that have run out (`expired`), or `all` of them.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range, or there is neither `handler` nor `at`, or both.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work = Workload(Every(10), Fixed(2), jobs=1)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[faults.Crash("job", back_after=5)])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '0 s crashed', '5 s resumed', '90 s expired', '90 s reserved',
         '92 s completed']
    """

    handler: str | None = None
    back_after: float | None = None
    at: When | None = None
    worker: int | None = None
    when: Step = "reserved"
    times: int | None = 1
    recover: Literal["expired", "all"] | None = None

    def __post_init__(self) -> None:
        _check_one(self, self.handler, self.at)
        _check_moment(self, self.at)
        _check_worker(self, self.worker)
        _check_step(self, self.when, self.times)
        if self.back_after is not None:
            duration(self.back_after, "Crash.back_after")
        _check_choice(self, "recover", self.recover, (None, "expired", "all"))


@dataclass(frozen=True, slots=True)
class Pause:
    """A worker stands still, with what it holds, and then goes on where it was: what really makes late workers.

    One that stands still already does so until the later of the two ends.

    Attributes:
        seconds: For how long.
        at: When; a process strikes each worker by itself.
        handler: Strikes the worker that has a job of this handler.
        worker: Which worker, from 1; None for every one. Only with `at`.
        when: With `handler`: when it has `reserved` the job, or when its handler has ended and it is `completing` it.
        times: With `handler`: how many times; None for every time.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range, or there is neither `handler` nor `at`, or both.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work, pause = Workload(Every(10), Fixed(2), jobs=1), faults.Pause(120, handler="job")
        >>> run = simulate("memory://", workload=work, workers=2, poll=None, faults=[pause])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace][3:]
        ['90 s expired', '90 s reserved', '92 s completed', '120 s resumed', '122 s superseded']
    """

    seconds: float
    at: When | None = None
    handler: str | None = None
    worker: int | None = None
    when: Step = "reserved"
    times: int | None = 1

    def __post_init__(self) -> None:
        duration(self.seconds, "Pause.seconds")
        _check_one(self, self.handler, self.at)
        _check_moment(self, self.at)
        _check_worker(self, self.worker)
        _check_step(self, self.when, self.times)


@dataclass(frozen=True, slots=True)
class LostReply:
    """The store does what it is asked, and its reply is lost on the way.

    Attributes:
        verb: Which verb: `push`, `reserve`, `complete`, `release` or `fail`.
        at: From which moment on, in seconds.
        times: How many replies are lost; None for every one.
        handler: Only replies about a job of this handler; None for any.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work = Workload(Every(10), Fixed(2), jobs=1)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[faults.LostReply("reserve")])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '90 s expired', '90 s reserved', '92 s completed']
    """

    verb: Literal["push", "reserve", "complete", "release", "fail"] = "complete"
    at: float = 0.0
    times: int | None = 1
    handler: str | None = None

    def __post_init__(self) -> None:
        _check_choice(self, "verb", self.verb, ("push", "reserve", "complete", "release", "fail"))
        duration(self.at, "LostReply.at")
        _check_times(self, self.times)


@dataclass(frozen=True, slots=True)
class Locked:
    """The store is locked for a while: whoever asks for something waits until it is not, or gives up.

    Attributes:
        at: From when, in seconds.
        seconds: For how long.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work = Workload(Every(10), Fixed(2), jobs=1)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[faults.Locked(at=1, seconds=8)])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '9 s completed']
    """

    at: float
    seconds: float

    def __post_init__(self) -> None:
        duration(self.at, "Locked.at")
        duration(self.seconds, "Locked.seconds")


@dataclass(frozen=True, slots=True)
class Away:
    """The store is away for a while: whoever asks for something gets an error at once.

    Attributes:
        at: From when, in seconds.
        seconds: For how long.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work = Workload(Every(10), Fixed(2), jobs=1)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[faults.Away(at=1, seconds=4)])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '90 s expired', '90 s reserved', '92 s completed']
    """

    at: float
    seconds: float

    def __post_init__(self) -> None:
        duration(self.at, "Away.at")
        duration(self.seconds, "Away.seconds")


@dataclass(frozen=True, slots=True)
class Skew:
    """A worker's clock is wrong: everything it asks for, it asks for at its own moment.

    Attributes:
        worker: Which worker, from 1.
        seconds: How far its clock is ahead; below 0, behind.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work, ahead = Workload(Every(10), Fixed(30), jobs=1), faults.Skew(worker=2, seconds=100)
        >>> run = simulate("memory://", workload=work, workers=2, poll=None, faults=[ahead])
        >>> [f"{event.at:g} s {event.kind} {event.worker}" for event in run.trace]
        ['0 s dispatched ', '0 s reserved worker 1', '100 s expired worker 2', '100 s reserved worker 2',
         '30 s superseded worker 1', '130 s completed worker 2']
    """

    worker: int
    seconds: float

    def __post_init__(self) -> None:
        _check_worker(self, self.worker)
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"Skew.seconds is {self.seconds!r}: use a number of seconds")
        if not math.isfinite(self.seconds):
            raise ValueError(f"Skew.seconds is {self.seconds!r}: use a number of seconds")


@dataclass(frozen=True, slots=True)
class Restart:
    """Every worker vanishes and is started again, and what was kept in memory only is gone.

    Attributes:
        at: When; a process restarts again and again.
        back_after: After how many seconds the workers are there again.
        what: `process`: the workers' process, with a store in it; `server`: the store's server, and no worker.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work = Workload(Every(10), Fixed(2), jobs=1)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[faults.Restart(at=1)])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '1 s crashed', '1 s restarted', '1 s lost']
    """

    at: When
    back_after: float = 0.0
    what: Literal["process", "server"] = "process"

    def __post_init__(self) -> None:
        _check_moment(self, self.at)
        duration(self.back_after, "Restart.back_after")
        _check_choice(self, "what", self.what, ("process", "server"))


@dataclass(frozen=True, slots=True)
class Drain:
    """Workers are told to stop: they take no further job, and have a while to finish the one in hand.

    One that stands still hears it when it goes on, and is killed where the grace ends before.

    Attributes:
        at: When; a process does it again and again.
        grace: How many seconds they have.
        then: What becomes of a job that is still in hand: it is given back (`release`), or its worker is killed and it
            comes again when its reservation runs out (`leave`).
        worker: Which worker, from 1; None for every one.
        back_after: After how many seconds, from the end of the grace, it is started again; None for never.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import faults, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> work, drain = Workload(Every(10), Fixed(60), jobs=1), faults.Drain(at=15, grace=30, back_after=5)
        >>> run = simulate("memory://", workload=work, poll=None, faults=[drain])
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '45 s released', '50 s reserved', '110 s completed']
    """

    at: When
    grace: float
    then: Literal["release", "leave"] = "release"
    worker: int | None = None
    back_after: float | None = None

    def __post_init__(self) -> None:
        _check_moment(self, self.at)
        duration(self.grace, "Drain.grace")
        _check_worker(self, self.worker)
        _check_choice(self, "then", self.then, ("release", "leave"))
        if self.back_after is not None:
            duration(self.back_after, "Drain.back_after")


Fault: TypeAlias = Crash | Pause | LostReply | Locked | Away | Skew | Restart | Drain

IN_STORE = (LostReply, Locked, Away)
"""The faults that are the store's; `drivers.troubled` makes them happen."""


def _check_one(fault: object, handler: str | None, at: When | None) -> None:
    if (handler is None) == (at is None):
        raise ValueError(f"{type(fault).__name__} takes either handler= or at=, to say whom or when it strikes")


def _check_moment(fault: object, at: When | None) -> None:
    if at is not None and not hasattr(at, "moments"):
        duration(at, f"{type(fault).__name__}.at")


def _check_worker(fault: object, worker: int | None) -> None:
    if worker is not None and (isinstance(worker, bool) or not isinstance(worker, int) or worker < 1):
        raise ValueError(f"{type(fault).__name__}.worker is {worker!r}: use a number from 1")


def _check_step(fault: object, when: str, times: int | None) -> None:
    _check_choice(fault, "when", when, ("reserved", "completing"))
    _check_times(fault, times)


def _check_times(fault: object, times: int | None) -> None:
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise ValueError(f"{type(fault).__name__}.times is {times!r}: use a number from 1, or None for every time")


def _check_choice(fault: object, name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{type(fault).__name__}.{name} is {value!r}: use {' or '.join(map(repr, choices))}")
