"""Two arms of one experiment, compared on the same jobs: chance that both share does not blur the difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from qlab.frames.columns import Array
from qlab.metrics.estimates import COUNTS, METRICS, NO_WORKERS, SCALES, Estimates, averages, edges_of, of_slices, rates
from qlab.metrics.intervals import (
    BATCHES,
    Estimate,
    Values,
    averages_of,
    batch_means,
    check_batches,
    check_level,
    refused,
    replicated,
)
from qlab.metrics.measures import Measured, Warmup, measure, source_of
from qlab.show import seconds as shown


def compare(
    a: object,
    b: object,
    *,
    workers: tuple[int, int] | None = None,
    warmup: Warmup = 0,
    warmup_seconds: float = 0.0,
    level: float = 0.95,
    batches: int = BATCHES,
) -> pd.DataFrame:
    """Tell in what two arms of an experiment differ, job by job or run by run.

    Two runs with one seed get the same jobs at the same moments. What a job meets in both has its chance in common, so
    the differences vary less than the numbers do, and far fewer jobs show which arm is better.

    Args:
        a: A Run, a Trace or a Queue; or a list of Runs, each with a seed of its own.
        b: The other arm: of the same jobs; or a list of as many Runs, with the same seeds in the same order.
        workers: How many workers each arm had, for utilisation; Runs know.
        warmup: How many jobs from the start on do not count; with `mser5` as many as the arm that needs more says.
        warmup_seconds: How many seconds from the start on do not count, instead.
        level: How often an interval is to cover the true difference.
        batches: Into how many batches the runs are cut, from 20.

    Returns:
        One row a metric, indexed by `metric`; of two runs those that a job has, and those that change over time, up to
        where the first of them ends:

        - `a`, `b` (float64): the metric in each arm, of the jobs that have ended in both;
        - `difference` (float64): b − a;
        - `low`, `high` (float64): the interval of the difference; NaN where there is none;
        - `unit` (str): the unit of these five;
        - `correlation` (float64): of the arms, batch by batch or run by run; the nearer to 1, the more pairing gains;
        - `n` (int64): how many jobs or runs it is a number of;
        - `why` (str): why there is no interval, as in `summary`; empty where there is one.

    Raises:
        TypeError: One of them is not what has a trace.
        ValueError: The two runs do not have the same jobs, the lists are not equally long, or an argument is out of its
            range.

    Example:
        >>> from qlab import metrics, simulate
        >>> from qlab.workload import Exponential, Poisson, Workload
        >>> work = Workload(Poisson(1.0), Exponential(0.8), jobs=500)
        >>> one, two = (simulate("memory://", workload=work, workers=n, poll=None, seed=7) for n in (1, 2))
        >>> metrics.compare(one, two)[["a", "b", "difference", "unit"]].loc[["wait_per_job", "sojourn"]].round(2)
                         a     b  difference unit
        metric
        wait_per_job  4.97  0.17        -4.8    s
        sojourn       5.85  1.04        -4.8    s
    """
    check_level(level)
    check_batches(batches)
    if isinstance(a, list | tuple) != isinstance(b, list | tuple):
        raise ValueError("one arm is a list of runs and the other is not: use two runs, or two lists of as many")
    counts = workers or (None, None)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b) or not a:
            raise ValueError(
                f"there are {len(a)} runs of one arm and {len(b)} of the other: use as many of each, paired"
            )
        return _frame(_of_runs(a, b, counts, warmup, warmup_seconds, level))
    arms = _measured(a, b, warmup, warmup_seconds)
    numbers = [count or source_of(arm).workers for count, arm in zip(counts, (a, b), strict=True)]
    return _frame(_of_jobs(*arms, level, batches) | _of_time(*arms, numbers, level, batches))


class _Difference(NamedTuple):
    """A metric in both arms, their difference, and how alike they are."""

    a: float
    b: float
    found: Estimate
    correlation: float


# -- of several runs --


def _of_runs(
    a: Sequence[object],
    b: Sequence[object],
    counts: tuple[int | None, int | None],
    warmup: Warmup,
    warmup_seconds: float,
    level: float,
) -> dict[str, _Difference]:
    def values(run: object, workers: int | None) -> dict[str, Estimate]:
        source = source_of(run)
        part = measure(source.trace, until=source.until, warmup=warmup, warmup_seconds=warmup_seconds)
        return Estimates(part, workers or source.workers, level, requests=source.requests).all()

    arms = [[values(run, workers) for run in arm] for arm, workers in zip((a, b), counts, strict=True)]
    told = {}
    runs = [*arms[0], *arms[1]]
    for name in (name for name in METRICS if name not in COUNTS and all(name in found for found in runs)):
        one, other = (np.array([found[name].value for found in arm]) for arm in arms)
        found = replicated(list(other - one), level=level)
        told[name] = _Difference(float(one.mean()), float(other.mean()), found, _correlation(one, other))
    return told


# -- of two runs --


def _measured(a: object, b: object, warmup: Warmup, warmup_seconds: float) -> tuple[Measured, Measured]:
    """Measure the same part of both, in which the same jobs came."""
    sources = [source_of(arm) for arm in (a, b)]

    def parts(warmup: Warmup) -> list[Measured]:
        how: dict[str, Any] = {"warmup": warmup, "warmup_seconds": warmup_seconds}
        return [measure(source.trace, until=source.until, **how) for source in sources]

    one, other = parts(warmup)
    if one.removed != other.removed:
        one, other = parts(max(one.removed, other.removed))
    _check_same_jobs(one, other)
    why, end = one.why or other.why, min(one.end, other.end)
    return replace(one, end=end, why=why), replace(other, end=end, why=why)


def _check_same_jobs(a: Measured, b: Measured) -> None:
    """Refuse arms that did not get the same jobs at the same moments."""
    jobs = min(len(a.kept), len(b.kept))
    came, names = zip(*((arm.came[arm.kept[:jobs]], _names(arm)[arm.kept[:jobs]]) for arm in (a, b)), strict=True)
    differs = np.flatnonzero((came[0] != came[1]) | (names[0] != names[1]))
    if len(differs):
        first = differs[0]
        told = " and ".join(f"{names[i][first]!r} at {shown(came[i][first] / 1e6)}" for i in (0, 1))
        raise ValueError(
            f"the two runs did not get the same jobs: number {a.removed + first + 1} was {told}; "
            "give both one seed and the same arrivals, or compare lists of runs"
        )


def _names(part: Measured) -> Array:
    return np.array(part.steps.columns.texts, object)[part.steps.names]


def _of_jobs(a: Measured, b: Measured, level: float, batches: int) -> dict[str, _Difference]:
    """Compare what each job that has ended in both adds up to."""
    jobs, told = min(len(a.kept), len(b.kept)), {}
    for name in a.per_job:
        one, other = (_aligned(arm, name)[:jobs] for arm in (a, b))
        both = ~np.isnan(one) & ~np.isnan(other)
        one, other = one[both], other[both]
        found = batch_means(other - one, level=level, batches=batches)
        alike = _correlation(*(averages_of(arm, batches) for arm in (one, other))) if len(one) >= batches else math.nan
        told[name] = _Difference(_mean(one), _mean(other), _allowed(found, a.why), alike)
    return told


def _aligned(part: Measured, name: str) -> Values:
    """Give a value for each job that came, in order: NaN for one that has not ended."""
    aligned = np.full(len(part.kept), np.nan)
    aligned[part.ended] = part.per_job[name]
    return aligned


def _of_time(
    a: Measured, b: Measured, workers: Sequence[int | None], level: float, batches: int
) -> dict[str, _Difference]:
    """Compare what changes over time, in the same slices of it."""
    jobs, edges = min(len(a.kept), len(b.kept)), edges_of(a, batches)
    told = {}
    for name in (*a.over_time, *a.moments, "utilisation"):
        arms = [(arm, name, count) for arm, count in zip((a, b), workers, strict=True)]
        one, other = (_slices(*arm, edges) for arm in arms)
        in_a, in_b = (float(_slices(*arm, edges[[0, -1]])[0]) for arm in arms)
        found = of_slices(other - one, in_b - in_a, jobs, batches, level)
        if name == "utilisation" and None in workers:
            found = refused(NO_WORKERS)
        if a.start == a.end:
            found = refused("no time goes by")
        alike = _correlation(*(averages_of(arm, batches) for arm in (one, other)))
        told[name] = _Difference(in_a, in_b, _allowed(found, a.why), alike)
    return told


def _slices(part: Measured, name: str, workers: int | None, edges: Array) -> Values:
    if name in part.moments:
        return rates(part.moments[name], edges)
    if name == "utilisation":
        return averages(part.busy, edges) / (workers or math.nan)
    return np.asarray(averages(part.over_time[name], edges) / SCALES.get(name, 1))


def _allowed(found: Estimate, why: str) -> Estimate:
    return refused(why, found.value, found.n) if why and not found.why else found


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else math.nan


def _correlation(a: Values, b: Values) -> float:
    """Tell how alike two arms are; NaN where one does not vary."""
    if len(a) < 2 or not (np.ptp(a) > 0 and np.ptp(b) > 0):
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def _frame(told: Mapping[str, _Difference]) -> pd.DataFrame:
    names = [name for name in METRICS if name in told]
    rows = [told[name] for name in names]
    columns: dict[str, Any] = {
        "a": np.array([row.a for row in rows], np.float64),
        "b": np.array([row.b for row in rows], np.float64),
        "difference": np.array([row.found.value for row in rows], np.float64),
        "low": np.array([row.found.low for row in rows], np.float64),
        "high": np.array([row.found.high for row in rows], np.float64),
        "unit": np.array([METRICS[name].unit for name in names], object),
        "correlation": np.array([row.correlation for row in rows], np.float64),
        "n": np.array([row.found.n for row in rows], np.int64),
        "why": np.array([row.found.why for row in rows], object),
    }
    return pd.DataFrame(columns, index=pd.Index(names, dtype=object, name="metric"))
