"""Arms, numbers of workers and repeats, in an order of chance."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from threading import Event
from typing import Any, Literal, TypeAlias

from qlab.clock import monotonic
from qlab.contend import noise
from qlab.contend.arms import Arm, chosen
from qlab.contend.arriving import arriving
from qlab.contend.found import Contention
from qlab.contend.running import run_once
from qlab.contend.sides import Killed, Plan, Stopped
from qlab.contend.stating import FASTEST, Behaviours, Own, Register, scenario_of
from qlab.contend.stores import Stores
from qlab.errors import MissingRequirement, QlabError
from qlab.history import sequential
from qlab.history.promises import broken
from qlab.interrupts import first_interrupt
from qlab.machine import about
from qlab.progress import bar
from qlab.scenario import Scenario
from qlab.simulation import Run
from qlab.trace import Kind
from qlab.whole import is_whole
from qlab.workload import Every

DRIVERS = ("sqlite", "redis_zset")
"""What contends where nobody says: SQLite and Redis at like durability."""

WORKERS = (1, 2, 4, 8)
MOST_WORKERS = 64
"""How many workers one arm may have."""

REPEATS = 3

Progress: TypeAlias = bool | Callable[[float, str], object] | None

_LATE = 0.1  # seconds
_SHOWN = 3
_SHARED = (
    "The workers were threads of one process: they share Python's interpreter lock, so that only one of them at a time "
    "runs Python code. Real workers are processes."
)


def contention(
    drivers: Iterable[str | Arm] | str | Arm | None = None,
    scenario: Scenario | None = None,
    *,
    workers: Iterable[int] = WORKERS,
    mode: Literal["process", "thread"] = "process",
    repeats: int = REPEATS,
    handlers: str | Register | Behaviours | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    seed: int = 0,
    **stated: Any,
) -> Contention:
    """Let real workers contend for the jobs of real stores, as fast as they can, and measure what they reach.

    Each run has a store of its own, of which nothing is left: its workers get ready and begin at one moment, and end
    when nothing is left. Jobs that come at 0 s are there before. Others are dispatched by one process (or thread) more
    while workers work, at the moments that `simulate` has with the same seed. Arms, numbers of workers and repeats come
    in an order of chance, so that a machine that warms up or slows down favours none.

    Args:
        drivers: What contends, one or several: a driver's family (`sqlite`, `redis_zset`, `redis_list`; `memory` for
            threads only), an arm's name, such as `sqlite FULL`, an address, or an `Arm`. By default SQLite and Redis at
            like durability, Redis where there is a server for it.
        scenario: What happens: its arrivals and workload, how its handlers behave, its policy.
        workers: Numbers of workers.
        mode: Whether each worker is a process, or a thread of this one: those share Python's interpreter lock.
        repeats: How often each arm runs with each number of workers.
        handlers: A function that registers handlers of your own on the queue that it is given, or its address as
            `module:function`; worker processes import it. The scenario's names are dispatched, or all that it
            registers. Or how handlers behave, as in `{"mail": Behaviour(seconds=0.01)}`.
        progress: Whether there is a bar; by default in a terminal or a notebook. Or a function that is told what share
            is over (0 to 1), and what comes next.
        stop: Set it, from any thread, to end: what was measured until then is returned. A Ctrl-C does the same.
        seed: Where the order, and whatever handlers draw, starts.
        stated: Instead of a scenario: `jobs` (how many), `length` (how long each takes, in seconds), `busy` (whether it
            spends that on the processor instead of waiting), `payload` (how many bytes it carries), `enqueue` (how many
            jobs a second a producer dispatches while workers work, `math.inf` for as fast as it can; by default all are
            there from the start); and any field of a `Scenario`.

    Returns:
        What they reached: `runs`, one for each arm, number of workers and repeat.

    Raises:
        TypeError: There is both a scenario and one of its fields, or a field that no scenario has.
        ValueError: An arm, a number of workers, a handler or the scenario is none that can be run; nothing was stored.
        MissingRequirement: There is no server for an arm of Redis that was asked for.
        QlabError: No run came to its end; the message says why.

    Example:
        >>> from qlab import contention
        >>> contention("memory", jobs=20, workers=[1, 2], repeats=1, mode="thread")
        <Contention of memory with 1, 2 workers: 2 runs>
    """
    if not isinstance(drivers, str | Arm | Iterable | None):
        raise TypeError(f"drivers is {drivers!r}: use names such as 'sqlite' and 'redis_zset', addresses, or arms")
    arms = chosen(DRIVERS if drivers is None else drivers)
    counts = _counts(workers)
    _check(arms, mode, repeats)
    own = Own.of(handlers, mode)
    what = scenario_of(scenario, own, seed, stated)
    order = list(product(arms, counts, range(repeats)))
    Random(f"{seed} contention").shuffle(order)
    began, rate = monotonic(), noise.counts_a_second()
    plan = Plan(what, arriving(what), own.address, own.register, mode, rate, Event() if stop is None else stop)
    session = _Session(plan, arms, must=drivers is not None)
    with bar((lambda _: None) if callable(progress) else progress) as shown, first_interrupt(plan.stop.set):
        session.go(order, progress if callable(progress) else lambda share, _: shown.show(share))
    runs, said = session.judged(noise.COUNT / rate)
    names = tuple(arm.name for arm in arms)
    return Contention(runs, session.skipped, about(), session.interrupted, monotonic() - began, said, names)


class _Session:
    """Runs, one after the other.

    Args:
        plan: What all of them share.
        arms: The arms that there will be.
        must: Whether it is an error where an arm's server is missing.
    """

    def __init__(self, plan: Plan, arms: Sequence[Arm], *, must: bool) -> None:
        self.skipped: dict[str, str] = {}
        self.interrupted = False
        self._plan, self._arms, self._must = plan, arms, must
        self._runs: list[Run] = []
        self._others: list[float] = []

    def go(self, order: Sequence[tuple[Arm, int, int]], tell: Callable[[float, str], object]) -> None:
        """Make them all, unless somebody ends it.

        Raises:
            MissingRequirement: There is no server for an arm.
            QlabError: None of them came to its end.
        """
        try:
            with Stores(self._arms) as stores:
                self._look_for(stores)
                for place, (arm, workers, repeat) in enumerate(order):
                    self._plan.check_wanted()
                    if arm.name not in self.skipped:
                        self._run(stores, arm, workers, repeat, _part(tell, place, len(order)))
            tell(1.0, "done")
        except (KeyboardInterrupt, Stopped):
            self.interrupted = True
        if not self._runs and not self.interrupted:
            raise QlabError(
                "nothing was measured: " + "; ".join(f"{each}: {why}" for each, why in self.skipped.items())
            )

    def _look_for(self, stores: Stores) -> None:
        """Find out about each arm before the first begins."""
        for arm in self._arms:
            if why := stores.missing(arm):
                if self._must:
                    raise MissingRequirement(f"{arm.name}: {why}")
                self.skipped[arm.name] = why

    def _run(self, stores: Stores, arm: Arm, workers: int, repeat: int, tell: Callable[[float, str], object]) -> None:
        says = _says(arm.name, workers)
        tell(0.0, says)
        try:
            with stores.store(arm) as store:
                run, others = run_once(
                    store, self._plan, workers=workers, repeat=repeat, tell=lambda share: tell(share, says)
                )
        except QlabError as problem:
            if not self._runs and not isinstance(problem, Killed):
                raise  # as all others will, if it is the handlers; later ones would cost what was measured
            self.skipped[f"{says}, repeat {repeat + 1}"] = str(problem)
        else:
            self._runs.append(run)
            self._others.append(others)

    def judged(self, quietest: float) -> tuple[tuple[Run, ...], tuple[str, ...]]:
        """Say each run's noise against the quietest occasion, and in words what disturbed them.

        Args:
            quietest: How many seconds the counting took at the beginning.
        """
        spins = [run.measured.noise for run in self._runs if run.measured is not None]
        quietest = min([quietest, *spins])
        runs = [_against(run, quietest) for run in self._runs]
        said = noise.in_words([spin / quietest for spin in spins], self._others)
        shared = [_SHARED] if self._plan.mode == "thread" else []
        failed = [] if self._plan.register is None else _failed(runs)
        return tuple(runs), (*_wrong(runs), *failed, *shared, *said, *self._late())

    def _late(self) -> Iterator[str]:
        """Say where jobs came later than they should."""
        workload = self._plan.scenario.workload
        if workload is not None and isinstance(workload.arrivals, Every) and workload.arrivals.interval == FASTEST:
            return
        measured = [run.measured for run in self._runs if run.measured is not None]
        if late := [each for each in measured if each.behind > _LATE]:
            arms = ", ".join(dict.fromkeys(each.arm for each in late))
            yield (
                f"Jobs came up to {max(each.behind for each in late):.1f} s later than they should ({arms}): one "
                "producer could not dispatch them that fast there."
            )


def _wrong(runs: Iterable[Run]) -> Iterator[str]:
    """Say what became of jobs that were lost or done twice; each run has ended with nothing left in its store."""
    for run in runs:
        if run.measured is not None and (run.measured.lost or run.measured.duplicated):
            failed = [event.job for event in run.trace if event.kind is Kind.FAILED and event.job is not None]
            found = [each.says for each in broken(sequential(run.trace), left=(), failed=failed)]
            more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            says = f"{run.measured.lost} lost, {run.measured.duplicated} done twice"
            where = f"{_says(run.measured.arm, run.measured.workers)}, repeat {run.measured.repeat + 1}"
            yield f"Jobs went wrong ({where}: {says}): {'; '.join(found[:_SHOWN])}{more}."


def _failed(runs: Sequence[Run]) -> Iterator[str]:
    """Say where the reader's own handlers failed: how fast they do so is no rate of jobs."""
    failures = [[event for event in run.trace if event.kind is Kind.FAILED] for run in runs]
    if failed := [event for each in failures for event in each]:
        jobs = f"{len(failed)} job{'' if len(failed) == 1 else 's'}"
        where = f"{sum(map(bool, failures))} of {len(runs)} runs"
        first = f"{failed[0].name}: {failed[0].detail}"
        yield f"Your handlers failed {jobs} for good in {where} ({first}): those count as none that is done."


