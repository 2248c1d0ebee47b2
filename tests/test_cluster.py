"""A real Redis Cluster of three nodes: the contract holds on it, and each queue lives in one slot."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import test_contract
from clusters import ClusterOfThree
from conftest import CLUSTERS, QUEUE, Servers, Store, failed_one, only, program, push, stores, take, taken
from redis.crc import key_slot

from qlab import Queue, doctor, drivers
from qlab.driver import Counts, Driver
from qlab.drivers.redis_list import RedisListDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.redis_zset import RedisZsetDriver
from qlab.errors import DriverUnavailable, ReplyLost, UnusableStore
from qlab.signs import Signs

store = stores("redis_zset-cluster-redis", "redis_list-cluster-valkey")
on_every_server = only(*(store.name for store in CLUSTERS))
LAYOUTS = {"zset": RedisZsetDriver, "list": RedisListDriver}


def names_its_drivers(test: Callable[..., None]) -> bool:
    return any(mark.args[0] == "store" for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize")


# Every test of the contract that runs on any driver runs here once more, on the drivers above.
globals().update(
    (name, test)
    for name, test in vars(test_contract).items()
    if name.startswith("test_") and not names_its_drivers(test)
)


@pytest.fixture
def cluster(store: Store, servers: Servers) -> ClusterOfThree:
    """The cluster that the test's driver is on, which other tests use as well."""
    return servers[store.server]


@pytest.fixture
def own_cluster(store: Store) -> Iterator[ClusterOfThree]:
    """A cluster of the test's own, to be broken."""
    with ClusterOfThree(**program(store.server.removeprefix("cluster-"))) as cluster:
        yield cluster


@pytest.fixture
def on_own(own_cluster: ClusterOfThree, store: Store, tmp_path: Path) -> Iterator[RedisStore]:
    layout = "list" if store.order == "arrival" else "zset"
    url = f"{own_cluster.url}?layout={layout}&prefix=own&failed_jobs=sqlite:///{tmp_path}/failed.db&reply_wait=2"
    with drivers.open(url) as driver:
        assert isinstance(driver, RedisStore)
        yield driver


