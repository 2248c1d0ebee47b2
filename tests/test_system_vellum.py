"""ADR-006's queue, set up by `vellum`: each test is named after what the ADR says, or what it does not promise."""

import multiprocessing
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from conftest import new, outcomes, push, take, told
from watching import Gate, eventually, heard

from qlab import Queue, SimulatedClock
from qlab.commands.store import failed_jobs_file
from qlab.driver import Counts, Mark
from qlab.drivers import database
from qlab.errors import DriverUnavailable, UnusableStore
from qlab.job import Attempt, Release
from qlab.library import item, summary
from qlab.patience import Patience
from qlab.systems import Progress, Vellum, VellumDriver, catalogue, vellum

Makes = Callable[..., Vellum]
FILES = {f"m{number}.py": f"def f{number}(): pass\n" * number for number in range(1, 8)}


@pytest.fixture
def makes(tmp_path: Path, clock: SimulatedClock) -> Iterator[Makes]:
    """Sets the catalogue up, in the same file each time; what was made before is as if its process had died."""
    with ExitStack() as opened:

        def make(path: Path = tmp_path / "vellum.db", **how: Any) -> Vellum:
            app = vellum(path, clock=clock, poll=0.002, **how)
            opened.callback(app.close)
            return app

        yield make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A library of seven files."""
    library = tmp_path / "library"
    library.mkdir()
    for name, source in FILES.items():
        (library / name).write_text(source)
    return library


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[VellumDriver]:
    with VellumDriver(str(tmp_path / "table.db")) as opened:
        yield opened
        assert opened.check("any", now=0.0) == []


def states(app: Vellum) -> list[tuple[int, str]]:
    """The words in the rows, by id."""
    return app.database.execute("SELECT id, state FROM jobs ORDER BY id")


def grab(driver: VellumDriver, now: float = 0.0) -> Any:
    return take(driver, now=now, retry_after=None)


# -- decision --


def test_the_queue_is_a_table_in_the_same_sqlite_database(makes: Makes, folder: Path, tmp_path: Path) -> None:
    app = makes()
    app.scan(app.add_library(folder))
    with closing(sqlite3.connect(tmp_path / "vellum.db")) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")}
        assert {"libraries", "items", "jobs"} <= tables
        row = db.execute("SELECT id, kind, payload, state, attempts FROM jobs").fetchone()
    assert row == (1, "scan_library", '{"library":1,"limit":500}', "queued", 0)
    assert [path.name for path in tmp_path.glob("*.db")] == ["vellum.db"]


def test_there_is_no_second_process(makes: Makes) -> None:
    with makes() as app:
        assert multiprocessing.active_children() == []
        assert sum(thread.name.startswith("qlab worker") for thread in threading.enumerate()) == len(app.workers)


def test_the_queue_survives_a_restart(makes: Makes, folder: Path) -> None:
    app = makes()
    app.scan(app.add_library(folder))
    app.close()
    again = makes()
    again.queue.drain()
    assert again.queue.counts() == Counts()
    assert summary(again.items(1)) == summary(item(name, source.encode()) for name, source in FILES.items())


# -- consequences: the claim --

PRINTED = """
UPDATE jobs SET state = 'running', attempts = attempts + 1
WHERE id = (SELECT id FROM jobs WHERE state = 'queued' AND run_after <= ?
            ORDER BY run_after, id LIMIT 1)
