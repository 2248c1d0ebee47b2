"""Outages and what follows: the drain, the retries that keep a system down, and copies made at two moments."""

import math
from dataclasses import dataclass

from qlab.theory.checks import not_negative, positive, share, whole
from qlab.theory.waiting import MMc


@dataclass(frozen=True)
class Outage:
    """M/M/1 whose worker stands still for a while, and then works off what has come meanwhile.

    The backlog falls as a random walk with drift mu - lambda, whose first passage gives mean and variance (Cox and
    Miller, 1965).

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean of an exponential service time, in seconds.
        seconds: How long the outage lasts.

    Raises:
        ValueError: A number is out of its range, or the work is more than the worker can do.

    Example:
        >>> from qlab import theory
        >>> hour = theory.Outage(rate=0.5, service=1.0, seconds=3600)
        >>> hour.backlog, hour.drain, round(hour.drain_sd)
        (1801.0, 3602.0, 170)
        >>> hour.drain_fluid, hour.jobs_hurt, hour.extra_wait_fluid
        (3600.0, 3600.0, 1800.0)
    """

    rate: float
    service: float
    seconds: float

    def __post_init__(self) -> None:
        not_negative(self.seconds, "seconds")
        MMc(self.rate, self.service)

    @property
    def _spare(self) -> float:
        return 1 / self.service - self.rate

    @property
    def backlog(self) -> float:
        """How many jobs are there on average when the outage ends: those from before and those that came."""
        return MMc(self.rate, self.service).depth + self.rate * self.seconds

    @property
    def drain(self) -> float:
        """How many seconds after the outage the queue is empty again, on average: (L + lambda D)/(mu - lambda)."""
        return self.backlog / self._spare

    @property
    def drain_sd(self) -> float:
        """The standard deviation of the drain, in seconds: of the walk, and of where it begins."""
        load = self.rate * self.service
        begin = load / (1 - load) ** 2 + self.rate * self.seconds
        walk = self.backlog * (1 / self.service + self.rate) / self._spare**3
        return math.sqrt(walk + begin / self._spare**2)

    @property
    def drain_fluid(self) -> float:
        """How many seconds the drain takes where jobs are a fluid: D rho/(1 - rho)."""
        return self.rate * self.seconds / self._spare

    @property
    def jobs_hurt(self) -> float:
        """How many jobs arrive before the drain's end, where jobs are a fluid: lambda D/(1 - rho)."""
        return self.rate * self.seconds / (1 - self.rate * self.service)

    @property
    def extra_wait_fluid(self) -> float:
        """How many seconds more those jobs wait on average, where jobs are a fluid: D/2, whatever the utilisation."""
        return self.seconds / 2


def vulnerable_from(attempts: int, service: float, *, workers: int = 1) -> float:
    """Tell from how many requests a second an outage can last for ever, where every one that is late is tried again.

    Each then costs all of its attempts: c mu/A (Bronson, Aghayev, Charapko and Zhu, HotOS 2021).

    Args:
        attempts: How often a request is tried at the most.
        service: The mean service time, in seconds.
        workers: How many workers there are.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.vulnerable_from(attempts=4, service=0.1)
        2.5
    """
    return whole(workers, "workers") / positive(service, "service") / whole(attempts, "attempts")


def vulnerable_from_with_budget(ratio: float, service: float, *, workers: int = 1) -> float:
    """Tell from how many requests a second an outage can last for ever, where a success earns a part of an attempt.

    A request then costs 1 + b attempts at the most: c mu/(1 + b).

    Args:
        ratio: Which part b of an attempt a success earns, such as 0.1 (Beyer et al., Site Reliability Engineering,
            2016).
        service: The mean service time, in seconds.
        workers: How many workers there are.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.vulnerable_from_with_budget(ratio=0.1, service=0.1), 2)
        9.09
    """
    return whole(workers, "workers") / positive(service, "service") / (1 + not_negative(ratio, "ratio"))


def load_factor(failing: float, attempts: int, *, budget: float | None = None) -> float:
    """Tell how many times the load is multiplied by attempts after the first.

    (1 - f^A)/(1 - f); with a budget at most 1/(1 - b (1 - f)), for a success earns the same whichever attempt it is
    (Brooker, "Fixing retries with token buckets and circuit breakers", 2022).

    Args:
        failing: The share f of attempts that fail.
        attempts: How often a request is tried at the most.
        budget: What a success earns of a further attempt; None for no budget.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.load_factor(failing=0.5, attempts=4), theory.load_factor(failing=1.0, attempts=4)
        (1.875, 4.0)
        >>> round(theory.load_factor(failing=0.5, attempts=4, budget=0.1), 3)
        1.053
    """
    share(failing, "failing")
    factor = math.fsum(failing**k for k in range(whole(attempts, "attempts")))
    if budget is None:
        return factor
    earned = not_negative(budget, "budget") * (1 - failing)
    return factor if earned >= 1 else min(factor, 1 / (1 - earned))


def load_factor_of_layers(layers: int, attempts: int) -> int:
    """Tell how many times the load is multiplied at the bottom where each layer tries so often: A^layers.

    Beyer et al., Site Reliability Engineering (2016), chapter 22.

    Args:
        layers: How many layers call each other, from 1.
        attempts: How often each of them tries at the most.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.load_factor_of_layers(layers=3, attempts=4)
        64
    """
    result: int = whole(attempts, "attempts") ** whole(layers, "layers")
    return result


def rows_without_job(rate: float, seconds: float) -> float:
    """Tell how many rows a backup has at the most on average whose job is in none: lambda delta, a Poisson mean.

    Args:
        rate: How many rows are written in a second, each with a job in another store.
        seconds: How much later than the jobs the rows were copied.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.rows_without_job(rate=0.5, seconds=60)
        30.0
    """
    return not_negative(rate, "rate") * not_negative(seconds, "seconds")


def lost_by_backup(rate: float, seconds: float, done_after: float) -> float:
    """Tell how many jobs a backup of two stores loses on average: lambda m (1 - exp(-delta/m)).

    Those of a Poisson process that are dispatched between the two copies and not done by the second. As many are run
    again where the jobs were copied first, for they were done in between; where the rows were copied first, as many
    jobs look for rows that are in no copy.

    Args:
        rate: How many jobs are dispatched in a second.
        seconds: How much lies between the two copies.
        done_after: The mean of an exponential sojourn, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.lost_by_backup(rate=0.5, seconds=60, done_after=10), 2)
        4.99
    """
    mean = positive(done_after, "done_after")
    return -not_negative(rate, "rate") * mean * math.expm1(-not_negative(seconds, "seconds") / mean)
