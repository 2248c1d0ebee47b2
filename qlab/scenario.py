"""What happens in an experiment: one thing for every way of running it, with a small library of named ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from qlab.policy import Policy


class Arrival(NamedTuple):
    """A job that is dispatched.

    Attributes:
        at: When, in seconds.
        name: The handler's name.
        payload: Any JSON value.
        delay: How many seconds later it may be reserved.
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
        late_by: How many seconds more the first attempt of a job takes: beyond its reservation, it makes a late worker.
        says: The text of its error.
    """

    seconds: float = 0.0
    fails: int | None = 0
    late_by: float = 0.0
    says: str = "no luck"


class Crash(NamedTuple):
    """A worker that vanishes with a job in hand.

    Attributes:
        worker: Which worker, from 1.
        job: At the start of which job of its own, from 1.
        back_after: After how many seconds it is started again; None for never.
    """

    worker: int
    job: int
    back_after: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens in an experiment.

    Attributes:
        name: What it is called.
        arrivals: What is dispatched when.
        handlers: How each handler behaves, by its name.
        workers: How many workers there are, from 1.
        poll: How many seconds a worker that found nothing waits before it asks again.
        faults: What goes wrong.
        policy: The queue's rules.
        seed: Where random numbers start.
        about: What it shows, in a sentence.
    """

    name: str
    arrivals: tuple[Arrival, ...]
    handlers: Mapping[str, Behaviour]
    workers: int = 1
    poll: float = 1.0
    faults: tuple[Crash, ...] = ()
    policy: Policy = field(default_factory=Policy)
    seed: int = 0
    about: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "handlers", MappingProxyType(dict(self.handlers)))
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}: use a number from 1")
        if self.poll <= 0:
            raise ValueError(f"poll is {self.poll} s: use a number of seconds above 0")
        unknown = {arrival.name for arrival in self.arrivals} - set(self.handlers)
        if unknown:
            raise ValueError(f"the scenario dispatches {sorted(unknown)}, which no handler of it runs")
