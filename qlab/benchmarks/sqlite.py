"""How fast the sqlite driver is against plain `sqlite3` with the same statements, and how processes share a file."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import cast

from qlab.benchmarks.figures import Benchmark, Figure, Values, seconds
from qlab.clock import monotonic
from qlab.contend.arms import arm
from qlab.contend.stores import Store, Stores
from qlab.crew import Crew
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import QlabError
from qlab.job import NewJob
from qlab.peers.raw_sqlite import NAME, QUEUE, WAITS, Ours, Raw, fill
from qlab.queue import CHUNK
from qlab.tokens import Tokens

PROCESSES = 8

_TURNS = 4
_OWN = {"qlab": "", "sqlite": "SQLite's own "}


@contextmanager
def a_file(synchronous: str = "NORMAL") -> Iterator[Store]:
    """Make a store in a file of its own, which is gone when the context closes."""
    with Stores() as stores, stores.store(arm(f"sqlite {synchronous}"), QUEUE) as store:
        yield store


def driver_of(store: Store) -> SqliteDriver:
    """Tell the driver of `a_file`."""
    return cast("SqliteDriver", store.driver)


def _one(synchronous: str, share: int) -> Callable[[int, int], Values]:
    """A share of the jobs, in turns on the same file."""

    def run(jobs: int, _: int) -> Values:
        count = max(jobs // share // _TURNS, 1)
        with a_file(synchronous) as store:
            driver = driver_of(store)
            with closing(Raw(driver)) as raw, closing(Raw(driver, fused=True)) as fused:
                workers: dict[str, Raw | Ours] = {"sqlite3": raw, "sqlite3 fused": fused, "qlab": Ours(driver)}
                took = dict.fromkeys(workers, 0.0)
                for turn in range(_TURNS):
                    for name in list(workers)[:: -1 if turn % 2 else 1]:
                        fill(driver, count)
                        began = monotonic()
                        done = workers[name].work()
                        took[name] += monotonic() - began
                        _check(done, count)
        rates = {name: count * _TURNS / each for name, each in took.items()}
        return rates | {f"{name} / sqlite3": rates[name] / rates["sqlite3"] for name in ("qlab", "sqlite3 fused")}

    return run


def _eight(synchronous: str, share: int) -> Callable[[int, int], Values]:
    """A share of the jobs, by processes that start together and wait for the lock as qlab does, or as SQLite does."""

    def run(jobs: int, run: int) -> Values:
        count = max(jobs // share, PROCESSES)
        values: Values = {}
        for waits in WAITS[:: -1 if run % 2 else 1]:
            values |= {f"{_OWN[waits]}{name}": value for name, value in _shared(synchronous, waits, count).items()}
        return values | {"qlab / SQLite's own": values["jobs/s"] / values["SQLite's own jobs/s"]}

    return run


def _shared(synchronous: str, waits: str, jobs: int) -> Values:
    with a_file(synchronous) as store:
        fill(store.driver, jobs)
        with Crew("qlab.peers.raw_sqlite", [{"url": store.url, "waits": waits}] * PROCESSES) as crew:
            began = crew.go()
            ends = [said[1] for said in crew.messages() if said]
        journal = _megabytes(store, "-wal")
    done = [each for _, each, *_ in ends]
    _check(sum(done), jobs)
    return {
        "jobs/s": jobs / (max(moment for _, _, moment, _ in ends) - began),
        "fewest / most": min(done) / max(done),
        "worst reserve": max(worst for *_, worst in ends) * 1_000,
        "WAL": journal,
    }


def _dispatch(jobs: int, run: int) -> Values:
    """A tenth of the jobs, each time into a new file; and a chunk of them, which holds the lock for so long."""
    count, held = max(jobs // 10, 1), 0.0
    took: dict[str, float] = {}
    payloads = [{"i": number} for number in range(count)]
    for name in ("sqlite3", "qlab")[:: -1 if run % 2 else 1]:
        with a_file() as store:
            driver = driver_of(store)
            with closing(Raw(driver)) as raw:
                worker = raw if name == "sqlite3" else Ours(driver)
                took[name] = seconds(worker.fill, payloads)
            tokens = Tokens()
            chunk = [NewJob(tokens.next(), NAME, '{"i":1}', 0.0) for _ in range(CHUNK)]
            held = seconds(lambda driver=driver, chunk=chunk: driver.push("other", chunk, now=0.0))
            _check(driver.clear(QUEUE, now=0.0), count)
    rates = {name: count / each for name, each in took.items()}
    return rates | {"qlab / sqlite3": rates["qlab"] / rates["sqlite3"], "a chunk": held * 1_000}


def _steady(jobs: int, _: int) -> Values:
    """Half of the jobs, as many dispatched as done, with a backlog; what the file is in the middle, and at the end."""
    rounds = max(jobs // 2 // CHUNK, 2)
    sizes: list[float] = []
    with a_file() as store:
        worker = Ours(store.driver)
        worker.fill({"i": number} for number in range(10 * CHUNK))
        for number in range(1, rounds + 1):
            worker.fill({"i": number} for number in range(CHUNK))
            _check(worker.work(CHUNK), CHUNK)
            if number in (rounds // 2, rounds):
                sizes.append(_megabytes(store, ""))
        middle, end = sizes
        return {"file": end, "WAL": _megabytes(store, "-wal"), "end / middle": end / middle}


def _megabytes(store: Store, suffix: str) -> float:
    return (store.folder / f"jobs.db{suffix}").stat().st_size / 1e6


def _check(done: int, jobs: int) -> None:
    if done != jobs:
        raise QlabError(f"{done} of {jobs} jobs were done: a job was lost or came twice, so nothing was measured")


def _compared(least: str) -> tuple[Figure, ...]:
    return (
        Figure("sqlite3", "jobs/s"),
        Figure("sqlite3 fused", "jobs/s"),
        Figure("qlab", "jobs/s"),
        Figure("qlab / sqlite3", "", least),
        Figure("sqlite3 fused / sqlite3"),
    )


def _fair(share: str, worst: str, throughput: str) -> tuple[Figure, ...]:
    return (
        Figure("jobs/s", "jobs/s"),
        Figure("SQLite's own jobs/s", "jobs/s"),
        Figure("qlab / SQLite's own", "", throughput),
        Figure("fewest / most", "", share),
        Figure("SQLite's own fewest / most"),
        Figure("worst reserve", "ms", worst),
        Figure("SQLite's own worst reserve", "ms"),
        Figure("WAL", "MB"),
        Figure("SQLite's own WAL", "MB"),
    )


_EIGHT = "by eight processes that wait for the lock as qlab does, or as SQLite does by itself"

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "sqlite",
        "a worker's whole loop, and plain sqlite3 that reserves in one transaction and completes in another; fused, in "
        "one; WAL, synchronous=NORMAL",
        _compared("at least 0.9"),
        _one("NORMAL", 5),
    ),
    Benchmark("sqlite_full", "the same with synchronous=FULL", _compared("at least 1.6"), _one("FULL", 20)),
    Benchmark(
        "sqlite_eight",
        f"a worker's whole loop {_EIGHT}; synchronous=NORMAL",
        _fair("at least 0.7", "at most 100", "at least 0.85"),
        _eight("NORMAL", 1),
    ),
    Benchmark(
        "sqlite_eight_full",
        "the same with synchronous=FULL",
        _fair("at least 0.6", "at most 250", "at least 1"),
        _eight("FULL", 5),
    ),
    Benchmark(
        "sqlite_dispatch",
        "dispatch_many, and executemany in one transaction",
        (
            Figure("sqlite3", "jobs/s"), Figure("qlab", "jobs/s"), Figure("qlab / sqlite3", "", "at least 0.5"),
            Figure("a chunk", "ms"),
        ),
        _dispatch,
    ),
    Benchmark(
        "sqlite_file",
        "what the file and its WAL are while as many jobs come as go",
        (Figure("file", "MB"), Figure("WAL", "MB", "at most 64"), Figure("end / middle", "", "at most 1.1")),
        _steady,
    ),
)  # fmt: skip
"""What is measured of SQLite, but for `backlogs`."""
