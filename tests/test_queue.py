"""The queue: steps of a worker, what handlers may do, and what is told of it."""

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, Snapshot, Store, only, outcomes, push, snapshot, stores, told

from qlab import (
    Attempt,
    Completed,
    Failed,
    Idle,
    Policy,
    Queue,
    Release,
    Released,
    Retrying,
    SimulatedClock,
    Superseded,
    SystemClock,
    Unknown,
)
from qlab.driver import Counts, Driver
from qlab.errors import (
    DriverUnavailable,
    InvalidPayload,
    ReplyLost,
    UnknownFailedJob,
    UnknownHandler,
    UnusableStore,
)
from qlab.running import Ended
from qlab.trace import Event, Kind

store = stores(*ONE_OF_EACH, "sqlite-memory")

# -- a step --


def test_a_step_reserves_runs_settles_and_records(queue: Queue) -> None:
    seen = []
    queue.handler("greet")(lambda job: seen.append((job.payload, job.name, job.id, job.number)))
    job = queue.dispatch("greet", {"to": "Ada"})
    assert (job.id, job.name, job.payload, job.available_at) == (1, "greet", {"to": "Ada"}, 0.0)
    assert queue.work_once(worker="w1") == Completed(job=1, name="greet", attempt=1, at=0.0)
    assert queue.work_once(worker="w1") == Idle(at=0.0)
    assert seen == [({"to": "Ada"}, "greet", 1, 1)]
    assert list(queue.trace) == [
        Event(0.0, Kind.DISPATCHED, 1, "greet", until=0.0),
        Event(0.0, Kind.RESERVED, 1, "greet", 1, "w1", since=0.0, until=90.0),
        Event(0.0, Kind.COMPLETED, 1, "greet", 1, "w1"),
        Event(0.0, Kind.MISSED, worker="w1"),
    ]


def test_a_step_takes_one_job_and_touches_no_other(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", 1), ("A", 2)])
    queue.work_once()
    assert [(job.id, job.attempts) for job in queue.jobs()] == [(2, 0)]


def test_a_step_at_a_moment_leaves_the_clock_alone(queue: Queue) -> None:
    queue.handler("A", backoff=(7.0,))(lambda job: 1 / 0)
    queue.dispatch("A")
    assert queue.work_once(50.0) == Retrying(1, "A", 1, 50.0, "ZeroDivisionError: division by zero", 57.0)
    assert queue.clock.now() == 0.0
    assert told(queue) == [(0.0, "dispatched", 1), (50.0, "reserved", 1), (50.0, "released", 1)]
    assert queue.jobs()[0].reserved_at is None


def test_a_step_without_a_moment_is_at_the_clock_s(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_later("A", delay=5.0)
    clock.advance(4.0)
    assert queue.work_once() == Idle(4.0)
    clock.advance(1.0)
    assert queue.work_once() == Completed(1, "A", 1, 5.0)


def test_the_machine_s_clock_serves_as_well(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE)
    assert isinstance(queue.clock, SystemClock)
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    assert isinstance(queue.work_once(), Completed)
    assert queue.trace[0].at > 1.7e9


def test_a_raising_handler_is_a_failed_attempt_that_waits_for_its_backoff(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        raise ValueError("boom")

    queue.handler("A")(handler)
    queue.dispatch("A")
    assert queue.work_once(0.0) == Retrying(1, "A", 1, 0.0, "ValueError: boom", 10.0)
    assert queue.work_once(10.0) == Retrying(1, "A", 2, 10.0, "ValueError: boom", 70.0)
    assert queue.work_once(70.0) == Failed(1, "A", 3, 70.0, "ValueError: boom")
    assert [event.detail for event in queue.trace if event.detail] == ["ValueError: boom"] * 3
    assert queue.counts() == Counts(failed=1)


def test_the_last_number_of_a_backoff_repeats(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), policy=Policy(tries=6, backoff=(1.0, 2.0)))
    queue.handler("A")(lambda job: 1 / 0)
    queue.dispatch("A")
    queue.drain(until=100.0)
    assert [at for at, _, _ in told(queue, "reserved")] == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]


def test_a_handler_s_own_rules_go_before_the_policy_s(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), policy=Policy(tries=1, backoff=(1.0,)))
    queue.handler("own", tries=2, backoff=lambda attempts: 4.0 * attempts)(lambda job: 1 / 0)
    queue.handler("policy's")(lambda job: 1 / 0)
    queue.dispatch("own")
    queue.dispatch("policy's")
    assert outcomes(queue, 0.0, 0.0, 4.0) == ["Retrying", "Failed", "Failed"]


def test_a_reservation_lasts_as_long_as_the_policy_says(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), policy=Policy(retry_after=5.0))
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    assert queue.reserve(0.0)
    assert outcomes(queue, 4.0, 5.0) == ["Idle", "Completed"]


def test_without_retry_after_a_reservation_never_runs_out(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), policy=Policy(retry_after=None))
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve(0.0)
    assert held
    assert queue.next_due() is None
    assert outcomes(queue, 9e9) == ["Idle"]
    assert queue.trace[1].until == math.inf
    assert queue.drain(until=math.inf) == []
    assert isinstance(queue.finish(held, 9e9), Completed)


def test_a_deadline_is_fixed_when_a_job_is_reserved(driver: Driver) -> None:
    clock = SimulatedClock()
    first = Queue(driver, name=QUEUE, clock=clock, policy=Policy(retry_after=90.0))
    second = Queue(driver, name=QUEUE, clock=clock, policy=Policy(retry_after=5.0))
    for each in (first, second):
        each.handler("A")(lambda job: None)
    first.dispatch("A")
    assert first.reserve(0.0)
    assert outcomes(second, 5.0, 89.0, 90.0) == ["Idle", "Idle", "Completed"]


# -- what a handler may return and raise --


def test_a_handler_may_give_its_job_back(queue: Queue) -> None:
    queue.handler("A")(lambda job: Release(7.5))
    queue.dispatch("A")
    assert queue.work_once(1.0) == Released(1, "A", 1, 1.0, available_at=8.5)
    assert outcomes(queue, 8.0, 8.5) == ["Idle", "Released"]
    assert told(queue, "released") == [(1.0, "released", 1), (8.5, "released", 1)]
    assert queue.failed() == []


@pytest.mark.parametrize("delay", [-1.0, math.nan, math.inf, "5", None])
def test_giving_a_job_back_until_no_moment_is_a_failed_attempt(queue: Queue, delay: Any) -> None:
    queue.handler("A")(lambda job: Release(delay))
    queue.dispatch("A")
    outcome = queue.work_once(0.0)
    assert isinstance(outcome, Retrying)
    assert "the delay of Release" in outcome.error
    assert outcome.available_at == 10.0


