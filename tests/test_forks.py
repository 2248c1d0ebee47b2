"""A process that is forked while threads work: whatever they held, its child can go on."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import QUEUE, failed_one, only, push, take

from qlab import SimulatedClock, drivers
from qlab.clock import pause
from qlab.driver import Driver
from qlab.drivers.failed_jobs import FailedJobs
from qlab.tokens import Tokens
from qlab.trace import Kind, Trace

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),  # which is what this is about
]


def in_a_child(act: Callable[[], object]) -> int:
    """Fork a child and tell how it ended: 0 where it could do it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)  # seconds: it would hang for ever
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_a_child_forked_while_a_thread_holds(lock: threading.Lock, act: Callable[[], object]) -> int:
    held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            may_end.wait(60.0)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60.0)
    status = in_a_child(act)
    may_end.set()
    thread.join(60.0)
    return status


def test_a_child_can_record_and_move_time() -> None:
    trace, clock = Trace(), SimulatedClock()

    def act() -> None:
        trace.record(clock.advance(1.0), Kind.MISSED)
        assert len(trace) == 1

    assert in_a_child_forked_while_a_thread_holds(trace._lock, act) == 0  # noqa: SLF001 - as a thread does that records
    assert in_a_child_forked_while_a_thread_holds(clock._lock, act) == 0  # noqa: SLF001
    act()


def test_a_child_makes_no_name_that_its_parent_makes() -> None:
    tokens, (reading, writing) = Tokens(), os.pipe()
    tokens.next()
    assert in_a_child(lambda: os.write(writing, "".join(tokens.next() for _ in range(300)).encode())) == 0
    with os.fdopen(reading, encoding="ascii") as told:
        os.close(writing)
        names = told.read()
    child = {names[i : i + 32] for i in range(0, len(names), 32)}
    assert len(child) == 300
    assert child.isdisjoint(tokens.next() for _ in range(300))


@pytest.mark.parametrize("order", ["available_at", "arrival"])
def test_a_child_can_read_a_store_in_memory(order: str) -> None:
    with drivers.open(f"memory://?order={order}") as driver:
        lock: threading.Lock = driver._lock  # type: ignore[attr-defined]  # noqa: SLF001 - as a verb does
        assert in_a_child_forked_while_a_thread_holds(lock, lambda: driver.jobs(QUEUE, now=0.0)) == 0
        assert driver.jobs(QUEUE, now=0.0) == []


def test_a_child_that_is_forked_while_a_thread_waits_for_a_job_can_push_and_wait_itself() -> None:
    with drivers.open("memory://") as driver:
        thread = threading.Thread(target=driver.wait, args=(QUEUE, 60.0))
        thread.start()
        while not driver._queues.get(QUEUE) or not driver._queues[QUEUE].waiting:  # type: ignore[attr-defined]  # noqa: SLF001
            pause(0.001)

        def act() -> None:
            push(driver, "a")
            assert driver.wait(QUEUE, 30.0)
            assert take(driver).job.name == "a"

        assert in_a_child(act) == 0
        push(driver, "b")
        thread.join(60.0)
        assert not thread.is_alive()


@only("redis_zset-valkey", "redis_list-valkey")
def test_a_child_asks_its_server_on_a_connection_of_its_own(driver: Any) -> None:
    push(driver, "a", "b")
    made: int = driver.facts()["total_connections_received"]
    assert in_a_child(lambda: take(driver).token) == 0
    assert driver.facts()["total_connections_received"] == made + 1
    assert take(driver).job.name == "b"


@only("redis_zset-valkey", "redis_list-valkey")
def test_a_child_that_is_forked_while_a_thread_opens_failed_jobs_opens_them_itself(
    driver: Driver, open_again: Callable[[], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = failed_one(driver)
    parent, begun, may_go = os.getpid(), threading.Event(), threading.Event()
    real = FailedJobs._open  # noqa: SLF001 - the moment that is meant

    def slow(*args: Any, **how: Any) -> Any:
        begun.set()
        assert os.getpid() != parent or may_go.wait(60.0)
        return real(*args, **how)

    monkeypatch.setattr(FailedJobs, "_open", slow)
    other, seen = open_again(), []

    def look() -> None:
        seen.extend(other.failed(QUEUE))
        assert seen == [row]

    thread = threading.Thread(target=look)
    thread.start()
    assert begun.wait(60.0)
    status = in_a_child(look)
    may_go.set()
    thread.join(60.0)
    assert (status, seen) == (0, [row])
