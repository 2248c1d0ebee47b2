"""Scenarios of the bug catalogue: what SQLite does unless one takes care, to jobs and to failed jobs."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, fail, failed_one, nothing, only, push, snapshot, take
from verbs import READING, WRITING, prepared, state

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Counts, Driver
from qlab.drivers.database import Database

WITH_A_FILE = ("sqlite", "redis_zset-valkey", "redis_list-valkey")
"""Those whose jobs or failed jobs are in a file, each once."""


def database_of(driver: Any) -> Database:
    """The database that holds a driver's failed jobs, and on SQLite its jobs."""
    return driver.database if driver.name == "sqlite" else driver.failed_jobs.database()


@pytest.fixture
def application(driver: Driver) -> Iterator[sqlite3.Connection]:
    """An application's own connection to the driver's file."""
    with closing(sqlite3.connect(database_of(driver).path, timeout=0, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE books (title TEXT)")
        yield connection


def writes(application: sqlite3.Connection) -> bool:
    """Let the application write, and empty the journal: nobody holds a lock, and nobody still reads."""
    application.execute("BEGIN IMMEDIATE")
    application.execute("INSERT INTO books VALUES ('Emma')")
    application.execute("COMMIT")
    blocked: int = application.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return blocked == 0


# -- transactions that nobody ended --


@pytest.mark.scenario("B51")
@pytest.mark.scenario("B57")
@only(*WITH_A_FILE)
@pytest.mark.parametrize("verb", WRITING | READING)
def test_no_verb_leaves_a_statement_or_a_transaction_open(
    driver: Driver, application: sqlite3.Connection, verb: str
) -> None:
    kept = (WRITING | READING)[verb](driver, QUEUE, prepared(driver, QUEUE))
    assert writes(application)
    if isinstance(kept, list):
        next(iter(kept), None)  # somebody is in the middle of reading the answer
        assert writes(application)
    failed = driver.counts(QUEUE, now=1.0).failed
    failed_one(driver, now=-1.0)
    assert driver.counts(QUEUE, now=1.0).failed == failed + 1


@pytest.mark.scenario("B51")
@only(*WITH_A_FILE)
def test_a_worker_claims_though_it_was_reading_when_another_wrote(
    driver: Driver, open_again: Callable[[], Driver]
) -> None:
    other = open_again()
    failed_one(driver, "first")
    push(driver, "a", "b", "c")
    reading, failures = iter(driver.jobs(QUEUE, now=0.0)), iter(driver.failed(QUEUE))
    assert (next(reading).name, next(failures).name) == ("a", "first")
    push(other, "d")
    assert fail(other, take(other))
    assert take(driver).job.name == "b"
    assert fail(driver, take(driver))
    assert ([job.name for job in reading], list(failures)) == (["b", "c"], [])
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1, reserved=1, failed=3)


@pytest.mark.scenario("B57")
@only(*WITH_A_FILE)
def test_what_another_connection_writes_is_seen_at_once(driver: Driver, open_again: Callable[[], Driver]) -> None:
    other = open_again()
    for number in range(1, 4):
        push(other, "a")
        failed_one(other, now=-1.0)
        assert driver.counts(QUEUE, now=0.0) == other.counts(QUEUE, now=0.0) == Counts(ready=number, failed=number)
        assert len(driver.failed(QUEUE)) == len(driver.failed_ids(QUEUE)) == number


# -- threads --


def work_from(threads: int, work: Callable[[int], object]) -> None:
    """Let threads work at once; what one raises is raised here."""
    start, raised = threading.Barrier(threads), []

    def run(number: int) -> None:
        start.wait(60.0)
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            raised.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(100.0)
    if raised:
        raise raised[0]


@pytest.mark.scenario("B54")
@pytest.mark.scenario("B55")
@only("memory", "sqlite", "sqlite-memory", "redis_zset-valkey", "redis_list-valkey")
def test_a_queue_that_one_thread_made_serves_four(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock())
    ran: Counter[int] = Counter()
    counted = threading.Lock()

    @queue.handler("A", tries=1)
    def handler(job: Any) -> None:
        with counted:
            ran[job.payload] += 1
        if job.payload % 10 == 0:
            raise ValueError(job.payload)

    def work(number: int) -> None:
        queue.dispatch_many([("A", 100 * number + each) for each in range(50)])
        for each in range(50, 100):
            queue.dispatch("A", 100 * number + each)
            queue.work_once()
        queue.drain()
        assert queue.failed()

    work_from(4, work)
    queue.drain()
    assert ran == Counter(range(400))
    assert queue.counts() == Counts(failed=40)
    assert sorted(row.payload for row in queue.failed()) == list(range(0, 400, 10))
    assert queue.retry("all") == 40
    assert len(queue.jobs()) == 40


@pytest.mark.scenario("B54")
@only("sqlite", "sqlite-memory", "redis_zset-valkey", "redis_list-valkey")
def test_a_reservation_passes_from_thread_to_thread(driver: Driver) -> None:
    push(driver, "a", "b", "c", "d")
    held = [take(driver) for _ in range(4)]
    settled: list[bool] = []

    def settle(number: int) -> None:
        settle = driver.complete if number % 2 else driver.release
        settled.append(settle(held[number], now=1.0))

    work_from(4, settle)
    assert settled == [True] * 4
    assert driver.counts(QUEUE, now=1.0) == Counts(ready=2)


@pytest.mark.scenario("B55")
def test_every_address_in_memory_is_a_store_of_its_own_that_all_threads_see() -> None:
    with drivers.open("sqlite:///:memory:") as one, drivers.open("sqlite:///:memory:") as other:
        failed_one(one)
        seen: list[Counts] = []
        work_from(2, lambda number: (push(one, "a"), seen.append(one.counts(QUEUE, now=0.0))))
        assert Counts(ready=2, failed=1) in seen
        assert one.counts(QUEUE, now=0.0) == Counts(ready=2, failed=1)
        assert other.counts(QUEUE, now=0.0) == Counts()


# -- what Python tells of a statement --


class WithoutRowcount(sqlite3.Cursor):
    """A cursor that counts no rows: after RETURNING, Python's count is 0 until all rows are fetched."""

    @property
    def rowcount(self) -> int:
        raise AssertionError("the rows that a statement returned say what it did, not its rowcount")


class Uncounted(sqlite3.Connection):
    def execute(self, *statement: Any) -> Any:
        return self.cursor(WithoutRowcount).execute(*statement)


@pytest.mark.scenario("B56")
@only("sqlite", "sqlite-memory", "memory", "redis_zset-valkey", "redis_list-valkey")
def test_what_a_verb_did_is_told_by_the_rows_that_it_returned(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **how: real(path, factory=Uncounted, **how))
    with drivers.open(address) as driver:
        for verb, use in (WRITING | READING).items():
            use(driver, verb, prepared(driver, verb))
        held = prepared(driver, QUEUE)
        assert driver.complete(held[0], now=1.0)
        assert not driver.complete(held[0], now=1.0)
        assert not driver.release(held[0], now=1.0)
        assert not driver.extend(held[0], now=1.0, seconds=5.0)
        assert not fail(driver, held[0], now=1.0)
        assert driver.complete_and_reserve(held[0], now=1.0, retry_after=None)[0] is False
        assert len(driver.recover(QUEUE, now=1.0, force=True)) == 2
        (id,) = driver.failed_ids(QUEUE)
        assert len(driver.retry(QUEUE, [id], now=1.0)) == 1
        assert driver.retry(QUEUE, [id], now=1.0) == []
        assert driver.forget(QUEUE, [id]) == []
        assert driver.clear(QUEUE, now=1.0) == 4
        assert driver.clear(QUEUE, now=1.0) == 0
        assert nothing(driver, now=1.0)


# -- what a column may hold --

INTEGERS = {
    "jobs": ("attempts", "dispatched_at", "available_at", "seq", "reserved_at", "claimable_since", "ran_out"),
    "jobs_seq": ("seq",),
    "failed_jobs": ("attempts", "dispatched_at", "failed_at"),
}
NO_INTEGERS = ("2026-01-01 00:00:00", "2026-01-01T00:00:00+00:00", "soon", b"1", 1.5)


@pytest.mark.scenario("B58")
@only(*WITH_A_FILE)
def test_a_moment_of_another_kind_is_refused_by_the_table_and_is_never_always_due(
    driver: Driver, application: sqlite3.Connection
) -> None:
    push(driver, "later", at=100.0)
    failed_one(driver, now=-1.0)
    before, file_s = snapshot(driver, now=0.0), state(driver, QUEUE)
    tables = {name for (name,) in application.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    tried = [(table, column) for table in INTEGERS if table in tables for column in INTEGERS[table]]
    assert ("failed_jobs", "failed_at") in tried
    for table, column in tried:
        for value in NO_INTEGERS:
            with pytest.raises(sqlite3.IntegrityError, match="cannot store .* value in INTEGER column"):
                application.execute(f"UPDATE {table} SET {column} = ?", (value,))
    assert snapshot(driver, now=0.0) == before
    assert state(driver, QUEUE) == file_s
    assert nothing(driver, now=99.0)
    assert driver.failed_ids(QUEUE, before=-2.0) == []
    assert take(driver, now=100.0).job.name == "later"


@pytest.mark.scenario("B58")
@only("sqlite")
def test_a_moment_written_by_hand_as_a_number_in_text_is_that_number(
    driver: Driver, application: sqlite3.Connection, tmp_path: Path
) -> None:
    push(driver, "a")
    application.execute("UPDATE jobs SET available_at = '5000000'")
    assert driver.counts(QUEUE, now=4.0) == Counts(delayed=1)
    assert nothing(driver, now=4.999999)
    assert take(driver, now=5.0).claimable_since == 5.0
