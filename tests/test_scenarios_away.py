"""Scenarios of the bug catalogue: the store is away, hangs or is locked, and workers outlast it."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import racers
from conftest import BY_ARRIVAL, QUEUE, REDIS, Store, only, program
from watching import PATIENCE, Heard, Watched, eventually, heard

from qlab import Queue, SimulatedClock
from qlab.clock import monotonic
from qlab.driver import Counts, Driver
from qlab.drivers import database
from qlab.drivers.server import EmbeddedServer
from qlab.job import Attempt
from qlab.worker import Worked

ONE_OF_EACH_LAYOUT = ("redis_zset-valkey", "redis_list-valkey")


# -- a server that goes away --


@pytest.fixture
def server(store: Store) -> Iterator[EmbeddedServer]:
    """A server of the test's own, to be broken."""
    with EmbeddedServer(persistence="always", **program(store.server)) as server:
        yield server


@pytest.fixture
def url(server: EmbeddedServer, store: Store, tmp_path: Path) -> str:
    layout = "list" if store.name in BY_ARRIVAL else "zset"
    return f"{server.url}?layout={layout}&prefix=own&failed_jobs=sqlite:///{tmp_path}/failed.db"


@pytest.fixture
def idle(url: str) -> Iterator[tuple[Watched, Queue, Heard]]:
    """A worker that idles on the test's own server, its queue, and what is logged."""
    impatient = f"{url}&reply_wait=2"
    with heard() as log, Queue(impatient, name=QUEUE, clock=SimulatedClock()) as queue, Watched(queue) as worker:
        worker.until_idle()
        yield worker, queue, log


def killed(server: EmbeddedServer, log: Heard) -> None:
    server.kill()
    log.until("its store is away")
    server.restart()


def restarted(server: EmbeddedServer, log: Heard) -> None:
    server.restart()


def hung(server: EmbeddedServer, log: Heard) -> None:
    before = log.count("its store is away")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        log.until("its store is away", before + 1)
    finally:
        os.kill(server.pid, signal.SIGCONT)


