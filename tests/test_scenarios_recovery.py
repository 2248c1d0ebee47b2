"""Scenarios of the bug catalogue: recovering, beside workers that are alive, and in a store that was tampered with."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis
from conftest import (
    QUEUE,
    REDIS,
    SHARED,
    Servers,
    Store,
    new,
    nothing,
    only,
    outcomes,
    push,
    snapshot,
    take,
    taken,
)

from qlab import Queue
from qlab.driver import Counts, Driver
from qlab.drivers.redis_store import RedisStore
from qlab.job import Job, Reservation

ROUNDS = 100
"""How often two callers are let go at once, on each driver."""

# -- one after the other --


@pytest.mark.scenario("B04")
def test_recovering_finds_nothing_of_a_job_that_is_done(driver: Driver) -> None:
    push(driver, "A")
    held = take(driver)
    assert driver.complete(held, now=91.0)
    assert driver.recover(QUEUE, now=91.0) == []
    assert driver.counts(QUEUE, now=91.0) == Counts()
    assert nothing(driver, now=1000.0)


@pytest.mark.scenario("B04")
def test_a_recovered_job_is_ready_once_with_its_payload_and_its_late_worker_superseded(queue: Queue) -> None:
    seen = []
    queue.handler("A")(lambda job: seen.append((job.number, job.payload)))
    queue.dispatch("A", {"x": [1]})
    late = queue.reserve(0.0)
    assert late
    queue.clock.advance_to(91.0)  # type: ignore[attr-defined]
    assert [job.payload for job in queue.recover()] == [{"x": [1]}]
    assert type(queue.finish(late)).__name__ == "Superseded"
    assert queue.counts() == Counts(ready=1)
    assert outcomes(queue, 91.0, 91.0) == ["Completed", "Idle"]
    assert seen == [(1, {"x": [1]}), (2, {"x": [1]})]


@pytest.mark.scenario("B05")
def test_recovering_leaves_a_job_to_who_has_just_reserved_it(driver: Driver) -> None:
    push(driver, "A")
    take(driver)
    second = take(driver, now=91.0)
    before = snapshot(driver, now=91.0)
    assert driver.recover(QUEUE, now=91.0) == []
    assert snapshot(driver, now=91.0) == before
    assert (second.job.attempts, second.reserved_until) == (2, 181.0)
    assert driver.complete(second, now=91.0)


@pytest.mark.scenario("B05")
def test_a_recovered_job_is_given_to_the_next_as_its_next_attempt(driver: Driver) -> None:
    push(driver, "A")
    take(driver)
    assert [job.name for job in driver.recover(QUEUE, now=91.0)] == ["A"]
    second = take(driver, now=91.0)
    assert (second.job.attempts, second.reserved_until, second.ran_out) == (2, 181.0, False)
    assert driver.recover(QUEUE, now=91.0) == []


@pytest.mark.scenario("B15")
@pytest.mark.parametrize("moment", [0.0, 0.5, 89.999999])
def test_recovering_leaves_a_reservation_alone_that_has_not_run_out(driver: Driver, moment: float) -> None:
    push(driver, "A", "waiting")
    push(driver, "delayed", at=500.0)
    held = take(driver)
    before = snapshot(driver, now=moment)
    assert driver.recover(QUEUE, now=moment) == []
    assert snapshot(driver, now=moment) == before
    assert driver.complete(held, now=moment)


@pytest.mark.scenario("B78")
@pytest.mark.parametrize("alive", [500, 1_200])
def test_any_number_of_live_reservations_hides_none_that_ran_out(driver: Driver, alive: int) -> None:
    push(driver, *("alive",) * alive, "dead")
    live = driver.reserve(QUEUE, now=0.0, retry_after=1_000.0, limit=alive)
    take(driver, retry_after=10.0)
    assert [job.name for job in driver.recover(QUEUE, now=10.0)] == ["dead"]
    assert driver.counts(QUEUE, now=10.0) == Counts(ready=1, reserved=alive)
    assert driver.complete(live[0], now=10.0)
    assert driver.complete(live[-1], now=10.0)


# -- at once --


@pytest.fixture
def both(open_again: Callable[[], Driver]) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Lets two callers go at once, each with a driver of its own on the test's store."""
    drivers, start = (open_again(), open_again()), threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:

        def at_once(*acts: Callable[[Driver], Any]) -> tuple[Any, Any]:
            def go(act: Callable[[Driver], Any], driver: Driver) -> Any:
                start.wait(60.0)
                return act(driver)

            one, other = [threads.submit(go, act, driver) for act, driver in zip(acts, drivers, strict=True)]
            return one.result(60.0), other.result(60.0)

        yield at_once


