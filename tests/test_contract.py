"""The contract of driver.py: every driver keeps each promise of it, and at its edges all do the same."""

import math
from collections.abc import Callable

import pytest
from conftest import (
    BY_ARRIVAL,
    IN_ORDER,
    ONE_OF_EACH,
    QUEUE,
    SHARED,
    Snapshot,
    Store,
    fail,
    failed_one,
    new,
    nothing,
    only,
    push,
    snapshot,
    take,
    taken,
)

from qlab.contract import PROMISES, judge
from qlab.driver import Counts, Driver, Mark
from qlab.job import Job, JobState, Reservation

# -- what is promised --

ORDERS = "no order of a few workers breaks anything"  # it takes seconds: tests/test_judge.py, on one of each
BY_NAME = {each.name: each for each in PROMISES if each.name != ORDERS}
CLOSES = "a closed driver raises and may be closed again"


@pytest.mark.parametrize("promise", BY_NAME)
def test_every_driver_keeps_its_promise(driver: Driver, open_again: Callable[[], Driver], promise: str) -> None:
    store = open_again if promise == CLOSES else driver  # a driver that is given stays open
    assert judge(store, promises=[BY_NAME[promise]]).broken == []


def test_a_driver_says_what_it_is(driver: Driver, store: Store) -> None:
    assert driver.name == store.name.split("-")[0]
    assert driver.order == store.order
    assert all(driver.durability)
    assert driver.description
    assert repr(driver) == f"<{driver.name} {driver.url} ({driver.description})>"


# -- push --

NASTY = ("é😀\u2028", "a\\b'c\"d", "{}:%*?[x]", "with space", "%s ; -- \n\t", "1e5", "-0", "a" * 255)


@pytest.mark.parametrize("text", NASTY)
def test_names_and_bodies_come_back_as_they_were(driver: Driver, text: str) -> None:
    queue = f"q {text}"
    driver.push(queue, [new(text, body=text)], now=0.0)
    driver.push("another", [new()], now=0.0)
    held = take(driver, queue=queue)
    assert (held.job.queue, held.job.name, held.job.body) == (queue, text, text)
    assert driver.jobs(queue, now=0.0) == [held.job]
    assert driver.fail(held, now=1.0, attempts=1, error=text, traceback=text)
    (row,) = driver.failed(queue)
    assert (row.queue, row.name, row.body, row.error, row.traceback) == (queue, text, text, text, text)
    ((_, job),) = driver.retry(queue, [row.id or 0], now=2.0)
    assert (job.name, job.body) == (text, text)
    assert driver.clear(queue, now=2.0) == 1
    assert driver.counts("another", now=2.0) == Counts(ready=1)


def test_a_body_is_kept_byte_for_byte_whatever_its_size(driver: Driver) -> None:
    body = '"' + "é" * 700_000 + '"'
    driver.push(QUEUE, [new(body=body)], now=0.0)
    held = take(driver)
    assert held.job.body == body
    assert fail(driver, held)
    assert driver.failed(QUEUE)[0].body == body


def test_pushing_nothing_changes_nothing(driver: Driver) -> None:
    assert driver.push(QUEUE, [], now=0.0) == []
    assert driver.counts(QUEUE, now=0.0) == Counts()
    assert push(driver, "a")[0].id == 1


def test_many_jobs_are_stored_and_listed_in_order(driver: Driver) -> None:
    jobs = push(driver, *(f"job {i}" for i in range(1_100)))
    assert [job.name for job in jobs] == [f"job {i}" for i in range(1_100)]
    assert driver.jobs(QUEUE, now=0.0) == jobs
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1_100)


# -- a push that is repeated --


def test_a_resend_of_a_failed_job_tells_moments_like_any_push(driver: Driver) -> None:
    first = new("a", at=-3.0)
    driver.push(QUEUE, [first], now=0.0)
    fail(driver, take(driver))
    (job,) = driver.push(QUEUE, [first], now=2.0000004, resent=True)
    assert (job.id, job.dispatched_at, job.available_at) == (0, 2.0, 2.0)


def test_a_resend_after_completion_runs_again(driver: Driver) -> None:
    first = new("a")
    driver.push(QUEUE, [first], now=0.0)
    driver.complete(take(driver), now=0.0)
    driver.push(QUEUE, [first], now=1.0, resent=True)
    assert take(driver, now=1.0).job.uid == first.uid


