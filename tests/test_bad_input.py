"""Bad input, nothing lost: each refusal leaves the store and the trace as they were."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import ONE_OF_EACH, QUEUE, REDIS, SHARED, Snapshot, only, outcomes, snapshot, stores, told

from qlab import Queue, SimulatedClock
from qlab.driver import Counts, Driver
from qlab.errors import InvalidPayload, QueueClosed, UnknownFailedJob, UnknownHandler
from qlab.job import Attempt
from qlab.running import Ended

store = stores(*ONE_OF_EACH, "sqlite-memory")


@pytest.fixture
def queue(queue: Queue) -> Queue:
    """A queue with one job waiting, which no bad input may change."""
    queue.handler("send_mail")(lambda job: None)
    queue.handler("send_mails")(lambda job: None)
    queue.handler("thumbnail")(lambda job: None)
    queue.dispatch("send_mail", "there")
    return queue


@contextmanager
def unchanged(queue: Queue) -> Iterator[None]:
    before, events = snapshot(queue.driver, now=0.0), told(queue)
    yield
    assert snapshot(queue.driver, now=0.0) == before
    assert told(queue) == events


def all_ways(queue: Queue, name: str, payload: object = None) -> tuple[Callable[[], object], ...]:
    """Every way of dispatching, each with a good job before the bad one where it takes many."""
    return (
        lambda: queue.dispatch(name, payload),
        lambda: queue.dispatch_later(name, payload, delay=5.0),
        lambda: queue.dispatch_at(name, payload, at=5.0),
        lambda: queue.dispatch_many([("send_mail", 1), (name, payload), ("send_mail", 2)]),
    )


# -- payloads --


@pytest.mark.parametrize("payload", [{1, 2}, math.nan, b"x", Decimal(1), datetime(2026, 1, 1, tzinfo=UTC), "\ud800"])
def test_a_payload_that_json_cannot_hold_is_refused(queue: Queue, payload: object) -> None:
    with unchanged(queue):
        for dispatch in all_ways(queue, "thumbnail", payload):
            with pytest.raises(InvalidPayload, match="handler 'thumbnail', queue 'mail': payload "):
                dispatch()


def test_a_bad_payload_far_behind_good_ones_stores_none_of_them(queue: Queue) -> None:
    with unchanged(queue), pytest.raises(InvalidPayload):
        queue.dispatch_many([("thumbnail", number) for number in range(1_200)] + [("thumbnail", {1})])


def test_a_payload_over_the_limit_is_refused(queue: Queue) -> None:
    with unchanged(queue):
        for dispatch in all_ways(queue, "thumbnail", "x" * (1024 * 1024 - 1)):
            with pytest.raises(InvalidPayload, match=r"has 1,048,577 bytes, the limit is 1,048,576: .*payload_limit"):
                dispatch()
    assert queue.dispatch("thumbnail", "x" * (1024 * 1024 - 2)).id == 2


@pytest.mark.parametrize(("payload", "fits"), [("x" * 8, True), ("x" * 9, False), ("é" * 4, True), ("é" * 5, False)])
def test_the_limit_can_be_set_and_counts_bytes(driver: Driver, payload: str, fits: bool) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(), payload_limit=10)
    queue.handler("A")(lambda job: None)
    if fits:
        queue.dispatch("A", payload)
    else:
        with pytest.raises(InvalidPayload, match="the limit is 10"):
            queue.dispatch("A", payload)
    assert queue.counts() == Counts(ready=int(fits))


# -- handlers --


def test_an_unknown_handler_is_refused_and_near_names_are_suggested(queue: Queue) -> None:
    with unchanged(queue):
        for dispatch in all_ways(queue, "send_mial"):
            with pytest.raises(UnknownHandler, match="'send_mial': did you mean 'send_mail' or 'send_mails'?"):
                dispatch()


def test_an_unknown_handler_far_from_all_is_told_which_there_are(queue: Queue) -> None:
    with (
        unchanged(queue),
        pytest.raises(UnknownHandler, match="'zebra': this queue has 'send_mail', 'send_mails', 'thu"),
    ):
        queue.dispatch("zebra")


def test_an_unknown_handler_of_a_queue_without_any_is_told_so(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE)
    with pytest.raises(UnknownHandler, match="this queue has none"):
        queue.dispatch("A")
    assert queue.counts() == Counts()


@pytest.mark.parametrize("name", ["", "\0", "a" * 256, "\ud800", "a\0b"])
def test_a_handler_needs_a_name_that_stores_can_keep(queue: Queue, name: str) -> None:
    with unchanged(queue):
        with pytest.raises(ValueError, match="the handler's name is"):
            queue.handler(name)
        with pytest.raises(UnknownHandler):
            queue.dispatch(name)
    assert queue.handlers == ("send_mail", "send_mails", "thumbnail")


@pytest.mark.parametrize("name", ["", "\0", "a" * 256, "\ud800"])
def test_a_queue_needs_a_name_that_stores_can_keep(driver: Driver, name: str) -> None:
    with pytest.raises(ValueError, match="the queue's name is"):
        Queue(driver, name=name)


@pytest.mark.parametrize("name", [None, 1, b"a"])
def test_a_name_is_text(queue: Queue, name: object) -> None:
    with unchanged(queue):
        with pytest.raises(TypeError, match="the handler's name is .*: use text"):
            queue.handler(name)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the queue's name is .*: use text"):
            Queue(queue.driver, name=name)  # type: ignore[arg-type]
        with pytest.raises(UnknownHandler):
            queue.dispatch(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [None, "send", 1])
def test_a_handler_is_a_function(queue: Queue, run: object) -> None:
    with pytest.raises(TypeError, match="use a function that takes the job"):
        queue.handler("A")(run)  # type: ignore[type-var]
    assert "A" not in queue.handlers


def test_an_async_handler_is_refused_where_nobody_would_await_it(queue: Queue) -> None:
    async def handler(job: Attempt) -> None:
        pass

    async def generator(job: Attempt) -> object:
        yield 1.0

    for run in (handler, generator):
        with pytest.raises(TypeError, match="async"):
            queue.handler("A")(run)
    assert "A" not in queue.handlers


@pytest.mark.parametrize("tries", [0, -1, 1.5, "3", True])
def test_a_handler_s_tries_are_a_number_from_1(queue: Queue, tries: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"tries is {tries!r}"):
        queue.handler("A", tries=tries)(lambda job: None)  # type: ignore[arg-type]
    assert "A" not in queue.handlers


@pytest.mark.parametrize("backoff", [-1.0, (1.0, -2.0), (math.nan,), "10", ("10",), (math.inf,), object()])
def test_a_handler_s_backoff_is_seconds(queue: Queue, backoff: object) -> None:
    with pytest.raises((TypeError, ValueError), match="backoff"):
        queue.handler("A", backoff=backoff)(lambda job: None)  # type: ignore[arg-type]
    assert "A" not in queue.handlers


NAMES = ("two words", "a:b", "{a}", "é😀", "a\nb", "%7B", "*", "'; DROP TABLE jobs; --", "a" * 255)


@pytest.mark.parametrize("name", NAMES)
def test_names_may_hold_whatever_people_write(driver: Driver, name: str) -> None:
    queue = Queue(driver, name=name, clock=SimulatedClock())
    other = Queue(driver, name=f"{name[:200]}.", clock=SimulatedClock())
    seen = []
    for each in (queue, other):
        each.handler(name, tries=1)(lambda job: seen.append(job.name) or 1 / 0)
    queue.dispatch(name, name)
    assert other.counts() == Counts()
    assert outcomes(queue, 0.0) == ["Failed"]
    assert [(row.queue, row.name, row.payload) for row in queue.failed()] == [(name, name, name)]
    assert other.failed() == []
    assert queue.retry("all") == 1
    assert outcomes(queue, 0.0, 0.0) == ["Failed", "Idle"]
    assert outcomes(other, 0.0) == ["Idle"]
    assert queue.forget("all") == 1
    assert queue.counts() == Counts()
    assert seen == [name, name]


# -- times --


@pytest.mark.parametrize("delay", [-1.0, -5, -1e-9, math.nan, math.inf, -math.inf, 1e300, timedelta(seconds=-1)])
def test_a_delay_that_is_none_is_refused(queue: Queue, delay: float) -> None:
    with unchanged(queue):
        for dispatch in (
            lambda: queue.dispatch_later("thumbnail", delay=delay),
            lambda: queue.dispatch_many([("thumbnail", 1)], delay=delay),
        ):
            with pytest.raises(ValueError, match=r"delay is .* s: use a number of seconds from 0"):
                dispatch()


@pytest.mark.parametrize("delay", ["5", None, True, [5], Decimal(5)])
def test_a_delay_is_a_number(queue: Queue, delay: object) -> None:
    with unchanged(queue), pytest.raises(TypeError, match="delay is .*: use a number of seconds"):
        queue.dispatch_later("thumbnail", delay=delay)  # type: ignore[arg-type]


def test_a_delay_may_be_a_timedelta(queue: Queue) -> None:
    assert queue.dispatch_later("thumbnail", delay=timedelta(minutes=2)).available_at == 120.0  # type: ignore[arg-type]


def test_a_naive_datetime_is_refused(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC)))
    queue.handler("A")(lambda job: None)
    with unchanged(queue), pytest.raises(ValueError, match="is naive: say which zone it is in"):
        queue.dispatch_at("A", at=datetime(2026, 1, 2))  # noqa: DTZ001 - what is tested


def test_a_date_means_nothing_to_a_clock_without_an_epoch(queue: Queue) -> None:
    with unchanged(queue), pytest.raises(ValueError, match="clock without an epoch"):
        queue.dispatch_at("thumbnail", at=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, 1e300])
def test_a_moment_that_is_none_is_refused(queue: Queue, at: float) -> None:
    with unchanged(queue), pytest.raises(ValueError, match="nan|inf|1e\\+300"):
        queue.dispatch_at("thumbnail", at=at)


def test_a_moment_beyond_all_clocks_is_refused(queue: Queue) -> None:
    queue.clock.advance_to(9e9)
    with unchanged(queue), pytest.raises(ValueError, match="is not a time"):
        queue.dispatch_later("thumbnail", delay=4e9)


@pytest.mark.parametrize("now", [math.nan, -math.inf, 1e300])
def test_work_at_a_moment_that_is_none_is_refused(queue: Queue, now: float) -> None:
    with unchanged(queue), pytest.raises(ValueError, match="is not a time"):
        queue.work_once(now)


# -- ids --


@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_an_id_that_is_not_there_is_refused(queue: Queue, verb: str) -> None:
    with unchanged(queue), pytest.raises(UnknownFailedJob, match="no failed job 999 in the queue 'mail'"):
        getattr(queue, verb)(999)


@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_the_id_of_another_queue_s_failed_job_is_not_there(queue: Queue, verb: str) -> None:
    other = Queue(queue.driver, clock=queue.clock, name="other")
    other.handler("A", tries=1)(lambda job: 1 / 0)
    other.dispatch("A")
    other.work_once()
    (row,) = other.failed()
    with unchanged(queue), unchanged(other), pytest.raises(UnknownFailedJob):
        getattr(queue, verb)(row.id)


def test_forget_before_goes_with_all(queue: Queue) -> None:
    with unchanged(queue), pytest.raises(ValueError, match="before goes with 'all'"):
        queue.forget(1, before=5.0)


def test_jobs_are_asked_for_by_a_state_that_they_can_be_in(queue: Queue) -> None:
    with pytest.raises(ValueError, match="state is 'pending': use delayed, ready, reserved"):
        queue.jobs("pending")
    with pytest.raises(ValueError, match=r"failed\(\) lists"):
        queue.jobs("failed")


# -- a cell that is run twice --


def test_a_handler_registered_again_is_the_latest_and_loses_no_job(queue: Queue) -> None:
    seen = []

    def cell(version: int) -> None:
        @queue.handler("A", tries=version)
        def handler(job: Attempt) -> None:
            seen.append((version, job.payload))

        queue.dispatch("A", "once more")

    cell(1)
    cell(2)
    assert queue.handlers == ("A", "send_mail", "send_mails", "thumbnail")
    assert queue.counts() == Counts(ready=3)
    assert outcomes(queue, 0.0, 0.0, 0.0, 0.0) == ["Completed"] * 3 + ["Idle"]
    assert seen == [(2, "once more")] * 2


def test_the_decorator_leaves_the_function_usable(queue: Queue) -> None:
    @queue.handler("A")
    def handler(job: object) -> object:
        return job

    assert handler("x") == "x"  # type: ignore[arg-type]


# -- another queue on the same store --


def test_a_second_queue_on_one_driver_sees_the_same_jobs(queue: Queue) -> None:
    second = Queue(queue.driver, clock=queue.clock, name=QUEUE)
    seen = []
    second.handler("send_mail")(lambda job: seen.append(job.payload))
    assert second.counts() == queue.counts() == Counts(ready=1)
    assert outcomes(second, 0.0) == ["Completed"]
    assert seen == ["there"]
    assert outcomes(queue, 0.0) == ["Idle"]


@only(*SHARED)
def test_a_second_queue_on_the_same_store_sees_the_same_jobs(queue: Queue, open_again: Callable[[], Driver]) -> None:
    second = Queue(open_again(), clock=queue.clock, name=QUEUE)
    seen = []
    second.handler("send_mail")(lambda job: seen.append(job.payload))
    second.dispatch("send_mail", "more")
    assert second.jobs() == queue.jobs()
    assert [job.id for job in queue.jobs()] == [1, 2]
    assert outcomes(queue, 0.0) == ["Completed"]
    assert outcomes(second, 0.0, 0.0) == ["Completed", "Idle"]
    assert seen == ["more"]
    second.close()
    assert queue.counts() == Counts()


# -- a closed queue --


def answer(use: Callable[[], object]) -> object:
    """What using a closed queue gives: the text of the error, or what must not be."""
    try:
        return use()
    except QueueClosed as error:
        return str(error)


def test_a_closed_queue_says_so_whatever_it_is_asked(queue: Queue) -> None:
    held = queue.reserve(0.0)
    assert held
    events = told(queue)
    queue.close()
    queue.close()
    dispatch, dispatch_later, dispatch_at, dispatch_many = all_ways(queue, "thumbnail")
    uses: dict[str, Callable[[], object]] = {
        "dispatch": dispatch,
        "dispatch_later": dispatch_later,
        "dispatch_at": dispatch_at,
        "dispatch_many": dispatch_many,
        "work_once": queue.work_once,
        "work_once(now)": lambda: queue.work_once(5.0),
        "drain": queue.drain,
        "drain(until)": lambda: queue.drain(until=5.0),
        "reserve": queue.reserve,
        "finish": lambda: queue.finish(held),
        "settle": lambda: queue.settle(held, Ended()),
        "steps": lambda: next(queue.steps(held), None),
        "crash": lambda: queue.crash(held),
        "recover": queue.recover,
        "recover(force)": lambda: queue.recover(force=True),
        "clear": queue.clear,
        "failed": queue.failed,
        "retry": lambda: queue.retry(1),
        "retry all": lambda: queue.retry("all"),
        "forget": lambda: queue.forget(1),
        "forget all": lambda: queue.forget("all", before=5.0),
        "counts": queue.counts,
        "jobs": queue.jobs,
        "next_due": queue.next_due,
        "statements": queue.statements,
    }
    said = {name: answer(use) for name, use in uses.items()}
    assert said == dict.fromkeys(uses, "The queue is closed: make a new Queue to go on.")
    assert told(queue) == events
    assert "closed" in repr(queue)


@only(*SHARED)
def test_closing_a_queue_loses_nothing(queue: Queue, open_again: Callable[[], Driver]) -> None:
    before = snapshot(queue.driver, now=0.0)
    with queue:
        pass
    assert snapshot(open_again(), now=0.0) == before


# -- a job that failed on one store and is retried on another --


@only(*REDIS)
def test_a_job_that_failed_on_redis_can_be_retried_on_sqlite(queue: Queue, tmp_path: Path) -> None:
    queue.handler("send_mail", tries=1)(lambda job: 1 / 0)
    assert outcomes(queue, 0.0) == ["Failed"]
    (row,) = queue.failed()

    with Queue(f"sqlite:///{tmp_path}/failed.db", clock=queue.clock, name=QUEUE) as moved:
        seen = []
        moved.handler("send_mail")(lambda job: seen.append((job.payload, job.number)))
        assert moved.failed() == [row]
        assert moved.retry(row.id or 0) == 1
        assert moved.counts() == Counts(ready=1)
        assert [job.uid for job in moved.jobs()] == [row.uid]
        assert snapshot(queue.driver, now=0.0) == Snapshot(Counts(), [], [], None)
        with pytest.raises(UnknownFailedJob):
            queue.retry(row.id or 0)
        assert outcomes(moved, 0.0, 0.0) == ["Completed", "Idle"]
        assert seen == [("there", 1)]
        assert outcomes(queue, 1000.0) == ["Idle"]


@only(*REDIS)
def test_a_job_that_failed_on_sqlite_can_be_retried_on_redis(queue: Queue, tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path}/failed.db", clock=queue.clock, name=QUEUE) as first:
        first.handler("A", tries=1)(lambda job: 1 / 0)
        first.dispatch("A", "moved")
        assert outcomes(first, 0.0) == ["Failed"]
        queue.handler("A")(lambda job: None)
        assert queue.retry("all") == 1
        assert first.counts() == Counts()
    assert outcomes(queue, 0.0, 0.0, 0.0) == ["Completed", "Completed", "Idle"]
