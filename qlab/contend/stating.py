"""What a contention is asked for: a scenario, or words that make one, and handlers of the reader's own."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, Self, TypeAlias

from qlab.clock import duration
from qlab.contend import acting
from qlab.queue import Queue
from qlab.scenario import Behaviour, Poll, Scenario
from qlab.whole import is_whole
from qlab.workload import Arrivals, Bursts, Every, Workload

JOBS = 10_000
"""How many jobs each run has where nobody says."""

POLL = Poll(0.02, jitter=0.5)
"""How a worker asks that finds nothing, where nobody says."""

FASTEST = 0.000001
"""How many seconds lie between two arrivals that are due before any store has taken the first."""

Register: TypeAlias = Callable[[Queue], object]
Behaviours: TypeAlias = Mapping[str, Behaviour]

_OWN = {"jobs": None, "length": 0.0, "busy": False, "payload": None, "enqueue": None}
_NAME = "job"


class Own(NamedTuple):
    """The reader's own handlers.

    Attributes:
        address: Where the function is that registers them, for processes; None where that is not needed.
        register: The function; None where there is none.
        behaviours: How they behave, where that is all there is to say.
    """

    address: str | None = None
    register: Register | None = None
    behaviours: Behaviours | None = None

    @classmethod
    def of(cls, handlers: str | Register | Behaviours | None, mode: str) -> Self:
        """Take what `contention` is given.

        Raises:
            TypeError: It is nothing of this kind.
            ValueError: No worker process can import the function.
        """
        if handlers is None:
            return cls()
        if isinstance(handlers, Mapping):
            if not handlers:
                raise ValueError("handlers is {}: name at least one, or leave it out")
            return cls(behaviours=handlers)
        if mode == "thread" and callable(handlers):
            return cls(register=handlers)
        address = acting.address_of(handlers)
        return cls(address, acting.function_at(address))

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called; none where there are none.

        Raises:
            ValueError: The function registers none.
        """
        if self.register is None:
            return tuple(self.behaviours or ())
        with Queue("memory://") as queue:
            self.register(queue)
            names = queue.handlers
        if not names:
            raise ValueError(
                f"handlers is {self.register!r}, which registers none: @queue.handler('name') says what runs a job"
            )
        return names


def scenario_of(given: Scenario | None, own: Own, seed: int, stated: Mapping[str, Any]) -> Scenario:
    """Take the scenario, or make it of what is stated.

    Raises:
        TypeError: There is both, or two ways to say one thing, or something that no scenario has.
        ValueError: It says what real workers cannot do, or not how a job is run.
    """
    known = (*_OWN, *(field.name for field in fields(Scenario) if field.name not in ("workers", "seed", "handlers")))
    if unknown := sorted(set(stated) - {*known}):
        raise TypeError(f"contention takes no {unknown[0]!r}: use {', '.join(known)}")
    if given is not None and not isinstance(given, Scenario):
        raise TypeError(f"scenario is {given!r}: use a Scenario, or state jobs=10_000, length=0.001, …")
    beside = [*sorted(stated), *(["handlers that only behave"] if own.behaviours is not None else [])]
    if given is not None and beside:
        raise TypeError(f"there is a scenario, and {', '.join(beside)} beside it: use replace(scenario, …)")
    scenario = _made(own, seed, dict(stated)) if given is None else given
    if scenario.faults:
        raise ValueError(f"scenario {scenario.name!r} has faults, which happen in simulated time only: use simulate")
    _check_names(scenario, own)
    return scenario


def _check_names(scenario: Scenario, own: Own) -> None:
    """Refuse jobs that nobody knows how to run, before any is stored."""
    drawn = () if scenario.workload is None else scenario.workload.handlers
    named = dict.fromkeys([*(arrival.name for arrival in scenario.arrivals), *drawn])
    if not named:
        raise ValueError(f"scenario {scenario.name!r} brings no job: say jobs=10_000, or arrivals=…, or workload=…")
    there = {*scenario.handlers, *drawn} if own.register is None else {*own.names}
    if unknown := [name for name in named if name not in there]:
        behaves = "behaves: say handlers={…: Behaviour(seconds=…)}"
        how = behaves if own.register is None else "runs: register a handler of it"
        raise ValueError(f"scenario {scenario.name!r} does not say how {unknown[0]!r} {how}")


def _made(own: Own, seed: int, stated: dict[str, Any]) -> Scenario:
    """Make a scenario of what is stated."""
    _check_once(own, stated)
    usual = {name: stated.pop(name) for name in _OWN if name in stated}
    jobs, length = usual.get("jobs", JOBS), duration(usual.get("length", 0.0), "length")
    busy, payload = usual.get("busy", False), usual.get("payload")
    if not isinstance(busy, bool):
        raise TypeError(f"busy is {busy!r}: use True for jobs that take the processor, False for jobs that wait")
    if not is_whole(jobs, 1):
        raise ValueError(f"jobs is {jobs!r}: use a whole number from 1")
    if payload is not None and not is_whole(payload, 2):
        raise ValueError(f"payload is {payload!r}: use a number of bytes from 2")
    if own.behaviours is not None:
        stated["handlers"] = own.behaviours
    if not _brings_jobs(stated):
        names = own.names
        if not names:
            stated["handlers"], names = {_NAME: Behaviour(length, busy=busy)}, (_NAME,)
        text = None if payload is None else "x" * (payload - 2)  # in quotes, as JSON
        stated["workload"] = Workload(_arrivals(jobs, usual.get("enqueue")), names=names, jobs=jobs, payload=text)
    values: dict[str, Any] = {"name": "contention", "poll": POLL, "seed": seed} | stated
    return Scenario(**values)


def _brings_jobs(stated: Mapping[str, Any]) -> bool:
    return "workload" in stated or "arrivals" in stated


def _check_once(own: Own, stated: Mapping[str, Any]) -> None:
    """Refuse to hear one thing twice, of which one would be forgotten."""
    said = [name for name, usual in _OWN.items() if stated.get(name, usual) != usual]
    if _brings_jobs(stated) and said:
        raise TypeError(f"there are arrivals or a workload, and {said[0]} beside them: they say all of it")
    if own != Own() and (twice := [name for name in said if name in ("length", "busy")]):
        raise TypeError(f"there are handlers of your own, and {twice[0]} beside them: they say how long they take")


def _arrivals(jobs: int, enqueue: float | None) -> Arrivals:
    """Let jobs come so many a second, or be there from the start."""
    if enqueue is None:
        return Bursts(jobs, every=None)
    if isinstance(enqueue, bool) or not isinstance(enqueue, int | float) or not enqueue > 0:
        raise ValueError(f"enqueue is {enqueue!r}: use how many jobs a second come, above 0, or math.inf")
    return Every(max(1 / enqueue, FASTEST), first=FASTEST)
