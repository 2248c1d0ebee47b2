"""Scenarios of the bug catalogue: delayed jobs and order."""

from datetime import UTC, datetime

import pytest
from conftest import BY_ARRIVAL, IN_ORDER, QUEUE, Store, only, outcomes, push, told

from qlab import Queue, SimulatedClock
from qlab.driver import Counts, Driver
from qlab.job import Attempt


@pytest.fixture
def ran(queue: Queue) -> list[object]:
    """The payloads that the handler `A` was run with, in order."""
    payloads: list[object] = []

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        payloads.append(job.payload)

    return payloads


@pytest.mark.scenario("B30")
def test_a_delay_may_be_longer_than_a_reservation(queue: Queue, ran: list[object]) -> None:
    queue.dispatch_later("A", delay=600.0)
    early = [90.0, 180.0, 270.0, 360.0, 450.0, 540.0, 590.0, 599.0, 599.999999]
    assert outcomes(queue, *early) == ["Idle"] * len(early)
    assert queue.driver.counts(QUEUE, now=599.0) == Counts(delayed=1)
    assert outcomes(queue, 600.0, 600.0, 690.0, 1200.0) == ["Completed", "Idle", "Idle", "Idle"]
    assert told(queue, "reserved", "completed") == [(600.0, "reserved", 1), (600.0, "completed", 1)]


@pytest.mark.scenario("B30")
def test_a_backoff_may_be_longer_than_a_reservation(queue: Queue) -> None:
    calls = []

    @queue.handler("A", backoff=(600.0,))
    def handler(job: Attempt) -> None:
        calls.append(job.number)
        if job.number == 1:
            raise ValueError("boom")

    queue.dispatch("A")
    assert outcomes(queue, 0.0, 90.0, 180.0, 599.0, 600.0, 690.0) == [
        "Retrying", "Idle", "Idle", "Idle", "Completed", "Idle",
    ]  # fmt: skip
    assert calls == [1, 2]


@pytest.mark.scenario("B33")
@pytest.mark.parametrize("together", [False, True])
def test_jobs_due_at_one_moment_run_in_the_order_of_dispatch(queue: Queue, ran: list[object], together: bool) -> None:
    names = [f"j{number}" for number in range(1, 13)]
    if together:
        queue.dispatch_many([("A", name) for name in names], delay=10.0)
    else:
        for name in names:
            queue.dispatch_later("A", name, delay=10.0)
    queue.clock.spend(10.0)
    queue.drain()
    assert ran == names
    assert told(queue, "completed") == [(10.0, "completed", number) for number in range(1, 13)]


@pytest.mark.scenario("B34")
def test_a_job_that_fell_due_waits_for_one_that_was_claimable_before_it(queue: Queue, ran: list[object]) -> None:
    queue.dispatch_later("A", "delayed", delay=5.0)
    queue.clock.spend(1.0)
    queue.dispatch("A", "fresh")
    queue.clock.spend(5.0)
    queue.drain()
    assert ran == ["fresh", "delayed"]


@pytest.mark.scenario("B34")
def test_a_job_that_fell_due_goes_before_one_dispatched_later_unless_order_is_arrival(
    queue: Queue, ran: list[object], store: Store
) -> None:
    queue.clock.spend(10.0)
    queue.dispatch_later("A", "delayed", delay=5.0)
    queue.clock.spend(6.0)
    queue.dispatch("A", "fresh")
    queue.drain()
    assert ran == (["fresh", "delayed"] if store.order == "arrival" else ["delayed", "fresh"])


@pytest.mark.scenario("B35")
@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_two_jobs_that_are_alike_are_two_jobs(queue: Queue, ran: list[object], delay: float) -> None:
    first = queue.dispatch_later("A", {"same": True}, delay=delay)
    second = queue.dispatch_later("A", {"same": True}, delay=delay)
    assert first.id != second.id
    assert first.uid != second.uid
    assert len(queue.jobs()) == 2
    assert outcomes(queue, 5.0, 5.0, 5.0) == ["Completed", "Completed", "Idle"]
    assert ran == [{"same": True}] * 2


def reserved_batch(driver: Driver) -> list[tuple[float, int]]:
    for moment in (50.0, 10.0, 40.0, 10.0, 30.0):
        push(driver, "A", now=moment)
    batch = driver.reserve(QUEUE, now=60.0, retry_after=90.0, limit=3)
    return [(held.claimable_since, held.job.id) for held in batch]


@pytest.mark.scenario("B36")
@only(*IN_ORDER)
def test_a_reserved_batch_is_sorted_whatever_the_order_of_the_rows(driver: Driver) -> None:
    assert reserved_batch(driver) == [(10.0, 2), (10.0, 4), (30.0, 5)]


@pytest.mark.scenario("B36")
@only(*BY_ARRIVAL)
def test_a_list_gives_what_was_appended_first(driver: Driver) -> None:
    assert reserved_batch(driver) == [(50.0, 1), (10.0, 2), (40.0, 3)]


@pytest.mark.scenario("B37")
def test_a_due_time_that_is_past_counts_as_now(driver: Driver) -> None:
    clock = SimulatedClock(100.0, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    queue = Queue(driver, clock=clock, name=QUEUE)
    ran = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_later("A", "no delay", delay=0.0)
    queue.dispatch_at("A", "a past second", at=3.0)
    queue.dispatch_at("A", "a past date", at=datetime(2025, 1, 1, tzinfo=UTC))
    queue.dispatch_at("A", "this second", at=100.0)
    queue.dispatch("A", "now")
    assert {job.available_at for job in queue.jobs()} == {100.0}
    queue.drain()
    assert ran == ["no delay", "a past second", "a past date", "this second", "now"]


@pytest.mark.scenario("B37")
def test_a_negative_delay_is_refused(queue: Queue, ran: list[object]) -> None:
    with pytest.raises(ValueError, match="-5"):
        queue.dispatch_later("A", delay=-5.0)
    assert queue.counts() == Counts()
    assert told(queue) == []
