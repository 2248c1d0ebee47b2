"""A worker's loop, on every driver: one call of the store a job, and whatever ends it, no job is lost."""

import itertools
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, SHARED, only
from interrupted import Interrupt
from watching import spy_on

from qlab import Queue, Release, SimulatedClock
from qlab.driver import Counts, Driver
from qlab.errors import DriverUnavailable, QueueClosed, ReplyLost
from qlab.job import Attempt
from qlab.outcome import Outcome
from qlab.steps import never

JOBS = 4
EVERY_VERB = ("push", "reserve", "complete", "complete_and_reserve", "release", "extend", "fail", "counts", "next_due")


class From:
    """Something that is asked again and again, and says yes from the nth time on.

    Attributes:
        asked: How often it was asked.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.is_yes()

    def is_yes(self) -> bool:
        """What it said last, or would say at once."""
        return self.asked >= self._number


def filled(queue: Queue, run: Callable[[Attempt], Any] = lambda job: None) -> list[int]:
    """Dispatch jobs whose handler is this; gives the list of those that have run."""
    ran: list[int] = []

    def handler(job: Attempt) -> Any:
        ran.append(job.payload)
        return run(job)

    queue.handler("A")(handler)
    queue.dispatch_many([("A", number) for number in range(JOBS)])
    return ran


def names(told: list[Outcome]) -> list[str]:
    return [type(outcome).__name__ for outcome in told]


def put_back(queue: Queue, clock: SimulatedClock) -> None:
    """Let every reservation run out, and every backoff."""
    clock.advance(1_000.0)


# -- one call a job --


def test_a_job_costs_one_call_of_the_store(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, asked = filled(queue), []
    for verb in EVERY_VERB:
        spy_on(queue.driver, verb, asked, monkeypatch)
    told: list[Outcome] = []
    queue.work(told.append)
    assert asked == ["reserve", *["complete_and_reserve"] * JOBS]
    assert (ran, names(told)) == ([*range(JOBS)], ["Completed"] * JOBS)


def test_a_step_by_hand_takes_no_job_that_it_does_not_run(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(queue)
    asked: list[str] = []
    for verb in EVERY_VERB:
        spy_on(queue.driver, verb, asked, monkeypatch)
    queue.work_once()
    assert asked == ["reserve", "complete"]
    assert queue.counts() == Counts(ready=JOBS - 1)


def test_a_job_that_is_not_completed_reserves_no_other_in_its_call(
    queue: Queue, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: dict[int, Callable[[], Any]] = {0: lambda: Release(5.0), 1: lambda: 1 / 0, 2: lambda: None, 3: lambda: 1 / 0}
    ran, asked = filled(queue, lambda job: ends[job.payload]()), []
    queue.policy = queue.policy.__class__(tries=1)
    for verb in EVERY_VERB:
        spy_on(queue.driver, verb, asked, monkeypatch)
    queue.work(lambda outcome: None)
    assert ran == [*range(JOBS)]
    assert asked == [
        *("reserve", "release", "reserve", "fail", "reserve", "complete_and_reserve", "fail", "reserve"),
    ]


# -- what ends it --


@pytest.mark.parametrize("last", range(JOBS))
def test_a_stop_while_a_job_runs_lets_it_take_no_other(queue: Queue, last: int) -> None:
    stop, told = threading.Event(), []
    ran = filled(queue, lambda job: stop.set() if job.payload == last else None)
    queue.work(told.append, stopping=stop.is_set)
    assert (ran, names(told)) == ([*range(last + 1)], ["Completed"] * (last + 1))
    assert queue.counts() == Counts(ready=JOBS - len(ran))
    assert {job.attempts for job in queue.jobs()} <= {0}


@pytest.mark.parametrize("last", range(JOBS))
def test_a_stop_between_two_jobs_runs_the_one_that_is_reserved_by_then(queue: Queue, last: int) -> None:
    stop, ran = threading.Event(), filled(queue)
    queue.work(lambda outcome: stop.set() if len(ran) > last else None, stopping=stop.is_set)
    assert ran == [*range(min(last + 2, JOBS))]
    assert queue.counts() == Counts(ready=JOBS - len(ran))
    assert {job.attempts for job in queue.jobs()} <= {0}


def test_whenever_it_hears_that_it_is_to_stop_nothing_is_left_in_its_hands(queue: Queue) -> None:
    for number in range(1, 20):
        ran, told, stopping = filled(queue), [], From(number)
        queue.work(told.append, stopping=stopping)
        assert names(told) == ["Completed"] * len(ran)
        assert queue.counts() == Counts(ready=JOBS - len(ran))
        assert {job.attempts for job in queue.jobs()} <= {0}
        queue.clear()
    assert len(ran) == JOBS


def test_whenever_it_is_to_leave_no_handler_is_called_and_what_was_under_way_is_given_back(queue: Queue) -> None:
    for number in itertools.count(1):
        ran, told, leaving = filled(queue), [], From(number)
        queue.work(told.append, stopping=leaving.is_yes, leaving=leaving)
        taken = min(number, JOBS)
        assert names(told) == ["Completed"] * len(ran) + ["Released"] * (taken - len(ran))
        assert queue.counts() == Counts(ready=JOBS - len(ran))
        assert sum(job.attempts for job in queue.jobs()) == taken - len(ran) <= 1
        queue.clear()
        if leaving.asked < number:
            break
    assert len(ran) == JOBS


def test_to_be_told_to_leave_is_enough_to_end_it(queue: Queue) -> None:
    for number in range(1, JOBS + 1):
        ran, told, leaving = filled(queue), [], From(number)
        queue.work(told.append, stopping=From(20), leaving=leaving)
        assert names(told) == ["Completed"] * len(ran) + ["Released"]
        assert (len(ran), leaving.asked) == (number - 1, number)
        queue.clear()


def test_whatever_is_in_hand_is_told_before_its_handler_and_no_more_after(queue: Queue) -> None:
    told: list[str] = []
    filled(queue, lambda job: told.append(f"run {job.id}"))
    queue.work(
        lambda outcome: told.append(f"ended {outcome.job}"),
        holding=lambda held: told.append("nothing" if held is None else f"hold {held.job.id}"),
    )
    ids = [int(said.split()[1]) for said in told if said.startswith("run")]
    assert told == [said for id in ids for said in (f"hold {id}", f"run {id}", "nothing", f"ended {id}")]


def test_where_hearing_of_an_outcome_raises_one_job_at_the_most_waits_for_its_reservation(
    queue: Queue, clock: SimulatedClock
) -> None:
    def raises(outcome: Outcome) -> None:
        raise OSError("the disk of whoever hears is full")

    ran = filled(queue)
    with pytest.raises(OSError, match="whoever hears"):
        queue.work(raises)
    assert ran == [0]
    assert queue.counts() == Counts(ready=JOBS - 2, reserved=1)
    put_back(queue, clock)
    queue.drain()
    assert sorted(ran) == [*range(JOBS)]


def test_a_listener_that_raises_ends_nothing(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    ran, told = filled(queue), []
    queue.listen(lambda held, outcome: 1 / 0)
    queue.listen(lambda held, outcome: told.append((held.job.id, outcome.job)))
    queue.work(lambda outcome: None)
    assert ran == [*range(JOBS)]
    assert [id for id, _ in told] == [id for _, id in told]
    assert len(told) == JOBS
    assert caplog.text.count("a listener of outcomes went wrong") == JOBS
    assert queue.counts() == Counts()


@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "after it was done"])
@pytest.mark.parametrize("error", [DriverUnavailable, ReplyLost])
def test_a_store_that_does_not_answer_once_loses_no_job_and_runs_none_twice(
    queue: Queue, clock: SimulatedClock, after: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first call, the second, and so on; what a lost call may have reserved comes again."""
    real = queue.driver.complete_and_reserve
    for number in range(1, JOBS + 1):
        calls = From(number)

        def sometimes(*args: Any, calls: From = calls, number: int = number, **how: Any) -> Any:
            if not calls() or calls.asked > number:
                return real(*args, **how)
            if after:
                real(*args, **how)
            raise error("the store is away")

        with monkeypatch.context() as patch:
            patch.setattr(queue.driver, "complete_and_reserve", sometimes)
            ran, told = filled(queue), []
            queue.work(told.append)
        assert len(set(names(told)) - {"Completed"}) <= 1
        assert queue.counts() in (Counts(), Counts(reserved=1))
        put_back(queue, clock)
        queue.drain()
        assert Counter(ran) == Counter(range(JOBS))
        assert queue.counts() == Counts()


