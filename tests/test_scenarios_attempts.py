"""Scenarios of the bug catalogue: attempts, tries, backoff, and jobs that no worker can finish."""

from collections.abc import Callable

import pytest
from conftest import QUEUE, outcomes, told

from qlab import Failed, Queue, Release, Retrying
from qlab.driver import Counts
from qlab.job import Attempt


def failing(calls: list[int], text: str = "boom") -> Callable[[Attempt], None]:
    """A handler that notes its attempt and raises."""

    def handler(job: Attempt) -> None:
        calls.append(job.number)
        raise ValueError(text)

    return handler


@pytest.mark.scenario("B21")
def test_a_job_that_kills_its_workers_fails_after_its_tries(queue: Queue) -> None:
    calls: list[int] = []
    queue.handler("A")(failing(calls))
    queue.dispatch("A", {"n": 1})
    for moment in (0.0, 90.0, 180.0):
        held = queue.reserve(moment, worker="w")
        assert held
        queue.crash(held, moment, worker="w")
    outcome = queue.work_once(270.0)
    assert isinstance(outcome, Failed)
    assert (outcome.attempt, outcome.at) == (3, 270.0)
    assert calls == []
    (row,) = queue.failed()
    assert (row.attempts, row.payload, row.traceback, row.failed_at) == (3, {"n": 1}, "", 270.0)
    assert row.error.startswith("AttemptsExhausted: ")
    assert queue.counts() == Counts(failed=1)
    assert told(queue, "reserved", "expired", "failed") == [
        (0.0, "reserved", 1),
        (90.0, "expired", 1),
        (90.0, "reserved", 1),
        (180.0, "expired", 1),
        (180.0, "reserved", 1),
        (270.0, "expired", 1),
        (270.0, "reserved", 1),
        (270.0, "failed", 1),
    ]


@pytest.mark.scenario("B22")
def test_a_job_with_one_try_whose_worker_vanished_fails_when_its_reservation_runs_out(queue: Queue) -> None:
    calls: list[int] = []
    queue.handler("A", tries=1)(failing(calls))
    queue.dispatch("A")
    held = queue.reserve(0.0)
    assert held
    assert next(queue.steps(held), None) is None
    queue.crash(held, 1.0)
    assert outcomes(queue, 89.0) == ["Idle"]
    assert isinstance(queue.work_once(90.0), Failed)
    assert calls == [1]
    assert [(row.attempts, row.error.split(":")[0]) for row in queue.failed()] == [(1, "AttemptsExhausted")]


@pytest.mark.scenario("B23")
def test_a_job_that_always_raises_runs_as_often_as_its_tries_say(queue: Queue) -> None:
    calls: list[int] = []
    queue.handler("A")(failing(calls, "always"))
    queue.dispatch("A")
    said = outcomes(queue, 0.0, 9.0, 9.999999, 10.0, 69.0, 69.999999, 70.0, 1000.0)
    assert said == ["Retrying", "Idle", "Idle", "Retrying", "Idle", "Idle", "Failed", "Idle"]
    assert calls == [1, 2, 3]
    (row,) = queue.failed()
    assert (row.attempts, row.error, row.failed_at) == (3, "ValueError: always", 70.0)
    assert "raise ValueError(text)\nValueError: always" in row.traceback
    assert told(queue, "reserved", "released", "failed") == [
        (0.0, "reserved", 1),
        (0.0, "released", 1),
        (10.0, "reserved", 1),
        (10.0, "released", 1),
        (70.0, "reserved", 1),
        (70.0, "failed", 1),
    ]


@pytest.mark.scenario("B23")
@pytest.mark.parametrize("tries", [1, 2, 5])
def test_the_number_of_runs_is_the_number_of_tries(queue: Queue, tries: int) -> None:
    calls: list[int] = []
    queue.handler("A", tries=tries, backoff=(1.0,))(failing(calls))
    queue.dispatch("A")
    assert outcomes(queue, *map(float, range(tries + 2))) == ["Retrying"] * (tries - 1) + ["Failed", "Idle", "Idle"]
    assert calls == list(range(1, tries + 1))


