"""Workers that their store wakes: no job is lost between a wake-up and a reservation, and no token outlives its job."""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DRIVERS, QUEUE, REDIS, only, push, take
from watching import PATIENCE, Watched, eventually, heard
from working import Shop

from qlab import Queue, Worker, workers
from qlab import worker as worker_module
from qlab.clock import monotonic
from qlab.driver import Driver
from qlab.errors import DriverUnavailable
from qlab.worker import Worked

WAKES = tuple(store.name for store in DRIVERS if not store.name.startswith("sqlite"))
wakes = only(*WAKES)
SHORT = 0.01
"""Seconds after which a test takes it that nobody is woken."""
NEVER = 100_000.0
"""A poll that does not come while a test runs, in seconds."""


def woken(driver: Driver, queue: str = QUEUE) -> bool:
    """Wait until it is woken, however often the driver comes back before."""
    until = monotonic() + PATIENCE
    while monotonic() < until:
        if driver.wait(queue, PATIENCE):
            return True
    return False


def asleep(driver: Driver, queue: str = QUEUE) -> bool:
    return not driver.wait(queue, SHORT)


# -- tokens --


@wakes
def test_who_comes_after_a_job_became_ready_is_woken_at_once(driver: Driver) -> None:
    """Else a job that is pushed between a worker's look and its wait would lie there until its next poll."""
    push(driver, "a")
    assert woken(driver)


@wakes
def test_each_way_in_which_a_job_becomes_ready_wakes_somebody(driver: Driver) -> None:
    def fail() -> None:
        driver.fail(take(driver), now=0.0, attempts=1, error="boom")

    ways: dict[str, Callable[[], object]] = {
        "push": lambda: push(driver, "a"),
        "release": lambda: driver.release(take(driver), now=0.0),
        "recover": lambda: (take(driver), driver.recover(QUEUE, now=0.0, force=True)),
        "retry": lambda: (fail(), driver.retry(QUEUE, driver.failed_ids(QUEUE), now=0.0)),
    }
    for way, make_ready in ways.items():
        while driver.wait(QUEUE, SHORT):
            pass
        make_ready()
        assert woken(driver), way


@wakes
def test_a_job_that_may_not_be_reserved_yet_wakes_nobody(driver: Driver) -> None:
    push(driver, "later", at=5.0)
    assert asleep(driver)
    push(driver, "a")
    assert woken(driver)
    assert driver.release(take(driver), now=0.0, delay=1.0)
    assert asleep(driver)