def cut_off(server: EmbeddedServer, log: Heard) -> None:
    told_by(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def without_scripts(server: EmbeddedServer, log: Heard) -> None:
    told_by(server, "SCRIPT", "FLUSH")


def told_by(server: EmbeddedServer, *words: str) -> Any:
    import redis  # noqa: PLC0415 - only these need it

    with redis.Redis(unix_socket_path=server.socket) as client:
        return client.execute_command(*words)


@pytest.mark.scenario("B18")
@only(*REDIS)
def test_an_idle_worker_goes_on_when_its_server_was_killed_and_is_back(
    server: EmbeddedServer, idle: tuple[Watched, Queue, Heard]
) -> None:
    worker, queue, log = idle
    ran = threading.Event()
    queue.handler("A")(lambda job: ran.set())
    killed(server, log)
    queue.dispatch("A")
    assert eventually(ran)
    worker.until_idle()
    assert worker.worked == Worked(completed=1)
    assert (log.count("its store is away"), log.count("its store is back")) == (1, 1)


@pytest.mark.scenario("B18")
@pytest.mark.parametrize("broken", [restarted, hung, cut_off, without_scripts])
@only(*ONE_OF_EACH_LAYOUT)
def test_an_idle_worker_goes_on_however_its_server_was_away(
    server: EmbeddedServer, idle: tuple[Watched, Queue, Heard], broken: Callable[[EmbeddedServer, Heard], None]
) -> None:
    worker, queue, log = idle
    ran: list[int] = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    for time in range(2):
        broken(server, log)
        worker.until_idle()
        queue.dispatch("A", time)
        worker.until_idle()
    assert ran == [0, 1]
    assert log.count("its store is away") == log.count("its store is back")


@pytest.mark.scenario("B18")
@only(*ONE_OF_EACH_LAYOUT)
def test_a_job_whose_server_dies_while_it_runs_is_settled_or_comes_again(
    server: EmbeddedServer, idle: tuple[Watched, Queue, Heard]
) -> None:
    worker, queue, log = idle
    runs: list[int] = []

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        runs.append(job.number)
        if job.number == 1:
            server.kill()

    queue.dispatch("A")
    log.until("its store is away")
    server.restart()
    worker.until_idle()
    assert worker.worked == Worked(unknown=1)
    assert queue.counts() == Counts(reserved=1)
    queue.clock.spend(90.0)
    worker.until_idle()
    assert (runs, worker.worked) == ([1, 2], Worked(completed=1, unknown=1))
    assert queue.counts() == Counts()


@pytest.mark.scenario("B19")
@only(*REDIS)
def test_stop_returns_within_its_limit_while_the_server_hangs(
    server: EmbeddedServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would be waited for ten seconds."""
    with Queue(url, name=QUEUE) as queue:
        worker = Watched(queue).start()
        worker.until_idle()
        asking = threading.Event()
        os.kill(server.pid, signal.SIGSTOP)
        queue.driver.listen(lambda statement: asking.set())
        assert eventually(asking)
        began = monotonic()
        assert not worker.stop(timeout=0.2)
        assert monotonic() - began < 5.0
        os.kill(server.pid, signal.SIGCONT)
        assert worker.stop(PATIENCE)


# -- a process that is to end meanwhile --


def exits(script: str, url: str, folder: Path) -> tuple[str, int]:
    """Run a worker's process that says `stopped`, and must end soon after: its output and exit code."""
    own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", f"{_OPEN}\n{script}", url]
    with subprocess.Popen(command, cwd=folder, env=own, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout
        said = process.stdout.readline()
        try:
            return said.strip(), process.wait(15.0)  # seconds, where the store is waited for 30 or more
        finally:
            process.kill()


_OPEN = """
import sqlite3, sys, threading
from qlab import Queue, Worker
from qlab.drivers import database
waiting, real = threading.Event(), database.pause
queue = Queue(sys.argv[1])
"""

NOTICE = """
database.pause = lambda seconds: (waiting.set(), real(seconds))
"""

OWN_THREAD = """
worker = Worker(queue).start()
waiting.wait(60)
print("stopped", worker.stop(timeout=0.2), flush=True)
"""

CLOSED = """
worker = Worker(queue, recover=None)
threading.Thread(target=worker.run).start()
waiting.wait(60)
print("stopped", worker.stop(timeout=0.2), flush=True)
queue.close()
"""

CLOSED_BEFORE_ITS_THREAD = """
with queue:
    worker = Worker(queue, recover="force").start()
    waiting.wait(60)
    print("stopped", worker.stop(timeout=0.2), flush=True)
"""

IN_HAND = """
@queue.handler("A")
def handler(job):
    waiting.set()
    threading.Event().wait()
queue.dispatch("A")
"""

NOT_SETTLED = """
@queue.handler("A")
def handler(job):
    lock.execute("BEGIN IMMEDIATE")
    database.pause = lambda seconds: (waiting.set(), real(seconds))
lock = sqlite3.connect("jobs.db", isolation_level=None, check_same_thread=False)
queue.dispatch("A")
"""


@pytest.mark.scenario("B59")
@only("sqlite")
@pytest.mark.parametrize("script", [OWN_THREAD, CLOSED, CLOSED_BEFORE_ITS_THREAD])
def test_a_process_whose_worker_waits_for_a_lock_ends_in_good_order(
    script: str, driver: Driver, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as application:
        application.execute("BEGIN IMMEDIATE")
        assert exits(NOTICE + script, driver.url, tmp_path) == ("stopped False", 0)
        application.execute("ROLLBACK")
        assert application.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.scenario("B59")
@only("sqlite")
@pytest.mark.parametrize("job", [IN_HAND, NOT_SETTLED])
def test_a_process_whose_worker_holds_a_job_ends_in_good_order(job: str, driver: Driver, tmp_path: Path) -> None:
    assert exits(job + OWN_THREAD, driver.url, tmp_path) == ("stopped False", 0)
    assert [(held.name, held.attempts) for held in driver.jobs("default", now=0.0)] == [("A", 1)]
    assert driver.check("default", now=0.0) == []


@pytest.mark.scenario("B19")
@only(*ONE_OF_EACH_LAYOUT)
def test_a_process_whose_worker_waits_for_a_server_that_hangs_ends_in_good_order(
    server: EmbeddedServer, url: str, tmp_path: Path
) -> None:
    hang = f"""
import os, signal
os.kill({server.pid}, signal.SIGSTOP)
queue.driver.listen(lambda statement: waiting.set())
"""
    try:
        assert exits(hang + OWN_THREAD, f"{url}&reply_wait=60", tmp_path) == ("stopped False", 0)
    finally:
        os.kill(server.pid, signal.SIGCONT)


# -- a lock that another process holds --


@pytest.mark.scenario("B50")
@pytest.mark.parametrize("lock_wait", [30.0, 0.05])
@only("sqlite")
def test_workers_outlast_another_process_that_holds_the_lock(
    driver: Driver, lock_wait: float, tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Counter[int] = Counter()
    waiting, real = threading.Event(), database.pause
    monkeypatch.setattr(database, "pause", lambda seconds: (waiting.set(), real(seconds)))
    with heard() as log, Queue(f"{driver.url}?lock_wait={lock_wait}", name=QUEUE, clock=clock) as queue:
        queue.handler("A")(lambda job: ran.update([job.payload]))
        queue.dispatch_many([("A", number) for number in range(1_000)])
        workers = [Watched(queue, name=f"w{number}") for number in range(4)]
        for held in range(2):
            with the_lock_held(tmp_path / "jobs.db"):
                waiting.clear()
                if not held:
                    for worker in workers:
                        worker.start()
                if lock_wait < 1.0:
                    log.until("its store is away", held + 1)
                assert eventually(waiting)
        for worker in workers:
            worker.until_idle()
        clock.advance(90.0)
        for worker in workers:
            worker.until_idle()
            assert worker.stop(PATIENCE)
        assert queue.counts() == Counts()
    unknown = sum(worker.worked.unknown for worker in workers)
    assert sum(worker.worked.completed for worker in workers) == len(ran) == 1_000
    assert ran.total() == 1_000 + unknown
    assert unknown == 0 or lock_wait < 1.0
    assert log.count("something went wrong") == 0


class the_lock_held:  # noqa: N801 - reads as what is so
    """Let another process hold a file's write lock."""

    def __init__(self, path: Path) -> None:
        processes = multiprocessing.get_context("forkserver")
        self._held, self._let_go = processes.Event(), processes.Event()
        self._holder = processes.Process(
            target=racers.hold_the_lock, args=(str(path), self._held, self._let_go), daemon=True
        )

    def __enter__(self) -> None:
        self._holder.start()
        assert self._held.wait(PATIENCE)

    def __exit__(self, *exc: object) -> None:
        self._let_go.set()
        self._holder.join(PATIENCE)
