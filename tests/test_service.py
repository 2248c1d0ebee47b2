"""WorkerService: async handlers in a loop, several at a time, stopped in good order, and no store in the loop's way."""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ONE_OF_EACH, stores, told
from watching import PATIENCE, eventually, heard

from qlab import Queue, Release, WorkerService
from qlab.async_attempt import AsyncAttempt
from qlab.driver import Counts, Driver
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.worker import Worked

store = stores(*ONE_OF_EACH)


def serving(queue: Queue, *, concurrency: int = 4, poll: float = 0.002, **how: Any) -> WorkerService:
    return WorkerService(queue, concurrency=concurrency, poll=poll, name="s", **how)


def ended(service: WorkerService, jobs: int) -> "asyncio.Task[None]":
    """Stops a service when so many attempts have ended."""

    async def watch() -> None:
        while sum(service.worked) < jobs:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.002)
        service.stop()

    return asyncio.create_task(watch())


class Verbs:
    """Which thread called which verb of a driver."""

    def __init__(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: list[tuple[str, int]] = []
        for verb in ("push", "reserve", "complete", "release", "extend", "fail", "recover"):
            monkeypatch.setattr(driver, verb, self._spy(verb, getattr(driver, verb)))

    def _spy(self, verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def spy(*args: Any, **how: Any) -> Any:
            self.called.append((verb, threading.get_ident()))
            return real(*args, **how)

        return spy


# -- its work --


def test_no_call_of_a_driver_is_made_in_the_loop_s_thread(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serving(queue)
    verbs = Verbs(queue.driver, monkeypatch)

    @service.handler("A", tries=1)
    async def handler(job: AsyncAttempt) -> Release | None:
        assert await job.extend(60.0)
        await job.progress(1, 2)
        if job.payload == "more":
            assert (await job.dispatch("A", "fail", delay=0.0)).name == "A"
        if job.payload == "fail":
            raise ValueError("boom")
        return Release(1000.0) if job.payload == "later" else None

    @service.handler("B")
    def blocking(job: Attempt) -> None:
        assert threading.get_ident() != loop_thread
        job.extend(60.0)

    async def main() -> Worked:
        jobs = [("A", "more"), ("A", "later"), ("B", None)]
        await asyncio.to_thread(queue.dispatch_many, jobs)
        watching = ended(service, 4)
        worked = await service.serve()
        await watching
        return worked

    loop_thread = threading.get_ident()
    assert asyncio.run(main()) == Worked(completed=2, released=1, failed=1)
    assert {verb for verb, _ in verbs.called} == {"push", "reserve", "complete", "release", "extend", "fail", "recover"}
    assert [verb for verb, thread in verbs.called if thread == loop_thread] == []
    assert queue.counts() == Counts(delayed=1, failed=1)
    workers = {event.worker for event in queue.trace if event.kind in ("completed", "failed", "released", "extended")}
    assert workers <= {"s 1", "s 2", "s 3", "s 4"}
    assert len(told(queue, "progressed")) == 3


def test_so_many_jobs_are_in_hand_at_once_and_no_more(queue: Queue) -> None:
    service = serving(queue, concurrency=3)
    inside, most = 0, 0
    full = asyncio.Event()

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 3:
            full.set()
        await asyncio.wait_for(full.wait(), PATIENCE)
        inside -= 1

    async def main() -> None:
        await asyncio.to_thread(queue.dispatch_many, [("A", n) for n in range(9)])
        watching = ended(service, 9)
        await service.serve()
        await watching

    asyncio.run(main())
    assert (most, service.worked) == (3, Worked(completed=9))
    reserved = [job for _, _, job in told(queue, "reserved")]
    assert sorted(reserved) == list(range(1, 10))


def test_a_blocking_handler_leaves_the_loop_free(lone: Queue) -> None:
    service = serving(lone, concurrency=2)
    begun, may_end = threading.Event(), threading.Event()

    @service.handler("blocks")
    def blocks(job: Attempt) -> None:
        begun.set()
        assert eventually(may_end)

    @service.handler("awaits")
    async def awaits(job: AsyncAttempt) -> None:
        assert await asyncio.to_thread(eventually, begun)
        may_end.set()

    async def main() -> None:
        lone.dispatch("blocks")
        lone.dispatch("awaits")
        watching = ended(service, 2)
        await service.serve()
        await watching

    asyncio.run(main())
    assert service.worked == Worked(completed=2)


def test_a_service_serves_beside_what_else_its_loop_does(lone: Queue) -> None:
    """As in a notebook, whose loop is already running."""
    service, ran = serving(lone), asyncio.Event()

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        ran.set()

    async def main() -> None:
        async with service:
            lone.dispatch("A")
            await asyncio.wait_for(ran.wait(), PATIENCE)

    asyncio.run(main())
    assert service.worked == Worked(completed=1)


@pytest.mark.parametrize("what", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException])
def test_whatever_an_async_handler_raises_is_a_failed_attempt(lone: Queue, what: type[BaseException]) -> None:
    service = serving(lone)

    @service.handler("A", tries=1)
    async def handler(job: AsyncAttempt) -> None:
        await job.progress(1, 2)
        raise what

    async def main() -> None:
        lone.dispatch("A")
        watching = ended(service, 1)
        await service.serve()
        await watching

    asyncio.run(main())
    assert service.worked == Worked(failed=1)
    (failed,) = lone.failed()
    assert failed.error == what.__name__
    assert "raise what" in failed.traceback


def test_an_interrupt_that_a_handler_raises_in_another_thread_s_loop_is_a_failed_attempt(lone: Queue) -> None:
    service = serving(lone)

    @service.handler("A", tries=1)
    async def handler(job: AsyncAttempt) -> None:
        service.stop()
        raise KeyboardInterrupt

    lone.dispatch("A")
    thread = threading.Thread(target=service.run)
    thread.start()
    thread.join(PATIENCE)
    assert service.worked == Worked(failed=1)


def test_what_is_left_running_by_a_handler_can_ask_for_nothing_any_more(lone: Queue) -> None:
    service, said = serving(lone), []

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        left.append(asyncio.create_task(later(job)))

    async def later(job: AsyncAttempt) -> None:
        while not service.worked.completed:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.002)
        with pytest.raises(RuntimeError, match="its attempt is over") as refused:
            await job.extend(1.0)
        said.append(refused)
        service.stop()

    left: list[asyncio.Task[None]] = []

    async def main() -> None:
        lone.dispatch("A")
        await service.serve()
        await left[0]

    asyncio.run(main())
    assert len(said) == 1


# -- how it stops --


def test_cancelling_finishes_the_jobs_in_hand_and_takes_no_other(queue: Queue) -> None:
    service = serving(queue, concurrency=1)

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @service.handler("A")
        async def handler(job: AsyncAttempt) -> None:
            begun.set()
            await may_end.wait()

        await asyncio.to_thread(queue.dispatch_many, [("A", 1), ("A", 2)])
        task = asyncio.create_task(service.serve())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())
    assert service.worked == Worked(completed=1)
    assert queue.counts() == Counts(ready=1)


