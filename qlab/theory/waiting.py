"""Exponential services: M/M/c, and M/M/1 with one worker."""

import math
from dataclasses import dataclass

from qlab.theory.checks import inside, not_negative, positive, stable, whole
from qlab.theory.station import Station, quantile, waited


@dataclass(frozen=True)
class MMc(Station):
    """Poisson arrivals, exponential services, c workers: M/M/c, and M/M/1 with one (Erlang, 1917).

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean service time, in seconds.
        workers: How many workers there are, from 1.

    Raises:
        ValueError: A number is out of its range, or the work is more than the workers can do.

    Example:
        >>> from qlab import theory
        >>> till = theory.MMc(rate=0.8, service=1.0)
        >>> round(till.wait, 2), round(till.depth, 2), round(till.wait_quantile(0.99), 1)
        (4.0, 4.0, 21.9)
        >>> round(theory.MMc(rate=1.6, service=1.0, workers=2).wait, 2)
        1.78
    """

    workers: int = 1

    @property
    def count(self) -> int:
        """How many workers there are."""
        return self.workers

    @property
    def p_wait(self) -> float:
        """The probability that a job waits at all: Erlang's C."""
        return erlang_c(self.workers, self.load)

    @property
    def _spare(self) -> float:
        """How many jobs more the workers could do in a second."""
        return (self.workers - self.load) / self.service

    @property
    def wait(self) -> float:
        """The mean wait in seconds: C/(c mu - lambda)."""
        return self.p_wait / self._spare

    @property
    def wait_sd(self) -> float:
        """The standard deviation of the wait in seconds: one that waits, waits exponentially."""
        return math.sqrt(self.p_wait * (2 - self.p_wait)) / self._spare

    def wait_tail(self, t: float) -> float:
        """Tell the probability that a job waits longer than t seconds: C exp(-(c mu - lambda) t)."""
        return self.p_wait * math.exp(-self._spare * not_negative(t, "t"))

    def wait_quantile(self, q: float) -> float:
        """Tell within how many seconds a share q of the jobs is reserved; 0 where so many do not wait."""
        return waited(self.p_wait, self._spare, q)

    @property
    def sojourn_sd(self) -> float:
        """The standard deviation of wait + service, in seconds: the two are independent."""
        return math.hypot(self.wait_sd, self.service)

    def sojourn_tail(self, t: float) -> float:
        """Tell the probability that wait + service is longer than t seconds (Gross and Harris, 1974)."""
        services, spare = not_negative(t, "t") / self.service, self.workers - self.load
        gap = abs(spare - 1)
        later = services if gap < 1e-9 else -math.expm1(-services * gap) / gap  # below 1e-9 the two rates are one
        return math.exp(-services) + self.p_wait * math.exp(-services * min(spare, 1.0)) * later

    def sojourn_quantile(self, q: float) -> float:
        """Tell within how many seconds of its dispatch a share q of the jobs is done."""
        if self.workers == 1:
            return -math.log1p(-inside(q, "q")) / self._spare
        return quantile(self.sojourn_tail, q, self.sojourn)


def erlang_b(workers: int, load: float) -> float:
    """Tell the share of arrivals that find every worker busy, where such arrivals are lost (Erlang, 1917).

    Args:
        workers: How many workers, from 1.
        load: In erlangs; it may be more than the workers can do.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.erlang_b(workers=10, load=8.0), 3)
        0.122
    """
    not_negative(load, "load")
    blocked = 1.0
    for n in range(1, whole(workers, "workers") + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked


def erlang_c(workers: int, load: float) -> float:
    """Tell the share of arrivals that wait, where they do not leave (Erlang, 1917).

    Args:
        workers: How many workers, from 1.
        load: In erlangs, below the number of workers.

    Raises:
        ValueError: A number is out of its range, or the load is more than the workers can do.

    Example:
        >>> from qlab import theory
        >>> round(theory.erlang_c(workers=10, load=8.0), 3)
        0.409
    """
    stable(positive(load, "load"), whole(workers, "workers"))
    blocked = erlang_b(workers, load)
    return blocked / (1 - load / workers * (1 - blocked))