@only(*SHARED)
def test_a_handler_that_closes_its_queue_ends_the_loop_and_its_job_comes_again(
    queue: Queue, open_again: Callable[[], Driver]
) -> None:
    told: list[Outcome] = []
    ran = filled(queue, lambda job: queue.close() if job.number == 1 and job.payload == 1 else None)
    with pytest.raises(QueueClosed):
        queue.work(told.append)
    assert (ran, names(told)) == ([0, 1], ["Completed", "Unknown"])
    again = Queue(open_again(), clock=SimulatedClock(100.0), name=QUEUE)
    queue.copy_handlers(again)
    assert again.counts() == Counts(ready=JOBS - 1)
    again.drain()
    assert sorted(ran) == [0, 1, 1, 2, 3]
    assert again.driver.check(QUEUE, now=100.0) == []


@pytest.mark.timeout(600)
@only(*ONE_OF_EACH, "sqlite-memory")
def test_ctrl_c_at_any_place_of_the_loop_loses_no_job(driver: Driver, deep: bool) -> None:
    """A real SIGINT wherever Python looks for one: who was told of an outcome sees it in the store, and all run."""
    every = 1 if deep or driver.name == "memory" else 29
    for place in itertools.count(0, every):
        clock = SimulatedClock()
        queue, interrupt = Queue(driver, clock=clock, name=f"{QUEUE} {place}"), Interrupt(place)
        ran, told = filled(queue), []
        try:
            sys.settrace(interrupt)
            queue.work(told.append)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        left = queue.counts()
        assert left.reserved <= 1, interrupt.where
        assert left.depth <= JOBS - len(told), interrupt.where
        assert driver.check(queue.name, now=0.0) == []
        put_back(queue, clock)
        queue.drain()
        assert set(ran) == set(range(JOBS)), interrupt.where
        assert len(ran) <= JOBS + 1, interrupt.where  # an interrupted attempt is run again
        assert queue.counts() == Counts()
        if not interrupt.where:
            break
    assert place > 100


# -- what it shares with a step by hand --


def test_a_job_whose_attempts_are_used_up_is_not_run_by_the_loop_either(queue: Queue, clock: SimulatedClock) -> None:
    ran, told = filled(queue), []
    queue.policy = queue.policy.__class__(tries=1)
    for _ in range(JOBS):
        assert queue.reserve() is not None  # by a worker that dies
    put_back(queue, clock)
    queue.work(told.append)
    assert (ran, names(told)) == ([], ["Failed"] * JOBS)
    assert {row.error.partition(":")[0] for row in queue.failed()} == {"AttemptsExhausted"}


def test_a_loop_whose_log_is_read_says_a_line_for_each_job(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qlab")
    filled(queue)
    queue.work(lambda outcome: None, worker="w", stopping=never)
    assert [message.split()[0] for message in caplog.messages] == ["outcome=completed"] * JOBS
