"""Failing and retrying in steps, where jobs and failed jobs are in two stores: no death between two loses a job."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, STAGED, Snapshot, fail, failed_one, new, nothing, only, push, snapshot, stores, take

from qlab import drivers
from qlab.driver import Counts, Driver
from qlab.drivers.failed_jobs import StagedFailures
from qlab.errors import DriverUnavailable, UnusableStore
from qlab.job import FailedJob

store = stores(*STAGED)


class Death(BaseException):
    """The process ends here."""


@contextmanager
def dies(driver: Driver, step: str, *, after: bool = False) -> Iterator[None]:
    """Let the process die where it comes to a step, or where it has just made it."""
    real = getattr(driver, step)

    def last(*args: Any) -> Any:
        if after:
            real(*args)
        raise Death

    setattr(driver, step, last)
    try:
        with pytest.raises(Death):
            yield
    finally:
        delattr(driver, step)


@contextmanager
def meanwhile(driver: Driver, step: str, act: Callable[[], object], *, before: bool = False) -> Iterator[None]:
    """Let something happen once, right after a step of the driver (or right before it)."""
    real = getattr(driver, step)

    def then(*args: Any) -> Any:
        delattr(driver, step)
        if before:
            act()
            return real(*args)
        answer = real(*args)
        act()
        return answer

    setattr(driver, step, then)
    yield


def unwritten(driver: Driver, name: str = "a", *, now: float = 0.0, error: str = "ValueError: boom") -> None:
    """A job whose failure was staged by a process that then died."""
    push(driver, name, now=now)
    held = take(driver, now=now)
    with dies(driver, "_finish"):
        fail(driver, held, now=now, error=error)


def written(driver: Driver, name: str = "a") -> None:
    """A job whose failure's row was written by a process that then died."""
    push(driver, name)
    held = take(driver)
    with dies(driver, "_unstage"):
        fail(driver, held)


DEATHS = {"before the row is written": unwritten, "after the row is written": written}
after_each_death = pytest.mark.parametrize("die", DEATHS.values(), ids=DEATHS)


def row_of(driver: Driver) -> FailedJob:
    (row,) = driver.failed(QUEUE)
    return row


# -- a failure that was cut short --


@after_each_death
def test_a_failure_that_was_cut_short_counts_as_failed_once(driver: Driver, die: Callable[[Driver], None]) -> None:
    die(driver)
    row = row_of(driver)
    assert (row.name, row.error, row.attempts, row.failed_at) == ("a", "ValueError: boom", 1, 0.0)
    assert (row.id is None) == (die is unwritten)
    assert snapshot(driver, now=500.0) == Snapshot(Counts(failed=1), [], [row], None)
    assert nothing(driver, now=500.0)
    assert driver.recover(QUEUE, now=500.0, force=True) == []


@after_each_death
def test_a_failure_that_was_cut_short_is_finished_by_whoever_asks_for_ids(
    driver: Driver, die: Callable[[Driver], None]
) -> None:
    die(driver)
    uid = row_of(driver).uid
    (id,) = driver.failed_ids(QUEUE)
    row = row_of(driver)
    assert (row.id, row.uid, row.error) == (id, uid, "ValueError: boom")
    assert driver._failing(QUEUE) == []  # type: ignore[attr-defined]  # noqa: SLF001 - what is left behind
    assert driver.failed_ids(QUEUE) == [id]


@after_each_death
def test_a_failure_that_was_cut_short_is_finished_with_the_next(driver: Driver, die: Callable[[Driver], None]) -> None:
    die(driver)
    failed_one(driver, "b", now=1.0)
    assert [(row.name, row.id is None) for row in driver.failed(QUEUE)] == [("a", False), ("b", False)]
    assert driver.counts(QUEUE, now=1.0) == Counts(failed=2)


def test_failures_that_were_cut_short_get_their_ids_in_the_order_in_which_they_happened(driver: Driver) -> None:
    push(driver, *map(str, range(20)))
    for moment, held in enumerate(driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=20)):
        with dies(driver, "_finish"):
            fail(driver, held, now=float(moment), error="x" * 600)
    assert [row.name for row in driver.failed(QUEUE)] == list(map(str, range(20)))
    driver.failed_ids(QUEUE)
    assert [row.name for row in driver.failed(QUEUE)] == list(map(str, range(20)))


@after_each_death
def test_a_failure_that_was_cut_short_can_be_retried_once(driver: Driver, die: Callable[[Driver], None]) -> None:
    die(driver)
    uid = row_of(driver).uid
    ids = driver.failed_ids(QUEUE)
    ((_, job),) = driver.retry(QUEUE, ids, now=5.0)
    assert job.uid == uid
    assert snapshot(driver, now=5.0) == Snapshot(Counts(ready=1), [job], [], 5.0)
    assert driver.retry(QUEUE, ids, now=6.0) == []
    assert driver.complete(take(driver, now=6.0), now=6.0)
    assert driver.failed_ids(QUEUE) == []
    assert snapshot(driver, now=6.0) == Snapshot(Counts(), [], [], None)


