"""The disk under a SQLite file: full, read-only, gone, or without WAL. Nothing is half done, and all is told."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, Servers, fail, push, take
from verbs import READING, WRITING, assert_sound, prepared, state

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Counts, Driver
from qlab.drivers import database
from qlab.errors import DriverUnavailable, NoQueueThere, QlabError, UnusableStore

as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="mounts a disk of its own, which needs root on Linux"
)
each_journal = pytest.mark.parametrize("journal", ["WAL", "DELETE"])


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield


def remote_to(servers: Servers, folder: Path) -> Driver:
    """A driver on a server, whose failed jobs are in a folder."""
    return drivers.open(f"{servers['valkey'].url}?prefix={folder}&failed_jobs=sqlite:///{folder}/failed.db")


# -- full --


class SmallDisk:
    """A disk of a megabyte.

    Attributes:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    # The WAL would begin anew at a moment of chance, and then there is room in it although the disk is full.
    monkeypatch.setattr(database, "_CHECKPOINT_EVERY", 10**9)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1200k", "tmpfs") as folder:
        yield SmallDisk(folder)


def is_full(path: Path) -> str:
    return rf"the disk of {path} is full .*nothing was stored; free space on it and try again"


@as_root
@each_journal
def test_on_a_full_disk_every_verb_changes_nothing_and_works_once_there_is_space(disk: SmallDisk, journal: str) -> None:
    path = disk.folder / "jobs.db"
    with drivers.open(f"sqlite:///{path}?journal={journal}") as driver:
        held = {verb: prepared(driver, verb) for verb in WRITING}
        before = {verb: state(driver, verb) for verb in WRITING}
        driver.database.use(lambda it: it.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())  # type: ignore[attr-defined]
        disk.fill()
        for verb, use in WRITING.items():
            with pytest.raises(DriverUnavailable, match=is_full(path)):
                use(driver, verb, held[verb])
        assert {verb: state(driver, verb) for verb in WRITING} == before
        assert driver.check(QUEUE, now=0.0) == []
        disk.free()
        for verb, use in WRITING.items():
            use(driver, verb, held[verb])
            assert state(driver, verb) != before[verb]
    assert_sound(path)


@as_root
@each_journal
def test_a_file_is_neither_made_nor_half_made_on_a_full_disk(disk: SmallDisk, journal: str) -> None:
    path = disk.folder / "jobs.db"
    disk.fill()
    for _ in range(2):
        with pytest.raises(DriverUnavailable, match=is_full(path)):
            drivers.open(f"sqlite:///{path}?journal={journal}")
    with pytest.raises(NoQueueThere):
        drivers.open(f"sqlite:///{path}", create=False)
    disk.free()
    with drivers.open(f"sqlite:///{path}?journal={journal}") as driver:
        assert push(driver, "A")[0].id == 1
    assert_sound(path)


@as_root
@each_journal
def test_a_store_is_opened_on_a_full_disk_or_says_why_not(disk: SmallDisk, journal: str) -> None:
    path = disk.folder / "jobs.db"
    with drivers.open(f"sqlite:///{path}?journal={journal}") as driver:
        held = prepared(driver, QUEUE)
        before = state(driver, QUEUE)
    disk.fill()
    with suppress(DriverUnavailable), drivers.open(f"sqlite:///{path}") as driver:  # WAL's index needs space, too
        assert state(driver, QUEUE) == before
    says = rf"the disk of {path} (is full|failed) .*nothing was stored"
    with pytest.raises(DriverUnavailable, match=says), drivers.open(f"sqlite:///{path}") as driver:
        driver.complete(held[0], now=1.0)
    disk.free()
    with drivers.open(f"sqlite:///{path}") as driver:
        assert state(driver, QUEUE) == before
        assert driver.complete(held[0], now=1.0)
    assert_sound(path)


@as_root
def test_a_worker_on_a_full_disk_settles_its_job_when_it_comes_again(disk: SmallDisk) -> None:
    ran: list[int] = []
    with Queue(f"sqlite:///{disk.folder}/jobs.db", clock=SimulatedClock()) as queue:

        @queue.handler("A")
        def handler(job: Any) -> None:
            ran.append(job.number)
            if job.number == 1:
                disk.fill()

        queue.dispatch("A")
        outcome = queue.work_once()
        assert type(outcome).__name__ == "Unknown"
        assert "is full" in outcome.says
        with pytest.raises(DriverUnavailable, match="is full"):
            queue.dispatch("A", "x" * 5000)
        with pytest.raises(DriverUnavailable, match="is full"):
            queue.work_once(90.0)
        disk.free()
        assert type(queue.work_once(90.0)).__name__ == "Completed"
        assert ran == [1, 2]
        assert [str(event.kind) for event in queue.trace] == [
            "dispatched", "reserved", "expired", "reserved", "completed",
        ]  # fmt: skip
    assert_sound(disk.folder / "jobs.db")


