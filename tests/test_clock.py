"""Where time comes from."""

import itertools
import math
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from qlab import Clock, SimulatedClock, SystemClock
from qlab.clock import NEVER, Flag, duration, from_us, monotonic, pause, us

NEW_YORK = ZoneInfo("America/New_York")
HELSINKI = ZoneInfo("Europe/Helsinki")

# -- seconds and microseconds --


@pytest.mark.parametrize(
    ("seconds", "microseconds"),
    [
        (0, 0),
        (1, 1_000_000),
        (0.1 + 0.2, 300_000),
        (-1.5, -1_500_000),
        (0.0000004, 0),
        (0.0000006, 1),
        (1_760_000_000.123456, 1_760_000_000_123_456),
        (math.inf, NEVER),
    ],
)
def test_seconds_are_rounded_to_microseconds(seconds: float, microseconds: int) -> None:
    assert us(seconds) == microseconds


@pytest.mark.parametrize("microseconds", [0, 1, -1, 999_999, 1_760_000_000_123_457, 9_007_199_253 * 10**6])
def test_every_microsecond_comes_back_as_it_was(microseconds: int) -> None:
    assert us(from_us(microseconds)) == microseconds


@pytest.mark.parametrize("seconds", [math.nan, -math.inf, 1e10, -1e10, 1e300])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="is not a time: use a number between"):
        us(seconds)


def test_never_is_later_than_every_moment() -> None:
    assert us(9_007_199_253) < NEVER
    assert from_us(NEVER) == math.inf
    assert float(NEVER) == NEVER


@pytest.mark.parametrize(("given", "seconds"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=1), 60.0)])
def test_a_duration_is_seconds_or_a_timedelta(given: Any, seconds: float) -> None:
    assert duration(given, "delay") == seconds


@pytest.mark.parametrize("given", [-1, -1e-9, math.nan, math.inf, 1e10])
def test_a_duration_out_of_range_is_refused_with_itself(given: float) -> None:
    with pytest.raises(ValueError, match=rf"delay is {given!r} s: use a number of seconds from 0"):
        duration(given, "delay")


@pytest.mark.parametrize("given", ["1", None, True, [1], 1j])
def test_a_duration_of_another_kind_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="delay is .*: use a number of seconds"):
        duration(given, "delay")


# -- the simulated clock --


def test_a_simulated_clock_moves_only_when_it_is_moved() -> None:
    clock = SimulatedClock()
    assert isinstance(clock, Clock)
    assert [clock.now(), clock.now()] == [0.0, 0.0]
    assert clock.advance(2.5) == 2.5
    assert clock.advance_to(10) == 10.0
    clock.spend(0.5)
    assert clock.now() == 10.5
    assert repr(clock) == "SimulatedClock(10.5 s)"
    assert SimulatedClock(100.0).now() == 100.0


def test_steps_add_up_exactly() -> None:
    clock = SimulatedClock()
    for _ in range(10):
        clock.advance(0.1)
    assert clock.now() == 1.0


@pytest.mark.parametrize("seconds", [-1.0, -1e-9, math.nan, math.inf, -math.inf])
def test_it_never_goes_back(seconds: float) -> None:
    clock = SimulatedClock(5.0)
    with pytest.raises(ValueError, match="advance is"):
        clock.advance(seconds)
    assert clock.now() == 5.0


@pytest.mark.parametrize("moment", [4.999999, -1.0, math.nan, math.inf, -math.inf])
def test_it_cannot_be_moved_to_a_moment_that_is_past_or_none(moment: float) -> None:
    clock = SimulatedClock(5.0)
    with pytest.raises(ValueError, match="go back|not a time|a moment that comes"):
        clock.advance_to(moment)
    assert clock.now() == 5.0


@pytest.mark.parametrize("start", [math.nan, math.inf, -math.inf, "now", True, None])
def test_it_cannot_begin_at_no_moment(start: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="not a time|start is"):
        SimulatedClock(start)


def test_it_may_be_moved_to_where_it_stands() -> None:
    assert SimulatedClock(5.0).advance_to(5.0) == 5.0
    assert SimulatedClock(5.0).advance(0) == 5.0


def test_threads_may_move_it_together() -> None:
    clock = SimulatedClock()

    def move() -> None:
        for _ in range(2_000):
            clock.advance(0.001)

    threads = [threading.Thread(target=move) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert clock.now() == 8.0


# -- dates --


def test_an_epoch_says_which_day_0_is() -> None:
    clock = SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC))
    assert clock.moment(datetime(2026, 1, 1, 0, 1, tzinfo=UTC)) == 60.0
    assert clock.moment(datetime(2025, 12, 31, 23, 59, tzinfo=UTC)) == -60.0
    clock.advance_to(datetime(2026, 1, 2, tzinfo=UTC))
    assert clock.now() == 86_400.0
    assert clock.date() == datetime(2026, 1, 2, tzinfo=UTC)
    assert clock.date(1.5) == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert repr(clock) == "SimulatedClock(2026-01-02 00:00:00+00:00)"


