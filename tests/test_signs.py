"""What workers leave in their store for a checkup, and that no work hangs on it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, SHARED, only
from watching import Watched

from qlab import Queue, SimulatedClock, WorkerService
from qlab.driver import Counts, Driver, Mark
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.signs import ALIVE, RUN, Signs


def marks(driver: Driver, kind: str) -> dict[str, float]:
    return {mark.name: mark.value for mark in driver.marks(QUEUE) if mark.kind == kind}


@only(*SHARED)
def test_a_worker_is_seen_alive_from_elsewhere_until_it_ends(queue: Queue, open_again: Callable[[], Driver]) -> None:
    other = open_again()
    with Watched(queue, name="w1") as one, Watched(queue, name="w1") as two:
        one.until_idle()
        two.until_idle()
        names = sorted(marks(other, ALIVE))
        assert [name.partition("@")[0] for name in names] == ["w1", "w1"]
        assert len(set(names)) == 2
    assert marks(other, ALIVE) == {}


def test_a_worker_promises_to_come_by_again_before_its_mark_ends(queue: Queue) -> None:
    Signs(queue, "w", 60.0).alive()
    (until,) = marks(queue.driver, ALIVE).values()
    assert until > queue.clock.now() + 60.0


def test_a_worker_that_was_killed_long_ago_is_forgotten_by_the_next(queue: Queue, clock: SimulatedClock) -> None:
    queue.driver.mark(QUEUE, Mark(ALIVE, "killed", 10.0))
    queue.driver.mark(QUEUE, Mark(ALIVE, "killed lately", 80_000.0))
    queue.driver.mark(QUEUE, Mark(RUN, "send", 10.0))
    clock.advance(90_000.0)
    Signs(queue, "w", 1.0).alive()
    assert [name.partition("@")[0] for name in marks(queue.driver, ALIVE)] == ["killed lately", "w"]
    assert marks(queue.driver, RUN) == {"send": 10.0}


@only(*ONE_OF_EACH)
def test_the_longest_run_of_each_handler_is_kept(queue: Queue) -> None:
    def takes(job: Attempt) -> Any:
        yield job.payload
        assert job.payload != 3.0

    def extends(job: Attempt) -> Any:
        yield 80.0
        job.extend(90.0)
        yield 80.0

    queue.handler("A", tries=1)(takes)
    queue.handler("B")(takes)
    queue.handler("C")(extends)
    for name, seconds in (("A", 2.0), ("A", 3.0), ("A", 1.0), ("B", 95.0), ("C", None)):
        queue.dispatch(name, seconds)
    with Watched(queue) as worker:
        worker.until_idle()
    assert marks(queue.driver, RUN) == {"A": 3.0, "B": 95.0}


@only(*ONE_OF_EACH)
def test_a_service_leaves_the_same_signs(queue: Queue) -> None:
    seen: list[dict[str, float]] = []
    service = WorkerService(queue, name="s", poll=0.01)

    async def takes(job: Any) -> None:
        queue.clock.advance(job.payload)  # type: ignore[attr-defined]
        seen.append(await asyncio.to_thread(marks, queue.driver, ALIVE))
        if job.payload == 7.0:
            await job.extend(90.0)
        service.stop()

    service.handler("A")(takes)
    service.handler("B")(takes)
    queue.dispatch("A", 3.0)
    service.run()
    queue.dispatch("B", 7.0)
    service = WorkerService(queue, name="s", poll=0.01)
    service.handler("B")(takes)
    service.run()
    assert [[name.partition("@")[0] for name in each] for each in seen] == [["s"], ["s"]]
    assert marks(queue.driver, ALIVE) == {}
    assert marks(queue.driver, RUN) == {"A": 3.0}


def test_a_busy_worker_writes_no_mark_for_each_job(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", None)] * 200)
    marked: list[Mark] = []
    real = queue.driver.mark
    queue.driver.mark = lambda name, mark: (marked.append(mark), real(name, mark))  # type: ignore[assignment]
    with Watched(queue) as worker:
        worker.until_idle()
    assert queue.counts() == Counts()
    assert 1 <= len(marked) < 50


@pytest.mark.parametrize("verb", ["mark", "unmark", "marks"])
@pytest.mark.parametrize("error", [DriverUnavailable("away"), ZeroDivisionError("boom")], ids=repr)
@only(*ONE_OF_EACH)
def test_no_job_and_no_worker_hangs_on_a_mark(
    queue: Queue, verb: str, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise error

    monkeypatch.setattr(queue.driver, verb, away)
    ran = []
    queue.handler("A")(lambda job: ran.append(job.payload))
    queue.dispatch_many([("A", number) for number in range(3)])
    with Watched(queue) as worker:
        worker.until_idle()
    assert ran == [0, 1, 2]
    assert "away" not in caplog.text


def test_a_clock_that_goes_wrong_costs_no_job(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: object) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(Queue, "reserved_until", wrong)
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    with Watched(queue) as worker:
        worker.until_idle()
    assert queue.counts() == Counts()
