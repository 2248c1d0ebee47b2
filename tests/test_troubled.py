"""A store's troubles, made to happen at moments that a test chooses."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import QUEUE, fail, outcomes, push, snapshot, stores, take, told

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Counts, Driver, Mark
from qlab.drivers.troubled import Troubled
from qlab.errors import DriverUnavailable, ReplyLost
from qlab.faults import Away, Crash, Locked, LostReply
from qlab.flaws import SweepsItsOwn
from qlab.job import NewJob

store = stores("memory", "sqlite-memory", "redis_list-valkey")

Verb = Callable[[Driver, Any], object]

WRITING: dict[str, Verb] = {
    "push": lambda driver, held: push(driver, "B", now=10.0),
    "reserve": lambda driver, held: driver.reserve(QUEUE, now=10.0, retry_after=90.0),
    "complete": lambda driver, held: driver.complete(held, now=10.0),
    "complete_and_reserve": lambda driver, held: driver.complete_and_reserve(held, now=10.0, retry_after=90.0),
    "release": lambda driver, held: driver.release(held, now=10.0, delay=5.0),
    "extend": lambda driver, held: driver.extend(held, now=10.0, seconds=500.0),
    "fail": lambda driver, held: fail(driver, held, now=10.0),
    "recover": lambda driver, held: driver.recover(QUEUE, now=10.0, force=True),
    "clear": lambda driver, held: driver.clear(QUEUE, now=10.0),
    "retry": lambda driver, held: driver.retry(QUEUE, [1], now=10.0),
    "forget": lambda driver, held: (driver.progress(held, now=10.0, done=0, total=1), driver.forget(QUEUE, [1])),
}
READING: dict[str, Verb] = {
    "counts": lambda driver, held: driver.counts(QUEUE, now=10.0),
    "jobs": lambda driver, held: driver.jobs(QUEUE, now=10.0),
    "next_due": lambda driver, held: driver.next_due(QUEUE, now=10.0),
    "check": lambda driver, held: driver.check(QUEUE, now=10.0),
}
LOSING = ("push", "reserve", "complete", "release", "fail")


@pytest.fixture
def plain(open_again: Callable[[], Driver]) -> Driver:
    """A store with a job that failed, one that is reserved and one that waits."""
    driver = open_again()
    push(driver, "F", "A", "W")
    assert fail(driver, take(driver))
    return driver


@pytest.mark.parametrize("trouble", [Away(10.0, 5.0), Locked(10.0, 31.0)], ids=["away", "locked"])
@pytest.mark.parametrize("verb", [*WRITING, *READING])
def test_a_store_that_cannot_be_reached_refuses_each_verb_and_does_nothing(
    plain: Driver, verb: str, trouble: Away | Locked
) -> None:
    driver, held = Troubled(plain, [trouble], lock_wait=30.0), take(plain)
    before = snapshot(plain, now=10.0)
    with pytest.raises(DriverUnavailable, match="nothing was done") as refused:
        (WRITING | READING)[verb](driver, held)
    assert not isinstance(refused.value, ReplyLost)
    assert snapshot(plain, now=10.0) == before


@pytest.mark.parametrize("verb", ["failed", "failed_ids", "forget"])
def test_a_verb_that_is_told_no_moment_goes_by_the_last_one(plain: Driver, verb: str) -> None:
    driver = Troubled(plain, [Away(10.0, 5.0)])
    ask = {"forget": lambda: driver.forget(QUEUE, [])}.get(verb, lambda: getattr(driver, verb)(QUEUE))
    ask()
    with pytest.raises(DriverUnavailable):
        driver.counts(QUEUE, now=12.0)
    with pytest.raises(DriverUnavailable, match="until 15 s"):
        ask()
    driver.counts(QUEUE, now=15.0)
    ask()


@pytest.mark.parametrize(("now", "refused"), [(9.999999, False), (10.0, True), (14.999999, True), (15.0, False)])
def test_a_store_is_away_from_its_moment_until_it_is_back(plain: Driver, now: float, refused: bool) -> None:
    driver = Troubled(plain, [Away(10.0, 5.0)])
    if not refused:
        assert driver.counts(QUEUE, now=now).depth == 2
        return
    with pytest.raises(DriverUnavailable) as error:
        driver.counts(QUEUE, now=now)
    assert "the store is away until 15 s, counts came at" in str(error.value)


@pytest.mark.parametrize(
    ("faults", "now", "opens"),
    [
        ([], 3.0, 3.0),
        ([Locked(10.0, 5.0)], 9.999999, 9.999999),
        ([Locked(10.0, 5.0)], 10.0, 15.0),
        ([Locked(10.0, 5.0)], 15.0, 15.0),
        ([Locked(10.0, 30.0)], 10.0, 40.0),
        ([Locked(10.0, 30.000001)], 10.0, 10.0),  # it would be waited for in vain
        ([Locked(10.0, 40.0)], 20.0, 50.0),
        ([Locked(15.0, 5.0), Locked(10.0, 5.0), Locked(18.0, 1.0)], 12.0, 20.0),
        ([Locked(10.0, 20.0), Locked(30.0, 20.0)], 15.0, 15.0),
        ([Away(10.0, 5.0)], 10.0, 10.0),
    ],
)
def test_a_lock_tells_until_when_it_is_waited_for(
    faults: list[Away | Locked], now: float, opens: float, plain: Driver
) -> None:
    assert Troubled(plain, faults, lock_wait=30.0).opens_at(now) == opens


@pytest.mark.parametrize("verb", [*WRITING, *READING])
def test_a_lock_that_is_waited_for_lets_each_verb_through(plain: Driver, verb: str) -> None:
    driver, held = Troubled(plain, [Locked(10.0, 30.0)], lock_wait=30.0), take(plain)
    before = snapshot(plain, now=10.0)
    (WRITING | READING)[verb](driver, held)
    assert (snapshot(plain, now=10.0) != before) == (verb in WRITING)


def test_a_store_that_is_away_once_its_lock_is_gone_refuses_who_waited_for_it(plain: Driver) -> None:
    driver = Troubled(plain, [Locked(10.0, 5.0), Away(15.0, 5.0)])
    assert driver.opens_at(12.0) == 15.0
    with pytest.raises(DriverUnavailable, match="away until 20 s, counts came at 12 s"):
        driver.counts(QUEUE, now=12.0)


def test_a_lock_is_waited_for_as_long_as_the_store_itself_would(tmp_path: Any) -> None:
    with drivers.open(f"sqlite:///{tmp_path}/jobs.db?lock_wait=2") as sqlite, drivers.open("memory://") as memory:
        assert Troubled(sqlite, ()).lock_wait == 2.0
        assert Troubled(Troubled(sqlite, ()), ()).lock_wait == 2.0
        assert Troubled(memory, ()).lock_wait == 30.0
        with pytest.raises(ValueError, match="lock_wait is -1 s"):
            Troubled(memory, (), lock_wait=-1)


@pytest.mark.parametrize("verb", LOSING)
def test_a_lost_reply_is_of_a_verb_that_was_carried_out(plain: Driver, verb: str) -> None:
    driver, held = Troubled(plain, [LostReply(verb, at=10.0)]), take(plain)
    before = snapshot(plain, now=10.0)
    with pytest.raises(ReplyLost, match=f"the store did {verb} at 10 s, and its reply was lost"):
        WRITING[verb](driver, held)
    assert snapshot(plain, now=10.0) != before
    WRITING["push"](driver, None)
    assert driver.reserve(QUEUE, now=10.0, retry_after=90.0)  # one reply was to be lost, no more


def test_a_reply_is_lost_only_of_its_verb_from_its_moment_on_about_its_handler_and_so_often(plain: Driver) -> None:
    driver = Troubled(plain, [LostReply("push", at=10.0, times=2, handler="B")])
    heard = []
    for now, names in ((9.0, "B"), (10.0, "A"), (11.0, "AB"), (12.0, "A"), (13.0, "B"), (14.0, "B")):
        try:
            push(driver, *names, now=now)
            heard.append("jobs")
        except ReplyLost:
            heard.append("lost")
    assert heard == ["jobs", "jobs", "lost", "jobs", "lost", "jobs"]
    assert driver.counts(QUEUE, now=14.0).ready == 2 + 7


def test_without_a_number_every_reply_is_lost(plain: Driver) -> None:
    driver = Troubled(plain, [LostReply("push", times=None)])
    for _ in range(20):
        with pytest.raises(ReplyLost):
            push(driver, "A")
    assert plain.counts(QUEUE, now=0.0).ready == 22


@pytest.mark.parametrize("verb", ["reserve", "complete", "release", "fail", "complete_and_reserve"])
def test_the_reply_of_a_verb_that_found_nothing_to_do_is_not_lost(plain: Driver, verb: str) -> None:
    lossy = [LostReply(each) for each in LOSING]
    driver, held = Troubled(plain, lossy), take(plain)
    plain.clear(QUEUE, now=5.0)
    assert WRITING[verb](driver, held) in ([], False, (False, None))
    push(plain, "A", now=10.0)
    with pytest.raises(ReplyLost):
        driver.reserve(QUEUE, now=10.0, retry_after=90.0)


@pytest.mark.parametrize(("verb", "handler"), [("complete", "A"), ("reserve", "W")])
def test_one_call_that_completes_and_reserves_has_two_replies_to_lose(plain: Driver, verb: Any, handler: str) -> None:
    held, other = take(plain), {"A": "W", "W": "A"}[handler]
    driver = Troubled(plain, [LostReply(verb, handler=other), LostReply(verb, handler=handler)])
    with pytest.raises(ReplyLost, match=verb):
        driver.complete_and_reserve(held, now=1.0, retry_after=90.0)
    assert plain.counts(QUEUE, now=1.0) == Counts(reserved=1, failed=1)
    assert driver.on(plain).complete(held, now=1.0) is False


def test_the_same_trouble_goes_on_before_another_store(plain: Driver) -> None:
    driver = Troubled(plain, [LostReply("push", times=2), Locked(10.0, 5.0)], lock_wait=3.0)
    with pytest.raises(ReplyLost):
        push(driver, "A")
    with drivers.open("memory://") as memory:
        branch = driver.on(memory)
        assert (branch.faults, branch.lock_wait, branch.store) == (driver.faults, 3.0, memory)
        for each in (branch, driver):
            with pytest.raises(ReplyLost):
                push(each, "A")
            assert push(each, "A")


def test_a_scenarios_other_faults_are_left_alone(plain: Driver) -> None:
    assert Troubled(plain, [Crash("A"), Away(1.0, 2.0)]).faults == (Away(1.0, 2.0),)


def test_several_threads_lose_no_more_replies_than_there_are(plain: Driver) -> None:
    driver, together, lost = Troubled(plain, [LostReply("push", times=10)]), threading.Barrier(4), []

    def dispatch(number: int) -> None:
        together.wait(60)
        for n in range(10):
            try:
                driver.push(QUEUE, [NewJob(f"{number * 100 + n:032x}", "A", "null", 0.0)], now=0.0)
            except ReplyLost:
                lost.append(number)

    threads = [threading.Thread(target=dispatch, args=(1 + number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(lost) == 10
    assert plain.counts(QUEUE, now=0.0).ready == 2 + 40


def test_what_is_no_business_of_trouble_goes_through(plain: Driver) -> None:
    driver = Troubled(plain, [Away(0.0, 100.0)])
    assert (driver.url, driver.name, driver.order, driver.wakes) == (plain.url, plain.name, plain.order, plain.wakes)
    assert (driver.description, driver.durability, driver.private) == (
        plain.description,
        plain.durability,
        plain.private,
    )
    assert driver.store is plain
    driver.mark(QUEUE, Mark("alive", "worker 1", 5.0))
    assert plain.marks(QUEUE) == driver.marks(QUEUE)
    driver.unmark(QUEUE, "alive", "worker 1")
    assert plain.marks(QUEUE) == []


# -- a queue on it --


def test_a_flaw_behind_it_hears_who_calls() -> None:
    with SweepsItsOwn() as flaw:
        queue = Queue(Troubled(Troubled(flaw, ()), ()), clock=SimulatedClock(), name=QUEUE)
        queue.handler("A")(lambda job: None)
        queue.dispatch_many([("A", 1), ("A", 2)])
        for worker in ("worker 1", "worker 2"):
            queue.reserve(worker=worker)
        queue.recover(worker="worker 1")
        assert queue.counts() == Counts(ready=1, reserved=1)


def test_a_queue_whose_reply_was_lost_leaves_the_end_unknown_and_the_job_done(plain: Driver) -> None:
    queue = Queue(Troubled(plain, [LostReply("complete", handler="A")]), clock=SimulatedClock(), name="other")
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    assert outcomes(queue, 0.0) == ["Unknown"]
    assert queue.counts() == Counts()
    assert told(queue, "superseded") == []


def test_in_simulated_time_a_store_that_is_away_is_told_again_without_real_waiting(
    plain: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(Troubled(plain, [Away(10.0, 5.0)]), clock=SimulatedClock(), name="other")
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    held = queue.reserve(5.0)
    assert held
    monkeypatch.setattr("qlab.steps.pause", pytest.fail)
    assert type(queue.finish(held, 10.0)).__name__ == "Unknown"
    assert queue.counts() == Counts(reserved=1)
