"""The same work on several drivers: in simulated time for what happens, in real time for how fast."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from random import Random
from threading import Event

import pandas as pd

from qlab import frames
from qlab.clock import monotonic
from qlab.contend.arms import Arm, on_server
from qlab.contend.arms import arm as arm_of
from qlab.contend.arriving import arriving
from qlab.contend.running import run_once
from qlab.contend.sides import Plan
from qlab.contend.stating import POLL
from qlab.contend.stores import Stores
from qlab.errors import MissingRequirement
from qlab.escape import html
from qlab.explanation import Agreement, agreement
from qlab.library import DEFAULT_LIMIT, default_folder, python_files
from qlab.machine import about
from qlab.measured import Measured
from qlab.policy import Policy
from qlab.scenario import Arrival, Scenario, named
from qlab.simulation import Run, simulate
from qlab.trace import Kind
from qlab.whole import is_whole

DRIVERS = ("memory", "sqlite", "redis_list", "redis_zset")
"""What can be compared: names of drivers."""

QUICK_LIMIT = 60
"""How many files `quick` reads."""

REPEATS = 3
"""How many times each arm runs; `quick` runs it once."""

MOST_WORKERS = 64
"""How many worker processes one arm may have."""

_SIMULATED_PART = 0.05
_FIGURES = {"driver": str} | dict.fromkeys(("workers", "runs", "jobs"), "int64")
_FIGURES |= dict.fromkeys(("jobs_per_second", "low", "high"), "float64")
_FIGURES |= dict.fromkeys(("gap_p50_ms", "gap_p95_ms", "wait_p50_ms", "wait_p95_ms"), "float64")
_FIGURES |= dict.fromkeys(("once", "twice", "never"), "int64") | {"store": str}

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    Attributes:
        scenario: What was simulated.
        runs: One run a driver, in simulated time.
        agreements: How each run after the first compares with it.
        arms: The arms, in real time: each driver with each number of workers, `REPEATS` times.
        skipped: Drivers that were left out, with the reason.
        folder: What the real workers read.
        files: How many files of it.
        machine: Versions and settings, by name.
        elapsed: How long all of it took, in seconds.

    Example:
        >>> from qlab import compare
        >>> found = compare(["memory"], quick=True)
        >>> found.simulated()[["driver", "done", "failed"]]
           driver  done  failed
        0  memory    17       1
    """

    scenario: Scenario
    runs: tuple[Run, ...]
    agreements: tuple[Agreement, ...]
    arms: tuple[Run, ...]
    skipped: dict[str, str]
    folder: Path
    files: int
    machine: dict[str, str] = field(default_factory=dict)
    elapsed: float = 0.0

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(run.driver for run in self.runs)}: {len(self.arms)} arms>"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html(title)}</p>{frame.to_html(index=False)}" for title, frame in self.tables())

    def simulated(self) -> pd.DataFrame:
        """Tell of each simulated run, one row a driver.

        Returns:
            Columns `driver` (str), `events`, `done`, `failed`, `attempts`, `ran_out`, `superseded` (int64: how many
            reservations ran out, and how many settlings came too late), `wait_s` (float64: the mean from claimable to
            reserved, seconds), `ends_at_s` (float64, seconds), `trace` (str: equal traces have the same digits).
        """
        return pd.DataFrame([_summary(run) for run in self.runs])

    def real(self) -> pd.DataFrame:
        """Tell of each arm, one row a driver and number of workers.

        Returns:
            Columns `driver` (str), `workers`, `runs`, `jobs` (int64: of one run), `jobs_per_second` (float64: the
            median of the runs), `low`, `high` (float64: the slowest and the fastest), `gap_p50_ms`, `gap_p95_ms`
            (float64: how long the call takes that completes a job and reserves the next, milliseconds),
            `wait_p50_ms`, `wait_p95_ms` (float64: dispatch to start, milliseconds), `once`, `twice`, `never` (int64:
            how many jobs of all runs ran once, more than once, never), `store` (str).
        """
        by_arm = groupby(self.arms, key=lambda arm: (arm.driver, _figures(arm).workers))
        return pd.DataFrame([_measured(list(runs)) for _, runs in by_arm], columns=[*_FIGURES]).astype(_FIGURES)

    def survival(self) -> pd.DataFrame:
        """Tell what each real store loses, one row a store.

        Returns:
            Columns `store`, `worker killed`, `store killed`, `power cut` (str).
        """
        rows = {arm.description: arm.durability for arm in self.arms}
        return pd.DataFrame(
            [(store, *lost) for store, lost in rows.items()],
            columns=["store", "worker killed", "store killed", "power cut"],
            dtype=str,
        )

    def events(self) -> pd.DataFrame:
        """Give every event of every simulated run: the columns of `frames.events`, after a column `driver` (str)."""
        tables = []
        for run in self.runs:
            table = frames.events(run.trace)
            table.insert(0, "driver", run.driver)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def tables(self) -> list[tuple[str, pd.DataFrame]]:
        """Give the main tables with their titles, as the command prints them."""
        simulated = self.simulated().drop(columns=["ends_at_s"])
        simulated["trace"] = simulated["trace"].str[:8]
        real = self.real().drop(columns=["runs", "jobs", "low", "high", "wait_p50_ms", "store"], errors="ignore")
        return [
            (f"Simulated time: scenario {self.scenario.name}, seed {self.scenario.seed}", simulated),
            (f"Real time: real workers on {_jobs(self.arms)} jobs each, medians of {_runs(self.arms)} runs", real),
            ("What is lost when …", self.survival()),
        ]