def _says(arm: str, workers: int) -> str:
    return f"{arm}, {workers} worker{'' if workers == 1 else 's'}"


def _part(tell: Callable[[float, str], object], place: int, parts: int) -> Callable[[float, str], object]:
    return lambda share, says: tell((place + min(share, 1.0)) / parts, says)


def _against(run: Run, quietest: float) -> Run:
    if run.measured is None:
        return run
    return replace(run, measured=replace(run.measured, noise=run.measured.noise / quietest))


def _counts(workers: Iterable[int]) -> Sequence[int]:
    if not isinstance(workers, int | Iterable):
        raise TypeError(f"workers is {workers!r}: use a number from 1 to {MOST_WORKERS}, or several")
    counts = [workers] if isinstance(workers, int) else list(workers)
    if not counts:
        raise ValueError("workers is empty: name at least one number of workers")
    for count in counts:
        if not is_whole(count, 1, MOST_WORKERS):
            raise ValueError(f"workers is {count!r}: use numbers from 1 to {MOST_WORKERS}")
    return sorted(set(counts))


def _check(arms: Sequence[Arm], mode: str, repeats: int) -> None:
    if mode not in ("process", "thread"):
        raise ValueError(f"mode is {mode!r}: use 'process' or 'thread'")
    if not is_whole(repeats, 1):
        raise ValueError(f"repeats is {repeats!r}: use a number from 1")
    if mode == "process" and (private := [arm.name for arm in arms if arm.private]):
        raise ValueError(
            f"{private[0]} is in the memory of one process, so no worker process could see its jobs: use "
            "mode='thread', or an arm with a file or a server"
        )
