"""A scenario while it runs, in simulated time."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Any

from qlab.clock import NEVER, SimulatedClock, duration, us
from qlab.cost import Cost
from qlab.faults import Restart
from qlab.interrupts import first_interrupt
from qlab.job import Attempt
from qlab.progress import Bar, bar
from qlab.queue import Queue
from qlab.scenario import Behaviour, Scenario, handler_of
from qlab.simulation.engine import Engine
from qlab.simulation.express import hurry
from qlab.simulation.feed import Feed, staff
from qlab.simulation.incidents import Incidents, in_trouble
from qlab.simulation.losses import Losses
from qlab.simulation.requests import Requests
from qlab.simulation.seat import Seat
from qlab.simulation.standstill import MOST, Standstill
from qlab.trace import Kind
from qlab.workload.arrivals import Bursts
from qlab.workload.recording import Recorded

_THINGS_A_JOB = 100  # at the most, at one moment: it comes, and has its attempts
_AT_ONCE = 4096  # how many things happen between two looks at a bar and at an interrupt


class Simulation:
    """A scenario while it runs: what `Run.branch` hands to those who change something.

    Args:
        queue: The queue, on a simulated clock.
        scenario: What happens.
        cost: What the store's verbs cost.
        record_polls: Whether a poll that finds nothing is an event.

    Attributes:
        queue: The queue.
        scenario: What happens.
        requests: What clients saw.
        given: The queue as it was given, which knows nothing of troubles of its store.
        cost: What the store's verbs cost.
        record_polls: Whether a poll that finds nothing is an event.
    """

    def __init__(
        self, queue: Queue, scenario: Scenario, *, cost: Cost | None = None, record_polls: bool = True
    ) -> None:
        clock = queue.clock
        if not isinstance(clock, SimulatedClock):
            raise ValueError(f"the queue's clock is {clock!r}: use Queue(…, clock=SimulatedClock())")
        if clock.now() != 0:
            raise ValueError(
                f"the queue's clock stands at {clock.now():g} s, and a scenario begins at 0 s: use a new queue, or "
                "Run.branch to go on with a run"
            )
        self.given = queue
        self.queue = in_trouble(queue, scenario.faults)
        self.scenario = scenario
        self.requests = Requests()
        self.cost, self.record_polls = cost, record_polls
        self._begun = False
        self._losses = Losses(queue.trace)
        for handler, behaviour in scenario.handlers.items():
            self.queue.handler(handler)(behave(behaviour))
        if scenario.workload is not None:
            staff(self.queue, scenario.workload)
        self._check_faults()
        arrivals = [
            (each.at, (self.queue.dispatcher(each.name, each.payload), each.delay)) for each in scenario.arrivals
        ]
        self._engine = Engine(
            self.queue,
            clock,
            workers=scenario.workers,
            poll=scenario.poll,
            batch=scenario.batch,
            seed=scenario.seed,
            cost=cost,
            tell_misses=record_polls,
        )
        Incidents(self._engine, scenario.faults, seed=scenario.seed, restart=self._restart)
        for at, what in arrivals:
            self._engine.coming += 1
            self._engine.plan(at, self._engine.send, what)
        self._feed: Feed | None = None
        self._guard: AbstractContextManager[object] = nullcontext()
        if scenario.workload is not None:
            self._feed = Feed(self._engine, scenario.workload, seed=scenario.seed, requests=self.requests)
            self._guard = hurry(self._engine, self._feed)

    @property
    def now(self) -> float:
        """The present moment, in seconds."""
        return self._engine.now

    @property
    def workers(self) -> tuple[Seat, ...]:
        """The workers' places, with what they hold."""
        return tuple(self._engine.seats)

    def run(self, until: float = math.inf, *, progress: bool | Callable[[float], object] | None = None) -> bool:
        """Let time go by up to a moment, in seconds.

        Returns:
            Whether somebody ended it before.
        """
        last = NEVER if until == math.inf else us(until)
        stopped: list[bool] = []
        engine = self._engine
        if not self._begun:
            engine.begin()  # once: a run that goes on is to go as if it had never been stopped
            self._begun = True
        jobs = _at_once(self.scenario) + self.given.counts().depth
        standstill = Standstill(self.queue.trace, MOST + _THINGS_A_JOB * jobs)
        with first_interrupt(lambda: stopped.append(True)), bar(progress) as told, self.queue.unlogged():
            while not stopped and self._go(last):
                self._tell(told, until)
                standstill.look(self.now, _AT_ONCE)
        if until != math.inf and not stopped:
            engine.clock.advance_to(max(engine.clock.now(), until))
            engine.catch_up()
        return bool(stopped)

    def _go(self, last: int) -> bool:
        with self._guard:
            more = self._engine.go(last, _AT_ONCE)
        self.queue.trace.gather()
        return more

    # -- what a branch may change --

    def dispatch(self, name: str, payload: Any = None, *, delay: float = 0.0) -> None:
        """Dispatch one more job now, which may be reserved so many seconds later."""
        what = self.queue.dispatcher(name, payload), duration(delay, "delay")
        self._engine.coming += 1
        self._engine.send(what)

    def crash(self, worker: int) -> None:
        """Let a worker vanish for good, by its number from 1, with what it holds."""
        self._engine.crash(self._seat(worker))

    def pause(self, worker: int, seconds: float) -> None:
        """Let a worker stand still for so many seconds."""
        self._engine.hold_still(self._seat(worker), duration(seconds, "seconds"))

    def stop(self, worker: int) -> None:
        """Tell a worker to stop: it finishes what it holds and takes no further job."""
        self._engine.stop(self._seat(worker))

    def change(self, **rules: Any) -> None:
        """Change the queue's rules (`tries`, `backoff`, `retry_after`, …); reservations that are held keep theirs.

        Raises:
            ValueError: There is no such rule, or it has no such value.
        """
        known = [field.name for field in fields(self.queue.policy)]
        if unknown := [name for name in rules if name not in known]:
            raise ValueError(
                f"there is no rule {unknown[0]!r}: use {', '.join(known)}, or a function of the simulation"
            )
        self.queue.policy = replace(self.queue.policy, **rules)

    # -- inside --

    def _seat(self, worker: int) -> Seat:
        if isinstance(worker, bool) or not isinstance(worker, int) or not 1 <= worker <= len(self._engine.seats):
            raise ValueError(f"worker is {worker!r}: there are 1 to {len(self._engine.seats)}")
        seat = self._engine.seats[worker - 1]
        if seat.gone:
            raise ValueError(f"{seat.name} is gone at {self.now:g} s: it has crashed, or was told to stop")
        return seat

    def _tell(self, told: Bar, until: float) -> None:
        if until != math.inf:
            told.show(self.now / until)
        elif self._feed is not None:
            told.show(self._feed.share)
        else:
            told.show(math.nan)

    def _check_faults(self) -> None:
        """Refuse a fault that could strike nobody, or a store that cannot be restarted."""
        for fault in self.scenario.faults:
            name = handler_of(fault)
            if name is not None and self.queue.handler_of(name) is None:
                there = ", ".join(map(repr, self.queue.handlers)) or "none"
                raise ValueError(f"{fault} names the handler {name!r}, the queue has {there}")
            if isinstance(fault, Restart) and fault.what == "server" and self.queue.driver.store.restart_server is None:
                raise ValueError(
                    f"{fault} needs a server of its own, this store is {self.given.driver}: use redis+embedded://"
                )

    def _restart(self, fault: Restart) -> None:
        """Restart the workers' process, or the store's server; what was kept in memory only is lost."""
        engine, store = self._engine, self.queue.driver.store
        gone = set(self._losses.look(self.given))  # jobs that are done, and nobody was told
        forgets = fault.what == "process" and store.url.startswith(("memory:", "sqlite:///:memory:"))
        if fault.what == "process":
            for seat in engine.seats:
                if seat.held is not None:
                    engine.crash(seat)
        elif store.restart_server is not None:
            store.restart_server()
        if forgets:
            store.clear(self.queue.name, now=self.now)
            store.forget(self.queue.name, store.failed_ids(self.queue.name))
        self.queue.trace.record(self.now, Kind.RESTARTED, detail=fault.what)
        lost = [job for job in self._losses.look(self.given, failed=forgets) if job not in gone]
        self._losses.record(lost, self.now)
        if self._feed is not None:
            self._feed.lose(lost)


def _at_once(scenario: Scenario) -> int:
    """Tell how many jobs may come at one moment without anybody asking for it then."""
    workload = scenario.workload
    arrivals = None if workload is None else workload.arrivals
    stated = 0 if workload is None else workload.jobs or 0
    one_burst = arrivals.size if isinstance(arrivals, Bursts) else 0
    recorded = len(arrivals.jobs) if isinstance(arrivals, Recorded) else 0
    return len(scenario.arrivals) + max(stated, one_burst, recorded)


def behave(behaviour: Behaviour) -> Callable[[Attempt], Iterator[float]]:
    """Make the handler that behaves as a scenario says."""

    def run(job: Attempt) -> Iterator[Any]:
        yield behaviour.seconds + (behaviour.late_by if job.number == 1 else 0.0)
        if behaviour.fails is None or job.number <= behaviour.fails:
            raise RuntimeError(behaviour.error)

    return run
