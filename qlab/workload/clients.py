"""Who waits for simulated jobs: clients that ask again, and the budget that keeps them from asking too often."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from qlab.clock import duration, us
from qlab.whole import is_whole
from qlab.workload.distributions import number_in

Jitter = Literal["none", "full", "equal"]
_PARTS = 1_000_000


class Purse:
    """The tokens of a budget while it is spent, counted in whole millionths: ten times 0.1 is one.

    Args:
        budget: Its rules.
    """

    def __init__(self, budget: "Budget") -> None:
        self._ratio, self._most = round(budget.ratio * _PARTS), round(budget.most * _PARTS)
        self._parts = round(budget.start * _PARTS)

    @property
    def tokens(self) -> float:
        """How many there are."""
        return self._parts / _PARTS

    def earn(self) -> None:
        """Put in what a success earns."""
        self._parts = min(self._parts + self._ratio, self._most)

    def spend(self) -> bool:
        """Take a token out, if there is one, and tell whether there was."""
        if self._parts < _PARTS:
            return False
        self._parts -= _PARTS
        return True


@dataclass(frozen=True, slots=True)
class Budget:
    """How many times all clients together may ask again: a success earns a part of a token, asking again costs one.

    Attributes:
        ratio: How many tokens a success earns, from 0.
        start: How many there are at first, from 0.
        most: How many are kept at most, from `start`.

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is out of its range.

    Example:
        >>> from qlab.workload import Budget
        >>> purse = Budget(ratio=0.5, start=1).purse()
        >>> purse.spend(), purse.spend()
        (True, False)
        >>> purse.earn()
        >>> purse.tokens
        0.5
    """

    ratio: float = 0.1
    start: float = 10.0
    most: float = 100.0

    def __post_init__(self) -> None:
        for name in ("ratio", "start", "most"):
            object.__setattr__(self, name, number_in(getattr(self, name), name, most=1e9))
        if self.start > self.most:
            raise ValueError(f"start is {self.start!r}: use at most what is kept, most={self.most!r}")

    def purse(self) -> Purse:
        """Make the purse of one run."""
        return Purse(self)


@dataclass(frozen=True, slots=True)
class Clients:
    """Who waits for the jobs: a client whose job is not done in time asks again, with another job.

    The work for the first one is not cancelled.

    Attributes:
        timeout: How many seconds a client waits for a job to be done, above 0.
        attempts: How many times it asks in all, from 1.
        backoff: The seconds between a time-out and the next time it asks: one number for each, the last one repeating.
        jitter: How much of a backoff is chance: `none`; `full`: all of it, so from 0 up to the backoff; `equal`: half
            of it, so from half the backoff up. One random number is drawn for each, but for `none`.
        cap: The most seconds that a backoff counts for.
        budget: What all clients together may spend on asking again; None for no limit.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Clients
        >>> clients = Clients(timeout=20, attempts=4, backoff=[1, 5], jitter="equal")
        >>> [round(clients.wait(asked, Random(7)), 2) for asked in (1, 2, 3)]
        [0.66, 3.31, 3.31]
    """

    timeout: float
    attempts: int
    backoff: float | Sequence[float] = 0.0
    jitter: Jitter = "none"
    cap: float = 86_400.0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if us(duration(self.timeout, "timeout")) == 0:
            raise ValueError(f"timeout is {self.timeout!r} s: use a number of seconds above 0")
        if not is_whole(self.attempts, least=1):
            raise ValueError(f"attempts is {self.attempts!r}: use a whole number from 1, which is no second time")
        object.__setattr__(self, "timeout", float(self.timeout))
        object.__setattr__(self, "backoff", _backoff(self.backoff))
        if self.jitter not in get_args(Jitter):
            raise ValueError(f"jitter is {self.jitter!r}: use one of {', '.join(get_args(Jitter))}")
        object.__setattr__(self, "cap", duration(self.cap, "cap"))
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise TypeError(f"budget is {self.budget!r}: use a Budget, or None for no limit")

    def wait(self, asked: int, random: Random) -> float:
        """Tell how long a client waits after a time-out, before it asks again.

        Args:
            asked: How many times it has asked, from 1.
            random: Where jitter comes from.

        Returns:
            Seconds.
        """
        backoff = self.backoff if isinstance(self.backoff, Sequence) else (self.backoff,)
        seconds = min(backoff[min(asked, len(backoff)) - 1], self.cap)
        if self.jitter == "none":
            return seconds
        share = random.random()
        return seconds * (share if self.jitter == "full" else 0.5 + share / 2)


def _backoff(backoff: float | Sequence[float]) -> float | tuple[float, ...]:
    if isinstance(backoff, str) or not isinstance(backoff, Sequence):
        return duration(backoff, "backoff")
    if not backoff:
        raise ValueError("backoff is empty: use 0.0 for no wait at all")
    return tuple(duration(seconds, f"backoff[{i}]") for i, seconds in enumerate(backoff))
