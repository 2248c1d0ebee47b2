"""Scenario B45 of the bug catalogue: thousands of failed jobs are retried at once, and the process dies half way."""

import signal
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from conftest import DRIVERS, ONE_OF_EACH, QUEUE, Store, only
from tried import Tried

from qlab import Queue
from qlab.clock import us
from qlab.driver import Counts, Driver
from qlab.drivers.database import Database
from qlab.drivers.statements import sql

AT_ONCE = 100
"""How many `Queue.retry` moves in one transaction or script."""

pytestmark = [pytest.mark.scenario("B45"), pytest.mark.timeout(1800)]


@pytest.fixture
def rows(deep: bool) -> int:
    return 50_000 if deep else 2_000


@pytest.fixture
def payload(deep: bool) -> str:
    return '"' + "x" * (20_000 if deep else 2_000) + '"'


def keep(driver: Any, count: int, payload: str) -> None:
    """Put rows into the table of failed jobs, numbered from 1."""
    database: Database = driver.database if driver.name.startswith("sqlite") else driver.failed_jobs.database()
    values = {"queue": QUEUE, "name": "A", "payload": payload, "attempts": 3, "error": "boom", "traceback": ""}
    moments = {"dispatched_at": us(0.0), "failed_at": us(1.0)}
    each = ({**values, **moments, "uid": f"{number:032x}"} for number in range(1, count + 1))
    database.transact(lambda _: database.use(lambda connection: connection.executemany(sql("keep")[0], each).close()))


def uids(count: int) -> list[str]:
    return [f"{number:032x}" for number in range(1, count + 1)]


@only(*ONE_OF_EACH, "sqlite-memory")
def test_retrying_all_takes_no_more_memory_for_more_rows(driver: Driver, rows: int, payload: str) -> None:
    taken = {}
    for count in (rows // 5, rows):
        keep(driver, count, payload)
        queue = Queue(driver, name=QUEUE)
        tracemalloc.start()
        assert queue.retry("all") == count
        left, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        taken[count] = most - left  # memory:// keeps the jobs themselves
        assert queue.counts() == Counts(ready=count)
        assert queue.clear() == count
    ids = 400 * (rows - rows // 5)  # a number and a uid for each row
    assert taken[rows] - taken[rows // 5] < ids < len(payload) * (rows - rows // 5) / 4
    assert taken[rows] < ids + 10 * AT_ONCE * len(payload)


RETRIES = """
import os, signal, sys
from qlab import Queue

url, at, half = sys.argv[1], sys.argv[2], int(sys.argv[3])
queue = Queue(url, name="mail")
begun = 0

def die_at(statement):
    global begun
    word = statement.text.split()[0]
    begun += word == "BEGIN"
    if begun == half and word == at:
        os.kill(os.getpid(), signal.SIGKILL)

queue.driver.listen(die_at)
queue.retry("all")
"""

POINTS = [
    *(("sqlite", word) for word in ("BEGIN", "INSERT", "DELETE", "COMMIT")),
    *(("redis_zset-valkey", word) for word in ("BEGIN", "DELETE", "COMMIT", "SREM")),
    *(("redis_list-valkey", word) for word in ("BEGIN", "DELETE", "COMMIT", "SREM")),
]


def all_there(queue: Queue, rows: int, done: list[str]) -> None:
    """Each job is where it belongs, and nowhere twice."""
    failed, waiting = [row.uid for row in queue.failed()], [job.uid for job in queue.jobs()]
    assert sorted(failed + waiting + done) == uids(rows)
    assert (queue.counts().depth, queue.counts().failed) == (len(waiting), len(failed))


@pytest.mark.parametrize(
    ("store", "word"),
    [(store, word) for name, word in POINTS for store in DRIVERS if store.name == name],
    ids=map("-".join, POINTS),
    indirect=["store"],
)
def test_a_retry_of_all_that_is_killed_at_half_is_finished_by_the_next(
    driver: Driver, rows: int, payload: str, word: str, store: Store, tried: Tried
) -> None:
    keep(driver, rows, payload)
    half = rows // AT_ONCE // 2
    program = [sys.executable, "-c", RETRIES, driver.url, word, str(half)]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    queue = Queue(driver, name=QUEUE)
    all_there(queue, rows, [])
    moved = [job.uid for job in queue.jobs()]
    assert len(moved) in (AT_ONCE * (half - 1), AT_ONCE * half)
    held = driver.reserve(QUEUE, now=queue.clock.now(), retry_after=None, limit=len(moved))
    done = [each.job.uid for each in held[-150:] if driver.complete(each, now=queue.clock.now())]
    assert len(done) == 150  # among them those whose rows may be there
    assert queue.retry("all") == rows - len(moved)
    all_there(queue, rows, done)
    assert queue.retry("all") == 0
    assert queue.driver.check(QUEUE, now=0.0) == []
    tried.add(store.name, "jobs", rows)
    tried.add(store.name, "worker processes killed")
