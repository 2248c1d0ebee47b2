"""When jobs come: processes of arrivals.

Each but `Closed` tells its moments in order, in seconds from the start of the run.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from random import Random

from qlab.clock import duration, us
from qlab.whole import is_whole
from qlab.workload.distributions import Distribution, distribution, number_in
from qlab.workload.recording import Recorded

Steps = Sequence[tuple[float, float]]
_PATIENCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Poisson:
    """Arrivals that know nothing of each other, at a constant rate: the gaps are exponential.

    One random number is drawn for an arrival.

    Attributes:
        rate: How many a second, on average; above 0.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Poisson
        >>> [round(moment, 2) for moment in Poisson(rate=2.0).moments(Random(7), until=3.0)]
        [0.2, 0.28, 0.8, 0.84, 1.23, 1.45, 1.48, 1.84, 1.86, 2.14, 2.18, 2.22, 2.5]
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _rate(self.rate, "rate"))

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:
        """Tell when jobs come, in seconds, up to a moment."""
        number, log, rate, now = random.random, math.log, self.rate, 0.0
        while (now := now - log(1.0 - number()) / rate) <= until:
            yield now


@dataclass(frozen=True, slots=True)
class Every:
    """Arrivals like clockwork; nothing is drawn for them.

    Attributes:
        interval: The seconds between two, above 0.
        first: When the first comes, in seconds.

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Every
        >>> list(Every(10, first=5).moments(Random(7), until=30))
        [5.0, 15.0, 25.0]
    """

    interval: float
    first: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", _positive(self.interval, "interval"))
        object.__setattr__(self, "first", duration(self.first, "first"))

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:  # noqa: ARG002 - nothing is drawn
        """Tell when jobs come, in seconds, up to a moment."""
        for i in count():
            if (now := self.first + i * self.interval) > until:
                return
            yield now


@dataclass(frozen=True, slots=True)
class Renewal:
    """Arrivals whose gaps are drawn from one distribution; the first comes after a gap.

    Attributes:
        between: How long from one to the next, with a mean above 0.

    Raises:
        TypeError: It is no distribution.
        ValueError: Its mean is 0.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Erlang, Renewal
        >>> [round(moment, 2) for moment in Renewal(Erlang(k=4, mean=1.0)).moments(Random(7), until=4.0)]
        [0.42, 0.92, 1.11, 1.78, 3.11]
    """

    between: Distribution

    def __post_init__(self) -> None:
        if us(distribution(self.between, "between").mean) == 0:
            raise ValueError(f"between is {self.between!r}: use one with a mean above 0, or all would come at once")

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:
        """Tell when jobs come, in seconds, up to a moment."""
        gap, now = self.between.sampler(random), 0
        last = us(until)
        while (now := now + gap()) <= last:
            yield now / 1_000_000


@dataclass(frozen=True, slots=True)
class Bursts:
    """Many at a time.

    Attributes:
        size: How many jobs a burst has, from 1.
        every: The seconds from the start of one burst to the next; None for a single burst.
        first: When the first one starts, in seconds.
        spread: Over how many seconds the jobs of a burst are spread at random; 0 for all at one moment. At most
            `every`. Where it is not 0, one random number is drawn for a job.

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Bursts
        >>> list(Bursts(size=2, every=60).moments(Random(7), until=100))
        [0.0, 0.0, 60.0, 60.0]
    """

    size: int
    every: float | None
    first: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not is_whole(self.size, least=1):
            raise ValueError(f"size is {self.size!r}: use a whole number of jobs from 1")
        if self.every is not None:
            object.__setattr__(self, "every", _positive(self.every, "every"))
        object.__setattr__(self, "first", duration(self.first, "first"))
        object.__setattr__(self, "spread", duration(self.spread, "spread"))
        if self.every is not None and self.spread > self.every:
            raise ValueError(f"spread is {self.spread!r} s: use at most every, which is {self.every!r} s")

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:
        """Tell when jobs come, in seconds, up to a moment."""
        number = random.random
        for i in range(1) if self.every is None else count():
            start = self.first + i * (self.every or 0.0)
            if start > until:
                return
            if not self.spread:
                yield from [start] * self.size
                continue
            drawn = sorted(start + self.spread * number() for _ in range(self.size))
            yield from drawn if drawn[-1] <= until else drawn[: bisect_right(drawn, until)]


