"""Services or arrivals of any law, with one worker: M/G/1, GI/M/1, and Kingman's approximation for both at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from qlab.theory.checks import inside, not_negative, positive, stable, whole
from qlab.theory.station import Station, waited


@dataclass(frozen=True)
class MG1(Station):
    """Poisson arrivals, services of any law, one worker: M/G/1.

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean service time, in seconds.
        cv: The service time's standard deviation over its mean, from 0.
        third: The mean of the service time's cube, in seconds³; None where it is not known, then there is no `wait_sd`.

    Raises:
        ValueError: A number is out of its range, or the work is more than the worker can do.

    Example:
        >>> from qlab import theory
        >>> slow = theory.MG1.lognormal(rate=0.5, service=1.0, cv=2.0)
        >>> round(slow.wait, 2), round(slow.wait_sd, 2)
        (2.5, 6.92)
        >>> round(theory.MG1.fixed(rate=0.5, service=1.0).wait, 2)
        0.5
    """

    cv: float
    third: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self.cv, "cv")
        if self.third is not None:
            positive(self.third, "third")

    @classmethod
    def fixed(cls, rate: float, service: float) -> "MG1":
        """Make M/D/1: every service takes equally long."""
        return cls(rate, service, 0.0, positive(service, "service") ** 3)

    @classmethod
    def exponential(cls, rate: float, service: float) -> "MG1":
        """Make M/M/1."""
        return cls(rate, service, 1.0, 6 * positive(service, "service") ** 3)

    @classmethod
    def lognormal(cls, rate: float, service: float, cv: float) -> "MG1":
        """Make one with lognormal services, whose k-th moment is m^k (1 + cv²)^(k(k-1)/2)."""
        return cls(rate, service, cv, positive(service, "service") ** 3 * (1 + not_negative(cv, "cv") ** 2) ** 3)

    @classmethod
    def erlang(cls, rate: float, service: float, k: int) -> "MG1":
        """Make one whose services are k exponential stages each."""
        third = positive(service, "service") ** 3 * (1 + 1 / whole(k, "k")) * (1 + 2 / k)
        return cls(rate, service, 1 / math.sqrt(k), third)

    @property
    def p_wait(self) -> float:
        """The probability that a job waits at all: arrivals see what is there on average (Wolff, 1982)."""
        return self.utilisation

    @property
    def wait(self) -> float:
        """The mean wait in seconds, by Pollaczek (1930) and Khinchine (1932)."""
        second = self.service**2 * (1 + self.cv**2)
        return self.rate * second / (2 * (1 - self.utilisation))

    @property
    def wait_sd(self) -> float:
        """The standard deviation of the wait in seconds, by Takács (1962), from the service time's third moment.

        Raises:
            ValueError: The third moment is not known.
        """
        if self.third is None:
            raise ValueError("third is None: give the mean of the cube of a service, or use lognormal, erlang or fixed")
        return math.sqrt(self.wait**2 + self.rate * self.third / (3 * (1 - self.utilisation)))

    @property
    def sojourn_sd(self) -> float:
        """The standard deviation of wait + service, in seconds: the two are independent."""
        return math.hypot(self.wait_sd, self.cv * self.service)


@dataclass(frozen=True)
class GIM1(Station):
    """Arrivals with independent gaps of any law, exponential services, one worker: GI/M/1 (Kendall, 1953).

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean service time, in seconds.
        transform: The Laplace-Stieltjes transform of a gap: E[exp(-s gap)], with s per second.

    Raises:
        ValueError: A number is out of its range, or the work is more than the worker can do.

    Example:
        >>> import math
        >>> from qlab import theory
        >>> regular = theory.GIM1.every(rate=0.8, service=1.0)
        >>> round(regular.p_wait, 3), round(regular.wait, 2), round(regular.wait_quantile(0.99), 1)
        (0.629, 1.69, 11.2)
        >>> same = theory.GIM1(rate=0.8, service=1.0, transform=lambda s: math.exp(-s / 0.8))
        >>> same.wait == regular.wait
        True
    """

    transform: Callable[[float], float] = field(repr=False)

    @classmethod
    def every(cls, rate: float, service: float) -> "GIM1":
        """Make D/M/1: a job arrives every 1/rate seconds."""
        return cls(rate, service, lambda s: math.exp(-s / rate))

    @classmethod
    def erlang(cls, rate: float, service: float, k: int) -> "GIM1":
        """Make Ek/M/1: a gap is k exponential stages; M/M/1 with k = 1."""
        whole(k, "k")
        return cls(rate, service, lambda s: (k * rate / (k * rate + s)) ** k)

    @property
    def p_wait(self) -> float:
        """The probability that a job waits at all: the root of sigma = E[exp(-mu (1 - sigma) gap)] below 1."""
        low, high = 0.0, 1.0
        for _ in range(200):  # the transform is convex, so it is above the line below the root, and under it above
            middle = (low + high) / 2
            above = self.transform((1 - middle) / self.service) > middle
            low, high = (middle, high) if above else (low, middle)
        return low

    @property
    def wait(self) -> float:
        """The mean wait, in seconds: sigma/(mu (1 - sigma))."""
        return self.p_wait * self.service / (1 - self.p_wait)

    @property
    def wait_sd(self) -> float:
        """The standard deviation of the wait, in seconds."""
        sigma = self.p_wait
        return math.sqrt(sigma * (2 - sigma)) * self.service / (1 - sigma)

    def wait_tail(self, t: float) -> float:
        """Tell the probability that a job waits longer than t seconds: sigma exp(-mu (1 - sigma) t)."""
        return self.p_wait * math.exp(-(1 - self.p_wait) * not_negative(t, "t") / self.service)

    def wait_quantile(self, q: float) -> float:
        """Tell within how many seconds a share q of the jobs is reserved; 0 where so many do not wait."""
        return waited(self.p_wait, (1 - self.p_wait) / self.service, q)

    def sojourn_quantile(self, q: float) -> float:
        """Tell within how many seconds of its dispatch a share q of the jobs is done."""
        return -math.log1p(-inside(q, "q")) * self.service / (1 - self.p_wait)


def kingman(utilisation: float, service: float, arrivals_cv: float, service_cv: float) -> float:
    """Tell what the mean wait is about, the busier the closer, for gaps and services of any law: GI/G/1.

    Kingman, "The single server queue in heavy traffic" (1961), as every textbook has it: exact for M/G/1,
    and no bound, for arrivals in bursts wait longer.

    Args:
        utilisation: From 0, below 1.
        service: The mean service time, in seconds.
        arrivals_cv: The standard deviation of a gap between arrivals over its mean; 1 for Poisson arrivals.
        service_cv: The standard deviation of a service time over its mean.

    Returns:
        Seconds.

    Raises:
        ValueError: A number is out of its range, or the utilisation is 1 or more.

    Example:
        >>> from qlab import theory
        >>> round(theory.kingman(0.9, service=1.0, arrivals_cv=1.0, service_cv=2.0), 2)
        22.5
        >>> round(theory.kingman(0.9, 1.0, 0.0, 1.0), 2), round(theory.GIM1.every(0.9, 1.0).wait, 2)
        (4.5, 4.18)
    """
    stable(not_negative(utilisation, "utilisation"), 1)
    variability = (not_negative(arrivals_cv, "arrivals_cv") ** 2 + not_negative(service_cv, "service_cv") ** 2) / 2
    return utilisation / (1 - utilisation) * variability * positive(service, "service")
