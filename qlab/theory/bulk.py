"""How many are left behind where up to so many are served at a time: N' = max(N + A - c, 0), A Poisson.

Two queues are this one: M/D/c looked at once in every service time (Crommelin, 1932), and a bulk service that comes at
fixed moments, as a daily cap does (Bailey, 1954).
"""

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

_TINY = 1e-18


@dataclass(frozen=True)
class Bulk:
    """The number left behind, by Spitzer's identity, or from the zeros of z^c = exp(a (z - 1)) inside the unit circle.

    Attributes:
        load: How many arrive between two services on average, below `most`.
        most: How many are served at a time.
    """

    load: float
    most: int

    @cached_property
    def _zeros(self) -> list[complex]:
        return [self._zero(cmath.exp(2j * math.pi * k / self.most)) for k in range(1, self.most)]

    def _zero(self, unit: complex) -> complex:
        """Find the zero z = unit exp(a (z - 1)/c): the map contracts, and Newton's steps end it."""
        ratio, z = self.load / self.most, 0j
        for _ in range(60):
            z = unit * cmath.exp(ratio * (z - 1))
        for _ in range(6):
            image = unit * cmath.exp(ratio * (z - 1))
            z -= (z - image) / (1 - ratio * image)
        return z

    @cached_property
    def mean(self) -> float:
        """How many are left behind on average."""
        if self._ends_soon:
            return math.fsum(above / n for n, above, _ in self._excess())
        a, c = self.load, self.most
        return a / (2 * (c - a)) - (c - 1 + a) / 2 + math.fsum((1 / (1 - z)).real for z in self._zeros)

    @cached_property
    def some_left(self) -> float:
        """The probability that any is left behind."""
        if self._ends_soon:
            return -math.expm1(-math.fsum(p / n for n, _, p in self._excess()))
        return 1 - self._generating(0j).real

    @property
    def _ends_soon(self) -> bool:
        """Whether Spitzer's sums end within some thousand terms, as they do not where the load is near `most`."""
        falls = self.load - self.most - self.most * math.log(self.load / self.most)
        return falls * 4_000 > -math.log(_TINY)

    def _excess(self) -> Iterator[tuple[int, float, float]]:
        """Tell of n services together, for n = 1, 2, ..., by how many arrivals are above them, and how likely any is.

        Spitzer's identity (1956) makes mean and probability of them; all terms are positive, so no digit is lost.
        """
        n, total = 0, 0.0
        while True:
            n += 1
            above, p = poisson_above(n * self.most, n * self.load)
            total += above / n
            yield n, above, p
            if above / n <= _TINY * total:
                return

    def left(self, n: int) -> float:
        """Tell the probability that n are left behind."""
        near = self._near[n] if n < len(self._near) else 0.0
        return max(0.0, near + self._weight * self.decay**-n)

    def above(self, n: int) -> float:
        """Tell the probability that more than n are left behind."""
        near = self._near_above[n] if n < len(self._near) else 0.0
        return max(0.0, near + self._weight * self.decay**-n / (self.decay - 1))

    @cached_property
    def pairs(self) -> float:
        """The mean of n (n - 1), where n are left behind."""
        far = self._weight * 2 * self.decay / (self.decay - 1) ** 3
        return far + math.fsum(n * (n - 1) * p for n, p in enumerate(self._near))

    @cached_property
    def _weight(self) -> float:
        """How many times `decay`^-n the probability of n becomes: the residue of the generating function there."""
        a, c, pole = self.load, self.most, self.decay
        value = complex((c - a) * (pole - 1) / (a * pole - c) / pole)
        for zero in self._zeros:
            value *= (1 - zero / pole) / (1 - zero)
        return value.real

    @cached_property
    def _near(self) -> list[float]:
        """What is missing from that to the probabilities of 0, 1, ...: a discrete Fourier sum on the circle.

        It falls with the next zero, whose logarithm is about sqrt(2 pi / c) or more at every load.
        """
        size = 2 * math.ceil(41 / max(math.log(self.decay), math.sqrt(2 * math.pi / self.most) / 2) / 2) + 4
        points = [cmath.exp(2j * math.pi * m / size) for m in range(size)]
        values = [self._generating(z) - self._weight / (1 - z / self.decay) for z in points[: size // 2 + 1]]
        return [self._coefficient(values, points, n) for n in range(size)]

    @cached_property
    def _near_above(self) -> list[float]:
        return [*reversed(list(accumulate(reversed(self._near[1:])))), 0.0]

    def _coefficient(self, values: list[complex], points: list[complex], n: int) -> float:
        size = len(points)
        first, *inner, last = ((value * points[-m * n % size]).real for m, value in enumerate(values))
        return (first + last + 2 * math.fsum(inner)) / size

    def _generating(self, z: complex) -> complex:
        a, c = self.load, self.most
        if abs(z - 1) < 1e-12:
            return 1 + 0j
        value = (c - a) * (z - 1) / (z**c - cmath.exp(a * (z - 1)))
        for zero in self._zeros:
            value *= (z - zero) / (1 - zero)
        return value

    @cached_property
    def decay(self) -> float:
        """Find the zero above 1: the tail falls by it with each more that is left."""
        ratio, low, high = self.load / self.most, 1.0, 2.0
        while math.log(high) > ratio * (high - 1):
            high *= 2
        low = 1 / ratio  # where ln z - ratio (z - 1) is highest
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if math.log(middle) > ratio * (middle - 1) else (low, middle)
        return low


def poisson_above(n: int, mean: float) -> tuple[float, float]:
    """Tell by how much a Poisson number, of a mean below n, is above n on average, and how likely it is."""
    term = math.exp((n + 1) * math.log(mean) - mean - math.lgamma(n + 2))
    above, likely, more = 0.0, 0.0, 1
    while more * term > above * _TINY:
        above += more * term
        likely += term
        more += 1
        term *= mean / (n + more)
    return above, likely
