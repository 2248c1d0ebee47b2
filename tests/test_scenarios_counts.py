"""Scenarios of the bug catalogue: what is counted, and that nothing stays counted."""

from collections.abc import Callable

import pytest
from conftest import QUEUE, Store, fail, push, snapshot, take

from qlab import Queue
from qlab.driver import Counts, Driver
from qlab.job import JobState

ENDS: dict[str, Callable[[Driver], object]] = {
    "complete": lambda driver: driver.complete(take(driver), now=5.0),
    "complete and reserve": lambda driver: driver.complete_and_reserve(take(driver), now=5.0, retry_after=90.0),
    "complete late": lambda driver: driver.complete(take(driver, retry_after=1.0), now=500.0),
    "fail": lambda driver: fail(driver, take(driver), now=5.0),
    "fail late": lambda driver: fail(driver, take(driver, retry_after=1.0), now=500.0),
    "clear": lambda driver: take(driver) and driver.clear(QUEUE, now=5.0),
}


@pytest.mark.scenario("B47")
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_has_ended_is_never_called_abandoned(driver: Driver, end: str, force: bool) -> None:
    push(driver, "A")
    assert ENDS[end](driver)
    before = snapshot(driver, now=1000.0)
    assert driver.recover(QUEUE, now=1000.0, force=force) == []
    assert driver.reserve(QUEUE, now=1000.0, retry_after=90.0, limit=10) == []
    assert snapshot(driver, now=1000.0) == before
    assert before.counts == Counts(failed=1 if "fail" in end else 0)


@pytest.mark.scenario("B47")
def test_a_job_that_went_well_is_not_found_by_a_cleanup(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    queue.work_once()
    queue.clock.spend(1000.0)
    assert queue.recover() == []
    assert (queue.counts(), queue.failed()) == (Counts(), [])


@pytest.mark.scenario("B60")
@pytest.mark.parametrize("end", ["complete", "release", "fail", "recover", "clear"])
def test_counts_are_what_is_there_whoever_crashed_or_came_back(
    driver: Driver, open_again: Callable[[], Driver], store: Store, end: str
) -> None:
    def reopened() -> Driver:
        return open_again() if store.shared else driver

    push(driver, "A")
    take(driver)
    assert reopened().counts(QUEUE, now=0.0) == Counts(reserved=1)
    assert reopened().counts(QUEUE, now=89.0) == Counts(reserved=1)
    assert reopened().counts(QUEUE, now=90.0) == Counts(ready=1)
    held = take(reopened(), now=90.0)
    assert reopened().counts(QUEUE, now=90.0) == Counts(reserved=1)
    last = reopened()
    if end == "recover":
        assert last.recover(QUEUE, now=180.0)
    elif end == "clear":
        assert last.clear(QUEUE, now=180.0) == 1
    elif end == "fail":
        assert fail(last, held, now=180.0)
    else:
        assert getattr(last, end)(held, now=180.0)
    left = {"release": Counts(ready=1), "recover": Counts(ready=1), "fail": Counts(failed=1)}.get(end, Counts())
    for each in (driver, last, reopened()):
        assert each.counts(QUEUE, now=180.0) == left
        assert not each.complete(held, now=181.0)
        assert each.counts(QUEUE, now=181.0) == left


@pytest.mark.scenario("B82")
def test_a_queue_that_was_never_used_has_every_state_with_zero(driver: Driver, queue: Queue, store: Store) -> None:
    states = {state.value for state in JobState} - {"done", "lost"}
    for counts in (driver.counts("never used", now=5.0), queue.counts()):
        assert counts._asdict() == dict.fromkeys(states, 0)
        assert counts.depth == 0
        assert counts._repr_html_().count("<td") == len(states) + 1
    push(driver, "A", queue="another")
    assert driver.counts("never used", now=5.0) == queue.counts() == Counts()
