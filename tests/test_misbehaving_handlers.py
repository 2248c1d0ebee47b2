"""Handlers that misbehave: the attempt is recorded, nothing is half done, and the next job runs."""

import gc
import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from conftest import ONE_OF_EACH, QUEUE, SHARED, only, outcomes, stores, told

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Counts, Driver
from qlab.errors import QueueClosed
from qlab.job import Attempt
from qlab.trace import Event

store = stores(*ONE_OF_EACH, "sqlite-memory")

Misbehave = Callable[[Attempt], Any]
GONE = 77
"""The exit code of a child that a test has let go."""


class Mute(Exception):
    """Neither its text nor its class can be shown."""

    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


class Nameless(type):
    @property
    def __name__(cls) -> NoReturn:
        raise RuntimeError("no name")


class Anonymous(Exception, metaclass=Nameless):
    pass


class NoText(Exception):
    __str__ = lambda self: 5  # noqa: E731 - what is no text, said in a way that no linter stops


class SaysNo(Exception):
    @property
    def __traceback__(self) -> Any:
        raise RuntimeError("no traceback")

    @property
    def __cause__(self) -> Any:
        raise RuntimeError("no cause")


def raising(error: BaseException | type[BaseException]) -> Misbehave:
    def handler(job: Attempt) -> None:
        raise error

    return handler


def falls_without_end(job: Attempt) -> None:
    falls_without_end(job)


def blames_itself(job: Attempt) -> None:
    error = ValueError("boom")
    error.__cause__ = TypeError("why")
    error.__cause__.__cause__ = error
    raise error


def blames_a_thousand(job: Attempt) -> None:
    error = None
    for number in range(1_000):
        following = ValueError(f"because {number}")
        following.__cause__, error = error, following
    assert error
    raise error


def writes_megabytes_of_traceback(job: Attempt) -> None:
    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        raise ExceptionGroup("x" * 50_000, [ValueError("y" * 50_000) for _ in range(100)])

    fall(100)


def will_not_be_closed(job: Attempt) -> Iterator[Any]:
    try:
        yield "soon"
    finally:
        yield "never"


def raises_when_closed(job: Attempt) -> Iterator[Any]:
    try:
        yield "soon"
    finally:
        raise SystemExit("closing")


def closes_itself(job: Attempt) -> Iterator[float]:
    yield 0.0
    raise GeneratorExit


def leaves(job: Attempt) -> None:
    sys.exit(3)


def changes_the_limit(job: Attempt) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        falls_without_end(job)
    finally:
        sys.setrecursionlimit(before)


FAILING: dict[str, Misbehave] = {
    **{
        error.__name__: raising(error)
        for error in (
            *(ArithmeticError, EOFError, GeneratorExit, ImportError, KeyError, OSError, StopAsyncIteration),
            *(StopIteration, SystemExit, TimeoutError, UnicodeError, NotImplementedError, sqlite3.OperationalError),
            *(Mute, NoText, SaysNo, QueueClosed),
        )
    },
    "Anonymous": raising(Anonymous()),
    "surrogate": raising(ValueError("\ud800\0\x1b[2J")),
    **{
        handler.__name__: handler
        for handler in (
            *(falls_without_end, blames_itself, blames_a_thousand, writes_megabytes_of_traceback, leaves),
            *(will_not_be_closed, raises_when_closed, closes_itself, changes_the_limit),
        )
    },
}


def fill(queue: Queue, misbehave: Misbehave, *, tries: int = 1) -> list[int]:
    """Dispatch a job that misbehaves and then a good one; the list grows with the ids of the good ones that ran."""
    ran: list[int] = []
    queue.handler("bad", tries=tries)(misbehave)
    queue.handler("good")(lambda job: ran.append(job.id))
    queue.dispatch("bad")
    queue.dispatch("good")
    return ran


