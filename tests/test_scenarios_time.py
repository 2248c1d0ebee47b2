"""Scenarios of the bug catalogue: long handlers, reservations that last, odd clocks, days with 23 and 25 hours."""

import math
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import tzset  # noqa: TID251 - the machine's zone, not its time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import BY_ARRIVAL, IN_ORDER, QUEUE, only, outcomes, told

from qlab import Policy, Queue, SimulatedClock, Superseded
from qlab.driver import Counts, Driver
from qlab.job import Attempt


def nothing_but_done(job: Attempt) -> None:
    pass


# -- reservations and long handlers --


@pytest.mark.scenario("B08")
@pytest.mark.parametrize("tries", [1, 2, 3])
def test_a_job_that_outlives_its_reservation_on_its_last_attempt_runs_no_second_time(queue: Queue, tries: int) -> None:
    ran = []
    queue.handler("A", tries=tries)(lambda job: ran.append(job.number))
    queue.dispatch("A")
    held = None
    for attempt in range(tries):
        held = queue.reserve(90.0 * attempt, worker="w1")
    assert held
    late = 90.0 * tries + 1
    failed = queue.work_once(late, worker="w2")
    assert (type(failed).__name__, failed.error[:18]) == ("Failed", "AttemptsExhausted:")
    assert ran == []
    assert queue.finish(held, late + 9, worker="w1") == Superseded(1, "A", tries, late + 9, "complete")
    assert ran == [tries]
    assert [(row.attempts, row.error[:17]) for row in queue.failed()] == [(tries, "AttemptsExhausted")]
    assert queue.counts() == Counts(failed=1)


@pytest.mark.scenario("B09")
@pytest.mark.parametrize("retry_after", [0, -1, 0.0, -0.5, math.nan, -math.inf])
def test_a_reservation_that_would_not_last_is_refused(retry_after: float) -> None:
    with pytest.raises(ValueError, match=r"retry_after"):
        Policy(retry_after=retry_after)


@pytest.mark.scenario("B09")
@pytest.mark.parametrize("retry_after", ["90", b"90", [90], True])
def test_a_reservation_is_a_number_of_seconds(retry_after: Any) -> None:
    with pytest.raises(TypeError, match=r"retry_after"):
        Policy(retry_after=retry_after)


@pytest.mark.scenario("B09")
def test_a_reservation_without_an_end_never_runs_out(driver: Driver) -> None:
    queue = Queue(driver, clock=SimulatedClock(), name=QUEUE, policy=Policy(retry_after=None))
    queue.handler("A")(nothing_but_done)
    queue.dispatch("A")
    held = queue.reserve(0.0)
    assert held
    assert held.reserved_until == math.inf
    assert outcomes(queue, 90.0, 1e8) == ["Idle", "Idle"]
    assert queue.recover() == []
    assert queue.counts() == Counts(reserved=1)
    assert queue.next_due() is None
    assert type(queue.finish(held, 1e8)).__name__ == "Completed"


@pytest.mark.scenario("B29")
@pytest.mark.parametrize("extends", [True, False], ids=["extended", "not extended"])
def test_a_long_job_that_extends_its_reservation_is_run_by_nobody_else(queue: Queue, extends: bool) -> None:
    def handler(job: Attempt) -> Iterator[float]:
        yield 60.0
        if extends:
            assert job.extend(90.0)
        yield 85.0

    queue.handler("A")(handler)
    queue.dispatch("A")
    held = queue.reserve(0.0, worker="w1")
    assert held
    steps = queue.steps(held, 0.0, worker="w1")
    assert [next(steps), next(steps)] == [60.0, 85.0]
    found = {moment: queue.reserve(moment, worker="w2") is not None for moment in (89.0, 90.0, 91.0, 149.0, 150.0)}
    steps.close()
    expected = 150.0 if extends else 90.0
    assert [moment for moment, there in found.items() if there] == [expected]


# -- backoff --


@pytest.mark.scenario("B26")
@only("memory", "sqlite", "redis_zset-valkey")
@pytest.mark.parametrize("attempts", [1, 2_000, 1_000_000])
@pytest.mark.parametrize(
    "backoff",
    [
        lambda attempts: 2.0**attempts,
        lambda attempts: 10**attempts,
        lambda attempts: math.inf,
        lambda attempts: -math.inf,
        lambda attempts: math.nan,
        lambda attempts: "soon",
        lambda attempts: 1 / 0,
        lambda attempts: (_ for _ in ()).throw(SystemExit),
    ],
    ids=["float", "int", "inf", "-inf", "nan", "text", "raises", "exits"],
)
def test_no_backoff_is_so_wild_that_a_job_is_lost(backoff: Callable[[int], Any], attempts: int, driver: Driver) -> None:
    queue = Queue(driver, clock=SimulatedClock(), name=QUEUE, policy=Policy(tries=None, backoff=backoff, cap=600.0))

    def handler(job: Attempt) -> None:
        raise ValueError("boom")

    queue.handler("A")(handler)
    queue.dispatch("A")
    held = queue.reserve(0.0)
    assert held
    held = held._replace(job=held.job._replace(attempts=attempts))
    outcome = queue.finish(held, 0.0)
    assert type(outcome).__name__ == "Retrying"
    assert 0.0 <= outcome.available_at <= 600.0
    assert queue.counts().depth == 1
    assert type(queue.work_once(600.0)).__name__ == "Retrying"


# -- clocks --