@as_root
def test_a_job_that_fails_beside_a_full_disk_is_written_once_there_is_space(
    disk: SmallDisk, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    path = disk.folder / "failed.db"
    with remote_to(servers, disk.folder) as remote:
        held = prepared(remote, QUEUE)
        remote.failed_jobs.database().use(  # type: ignore[attr-defined]
            lambda it: it.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        )
        disk.fill()
        assert fail(remote, held[0], error="ValueError: the handler's own")
        assert "its row will be written later" in caplog.text
        assert "is full" in caplog.text
        assert (remote.counts(QUEUE, now=0.0).failed, len(remote.failed(QUEUE))) == (2, 2)
        for use in (lambda: remote.failed_ids(QUEUE), lambda: remote.retry(QUEUE, [1], now=1.0)):
            with pytest.raises(DriverUnavailable, match=is_full(path)):
                use()
        assert remote.counts(QUEUE, now=0.0) == Counts(ready=2, reserved=1, failed=2)
        disk.free()
        ids = remote.failed_ids(QUEUE)
        assert [(row.id, row.error) for row in remote.failed(QUEUE)] == [
            (ids[0], "first"),
            (ids[1], "ValueError: the handler's own"),
        ]
        assert len(remote.retry(QUEUE, ids, now=1.0)) == 2
        assert remote.counts(QUEUE, now=1.0) == Counts(ready=4, reserved=1)
    assert_sound(path)


@as_root
def test_a_retry_that_a_full_disk_cuts_short_is_made_once(disk: SmallDisk, servers: Servers) -> None:
    with remote_to(servers, disk.folder) as remote:
        prepared(remote, QUEUE)
        (id,) = remote.failed_ids(QUEUE)
        remote.failed_jobs.database().use(  # type: ignore[attr-defined]
            lambda it: it.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        )
        disk.fill()
        with pytest.raises(DriverUnavailable, match="is full"):
            remote.retry(QUEUE, [id], now=1.0)
        disk.free()
        assert remote.retry(QUEUE, [id], now=2.0) in ([], [(id, remote.jobs(QUEUE, now=2.0)[-1])])
        assert remote.counts(QUEUE, now=2.0) == Counts(ready=3, reserved=2)
        assert [job.name for job in remote.jobs(QUEUE, now=2.0)].count("c") == 1
        assert remote.failed(QUEUE) == []
    assert_sound(disk.folder / "failed.db")


# -- read-only --


@as_root
@each_journal
@pytest.mark.parametrize("create", [True, False])
def test_a_file_on_a_read_only_disk_is_refused_and_left_alone(tmp_path: Path, journal: str, create: bool) -> None:
    path = tmp_path / "disk" / "jobs.db"
    path.parent.mkdir()
    with drivers.open(f"sqlite:///{path}?journal={journal}") as driver:
        prepared(driver, QUEUE)
    before = path.read_bytes()
    with read_only(path.parent):
        with pytest.raises(UnusableStore, match=rf"{path} cannot be opened to be written: .*its disk is not read-only"):
            drivers.open(f"sqlite:///{path}", create=create)
        with pytest.raises(UnusableStore, match=r"other.db cannot be made: Read-only file system"):
            drivers.open(f"sqlite:///{path.parent}/other.db")
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == {"jobs.db": before}
    with drivers.open(f"sqlite:///{path}") as driver:
        push(driver, "A")
    assert_sound(path)


@as_root
def test_a_job_that_fails_beside_a_read_only_disk_is_written_once_it_can_be(
    tmp_path: Path, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with remote_to(servers, folder) as remote:
        push(remote, "A")
        with read_only(folder):
            assert fail(remote, take(remote))
            assert "failed.db cannot be made: Read-only file system" in caplog.text
            assert remote.counts(QUEUE, now=0.0) == Counts(failed=1)
            with pytest.raises(UnusableStore, match="Read-only file system"):
                remote.failed_ids(QUEUE)
        assert remote.failed_ids(QUEUE) == [1]
    assert_sound(folder / "failed.db")


MODES = {
    "file": (0o444, 0o777, "cannot be opened to be written: check its permissions"),
    "secret file": (0o000, 0o777, "cannot be opened to be written: check its permissions"),
    "folder": (0o666, 0o555, "cannot be written .*: check its permissions and its folder's"),
    "closed folder": (0o666, 0o444, "cannot be used as a file: .*Permission denied"),
}


@as_root
@each_journal
@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(("file", "folder", "says"), MODES.values(), ids=MODES)
def test_who_may_not_write_is_told_so_and_changes_nothing(
    journal: str, create: bool, file: int, folder: int, says: str
) -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are root's alone
        path = Path(place) / "disk" / "jobs.db"
        path.parent.mkdir()
        with drivers.open(f"sqlite:///{path}?journal={journal}") as driver:
            push(driver, "A")
        before = path.read_bytes()
        path.chmod(file)
        path.parent.chmod(folder)
        Path(place).chmod(0o755)

        def use() -> None:
            with drivers.open(f"sqlite:///{path}", create=create) as driver:
                assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)
                push(driver, "B")

        kind, message = as_nobody(use)
        assert kind == "UnusableStore"
        with pytest.raises(UnusableStore, match=rf"{path}'? {says}"):
            raise UnusableStore(message)
        assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == {"jobs.db": before}


def as_nobody(act: Callable[[], object]) -> tuple[str, str]:
    """Do something in a process without rights; gives the class and the text of the error that it raised."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            act()
        except BaseException as error:  # noqa: BLE001 - a forked child must not go on with the tests
            os.write(writing, json.dumps([type(error).__name__, str(error)]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    kind, message = json.loads(said)
    return kind, message


# -- gone --


def test_a_file_that_vanishes_is_not_quietly_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with drivers.open(f"sqlite:///{path}") as driver:
        push(driver, "A")
        for file in tmp_path.iterdir():
            file.unlink()
        raised: list[QlabError] = []

        def use() -> None:
            try:
                push(driver, "B")
            except QlabError as error:
                raised.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(60.0)
        assert [type(error) for error in raised] == [NoQueueThere]
        assert str(raised[0]) == f"{path} is not there, or not any more: is it the right file?"
    assert list(tmp_path.iterdir()) == []


# -- without WAL --


@pytest.fixture
def dotfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets SQLite lock by files, as on a network disk: it has no WAL there, and says so only in its answer."""
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **how: real(f"file:{path}?vfs=unix-dotfile", uri=True, **how))


