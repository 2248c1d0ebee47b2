"""A person at the keyboard, and a queue that another thread closes: nothing is torn, stranded or crashed."""

import itertools
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, STAGED, new, only, push, snapshot, take
from interrupted import Interrupt
from verbs import assert_sound

from qlab import Queue, drivers
from qlab.driver import Counts, Driver, Statement
from qlab.errors import QueueClosed, ReplyLost
from qlab.trace import Event, Kind, Trace


class Interrupting:
    """A number that is interrupted while it is read."""

    def __index__(self) -> int:
        raise KeyboardInterrupt


@pytest.mark.parametrize("column", ["job", "attempt"])
def test_an_interrupt_leaves_no_event_half_recorded(column: str) -> None:
    trace = Trace()
    trace.record(1.0, Kind.DISPATCHED, 1, "A", until=1.0)
    with pytest.raises(KeyboardInterrupt):
        trace.record(2.0, Kind.RESERVED, **{"job": 2, column: Interrupting()})
    assert [event.at for event in trace] == [1.0]
    trace.record(3.0, Kind.COMPLETED, 1, "A")
    assert [(event.at, event.kind) for event in trace] == [(1.0, "dispatched"), (3.0, "completed")]


def test_an_event_torn_by_an_interrupt_in_the_clean_up_is_dropped_with_the_next() -> None:
    trace = Trace()
    trace.record(1.0, Kind.DISPATCHED, 1, "A")
    trace._at.append(2_000_000)  # noqa: SLF001 - as an interrupt between two columns leaves it
    assert len(trace) == 1
    assert {len(column) for column in trace.columns()[0].values()} == {1}
    trace.record(3.0, Kind.COMPLETED, 1, "A")
    assert [(event.at, event.kind) for event in trace] == [(1.0, "dispatched"), (3.0, "completed")]


def test_ctrl_c_at_any_place_of_recording_and_reading_loses_no_event_and_doubles_none() -> None:
    told = [Event(float(at), Kind.DISPATCHED, at, f"A{at}", until=float(at)) for at in range(4)]
    for place in itertools.count():
        trace, interrupt = Trace(told[:3]), Interrupt(place)
        with suppress(KeyboardInterrupt):
            sys.settrace(interrupt)
            trace.record(*told[3])
            trace.columns()
        sys.settrace(None)
        assert list(trace) in (told[:3], told), interrupt.where
        trace.record(*told[0])
        assert len(trace) == len(list(trace)) in (4, 5)
        if not interrupt.where:
            break
    assert place > 20


@only("memory", "memory-arrival")
def test_a_job_whose_reservation_was_interrupted_is_there_for_the_next(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(driver, "a", "b")

    def interrupted() -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(driver._tokens, "next", interrupted)  # type: ignore[attr-defined]  # noqa: SLF001
        with pytest.raises(KeyboardInterrupt):
            take(driver)
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=2)
    assert [take(driver).job.name, take(driver).job.name] == ["a", "b"]


@only("sqlite", "sqlite-memory")
@pytest.mark.parametrize("verb", ["begin", "push", "commit"])
def test_an_interrupted_transaction_is_undone_and_holds_no_lock(driver: Driver, verb: str) -> None:
    def interrupt(seen: Statement) -> None:
        if seen.verb == verb:
            raise KeyboardInterrupt

    driver.listen(interrupt)
    with pytest.raises(KeyboardInterrupt):
        push(driver, "a")
    driver._listeners.clear()  # noqa: SLF001 - the interrupt is over
    assert driver.counts(QUEUE, now=0.0) == Counts()
    assert [job.name for job in push(driver, "b")] == ["b"]
    with drivers.open(driver.url) as other:
        other.push(QUEUE, [new("c")], now=0.0)


@pytest.mark.timeout(600)
@only(*ONE_OF_EACH, "sqlite-memory")
def test_ctrl_c_at_any_place_of_any_verb_leaves_nothing_half_done(address: str, deep: bool, tmp_path: Path) -> None:
    """A real SIGINT, in a process of its own, wherever Python looks for signals within qlab."""
    every = 1 if deep or not address.startswith("redis") else 31
    program = Path(__file__).with_name("interrupted.py")
    done = subprocess.run([sys.executable, program, address, str(every)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places, *half_done = done.stdout.splitlines()
    assert half_done == []
    assert int(places) > 100
    for file in tmp_path.glob("*.db"):
        assert_sound(file)


@only("redis_zset-valkey", "redis_list-valkey")
@pytest.mark.parametrize("at", ["send_packed_command", "read_response"])
def test_an_answer_that_an_interrupt_left_on_its_way_is_no_other_question_s(
    driver: Any, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """It comes a second later: one that is there at once would be seen before the next question."""
    push(driver, "a")
    (connection,) = driver._client._idle  # noqa: SLF001 - to interrupt it in the middle
    real = getattr(connection, at)

    def interrupted(*words: Any) -> None:
        if at == "send_packed_command":
            real(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, at, interrupted)
        with pytest.raises(KeyboardInterrupt):
            driver.wait("another", 1.0)
    assert take(driver).job.name == "a"


@only(*ONE_OF_EACH)
def test_a_driver_that_another_thread_closes_says_so_and_crashes_nothing(driver: Driver) -> None:
    queue = Queue(driver, name=QUEUE)
    queue.handler("send")(lambda job: None)
    started, ended = threading.Barrier(4), []

    def work() -> None:
        started.wait(30.0)
        try:
            while True:
                queue.dispatch("send")
                queue.drain()
        except (QueueClosed, ReplyLost) as error:
            ended.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait(30.0)
    queue.close()
    for thread in threads:
        thread.join(60.0)
    assert len(ended) == 3


@only(*STAGED)
def test_a_retry_that_died_half_way_is_not_made_twice_by_a_stranger_with_another_file(
    driver: Any, tmp_path: Any
) -> None:
    """The default file is the working folder's, so two processes may use one store with two files."""
    push(driver, "a")
    held = take(driver)
    driver.fail(held, now=0.0, attempts=1, error="boom")
    (row,) = driver.failed(QUEUE)
    driver._again(QUEUE, [row], 0)  # noqa: SLF001 - and there the process dies
    stranger, mine = type(driver.failed_jobs)(f"sqlite:///{tmp_path}/stranger.db"), driver.failed_jobs
    stranger.database()
    driver.failed_jobs = stranger
    assert driver.failed_ids(QUEUE) == []
    driver.failed_jobs = mine
    stranger.close()
    assert driver.complete(take(driver), now=0.0)
    assert driver.failed_ids(QUEUE) == []
    assert snapshot(driver, now=0.0).counts == Counts()


def test_one_job_is_not_given_twice_by_one_call(driver: Driver) -> None:
    push(driver, "a")
    (held,) = driver.reserve(QUEUE, now=0.0, retry_after=10.0)
    assert driver.extend(held, now=0.0, seconds=10.0)
    assert [each.job.attempts for each in driver.reserve(QUEUE, now=10.0, retry_after=10.0, limit=2)] == [2]