def test_a_row_that_is_written_already_is_retried_though_its_failure_was_cut_short(driver: Driver) -> None:
    written(driver)
    id = row_of(driver).id or 0
    assert [failed_id for failed_id, _ in driver.retry(QUEUE, [id], now=5.0)] == [id]
    assert driver.failed_ids(QUEUE) == []
    assert driver.counts(QUEUE, now=5.0) == Counts(ready=1)


@after_each_death
def test_a_forgotten_job_does_not_come_back_from_a_failure_that_was_cut_short(
    driver: Driver, die: Callable[[Driver], None]
) -> None:
    die(driver)
    ids = driver.failed_ids(QUEUE)
    assert driver.forget(QUEUE, ids) == ids
    failed_one(driver, "b")
    assert [row.name for row in driver.failed(QUEUE)] == ["b"]


def test_a_row_that_is_written_already_is_forgotten_for_good(driver: Driver) -> None:
    written(driver)
    id = row_of(driver).id or 0
    assert driver.forget(QUEUE, [id]) == [id]
    assert driver.failed_ids(QUEUE) == []
    assert driver.failed(QUEUE) == []


@pytest.mark.parametrize("resent", [False, True])
def test_a_push_of_a_job_that_is_being_failed_changes_nothing(driver: Driver, resent: bool) -> None:
    first = new("a")
    driver.push(QUEUE, [first], now=0.0)
    held = take(driver)
    with dies(driver, "_finish"):
        fail(driver, held)
    before = snapshot(driver, now=1.0)
    (job,) = driver.push(QUEUE, [first], now=1.0, resent=resent)
    assert (job.id, job.uid) == (0, first.uid)
    assert snapshot(driver, now=1.0) == before


def test_a_failure_is_staged_once_whoever_comes_late(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver)
    with dies(driver, "_finish"):
        fail(driver, held)
    before = snapshot(driver, now=1.0)
    assert not fail(driver, held, now=1.0, error="late")
    assert not driver.complete(held, now=1.0)
    assert not driver.release(held, now=1.0)
    assert snapshot(driver, now=1.0) == before


@pytest.mark.parametrize("problem", [DriverUnavailable, UnusableStore])
def test_a_failure_whose_row_cannot_be_written_is_written_later(
    driver: Driver, problem: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(driver, StagedFailures)
    push(driver, "a")
    held = take(driver)
    real = driver.failed_jobs.database

    def locked() -> Any:
        raise problem("failed_jobs is locked")

    driver.failed_jobs.database = locked  # type: ignore[method-assign]
    assert fail(driver, held, now=3.0, error="KeyError: 'the handler's own'")
    assert [(record.levelname, record.name) for record in caplog.records] == [("WARNING", "qlab")]
    assert "failed_jobs is locked" in caplog.text
    driver.failed_jobs.database = real  # type: ignore[method-assign]
    assert driver.counts(QUEUE, now=3.0) == Counts(failed=1)
    assert len(driver.failed_ids(QUEUE)) == 1
    assert (row_of(driver).error, row_of(driver).failed_at) == ("KeyError: 'the handler's own'", 3.0)


def test_many_failures_that_were_cut_short_are_finished_together(driver: Driver) -> None:
    push(driver, *map(str, range(600)))
    batch = driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=600)
    for held in batch:
        assert driver._stage(held, 0, 1, "boom", "")  # type: ignore[attr-defined]  # noqa: SLF001 - step 1 alone
    assert driver.counts(QUEUE, now=0.0) == Counts(failed=600)
    assert len(driver.failed(QUEUE)) == 600
    ids = driver.failed_ids(QUEUE)
    assert len(ids) == 600
    assert driver._failing(QUEUE) == []  # type: ignore[attr-defined]  # noqa: SLF001 - what is left behind
    assert {row.name for row in driver.failed(QUEUE)} == set(map(str, range(600)))


def test_failures_that_were_cut_short_stand_behind_the_written_ones(driver: Driver) -> None:
    ids = [failed_one(driver, name).id or 0 for name in "ab"]
    unwritten(driver, "c")
    assert [row.id for row in driver.failed(QUEUE)] == [*ids, None]
    assert [row.id for row in driver.failed(QUEUE, limit=1)] == ids[:1]
    assert [row.id for row in driver.failed(QUEUE, limit=2)] == ids
    assert [row.id for row in driver.failed(QUEUE, limit=3)] == [*ids, None]
    assert [row.id for row in driver.failed(QUEUE, after=ids[0], limit=2)] == [ids[1], None]


