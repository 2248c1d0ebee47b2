"""How fast the Redis drivers are against plain redis-py with the same scripts and keys, over TCP."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from qlab.benchmarks.figures import Benchmark, Figure, Values, seconds
from qlab.clock import monotonic
from qlab.contend.arms import Arm, arm
from qlab.contend.stores import Store, Stores
from qlab.crew import Crew
from qlab.errors import QlabError

LAYOUTS = ("zset", "list")
KINDS = ("raw", "qlab")
PROCESSES = 4

_TURNS = 4

Measure = Callable[[Store, int], Values]


def missing() -> str:
    """Say why nothing can be measured on Redis here; empty where it can."""
    with Stores() as stores:
        return stores.missing(_arm(LAYOUTS[0]))


def of_each_layout(measure: Measure) -> Callable[[int, int], Values]:
    """Make a measure of one layout a measure of all, each on a private server; of none where there can be no server."""

    def run(jobs: int, _: int) -> Values:
        values: Values = {}
        for layout in LAYOUTS:
            with Stores() as stores:
                if stores.missing(_arm(layout)):
                    return values
                with stores.store(_arm(layout)) as store:
                    values |= {f"{layout} {name}": value for name, value in measure(store, jobs).items()}
        return values

    return run


def figures(*each: Figure) -> tuple[Figure, ...]:
    """Name figures of one layout as those of all."""
    return tuple(figure._replace(name=f"{layout} {figure.name}") for layout in LAYOUTS for figure in each)


def _arm(layout: str) -> Arm:
    return arm(f"redis_{layout} none tcp")


def _one(store: Store, jobs: int) -> Values:
    """A twentieth of the jobs, in turns."""
    count, took = max(jobs // 20 // _TURNS, 1), dict.fromkeys(KINDS, 0.0)
    with _workers(store) as workers:
        for turn in range(_TURNS):
            for kind in KINDS[:: -1 if turn % 2 else 1]:
                workers["qlab"].fill(_payloads(count))
                began = monotonic()
                done = workers[kind].work()
                took[kind] += monotonic() - began
                _check(done, count)
    return _rates(count * _TURNS, took)


def _four(store: Store, jobs: int) -> Values:
    """A tenth of the jobs, by processes that start together."""
    count, took = max(jobs // 10, 1), {}
    setup = _peer().place_of(store.driver, store.queue)._asdict()
    with _workers(store) as workers:
        for kind in KINDS:
            workers["qlab"].fill(_payloads(count))
            with Crew("qlab.peers.raw_redis", [{"kind": kind, **setup}] * PROCESSES) as crew:
                began = crew.go()
                ends = [message[1][1:] for message in crew.messages() if message]
            took[kind] = max(moment for _, moment in ends) - began
            _check(sum(done for done, _ in ends), count)
    return _rates(count, took)


def _dispatch(store: Store, jobs: int) -> Values:
    """A tenth of the jobs, 500 in a pipeline or script; and how long such a script keeps the server from others."""
    payloads, took, stats = _payloads(max(jobs // 10, 1)), {}, {}
    with _workers(store) as workers:
        client = workers["raw"].client
        for kind in KINDS:
            client.config_resetstat()
            took[kind] = seconds(workers[kind].fill, payloads)
            stats = client.info("commandstats")
            _check(store.driver.clear(store.queue, now=0.0), len(payloads))
    return _rates(len(payloads), took) | {"a script": stats["cmdstat_evalsha"]["usec_per_call"] / 1_000}


def _payloads(count: int) -> list[dict[str, int]]:
    return [{"i": number} for number in range(count)]


def _rates(jobs: int, took: dict[str, float]) -> Values:
    rates = {"redis-py": jobs / took["raw"], "qlab": jobs / took["qlab"]}
    return rates | {"qlab / redis-py": rates["qlab"] / rates["redis-py"]}


def _check(done: int, jobs: int) -> None:
    if done != jobs:
        raise QlabError(f"{done} of {jobs} jobs were done: a job was lost or came twice, so nothing was measured")


def _peer() -> Any:
    """Import what needs redis-py, which not everybody has."""
    return import_module("qlab.peers.raw_redis")


@contextmanager
def _workers(store: Store) -> Iterator[dict[str, Any]]:
    place = _peer().place_of(store.driver, store.queue)
    with closing(_peer().Raw(place)) as raw, closing(_peer().Ours(place)) as ours:
        yield {"raw": raw, "qlab": ours}


def _compared(least: str) -> tuple[Figure, ...]:
    return figures(Figure("redis-py", "jobs/s"), Figure("qlab", "jobs/s"), Figure("qlab / redis-py", "", least))


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "redis",
        "a worker's whole loop, and plain redis-py that reserves by one script call and completes by another",
        _compared("at least 1.7"),
        of_each_layout(_one),
        missing,
    ),
    Benchmark("redis_four", "the same by four processes", _compared("at least 1.7"), of_each_layout(_four), missing),
    Benchmark(
        "redis_dispatch",
        "dispatch_many, and a pipeline of single writes to the same keys",
        (*_compared("at least 0.5"), *figures(Figure("a script", "ms"))),
        of_each_layout(_dispatch),
        missing,
    ),
)
