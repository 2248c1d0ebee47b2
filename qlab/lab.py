"""One object for a notebook: drivers, a clock, workers that you move by hand, and everything that happened.

Headless: each button of the board is one of its methods.
"""

import json
import math
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from qlab.actions import ACTIONS, Action, Past, until
from qlab.as_json import made_of, stated
from qlab.clock import duration
from qlab.driver import Statement
from qlab.errors import DriverUnavailable, QlabError, UnknownFailedJob
from qlab.explanation import Agreement, agreement
from qlab.explorer import Explored, Situation, explore, hunt
from qlab.faults import Restart
from qlab.job import Attempt
from qlab.outcome import Outcome
from qlab.policy import Backoff, Policy
from qlab.registry import Handler, Tries
from qlab.scenario import KINDS, Scenario, named
from qlab.show import Table
from qlab.side import Side, Stores
from qlab.simulation.simulator import behave
from qlab.trace import Trace
from qlab.whole import is_whole

if TYPE_CHECKING:
    from qlab.widgets.board import Board
    from qlab.widgets.contention import ContentionPanel
    from qlab.widgets.explorer import Explorer

Result = TypeVar("Result")

FORM = 1
"""The form of a saved lab."""

MOST_WORKERS = 12
"""How many workers a lab has at most: more are not to be seen."""

_open_labs: "weakref.WeakValueDictionary[str, Lab]" = weakref.WeakValueDictionary()


