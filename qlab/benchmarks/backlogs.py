"""What a backlog costs: a claim where much waits on Redis, and the memory that each waiting job takes."""

import statistics
import tracemalloc
from collections.abc import Iterator

from qlab.benchmarks.figures import Benchmark, Figure, Values
from qlab.benchmarks.redis import figures, missing, of_each_layout
from qlab.clock import monotonic
from qlab.contend.stores import Store
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.job import NewJob
from qlab.tokens import Tokens

_TURNS = 20
_CLAIMS = 100  # in each turn
_PUSHED = 500  # jobs in a script
_NOW = 1_790_000_000.0
_SPAN = 3_600.0  # seconds that a reservation or a delay lasts: longer than all of this
_PAYLOAD = f'"{"x" * 98}"'  # 100 bytes

_uids = Tokens()


def _growth(jobs: int, run: int) -> Values:
    """Only once: it takes long to make a backlog of ten times as many jobs, and each side has many turns."""
    return {} if run else of_each_layout(_claims)(jobs, run)


def _claims(store: Store, jobs: int) -> Values:
    backlogs = {"few": max(jobs // 100, _CLAIMS), "many": jobs * 10}
    took: dict[str, list[float]] = {queue: [] for queue in backlogs}
    for queue, ready in backlogs.items():
        _make(store.driver, queue, ready)
    for _ in range(_TURNS):
        for queue in backlogs:
            took[queue].append(_claim(store.driver, queue))
    for queue in backlogs:
        store.driver.delete(queue)  # type: ignore[attr-defined] # only Redis drivers are here
    values = {queue: statistics.median(each) for queue, each in took.items()}
    return values | {"many / few": values["many"] / values["few"]}


def _make(driver: Driver, queue: str, ready: int) -> None:
    """Make a backlog, a tenth as many delayed jobs, and a tenth as many that are reserved."""
    _push(driver, queue, ready + ready // 10, _NOW)
    _push(driver, queue, ready // 10, _NOW + _SPAN)
    driver.reserve(queue, now=_NOW, retry_after=_SPAN, limit=ready // 10)


def _claim(driver: Driver, queue: str) -> float:
    """Reserve jobs, one a call, complete each with reserving the next, and tell the microseconds of a call."""
    began = monotonic()
    held = [driver.reserve(queue, now=_NOW, retry_after=_SPAN)[0] for _ in range(_CLAIMS // 2)]
    following = [driver.complete_and_reserve(each, now=_NOW, retry_after=_SPAN)[1] for each in held]
    took = monotonic() - began
    for each in following:
        if each is not None:
            driver.complete(each, now=_NOW)
    _push(driver, queue, _CLAIMS, _NOW)
    return took / _CLAIMS * 1e6


def _memory(jobs: int, run: int) -> Values:
    """Half of the jobs, which all wait."""
    count = max(jobs // 2, 1)
    values = of_each_layout(lambda store, _: {"redis": _in_server(store, count)})(jobs, run)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with MemoryDriver() as driver:
            _push(driver, "default", count, _NOW)
            values["memory driver"] = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    return values


def _in_server(store: Store, count: int) -> float:
    _push(store.driver, store.queue, _PUSHED, _NOW)  # The server's own memory has grown by now.
    before: int = store.driver.facts()["used_memory"]  # type: ignore[attr-defined] # only Redis drivers are here
    _push(store.driver, store.queue, count, _NOW)
    after: int = store.driver.facts()["used_memory"]  # type: ignore[attr-defined] # as above
    return (after - before) / count


def _push(driver: Driver, queue: str, count: int, at: float) -> None:
    for start in range(0, count, _PUSHED):
        driver.push(queue, list(_new(min(_PUSHED, count - start), at)), now=_NOW)


def _new(count: int, at: float) -> Iterator[NewJob]:
    # Each payload is a text of its own, as each that was encoded is.
    return (NewJob(_uids.next(), "noop", _PAYLOAD[:-1] + '"', at) for _ in range(count))


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "redis_growth",
        "reserving, and completing with reserving the next, in a backlog of a hundredth and of ten times as many jobs",
        figures(
            Figure("few", "µs a claim"), Figure("many", "µs a claim"), Figure("many / few", "", "at most 1.3")
        ),
        _growth,
        missing,
    ),
    Benchmark(
        "memory",
        "what a waiting job with a payload of 100 bytes takes, in a Redis server and in the memory driver",
        (*figures(Figure("redis", "bytes a job")), Figure("memory driver", "bytes a job")),
        _memory,
        missing,
    ),
)  # fmt: skip
