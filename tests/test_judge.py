"""Holding a driver against the contract: every driver keeps it, and each promise notices who does not."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, new, only, push, take

from qlab.contract import PROMISES, Hands, Judged, Promise, judge, promise
from qlab.driver import Counts, Driver
from qlab.drivers.memory import MemoryDriver
from qlab.flaws import FLAWS
from qlab.job import NewJob
from qlab.testing import assert_contract

BY_NAME = {each.name: each for each in PROMISES}
ORDERS = "no order of a few workers breaks anything"
QUICK = [each for each in PROMISES if each.name != ORDERS]


@only(*ONE_OF_EACH)
def test_no_order_of_a_few_workers_breaks_anything_on_a_driver(driver: Driver) -> None:
    assert judge(driver, promises=[BY_NAME[ORDERS]]).broken == []


@only(*ONE_OF_EACH)
def test_a_driver_is_held_against_all_in_turn_and_its_queues_are_empty_afterwards(driver: Driver) -> None:
    queues: list[str] = []

    def noted(each: Promise) -> Promise:
        return each._replace(program=lambda on: (queues.extend((on.queue, on.other)), each.program(on))[1])

    assert judge(driver, promises=[noted(each) for each in QUICK]).broken == []
    assert len(set(queues)) == 2 * len(QUICK)
    assert {driver.counts(queue, now=0.0) for queue in queues} == {Counts()}


def test_what_others_have_in_a_store_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    assert len(judge(url, promises=QUICK)) == len(QUICK)
    tables = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM failed_jobs)"
    connection = sqlite3.connect(tmp_path / "jobs.db")
    assert connection.execute(tables).fetchone() == (0,)
    connection.close()


def test_an_address_a_class_and_a_driver_are_held_against_the_same() -> None:
    with MemoryDriver() as driver:
        push(driver, "a")
        judged = judge(driver)
        assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)
        assert take(driver).job.name == "a"
    assert judged == judge("memory://") == judge(MemoryDriver)
    assert repr(judged[0]) == "✓ a queue that was never used is empty"
    assert (judged.kept, judged.broken, [each.promise for each in judged]) == (len(PROMISES), [], [*BY_NAME])


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_breaks_the_contract_and_some_order_of_workers_shows_it(name: str) -> None:
    broken = [each.promise for each in judge(FLAWS[name]).broken]
    assert "no order of a few workers breaks anything" in broken
    assert len(broken) > 1


# -- each promise notices --

Verb = Callable[..., Any]


def instead(verb: str, does: Callable[[MemoryDriver, Verb], Verb]) -> type[MemoryDriver]:
    """A memory driver with another verb, which is given the driver and the verb that it had."""

    def called(driver: MemoryDriver, *args: Any, **named: Any) -> Any:
        return does(driver, getattr(super(broken, driver), verb))(*args, **named)

    broken = type("Broken", (MemoryDriver,), {verb: called})
    return broken


def always(value: object) -> Callable[[MemoryDriver, Verb], Verb]:
    return lambda driver, verb: lambda *args, **named: value


def changed(change: Callable[[Any], Any]) -> Callable[[MemoryDriver, Verb], Verb]:
    """What a verb gives is another value."""
    return lambda driver, verb: lambda *args, **named: change(verb(*args, **named))


def twice(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda *args, **named: (verb(*args, **named), verb(*args, **named))[0]


def said(driver: MemoryDriver, verb: Verb) -> Verb:
    """A verb that says it was done, whatever came of it."""
    return lambda *args, **named: verb(*args, **named) or True


def with_named(**named: Any) -> Callable[[MemoryDriver, Verb], Verb]:
    """A verb that is called with other arguments."""
    return lambda driver, verb: lambda *args, **given: verb(*args, **{**given, **named})


def each_alone(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, jobs, **named: [verb(queue, [job], **named)[0] for job in jobs]


def new_uids(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, jobs, **named: verb(queue, [job._replace(uid=new().uid) for job in jobs], **named)


def stripped(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, jobs, **named: verb(queue, [job._replace(body=job.body.strip()) for job in jobs], **named)


def later(by: float) -> Callable[[MemoryDriver, Verb], Verb]:
    return lambda driver, verb: lambda *args, now, **named: verb(*args, now=now + by, **named)


def not_rounded(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, jobs, **named: [
        stored._replace(available_at=job.available_at)
        for stored, job in zip(verb(queue, jobs, **named), jobs, strict=True)
    ]


def past_moments(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, jobs, *, now, **named: verb(queue, jobs, now=min(now, jobs[0].available_at), **named)


def last_first(driver: MemoryDriver, verb: Verb) -> Verb:
    def reserve(queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Any]:
        found = verb(queue, now=now, retry_after=retry_after, limit=1_000)
        for held in found[limit:]:
            driver.release(held, now=now)
        return sorted(found[:limit], key=lambda held: -held.job.id)

    return reserve


def to_all(driver: MemoryDriver, verb: Verb) -> Verb:
    """A verb that reaches every queue."""
    return lambda queue, **named: [verb(each, **named) for each in [*driver._queues]][0]  # noqa: RUF015, SLF001


def one_token(driver: MemoryDriver, verb: Verb) -> Verb:
    return changed(lambda held: [each._replace(token="same") for each in held])(driver, verb)


def only_in_its_thread(driver: MemoryDriver, verb: Verb) -> Verb:
    """As a connection of sqlite3 is, which others may not use."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("made in another thread")
    return verb


