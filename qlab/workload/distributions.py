"""How long something takes: distributions of a duration, in seconds."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, runtime_checkable

from qlab.clock import duration, us
from qlab.whole import is_whole

_WIDEST = 1_000
_PRODUCT = 16  # as many factors from 2^-53 up are still far from the smallest double


@runtime_checkable
class Distribution(Protocol):
    """A duration that differs from time to time; with a class of your own a workload runs, but cannot be saved.

    Example:
        >>> from qlab.workload import Distribution, Exponential, Lognormal
        >>> isinstance(Exponential(2.0), Distribution), Exponential(2.0).cv
        (True, 1.0)
        >>> Lognormal(mean=2.0, cv=3.0).mean
        2.0
    """

    @property
    def mean(self) -> float:
        """The mean, in seconds."""

    @property
    def cv(self) -> float:
        """The coefficient of variation: the standard deviation as a multiple of the mean."""

    def draw(self, random: Random) -> float:
        """Draw one: seconds, to the microsecond."""

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many: a function that gives the same ones in microseconds."""


class _Drawn:
    """One formula for both ways to draw."""

    __slots__ = ()

    def draw(self, random: Random) -> float:
        """Draw one: seconds, to the microsecond."""
        return self.sampler(random)() / 1_000_000

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many: a function that gives the same ones in microseconds."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fixed(_Drawn):
    """The same every time; nothing is drawn for it.

    Attributes:
        seconds: How long, from 0.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Fixed
        >>> Fixed(2.5).draw(Random(7)), Fixed(2.5).mean, Fixed(2.5).cv
        (2.5, 2.5, 0.0)
    """

    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", duration(self.seconds, "seconds"))

    @property
    def mean(self) -> float:
        """The mean, in seconds."""
        return self.seconds

    @property
    def cv(self) -> float:
        """The coefficient of variation: 0."""
        return 0.0

    def sampler(self, random: Random) -> Callable[[], int]:  # noqa: ARG002 - nothing is drawn
        """Make the fast way to draw many, in microseconds."""
        microseconds = us(self.seconds)
        return lambda: microseconds


@dataclass(frozen=True, slots=True)
class Exponential(_Drawn):
    """Without memory: how long it has lasted says nothing about how long it will.

    One random number is drawn each time.

    Attributes:
        mean: The mean, in seconds, above 0.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Exponential
        >>> random, service = Random(7), Exponential(mean=2.0)
        >>> [round(service.draw(random), 2) for _ in range(3)]
        [0.78, 0.33, 2.1]
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _above_zero(self.mean, "mean"))

    @property
    def cv(self) -> float:
        """The coefficient of variation: 1."""
        return 1.0

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many, in microseconds: -mean ln(1 - u)."""
        number, scale, log = random.random, -self.mean * 1_000_000, math.log
        return lambda: round(scale * log(1.0 - number()))


@dataclass(frozen=True, slots=True)
class Lognormal(_Drawn):
    """Mostly short, sometimes very long: the logarithm is normal.

    With s² = ln(1 + cv²) the logarithm has the mean ln(mean) - s²/2 and the standard deviation s. Two random numbers
    are drawn each time.

    Attributes:
        mean: The mean, in seconds, above 0.
        cv: The coefficient of variation: the standard deviation as a multiple of the mean, from 0 to 1,000.

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Lognormal
        >>> random, service = Random(7), Lognormal(mean=2.0, cv=3.0)
        >>> [round(service.draw(random), 2) for _ in range(3)]
        [1.38, 4.57, 0.18]
    """

    mean: float
    cv: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _above_zero(self.mean, "mean"))
        object.__setattr__(self, "cv", number_in(self.cv, "cv", most=_WIDEST))

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many, in microseconds.

        The normal one is Box and Muller's (Annals of Mathematical Statistics 29, 1958): it needs the C library's
        log, sqrt and cos alone, which both Pythons of a machine share.
        """
        variance = math.log1p(self.cv**2)
        sigma, middle = math.sqrt(variance), math.log(self.mean * 1_000_000) - variance / 2
        number, turn, exp, sqrt, log, cos = random.random, math.tau, math.exp, math.sqrt, math.log, math.cos
        return lambda: round(exp(middle + sigma * sqrt(-2.0 * log(1.0 - number())) * cos(turn * number())))


@dataclass(frozen=True, slots=True)
class Erlang(_Drawn):
    """The sum of k equal exponential stages: the more stages, the more regular.

    k random numbers are drawn each time.

    Attributes:
        k: How many stages, from 1.
        mean: The mean of the sum, in seconds, above 0.

    Raises:
        TypeError: The mean is not a number.
        ValueError: A value is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Erlang
        >>> random, service = Random(7), Erlang(k=4, mean=2.0)
        >>> [round(service.draw(random), 2) for _ in range(3)], service.cv
        ([0.84, 1.0, 0.39], 0.5)
    """

    k: int
    mean: float

    def __post_init__(self) -> None:
        if not is_whole(self.k, least=1):
            raise ValueError(f"k is {self.k!r}: use a whole number of stages from 1")
        object.__setattr__(self, "mean", _above_zero(self.mean, "mean"))

    @property
    def cv(self) -> float:
        """The coefficient of variation: 1/√k."""
        return 1 / math.sqrt(self.k)

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many, in microseconds: -mean/k ln(u₁ u₂ … uₖ)."""
        number, scale, log = random.random, -self.mean / self.k * 1_000_000, math.log
        blocks, rest = divmod(self.k, _PRODUCT)
        parts, few = [_PRODUCT] * blocks, range(rest)

        def draw() -> int:
            product, logs = 1.0, 0.0
            for _ in few:
                product *= 1.0 - number()
            for part in parts:
                logs += log(product)
                product = 1.0
                for _ in range(part):
                    product *= 1.0 - number()
            return round(scale * (logs + log(product)))

        return draw


