"""What only Redis has: scripts, keys, a server that may be away, and a list whose items may be stale."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from conftest import (
    BY_ARRIVAL,
    IN_ORDER,
    QUEUE,
    REDIS,
    Servers,
    Store,
    fail,
    failed_one,
    nothing,
    only,
    program,
    push,
    stores,
    take,
    taken,
)

from qlab import Completed, Queue, drivers
from qlab.driver import Counts, Driver
from qlab.drivers.redis_list import RedisListDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.redis_zset import RedisZsetDriver
from qlab.drivers.server import EmbeddedServer
from qlab.drivers.statements import lua
from qlab.errors import DriverUnavailable, ReplyLost, UnusableStore
from qlab.job import Reservation

store = stores(*REDIS)

ONE_OF_EACH_LAYOUT = ("redis_zset-valkey", "redis_list-valkey")
ZSET = tuple(name for name in REDIS if name in IN_ORDER)
LIST = tuple(name for name in REDIS if name in BY_ARRIVAL)


@pytest.fixture
def client(store: Store, servers: Servers) -> Iterator[redis.Redis]:
    """A plain client of the test's server."""
    with redis.Redis(unix_socket_path=servers[store.server].socket, decode_responses=True) as client:
        yield client


def there(client: redis.Redis, driver: Driver, queue: str = QUEUE) -> set[str]:
    """The last words of the keys that a queue has on the server."""
    assert isinstance(driver, RedisStore)
    return {key.rpartition(":")[2] for key in driver.keys(queue) if client.exists(key)}


# -- keys --


def test_a_queue_whose_jobs_are_done_leaves_nothing_but_its_counters(driver: Driver, client: redis.Redis) -> None:
    push(driver, "a", "b", "c", "d", "e")
    push(driver, "later", at=5.0)
    late = take(driver, retry_after=1.0)
    assert driver.complete(take(driver), now=0.0)
    assert driver.release(take(driver), now=0.0)
    assert fail(driver, take(driver))
    assert driver.forget(QUEUE, driver.failed_ids(QUEUE))
    held = take(driver, now=5.0)
    assert driver.complete(late, now=5.0)
    driver.recover(QUEUE, now=5.0, force=True)
    assert not driver.complete(held, now=5.0)
    while batch := driver.reserve(QUEUE, now=5.0, retry_after=90.0):
        assert driver.complete(batch[0], now=5.0)
    assert there(client, driver) == {"counters"}


SETTLING: dict[str, Callable[[Driver, Reservation], bool]] = {
    "complete": lambda driver, held: driver.complete(held, now=10.0),
    "release": lambda driver, held: driver.release(held, now=10.0),
    "extend": lambda driver, held: driver.extend(held, now=10.0, seconds=5.0),
    "fail": lambda driver, held: fail(driver, held, now=10.0),
    "none": lambda driver, held: True,
}


@pytest.mark.parametrize("verb", SETTLING)
def test_a_reservation_that_ran_out_and_was_seen_to_leaves_nothing_behind(
    driver: Driver, client: redis.Redis, verb: str
) -> None:
    push(driver, "late", "other")
    late = take(driver, retry_after=10.0)
    assert driver.complete(take(driver, now=10.0), now=10.0)  # redis_list appends the late one to its list here
    assert SETTLING[verb](driver, late)
    while batch := driver.reserve(QUEUE, now=15.0, retry_after=90.0):
        assert driver.complete(batch[0], now=15.0)
    assert there(client, driver) == {"counters"}


def test_clear_leaves_nothing_but_the_counters(driver: Driver, client: redis.Redis) -> None:
    push(driver, "a", "b", "c")
    push(driver, "later", at=50.0)
    take(driver, retry_after=1.0)
    take(driver)
    take(driver, now=1.0)
    assert driver.clear(QUEUE, now=1.0) == 4
    assert there(client, driver) == {"counters"}


def test_a_reading_verb_makes_no_key(driver: Driver, client: redis.Redis) -> None:
    driver.counts(QUEUE, now=0.0)
    driver.jobs(QUEUE, now=0.0)
    driver.next_due(QUEUE, now=0.0)
    driver.failed(QUEUE)
    driver.check(QUEUE, now=0.0)
    driver.reserve(QUEUE, now=0.0, retry_after=90.0)
    assert there(client, driver) == set()


def test_no_key_has_a_time_to_live(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "a", "b")
    push(driver, "later", at=50.0)
    take(driver)
    assert {client.ttl(key) for key in driver.keys(QUEUE)} <= {-1, -2}