def open_for_ever(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda: None


def forgets_ids(driver: MemoryDriver, verb: Verb) -> Verb:
    def clear(queue: str, *, now: float) -> int:
        count = verb(queue, now=now)
        driver._queues.clear()  # noqa: SLF001
        return int(count)

    return clear


def in_reverse(driver: MemoryDriver, verb: Verb) -> Verb:
    return lambda queue, ids, **named: [each for id in reversed(ids) for each in verb(queue, [id], **named)]


BREAKS: dict[str, type[MemoryDriver]] = {
    "a queue that was never used is empty": instead("next_due", always(0.0)),
    "push tells the jobs as they are stored": instead("push", changed(lambda jobs: jobs[::-1])),
    "names and payloads come back as they were": instead("push", stripped),
    "a moment in the past counts as now": instead("push", past_moments),
    "moments are whole microseconds": instead("push", not_rounded),
    "push stores all or none": instead("push", each_alone),
    "a push that is repeated changes nothing": instead("push", new_uids),
    "a push that is sent again finds the failed job": instead("push", with_named(resent=False)),
    "an id is never given twice": instead("clear", forgets_ids),
    "counts jobs and next due agree": instead("counts", later(-0.000001)),
    "clear deletes what waits and what is reserved": instead("clear", changed(lambda count: count - 1)),
    "queues of one store do not meet": instead("recover", to_all),
    "reserve tells the job as it stands from then on": instead(
        "reserve", changed(lambda held: [each._replace(claimable_since=0.0) for each in held])
    ),
    "a job is due at its moment and not before": instead("reserve", later(-0.000001)),
    "a job in hand is given to nobody until it runs out": FLAWS["no running out"],
    "a reservation may be for ever": instead(
        "reserve",
        lambda driver, verb: (
            lambda queue, **named: verb(queue, **{**named, "retry_after": named["retry_after"] or 1.0})
        ),
    ),
    "reserve takes up to its limit": instead("reserve", with_named(limit=1)),
    "no two reservations have one token": instead("reserve", one_token),
    "the job that has been claimable longest goes first": instead("reserve", last_first),
    "jobs of one moment go in the order of dispatch": instead("reserve", last_first),
    "a released job goes behind its peers": FLAWS["release in place"],
    "recovered jobs go behind those that wait": FLAWS["recover in place"],
    "recover takes what has run out and by force everything": instead("recover", with_named(force=True)),
    "complete deletes a job once": instead("complete", said),
    "completing may take the next job": instead("complete_and_reserve", changed(lambda told: (told[0], None))),
    "a released job waits for its delay": instead("release", with_named(delay=0.0)),
    "extend moves the deadline": instead("extend", later(1.0)),
    "running out ends nothing by itself": FLAWS["token revoked by running out"],
    "a superseded worker completes nothing": FLAWS["completion by id"],
    "a superseded worker releases nothing": FLAWS["superseded release re-inserts"],
    "a superseded worker extends nothing": instead("extend", said),
    "a superseded worker fails nothing": instead("fail", said),
    "fail moves a job with its error": instead("fail", with_named(error="", attempts=1)),
    "failed jobs are listed by id and page by page": instead("failed", with_named(after=0)),
    "a retried job begins anew and keeps its uid": instead("retry", with_named(body=None)),
    "retry takes the ids in their order": instead("retry", in_reverse),
    "forget deletes failed jobs": instead("forget", changed(sorted)),
    "one job is never given to two threads": instead("reserve", only_in_its_thread),
    "no order of a few workers breaks anything": FLAWS["completion by id"],
    "a closed driver raises and may be closed again": instead("close", open_for_ever),
}


def test_there_is_a_broken_driver_for_every_promise() -> None:
    assert [*BREAKS] == [*BY_NAME]


@pytest.mark.parametrize("name", BREAKS)
def test_each_promise_notices_a_driver_that_breaks_it(name: str) -> None:
    (verdict,) = judge(BREAKS[name], promises=[BY_NAME[name]])
    assert (verdict.promise, verdict.kept) == (name, False)
    assert " is promised" in verdict.says or ": " in verdict.says


def test_a_check_that_finds_something_breaks_whatever_was_promised() -> None:
    broken = instead("check", always(["job 1 stands in no set"]))
    assert [each.says for each in judge(broken, promises=PROMISES[:1])] == [
        "what check finds afterwards: ['job 1 stands in no set'], where [] is promised"
    ]


# -- what is told --


def test_what_a_verb_raises_is_told_as_a_broken_promise() -> None:
    class Raises(MemoryDriver):
        def push(self, *args: Any, **named: Any) -> Any:
            raise OSError("disk full")

    verdicts = judge(Raises, promises=PROMISES[:2])
    assert [(each.kept, each.says) for each in verdicts] == [(True, ""), (False, "OSError: disk full")]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_error_that_cannot_be_told_is_named() -> None:
    class Raises(MemoryDriver):
        def push(self, *args: Any, **named: Any) -> Any:
            raise Unspeakable

    (verdict,) = judge(Raises, promises=PROMISES[1:2])
    assert verdict.says == "Unspeakable: (its text cannot be shown: ValueError)"


def test_a_driver_that_cannot_be_closed_breaks_what_was_promised() -> None:
    class Stuck(MemoryDriver):
        def push(self, *args: Any, **named: Any) -> Any:
            raise OSError("disk full")

        def close(self) -> None:
            raise OSError("disk gone")

    told = [(each.kept, each.says) for each in judge(Stuck, promises=PROMISES[:2])]
    assert told == [(False, "OSError: disk gone"), (False, "OSError: disk full; OSError: disk gone")]


@pytest.mark.parametrize("wrong", [3, None, lambda: None, dict])
def test_what_makes_no_driver_is_refused_by_its_name(wrong: Any) -> None:
    with pytest.raises(TypeError, match="makes no driver"):
        judge(wrong)


def test_a_promise_that_yields_nothing_says_what_it_should() -> None:
    @promise
    def nothing_much(on: Hands) -> Any:
        """Forgets to yield."""

    (verdict,) = judge(MemoryDriver, promises=[nothing_much])
    assert verdict.says.startswith("TypeError: a promise yields what was asked, what came and what is promised")


def test_who_cannot_be_made_is_refused_with_what_is_missing() -> None:
    class Half(Driver):
        pass

    with pytest.raises(TypeError, match=r"abstract.*complete_and_reserve"):
        judge(Half)


def test_the_verdicts_are_a_table_in_a_notebook() -> None:
    judged = judge(FLAWS["completion by id"], promises=[BY_NAME["a superseded worker completes nothing"]])
    assert isinstance(judged, Judged)
    told = judged._repr_html_()
    assert "a superseded worker completes nothing" in told
    assert "✗" in told
    assert "where False is promised" in told


def test_an_assertion_names_each_promise_that_is_broken_and_how() -> None:
    assert_contract("memory://")
    with pytest.raises(AssertionError) as raised:
        assert_contract(FLAWS["completion by id"])
    first, *told = str(raised.value).splitlines()
    assert first == f"3 of {len(PROMISES)} promises are broken:"
    assert "  a superseded worker completes nothing" in told
    assert "    what a superseded worker's complete says: True, where False is promised" in told


def test_threads_take_turns_as_often_as_they_did_before() -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        judge(MemoryDriver, promises=[BY_NAME["one job is never given to two threads"]])
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(usual)


def test_a_promise_of_one_s_own_is_held_against_a_driver_like_the_others() -> None:
    @promise
    def a_large_payload_comes_back(on: Hands) -> Iterator[tuple[str, object, object]]:
        on.driver.push(on.queue, [new(body='"…"' * 100_000)], now=0.0)
        yield "its length", len(on.take().job.body), 300_000

    short = instead("push", lambda driver, verb: lambda queue, jobs, **named: verb(queue, [cut(*jobs)], **named))
    own = [a_large_payload_comes_back]
    assert judge(MemoryDriver, promises=own).broken == []
    assert repr(judge(short, promises=own)) == (
        "[✗ a large payload comes back: its length: 65535, where 300000 is promised]"
    )


def cut(job: NewJob) -> NewJob:
    return job._replace(body=job.body[:65_535])
