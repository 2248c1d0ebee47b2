"""Scenarios of the bug catalogue: dates, payloads, names, and what a Redis client or cluster makes of them."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import QUEUE, REDIS, Servers, failed_one, new, nothing, only, outcomes, push, take
from redis.crc import key_slot

from qlab import Queue, SimulatedClock, SystemClock
from qlab.driver import Counts, Driver
from qlab.drivers.redis_list import RedisListDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.redis_zset import RedisZsetDriver
from qlab.errors import InvalidPayload
from qlab.job import Attempt

LAYOUTS = {"zset": RedisZsetDriver, "list": RedisListDriver}

# -- dates --


@pytest.mark.scenario("B61")
def test_a_date_is_the_moment_that_it_names_in_whatever_zone(driver: Driver) -> None:
    queue = Queue(driver, clock=SimulatedClock(epoch=datetime(2026, 3, 1, 12, tzinfo=UTC)), name=QUEUE)
    queue.handler("A")(lambda job: None)
    paris = timezone(timedelta(hours=1))
    queue.dispatch_at("A", at=datetime(2026, 3, 1, 19, 23, 42, tzinfo=paris))
    queue.dispatch_at("A", at=datetime(2026, 3, 1, 18, 23, 42, tzinfo=UTC))
    due = 6 * 3600 + 23 * 60 + 42.0
    assert [job.available_at for job in queue.jobs()] == [due, due]
    assert queue.next_due() == due


@pytest.mark.scenario("B61")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York"])
def test_a_naive_date_is_refused_with_what_to_write_instead(
    driver: Driver, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    naive = datetime(2026, 3, 1, 19, 23, 42)  # noqa: DTZ001 - what is tested
    for clock in (SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC)), SystemClock()):
        queue = Queue(driver, clock=clock, name=QUEUE)
        queue.handler("A")(lambda job: None)
        with pytest.raises(ValueError, match=r"is naive: .*datetime\.datetime\(2026, 3, 1, 19, 23, 42, tzinfo="):
            queue.dispatch_at("A", at=naive)
        assert queue.counts() == Counts()


# -- payloads --

TRICKY = {
    "id": 130775545883395173,
    "t": 1721234567.123456,
    "a": [],
    "o": {},
    "u": "é😀",
    "s": "a/b",
    "big": 2**64,
    "bigger": -(10**40),
    "small": 5e-324,
    "tiny": -0.0,
    "whole": 1.0,
    "exact": 0.1 + 0.2,
    "deep": [[[]], {"": None}],
    "control": "\0\x1f\x7f\u2028",
    "key é": True,
}


@pytest.mark.scenario("B66")
def test_no_store_ever_rewrites_a_payload(queue: Queue) -> None:
    seen: list[str] = []

    @queue.handler("A", tries=2, backoff=(5.0,))
    def handler(job: Attempt) -> None:
        seen.append(json.dumps(job.payload))
        raise ValueError("boom")

    body = queue.dispatch_later("A", TRICKY, delay=3.0).body
    assert body == json.dumps(TRICKY, ensure_ascii=False, separators=(",", ":"))
    bodies = [queue.jobs()[0].body]  # delayed
    assert outcomes(queue, 3.0) == ["Retrying"]
    bodies.append(queue.jobs()[0].body)  # waiting for its backoff
    assert outcomes(queue, 8.0) == ["Failed"]
    (row,) = queue.failed()
    bodies.append(row.body)
    queue.retry("all")
    bodies.append(queue.jobs()[0].body)  # ready again
    held = queue.reserve(0.0)
    assert held
    bodies.append(held.job.body)
    queue.recover(force=True)
    bodies.append(queue.jobs()[0].body)
    assert outcomes(queue, 0.0, 5.0) == ["Failed", "Idle"]
    assert bodies == [body] * 6
    assert seen == [json.dumps(TRICKY)] * 3


@pytest.mark.scenario("B67")
def test_a_payload_is_what_it_was_at_dispatch_for_every_attempt(queue: Queue) -> None:
    seen: list[Any] = []

    @queue.handler("A", backoff=0.0)
    def handler(job: Attempt) -> None:
        seen.append(json.dumps(job.payload))
        job.payload["list"].append("the handler's")
        job.payload["more"] = True
        assert job.payload["more"]  # within an attempt it is one value
        if job.number < 3:
            raise ValueError("boom")

    payload: dict[str, Any] = {"list": [1], "pair": (1, 2)}
    queue.dispatch("A", payload)
    payload["list"].append("the caller's")
    assert outcomes(queue, 0.0, 0.0, 0.0) == ["Retrying", "Retrying", "Completed"]
    assert seen == ['{"list": [1], "pair": [1, 2]}'] * 3


class Thing:
    pass


def circle() -> list[Any]:
    round_: list[Any] = []
    round_.append({"again": round_})
    return round_


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


# What JSON does not hold, and what the message says of it.
INVALID: dict[str, tuple[object, str]] = {
    "lone surrogate": ({"a": ["x", "b\ud800c"]}, "payload['a'][1] has a lone surrogate"),
    "lone surrogate in a key": ({"\udfff": 1}, "a key of payload has a lone surrogate"),
    "NaN": ([1.0, math.nan], "payload[1] is nan"),
    "infinity": ({"a": math.inf}, "payload['a'] is inf"),
    "minus infinity": (-math.inf, "payload is -inf"),
    "bytes": ({"a": {"b": b"x"}}, "payload['a']['b'] is a bytes"),
    "set": ([{1}], "payload[0] is a set"),
    "datetime": ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "payload['at'] is a datetime"),
    "object": (Thing(), "payload is a Thing"),
    "complex": (1j, "payload is a complex"),
    "path": ([Path("x")], "payload[0] is a PosixPath"),
    "circle": (circle(), "payload[0]['again'] contains itself"),
    "nested 101 deep": (nested(101), "is nested more than 100 deep"),
    "nested 5,000 deep": (nested(5_000), "is nested more than 100 deep"),
    "key that is a number": ({"a": {1: 2}}, "payload['a'] has the key 1, which is no text: use '1'"),
    "key that is None": ({None: 2}, "payload has the key None"),
    "key that is a tuple": ({(1, 2): 2}, "payload has the key (1, 2)"),
    "integer of 4,301 digits": ([10**4300], "payload[0] is an integer of more than 4,300 digits"),
}


@pytest.mark.scenario("B67")
@pytest.mark.scenario("B68")
def test_what_json_cannot_hold_is_refused_at_dispatch_with_its_place(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    ways: tuple[Callable[[object], object], ...] = (
        lambda value: queue.dispatch("A", value),
        lambda value: queue.dispatch_later("A", value, delay=1.0),
        lambda value: queue.dispatch_at("A", value, at=1.0),
        lambda value: queue.dispatch_many([("A", 1), ("A", value)]),
    )
    for kind, (value, said) in INVALID.items():
        for dispatch in ways:
            with pytest.raises(InvalidPayload) as refusal:
                dispatch(value)
            assert (kind, said in str(refusal.value)) == (kind, True)
            assert str(refusal.value).startswith("handler 'A', queue 'mail': ")
        assert (kind, queue.counts(), queue.jobs(), len(queue.trace)) == (kind, Counts(), [], 0)


VALID = (2**53 + 1, 2**63, 2**64, -(2**64) - 1, 10**4299, nested(100), "", "\0", [], {}, None, False, 1e308, {"": ""})


@pytest.mark.scenario("B68")
def test_every_json_value_comes_back_as_it_was(queue: Queue) -> None:
    seen: list[object] = []
    queue.handler("A")(lambda job: seen.append(job.payload))
    queue.dispatch_many([("A", value) for value in VALID])
    queue.drain()
    assert seen == list(VALID)
    assert [type(value) for value in seen] == [type(value) for value in VALID]


# -- names --

NAMES = ("a*", "a?c", "[x]", "a.b", "ü", "a b", "a", "abc", "x", "{x}", "a:b", "a}b{", "%7Bx%7D", "%", "*", "\\", "a\n")


@pytest.mark.scenario("B69")
def test_clear_reaches_the_queue_of_this_name_and_no_other(driver: Driver) -> None:
    for name in NAMES:
        push(driver, "A", "B", queue=name)
    for place, cleared in enumerate(NAMES, 1):
        assert driver.clear(cleared, now=0.0) == 2
        left = {name: driver.counts(name, now=0.0).ready for name in NAMES}
        assert left == dict.fromkeys(NAMES[:place], 0) | dict.fromkeys(NAMES[place:], 2)


@pytest.mark.scenario("B69")
def test_a_queue_without_a_name_is_refused(driver: Driver) -> None:
    with pytest.raises(ValueError, match="the queue's name is ''"):
        Queue(driver, name="")


# -- clusters and clients --


@pytest.mark.scenario("B70")
@only(*REDIS)
@pytest.mark.parametrize("prefix", ["qlab", "a{b}c", "a{", "a}", "}{", "{", "a:b", "{}x}", "x{y}{}"])
def test_the_keys_of_a_queue_share_a_slot_and_begin_with_the_prefix(driver: Driver, prefix: str) -> None:
    assert isinstance(driver, RedisStore)
    if "{}" in prefix:
        with pytest.raises(ValueError, match="without an empty pair of braces"):
            type(driver)(driver._client, prefix=prefix)  # noqa: SLF001 - a client is at hand
        return
    driver.prefix = prefix
    for name in ("default", "a{b}c", "{x}", "a}b{", "{}", "{", "}", ":", "ü"):
        keys = driver.keys(name)
        assert len(set(keys)) == len(driver.key_names)
        assert len({key_slot(key.encode()) for key in keys}) == 1
        assert all(key.startswith(f"{prefix}:") for key in keys)


@pytest.mark.scenario("B70")
@only(*REDIS)
def test_every_key_that_a_driver_uses_is_one_that_it_names(driver: Driver, servers: Servers, store: Any) -> None:
    assert isinstance(driver, RedisStore)
    failed_one(driver)
    push(driver, "ready", "ready", "held")
    push(driver, "delayed", at=50.0)
    take(driver, retry_after=5.0)
    take(driver, now=1.0)
    take(driver, now=5.0, retry_after=1.0)
    with redis.Redis.from_url(servers[store.server].url) as client:
        there = {key.decode() for key in client.scan_iter(match=f"{driver.prefix}:*")}
    assert there <= set(driver.keys(QUEUE))
    assert len(there) >= 6
    with driver.statements() as seen:
        driver.counts(QUEUE, now=0.0)
    assert all(
        statement.values.startswith(("KEYS ", driver.prefix)) for statement in seen if statement.language != "SQL"
    )


@pytest.fixture(params=["redis", "valkey", "redis8"])
def live(request: pytest.FixtureRequest, servers: Servers) -> str:
    return servers[request.param].socket


@pytest.mark.scenario("B71")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "settings",
    [
        {"decode_responses": False, "protocol": 2},
        {"decode_responses": True, "protocol": 2},
        {"decode_responses": False, "protocol": 3},
        {"decode_responses": True, "protocol": 3},
        {"encoding": "latin-1", "encoding_errors": "replace"},
    ],
    ids=str,
)
def test_a_client_may_be_set_as_it_likes(live: str, layout: str, settings: dict[str, Any], tmp_path: Path) -> None:
    with redis.Redis(unix_socket_path=live, **settings) as client:
        driver = LAYOUTS[layout](client, failed_jobs=f"sqlite:///{tmp_path}/failed.db", prefix=str(tmp_path))
        whole_life(driver)
        driver.close()
        assert client.ping()  # the application's own client is left alone


def whole_life(driver: RedisStore) -> None:
    name, body = "é😀", '{"u":"é😀","n":1.0}'
    driver.push(QUEUE, [new(name, body=body), new(name, body=body, at=5.0)], now=0.0)
    held = take(driver)
    assert (held.job.name, held.job.body, held.ran_out, held.job.attempts) == (name, body, False, 1)
    assert driver.extend(held, now=1.0, seconds=50.0)
    assert driver.counts(QUEUE, now=1.0) == Counts(delayed=1, reserved=1)
    assert driver.next_due(QUEUE, now=1.0) == 5.0
    assert driver.release(held, now=1.0)
    assert [job.body for job in driver.jobs(QUEUE, now=1.0)] == [body, body]
    held = take(driver, now=1.0, retry_after=1.0)
    assert driver.recover(QUEUE, now=2.0)[0].name == name
    assert not driver.complete(held, now=2.0)
    held = take(driver, now=2.0)
    assert driver.fail(held, now=2.0, attempts=3, error="Fehler: é", traceback="😀")
    (row,) = driver.failed(QUEUE)
    assert (row.name, row.body, row.error, row.traceback) == (name, body, "Fehler: é", "😀")
    assert driver.retry(QUEUE, [row.id or 0], now=3.0)[0][1].body == body
    completed, following = driver.complete_and_reserve(take(driver, now=4.0), now=5.0, retry_after=None)
    assert completed
    assert following is not None
    assert (following.job.body, following.reserved_until) == (body, math.inf)
    assert nothing(driver, now=5.0)
    assert driver.check(QUEUE, now=5.0) == []
    assert driver.clear(QUEUE, now=5.0) == 1
    assert driver.description.startswith(("Redis ", "Valkey "))
    assert all(driver.durability)


@pytest.mark.scenario("B71")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_driver_waits_and_encodes_in_its_own_way_and_never_resends(live: str, layout: str, tmp_path: Path) -> None:
    with redis.Redis(unix_socket_path=live, socket_timeout=None, encoding="latin-1") as client:
        driver = LAYOUTS[layout](client, failed_jobs=f"sqlite:///{tmp_path}/failed.db", prefix=str(tmp_path))
        settings = driver._client.connection_pool.connection_kwargs  # noqa: SLF001 - what redis-py would do
        driver.close()
    assert settings["retry"].get_retries() == 0
    assert settings["socket_timeout"] == 10.0
    assert settings["encoding"] == "utf-8"
