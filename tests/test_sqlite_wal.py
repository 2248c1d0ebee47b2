"""The WAL is written back and begins anew, whoever writes meanwhile, so that it does not grow without an end."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, new, push, take
from verbs import assert_sound

from qlab import drivers
from qlab.driver import Counts, Driver
from qlab.drivers import database

PAGE = 4_096 + 24  # bytes in the WAL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def driver(path: Path) -> Iterator[Driver]:
    with drivers.open(f"sqlite:///{path}?synchronous=OFF") as driver:
        yield driver


@pytest.fixture
def other(driver: Driver, path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the file."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE books (title TEXT)")
        yield connection


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of whoever writes the WAL back, in seconds; they take no time."""
    made: list[float] = []
    monkeypatch.setattr(database, "pause", made.append)
    return made


def work(driver: Driver, jobs: int) -> None:
    """Complete jobs, each with reserving the next, from a backlog that stays."""
    held: Any = take(driver)
    for number in range(jobs):
        if number % 500 == 0:
            push(driver, *["A"] * 500)
        _, held = driver.complete_and_reserve(held, now=0.0, retry_after=90.0)
    driver.release(held, now=0.0)


def wal(path: Path) -> int:
    """The bytes of the WAL's file."""
    return Path(f"{path}-wal").stat().st_size


def test_steady_work_keeps_the_wal_and_the_file_as_they_are(driver: Driver, path: Path) -> None:
    push(driver, *["A"] * 500)
    sizes = []
    for _ in range(3):
        work(driver, 2_000)
        sizes.append((wal(path), path.stat().st_size))
    assert max(size for size, _ in sizes) < 3 * 1_000 * 4 * PAGE
    assert sizes[-1][1] <= sizes[0][1] * 1.5
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=500)
    assert_sound(path)


def test_who_writes_meanwhile_is_waited_for_a_moment(
    driver: Driver, other: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that the WAL is to begin anew somebody writes; three moments later he is done."""
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) % 3 == 0 and other.in_transaction:
            other.execute("COMMIT")

    real = database._checkpointed  # noqa: SLF001 - in whose way somebody comes

    def in_the_way(connection: sqlite3.Connection, how: str) -> bool:
        if how == "RESTART":
            other.execute("BEGIN IMMEDIATE")
            other.execute("INSERT INTO books VALUES ('Emma')")
        return real(connection, how)

    monkeypatch.setattr(database, "pause", pause)
    monkeypatch.setattr(database, "_checkpointed", in_the_way)
    push(driver, *["A"] * 500)
    work(driver, 5_000)
    assert 3 * 3 <= len(waited) <= 3 * 22
    assert driver.blocked() == 0.0  # who writes back waits for him, and no verb does
    assert wal(path) < 3 * 1_000 * 4 * PAGE


@pytest.mark.parametrize("long", [database._LONG, 2**20])  # noqa: SLF001 - of which the smaller is met at once
def test_who_reads_for_long_is_not_waited_for_again_and_again(
    driver: Driver, other: sqlite3.Connection, path: Path, waits: list[float], monkeypatch: Any, long: int
) -> None:
    monkeypatch.setattr(database, "_LONG", long)
    push(driver, *["A"] * 500)
    other.execute("BEGIN")
    other.execute("SELECT * FROM jobs").fetchall()
    work(driver, 3_000)
    assert len(waits) <= 20 * 4
    assert sum(waits) < 0.2
    assert wal(path) > 3_000 * 3 * PAGE
    other.execute("ROLLBACK")
    work(driver, 2_100)
    pages: int = other.execute("PRAGMA wal_checkpoint").fetchone()[1]
    assert pages < 3_000 * 4


def test_a_long_wal_is_cut_off_soon(driver: Driver, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few statements may write very much: payloads of a megabyte, chunks of 500 jobs."""
    monkeypatch.setattr(database, "_LONG", 2**20)
    text = f'"{"x" * 40_000}"'
    longest = 0
    for _ in range(200):
        driver.push(QUEUE, [new("A", body=text)], now=0.0)
        longest = max(longest, wal(path))
    assert 2**20 < longest < 4 * 2**20
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=200)


def test_a_wal_that_cannot_be_written_back_stops_nobody(
    driver: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LONG", 0)
    real = database._checkpointed  # noqa: SLF001 - which is told to do what SQLite refuses
    monkeypatch.setattr(database, "_checkpointed", lambda connection, how: real(connection, f"{how}) no such thing("))
    push(driver, *["A"] * 50)
    work(driver, 40)


@pytest.mark.parametrize("address", ["sqlite:///{}?journal=DELETE", "sqlite:///:memory:"])
def test_where_there_is_no_wal_nothing_is_written_back(
    address: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LONG", 0)
    monkeypatch.setattr(database, "_checkpointed", lambda *_: pytest.fail("there is no WAL"))
    with drivers.open(address.format(path)) as driver:
        push(driver, *["A"] * 50)
        work(driver, 40)