@only(*SHARED)
@pytest.mark.scenario("B04")
def test_a_job_that_is_completed_while_it_is_recovered_is_either_gone_or_ready(
    driver: Driver, both: Callable[..., tuple[bool, list[Job]]]
) -> None:
    for now in range(0, ROUNDS * 100, 100):
        driver.push(QUEUE, [new("A", at=now, body=str(now))], now=now)
        held = take(driver, now=now)
        late = now + 91.0
        done, recovered = both(
            lambda driver, held=held, late=late: driver.complete(held, now=late),
            lambda driver, late=late: driver.recover(QUEUE, now=late),
        )
        assert done == (recovered == [])
        assert driver.jobs(QUEUE, now=late) == recovered
        assert [job.body for job in recovered] == [str(now)] * (not done)
        assert [driver.complete(each, now=late) for each in driver.reserve(QUEUE, now=late, retry_after=9.0)] == [
            True
        ] * (not done)
    assert driver.counts(QUEUE, now=now) == Counts()


@only(*SHARED)
@pytest.mark.scenario("B05")
def test_a_job_that_is_reserved_while_it_is_recovered_is_in_the_hands_of_its_worker(
    driver: Driver, both: Callable[..., tuple[list[Reservation], list[Job]]]
) -> None:
    for now in range(0, ROUNDS * 100, 100):
        push(driver, "A", now=now)
        take(driver, now=now, retry_after=50.0)
        late = now + 50.0
        ((held,), recovered) = both(
            lambda driver, late=late: driver.reserve(QUEUE, now=late, retry_after=40.0),
            lambda driver, late=late: driver.recover(QUEUE, now=late),
        )
        assert (held.job.attempts, held.reserved_until, held.ran_out) == (2, late + 40.0, recovered == [])
        assert driver.jobs(QUEUE, now=late) == [held.job]
        assert driver.recover(QUEUE, now=late) == []
        assert driver.complete(held, now=late)


@only("sqlite", "redis_zset-redis8", "redis_list-valkey")
@pytest.mark.scenario("B16")
def test_recovering_in_a_tight_loop_takes_no_job_from_a_worker(
    driver: Driver, open_again: Callable[[], Driver]
) -> None:
    swept: list[Job] = []
    sweeps, stop = 0, threading.Event()

    def sweep(driver: Driver) -> int:
        sweeps = 0
        while not stop.is_set():
            swept.extend(driver.recover(QUEUE, now=50.0))
            sweeps += 1
        return sweeps

    push(driver, *map(str, range(1_000)))
    with ThreadPoolExecutor(1) as threads:
        sweeping = threads.submit(sweep, open_again())
        try:
            ran = []
            for _ in range(1_000):
                held = take(driver, now=50.0, retry_after=0.000001)
                ran.append(held.job.name)
                assert held.job.attempts == 1
                assert driver.complete(held, now=50.0)
        finally:
            stop.set()
        sweeps = sweeping.result(60.0)
    assert sweeps > 0
    assert swept == []
    assert ran == list(map(str, range(1_000)))


# -- a store that was tampered with --


@pytest.fixture
def places(driver: Driver, store: Store, servers: Servers) -> Iterator[Callable[..., None]]:
    """Deletes places of the layout from the server, as an eviction or a hand would."""
    assert isinstance(driver, RedisStore)
    keys = dict(zip(driver.key_names, driver.keys(QUEUE), strict=True))
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        yield lambda *names: client.delete(*(keys[name] for name in names if name in keys))


