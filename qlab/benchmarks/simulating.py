"""How fast simulating is, and its trace and its stores."""

import tracemalloc

from qlab import frames
from qlab.benchmarks.figures import Benchmark, Figure, Values, seconds
from qlab.clock import monotonic
from qlab.peers import simulators
from qlab.trace import CODES, Kind, Trace


def _simulate(jobs: int, run: int) -> Values:
    """M/M/4 here and with SimPy, with the same arrivals and services."""
    ours, simpy = seconds(simulators.qlab, jobs, run), simulators.simpy()
    if simpy is None:
        return {"qlab": jobs / ours}
    theirs = seconds(simulators.simpy_queue, simpy, jobs, run)
    return {"qlab": jobs / ours, "SimPy": jobs / theirs, "qlab / SimPy": theirs / ours}


def _growth(jobs: int, run: int) -> Values:
    """What one job of M/M/4 costs in runs of ten and a hundred times as many jobs."""
    sizes = {"few": jobs // 10, "many": jobs, "very many": jobs * 10}
    took = {name: seconds(simulators.qlab, size, run) / size * 1e6 for name, size in sizes.items()}
    return took | {"very many / few": took["very many"] / took["few"]}


def _sqlite(jobs: int, run: int) -> Values:
    """M/M/4 on SQLite in memory here, and with the statements alone."""
    jobs = max(jobs // 5, 1)
    raw = seconds(simulators.raw_sqlite, jobs, run)
    ours = seconds(simulators.qlab, jobs, run, "sqlite:///:memory:")
    return {"qlab": jobs / ours, "sqlite3": jobs / raw, "qlab / sqlite3": raw / ours}


def _trace(jobs: int, run: int) -> Values:
    """A trace of ten times as many events as jobs: recorded, kept, made a DataFrame."""
    count, code, trace = jobs * 10, CODES[Kind.RESERVED], Trace()
    workers = [f"worker {number}" for number in range(1, 5)]
    began = monotonic()
    for i in range(count):
        trace.record_us(i, code, i, "job", 1, workers[i & 3], i, i + 90_000_000)
    recorded = monotonic() - began
    frame = seconds(frames.events, trace)
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
        "simulate_sqlite",
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
"""What is measured of simulating."""
