"""How long a worker waits: bounded whatever happens, never alike, and said once."""

import random
from pathlib import Path

import pytest
from watching import heard

from qlab import Worker
from qlab.errors import DriverUnavailable
from qlab.patience import FIRST_WAIT, LONGEST_WAIT, Patience

AWAY = DriverUnavailable("it does not answer")


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.5, 1.0])
def test_an_idle_wait_is_the_poll_give_or_take_the_jitter(jitter: float) -> None:
    patient = Patience(2.0, jitter, "w")
    waits = [patient.idle() for _ in range(1_000)]
    low, high = 2.0 * (1 - jitter), 2.0 * (1 + jitter)
    assert low <= min(waits) <= low + 0.1 * (high - low)
    assert high >= max(waits) >= high - 0.1 * (high - low)


def test_a_store_that_is_away_is_asked_less_and_less_often_up_to_a_limit() -> None:
    patient = Patience(1.0, 0.0, "w")
    waits = [patient.away(AWAY) for _ in range(10)]
    assert waits[:6] == [FIRST_WAIT * 2**n for n in range(6)]
    assert waits[6:] == [LONGEST_WAIT] * 4


def test_a_store_that_was_back_and_goes_again_is_asked_soon_again() -> None:
    patient = Patience(1.0, 0.0, "w")
    for _ in range(10):
        patient.away(AWAY)
    patient.answered()
    assert patient.away(AWAY) == FIRST_WAIT


def test_waits_for_a_store_that_is_away_have_jitter_too() -> None:
    patient = Patience(1.0, 0.5, "w")
    waits = [patient.away(AWAY) for _ in range(200)][20:]
    assert len(set(waits)) > 170
    assert LONGEST_WAIT * 0.5 <= min(waits) < max(waits) <= LONGEST_WAIT * 1.5


def test_a_store_is_said_to_be_away_once_and_to_be_back_once() -> None:
    patient = Patience(1.0, 0.5, "w7")
    with heard() as log:
        patient.answered()
        assert log.said == []
        for _ in range(2):
            for _ in range(50):
                patient.away(AWAY)
            for _ in range(50):
                patient.answered()
    assert len(log.said) == 4
    assert log.said[0] == "worker=w7: its store is away, and is waited for: DriverUnavailable: it does not answer"
    assert log.said[1].startswith("worker=w7: its store is back after 0.0 s")


def test_an_error_that_no_store_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    Patience(1.0, 0.5, "w").away(ZeroDivisionError("a clock of one's own"))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "ZeroDivisionError: a clock of one's own" in caplog.text


def test_waiting_takes_no_number_out_of_an_application_s_random_ones() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    first = [Patience(1.0, 0.5, "w").idle() for _ in range(3)]
    assert random.random() == expected
    random.seed(7)
    assert [Patience(1.0, 0.5, "w").idle() for _ in range(3)] != first


def test_the_longest_wait_is_what_the_pages_say() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert f"at most about {LONGEST_WAIT:g} seconds at a time" in readme
    assert f"longer each time up to {LONGEST_WAIT:g} s" in (Worker.__doc__ or "")
