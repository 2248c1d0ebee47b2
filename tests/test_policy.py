"""The rules: what is refused at construction, and what a backoff comes to."""

import math
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from qlab import Policy


def test_the_rules_that_hold_unless_others_are_given() -> None:
    assert Policy() == Policy(tries=3, backoff=(10.0, 60.0, 300.0), retry_after=90.0, jitter=0.0, cap=86_400.0, seed=0)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("tries", 0, ValueError),
        ("tries", -1, ValueError),
        ("tries", 1.0, TypeError),
        ("tries", "3", TypeError),
        ("tries", True, TypeError),
        ("backoff", -1.0, ValueError),
        ("backoff", [10.0, -2.0], ValueError),
        ("backoff", [math.nan], ValueError),
        ("backoff", [math.inf], ValueError),
        ("backoff", "10", TypeError),
        ("backoff", [None], TypeError),
        ("backoff", {10.0}, TypeError),
        ("backoff", None, TypeError),
        ("backoff", True, TypeError),
        ("retry_after", 0, ValueError),
        ("retry_after", 1e-9, ValueError),
        ("retry_after", -1, ValueError),
        ("retry_after", math.nan, ValueError),
        ("retry_after", math.inf, ValueError),
        ("retry_after", "90", TypeError),
        ("retry_after", True, TypeError),
        ("jitter", -0.1, ValueError),
        ("jitter", 1.1, ValueError),
        ("jitter", math.nan, ValueError),
        ("jitter", None, TypeError),
        ("cap", -1, ValueError),
        ("cap", math.inf, ValueError),
        ("cap", None, TypeError),
        ("seed", 1.5, TypeError),
        ("seed", None, TypeError),
        ("seed", True, TypeError),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_itself(name: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=name) as refusal:
        Policy(**{name: value})
    wrong = value[-1] if isinstance(value, list) else value
    assert repr(wrong) in str(refusal.value)


@pytest.mark.parametrize(
    "values",
    [
        {"tries": None},
        {"tries": 1},
        {"backoff": ()},
        {"backoff": [0]},
        {"backoff": 5},
        {"backoff": (0.5, 1)},
        {"retry_after": None},
        {"retry_after": 0.000001},
        {"jitter": 1},
        {"cap": 0},
        {"seed": -5},
    ],
    ids=str,
)
def test_a_value_at_the_edge_is_taken(values: dict[str, Any]) -> None:
    Policy(**values)


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ((10, 60, 300), [10, 60, 300, 300, 300]),
        ([5], [5, 5, 5, 5, 5]),
        (7, [7, 7, 7, 7, 7]),
        ((), [0, 0, 0, 0, 0]),
        (lambda attempts: 2.0**attempts, [2, 4, 8, 16, 32]),
    ],
    ids=["list", "one", "number", "none", "function"],
)
def test_a_backoff_goes_by_attempts_and_its_last_value_repeats(backoff: Any, delays: list[float]) -> None:
    policy = Policy(backoff=backoff)
    assert [policy.delay(attempts, Random(0)) for attempts in range(1, 6)] == delays
    assert policy.delay(10**6, Random(0)) == (policy.cap if callable(backoff) else delays[-1])


def test_a_list_that_is_changed_later_changes_no_rules() -> None:
    backoff = [1.0, 2.0]
    policy = Policy(backoff=backoff)
    backoff[0] = 99.0
    assert policy.delay(1, Random(0)) == 1.0


def raising(attempts: int) -> float:
    raise RuntimeError


@pytest.mark.parametrize(
    ("function", "seconds"),
    [
        (lambda attempts: 2.0**attempts, 500.0),
        (lambda attempts: 10**400, 500.0),
        (lambda attempts: math.inf, 500.0),
        (lambda attempts: math.nan, 500.0),
        (lambda attempts: "soon", 500.0),
        (lambda attempts: None, 500.0),
        (raising, 500.0),
        (lambda attempts: -5.0, 0.0),
        (lambda attempts: "3.5", 3.5),
        (lambda attempts: 499.5, 499.5),
    ],
)
@pytest.mark.parametrize("attempts", [2_000, 10**6])
def test_a_function_s_answer_is_held_between_0_and_the_cap(function: Any, seconds: float, attempts: int) -> None:
    assert Policy(backoff=function, cap=500.0).delay(attempts, Random(0)) == seconds


def test_only_the_interrupt_of_a_person_at_the_keyboard_passes_through_a_backoff_function() -> None:
    def interrupted(attempts: int) -> float:
        raise KeyboardInterrupt

    policy = Policy(backoff=interrupted, cap=500.0)
    with pytest.raises(KeyboardInterrupt):
        policy.delay(1, Random(0))
    with ThreadPoolExecutor() as threads:  # no keyboard reaches it, and its worker must live
        delay = threads.submit(policy.delay, 1, Random(0))
    assert delay.exception() is None
    assert delay.result() == 500.0


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1.0])
def test_jitter_spreads_a_backoff_around_itself(jitter: float) -> None:
    random = Random(1)
    delays = [Policy(backoff=100.0, jitter=jitter).delay(1, random) for _ in range(2_000)]
    assert 100.0 * (1 - jitter) <= min(delays) < 100.0 * (1 - 0.9 * jitter)
    assert 100.0 * (1 + 0.9 * jitter) < max(delays) <= 100.0 * (1 + jitter)


def test_jitter_never_passes_the_cap_of_a_function() -> None:
    random = Random(1)
    policy = Policy(backoff=lambda attempts: 1e9, cap=500.0, jitter=1.0)
    assert max(policy.delay(9, random) for _ in range(200)) <= 500.0


def test_equal_seeds_give_equal_waits() -> None:
    policy = Policy(jitter=0.5)
    first, second, third = ([policy.delay(1, random) for _ in range(5)] for random in (Random(7), Random(7), Random(8)))
    first, second, third = list(first), list(second), list(third)
    assert first == second != third


def test_rules_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Policy().tries = 5  # type: ignore[misc]
