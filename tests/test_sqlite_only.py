"""What only SQLite has: a file, a lock, and transactions that an application can join."""

import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import racers
from conftest import QUEUE, Snapshot, fail, failed_one, new, outcomes, push, snapshot, stores, take, told

from qlab import Queue, SimulatedClock, SystemClock, drivers
from qlab.driver import Counts, Driver
from qlab.drivers import database
from qlab.drivers.database import check_version
from qlab.drivers.sqlite import SqliteDriver
from qlab.drivers.statements import sql
from qlab.errors import DriverUnavailable, MissingRequirement, UnusableStore

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


def test_a_lock_that_is_held_for_too_long_is_an_error_and_changes_nothing(
    application: sqlite3.Connection, path: Path
) -> None:
    with drivers.open(f"sqlite:///{path}?lock_wait=0.02") as impatient:
        push(impatient, "A", "B")
        held = take(impatient)
        before = snapshot(impatient, now=0.0)
        application.execute("BEGIN IMMEDIATE")
        for use in (
            lambda: push(impatient, "C"),
            lambda: take(impatient),
            lambda: impatient.complete(held, now=0.0),
            lambda: impatient.complete_and_reserve(held, now=0.0, retry_after=90.0),
            lambda: impatient.release(held, now=0.0),
            lambda: impatient.extend(held, now=0.0, seconds=5.0),
            lambda: fail(impatient, held),
            lambda: impatient.recover(QUEUE, now=0.0, force=True),
            lambda: impatient.clear(QUEUE, now=0.0),
            lambda: impatient.retry(QUEUE, [1], now=0.0),
            lambda: impatient.forget(QUEUE, [1]),
        ):
            with pytest.raises(DriverUnavailable, match=r"has been locked by another connection for \d+\.\d s"):
                use()
        assert snapshot(impatient, now=0.0) == before  # readers wait for nobody
        application.commit()
        assert impatient.complete(held, now=0.0)


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


def test_a_claim_finds_its_job_through_the_index(driver: Driver, application: sqlite3.Connection) -> None:
    values = {"queue": QUEUE, "now": 0, "deadline": 1, "token": "x", "limit": 1}
    plan = " ".join(row[3] for row in application.execute(f"EXPLAIN QUERY PLAN {sql('reserve')[0]}", values))
    assert "jobs_claimable (queue=? AND available_at<?)" in plan
    assert "SCAN" not in plan.replace("LIST SUBQUERY", "")
    assert "TEMP B-TREE" not in plan


# -- the file --


def test_a_new_file_is_its_owner_s_alone(driver: Driver, path: Path) -> None:
    push(driver, "A")
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL", "FULL", "EXTRA"])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_settings_reach_every_connection_and_are_told(path: Path, synchronous: str, journal: str) -> None:
    with drivers.open(f"sqlite:///{path}?synchronous={synchronous.lower()}&journal={journal.lower()}") as driver:
        assert isinstance(driver, SqliteDriver)
        assert driver.description.endswith(f", {journal}, synchronous={synchronous}")
        answers: list[Any] = []

        def ask() -> None:
            for pragma in ("PRAGMA synchronous", "PRAGMA journal_mode"):
                answers.extend(driver.database.use(lambda it, asked=pragma: it.execute(asked).fetchone()))

        ask()
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(60.0)
        number = ["OFF", "NORMAL", "FULL", "EXTRA"].index(synchronous)
        assert answers == [number, journal.lower()] * 2
        with drivers.open(driver.url) as again:
            assert again.description == driver.description
            assert again.durability == driver.durability


def test_other_tables_in_the_file_are_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE books (title TEXT)")
        connection.execute("INSERT INTO books VALUES ('Emma')")
        connection.commit()
    with drivers.open(f"sqlite:///{path}") as driver:
        push(driver, "A")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM books").fetchall() == [("Emma",)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


OTHER_TABLES = (
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, title TEXT)",
    "CREATE TABLE Jobs (id INTEGER PRIMARY KEY, title TEXT)",
    "CREATE TABLE failed_jobs (id INTEGER)",
    "CREATE TABLE jobs_seq (seq)",
    "CREATE VIEW jobs AS SELECT 1 AS id",
)


