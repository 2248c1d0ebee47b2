"""What only memory has: it forgets."""

from collections import deque
from random import Random
from typing import Any

import pytest
from conftest import QUEUE, failed_one, only, push, taken

from qlab import drivers
from qlab.clock import us
from qlab.driver import Counts, Driver
from qlab.drivers.memory import MemoryDriver
from qlab.errors import QueueClosed
from qlab.flaws import FLAWS
from qlab.job import NewJob, Reservation


@only("memory", "memory-arrival")
def test_a_store_in_memory_is_its_driver_s_alone(driver: Driver) -> None:
    push(driver, "a")
    failed_one(driver, now=-1.0)
    with drivers.open(driver.url) as another:
        assert another.counts(QUEUE, now=0.0) == Counts()
        assert another.failed(QUEUE) == []


@pytest.mark.parametrize("order", ["arrival", "available_at"])
def test_a_driver_keeps_its_order_in_its_address(order: Any) -> None:
    with MemoryDriver(order) as driver, drivers.open(driver.url) as again:
        assert again.order == driver.order == order


@pytest.mark.parametrize("order", ["", "fifo", None])
def test_an_order_that_there_is_not_is_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="use 'available_at' or 'arrival'"):
        MemoryDriver(order)


def test_memory_promises_nothing() -> None:
    with MemoryDriver() as driver:
        assert all(text.startswith("everything") for text in driver.durability)


@only("memory-arrival")
def test_any_number_of_stale_items_hides_no_ready_job(driver: Driver) -> None:
    push(driver, *("late",) * 350)
    late = driver.reserve(QUEUE, now=0.0, retry_after=10.0, limit=350)
    again = [driver.reserve(QUEUE, now=20.0, retry_after=None)[0] for _ in range(4)]
    for held in late[4:]:
        assert driver.complete(held, now=20.0)
    push(driver, "ready", now=20.0)
    assert taken(driver, now=20.0) == ["ready"]
    assert len(again) == 4


@only("memory", "memory-arrival")
@pytest.mark.parametrize("retry_after", [None, 10.0])
def test_jobs_that_are_gone_leave_nothing_behind(driver: Any, retry_after: float | None) -> None:
    """Neither where reservations never run out, nor past the moment when they would have."""
    for now in range(1_000):
        push(driver, "a", now=float(now))
        (held,) = driver.reserve(QUEUE, now=float(now), retry_after=retry_after)
        assert driver.complete(held, now=float(now))
        assert driver.next_due(QUEUE, now=float(now)) is None
    there = driver._queues[QUEUE]  # noqa: SLF001 - what takes memory is seen nowhere else
    kept = {name: len(value) for name, value in vars(there).items() if isinstance(value, dict | set | list | deque)}
    assert kept.pop("heap") + kept.pop("reserved") < 15
    assert sum(kept.values()) <= 1


@only("memory", "memory-arrival")
@pytest.mark.parametrize("retry_after", [[1e6], [1e6, 2e6, 3e6]], ids=["in order", "out of order"])
def test_long_reservations_that_have_ended_leave_nothing_behind(driver: MemoryDriver, retry_after: list[float]) -> None:
    """Their ends would be a week away: a queue that keeps their places till then keeps every job it ever had."""
    for moment in range(20_000):
        push(driver, "a", now=float(moment))
        lasts = retry_after[-1 - moment % len(retry_after)]
        (held,) = driver.reserve(QUEUE, now=float(moment), retry_after=lasts)
        assert driver.complete(held, now=float(moment))
    there = driver._queues[QUEUE]  # noqa: SLF001 - what is kept is inside
    kept = [len(value) for value in vars(there).values() if isinstance(value, deque | list | dict | set)]
    assert max(kept) < 2_000
    assert driver.counts(QUEUE, now=2e4) == Counts()


@only("memory", "memory-arrival")
@pytest.mark.parametrize("retry_after", [[1e6], [1e6, 2e6, 3e6]], ids=["in order", "out of order"])
@pytest.mark.parametrize("extended", [False, True])
def test_a_job_that_comes_when_places_are_cleared_away_has_its_own(
    driver: Any, retry_after: list[float], extended: bool
) -> None:
    cleared, first = 0, None
    for moment in range(10_000):
        if first is None:  # at the head of its line for as long as it is held, so that what has ended stays behind it
            push(driver, "first", now=float(moment))
            (first,) = driver.reserve(QUEUE, now=float(moment), retry_after=5e5)
        push(driver, "a", now=float(moment))
        there, lasts = driver._queues[QUEUE], retry_after[-1 - moment % len(retry_after)]  # noqa: SLF001 - as above
        before = len(there.reserved) + len(there.heap)
        (held,) = driver.reserve(QUEUE, now=float(moment), retry_after=lasts)
        if extended:
            lasts += 5e6
            assert driver.extend(held, now=float(moment), seconds=lasts)
        if len(there.reserved) + len(there.heap) < before:
            cleared += 1
            assert driver.complete(first, now=float(moment))
            first = None
            assert driver.next_due(QUEUE, now=float(moment)) == moment + lasts
        assert driver.complete(held, now=float(moment))
    assert cleared > 3


@pytest.mark.parametrize("order", ["available_at", "arrival"])
def test_a_lane_does_what_the_verbs_do(order: str) -> None:
    """A thousand steps by the one way and by the other: the same jobs, at the same places."""
    with drivers.open(f"memory://?order={order}") as driver, drivers.open(f"memory://?order={order}") as other:
        lane, chance = other.lane(QUEUE), Random(5)
        assert lane is not None
        held: list[tuple[Reservation, Reservation]] = []
        for step in range(1_000):
            now, delay, spans = step * 0.5, chance.choice((0.0, 0.0, 3.0)), chance.choice((2.0, 40.0, None))
            if chance.random() < 0.5:
                one = NewJob(f"uid {step}", "a", "null", now + delay)
                assert driver.push(QUEUE, [one], now=now) == [lane.push(one, us(now), us(now + delay))]
            else:
                found, there = driver.reserve(QUEUE, now=now, retry_after=spans), lane.reserve(us(now), spans)
                assert [each[0::2] for each in found] == ([] if there is None else [there[0::2]])
                held += zip(found, filter(None, [there]), strict=True)
            if held and chance.random() < 0.4:
                left, right = held.pop(chance.randrange(len(held)))
                verb, how = chance.choice((("complete", {}), ("release", {"delay": 5.0}), ("extend", {"seconds": 9.0})))
                assert getattr(driver, verb)(left, now=now, **how) == getattr(other, verb)(right, now=now, **how)
            assert driver.counts(QUEUE, now=now) == other.counts(QUEUE, now=now)
            assert driver.next_due(QUEUE, now=now) == other.next_due(QUEUE, now=now)
        assert driver.jobs(QUEUE, now=500.0) == other.jobs(QUEUE, now=500.0) != []


def test_a_lane_is_closed_with_its_store_and_passes_no_flaw_by() -> None:
    with MemoryDriver() as driver:
        lane = driver.lane(QUEUE)
        assert lane is not None
    with pytest.raises(QueueClosed):
        lane.push(NewJob("uid", "a", "null", 0.0), 0, 0)
    with pytest.raises(QueueClosed):
        lane.reserve(0, None)
    for flaw in FLAWS.values():
        with flaw() as broken:
            assert broken.lane(QUEUE) is None


@only("sqlite-memory", "redis_zset-valkey")
def test_other_stores_have_no_lane(driver: Driver) -> None:
    assert driver.lane(QUEUE) is None