def compare(
    driver_names: Sequence[str] | None = None,
    *,
    workers: Sequence[int] = (1, 2, 4),
    folder: str | Path | None = None,
    seed: int = 7,
    redis: str | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Run one scenario on each driver in simulated time, then real workers on real work.

    Simulated: every kind of event, the same seed on each. Real: `scan_library` walks a folder and dispatches one
    `enrich_item` a file, on SQLite (WAL, synchronous=NORMAL) and on a Redis with an append-only file synced every
    second, which survive the same.

    Args:
        driver_names: Which drivers, of `memory`, `sqlite`, `redis_list` and `redis_zset`; the first is what the others
            are compared with. By default all of them, the Redis ones only where there is a server for them.
        workers: Numbers of worker processes.
        folder: What `scan_library` walks; by default the running Python's standard library, its first 500 files.
        seed: Where random numbers start.
        redis: The address of a server to use instead of an embedded one; what is stored there is removed at the end.
        quick: Only 60 files, two workers at the most, and each arm once.
        progress: Told how much is done, from 0 to 1, and what comes next.

    Raises:
        ValueError: A driver, a number of workers or the folder is none; the message names it.
        MissingRequirement: There is no server for the Redis drivers.

    Example:
        >>> from qlab import compare
        >>> compare(["memory"], quick=True)
        <Comparison of memory: 0 arms>
    """
    wanted = _check(driver_names, workers)
    tell = progress or (lambda done, what: None)  # noqa: ARG005 - nobody is told
    limit = QUICK_LIMIT if quick else DEFAULT_LIMIT
    counts = sorted({min(count, 2) if quick else count for count in workers})
    library = Path(folder) if folder is not None else default_folder()
    files = len(python_files(library, limit))
    scenario = named("all_kinds", seed=seed)
    began = monotonic()
    places = {name: arm_of(name) if redis is None else on_server(name, redis) for name in wanted}
    with Stores(places.values()) as stores:
        skipped = _usable(stores, places, asked=driver_names is not None)
        there = [name for name in wanted if name not in skipped]
        runs: list[Run] = []
        for i, name in enumerate(there):
            tell(_SIMULATED_PART * i / len(there), f"simulating {name}")
            with stores.store(places[name], "simulated") as store:
                runs.append(simulate(store.driver, scenario, name="simulated").whole())
        if driver_names is None and "redis_list" in there:
            skipped["redis_list in real time"] = "one Redis layout is timed, unless --driver names both"
        timed = [name for name in there if driver_names is not None or name != "redis_list"]
        chosen = {name: places[name] for name in timed}
        arms = _arms(stores, chosen, counts, library, limit, files, 1 if quick else REPEATS, seed, tell)
    tell(1.0, "done")
    agreements = tuple(agreement(runs[0], run) for run in runs[1:])
    return Comparison(scenario, tuple(runs), agreements, arms, skipped, library, files, about(), monotonic() - began)


def _usable(stores: Stores, wanted: Mapping[str, Arm], *, asked: bool) -> dict[str, str]:
    """Tell which drivers can have no store here, with the reason; none may, where they were asked for."""
    skipped = {name: why for name, arm in wanted.items() if (why := stores.missing(arm))}
    if asked and skipped:
        raise MissingRequirement(next(iter(skipped.values())))
    return skipped


def _arms(
    stores: Stores,
    places: Mapping[str, Arm],
    counts: Sequence[int],
    folder: Path,
    limit: int,
    files: int,
    repeats: int,
    seed: int,
    progress: Progress,
) -> tuple[Run, ...]:
    """Run every arm, in an order of chance, so that a machine that warms up or slows down favours none."""
    real = [name for name in ("sqlite", "redis_zset", "redis_list") if name in places]
    order = list(product(real, counts, range(repeats)))
    Random(f"{seed} arms").shuffle(order)
    plan, arms = _plan(folder, limit), []
    for i, (name, workers, repeat) in enumerate(order):
        first, share = _SIMULATED_PART + (1 - _SIMULATED_PART) * i / len(order), (1 - _SIMULATED_PART) / len(order)
        what = f"{name}, {workers} worker{'s' if workers > 1 else ''}"

        def tell(done: float, first: float = first, share: float = share, what: str = what) -> None:
            progress(first + share * min(1.0, done / (files + 1)), what)  # the scan brings a job for each file

        tell(0.0)
        with stores.store(places[name]) as store:
            arms.append(run_once(store, plan, workers=workers, repeat=repeat, tell=tell)[0])
    quietest = min((_figures(run).noise for run in arms), default=1.0)
    told = (replace(run, measured=replace(_figures(run), noise=_figures(run).noise / quietest)) for run in arms)
    return tuple(sorted(told, key=lambda run: (real.index(run.driver), _figures(run).workers)))


def _plan(folder: Path, limit: int) -> Plan:
    """Let real workers scan a folder and enrich each of its files; a file that cannot be read is soon tried again."""
    scan = Arrival(0.0, "scan_library", {"folder": str(folder.absolute()), "limit": limit})
    scenario = Scenario("library", (scan,), policy=Policy(backoff=(0.1, 1.0)), poll=POLL)
    return Plan(scenario, arriving(scenario), "qlab.library:register", None, "process", 0.0, Event())


def _figures(run: Run) -> Measured:
    if run.measured is None:
        raise ValueError(f"{run!r} is a simulated run")
    return run.measured


def _check(names: Sequence[str] | None, workers: Sequence[int]) -> Sequence[str]:
    wanted = DRIVERS if names is None else tuple(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in DRIVERS]:
        raise ValueError(f"there is no driver {unknown[0]!r}: use {', '.join(DRIVERS)}")
    if not wanted or not workers:
        raise ValueError("name at least one driver and one number of workers")
    for count in workers:
        if not is_whole(count, 1, MOST_WORKERS):
            raise ValueError(f"workers is {count!r}: use numbers from 1 to {MOST_WORKERS}")
    return wanted


# -- numbers --


def _summary(run: Run) -> dict[str, object]:
    jobs = frames.jobs(run.trace)
    kinds = [event.kind for event in run.trace]
    return {
        "driver": run.driver,
        "events": len(run.trace),
        "done": int((jobs["state"] == "done").sum()),
        "failed": int((jobs["state"] == "failed").sum()),
        "attempts": int(jobs["attempts"].sum()),
        "ran_out": kinds.count(Kind.EXPIRED),
        "superseded": kinds.count(Kind.SUPERSEDED),
        "wait_s": round(float(jobs["wait"].mean()), 3),
        "ends_at_s": round(run.until, 3),
        "trace": run.trace.digest(),
    }


def _measured(runs: Sequence[Run]) -> dict[str, object]:
    figures, ran = [_figures(run) for run in runs], pd.concat([frames.jobs(run.trace)["runs"] for run in runs])
    rates = pd.Series([each.jobs_per_second for each in figures])
    waits = pd.Series([wait for each in figures for wait in each.waits], dtype="float64") / 1_000
    gaps = pd.Series([gap for each in figures for gap in each.completes], dtype="float64") / 1_000
    return {
        "driver": runs[0].driver,
        "workers": figures[0].workers,
        "runs": len(runs),
        "jobs": len(ran) // len(runs),
        "jobs_per_second": round(float(rates.median()), 1),
        "low": round(float(rates.min()), 1),
        "high": round(float(rates.max()), 1),
        "gap_p50_ms": round(float(gaps.quantile(0.5)), 2),
        "gap_p95_ms": round(float(gaps.quantile(0.95)), 2),
        "wait_p50_ms": round(float(waits.quantile(0.5)), 1),
        "wait_p95_ms": round(float(waits.quantile(0.95)), 1),
        "once": int((ran == 1).sum()),
        "twice": int((ran > 1).sum()),
        "never": int((ran == 0).sum()),
        "store": runs[0].description,
    }


def _jobs(arms: Sequence[Run]) -> int:
    return max((sum(_figures(arm).per_worker) for arm in arms), default=0)


def _runs(arms: Sequence[Run]) -> int:
    return max(Counter((arm.driver, _figures(arm).workers) for arm in arms).values(), default=0)