@dataclass(frozen=True, slots=True)
class Empirical(_Drawn):
    """One of the durations that were measured, each as likely as the other.

    One random number is drawn each time.

    Attributes:
        values: The measured durations, in seconds; one that stands there twice is twice as likely.

    Raises:
        TypeError: A value is not a number.
        ValueError: There is none, or one is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Empirical
        >>> random, service = Random(7), Empirical([0.5, 1.0, 3.0])
        >>> [service.draw(random) for _ in range(5)], service.mean
        ([0.5, 0.5, 1.0, 0.5, 1.0], 1.5)
    """

    values: Sequence[float]

    def __post_init__(self) -> None:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Iterable):
            raise TypeError(f"values is {self.values!r}: use a list of seconds")
        values = tuple(duration(plain(value), f"values[{i}]") for i, value in enumerate(self.values))
        if not values:
            raise ValueError("values is empty: use at least one duration, in seconds")
        object.__setattr__(self, "values", values)

    @property
    def mean(self) -> float:
        """The mean of the values, in seconds."""
        return math.fsum(self.values) / len(self.values)

    @property
    def cv(self) -> float:
        """The coefficient of variation of the values; 0 where all are 0."""
        mean = self.mean
        variance = math.fsum((value - mean) ** 2 for value in self.values) / len(self.values)
        return math.sqrt(variance) / mean if mean else 0.0

    def sampler(self, random: Random) -> Callable[[], int]:
        """Make the fast way to draw many, in microseconds."""
        number, values = random.random, [us(value) for value in self.values]
        count = len(values)
        return lambda: values[int(number() * count)]


def number_in(value: float, what: str, *, least: float = 0.0, most: float = math.inf) -> float:
    """Check a number that a caller gave.

    Args:
        value: The number.
        what: What it is, for the message.
        least: The smallest that will do.
        most: The largest that will do.

    Raises:
        TypeError: It is not a number.
        ValueError: It is NaN, infinite or out of its range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is {value!r}: use a number")
    if not least <= value <= most or math.isinf(value):
        top = f" to {most:,g}" if most < math.inf else ""
        raise ValueError(f"{what} is {value!r}: use a number from {least:g}{top}")
    return float(value)


def distribution(value: object, what: str) -> Distribution:
    """Check a distribution that a caller gave.

    Args:
        value: What a caller gave.
        what: What it is, for the message.

    Raises:
        TypeError: It is none.
    """
    if isinstance(value, type) or not isinstance(value, Distribution):
        raise TypeError(f"{what} is {value!r}: use a distribution, such as Fixed(1.0) or Exponential(mean=1.0)")
    return value


def _above_zero(seconds: float, what: str) -> float:
    if us(checked := duration(seconds, what)) == 0:
        raise ValueError(f"{what} is {seconds!r} s: use a number of seconds from 0.000001, or Fixed(0.0)")
    return checked


def plain(value: Any) -> Any:
    """Give a number of NumPy's as one of Python's."""
    return value.item() if hasattr(value, "item") else value