@pytest.mark.scenario("B63")
@only(*IN_ORDER)
def test_a_clock_that_is_set_back_runs_nothing_early(queue: Queue) -> None:
    queue.handler("A")(nothing_but_done)
    assert outcomes(queue, 1000.0) == ["Idle"]
    queue.clock.advance_to(1000.0)
    queue.dispatch("A")
    assert outcomes(queue, 400.0, 999.999999, 1000.0, 1000.0) == ["Idle", "Idle", "Completed", "Idle"]
    waited(queue)


@pytest.mark.scenario("B63")
@only(*BY_ARRIVAL)
def test_a_list_has_no_time_so_a_clock_that_is_set_back_takes_what_is_in_it(queue: Queue) -> None:
    queue.handler("A")(nothing_but_done)
    queue.clock.advance_to(1000.0)
    queue.dispatch("A")
    assert outcomes(queue, 400.0, 1000.0) == ["Completed", "Idle"]
    waited(queue)


@pytest.mark.scenario("B63")
def test_a_clock_that_is_set_back_ends_no_reservation_early(queue: Queue) -> None:
    queue.handler("A")(nothing_but_done)
    queue.clock.advance_to(1000.0)
    queue.dispatch("A")
    assert queue.reserve(1000.0)
    assert outcomes(queue, 400.0, 500.0, 1089.0, 1090.0) == ["Idle", "Idle", "Idle", "Completed"]
    waited(queue)


def waited(queue: Queue) -> None:
    """No wait is negative."""
    for event in queue.trace:
        if event.kind == "reserved":
            assert event.since is not None
            assert event.since <= event.at


@pytest.fixture
def zone(request: pytest.FixtureRequest) -> Iterator[ZoneInfo]:
    """The machine stands in this time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    tzset()
    yield ZoneInfo(request.param)
    os.environ.pop("TZ") if before is None else os.environ.__setitem__("TZ", before)
    tzset()


@pytest.mark.scenario("B61")
@pytest.mark.parametrize("zone", ["Europe/Paris", "Asia/Kolkata"], indirect=True)
def test_one_moment_in_two_zones_is_one_moment_wherever_the_machine_stands(driver: Driver, zone: ZoneInfo) -> None:
    clock = SimulatedClock(epoch=datetime(2026, 3, 1, tzinfo=UTC))
    queue = Queue(driver, clock=clock, name=QUEUE)
    queue.handler("A")(nothing_but_done)
    paris = datetime(2026, 3, 1, 19, 23, 42, tzinfo=ZoneInfo("Europe/Paris"))
    for at in (paris, paris.astimezone(UTC), paris.astimezone(zone)):
        assert queue.dispatch_at("A", at=at).available_at == 18 * 3600 + 23 * 60 + 42
    with pytest.raises(ValueError, match=r"is naive: say which zone it is in, as in datetime"):
        queue.dispatch_at("A", at=paris.replace(tzinfo=None))
    assert queue.counts().delayed == 3


@pytest.mark.scenario("B62")
@pytest.mark.parametrize("zone", ["Europe/Helsinki", "America/New_York", "Australia/Lord_Howe"], indirect=True)
def test_a_job_that_dispatches_itself_every_half_hour_gets_through_the_hour_that_comes_twice(
    driver: Driver, zone: ZoneInfo
) -> None:
    folds = [at for at in halves(zone, 2026) if at.replace(fold=0).utcoffset() != at.replace(fold=1).utcoffset()]
    assert folds, "the zone has an hour that comes twice"
    first = folds[0].replace(fold=0).astimezone(UTC) - timedelta(hours=1)
    clock = SimulatedClock(epoch=first.astimezone(zone))
    queue = Queue(driver, clock=clock, name=QUEUE)
    due: list[datetime] = []

    def every_half_hour(job: Attempt) -> None:
        due.append(clock.date())
        queue.dispatch_at("A", at=clock.date().astimezone(UTC) + timedelta(minutes=30))

    queue.handler("A")(every_half_hour)
    queue.dispatch("A")
    queue.drain(until=4 * 3600.0 - 1)
    assert [at.astimezone(UTC) - first for at in due] == [timedelta(minutes=30 * number) for number in range(8)]
    assert queue.counts() == Counts(ready=0, delayed=1)
    assert told(queue, "completed")[-1] == (12_600.0, "completed", 8)


def halves(zone: ZoneInfo, year: int) -> Iterator[datetime]:
    """Every half hour of a year, as the clock on the wall shows it."""
    at = datetime(year, 1, 1)  # noqa: DTZ001 - a time on the wall, which is given its zone below
    while at.year == year:
        yield at.replace(tzinfo=zone)
        at += timedelta(minutes=30)


@pytest.mark.scenario("B65")
@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
@pytest.mark.parametrize(("month", "offset"), [(1, -5), (7, -4)], ids=["winter", "summer"])
def test_a_date_is_exact_in_winter_and_in_summer(driver: Driver, zone: ZoneInfo, month: int, offset: int) -> None:
    queue = Queue(driver, clock=SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=zone)), name=QUEUE)
    queue.handler("A")(nothing_but_done)
    local = datetime(2026, month, 15, 12, tzinfo=zone)
    assert local.utcoffset() == timedelta(hours=offset)
    days = (datetime(2026, month, 15, tzinfo=UTC) - datetime(2026, 1, 1, tzinfo=UTC)).days
    assert queue.dispatch_at("A", at=local).available_at == days * 86_400 + 12 * 3600 - (offset + 5) * 3600
    with pytest.raises(ValueError, match="is naive"):
        queue.dispatch_at("A", at=local.replace(tzinfo=None))
