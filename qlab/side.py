"""One driver's side of a lab: its store, its queue, its workers and its ledger."""

import inspect
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from qlab import drivers
from qlab.clock import SimulatedClock
from qlab.driver import Driver, Statement
from qlab.drivers.memory import MemoryDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.server import EmbeddedServer
from qlab.errors import QlabError
from qlab.faults import Restart
from qlab.flaws import FLAWS
from qlab.job import Attempt, Release
from qlab.ledger import Ledger
from qlab.outcome import Idle, Outcome
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.registry import Handler
from qlab.scenario import Scenario
from qlab.simulation.bench import Bench
from qlab.simulation.feed import Feed
from qlab.simulation.incidents import Incidents, in_trouble
from qlab.simulation.losses import Losses
from qlab.simulation.requests import Requests
from qlab.simulation.seat import Seat
from qlab.trace import Kind, Trace
from qlab.whole import is_whole

NAMES = ("memory", "sqlite", "redis_list", "redis_zset")
"""Drivers that a lab makes in a folder of its own; an address opens any other store."""


class Side:
    """One driver's side of a lab.

    Args:
        store: The driver.
        workers: How many workers there are.
        policy: The queue's rules.
        seed: Where random numbers start.
    """

    def __init__(self, store: Driver, *, workers: int, policy: Policy, seed: int) -> None:
        self.clock = SimulatedClock()
        self.trace = Trace()
        self.ledger = Ledger()
        self.losses = Losses(self.trace)
        self.statements: list[Statement] = []
        self.queue = self._open(store, policy)
        self.bench = Bench(self.queue, self.clock, workers=workers, seed=seed)
        self.feed: Feed | None = None

    def _open(self, store: Driver, policy: Policy) -> Queue:
        store.listen(self.statements.append)
        return Queue(store, clock=self.clock, policy=policy, trace=self.trace, context=self.ledger, name="lab")

    @property
    def driver(self) -> str:
        """The driver's family."""
        return self.queue.driver.name

    @property
    def description(self) -> str:
        """Product, version and settings of the store."""
        return self.queue.driver.description

    @property
    def order(self) -> str:
        """The driver's order."""
        return self.queue.driver.order

    def seat(self, worker: int) -> Seat:
        """Find a worker's place.

        Raises:
            ValueError: There is no such worker.
        """
        if not is_whole(worker, 1, len(self.bench.seats)):
            raise ValueError(f"worker is {worker!r}: there are 1 to {len(self.bench.seats)}")
        return self.bench.seats[worker - 1]

    def register(self, name: str, run: Handler, rules: dict[str, Any]) -> None:
        """Register a handler; each run of it that returns is entered in the ledger."""
        self.queue.handler(name, **rules)(_entered(run, self))

    def step(self, worker: int) -> Outcome:
        """Let a worker take one step: `work_once`, or the end of the job that it holds."""
        seat = self._able(worker)
        if seat.held is None and self.bench.reserve(seat) is None:
            return Idle(self.clock.now())
        return self._finish(seat)

    def is_able(self, worker: int) -> bool:
        """Tell whether a worker can take a step."""
        seat = self.seat(worker)
        return not seat.paused and not seat.gone

    def reserve(self, worker: int) -> None:
        """Let a worker reserve a job and stop there."""
        seat = self._able(worker)
        if seat.held is not None:
            raise ValueError(f"{seat.name} holds job {seat.held.job.id} already: complete it, or let the worker crash")
        self.bench.reserve(seat)

    def complete(self, worker: int) -> Outcome:
        """Let a worker run and settle the job that it holds."""
        seat = self._able(worker)
        if seat.held is None:
            raise ValueError(f"{seat.name} holds no job: let it reserve one first")
        return self._finish(seat)

    def perform(self, worker: int) -> None:
        """Let a worker run the handler of the job that it holds, and stop there."""
        seat = self._able(worker)
        if seat.held is None:
            raise ValueError(f"{seat.name} holds no job: let it reserve one first")
        if seat.until is not None or seat.ended is not None:
            raise ValueError(f"{seat.name} has {'run' if seat.ended else 'begun'} job {seat.held.job.id} already")
        self.bench.perform(seat)

    def recover(self, worker: int, *, force: bool = False) -> None:
        """Let a worker recover what its queue has reserved."""
        self.queue.recover(force=force, worker=self._able(worker).name)

    def crash(self, worker: int) -> None:
        """Let a worker vanish with what it holds."""
        seat = self.seat(worker)
        if seat.gone:
            raise ValueError(f"{seat.name} has crashed already: resume starts it again")
        self.bench.crash(seat)

    def pause(self, worker: int) -> None:
        """Let a worker stand still with what it holds."""
        seat = self.seat(worker)
        if seat.gone or seat.paused:
            raise ValueError(f"{seat.name} {'has crashed' if seat.gone else 'is paused'} already: resume it first")
        self.bench.pause(seat)

    def resume(self, worker: int, *, renamed: bool = False) -> None:
        """Undo a pause or a crash."""
        seat = self.seat(worker)
        if not seat.gone and not seat.paused:
            raise ValueError(f"{seat.name} is at work already: it was neither paused nor did it crash")
        self.bench.resume(seat)
        if renamed:
            seat.name += " (again)"

    def plan(self, scenario: Scenario, restart: Callable[[Restart], None]) -> None:
        """Plan a scenario's arrivals and faults.

        Args:
            scenario: What happens.
            restart: What a restart does.
        """
        self.queue = in_trouble(self.queue, scenario.faults)
        self.bench = Bench(
            self.queue,
            self.clock,
            workers=scenario.workers,
            poll=scenario.poll,
            batch=scenario.batch,
            seed=scenario.seed,
        )
        Incidents(self.bench, scenario.faults, seed=scenario.seed, restart=restart)
        for arrival in scenario.arrivals:
            self.bench.arrive(arrival)
        if scenario.workload is not None:
            self.feed = Feed(self.bench, scenario.workload, seed=scenario.seed, requests=Requests())

    def restart(self, store: Driver, *, forgets: bool) -> None:
        """Restart the process of the workers.

        Args:
            store: The store, opened again.
            forgets: Whether it was in this process, and has forgotten everything.
        """
        before = self.queue
        self.queue = self._open(store, before.policy)
        self.bench.restart(self.queue)
        if self.feed is not None:
            self.feed.meet(self.queue)
        before.close()
        lost = self.losses.look(self.queue, failed=forgets)
        self.losses.record(lost, self.clock.now())
        if self.feed is not None:
            self.feed.lose(lost)

    def begin_anew(self) -> None:
        """Record that the store's server was restarted, and what is lost by that."""
        lost = self.losses.look(self.queue)
        self.trace.record(self.clock.now(), Kind.RESTARTED, detail="server")
        self.losses.record(lost, self.clock.now())

    def lost(self) -> list[int]:
        """Find the jobs that the store has lost without being asked to; none while it does not answer."""
        if not isinstance(self.queue.driver, RedisStore):
            return []  # a file keeps what it has, and this process's memory goes with the process only
        try:
            return self.losses.look(self.queue)
        except QlabError:
            return []

    def close(self) -> None:
        """Close the queue."""
        self.queue.close()

    def _able(self, worker: int) -> Seat:
        seat = self.seat(worker)
        if seat.gone or seat.paused:
            raise ValueError(f"{seat.name} {'has crashed' if seat.gone else 'is paused'}: resume it first")
        return seat

    def _finish(self, seat: Seat) -> Outcome:
        done = len(self.bench.outcomes)
        self.bench.finish(seat)
        return self.bench.outcomes[-1] if len(self.bench.outcomes) > done else Idle(self.clock.now())


