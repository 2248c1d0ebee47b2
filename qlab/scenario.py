"""What happens in an experiment: one thing for every way of running it, with a small library of named ones, `NAMED`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, get_args

from qlab import saved, workload
from qlab.as_json import classes
from qlab.clock import duration, us
from qlab.faults import Crash, Fault
from qlab.policy import Policy
from qlab.saved import AnyPath
from qlab.whole import is_whole
from qlab.workload import Workload

__all__ = ["NAMED", "Arrival", "Behaviour", "Poll", "Scenario", "named"]


class Arrival(NamedTuple):
    """A job that is dispatched.

    Attributes:
        at: When, in seconds.
        name: The handler's name.
        payload: Any JSON value.
        delay: How many seconds later it may be reserved.

    Example:
        >>> from qlab.scenario import Arrival
        >>> Arrival(at=5.0, name="mail", payload={"to": "ada"}, delay=60.0)
        Arrival(at=5.0, name='mail', payload={'to': 'ada'}, delay=60.0)
    """

    at: float
    name: str
    payload: Any = None
    delay: float = 0.0


class Behaviour(NamedTuple):
    """How a scenario's handler behaves.

    Attributes:
        seconds: How long an attempt takes.
        fails: How many attempts raise before one succeeds; None for every one.
        late_by: How many seconds more the first attempt takes: past its reservation, it makes a late worker.
        error: What it says when it raises.
        busy: Whether it takes its time on the processor, with real workers, instead of waiting; to simulated ones it is
            the same.

    Example:
        >>> from qlab import Scenario, simulate
        >>> from qlab.scenario import Arrival, Behaviour
        >>> flaky = Behaviour(seconds=2.0, fails=1)
        >>> run = simulate("memory://", Scenario("flaky", [Arrival(0.0, "mail")], {"mail": flaky}, poll=None))
        >>> [f"{event.at:g} s {event.kind}" for event in run.trace]
        ['0 s dispatched', '0 s reserved', '2 s released', '12 s reserved', '14 s completed']
    """

    seconds: float = 0.0
    fails: int | None = 0
    late_by: float = 0.0
    error: str = "no luck this time"
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """How a worker asks for jobs while there are none; after a job it asks again at once.

    Attributes:
        interval: How many seconds it waits after it found nothing.
        jitter: By which part of the interval each wait may be shorter or longer, from 0 to 1.
        phase: When each worker asks first, in seconds after it was started; None for a random moment of the interval.
            One that is back after a crash asks at once.
        beat: Whether it asks at its beat only, for one job (or `batch`), as what a cron starts does.

    Raises:
        TypeError: A value is no number.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab import simulate
        >>> from qlab.scenario import Poll
        >>> from qlab.workload import Every, Workload
        >>> run = simulate("memory://", workload=Workload(Every(7), jobs=3), poll=Poll(5.0, phase=0.0))
        >>> [event.at for event in run.trace if event.kind == "reserved"]
        [0.0, 10.0, 15.0]
    """

    interval: float = 1.0
    jitter: float = 0.0
    phase: float | None = None
    beat: bool = False

    def __post_init__(self) -> None:
        if us(duration(self.interval, "poll")) == 0:
            raise ValueError(f"poll is {self.interval:g} s: use a number of seconds from 0.000001")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Poll.jitter is {self.jitter!r}: use a number from 0 to 1")
        if self.beat and self.jitter:
            raise ValueError(f"Poll.jitter is {self.jitter!r} beside a beat: a beat has none")
        if self.phase is not None:
            duration(self.phase, "Poll.phase")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens in an experiment.

    Attributes:
        name: What it is called.
        about: What it shows, in a sentence.
        arrivals: What is dispatched when.
        handlers: How each handler behaves, by its name.
        workload: What comes beside these arrivals, by chance or as recorded; None for nothing.
        workers: How many workers there are, from 1.
        poll: How many seconds a worker that found nothing waits before it asks again, or a `Poll`; None for a worker
            that wakes as soon as there is a job.
        batch: How many jobs a worker reserves at once, from 1; it runs them one after another.
        faults: What goes wrong.
        policy: The queue's rules.
        seed: Where random numbers start.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range, or a job or fault names no handler.

    Example:
        >>> from qlab import Scenario, simulate
        >>> from qlab.scenario import Arrival, Behaviour
        >>> mail = Behaviour(seconds=2.0)
        >>> one = Scenario("one mail", arrivals=(Arrival(0.0, "mail"),), handlers={"mail": mail}, poll=None)
        >>> [(event.at, event.kind.value) for event in simulate("memory://", one).trace]
        [(0.0, 'dispatched'), (0.0, 'reserved'), (2.0, 'completed')]
    """

    name: str
    arrivals: tuple[Arrival, ...] = ()
    handlers: Mapping[str, Behaviour] = field(default_factory=dict)
    about: str = ""
    workers: int = 1
    poll: float | Poll | None = 1.0
    batch: int = 1
    faults: tuple[Fault, ...] = ()
    policy: Policy = field(default_factory=Policy)
    seed: int = 0
    workload: Workload | None = None

    def __post_init__(self) -> None:
        for name in ("arrivals", "faults"):
            if not isinstance(given := getattr(self, name), Iterable):
                raise TypeError(f"{name} is {given!r}: use a list, as in {name}=[…]")
            object.__setattr__(self, name, tuple(given))
        object.__setattr__(self, "handlers", MappingProxyType(dict(self.handlers)))
        _check_parts(self)
        for name in ("workers", "batch"):
            if isinstance(count := getattr(self, name), bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count}: use a number from 1")
        if isinstance(self.poll, int | float):
            object.__setattr__(self, "poll", Poll(self.poll))
        named = {arrival.name for arrival in self.arrivals} | {*filter(None, map(handler_of, self.faults))}
        there = {*self.handlers, *(self.workload.handlers if self.workload is not None else ())}
        if there and (unknown := sorted(named - there)):
            raise ValueError(f"scenario {self.name!r} names {unknown}, there are the handlers {sorted(there)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel to another process, which a read-only mapping cannot."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self), tuple((values | {"handlers": dict(self.handlers)}).values())

    def save(self, path: AnyPath) -> Path:
        """Write it as readable JSON, which `load` reads: the whole file, or none.

        Returns:
            The file.

        Raises:
            OSError: The file cannot be written; what was there before still is.
            ValueError: It holds what no file can, such as a function; nothing was written.
        """
        return saved.save(self, path, KINDS)

    @classmethod
    def load(cls, path: AnyPath) -> "Scenario":
        """Read what `save` wrote, or somebody by hand in the same form.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no scenario, from a newer qlab, or damaged; the message names the place in it.
        """
        return saved.load(path, Scenario, KINDS)