def test_cancelling_again_gives_the_jobs_back_with_their_attempts_counted(queue: Queue) -> None:
    service = serving(queue, concurrency=2)
    blocked, may_end = threading.Event(), threading.Event()

    async def main() -> None:
        begun = asyncio.Event()

        @service.handler("A")
        async def handler(job: AsyncAttempt) -> None:
            begun.set()
            await asyncio.Event().wait()

        @service.handler("B")
        def blocks(job: Attempt) -> None:
            blocked.set()
            assert eventually(may_end)

        await asyncio.to_thread(queue.dispatch_many, [("A", 1), ("B", 2)])
        task = asyncio.create_task(service.serve())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        assert await asyncio.to_thread(eventually, blocked)
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        assert [(job.payload, job.attempts) for job in await asyncio.to_thread(queue.jobs, "ready")] == [(1, 1)]
        assert [job.payload for job in await asyncio.to_thread(queue.jobs, "reserved")] == [2]
        may_end.set()

    asyncio.run(main())
    assert service.worked == Worked(released=1)


def test_a_job_whose_reservation_was_under_way_is_not_lost_by_a_cancellation(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, ran = serving(queue), []
    asked, may_answer = threading.Event(), threading.Event()
    real = queue.driver.reserve

    def reserve(*args: Any, **how: Any) -> Any:
        asked.set()
        assert eventually(may_answer)
        return real(*args, **how)

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        ran.append(job.id)

    async def main() -> None:
        await asyncio.to_thread(queue.dispatch, "A")
        monkeypatch.setattr(queue.driver, "reserve", reserve)
        task = asyncio.create_task(service.serve())
        assert await asyncio.to_thread(eventually, asked)
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())
    assert ran == [1]
    assert queue.counts() == Counts()


def test_a_loop_that_ends_gives_back_what_its_service_has_in_hand(lone: Queue) -> None:
    service = serving(lone, concurrency=1)

    async def main() -> None:
        begun = asyncio.Event()

        @service.handler("A")
        async def handler(job: AsyncAttempt) -> None:
            begun.set()
            await asyncio.Event().wait()

        lone.dispatch("A")
        left.append(asyncio.create_task(service.serve()))
        await asyncio.wait_for(begun.wait(), PATIENCE)

    left: list[asyncio.Task[Worked]] = []
    asyncio.run(main())
    assert [job.attempts for job in lone.jobs("ready")] == [1]