def test_two_prefixes_are_two_stores(driver: Driver, address: str) -> None:
    push(driver, "a")
    with drivers.open(address.replace("prefix=test-", "prefix=other-")) as other:
        assert other.counts(QUEUE, now=0.0) == Counts()
        push(other, "b")
        assert other.clear(QUEUE, now=0.0) == 1
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


def test_the_other_layout_under_the_same_prefix_does_not_meddle(driver: Driver, address: str, store: Store) -> None:
    push(driver, "a")
    held = take(driver, retry_after=5.0)
    turned = address.replace("layout=zset", "layout=list") if "zset" in address else address.replace("=list", "=zset")
    with suppress(UnusableStore), drivers.open(turned) as other:  # refusing would do as well
        assert other.counts(QUEUE, now=9.0) == Counts()
        assert other.next_due(QUEUE, now=9.0) is None
        push(other, "b", now=9.0)
        assert taken(other, now=9.0) == ["b"]
        other.clear(QUEUE, now=9.0)
    assert driver.counts(QUEUE, now=9.0) == Counts(ready=1)
    assert driver.complete(held, now=9.0)


PREFIXES = ("a&b=c", "a#b", "a b", "a%20b", "é", "a?b", "a+b", "a/b:c")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_address_of_a_driver_opens_the_same_store_again(
    client: redis.Redis, store: Store, prefix: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a b%20c?d#e&f=é"
    folder.mkdir()
    kind = RedisListDriver if "list" in store.name else RedisZsetDriver
    failed_jobs = f"sqlite:///{folder}/failed.db".replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    with kind(client, prefix=f"{tmp_path}{prefix}", failed_jobs=failed_jobs) as driver:
        failed_one(driver)
        push(driver, "a")
        assert [path.name for path in folder.iterdir() if path.suffix == ".db"] == ["failed.db"]
        with drivers.open(driver.url) as again, drivers.open(again.url) as third:
            assert third.url == again.url
            for each in (driver, again, third):
                assert each.counts(QUEUE, now=0.0) == Counts(ready=1, failed=1)
                assert [row.name for row in each.failed(QUEUE)] == ["send"]


@only(*ONE_OF_EACH_LAYOUT)
def test_what_is_no_client_is_refused_without_a_word_of_its_password(driver: Driver) -> None:
    for client in ("redis://:secret@localhost", None, redis.ConnectionPool(), redis.asyncio.Redis()):
        with pytest.raises(TypeError, match=r"client is a .*: use a redis.Redis or redis.RedisCluster") as refusal:
            type(driver)(client)  # type: ignore[call-arg]
        assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("prefix", ["", "{}", "a{}b"])
def test_a_prefix_that_would_mix_or_scatter_queues_is_refused(client: redis.Redis, prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prefix is"):
        RedisZsetDriver(client, prefix=prefix, failed_jobs=f"sqlite:///{tmp_path}/failed.db")


@only(*ONE_OF_EACH_LAYOUT)
def test_no_two_prefixes_and_queues_share_a_key_or_a_beginning(driver: Driver) -> None:
    assert isinstance(driver, RedisStore)
    names = ["".join(word) for length in (1, 2, 3) for word in itertools.product("a:{}", repeat=length)]
    prefixes = [name for name in names if "{}" not in name]
    seen: dict[str, tuple[str, str]] = {}
    for prefix in prefixes:
        driver.prefix = prefix
        for queue in names:
            for key in driver.keys(queue):
                assert key.startswith(f"{prefix}:{{")  # which is what a user of a server with ACLs is let in by
                assert seen.setdefault(key, (prefix, queue)) == (prefix, queue)
    assert len(seen) == len(prefixes) * len(names) * len(driver.key_names)


def test_production_demands_a_prefix(
    client: redis.Redis, servers: Servers, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("APP_ENV", "production")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="APP_ENV is production and no prefix is given"):
        RedisZsetDriver(client)
    with pytest.raises(ValueError, match="APP_ENV is production and no prefix is given"):
        drivers.open(servers[store.server].url)
    with RedisZsetDriver(client, prefix="mine") as driver:
        assert driver.prefix == "mine"
    monkeypatch.setenv("APP_ENV", "development")
    with RedisZsetDriver(client) as driver:
        assert driver.prefix == "qlab"
    assert list(tmp_path.iterdir()) == []


# -- scripts --


def test_a_server_that_forgot_its_scripts_is_sent_them_again(driver: Driver, client: redis.Redis) -> None:
    push(driver, "a", "b")
    client.script_flush()
    held = take(driver)
    client.script_flush()
    completed, following = driver.complete_and_reserve(held, now=1.0, retry_after=90.0)
    client.script_flush()
    assert completed
    assert following is not None
    assert driver.counts(QUEUE, now=1.0) == Counts(reserved=1)


def test_statements_show_the_file_of_the_verb(driver: Driver) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "a", "b")
    with driver.statements() as seen:
        driver.complete_and_reserve(take(driver), now=0.0, retry_after=90.0)
    assert seen[0].text == lua(driver.layout, "reserve")
    assert seen[1].text == lua(driver.layout, "complete") + "\n" + lua(driver.layout, "reserve")
    assert seen[0].text.startswith("-- reserve: ")
    assert seen[0].values.startswith(f"KEYS {driver.prefix}:{{{QUEUE}}}:{driver.layout}:* ARGV 0 90000000 ")


# -- check --


def broken_row(client: redis.Redis, driver: RedisStore, act: Callable[..., Any]) -> list[str]:
    push(driver, "a", "b", queue="broken")
    take(driver, queue="broken")
    assert driver.check("broken", now=0.0) == []
    act(client, dict(zip(driver.key_names, driver.keys("broken"), strict=True)))
    return driver.check("broken", now=0.0)


BREAKS: dict[str, Callable[[redis.Redis, dict[str, str]], Any]] = {
    "a reservation out of its set": lambda client, keys: client.delete(keys["reserved"]),
    "a job out of its line": lambda client, keys: client.delete(keys.get("available") or keys["ready"]),
    "a payload gone": lambda client, keys: client.hdel(keys["bodies"], "1"),
    "a uid gone": lambda client, keys: client.delete(keys["uids"]),
    "a deadline moved": lambda client, keys: client.zincrby(
        keys["reserved"], 5, client.zrange(keys["reserved"], 0, 0)[0]
    ),
}


@pytest.mark.parametrize("act", BREAKS.values(), ids=BREAKS)
def test_check_names_a_job_that_does_not_add_up(driver: Driver, client: redis.Redis, act: Callable[..., Any]) -> None:
    assert isinstance(driver, RedisStore)
    problems = broken_row(client, driver, act)
    assert problems
    assert all("job " in problem or "entries" in problem for problem in problems)


@only(*ONE_OF_EACH_LAYOUT)
def test_check_looks_at_every_page(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, *("a",) * 1_200, queue="broken")
    assert driver.check("broken", now=0.0) == []
    client.hdel(driver.keys("broken")[driver.key_names.index("bodies")], "77", "1100")
    problems = driver.check("broken", now=0.0)
    assert {"job 77 has no payload", "job 1100 has no payload"} <= set(problems)


ENDS: dict[str, Callable[[Driver, Reservation], Any]] = {
    "complete": lambda driver, held: driver.complete(held, now=10.0),
    "extend": lambda driver, held: driver.extend(held, now=10.0, seconds=90.0),
    "clear": lambda driver, held: driver.clear("broken", now=10.0),
}


@only(*LIST)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_check_names_a_run_out_reservation_that_is_none(driver: Driver, client: redis.Redis, end: Any) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "a", "b", queue="broken")
    _, appended = driver.reserve("broken", now=0.0, retry_after=10.0, limit=2)
    take(driver, now=10.0, queue="broken")
    run_out = driver.keys("broken")[driver.key_names.index("run_out")]
    left = dict(client.zrange(run_out, 0, -1, withscores=True))
    assert len(left) == 1
    assert end(driver, appended)
    assert driver.check("broken", now=10.0) == []
    client.zadd(run_out, left)
    assert driver.check("broken", now=10.0) == ["job 2 is in RUN_OUT without a reservation that has run out"]


