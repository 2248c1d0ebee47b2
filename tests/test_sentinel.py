"""A service that sentinels watch over: workers go on through a failover, and what one loses is what README says."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from clusters import free_ports
from conftest import QUEUE, fail, program, push, take, taken
from redis.sentinel import Sentinel
from sentinels import PASSWORD, SERVICE, Watched
from watching import PATIENCE
from working import Shop

from qlab import Completed, Policy, Queue, Worker, doctor, drivers
from qlab.driver import Counts
from qlab.drivers.redis_list import RedisListDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.redis_zset import RedisZsetDriver
from qlab.errors import DriverUnavailable, ReplyLost, UnusableStore
from qlab.job import Attempt

LAYOUTS = {"zset": RedisZsetDriver, "list": RedisListDriver}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def shared() -> Iterator[Watched]:
    """A service that every test leaves as it was."""
    with Watched(**program("redis")) as watched:
        yield watched


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A service of the test's own, to be broken."""
    with Watched(**program("redis")) as watched:
        yield watched


@pytest.fixture
def address(tmp_path: Path) -> Callable[..., str]:
    """Makes the address of a service, with a prefix and a file of the test's own."""

    def address(watched: Watched, layout: str = "zset", more: str = "") -> str:
        return f"{watched.url}?layout={layout}&prefix={tmp_path.name}&failed_jobs=sqlite:///{tmp_path}/failed.db{more}"

    return address


@pytest.fixture
def opened(address: Callable[..., str]) -> Iterator[Callable[..., RedisStore]]:
    drivers_made = []

    def open_one(watched: Watched, **how: Any) -> RedisStore:
        driver = drivers.open(address(watched, **how))
        assert isinstance(driver, RedisStore)
        drivers_made.append(driver)
        return driver

    yield open_one
    for driver in drivers_made:
        driver.close()


# -- a failover --


def test_worker_processes_go_on_at_the_new_primary_and_finish_what_they_hold(
    watched: Watched, address: Callable[..., str], tmp_path: Path
) -> None:
    with closing(Shop(tmp_path / "shop", address(watched))) as shop, Queue(shop.url, name=QUEUE) as queue:
        for name in ("hold", "quick"):
            queue.handler(name)(lambda job: None)
        queue.dispatch("hold")
        queue.dispatch("quick", 1)
        with shop.work("--workers", 2, "--poll", "0.05") as working:
            working.until("begun ")
            working.until("outcome=completed job=2 ")
            watched.wait_for_replica()
            watched.kill_primary()
            working.until("its store is away, and is waited for: DriverUnavailable: redis+sentinel://:***@127.0.0.1")
            watched.wait_for_failover()
            working.until("its store is back")
            queue.dispatch("quick", 2)
            working.until("outcome=completed job=3 ")
            shop.open_gate()
            working.until("outcome=completed job=1 ")
            working.signal(signal.SIGTERM)
            assert working.end() == 0
            assert len(working.said("begun ")) == 1
        assert queue.counts() == Counts()


@each_layout
def test_no_job_is_lost_under_load_and_none_that_was_replicated_as_done_runs_again(
    watched: Watched, address: Callable[..., str], layout: str
) -> None:
    jobs, ran, done, many = 300, Counter[int](), set[int](), threading.Event()

    def run(job: Attempt) -> None:
        ran[job.payload] += 1  # one thread at a time has this job

    def tell(_: object, outcome: object) -> None:
        if isinstance(outcome, Completed):
            done.add(outcome.job)
            if len(done) > jobs // 4:
                many.set()

    queues = [Queue(address(watched, layout), name=QUEUE, policy=Policy(retry_after=1.0)) for _ in range(4)]
    for queue in queues:
        queue.handler("send", tries=None)(run)
        queue.listen(tell)
    numbers = {job.id: job.payload for job in queues[0].dispatch_many([("send", number) for number in range(jobs)])}
    watched.wait_for_replica()
    workers = [Worker(queue, name=str(place), poll=0.02).start() for place, queue in enumerate(queues)]
    assert many.wait(PATIENCE)
    replicated = set(done)
    watched.wait_for_replica()
    watched.kill_primary()
    watched.wait_for_failover()
    watched.wait_for(lambda: len(ran) == jobs and queues[0].counts() == Counts(), "jobs are left")
    assert all(worker.stop(PATIENCE) for worker in workers)
    assert {ran[numbers[job]] for job in replicated} == {1}
    assert queues[0].driver.check(QUEUE, now=0.0) == []
    for queue in queues:
        queue.close()


