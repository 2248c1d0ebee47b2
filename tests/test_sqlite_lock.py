"""Waiting for SQLite's lock: how often it is asked for, for how long, and that nobody is left out."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import QUEUE, push, take
from verbs import assert_sound

from qlab import drivers
from qlab.crew import Crew
from qlab.driver import Counts
from qlab.drivers import database
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable, QlabError
from qlab.peers import raw_sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the file."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits for the lock, in seconds, each of which takes no time but on the clock that is asked."""
    made: list[float] = []
    monkeypatch.setattr(database, "pause", made.append)
    monkeypatch.setattr(database, "monotonic", lambda: sum(made))
    return made


def wait_meanwhile(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> list[int]:
    """Do something in the middle of a certain wait for the lock; the list counts the waits."""
    waited: list[int] = []

    def pause(_: float) -> None:
        waited.append(len(waited))
        if len(waited) == number:
            act()

    monkeypatch.setattr(database, "pause", pause)
    return waited


@pytest.mark.parametrize("lock_wait", [0.005, 0.05, 1.0])
def test_who_waits_longer_asks_more_often_and_gives_up_when_told(
    path: Path, waits: list[float], lock_wait: float
) -> None:
    with (
        drivers.open(f"sqlite:///{path}?lock_wait={lock_wait}") as driver,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DriverUnavailable, match="has been locked by another connection"):
            push(driver, "A")
    assert lock_wait <= sum(waits) < lock_wait + 0.003
    before = 0.0
    for wait in waits:
        assert 0.000_25 <= wait <= 0.003
        assert wait <= 0.003 / min(1 + before / 0.02, 4) + 1e-9
        before += wait
    assert len(set(waits)) == len(waits)


def test_a_commit_that_meets_a_reader_waits_for_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without WAL a commit needs the file for itself, long after its transaction has begun."""
    with (
        drivers.open(f"sqlite:///{path}?journal=DELETE") as driver,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
    ):
        push(driver, "A", "B")
        held = take(driver)
        other.execute("BEGIN")
        other.execute("SELECT * FROM jobs").fetchall()
        waited = wait_meanwhile(monkeypatch, 3, lambda: other.execute("ROLLBACK"))
        with driver.statements() as seen:
            done, following = driver.complete_and_reserve(held, now=1.0, retry_after=90.0)
        assert (done, following is not None, len(waited)) == (True, True, 3)
        assert [statement.verb for statement in seen] == ["begin", "complete", "reserve", "commit"]
        assert driver.counts(QUEUE, now=1.0) == Counts(reserved=1)
        assert driver.blocked() >= 0.0


def test_a_commit_that_waits_too_long_is_rolled_back(path: Path, waits: list[float]) -> None:
    with (
        drivers.open(f"sqlite:///{path}?journal=DELETE&lock_wait=0.05") as driver,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
    ):
        push(driver, "A", "B")
        held = take(driver)
        other.execute("BEGIN")
        other.execute("SELECT * FROM jobs").fetchall()
        with pytest.raises(DriverUnavailable, match="has been locked by another connection"):
            driver.complete_and_reserve(held, now=1.0, retry_after=90.0)
        other.execute("ROLLBACK")
        assert sum(waits) >= 0.05
        assert driver.counts(QUEUE, now=1.0) == Counts(ready=1, reserved=1)
        assert driver.complete_and_reserve(held, now=1.0, retry_after=90.0)[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_waits_at_other_moments_than_its_parent() -> None:
    reading, writing = os.pipe()
    state = database._patience.getstate()  # noqa: SLF001 - which the child must not go on from
    if os.fork() == 0:
        os.write(writing, b"same" if database._patience.getstate() == state else b"other")  # noqa: SLF001 - as above
        os._exit(0)
    os.wait()
    assert os.read(reading, 10) == b"other"
    os.close(reading)
    os.close(writing)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", ["synchronous=NORMAL", "synchronous=FULL", "journal=DELETE&synchronous=OFF"])
def test_eight_processes_share_a_file_and_nobody_is_left_out(path: Path, settings: str) -> None:
    """With SQLite's own waiting one of eight may get nothing for seconds, and a call end in "database is locked"."""
    address, jobs = f"sqlite:///{path}?{settings}", 8_000
    with drivers.open(address) as driver:
        raw_sqlite.fill(driver, jobs)
        with Crew("qlab.peers.raw_sqlite", [{"url": address, "waits": "qlab"}] * 8) as crew:
            crew.go()
            ends = [said[1] for said in crew.messages() if said]
        assert len(ends) == 8
        assert sum(done for _, done, *_ in ends) == jobs
        assert min(done for _, done, *_ in ends) > 0
        assert all(1e-6 < longest < 600 for *_, longest in ends), "a reserve is told in seconds"
        assert driver.counts(raw_sqlite.QUEUE, now=0.0) == Counts()
        assert driver.check(raw_sqlite.QUEUE, now=0.0) == []
    assert_sound(path)


def test_a_worker_whose_lock_is_held_for_too_long_ends_with_the_reason(path: Path, other: sqlite3.Connection) -> None:
    """And so would the test above: the error is not swallowed on the way."""
    address = f"sqlite:///{path}?lock_wait=0.01"
    with drivers.open(address) as driver:
        assert isinstance(driver, SqliteDriver)
        raw_sqlite.fill(driver, 10)
        with Crew("qlab.peers.raw_sqlite", [{"url": address, "waits": "qlab"}]) as crew:
            other.execute("BEGIN IMMEDIATE")
            crew.go()
            with pytest.raises(QlabError, match="has been locked by another connection"):
                list(crew.messages())