@pytest.mark.scenario("B46")
@pytest.mark.parametrize("misbehave", FAILING.values(), ids=FAILING)
def test_whatever_a_handler_raises_its_attempt_is_recorded_and_the_next_job_runs(
    queue: Queue, misbehave: Misbehave
) -> None:
    ran = fill(queue, misbehave, tries=2)
    assert outcomes(queue, 0.0, 0.0, 9.0, 10.0, 1000.0) == ["Retrying", "Completed", "Idle", "Failed", "Idle"]
    assert ran == [2]
    assert told(queue, "released", "completed", "failed") == [
        *((0.0, "released", 1), (0.0, "completed", 2), (10.0, "failed", 1)),
    ]
    (row,) = queue.failed()
    assert (row.name, row.attempts) == ("bad", 2)
    assert 0 < len(row.error) < 1_100
    assert len(row.traceback) < 70_000
    assert (row.error + row.traceback).encode()
    assert queue.counts() == Counts(failed=1)


@pytest.mark.parametrize("misbehave", FAILING.values(), ids=FAILING)
def test_drain_goes_on_after_whatever_a_handler_raises(queue: Queue, misbehave: Misbehave) -> None:
    ran = fill(queue, misbehave)
    assert [type(outcome).__name__ for outcome in queue.drain()] == ["Failed", "Completed"]
    assert ran == [2]


@pytest.mark.scenario("B41")
@pytest.mark.parametrize("error", [RuntimeError("no log"), SystemExit("no log")], ids=["Exception", "BaseException"])
def test_a_log_that_raises_leaves_one_failed_row_and_stops_nobody(queue: Queue, error: BaseException) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise error

    ran = fill(queue, raising(ValueError("boom")))
    broken = Broken()
    logging.getLogger("qlab").addHandler(broken)
    try:
        assert outcomes(queue, 0.0, 0.0) == ["Failed", "Completed"]
    finally:
        logging.getLogger("qlab").removeHandler(broken)
    assert [row.error for row in queue.failed()] == ["ValueError: boom"]
    assert told(queue, "failed") == [(0.0, "failed", 1)]
    assert ran == [2]


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("way", ["its attempt", "its queue"])
def test_what_a_handler_dispatches_is_there_however_it_ends(queue: Queue, way: str, raises: bool) -> None:
    def handler(job: Attempt) -> None:
        if way == "its attempt":
            job.dispatch("good")
        else:
            queue.dispatch("good")
        if raises:
            raise ValueError("boom")

    ran = fill(queue, handler)
    assert outcomes(queue, 0.0, 0.0, 0.0, 0.0) == ["Failed" if raises else "Completed", *["Completed"] * 2, "Idle"]
    assert ran == [2, 3]


def test_a_handler_may_work_the_queue_that_runs_it(queue: Queue) -> None:
    """The inner steps are attempts of their own; the outer one is settled as if nothing had been."""

    def handler(job: Attempt) -> None:
        assert outcomes(queue, 0.0, 0.0) == ["Completed", "Idle"]

    ran = fill(queue, handler)
    assert outcomes(queue, 0.0, 0.0) == ["Completed", "Idle"]
    assert ran == [2]
    assert told(queue, "completed") == [(0.0, "completed", 2), (0.0, "completed", 1)]


def test_a_handler_may_move_the_clock_past_its_own_reservation(queue: Queue, clock: SimulatedClock) -> None:
    def handler(job: Attempt) -> None:
        clock.advance(1_000)

    ran = fill(queue, handler)
    assert [type(queue.work_once()).__name__ for _ in range(3)] == ["Completed", "Completed", "Idle"]
    assert told(queue, "completed") == [(1_000.0, "completed", 1), (1_000.0, "completed", 2)]
    assert ran == [2]


def test_a_clock_that_says_nonsense_is_told_and_the_job_comes_back(driver: Driver) -> None:
    class Mad(SimulatedClock):
        said: Any = 0.0

        def now(self) -> float:
            return self.said

    clock = Mad()
    queue = Queue(driver, clock=clock, name=QUEUE)

    def handler(job: Attempt) -> None:
        clock.said = float("nan") if job.number == 1 else 90.0

    ran = fill(queue, handler, tries=2)
    with pytest.raises(ValueError, match="nan"):
        queue.work_once()
    clock.said = 90.0
    assert [type(queue.work_once()).__name__ for _ in range(3)] == ["Completed", "Completed", "Idle"]
    assert ran == [2]


