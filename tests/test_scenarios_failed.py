"""Scenarios of the bug catalogue: retry, forget and clear."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from conftest import QUEUE, Snapshot, failed_one, new, outcomes, snapshot, take, told

from qlab import Queue, Release, SimulatedClock
from qlab.driver import Counts, Driver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import UnknownFailedJob
from qlab.job import Attempt


@pytest.fixture
def broken(queue: Queue) -> Queue:
    """A queue with three failed jobs of a handler that always raises."""

    @queue.handler("A", tries=1)
    def handler(job: Attempt) -> None:
        raise ValueError("boom")

    queue.dispatch_many([("A", number) for number in (1, 2, 3)])
    assert outcomes(queue, 0.0, 0.0, 0.0) == ["Failed"] * 3
    return queue


def ids(queue: Queue) -> list[int]:
    return [row.id or 0 for row in queue.failed()]


@pytest.mark.scenario("B42")
def test_a_retried_job_is_no_failed_job_any_more(broken: Queue) -> None:
    first, *others = ids(broken)
    assert broken.retry(first) == 1
    assert ids(broken) == others
    before = broken.counts()
    with pytest.raises(UnknownFailedJob, match=f"no failed job {first} in the queue 'mail'"):
        broken.retry(first)
    assert broken.counts() == before == Counts(ready=1, failed=2)
    assert [job.payload for job in broken.jobs()] == [1]
    assert told(broken, "retried") == [(0.0, "retried", 1)]


@pytest.mark.scenario("B43")
def test_jobs_that_fail_again_after_a_retry_stay_as_many_and_themselves(broken: Queue) -> None:
    uids = [row.uid for row in broken.failed()]
    assert broken.retry("all") == 3
    assert broken.counts() == Counts(ready=3)
    assert broken.retry("all") == 0
    assert outcomes(broken, 1.0, 1.0, 1.0, 1.0) == ["Failed", "Failed", "Failed", "Idle"]
    assert broken.counts() == Counts(failed=3)
    assert [(row.uid, row.payload, row.failed_at) for row in broken.failed()] == [
        (uid, number, 1.0) for number, uid in enumerate(uids, 1)
    ]
    assert broken.retry("all") == 3
    assert broken.counts() == Counts(ready=3)
    assert [job.uid for job in broken.jobs()] == uids
    assert len(told(broken, "retried")) == 6


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_an_id_that_is_not_there_is_no_success(broken: Queue, verb: str) -> None:
    for id in (999, 0, -1, 2**63 - 1, 2**63, -(10**30)):
        with pytest.raises(UnknownFailedJob, match=rf"{id}.*failed\(\) lists them"):
            getattr(broken, verb)(id)
    assert broken.counts() == Counts(failed=3)
    assert told(broken, "retried", "forgotten") == []


@pytest.mark.scenario("B44")
def test_an_id_that_is_not_there_keeps_no_other_from_being_retried(broken: Queue) -> None:
    one, two, three = ids(broken)
    moved = broken.driver.retry(QUEUE, [one, 999, two], now=0.0)
    assert [id for id, _ in moved] == [one, two]
    assert ids(broken) == [three]


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_all_of_none_is_a_success_of_none(queue: Queue, verb: str) -> None:
    assert getattr(queue, verb)("all") == 0


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_what_is_no_id_is_refused(broken: Queue, verb: str) -> None:
    for id in ("1", None, True, 1.0, [1]):
        with pytest.raises(TypeError, match="is no failed job's id: use an integer, or 'all'"):
            getattr(broken, verb)(id)
    assert broken.counts() == Counts(failed=3)


# -- forget by age --

DAY = 86_400.0
NOW = 10 * DAY


@pytest.mark.scenario("B48")
@pytest.mark.parametrize("apart", [1.0, 1e-6])
@pytest.mark.parametrize("aware", [False, True])
def test_forget_before_a_moment_takes_what_failed_at_that_very_moment(
    driver: Driver, apart: float, aware: bool
) -> None:
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock(NOW, epoch=epoch))
    cut_off = NOW - DAY
    for place, failed_at in enumerate((cut_off - apart, cut_off, cut_off + apart)):
        failed_one(driver, f"{place}", now=failed_at)
    before = epoch + timedelta(seconds=cut_off) if aware else cut_off
    announced = queue.driver.failed_ids(QUEUE, before=cut_off)
    assert queue.forget("all", before=before) == len(announced) == 2
    assert [(row.name, row.failed_at) for row in queue.failed()] == [("2", cut_off + apart)]
    assert queue.counts() == Counts(failed=1)
    assert len(told(queue, "forgotten")) == 2
    assert queue.forget("all", before=before) == 0
    assert queue.forget("all", before=cut_off + apart) == 1


@pytest.mark.scenario("B48")
def test_forget_by_age_reaches_no_other_queue_and_goes_with_all_alone(driver: Driver) -> None:
    queue, other = (Queue(driver, name=name, clock=SimulatedClock(NOW)) for name in (QUEUE, "other"))
    (theirs,) = driver.push("other", [new(at=0.0)], now=0.0)
    assert driver.fail(take(driver, queue="other"), now=0.0, attempts=1, error="boom")
    row = failed_one(driver, now=0.0)
    with pytest.raises(ValueError, match="before goes with 'all'"):
        queue.forget(row.id or 0, before=NOW)
    assert queue.forget("all", before=NOW) == 1
    assert [row.uid for row in other.failed()] == [theirs.uid]


# -- clear --


def left_in_the_store(driver: Any) -> Any:
    """What a queue still takes up in its store, but for its counters, which give no number twice."""
    if isinstance(driver, RedisStore):
        keys = zip(driver.key_names, driver.keys(QUEUE), strict=True)
        return [name for name, key in keys if name != "counters" and driver._client.exists(key)]  # noqa: SLF001
    if isinstance(driver, SqliteDriver):
        return driver.database.use(lambda connection: connection.execute("SELECT * FROM jobs").fetchall())
    there = driver._queues[QUEUE]  # noqa: SLF001
    return [*chain(*(value for value in vars(there).values() if isinstance(value, Collection)))]


@pytest.mark.scenario("B49")
@pytest.mark.parametrize("late", ["complete", "release", "fail"])
def test_a_cleared_queue_keeps_nothing_and_a_late_worker_changes_nothing(queue: Queue, late: str) -> None:
    kept = failed_one(queue.driver, now=-200.0)
    ends = {"complete": lambda job: None, "release": lambda job: Release(5.0), "fail": lambda job: 1 / 0}
    queue.handler("A", tries=1)(ends[late])
    queue.dispatch("A", "reserved")
    held = queue.reserve(0.0)
    assert held
    queue.dispatch("A", "ready")
    queue.dispatch_later("A", "delayed", delay=50.0)
    assert queue.counts() == Counts(ready=1, delayed=1, reserved=1, failed=1)
    assert queue.clear() == 3
    assert left_in_the_store(queue.driver) == []
    assert type(queue.finish(held, 1.0)).__name__ == "Superseded"
    assert left_in_the_store(queue.driver) == []
    assert snapshot(queue.driver, now=1000.0) == Snapshot(Counts(failed=1), [], [kept], None)
    assert outcomes(queue, 1.0, 50.0, 90.0, 1000.0) == ["Idle"] * 4
    assert queue.clear() == 0
    assert queue.driver.recover(QUEUE, now=1000.0, force=True) == []
    queue.dispatch("A", "next")
    assert [(job.payload, job.id) for job in queue.jobs()] == [("next", 5)]