class Lab:
    """Drivers in a folder of their own, a simulated clock, workers, and a trace; several drivers are moved in lockstep.

    A second lab under the same name closes the first, so that a cell may be run again. Its handlers are `pay` (done at
    once), `slow` (takes 10 s), `flaky` (fails twice) and `broken` (fails always), and those of your own. An action that
    cannot be done, such as a step of a worker that crashed, is refused with a `ValueError`.

    Args:
        driver: `sqlite`, `memory`, `redis` (or `redis_zset`), `redis_list`, an address, the name of one of
            `qlab.flaws.FLAWS`, or a list of them.
        seed: Where random numbers start.
        name: What the lab is called.
        workers: How many workers there are, from 1 to 12.
        policy: The queue's rules.

    Attributes:
        name: What the lab is called.
        seed: Where random numbers start.
        drivers: What was asked for, in order.
        sides: One for each driver: its queue, clock, workers, trace and ledger of side effects.
        scenario: What `play` laid out; None before.
        closed: Whether it is closed.

    Raises:
        ValueError: A driver or a number is none.
        MissingRequirement: There is no server for a Redis driver.

    Example:
        >>> from qlab import Lab
        >>> with Lab("memory", name="example") as lab:
        ...     lab.dispatch("flaky")
        ...     lab.step(worker=1)
        ...     lab.advance(10)
        ...     lab.queue.counts()
        [Retrying(job=1, name='flaky', attempt=1, at=0.0, error='RuntimeError: 503 ...', available_at=10.0)]
        Counts(ready=1, delayed=0, reserved=0, failed=0)
    """

    def __init__(
        self,
        driver: str | Sequence[str] = "sqlite",
        *,
        seed: int = 0,
        name: str = "lab",
        workers: int = 2,
        policy: Policy | None = None,
    ) -> None:
        if not is_whole(workers, 1, MOST_WORKERS):
            raise ValueError(f"workers is {workers!r}: use a number from 1 to {MOST_WORKERS}")
        self.name = name
        self.seed = seed
        self.drivers = (driver,) if isinstance(driver, str) else tuple(driver)
        if (earlier := _open_labs.get(name)) is not None:
            earlier.close()
        self.lock = threading.RLock()
        self._workers = workers
        self._first_policy = replace(policy or Policy(), seed=seed)
        self._handlers: dict[str, tuple[Handler, dict[str, Any]]] = {}
        self._actions: list[Action] = []
        self._marks: MutableSequence[int] = array("q")
        self._changed: list[Callable[[], None]] = []
        self.scenario: Scenario | None = None
        self.closed = False
        self._stores = Stores(self.drivers)
        self._finalizer = weakref.finalize(self, self._stores.close)
        self.sides: tuple[Side, ...] = ()
        self._lay()
        _open_labs[name] = self

    def _lay(self) -> None:
        """Lay everything out anew: empty stores, the clock at 0."""
        for side in self.sides:
            side.close()
        self.sides = tuple(
            Side(store, workers=self._workers, policy=self._first_policy, seed=self.seed)
            for store in self._stores.fresh()
        )
        self._usual_handlers()
        for name, (run, rules) in self._handlers.items():
            self._register(name, run, rules)

    # -- what there is --

    @property
    def now(self) -> float:
        """The moment, in seconds."""
        return self.sides[0].clock.now()

    @property
    def queue(self) -> Any:
        """The first driver's queue."""
        return self.sides[0].queue

    @property
    def trace(self) -> Trace:
        """The first driver's trace."""
        return self.sides[0].trace

    @property
    def policy(self) -> Policy:
        """The rules."""
        return self.sides[0].queue.policy

    @property
    def first_policy(self) -> Policy:
        """The rules that `change_policy` without any goes back to."""
        return self._first_policy

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of handlers."""
        return self.sides[0].queue.handlers

    @property
    def actions(self) -> tuple[Action, ...]:
        """Everything that was done, in order."""
        return tuple(self._actions)

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """How the trace of each driver after the first compares with the first's."""
        return tuple(agreement(self.sides[0], side) for side in self.sides[1:])

    def has_server(self, side: Side) -> bool:
        """Tell whether a side's store has a server of the lab's own, which `restart_server` restarts."""
        return self._stores.has_server(self.sides.index(side))

    def handler(
        self,
        name: str,
        *,
        tries: Tries = "policy",
        backoff: Backoff | Literal["policy"] = "policy",
    ) -> Callable[[Handler], Handler]:
        """Register the function below as a handler of every driver's queue; run again, the latest wins.

        Each run of it that returns counts as one side effect in the ledger.

        Args:
            name: The handler's name.
            tries: How many attempts its jobs have.
            backoff: How long they wait in between.
        """

        def register(run: Handler) -> Handler:
            with self.lock:
                self._handlers[name] = (run, {"tries": tries, "backoff": backoff})
                self._register(name, run, self._handlers[name][1])
            return run

        return register

    # -- the buttons --

    def dispatch(self, handler: str, payload: Any = None, *, delay: float = 0.0, count: int = 1) -> None:
        """Dispatch jobs.

        Args:
            handler: The handler's name.
            payload: Any JSON value.
            delay: How many seconds later they may be reserved.
            count: How many, from 1 to 5,000.
        """
        if not is_whole(count, 1, 5_000):
            raise ValueError(f"count is {count!r}: use a number from 1 to 5,000")
        with self._acting("dispatch", handler=handler, payload=payload, delay=delay, count=count):
            for side in self.sides:
                side.queue.dispatch_many([(handler, payload)] * count, delay=delay)

    def step(self, worker: int = 1) -> Table[Outcome]:
        """Let a worker take one step: `work_once`, or the end of the job that it holds.

        Args:
            worker: Which one, from 1.

        Returns:
            How it ended, one outcome a driver.
        """
        with self._acting("step", worker=worker):
            return Table(self._each(lambda side: side.step(worker)))

    def step_all(self) -> Table[Outcome]:
        """Let every worker that can take one step, in order."""
        with self._acting("step_all"):
            outcomes: Table[Outcome] = Table()
            for side in self.sides:
                for worker in range(1, self._workers + 1):
                    if side.is_able(worker):
                        outcomes.append(side.step(worker))
                    if side is self.sides[0]:
                        self._marks.append(len(side.trace))
            return outcomes

    def reserve(self, worker: int = 1) -> None:
        """Let a worker (by its number, from 1) reserve a job and stop there."""
        with self._acting("reserve", worker=worker):
            self._each(lambda side: side.reserve(worker))

    def complete(self, worker: int = 1) -> Table[Outcome]:
        """Let a worker (by its number, from 1) run and settle the job that it holds, however late."""
        with self._acting("complete", worker=worker):
            return Table(self._each(lambda side: side.complete(worker)))

    def perform(self, worker: int = 1) -> None:
        """Let a worker (by its number, from 1) run its job's handler, and stop there: the store is not told yet."""
        with self._acting("perform", worker=worker):
            self._each(lambda side: side.perform(worker))

    def recover(self, worker: int = 1, *, force: bool = False) -> None:
        """Let a worker make jobs ready again whose reservation has run out, as it does when it starts.

        Args:
            worker: Which one, from 1.
            force: Take every reservation, which robs each other worker that is alive.
        """
        with self._acting("recover", worker=worker, force=force):
            self._each(lambda side: side.recover(worker, force=force))

    def crash(self, worker: int = 1) -> None:
        """Let a worker (by its number, from 1) vanish with what it holds; `resume` starts it again."""
        with self._acting("crash", worker=worker):
            self._each(lambda side: side.crash(worker))

    def pause(self, worker: int = 1) -> None:
        """Let a worker (by its number, from 1) stand still, with what it holds; `resume` lets it go on."""
        with self._acting("pause", worker=worker):
            self._each(lambda side: side.pause(worker))

    def resume(self, worker: int = 1, *, renamed: bool = False) -> None:
        """Undo `pause` and `crash`.

        Args:
            worker: Which one, from 1.
            renamed: Whether it goes on under another name, as a container does that is started anew.
        """
        with self._acting("resume", worker=worker, **({"renamed": True} if renamed else {})):
            self._each(lambda side: side.resume(worker, renamed=renamed))

    def advance(self, seconds: float, *, most: Sequence[int | None] = ()) -> None:
        """Let time go by: delayed jobs become ready, reservations run out, handlers that run go on; nobody takes a job.

        Args:
            seconds: How long, from 0 up.
            most: How many things may happen on each driver: where a branch cuts it.
        """
        with self._acting("advance", seconds=seconds, **({"most": most} if most else {})):
            until = self.now + duration(seconds, "seconds")
            for side, limit in zip(self.sides, self._limits(most), strict=True):
                side.bench.run(until, working=False, most=limit)
            self._marks = self.sides[0].bench.marks

    def jump(self) -> float | None:
        """Let time go by up to the next moment at which anything changes.

        Returns:
            That moment, in seconds; None where nothing will change by itself.
        """
        with self.lock:
            coming = [change for side in self.sides if (change := side.bench.next_change()) is not None]
            if not coming:
                return None
            self.advance(max(0.0, min(coming) - self.now))
            return self.now

    def run(
        self,
        seconds: float,
        *,
        most: Sequence[int | None] = (),
        reserving: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let time go by while every worker works by itself, also on a job that it was let reserve.

        Args:
            seconds: How long, from 0 up.
            most: How many things may happen on each driver: where a run that is repeated was stopped.
            reserving: Whether a worker may still reserve a job then, and stop there: where a branch cuts it.
            stopping: Asked before each of them whether to stop there.
        """
        with self._acting("run", seconds=seconds, **({"reserving": True} if reserving else {})) as told:
            until = self.now + duration(seconds, "seconds")
            limits = self._limits(most)
            first = self.sides[0].bench.run(until, most=limits[0], reserving=reserving, stopping=stopping)
            self._marks = self.sides[0].bench.marks
            others = limits[1:] if first is None else [first] * (len(limits) - 1)  # in lockstep, however the first went
            happened = [
                first,
                *(
                    side.bench.run(until, most=limit, reserving=reserving)
                    for side, limit in zip(self.sides[1:], others, strict=True)
                ),
            ]
            if any(count is not None for count in happened):
                told["most"] = happened

    def _limits(self, most: Sequence[int | None]) -> list[float]:
        return [math.inf if limit is None else limit for limit in most] or [math.inf] * len(self.sides)

    def restart(self) -> None:
        """Restart the process: every worker loses what it holds, and a store in the process everything."""
        with self._acting("restart"):
            for side in self.sides:
                self._restart(side)

    def _restart(self, side: Side) -> None:
        i = self.sides.index(side)
        side.restart(self._stores.again(i), forgets=self._stores.forgets(i))
        self._usual_handlers(side)
        for name, (run, rules) in self._handlers.items():
            side.register(name, run, rules)

    def restart_server(self, side: int | None = None) -> None:
        """Kill a store's server and start it again: what it kept in memory only is lost; workers keep what they hold.

        Args:
            side: Which driver's, from 1; by default that of each that has a server in this lab's folder.
        """
        with self._acting("restart_server", side=side):
            if side is not None and not 1 <= side <= len(self.sides):
                raise ValueError(f"side is {side!r}: there are 1 to {len(self.sides)}")
            self._each(self._restart_server, self.sides if side is None else self.sides[side - 1 : side])

    def _restart_server(self, side: Side) -> None:
        self._stores.restart_server(self.sides.index(side))
        side.begin_anew()

    def retry(self, which: int | Literal["all"] = "all") -> int:
        """Move failed jobs back to the queue.

        Args:
            which: A failed job's id, or `"all"`.

        Returns:
            How many (on the driver with the fewest).

        Raises:
            UnknownFailedJob: No failed job has this id.
        """
        with self._acting("retry", which=which):
            return min(self._each(lambda side: side.queue.retry(which)))

    def forget(self, which: int | Literal["all"] = "all") -> int:
        """Delete failed jobs.

        Args:
            which: A failed job's id, or `"all"`.

        Returns:
            How many (on the driver with the fewest).

        Raises:
            UnknownFailedJob: No failed job has this id.
        """
        with self._acting("forget", which=which):
            return min(self._each(lambda side: side.queue.forget(which)))

    def change_policy(self, **rules: Any) -> Policy:
        """Change the rules; reservations that are held keep theirs.

        Args:
            rules: `tries`, `backoff` (a list of seconds), `retry_after`, `jitter`; without any, back to the first
                rules.

        Returns:
            The rules now.
        """
        changed = replace(self.policy, **rules) if rules else self._first_policy
        with self._acting("change_policy", **rules):
            for side in self.sides:
                side.queue.policy = changed
        return changed

    def play(self, scenario: str | Scenario | Mapping[str, Any], *, seed: int | None = None) -> Scenario:
        """Lay out a scenario, from 0 s; `run` plays it.

        Args:
            scenario: One of `qlab.scenario.NAMED`, or one of your own; as a mapping, what a saved lab says of it.
            seed: Where its random numbers start; by default the lab's seed, or that of your scenario.

        Raises:
            ValueError: None has this name, it has more than 12 workers, or it restarts a server that the lab has not.
        """
        chosen = self._chosen(scenario, seed)
        with self.lock:
            self._workers, self._first_policy, self.scenario = chosen.workers, chosen.policy, chosen
            self._handlers = {name: (behave(how), {}) for name, how in chosen.handlers.items()}
            self._actions.clear()
            self._lay()
            with self._acting("play", scenario=scenario, seed=chosen.seed):
                for side in self.sides:
                    side.plan(chosen, partial(self._restart_as_planned, side))
        return chosen

    def _chosen(self, scenario: str | Scenario | Mapping[str, Any], seed: int | None) -> Scenario:
        if isinstance(scenario, str):
            return named(scenario, seed=self.seed if seed is None else seed)
        own = scenario if isinstance(scenario, Scenario) else made_of(dict(scenario), Scenario, KINDS)
        if own.workers > MOST_WORKERS:
            raise ValueError(f"the scenario has {own.workers} workers: a lab has at most {MOST_WORKERS}")
        servers = any(isinstance(fault, Restart) and fault.what == "server" for fault in own.faults)
        if servers and not all(map(self.has_server, self.sides)):
            raise ValueError("the scenario restarts a server, and the lab has none of its own: use Lab('redis')")
        return own if seed is None else replace(own, seed=seed)

    def _restart_as_planned(self, side: Side, fault: Restart) -> None:
        if fault.what == "server":
            self._restart_server(side)
        else:
            self._restart(side)

    def reset(self) -> None:
        """Lay everything out anew: the drivers empty, the clock at 0, the scenario from its start."""
        with self.lock:
            if self.scenario is not None:
                own = self._actions[0].arguments["scenario"] if self._actions else self.scenario.name
                self.play(own, seed=self.scenario.seed)
                return
            self._actions.clear()
            self._lay()
            self._tell()

    # -- every order --

    def explore(
        self,
        scenario: Situation | Scenario | str = "one_job",
        *,
        driver: str | None = None,
        **how: Any,
    ) -> Explored:
        """Take the steps of a small scenario in every order, on a store beside the lab's own.

        Args:
            scenario: One of `qlab.explorer.SITUATIONS` or its name, or a scenario.
            driver: The name of a driver or of one of `qlab.flaws.FLAWS`, or an address; the lab's first by default.
            how: What else `qlab.explorer.explore` takes, such as `expiries` and `crashes`.
        """
        return explore(scenario, driver=self._stores.to_explore(driver or self.drivers[0]), **how)

    def hunt(self, driver: str | None = None, **how: Any) -> Table[Explored]:
        """Explore the scenarios that have a name, the smallest first, up to the first in which a promise is broken.

        Args:
            driver: As for `explore`.
            how: What else `qlab.explorer.hunt` takes.

        Returns:
            What came of each; the last one is where a promise was broken, if any was.
        """
        return hunt(self._stores.to_explore(driver or self.drivers[0]), **how)

    def explorer(self) -> "Explorer":
        """Show a panel that explores: pick a flaw and a scenario, browse the orders, replay one on a board."""
        from qlab.widgets.explorer import explorer  # noqa: PLC0415 - as in `board`

        return explorer(self)

    def contention(self) -> "ContentionPanel":
        """Show a panel that measures: pick stores and numbers of workers, let real processes contend, see the pictures.

        The stores are made for it; the lab's own are left as they are. `qlab.contention` does the same without it.
        """
        from qlab.widgets.contention import contention_panel  # noqa: PLC0415 - as in `board`

        return contention_panel(self)

    # -- time travel --

    def branch(self, events: int | None = None, *, name: str | None = None) -> "Lab":
        """Make a second lab, and do to it what was done to this one up to a moment; from there it goes its own way.

        Args:
            events: Up to how many events of the first driver's trace; all by default. Where an action went on beyond
                them and cannot be cut there, the branch begins a little earlier, at `begins_at(events)`.
            name: What the second lab is called; by default after this one, and where it begins.
        """
        with self.lock:
            past = self._until(events)
            other = Lab(
                self.drivers,
                seed=self.seed,
                name=name or f"{self.name}, branched at {past.events}",
                workers=self._workers,
                policy=self._first_policy,
            )
            for handler, (run, rules) in self._handlers.items():
                other.handler(handler, **rules)(run)
        for action in past.actions:
            other.repeat(action)
        return other

    def begins_at(self, events: int | None = None) -> int:
        """Tell after how many events a branch at these really begins."""
        with self.lock:
            return self._until(events).events

    def _until(self, events: int | None) -> Past:
        upto = len(self.trace) if events is None else events
        return until(upto, self._actions, self.trace, len(self.sides))

    def repeat(self, action: Action) -> None:
        """Do an action again.

        Raises:
            ValueError: It is none of `ACTIONS`.
        """
        if action.verb not in ACTIONS:
            raise ValueError(f"{action.verb!r} is no action of a lab: use one of {', '.join(ACTIONS)}")
        try:
            getattr(self, action.verb)(**action.arguments)
        except (QlabError, ValueError):
            # It was refused the first time, too: what it recorded before is what is repeated.
            return

    # -- keeping --

    def save(self, path: str | Path) -> Path:
        """Save what was done, as JSON; `Lab.load` does it again.

        Handlers of your own are not in it.

        Returns:
            The file.

        Raises:
            OSError: The file cannot be written.
            ValueError: The policy's backoff is a function, which no file can hold.
        """
        told = {
            "qlab_lab": FORM,
            "drivers": list(self.drivers),
            "seed": self.seed,
            "workers": self._workers,
            "policy": _rules(self._first_policy),
            "actions": [[action.verb, _plain(action.arguments)] for action in self._actions],
        }
        file = Path(path)
        file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        return file

    @classmethod
    def load(cls, path: str | Path, *, name: str = "lab", handlers: Mapping[str, Handler] | None = None) -> "Lab":
        """Make a lab from a saved one, by doing again what was done.

        Args:
            path: The file.
            name: What the lab is called.
            handlers: Handlers of your own that the saved lab had.

        Raises:
            ValueError: The file holds no saved lab.
        """
        told = _read(path)
        made = cls(told.drivers, seed=told.seed, workers=told.workers, policy=told.policy, name=name)
        for handler, run in (handlers or {}).items():
            made.handler(handler)(run)
        for action in told.actions:
            made.repeat(action)
        return made

    def restore(self, path: str | Path) -> None:
        """Turn this lab into a saved one, by doing again what was done there; handlers that it has stay registered.

        Raises:
            ValueError: The file holds no saved lab.
        """
        told = _read(path)
        stores = Stores(told.drivers)
        with self.lock:
            for side in self.sides:
                side.close()
            self._finalizer()
            self.drivers, self.seed, self._workers = told.drivers, told.seed, told.workers
            self._first_policy, self.scenario = told.policy, None
            self._stores, self._finalizer = stores, weakref.finalize(self, stores.close)
            self._actions.clear()
            self._lay()
            self._tell()
            for action in told.actions:
                self.repeat(action)

    def export(self, path: str | Path) -> Path:
        """Write everything that happened into a file; its ending says in which form.

        Args:
            path: `….html` (one page with the board and its scrubber, which needs no kernel and no network), `….csv` or
                `….parquet` (the events), `….svg` or `….png` (the timeline).

        Returns:
            The file.

        Raises:
            ValueError: The ending is none of these.
        """
        from qlab.export import export  # noqa: PLC0415 - a lab without pictures needs neither pandas nor matplotlib

        return export(self, path)

    # -- for those who watch --

    def board(self) -> "Board":
        """Show the lab as a board that you can step, break and rewind."""
        from qlab.widgets.board import board  # noqa: PLC0415 - a lab without a board needs no widgets

        return board(self)

    def on_change(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each action, and give a function that ends that."""
        self._changed.append(tell)
        return lambda: self._changed.remove(tell) if tell in self._changed else None

    @property
    def statements(self) -> tuple[list[Statement], ...]:
        """The SQL or the script calls of the last action, one list a driver."""
        return tuple(side.statements for side in self.sides)

    def close(self) -> None:
        """Close the drivers and remove the folder; closing twice is harmless."""
        with self.lock:
            for side in self.sides:
                side.close()
            self._finalizer()
            if _open_labs.get(self.name) is self:
                del _open_labs[self.name]
            if not self.closed:
                self.closed = True
                self._tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lab {self.name!r} on {', '.join(self.drivers)} at {self.now:g} s, {len(self.trace)} events>"

    # -- inside --

    @contextmanager
    def _acting(self, verb: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Do something whole: recorded for those who repeat it, told to those who watch, whatever it raises."""
        with self.lock:
            self._notice_losses()
            for side in self.sides:
                side.statements.clear()
            self._marks = array("q")
            try:
                yield arguments
            except DriverUnavailable as error:
                if silent := self._stores.silent():
                    raise DriverUnavailable(
                        f"the lab's own server of {' and '.join(silent)} does not answer: restart the server; "
                        "what it kept in memory only is lost"
                    ) from error
                raise
            finally:
                latest = max(side.clock.now() for side in self.sides)
                for side in self.sides:
                    side.clock.advance_to(max(latest, side.clock.now()))
                self._actions.append(Action(verb, arguments, len(self.trace), self._marks))
                self._tell()

    def _notice_losses(self) -> None:
        """Look for jobs that have vanished since the last action, with a server that somebody killed or emptied."""
        for i, side in enumerate(self.sides):
            if not (lost := side.lost()):
                continue
            if self._stores.has_server(i):
                side.begin_anew()
                self._actions.append(Action("restart_server", {"side": i + 1}, len(self.trace)))
            else:
                side.losses.record(lost, self.now, "its server was emptied, or another program took it")

    def _each(self, act: Callable[[Side], Result], sides: Sequence[Side] | None = None) -> list[Result]:
        """Do something on every side that can; it is refused where none can, with the first one's reason.

        Drivers may differ by then: a worker may hold a job on one and none on another.
        """
        done: list[Result] = []
        refused: list[Exception] = []
        for side in self.sides if sides is None else sides:
            try:
                done.append(act(side))
            except (ValueError, UnknownFailedJob) as error:
                refused.append(error)
        if not done:
            raise refused[0]
        return done

    def _tell(self) -> None:
        for tell in list(self._changed):
            tell()

    def _register(self, name: str, run: Handler, rules: dict[str, Any]) -> None:
        for side in self.sides:
            side.register(name, run, rules)

    def _usual_handlers(self, *sides: Side) -> None:
        for side in sides or self.sides:
            for name, run in USUAL.items():
                side.register(name, run, {})


class _Told(NamedTuple):
    drivers: tuple[str, ...]
    seed: int
    workers: int
    policy: Policy
    actions: list[Action]


def _read(path: str | Path) -> _Told:
    """Read a saved lab."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        if told["qlab_lab"] != FORM:
            raise ValueError(f"its form is {told['qlab_lab']!r}, this qlab reads {FORM}")
        actions = [Action(verb, arguments, 0) for verb, arguments in told["actions"]]
        policy = Policy(**told["policy"], seed=told["seed"])
        return _Told(tuple(told["drivers"]), told["seed"], told["workers"], policy, actions)
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} holds no saved lab: {error}") from error


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Tell an action's arguments as JSON values."""
    return {name: stated(value, KINDS) if isinstance(value, Scenario) else value for name, value in arguments.items()}


def _rules(policy: Policy) -> dict[str, Any]:
    """Tell the rules as JSON values."""
    if callable(policy.backoff):
        raise ValueError("a lab whose backoff is a function cannot be saved: use a list of seconds")
    names = ("tries", "retry_after", "jitter", "cap")
    return {"backoff": list(policy.backoff)} | {name: getattr(policy, name) for name in names}


def _pay(_: Attempt) -> None:
    """Pay at once."""


def _slow(job: Attempt) -> Iterator[float]:
    """Take ten seconds, and tell how far it is."""
    for done in range(1, 6):
        yield 2.0
        job.progress(done, 5)


def _flaky(job: Attempt) -> None:
    """Fail twice, then work."""
    if job.number <= 2:
        raise RuntimeError("503 Service Unavailable")


def _broken(_: Attempt) -> None:
    """Fail always."""
    raise RuntimeError("no such account")


USUAL: dict[str, Handler] = {"pay": _pay, "slow": _slow, "flaky": _flaky, "broken": _broken}
"""The handlers that every lab has."""
