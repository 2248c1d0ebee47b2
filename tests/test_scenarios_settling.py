"""Scenarios of the bug catalogue: a store that breaks while it is told how a job ended."""

import logging
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from conftest import ONE_OF_EACH, QUEUE, STAGED, only, outcomes, told

from qlab import Policy, Queue, Unknown
from qlab.driver import Counts, Driver
from qlab.drivers.failed_jobs import StagedFailures
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable

Mend = Callable[[], None]


def breaks(driver: Driver, verb: str, times: float) -> Mend:
    """Let the store fail this often from now on, as it does itself; gives what mends it."""
    calls = 0

    def broken() -> bool:
        nonlocal calls
        calls += 1
        return calls <= times

    if isinstance(driver, SqliteDriver):
        connection = connection_of(driver)
        connection.set_progress_handler(broken, 1)  # the statement ends as sqlite3.OperationalError
        return lambda: connection.set_progress_handler(None, 1)
    where, name = (driver._client, "ask") if isinstance(driver, RedisStore) else (driver, verb)  # noqa: SLF001
    real = getattr(where, name)
    error = redis.ConnectionError("reset by peer") if isinstance(driver, RedisStore) else DriverUnavailable("away")

    def asked(*args: Any, **kwargs: Any) -> Any:
        if broken():
            raise error
        return real(*args, **kwargs)

    setattr(where, name, asked)
    return lambda: setattr(where, name, real)


def connection_of(driver: Driver) -> sqlite3.Connection:
    """This thread's connection to the file, or to the database in memory, that holds the failed jobs."""
    assert isinstance(driver, SqliteDriver | StagedFailures)
    database = driver.database if isinstance(driver, SqliteDriver) else driver.failed_jobs.database()
    seat: Any = database._seat()  # noqa: SLF001 - to break it as nobody may
    return seat.connection


@pytest.fixture(params=["complete", "release"])
def ending(request: pytest.FixtureRequest) -> str:
    """How the job ends that the store breaks on."""
    return request.param


@pytest.fixture
def breaking(queue: Queue, ending: str) -> Iterator[Callable[[float], list[Mend]]]:
    """Dispatches a job whose first attempt breaks the store, this often, right before it ends."""
    mends: list[Mend] = []

    def dispatch(times: float) -> list[Mend]:
        def handler(job: Any) -> None:
            if job.number == 1:
                mends.append(breaks(queue.driver, ending, times))
                if ending == "release":
                    raise ValueError("boom")

        queue.handler("A")(handler)
        queue.dispatch("A")
        return mends

    yield dispatch
    for mend in mends:
        mend()


@pytest.mark.scenario("B12")
@pytest.mark.scenario("B14")
def test_an_end_that_the_store_never_takes_is_unknown_and_the_job_comes_again(
    queue: Queue, breaking: Callable[[float], list[Mend]], ending: str
) -> None:
    mends = breaking(math.inf)
    outcome = queue.work_once(0.0)
    mends.pop()()
    assert isinstance(outcome, Unknown)
    assert outcome.reserved_until == 90.0
    assert "its store did not answer" in outcome.says
    assert queue.driver.counts(QUEUE, now=0.0) == Counts(reserved=1)
    assert outcomes(queue, 89.0, 90.0, 1000.0) == ["Idle", "Completed", "Idle"]
    assert queue.trace[len(queue.trace) - 2].attempt == 2


@pytest.mark.scenario("B12")
@pytest.mark.scenario("B14")
def test_an_end_that_the_store_takes_at_the_second_try_is_an_end(
    queue: Queue, breaking: Callable[[float], list[Mend]], ending: str
) -> None:
    breaking(1)
    expected = {"complete": ["Completed", "Idle", "Idle"], "release": ["Retrying", "Idle", "Completed"]}
    assert outcomes(queue, 0.0, 9.0, 10.0) == expected[ending]
    assert len(told(queue, "completed")) == 1
    assert queue.counts() == Counts()


@contextmanager
def no_table(driver: Driver) -> Iterator[None]:
    """Take `failed_jobs` away for a while."""
    connection = connection_of(driver)
    connection.execute("ALTER TABLE failed_jobs RENAME TO elsewhere")
    yield
    connection.execute("ALTER TABLE elsewhere RENAME TO failed_jobs")