@pytest.mark.skipif(sys.platform == "win32", reason="SQLite has this file system on Unix")
def test_a_file_system_that_refuses_wal_is_told_and_serves_without(tmp_path: Path, dotfile: None) -> None:
    path = tmp_path / "jobs.db"
    for journal in ("", "?journal=WAL"):
        with pytest.raises(UnusableStore, match=rf"{path}: SQLite answered .*'delete' where WAL .*or \?journal=DELETE"):
            drivers.open(f"sqlite:///{path}{journal}")
    assert path.read_bytes() == b""
    with drivers.open(f"sqlite:///{path}?journal=DELETE") as driver:
        held = {verb: prepared(driver, verb) for verb in WRITING}
        for verb, use in WRITING.items():
            use(driver, verb, held[verb])
        assert "DELETE" in driver.description
        with drivers.open(driver.url) as again, drivers.open(f"sqlite:///{path}") as unasked:
            assert state(again, "push") == state(unasked, "push") == state(driver, "push")
            assert "DELETE" in unasked.description
    assert_sound(path)


@pytest.mark.parametrize(
    ("asked", "level", "lost"),
    [
        ("synchronous=FULL", 2, "nothing"),
        ("synchronous=FULL&journal=DELETE", 3, "nothing"),
        ("synchronous=NORMAL&journal=DELETE", 1, "at most the last commit, and rarely the file's soundness"),
    ],
)
def test_what_survives_a_power_cut_syncs_the_folder_of_a_journal_that_is_deleted(
    asked: str, level: int, lost: str, tmp_path: Path
) -> None:
    """SQLite's FULL (2) does not: the journal may be there again after a power cut, and undo the last commit."""
    kept = asked.partition("&")[0]  # which finds the journal that the file has
    for address in (f"sqlite:///{tmp_path}/jobs.db?{asked}", f"sqlite:///{tmp_path}/jobs.db?{kept}"):
        with drivers.open(address) as driver, drivers.open(driver.url) as again:
            for each in (driver, again):
                assert each.database.use(lambda db: db.execute("PRAGMA synchronous").fetchone()[0]) == level
                assert each.durability.power_cut == lost


def test_an_address_takes_no_file_system_of_sqlite_s(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown option vfs; there are synchronous, journal, lock_wait"):
        drivers.open(f"sqlite:///{tmp_path}/jobs.db?vfs=unix-dotfile")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="SQLite has this file system on Unix")
def test_failed_jobs_on_a_file_system_that_refuses_wal_wait_in_their_store(
    tmp_path: Path, servers: Servers, dotfile: None, caplog: pytest.LogCaptureFixture
) -> None:
    with remote_to(servers, tmp_path) as remote:
        push(remote, "A")
        assert fail(remote, take(remote))
        assert "SQLite answered journal mode 'delete'" in caplog.text
        assert remote.counts(QUEUE, now=0.0) == Counts(failed=1)
        for use in (READING["failed_ids"], WRITING["retry"], WRITING["forget"]):
            with pytest.raises(UnusableStore, match="SQLite answered journal mode 'delete'"):
                use(remote, QUEUE, [])
        with closing(sqlite3.connect(f"{tmp_path}/failed.db")) as connection:
            assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