@pytest.mark.parametrize("made", OTHER_TABLES)
def test_another_table_of_the_same_name_is_refused_and_left_alone(path: Path, made: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(made)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(UnusableStore, match=r"(?i)jobs.*nothing was changed"):
        drivers.open(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["jobs.db"]


def test_tables_of_another_version_are_refused(driver: Driver, path: Path, application: sqlite3.Connection) -> None:
    application.execute("ALTER TABLE jobs ADD COLUMN priority INTEGER")
    application.commit()
    with pytest.raises(UnusableStore, match="another version"):
        drivers.open(f"sqlite:///{path}")


@pytest.mark.parametrize("content", [b"not a database, but long enough to be taken for one\n" * 50, b"%PDF-1.7"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UnusableStore, match="no sound SQLite database"):
        drivers.open(f"sqlite:///{path}")
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with drivers.open(f"sqlite:///{path}") as driver:
        assert push(driver, "A")[0].id == 1


def test_a_table_with_a_value_of_another_kind_cannot_be(driver: Driver, application: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in INTEGER column"):
        application.execute(
            "INSERT INTO jobs (uid, queue, name, payload, dispatched_at, available_at, seq)"
            " VALUES ('u', 'mail', 'A', 'null', 0, '2026-01-01 00:00:00', 1)"
        )


def test_check_names_a_row_that_does_not_add_up(path: Path, application: sqlite3.Connection) -> None:
    with drivers.open(f"sqlite:///{path}") as driver:
        push(driver, "A", "B")
        take(driver)
        assert driver.check(QUEUE, now=0.0) == []
        application.execute("UPDATE jobs SET token = NULL WHERE id = 1")
        application.commit()
        assert driver.check(QUEUE, now=0.0) == ["job 1 has a reservation without a token, or a token without one"]
        application.execute("DELETE FROM jobs")
        application.commit()


@pytest.mark.parametrize("version", [(3, 36, 0), (3, 8, 11)])
def test_an_older_sqlite_is_refused(version: tuple[int, ...], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingRequirement, match="needs 3.37 or newer"):
        check_version(version)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    with pytest.raises(MissingRequirement, match=".".join(map(str, version))):
        drivers.open(f"sqlite:///{path}")
    assert not path.exists()
    check_version((3, 37, 0))


def test_a_job_keeps_its_number_s_place_over_a_restart(path: Path) -> None:
    with drivers.open(f"sqlite:///{path}") as driver:
        push(driver, "A", "B")
        driver.clear(QUEUE, now=0.0)
    with drivers.open(f"sqlite:///{path}") as driver:
        assert push(driver, "C")[0].id == 3


# -- threads and processes --


def test_the_connections_of_threads_that_ended_are_closed(driver: Driver) -> None:
    assert isinstance(driver, SqliteDriver)
    for _ in range(5):
        thread = threading.Thread(target=driver.counts, args=(QUEUE,), kwargs={"now": 0.0})
        thread.start()
        thread.join(60.0)
    assert len(driver.database._opened) <= 2  # noqa: SLF001 - what the driver holds


def in_a_forked_child(act: Callable[[], object]) -> int:
    """Run something in a forked child, and tell its exit code: 0 where it went well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


pytest_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


@pytest_fork
def test_a_forked_child_opens_connections_of_its_own(queue: Queue, path: Path) -> None:
    queue.dispatch("A", "parent")
    held = queue.reserve(0.0)
    assert held
    assert in_a_forked_child(lambda: (queue.dispatch("A", "child"), queue.dispatch("A", "child"))) == 0
    queue.dispatch("A", "parent")
    assert [job.payload for job in queue.jobs("ready")] == ["child", "child", "parent"]
    assert queue.driver.complete(held, now=0.0)
    uids = [job.uid for job in queue.jobs()]
    assert len(set(uids)) == 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest_fork
def test_a_forked_child_may_close_its_driver_and_the_parent_goes_on(queue: Queue) -> None:
    queue.dispatch("A", 1)
    assert in_a_forked_child(queue.close) == 0
    queue.dispatch("A", 2)
    assert outcomes(queue, 0.0, 0.0, 0.0) == ["Completed", "Completed", "Idle"]


@pytest_fork
def test_a_forked_child_loses_nothing_when_its_parent_closes(driver: Driver, address: str) -> None:
    """SQLite keeps a process's locks in a table that a child inherits without the locks themselves."""
    parent = drivers.open(address)
    push(parent, "before the fork")
    ready, closed = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            push(parent, "child")
            os.write(ready[1], b".")
            os.read(closed[0], 1)
            push(parent, "child, after its parent closed")
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    parent.close()
    driver.close()
    os.write(closed[1], b".")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for end in (*ready, *closed):
        os.close(end)
    with drivers.open(address) as later:
        assert [job.name for job in later.jobs(QUEUE, now=0.0)] == [
            "before the fork",
            "child",
            "child, after its parent closed",
        ]
        assert later.check(QUEUE, now=0.0) == []


@pytest_fork
def test_a_store_in_memory_does_not_reach_a_forked_child() -> None:
    with drivers.open("sqlite:///:memory:") as driver:
        push(driver, "A")

        def use() -> None:
            with pytest.raises(DriverUnavailable, match="use a file"):
                push(driver, "B")

        assert in_a_forked_child(use) == 0
        assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


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


def test_opening_a_file_once_more_drops_nobody_s_locks(driver: Driver, address: str) -> None:
    """Closing any descriptor of a file drops its locks in this process; another could then take the journal away."""
    push(driver, "first")
    other = f"from qlab import drivers; drivers.open({address!r}).close()"
    for name in ("second", "third"):
        with drivers.open(address) as again:
            push(again, name)
            subprocess.run([sys.executable, "-c", other], check=True)
            push(again, name)
    assert [job.name for job in driver.jobs(QUEUE, now=0.0)] == ["first", "second", "second", "third", "third"]
    with drivers.open(address) as later:
        assert later.counts(QUEUE, now=0.0) == Counts(ready=5)
