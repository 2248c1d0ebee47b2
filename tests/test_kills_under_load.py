"""Workers and servers that are killed at random while there is much to do: no job is lost, and none is in two places.

Real time, because real processes are killed: `retry_after` is half a second. The numbers are small; `--deep` makes them
what they should be once in a while.
"""

import math
import random
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import mortals
import pytest
import redis
from conftest import Store, only, program, stores
from nursery import Nursery
from tried import Tried

from qlab import Queue, SystemClock
from qlab.clock import pause
from qlab.driver import Counts
from qlab.drivers.server import EmbeddedServer
from qlab.history import Journal, Record, joined, written
from qlab.history.promises import Broken, Fault, broken
from qlab.history.stories import stories_of
from qlab.trace import Kind

store = stores("sqlite", "redis_zset-redis8", "redis_list-valkey")
on_servers = only("redis_zset-redis8", "redis_list-valkey")

WORKERS = 8
AGAIN = (Kind.EXPIRED, Kind.RECOVERED)


class Size(NamedTuple):
    """How much is tried.

    Attributes:
        kills: How often something is killed.
        portion: How many jobs are dispatched before each kill.
        interval: How many seconds there are between two kills, give or take half of it.
    """

    kills: int
    portion: int
    interval: float


def a_mix(count: int) -> list[str]:
    """The handlers of many jobs, at random."""
    return random.choices(list(mortals.SORTS), [sort.share for sort in mortals.SORTS.values()], k=count)


class Load:
    """A queue with eight workers that may be killed, and whatever everybody was told."""

    def __init__(self, nursery: Nursery, url: str, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "ours.journal", SystemClock())
        self.queue = Queue(url, name="load", policy=mortals.RULES, trace=self.journal)
        self.jobs: dict[str, tuple[int, str]] = {}
        self.killed = 0
        self._nursery = nursery
        self._url = url
        self._numbers = 0
        self._alive: list[tuple[int, str]] = []
        mortals.give_handlers(self.queue, folder / "ours.runs")

    def dispatch(self, names: Sequence[str]) -> list[int]:
        """Dispatch jobs, and tell their payloads: the numbers from 0 on."""
        numbers = range(len(self.jobs), len(self.jobs) + len(names))
        pushed = self.queue.dispatch_many(zip(names, numbers, strict=True))
        self.jobs |= {job.uid: (job.id, job.name) for job in pushed}
        return list(numbers)

    def start_workers(self, *, looping: bool = False) -> None:
        """Start as many as are missing; every second one may be a `Worker`, the others go step by step."""
        while len(self._alive) < WORKERS:
            self._numbers += 1
            name = f"worker {self._numbers}"
            how = {"url": self._url, "queue": self.queue.name, "folder": str(self.folder), "worker": name}
            pid = self._nursery.fork("work", looping=looping and self._numbers % 2 == 0, **how)
            self._alive.append((pid, name))

    def kill_one(self) -> None:
        self._kill(self._alive.pop(random.randrange(len(self._alive))))
        self.killed += 1

    def finish(self) -> None:
        """Work beside the others until nothing is left, and end them."""
        self.queue.drain(math.inf, worker="survivor")
        while self._alive:
            self._kill(self._alive.pop())

    def _kill(self, worker: tuple[int, str]) -> None:
        self._nursery.kill(worker[0])
        self.journal.record(self.queue.clock.now(), Kind.CRASHED, worker=worker[1])

    def close(self) -> None:
        self.queue.close()
        self.journal.close()

    # -- what came of it --

    @cached_property
    def history(self) -> list[Record]:
        return joined(*map(written, self.folder.glob("*.journal")))

    @cache  # noqa: B019 - a load is kept no longer than its test
    def runs(self, what: str) -> Counter[int]:
        """How often runs of each job `began` or `ended`, as the handlers wrote it down."""
        lines = [line for path in self.folder.glob("*.runs") for line in path.read_text().splitlines()]
        return Counter(int(line.split()[1]) for line in lines if line.startswith(what))

    def faults(self) -> list[Broken]:
        driver, now = self.queue.driver, self.queue.clock.now()
        left = [job.id for job in driver.jobs(self.queue.name, now=now)]
        failed = [self.jobs[row.uid][0] for row in driver.failed(self.queue.name)]
        runs = self.runs("began")
        return broken(self.history, left=left, failed=failed, runs=runs, order=driver.order)

    def check(self, *, besides: Collection[int | None] = ()) -> None:
        """Each job is done or failed, once, and none ran more often than at least once allows."""
        driver, name, now = self.queue.driver, self.queue.name, self.queue.clock.now()
        jobs = {job: handler for job, handler in self.jobs.values() if job not in besides}
        failed = [self.jobs[row.uid][0] for row in driver.failed(name)]
        assert driver.counts(name, now=now) == Counts(failed=len(failed))
        assert sorted(set(failed) - set(besides)) == [job for job, handler in jobs.items() if handler == "breaks"]
        assert {job for job in jobs if job in failed or self.runs("ended")[job]} == set(jobs)
        assert [job for job in jobs if self.runs("began")[job] > self.allowed[job]] == []
        assert driver.check(name, now=now) == []
        for path in self.folder.glob("*.db"):
            with closing(sqlite3.connect(path)) as file:
                assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    @cached_property
    def allowed(self) -> dict[int, int]:
        """How often each job may have run: once, and again whenever it was given back or its reservation ran out.

        A worker that died may have given back what it held.
        """
        return {
            job: 1
            + len(story.of(Kind.RELEASED, *AGAIN))
            + sum(story.may_have_ended(attempt) for attempt in story.reserved)
            for job, story in stories_of(self.history).items()
        }

    def count(self, tried: Tried, *, servers: int = 0) -> None:
        told = {
            "jobs": len(self.jobs),
            "worker processes killed": self.killed,
            "servers killed and started again": servers,
            "attempts that ran a job once more": sum(record.event.kind in AGAIN for record in self.history),
        }
        if not self.faults():
            told |= {"lost": 0, "in two places": 0}
        for what, count in told.items():
            tried.add(self.queue.driver.name, what, count)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.fixture
