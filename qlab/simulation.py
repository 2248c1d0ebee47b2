"""A scenario on a real driver, in simulated time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from qlab.bench import Bench
from qlab.clock import SimulatedClock
from qlab.driver import Driver, Durability
from qlab.incidents import Incidents
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.scenario import Behaviour, Scenario
from qlab.trace import Trace


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
    """

    trace: Trace
    scenario: Scenario
    driver: str
    order: str
    description: str
    durability: Durability
    until: float

    def __repr__(self) -> str:
        return f"<Run of {self.scenario.name!r} (seed {self.scenario.seed}) on {self.description}: {self.trace!r}>"


def simulate(driver: Driver, scenario: Scenario, *, until: float = math.inf, name: str = "simulation") -> Run:
    """Run a scenario on a driver in simulated time; the driver's calls take none of it.

    Args:
        driver: The store, to which nothing was dispatched yet; the scenario's jobs go into a queue of it.
        scenario: What happens.
        until: When to stop, in seconds; by default when no job is left that will ever be due.
        name: The queue's name.

    Returns:
        The run; equal scenarios give equal traces on every driver that keeps the contract's order.
    """
    clock = SimulatedClock()
    queue = Queue(driver, policy=scenario.policy, clock=clock, name=name)
    for handler, behaviour in scenario.handlers.items():
        queue.handler(handler)(behave(behaviour))
    bench = Bench(
        queue,
        clock,
        workers=scenario.workers,
        poll=scenario.poll,
        seed=scenario.seed,
    )
    Incidents(bench, scenario.faults, seed=scenario.seed, restart=lambda _: None)
    for arrival in scenario.arrivals:
        bench.arrive(arrival)
    bench.run(until)
    return Run(queue.trace, scenario, driver.name, driver.order, driver.description, driver.durability, clock.now())


def behave(behaviour: Behaviour) -> Callable[[Attempt], Iterator[float]]:
    """Make the handler that behaves as a scenario says."""

    def run(job: Attempt) -> Iterator[Any]:
        yield behaviour.seconds + (behaviour.late_by if job.number == 1 else 0.0)
        if behaviour.fails is None or job.number <= behaviour.fails:
            raise RuntimeError(behaviour.error)

    return run
