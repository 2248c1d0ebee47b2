"""How fast a worker's loop is: beside a bare one, and with the trace on; in the time of the processor that each has."""

from pathlib import Path
from tempfile import TemporaryDirectory

from qlab.benchmarks.figures import Benchmark, Figure, Values, processor_seconds
from qlab.peers.raw_memory import PAYLOAD, Bare, Ours

_PARTS = 10


def _memory(jobs: int, _: int) -> Values:
    """The whole loop of a worker in memory, and a heap and a dict under a lock."""
    bare = ours = 0.0
    for part in range(_PARTS):  # in turn, so that a noisy moment meets both
        payloads = [PAYLOAD] * (jobs // _PARTS + (part < jobs % _PARTS))
        bare += processor_seconds(Bare(payloads).work)
        ours += processor_seconds(Ours(payloads).work)
    return {"qlab": jobs / ours, "bare": jobs / bare, "qlab / bare": bare / ours}


def _trace_on(jobs: int, run: int) -> Values:
    """The same loop with the trace on and off, in memory and on SQLite."""
    with TemporaryDirectory(prefix="qlab-bench-") as folder:
        file = Path(folder, "jobs.db")
        return {
            "on SQLite": _on_off(f"sqlite:///{file}?synchronous=NORMAL", max(jobs // 5, 1), run),
            "in memory": _on_off("memory://", max(jobs // 5, 1), run),
        }


def _on_off(address: str, jobs: int, run: int) -> float:
    order = (True, False) if run % 2 else (False, True)  # neither is always the first
    took = {trace: processor_seconds(Ours([PAYLOAD] * jobs, address, trace=trace).work) for trace in order}
    return took[True] / took[False]


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "memory_loop",
        "jobs that do nothing through a worker on the memory driver, and through a heap and a dict under a lock",
        (Figure("qlab", "jobs/s"), Figure("bare", "jobs/s"), Figure("qlab / bare", "", "at least 0.4")),
        _memory,
    ),
    Benchmark(
        "trace_on",
        "a fifth of the jobs with the trace on, as a multiple of off: on SQLite (synchronous=NORMAL), in memory",
        (Figure("on SQLite", "", "at most 1.15"), Figure("in memory")),
        _trace_on,
    ),
)
"""What is measured of a worker's loop."""
