"""Scenarios of the bug catalogue: thousands of jobs at one moment, and how much a server does in one go."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import ONE_OF_EACH, QUEUE, Servers, Store, new, nothing, only, take, taken

import qlab.drivers
from qlab import Queue
from qlab.driver import Counts, Driver, Statement
from qlab.drivers.redis_store import RedisStore

DUE = 20_000
"""How many jobs are due at one moment."""

MANY = 9_000
"""More than Lua can unpack at once."""

SLOW = 2_000
"""Where each job is a call or more; `--deep` takes the numbers above."""


def push_many(driver: Driver, count: int, *, at: float = 0.0) -> list[str]:
    names = [str(number) for number in range(count)]
    for start in range(0, count, 5_000):
        driver.push(QUEUE, [new(name, at=at) for name in names[start : start + 5_000]], now=0.0)
    return names


# -- every driver --


@pytest.mark.scenario("B31")
def test_any_number_of_jobs_due_at_one_moment_are_given_once_each_and_in_order(driver: Driver) -> None:
    names = push_many(driver, DUE, at=100.0)
    assert nothing(driver, now=99.999999)
    given = [take(driver, now=100.0).job.name for _ in range(250)]
    while batch := taken(driver, now=100.0, limit=100):
        given += batch
    assert given == names
    assert driver.counts(QUEUE, now=100.0) == Counts(reserved=DUE)


@only(*ONE_OF_EACH)
@pytest.mark.scenario("B31")
def test_any_number_of_jobs_due_at_one_moment_run_once_each_and_in_order(queue: Queue, deep: bool) -> None:
    ran: list[int] = []
    due = DUE if deep else SLOW
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", number) for number in range(due)], delay=100.0)
    assert {type(outcome).__name__ for outcome in queue.drain(until=100.0)} == {"Completed"}
    assert ran == list(range(due))
    assert queue.counts() == Counts()


@pytest.mark.scenario("B32")
def test_any_number_of_reservations_that_ran_out_are_recovered_and_cleared(driver: Driver) -> None:
    names = push_many(driver, MANY)
    assert taken(driver, now=0.0, limit=MANY) == names
    assert [job.name for job in driver.recover(QUEUE, now=90.0)] == names
    assert driver.counts(QUEUE, now=90.0) == Counts(ready=MANY)
    assert taken(driver, now=90.0, limit=2) == names[:2]
    assert driver.clear(QUEUE, now=90.0) == MANY
    assert driver.counts(QUEUE, now=90.0) == Counts()


@only(*ONE_OF_EACH)
@pytest.mark.scenario("B32")
def test_any_number_of_jobs_fail_and_are_retried_in_one_call(driver: Driver, deep: bool) -> None:
    names = push_many(driver, MANY if deep else SLOW)
    for held in driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=len(names)):
        if isinstance(driver, RedisStore):
            assert driver._stage(held, 0, 1, "E", "")  # noqa: SLF001 - a process that dies before it writes the row
        else:
            assert driver.fail(held, now=0.0, attempts=1, error="E")
    ids = driver.failed_ids(QUEUE)
    assert [job.name for _, job in driver.retry(QUEUE, ids, now=1.0)] == names
    assert driver.counts(QUEUE, now=1.0) == Counts(ready=len(names))


# -- what one script call does --

EACH_LAYOUT = ("redis_zset-redis8", "redis_list-valkey")


class Work:
    """Counts the commands that a server runs in each script call.

    A command's number says the same on every machine, where its time does not.
    """

    def __init__(self, driver: RedisStore, client: "redis.Redis") -> None:
        self._client = client
        self._marks: list[int] = []
        driver.listen(self._mark)

    def of(self, act: Callable[[], Any]) -> list[int]:
        """The number of commands in each script call that an act makes."""
        self._marks = []
        act()
        self._mark()
        return [after - before for before, after in pairwise(self._marks)]

    def _mark(self, _: Statement | None = None) -> None:
        stats: Any = self._client.info("commandstats")
        self._marks.append(sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info"))


@pytest.fixture
def client(store: Store, servers: Servers) -> Iterator["redis.Redis"]:
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        yield client


@pytest.fixture
def work(driver: Driver, client: "redis.Redis") -> Work:
    assert isinstance(driver, RedisStore)
    return Work(driver, client)


@only(*EACH_LAYOUT)
@pytest.mark.scenario("B31")
def test_a_reservation_is_as_much_work_whatever_number_is_due(
    driver: Driver, client: "redis.Redis", work: Work
) -> None:
    assert isinstance(driver, RedisStore)
    listed = dict(zip(driver.key_names, driver.keys(QUEUE), strict=True)).get("ready", "none")
    most = []
    for due in (200, DUE):
        push_many(driver, due, at=100.0)
        seen = [client.llen(listed)]
        most.append(0)
        for _ in range(due // 100 + 5):
            most[-1] = max(most[-1], *work.of(lambda: take(driver, now=100.0)))
            seen.append(client.llen(listed))
        assert max(after - before for before, after in pairwise(seen)) <= 100
        driver.clear(QUEUE, now=100.0)
    assert most[0] == most[1]
    assert most[0] < 1_000


PAGED: dict[str, Callable[[Driver], Any]] = {
    "jobs": lambda driver: driver.jobs(QUEUE, now=0.0),
    "check": lambda driver: driver.check(QUEUE, now=0.0),
    "reserve": lambda driver: driver.reserve(QUEUE, now=90.0, retry_after=90.0, limit=MANY),
    "recover": lambda driver: driver.recover(QUEUE, now=180.0),
    "reserve again": lambda driver: driver.reserve(QUEUE, now=180.0, retry_after=90.0, limit=MANY),
    "recover by force": lambda driver: driver.recover(QUEUE, now=180.0, force=True),
}

AT_ONCE: dict[str, Callable[[Driver], Any]] = {
    "counts": lambda driver: driver.counts(QUEUE, now=0.0),
    "next_due": lambda driver: driver.next_due(QUEUE, now=0.0),
    "recover none": lambda driver: driver.recover(QUEUE, now=0.0),
    "reserve one": lambda driver: driver.reserve(QUEUE, now=90.0, retry_after=90.0),
}


@only(*EACH_LAYOUT)
@pytest.mark.scenario("B32")
def test_no_verb_does_more_than_a_page_in_one_script_call(driver: Driver, work: Work) -> None:
    push_many(driver, MANY)
    driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=MANY)
    for verb, act in (AT_ONCE | PAGED).items():
        calls = work.of(lambda act=act: act(driver))
        page = 7_000 if verb in PAGED else 1_000  # commands; HSCAN may give a few more jobs than the 500 of a page
        assert (verb, max(calls)) < (verb, page)
        assert (verb, len(calls)) <= (verb, MANY // 100 + 10 if verb in PAGED else 4)
    assert work.of(lambda: driver.clear(QUEUE, now=180.0))[0] < 10


@only(*EACH_LAYOUT)
@pytest.mark.scenario("B32")
def test_jobs_that_lost_their_payloads_are_failed_a_hundred_in_one_script_call(
    driver: Driver, client: "redis.Redis", work: Work
) -> None:
    assert isinstance(driver, RedisStore)
    push_many(driver, SLOW)
    client.delete(dict(zip(driver.key_names, driver.keys(QUEUE), strict=True))["bodies"])
    calls = work.of(lambda: driver.reserve(QUEUE, now=0.0, retry_after=90.0))
    assert driver.counts(QUEUE, now=0.0) == Counts(failed=SLOW)
    assert (SLOW // 100 <= len(calls) <= SLOW // 100 + 2, max(calls) < 2_000) == (True, True)


def test_no_script_unpacks_what_may_be_long() -> None:
    files = sorted((Path(qlab.drivers.__file__).parent / "lua").rglob("*.lua"))
    assert len(files) > 20
    for file in files:
        unpacked = set(re.findall(r"(?<!cmsgpack\.)\bunpack\((.*?)[,)]", file.read_text(encoding="utf-8")))
        assert unpacked <= {"KEYS"}, file