@only(*ZSET)
def test_a_reservation_out_of_its_set_is_never_invisible_for_ever(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "a", queue="broken")
    take(driver, queue="broken")
    client.delete(driver.keys("broken")[driver.key_names.index("reserved")])
    driver.recover("broken", now=200.0)
    assert take(driver, now=200.0, queue="broken").job.name == "a"


@only(*ONE_OF_EACH_LAYOUT)
def test_an_id_without_a_job_keeps_no_other_from_being_recovered(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, *("a",) * 600, queue="broken")
    driver.reserve("broken", now=0.0, retry_after=90.0, limit=600)
    client.hdel(driver.keys("broken")[driver.key_names.index("rows")], "7")
    assert len(driver.recover("broken", now=90.0)) == 599


def test_an_id_without_a_job_is_skipped(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    keys = dict(zip(driver.key_names, driver.keys(QUEUE), strict=True))
    if "ready" in keys:
        client.rpush(keys["ready"], "99:1", "nonsense", "1")
    else:
        client.zadd(keys["available"], {"0000000000000001:99": 0})
    push(driver, "a")
    assert take(driver).job.name == "a"
    assert nothing(driver, now=0.0)


# -- the list --


@only(*LIST)
@pytest.mark.parametrize("fused", [False, True])
def test_any_number_of_stale_items_hides_no_ready_job(driver: Driver, client: redis.Redis, fused: bool) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "worker's", *("late",) * 350)
    workers_own = take(driver, retry_after=None)
    late = driver.reserve(QUEUE, now=0.0, retry_after=10.0, limit=350)
    again = [take(driver, now=20.0, retry_after=None) for _ in range(4)]  # appends 100 a call to the list
    for held in late[4:]:
        assert driver.complete(held, now=20.0)
    assert client.llen(driver.keys(QUEUE)[driver.key_names.index("ready")]) > 300
    push(driver, "ready", now=20.0)
    if fused:
        _, following = driver.complete_and_reserve(workers_own, now=20.0, retry_after=90.0)
        assert following is not None
        assert following.job.name == "ready"
    else:
        assert taken(driver, now=20.0, limit=1) == ["ready"]
    assert nothing(driver, now=20.0)
    assert all(driver.complete(held, now=20.0) for held in again)


