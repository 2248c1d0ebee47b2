"""What holds at every station, where jobs arrive, wait for a worker, and are served in the order of their arrival."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from qlab.theory.checks import inside, positive, stable, whole


@dataclass(frozen=True)
class Station(ABC):
    """What holds at every station, by Little's law (1961).

    Attributes:
        rate: How many jobs arrive in a second.
        service: The mean service time, in seconds.

    Raises:
        ValueError: A number is out of its range, or the work is more than the workers can do.

    Example:
        >>> from qlab import theory
        >>> stations = [theory.MMc(0.8, 1.0), theory.MDc(0.8, 1.0), theory.GIM1.every(0.8, 1.0)]
        >>> all(isinstance(station, theory.Station) for station in stations)
        True
        >>> [(round(station.wait, 2), round(station.depth, 2)) for station in stations]
        [(4.0, 4.0), (2.0, 2.4), (1.69, 2.15)]
    """

    rate: float
    service: float

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        positive(self.service, "service")
        whole(self.count, "workers")
        stable(self.load, self.count)

    @property
    def count(self) -> int:
        """How many workers there are."""
        return 1

    @property
    def load(self) -> float:
        """The work that arrives in a second, in seconds; in erlangs."""
        return self.rate * self.service

    @property
    def utilisation(self) -> float:
        """The share of its time that a worker is busy."""
        return self.load / self.count

    @property
    @abstractmethod
    def p_wait(self) -> float:
        """The probability that a job waits at all."""

    @property
    @abstractmethod
    def wait(self) -> float:
        """The mean wait, from claimable to reserved, in seconds."""

    @property
    def sojourn(self) -> float:
        """The mean of wait + service, in seconds."""
        return self.wait + self.service

    @property
    def waiting(self) -> float:
        """How many jobs wait on average."""
        return self.rate * self.wait

    @property
    def depth(self) -> float:
        """How many jobs wait or are served on average."""
        return self.rate * self.sojourn


def waited(p_wait: float, rate: float, q: float) -> float:
    """Tell within how many seconds a share q is served, where those that wait do so exponentially, at that rate."""
    left = 1 - inside(q, "q")
    return math.log(p_wait / left) / rate if p_wait > left else 0.0


def quantile(tail: Callable[[float], float], q: float, near: float) -> float:
    """Find where a tail falls to 1 - q, by halving.

    Args:
        tail: The probability of more than so many seconds; it falls with them.
        q: Between 0 and 1.
        near: Some seconds above 0, to begin with.
    """
    left = 1 - inside(q, "q")
    if tail(0.0) <= left:
        return 0.0
    low, high = 0.0, positive(near, "near")
    while tail(high) > left:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > left else (low, middle)
    return (low + high) / 2