KINDS = classes(Scenario, Arrival, Behaviour, Poll, Policy, *get_args(Fault), *workload.KINDS)
"""The classes that a scenario can be made of, and saved, by name."""


def handler_of(fault: Fault) -> str | None:
    """Tell whose jobs a fault strikes; None for any."""
    return getattr(fault, "handler", None)


def named(name: str, *, seed: int = 0) -> Scenario:
    """Make one of the named scenarios.

    Args:
        name: One of `NAMED`.
        seed: Where its random numbers start.

    Raises:
        ValueError: None has this name.

    Example:
        >>> from qlab.scenario import named
        >>> scenario = named("between_polls", seed=7)
        >>> scenario.workers, len(scenario.arrivals)
        (1, 3)
    """
    if name not in NAMED:
        raise ValueError(f"there is no scenario {name!r}: use one of {', '.join(NAMED)}")
    return NAMED[name](seed)


def all_kinds(seed: int = 0) -> Scenario:
    """Plain and delayed jobs, a handler that fails twice, one that always fails, a crash, a worker that is too late."""
    random = Random(f"{seed} arrivals")
    plain = (Arrival(_moment(random, 0, 60), "resize", {"image": i}) for i in range(8))
    delayed = (Arrival(_moment(random, 0, 30), "remind", {"user": i}, delay=_moment(random, 5, 60)) for i in range(6))
    odd = (
        Arrival(_moment(random, 0, 5), "webhook", {"order": 17}),
        Arrival(_moment(random, 0, 5), "broken", {"order": 18}),
        Arrival(_moment(random, 5, 10), "crasher", {"scan": 1}),
        Arrival(_moment(random, 10, 20), "report", {"month": "2026-10"}),
    )
    return Scenario(
        "all_kinds",
        tuple(sorted([*plain, *delayed, *odd], key=lambda arrival: arrival.at)),
        {
            "resize": Behaviour(seconds=2.0),
            "remind": Behaviour(seconds=0.5),
            "webhook": Behaviour(seconds=1.0, fails=2, error="503 Service Unavailable"),
            "broken": Behaviour(seconds=1.0, fails=None, error="no such order"),
            "crasher": Behaviour(seconds=3.0),
            "report": Behaviour(seconds=30.0, late_by=70.0),
        },
        about=all_kinds.__doc__ or "",
        workers=3,
        faults=(Crash("crasher", back_after=5.0),),
        seed=seed,
    )