@only(*LIST)
def test_ready_is_counted_by_rows_and_not_by_the_list(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    push(driver, "a", "b")
    held = take(driver, retry_after=10.0)
    take(driver, now=10.0)  # appends "a" again, takes "b"
    driver.complete(held, now=10.0)
    assert client.llen(driver.keys(QUEUE)[driver.key_names.index("ready")]) == 1
    assert driver.counts(QUEUE, now=10.0) == Counts(reserved=1)
    assert driver.next_due(QUEUE, now=10.0) == 100.0


@only(*LIST)
def test_a_job_that_stands_in_the_list_twice_is_given_once(driver: Driver) -> None:
    push(driver, "a", "b")
    held = take(driver, retry_after=10.0)
    other = take(driver, now=10.0)  # appends "a"
    assert driver.extend(held, now=10.0, seconds=5.0)
    driver.complete(other, now=10.0)
    assert nothing(driver, now=14.0)
    assert driver.release(held, now=15.0)
    assert taken(driver, now=15.0) == ["a"]


# -- a server that is away --


@pytest.fixture
def own_server(store: Store, servers: Servers) -> Iterator[EmbeddedServer]:
    """A server of the test's own, to be set up and broken."""
    with EmbeddedServer(persistence="always", **program(store.server)) as server:
        yield server


@pytest.fixture
def on_own(own_server: EmbeddedServer, store: Store, tmp_path: Path) -> Iterator[Callable[..., RedisStore]]:
    """Opens drivers on the test's own server."""
    with ExitStack() as opened:

        def open_one(**settings: Any) -> RedisStore:
            client = opened.enter_context(redis.Redis(unix_socket_path=own_server.socket, **settings))
            kind = RedisListDriver if "list" in store.name else RedisZsetDriver
            return opened.enter_context(kind(client, failed_jobs=f"sqlite:///{tmp_path}/failed.db", prefix="own"))

        yield open_one


def command(server: EmbeddedServer, *words: str, **settings: Any) -> Any:
    with redis.Redis(unix_socket_path=server.socket, **settings) as client:
        return client.execute_command(*words)


@only(*ONE_OF_EACH_LAYOUT)
def test_a_server_that_comes_back_is_used_again(on_own: Callable[..., RedisStore], own_server: EmbeddedServer) -> None:
    driver = on_own()
    push(driver, "a", "b")
    held = take(driver)
    own_server.kill()
    for _ in range(2):
        with pytest.raises(DriverUnavailable):
            driver.counts(QUEUE, now=0.0)
    own_server.restart()
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1, reserved=1)
    assert driver.complete(held, now=0.0)


@only(*ONE_OF_EACH_LAYOUT)
def test_a_server_that_is_restarted_in_between_is_not_noticed(
    on_own: Callable[..., RedisStore], own_server: EmbeddedServer
) -> None:
    driver = on_own()
    push(driver, "a")
    own_server.restart()
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


