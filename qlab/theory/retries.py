"""Attempts that fail with a probability, each independently of the others, and the time between them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qlab.theory.checks import not_negative, share, tries_or_none, whole
from qlab.theory.waiting import MMc


def attempts(p: float, tries: int | None = None) -> float:
    """Tell how many attempts a job has on average: (1 - p^N)/(1 - p), the mean of a geometric number cut off at N.

    Args:
        p: The probability that an attempt fails.
        tries: How many attempts a job has at the most; None for no limit, which needs p below 1.

    Raises:
        ValueError: A number is out of its range, or there is no limit and every attempt fails.

    Example:
        >>> from qlab import theory
        >>> theory.attempts(p=0.5), theory.attempts(p=0.5, tries=3)
        (2.0, 1.75)
    """
    share(p, "p", below_one=tries_or_none(tries) is None)
    return 1 / (1 - p) if tries is None else math.fsum(p**k for k in range(tries))


def failed_share(p: float, tries: int | None = None) -> float:
    """Tell the share of jobs that end failed: p^N, or none where tries are not limited.

    Args:
        p: The probability that an attempt fails.
        tries: How many attempts a job has at the most; None for no limit.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.failed_share(p=0.5, tries=3)
        0.125
    """
    share(p, "p")
    return 0.0 if tries_or_none(tries) is None else p ** int(tries or 0)


def gaps(tries: int, backoff: Sequence[float]) -> list[float]:
    """Tell the seconds between one attempt and the next, as a queue's policy does: the last value repeats.

    Args:
        tries: How many attempts there are, so one gap fewer.
        backoff: In seconds; an empty list is no wait at all.

    Raises:
        ValueError: A number is out of its range, or the backoff is no list.

    Example:
        >>> from qlab import theory
        >>> theory.gaps(tries=5, backoff=[10, 60])
        [10.0, 60.0, 60.0, 60.0]
    """
    if not isinstance(backoff, Iterable):
        raise ValueError(f"backoff is {backoff!r}: use a list of seconds, such as [10, 60, 300]")
    seconds = [not_negative(each, f"backoff[{i}]") for i, each in enumerate(backoff)] or [0.0]
    return [seconds[min(i, len(seconds) - 1)] for i in range(whole(tries, "tries") - 1)]


def time_in_backoff(p: float, tries: int, backoff: Sequence[float]) -> float:
    """Tell how many seconds a job spends between attempts on average: gap i is reached with probability p^(i + 1).

    Args:
        p: The probability that an attempt fails.
        tries: How many attempts a job has at the most.
        backoff: The seconds between them, the last value repeating.

    Raises:
        ValueError: A number is out of its range, or the backoff is no list.

    Example:
        >>> from qlab import theory
        >>> theory.time_in_backoff(p=0.5, tries=3, backoff=[10, 60])
        20.0
    """
    share(p, "p")
    return math.fsum(gap * p ** (i + 1) for i, gap in enumerate(gaps(tries, backoff)))


def time_in_backoff_if_done(p: float, tries: int, backoff: Sequence[float]) -> float:
    """Tell how many seconds a job that ends done has spent between attempts on average (Bayes).

    Args:
        p: The probability that an attempt fails, below 1.
        tries: How many attempts a job has at the most.
        backoff: The seconds between them, the last value repeating.

    Raises:
        ValueError: A number is out of its range, or the backoff is no list.

    Example:
        >>> from qlab import theory
        >>> round(theory.time_in_backoff_if_done(p=0.5, tries=3, backoff=[10, 60]), 2)
        12.86
    """
    share(p, "p", below_one=True)
    spent, total = 0.0, 0.0
    for i, gap in enumerate(gaps(tries, backoff)):
        spent += gap
        total += spent * (1 - p) * p ** (i + 1)
    return total / (1 - failed_share(p, tries))


def time_to_failed(tries: int, backoff: Sequence[float], *, service: float = 0.0, poll: float = 0.0) -> float:
    """Tell how many seconds lie between the first attempt of a job that always fails and its end, where none waits.

    Args:
        tries: How many attempts it has.
        backoff: In seconds.
        service: How long an attempt takes, in seconds.
        poll: How long an idle worker waits before it asks again, in seconds: half of it is lost at each retry.

    Raises:
        ValueError: A number is out of its range, or the backoff is no list.

    Example:
        >>> from qlab import theory
        >>> theory.time_to_failed(tries=3, backoff=[10, 60], service=2.0)
        76.0
    """
    waits = gaps(tries, backoff)
    late = not_negative(poll, "poll") / 2 * len(waits)
    return math.fsum(waits) + tries * not_negative(service, "service") + late


@dataclass(frozen=True)
class RetryQueue:
    """M/M/c whose jobs fail with a probability, back off and come again: exact by BCMP.

    Baskett, Chandy, Muntz and Palacios (1975): backing off is a delay station, which only its mean matters to, so the
    queue is M/M/c with the arrivals of every attempt.

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean of an exponential service time, in seconds.
        workers: How many workers there are, from 1.
        p: The probability that an attempt fails.
        tries: How many attempts a job has at the most.
        backoff: The seconds between them, the last value repeating.

    Raises:
        ValueError: A number is out of its range, or the work of all attempts is more than the workers can do.

    Example:
        >>> from qlab import theory
        >>> flaky = theory.RetryQueue(rate=1.0, service=1.0, workers=2, p=0.3, tries=3, backoff=[10])
        >>> round(flaky.attempts, 2), round(flaky.station.utilisation, 3), round(flaky.wait, 2)
        (1.39, 0.695, 0.93)
        >>> round(flaky.time_to_end, 2), round(flaky.in_backoff, 2)
        (6.59, 3.9)
    """

    rate: float
    service: float
    workers: int
    p: float
    tries: int
    backoff: Sequence[float]

    def __post_init__(self) -> None:
        time_in_backoff(self.p, self.tries, self.backoff)
        self.station  # noqa: B018 - it refuses what it cannot do

    @property
    def attempts(self) -> float:
        """How many attempts a job has on average."""
        return attempts(self.p, self.tries)

    @property
    def station(self) -> MMc:
        """The queue as its attempts see it."""
        return MMc(self.rate * self.attempts, self.service, self.workers)

    @property
    def wait(self) -> float:
        """The mean wait of an attempt, in seconds."""
        return self.station.wait

    @property
    def time_to_end(self) -> float:
        """How many seconds lie between a job's dispatch and its end, done or failed, on average."""
        return self.attempts * self.station.sojourn + time_in_backoff(self.p, self.tries, self.backoff)

    @property
    def in_backoff(self) -> float:
        """How many jobs are between two attempts on average (Little, 1961)."""
        return self.rate * time_in_backoff(self.p, self.tries, self.backoff)

    @property
    def depth(self) -> float:
        """How many jobs wait, are served or back off on average."""
        return self.rate * self.time_to_end