@pytest.mark.parametrize("returned", [None, 0, False, "text", [1], range(3), ValueError("returned, not raised")])
def test_whatever_else_a_handler_returns_completes_its_job(queue: Queue, returned: object) -> None:
    queue.handler("A")(lambda job: returned)
    queue.dispatch("A")
    assert isinstance(queue.work_once(), Completed)


def test_an_iterator_that_is_no_generator_is_not_time(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A")(lambda job: map(float, [5, 7]))
    queue.dispatch("A")
    assert isinstance(queue.work_once(), Completed)
    assert clock.now() == 0.0


class Rude(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED = [
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit"),
    (StopIteration(5), "StopIteration: 5"),
    (asyncio.CancelledError(), "CancelledError"),
    (AssertionError(), "AssertionError"),
    (MemoryError(), "MemoryError"),
    (Rude(), "Rude: (its text cannot be shown: RuntimeError)"),
    (ValueError("lone \ud800, NUL \0"), "ValueError: lone \\ud800, NUL \\x00"),
    (BaseExceptionGroup("two", [SystemExit(), ValueError()]), "BaseExceptionGroup: two (2 sub-exceptions)"),
]


@only("memory", "sqlite", "redis_zset-valkey")
@pytest.mark.parametrize(("error", "text"), RAISED, ids=[type(error).__name__ for error, _ in RAISED])
@pytest.mark.parametrize("generator", [False, True])
def test_whatever_a_handler_raises_is_a_failed_attempt(
    queue: Queue, error: BaseException, text: str, generator: bool
) -> None:
    def raising(job: Attempt) -> None:
        raise error

    def spending(job: Attempt) -> Iterator[float]:
        yield 0.0
        raise error

    queue.handler("A", tries=1)(spending if generator else raising)
    queue.dispatch("A")
    outcome = queue.work_once(0.0)
    assert isinstance(outcome, Failed)
    if not (generator and isinstance(error, StopIteration)):  # Python turns that into a RuntimeError
        assert outcome.error == text
    (row,) = queue.failed()
    assert row.error == outcome.error
    assert row.traceback


def test_an_error_of_any_size_is_kept_in_short(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        raise ValueError("x" * 5_000_000 + "the end")

    queue.handler("A", tries=1)(handler)
    queue.dispatch("A")
    assert outcomes(queue, 0.0) == ["Failed"]
    (row,) = queue.failed()
    assert row.error.endswith("the end")
    assert len(row.error) < 1_100
    assert len(row.traceback) < 70_000


def test_an_interrupt_of_the_main_thread_stops_the_worker_and_keeps_the_job(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        if job.number == 1:
            raise KeyboardInterrupt

    queue.handler("A")(handler)
    queue.dispatch("A")
    with pytest.raises(KeyboardInterrupt):
        queue.work_once(0.0)
    assert queue.counts() == Counts(reserved=1)
    assert outcomes(queue, 89.0, 90.0) == ["Idle", "Completed"]


@only(*ONE_OF_EACH)
def test_an_interrupt_in_another_thread_is_a_failed_attempt(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        raise KeyboardInterrupt

    queue.handler("A")(handler)
    queue.dispatch("A")
    said = []
    thread = threading.Thread(target=lambda: said.append(queue.work_once(0.0)))
    thread.start()
    thread.join(60.0)
    assert said == [Retrying(1, "A", 1, 0.0, "KeyboardInterrupt", 10.0)]


def test_a_coroutine_that_nobody_would_await_is_a_failed_attempt(queue: Queue) -> None:
    class Later:
        async def __call__(self, job: Attempt) -> None:
            pass

    class Stream:
        async def __call__(self, job: Attempt) -> Any:
            yield 1

    queue.handler("A", tries=1)(Later())
    queue.handler("B", tries=1)(Stream())
    queue.dispatch("A")
    queue.dispatch("B")
    assert outcomes(queue, 0.0, 0.0) == ["Failed", "Failed"]
    assert all(row.error.startswith("InternalHandlerError: ") for row in queue.failed())


def test_a_handler_that_takes_something_else_is_a_failed_attempt(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda: None)  # type: ignore[misc, arg-type]
    queue.dispatch("A")
    outcome = queue.work_once(0.0)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("TypeError: ")


# -- handlers that spend time --


def spending(*seconds: float) -> Callable[[Attempt], Iterator[float]]:
    def handler(job: Attempt) -> Iterator[float]:
        yield from seconds

    return handler


def test_a_generator_handler_moves_the_clock_by_what_it_yields(queue: Queue) -> None:
    queue.handler("A")(spending(1.5, 0.0, 2))
    queue.dispatch("A")
    assert queue.work_once() == Completed(1, "A", 1, 3.5)
    assert queue.clock.now() == 3.5
    assert told(queue) == [(0.0, "dispatched", 1), (0.0, "reserved", 1), (3.5, "completed", 1)]


def test_with_a_moment_it_settles_that_much_later_and_the_clock_stays(queue: Queue) -> None:
    queue.handler("A")(spending(1.5, 2.0))
    queue.dispatch("A")
    assert queue.work_once(10.0) == Completed(1, "A", 1, 13.5)
    assert queue.clock.now() == 0.0


def test_a_generator_handler_can_outlive_its_reservation(queue: Queue) -> None:
    queue.handler("A")(spending(50.0, 50.0))
    queue.dispatch("A")
    held = queue.reserve(0.0, worker="slow")
    assert held
    steps = queue.steps(held, 0.0, worker="slow")
    assert next(steps) == 50.0
    assert next(steps) == 50.0
    other = queue.reserve(95.0, worker="other")
    assert other
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert queue.settle(held, stop.value.value, 100.0, worker="slow") == Superseded(1, "A", 1, 100.0, "complete")
    assert isinstance(queue.settle(other, Ended(), 101.0), Completed)


def test_a_generator_handler_may_return_a_release_and_may_raise(queue: Queue) -> None:
    def handler(job: Attempt) -> Generator[float, None, Any]:
        yield 2.0
        if job.number == 1:
            return Release(3.0)
        raise ValueError("boom")

    queue.handler("A", tries=2)(handler)
    queue.dispatch("A")
    assert queue.work_once(0.0) == Released(1, "A", 1, 2.0, available_at=5.0)
    assert queue.work_once(5.0) == Failed(1, "A", 2, 7.0, "ValueError: boom")


@pytest.mark.parametrize("yielded", [-1.0, math.nan, "1", None, [1.0]])
def test_yielding_what_is_no_time_is_a_failed_attempt_and_ends_the_handler(queue: Queue, yielded: Any) -> None:
    said = []

    def handler(job: Attempt) -> Iterator[Any]:
        try:
            yield 1.0
            yield yielded
            said.append("went on")
        finally:
            said.append("cleaned up")

    queue.handler("A")(handler)
    queue.dispatch("A")
    outcome = queue.work_once(0.0)
    assert isinstance(outcome, Retrying)
    assert outcome.error.startswith("InternalHandlerError: a generator handler yields the seconds that it spends: ")
    assert outcome.at == 1.0
    assert said == ["cleaned up"]


def test_steps_that_are_given_up_end_the_handler(queue: Queue) -> None:
    said = []

    def handler(job: Attempt) -> Iterator[float]:
        try:
            yield 1.0
        finally:
            said.append("cleaned up")

    queue.handler("A")(handler)
    queue.dispatch("A")
    held = queue.reserve()
    assert held
    steps = queue.steps(held)
    next(steps)
    steps.close()
    assert said == ["cleaned up"]
    assert queue.counts() == Counts(reserved=1)


# -- what an attempt may ask for --


def test_an_attempt_may_extend_its_reservation(queue: Queue) -> None:
    said = []

    def handler(job: Attempt) -> Iterator[float]:
        yield 60.0
        said.append(job.extend(90.0))
        yield 80.0

    queue.handler("A")(handler)
    queue.dispatch("A")
    assert queue.work_once() == Completed(1, "A", 1, 140.0)
    assert said == [True]
    assert list(queue.trace)[2] == Event(60.0, Kind.EXTENDED, 1, "A", 1, until=150.0)


def test_an_attempt_that_was_superseded_is_told_so_when_it_extends(queue: Queue) -> None:
    said = []

    def handler(job: Attempt) -> Iterator[float]:
        yield 95.0
        if job.number == 1:
            assert queue.reserve(95.0, worker="other")
            said.append(job.extend(90.0))

    queue.handler("A")(handler)
    queue.dispatch("A")
    assert queue.work_once(0.0, worker="slow") == Superseded(1, "A", 1, 95.0, "complete")
    assert said == [False]
    assert [(event.at, event.worker, event.detail) for event in queue.trace if event.kind == "superseded"] == [
        (95.0, "slow", "extend"),
        (95.0, "slow", "complete"),
    ]
    assert queue.driver.next_due(QUEUE, now=95.0) == 185.0


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, math.inf, "5", 1e-9])
def test_extending_by_no_time_is_refused(queue: Queue, seconds: Any) -> None:
    said: list[str] = []

    def handler(job: Attempt) -> None:
        with pytest.raises((ValueError, TypeError), match="extend"):
            job.extend(seconds)
        said.append("refused")

    queue.handler("A")(handler)
    queue.dispatch("A")
    assert outcomes(queue, 0.0) == ["Completed"]
    assert said == ["refused"]
    assert told(queue, "extended") == []


def test_an_attempt_may_tell_its_progress(queue: Queue) -> None:
    def handler(job: Attempt) -> Iterator[float]:
        for done in (1, 2):
            yield 5.0
            job.progress(done, 2)

    queue.handler("A")(handler)
    queue.dispatch("A")
    queue.work_once(100.0, worker="w")
    assert [event for event in queue.trace if event.kind == "progressed"] == [
        Event(105.0, Kind.PROGRESSED, 1, "A", 1, "w", detail="1 of 2"),
        Event(110.0, Kind.PROGRESSED, 1, "A", 1, "w", detail="2 of 2"),
    ]


def test_an_attempt_may_dispatch_at_its_own_moment(queue: Queue) -> None:
    def parent(job: Attempt) -> Iterator[float]:
        yield 5.0
        job.dispatch("child", job.payload + 1)
        job.dispatch("child", job.payload + 2, delay=3.0)

    queue.handler("parent")(parent)
    queue.handler("child")(lambda job: None)
    queue.dispatch("parent", 10)
    assert queue.work_once(100.0) == Completed(1, "parent", 1, 105.0)
    assert [(job.payload, job.dispatched_at, job.available_at) for job in queue.jobs()] == [
        (11, 105.0, 105.0),
        (12, 105.0, 108.0),
    ]
    assert told(queue, "dispatched") == [(0.0, "dispatched", 1), (105.0, "dispatched", 2), (105.0, "dispatched", 3)]


def test_an_attempt_that_dispatches_badly_has_failed(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda job: job.dispatch("zebra"))
    queue.dispatch("A")
    outcome = queue.work_once()
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("UnknownHandler: ")
    assert queue.jobs() == []


def test_a_job_dispatched_by_an_attempt_that_then_fails_is_there_all_the_same(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        job.dispatch("B")
        raise ValueError("boom")

    queue.handler("A", tries=1)(handler)
    queue.handler("B")(lambda job: None)
    queue.dispatch("A")
    assert outcomes(queue, 0.0, 0.0) == ["Failed", "Completed"]


def test_an_attempt_that_steps_the_queue_itself_keeps_its_own_moment(queue: Queue) -> None:
    def outer(job: Attempt) -> None:
        assert isinstance(queue.work_once(7.0, worker="inner"), Completed)
        job.progress(1, 1)

    queue.handler("outer")(outer)
    queue.handler("inner")(lambda job: None)
    queue.dispatch("outer")
    queue.dispatch("inner")
    queue.work_once(5.0, worker="outer")
    assert [(e.at, e.worker, e.kind) for e in queue.trace if e.job == 1 and e.at] == [
        (5.0, "outer", "reserved"),
        (5.0, "outer", "progressed"),
        (5.0, "outer", "completed"),
    ]


def test_handlers_get_what_the_application_gave_the_queue(driver: Driver) -> None:
    context = {"database": object()}
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), context=context)
    seen = []
    queue.handler("A")(lambda job: seen.append(job.context))
    queue.dispatch("A")
    queue.work_once()
    assert queue.context is context
    assert seen == [context]


def test_an_attempt_shows_what_it_is(queue: Queue) -> None:
    seen = []
    queue.handler("A")(lambda job: seen.append(repr(job)))
    queue.dispatch("A")
    queue.work_once()
    assert seen == ["Attempt(job=1, name='A', number=1)"]


# -- dispatch --


def test_a_delay_counts_from_the_clock(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A")(lambda job: None)
    clock.advance(2.0)
    job = queue.dispatch_later("A", delay=5.0)
    assert (job.dispatched_at, job.available_at) == (2.0, 7.0)
    assert queue.counts() == Counts(delayed=1)
    assert list(queue.trace) == [Event(2.0, Kind.DISPATCHED, 1, "A", until=7.0)]


def test_a_job_may_be_dispatched_for_a_moment_or_for_a_date(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC)))
    queue.handler("A")(lambda job: None)
    queue.dispatch_at("A", at=12.5)
    queue.dispatch_at("A", at=datetime(2026, 1, 2, tzinfo=UTC))
    assert [job.available_at for job in queue.jobs()] == [12.5, 86_400.0]


@only(*ONE_OF_EACH)
def test_many_jobs_are_stored_in_order_and_in_short_writes(queue: Queue, store: Store) -> None:
    queue.handler("A")(lambda job: None)
    with queue.statements() as seen:
        jobs = queue.dispatch_many((("A", number) for number in range(1_200)), delay=5.0)
    assert [job.payload for job in jobs] == list(range(1_200))
    assert queue.jobs() == jobs
    assert {job.available_at for job in jobs} == {5.0}
    assert told(queue) == [(0.0, "dispatched", number) for number in range(1, 1_201)]
    if store.name == "sqlite":
        assert [statement.text for statement in seen].count("COMMIT") == 3
    if store.server:
        assert [statement.verb for statement in seen] == ["push"] * 3


@pytest.mark.parametrize(
    ("texts", "writes"),
    [
        ([0] * 1_001, [500, 500, 1]),
        ([400_000] * 5, [2, 2, 1]),
        ([1, 1_000_000, 1, 1], [1, 1, 2]),
        ([], []),
    ],
    ids=["many", "large", "one as large as a write", "none"],
)
def test_each_write_of_dispatch_many_is_short(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, texts: list[int], writes: list[int]
) -> None:
    """Whoever waits for the lock, or for the server, waits for one of them."""
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock())
    queue.handler("A")(lambda _: None)
    real, seen = driver.push, []

    def seeing(name: str, jobs: Any, **how: Any) -> Any:
        seen.append(len(jobs))
        return real(name, jobs, **how)

    monkeypatch.setattr(driver, "push", seeing)
    jobs = queue.dispatch_many([("A", "x" * size) for size in texts])
    assert seen == writes
    assert [len(job.payload) for job in jobs] == texts
    assert queue.counts() == Counts(ready=len(texts))


