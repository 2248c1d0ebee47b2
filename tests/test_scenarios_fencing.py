"""Scenarios of the bug catalogue: late workers, lost workers, two workers on one job."""

import multiprocessing
from collections.abc import Callable

import pytest
import racers
from conftest import ONE_OF_EACH, QUEUE, SHARED, only, outcomes, push, told

from qlab import Completed, Queue, SimulatedClock, Superseded
from qlab.driver import Counts, Driver
from qlab.job import Release
from qlab.running import Ended

BOOM = Ended(error=ValueError("boom"))


@pytest.mark.scenario("B01")
def test_a_worker_that_outlived_its_reservation_does_not_delete_the_job_of_another(queue: Queue) -> None:
    ran = []
    queue.handler("A")(lambda job: ran.append(job.number))
    queue.dispatch("A")
    first = queue.reserve(0.0, worker="w1")
    second = queue.reserve(91.0, worker="w2")
    assert first
    assert second
    assert second.job.attempts == 2
    assert queue.finish(first, 95.0, worker="w1") == Superseded(1, "A", 1, 95.0, "complete")
    assert queue.reserve(96.0, worker="w3") is None
    assert queue.finish(second, 100.0, worker="w2") == Completed(1, "A", 2, 100.0)
    assert queue.counts() == Counts()
    assert ran == [1, 2]
    assert told(queue) == [
        (0.0, "dispatched", 1),
        (0.0, "reserved", 1),
        (91.0, "expired", 1),
        (91.0, "reserved", 1),
        (95.0, "superseded", 1),
        (96.0, "missed", None),
        (100.0, "completed", 1),
    ]


@pytest.mark.scenario("B01")
def test_a_late_worker_that_completes_and_reserves_in_one_deletes_nothing_either(driver: Driver) -> None:
    push(driver, "A")
    (first,) = driver.reserve(QUEUE, now=0.0, retry_after=90.0)
    (second,) = driver.reserve(QUEUE, now=91.0, retry_after=90.0)
    assert driver.complete_and_reserve(first, now=95.0, retry_after=90.0) == (False, None)
    assert driver.complete(second, now=100.0)


@pytest.mark.scenario("B02")
@pytest.mark.parametrize(
    ("ended", "tries", "verb"),
    [(Ended(), 3, "complete"), (Ended(Release(0.0)), 3, "release"), (BOOM, 3, "release"), (BOOM, 1, "fail")],
    ids=["complete", "release", "try again", "fail"],
)
def test_a_late_worker_brings_no_job_back(queue: Queue, ended: Ended, tries: int, verb: str) -> None:
    queue.handler("A", tries=tries)(lambda job: None)
    queue.dispatch("A")
    first, second = queue.reserve(0.0), queue.reserve(91.0)
    assert first
    assert second
    assert queue.settle(second, Ended(), 95.0) == Completed(1, "A", 2, 95.0)
    assert queue.settle(first, ended, 100.0) == Superseded(1, "A", 1, 100.0, verb)
    for moment in (100.0, 1000.0):
        assert queue.driver.counts(QUEUE, now=moment) == Counts()
        assert outcomes(queue, moment) == ["Idle"]
    assert queue.failed() == []
    assert told(queue, "superseded", "released", "failed", "completed") == [
        (95.0, "completed", 1),
        (100.0, "superseded", 1),
    ]


@pytest.mark.scenario("B03")
@pytest.mark.parametrize("fused", [False, True])
def test_a_worker_that_is_late_but_not_superseded_may_complete(queue: Queue, fused: bool) -> None:
    ran = []
    queue.handler("job")(lambda job: ran.append(job.payload))
    queue.dispatch("job", "A")
    queue.dispatch("job", "B")
    first, second = queue.reserve(0.0), queue.reserve(0.0)
    third = queue.reserve(91.0)
    assert first
    assert second
    assert third
    assert (first.job.payload, second.job.payload, third.job.payload) == ("A", "B", "A")
    if fused:
        assert queue.driver.complete_and_reserve(second, now=92.0, retry_after=90.0) == (True, None)
    else:
        assert isinstance(queue.finish(second, 92.0), Completed)
    assert queue.driver.counts(QUEUE, now=92.0) == Counts(reserved=1)
    assert outcomes(queue, 92.0, 180.0, 181.0, 1000.0) == ["Idle", "Idle", "Completed", "Idle"]
    assert ran.count("B") == (0 if fused else 1)


@pytest.mark.scenario("B83")
def test_every_driver_gives_a_crashed_workers_job_to_the_next(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve(0.0, worker="w1")
    assert held
    queue.crash(held, 3.0, worker="w1")
    assert outcomes(queue, 89.999999, 90.0, 90.0) == ["Idle", "Completed", "Idle"]
    assert told(queue) == [
        (0.0, "dispatched", 1),
        (0.0, "reserved", 1),
        (3.0, "crashed", 1),
        (89.999999, "missed", None),
        (90.0, "expired", 1),
        (90.0, "reserved", 1),
        (90.0, "completed", 1),
        (90.0, "missed", None),
    ]


@pytest.mark.scenario("B83")
@only(*SHARED)
def test_a_job_survives_the_driver_that_held_it(open_again: Callable[[], Driver]) -> None:
    clock = SimulatedClock()
    first = Queue(open_again(), clock=clock, name=QUEUE)
    first.handler("A")(lambda job: None)
    first.dispatch("A", "kept")
    assert first.reserve()
    first.close()
    second = Queue(open_again(), clock=clock, name=QUEUE)
    seen = []
    second.handler("A")(lambda job: seen.append((job.payload, job.number)))
    assert outcomes(second, 89.0, 90.0) == ["Idle", "Completed"]
    assert seen == [("kept", 2)]


@pytest.mark.scenario("B52")
@pytest.mark.timeout(180)
@only(*(name for name in SHARED if name in ONE_OF_EACH))
def test_of_eight_processes_that_reach_for_one_job_exactly_one_gets_it(driver: Driver) -> None:
    rounds, racing = 500, 8
    push(driver, "A")
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["racers"])
    start, won = processes.Barrier(racing), processes.SimpleQueue()
    racers_ = [
        processes.Process(target=racers.race, args=(driver.url, QUEUE, rounds, start, won)) for _ in range(racing)
    ]
    for process in racers_:
        process.start()
    winners = sorted(number for _ in racers_ for number in won.get())
    for process in racers_:
        process.join(60.0)
    assert [process.exitcode for process in racers_] == [0] * racing
    assert winners == list(range(rounds))
    (job,) = driver.jobs(QUEUE, now=0.0)
    assert (job.attempts, job.available_at) == (rounds, rounds * 100.0)
