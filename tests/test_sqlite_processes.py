"""Threads, forks and processes that share a SQLite file: each has its own connection, and nobody harms another's."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import racers
from conftest import QUEUE, only, outcomes, push, stores
from verbs import assert_sound

from qlab import Queue, drivers
from qlab.driver import Counts, Driver, Statement
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable

store = stores("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def queue(queue: Queue) -> Queue:
    queue.handler("A")(lambda job: None)
    return queue


# -- threads --


def test_the_connections_of_threads_that_ended_are_closed(driver: Driver) -> None:
    assert isinstance(driver, SqliteDriver)
    for _ in range(5):
        thread = threading.Thread(target=driver.counts, args=(QUEUE,), kwargs={"now": 0.0})
        thread.start()
        thread.join(60.0)
    assert len(driver.database._opened) <= 2  # noqa: SLF001 - what the driver holds


# -- forks --


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


@pytest.mark.scenario("B53")
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
    assert_sound(path)


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


@pytest.mark.scenario("B53")
@pytest_fork
def test_a_fork_in_the_middle_of_a_transaction_leaves_it_to_the_parent(driver: Driver, path: Path) -> None:
    told: list[int] = []

    def use() -> None:
        with pytest.raises(DriverUnavailable, match="was in use"):
            driver.counts(QUEUE, now=0.0)

    def fork(statement: Statement) -> None:
        if statement.verb == "push" and os.getpid() == parent and not told:
            told.append(in_a_forked_child(use))

    parent = os.getpid()
    driver.listen(fork)
    push(driver, "a", "b")
    assert told == [0]
    assert [job.name for job in driver.jobs(QUEUE, now=0.0)] == ["a", "b"]
    assert_sound(path)


FORKS = """
import os, sys
from qlab import Queue

queue = Queue(sys.argv[1], name="mail")
queue.handler("A", tries=1)(lambda job: 1 / job.payload)
queue.dispatch_many([("A", 0), ("A", 1), ("A", 1)])
queue.work_once()
child = os.fork()
if child == 0:
    queue.dispatch_many([("A", 1), ("A", 0)])
    queue.drain()
    sys.exit(7)  # with all that an exit does
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
queue.dispatch("A", 0)
queue.drain()
queue.dispatch("A", 1)
print(code, *queue.counts(), queue.driver.check("mail", now=0.0))
queue.close()
"""

FORKS_WHILE_A_THREAD_WORKS = """
import os, sys, threading
from qlab import Queue
from qlab.drivers import connections
from qlab.errors import DriverUnavailable

url, where, awaited = sys.argv[1:]
queue = Queue(url, name="mail")
queue.handler("A")(lambda job: None)
main, within, go_on = threading.current_thread(), threading.Event(), threading.Event()

def hold(statement):
    if statement.verb == where and threading.current_thread() is not main:
        within.set()
        go_on.wait(60.0)

def close_idle(seat, patience, real=connections.Seat.close_idle):
    go_on.set()  # now that a fork waits for the seat
    real(seat, patience)

if awaited == "awaited":
    connections.Seat.close_idle = close_idle
else:
    connections.PATIENCE = 0.05

queue.driver.listen(hold)
thread = threading.Thread(target=queue.dispatch, args=("A", "thread"))
thread.start()
assert within.wait(60.0)
child = os.fork()
if child == 0:
    for use in (lambda: queue.dispatch("A", "child"), lambda: Queue(url, name="mail").counts()):
        try:
            use()
        except DriverUnavailable as error:
            print(error)
    sys.exit(7)