def test_one_uid_twice_in_a_push_is_one_job(driver: Driver) -> None:
    first = new("a")
    one, other = driver.push(QUEUE, [first, first], now=0.0)
    assert one == other
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


def test_a_repeated_push_gives_no_number_away(driver: Driver) -> None:
    first = new("a")
    driver.push(QUEUE, [first], now=0.0)
    driver.push(QUEUE, [first], now=0.0)
    assert push(driver, "b")[0].id == 2


@pytest.mark.parametrize("there", [[], [0], [3], [7], [0, 7], [2, 3], list(range(8))], ids=str)
@pytest.mark.parametrize("state", ["waiting", "reserved"])
def test_many_at_once_are_stored_as_one_by_one(driver: Driver, there: list[int], state: str) -> None:
    """Whichever of them the queue holds already, and in whichever state; one of them is named twice."""
    jobs = [new(str(i), at=float(i % 3), body=f"[{i}]", uid=f"{i:032x}") for i in range(8)]
    jobs.append(jobs[5])

    def stored(queue: str, push: Callable[[str], list[Job]]) -> tuple[list[Job], list[Job], list[int]]:
        for i in there:
            driver.push(queue, [jobs[i]._replace(name="before")], now=0.0)
            if state == "reserved":
                take(driver, now=9.0, queue=queue)
        answer, held = push(queue), driver.jobs(queue, now=1.0)
        numbers = [job.id for job in held]
        return unnumbered(answer), unnumbered(held), [numbers.index(job.id) for job in answer]

    at_once = stored("at once", lambda queue: driver.push(queue, jobs, now=1.0))
    assert at_once == stored("one by one", lambda queue: [driver.push(queue, [job], now=1.0)[0] for job in jobs])
    numbers = sorted(job.id for job in driver.jobs("at once", now=1.0))
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def unnumbered(jobs: list[Job]) -> list[Job]:
    """The jobs without what two queues cannot have alike."""
    return [job._replace(id=0, queue="") for job in jobs]


def test_a_uid_names_one_job_of_each_queue(driver: Driver) -> None:
    same = new("a")
    for queue in (QUEUE, "thumbs"):
        (job,) = driver.push(queue, [same], now=0.0, resent=True)
        assert (job.queue, job.id != 0) == (queue, True)
        assert fail(driver, take(driver, queue=queue))
    for queue in (QUEUE, "thumbs"):
        (failed,) = driver.failed(queue)
        assert driver.push(queue, [same], now=1.0, resent=True)[0].id == 0
        assert [job.uid for _, job in driver.retry(queue, driver.failed_ids(queue), now=1.0)] == [failed.uid]
        assert driver.counts(queue, now=1.0) == Counts(ready=1)


# -- order --


def test_where_somebody_polls_at_each_due_time_all_drivers_have_one_order(driver: Driver) -> None:
    push(driver, "first", now=0.0)
    push(driver, "delayed", now=0.0, at=5.0)
    held = take(driver, now=5.0)
    push(driver, "fresh", now=6.0)
    assert held.job.name == "first"
    assert taken(driver, now=6.0) == ["delayed", "fresh"]


def test_a_released_job_with_a_delay_goes_behind_those_due_at_the_same_moment(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver)
    push(driver, "b", at=10.0)
    assert driver.release(held, now=4.0, delay=6.0)
    assert taken(driver, now=10.0) == ["b", "a"]