@only("redis_zset-redis8", "redis_list-valkey")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_a_row_that_another_store_took_from_the_table_is_not_written_again(
    driver: Driver, tmp_path: Path, verb: str
) -> None:
    written(driver)
    with drivers.open(f"sqlite:///{tmp_path}/failed.db") as beside:
        ids = beside.failed_ids(QUEUE)
        assert len(beside.retry(QUEUE, ids, now=1.0) if verb == "retry" else beside.forget(QUEUE, ids)) == 1
        assert driver.failed_ids(QUEUE) == []
        assert driver.counts(QUEUE, now=1.0) == Counts()
        assert beside.counts(QUEUE, now=1.0) == Counts(ready=int(verb == "retry"))


# -- a retry that was cut short --


def retried_and_dead(driver: Driver, step: str) -> FailedJob:
    """A failed job whose retry was cut short; gives its row."""
    row = failed_one(driver, "a", body="[1]")
    with dies(driver, step, after=step == "_again"):
        driver.retry(QUEUE, [row.id or 0], now=5.0)
    return row


RETRY_DEATHS = {"before the row is deleted": "_again", "after the row is deleted": "_drop_notes"}
after_each_retry_death = pytest.mark.parametrize("step", RETRY_DEATHS.values(), ids=RETRY_DEATHS)


@after_each_retry_death
def test_a_retry_that_was_cut_short_has_moved_the_job(driver: Driver, step: str) -> None:
    row = retried_and_dead(driver, step)
    (job,) = driver.jobs(QUEUE, now=5.0)
    assert (job.uid, job.body, job.attempts, job.available_at) == (row.uid, "[1]", 0, 5.0)
    assert snapshot(driver, now=5.0) == Snapshot(Counts(ready=1), [job], [], 5.0)


@after_each_retry_death
@pytest.mark.parametrize("completed", [False, True])
def test_a_retry_that_was_cut_short_is_not_made_twice(driver: Driver, step: str, completed: bool) -> None:
    row = retried_and_dead(driver, step)
    if completed:
        assert driver.complete(take(driver, now=5.0), now=5.0)
    left = Counts() if completed else Counts(ready=1)
    assert driver.retry(QUEUE, [row.id or 0], now=6.0) == []
    assert driver.counts(QUEUE, now=6.0) == left
    assert driver.failed_ids(QUEUE) == []
    assert driver.failed(QUEUE) == []
    assert driver._noted(QUEUE) == set()  # type: ignore[attr-defined]  # noqa: SLF001 - what is left behind


@after_each_retry_death
def test_all_after_a_retry_that_was_cut_short_means_the_others(driver: Driver, step: str) -> None:
    retried_and_dead(driver, step)
    push(driver, "b", now=5.0)
    first, second = driver.reserve(QUEUE, now=5.0, retry_after=90.0, limit=2)
    assert fail(driver, second, now=5.0)
    assert [job.name for _, job in driver.retry(QUEUE, driver.failed_ids(QUEUE), now=6.0)] == ["b"]
    assert driver.complete(first, now=6.0)
    assert driver.counts(QUEUE, now=6.0) == Counts(ready=1)


@after_each_retry_death
def test_a_job_whose_retry_was_cut_short_may_fail_again_as_one_row(driver: Driver, step: str) -> None:
    row = retried_and_dead(driver, step)
    assert fail(driver, take(driver, now=6.0), now=6.0, error="again")
    again = row_of(driver)
    assert (again.uid, again.error, again.failed_at) == (row.uid, "again", 6.0)
    assert again.id != row.id
    assert driver.counts(QUEUE, now=6.0) == Counts(failed=1)
    assert len(driver.retry(QUEUE, [again.id or 0], now=7.0)) == 1
    assert driver.counts(QUEUE, now=7.0) == Counts(ready=1)


@after_each_retry_death
def test_a_retry_and_the_next_failure_may_both_be_cut_short(driver: Driver, step: str) -> None:
    row = retried_and_dead(driver, step)
    held = take(driver, now=6.0)
    with dies(driver, "_finish"):
        fail(driver, held, now=6.0, error="again")
    assert driver.counts(QUEUE, now=6.0) == Counts(failed=1)
    assert [(each.uid, each.error) for each in driver.failed(QUEUE)] == [(row.uid, "again")]
    assert len(driver.failed_ids(QUEUE)) == 1
    assert (row_of(driver).uid, row_of(driver).error) == (row.uid, "again")
    assert driver.counts(QUEUE, now=6.0) == Counts(failed=1)


