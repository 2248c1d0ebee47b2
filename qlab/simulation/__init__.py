"""A scenario on a real driver, in simulated time, and what it gave."""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any

from qlab import drivers
from qlab.as_json import classes
from qlab.clock import SimulatedClock
from qlab.cost import Cost
from qlab.driver import Driver, Durability
from qlab.measured import Measured
from qlab.queue import Queue
from qlab.saved import AnyPath
from qlab.scenario import KINDS, Scenario
from qlab.simulation import saved_run
from qlab.simulation.requests import Requests
from qlab.simulation.simulator import Simulation
from qlab.trace import Moment, Trace


@dataclass(frozen=True, slots=True)
class Run:
    """A trace, and what it was made of.

    Attributes:
        trace: What happened.
        scenario: What was to happen.
        driver: The driver's family: `memory`, `sqlite`, `redis_list` or `redis_zset`.
        order: The driver's order: `available_at` or `arrival`.
        description: Product, version and settings of the store.
        durability: What the store promises.
        until: When the run ended, in seconds.
        requests: What clients saw; empty where the workload has none.
        interrupted: Whether somebody ended it before its end.
        planned_until: Up to when it was to go, in seconds; `math.inf` until no job was left that would ever be due.
        cost: What the store's verbs cost; None for nothing.
        record_polls: Whether a poll that found nothing is an event.
        queue: The queue, with its handlers; None for a run that was loaded.
        measured: What was measured of a run in real time; None for a simulated one.

    Example:
        >>> from qlab import simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=10), poll=None)
        >>> run.until, len(run.trace)
        (30.0, 30)
        >>> run.at(12).counts()
        Counts(ready=2, delayed=0, reserved=1, failed=0)
    """

    trace: Trace
    scenario: Scenario
    driver: str
    order: str
    description: str
    durability: Durability
    until: float
    requests: Requests = field(default_factory=Requests)
    interrupted: bool = False
    planned_until: float = math.inf
    cost: Cost | None = None
    record_polls: bool = True
    queue: Queue | None = field(default=None, repr=False, compare=False)
    measured: Measured | None = None

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for the whole trace: what every plot and report of it shows."""
        return self.trace.digest()

    def whole(self) -> "Run":
        """Give this run, where it is a part of something longer, which is to end, too, if somebody ended the run.

        Raises:
            KeyboardInterrupt: Somebody did.
        """
        if self.interrupted:
            raise KeyboardInterrupt
        return self

    def at(self, moment: float) -> Moment:
        """Rebuild what was where at a moment, in seconds."""
        return self.trace.at(moment)

    def branch(
        self,
        at: float,
        change: Callable[[Simulation], object] | Mapping[str, Any],
        *,
        driver: Driver | str | None = None,
        until: float | None = None,
    ) -> "Run":
        """Go the same way up to a moment, change something there, and go on: two futures from one past.

        Args:
            at: The moment, in seconds; what happens at it has happened.
            change: What is done then: a function that is given the `Simulation` (`crash`, `pause`, `dispatch`, …), or
                the rules that are others from then on, such as `{"retry_after": 20}`.
            driver: Another empty store, or its address; by default one in memory of the same order.
            until: Up to when, in seconds; by default as far as this run was to go.

        Returns:
            The other run; up to the moment its trace is this one's.

        Raises:
            TypeError: The change is neither a function nor rules.
            ValueError: The moment is not in the run, there is no such rule, its handlers are not known any more, or
                the past does not repeat.
        """
        if not callable(change) and not isinstance(change, Mapping):
            raise TypeError(f"change is {change!r}: use a function of the simulation, or rules, as in {{'tries': 5}}")
        if not 0 <= at <= self.until:
            raise ValueError(f"at is {at!r}: the run goes from 0 to {self.until} s")
        if self.measured is not None:
            raise ValueError("a run in real time has one future only: branch a simulated one")
        if self.queue is None and (own := sorted(_own_names(self))):
            raise ValueError(f"the handlers of {', '.join(map(repr, own))} are not saved with a run: simulate it again")
        address = driver or ("memory://?order=arrival" if self.order == "arrival" else "memory://")
        with _queue(address, self.scenario, "branch") as there:
            queue = there if self.queue is None else _like(self.queue, there)
            simulation = Simulation(queue, self.scenario, cost=self.cost, record_polls=self.record_polls)
            simulation.run(at, progress=False)
            _check_past(simulation, self, at)
            if isinstance(change, Mapping):
                simulation.change(**change)
            else:
                change(simulation)
            last = self.planned_until if until is None else until
            return _result(simulation, last, interrupted=simulation.run(last))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel to another process, as a file does: without the queue."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self), tuple((values | {"queue": None}).values())

    def save(self, path: AnyPath) -> Path:
        """Write it as one file, which `load` reads: the whole file, or none.

        Handlers of your own are not in it.

        Returns:
            The file.

        Raises:
            OSError: The file cannot be written; what was there before still is.
            ValueError: The scenario holds what no file can, such as a function; nothing was written.
        """
        facts = {name: getattr(self, name) for name in _FACTS}
        return saved_run.save(path, self.trace, self.requests, facts, _KINDS)

    @classmethod
    def load(cls, path: AnyPath) -> "Run":
        """Read what `save` wrote; nothing that is in the file is executed.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no run, from a newer qlab, or damaged; the message says what is wrong.
        """
        trace, requests, facts = saved_run.load(path, _FACTS, _KINDS)
        return Run(trace, requests=requests, **facts)

    def __repr__(self) -> str:
        how = f", interrupted at {self.until:g} s" if self.interrupted else ""
        return f"<Run of {self.scenario.name!r} (seed {self.scenario.seed}) on {self.description}: {self.trace!r}{how}>"


_KINDS = {**KINDS, **classes(Durability, Cost, Measured)}
_FACTS: saved_run.Fields = {
    "scenario": Scenario,
    "driver": str,
    "order": str,
    "description": str,
    "durability": Durability,
    "until": float,
    "interrupted": bool,
    "planned_until": float,
    "cost": (Cost, NoneType),
    "record_polls": bool,
    "measured": (Measured, NoneType),
}


def simulate(
    queue: Queue | Driver | str,
    scenario: Scenario | None = None,
    *,
    until: float = math.inf,
    cost: Cost | None = None,
    progress: bool | Callable[[float], object] | None = None,
    record_polls: bool = True,
    name: str = "simulation",
    **stated: Any,
) -> Run:
    """Run a scenario on a driver in simulated time.

    Args:
        queue: A queue whose clock is a `SimulatedClock`, with handlers of your own if you like; or a store, or its
            address, to which nothing was dispatched yet: it gets a queue of this name.
        scenario: What happens.
        until: When to stop, in seconds; by default when no job is left that will ever be due.
        cost: What the store's verbs cost; by default they take no time.
        progress: Whether there is a bar; by default for a run that takes a while, in a terminal or a notebook. Or a
            function that is told, from time to time, what share of the run is over (0 to 1; NaN where nobody knows).
        record_polls: Whether a poll that finds nothing is an event.
        name: The queue's name, where one is made.
        stated: The fields of a `Scenario`, instead of one: `workers=4, workload=…, faults=…, seed=…`.

    Returns:
        The run; equal scenarios give equal traces on every driver that keeps the contract's order. A Ctrl-C ends it and
        keeps what is there.

    Raises:
        TypeError: There is both a scenario and one of its fields, or a field that no scenario has.
        ValueError: The queue's clock is no simulated one or not at 0, the scenario does not fit the store or has no
            end, or there are jobs in a store that is given without a queue.
        UnknownHandler: Nobody says how a job behaves that is to come.
        InvalidPayload: A payload cannot be stored.
        EndlessMoment: Things happen for ever while no time goes by, such as attempts that fail at once, again and
            again; found out after 200,000 of them, and 100 for each job that may come at that moment.

    Example:
        >>> from qlab import metrics, simulate
        >>> from qlab.workload import Exponential, Poisson, Workload
        >>> work = Workload(Poisson(rate=1.0), Exponential(mean=0.5), jobs=1000)
        >>> run = simulate("memory://", workload=work, poll=None, seed=7)
        >>> metrics.summary(run).loc["wait", ["value", "low", "high"]].astype(float).round(2).to_dict()
        {'value': 0.6, 'low': 0.44, 'high': 0.76}
    """
    chosen = _scenario(queue, scenario, name, stated)
    if until == math.inf and chosen.workload is not None and not chosen.workload.ends:
        raise ValueError(f"{chosen.workload.arrivals} has no end: say until=3600.0, or Workload(…, jobs=10_000)")
    with _queue(queue, chosen, name) as there:
        if not isinstance(queue, Queue):
            _check_empty(there)
        simulation = Simulation(there, chosen, cost=cost, record_polls=record_polls)
        return _result(simulation, until, interrupted=simulation.run(until, progress=progress))


def _scenario(queue: Queue | Driver | str, scenario: Scenario | None, name: str, stated: dict[str, Any]) -> Scenario:
    """Take the scenario, or make it of its fields."""
    there = [field.name for field in fields(Scenario)]
    if unknown := sorted(set(stated) - {*there}):
        raise TypeError(f"simulate takes no {unknown[0]!r}: use the fields of a Scenario, {', '.join(there)}")
    if scenario is None:
        rules = {"policy": queue.policy} if isinstance(queue, Queue) else {}
        return Scenario(**({"name": name} | rules | stated))
    if not isinstance(scenario, Scenario):
        raise TypeError(f"scenario is {scenario!r}: use a Scenario, or named({scenario!r})")
    if stated:
        raise TypeError(f"there is a scenario, and {', '.join(sorted(stated))} beside it: use replace(scenario, …)")
    return scenario


def _queue(queue: Queue | Driver | str, scenario: Scenario, name: str) -> AbstractContextManager[Queue]:
    """Take the queue, or make one, which closes with its store where that was opened for it."""
    if isinstance(queue, Queue):
        if not queue.trace.records:
            raise ValueError(f"{queue!r} records nothing (trace=False), and a run is its trace: make a Queue that does")
        queue.policy = scenario.policy
        return nullcontext(queue)
    driver = drivers.open(queue) if isinstance(queue, str) else queue
    made = Queue(driver, policy=scenario.policy, clock=SimulatedClock(), name=name)
    return made if isinstance(queue, str) else nullcontext(made)


def _like(queue: Queue, there: Queue) -> Queue:
    """Make a queue on a store that knows what another knows: handlers, context, and which day its 0 is."""
    clock = SimulatedClock(epoch=queue.clock.epoch if isinstance(queue.clock, SimulatedClock) else None)
    like = queue.on(there.driver, clock=clock)
    like.policy = there.policy
    return like


def _check_empty(queue: Queue) -> None:
    """Refuse a store in which something is left, which would mingle with what the scenario brings."""
    there = queue.counts()
    if there.depth or there.failed:
        raise ValueError(
            f"{queue.driver} has {there.depth} jobs and {there.failed} failed ones in the queue {queue.name!r}: use an "
            "empty store, or another name=…; or hand over a Queue to have them worked, too"
        )


def _result(simulation: Simulation, until: float, *, interrupted: bool) -> Run:
    """Tell what has happened."""
    driver = simulation.given.driver
    return Run(
        simulation.queue.trace, simulation.scenario, driver.name, driver.order, driver.description, driver.durability,
        simulation.queue.clock.now(), simulation.requests, interrupted, until, simulation.cost,
        simulation.record_polls, simulation.given,
    )  # fmt: skip


def _own_names(run: Run) -> set[str]:
    """Tell which handlers of a run are neither a scenario's nor its workload's."""
    workload = run.scenario.workload
    stated = {*run.scenario.handlers, *(workload.handlers if workload is not None else ())}
    return {event.name for event in run.trace if event.name} - stated


def _check_past(simulation: Simulation, run: Run, at: float) -> None:
    """Refuse to go on from a past that is another."""
    for place, event in enumerate(simulation.queue.trace):
        if place >= len(run.trace) or run.trace[place] != event:
            raise ValueError(
                f"up to {at:g} s the run does not repeat: event {place} is {event.says!r} now. Handlers that depend on "
                "more than their job, or a store that was not empty, are no scenario"
            )
