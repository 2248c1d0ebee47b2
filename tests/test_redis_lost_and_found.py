"""What a Redis server may forget or do between two calls: its scripts, its keys, its connections, itself."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import (
    DRIVERS,
    QUEUE,
    REDIS,
    Servers,
    Store,
    failed_one,
    new,
    only,
    program,
    push,
    snapshot,
    stores,
    take,
    taken,
)

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Counts, Driver
from qlab.drivers import LAYOUTS
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.server import EmbeddedServer

store = stores(*REDIS)


@pytest.fixture
def client(store: Store, servers: Servers) -> Iterator[redis.Redis]:
    """A plain client of the test's server."""
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        yield client


def a_life(driver: Driver) -> list[Any]:
    """Call every verb, and tell all that each said but tokens."""
    said: list[Any] = [driver.push(QUEUE, [new("forgotten", uid="0" * 32)], now=0.0)]
    said.append(driver.fail(take(driver), now=0.0, attempts=1, error="E"))
    said.append(driver.forget(QUEUE, driver.failed_ids(QUEUE)))
    said.append(driver.push(QUEUE, [new(name, at=at, uid=name * 32) for name, at in LIFE], now=0.0))
    said.append(driver.push(QUEUE, [new("a", uid="a" * 32)], now=0.0, resent=True))
    first, second, third, fourth = driver.reserve(QUEUE, now=0.0, retry_after=5.0, limit=4)
    said += [held[:1] + held[2:] for held in (first, second, third, fourth)]
    said.append(driver.extend(first, now=1.0, seconds=50.0))
    said.append(driver.release(second, now=1.0, delay=3.0))
    said.append(driver.fail(third, now=1.0, attempts=1, error="E", traceback="T"))
    said.append(snapshot(driver, now=2.0))
    said.append(driver.recover(QUEUE, now=5.0))
    said.append(driver.complete(fourth, now=5.0))
    done, following = driver.complete_and_reserve(first, now=5.0, retry_after=None)
    assert following
    said += [done, following.job, driver.recover(QUEUE, now=6.0, force=True)]
    said.append(driver.retry(QUEUE, driver.failed_ids(QUEUE), now=7.0))
    said.append(driver.complete(take(driver, now=7.0), now=7.0))
    said += [snapshot(driver, now=9.0), driver.check(QUEUE, now=9.0), driver.clear(QUEUE, now=9.0)]
    return said


