"""A SQLite file: what is in it, whose it may be, and what may be wrong with it."""

import itertools
import re
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, Servers, fail, only, push, take
from verbs import READING, WRITING, assert_sound, new

from qlab import drivers
from qlab.driver import Driver
from qlab.drivers import schema
from qlab.drivers.database import check_version
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import MissingRequirement, UnusableStore
from qlab.job import Reservation

ON_SQLITE = only("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def application(path: Path) -> Iterator[sqlite3.Connection]:
    """An application's own connection to the file."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def remote(servers: Servers, path: Path, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A driver on a server, whose failed jobs are in the file."""
    name = f"{path.parent.name}-{request.node.name}"
    with drivers.open(f"{servers['valkey'].url}?prefix={name}&failed_jobs=sqlite:///{path}") as driver:
        yield driver


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


# -- what is in a file --


@ON_SQLITE
def test_a_new_file_is_its_owner_s_alone(driver: Driver, path: Path) -> None:
    push(driver, "A")
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL", "FULL", "EXTRA"])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_settings_reach_every_connection_and_are_told(path: Path, synchronous: str, journal: str) -> None:
    with drivers.open(f"sqlite:///{path}?synchronous={synchronous.lower()}&journal={journal.lower()}") as driver:
        assert isinstance(driver, SqliteDriver)
        set_to = "EXTRA" if (journal, synchronous) == ("DELETE", "FULL") else synchronous
        assert driver.description.endswith(f", {journal}, synchronous={set_to}")
        answers: list[Any] = []

        def ask() -> None:
            for pragma in ("PRAGMA synchronous", "PRAGMA journal_mode"):
                answers.extend(driver.database.use(lambda it, asked=pragma: it.execute(asked).fetchone()))

        ask()
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(60.0)
        number = ["OFF", "NORMAL", "FULL", "EXTRA"].index(set_to)
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


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with drivers.open(f"sqlite:///{path}") as driver:
        assert push(driver, "A")[0].id == 1


@ON_SQLITE
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
    with pytest.raises(
        MissingRequirement, match="needs 3.37 or newer for sqlite:// addresses and for the failed jobs of every"
    ):
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


# -- whose it may be --

OTHERS = {
    "table": "CREATE TABLE jobs (id INTEGER PRIMARY KEY, title TEXT)",
    "table in capitals": "CREATE TABLE Jobs (id INTEGER PRIMARY KEY, title TEXT)",
    "table of failed jobs": "CREATE TABLE failed_jobs (id INTEGER)",
    "table without types": "CREATE TABLE jobs_seq (seq)",
    "view": "CREATE VIEW jobs AS SELECT 1 AS id",
    "index": "CREATE TABLE books (title TEXT); CREATE INDEX jobs_claimable ON books (title)",
    "index like a table": "CREATE TABLE books (title TEXT); CREATE INDEX jobs ON books (title)",
    "table like an index": "CREATE TABLE jobs_claimable (title TEXT)",
    "view like an index": "CREATE VIEW failed_jobs_queue AS SELECT 1",
}


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("create", [True, False])
def test_another_s_table_view_or_index_of_the_same_name_is_refused_and_left_alone(
    path: Path, application: sqlite3.Connection, made: str, create: bool
) -> None:
    application.executescript(made)
    before = files_in(path.parent)
    with pytest.raises(UnusableStore, match=rf"{re.escape(str(path))} .*jobs.*nothing was changed"):
        drivers.open(f"sqlite:///{path}", create=create)
    assert files_in(path.parent) == before


@pytest.mark.parametrize("made", ["CREATE TABLE failed_jobs (id INTEGER)", "CREATE VIEW failures_written AS SELECT 1"])
def test_another_s_table_where_failed_jobs_are_to_be_is_refused_and_left_alone(
    path: Path, remote: Driver, application: sqlite3.Connection, made: str, caplog: pytest.LogCaptureFixture
) -> None:
    application.executescript(made)
    before = files_in(path.parent)
    push(remote, "A")
    assert fail(remote, take(remote))
    assert f"{path} has a table, view or index" in caplog.text
    with pytest.raises(UnusableStore, match="nothing was changed"):
        remote.failed_ids(QUEUE)
    assert files_in(path.parent) == before


@ON_SQLITE
@pytest.mark.parametrize(
    "newer",
    [
        "ALTER TABLE jobs ADD COLUMN priority INTEGER",
        "ALTER TABLE failed_jobs ADD COLUMN priority INTEGER",
        "ALTER TABLE jobs RENAME COLUMN payload TO body",
        "DROP INDEX jobs_claimable; CREATE INDEX jobs_claimable ON jobs (queue, seq)",
    ],
)
def test_a_newer_qlab_s_file_is_refused_and_left_alone(
    driver: Driver, path: Path, application: sqlite3.Connection, newer: str
) -> None:
    push(driver, "A")
    driver.close()
    application.executescript(newer)
    application.close()
    before = files_in(path.parent)
    with pytest.raises(UnusableStore, match=r"another version's, such as a newer qlab's\): use a file without one"):
        drivers.open(f"sqlite:///{path}")
    assert files_in(path.parent) == before


@ON_SQLITE
def test_a_newer_qlab_that_comes_while_a_file_is_open_is_told(
    driver: Driver, path: Path, application: sqlite3.Connection
) -> None:
    push(driver, "A")
    application.execute("ALTER TABLE jobs RENAME COLUMN payload TO body")
    for verb, use in (WRITING | READING).items():
        if verb in ("push", "reserve", "jobs"):
            with pytest.raises(
                UnusableStore, match=rf"{path} is not as this qlab left it \(.*payload.*another version"
            ):
                use(driver, QUEUE, [])
    driver.close()
    assert_sound(path)


def test_a_newer_qlab_that_only_adds_tables_shares_its_file(path: Path, application: sqlite3.Connection) -> None:
    application.execute("CREATE TABLE jobs_paused (queue TEXT PRIMARY KEY) STRICT")
    with drivers.open(f"sqlite:///{path}") as driver:
        assert push(driver, "A")[0].id == 1


def test_every_table_and_index_has_its_name_checked() -> None:
    tables = ("jobs", "jobs_seq", "failed_jobs", "failures_written", "failed_jobs_file")
    made = {name for name, _ in schema.Schema(tables)._made()}  # noqa: SLF001 - what would be checked
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in tables:
            connection.executescript("".join(schema.sql(f"schema_{table}")))
        names = connection.execute("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
        assert made == {name for (name,) in names}


# -- what may be wrong with it --


def sound_file(path: Path) -> tuple[bytes, list[Reservation]]:
    """Make a file of several pages of each table and index; gives what is in it, and two reservations."""
    with drivers.open(f"sqlite:///{path}") as driver:
        driver.push(QUEUE, [new(QUEUE, f"{number}", f'"{"y" * 500}"') for number in range(40)], now=0.0)
        *failing, one, other = driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=20)
        for held in failing:
            fail(driver, held)
    return path.read_bytes(), [one, other]


DAMAGES = {
    "no database": lambda whole: b"These are notes, and they are worth keeping.\n" * 50,
    "a short file": lambda whole: b"%PDF-1.7",
    "header": lambda whole: b"\0" * 16 + whole[16:],
    "page size": lambda whole: whole[:16] + b"\xff\xff" + whole[18:],
    "a newer SQLite's": lambda whole: whole[:18] + b"\x09\x09" + whole[20:],
    "a newer schema format": lambda whole: whole[:44] + b"\0\0\0\x09" + whole[48:],
    "first page": lambda whole: whole[:100] + b"\xff" * 200 + whole[300:],
    "half of it": lambda whole: whole[: len(whole) // 8192 * 4096],
    "its first page": lambda whole: whole[:4096],
    "its first bytes": lambda whole: whole[:99],
}
damaged = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


@damaged
def test_a_damaged_file_is_refused_and_left_alone(path: Path, damage: Any) -> None:
    path.write_bytes(damage(sound_file(path)[0]))
    before = files_in(path.parent)
    with pytest.raises(UnusableStore, match=rf"{path} is .*restore a backup"):
        drivers.open(f"sqlite:///{path}")
    assert files_in(path.parent) == before


@damaged
def test_a_job_that_fails_beside_a_damaged_file_is_written_once_there_is_a_sound_one(
    path: Path, remote: Driver, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(damage(sound_file(path)[0]))
    before = files_in(path.parent)
    push(remote, "A")
    assert fail(remote, take(remote), error="ValueError: the handler's own")
    assert f"{path} is " in caplog.text
    for use in (READING["failed"], READING["failed_ids"], READING["counts"], WRITING["retry"], WRITING["forget"]):
        with pytest.raises(UnusableStore, match=rf"{path} is .*restore a backup"):
            use(remote, QUEUE, [])
    assert files_in(path.parent) == before
    path.unlink()
    assert remote.failed_ids(QUEUE) == [1]
    assert [(row.error, row.id) for row in remote.failed(QUEUE)] == [("ValueError: the handler's own", 1)]
    assert_sound(path)


def test_a_damaged_page_is_told_by_the_verb_that_meets_it_and_nothing_is_half_done(tmp_path: Path) -> None:
    whole, held = sound_file(tmp_path / "sound.db")
    pages, met = range(2, len(whole) // 4096 + 1), set()
    assert len(pages) > 12
    for page, (verb, use) in itertools.product(pages, (WRITING | READING).items()):
        path = tmp_path / f"{page} {verb}" / "jobs.db"
        path.parent.mkdir()
        path.write_bytes(whole[: (page - 1) * 4096] + b"\x77" * 4096 + whole[page * 4096 :])
        with drivers.open(f"sqlite:///{path}") as driver:
            before = files_in(path.parent)
            if said := refusal(lambda use=use, driver=driver: use(driver, QUEUE, held)):
                met.add(verb)
                assert f"{path} is no sound SQLite database" in said
                assert files_in(path.parent) == before
                assert driver.check(QUEUE, now=0.0) != []
                with closing(sqlite3.connect(path, timeout=0)) as other:
                    other.execute("BEGIN IMMEDIATE")  # which nobody holds
    assert met == {*WRITING, *READING}


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except UnusableStore as error:
        return str(error)
    return ""
