"""A worker: what it does by itself, how it is stopped, and what does not end it."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import IN_ORDER, ONE_OF_EACH, only, told
from watching import Gate, Watched, eventually, heard, spy_on

from qlab import Queue, Release, SimulatedClock, Worker, steps
from qlab.driver import Counts
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.trace import Kind
from qlab.worker import Worked

NOTHING = Worked()


# -- its work --


def test_a_worker_runs_what_is_there_and_what_comes(queue: Queue, clock: SimulatedClock) -> None:
    ran: list[int] = []
    last = threading.Event()

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        ran.append(job.payload)
        if job.payload == 4:
            last.set()

    for number in range(3):
        queue.dispatch("A", number)
    with Watched(queue, name="w") as worker:
        worker.until_idle()
        assert ran == [0, 1, 2]
        queue.dispatch("A", 3)
        worker.until_idle()
        queue.dispatch_later("A", 4, delay=10.0)
        worker.until_idle()
        assert ran == [0, 1, 2, 3]
        clock.advance(10.0)
        assert eventually(last)
    assert ran == [0, 1, 2, 3, 4]
    assert worker.worked == Worked(completed=5)
    assert queue.counts() == Counts()
    assert {event.worker for event in queue.trace if event.kind == "completed"} == {"w"}


def test_each_attempt_is_counted_by_how_it_ended(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.handler("good")(lambda job: None)
    queue.handler("back")(lambda job: Release(100.0))
    queue.handler("again")(lambda job: 1 / 0)
    queue.handler("last", tries=1)(lambda job: 1 / 0)
    for name in ("good", "good", "back", "again", "last"):
        queue.dispatch(name)
    with Watched(queue) as worker:
        worker.until_idle()
    assert worker.worked == Worked(completed=2, released=1, retrying=1, failed=1)
    assert queue.counts() == Counts(delayed=2, failed=1)


def test_several_workers_share_a_queue_and_no_job_runs_twice(queue: Queue) -> None:
    ran: Counter[int] = Counter()
    queue.handler("A")(lambda job: ran.update([job.payload]))
    workers = [Watched(queue, name=f"w{number}").start() for number in range(4)]
    queue.dispatch_many([("A", number) for number in range(200)])
    for worker in workers:
        worker.until_idle()
    assert all(worker.stop(60.0) for worker in workers)
    assert ran == Counter(range(200))
    assert sum(worker.worked.completed for worker in workers) == 200
    assert queue.counts() == Counts()


def test_a_job_is_completed_and_the_next_reserved_at_once_until_the_worker_is_to_stop(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for verb in ("reserve", "complete_and_reserve"):
        spy_on(queue.driver, verb, asked, monkeypatch)
    worker = Watched(queue, recover=None)
    queue.handler("A")(lambda job: job.payload and worker.stop())
    for payload in (0, 0, 1, 1):
        queue.dispatch("A", payload)
    assert worker.run() == Worked(completed=3)
    outermost = asked if queue.driver.name != "memory" else [verb for verb in asked if verb != "reserve"]
    assert outermost[-2:] == ["complete_and_reserve"] * 2
    assert queue.counts() == Counts(ready=1)
    assert [job.attempts for job in queue.jobs()] == [0]


class Shared(dict[str, int]):
    """What a queue remembers of failed jobs, where another worker drops the oldest at the same moment."""

    def __iter__(self) -> Iterator[str]:
        oldest = next(super().__iter__())
        del self[oldest]
        return iter([oldest])


def test_two_workers_may_forget_the_same_failed_job_at_once(lone: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_REMEMBERED", 1)
    lone._steps.failed = Shared()  # noqa: SLF001 - as two threads that meet there leave it
    lone.handler("A", tries=1)(lambda job: 1 / 0)
    lone.dispatch_many([("A", None)] * 3)
    assert [type(outcome).__name__ for outcome in lone.drain()] == ["Failed"] * 3
    assert [event.kind for event in lone.trace].count(Kind.FAILED) == 3


# -- its waits --


def test_stop_ends_an_idle_wait_at_once(queue: Queue) -> None:
    worker = Watched(queue, poll=100_000.0).start()
    worker.until_round(1)
    assert worker.stop(60.0)
    assert len(worker.waits) == 1


def test_a_worker_waits_about_its_poll_and_no_two_waits_are_alike(lone: Queue) -> None:
    with Watched(lone, poll=0.001, jitter=0.25) as worker:
        worker.until_round(50)
    assert all(0.00075 <= seconds <= 0.00125 for seconds in worker.waits)
    assert len(set(worker.waits)) > 40


# -- stop --


def test_a_worker_that_was_stopped_before_it_ran_takes_nothing(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    for run in (lambda worker: worker.run(), lambda worker: worker.start()):
        worker = Worker(queue)
        assert worker.stop()
        run(worker)
        assert worker.stop(60.0)
        assert worker.worked == NOTHING
    assert [job.attempts for job in queue.jobs()] == [0]


def test_stop_may_be_asked_by_the_handler_itself_and_waits_for_nothing_there(queue: Queue) -> None:
    said: list[bool] = []
    worker = Worker(queue)
    queue.handler("A")(lambda job: said.append(worker.stop()))
    queue.dispatch("A")
    queue.dispatch("A")
    assert worker.run() == Worked(completed=1)
    assert said == [False]
    assert worker.stop()
    assert queue.counts() == Counts(ready=1)


def test_every_thread_that_stops_a_worker_hears_that_it_ended(lone: Queue) -> None:
    gate, said = Gate(), []
    lone.handler("A")(gate)
    lone.dispatch("A")
    worker = Worker(lone).start()
    gate.until_begun()
    threads = [threading.Thread(target=lambda: said.append(worker.stop(60.0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.may_end.set()
    for thread in threads:
        thread.join(60.0)
    assert said == [True] * 8


def test_leaving_the_context_stops_the_worker_whatever_happened_inside(lone: Queue) -> None:
    gate = Gate()
    lone.handler("A")(gate)
    lone.dispatch("A")

    def leave() -> None:
        with worker:
            gate.until_begun()
            gate.may_end.set()
            raise ZeroDivisionError

    worker = Worker(lone)
    with pytest.raises(ZeroDivisionError):
        leave()
    assert worker.worked == Worked(completed=1)


@pytest.mark.parametrize("again", ["run", "start", "__enter__"])
def test_a_worker_runs_once(lone: Queue, again: str) -> None:
    worker = Worker(lone, name="w")
    with worker, pytest.raises(RuntimeError, match="<Worker 'w' of .*make another Worker"):
        getattr(worker, again)()
    with pytest.raises(RuntimeError, match="runs, or has run, already"):
        getattr(worker, again)()


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"poll": 0}, ValueError, "poll is 0: use a number of seconds above 0"),
        ({"poll": -1}, ValueError, "poll is -1 s: use a number of seconds from 0"),
        ({"poll": "1"}, TypeError, "poll is '1': use a number of seconds"),
        ({"poll": float("inf")}, ValueError, "poll is inf s"),
        ({"jitter": 1.5}, ValueError, "jitter is 1.5: use a share of the wait, from 0 to 1"),
        ({"jitter": -0.5}, ValueError, "jitter is -0.5"),
        ({"jitter": None}, TypeError, "jitter is None"),
        ({"recover": "all"}, ValueError, "recover is 'all': use 'expired', 'force' or None"),
        ({"recover": True}, ValueError, "recover is True"),
    ],
)
def test_what_a_worker_cannot_be_made_of_is_refused(
    lone: Queue, how: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Worker(lone, **how)


def test_a_worker_is_given_a_queue_and_no_address() -> None:
    with pytest.raises(TypeError, match="a worker works a Queue, not 'memory://'"):
        Worker("memory://")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [-1, float("nan"), "5"])
def test_a_limit_that_is_none_is_refused_and_stops_nothing(lone: Queue, limit: Any) -> None:
    with Watched(lone) as worker:
        with pytest.raises((TypeError, ValueError), match="timeout is"):
            worker.stop(limit)
        worker.until_idle()


# -- Ctrl-C --


def interrupt_the_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


unix = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no signals for threads")


def test_the_first_ctrl_c_finishes_the_job_in_hand_and_takes_no_other(queue: Queue) -> None:
    ran: list[int] = []

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        signal.raise_signal(signal.SIGINT)
        ran.append(job.id)

    queue.dispatch("A")
    queue.dispatch("A")
    assert Worker(queue).run() == Worked(completed=1)
    assert len(ran) == 1
    assert [job.attempts for job in queue.jobs()] == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_worker_that_has_ended_leaves_ctrl_c_as_it_was(lone: Queue) -> None:
    worker = Worker(lone)
    lone.handler("A")(lambda job: (during.append(signal.getsignal(signal.SIGINT)), worker.stop()))
    lone.dispatch("A")
    during: list[Any] = []
    worker.run()
    assert during != [signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@unix
def test_ctrl_c_ends_an_idle_wait_at_once(lone: Queue) -> None:
    worker = Watched(lone, poll=100_000.0)

    def interrupt() -> None:
        worker.until_round(1)
        interrupt_the_main_thread()

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert worker.run() == NOTHING
    thread.join(60.0)


def test_the_second_ctrl_c_interrupts_and_the_job_comes_again(queue: Queue, clock: SimulatedClock) -> None:
    ran: list[int] = []

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        ran.append(job.number)
        if job.number == 1:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    queue.dispatch("A")
    worker = Worker(queue)
    with pytest.raises(KeyboardInterrupt):
        worker.run()
    assert worker.stop()
    assert queue.counts() == Counts(reserved=1)
    clock.advance(90.0)
    with Watched(queue) as other:
        other.until_idle()
    assert ran == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_application_that_handles_ctrl_c_itself_goes_on_to_do_so(lone: Queue) -> None:
    heard_by_the_application: list[int] = []

    def own(number: int, _: object) -> None:
        heard_by_the_application.append(number)
        worker.stop()

    before = signal.signal(signal.SIGINT, own)
    try:
        worker = Worker(lone)
        lone.handler("A")(lambda job: signal.raise_signal(signal.SIGINT))
        lone.dispatch("A")
        assert worker.run() == Worked(completed=1)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard_by_the_application == [signal.SIGINT]


@unix
def test_a_signal_that_asks_to_stop_may_come_at_any_moment(lone: Queue) -> None:
    """A flag with a lock of Python's would hang, sooner or later, where the signal interrupts the wait for it."""
    for _ in range(50):
        worker = Watched(lone, poll=0.000_01, recover=None)
        before = signal.signal(signal.SIGINT, lambda *_, worker=worker: worker.stop())
        thread = threading.Thread(target=lambda worker=worker: (worker.until_round(3), interrupt_the_main_thread()))
        try:
            thread.start()
            worker.run()
            thread.join(60.0)
        finally:
            signal.signal(signal.SIGINT, before)


