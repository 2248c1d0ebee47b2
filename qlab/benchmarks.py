"""How fast this qlab is here, as ratios: to others that do the same, and to itself with less to do."""

import gc
import json
import os
import platform
import sqlite3
import statistics
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from qlab import __version__, frames, peers
from qlab.clock import monotonic
from qlab.show import table_html
from qlab.trace import CODES, Kind, Trace

JOBS = 100_000
"""How many jobs the benchmarks are meant for."""

RUNS = 5
"""How often each is measured, unless it is said otherwise."""

Values = dict[str, float]


class Figure(NamedTuple):
    """One number of a benchmark.

    Attributes:
        name: What it is.
        unit: Its unit; empty for a ratio.
        aim: What it should be, in words; empty for one that only explains another.
    """

    name: str
    unit: str = ""
    aim: str = ""


class Benchmark(NamedTuple):
    """Something that is measured.

    Attributes:
        name: What it is called.
        about: What is done, in a sentence.
        figures: Its numbers.
        run: Measures it once with so many jobs, whichever run it is: a value for each figure that it could measure.
        missing: Says why some of its figures cannot be measured here; empty where they can.
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    run: Callable[[int, int], Values]
    missing: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure that was measured.

    Attributes:
        benchmark: The benchmark's name.
        figure: The figure's name.
        unit: Its unit; empty for a ratio.
        median: The median of the runs; None where it was skipped.
        least: The smallest.
        most: The largest.
        runs: What each run gave, in order.
        aim: What it should be, in words.
        skipped: Why it was not measured; empty where it was.
    """

    benchmark: str
    figure: str
    unit: str
    median: float | None
    least: float | None
    most: float | None
    runs: tuple[float, ...]
    aim: str = ""
    skipped: str = ""

    def row(self) -> dict[str, object]:
        """Tell it as one row of a table for people."""
        found = self.median is not None
        return {
            "benchmark": self.benchmark,
            "figure": self.figure,
            "median": _plain(self.median) if found else "–",
            "range": f"{_plain(self.least)} to {_plain(self.most)}" if found else self.skipped,
            "unit": self.unit,
            "aim": self.aim,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, and where.

    Attributes:
        machine: The machine and its versions.
        settings: How it was measured.
        measured: The figures.
    """

    machine: dict[str, str]
    settings: dict[str, Any]
    measured: tuple[Measured, ...]

    def json(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        rows = [each.row() for each in self.measured]
        where = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        return table_html(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows], where)


def measure(
    names: Sequence[str] = (),
    *,
    jobs: int = JOBS,
    runs: int = RUNS,
    progress: Callable[[float, str], object] = lambda *_: None,
) -> Report:
    """Measure.

    Args:
        names: Which of `BENCHMARKS`; all by default.
        jobs: How many jobs; with fewer than 100,000 the figures say little.
        runs: How often; the things of a ratio are measured in turn within each run.
        progress: Told the share that is done, and what comes next.

    Raises:
        ValueError: A name is none, or a number is out of its range.
    """
    there = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"there is no benchmark {unknown[0]!r}: use {', '.join(there)}")
    for what, number, least in (("jobs", jobs, 100), ("runs", runs, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueError(f"{what} is {number!r}: use a whole number from {least}")
    chosen = [there[name] for name in dict.fromkeys(names)] or list(BENCHMARKS)
    measured: list[Measured] = []
    for place, benchmark in enumerate(chosen):
        values: list[Values] = []
        for number in range(runs):
            progress((place + number / runs) / len(chosen), benchmark.name)
            values.append(benchmark.run(jobs, number))
        measured += _summed(benchmark, values)
    progress(1.0, "")
    return Report(_machine(), {"jobs": jobs, "runs": runs}, tuple(measured))


def _summed(benchmark: Benchmark, values: list[Values]) -> Iterator[Measured]:
    for figure in benchmark.figures:
        runs = tuple(each[figure.name] for each in values if figure.name in each)
        if runs:
            found = statistics.median(runs), min(runs), max(runs)
            yield Measured(benchmark.name, figure.name, figure.unit, *found, runs, figure.aim)
        else:
            skipped = benchmark.missing() or "not measured"
            yield Measured(benchmark.name, figure.name, figure.unit, None, None, None, (), figure.aim, skipped)


# -- what is measured --


def _simulate(jobs: int, run: int) -> Values:
    """M/M/4 here and with SimPy, with the same arrivals and services."""
    ours, simpy = _seconds(peers.qlab, jobs, run), peers.simpy()
    if simpy is None:
        return {"qlab": jobs / ours}
    theirs = _seconds(peers.simpy_queue, simpy, jobs, run)
    return {"qlab": jobs / ours, "SimPy": jobs / theirs, "qlab / SimPy": theirs / ours}


def _growth(jobs: int, run: int) -> Values:
    """What one job of M/M/4 costs in runs of ten and a hundred times as many jobs."""
    sizes = {"few": jobs // 10, "many": jobs, "very many": jobs * 10}
    took = {name: _seconds(peers.qlab, size, run) / size * 1e6 for name, size in sizes.items()}
    return took | {"very many / few": took["very many"] / took["few"]}


def _sqlite(jobs: int, run: int) -> Values:
    """M/M/4 on SQLite in memory here, and with the statements alone."""
    jobs = max(jobs // 5, 1)
    raw = _seconds(peers.raw_sqlite, jobs, run)
    ours = _seconds(peers.qlab, jobs, run, "sqlite:///:memory:")
    return {"qlab": jobs / ours, "sqlite3": jobs / raw, "qlab / sqlite3": raw / ours}


def _trace(jobs: int, run: int) -> Values:
    """A trace of ten times as many events as jobs: recorded, kept, made a DataFrame."""
    count, code, trace = jobs * 10, CODES[Kind.RESERVED], Trace()
    workers = [f"worker {number}" for number in range(1, 5)]
    began = monotonic()
    for i in range(count):
        trace.record_us(i, code, i, "job", 1, workers[i & 3], i, i + 90_000_000)
    recorded = monotonic() - began
    frame = _seconds(frames.events, trace)
    values = {"recording": recorded / count * 1e6, "DataFrame": frame}
    return values if run else values | {"memory": _megabytes(trace)}


def _megabytes(trace: Trace) -> float:
    """Tell what a trace takes, by making another of the same events."""
    events = iter(trace)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        other = Trace(events)
        len(other.columns()[1])
        return (tracemalloc.get_traced_memory()[0] - before) / 1e6
    finally:
        tracemalloc.stop()


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "simulate",
        "M/M/4 on the memory driver, with its trace, and the same with SimPy",
        (Figure("qlab", "jobs/s"), Figure("SimPy", "jobs/s"), Figure("qlab / SimPy", "", "at least 1")),
        _simulate,
        lambda: "SimPy is not installed: pip install simpy",
    ),
    Benchmark(
        "growth",
        "the same with a tenth of the jobs, with all, with ten times as many",
        (
            Figure("few", "µs a job"), Figure("many", "µs a job"), Figure("very many", "µs a job"),
            Figure("very many / few", "", "about 1"),
        ),
        _growth,
    ),
    Benchmark(
        "sqlite",
        "M/M/4 on SQLite in memory, a fifth of the jobs, and the same statements without qlab",
        (Figure("qlab", "jobs/s"), Figure("sqlite3", "jobs/s"), Figure("qlab / sqlite3", "", "at least 0.5")),
        _sqlite,
    ),
    Benchmark(
        "trace",
        "a trace of ten times as many events as jobs",
        (
            Figure("recording", "µs an event"), Figure("memory", "MB", "at most 60"),
            Figure("DataFrame", "s", "at most 0.2"),
        ),
        _trace,
    ),
)  # fmt: skip
"""What `qlab bench` measures."""


# -- small things --


def _seconds(act: Callable[..., object], *args: object) -> float:
    gc.collect()
    began = monotonic()
    act(*args)
    return monotonic() - began


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _machine() -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = {name: _version(name) for name in ("simpy", "pandas", "numpy")}
    return {
        "machine": f"{_processor()}, {cores} cores, {platform.system()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "qlab": __version__,
        "SQLite": sqlite3.sqlite_version,
        **{name: found for name, found in packages.items() if found},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), "") or platform.processor() or "an unknown processor"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