def test_a_loop_that_ends_loses_no_job_whose_reservation_was_under_way(
    lone: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, real = serving(lone), lone.driver.reserve
    asked, may_answer = threading.Event(), threading.Event()

    def reserve(*args: Any, **how: Any) -> Any:
        asked.set()
        assert eventually(may_answer)
        return real(*args, **how)

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None: ...

    async def lets_it_answer_when_the_loop_ends() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            may_answer.set()

    async def main() -> None:
        monkeypatch.setattr(lone.driver, "reserve", reserve)
        lone.dispatch("A")
        left.extend(map(asyncio.create_task, (service.serve(), lets_it_answer_when_the_loop_ends())))
        assert await asyncio.to_thread(eventually, asked)

    left: list[asyncio.Task[Any]] = []
    asyncio.run(main())
    assert lone.counts() == Counts(ready=1)


def test_a_service_has_a_loop_of_its_own_where_none_runs_and_the_first_ctrl_c_stops_it(lone: Queue) -> None:
    service = serving(lone)

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        signal.raise_signal(signal.SIGINT)

    lone.dispatch("A")
    lone.dispatch_later("A", delay=1.0)
    before = signal.getsignal(signal.SIGINT)
    assert service.run() == Worked(completed=1)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_ctrl_c_interrupts_and_the_job_is_given_back(lone: Queue) -> None:
    service = serving(lone, concurrency=1)  # else a reservation that is under way may take it once more

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    lone.dispatch("A")
    with pytest.raises(KeyboardInterrupt):
        service.run()
    assert [job.attempts for job in lone.jobs("ready")] == [1]


def test_run_is_refused_in_a_loop_with_the_way_out(lone: Queue) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="use `await service.serve\\(\\)`"):
            serving(lone).run()

    asyncio.run(main())


def test_a_service_serves_once(lone: Queue) -> None:
    service = serving(lone)
    service.stop()
    assert service.run() == Worked()
    with pytest.raises(RuntimeError, match="make another WorkerService"):
        service.run()


# -- what does not end it --


def test_a_service_outlives_whatever_its_store_raises_and_says_so_once(
    lone: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, real = serving(lone), lone.driver.reserve
    troubles: list[Exception] = [DriverUnavailable("gone"), OSError("odd"), DriverUnavailable("gone")]

    def reserve(*args: Any, **how: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return real(*args, **how)

    @service.handler("A")
    async def handler(job: AsyncAttempt) -> None:
        service.stop()

    monkeypatch.setattr("qlab.patience.FIRST_WAIT", 0.001)
    monkeypatch.setattr(lone.driver, "reserve", reserve)
    lone.dispatch("A")
    with heard() as log:
        assert service.run() == Worked(completed=1)
    assert (log.count("its store is away"), log.count("its store is back")) == (1, 1)


def test_a_service_whose_queue_is_closed_ends_and_says_so(lone: Queue) -> None:
    lone.close()
    with heard() as log:
        assert serving(lone).run() == Worked()
    assert log.count("its queue is closed, so it ends") == 1


# -- what it refuses --


def test_an_async_handler_of_a_stepped_queue_is_refused_with_the_way_out(lone: Queue) -> None:
    async def handler(job: Attempt) -> None: ...

    with pytest.raises(TypeError, match=r"'A' is an async function.*use def, or WorkerService\(queue\).handler"):
        lone.handler("A")(handler)  # type: ignore[arg-type]


def test_a_service_s_handler_that_is_stepped_by_hand_fails_its_attempt_and_says_who_runs_it(lone: Queue) -> None:
    service = serving(lone, poll=60.0)

    @service.handler("A", tries=1)
    async def handler(job: AsyncAttempt) -> None: ...

    lone.dispatch("A")
    lone.work_once()

    async def main() -> None:
        async with service:
            lone.dispatch_later("A", delay=5.0)
            lone.work_once(5.0)  # in the loop's own thread: to wait there would be for ever

    asyncio.run(main())
    says = "its WorkerService runs it while it serves, and no step by hand can"
    error = f"InternalHandlerError: the handler of 'A' is an async function: {says}"
    assert [failed.error for failed in lone.failed()] == [error, error]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"concurrency": 0}, "concurrency is 0: use how many jobs are in hand at once, from 1"),
        ({"concurrency": True}, "concurrency is True"),
        ({"recover": "all"}, "recover is 'all': use 'expired', 'force' or None"),
        ({"poll": 0}, "poll is 0: use a number of seconds above 0"),
        ({"jitter": 2}, "jitter is 2: use a share of the wait, from 0 to 1"),
    ],
)
def test_what_a_service_cannot_be_made_of_is_refused(lone: Queue, how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WorkerService(lone, **how)


def test_a_service_is_given_a_queue_and_no_address_and_functions_as_handlers(lone: Queue) -> None:
    with pytest.raises(TypeError, match="a service works a Queue, not 'memory://'"):
        WorkerService("memory://")  # type: ignore[arg-type]

    async def steps(job: Attempt) -> Any:
        yield 1.0

    with pytest.raises(TypeError, match="'A' is an async function"):
        WorkerService(lone).handler("A")(steps)