# -- what does not end it --


@only(*ONE_OF_EACH)
@pytest.mark.parametrize("what", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_a_worker_outlives_whatever_a_handler_raises(queue: Queue, what: type[BaseException]) -> None:
    @queue.handler("A", tries=1)
    def handler(job: Attempt) -> None:
        raise what

    queue.handler("B")(lambda job: None)
    for name in "ABAB":
        queue.dispatch(name)
    with Watched(queue) as worker:
        worker.until_idle()
    assert worker.worked == Worked(completed=2, failed=2)


@only(*ONE_OF_EACH)
@pytest.mark.parametrize("verb", ["recover", "reserve", "complete_and_reserve"])
@pytest.mark.parametrize("error", [DriverUnavailable("away"), ValueError("a driver's own fault"), OSError(5, "odd")])
def test_a_worker_outlives_whatever_a_store_raises(
    queue: Queue, verb: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = threading.Event()
    queue.handler("A")(lambda job: ran.set())
    real, raises = getattr(queue.driver, verb), iter([error, error])

    def sometimes(*args: Any, **how: Any) -> Any:
        for each in raises:
            raise each
        return real(*args, **how)

    monkeypatch.setattr(queue.driver, verb, sometimes)
    for _ in range(3):
        queue.dispatch("A")
    with heard() as log, Watched(queue) as worker:
        assert eventually(ran)
        worker.until_idle()
        worker.until_idle()
    assert worker.worked.completed >= 1
    assert list(raises) == []
    if verb != "complete_and_reserve":
        text = "its store is away" if isinstance(error, DriverUnavailable) else "something went wrong"
        assert (log.count(text), log.count("its store is back")) == (1, 1)


@only(*ONE_OF_EACH)
def test_a_worker_whose_queue_is_closed_ends_and_says_so(queue: Queue) -> None:
    with heard() as log:
        worker = Watched(queue).start()
        worker.until_idle()
        queue.close()
        log.until("its queue is closed")
        assert worker.stop(60.0)
        assert Worker(queue).run() == NOTHING


@only(*IN_ORDER)
def test_the_trace_of_a_worker_is_that_of_work_once(queue: Queue) -> None:
    """There is one engine: by hand or by a worker, the same things happen."""

    @queue.handler("A")
    def handler(job: Attempt) -> Release | None:
        if job.payload == 1:
            raise ValueError("boom")
        return Release(5.0) if job.payload == 2 else None

    def dispatch() -> None:
        for number in range(4):
            queue.dispatch("A", number)

    dispatch()
    worker = Watched(queue)
    with worker:
        worker.until_idle()
    by_itself = [(kind, job) for _, kind, job in told(queue) if kind != "missed"]
    queue.clear()
    start = len(queue.trace)
    dispatch()
    while type(queue.work_once()).__name__ != "Idle":
        pass
    by_hand = [(str(event.kind), event.job) for event in list(queue.trace)[start:] if event.kind != "missed"]
    first = by_hand[0][1] or 0
    assert by_itself == [(kind, (job or 0) - first + 1) for kind, job in by_hand]