class Stores:
    """Where the jobs of a lab are: a private folder, with a server of its own where a Redis driver needs one.

    Args:
        names: Names of drivers or of flaws, or addresses.

    Raises:
        ValueError: A name is none.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [{"redis": "redis_zset"}.get(name, name) for name in names]
        if not names or any(name not in NAMES and name not in FLAWS and "://" not in name for name in self._names):
            raise ValueError(
                f"{list(names)!r}: use redis, {', '.join(NAMES)}, addresses such as sqlite:///jobs.db, or the name of "
                f"a flaw, such as {next(iter(FLAWS))!r}"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="qlab-lab-"))
        self._servers: dict[int, EmbeddedServer] = {}
        self._layouts = 0
        self._explored: dict[str, Driver] = {}

    def fresh(self) -> list[Driver]:
        """Open every store, empty."""
        self._layouts += 1
        return [self.again(i) for i in range(len(self._names))]

    def again(self, i: int) -> Driver:
        """Open a store again, as a process does that was restarted."""
        name = self._names[i]
        return FLAWS[name]() if name in FLAWS else drivers.open(self._address(i))

    def to_explore(self, name: str) -> Driver | str | type[Driver]:
        """Tell on what a driver or flaw is explored: a store of its own, kept for as long as the lab's."""
        name = {"redis": "redis_zset"}.get(name, name)
        if name in FLAWS:
            return FLAWS[name]
        if name not in NAMES:
            return name
        if name == "memory":
            return MemoryDriver
        if name not in self._explored:
            redis = f"redis+embedded://?layout={name.removeprefix('redis_')}"
            self._explored[name] = drivers.open("sqlite:///:memory:" if name == "sqlite" else redis)
        return self._explored[name]

    def forgets(self, i: int) -> bool:
        """Tell whether a store ends with its process."""
        return self._names[i] in FLAWS or self._names[i].startswith(("memory", "redis+embedded:"))

    def has_server(self, i: int) -> bool:
        """Tell whether a store has a server of the lab's own."""
        return i in self._servers

    def restart_server(self, i: int) -> None:
        """Kill a store's server, and start it again.

        Raises:
            ValueError: It has none of the lab's own.
        """
        if i not in self._servers:
            raise ValueError(f"{self._names[i]} has no server of the lab's own that could be restarted")
        self._servers[i].kill()
        self._servers[i].restart()

    def silent(self) -> list[str]:
        """Name the drivers whose servers, which are the lab's own, do not answer."""
        return [self._names[i] for i, server in self._servers.items() if not server.answers()]

    def close(self) -> None:
        """End the servers and remove the folder."""
        for driver in self._explored.values():
            driver.close()
        self._explored.clear()
        for server in self._servers.values():
            server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _address(self, i: int) -> str:
        name = self._names[i]
        if "://" in name:
            return name
        if name == "memory":
            return "memory://"
        if name == "sqlite":
            return f"sqlite:///{self._folder}/{i}-{self._layouts}.db"
        if i not in self._servers:
            self._servers[i] = EmbeddedServer()
        failed_jobs = f"sqlite:///{self._folder}/{i}-{self._layouts}-failed.db"
        options = f"layout={name.removeprefix('redis_')}&prefix=lab-{self._layouts}&failed_jobs={failed_jobs}"
        return f"{self._servers[i].url}?{options}"


def _entered(run: Handler, side: Side) -> Handler:
    """Enter a run that returns into the ledger, as its side effect."""

    def entered(job: Attempt) -> object:
        returned = run(job)
        if inspect.isgenerator(returned):
            return through(returned, job)
        enter(returned, job)
        return returned

    def through(steps: Generator[Any, Any, Any], job: Attempt) -> Generator[Any, Any, object]:
        returned = yield from steps
        enter(returned, job)
        return returned

    def enter(returned: Any, job: Attempt) -> None:
        if not isinstance(returned, Release):
            amount = job.payload.get("amount", 1) if isinstance(job.payload, dict) else 1
            worker = next((seat.name for seat in side.bench.seats if seat.held is job.reservation), "")
            amount = amount if isinstance(amount, int | float) else 1
            side.ledger.enter(job.reservation.job, amount, side.clock.now(), worker, len(side.trace))

    return entered