def queue_on(driver: Driver, node: int) -> str:
    """A queue whose keys are on this node of three."""
    assert isinstance(driver, RedisStore)
    slots = range(16_384 * node // 3, 16_384 * (node + 1) // 3)
    names = (f"queue {number}" for number in itertools.count())
    return next(name for name in names if key_slot(driver.keys(name)[0].encode()) in slots)


def slot_of(driver: RedisStore, queue: str) -> int:
    return key_slot(driver.keys(queue)[0].encode())


# -- queues and nodes --


def test_a_worker_is_woken_by_the_node_that_has_its_queue(driver: Driver) -> None:
    assert isinstance(driver, RedisStore)
    for node in range(3):
        queue = queue_on(driver, node)
        push(driver, "a", queue=queue)
        assert driver.wait(queue, 30.0)
        assert not driver.wait(queue, 0.01)
        driver.delete(queue)


@on_every_server
@pytest.mark.scenario("B70")
def test_every_verb_works_for_queues_on_every_node(driver: Driver, cluster: ClusterOfThree) -> None:
    assert isinstance(driver, RedisStore)
    assert ", cluster, AOF always, layout=" in driver.description
    for node in range(3):
        queue = queue_on(driver, node)
        push(driver, "done", "late", "failing", "given back", queue=queue)
        push(driver, "delayed", at=50.0, queue=queue)
        completed, late = driver.complete_and_reserve(take(driver, queue=queue), now=0.0, retry_after=1.0)
        assert completed
        assert late
        assert driver.extend(late, now=0.0, seconds=2.0)
        assert driver.fail(take(driver, queue=queue), now=0.0, attempts=1, error="E")
        assert driver.release(take(driver, queue=queue), now=0.0, delay=9.0)
        assert driver.counts(queue, now=1.0) == Counts(ready=0, delayed=2, reserved=1, failed=1)
        assert driver.next_due(queue, now=1.0) == 2.0
        assert [job.name for job in driver.recover(queue, now=2.0)] == ["late"]
        assert not driver.complete(late, now=2.0)
        first, *_ = driver.failed_ids(queue)
        assert [job.name for _, job in driver.retry(queue, [first], now=3.0)] == ["failing"]
        assert [job.name for job in driver.jobs(queue, now=3.0)] == ["late", "failing", "given back", "delayed"]
        assert taken(driver, now=3.0, queue=queue) == ["late", "failing"]
        assert driver.check(queue, now=3.0) == []
        assert cluster.ask(node, "CLUSTER", "COUNTKEYSINSLOT", str(slot_of(driver, queue))) > 4
        assert driver.clear(queue, now=3.0) == 4
        assert driver.forget(queue, [first]) == []
        driver.delete(queue)
        assert cluster.ask(node, "CLUSTER", "COUNTKEYSINSLOT", str(slot_of(driver, queue))) == 0


def test_queues_in_several_threads_go_to_their_nodes(driver: Driver) -> None:
    start = threading.Barrier(6)

    def work(number: int) -> list[str]:
        queue = queue_on(driver, number % 3)
        start.wait(60.0)
        for _ in range(50):
            push(driver, str(number), queue=queue)
        return [queue]

    with ThreadPoolExecutor(6) as threads:
        queues = {name for names in threads.map(work, range(6)) for name in names}
    names = [name for queue in queues for _ in range(3) for name in taken(driver, now=0.0, queue=queue)]
    assert sorted(names) == sorted(str(number) for number in range(6) for _ in range(50))


def test_any_node_is_the_address_of_the_whole(driver: Driver, cluster: ClusterOfThree) -> None:
    push(driver, "a")
    for port in cluster.ports:
        with drivers.open(driver.url.replace(f":{cluster.ports[0]}?", f":{port}?")) as other:
            assert other.counts(QUEUE, now=0.0) == Counts(ready=1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("kind", [redis.Redis, redis.RedisCluster])
@pytest.mark.scenario("B71")
def test_a_client_of_a_cluster_may_be_of_either_kind_and_set_as_it_likes(
    cluster: ClusterOfThree, layout: str, kind: Any, protocol: int, decode: bool, tmp_path: Path
) -> None:
    with kind(host="127.0.0.1", port=cluster.ports[1], protocol=protocol, decode_responses=decode) as client:
        failed_jobs = f"sqlite:///{tmp_path}/failed.db"
        with LAYOUTS[layout](client, prefix=str(tmp_path), failed_jobs=failed_jobs) as driver:
            for queue in (queue_on(driver, node) for node in range(3)):
                push(driver, "é", queue=queue)
                assert driver.complete(take(driver, queue=queue), now=0.0)
            failed_one(driver, "é")
            with drivers.open(driver.url) as again:
                assert again.counts(QUEUE, now=0.0) == Counts(failed=1)
        assert client.ping()  # the application's own client is left alone


def test_a_socket_is_no_address_of_a_cluster(cluster: ClusterOfThree, tmp_path: Path) -> None:
    with pytest.raises(UnusableStore, match="is a node of a cluster, whose nodes are reached by TCP: write redis://"):
        drivers.open(f"{cluster.nodes[0].url}?failed_jobs=sqlite:///{tmp_path}/failed.db")


# -- slots that move, nodes that go away --


@only("redis_zset-cluster-redis")
def test_a_queue_whose_slot_moves_is_away_while_it_moves_and_loses_nothing(
    on_own: RedisStore, own_cluster: ClusterOfThree
) -> None:
    queue, ask = queue_on(on_own, 2), own_cluster.ask
    push(on_own, "a", "b", "c", queue=queue)
    held = take(on_own, queue=queue)
    slot, ids = str(slot_of(on_own, queue)), [ask(node, "CLUSTER", "MYID") for node in range(3)]
    ask(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[2])
    ask(2, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    first, *others = ask(2, "CLUSTER", "GETKEYSINSLOT", slot, "100")
    for keys in ([first], others):
        ask(2, "MIGRATE", "127.0.0.1", str(own_cluster.ports[1]), "", "0", "5000", "KEYS", *keys)
        with pytest.raises(DriverUnavailable, match="slot is being moved to another node: try again") as refusal:
            on_own.complete(held, now=0.0)
        assert not isinstance(refusal.value, ReplyLost)
    for node in (1, 2, 0):
        ask(node, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert on_own.complete(held, now=0.0)
    assert taken(on_own, now=0.0, queue=queue) == ["b", "c"]
    assert on_own.check(queue, now=0.0) == []


@only("redis_list-cluster-valkey")
def test_a_node_that_went_away_takes_its_own_queues_with_it_and_brings_them_back(
    on_own: RedisStore, own_cluster: ClusterOfThree
) -> None:
    for node in range(3):
        own_cluster.ask(node, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    here, there = queue_on(on_own, 0), queue_on(on_own, 1)
    push(on_own, "a", "b", queue=here)
    push(on_own, "c", queue=there)
    held = take(on_own, queue=here)
    own_cluster.nodes[0].kill()  # the one that the address names
    for _ in range(2):
        with pytest.raises(DriverUnavailable):
            on_own.counts(here, now=0.0)
        assert on_own.counts(there, now=0.0) == Counts(ready=1)
    own_cluster.nodes[0].restart()
    own_cluster.wait_until_all_agree()
    assert on_own.complete(held, now=0.0)
    assert taken(on_own, now=0.0, queue=here) == ["b"]


@only("redis_zset-cluster-redis8")
def test_a_replica_that_takes_over_is_found(on_own: RedisStore, own_cluster: ClusterOfThree) -> None:
    queue = queue_on(on_own, 0)
    replica = own_cluster.add_replica(of=0)
    push(on_own, "a", "b", queue=queue)
    held = take(on_own, queue=queue)
    own_cluster.ask(0, "WAIT", "1", "10000")
    own_cluster.nodes[0].kill()
    own_cluster.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
    with pytest.raises(DriverUnavailable):
        on_own.counts(queue, now=0.0)
    own_cluster.wait_until_all_agree(1, 2, replica)
    assert on_own.complete(held, now=0.0)
    assert taken(on_own, now=0.0, queue=queue) == ["b"]


def test_what_a_silent_node_was_asked_is_told_as_lost_and_sent_once(driver: Driver, cluster: ClusterOfThree) -> None:
    queue = queue_on(driver, 1)
    push(driver, *"abcdef", queue=queue)
    with drivers.open(f"{driver.url}&reply_wait=2") as hasty:
        take(hasty, queue=queue)  # from here on the server knows the script
        os.kill(cluster.nodes[1].pid, signal.SIGSTOP)
        try:
            with pytest.raises(ReplyLost, match="may or may not have been done"):
                hasty.reserve(queue, now=0.0, retry_after=90.0)
        finally:
            os.kill(cluster.nodes[1].pid, signal.SIGCONT)
    cluster.wait_until_all_agree()
    assert driver.counts(queue, now=0.0) == Counts(ready=4, reserved=2)


def test_a_checkup_reaches_every_part_of_a_cluster(driver: Driver) -> None:
    for node in range(3):
        queue = Queue(driver, name=queue_on(driver, node))
        queue.handler("A")(lambda job: None)
        queue.dispatch("A")
        Signs(queue, "w", 60.0).alive()
        found = doctor(queue)
        assert {finding.about for finding in found.wrong} <= {"persistence"}
        (workers,) = [finding for finding in found if finding.about == "workers"]
        assert workers.says.startswith("1 is alive: w@")
        queue.clear()
