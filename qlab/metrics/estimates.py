"""Each metric of a part of a trace: its number, with an interval or the reason why there is none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from qlab.frames.columns import NOTHING, Array
from qlab.metrics.curves import Curve
from qlab.metrics.intervals import (
    BATCHES,
    IN_A_BATCH,
    Estimate,
    Statistic,
    Values,
    around,
    averages_of,
    batch_means,
    refused,
    too_few,
    too_short,
)
from qlab.metrics.measures import Measured
from qlab.simulation.requests import Requests

NO_WORKERS = "say how many workers there are: workers=…"
COUNT = "it is a count"
COUNTS = ("measured_from", "removed", "jobs")
"""The metrics that say what is measured, of which there are no intervals."""
_TOO_FEW_WORKERS = "more than {} were busy at once: there were more workers"
WHOLE = "it is one number of the whole run: repeat the run for an interval"


class Metric(NamedTuple):
    """What a metric is.

    Attributes:
        unit: Its unit.
        about: What it tells.

    Example:
        >>> from qlab import metrics
        >>> metrics.METRICS["wait"]
        Metric(unit='s', about='from claimable to reserved, for each reservation')
    """

    unit: str
    about: str


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "measured_from": Metric("s", "from which moment on is measured"),
        "removed": Metric("jobs", "how many jobs came before that, and do not count"),
        "jobs": Metric("jobs", "how many jobs count: they came later, and are done or have failed"),
        "wait": Metric("s", "from claimable to reserved, for each reservation"),
        "wait_sd": Metric("s", "the standard deviation of these waits"),
        "wait_p50": Metric("s", "what half of these waits do not exceed"),
        "wait_p95": Metric("s", "what 95 in 100 of these waits do not exceed"),
        "wait_p99": Metric("s", "what 99 in 100 of these waits do not exceed"),
        "wait_max": Metric("s", "the longest of these waits"),
        "p_wait": Metric("share", "how many of these waits, first ones and later ones, are above 0"),
        "wait_per_job": Metric("s", "all waits of a job"),
        "service": Metric(
            "s", "from reserved to settled, for each run; one that nobody settles lasts until it runs out"
        ),
        "sojourn": Metric("s", "all waits and services of a job, without delay and backoff"),
        "backoff": Metric("s", "all time of a job from a failed attempt until it is claimable again"),
        "time_to_end": Metric("s", "from the dispatch of a job until it is done or has failed"),
        "attempts": Metric("per job", "reservations of a job"),
        "runs": Metric("per job", "runs of a job: reservations but one that only finds the attempts used up"),
        "duplicates": Metric("per job", "runs that begin because a reservation has run out or was recovered"),
        "p_duplicate": Metric("share", "how many jobs have such a run"),
        "failed": Metric("share", "how many jobs have failed for good: the dead letters"),
        "lost": Metric("share", "how many of the jobs that came have vanished: their store has forgotten them"),
        "arrivals": Metric("1/s", "jobs that come"),
        "throughput": Metric("1/s", "jobs that leave: done or failed"),
        "goodput": Metric("1/s", "jobs that are done; where clients ask, requests that are answered in time"),
        "rejected": Metric("share", "how many of the jobs that come find the system full, and are turned away"),
        "answered": Metric("share", "how many of the clients' requests are answered in time; the others are given up"),
        "asks": Metric("per request", "how many times a client asks"),
        "response": Metric("s", "from the first time that a client asks until it is answered"),
        "utilisation": Metric("share", "how much of the workers' time they have a job in hand"),
        "depth": Metric("jobs", "ready + delayed + reserved, in backoff too"),
        "L": Metric("jobs", "ready + reserved: the system of the closed forms"),
        "Lq": Metric("jobs", "ready: the backlog"),
        "in_flight": Metric("jobs", "reserved"),
        "delayed": Metric("jobs", "delayed by their dispatch or their handler, not in backoff"),
        "in_backoff": Metric("jobs", "delayed after a failed attempt"),
        "oldest_age": Metric("s", "for how long the oldest of the ready jobs has been claimable; 0 where none is"),
        "oldest_age_max": Metric("s", "the largest such age"),
        "fairness": Metric("share", "Jain's index of the jobs that each worker completes: 1 for equal shares"),
        "fewest_to_most": Metric("share", "the jobs of the worker that completes fewest, as a share of the most"),
    }
)
"""Every metric, in the order of the tables."""

_QUANTILES = {"wait_p50": (0.5, IN_A_BATCH), "wait_p95": (0.95, 100), "wait_p99": (0.99, 200)}
IN_SLICES = 50
"""Into how many slices the time of a batch is cut, to see how much differs within it."""
SCALES = {"oldest_age": 1_000_000}
"""What some curves are divided by, so that they have the unit of their metric."""


@dataclass(frozen=True)
class Estimates:
    """Makes the metrics of a part of a trace.

    Attributes:
        part: What is measured.
        workers: How many workers there are; None where nobody says.
        level: How often an interval is to cover the truth.
        batches: Into how many batches the part is cut.
        requests: What clients saw of it; None where there were none.
    """

    part: Measured
    workers: int | None
    level: float = 0.95
    batches: int = BATCHES
    requests: Requests | None = None

    def all(self) -> dict[str, Estimate]:
        """Give every metric, in their order; of one worker those that make sense."""
        found = self._of_values() | self._of_time()
        if self.part.worker is None:
            found |= self._of_places() | self._of_the_whole()
            found |= {"lost": self._batches(self.part.lost), "rejected": self._batches(self.part.rejected)}
            found |= self._of_requests() if self.requests is not None and self.part.name is None else {}
        return {name: self._checked(found[name]) for name in METRICS if name in found}

    def _checked(self, found: Estimate) -> Estimate:
        """Take away an interval that the part as a whole does not allow."""
        return refused(self.part.why, found.value, found.n) if self.part.why and not found.why else found

    # -- of values --

    def _of_values(self) -> dict[str, Estimate]:
        values = self.part.per_attempt | (self.part.per_job if self.part.worker is None else {})
        wait = values["wait"]
        found = {name: self._batches(series) for name, series in values.items()}
        found["wait_sd"] = self._batches(wait, np.std)
        for name, (share, least) in _QUANTILES.items():
            found[name] = self._batches(wait, partial(np.quantile, q=share), least)
        found["wait_max"] = refused(WHOLE, wait.max(initial=0.0) if len(wait) else math.nan, len(wait))
        return found

    def _batches(self, values: Values, statistic: Statistic = np.mean, least: int = IN_A_BATCH) -> Estimate:
        return batch_means(values, level=self.level, batches=self.batches, statistic=statistic, least=least)

    def _of_requests(self) -> dict[str, Estimate]:
        """Tell what clients saw of the requests that came and ended while it was measured."""
        columns = {name: np.asarray(column) for name, column in (self.requests or Requests()).columns().items()}
        came, answered, given_up = columns["started_at"], columns["answered_at"], columns["given_up_at"]
        there = answered != NOTHING
        ended = (came >= self.part.start) & (there | (given_up != NOTHING))
        return {
            "answered": self._batches(there[ended].astype(np.float64)),
            "asks": self._batches(columns["asked"][ended].astype(np.float64)),
            "response": self._batches((answered - came)[ended & there] / 1e6),
            "goodput": self._rate(answered[there]),
        }

    # -- of time --

    def _of_time(self) -> dict[str, Estimate]:
        found = {name: self._rate(moments) for name, moments in self.part.moments.items()}
        workers = 1 if self.part.worker is not None else self.workers
        busy = refused(NO_WORKERS) if workers is None else self._over_time(self.part.busy, workers)
        return found | {"utilisation": refused(_TOO_FEW_WORKERS.format(workers)) if busy.value > 1 + 1e-9 else busy}

    def _of_places(self) -> dict[str, Estimate]:
        return {name: self._over_time(curve, SCALES.get(name, 1)) for name, curve in self.part.over_time.items()}

    def _over_time(self, curve: Curve, scale: float) -> Estimate:
        """Estimate the average of a curve."""
        edges = edges_of(self.part, self.batches)
        return self._sliced(averages(curve, edges) / scale, averages(curve, edges[[0, -1]]) / scale)

    def _rate(self, moments: Array) -> Estimate:
        """Estimate how often something happens a second."""
        edges = edges_of(self.part, self.batches)
        return self._sliced(rates(moments, edges), rates(moments, edges[[0, -1]]))

    def _sliced(self, slices: Values, whole: Values) -> Estimate:
        jobs = len(self.part.kept)
        if self.part.start == self.part.end:
            return refused("no time goes by", n=jobs)
        return of_slices(slices, float(whole[0]), jobs, self.batches, self.level)

    # -- of the whole --

    def _of_the_whole(self) -> dict[str, Estimate]:
        part, all_jobs = self.part, self.part.removed + len(self.part.kept)
        shares = list(part.done_by.values())
        shares += [0] * ((self.workers or 0) - len(shares))
        most = max(shares, default=0)
        counts = {
            "measured_from": (part.start / 1e6, all_jobs),
            "removed": (part.removed, all_jobs),
            "jobs": (int(part.ended.sum()), len(part.kept)),
            "oldest_age_max": (part.age.most(part.start, part.end) / 1e6, len(part.kept)),
            "fairness": (jain(shares), len(shares)),
            "fewest_to_most": (min(shares) / most if most else math.nan, len(shares)),
        }
        found = {name: refused(WHOLE, value, n) for name, (value, n) in counts.items()}
        left_out = f"{part.removed:,} of {all_jobs:,} jobs came before, and are left out"
        found["measured_from"] = found["measured_from"]._replace(why=part.why or left_out)
        return found | {name: found[name]._replace(why=COUNT) for name in COUNTS[1:]}


def edges_of(part: Measured, batches: int) -> Array:
    """Cut the time that is measured into equal slices, 50 a batch."""
    return np.linspace(part.start, part.end, batches * IN_SLICES + 1).round().astype(np.int64)


def averages(curve: Curve, edges: Array) -> Values:
    """Average a curve over each slice of time."""
    return np.asarray(np.diff(curve.area(edges)) / np.maximum(np.diff(edges), 1))


def rates(moments: Array, edges: Array) -> Values:
    """Tell how often a second something happens in each slice; of its two ends the first is in it, of the last both."""
    return np.asarray(np.histogram(moments, edges)[0] * 1e6 / np.maximum(np.diff(edges), 1))


def of_slices(slices: Values, value: float, jobs: int, batches: int, level: float) -> Estimate:
    """Put an interval around an average over time, from the averages of batches of slices of that time."""
    means = averages_of(slices, batches)
    why = too_few(jobs, batches, IN_A_BATCH) or too_short(means, float(slices.var()), jobs)
    return refused(why, value, jobs) if why else around(means, value, jobs, level)


def jain(shares: Sequence[float]) -> float:
    """Tell how equal shares are: 1 where they are, 1/n where one of n has everything; NaN where there is nothing.

    Args:
        shares: What each has, in any unit, from 0.

    Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource allocation in
    shared computer systems", DEC Research Report TR-301 (1984).

    Example:
        >>> from qlab import metrics
        >>> metrics.jain([5, 5, 5]), metrics.jain([9, 0, 0])
        (1.0, 0.3333333333333333)
    """
    given = np.asarray(shares, np.float64)
    squares = float(given @ given)
    return float(given.sum()) ** 2 / (len(given) * squares) if squares > 0 else math.nan