def test_dispatching_none_of_many_is_fine(queue: Queue) -> None:
    assert queue.dispatch_many([]) == []
    assert len(queue.trace) == 0


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([("A", 1), "AB"], r"jobs\[1\] is 'AB': use a pair, \(name, payload\)"),
        (["A"], r"jobs\[0\] is 'A'"),
        ([("A", 1), ("A",)], r"jobs\[1\] is \('A',\)"),
        ([("A", 1, 5.0)], r"jobs\[0\] is \('A', 1, 5.0\)"),
        ([None], r"jobs\[0\] is None"),
        ({"A": 1}, r"jobs\[0\] is 'A'"),
        (None, "jobs is None"),
    ],
)
def test_what_is_no_pair_is_refused_before_any_job_is_stored(queue: Queue, jobs: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        queue.dispatch_many(jobs)
    assert not queue.jobs()


def test_uids_are_random_and_stand_in_no_trace(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    uids = [queue.dispatch("A").uid for _ in range(300)]
    assert len(set(uids)) == 300
    assert all(len(uid) == 32 and int(uid, 16) >= 0 for uid in uids)
    queue.work_once()
    assert not any(uid in repr(list(queue.trace)) for uid in uids)


# -- drain --


def test_drain_works_until_nothing_is_due_and_stays_at_its_moment(queue: Queue) -> None:
    queue.handler("A", backoff=(5.0,))(lambda job: 1 / 0 if job.payload == 2 and job.number == 1 else None)
    queue.dispatch_many([("A", 1), ("A", 2), ("A", 3)])
    queue.dispatch_later("A", 4, delay=9.0)
    assert queue.drain(worker="w") == [
        Completed(1, "A", 1, 0.0),
        Retrying(2, "A", 1, 0.0, "ZeroDivisionError: division by zero", 5.0),
        Completed(3, "A", 1, 0.0),
    ]
    assert queue.clock.now() == 0.0
    assert queue.counts() == Counts(delayed=2)
    assert told(queue)[4:] == [
        (0.0, "reserved", 1),
        (0.0, "completed", 1),
        (0.0, "reserved", 2),
        (0.0, "released", 2),
        (0.0, "reserved", 3),
        (0.0, "completed", 3),
        (0.0, "missed", None),
    ]
    assert {event.worker for event in list(queue.trace)[4:]} == {"w"}


def test_drain_until_a_moment_goes_from_due_time_to_due_time(queue: Queue) -> None:
    queue.handler("A", backoff=(5.0,))(lambda job: 1 / 0 if job.number == 1 else None)
    queue.dispatch("A")
    queue.dispatch_later("A", delay=9.0)
    queue.dispatch_later("A", delay=100.0)
    queue.drain(until=50.0)
    assert told(queue, "reserved") == [
        (0.0, "reserved", 1),
        (5.0, "reserved", 1),
        (9.0, "reserved", 2),
        (14.0, "reserved", 2),
    ]
    assert queue.clock.now() == 50.0
    assert queue.counts() == Counts(delayed=1)


def test_drain_takes_what_is_due_at_its_last_moment(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_later("A", delay=50.0)
    assert queue.drain(until=49.999999) == []
    assert len(queue.drain(until=50.0)) == 1


def test_drain_without_end_goes_on_until_no_job_will_ever_be_due(queue: Queue) -> None:
    queue.handler("A")(lambda job: 1 / 0)
    queue.dispatch("A")
    queue.dispatch_later("A", delay=86_400.0)
    said = queue.drain(until=math.inf)
    assert [type(outcome).__name__ for outcome in said] == ["Retrying", "Retrying", "Failed"] * 2
    assert queue.clock.now() == 86_470.0
    assert queue.counts() == Counts(failed=2)


def test_drain_takes_up_jobs_whose_worker_vanished(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve()
    assert held
    queue.crash(held)
    assert queue.drain(until=89.0) == []
    assert queue.drain(until=90.0) == [Completed(1, "A", 2, 90.0)]


def test_drain_works_what_its_jobs_dispatch(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        if job.payload:
            job.dispatch("A", job.payload - 1, delay=job.payload % 2)

    queue.handler("A")(handler)
    queue.dispatch("A", 5)
    assert len(queue.drain(until=3.0)) == 6
    assert queue.counts() == Counts()


def test_drain_lets_time_go_by_as_its_handlers_spend_it(queue: Queue) -> None:
    queue.handler("A")(spending(3.0))
    queue.dispatch("A")
    queue.dispatch("A")
    queue.dispatch_later("A", delay=5.0)
    assert [outcome.at for outcome in queue.drain()] == [3.0, 6.0, 9.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("until", [0.0, 5.0])
def test_drain_until_now_is_drain(queue: Queue, until: float) -> None:
    queue.clock.spend(5.0)
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    assert queue.drain(until=until) == [Completed(1, "A", 1, 5.0)]
    assert queue.clock.now() == 5.0


def test_drain_gives_back_and_fails_like_a_step(queue: Queue) -> None:
    queue.handler("back")(lambda job: Release(1.0))
    queue.handler("fail", tries=1)(lambda job: 1 / 0)
    queue.dispatch("back")
    queue.dispatch("fail")
    assert [type(outcome).__name__ for outcome in queue.drain()] == ["Released", "Failed"]


# -- half steps --


def test_reserve_stops_where_a_worker_begins_to_run(queue: Queue) -> None:
    ran = []
    queue.handler("A")(lambda job: ran.append(job.number))
    queue.dispatch("A")
    held = queue.reserve(2.0, worker="w")
    assert held
    assert ran == []
    assert queue.counts() == Counts(reserved=1)
    assert queue.finish(held, 3.0, worker="w") == Completed(1, "A", 1, 3.0)
    assert ran == [1]
    assert queue.reserve(3.0) is None
    assert told(queue) == [
        (0.0, "dispatched", 1),
        (2.0, "reserved", 1),
        (3.0, "completed", 1),
        (3.0, "missed", None),
    ]


def test_finish_does_not_run_a_job_whose_tries_are_used_up(queue: Queue) -> None:
    ran = []
    queue.handler("A", tries=1)(lambda job: ran.append(job.number))
    queue.dispatch("A")
    assert queue.reserve(0.0)
    held = queue.reserve(90.0)
    assert held
    outcome = queue.finish(held, 90.0)
    assert isinstance(outcome, Failed)
    assert (outcome.attempt, ran) == (1, [])


def test_a_crash_is_told_to_the_trace_and_not_to_the_store(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve(0.0, worker="w")
    assert held
    before = snapshot(queue.driver, now=1.0)
    queue.crash(held, 1.0, worker="w")
    assert snapshot(queue.driver, now=1.0) == before
    assert list(queue.trace)[-1] == Event(1.0, Kind.CRASHED, 1, "A", 1, "w")


# -- recover, clear, retry, forget --


def test_recover_takes_what_ran_out(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve()
    assert held
    clock.advance(89.0)
    assert queue.recover() == []
    clock.advance(1.0)
    (job,) = queue.recover()
    assert (job.id, job.attempts, job.available_at) == (1, 1, 90.0)
    assert isinstance(queue.finish(held, 91.0), Superseded)
    assert list(queue.trace)[2] == Event(90.0, Kind.RECOVERED, 1, "A", 1, until=90.0)


def test_recover_by_force_robs_and_warns(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve()
    assert held
    assert len(queue.recover(force=True)) == 1
    assert [(record.levelname, record.name) for record in caplog.records] == [("WARNING", "qlab")]
    assert "queue=mail" in caplog.text
    assert isinstance(queue.finish(held), Superseded)


def test_clear_is_told_to_the_trace(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", 1), ("A", 2)])
    assert queue.clear() == 2
    assert queue.counts() == Counts()
    assert list(queue.trace)[-1] == Event(0.0, Kind.CLEARED, detail="2 jobs")


@only(*ONE_OF_EACH)
def test_any_number_of_failed_jobs_is_retried_and_forgotten(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.dispatch_many([("A", number) for number in range(230)])
    queue.drain()
    assert len(queue.failed()) == 230
    assert len(queue.failed(limit=7)) == 7
    assert queue.retry("all") == 230
    assert queue.counts() == Counts(ready=230)
    assert [job.payload for job in queue.jobs()] == list(range(230))
    queue.drain()
    assert queue.forget("all") == 230
    assert queue.counts() == Counts()
    assert len(told(queue, "retried")) == len(told(queue, "forgotten")) == 230


def test_a_retry_is_told_with_the_row_that_it_came_from(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.dispatch("A")
    queue.work_once()
    clock.advance(5.0)
    assert queue.retry(queue.failed()[0].id or 0) == 1
    assert list(queue.trace)[-2:] == [
        Event(5.0, Kind.RETRIED, 1, "A", detail="failed job 1"),
        Event(5.0, Kind.DISPATCHED, 2, "A", until=5.0),
    ]


@pytest.mark.parametrize("payload", [{"amount": 2**70, "to": "é"}, [], None, 0, "", False])
def test_a_failed_job_s_payload_can_be_corrected_and_retried(queue: Queue, payload: Any) -> None:
    ran: list[Any] = []

    @queue.handler("A", tries=1)
    def handler(job: Attempt) -> None:
        ran.append(job.payload)
        assert job.payload != {"amount": "two"}

    job = queue.dispatch("A", {"amount": "two"})
    queue.dispatch("A", {"amount": "two"})
    queue.drain()
    first, other = queue.failed()
    assert queue.retry(first.id or 0, payload=payload) == 1
    assert [(again.uid, again.payload, again.attempts) for again in queue.jobs()] == [(job.uid, payload, 0)]
    assert queue.failed() == [other]
    queue.drain()
    assert ran[2:] == [payload]
    assert queue.counts() == Counts(failed=1)


def test_a_correction_that_is_none_changes_nothing(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.dispatch("A", 1)
    queue.drain()
    before = queue.failed()
    with pytest.raises(InvalidPayload, match="failed job 1, queue 'mail': .*nan"):
        queue.retry(before[0].id or 0, payload=float("nan"))
    with pytest.raises(InvalidPayload, match="the limit is"):
        queue.retry(before[0].id or 0, payload="x" * (queue.payload_limit + 1))
    with pytest.raises(ValueError, match="a payload is for one failed job, name its id"):
        queue.retry("all", payload=2)
    with pytest.raises(UnknownFailedJob):
        queue.retry(999, payload=2)
    assert queue.failed() == before
    assert queue.counts() == Counts(failed=1)


def test_forget_takes_those_that_failed_by_a_moment_or_a_date(driver: Driver) -> None:
    clock = SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC))
    queue = Queue(driver, clock=clock, name=QUEUE)
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    for _ in range(4):
        queue.dispatch("A")
        queue.work_once()
        clock.advance(10.0)
    assert queue.forget("all", before=10.0) == 2
    assert [row.failed_at for row in queue.failed()] == [20.0, 30.0]
    assert queue.forget("all", before=datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)) == 1
    assert queue.forget("all", before=20.0) == 0
    assert queue.forget(queue.failed()[0].id or 0) == 1
    assert queue.failed() == []
    assert told(queue, "forgotten") == [(40.0, "forgotten", number) for number in (1, 2, 3, 4)]


# -- reading --


def test_jobs_can_be_listed_by_state(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", "first"), ("A", "second")])
    queue.dispatch_later("A", "third", delay=5.0)
    assert queue.reserve()
    assert [job.payload for job in queue.jobs("reserved")] == ["first"]
    assert [job.payload for job in queue.jobs("ready")] == ["second"]
    assert [job.payload for job in queue.jobs("delayed")] == ["third"]
    assert [job.payload for job in queue.jobs()] == ["second", "third", "first"]


def test_next_due_says_where_the_clock_may_jump_to(queue: Queue, clock: SimulatedClock) -> None:
    queue.handler("A")(lambda job: None)
    assert queue.next_due() is None
    queue.dispatch_later("A", delay=5.0)
    assert queue.next_due() == 5.0
    clock.advance_to(queue.next_due() or 0.0)
    assert outcomes(queue, clock.now()) == ["Completed"]


def test_queues_of_one_store_are_worked_apart(driver: Driver) -> None:
    clock = SimulatedClock()
    mail, images = Queue(driver, clock=clock, name="mail"), Queue(driver, clock=clock, name="images")
    for each in (mail, images):
        each.handler("A")(lambda job: None)
    mail.dispatch("A")
    assert isinstance(images.work_once(), Idle)
    assert mail.counts() == Counts(ready=1)


def test_a_queue_shows_itself(queue: Queue) -> None:
    assert repr(queue) == f"<Queue 'mail' on {queue.driver!r}>"


# -- a store that does not answer --


@contextmanager
def unavailable(
    driver: Driver,
    verb: str,
    *,
    times: float = math.inf,
    after: bool = False,
    error: type[Exception] = DriverUnavailable,
) -> Iterator[list[str]]:
    """Let a verb of the driver raise, before or after it has done its work."""
    real, calls = getattr(driver, verb), []

    def broken(*args: Any, **kwargs: Any) -> Any:
        calls.append(verb)
        if len(calls) > times:
            return real(*args, **kwargs)
        if after:
            real(*args, **kwargs)
        raise error("the store is away")

    setattr(driver, verb, broken)
    try:
        yield calls
    finally:
        delattr(driver, verb)


SETTLING: dict[str, tuple[Callable[[Attempt], Any], str]] = {
    "complete": (lambda job: None, "Completed"),
    "release": (lambda job: Release(5.0), "Released"),
    "try again": (lambda job: 1 / 0, "Retrying"),
    "fail": (lambda job: 1 / 0, "Failed"),
}


@pytest.fixture(params=SETTLING)
def settling(request: pytest.FixtureRequest, queue: Queue) -> tuple[str, str]:
    """A queue with a job that ends in one of the ways; gives the verb and the outcome."""
    handler, outcome = SETTLING[request.param]
    queue.handler("A", tries=1 if request.param == "fail" else 3)(handler)
    queue.dispatch("A")
    return {"try again": "release"}.get(request.param, request.param), outcome


AWAY = pytest.mark.parametrize("error", [DriverUnavailable, ReplyLost])


@AWAY
def test_a_store_that_is_away_for_a_moment_is_told_again(
    queue: Queue, settling: tuple[str, str], error: type[Exception]
) -> None:
    verb, outcome = settling
    with unavailable(queue.driver, verb, times=1, error=error) as calls:
        assert outcomes(queue, 0.0) == [outcome]
    assert calls == [verb, verb]
    assert len(told(queue, "completed", "released", "failed")) == 1


@AWAY
def test_a_store_that_stays_away_leaves_the_end_unknown_and_the_job_reserved(
    queue: Queue, settling: tuple[str, str], error: type[Exception]
) -> None:
    verb, _ = settling
    with unavailable(queue.driver, verb, error=error) as calls:
        outcome = queue.work_once(5.0)
    assert outcome == Unknown(1, "A", 1, 5.0, f"{error.__name__}: the store is away", reserved_until=95.0)
    assert 1 < len(calls) <= 5
    assert told(queue) == [(0.0, "dispatched", 1), (5.0, "reserved", 1)]
    assert queue.driver.counts(QUEUE, now=5.0) == Counts(reserved=1)
    assert outcomes(queue, 94.0) == ["Idle"]
    held = queue.reserve(95.0)
    assert held
    assert held.job.attempts == 2


def test_a_reply_that_was_lost_leaves_the_end_unknown_and_the_job_settled_once(
    queue: Queue, settling: tuple[str, str]
) -> None:
    verb, outcome = settling
    with unavailable(queue.driver, verb, times=1, after=True, error=ReplyLost):
        assert outcomes(queue, 0.0) == ["Unknown"]
    counts = queue.driver.counts(QUEUE, now=0.0)
    assert counts == {"Completed": Counts(), "Failed": Counts(failed=1)}.get(outcome, Counts(delayed=1))
    assert told(queue, "superseded") == []


def test_a_store_that_breaks_for_good_leaves_the_end_unknown_too(queue: Queue, settling: tuple[str, str]) -> None:
    verb, _ = settling
    with unavailable(queue.driver, verb, error=UnusableStore):
        outcome = queue.work_once(0.0)
    assert isinstance(outcome, Unknown)
    assert outcome.error == "UnusableStore: the store is away"


def test_an_unknown_end_says_until_when_an_extended_job_is_reserved(queue: Queue) -> None:
    queue.handler("A")(lambda job: job.extend(500.0))
    queue.dispatch("A")
    with unavailable(queue.driver, "complete"):
        outcome = queue.work_once(5.0)
    assert isinstance(outcome, Unknown)
    assert outcome.reserved_until == 505.0
    assert queue.driver.next_due(QUEUE, now=5.0) == 505.0


def test_nothing_is_kept_of_a_reservation_that_has_ended(queue: Queue) -> None:
    queue.handler("A")(lambda job: job.extend(500.0) and job.payload / 1)
    queue.dispatch_many([("A", 1), ("A", "no number"), ("A", 2)])
    queue.drain()
    queue.dispatch("A", 3)
    queue.work_once()
    assert queue._steps.extended == {}  # noqa: SLF001 - it would grow for as long as a worker lives


def test_where_nothing_could_be_reserved_the_step_raises(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    with unavailable(queue.driver, "reserve"):
        for step in (queue.work_once, queue.drain, queue.reserve):
            with pytest.raises(DriverUnavailable):
                step()
    assert told(queue) == [(0.0, "dispatched", 1)]
    assert outcomes(queue, 0.0) == ["Completed"]


@AWAY
def test_a_drain_whose_store_is_away_for_a_moment_settles_its_job_all_the_same(
    queue: Queue, error: type[Exception]
) -> None:
    ran = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", 1), ("A", 2)])
    with unavailable(queue.driver, "complete_and_reserve", times=1, error=error):
        said = queue.drain()
    assert [type(outcome).__name__ for outcome in said] == ["Completed", "Completed"]
    queue.drain(until=1000.0)
    assert ran == [1, 2]


def test_a_drain_that_lost_a_reply_loses_no_job(queue: Queue) -> None:
    ran = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", 1), ("A", 2), ("A", 3)])
    with unavailable(queue.driver, "complete_and_reserve", times=1, after=True, error=ReplyLost):
        said = queue.drain()
    assert [type(outcome).__name__ for outcome in said] == ["Unknown", "Completed"]
    assert ran == [1, 3]
    assert queue.counts() == Counts(reserved=1)  # reserved by the call whose reply was lost
    queue.drain(until=1000.0)
    assert ran == [1, 3, 2]


def test_a_drain_whose_store_stays_away_leaves_the_job_reserved(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    with unavailable(queue.driver, "complete_and_reserve"), unavailable(queue.driver, "complete"):
        said = queue.drain()
    assert said == [Unknown(1, "A", 1, 0.0, "DriverUnavailable: the store is away", 90.0)]
    assert queue.drain(until=90.0) == [Completed(1, "A", 2, 90.0)]


@pytest.mark.parametrize("after", [False, True])
def test_a_dispatch_whose_reply_was_lost_is_sent_again_and_is_one_job(queue: Queue, after: bool) -> None:
    queue.handler("A")(lambda job: None)
    with unavailable(queue.driver, "push", times=1, after=after, error=ReplyLost) as calls:
        job = queue.dispatch("A", "once")
    assert len(calls) == 2
    assert queue.jobs() == [job]
    assert told(queue) == [(0.0, "dispatched", job.id)]


@AWAY
def test_a_dispatch_to_a_store_that_stays_away_raises(queue: Queue, error: type[Exception]) -> None:
    queue.handler("A")(lambda job: None)
    with unavailable(queue.driver, "push", error=error), pytest.raises(DriverUnavailable):
        queue.dispatch("A")
    assert snapshot(queue.driver, now=0.0) == Snapshot(Counts(), [], [], None)
    assert told(queue) == []


def test_a_dispatch_that_failed_meanwhile_is_not_sent_twice(queue: Queue) -> None:
    """The push was carried out, its reply lost; before it is sent again a worker has failed the job."""
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    real = queue.driver.push

    def lossy(*args: Any, resent: bool = False, **kwargs: Any) -> Any:
        answer = real(*args, resent=resent, **kwargs)
        if not resent:
            assert outcomes(queue, 0.0) == ["Failed"]
            raise ReplyLost("the reply was lost")
        return answer

    queue.driver.push = lossy  # type: ignore[method-assign]
    job = queue.dispatch("A")
    assert job.id == 0
    assert queue.counts() == Counts(failed=1)


# -- logging --


def test_the_last_failure_is_logged_as_an_error(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.handler("A", tries=2)(lambda job: 1 / 0)
    queue.dispatch("A", {"secret": "do not log"})
    queue.work_once(0.0)
    assert caplog.records == []
    queue.work_once(10.0)
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "qlab")
    assert record.getMessage() == (
        'outcome=failed job=1 handler=A attempt=2 took=0 error="ZeroDivisionError: division by zero"'
    )
    assert "secret" not in caplog.text


def test_each_outcome_is_a_line_of_the_log_without_its_payload_unless_that_was_asked_for(
    queue: Queue, clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qlab")

    @queue.handler("a b", tries=2)
    def handler(job: Attempt) -> Release | None:
        clock.advance(0.5)
        if job.payload["n"] == 1:
            raise ValueError('say "x=1"')
        return Release(5.0) if job.payload["n"] == 2 else None

    for n in (0, 1, 2):
        queue.dispatch("a b", {"n": n, "secret": 'x="y"'})
    queue.drain(worker="w1")
    assert [record.getMessage() for record in caplog.records] == [
        'outcome=completed job=1 handler="a b" attempt=1 worker=w1 took=0.5',
        'outcome=retrying job=2 handler="a b" attempt=1 worker=w1 took=0.5 error="ValueError: say \\"x=1\\""',
        'outcome=released job=3 handler="a b" attempt=1 worker=w1 took=0.5',
    ]
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    caplog.clear()
    queue.log_payloads = True
    clock.advance(10.0)
    queue.work_once(worker="w1")
    (line,) = caplog.messages
    assert line.startswith('outcome=released job=3 handler="a b" attempt=2 worker=w1 took=0.5 payload="{')
    assert json.loads(json.loads(line.partition("payload=")[2])) == {"n": 2, "secret": 'x="y"'}


def test_that_a_worker_came_too_late_is_logged_too(
    queue: Queue, clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qlab")
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve()
    assert held is not None
    clock.advance(90.0)
    assert queue.reserve() is not None
    queue.finish(held, worker="late")
    assert caplog.messages == ["outcome=superseded job=1 handler=A attempt=1 worker=late took=90"]


def test_a_handler_s_name_forges_no_field_and_no_line_of_the_log(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qlab")
    queue.handler('x\noutcome=failed "y"')(lambda job: None)
    queue.dispatch('x\noutcome=failed "y"')
    queue.work_once()
    assert caplog.messages == ['outcome=completed job=1 handler="x\\noutcome=failed \\"y\\"" attempt=1 took=0']


def test_a_failure_that_came_too_late_is_not_logged(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.handler("A", tries=1)(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve(0.0)
    assert held
    queue.clear()
    queue.settle(held, Ended(error=ValueError("late")), 1.0)
    assert caplog.records == []


# -- how things show themselves --

EVIL = "</td><script>alert('x')</script><img src=x onerror=alert(1)>&amp;"


@only("memory", "sqlite", "redis_zset-valkey")
def test_nothing_that_people_write_becomes_markup(queue: Queue) -> None:
    def handler(job: Attempt) -> None:
        raise ValueError(EVIL)

    queue.handler(EVIL, tries=2)(handler)
    with queue.statements() as statements:
        job = queue.dispatch(EVIL, EVIL)
        held = queue.reserve(0.0, worker=EVIL)
        assert held
        retrying = queue.finish(held, 0.0, worker=EVIL)
        failed = queue.work_once(10.0, worker=EVIL)
    (row,) = queue.failed()
    shown = [
        job,
        retrying,
        failed,
        Superseded(1, EVIL, 1, 0.0, EVIL),
        Unknown(1, EVIL, 1, 0.0, EVIL, 1.0),
        row,
        queue.failed(),
        queue.trace,
        type(queue.failed())([job]),
        type(queue.failed())([EVIL]),
        *statements,
    ]
    for each in shown:
        html = each._repr_html_()
        assert "<script" not in html
        assert "<img" not in html
    assert "&lt;script&gt;" in row._repr_html_()
    assert "&lt;/td&gt;" in queue.trace._repr_html_()


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (Counts(1, 2, 3, 4), ["ready", "delayed", "reserved", "failed", "depth", ">6<"]),
        (Completed(1, "A", 2, 3.0), ["Completed", "job 1 is done"]),
        (Idle(3.0), ["Idle", "nothing is due at 3 s"]),
        (Released(1, "A", 2, 3.0, 4.0), ["given back, until 4 s"]),
        (Retrying(1, "A", 2, 3.0, "ValueError: x", 4.5), ["attempt 2 of job 1 failed (ValueError: x); again at 4.5 s"]),
        (Failed(1, "A", 3, 3.0, "ValueError: x"), ["job 1 failed after 3 attempts: ValueError: x"]),
        (Superseded(1, "A", 2, 3.0, "complete"), ["too late to complete job 1"]),
        (Unknown(1, "A", 2, 3.0, "gone", math.inf), ["its store did not answer (gone)", "never"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_show_themselves_as_a_table(value: Any, texts: list[str]) -> None:
    html = value._repr_html_()
    assert html.startswith("<table")
    assert [text for text in texts if text not in html] == []


def test_records_read_well(driver: Driver) -> None:
    push(driver, "send", now=1.0)
    (held,) = driver.reserve(QUEUE, now=2.0, retry_after=None)
    assert repr(held) == "Reservation(job=1, name='send', attempt=1, until=inf)"
    assert repr(held.job) == "Job(id=1, name='send', payload=null, attempts=1, available_at=inf, reserved_at=2)"
    driver.fail(held, now=3.0, attempts=1, error="ValueError: boom")
    assert repr(driver.failed(QUEUE)[0]) == (
        "FailedJob(id=1, name='send', payload=null, attempts=1, error='ValueError: boom', failed_at=3)"
    )


def test_lists_show_their_first_rows_and_count_the_rest(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    assert queue.jobs()._repr_html_() == "<p>none</p>"
    queue.dispatch_many([("A", number) for number in range(53)])
    html = queue.jobs()._repr_html_()
    assert html.count("<tr>") == 51
    assert "and 3 more" in html


@only("memory")
def test_a_moment_in_a_table_is_not_broken_in_two(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_later("A", delay=16.5)
    html = queue.jobs()._repr_html_()
    assert ';white-space:nowrap">16.5 s</td>' in html


# -- threads --


@only(*ONE_OF_EACH)
def test_threads_may_step_one_queue_together(queue: Queue) -> None:
    ran: list[int] = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", number) for number in range(80)])
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not isinstance(queue.work_once(), Idle):
                pass
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert errors == []
    assert sorted(ran) == list(range(80))
    assert len(told(queue, "completed")) == 80
    assert queue.counts() == Counts()


@only(*ONE_OF_EACH)
def test_each_thread_s_attempt_has_its_own_moment_and_worker(queue: Queue) -> None:
    together = threading.Barrier(2)

    def handler(job: Attempt) -> None:
        together.wait(60.0)
        job.progress(job.payload, 2)
        together.wait(60.0)

    queue.handler("A")(handler)
    queue.dispatch_many([("A", 1), ("A", 2)])
    threads = [threading.Thread(target=queue.work_once, args=(at,), kwargs={"worker": f"w{at:g}"}) for at in (5.0, 6.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert {(e.at, e.worker) for e in queue.trace if e.kind == "progressed"} == {(5.0, "w5"), (6.0, "w6")}


def test_the_same_steps_give_the_same_trace(driver: Driver) -> None:
    digests = []
    for name in ("one", "two"):
        queue = Queue(driver, clock=SimulatedClock(), name=name, policy=Policy(jitter=0.5, seed=3))
        queue.handler("A")(lambda job: 1 / 0)
        queue.dispatch_many([("A", number) for number in range(5)])
        queue.drain(until=math.inf)
        shift = queue.trace[0].job or 0
        digests.append([event._replace(job=event.job and event.job - shift) for event in queue.trace])
    assert digests[0] == digests[1]


def test_an_unknown_handler_met_by_a_worker_is_a_failed_attempt(queue: Queue) -> None:
    push(queue.driver, "elsewhere")
    outcome = queue.work_once(0.0)
    assert isinstance(outcome, Retrying)
    assert outcome.error.startswith(f"{UnknownHandler.__name__}: no handler is called 'elsewhere'")


# -- the same queue elsewhere --


def test_a_queue_like_another_has_its_handlers_and_rules_and_a_store_of_its_own(queue: Queue) -> None:
    ran = []
    queue.handler("A", tries=7, backoff=[3.0])(lambda job: ran.append((job.context, 1 / job.payload)))
    like = Queue("memory://", policy=Policy(tries=2), clock=SimulatedClock(5.0), name="like", context="shop")
    like.handler("A")(lambda job: None)
    other = queue.on("memory://")
    assert (other.name, other.clock, other.policy, other.handlers) == (queue.name, queue.clock, queue.policy, ("A",))
    with like.on(queue.driver, clock=queue.clock) as moved:
        assert (moved.name, moved.context, moved.policy.tries, moved.clock) == ("like", "shop", 2, queue.clock)
        other.dispatch("A", 0)
        assert queue.counts() == Counts()
        assert other.work_once().available_at == 3.0  # type: ignore[attr-defined]
        queue.handler("B")(lambda job: None)
        assert other.handlers == ("A",)
    other.close()
    like.close()
