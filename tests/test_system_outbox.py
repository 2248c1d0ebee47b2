"""The mail outbox: a pace and a daily cap on any driver, kept across restarts, with days of 23, 24 and 25 hours."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import ONE_OF_EACH, SHARED, only, stores
from watching import eventually

from qlab import SimulatedClock
from qlab.checkup.store_checks import store_of
from qlab.commands.store import failed_jobs_file
from qlab.driver import Counts, Driver
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.systems import Outbox, mail_outbox
from qlab.systems.outbox import Days

store = stores(*ONE_OF_EACH)
DAY = 86_400.0
SHARED_ONES = tuple(name for name in ONE_OF_EACH if name in SHARED)
Makes = Callable[..., Outbox]


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(epoch=datetime(2026, 10, 7, tzinfo=UTC))


@pytest.fixture
def makes(open_again: Callable[[], Driver], clock: SimulatedClock) -> Iterator[Makes]:
    """Opens the outbox on the test's store; once more, as after a restart, where the store is not memory."""
    with ExitStack() as opened:

        def make(send: Callable[[Attempt], Any] = lambda job: None, **how: Any) -> Outbox:
            outbox = mail_outbox(open_again(), send, **{"clock": clock, "poll": 0.002, **how})
            opened.callback(outbox.close)
            return outbox

        yield make


def left_at(outbox: Outbox) -> list[float]:
    """When mails left, or were tried."""
    return [event.at for event in outbox.queue.trace if event.kind == "reserved"]


def post(outbox: Outbox, count: int) -> None:
    outbox.queue.dispatch_many([("mail", number) for number in range(count)])


def test_one_mail_leaves_a_minute(makes: Makes, clock: SimulatedClock) -> None:
    outbox = makes()
    post(outbox, 3)
    outbox.queue.drain(until=1000.0)
    assert left_at(outbox) == [0.0, 60.0, 120.0]
    outbox.post({"to": "ada@example.org"})
    assert outbox.queue.next_due() == 1000.0
    outbox.queue.drain()
    assert left_at(outbox)[3:] == [1000.0]
    assert outbox.queue.counts() == Counts()


def test_so_many_mails_leave_in_a_day_and_the_next_waits_for_midnight(makes: Makes) -> None:
    outbox = makes(daily_cap=3)
    post(outbox, 7)
    outbox.queue.drain(until=3 * DAY)
    assert left_at(outbox) == [0.0, 60.0, 120.0, DAY, DAY + 60.0, DAY + 120.0, 2 * DAY]


@only("memory")
def test_2000_mails_at_one_a_minute_and_500_a_day_take_3_days_8_hours_and_19_minutes(makes: Makes) -> None:
    outbox = makes()
    post(outbox, 2_000)
    outbox.queue.drain(until=4 * DAY)
    left = left_at(outbox)
    assert (len(left), left[500], left[-1]) == (2_000, DAY, 289_140.0)


@only(*SHARED_ONES)
def test_pace_and_cap_are_kept_across_a_restart(makes: Makes, clock: SimulatedClock) -> None:
    first = makes(daily_cap=2)
    post(first, 4)
    first.queue.drain()
    first.close()
    clock.advance(59.0)
    second = makes(daily_cap=2)
    assert (second.left_today(), second.queue.next_due()) == (1, 60.0)
    second.queue.drain(until=200.0)
    second.close()
    third = makes(daily_cap=2)
    assert (third.left_today(), third.queue.next_due()) == (0, DAY)
    third.queue.drain(until=DAY + 60.0)
    assert (left_at(first), left_at(second), left_at(third)) == ([0.0], [60.0], [DAY, DAY + 60.0])


@only(*SHARED_ONES)
def test_pace_and_cap_hold_for_all_processes_that_have_the_store_open(makes: Makes) -> None:
    outboxes = [makes(daily_cap=5) for _ in range(3)]
    post(outboxes[0], 9)
    for now in range(0, 600, 20):
        for outbox in outboxes:
            outbox.queue.work_once(float(now))
    left = sorted(moment for outbox in outboxes for moment in left_at(outbox))
    assert left == [0.0, 60.0, 120.0, 180.0, 240.0]