@each_layout
def test_what_no_replica_had_received_is_lost_with_the_primary_and_nothing_else(
    watched: Watched, opened: Callable[..., RedisStore], layout: str
) -> None:
    driver = opened(watched, layout=layout)
    push(driver, "done too late", "in hand", "failed too late", "waits")
    first, held, failing = (take(driver) for _ in range(3))
    watched.wait_for_replica()
    watched.cut_replication()
    push(driver, "acknowledged and lost")
    assert driver.complete(first, now=0.0)
    assert fail(driver, failing)
    watched.kill_primary()
    with suppress(DriverUnavailable):
        driver.counts(QUEUE, now=0.0)
    watched.wait_for_failover()
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1, reserved=3, failed=1)
    assert driver.complete(held, now=0.0)  # the fence went along with the job
    assert taken(driver, now=90.0) == ["waits", "done too late", "failed too late"]
    assert [job.name for job in driver.failed(QUEUE)] == ["failed too late"]


def test_what_a_primary_that_stands_still_was_asked_is_told_as_lost_and_asked_of_no_other(
    watched: Watched, opened: Callable[..., RedisStore]
) -> None:
    driver = opened(watched, more="&reply_wait=0.5")
    push(driver, "a", "b")
    watched.wait_for_replica()
    with watched.frozen_primary():
        watched.ask(1, "REPLICAOF", "NO", "ONE")
        watched.tell_sentinels()
        with pytest.raises(ReplyLost, match=rf"now 127.0.0.1:{watched.ports[0]}\) did not answer reserve") as lost:
            take(driver)
        assert "wait longer for answers, ?reply_wait=SECONDS" in str(lost.value)
        assert driver.counts(QUEUE, now=0.0) == Counts(ready=2)  # which the other one says
        assert taken(driver, now=0.0) == ["a", "b"]


def test_a_primary_that_became_a_replica_is_left_without_an_error_and_nothing_is_done_twice(
    watched: Watched, opened: Callable[..., RedisStore]
) -> None:
    early, late = opened(watched), opened(watched)
    push(late, "a")
    watched.wait_for_replica()
    watched.swap_roles()
    with pytest.raises(DriverUnavailable, match="is a replica that its sentinels still call the primary") as refused:
        push(early, "b")
    assert not isinstance(refused.value, ReplyLost)
    watched.tell_sentinels()
    push(late, "c")
    assert f"(now 127.0.0.1:{watched.ports[1]})" in late._where  # noqa: SLF001 - what its messages begin with
    assert taken(early, now=0.0) == ["a", "c"]


def test_a_checkup_tells_whether_anybody_could_take_over(watched: Watched, opened: Callable[..., RedisStore]) -> None:
    queue = Queue(opened(watched), name=QUEUE)
    for level, says in (("fine", "1 copies this server"), ("wrong", "none copies this server: when it is gone")):
        (found,) = [finding for finding in doctor(queue) if finding.about == "replicas"]
        assert found.level == level
        assert found.says.startswith(says)
        watched.cut_replication()
        watched.wait_for(lambda: watched.tells(0, "connected_slaves") == 0, "it is still copied")


# -- addresses and clients --


@each_layout
@pytest.mark.parametrize("how", [{}, {"decode_responses": True}, {"protocol": 3}], ids=str)
def test_a_client_of_sentinels_has_an_address_that_opens_the_same_store(
    shared: Watched, layout: str, how: dict[str, Any], tmp_path: Path
) -> None:
    manager = Sentinel([("127.0.0.1", port) for port in shared.ports[2:]])
    failed_jobs = f"sqlite:///{tmp_path}/failed.db"
    with manager, manager.master_for(SERVICE, password=PASSWORD, **how) as client:
        with LAYOUTS[layout](client, prefix=str(tmp_path), failed_jobs=failed_jobs) as driver:
            push(driver, "é")
            assert ", sentinel, AOF everysec" in driver.description
            assert driver.durability.store_killed == "what no replica had received"
            assert driver.url.startswith(f"{shared.url}?db=0&layout={layout}&")
            with drivers.open(driver.url) as again:
                assert again.url == driver.url
                assert taken(again, now=0.0) == ["é"]
                assert PASSWORD not in repr(again)
        assert client.ping()  # the application's own client is left alone


