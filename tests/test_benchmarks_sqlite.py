"""`qlab bench` on SQLite: both sides do the same jobs on the same table, and nothing is left. No speed is asserted."""

import math
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from qlab import benchmarks
from qlab.benchmarks import sqlite as sqlite_benchmarks
from qlab.contend.stores import Store
from qlab.driver import Counts
from qlab.drivers import database
from qlab.peers import raw_sqlite

NAMES = [each.name for each in benchmarks.BENCHMARKS if each.name.startswith("sqlite")]
QUEUE = raw_sqlite.QUEUE
PAYLOADS = [{"i": number} for number in range(20)]


@pytest.fixture
def store() -> Iterator[Store]:
    with sqlite_benchmarks.a_file() as one:
        yield one


@pytest.fixture
def workers(store: Store) -> Iterator[dict[str, Any]]:
    driver = sqlite_benchmarks.driver_of(store)
    with closing(raw_sqlite.Raw(driver)) as raw, closing(raw_sqlite.Raw(driver, fused=True)) as fused:
        yield {"raw": raw, "fused": fused, "qlab": raw_sqlite.Ours(driver)}


@pytest.mark.parametrize("kind", ["raw", "fused", "qlab"])
def test_each_loop_does_every_job_once(store: Store, workers: dict[str, Any], kind: str) -> None:
    workers["qlab"].fill(PAYLOADS)
    with store.driver.statements() as seen:
        assert workers[kind].work() == len(PAYLOADS)
    assert store.driver.counts(QUEUE, now=0.0) == Counts()
    assert store.driver.check(QUEUE, now=0.0) == []
    assert bool(seen) == (kind == "qlab")


@pytest.fixture
def growing_wal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would begin anew at a moment of chance, also while the store is made: ask for this before the store."""
    monkeypatch.setattr(database, "_CHECKPOINT_EVERY", 10**9)


@pytest.mark.parametrize(("kind", "transactions"), [("raw", 41), ("fused", 21)])
def test_the_bare_loops_commit_as_often_as_they_say(
    growing_wal: None, store: Store, workers: dict[str, Any], kind: str, transactions: int
) -> None:
    """A frame of the WAL says with each commit how many pages the file then has."""
    workers["qlab"].fill(PAYLOADS)
    wal = Path(f"{sqlite_benchmarks.driver_of(store).database.path}-wal")
    before = commits(wal)
    workers[kind].work()
    # The last call finds nothing: it writes nothing, and fused it completes the last job.
    assert commits(wal) - before == transactions - (kind == "raw")


def commits(wal: Path) -> int:
    """Count the commits in a WAL whose pages have 4,096 bytes."""
    data = wal.read_bytes()[32:]
    heads = (data[start : start + 24] for start in range(0, len(data), 24 + 4_096))
    return sum(int.from_bytes(head[4:8], "big") > 0 for head in heads)


def test_a_worker_of_qlab_stops_after_as_many_jobs_as_it_is_told(store: Store, workers: dict[str, Any]) -> None:
    workers["qlab"].fill(PAYLOADS)
    assert workers["qlab"].work(7) == 7
    assert store.driver.counts(QUEUE, now=9e9) == Counts(ready=13)


def test_executemany_leaves_what_dispatch_many_leaves(store: Store, workers: dict[str, Any]) -> None:
    for kind in ("raw", "qlab"):
        workers[kind].fill(PAYLOADS)
    jobs = store.driver.jobs(QUEUE, now=0.0)
    by_hand, by_qlab = jobs[: len(PAYLOADS)], jobs[len(PAYLOADS) :]
    assert [(job.name, job.body, job.attempts) for job in by_hand] == [
        (job.name, job.body, job.attempts) for job in by_qlab
    ]
    assert [job.id for job in jobs] == list(range(1, 2 * len(PAYLOADS) + 1))
    assert all(job.dispatched_at == job.available_at for job in jobs)


@pytest.mark.parametrize("waits", raw_sqlite.WAITS)
def test_a_process_waits_for_the_lock_as_it_is_told(store: Store, waits: str) -> None:
    driver = sqlite_benchmarks.driver_of(store)
    if waits == "sqlite":
        raw_sqlite.let_sqlite_wait(driver)
    found = driver.database.use(lambda connection: connection.execute("PRAGMA busy_timeout").fetchone()[0])
    assert found == (5_000 if waits == "sqlite" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_measured_and_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    measured = benchmarks.measure([name], jobs=100, runs=1).measured
    assert [each.figure for each in measured]
    for each in measured:
        assert len(each.runs) == 1
        least = 0.0 if "fewest" in each.figure else 1e-9  # a process may come too late for any of 100 jobs
        assert least <= each.runs[0] < math.inf
        if each.figure.endswith("worst reserve"):
            assert each.runs[0] > 0.01  # it is in milliseconds: none takes less
    assert list(tmp_path.iterdir()) == []
    assert children() == before


def test_a_backlog_is_made_once_however_many_runs_there_are() -> None:
    assert {len(each.runs) for each in benchmarks.measure(["sqlite_growth"], jobs=100, runs=3).measured} == {1}


def test_a_job_that_is_lost_ends_the_measurement_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_sqlite.Raw, "work", lambda _: 0)
    (problem,) = benchmarks.measure(["sqlite"], jobs=100, runs=1).problems
    assert "0 of 5 jobs were done" in problem


def children() -> set[str]:
    """The numbers of this process's children, as Linux lists them for its main thread."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())