@only(*REDIS)
@pytest.mark.scenario("B07")
@pytest.mark.parametrize("retry_after", [90.0, None])
def test_a_reservation_that_was_lost_is_named_and_is_not_invisible_for_ever(
    driver: Driver, queue: Queue, places: Callable[..., None], retry_after: float | None
) -> None:
    ran = []
    queue.policy = replace(queue.policy, retry_after=retry_after)
    queue.handler("A")(lambda job: ran.append((job.number, job.payload)))
    queue.dispatch("A", "a")
    assert queue.reserve(0.0)
    places("reserved")
    assert "job 1 " in driver.check(QUEUE, now=0.0)[0]
    queue.clock.advance_to(200.0)  # type: ignore[attr-defined]
    queue.recover(force=retry_after is None)
    assert outcomes(queue, 200.0, 200.0) == ["Completed", "Idle"]
    assert ran == [(2, "a")]


EVERYWHERE = ("available", "ready", "delayed", "reserved", "run_out")


@only(*REDIS)
@pytest.mark.scenario("B07")
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("gone", [EVERYWHERE, ("available", "ready"), ("available", "delayed")], ids=str)
def test_recovering_puts_every_job_that_stands_in_no_set_back_as_its_row_says(
    driver: Driver, places: Callable[..., None], gone: tuple[str, ...], force: bool, caplog: pytest.LogCaptureFixture
) -> None:
    push(driver, "late", "late too", "alive")
    late = driver.reserve(QUEUE, now=0.0, retry_after=10.0, limit=2)
    alive = take(driver, retry_after=50.0)
    waiting = [str(number) for number in range(1_200)]
    push(driver, *waiting, now=9.0)
    push(driver, "later", now=9.0, at=20.0)
    assert take(driver, now=10.0, retry_after=0.000001).job.name == "0"  # redis_list appends the late ones here
    before = driver.counts(QUEUE, now=11.0)
    places(*gone)
    recovered = driver.recover(QUEUE, now=11.0, force=force)
    assert driver.check(QUEUE, now=11.0) == []
    assert [job.name for job in recovered] == ["late", "late too", "0", *(["alive"] if force else [])]
    assert not any(driver.complete(each, now=11.0) for each in late)
    assert driver.counts(QUEUE, now=11.0) == Counts(before.ready + force, 1, before.reserved - force)
    assert driver.next_due(QUEUE, now=11.0) == 11.0
    assert driver.complete(alive, now=11.0) != force
    given = [name for _ in range(20) for name in taken(driver, now=11.0)]
    assert [name for name in given if name in waiting[1:]] == waiting[1:]
    assert [name for name in given if name not in waiting[1:]] == [job.name for job in recovered]
    assert "jobs that stood in no set: were keys deleted?" in caplog.text


@only(*REDIS)
@pytest.mark.scenario("B07")
def test_a_job_that_stands_in_no_set_keeps_nobody_busy(
    driver: Driver, queue: Queue, places: Callable[..., None]
) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    places(*EVERYWHERE)
    assert queue.drain(until=100.0) == []
    queue.recover()
    assert [type(each).__name__ for each in queue.drain(until=100.0)] == ["Completed"]


# -- a handler that dispatches --


@pytest.mark.scenario("B81")
def test_a_drain_ends_only_when_nothing_is_due_any_more_also_of_what_it_dispatched_itself(queue: Queue) -> None:
    ran = []

    @queue.handler("A")
    def handler(job: Any) -> None:
        ran.append((queue.clock.now(), job.payload))
        if job.payload < 5:
            job.dispatch("A", job.payload + 1, delay=10.0)
            job.dispatch("B", job.payload)

    queue.handler("B")(lambda job: ran.append((queue.clock.now(), -job.payload)))
    queue.dispatch("A", 0)
    queue.drain(until=30.0)
    assert ran == [(at * 10.0, payload) for at in range(4) for payload in (at, -at)]
    assert queue.clock.now() == 30.0
    assert queue.counts() == Counts(delayed=1)
    assert queue.next_due() == 40.0
    queue.drain(until=60.0)
    assert ran[-1] == (50.0, 5)
    assert queue.counts() == Counts()
