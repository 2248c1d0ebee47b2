"""What a backlog costs: reserving where much waits, and the memory that each waiting job takes."""

import statistics
import tracemalloc
from collections.abc import Iterator, Mapping

from qlab.benchmarks.figures import Benchmark, Figure, Values, seconds
from qlab.benchmarks.redis import figures, missing, of_each_layout
from qlab.benchmarks.sqlite import a_file
from qlab.clock import monotonic
from qlab.contend.stores import Store
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.job import NewJob
from qlab.tokens import Tokens

_BACKLOGS = {"few": 0.01, "many": 10}  # times as many jobs as are asked for
_TURNS = 20
_RESERVED = 100  # in each turn
_PUSHED = 500  # jobs in a script
_NOW = 1_790_000_000.0
_SPAN = 3_600.0  # seconds that a reservation or a delay lasts: longer than all of this
_PAYLOAD = f'"{"x" * 98}"'  # 100 bytes

_uids = Tokens()


def _growth(jobs: int, run: int) -> Values:
    """Only once: it takes long to make a backlog of ten times as many jobs, and each side has many turns."""
    return {} if run else of_each_layout(_in_layout)(jobs, run)


def _in_layout(store: Store, jobs: int) -> Values:
    values = _compared(dict.fromkeys(_BACKLOGS, store.driver), jobs)
    for queue in _BACKLOGS:
        store.driver.delete(queue)  # type: ignore[attr-defined] # only Redis drivers are here
    return values


def _in_files(jobs: int, run: int) -> Values:
    """As on Redis, but each backlog in a file of its own: the jobs of all queues of a file are in one table."""
    if run:
        return {}
    with a_file() as few, a_file() as many:
        values = _compared({"few": few.driver, "many": many.driver}, jobs)
        for verb in ("counts", "next_due"):
            values[f"{verb}, many"] = seconds(lambda verb=verb: getattr(many.driver, verb)("many", now=_NOW)) * 1_000
    return values


def _compared(drivers: Mapping[str, Driver], jobs: int) -> Values:
    """Reserve from the queues `few` and `many` in turn."""
    took: dict[str, list[float]] = {queue: [] for queue in drivers}
    for queue, driver in drivers.items():
        _make(driver, queue, max(int(jobs * _BACKLOGS[queue]), _RESERVED))
    for _ in range(_TURNS):
        for queue, driver in drivers.items():
            took[queue].append(_reserve(driver, queue))
    values = {queue: statistics.median(each) for queue, each in took.items()}
    return values | {"many / few": values["many"] / values["few"]}


def _make(driver: Driver, queue: str, ready: int) -> None:
    """Make a backlog, a tenth as many delayed jobs, and a tenth as many that are reserved."""
    _push(driver, queue, ready + ready // 10, _NOW)
    _push(driver, queue, ready // 10, _NOW + _SPAN)
    driver.reserve(queue, now=_NOW, retry_after=_SPAN, limit=ready // 10)


def _reserve(driver: Driver, queue: str) -> float:
    """Reserve jobs, one a call, complete each with reserving the next, and tell the microseconds of a call."""
    began = monotonic()
    held = [driver.reserve(queue, now=_NOW, retry_after=_SPAN)[0] for _ in range(_RESERVED // 2)]
    following = [driver.complete_and_reserve(each, now=_NOW, retry_after=_SPAN)[1] for each in held]
    took = monotonic() - began
    for each in following:
        if each is not None:
            driver.complete(each, now=_NOW)
    _push(driver, queue, _RESERVED, _NOW)
    return took / _RESERVED * 1e6


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
        "sqlite_growth",
        "reserving, and completing with reserving the next, in a backlog of a hundredth and of ten times as many jobs; "
        "and what there is to read of the larger one",
        (
            Figure("few", "µs a call"), Figure("many", "µs a call"), Figure("many / few", "", "at most 1.3"),
            Figure("counts, many", "ms"), Figure("next_due, many", "ms"),
        ),
        _in_files,
    ),
    Benchmark(
        "redis_growth",
        "reserving, and completing with reserving the next, in a backlog of a hundredth and of ten times as many jobs",
        figures(
            Figure("few", "µs a call"), Figure("many", "µs a call"), Figure("many / few", "", "at most 1.3")
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
