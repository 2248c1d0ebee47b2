"""What only SQLite has: a file, a lock, and transactions that an application can join."""

import multiprocessing
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import racers
from conftest import QUEUE, Snapshot, fail, failed_one, new, only, outcomes, push, snapshot, stores, take, told
from verbs import READING, WRITING, assert_sound, prepared, state

from qlab import Queue, SimulatedClock, SystemClock, drivers
from qlab.driver import Counts, Driver
from qlab.drivers import database
from qlab.drivers.sqlite import SqliteDriver
from qlab.drivers.statements import sql
from qlab.errors import DriverUnavailable, UnusableStore

store = stores("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def application(path: Path, driver: Driver) -> Iterator[sqlite3.Connection]:
    """An application's own connection to the same file, with a table of its own."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS books (title TEXT)")
        connection.commit()
        yield connection


@pytest.fixture
def queue(queue: Queue) -> Queue:
    queue.handler("A")(lambda job: None)
    return queue


# -- in the application's own transaction --

WAYS: dict[str, Callable[..., Any]] = {
    "dispatch": lambda queue, connection: queue.dispatch("A", 1, connection=connection),
    "dispatch_later": lambda queue, connection: queue.dispatch_later("A", 1, delay=5.0, connection=connection),
    "dispatch_at": lambda queue, connection: queue.dispatch_at("A", 1, at=5.0, connection=connection),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@every_way
def test_a_row_and_its_job_commit_together(
    queue: Queue, application: sqlite3.Connection, way: Callable[..., Any]
) -> None:
    application.execute("INSERT INTO books VALUES ('Emma')")
    job = way(queue, application)
    assert queue.counts() == Counts()  # nobody sees it yet
    application.commit()
    assert queue.jobs() == [job]
    assert application.execute("SELECT title FROM books").fetchall() == [("Emma",)]
    assert outcomes(queue, 5.0) == ["Completed"]
    assert queue.trace[0].detail == "in the application's transaction"


@every_way
def test_a_row_and_its_job_roll_back_together(
    queue: Queue, application: sqlite3.Connection, way: Callable[..., Any]
) -> None:
    application.execute("INSERT INTO books VALUES ('Emma')")
    way(queue, application)
    application.rollback()
    assert snapshot(queue.driver, now=9.0) == Snapshot(Counts(), [], [], None)
    assert application.execute("SELECT title FROM books").fetchall() == []


def test_the_transaction_stays_the_application_s(queue: Queue, application: sqlite3.Connection) -> None:
    application.execute("BEGIN IMMEDIATE")
    queue.dispatch("A", connection=application)
    queue.dispatch("A", connection=application)
    assert application.in_transaction
    application.commit()
    assert [job.id for job in queue.jobs()] == [1, 2]


def test_a_refused_payload_leaves_the_transaction_as_it_was(queue: Queue, application: sqlite3.Connection) -> None:
    application.execute("INSERT INTO books VALUES ('Emma')")
    with pytest.raises(ValueError, match="set"):
        queue.dispatch("A", {1}, connection=application)
    application.commit()
    assert application.execute("SELECT title FROM books").fetchall() == [("Emma",)]
    assert queue.counts() == Counts()


FACTORIES: dict[str, Callable[[sqlite3.Connection], None]] = {
    "rows by name": lambda connection: setattr(connection, "row_factory", sqlite3.Row),
    "dictionaries": lambda connection: setattr(
        connection, "row_factory", lambda cursor, row: dict(zip((c[0] for c in cursor.description), row, strict=True))
    ),
    "bytes": lambda connection: setattr(connection, "text_factory", bytes),
    "autocommit": lambda connection: setattr(connection, "isolation_level", None),
}


@pytest.mark.parametrize("setting", FACTORIES.values(), ids=FACTORIES)
def test_the_application_s_connection_may_be_set_as_it_likes(
    queue: Queue, application: sqlite3.Connection, setting: Callable[[sqlite3.Connection], None]
) -> None:
    setting(application)
    application.execute("BEGIN")
    job = queue.dispatch("A", "é", connection=application)
    application.commit()
    assert queue.jobs() == [job]


def test_a_resend_in_the_application_s_transaction_finds_the_job(
    driver: Driver, application: sqlite3.Connection
) -> None:
    assert isinstance(driver, SqliteDriver)
    job = new("A")
    first = driver.push(QUEUE, [job], now=0.0, connection=application)
    assert driver.push(QUEUE, [job], now=1.0, connection=application) == first
    application.commit()
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


def test_a_connection_to_another_file_is_refused(queue: Queue, tmp_path: Path) -> None:
    for other in (str(tmp_path / "other.db"), ":memory:", ""):
        with (
            closing(sqlite3.connect(other)) as connection,
            pytest.raises(ValueError, match="only where both are in the same file"),
        ):
            queue.dispatch("A", connection=connection)
    assert queue.counts() == Counts()
    assert told(queue) == []


def test_the_same_file_by_another_name_is_the_same_file(queue: Queue, path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with closing(sqlite3.connect(tmp_path / "link.db")) as connection:
        queue.dispatch("A", connection=connection)
        connection.commit()
    assert queue.counts() == Counts(ready=1)


def test_a_temp_table_that_hides_the_queue_s_is_refused(queue: Queue, application: sqlite3.Connection) -> None:
    for table in ("jobs", "Jobs_Seq", "failed_jobs"):
        for made in (f"TABLE {table} (x)", f"VIEW {table} AS SELECT 1"):
            application.execute(f"CREATE TEMP {made}")
            with pytest.raises(ValueError, match=rf"has a TEMP table or view '{table.lower()}', which hides"):
                queue.dispatch("A", connection=application)
            application.execute(f"DROP {made.split()[0]} temp.{table}")
    assert queue.counts() == Counts()
    queue.dispatch("A", connection=application)
    application.commit()
    assert queue.counts() == Counts(ready=1)


def test_a_connection_that_is_closed_or_another_thread_s_is_refused(queue: Queue, path: Path) -> None:
    closed = sqlite3.connect(path)
    closed.close()
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(sqlite3.connect, path).result()
        for connection, says in ((closed, "closed database"), (other, "in that same thread")):
            with pytest.raises(ValueError, match=rf"connection= cannot be used: use one that is open.*{says}"):
                queue.dispatch("A", connection=connection)
        thread.submit(other.close).result()
    assert queue.counts() == Counts()
    assert told(queue) == []


def test_a_connection_that_cannot_write_is_told(queue: Queue, path: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        pytest.raises(UnusableStore, match=r"cannot be written .* or your connection=, is not read-only"),
    ):
        queue.dispatch("A", connection=connection)
    assert queue.counts() == Counts()


def test_a_connection_to_a_file_that_is_gone_is_refused(queue: Queue, tmp_path: Path) -> None:
    gone = tmp_path / "gone.db"
    with closing(sqlite3.connect(gone)) as connection:
        gone.unlink()
        with pytest.raises(ValueError, match="only where both are in the same file"):
            queue.dispatch("A", connection=connection)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:"])
def test_a_store_in_memory_has_no_transaction_to_join(url: str, application: sqlite3.Connection) -> None:
    with Queue(url) as queue:
        queue.handler("A")(lambda job: None)
        with pytest.raises((TypeError, ValueError), match="only (in|where)"):
            queue.dispatch("A", connection=application)
        assert queue.counts() == Counts()


def test_a_transaction_that_reads_an_old_state_is_told_to_begin_anew(
    queue: Queue, application: sqlite3.Connection
) -> None:
    application.execute("BEGIN")
    application.execute("SELECT * FROM books").fetchall()
    queue.dispatch("A", "meanwhile")
    with pytest.raises(DriverUnavailable, match="roll it back, and begin with BEGIN IMMEDIATE"):
        queue.dispatch("A", connection=application)
    application.rollback()
    assert [job.payload for job in queue.jobs()] == ["meanwhile"]


# -- the lock --


def test_the_lock_is_waited_for_and_the_wait_is_told(driver: Driver, application: sqlite3.Connection) -> None:
    queue = Queue(driver, name=QUEUE, clock=SystemClock())
    queue.handler("A")(lambda job: None)
    application.execute("BEGIN IMMEDIATE")
    jobs: list[Any] = []
    thread = threading.Thread(target=lambda: jobs.append(queue.dispatch("A")))
    with waited_for(driver) as waits:
        thread.start()
        assert waits.wait(60.0)
        assert jobs == []
        application.commit()
    thread.join(60.0)
    assert len(jobs) == 1
    (blocked,) = (event for event in queue.trace if event.kind == "blocked")
    assert blocked.since is not None
    assert blocked.since < blocked.at
    assert told(queue, "dispatched") != []


class waited_for:  # noqa: N801 - reads as what it does
    """Gives an event that is set when somebody begins to wait for the lock."""

    def __init__(self, driver: Driver) -> None:
        self._monkeypatch = pytest.MonkeyPatch()
        self._event = threading.Event()

    def __enter__(self) -> threading.Event:
        real = database.pause

        def pause(seconds: float) -> None:
            self._event.set()
            real(seconds)

        self._monkeypatch.setattr(database, "pause", pause)
        return self._event

    def __exit__(self, *exc: object) -> None:
        self._monkeypatch.undo()


def test_in_simulated_time_a_wait_for_the_lock_leaves_no_trace(queue: Queue, application: sqlite3.Connection) -> None:
    application.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=lambda: queue.dispatch("A"))
    with waited_for(queue.driver) as waits:
        thread.start()
        assert waits.wait(60.0)
        application.commit()
    thread.join(60.0)
    assert told(queue) == [(0.0, "dispatched", 1)]


def test_the_lock_of_another_process_is_waited_for(queue: Queue, path: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    held, let_go = processes.Event(), processes.Event()
    holder = processes.Process(target=racers.hold_the_lock, args=(str(path), held, let_go))
    holder.start()
    assert held.wait(60.0)
    said: list[Any] = []
    thread = threading.Thread(target=lambda: (queue.dispatch("A"), said.append(queue.work_once())))
    with waited_for(queue.driver) as waits:
        thread.start()
        assert waits.wait(60.0)
        let_go.set()
    thread.join(60.0)
    holder.join(60.0)
    assert [type(outcome).__name__ for outcome in said] == ["Completed"]


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
@pytest.mark.parametrize("held", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_lock_that_is_held_for_too_long_is_an_error_and_changes_nothing(
    tmp_path: Path, journal: str, held: str
) -> None:
    path = tmp_path / "other.db"
    url = f"sqlite:///{path}?journal={journal}&lock_wait=0.02"
    says = rf"{path} has been locked by another connection for 0\.\d s: .*lock_wait=SECONDS"
    with drivers.open(url) as driver, closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as application:
        reservations = {verb: prepared(driver, verb) for verb in WRITING}
        before = {verb: state(driver, verb) for verb in WRITING}
        application.execute(f"BEGIN {held}")
        for verb, use in WRITING.items():
            with pytest.raises(DriverUnavailable, match=says):
                use(driver, verb, reservations[verb])
        if (journal, held) == ("DELETE", "EXCLUSIVE"):
            for use in (*READING.values(), lambda *_: drivers.open(url)):
                with pytest.raises(DriverUnavailable, match=says):
                    use(driver, "push", [])
        else:  # readers wait for nobody
            assert {verb: state(driver, verb) for verb in WRITING} == before
            drivers.open(url).close()
        application.execute("ROLLBACK")
        assert {verb: state(driver, verb) for verb in WRITING} == before
        for verb, use in WRITING.items():
            use(driver, verb, reservations[verb])
            assert state(driver, verb) != before[verb]
    assert_sound(path)


@only("redis_zset-valkey", "redis_list-valkey")
def test_a_table_of_failed_jobs_that_is_locked_for_too_long_takes_them_later(
    driver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    held = prepared(driver, QUEUE)
    table = driver.failed_jobs.database()
    table.lock_wait = 0.02
    with closing(sqlite3.connect(table.path, timeout=0, isolation_level=None)) as application:
        application.execute("BEGIN EXCLUSIVE")
        assert fail(driver, held[0], error="ValueError: the handler's own")
        assert f"{table.path} has been locked by another connection" in caplog.text
        assert driver.counts(QUEUE, now=1.0) == Counts(ready=2, reserved=1, failed=2)
        before = state(driver, QUEUE)
        for verb in ("push again", "retry", "forget"):
            with pytest.raises(DriverUnavailable, match="has been locked by another connection"):
                WRITING[verb](driver, QUEUE, held)
        assert state(driver, QUEUE) == before
        application.execute("ROLLBACK")
    assert len(driver.failed_ids(QUEUE)) == 2
    assert state(driver, QUEUE) == before
    assert_sound(table.path)


def test_no_verb_leaves_a_transaction_open(driver: Driver, application: sqlite3.Connection) -> None:
    application.isolation_level = None
    push(driver, "A", "B", "C", "D", "E")
    held = [take(driver) for _ in range(4)]

    def nobody_holds_the_lock() -> bool:
        application.execute("BEGIN IMMEDIATE")
        application.execute("INSERT INTO books VALUES ('x')")
        application.execute("COMMIT")
        return application.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

    for use in (
        lambda: push(driver, "F"),
        lambda: driver.jobs(QUEUE, now=0.0),
        lambda: iter(driver.jobs(QUEUE, now=0.0)).__next__(),
        lambda: take(driver),
        lambda: driver.extend(held[0], now=0.0, seconds=5.0),
        lambda: driver.complete(held[0], now=0.0),
        lambda: driver.complete(held[0], now=0.0),
        lambda: driver.release(held[1], now=0.0),
        lambda: driver.release(held[1], now=0.0),
        lambda: fail(driver, held[2]),
        lambda: fail(driver, held[2]),
        lambda: driver.complete_and_reserve(held[3], now=0.0, retry_after=90.0),
        lambda: driver.failed(QUEUE),
        lambda: driver.retry(QUEUE, driver.failed_ids(QUEUE), now=0.0),
        lambda: driver.forget(QUEUE, [5]),
        lambda: driver.recover(QUEUE, now=1.0, force=True),
        lambda: driver.counts(QUEUE, now=0.0),
        lambda: driver.next_due(QUEUE, now=0.0),
        lambda: driver.check(QUEUE, now=0.0),
        lambda: driver.clear(QUEUE, now=0.0),
    ):
        use()
        assert nobody_holds_the_lock()


def test_a_push_that_fails_half_way_stores_nothing_and_lets_the_lock_go(driver: Driver) -> None:
    class Odd(str):
        __slots__ = ()

    bad = new("A")._replace(body=b"no text")  # type: ignore[arg-type]
    with pytest.raises(DriverUnavailable):
        driver.push(QUEUE, [new("A"), bad], now=0.0)
    assert snapshot(driver, now=0.0) == Snapshot(Counts(), [], [], None)
    assert len(push(driver, Odd("B"))) == 1


def test_many_jobs_are_stored_by_one_statement_that_is_given_all_of_them(driver: Driver) -> None:
    with driver.statements() as seen:
        push(driver, *"ABCDE")
    assert [statement.verb for statement in seen] == ["begin", "push", "push", "push", "push", "commit"]
    assert seen[2].text.startswith("INSERT INTO jobs")
    assert seen[2].values.endswith("; and 4 more")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_many_jobs_join_the_application_s_transaction(
    driver: Any, application: sqlite3.Connection, begun: bool, known: bool
) -> None:
    application.isolation_level = None
    if begun:
        application.execute("BEGIN")
    jobs = [new(name) for name in "ABC"]
    before = driver.push(QUEUE, jobs[1:2], now=0.0) if known else []
    there = driver.push(QUEUE, jobs, now=0.0, connection=application)
    assert application.in_transaction is begun
    if begun:
        assert driver.jobs(QUEUE, now=0.0) == before
        application.commit()
    assert sorted(driver.jobs(QUEUE, now=0.0), key=lambda job: job.name) == there


def test_an_application_s_trigger_may_make_jobs_of_its_own(driver: Driver, application: sqlite3.Connection) -> None:
    application.execute("""
        CREATE TRIGGER twice AFTER INSERT ON jobs WHEN NEW.name = 'A' BEGIN
            INSERT INTO jobs (uid, queue, name, payload, dispatched_at, available_at, seq)
            VALUES (NEW.uid || '+', NEW.queue, 'B', '{}', NEW.dispatched_at, NEW.available_at, NEW.seq);
        END""")
    pushed = push(driver, "A", "C", "A")
    there = {job.id: job for job in driver.jobs(QUEUE, now=0.0)}
    assert [there[job.id] for job in pushed] == pushed
    assert sorted(job.name for job in there.values()) == ["A", "A", "B", "B", "C"]


def test_a_trigger_that_rolls_a_push_back_leaves_nothing_of_it(driver: Driver, application: sqlite3.Connection) -> None:
    application.execute("""
        CREATE TRIGGER never BEFORE INSERT ON jobs WHEN NEW.name = 'C' BEGIN SELECT RAISE(ROLLBACK, 'no C'); END""")
    with pytest.raises(DriverUnavailable, match="no C"):
        push(driver, "A", "B", "C", "D")
    assert snapshot(driver, now=0.0) == Snapshot(Counts(), [], [], None)


def test_a_failure_that_cannot_be_written_leaves_the_job_reserved(
    driver: Driver, application: sqlite3.Connection
) -> None:
    push(driver, "A")
    held = take(driver)
    application.execute("CREATE TRIGGER full BEFORE INSERT ON failed_jobs BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(DriverUnavailable, match="full"):
        fail(driver, held)
    assert driver.counts(QUEUE, now=0.0) == Counts(reserved=1)
    application.execute("DROP TRIGGER full")
    assert fail(driver, held)


def test_a_claim_is_one_statement(driver: Driver) -> None:
    push(driver, "A", "B")
    with driver.statements() as seen:
        held = take(driver)
        driver.complete(held, now=0.0)
    assert [statement.text for statement in seen] == [sql("reserve")[0], sql("complete")[0]]
    assert seen[0].text.startswith("UPDATE jobs SET")
    assert "RETURNING" in seen[0].text


HOT = {
    ("reserve", 0): ["jobs USING INTEGER PRIMARY KEY", "jobs USING COVERING INDEX jobs_claimable"],
    ("complete", 0): ["jobs USING INTEGER PRIMARY KEY"],
    ("extend", 0): ["jobs USING INTEGER PRIMARY KEY"],
    ("release", 0): ["jobs USING INTEGER PRIMARY KEY", "SCAN jobs_seq"],
    ("release", 1): ["SCAN jobs_seq"],
    ("fail", 1): ["jobs USING INTEGER PRIMARY KEY"],
    ("push", 0): ["SCAN jobs_seq"],
    ("push", 1): ["jobs USING COVERING INDEX sqlite_autoindex_jobs_1"],
    ("next_due", 0): ["jobs USING COVERING INDEX jobs_claimable"],
}
"""Where the statements of every job look: one row by its number, or along an index; `jobs_seq` has one row."""


@pytest.mark.parametrize("analysed", [0, 1, 300], ids=["new", "analysed with one job", "analysed with 300"])
@pytest.mark.parametrize(("verb", "which"), HOT, ids=str)
def test_a_statement_of_every_job_looks_through_an_index_and_sorts_nothing(
    driver: Driver, application: sqlite3.Connection, verb: str, which: int, analysed: int
) -> None:
    """Also where an application has let SQLite note what is in its tables, which changes plans."""
    push(driver, *["A"] * analysed)
    if analysed:
        application.execute("ANALYZE")
    text = sql(verb)[which]
    values = dict.fromkeys(re.findall(r":(\w+)", text), 0)
    plan = [row[3] for row in application.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    looks = [step for step in plan if step.startswith(("SEARCH", "SCAN")) and step != "SCAN CONSTANT ROW"]
    assert len(looks) == len(HOT[verb, which])
    assert all(where in look for where, look in zip(HOT[verb, which], looks, strict=True)), plan
    assert not [step for step in plan if "TEMP B-TREE" in step]


# -- failed_jobs beside the jobs --


def test_a_failure_is_one_transaction(driver: Driver) -> None:
    push(driver, "A")
    held = take(driver)
    with driver.statements() as seen:
        fail(driver, held)
    assert [statement.verb for statement in seen] == ["begin", "fail", "fail", "commit"]


def test_a_retry_is_one_transaction(driver: Driver) -> None:
    row = failed_one(driver)
    with driver.statements() as seen:
        driver.retry(QUEUE, [row.id or 0], now=0.0)
    verbs = [statement.verb for statement in seen]
    assert (verbs[0], verbs[-1], verbs.count("begin")) == ("begin", "commit", 1)


def test_two_clocks_may_share_a_file(driver: Driver) -> None:
    """A simulated clock that stands at 0 beside the machine's: jobs of each are due by their own times."""
    simulated = Queue(driver, name="simulated", clock=SimulatedClock())
    real = Queue(driver, name="real")
    for queue in (simulated, real):
        queue.handler("A")(lambda job: None)
        queue.dispatch("A")
    assert outcomes(simulated, 0.0) == ["Completed"]
    assert type(real.work_once()).__name__ == "Completed"