@pytest.mark.scenario("B23")
def test_without_a_limit_a_job_is_tried_for_ever(queue: Queue) -> None:
    calls: list[int] = []
    queue.handler("A", tries=None, backoff=0.0)(failing(calls))
    queue.dispatch("A")
    assert set(outcomes(queue, *[0.0] * 20)) == {"Retrying"}
    assert queue.counts() == Counts(ready=1)


@pytest.mark.scenario("B24")
def test_backoff_goes_by_the_number_of_the_attempt(queue: Queue) -> None:
    @queue.handler("A", tries=5)
    def handler(job: Attempt) -> Release:
        if job.number == 2:
            return Release(0.0)
        raise ValueError("boom")

    queue.dispatch("A")
    assert outcomes(queue, 0.0, 10.0, 10.0) == ["Retrying", "Released", "Retrying"]
    assert queue.driver.next_due(QUEUE, now=10.0) == 310.0
    assert [job.available_at for job in queue.jobs()] == [310.0]


@pytest.mark.scenario("B24")
def test_attempts_lost_to_crashes_count_in_the_backoff_too(queue: Queue) -> None:
    queue.handler("A", tries=5)(failing([]))
    queue.dispatch("A")
    assert queue.reserve(0.0)
    outcome = queue.work_once(90.0)
    assert isinstance(outcome, Retrying)
    assert (outcome.attempt, outcome.available_at) == (2, 150.0)


@pytest.mark.scenario("B25")
def test_a_job_that_is_given_back_uses_up_its_tries(queue: Queue) -> None:
    calls: list[int] = []

    @queue.handler("A")
    def handler(job: Attempt) -> Release:
        calls.append(job.number)
        return Release(5.0)

    queue.dispatch("A")
    assert outcomes(queue, 0.0, 5.0, 10.0, 14.0, 15.0, 1000.0) == [
        "Released", "Released", "Released", "Idle", "Failed", "Idle",
    ]  # fmt: skip
    assert calls == [1, 2, 3]
    (row,) = queue.failed()
    assert (row.attempts, row.error.split(":")[0], row.failed_at) == (3, "AttemptsExhausted", 15.0)


@pytest.mark.scenario("B27")
def test_a_retried_job_has_all_its_tries_again(queue: Queue) -> None:
    calls: list[int] = []
    queue.handler("A")(failing(calls))
    queue.dispatch("A")
    assert outcomes(queue, 0.0, 10.0, 70.0) == ["Retrying", "Retrying", "Failed"]
    (row,) = queue.failed()
    clock = queue.clock
    clock.spend(1000.0)
    assert queue.retry(row.id or 0) == 1
    (job,) = queue.jobs()
    assert (job.attempts, job.uid, job.dispatched_at, job.available_at) == (0, row.uid, 1000.0, 1000.0)
    outcome = queue.work_once(1000.0)
    assert isinstance(outcome, Retrying)
    assert (outcome.attempt, outcome.available_at) == (1, 1010.0)
    assert outcomes(queue, 1009.0, 1010.0, 1070.0) == ["Idle", "Retrying", "Failed"]
    assert calls == [1, 2, 3, 1, 2, 3]
    assert told(queue, "retried", "failed") == [(70.0, "failed", 1), (1000.0, "retried", 1), (1070.0, "failed", 2)]


@pytest.mark.scenario("B28")
def test_a_job_whose_handler_is_unknown_fails_with_its_payload_and_stops_nobody(queue: Queue) -> None:
    elsewhere = Queue(queue.driver, clock=queue.clock, name=QUEUE)
    elsewhere.handler("nope")(lambda job: None)
    elsewhere.dispatch("nope", ["kept"])
    ran = []
    queue.handler("good")(lambda job: ran.append(job.name))
    queue.dispatch("good")
    assert outcomes(queue, 0.0, 0.0, 10.0, 70.0, 71.0) == ["Retrying", "Completed", "Retrying", "Failed", "Idle"]
    assert ran == ["good"]
    (row,) = queue.failed()
    assert (row.name, row.payload, row.attempts) == ("nope", ["kept"], 3)
    assert row.error.startswith("UnknownHandler: no handler is called 'nope'")

    queue.handler("nope")(lambda job: ran.append(job.payload))
    assert queue.retry("all") == 1
    assert outcomes(queue, 72.0) == ["Completed"]
    assert ran == ["good", ["kept"]]