def between_polls(seed: int = 0) -> Scenario:
    """Two jobs become claimable while nobody polls: the moment decides the order, or the arrival does."""
    late = Random(f"{seed} arrivals").uniform(5.2, 5.9)
    return Scenario(
        "between_polls",
        (
            Arrival(0.0, "slow", "keeps the worker busy"),
            Arrival(0.1, "quick", "due first", delay=4.9),
            Arrival(late, "quick", "dispatched later"),
        ),
        {"slow": Behaviour(seconds=8.0), "quick": Behaviour(seconds=1.0)},
        about=between_polls.__doc__ or "",
        seed=seed,
    )


NAMED: Mapping[str, Callable[[int], Scenario]] = MappingProxyType(
    {"all_kinds": all_kinds, "between_polls": between_polls}
)
"""The scenarios that have a name."""


def _moment(random: Random, first: float, last: float) -> float:
    return round(random.uniform(first, last), 1)


def _check_parts(scenario: Scenario) -> None:
    """Refuse a scenario that is made of something else."""
    for i, arrival in enumerate(scenario.arrivals):
        _check_kind(arrival, Arrival, f"arrivals[{i}]")
        _check_kind(arrival.name, str, f"arrivals[{i}].name")
        duration(arrival.at, f"arrivals[{i}].at")
        duration(arrival.delay, f"arrivals[{i}].delay")
    for name, behaviour in scenario.handlers.items():
        what = f"handlers[{name!r}]"
        _check_kind(behaviour, Behaviour, what)
        _check_kind(behaviour.error, str, f"{what}.error")
        _check_kind(behaviour.busy, bool, f"{what}.busy")
        duration(behaviour.seconds, f"{what}.seconds")
        duration(behaviour.late_by, f"{what}.late_by")
        if behaviour.fails is not None and not is_whole(behaviour.fails, least=0):
            raise ValueError(f"{what}.fails is {behaviour.fails!r}: use a whole number from 0, or None for every one")
    for i, fault in enumerate(scenario.faults):
        _check_kind(fault, get_args(Fault), f"faults[{i}]")
    _check_kind(scenario.policy, Policy, "policy")
    _check_kind(scenario.workload, (Workload, NoneType), "workload")
    _check_kind(scenario.poll, (Poll, int, float, NoneType), "poll")
    if isinstance(scenario.seed, bool) or not isinstance(scenario.seed, int):
        raise TypeError(f"seed is {scenario.seed!r}: use an integer")


def _check_kind(value: object, kinds: type | tuple[type, ...], what: str) -> None:
    if not isinstance(value, kinds):
        named = kinds if isinstance(kinds, tuple) else (kinds,)
        choices = ["None" if kind is NoneType else kind.__name__ for kind in named]
        raise TypeError(f"{what} is {value!r}: use {' or '.join(choices)}")
