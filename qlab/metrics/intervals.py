"""Intervals that cover the truth about as often as they say, or the reason why there is none.

The waits of jobs that follow each other are alike, so they tell less than as many independent numbers would. Two ways
out are here: the means of a few long batches of one run, which hardly depend on each other, and runs that were repeated
with other seeds. Both give Student's interval. Where a run is too short for that, there is a reason in its place.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qlab.escape import shortened
from qlab.whole import is_whole

BATCHES = 20
"""Into how many batches a run is cut; fewer give no interval."""
IN_A_BATCH = 10
"""How many values a batch has at least."""
WORTH = 5
"""How many independent values a batch is worth at least."""
ALIKE = 0.5
"""The correlation of one batch with the next above which there is no interval: chance makes one run in a hundred so."""
REPLICATIONS = 5
"""How many runs give an interval at least."""

Values = NDArray[np.float64]
Statistic = Callable[[Values], Any]


class Estimate(NamedTuple):
    """A number, and between what the truth lies.

    Attributes:
        value: The number, in the unit of what it was made of; NaN where there is none.
        low: The interval's lower end; NaN where there is no interval.
        high: Its upper end; NaN where there is no interval.
        n: Of how many values it is.
        why: Why there is no interval, or no number; empty where there is one.

    Example:
        >>> from qlab import metrics
        >>> estimate = metrics.replicated([1.9, 2.0, 2.1, 2.0, 2.2])
        >>> estimate.n, [round(value, 2) for value in estimate[:3]]
        (5, [2.04, 1.9, 2.18])
        >>> metrics.replicated([1.9, 2.0]).why
        '2 runs are too few: an interval needs 5'
    """

    value: float
    low: float
    high: float
    n: int
    why: str = ""


def refused(why: str, value: float = math.nan, n: int = 0) -> Estimate:
    """Give a number without an interval, and the reason."""
    return Estimate(float(value), math.nan, math.nan, n, why)


def batch_means(
    values: ArrayLike,
    *,
    level: float = 0.95,
    batches: int = BATCHES,
    statistic: Statistic = np.mean,
    least: int = IN_A_BATCH,
) -> Estimate:
    """Estimate a number from one run, by what the same number is in each of some long batches of it.

    Args:
        values: One value a job, in the order of the run.
        level: How often the interval is to cover the truth.
        batches: Into how many batches to cut, from 20.
        statistic: What to estimate; by default the mean.
        least: How many values a batch must have.

    Returns:
        The statistic of all values. There is no interval where there are too few values; where a batch is worth fewer
        than 5 independent values, or batches that follow each other are alike (the run is too short, or does not come
        to rest); and where all values are the same.

    Raises:
        TypeError: The values are no list of numbers.
        ValueError: A value is NaN or without end, or the level or the number of batches is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab import metrics
        >>> random = Random(7)
        >>> told = metrics.batch_means([random.random() for _ in range(1000)])
        >>> round(told.low, 2), round(told.value, 2), round(told.high, 2)
        (0.46, 0.48, 0.5)
        >>> metrics.batch_means([1.0, 2.0]).why
        '2 are too few: an interval needs 20 batches of 10, so 200'
    """
    check_level(level)
    check_batches(batches)
    series = finite(numbers_of(values))
    if len(series) == 0:
        return refused("there is nothing to count")
    value = float(statistic(series))
    if why := too_few(len(series), batches, least):
        return refused(why, value, len(series))
    means = averages_of(series, batches)
    if why := too_short(means, float(series.var()), len(series)):
        return refused(why, value, len(series))
    if statistic is np.mean:
        return around(means, value, len(series), level)
    each = [float(statistic(series[start:end])) for start, end in pairwise(_ends(len(series), batches))]
    return around(each, value, len(series), level)


def replicated(values: Sequence[float], *, level: float = 0.95) -> Estimate:
    """Estimate a number from what it was in each of some independent runs.

    Args:
        values: One value a run; each run has a seed of its own.
        level: How often the interval is to cover the truth.

    Returns:
        Their mean; there is no interval for fewer than 5 runs, nor where one of them has no value.

    Raises:
        TypeError: The values are no list of numbers.
        ValueError: The level is out of its range.

    Example:
        >>> from qlab import metrics
        >>> told = metrics.replicated([1.9, 2.0, 2.1, 2.0, 2.2])
        >>> round(told.low, 2), round(told.value, 2), round(told.high, 2)
        (1.9, 2.04, 2.18)
    """
    check_level(level)
    series = numbers_of(values)
    if (missing := int((~np.isfinite(series)).sum())) or len(series) == 0:
        return refused(f"{missing} of the {len(series)} runs have no value", n=len(series))
    value = float(series.mean())
    if len(series) < REPLICATIONS:
        return refused(f"{len(series)} runs are too few: an interval needs {REPLICATIONS}", value, len(series))
    if not np.ptp(series):
        return refused("every run gave the same", value, len(series))
    return around(series, value, len(series), level)


def naive_interval(values: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Give the interval that textbooks give for independent values, so that one can see how it lies.

    It is the mean, plus and minus a normal quantile times sd / sqrt(n). Of the waits in one run it covers the truth far
    less often than it says: jobs that follow each other wait behind the same crowd, so ten thousand waits tell as
    little as some hundred independent ones, while sqrt(n) counts each of them. At a utilisation of 0.8 with 20,000 jobs
    the interval "of 95 %" covers the true mean in about one run of seven. Use `batch_means`, or repeat the run.

    Args:
        values: One value a job.
        level: How often it claims to cover the truth.

    Returns:
        The mean; there is no interval for fewer than 2 values.

    Raises:
        TypeError: The values are no list of numbers.
        ValueError: A value is NaN or without end, or the level is out of its range.

    Example:
        >>> from qlab import metrics
        >>> told = metrics.naive_interval([1.0, 2.0, 3.0, 4.0])
        >>> round(told.low, 2), told.value, round(told.high, 2)
        (1.23, 2.5, 3.77)
    """
    check_level(level)
    series = finite(numbers_of(values))
    if len(series) < 2:
        return refused("it needs 2 values", float(series.mean()) if len(series) else math.nan, len(series))
    half = NormalDist().inv_cdf((1 + level) / 2) * float(series.std(ddof=1)) / math.sqrt(len(series))
    value = float(series.mean())
    return Estimate(value, value - half, value + half, len(series))


