"""Reservations that run out under a worker that is still at its job, worker crashes, and shutdowns.

Elsewhere a reservation is called a lease, and to complete a job to acknowledge it. `tail(t)` stands for the probability
that a run takes longer than t seconds, such as `distributions.exponential_tail`. A free worker is always there.
"""

import math
from collections.abc import Callable

from qlab.theory.checks import not_negative, positive, share, tries_or_none, whole
from qlab.theory.distributions import erlang_tail

_TINY = 1e-17


def runs_by_token(run_out: float, tries: int | None = None) -> float:
    """Tell how often a job is run on average where only the latest reservation can complete it.

    A run ends the job unless it outlives its reservation: a geometric number. `1/(1 - q)` without a limit.

    Args:
        run_out: The probability q that a run takes longer than its reservation lasts; each run takes another time.
        tries: How many runs there are at the most; None for no limit.

    Raises:
        ValueError: A number is out of its range, or there is no limit and no run ends.

    Example:
        >>> from qlab import theory
        >>> theory.runs_by_token(run_out=0.5), theory.runs_by_token(run_out=0.5, tries=3)
        (2.0, 1.75)
    """
    share(run_out, "run_out", below_one=tries_or_none(tries) is None)
    return 1 / (1 - run_out) if tries is None else math.fsum(run_out**k for k in range(tries))


def runs_by_id(tail: Callable[[float], float], retry_after: float) -> float:
    """Tell how often a job is run on average where any run that ends completes it, each run taking another time.

    Run k + 1 starts where none of the k before has ended: at its start they are k, k - 1, ..., 1 reservations old. For
    exponential services, with q the probability to run out, that is the sum of q^(k (k + 1)/2).

    Args:
        tail: The probability that a run takes longer than so many seconds.
        retry_after: How long a reservation lasts, in seconds.

    Raises:
        ValueError: The reservation does not last a number of seconds above 0.

    Example:
        >>> from qlab import theory
        >>> from qlab.theory.distributions import exponential_tail
        >>> round(theory.runs_by_id(lambda t: exponential_tail(t, mean=60.0), retry_after=90.0), 3)
        1.234
    """
    positive(retry_after, "retry_after")
    runs, reached, k = 0.0, 1.0, 0
    while reached > _TINY:
        runs += reached
        k += 1
        reached *= tail(k * retry_after)
    return runs


def runs_by_id_same_service(tail: Callable[[float], float], retry_after: float) -> float:
    """Tell how often a job is run on average where any run that ends completes it, and every run takes equally long.

    The first to end is the first to have started: a run for each reservation that the service outlasts.

    Args:
        tail: The probability that a job takes longer than so many seconds.
        retry_after: How long a reservation lasts, in seconds.

    Raises:
        ValueError: The reservation does not last a number of seconds above 0.

    Example:
        >>> from qlab import theory
        >>> from qlab.theory.distributions import exponential_tail
        >>> round(theory.runs_by_id_same_service(lambda t: exponential_tail(t, mean=60.0), retry_after=90.0), 3)
        1.287
    """
    positive(retry_after, "retry_after")
    runs, k = 0.0, 0
    while (reached := tail(k * retry_after)) > _TINY:
        runs += reached
        k += 1
    return runs


def run_out_in_batch(batch: int, retry_after: float, service: float) -> float:
    """Tell the share of jobs that run out where a worker reserves several at once and runs one after the other.

    The k-th of them is done after k exponential services, and its reservation lasts no longer than the first's: the
    mean over k of Erlang's tail.

    Args:
        batch: How many jobs are reserved at once.
        retry_after: How long a reservation lasts, in seconds.
        service: The mean of an exponential service time, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> [round(theory.run_out_in_batch(batch, retry_after=90.0, service=20.0), 3) for batch in (1, 5, 10)]
        [0.011, 0.224, 0.551]
    """
    return math.fsum(erlang_tail(k, retry_after, service) for k in range(1, whole(batch, "batch") + 1)) / batch


def runs_while_held(delay: float, retry_after: float) -> int:
    """Tell how often a job is reserved again while a worker holds it until its moment: ceil(D/R) - 1.

    Args:
        delay: How long it is held, in seconds.
        retry_after: How long a reservation lasts, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.runs_while_held(delay=600, retry_after=90), theory.runs_while_held(delay=60, retry_after=90)
        (6, 0)
    """
    return max(0, math.ceil(positive(delay, "delay") / positive(retry_after, "retry_after")) - 1)


def cut_by_shutdown(residual: float, workers: int, utilisation: float) -> float:
    """Tell how many jobs a shutdown cuts off on average: of each busy worker, the one that outlasts the grace.

    Args:
        residual: The probability that more than the grace is left, such as `distributions.lognormal_residual_tail`.
        workers: How many are shut down.
        utilisation: The share of them that is busy.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> from qlab.theory.distributions import exponential_residual_tail
        >>> longer = exponential_residual_tail(30.0, mean=20.0)
        >>> round(theory.cut_by_shutdown(longer, workers=10, utilisation=0.8), 2)
        1.79
    """
    return whole(workers, "workers", 0) * share(utilisation, "utilisation") * share(residual, "residual")


def runs_under_crashes(crashes: float, service: float, *, fixed: bool = False) -> float:
    """Tell how often a job is begun on average where its worker crashes at random moments.

    With exponential services, each begun anew, 1 + alpha m; with fixed ones exp(alpha s): a job as long as the mean
    time between crashes needs e runs (Kulkarni, Nicola and Trivedi, 1987).

    Args:
        crashes: How often a worker crashes in a second, as a Poisson process.
        service: The mean service time, in seconds.
        fixed: Whether every service takes equally long.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.runs_under_crashes(crashes=1 / 3600, service=3600)
        2.0
        >>> round(theory.runs_under_crashes(crashes=1 / 3600, service=3600, fixed=True), 2)
        2.72
    """
    expected = not_negative(crashes, "crashes") * positive(service, "service")
    return math.exp(expected) if fixed else 1 + expected


def time_to_ready(retry_after: float, service: float) -> float:
    """Tell how many seconds after a crash the job in hand is ready again on average, where it has to run out.

    The age of an exponential service at a random moment is exponential too: E[(R - age)+] = R - m (1 - exp(-R/m)).

    Args:
        retry_after: How long a reservation lasts, in seconds.
        service: The mean of an exponential service time, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.time_to_ready(retry_after=90, service=30), 1)
        61.5
    """
    ratio = positive(retry_after, "retry_after") / positive(service, "service")
    return retry_after + service * math.expm1(-ratio)
