"""How likely it is that something takes longer than a while, and how much of it is left when one looks.

The residual is what is left of the service in hand at a random moment. Long services are met more often than short
ones, so its tail is the integral of the service's tail over its mean (Cox, Renewal Theory, 1962).
"""

import math

from qlab.theory.checks import not_negative, positive, whole


def exponential_tail(t: float, mean: float) -> float:
    """Tell the probability that an exponential duration is longer than t; both in seconds."""
    return math.exp(-not_negative(t, "t") / positive(mean, "mean"))


def lognormal_tail(t: float, mean: float, cv: float) -> float:
    """Tell the probability that a lognormal duration is longer than t.

    Args:
        t: In seconds.
        mean: In seconds.
        cv: The standard deviation over the mean, from 0; 0 is a fixed duration.
    """
    if not_negative(cv, "cv") == 0:
        return fixed_tail(t, mean)
    if not_negative(t, "t") == 0:
        return 1.0
    mu, sigma = lognormal_parameters(mean, cv)
    return normal_tail((math.log(t) - mu) / sigma)


def lognormal_parameters(mean: float, cv: float) -> tuple[float, float]:
    """Give the mean and the standard deviation of a lognormal duration's logarithm.

    From the mean m (seconds) and cv: sigma² = ln(1 + cv²), mu = ln m - sigma²/2 (Johnson, Kotz and Balakrishnan, 1994).
    """
    variance = math.log1p(positive(cv, "cv") ** 2)
    return math.log(positive(mean, "mean")) - variance / 2, math.sqrt(variance)


def fixed_tail(t: float, mean: float) -> float:
    """Tell the probability that a fixed duration is longer than t, in seconds: 1 before its end, then 0."""
    return 1.0 if not_negative(t, "t") < positive(mean, "mean") else 0.0


def erlang_tail(k: int, t: float, mean: float) -> float:
    """Tell the probability that k exponential durations, one after the other, take longer than t in all.

    That is a Poisson process with fewer than k events in t (Erlang, 1917).

    Args:
        k: How many durations, from 1.
        t: In seconds.
        mean: The mean of one of them, in seconds.
    """
    return poisson_at_most(whole(k, "k") - 1, not_negative(t, "t") / positive(mean, "mean"))


def poisson_at_most(n: int, mean: float) -> float:
    """Tell the probability that a Poisson number is n or less."""
    return min(1.0, math.fsum(poisson(i, mean) for i in range(n + 1)))


def poisson(n: int, mean: float) -> float:
    """Tell the probability that a Poisson number is n."""
    if mean == 0:
        return float(n == 0)
    return math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))


def normal_tail(z: float) -> float:
    """Tell the probability that a standard normal number is above z."""
    return math.erfc(z / math.sqrt(2)) / 2


def exponential_residual_tail(t: float, mean: float) -> float:
    """Tell the probability that more than t is left of an exponential service: as of a new one, it has no memory."""
    return exponential_tail(t, mean)


def lognormal_residual_tail(t: float, mean: float, cv: float) -> float:
    """Tell the probability that more than t (seconds) is left of a lognormal service at a random moment.

    The integral has a closed form in the normal distribution; the first term is the tail of the length-biased law,
    which is lognormal with mu + sigma².
    """
    if not_negative(cv, "cv") == 0:
        return fixed_residual_tail(t, mean)
    if not_negative(t, "t") == 0:
        return 1.0
    mu, sigma = lognormal_parameters(mean, cv)
    z = (math.log(t) - mu) / sigma
    return normal_tail(z - sigma) - t / mean * normal_tail(z)


def fixed_residual_tail(t: float, mean: float) -> float:
    """Tell the probability that more than t (seconds) is left of a fixed service: what is left is uniform."""
    return max(0.0, 1 - not_negative(t, "t") / positive(mean, "mean"))


def mean_residual(mean: float, cv: float) -> float:
    """Tell how many seconds are left on average at a random moment: m (1 + cv²)/2, more than m where cv is above 1.

    The inspection paradox (Feller, volume II, 1966).
    """
    return positive(mean, "mean") * (1 + not_negative(cv, "cv") ** 2) / 2