go_on.set()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
thread.join()
queue.dispatch("A", "parent")
print(code, *queue.counts(), queue.driver.check("mail", now=0.0))
queue.close()
"""


def said_by(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return done.stdout.strip()


@pytest.mark.scenario("B53")
@pytest_fork
@only("sqlite", "redis_zset-valkey", "redis_list-valkey")
def test_a_forked_child_that_ends_as_programs_do_takes_nothing_of_its_parent_s_along(
    address: str, tmp_path: Path
) -> None:
    assert said_by(FORKS, address) == "7 1 0 0 3 []"
    (file,) = tmp_path.glob("*.db")
    assert_sound(file)


each_moment = pytest.mark.parametrize("moment", ["open", "begin", "push", "commit"])


@pytest.mark.scenario("B53")
@pytest_fork
@each_moment
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_fork_waits_for_the_threads_that_use_the_file(driver: Driver, path: Path, journal: str, moment: str) -> None:
    driver.close()
    url = f"sqlite:///{path}?journal={journal}"
    assert said_by(FORKS_WHILE_A_THREAD_WORKS, url, moment, "awaited") == "7 3 0 0 0 []"
    with drivers.open(url) as later:
        assert [job.payload for job in later.jobs(QUEUE, now=0.0)] == ["thread", "child", "parent"]
    assert_sound(path)


@pytest.mark.scenario("B53")
@pytest_fork
@each_moment
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_child_forked_while_a_thread_keeps_the_file_is_told_so_and_takes_nothing_from_it(
    driver: Driver, path: Path, journal: str, moment: str
) -> None:
    """SQLite would take the parent's locks for the child's own: what it wrote could be lost."""
    driver.close()
    url = f"sqlite:///{path}?journal={journal}"
    *told, last = said_by(FORKS_WHILE_A_THREAD_WORKS, url, moment, "given up").splitlines()
    assert last == "7 2 0 0 0 []"
    assert len(told) == 2
    for each in told:
        assert each.startswith(f"{path} was in use by another thread while this process was forked")
        assert each.endswith("or start processes with multiprocessing's forkserver or spawn")
    with drivers.open(url) as later:
        assert [job.payload for job in later.jobs(QUEUE, now=0.0)] == ["thread", "parent"]
    assert_sound(path)


# -- processes --


WAITS = """
import signal, sys
from qlab import drivers
from qlab.job import NewJob

signal.signal(signal.SIGINT, signal.default_int_handler)
driver = drivers.open(sys.argv[1])
driver.listen(lambda statement: print("asks", flush=True))
driver.push("mail", [NewJob("uid", "A", "null", 0.0)], now=0.0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing on Windows")
def test_ctrl_c_ends_a_wait_for_the_lock(driver: Driver, path: Path) -> None:
    program = [sys.executable, "-c", WAITS, f"{driver.url}?lock_wait=600"]
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("BEGIN EXCLUSIVE")
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "asks\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60.0)
        assert errors.endswith("KeyboardInterrupt\n")
        assert process.returncode == -signal.SIGINT
        application.execute("ROLLBACK")
    assert driver.counts(QUEUE, now=0.0) == Counts()
    assert_sound(path)


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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_processes_that_open_a_new_file_at_once_find_one_sound_store(tmp_path: Path, journal: str, deep: bool) -> None:
    """Each pushes a job and fails one; a file's name for itself is one, whoever made the table."""
    racing, rounds = 4, 1_000 if deep else 40
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["racers"])
    start = processes.Barrier(racing)
    opened = [
        processes.Process(target=racers.open_at_once, args=(str(tmp_path), journal, rounds, start), daemon=True)
        for _ in range(racing)
    ]
    for process in opened:
        process.start()
    for process in opened:
        process.join(500.0)
    assert [process.exitcode for process in opened] == [0] * racing
    said = [file.read_text().split() for file in tmp_path.glob("*.names")]
    assert len(said) == racing
    for number in range(rounds):
        assert len({names[number] for names in said}) == 1
        path = tmp_path / f"{number}.db"
        with drivers.open(f"sqlite:///{path}", create=False) as driver:
            assert driver.counts(QUEUE, now=0.0) == Counts(ready=racing, failed=racing)
            assert driver.description.endswith(f"{journal}, synchronous=NORMAL")
        assert_sound(path)