@dataclass(frozen=True, slots=True)
class Varying:
    """Arrivals that know nothing of each other, at a rate that changes with time.

    Attributes:
        rate: How many a second: a function of the moment in seconds, or steps `((from second, rate), …)` in order;
            before the first step, and from one with the rate 0 on, none comes. With steps one number is drawn for an
            arrival, with a function two for each candidate.
        most: The highest rate that the function ever gives, above 0: candidates come at that rate, and each is taken
            with the chance rate/most (Lewis and Shedler's thinning, Naval Research Logistics Quarterly 26, 1979).
            Steps need none.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range; while moments are drawn, the function gave a rate that is negative,
            NaN or above `most`, or none was taken of a million candidates in a row.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Varying
        >>> rush_hour = Varying([(0, 0.1), (60, 1.0), (120, 0)])
        >>> moments = list(rush_hour.moments(Random(7)))
        >>> len([moment for moment in moments if moment < 60]), len([moment for moment in moments if moment >= 60])
        (13, 60)
    """

    rate: Callable[[float], float] | Steps
    most: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.rate):
            object.__setattr__(self, "rate", _steps(self.rate))
        elif self.most is None:
            raise ValueError("rate is a function and most is None: say the highest rate that it ever gives")
        if self.most is None:
            return
        object.__setattr__(self, "most", _rate(self.most, "most"))
        for moment, rate in () if callable(self.rate) else self.rate:
            _check_rate(rate, moment, self.most)

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:
        """Tell when jobs come, in seconds, up to a moment."""
        if not callable(self.rate):
            return _stepwise(self.rate, random, until)
        return self._thinned(self.rate, self.most or math.nan, random, until)

    @staticmethod
    def _thinned(rate: Callable[[float], float], most: float, random: Random, until: float) -> Iterator[float]:
        number, log, now, since, left = random.random, math.log, 0.0, 0.0, _PATIENCE
        while (now := now - log(1.0 - number()) / most) <= until:
            if number() * most < _check_rate(rate(now), now, most):
                since, left = now, _PATIENCE
                yield now
            elif not (left := left - 1):
                raise ValueError(
                    f"of {_PATIENCE:,} candidates between {since:g} s and {now:g} s none was taken: where it is 0 "
                    f"for so long, state it as steps ((from second, rate), …), or use a lower most than {most!r}"
                )


@dataclass(frozen=True, slots=True)
class Closed:
    """A fixed number of clients, each of which waits for its job before it thinks of the next.

    Attributes:
        clients: How many, from 1.
        think: How long a client thinks before it dispatches: at the start, and each time its job is done or failed.

    Raises:
        TypeError: `think` is no distribution.
        ValueError: There is no client.

    Example:
        >>> from qlab import simulate
        >>> from qlab.workload import Closed, Fixed, Workload
        >>> work = Workload(Closed(clients=3, think=Fixed(4)), Fixed(1), jobs=6)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> [event.at for event in run.trace if event.kind == "dispatched"]
        [4.0, 4.0, 4.0, 9.0, 10.0, 11.0]
    """

    clients: int
    think: Distribution

    def __post_init__(self) -> None:
        if not is_whole(self.clients, least=1):
            raise ValueError(f"clients is {self.clients!r}: use a whole number from 1")
        distribution(self.think, "think")


Arrivals = Poisson | Every | Renewal | Bursts | Varying | Recorded | Closed
"""Any of the ways in which jobs come."""


def _positive(seconds: float, what: str) -> float:
    if us(checked := duration(seconds, what)) == 0:
        raise ValueError(f"{what} is {seconds!r} s: use a number of seconds from 0.000001")
    return checked


def _rate(rate: float, what: str) -> float:
    if not number_in(rate, what):
        raise ValueError(f"{what} is {rate!r}: use a number of arrivals a second above 0")
    return float(rate)


def _check_rate(rate: float, moment: float, most: float) -> float:
    if not 0.0 <= rate <= most:
        raise ValueError(f"the rate at {moment:g} s is {rate!r}: use one from 0 to most, which is {most!r}")
    return rate


def _steps(steps: Steps) -> Steps:
    if isinstance(steps, str | bytes) or not isinstance(steps, Iterable):
        raise TypeError(f"rate is {steps!r}: use a function of the moment, or steps ((from second, rate), …)")
    checked = []
    for i, step in enumerate(steps):
        if not isinstance(step, Sequence) or isinstance(step, str) or len(step) != 2:
            raise TypeError(f"rate[{i}] is {step!r}: use (from second, rate)")
        checked.append((duration(step[0], f"rate[{i}], from second"), number_in(step[1], f"rate[{i}], rate")))
    if not any(rate for _, rate in checked):
        raise ValueError(f"rate is {steps!r}: use at least one step with a rate above 0")
    for (earlier, _), (later, _) in pairwise(checked):
        if later <= earlier:
            raise ValueError(f"rate has the step at {later:g} s after the one at {earlier:g} s: use steps in order")
    return tuple(checked)


def _stepwise(steps: Steps, random: Random, until: float) -> Iterator[float]:
    """Spend an exponential number of expected arrivals on the steps, one after the other."""
    number, log = random.random, math.log
    owed = -log(1.0 - number())
    for (start, rate), (end, _) in pairwise((*steps, (math.inf, 0.0))):
        now = start
        while rate and (now := now + owed / rate) < end:
            if now > until:
                return
            yield now
            owed = -log(1.0 - number())
        owed = (now - end) * rate if rate else owed