def persistence() -> str:
    """What a store's server survives, where it has one."""
    return "everysec"


@pytest.fixture
def server(store: Store, persistence: str) -> Iterator[EmbeddedServer | None]:
    """The server of a test's own, where its store needs one."""
    if not store.server:
        yield None
        return
    with EmbeddedServer(persistence=persistence, **program(store.server)) as running:
        yield running


@pytest.fixture
def load(nursery: Nursery, store: Store, server: EmbeddedServer | None, tmp_path: Path) -> Iterator[Load]:
    url = store.url.format(folder=tmp_path, server=server.url if server else "", prefix="load")
    running = Load(nursery, url, tmp_path)
    yield running
    running.close()


@pytest.mark.timeout(900)
def test_no_job_is_lost_or_doubled_by_workers_that_are_killed_at_random(load: Load, deep: bool, tried: Tried) -> None:
    size = Size(110, 91, 0.5) if deep else Size(12, 50, 0.15)
    for _ in range(size.kills):
        load.start_workers(looping=True)
        load.dispatch(a_mix(size.portion))
        pause(size.interval * random.uniform(0.5, 1.5))
        load.kill_one()
    load.finish()
    assert load.faults() == []
    load.check()
    load.count(tried)


@pytest.mark.timeout(900)
@on_servers
@pytest.mark.parametrize("persistence", ["always", "everysec"])
def test_a_server_that_is_killed_at_random_loses_no_more_than_its_persistence_says(
    load: Load, server: EmbeddedServer, persistence: str, deep: bool, tried: Tried
) -> None:
    size = Size(50, 200, 1.0) if deep else Size(4, 50, 0.3)
    load.start_workers()
    at_risk = []
    for number in range(size.kills):
        load.dispatch(a_mix(size.portion))
        pause(size.interval * random.uniform(0.0, 1.0))
        on_disk = load.queue.clock.now()
        wait_for_its_disk(server)
        pause(size.interval * random.uniform(0.0, 1.0))
        if number % 2:
            rewrite_the_log(server)
        server.kill()
        at_risk.append((on_disk, load.queue.clock.now()))
        server.restart()
    load.finish()
    faults = load.faults()
    if persistence == "always":
        assert faults == []
    for fault in faults:
        assert may_be_forgotten(fault, at_risk), fault.says
    load.check(besides={fault.job for fault in faults})
    load.count(tried, servers=size.kills)


@on_servers
@pytest.mark.parametrize("persistence", ["everysec"])
def test_a_server_forgets_nothing_that_is_on_its_disk_and_the_rest_from_its_end(
    load: Load, server: EmbeddedServer, deep: bool, tried: Tried
) -> None:
    known: list[int] = []
    for _ in range(30 if deep else 4):
        known += load.dispatch(["is quick"] * 20)
        wait_for_its_disk(server)
        on_disk = len(known)
        known += load.dispatch(["is quick"] * 20)
        server.kill()
        server.restart()
        left = [job.payload for job in load.queue.jobs()]
        assert left == known[: len(left)]
        assert len(left) >= on_disk
        known = left
        tried.add(load.queue.driver.name, "servers killed and started again")


@on_servers
@pytest.mark.parametrize("persistence", ["none"])
def test_a_server_without_persistence_loses_every_job_and_no_failed_one(
    load: Load, server: EmbeddedServer, tried: Tried
) -> None:
    load.dispatch(["breaks", "is quick", "breaks", "is quick"])
    load.queue.drain(math.inf)
    load.dispatch(["is quick"] * 5)
    for number in range(2):
        assert load.queue.reserve(worker=f"worker {number}")
    server.kill()
    server.restart()
    assert load.queue.counts() == Counts(failed=2)
    assert [(each.fault, each.job) for each in load.faults()] == [(Fault.LOST, job) for job in range(5, 10)]
    tried.add(load.queue.driver.name, "servers killed and started again")


def may_be_forgotten(fault: Broken, at_risk: Sequence[tuple[float, float]]) -> bool:
    """Whether a fault contradicts what a server told after it had last been on its disk, and before it was killed."""
    told = [record for record in (fault.promised, fault.seen) if record]
    return any(first < record.told and record.asked < last for record in told for first, last in at_risk)


def wait_for_its_disk(server: EmbeddedServer) -> None:
    """Wait until all that a server has answered is on its disk."""
    with redis.Redis(unix_socket_path=server.socket, single_connection_client=True) as client:
        client.set("the last", "word")  # What is waited for are this connection's own writes, and so all before them.
        assert client.execute_command("WAITAOF", 1, 0, 60_000)[0] == 1


def rewrite_the_log(server: EmbeddedServer) -> None:
    """Let a server begin to write the log of its data anew: where it is killed then, the old one counts."""
    with redis.Redis(unix_socket_path=server.socket) as client, suppress(redis.exceptions.ResponseError):
        client.execute_command("BGREWRITEAOF")  # An error says that it is at it already.