@wakes
def test_as_many_are_woken_as_jobs_became_ready(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    assert [woken(driver) for _ in range(3)] == [True] * 3
    assert asleep(driver)


@wakes
def test_who_finds_nothing_drops_the_tokens_of_jobs_that_are_gone(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    for _ in range(3):
        assert driver.complete(take(driver), now=0.0)
    assert driver.reserve(QUEUE, now=0.0, retry_after=90.0) == []
    assert asleep(driver)


@wakes
def test_a_reservation_of_one_job_leaves_the_tokens_of_the_others(driver: Driver) -> None:
    push(driver, "a", "b")
    take(driver)
    assert driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=0) == []
    assert woken(driver)


@wakes
def test_clear_leaves_no_token_behind(driver: Driver) -> None:
    push(driver, "a", "b")
    assert driver.clear(QUEUE, now=0.0) == 2
    assert asleep(driver)


@wakes
def test_a_queue_s_jobs_wake_nobody_of_another_queue(driver: Driver) -> None:
    push(driver, "a")
    assert asleep(driver, "other")
    assert woken(driver)


@wakes
def test_tokens_that_nobody_takes_do_not_pile_up(driver: Driver) -> None:
    for _ in range(3):
        push(driver, *["a"] * 80)
    taken = 0
    while driver.wait(QUEUE, SHORT):
        taken += 1
    assert taken == 100


@only(*REDIS)
def test_nothing_but_counters_is_left_in_the_server_by_an_empty_queue(driver: Any) -> None:
    push(driver, "a", "b")
    assert driver.complete(take(driver), now=0.0)
    assert driver.complete_and_reserve(take(driver), now=0.0, retry_after=90.0) == (True, None)
    there = [key for key in driver.keys(QUEUE) if driver._client.execute_command("EXISTS", key)]  # noqa: SLF001
    assert [key.rpartition(":")[2] for key in there] == ["counters"]


@only(*(name for name in WAKES if not name.startswith("memory")))
def test_a_job_of_another_process_s_driver_wakes_too(driver: Driver, open_again: Callable[[], Driver]) -> None:
    other, said = open_again(), []
    thread = threading.Thread(target=lambda: said.append(woken(driver)))
    thread.start()
    push(other, "a")
    thread.join(PATIENCE)
    assert said == [True]


@only("sqlite", "sqlite-memory")
def test_sqlite_says_that_it_can_wake_nobody_and_what_to_do(queue: Queue) -> None:
    for ask in (
        lambda: queue.wait(1.0),
        lambda: Worker(queue, wait="notify"),
        lambda: workers(queue, 2, wait="notify"),
    ):
        with pytest.raises(
            ValueError, match=r'cannot wake a worker.*use wait="poll" with a shorter poll, or a redis://'
        ):
            ask()


def test_a_choice_of_waiting_that_is_none_is_refused() -> None:
    with Queue("memory://") as queue, pytest.raises(ValueError, match="wait is 'push': use 'poll' or 'notify'"):
        Worker(queue, wait="push")  # type: ignore[arg-type]


# -- workers --


@wakes
def test_no_job_is_lost_between_a_wake_up_and_a_reservation(queue: Queue) -> None:
    """No worker ever polls here: a job that was missed once would lie there for good."""
    ran: list[int] = []
    each = threading.Semaphore(0)
    queue.handler("A")(lambda job: (ran.append(job.payload), each.release()))
    with workers(queue, 3, poll=NEVER, wait="notify"):
        for number in range(150):
            queue.dispatch("A", number)
            if number % 3 != 1:  # one at a time, and two at once
                while len(ran) <= number:
                    assert each.acquire(timeout=PATIENCE), f"job {number} lies there"
    assert sorted(ran) == list(range(150))


@wakes
def test_a_worker_that_waits_to_be_woken_still_polls(queue: Queue, clock: Any) -> None:
    ran = threading.Event()
    queue.handler("A")(lambda job: ran.set())
    queue.dispatch_later("A", delay=10.0)
    with Watched(queue, wait="notify") as worker:
        worker.until_idle()
        assert not ran.is_set()
        clock.advance(10.0)
        assert eventually(ran)


@wakes
def test_stop_ends_a_wait_to_be_woken(queue: Queue) -> None:
    worker = Watched(queue, poll=NEVER, wait="notify").start()
    worker.until_round(1)
    assert worker.stop(PATIENCE)


@wakes
def test_a_queue_that_is_closed_while_its_worker_waits_ends_it(queue: Queue) -> None:
    with heard() as log:
        worker = Watched(queue, poll=NEVER, wait="notify").start()
        worker.until_round(1)
        queue.close()
        log.until("its queue is closed")
        assert worker.stop(PATIENCE)


@wakes
def test_a_worker_that_cannot_be_woken_says_so_once_and_polls(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    real, problems, ran = queue.driver.wait, iter([DriverUnavailable("away")] * 3), threading.Event()

    def wait(*how: Any) -> bool:
        for problem in problems:
            raise problem
        return real(*how)

    monkeypatch.setattr(queue.driver, "wait", wait)
    monkeypatch.setattr(worker_module, "LONGEST_WAIT", 0.001)
    queue.handler("A")(lambda job: ran.set())
    with heard() as log, Watched(queue, poll=NEVER, wait="notify") as worker:
        worker.until_round(4)
        queue.dispatch("A")
        assert eventually(ran)
    assert worker.worked == Worked(completed=1)
    assert log.count("it cannot be woken, so it polls: DriverUnavailable: away") == 1
    assert log.count("its store is away") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals, nor named pipes")
@only("redis_zset-valkey", "redis_list-valkey")
def test_processes_are_woken_and_still_hear_a_signal(address: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", address)
    with Queue(address, name="mail") as queue, shop.work("--workers", 2, "--poll", 3600, "--wait", "notify") as working:
        queue.handler("quick")(lambda job: None)
        for number in range(5):
            queue.dispatch("quick", number)
            working.until(f"ran {number}")
        working.signal(signal.SIGTERM)
        assert working.end() == 0
    shop.close()