RETURNING id, kind, payload, attempts;
"""


def test_claiming_a_job_is_a_single_atomic_statement_and_it_is_the_one_that_is_printed(driver: VellumDriver) -> None:
    push(driver, "a")
    with driver.statements() as seen:
        held = grab(driver)
    assert seen[0].text == PRINTED.strip()
    assert all(statement.text.startswith("SELECT") for statement in seen[1:])
    assert (held.job.id, held.job.name, held.job.attempts) == (1, "a", 1)


def test_several_workers_are_safe_with_no_extra_locking(tmp_path: Path) -> None:
    path = str(tmp_path / "table.db")
    with VellumDriver(path) as driver:
        push(driver, *("a",) * 120)

    def claim_all(_: int) -> list[int]:
        with VellumDriver(path) as mine:
            return [held.job.id for held in iter(lambda: next(iter(claim(mine)), None), None)]

    with ThreadPoolExecutor(4) as pool:
        claimed = [id for ids in pool.map(claim_all, range(4)) for id in ids]
    assert sorted(claimed) == list(range(1, 121))


def claim(driver: VellumDriver) -> list[Any]:
    return driver.reserve("any", now=0.0, retry_after=None)


def test_the_oldest_by_run_after_and_id_goes_first(driver: VellumDriver) -> None:
    for name, at in (("later", 5.0), ("first", 1.0), ("second", 1.0), ("never", 50.0)):
        driver.push("any", [new(name, at=at)], now=0.0)
    assert [held.job.name for held in driver.reserve("any", now=10.0, retry_after=None, limit=9)] == [
        "first", "second", "later",
    ]  # fmt: skip
    assert driver.next_due("any", now=10.0) == 50.0


# -- consequences: workers, exceptions and panics --


def test_there_are_four_workers_with_jittered_idle_waits(makes: Makes, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    enough = threading.Event()
    idle = Patience.idle

    def told_idle(patience: Patience) -> float:
        waits.append(idle(patience))
        if len(waits) >= 40:
            enough.set()
        return waits[-1]

    monkeypatch.setattr(Patience, "idle", told_idle)
    with makes() as app:
        assert len(app.workers) == 4
        assert eventually(enough)
    assert len(set(waits)) == len(waits)
    assert 0.001 <= min(waits) < max(waits) <= 0.003


@pytest.mark.parametrize("panic", [SystemExit, GeneratorExit, KeyboardInterrupt, BaseException])
def test_a_panicking_handler_is_recovered_and_the_job_marked_failed(makes: Makes, panic: type[BaseException]) -> None:
    app, after = makes(workers=1), threading.Event()

    @app.queue.handler("panics")
    def panics(job: Attempt) -> None:
        raise panic("at the disco")

    app.queue.handler("after")(lambda job: after.set())
    app.queue.dispatch("panics")
    app.queue.dispatch("after")
    with app:
        assert eventually(after)
        assert app.stop()
        assert states(app)[0] == (1, "failed")
        (failed,) = app.queue.failed()
    assert (failed.attempts, failed.error) == (1, f"{panic.__name__}: at the disco")
    assert "panics" in failed.traceback


def test_an_exception_is_tried_again_and_a_panic_is_not(makes: Makes) -> None:
    app = makes(tries=2)
    app.queue.handler("raises")(lambda job: 1 / 0)
    app.queue.dispatch("raises")
    assert outcomes(app.queue, 0.0, 9.0, 10.0, 1000.0) == ["Retrying", "Idle", "Failed", "Idle"]
    assert [(failed.id, failed.attempts) for failed in app.queue.failed()] == [(1, 2)]
    endless = makes(tries=None)

    @endless.queue.handler("raises")
    def panics(job: Attempt) -> None:
        raise ValueError if job.number < 9 else SystemExit

    endless.queue.dispatch("raises")
    assert outcomes(endless.queue, *(1000.0 * n for n in range(10)))[-2:] == ["Failed", "Idle"]


def test_one_bad_handler_strands_no_row_in_running(makes: Makes) -> None:
    app = makes()

    @app.queue.handler("bad")
    def bad(job: Attempt) -> Any:
        raise {"exception": ValueError, "panic": SystemExit}[job.payload]

    app.queue.dispatch_many([("bad", "exception"), ("bad", "panic")] * 5)
    app.queue.drain(until=1000.0)
    assert Counter(state for _, state in states(app)) == {"failed": 10}


# -- consequences: recover at boot --


def test_what_a_dead_process_left_behind_is_requeued_at_boot(makes: Makes) -> None:
    dead = makes()
    dead.queue.handler("a")(lambda job: None)
    dead.queue.dispatch_many([("a", 1), ("a", 2)])
    assert dead.queue.reserve() is not None
    app = makes(workers=0)
    app.queue.handler("a")(lambda job: None)
    assert states(app) == [(1, "running"), (2, "queued")]
    with heard() as log, app:
        assert log.count("recovers every reservation") == 1
    assert told(app.queue, "recovered") == [(0.0, "recovered", 1)]
    app = makes()
    assert states(app) == [(1, "queued"), (2, "queued")]
    app.queue.handler("a")(lambda job: None)
    app.queue.drain()
    assert states(app) == [(1, "done"), (2, "done")]


def test_without_recovery_a_crash_leaves_a_job_running_for_ever(makes: Makes) -> None:
    app = makes()
    app.queue.handler("a")(lambda job: None)
    app.queue.dispatch("a")
    held = app.queue.reserve()
    assert held is not None
    app.queue.crash(held)
    assert outcomes(app.queue, 90.0, 1e6, 1e9) == ["Idle", "Idle", "Idle"]
    assert (app.queue.recover(), states(app)) == ([], [(1, "running")])
    assert [job.attempts for job in app.boot()] == [1]
    assert outcomes(app.queue, 0.0) == ["Completed"]


def test_a_process_that_is_killed_in_the_middle_of_a_scan_loses_nothing(makes: Makes, folder: Path) -> None:
    app = makes()
    library = app.add_library(folder)
    app.scan(library)
    app.close()
    killed = multiprocessing.get_context("spawn").Process(target=scan_and_die, args=(app.database.path,))
    killed.start()
    killed.join(60.0)
    assert killed.exitcode == -signal.SIGKILL
    again = makes(chunk=2)
    assert again.status(library) == Progress(1, "running", 1, 2, 7, "")
    again.boot()
    again.queue.drain()
    assert again.status(library) == Progress(1, "done", 2, 7, 7, "")
    assert [found.path for found in again.items(library)] == sorted(FILES)
    assert Counter(again.database.execute("SELECT kind FROM jobs")) == {("scan_library",): 1, ("enrich_item",): 7}


def scan_and_die(path: str) -> None:
    """Run a scan, and be killed when it has told its progress for the first time."""
    app = vellum(path, clock=SimulatedClock(), chunk=2)
    told = app.queue.driver.progress

    def tell_and_die(*args: Any, **how: Any) -> None:
        told(*args, **how)
        os.kill(os.getpid(), signal.SIGKILL)

    app.queue.driver.progress = tell_and_die  # type: ignore[method-assign]
    app.queue.work_once()


# -- consequences: one backup --


def test_the_queue_is_included_in_the_same_backup_as_everything_else(
    makes: Makes, folder: Path, tmp_path: Path
) -> None:
    app, gate = makes(chunk=3), Gate()
    app.queue.handler("stands still")(gate)
    library = app.add_library(folder)
    app.scan(library)
    app.queue.work_once()
    app.queue.dispatch("stands still")
    app.queue.work_once()  # one item
    with app:
        gate.until_begun()  # the workers are at work
        app.backup(tmp_path / "backup.db")
        gate.may_end.set()
    assert (tmp_path / "backup.db").stat().st_mode & 0o777 == 0o600
    restored = makes(tmp_path / "backup.db")
    assert restored.status(library) == Progress(1, "done", 1, 7, 7, "")
    restored.queue.handler("stands still")(lambda job: None)
    assert "stands still" in {job.name for job in restored.boot()}
    restored.queue.drain()
    assert [found.path for found in restored.items(library)] == sorted(FILES)


def test_a_backup_overwrites_nothing_and_leaves_no_half_file(makes: Makes, tmp_path: Path) -> None:
    app = makes()
    app.backup(tmp_path / "backup.db")
    with pytest.raises(ValueError, match="backup.db is there already: a backup is a new file"):
        app.backup(tmp_path / "backup.db")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        app.backup(tmp_path / "no folder" / "backup.db")
    assert sorted(path.name for path in tmp_path.iterdir() if "backup" in path.name) == ["backup.db"]


# -- consequences: job state is queryable --


def test_job_state_is_queryable_which_is_how_scan_progress_reaches_the_ui(
    makes: Makes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, watcher = makes(chunk=3), makes()
    library = app.add_library(folder)
    seen = [watcher.status(library)]
    app.scan(library)
    seen.append(watcher.status(library))
    tell = app.queue.driver.progress

    def progress(*args: Any, **how: Any) -> None:
        tell(*args, **how)
        seen.append(watcher.status(library))

    monkeypatch.setattr(app.queue.driver, "progress", progress)
    app.queue.work_once()
    seen.append(watcher.status(library))
    running = [Progress(1, "running", 1, done, 7, "") for done in (3, 6, 7)]
    assert seen == [None, Progress(1, "queued", 0, 0, 0, ""), *running, Progress(1, "done", 1, 7, 7, "")]
    assert [event.detail for event in app.queue.trace if event.kind == "progressed"] == ["3 of 7", "6 of 7", "7 of 7"]


def test_the_status_of_a_scan_that_failed_says_why(makes: Makes, tmp_path: Path) -> None:
    app = makes(tries=1)
    (tmp_path / "empty").mkdir()
    library = app.add_library(tmp_path / "empty")
    app.scan(library)
    app.queue.work_once()
    status = app.status(library)
    assert status is not None
    assert (status.state, "has no .py file" in status.error) == ("failed", True)
    (tmp_path / "empty" / "a.py").write_text("")
    assert app.queue.retry("all") == 1
    assert app.status(library) == Progress(1, "queued", 0, 0, 0, "")


def test_a_library_that_is_not_there_is_said(makes: Makes, tmp_path: Path) -> None:
    app = makes()
    for ask in (app.status, app.scan):
        with pytest.raises(LookupError, match="there is no library 9"):
            ask(9)
    with pytest.raises(ValueError, match="is no folder"):
        app.add_library(tmp_path / "nowhere")
    assert app.queue.counts() == Counts()


# -- consequences: the two kinds, and the cost --


def test_there_are_two_job_kinds(makes: Makes, folder: Path) -> None:
    app = makes()
    assert app.queue.handlers == ("enrich_item", "scan_library")
    with app:
        done = threading.Event()
        app.queue.handler("last")(lambda job: done.set())
        app.scan(app.add_library(folder))
        app.queue.dispatch("last")
        assert eventually(done)
    again = makes()
    again.boot()
    again.queue.drain()
    assert [found.functions for found in again.items(1)] == list(range(1, 8))


def test_chunked_transactions_keep_each_write_short(makes: Makes, folder: Path, tmp_path: Path) -> None:
    app, seen = makes(chunk=3), []
    tell = app.queue.driver.progress

    def between_two_chunks(*args: Any, **how: Any) -> None:
        tell(*args, **how)
        with closing(sqlite3.connect(tmp_path / "vellum.db", timeout=0.0)) as other, other:
            other.execute("BEGIN IMMEDIATE")  # at once: nobody holds the lock
            items, jobs = (other.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("items", "jobs"))
            seen.append((items, jobs - 1))

    app.queue.driver.progress = between_two_chunks  # type: ignore[method-assign]
    app.scan(app.add_library(folder))
    app.queue.work_once()
    assert seen == [(3, 3), (6, 6), (7, 7)]


def test_a_scan_leaves_the_lock_between_chunks_for_longer_than_a_writer_waits(
    makes: Makes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, another, waits = makes(chunk=3), makes(), []

    def another_writes(seconds: float) -> None:
        waits.append(seconds)
        another.database.execute("INSERT INTO libraries (folder) VALUES (?)", [f"added {len(waits)}"])

    monkeypatch.setattr(catalogue, "pause", another_writes)
    app.scan(app.add_library(folder))
    app.queue.work_once()
    assert waits == [catalogue.BREATH] * 2  # none before the first of the three chunks, and none after the last
    asked: list[float] = []
    monkeypatch.setattr(database, "pause", asked.append)
    with (
        closing(VellumDriver(app.database.path, lock_wait=0.01)) as waiting,
        another.database.transaction(),
        pytest.raises(DriverUnavailable, match="locked"),
    ):
        push(waiting, "enrich_item")
    assert max(asked) < catalogue.BREATH


def test_a_second_scan_dispatches_only_what_is_new(makes: Makes, folder: Path) -> None:
    app = makes()
    library = app.add_library(folder)
    assert app.add_library(folder) == library
    app.scan(library)
    app.queue.drain()
    (folder / "new.py").write_text("class New: pass")
    app.scan(library)
    assert len(app.queue.drain()) == 2
    assert len(app.items(library)) == 8


# -- what the table does not promise --


def test_weaker_a_late_worker_settles_the_run_of_another(driver: VellumDriver) -> None:
    push(driver, "a")
    late = grab(driver)
    driver.recover("any", now=1.0, force=True)
    again = grab(driver, 1.0)
    assert late.token == again.token
    assert driver.complete(late, now=2.0)
    assert not driver.complete(again, now=3.0)


def test_weaker_a_boot_takes_the_jobs_of_live_workers_too(driver: VellumDriver, clock: SimulatedClock) -> None:
    push(driver, "a")
    grab(driver)
    assert [job.id for job in driver.recover("any", now=0.0, force=True)] == [1]
    assert grab(driver).job.attempts == 2


def test_weaker_no_reservation_runs_out_and_one_that_should_is_refused(driver: VellumDriver) -> None:
    push(driver, "a")
    with pytest.raises(ValueError, match=r"retry_after is 90.0 s, but this table has no expiry: use Policy\("):
        driver.reserve("any", now=0.0, retry_after=90.0)
    held = grab(driver)
    with pytest.raises(ValueError, match="this table has no expiry"):
        driver.complete_and_reserve(held, now=0.0, retry_after=90.0)
    assert driver.extend(held, now=0.0, seconds=5.0)
    assert driver.jobs("any", now=1e9)[0].available_at == float("inf")
    assert driver.next_due("any", now=0.0) is None


def test_weaker_a_table_is_one_queue_by_whatever_name(driver: VellumDriver) -> None:
    push(driver, "a", queue="mail")
    assert [job.name for job in driver.jobs("another", now=0.0)] == ["a"]


def test_weaker_a_push_that_is_repeated_makes_a_second_job(driver: VellumDriver) -> None:
    job = new("a")
    assert [driver.push("any", [job], now=0.0, resent=resent)[0].id for resent in (False, True)] == [1, 2]


def test_a_failed_job_may_be_retried_with_a_corrected_payload(driver: VellumDriver) -> None:
    driver.push("any", [new("scan", body='"wrong"')], now=0.0)
    assert driver.fail(grab(driver), now=0.0, attempts=1, error="ValueError: boom")
    ((_, job),) = driver.retry("any", driver.failed_ids("any"), now=0.0, body='"right"')
    assert job == driver.jobs("any", now=0.0)[0]
    assert job.payload == "right"


def test_weaker_a_retried_job_keeps_its_row_and_its_id(driver: VellumDriver) -> None:
    push(driver, "a")
    assert driver.fail(grab(driver), now=1.0, attempts=1, error="E: x", traceback="T")
    assert driver.failed_ids("any", before=0.5) == []
    assert [(id, job.id, job.attempts) for id, job in driver.retry("any", [1, 9], now=5.0)] == [(1, 1, 0)]
    assert driver.failed("any") == []
    assert driver.counts("any", now=5.0) == Counts(ready=1)


def test_weaker_a_job_that_is_given_back_goes_before_its_younger_peers(driver: VellumDriver) -> None:
    push(driver, "a", "b")
    assert driver.release(grab(driver), now=0.0)
    assert grab(driver).job.name == "a"


def test_weaker_rows_of_jobs_that_are_done_stay(makes: Makes) -> None:
    app = makes()
    app.queue.handler("a")(lambda job: Release(5.0) if job.number == 1 else None)
    app.queue.dispatch("a")
    assert outcomes(app.queue, 0.0, 5.0) == ["Released", "Completed"]
    assert (states(app), app.queue.counts(), app.queue.jobs()) == ([(1, "done")], Counts(), [])


def test_weaker_when_a_job_was_claimed_is_not_kept(driver: VellumDriver) -> None:
    push(driver, "a", at=5.0)
    assert grab(driver, 60.0).job.reserved_at == 60.0
    assert [job.reserved_at for job in driver.jobs("any", now=60.0)] == [5.0]


# -- what it keeps of the contract --


def test_clear_forget_and_counts_are_as_ever(driver: VellumDriver, clock: SimulatedClock) -> None:
    queue = Queue(driver, clock=clock)
    push(driver, "a", "b", "c", "d")
    driver.push("any", [new("later", at=9.0)], now=0.0)
    assert driver.fail(grab(driver), now=0.0, attempts=1, error="E")
    assert driver.fail(grab(driver), now=0.0, attempts=1, error="E")
    grab(driver)
    assert queue.counts() == Counts(ready=1, delayed=1, reserved=1, failed=2)
    assert [job.state(0.0) for job in queue.jobs()] == ["reserved", "ready", "delayed"]
    assert (queue.forget(1), queue.forget("all"), queue.clear(), queue.counts()) == (1, 1, 3, Counts())
    assert "words for states" in repr(driver)


def test_the_commands_find_its_failed_jobs_in_its_file(driver: VellumDriver, clock: SimulatedClock) -> None:
    assert str(failed_jobs_file(Queue(driver, clock=clock))) == driver.database.path


def test_workers_leave_their_marks_as_ever(driver: VellumDriver) -> None:
    assert driver.marks("any") == []
    driver.mark("any", Mark("worker", "w1", 5.0))
    assert driver.marks("any") == [Mark("worker", "w1", 5.0)]
    driver.unmark("any", "worker", "w1")
    assert driver.marks("any") == []


def test_a_file_whose_jobs_table_is_another_s_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE jobs (title TEXT)")
    with pytest.raises(UnusableStore, match="'jobs' that is not this qlab's"):
        vellum(path)
    with closing(sqlite3.connect(path)) as db:
        assert [row[0] for row in db.execute("SELECT name FROM sqlite_schema")] == ["jobs"]


@pytest.mark.parametrize(
    ("how", "says"), [({"chunk": 0}, "chunk is 0"), ({"workers": -1}, "workers is -1"), ({"tries": 0}, "tries is 0")]
)
def test_what_a_catalogue_cannot_be_made_of_is_refused(tmp_path: Path, how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        vellum(tmp_path / "vellum.db", **how)


def test_a_catalogue_in_memory_is_refused_for_its_queue_would_be_in_another_one() -> None:
    with pytest.raises(ValueError, match="path is ':memory:': catalogue and queue have a connection each; name a file"):
        vellum(":memory:")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "5", None])
def test_a_scan_of_no_number_of_files_is_refused_and_nothing_is_stored(makes: Makes, folder: Path, limit: Any) -> None:
    app = makes()
    with pytest.raises(ValueError, match=f"limit is {limit!r}: use how many files a scan takes, from 1"):
        app.scan(app.add_library(folder), limit=limit)
    assert app.queue.counts() == Counts()
