"""Small scenarios to explore: a few workers, a few jobs, and how much may go wrong."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from qlab.policy import Policy
from qlab.scenario import Arrival, Behaviour, Scenario

_LIMIT = 8
"""Of how many workers, and of how many jobs, orders can still be looked at."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A small scenario, and how much may go wrong in it.

    Of the scenario count the jobs, the attempts in which their handlers fail, the workers, and the policy's tries.
    Moments are left out: all jobs are dispatched at the start, without delay, and who gives a job back gives it back
    at once. A policy with `retry_after=None` has reservations that never run out.

    Attributes:
        scenario: What is to be done, and by how many workers.
        expiries: How many reservations run out, at the most.
        crashes: How many workers crash with a job in hand, at the most.
        restarts: How many of those are started again, at the most; each then recovers: every reservation where it is
            alone, else those that have run out.
        renamed: Whether a worker that is started again has another name than before.

    Raises:
        TypeError: A number is none.
        ValueError: A number is out of its range, or the scenario is none to explore.

    Example:
        >>> from qlab import explore
        >>> from qlab.explorer import Situation, small
        >>> situation = Situation(small("one_job"), expiries=2)
        >>> explore(situation).paths
        330
    """

    scenario: Scenario
    expiries: int = 1
    crashes: int = 0
    restarts: int = 0
    renamed: bool = False

    def __post_init__(self) -> None:
        for name in ("expiries", "crashes", "restarts"):
            _check_count(name, getattr(self, name))
        _check(self.scenario)
        if self.expiries and self.scenario.policy.retry_after is None:
            raise ValueError(
                f"expiries is {self.expiries}, and scenario {self.name!r} has reservations that never run out "
                "(retry_after=None): use expiries=0"
            )
        if self.restarts > self.crashes:
            raise ValueError(
                f"restarts is {self.restarts}, and there are {self.crashes} crashes: only who crashed starts again"
            )

    @property
    def longest(self) -> int:
        """How many steps an order has at the most, on a driver that keeps its promises."""
        wrong = self.expiries + self.crashes + self.restarts
        return 3 * int(_runs(self.scenario) + wrong) + wrong

    @property
    def name(self) -> str:
        """What the scenario is called."""
        return self.scenario.name

    @property
    def about(self) -> str:
        """What it shows."""
        return self.scenario.about


def small(
    name: str,
    about: str = "",
    *,
    workers: int = 2,
    jobs: int = 1,
    tries: int | None = 3,
    fails: int | None = 0,
    runs_out: bool = True,
) -> Scenario:
    """Make a small scenario, all of whose jobs are alike.

    Args:
        name: What it is called.
        about: What it shows, in a sentence.
        workers: How many workers there are.
        jobs: How many jobs.
        tries: How many attempts each has; None for no limit.
        fails: How many of its attempts raise before one succeeds; None for every one.
        runs_out: Whether reservations run out at all.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import explore
        >>> from qlab.explorer import small
        >>> explore(small("three", workers=3), expiries=1).paths
        81
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"jobs is {jobs!r}: use a number from 1")
    return Scenario(
        name,
        (Arrival(0.0, "job"),) * jobs,
        {"job": Behaviour(seconds=1.0, fails=fails)},
        about=about,
        workers=workers,
        policy=Policy(tries=tries, backoff=(), retry_after=90.0 if runs_out else None),
    )


def _check(scenario: Scenario) -> None:
    """Refuse a scenario that has no orders, or none that are counted."""
    name = scenario.name
    if scenario.workload is not None or scenario.faults:
        raise ValueError(
            f"scenario {name!r} has a workload or faults, which come at moments, and orders know none: use arrivals, "
            "and explore's expiries, crashes and restarts"
        )
    if not scenario.arrivals:
        raise ValueError(f"scenario {name!r} dispatches nothing: there is no order to explore")
    for what, count in (("workers", scenario.workers), ("jobs", len(scenario.arrivals))):
        if count > _LIMIT:
            raise ValueError(f"scenario {name!r} has {count} {what}: explore takes {_LIMIT} at the most")
    if unknown := sorted({arrival.name for arrival in scenario.arrivals} - {*scenario.handlers}):
        raise ValueError(f"scenario {name!r} does not say how the handlers {unknown} behave")
    if _runs(scenario) == math.inf:
        raise ValueError(
            f"scenario {name!r} has a handler that always fails and no limit of tries: its orders would never end"
        )


def _runs(scenario: Scenario) -> float:
    """Tell how often handlers are started where nothing goes wrong."""
    tries = math.inf if scenario.policy.tries is None else scenario.policy.tries
    fails = (scenario.handlers[arrival.name].fails for arrival in scenario.arrivals)
    return sum(min(tries, math.inf if each is None else each + 1) for each in fails)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}: use a number from 0")
    if value < 0:
        raise ValueError(f"{name} is {value}: use a number from 0")


_NAMED = (
    Situation(small("one_job", "Two workers and one job, whose reservation may run out under the one that has it.")),
    Situation(small("one_try", "The same with a single try: whoever comes second must not run it.", tries=1)),
    Situation(
        small("takes_two", "A handler that fails at its first attempt: the job is given back, perhaps too late.",
              tries=2, fails=1)
    ),
    Situation(
        small("two_jobs", "One worker and two jobs that fail at first: each gets its turn.", workers=1, jobs=2,
              fails=1),
        expiries=0,
    ),
    Situation(
        small("restart", "The only worker crashes, and recovers at its next start what it left behind; nothing runs "
              "out.", workers=1, jobs=2, runs_out=False),
        expiries=0, crashes=1, restarts=1,
    ),
    Situation(
        small("renamed", "The same, but the worker has another name when it is started again.", workers=1, jobs=2,
              runs_out=False),
        expiries=0, crashes=1, restarts=1, renamed=True,
    ),
    Situation(
        small("crash", "Two workers and one job; one worker may crash, and one reservation may run out."),
        expiries=1, crashes=1,
    ),
    Situation(
        small("beside", "Two workers and two jobs; a worker crashes, and recovers at its next start what has run out, "
              "beside one that works.", jobs=2),
        expiries=1, crashes=1, restarts=1,
    ),
)  # fmt: skip

SITUATIONS: Mapping[str, Situation] = MappingProxyType({each.name: each for each in _NAMED})
"""The situations that have a name, the smallest first."""


def situation(name: str) -> Situation:
    """Give the situation of a name.

    Raises:
        ValueError: None has this name.
    """
    if name not in SITUATIONS:
        raise ValueError(f"there is no scenario {name!r} to explore: use one of {', '.join(SITUATIONS)}")
    return SITUATIONS[name]