def mser5(values: ArrayLike) -> int | None:
    """Tell how many values from the start on are not yet like the rest.

    Of the means of five values each, as many are left out as make the rest's mean surest: its squared standard error,
    taken as if they were independent, is the smallest.

    Args:
        values: One value a job, in the order of the run.

    Returns:
        How many to leave out; None where there are fewer than 50 values, or more than half would have to go: then no
        part of the run is steady.

    Raises:
        TypeError: The values are no list of numbers.
        ValueError: A value is NaN or without end.

    Source: White, K. P., "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
    (1997); in batches of five: White, Cobb and Spratt, Proceedings of the Winter Simulation Conference (2000).

    Example:
        >>> from qlab import metrics
        >>> metrics.mser5([9.0] * 20 + [1.0, 2.0] * 40)
        20
        >>> print(metrics.mser5([1.0, 2.0]))
        None
    """
    series = finite(numbers_of(values))
    count = len(series) // 5
    if count < 10:
        return None
    means = series[: 5 * count].reshape(count, 5).mean(axis=1)
    means -= means.mean()
    left = np.arange(count, 0, -1)
    total, square = means[::-1].cumsum()[::-1], (means**2)[::-1].cumsum()[::-1]
    error = np.maximum(square - total**2 / left, 0) / left**2
    best = int(error[: count - 4].argmin())  # of fewer than five the error says nothing
    return 5 * best if 2 * best <= count else None


# -- what they are made of --


def numbers_of(values: ArrayLike) -> Values:
    """Take a list of numbers.

    Raises:
        TypeError: It is none.
    """
    try:
        series = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"values are {shortened(repr(values))}: use a list of numbers") from error
    if series.ndim != 1:
        raise TypeError(f"values are {shortened(repr(values))}: use a list of numbers, one after another")
    return series


def finite(series: Values) -> Values:
    """Refuse what is no number, or without end: nothing is known of its mean.

    Raises:
        ValueError: There is such a value.
    """
    if len(wrong := np.flatnonzero(~np.isfinite(series))):
        raise ValueError(f"values[{wrong[0]}] is {series[wrong[0]]}: leave out what has no value")
    return series


def around(each: ArrayLike, value: float, n: int, level: float) -> Estimate:
    """Put Student's interval around a number, from independent measurements of it."""
    measured = np.asarray(each, np.float64)
    half = t_quantile((1 + level) / 2, len(measured) - 1) * float(measured.std(ddof=1)) / math.sqrt(len(measured))
    return Estimate(value, value - half, value + half, n)


def averages_of(values: Values, batches: int) -> Values:
    """Give the mean of each batch; there are at least as many values as batches."""
    ends = _ends(len(values), batches)
    return np.asarray(np.add.reduceat(values, ends[:-1]) / np.diff(ends))


def _ends(n: int, batches: int) -> NDArray[np.int64]:
    return np.linspace(0, n, batches + 1).astype(np.int64)


def too_few(n: int, batches: int, least: int) -> str:
    """Tell why so many values give no interval; nothing where they do."""
    if n >= batches * least:
        return ""
    return f"{n:,} are too few: an interval needs {batches} batches of {least}, so {batches * least:,}"


def too_short(means: Values, variance: float, n: int) -> str:
    """Tell why batches give no interval; nothing where they do.

    Args:
        means: The mean of each batch.
        variance: The variance of what they are means of.
        n: How many jobs the batches have.
    """
    between = float(means.var(ddof=1))
    if between == 0:
        return "nothing differs, so nothing tells how sure this is"
    worth = variance / between
    if worth < WORTH:
        needed = f"{float(f'{n * WORTH / worth:.2g}'):,.0f}"
        worth_too_little = f"a batch is worth {worth:.1f} independent values, and must be worth {WORTH}"
        return f"too short: {worth_too_little}; try {needed} jobs, or several runs"
    off = means - means.mean()
    alike = float(off[1:] @ off[:-1]) / float(off @ off)
    if alike > ALIKE:
        return f"a batch is like the next (correlation {alike:.2f}): the run is too short, or does not come to rest"
    return ""


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Give the value that Student's t is below with a probability.

    Args:
        probability: From 0.5 up to below 1.
        freedom: The degrees of freedom, from 1.

    Returns:
        The value, in standard errors.

    Source: the finite sums for the distribution in Abramowitz and Stegun, 26.7.3 and 26.7.4, inverted by halving.

    Example:
        >>> from qlab import metrics
        >>> round(metrics.t_quantile(0.975, 19), 3)
        2.093
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 2 * probability - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Tell how probable it is that t is between plus and minus sqrt(freedom) times the angle's tangent."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def check_level(level: float) -> None:
    """Refuse what is no level of an interval."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise ValueError(f"level is {level!r}: use a number between 0 and 1, such as 0.95")


def check_batches(batches: int) -> None:
    """Refuse a number of batches that gives no interval."""
    if not is_whole(batches, BATCHES, 10_000):
        raise ValueError(
            f"batches is {batches!r}: use a whole number from {BATCHES}; fewer say too little of themselves"
        )
