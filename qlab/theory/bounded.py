"""Stations that are never overloaded: one that refuses arrivals when it is full, and one whose clients wait."""

import math
from dataclasses import dataclass
from functools import cached_property

from qlab.theory.checks import positive, whole


@dataclass(frozen=True)
class MMcK:
    """Poisson arrivals, exponential services, c workers, at most K jobs waiting or served: M/M/c/K.

    From the birth-death balance of how many there are (Erlang, 1917, with K = c; Kleinrock, Queueing Systems I, 1975).

    Attributes:
        rate: How many jobs arrive in a second; it may be more than the workers can do.
        service: The mean service time, in seconds.
        workers: How many workers there are, from 1.
        capacity: How many jobs there can be, from the number of workers.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> full = theory.MMcK(rate=1.2, service=1.0, workers=1, capacity=5)
        >>> round(full.p_block, 3), round(full.throughput, 3), round(full.wait, 2)
        (0.251, 0.899, 2.36)
        >>> [round(p, 2) for p in full.probabilities]
        [0.1, 0.12, 0.15, 0.17, 0.21, 0.25]
    """

    rate: float
    service: float
    workers: int
    capacity: int

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        positive(self.service, "service")
        whole(self.capacity, "capacity", whole(self.workers, "workers"))

    @cached_property
    def probabilities(self) -> list[float]:
        """How likely it is that 0, 1, ..., K jobs are there."""
        load = self.rate * self.service
        return normalised([math.log(load / min(k, self.workers)) for k in range(1, self.capacity + 1)])

    @property
    def p_block(self) -> float:
        """The share of arrivals that is refused: they see what is there on average (Wolff, 1982)."""
        return self.probabilities[-1]

    @property
    def throughput(self) -> float:
        """How many jobs are done in a second."""
        return self.rate * math.fsum(self.probabilities[:-1])

    @property
    def utilisation(self) -> float:
        """The share of its time that a worker is busy."""
        return self.throughput * self.service / self.workers

    @property
    def depth(self) -> float:
        """How many jobs wait or are served on average."""
        return math.fsum(k * p for k, p in enumerate(self.probabilities))

    @property
    def waiting(self) -> float:
        """How many jobs wait on average."""
        return math.fsum(max(0, k - self.workers) * p for k, p in enumerate(self.probabilities))

    @property
    def p_wait(self) -> float:
        """The probability that a job that is let in waits."""
        return math.fsum(self.probabilities[self.workers : -1]) / math.fsum(self.probabilities[:-1])

    @property
    def wait(self) -> float:
        """The mean wait of those that are let in, in seconds (Little, 1961)."""
        return self.waiting / self.throughput

    @property
    def sojourn(self) -> float:
        """The mean wait + service of those that are let in, in seconds."""
        return self.depth / self.throughput


@dataclass(frozen=True)
class Closed:
    """So many clients, who think, then need one of c workers, and think again: closed M/M/c//N.

    The machine repair model (Palm, 1947); the asymptotes are Muntz and Wong's (1974), and Denning and Buzen's (1978).
    Thinking may have any law.

    Attributes:
        clients: How many there are, from 1.
        think: How long they think on average, in seconds.
        service: The mean of an exponential service time, in seconds.
        workers: How many workers there are, from 1.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> eight = theory.Closed(clients=8, think=4.0, service=1.0)
        >>> round(eight.throughput, 3), eight.most, eight.knee
        (0.97, 1.0, 5.0)
        >>> round(eight.wait, 2), round(eight.sojourn, 2)
        (3.25, 4.25)
    """

    clients: int
    think: float
    service: float
    workers: int = 1

    def __post_init__(self) -> None:
        whole(self.clients, "clients")
        positive(self.think, "think")
        positive(self.service, "service")
        whole(self.workers, "workers")

    @cached_property
    def probabilities(self) -> list[float]:
        """How likely it is that 0, 1, ..., N clients wait or are served."""
        ratio = self.service / self.think
        return normalised(
            [math.log((self.clients - k + 1) * ratio / min(k, self.workers)) for k in range(1, self.clients + 1)]
        )

    @property
    def throughput(self) -> float:
        """How many jobs are done in a second."""
        return math.fsum((self.clients - k) * p for k, p in enumerate(self.probabilities)) / self.think

    @property
    def sojourn(self) -> float:
        """The mean wait + service, in seconds: N/X - Z (Little, 1961)."""
        return self.depth / self.throughput

    @property
    def wait(self) -> float:
        """The mean wait, in seconds."""
        return math.fsum(max(0, k - self.workers) * p for k, p in enumerate(self.probabilities)) / self.throughput

    @property
    def depth(self) -> float:
        """How many clients wait or are served on average."""
        return math.fsum(k * p for k, p in enumerate(self.probabilities))

    @property
    def utilisation(self) -> float:
        """The share of its time that a worker is busy."""
        return self.throughput * self.service / self.workers

    @property
    def most(self) -> float:
        """What the throughput is never above, in jobs a second: min(N/(Z + S), c/S)."""
        return min(self.clients / (self.think + self.service), self.workers / self.service)

    @property
    def knee(self) -> float:
        """How many clients it takes until the two asymptotes meet: c (Z + S)/S; from there on clients only wait."""
        return self.workers * (self.think + self.service) / self.service


def normalised(log_ratios: list[float]) -> list[float]:
    """Give the probabilities of a birth-death process from the logarithms of each to the one before; none overflows."""
    logs = [0.0]
    for ratio in log_ratios:
        logs.append(logs[-1] + ratio)
    highest = max(logs)
    weights = [math.exp(each - highest) for each in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