DATES = (
    datetime(2026, 3, 8, 1, 59, tzinfo=NEW_YORK),
    datetime(2026, 3, 8, 3, 1, tzinfo=NEW_YORK),
    datetime(2026, 7, 1, tzinfo=NEW_YORK),
    datetime(2026, 7, 1, tzinfo=HELSINKI),
    datetime(2026, 10, 25, 3, 30, tzinfo=HELSINKI),
    datetime(2026, 10, 25, 3, 30, tzinfo=HELSINKI, fold=1),
    datetime(2026, 12, 31, tzinfo=NEW_YORK),
    datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
)


@pytest.mark.parametrize("date", DATES, ids=lambda date: f"{date.isoformat()}-{date.fold}")
@pytest.mark.parametrize(
    "epoch",
    [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=NEW_YORK), datetime(2026, 1, 1, tzinfo=HELSINKI)],
    ids=lambda epoch: str(epoch.tzinfo),
)
def test_a_date_is_one_moment_whatever_its_zone_and_the_epoch_s(epoch: datetime, date: datetime) -> None:
    seconds = date.timestamp() - epoch.timestamp()
    clock = SimulatedClock(epoch=epoch)
    assert clock.moment(date) == seconds
    assert clock.date(seconds).timestamp() == date.timestamp()
    assert clock.moment(clock.date(seconds)) == seconds
    assert clock.date(seconds).tzinfo is epoch.tzinfo
    assert SystemClock().moment(date) == date.timestamp()


@pytest.mark.parametrize(
    "clock", [SimulatedClock(), SimulatedClock(epoch=datetime(2026, 1, 1, tzinfo=UTC)), SystemClock()]
)
def test_a_naive_date_is_refused_with_what_to_write_instead(clock: Clock) -> None:
    naive = datetime(2026, 7, 1, 12)  # noqa: DTZ001 - what is tested
    with pytest.raises(
        ValueError, match=r"is naive: .*tzinfo=datetime\.timezone\.utc\) or .*ZoneInfo\('Europe/Paris'\)"
    ):
        clock.moment(naive)


def test_a_naive_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch .* is naive"):
        SimulatedClock(epoch=datetime(2026, 7, 1))  # noqa: DTZ001 - what is tested


def test_a_clock_without_an_epoch_knows_no_dates() -> None:
    for use in (lambda: SimulatedClock().moment(datetime(2026, 1, 1, tzinfo=UTC)), SimulatedClock().date):
        with pytest.raises(ValueError, match=r"epoch.*use .*SimulatedClock\(epoch=datetime"):
            use()


@pytest.mark.parametrize("clock", [SimulatedClock(), SystemClock()])
def test_a_moment_in_seconds_is_rounded_like_in_the_stores(clock: Clock) -> None:
    assert clock.moment(0.1 + 0.2) == 0.3
    with pytest.raises(ValueError, match="not a time"):
        clock.moment(math.nan)


# -- the machine's clock --


def test_the_machine_s_clock_tells_seconds_since_1970() -> None:
    clock = SystemClock()
    assert isinstance(clock, Clock)
    assert clock.now() > datetime(2025, 1, 1, tzinfo=UTC).timestamp()
    before = monotonic()
    clock.spend(0.002)
    pause(0.0)
    assert monotonic() >= before + 0.002
    assert repr(clock) == "SystemClock()"


# -- a flag --


def test_a_flag_is_waited_for_no_longer_than_the_limit() -> None:
    flag = Flag()
    began = monotonic()
    assert not flag.wait(0.002)
    assert monotonic() >= began + 0.002
    assert not flag.is_set()


def test_a_flag_that_is_set_holds_nobody_up() -> None:
    flag = Flag()
    flag.set()
    flag.set()
    assert flag.is_set()
    assert all(flag.wait(limit) for limit in (None, 0.0, 1e300, None))


def test_everybody_who_waits_for_a_flag_hears_of_it() -> None:
    flag, heard, waiting = Flag(), [], threading.Barrier(9)
    threads = [threading.Thread(target=lambda: (waiting.wait(60.0), heard.append(flag.wait()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    waiting.wait(60.0)
    flag.set()
    for thread in threads:
        thread.join(60.0)
    assert heard == [True] * 8


def test_a_flag_may_be_set_by_a_signal_that_interrupts_the_wait_for_it() -> None:
    """A signal's handler runs between two instructions: here after the first, then after the second, …"""
    for place in itertools.count():
        flag, left = Flag(), itertools.count(place, -1)

        def signalled(frame: Any, event: str, _: object, flag: Flag = flag, left: Iterator[int] = left) -> Any:
            frame.f_trace_opcodes = True
            if event == "opcode" and next(left) == 0:
                flag.set()
            return signalled

        def wait(flag: Flag = flag, signalled: Any = signalled) -> None:
            sys.settrace(signalled)
            flag.wait(0.000_1)
            sys.settrace(None)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(30.0)
        assert not waiting.is_alive()
        assert flag.wait(0.0) == (next(left) < 0)
        if not flag.is_set():
            break
    assert place > 20
