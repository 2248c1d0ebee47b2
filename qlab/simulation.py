"""Many workers in simulated time, on a real driver: a heap of moments, and the queue's own steps."""

import heapq
import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from qlab.clock import SimulatedClock, from_us, us
from qlab.driver import Driver, Durability
from qlab.job import Attempt, Reservation
from qlab.queue import Queue
from qlab.scenario import Arrival, Behaviour, Scenario
from qlab.steps import Ended
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
        driver: The store; the scenario's jobs go into a queue of it.
        scenario: What happens.
        until: When to stop, in seconds; by default when no job is left that will ever be due.
        name: The queue's name.

    Returns:
        The run; equal scenarios give equal traces on every driver that keeps the contract's order.
    """
    clock = SimulatedClock()
    queue = Queue(driver, policy=scenario.policy, clock=clock, name=name)
    for handler, behaviour in scenario.handlers.items():
        queue.handler(handler)(_handler(behaviour))
    loop = _Loop(queue, clock, scenario)
    loop.run(until)
    return Run(queue.trace, scenario, driver.name, driver.order, driver.description, driver.durability, clock.now())


@dataclass(order=True, slots=True)
class _Due:
    at: int
    serial: int
    act: Callable[[], None] = field(compare=False)


class _Loop:
    """The heap: what falls due at the same microsecond happens in the order in which it was planned."""

    def __init__(self, queue: Queue, clock: SimulatedClock, scenario: Scenario) -> None:
        self._queue = queue
        self._clock = clock
        self._poll = scenario.poll
        self._heap: list[_Due] = []
        self._serial = 0
        self._arrivals_left = len(scenario.arrivals)
        self._at_work = 0
        self._crashes = {fault.name: fault for fault in scenario.faults}
        for arrival in scenario.arrivals:
            self._plan(arrival.at, lambda arrival=arrival: self._arrive(arrival))  # type: ignore[misc]  # bound now
        phases = Random(f"{scenario.seed} polls")
        for number in range(1, scenario.workers + 1):
            self._plan(phases.uniform(0, scenario.poll), self._poller(f"worker {number}"))

    def run(self, until: float) -> None:
        last = us(until)
        while self._heap and self._heap[0].at <= last and not self._is_over():
            due = heapq.heappop(self._heap)
            self._clock.advance_to(max(self._clock.now(), from_us(due.at)))
            due.act()

    def _plan(self, at: float, act: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, _Due(us(at), self._serial, act))

    def _is_over(self) -> bool:
        idle = not (self._arrivals_left or self._at_work)
        return idle and self._queue.next_due() is None

    def _arrive(self, arrival: Arrival) -> None:
        self._arrivals_left -= 1
        self._queue.dispatch_later(arrival.name, arrival.payload, delay=arrival.delay)

    def _poller(self, worker: str) -> Callable[[], None]:
        return lambda: self._ask(worker)

    def _ask(self, worker: str) -> None:
        held = self._queue.reserve(worker=worker)
        if held is None:
            self._plan(self._clock.now() + self._poll, self._poller(worker))
        elif held.job.name in self._crashes:
            self._crash(held, worker)
        else:
            self._at_work += 1
            self._go_on(held, self._queue.steps(held, worker=worker), worker)

    def _crash(self, held: Reservation, worker: str) -> None:
        self._queue.crash(held, worker=worker)
        back_after = self._crashes.pop(held.job.name).back_after
        if back_after is not None:
            self._plan(self._clock.now() + back_after, self._poller(worker))

    def _go_on(self, held: Reservation, steps: Generator[float, None, Ended], worker: str) -> None:
        try:
            seconds = next(steps)
        except StopIteration as stop:
            self._at_work -= 1
            self._queue.settle(held, stop.value, worker=worker)
            self._plan(self._clock.now(), self._poller(worker))
        else:
            self._plan(self._clock.now() + seconds, lambda: self._go_on(held, steps, worker))


def _handler(behaviour: Behaviour) -> Callable[[Attempt], Iterator[float]]:
    def run(job: Attempt) -> Iterator[Any]:
        yield behaviour.seconds + (behaviour.late_by if job.number == 1 else 0.0)
        if behaviour.fails is None or job.number <= behaviour.fails:
            raise RuntimeError(behaviour.error)

    return run