@only(*SHARED_ONES)
def test_another_cap_counts_for_what_is_left_of_the_day(makes: Makes, clock: SimulatedClock) -> None:
    outbox = makes(daily_cap=4, pace=0.0)
    post(outbox, 30)
    assert len(outbox.queue.drain()) == 4
    clock.advance(1.0)
    higher = makes(daily_cap=6, pace=0.0)
    assert (higher.left_today(), len(higher.queue.drain()), higher.left_today()) == (2, 2, 0)
    lower = makes(daily_cap=3, pace=0.0)
    assert (lower.left_today(), len(lower.queue.drain())) == (0, 0)
    clock.advance_to(DAY)
    assert (lower.left_today(), len(lower.queue.drain())) == (3, 3)
    again = makes(daily_cap=6, pace=0.0)
    assert len(again.queue.drain()) == 3
    clock.advance_to(2 * DAY)
    assert len(again.queue.drain()) == 6


def test_an_attempt_that_fails_counts_too(makes: Makes) -> None:
    def send(job: Attempt) -> None:
        if job.number == 1:
            raise OSError("the server hung up")

    outbox = makes(send, daily_cap=3)
    post(outbox, 2)
    outbox.queue.drain(until=2 * DAY)
    assert left_at(outbox) == [0.0, 60.0, 120.0, DAY]
    assert outbox.queue.counts() == Counts()


def test_where_nothing_waits_no_ticket_is_touched(makes: Makes, clock: SimulatedClock) -> None:
    outbox = makes(daily_cap=2)
    outbox.queue.dispatch_later("mail", delay=10.0)
    for _ in range(5):
        outbox.queue.work_once()
    assert outbox.left_today() == 2
    assert all(job.attempts == 0 for name in ("pace", "day") for job in tickets(outbox, name))


def tickets(outbox: Outbox, kind: str) -> Any:
    return outbox.queue.driver.jobs(f"mail_outbox: {kind}", now=0.0)


