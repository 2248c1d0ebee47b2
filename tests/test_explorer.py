"""Every order of a small scenario: counted exactly, and searched for the one that breaks a promise."""

from collections.abc import Callable
from typing import Any

import pytest

from qlab.explorer import explore
from qlab.flaws import FLAWS

CONTRACT = "memory://"
BY_ID = FLAWS["completion by id"]
REVOKED = FLAWS["token revoked by running out"]
AT_MOST_ONCE = FLAWS["deleted at reserve"]

ONCE, TWICE, THRICE = "done once", "done, run 2x", "done, run 3x"
HELD_ONCE, HELD_TWICE = "stuck reserved although run 1x", "stuck reserved although run 2x"

COUNTS: list[tuple[Any, int, int, int, dict[str, int]]] = [
    (CONTRACT, 0, 0, 6, {ONCE: 2}),
    (CONTRACT, 1, 0, 28, {ONCE: 6, TWICE: 24}),
    (CONTRACT, 2, 0, 62, {ONCE: 6, TWICE: 96, THRICE: 228}),
    (CONTRACT, 3, 0, 84, {ONCE: 6, TWICE: 96, THRICE: 892, "failed although run 3x": 594}),
    (CONTRACT, 1, 1, 60, {ONCE: 16, TWICE: 54, HELD_TWICE: 24, HELD_ONCE: 14}),
    (BY_ID, 0, 0, 6, {ONCE: 2}),
    (BY_ID, 1, 0, 28, {ONCE: 6, TWICE: 24}),
    (BY_ID, 2, 0, 45, {ONCE: 6, TWICE: 76}),
    (BY_ID, 0, 1, 10, {ONCE: 2, HELD_ONCE: 2, "stuck reserved, never run": 2}),
    (BY_ID, 1, 1, 56, {ONCE: 30, TWICE: 78}),
    (REVOKED, 0, 0, 6, {ONCE: 2}),
    (REVOKED, 1, 0, 28, {ONCE: 2, TWICE: 32}),
    (REVOKED, 2, 0, 74, {ONCE: 2, TWICE: 32, THRICE: 596}),
    (REVOKED, 1, 1, 60, {ONCE: 12, TWICE: 62, HELD_TWICE: 32, HELD_ONCE: 22}),
    (AT_MOST_ONCE, 0, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 1, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 2, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 0, 1, 10, {ONCE: 4, "lost": 2}),
    (AT_MOST_ONCE, 1, 1, 10, {ONCE: 4, "lost": 2}),
]
"""Of one job and two workers: the driver, how many run-outs and crashes there may be, how many states, which outcomes.

Three independent enumerations of a model of it gave the same numbers.
"""


@pytest.mark.parametrize(("driver", "expiries", "crashes", "states", "outcomes"), COUNTS)
def test_the_orders_of_one_job_and_two_workers_are_counted_exactly(
    driver: str | Callable[[], Any], expiries: int, crashes: int, states: int, outcomes: dict[str, int]
) -> None:
    explored = explore("one_job", driver=driver, expiries=expiries, crashes=crashes)
    assert dict(explored.outcomes) == outcomes
    assert explored.paths == sum(outcomes.values())
    assert explored.states == states