def test_each_release_recovery_and_dispatch_takes_a_place_behind_the_one_before(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    first, second = take(driver), take(driver)
    take(driver, retry_after=10.0)
    assert [job.name for job in driver.recover(QUEUE, now=10.0)] == ["c"]
    assert driver.release(second, now=10.0)
    assert driver.release(first, now=10.0)
    push(driver, "d", now=10.0)
    assert taken(driver, now=10.0) == ["c", "b", "a", "d"]


def test_a_run_out_reservation_stands_where_its_deadline_says(driver: Driver) -> None:
    push(driver, "a")
    take(driver, retry_after=5.0)
    push(driver, "before", now=4.0)
    push(driver, "after", now=4.0, at=6.0)
    assert taken(driver, now=6.0) == ["before", "a", "after"]


@only(*BY_ARRIVAL)
def test_a_list_gives_at_any_moment_what_stands_in_it(driver: Driver) -> None:
    push(driver, "a", now=1000.0)
    assert driver.counts(QUEUE, now=400.0) == Counts(ready=1)
    assert driver.next_due(QUEUE, now=400.0) == 400.0
    held = take(driver, now=400.0)
    assert (held.claimable_since, held.reserved_until) == (400.0, 490.0)
    assert nothing(driver, now=400.0)


@only(*IN_ORDER)
def test_a_clock_that_goes_back_waits_for_the_moment(driver: Driver) -> None:
    push(driver, "a", now=1000.0)
    assert driver.counts(QUEUE, now=400.0) == Counts(delayed=1)
    assert nothing(driver, now=400.0)
    assert driver.next_due(QUEUE, now=400.0) == 1000.0
    assert take(driver, now=1000.0).claimable_since == 1000.0


def test_no_verb_of_a_queue_reaches_the_jobs_of_another(driver: Driver) -> None:
    push(driver, "failed", "run out", "alive", "ready", queue="other")
    assert fail(driver, take(driver, queue="other"))
    take(driver, retry_after=5.0, queue="other")
    take(driver, queue="other")
    push(driver, "delayed", at=50.0, queue="other")
    theirs = driver.failed_ids("other")
    before = snapshot(driver, now=10.0, queue="other")
    assert before.counts == Counts(ready=2, delayed=1, reserved=1, failed=1)

    push(driver, "a", "b", "c", "d")
    first, second, third, _ = driver.reserve(QUEUE, now=0.0, retry_after=5.0, limit=4)
    assert driver.complete(first, now=10.0)
    assert driver.release(second, now=10.0)
    assert fail(driver, third, now=10.0)
    assert [job.name for job in driver.recover(QUEUE, now=10.0)] == ["d"]
    assert taken(driver, now=10.0) == ["b", "d"]
    assert len(driver.recover(QUEUE, now=10.0, force=True)) == 2
    mine = driver.failed_ids(QUEUE)
    assert (driver.retry(QUEUE, theirs, now=10.0), driver.forget(QUEUE, theirs)) == ([], [])
    assert len(driver.retry(QUEUE, mine, now=10.0)) == 1
    assert driver.clear(QUEUE, now=10.0) == 3
    assert snapshot(driver, now=10.0, queue="other") == before


@only(*BY_ARRIVAL)
@pytest.mark.scenario("B31")
@pytest.mark.parametrize("limit", [1, 5, 100])
def test_a_list_appends_at_most_100_jobs_a_call(driver: Driver, limit: int) -> None:
    push(driver, *(str(i) for i in range(250)), at=10.0)
    assert taken(driver, now=10.0, limit=limit) == [str(i) for i in range(limit)]
    push(driver, "fresh", now=10.0)
    names = [name for _ in range(250) for name in taken(driver, now=10.0, limit=1)]
    assert names.index("fresh") == 100 - limit
    assert sorted(names) == sorted([*(str(i) for i in range(limit, 250)), "fresh"])


@only(*BY_ARRIVAL)
def test_a_list_gives_a_large_batch_all_the_same(driver: Driver) -> None:
    push(driver, *(str(i) for i in range(250)), at=10.0)
    assert taken(driver, now=10.0, limit=220) == [str(i) for i in range(220)]


@only(*BY_ARRIVAL)
def test_a_cleared_list_holds_nothing_back_for_what_comes_after(driver: Driver) -> None:
    push(driver, *("old",) * 130)
    driver.clear(QUEUE, now=0.0)
    push(driver, *("late",) * 130, at=10.0)
    assert taken(driver, now=10.0, limit=1) == ["late"]
    push(driver, "fresh", now=10.0)
    assert taken(driver, now=10.0, limit=130) == ["late"] * 99 + ["fresh"] + ["late"] * 30


# -- reserve --


@pytest.mark.parametrize("start", [-100.0, 0.0, 1_760_000_000.123456, 9_000_000_000.0])
def test_moments_of_every_size_are_exact(driver: Driver, start: float) -> None:
    (job,) = push(driver, "a", now=start)
    assert job.available_at == job.dispatched_at == start
    assert driver.next_due(QUEUE, now=start) == start
    held = take(driver, now=start, retry_after=0.000001)
    assert (held.job.reserved_at, held.claimable_since) == (start, start)
    assert driver.counts(QUEUE, now=start) == Counts(reserved=1)
    later = round(start + 0.000001, 6)
    assert held.reserved_until == later
    assert driver.counts(QUEUE, now=later) == Counts(ready=1)
    again = take(driver, now=later)
    assert (again.claimable_since, again.ran_out) == (later, True)
    assert fail(driver, again, now=later)
    (row,) = driver.failed(QUEUE)
    assert (row.dispatched_at, row.failed_at) == (start, later)


def test_a_batch_is_so_many_reservations_each_with_a_fence_of_its_own(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    batch = driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=3)
    assert len({held.token for held in batch}) == 3
    first, second, third = batch
    assert not driver.complete(first._replace(token=second.token), now=1.0)
    assert driver.complete(second, now=1.0)
    assert driver.release(third, now=1.0)
    assert driver.counts(QUEUE, now=1.0) == Counts(ready=1, reserved=1)
    assert driver.complete(first, now=1.0)


def test_a_batch_takes_run_out_jobs_too(driver: Driver) -> None:
    push(driver, "a", "b")
    take(driver, retry_after=10.0)
    batch = driver.reserve(QUEUE, now=10.0, retry_after=90.0, limit=5)
    assert [(held.job.name, held.ran_out, held.job.attempts) for held in batch] == [("b", False, 1), ("a", True, 2)]


def test_wait_begins_where_the_job_became_claimable(driver: Driver) -> None:
    push(driver, "a", now=1.0, at=3.0)
    held = take(driver, now=4.0)
    assert (held.claimable_since, held.ran_out) == (3.0, False)
    driver.release(held, now=5.0, delay=2.0)
    held = take(driver, now=20.0, retry_after=10.0)
    assert (held.claimable_since, held.ran_out) == (7.0, False)
    held = take(driver, now=50.0)
    assert (held.claimable_since, held.ran_out) == (30.0, True)
    driver.recover(QUEUE, now=60.0, force=True)
    held = take(driver, now=61.0)
    assert (held.claimable_since, held.ran_out) == (60.0, False)


def test_force_recovers_also_what_never_runs_out(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver, retry_after=None)
    assert [job.available_at for job in driver.recover(QUEUE, now=3.0, force=True)] == [3.0]
    assert not driver.complete(held, now=3.0)
    assert take(driver, now=3.0).job.attempts == 2


def test_extend_gives_a_reservation_that_never_runs_out_a_deadline(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver, retry_after=None)
    assert driver.extend(held, now=5.0, seconds=10.0)
    assert driver.next_due(QUEUE, now=5.0) == 15.0
    assert take(driver, now=15.0).ran_out


# -- the fence --

ENDS: dict[str, Callable[[Driver, Reservation], object]] = {
    "complete": lambda driver, held: driver.complete(held, now=95.0),
    "release": lambda driver, held: driver.release(held, now=95.0),
    "release with a delay": lambda driver, held: driver.release(held, now=95.0, delay=500.0),
    "fail": lambda driver, held: fail(driver, held, now=95.0),
    "the next reservation": lambda driver, held: driver.reserve(QUEUE, now=95.0, retry_after=90.0),
    "the next two reservations": lambda driver, held: (take(driver, now=95.0), take(driver, now=185.0)),
    "recover": lambda driver, held: driver.recover(QUEUE, now=95.0),
    "recover by force": lambda driver, held: driver.recover(QUEUE, now=50.0, force=True),
    "recover, and a reservation": lambda driver, held: (driver.recover(QUEUE, now=95.0), take(driver, now=95.0)),
    "clear": lambda driver, held: driver.clear(QUEUE, now=95.0),
    "clear, and another job": lambda driver, held: (driver.clear(QUEUE, now=95.0), push(driver, "b", now=95.0)),
    "fail, and a retry": lambda driver, held: (
        fail(driver, held, now=95.0),
        driver.retry(QUEUE, driver.failed_ids(QUEUE), now=96.0),
    ),
    "fail, a retry, and a reservation": lambda driver, held: (
        fail(driver, held, now=95.0),
        driver.retry(QUEUE, driver.failed_ids(QUEUE), now=96.0),
        take(driver, now=96.0),
    ),
}

VERBS: dict[str, Callable[[Driver, Reservation], object]] = {
    "complete": lambda driver, held: driver.complete(held, now=200.0),
    "release": lambda driver, held: driver.release(held, now=200.0),
    "extend": lambda driver, held: driver.extend(held, now=200.0, seconds=50.0),
    "fail": lambda driver, held: fail(driver, held, now=200.0, error="LateError"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_superseded_worker_changes_nothing(driver: Driver, end: str) -> None:
    push(driver, "a")
    held = take(driver)
    ENDS[end](driver, held)
    before = snapshot(driver, now=200.0)
    for verb, late in VERBS.items():
        assert (verb, late(driver, held)) == (verb, False)
        assert (verb, snapshot(driver, now=200.0)) == (verb, before)


@pytest.mark.parametrize("end", ENDS)
def test_a_superseded_worker_that_completes_and_reserves_only_reserves(driver: Driver, end: str) -> None:
    push(driver, "a")
    held = take(driver)
    ENDS[end](driver, held)
    before = driver.jobs(QUEUE, now=200.0)
    completed, following = driver.complete_and_reserve(held, now=200.0, retry_after=90.0)
    assert not completed
    due = [job for job in before if job.available_at <= 200.0]
    assert (following.job.id if following else None) == (due[0].id if due else None)
    assert {job.id for job in driver.jobs(QUEUE, now=200.0)} == {job.id for job in before}


@pytest.mark.parametrize("polled", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_running_out_ends_nothing_by_itself(driver: Driver, verb: str, polled: bool) -> None:
    push(driver, "a", "b")
    held = take(driver)
    if polled:
        assert take(driver, now=95.0).job.name == "b"  # redis_list appends "a" to its list here
    assert VERBS[verb](driver, held) is True


@pytest.mark.parametrize("polled", [False, True])
def test_completing_after_the_deadline_deletes_the_job(driver: Driver, polled: bool) -> None:
    push(driver, "a", *("b" if polled else ""))
    held = take(driver)
    if polled:
        driver.complete(take(driver, now=95.0), now=95.0)
    assert driver.counts(QUEUE, now=95.0) == Counts(ready=1)
    assert driver.complete(held, now=95.0)
    assert snapshot(driver, now=95.0) == Snapshot(Counts(), [], [], None)
    assert nothing(driver, now=1000.0)


@pytest.mark.parametrize("polled", [False, True])
def test_extending_after_the_deadline_takes_the_job_back(driver: Driver, polled: bool) -> None:
    push(driver, "a", *("b" if polled else ""))
    held = take(driver)
    if polled:
        driver.complete(take(driver, now=95.0), now=95.0)
    assert driver.extend(held, now=95.0, seconds=10.0)
    assert driver.counts(QUEUE, now=95.0) == Counts(reserved=1)
    assert driver.next_due(QUEUE, now=95.0) == 105.0
    assert driver.recover(QUEUE, now=104.999999) == []
    assert nothing(driver, now=104.999999)
    again = take(driver, now=105.0)
    assert (again.claimable_since, again.ran_out, again.job.attempts) == (105.0, True, 2)
    assert nothing(driver, now=105.0)
    assert not driver.complete(held, now=105.0)


@pytest.mark.parametrize("polled", [False, True])
def test_releasing_after_the_deadline_gives_the_job_back_once(driver: Driver, polled: bool) -> None:
    push(driver, "a", *("b" if polled else ""))
    held = take(driver)
    if polled:
        driver.complete(take(driver, now=95.0), now=95.0)
    assert driver.release(held, now=95.0, delay=10.0)
    assert driver.counts(QUEUE, now=95.0) == Counts(delayed=1)
    assert nothing(driver, now=104.0)
    assert take(driver, now=105.0).job.attempts == 2
    assert nothing(driver, now=105.0)


def test_extend_changes_nothing_but_the_deadline(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver, now=1.0)
    assert driver.extend(held, now=60.0, seconds=90.0)
    assert driver.jobs(QUEUE, now=60.0) == [held.job._replace(available_at=150.0)]
    assert driver.complete(held, now=149.0)


def test_a_reservation_may_be_extended_again_and_again(driver: Driver) -> None:
    push(driver, "a")
    held = take(driver)
    for moment in (60.0, 120.0, 120.0, 215.0, 400.0):
        assert driver.extend(held, now=moment, seconds=90.0)
        assert nothing(driver, now=moment + 89.0)
    assert take(driver, now=490.0).job.attempts == 2
    assert nothing(driver, now=490.0)


@pytest.mark.parametrize("token", ["", "x", "0" * 32])
def test_a_wrong_token_settles_nothing(driver: Driver, token: str) -> None:
    push(driver, "a")
    waiting = Reservation(driver.jobs(QUEUE, now=0.0)[0], token, 0.0, ran_out=False)
    before = snapshot(driver, now=200.0)
    assert [VERBS[verb](driver, waiting) for verb in VERBS] == [False] * 4
    assert snapshot(driver, now=200.0) == before
    held = take(driver)
    assert [VERBS[verb](driver, held._replace(token=token)) for verb in VERBS] == [False] * 4
    assert driver.complete(held, now=0.0)


# -- complete and reserve --


def test_complete_and_reserve_gives_the_next_job(driver: Driver) -> None:
    push(driver, "a", "b", at=3.0)
    held = take(driver, now=3.0)
    completed, following = driver.complete_and_reserve(held, now=4.0, retry_after=30.0)
    assert completed
    assert following is not None
    assert (following.job.name, following.claimable_since, following.reserved_until) == ("b", 3.0, 34.0)
    assert driver.complete_and_reserve(following, now=5.0, retry_after=30.0) == (True, None)
    assert snapshot(driver, now=5.0) == Snapshot(Counts(), [], [], None)


def test_complete_and_reserve_never_gives_the_job_that_it_completes(driver: Driver) -> None:
    push(driver, "a")
    assert driver.complete_and_reserve(take(driver), now=100.0, retry_after=90.0) == (True, None)


def test_complete_and_reserve_takes_up_what_ran_out(driver: Driver) -> None:
    push(driver, "a", "b")
    take(driver, retry_after=10.0)
    held = take(driver)
    _, following = driver.complete_and_reserve(held, now=10.0, retry_after=None)
    assert following is not None
    assert (following.job.name, following.ran_out, following.reserved_until) == ("a", True, math.inf)


# -- recover, clear --


def test_recover_finds_what_ran_out_also_after_somebody_polled(driver: Driver) -> None:
    push(driver, "a", "b")
    held = take(driver)
    take(driver, now=95.0)
    push(driver, "c", now=95.0)
    assert [job.name for job in driver.recover(QUEUE, now=95.0)] == ["a"]
    assert not driver.extend(held, now=95.0, seconds=5.0)
    assert driver.counts(QUEUE, now=95.0) == Counts(ready=2, reserved=1)
    assert taken(driver, now=95.0) == ["c", "a"]


def test_recovered_jobs_keep_their_attempts_and_wait(driver: Driver) -> None:
    push(driver, "a")
    take(driver)
    (job,) = driver.recover(QUEUE, now=91.0)
    assert (job.attempts, job.reserved_at, job.available_at, job.state(91.0)) == (1, None, 91.0, JobState.READY)
    assert driver.jobs(QUEUE, now=91.0) == [job]
    assert take(driver, now=91.0).job.attempts == 2


@only(*ONE_OF_EACH)
def test_recover_takes_any_number_in_order(driver: Driver) -> None:
    push(driver, *map(str, range(1_100)))
    driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=1_100)
    assert [job.name for job in driver.recover(QUEUE, now=90.0)] == list(map(str, range(1_100)))
    assert driver.counts(QUEUE, now=90.0) == Counts(ready=1_100)
    assert taken(driver, now=90.0, limit=3) == ["0", "1", "2"]


def test_a_cleared_queue_goes_on(driver: Driver) -> None:
    push(driver, "a", "b")
    take(driver, retry_after=5.0)
    driver.clear(QUEUE, now=1.0)
    push(driver, "c", now=1.0)
    assert taken(driver, now=10.0) == ["c"]


# -- failed jobs --


def test_retry_makes_a_job_anew_that_keeps_its_uid(driver: Driver) -> None:
    driver.push(QUEUE, [new("a", body="[1]", uid="f" * 32)], now=0.0)
    old = take(driver, now=0.0)
    fail(driver, old, now=5.0)
    ((id, job),) = driver.retry(QUEUE, driver.failed_ids(QUEUE), now=8.0)
    assert job == Job(job.id, "f" * 32, QUEUE, "a", "[1]", attempts=0, dispatched_at=8.0, available_at=8.0)
    assert job.id != old.job.id
    assert snapshot(driver, now=8.0) == Snapshot(Counts(ready=1), [job], [], 8.0)
    assert driver.retry(QUEUE, [id], now=9.0) == []
    assert driver.counts(QUEUE, now=9.0) == Counts(ready=1)
    assert take(driver, now=9.0).job.attempts == 1


def test_a_retried_job_may_fail_again_as_one_row(driver: Driver) -> None:
    first = failed_one(driver)
    driver.retry(QUEUE, [first.id or 0], now=1.0)
    fail(driver, take(driver, now=1.0), now=2.0, error="again")
    (row,) = driver.failed(QUEUE)
    assert (row.uid, row.error, row.failed_at) == (first.uid, "again", 2.0)
    assert (row.id or 0) > (first.id or 0)


def test_a_job_that_is_pushed_and_fails_again_is_the_row_that_is_there(driver: Driver) -> None:
    first, other = new("a"), new("b")
    for error in ("ValueError: first", "ValueError: second"):
        driver.push(QUEUE, [first], now=0.0)
        assert fail(driver, take(driver), error=error)
    driver.push(QUEUE, [other], now=0.0)
    fail(driver, take(driver))
    assert [(row.id, row.name, row.error) for row in driver.failed(QUEUE)] == [
        (1, "a", "ValueError: first"),
        (2, "b", "ValueError: boom"),
    ]


# -- reading --


def test_state_is_a_function_of_the_row_and_of_the_moment(driver: Driver) -> None:
    push(driver, "a", at=10.0)
    assert driver.counts(QUEUE, now=9.0) == Counts(delayed=1)
    assert driver.counts(QUEUE, now=10.0) == Counts(ready=1)
    take(driver, now=10.0)
    assert driver.counts(QUEUE, now=10.0) == Counts(reserved=1)
    assert driver.counts(QUEUE, now=99.999999) == Counts(reserved=1)
    assert driver.counts(QUEUE, now=100.0) == Counts(ready=1)


def test_depth_is_all_that_is_still_to_do() -> None:
    assert Counts(ready=1, delayed=2, reserved=4, failed=8).depth == 7


def test_the_reading_verbs_agree_with_each_other(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    push(driver, "later", at=40.0)
    take(driver, retry_after=30.0)
    driver.release(take(driver, retry_after=30.0), now=1.0, delay=70.0)
    for moment in (1.0, 30.0, 39.9, 40.0, 71.0, 500.0):
        states = [job.state(moment) for job in driver.jobs(QUEUE, now=moment)]
        counts = driver.counts(QUEUE, now=moment)
        assert (counts.ready, counts.delayed, counts.reserved) == (
            states.count(JobState.READY),
            states.count(JobState.DELAYED),
            states.count(JobState.RESERVED),
        )
        assert driver.next_due(QUEUE, now=moment) == moment  # "c" is never taken


def test_next_due_names_the_moment_at_which_reserve_finds_a_job(driver: Driver) -> None:
    push(driver, "a", at=10.0)
    push(driver, "b", at=20.0)
    seen = []
    now = 0.0
    while (due := driver.next_due(QUEUE, now=now)) is not None and len(seen) < 5:
        assert due == now or nothing(driver, now=due - 0.000001)
        now = due
        seen.append((now, take(driver, now=now, retry_after=15.0).job.name))
    assert seen == [(10.0, "a"), (20.0, "b"), (25.0, "a"), (35.0, "b"), (40.0, "a")]


def test_next_due_is_now_while_something_is_ready(driver: Driver) -> None:
    push(driver, "a")
    assert driver.next_due(QUEUE, now=33.0) == 33.0


def test_jobs_are_listed_in_the_order_of_the_contract(driver: Driver) -> None:
    push(driver, "a", "b", "c")
    take(driver, retry_after=5.0)
    push(driver, "later", at=3.0)
    assert [job.name for job in driver.jobs(QUEUE, now=0.0)] == ["b", "c", "later", "a"]


def test_reading_changes_nothing(driver: Driver) -> None:
    push(driver, "a", "b", at=5.0)
    take(driver, now=5.0, retry_after=5.0)
    failed_one(driver, now=-5.0)
    before = [snapshot(driver, now=moment) for moment in (5.0, 10.0, 99.0)]
    driver.check(QUEUE, now=99.0)
    driver.failed_ids(QUEUE)
    assert [snapshot(driver, now=moment) for moment in (5.0, 10.0, 99.0)] == before


# -- statements --


def test_statements_are_collected_while_the_context_is_open(driver: Driver, store: Store) -> None:
    push(driver, "a")
    with driver.statements() as seen:
        held = take(driver)
        driver.complete(held, now=0.0)
    count = len(seen)
    push(driver, "b")
    assert len(seen) == count
    if store.name.startswith("memory"):
        assert seen == []
        return
    assert [statement.verb for statement in seen] == ["reserve", "complete"]
    assert {statement.language for statement in seen} == {"SQL" if driver.name == "sqlite" else "Lua"}
    assert all(statement.text and statement.values for statement in seen)


def test_two_contexts_collect_each_for_itself(driver: Driver) -> None:
    with driver.statements() as outer:
        with driver.statements() as inner:
            push(driver, "a")
        count = len(inner)
        push(driver, "b")
    assert outer[:count] == inner
    assert len(inner) == count


# -- two drivers on one store --


@only(*SHARED)
def test_two_drivers_on_one_store_are_one_queue(driver: Driver, open_again: Callable[[], Driver]) -> None:
    other = open_again()
    assert other.url == driver.url
    push(driver, "a", "b")
    held, theirs = take(driver), take(other)
    assert (held.job.name, theirs.job.name) == ("a", "b")
    assert other.counts(QUEUE, now=0.0) == driver.counts(QUEUE, now=0.0) == Counts(reserved=2)
    assert other.complete(held, now=1.0)
    assert not driver.complete(held, now=1.0)
    assert fail(driver, theirs, now=1.0)
    assert other.failed(QUEUE) == driver.failed(QUEUE)
    other.close()
    assert driver.counts(QUEUE, now=1.0) == Counts(failed=1)


@only(*SHARED)
def test_a_store_outlives_its_driver(open_again: Callable[[], Driver]) -> None:
    first = open_again()
    push(first, "a", "b")
    held = take(first)
    failed_one(first, now=-1.0)
    before = snapshot(first, now=0.0)
    first.close()
    second = open_again()
    assert snapshot(second, now=0.0) == before
    assert second.complete(held, now=0.0)
    assert push(second, "c")[0].id == 4


# -- marks --


def test_a_mark_is_the_largest_value_that_was_told(driver: Driver) -> None:
    assert driver.marks(QUEUE) == []
    for value in (3.0, 9.0, 0.5):
        driver.mark(QUEUE, Mark("run", "send", value))
    driver.mark(QUEUE, Mark("run", "a:b é", 0.000001))
    driver.mark(QUEUE, Mark("alive", "send", -1.0))
    driver.mark("other", Mark("run", "send", 99.0))
    kept = [Mark("alive", "send", -1.0), Mark("run", "a:b é", 0.000001), Mark("run", "send", 9.0)]
    assert driver.marks(QUEUE) == kept
    driver.clear(QUEUE, now=0.0)
    assert driver.marks(QUEUE) == kept
    assert driver.marks("other") == [Mark("run", "send", 99.0)]


def test_a_mark_can_be_dropped_and_begins_anew(driver: Driver) -> None:
    driver.unmark(QUEUE, "run", "send")
    driver.mark(QUEUE, Mark("run", "send", 9.0))
    driver.mark(QUEUE, Mark("alive", "send", 8.0))
    driver.unmark(QUEUE, "run", "send")
    driver.unmark(QUEUE, "run", "send")
    driver.mark(QUEUE, Mark("run", "send", 1.0))
    assert driver.marks(QUEUE) == [Mark("alive", "send", 8.0), Mark("run", "send", 1.0)]


@only(*SHARED)
def test_marks_are_seen_by_every_driver_of_the_store(driver: Driver, open_again: Callable[[], Driver]) -> None:
    many = [Mark("run", f"{number:04}", number + 1.0) for number in range(600)]
    for mark in many:
        driver.mark(QUEUE, mark)
    assert open_again().marks(QUEUE) == many