@contextmanager
def locked_table(driver: Driver) -> Iterator[None]:
    """Hold the lock of the file that `failed_jobs` is in."""
    assert isinstance(driver, SqliteDriver | StagedFailures)
    database = driver.database if isinstance(driver, SqliteDriver) else driver.failed_jobs.database()
    database.lock_wait = 0.01
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


def fails_where(queue: Queue, broken: Callable[[Driver], Any]) -> str:
    """Run a job whose last attempt fails while its row cannot be written; gives the outcome."""
    queue.policy = Policy(tries=1)
    ran = []

    @queue.handler("A")
    def handler(job: Any) -> None:
        ran.append(job.number)
        raise ValueError("the handler's own")

    queue.dispatch("A", [1])
    held = queue.reserve(0.0)
    assert held
    with broken(queue.driver):
        outcome = type(queue.finish(held, 0.0)).__name__
    assert ran == [1]
    return outcome


def one_failed(queue: Queue, error: str) -> None:
    """The job is in `failed_jobs`, once, and nowhere else; asking again changes nothing."""
    for _ in range(2):
        assert len(queue.driver.failed_ids(QUEUE)) == 1
        (row,) = queue.failed()
        assert (row.name, row.body, row.attempts) == ("A", "[1]", 1)
        assert row.error.startswith(error)
        assert queue.driver.counts(QUEUE, now=1000.0) == Counts(failed=1)


@pytest.mark.scenario("B40")
@only(*STAGED)
def test_a_last_failure_whose_row_cannot_be_written_is_failed_with_its_own_error(queue: Queue) -> None:
    assert fails_where(queue, no_table) == "Failed"
    assert outcomes(queue, 90.0) == ["Idle"]
    one_failed(queue, "ValueError: the handler's own")


@pytest.mark.scenario("B40")
@only("redis_zset-valkey", "redis_list-valkey")
def test_a_last_failure_whose_table_is_locked_is_failed_with_its_own_error(queue: Queue) -> None:
    assert fails_where(queue, locked_table) == "Failed"
    assert outcomes(queue, 90.0) == ["Idle"]
    one_failed(queue, "ValueError: the handler's own")


@pytest.mark.scenario("B40")
@only("sqlite", "sqlite-memory")
def test_a_last_failure_that_one_file_cannot_take_leaves_the_job_reserved_until_it_is_exhausted(queue: Queue) -> None:
    assert fails_where(queue, no_table) == "Unknown"
    assert queue.driver.counts(QUEUE, now=0.0) == Counts(reserved=1)
    assert outcomes(queue, 89.0, 90.0) == ["Idle", "Failed"]
    one_failed(queue, "AttemptsExhausted: ")


@pytest.mark.scenario("B40")
@only("sqlite")
def test_a_last_failure_on_a_locked_file_leaves_the_job_reserved_until_it_is_exhausted(queue: Queue) -> None:
    assert fails_where(queue, locked_table) == "Unknown"
    assert outcomes(queue, 89.0, 90.0) == ["Idle", "Failed"]
    one_failed(queue, "AttemptsExhausted: ")


class Raises(logging.Filter):
    """An application's logging that is broken."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise OSError("the log's disk is full")


@pytest.fixture
def broken_log() -> Iterator[None]:
    log, filter_ = logging.getLogger("qlab"), Raises()
    log.addFilter(filter_)
    yield
    log.removeFilter(filter_)


@pytest.mark.scenario("B41")
def test_a_log_that_raises_while_a_job_is_failed_leaves_one_failed_row(
    queue: Queue, broken_log: None, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.handler("B")(lambda job: None)
    queue.dispatch("A", [1])
    queue.dispatch("B")
    assert outcomes(queue, 0.0, 0.0) == ["Failed", "Completed"]
    assert told(queue, "failed") == [(0.0, "failed", 1)]
    one_failed(queue, "ZeroDivisionError")
    assert "the log's disk is full" in capsys.readouterr().err


@pytest.mark.scenario("B41")
@only(*STAGED)
def test_a_log_that_raises_while_a_row_cannot_be_written_changes_nothing(queue: Queue, broken_log: None) -> None:
    assert fails_where(queue, no_table) == "Failed"
    one_failed(queue, "ValueError: the handler's own")


@pytest.mark.scenario("B41")
@only(*ONE_OF_EACH)
def test_a_log_that_raises_does_not_keep_a_queue_from_being_recovered(queue: Queue, broken_log: None) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    queue.reserve(0.0)
    assert [job.id for job in queue.recover(force=True)] == [1]
