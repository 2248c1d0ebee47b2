"""How fast qlab is on this machine, as ratios: of each, two things are measured in turn, in one run."""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from qlab import __version__
from qlab.benchmarks import backlogs, classroom, loops, peers, redis, shards, simulating, sqlite
from qlab.benchmarks.figures import Benchmark, Values
from qlab.drivers.server import EmbeddedServer
from qlab.errors import QlabError
from qlab.escape import error_text
from qlab.machine import about
from qlab.peers.table import PEERS
from qlab.show import table_html

JOBS = 100_000
"""How many jobs the benchmarks are meant for."""

RUNS = 5
"""How often each is measured, unless it is said otherwise."""

BENCHMARKS: tuple[Benchmark, ...] = (
    *simulating.BENCHMARKS,
    *loops.BENCHMARKS,
    *sqlite.BENCHMARKS,
    *redis.BENCHMARKS,
    *backlogs.BENCHMARKS,
    *peers.BENCHMARKS,
    *shards.BENCHMARKS,
    *classroom.BENCHMARKS,
)
"""What `qlab bench` measures."""


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
        problems: What went wrong in which run; the runs after it of that benchmark are missing.
        interrupted: Whether somebody ended it with Ctrl-C; the rest is missing.
    """

    machine: dict[str, str]
    settings: dict[str, Any]
    measured: tuple[Measured, ...]
    problems: tuple[str, ...] = ()
    interrupted: bool = False

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

    Returns:
        What was measured, also where one benchmark went wrong, or a Ctrl-C came.

    Raises:
        ValueError: A name is none, or a number is out of its range.
        KeyboardInterrupt: It came before anything was measured.
    """
    there = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"there is no benchmark {unknown[0]!r}: use {', '.join(there)}")
    for what, number, least in (("jobs", jobs, 100), ("runs", runs, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueError(f"{what} is {number!r}: use a whole number from {least}")
    chosen = [there[name] for name in dict.fromkeys(names)] or list(BENCHMARKS)
    measured: list[Measured] = []
    problems: list[str] = []
    interrupted = False
    for place, benchmark in enumerate(chosen):
        values: list[Values] = []
        try:
            for number in range(runs):
                progress((place + number / runs) / len(chosen), benchmark.name)
                values.append(benchmark.run(jobs, number))
        except QlabError as error:
            problems.append(f"{benchmark.name}, run {len(values) + 1}: {error_text(error)}")
        except KeyboardInterrupt:
            if not measured and not values:
                raise
            interrupted = True
        measured += _summed(benchmark, values, problems[-1] if problems and not values else "")
        if interrupted:
            break
    progress(1.0, "")
    return Report(_machine(), {"jobs": jobs, "runs": runs}, tuple(measured), tuple(problems), interrupted)


def _summed(benchmark: Benchmark, values: list[Values], problem: str) -> Iterator[Measured]:
    for figure in benchmark.figures:
        runs = tuple(each[figure.name] for each in values if figure.name in each)
        if runs:
            found = statistics.median(runs), min(runs), max(runs)
            yield Measured(benchmark.name, figure.name, figure.unit, *found, runs, figure.aim)
        else:
            skipped = problem or benchmark.missing() or "not measured"
            yield Measured(benchmark.name, figure.name, figure.unit, None, None, None, (), figure.aim, skipped)


# -- small things --


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _machine() -> dict[str, str]:
    packages = {name: _version(name) for name in ("simpy", "numpy", *(peer.package for peer in PEERS))}
    here = {name: told for name, told in about().items() if name != "queue-lab"}  # qlab may run without being installed
    return {**here, "qlab": __version__, **_server(), **{name: found for name, found in packages.items() if found}}


def _server() -> dict[str, str]:
    """Tell which server private ones are, where there can be any."""
    try:
        with EmbeddedServer() as server:
            return {server.name: server.version}
    except QlabError:
        return {}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