LIFE = (("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 0.0), ("e", 0.0), ("f", 60.0))


@pytest.mark.scenario("B20")
def test_scripts_that_are_flushed_before_any_call_are_sent_again_and_run_once(
    driver: Driver, client: redis.Redis, address: str
) -> None:
    flushes = []

    def flush(_: object) -> None:
        client.script_flush()
        flushes.append(1)

    driver.listen(flush)
    with drivers.open(
        address.replace("prefix=", "prefix=undisturbed-").replace("failed.db", "other.db")
    ) as undisturbed:
        assert a_life(driver) == a_life(undisturbed)
    assert len(flushes) > 40


def test_a_flushed_server_keeps_the_failed_jobs_and_gives_nobody_anothers_job(
    driver: Driver, client: redis.Redis
) -> None:
    rows = [failed_one(driver, name) for name in ("x", "y")]
    push(driver, "a", "b", "c")
    late = take(driver)
    client.flushdb()
    assert driver.counts(QUEUE, now=1.0) == Counts(failed=2)
    assert driver.failed(QUEUE) == rows
    assert driver.check(QUEUE, now=1.0) == []
    push(driver, "1", "2", "3", now=1.0)
    others = driver.reserve(QUEUE, now=1.0, retry_after=90.0, limit=3)
    assert late.job.id in [held.job.id for held in others]  # numbers begin anew, tokens do not
    assert not driver.complete(late, now=1.0)
    assert not driver.extend(late, now=1.0, seconds=5.0)
    assert [job.name for _, job in driver.retry(QUEUE, driver.failed_ids(QUEUE), now=1.0)] == ["x", "y"]
    assert taken(driver, now=1.0) == ["x", "y"]
    assert driver.counts(QUEUE, now=1.0) == Counts(reserved=5)


# -- keys that somebody deletes, or that the server evicts --


@pytest.fixture
def evicted(driver: Driver, client: redis.Redis) -> Callable[[str], Any]:
    """Takes one key of the queue away, as a server does whose maxmemory-policy is not noeviction."""
    assert isinstance(driver, RedisStore)
    keys = dict(zip(driver.key_names, driver.keys(QUEUE), strict=True))
    return lambda name: client.delete(keys[name])


def test_a_job_without_its_payload_fails_and_is_run_by_nobody(
    driver: Driver, queue: Queue, evicted: Callable[[str], Any]
) -> None:
    ran: list[Any] = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", number) for number in range(3)])
    queue.dispatch_later("A", 3, delay=5.0)
    assert queue.reserve(0.0)
    evicted("bodies")
    queue.dispatch("A", "whole")
    assert [job.payload for job in driver.jobs(QUEUE, now=0.0)].count(None) == 4
    assert "job 2 has no payload" in driver.check(QUEUE, now=0.0)
    for _ in range(2):
        queue.drain(until=queue.clock.now() + 200.0)
        assert ran == ["whole"]
        assert [(row.payload, row.error.split(":")[0]) for row in queue.failed()] == [(None, "PayloadLost")] * 4
        assert driver.check(QUEUE, now=0.0) == []
        assert queue.retry("all") == 4


def test_a_job_in_hand_ends_well_without_its_payload(driver: Driver, evicted: Callable[[str], Any]) -> None:
    push(driver, "completed", "failed", "released", "recovered")
    done, failed, released, _ = driver.reserve(QUEUE, now=0.0, retry_after=5.0, limit=4)
    evicted("bodies")
    assert driver.complete(done, now=1.0)
    assert driver.fail(failed, now=1.0, attempts=1, error="its own")
    assert driver.counts(QUEUE, now=1.0) == Counts(reserved=2, failed=1)
    assert driver.release(released, now=1.0)
    assert [job.name for job in driver.recover(QUEUE, now=5.0)] == ["recovered"]
    assert taken(driver, now=5.0) == []
    rows = [(row.name, row.attempts, row.error.split(":")[0]) for row in driver.failed(QUEUE)]
    assert sorted(rows) == [("failed", 1, "its own"), ("recovered", 1, "PayloadLost"), ("released", 1, "PayloadLost")]


def test_any_number_of_jobs_without_payload_hides_none_that_has_one(
    driver: Driver, evicted: Callable[[str], Any]
) -> None:
    push(driver, *("lost",) * 250)
    held = take(driver, retry_after=None)
    evicted("bodies")
    push(driver, "whole", "next", now=1.0)
    assert take(driver, now=1.0).job.name == "whole"
    assert driver.complete_and_reserve(held, now=1.0, retry_after=90.0)[0]
    assert len(driver.failed_ids(QUEUE)) == 249
    assert driver.counts(QUEUE, now=1.0) == Counts(reserved=2, failed=249)


def test_no_job_takes_the_number_of_one_that_is_there(driver: Driver, evicted: Callable[[str], Any]) -> None:
    old = push(driver, "a", "b", "c")
    held = take(driver)
    evicted("counters")
    young = push(driver, "d", "e", now=1.0)
    assert not {job.id for job in old} & {job.id for job in young}
    assert sorted(taken(driver, now=1.0)) == ["b", "c", "d", "e"]
    assert driver.complete(held, now=1.0)


def test_a_uid_without_a_job_keeps_no_job_out(driver: Driver, evicted: Callable[[str], Any]) -> None:
    row = failed_one(driver, "retried")
    (job,) = driver.push(QUEUE, [new("sent again", uid="a" * 32)], now=0.0)
    driver.push(QUEUE, [new("sent again", uid=row.uid)], now=0.0)
    evicted("rows")
    again = driver.push(QUEUE, [new("sent again", uid=job.uid)], now=1.0)
    assert [job.name for _, job in driver.retry(QUEUE, driver.failed_ids(QUEUE), now=1.0)] == ["retried"]
    assert driver.jobs(QUEUE, now=1.0)[0] == again[0]
    assert taken(driver, now=1.0) == ["sent again", "retried"]
    assert driver.check(QUEUE, now=1.0) == ["BODIES has 4 entries for 2 jobs"]
    assert driver.clear(QUEUE, now=1.0) == 2


@pytest.fixture
def own_server(store: Store) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(persistence="always", **program(store.server)) as server:
        yield server


@only("redis_zset-redis", "redis_list-valkey", "redis_zset-redis8")
@pytest.mark.parametrize("how", ["in good order", "killed"])
def test_workers_that_are_idle_while_the_server_is_restarted_go_on(
    own_server: EmbeddedServer, store: Store, tmp_path: Path, how: str
) -> None:
    layout = "list" if store.order == "arrival" else "zset"
    url = f"{own_server.url}?layout={layout}&prefix=own&failed_jobs=sqlite:///{tmp_path}/failed.db"
    ran: list[int] = []
    workers, idle, restarted = 4, threading.Barrier(5), threading.Event()
    with Queue(url, name=QUEUE, clock=SimulatedClock()) as queue:
        queue.handler("A")(lambda job: ran.append(job.payload))

        def work() -> list[str]:
            said = [type(queue.work_once()).__name__]
            idle.wait(60.0)  # each has a connection of its own by now
            restarted.wait(60.0)
            return said + [type(queue.work_once()).__name__ for _ in range(6)]

        with ThreadPoolExecutor(workers) as threads:
            working = [threads.submit(work) for _ in range(workers)]
            idle.wait(60.0)
            queue.dispatch_many([("A", number) for number in range(20)])
            if how == "killed":
                own_server.kill()
            own_server.restart()  # it has no script, and none of the connections
            restarted.set()
            said = [each.result(60.0) for each in working]
        assert sorted(ran) == list(range(20))
        assert [outcomes[0] for outcomes in said] == ["Idle"] * workers
        assert {name for outcomes in said for name in outcomes} == {"Idle", "Completed"}
        assert queue.counts() == Counts()


# -- one server is as good as another --


@pytest.mark.scenario("B72")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_server_says_the_same_of_the_same_calls(servers: Servers, layout: str, tmp_path: Path) -> None:
    said: dict[str, list[Any]] = {}
    with ExitStack() as opened:
        for kind in ("redis", "valkey", "redis8"):
            failed_jobs = f"sqlite:///{tmp_path}/{kind}.db"
            url = f"{servers[kind].url}?layout={layout}&prefix={tmp_path}&failed_jobs={failed_jobs}"
            driver = opened.enter_context(drivers.open(url))
            product, version, *_ = driver.description.replace(",", "").split()
            said[f"{product} {version.split('.')[0]}"] = a_life(driver)
    assert list(said) == ["Redis 7", "Valkey 9", "Redis 8"]
    assert said["Redis 7"] == said["Valkey 9"] == said["Redis 8"]


@pytest.mark.scenario("B72")
def test_the_table_that_every_test_of_the_contract_runs_over_has_each_server_with_each_layout() -> None:
    assert {(each.url.split("layout=")[1].split("&")[0], each.server) for each in DRIVERS if each.server} == {
        (layout, server) for layout in LAYOUTS for server in ("redis", "valkey", "redis8")
    }