def test_a_client_of_replicas_is_refused(shared: Watched) -> None:
    manager = Sentinel([("127.0.0.1", shared.ports[2])])
    with pytest.raises(ValueError, match="client is of replicas, which take no jobs: use"):
        RedisZsetDriver(manager.slave_for(SERVICE))


def test_one_sentinel_that_answers_is_enough(shared: Watched, opened: Callable[..., RedisStore]) -> None:
    nobody, *_ = free_ports(1)
    host, _, service = shared.url.rpartition("/")
    first = host.partition("@")[0]
    url = f"{first}@127.0.0.1:{nobody},127.0.0.1:{shared.ports[4]}/{service}"
    with drivers.open(f"{url}?failed_jobs=sqlite:///:memory:") as driver:
        assert driver.counts(QUEUE, now=0.0) == Counts()


@pytest.mark.parametrize(
    ("error", "url", "says"),
    [
        (
            UnusableStore,
            "redis+sentinel://127.0.0.1:{sentinel}/job",
            "/job: its sentinels know no service 'job': is its",
        ),
        (UnusableStore, "redis+sentinel://:secret@127.0.0.1:{primary}/jobs", r"is no sentinel: write redis://127\.0"),
        (
            UnusableStore,
            "redis://127.0.0.1:{sentinel}",
            r"is a sentinel, which keeps no jobs: write redis\+sentinel://",
        ),
        (
            DriverUnavailable,
            "redis+sentinel://127.0.0.1:{nobody}/jobs",
            r"tells its primary \(Connection refused\): are",
        ),
        (DriverUnavailable, "redis+sentinel://:secret@127.0.0.1:{sentinel}/jobs", "refused the user or the password"),
        (DriverUnavailable, "redis+sentinel://127.0.0.1:{sentinel}/jobs", "the server wants a password: put it into"),
        (DriverUnavailable, "rediss+sentinel://127.0.0.1:{sentinel}/jobs", "no sentinel tells its primary"),
    ],
)
def test_what_does_not_fit_is_told_with_the_way_out(
    shared: Watched, tmp_path: Path, error: type[Exception], url: str, says: str
) -> None:
    ports = {"primary": shared.ports[0], "sentinel": shared.ports[2], "nobody": free_ports(1)[0]}
    with pytest.raises(error, match=says) as refused:
        drivers.open(f"{url.format(**ports)}?failed_jobs=sqlite:///{tmp_path}/failed.db&reply_wait=1")
    assert "secret" not in str(refused.value)


def test_sentinels_may_want_a_password_of_their_own(shared: Watched, tmp_path: Path, address: Any) -> None:
    url, port = address(shared), shared.ports[2]
    with redis.Redis(unix_socket_path=shared.sentinels[0].socket) as client:
        client.execute_command("ACL", "SETUSER", "default", "resetpass", ">secret")
        try:
            alone = url.replace(url[url.index("@") : url.index("/jobs")], f"@127.0.0.1:{port}")
            for login in ("", "&sentinel_password=secret2"):
                with pytest.raises(DriverUnavailable, match=r"Write \?sentinel_password=PASSWORD") as refused:
                    drivers.open(alone + login)
                assert "secret" not in str(refused.value)
            with drivers.open(f"{alone}&sentinel_password=secret") as driver, drivers.open(driver.url) as again:
                push(driver, "a")
                assert taken(again, now=0.0) == ["a"]
                assert "secret" not in repr(again)
        finally:
            client.execute_command("ACL", "SETUSER", "default", "nopass")


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://127.0.0.1:26379",
        "redis+sentinel://127.0.0.1:26379/",
        "redis+sentinel:///jobs",
        "redis+sentinel://one,,two/jobs",
        "redis+sentinel://one:port/jobs",
        "redis+sentinel://:secret@one/jobs/first",
    ],
)
def test_an_address_that_names_no_service_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(ValueError, match=r"name the sentinels and the service that they watch over") as refused:
        drivers.open(url)
    assert "secret" not in str(refused.value)