def test_a_mail_that_cannot_be_had_leaves_its_tickets_used_and_nothing_goes_faster(
    makes: Makes, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = makes()
    post(outbox, 1)
    inner: Any = outbox.queue.driver
    real = inner.store.reserve

    def reserve(queue: str, **how: Any) -> Any:
        if queue == "mail_outbox":
            raise DriverUnavailable("gone")
        return real(queue, **how)

    with monkeypatch.context() as broken:
        broken.setattr(inner.store, "reserve", reserve)
        with pytest.raises(DriverUnavailable):
            outbox.queue.work_once()
    assert outbox.queue.next_due() == 60.0
    outbox.queue.drain(until=60.0)
    assert left_at(outbox) == [60.0]


def test_a_mail_that_another_process_took_meanwhile_gives_its_tickets_back(
    makes: Makes, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = makes(daily_cap=2)
    inner: Any = outbox.queue.driver
    monkeypatch.setattr(inner.store, "next_due", lambda queue, now: now)
    assert type(outbox.queue.work_once()).__name__ == "Idle"
    assert outbox.left_today() == 2


def test_a_worker_of_its_own_delivers(makes: Makes) -> None:
    sent, done = [], threading.Event()

    def send(job: Attempt) -> None:
        sent.append(job.payload)
        if len(sent) == 3:
            done.set()

    with makes(send, pace=0.0) as outbox:
        post(outbox, 3)
        assert eventually(done)
    assert sorted(sent) == [0, 1, 2]


@only("memory")
def test_without_pace_and_cap_it_is_a_queue_like_any_other(makes: Makes) -> None:
    outbox = makes(pace=0.0, daily_cap=None, clock=SimulatedClock())
    post(outbox, 5)
    assert len(outbox.queue.drain()) == 5
    assert outbox.left_today() is None
    assert outbox.queue.driver.jobs("mail_outbox: day", now=0.0) == []


def test_a_mail_and_the_row_that_it_is_about_commit_together(tmp_path: Path) -> None:
    outbox = mail_outbox(f"sqlite:///{tmp_path}/shop.db", lambda job: None)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as shop:
        shop.execute("BEGIN IMMEDIATE")
        outbox.queue.dispatch("mail", connection=shop)
        assert outbox.queue.counts() == Counts()
        shop.execute("COMMIT")
    assert outbox.queue.counts() == Counts(ready=1)
    outbox.close()


@only("sqlite", "redis_zset-valkey")
def test_a_checkup_and_the_commands_look_at_the_store_behind(makes: Makes) -> None:
    outbox = makes()
    store = outbox.queue.driver.store
    found = [finding.says for finding in store_of(outbox.queue)]
    assert any(store.description.split(",")[0] in says for says in found)
    assert not any("forgotten with it" in says for says in found)
    assert failed_jobs_file(outbox.queue).parent.is_dir()


def test_an_outbox_wakes_where_its_store_does(makes: Makes) -> None:
    outbox = makes()
    driver = outbox.queue.driver
    assert driver.wakes == driver.store.wakes
    if driver.wakes:
        assert not driver.wait(outbox.queue.name, 0.01)
        post(outbox, 1)
        assert driver.wait(outbox.queue.name, 5.0)
    else:
        with pytest.raises(ValueError, match=f"{driver.store.name} cannot wake a worker"):
            driver.wait(outbox.queue.name, 0.0)


# -- days --

CHANGES = {
    "23 hours": (datetime(2026, 3, 28, 12, tzinfo=ZoneInfo("Europe/Paris")), [12.0, 12.0 + 23.0, 12.0 + 23.0 + 24.0]),
    "25 hours": (datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Paris")), [12.0, 12.0 + 25.0, 12.0 + 25.0 + 24.0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_day_of_another_length_ends_at_midnight_all_the_same(makes: Makes, change: str) -> None:
    noon, midnights = CHANGES[change]
    clock = SimulatedClock(epoch=noon)
    outbox = makes(zone="Europe/Paris", daily_cap=1, clock=clock)
    post(outbox, 4)
    outbox.queue.drain(until=4 * DAY)
    assert left_at(outbox) == [0.0, *(3_600.0 * hours for hours in midnights)]
    assert [clock.date(moment).hour for moment in left_at(outbox)] == [12, 0, 0, 0]


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("America/Sao_Paulo", 2018),  # no midnight where summer begins
        ("America/St_Johns", 2010),  # midnight comes twice where summer ends
        ("Africa/Cairo", 2024),
        ("Pacific/Apia", 2011),  # a day that never was
        ("Asia/Kathmandu", 2026),
    ],
)
def test_a_day_ends_after_each_of_its_moments_and_another_begins_there(zone: str, year: int) -> None:
    clock, place = SimulatedClock(epoch=datetime(year, 1, 1, tzinfo=UTC)), ZoneInfo(zone)
    days = Days(clock, place)
    for quarter in range(366 * 96):
        moment = quarter * 900.0 + 30.0
        end = days.end(moment)
        assert moment < end <= moment + 26 * 3_600.0
        assert local_date(clock, end, place) > local_date(clock, moment, place)
        assert local_date(clock, end - 0.001, place) <= local_date(clock, end, place) - timedelta(days=1)


def local_date(clock: SimulatedClock, moment: float, place: ZoneInfo) -> date:
    return clock.date(moment).astimezone(place).date()


# -- what it refuses --


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"pace": -1.0}, "pace is -1.0 s: use a number of seconds from 0"),
        ({"daily_cap": 0}, "daily_cap is 0: use how many mails leave in a day, from 1, or None for no cap"),
        ({"daily_cap": 2.5}, "daily_cap is 2.5"),
        ({"zone": "Mars/Olympus"}, "zone is 'Mars/Olympus': use a time zone's name, such as Europe/Paris"),
        ({"zone": "../etc/passwd"}, "zone is '../etc/passwd'"),
        ({"clock": SimulatedClock()}, "SimulatedClock\\(epoch="),
        ({"workers": -1}, "workers is -1"),
    ],
)
def test_what_an_outbox_cannot_be_made_of_is_refused(how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mail_outbox("memory://", lambda job: None, **how)


@pytest.mark.parametrize("zone", [None, 1, b"UTC"])
def test_what_is_no_time_zone_is_refused_by_name(zone: Any) -> None:
    with pytest.raises(TypeError, match=f"zone is {zone!r}: use a time zone's name, such as Europe/Paris, or a tzinfo"):
        mail_outbox("memory://", lambda job: None, zone=zone)