@after_each_retry_death
def test_a_forgotten_row_of_a_retry_that_was_cut_short_takes_no_job_along(driver: Driver, step: str) -> None:
    row = retried_and_dead(driver, step)
    assert driver.forget(QUEUE, [row.id or 0]) == []
    assert driver.counts(QUEUE, now=6.0) == Counts(ready=1)


def test_pages_of_failed_jobs_are_full_though_a_retry_was_cut_short(driver: Driver) -> None:
    rows = [failed_one(driver, name) for name in "abc"]
    with dies(driver, "_again", after=True):
        driver.retry(QUEUE, [rows[0].id or 0], now=0.0)
    assert [row.name for row in driver.failed(QUEUE)] == ["b", "c"]
    assert [row.name for row in driver.failed(QUEUE, limit=2)] == ["b", "c"]
    assert [row.name for row in driver.failed(QUEUE, limit=1)] == ["b"]


# -- two at once --


def test_two_that_retry_one_job_at_once_move_it_once(driver: Driver) -> None:
    row = failed_one(driver)
    moved: list[Any] = []
    with meanwhile(driver, "_finish", lambda: moved.extend(driver.retry(QUEUE, [row.id or 0], now=1.0))):
        moved += driver.retry(QUEUE, [row.id or 0], now=1.0)
    assert len(moved) == 1
    assert driver.counts(QUEUE, now=1.0) == Counts(ready=1)


def test_a_job_that_another_retried_before_it_died_is_not_moved_again_though_it_is_done(driver: Driver) -> None:
    row = failed_one(driver)

    def other() -> None:
        with dies(driver, "_again", after=True):
            driver.retry(QUEUE, [row.id or 0], now=1.0)
        assert driver.complete(take(driver, now=1.0), now=1.0)

    with meanwhile(driver, "_finish", other):
        driver.retry(QUEUE, [row.id or 0], now=2.0)
    assert snapshot(driver, now=2.0) == Snapshot(Counts(), [], [], None)
    assert driver.failed_ids(QUEUE) == []


def test_a_finisher_that_is_late_does_not_drop_a_newer_failure(driver: Driver) -> None:
    row = None

    def others() -> None:
        nonlocal row
        (id,) = driver.failed_ids(QUEUE)
        (row,) = driver.failed(QUEUE)
        driver.retry(QUEUE, [id], now=5.0)
        held = take(driver, now=5.0)
        with dies(driver, "_finish"):
            fail(driver, held, now=6.0, error="again")

    push(driver, "a")
    held = take(driver)
    with meanwhile(driver, "_unstage", others, before=True):
        assert fail(driver, held)
    assert row is not None
    assert [(each.uid, each.error) for each in driver.failed(QUEUE)] == [(row.uid, "again")]
    assert driver.counts(QUEUE, now=6.0) == Counts(failed=1)
    assert len(driver.failed_ids(QUEUE)) == 1
    assert row_of(driver).error == "again"


def test_two_finishers_write_one_row(driver: Driver) -> None:
    unwritten(driver)
    with meanwhile(driver, "_unstage", lambda: driver.failed_ids(QUEUE), before=True):
        driver.failed_ids(QUEUE)
    assert len(driver.failed(QUEUE)) == 1
    assert driver.counts(QUEUE, now=0.0) == Counts(failed=1)


def test_a_reader_between_two_steps_sees_a_job_in_one_place(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver)
    seen = []

    def look() -> None:
        seen.append((driver.counts(QUEUE, now=0.0), len(driver.failed(QUEUE)), len(driver.jobs(QUEUE, now=0.0))))

    with meanwhile(driver, "_finish", look, before=True), meanwhile(driver, "_unstage", look, before=True):
        fail(driver, held)
    id = row_of(driver).id or 0
    with meanwhile(driver, "_drop_notes", look, before=True):
        driver.retry(QUEUE, [id], now=0.0)
    failed_, moved = (Counts(failed=1), 1, 0), (Counts(ready=1), 0, 1)
    assert seen == [failed_, failed_, moved]


@pytest.mark.parametrize("before", [False, True], ids=["after the table", "before the table"])
def test_a_job_that_is_written_while_somebody_reads_is_seen(driver: Any, before: bool) -> None:
    def finish() -> None:
        assert driver.failed_ids(QUEUE)

    unwritten(driver, "a")
    with meanwhile(driver.failed_jobs, "rows", finish, before=before):
        assert {row.name for row in driver.failed(QUEUE)} == {"a"}
    assert len(driver.failed(QUEUE)) == 1
    unwritten(driver, "b")
    with meanwhile(driver.failed_jobs, "ids", finish, before=before):
        assert driver.counts(QUEUE, now=0.0).failed >= 2
    assert driver.counts(QUEUE, now=0.0) == Counts(failed=2)
