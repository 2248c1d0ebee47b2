"""Services that all take equally long: M/D/c, and M/D/1 with one worker."""

import math
from dataclasses import dataclass
from functools import cached_property

from qlab.theory.bulk import Bulk, poisson_above
from qlab.theory.checks import not_negative
from qlab.theory.distributions import poisson
from qlab.theory.general import MG1
from qlab.theory.station import Station, quantile


@dataclass(frozen=True)
class MDc(Station):
    """Poisson arrivals, services that all take equally long, c workers: M/D/c, and M/D/1 with one.

    Exact, from the distribution of how many wait (Crommelin, 1932; Tijms, A First Course in Stochastic Models, 2003).

    Attributes:
        rate: How many jobs arrive in a second.
        service: The service time, in seconds.
        workers: How many workers there are, from 1.

    Raises:
        ValueError: A number is out of its range, or the work is more than the workers can do.

    Example:
        >>> from qlab import theory
        >>> fixed = theory.MDc(rate=1.6, service=1.0, workers=2)
        >>> round(fixed.wait, 2), round(fixed.wait_sd, 2), round(fixed.p_wait, 3)
        (0.9, 1.14, 0.702)
        >>> round(fixed.wait_tail(2.0), 3)
        0.141
    """

    workers: int = 1

    @property
    def count(self) -> int:
        """How many workers there are."""
        return self.workers

    @cached_property
    def _bulk(self) -> Bulk:
        return Bulk(self.load, self.workers)

    @property
    def p_wait(self) -> float:
        """The probability that a job waits at all."""
        return self.utilisation if self.workers == 1 else self.wait_tail(0.0)

    @property
    def wait(self) -> float:
        """The mean wait, in seconds."""
        return self._bulk.mean / self.rate

    @property
    def wait_sd(self) -> float:
        """The standard deviation of the wait, in seconds.

        Those that wait have arrived during the wait of the one that goes next, so the number is a Poisson mixture over
        the wait (Haji and Newell, 1971), and its second factorial moment gives the wait's second moment.
        """
        if self.workers == 1:
            return MG1.fixed(self.rate, self.service).wait_sd
        return math.sqrt(max(0.0, self._bulk.pairs / self.rate**2 - self.wait**2))

    def wait_tail(self, t: float) -> float:
        """Tell the probability that a job waits longer than t seconds (Franx, 2001).

        All of its terms are positive. Erlang's alternating sum for one worker (1909) says the same, and loses its
        digits where t is many services.
        """
        whole_ones = math.floor(not_negative(t, "t") / self.service) + 1
        last = whole_ones * self.workers - 1
        mean = max(0.0, self.rate * (whole_ones * self.service - t))
        most = min(last, math.ceil(mean + 12 * math.sqrt(mean)) + 40)
        later = math.fsum(self._bulk.above(last - j) * poisson(j, mean) for j in range(most + 1))
        return min(1.0, later + (poisson_above(last, mean)[1] if mean else 0.0))

    def wait_quantile(self, q: float) -> float:
        """Tell within how many seconds a share q of the jobs is reserved; 0 where so many do not wait."""
        return quantile(self.wait_tail, q, self.wait)

    def sojourn_quantile(self, q: float) -> float:
        """Tell within how many seconds of its dispatch a share q of the jobs is done."""
        return self.wait_quantile(q) + self.service