@only("redis_list-valkey")
def test_a_server_that_does_not_answer_in_time_is_told_as_a_lost_reply(
    on_own: Callable[..., RedisStore], own_server: EmbeddedServer
) -> None:
    driver = on_own(socket_timeout=1.0)
    push(driver, "a")
    os.kill(own_server.pid, signal.SIGSTOP)
    with pytest.raises(ReplyLost, match="may or may not have been done"):
        driver.reserve(QUEUE, now=0.0, retry_after=90.0)
    os.kill(own_server.pid, signal.SIGCONT)
    assert driver.counts(QUEUE, now=0.0).depth == 1


@only(*ONE_OF_EACH_LAYOUT)
def test_a_server_whose_memory_is_full_says_so_and_stores_nothing(
    on_own: Callable[..., RedisStore], own_server: EmbeddedServer
) -> None:
    driver = on_own()
    push(driver, "a")
    command(own_server, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(DriverUnavailable, match="memory is full .*nothing was stored") as refusal:
        push(driver, "b")
    assert not isinstance(refusal.value, ReplyLost)
    command(own_server, "CONFIG", "SET", "maxmemory", "0")
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


@only(*ONE_OF_EACH_LAYOUT)
def test_a_password_that_is_missing_or_wrong_is_told(
    on_own: Callable[..., RedisStore], own_server: EmbeddedServer
) -> None:
    command(own_server, "CONFIG", "SET", "requirepass", "secret")
    with pytest.raises(DriverUnavailable, match="the server wants a password"):
        on_own()
    with pytest.raises(DriverUnavailable, match="refused the user or the password"):
        on_own(password="wrong")
    driver = on_own(password="secret")
    assert push(driver, "a")
    assert "secret" not in repr(driver)
    command(own_server, "CONFIG", "SET", "requirepass", "", password="secret")


@only(*ONE_OF_EACH_LAYOUT)
def test_a_replica_says_that_it_is_one(on_own: Callable[..., RedisStore], own_server: EmbeddedServer) -> None:
    driver = on_own()
    push(driver, "a")
    command(own_server, "REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(DriverUnavailable, match="use the address of the primary"):
        push(driver, "b")
    command(own_server, "REPLICAOF", "NO", "ONE")


def test_a_key_of_another_application_is_told_and_left_alone(driver: Driver, client: redis.Redis) -> None:
    assert isinstance(driver, RedisStore)
    key = driver.keys("taken")[driver.key_names.index("rows")]
    client.set(key, "another's")
    with pytest.raises(UnusableStore, match="another application's: choose another prefix"):
        push(driver, "a", queue="taken")
    assert client.get(key) == "another's"


SETTINGS = {
    "AOF always": (("appendonly", "yes"), ("appendfsync", "always")),
    "AOF everysec": (("appendonly", "yes"), ("appendfsync", "everysec")),
    "AOF no": (("appendonly", "yes"), ("appendfsync", "no")),
    "no persistence": (("appendonly", "no"), ("save", "")),
    "snapshots (60 1000)": (("appendonly", "no"), ("save", "60 1000")),
}


@only("redis_zset-redis", "redis_zset-valkey", "redis_list-redis8")
def test_a_driver_says_what_its_server_survives(on_own: Callable[..., RedisStore], own_server: EmbeddedServer) -> None:
    product = f"{own_server.name} {own_server.version}"
    seen = set()
    for says, settings in SETTINGS.items():
        for name, value in settings:
            command(own_server, "CONFIG", "SET", name, value)
        driver = on_own()
        assert driver.persistence == says
        assert driver.description == f"{product}, {says}, layout={driver.layout}"
        assert driver.durability.worker_killed == "nothing"
        assert (driver.durability.store_killed == "nothing") == (says in {"AOF always", "AOF no"})
        seen.add(driver.durability)
    assert len(seen) == len(SETTINGS)


# -- processes --


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_makes_connections_and_uids_of_its_own(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A", "before")
    held = queue.reserve()
    assert held
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for _ in range(20):
                queue.dispatch("A", "child's")
            code = 0
        finally:
            os._exit(code)
    for _ in range(20):
        queue.dispatch("A", "parent's")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert isinstance(queue.finish(held), Completed)
    payloads = [job.payload for job in queue.jobs()]
    assert (payloads.count("parent's"), payloads.count("child's")) == (20, 20)