@only(*SHARED)
def test_a_handler_that_closes_its_queue_leaves_the_job_to_the_next_one(
    queue: Queue, open_again: Callable[[], Driver]
) -> None:
    def handler(job: Attempt) -> None:
        if job.number == 1:
            queue.close()

    fill(queue, handler)
    assert outcomes(queue, 0.0) == ["Unknown"]
    with pytest.raises(QueueClosed):
        queue.work_once(0.0)
    assert told(queue) == [(0.0, "dispatched", 1), (0.0, "dispatched", 2), (0.0, "reserved", 1)]
    other = Queue(open_again(), clock=SimulatedClock(), name=QUEUE)
    for name in ("bad", "good"):
        other.handler(name)(handler)
    assert outcomes(other, 0.0, 0.0, 90.0, 90.0) == ["Completed", "Idle", "Completed", "Idle"]
    assert other.driver.check(QUEUE, now=90.0) == []


@only("sqlite")
@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
def test_a_handler_that_holds_a_transaction_on_the_file_is_given_up_in_time(
    address: str, tmp_path: Path, begin: str, raises: bool
) -> None:
    """Nobody can settle its job while it does; once it lets go, the job comes back when its reservation runs out."""
    with (
        closing(drivers.open(f"{address}?lock_wait=0.05")) as driver,
        closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as application,
    ):
        queue = Queue(driver, clock=SimulatedClock(), name=QUEUE)

        def handler(job: Attempt) -> None:
            if job.number == 1:
                application.execute(begin)
                if raises:
                    raise ValueError("boom")

        ran = fill(queue, handler, tries=3)
        assert outcomes(queue, 0.0) == ["Unknown"]
        assert ran == []
        application.execute("ROLLBACK")
        assert outcomes(queue, 0.0, 89.0, 90.0) == ["Completed", "Idle", "Completed"]
        assert driver.check(QUEUE, now=90.0) == []
        assert application.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@only("sqlite")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_transaction_that_a_handler_forgot_ends_with_its_connection(driver: Driver, tmp_path: Path) -> None:
    queue = Queue(driver, clock=SimulatedClock(), name=QUEUE)

    def handler(job: Attempt) -> None:
        sqlite3.connect(tmp_path / "jobs.db", isolation_level=None).execute("BEGIN IMMEDIATE")
        gc.collect()

    ran = fill(queue, handler)
    assert outcomes(queue, 0.0, 0.0) == ["Completed", "Completed"]
    assert ran == [2]


def test_threads_that_a_handler_leaves_behind_come_too_late(queue: Queue) -> None:
    """What they ask of the attempt is refused, or changes nothing, once it is settled."""
    settled, left = threading.Event(), []

    def late(job: Attempt) -> None:
        settled.wait(60.0)
        left.append(job.extend(100.0))

    def handler(job: Attempt) -> None:
        thread = threading.Thread(target=late, args=(job,))
        left.append(thread)
        thread.start()

    fill(queue, handler)
    assert outcomes(queue, 0.0, 0.0) == ["Completed", "Completed"]
    settled.set()
    left[0].join(60.0)
    assert left[1:] == [False]
    assert queue.counts() == Counts()


# -- forks --


def raise_or_return(way: str) -> None:
    if way == "raises":
        raise ValueError("in the child")
    if way == "leaves":
        sys.exit(GONE)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("generator", [False, True], ids=["function", "generator"])
@pytest.mark.parametrize(("way", "code"), [("returns", 1), ("raises", 1), ("leaves", GONE), ("ends", GONE)])
def test_a_child_that_a_handler_forked_never_becomes_a_second_worker(
    queue: Queue, way: str, code: int, generator: bool
) -> None:
    """A child that comes back out of the handler ends there: it settles nothing, and takes no job."""
    children: list[int] = []

    def fork() -> None:
        if child := os.fork():
            children.append(child)
        elif way == "ends":
            os._exit(GONE)
        else:
            raise_or_return(way)

    def spending(job: Attempt) -> Iterator[float]:
        fork()
        yield 0.0

    ran = fill(queue, spending if generator else lambda job: fork())
    here = os.getpid()
    outcome = queue.work_once(0.0)
    if os.getpid() != here:  # the worker's code went on in the child
        os._exit(99)
    assert type(outcome).__name__ == "Completed"
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [code]
    assert outcomes(queue, 0.0, 0.0) == ["Completed", "Idle"]
    assert ran == [2]
    assert isinstance(queue.trace[0], Event)
    assert queue.counts() == Counts()
