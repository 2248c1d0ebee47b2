"""The rules of a queue: how many tries, how long between them, and how long a reservation lasts."""

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from qlab.clock import duration, us
from qlab.escape import error_text
from qlab.interrupts import let_through
from qlab.log import log

Backoff = Sequence[float] | Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a queue.

    Attributes:
        tries: How many attempts a job has in all, from 1; None for no limit.
        backoff: The seconds between a failed attempt and the next: one number for each attempt, the last one repeating,
            or a function from the number of attempts so far (from 1) to seconds. An empty list is no wait at all.
            What a function gets wrong (it raises, or returns no duration) counts as `cap`, and is logged.
        retry_after: After how many seconds a reservation runs out; None for never.
        jitter: By which fraction of itself, up or down, a backoff varies at random: 0 for not at all, up to 1.
        cap: The most seconds that a backoff function's answer counts for.
        seed: Where the jitter's random numbers start: the same seed gives the same waits.
        panic_fails: Whether a job fails at once, whatever attempts are left, where its handler raises what is no
            `Exception`, such as `SystemExit`; else that is a failed attempt like any other.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range; the message names it.

    Example:
        >>> from random import Random
        >>> from qlab import Policy
        >>> policy = Policy(tries=5, backoff=[10, 60])
        >>> [policy.delay(attempts, Random(7)) for attempts in (1, 2, 3, 4)]
        [10.0, 60.0, 60.0, 60.0]
    """

    tries: int | None = 3
    backoff: Backoff = (10.0, 60.0, 300.0)
    retry_after: float | None = 90.0
    jitter: float = 0.0
    cap: float = 86_400.0
    seed: int = 0
    panic_fails: bool = False

    def __post_init__(self) -> None:
        check_tries(self.tries)
        object.__setattr__(self, "backoff", check_backoff(self.backoff))
        if self.retry_after is not None:
            self._keep("retry_after", duration(self.retry_after, "retry_after (None means never)"))
        if self.retry_after is not None and us(self.retry_after) == 0:
            raise ValueError(
                f"retry_after is {self.retry_after!r} s: use a number above the slowest job, or None for never"
            )
        self._keep("jitter", duration(self.jitter, "jitter"))
        if self.jitter > 1:
            raise ValueError(f"jitter is {self.jitter!r}: use a fraction from 0 to 1")
        self._keep("cap", duration(self.cap, "cap"))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed is {self.seed!r}: use an integer")
        if not isinstance(self.panic_fails, bool):
            raise TypeError(f"panic_fails is {self.panic_fails!r}: use True or False")

    def _keep(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    def delay(self, attempts: int, random: Random, backoff: Backoff | None = None) -> float:
        """Tell how long a job waits after a failed attempt.

        Args:
            attempts: How many attempts it has had, from 1.
            random: Where jitter comes from.
            backoff: A handler's own backoff, instead of the policy's.

        Returns:
            Seconds, from 0 up to `cap` for a function (whatever it raises or returns counts as `cap`).
        """
        chosen = self.backoff if backoff is None else backoff
        seconds = self._base(attempts, chosen)
        if self.jitter:
            seconds *= random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(seconds, self.cap) if callable(chosen) else seconds

    def _base(self, attempts: int, backoff: Backoff) -> float:
        if not callable(backoff):
            return backoff[min(attempts, len(backoff)) - 1] if backoff else 0.0
        try:
            seconds = float(backoff(attempts))
            if math.isnan(seconds):
                raise ValueError("it returned NaN")
        except BaseException as error:  # noqa: BLE001 - whatever it raises counts as the cap
            let_through(error)
            log.warning("a backoff function went wrong, the cap of %g s counts: %s", self.cap, error_text(error))
            return self.cap
        return min(max(seconds, 0.0), self.cap)


def check_tries(tries: int | None) -> None:
    """Refuse a number of tries that no job can have."""
    if tries is None:
        return
    if isinstance(tries, bool) or not isinstance(tries, int):
        raise TypeError(f"tries is {tries!r}: use an integer from 1, or None for no limit")
    if tries < 1:
        raise ValueError(f"tries is {tries}: use an integer from 1, or None for no limit")


def check_backoff(backoff: Backoff | float) -> Backoff:
    """Refuse a backoff that is none; a single number of seconds becomes a list of one."""
    if callable(backoff):
        with suppress(ValueError):  # a function of C may not tell what it takes
            try:
                inspect.signature(backoff).bind(1)
            except TypeError as error:
                raise TypeError(f"backoff is {backoff!r}, which takes no number of attempts: {error}") from error
        return backoff
    if isinstance(backoff, int | float):
        backoff = (backoff,)
    if isinstance(backoff, str) or not isinstance(backoff, Sequence):
        raise TypeError(f"backoff is {backoff!r}: use a list of seconds, or a function from attempts to seconds")
    return tuple(duration(seconds, f"backoff[{i}]") for i, seconds in enumerate(backoff))
