"""Numbers from a trace, each with an interval that covers the truth about as often as it says, or the reason for none.

`summary` gives all of them; `METRICS` says what each is, and in which unit. Intervals are from the means of 20 or more
batches of one run, or from 5 or more runs with seeds of their own.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from qlab.metrics.estimates import COUNT, COUNTS, METRICS, Estimates, Metric, jain
from qlab.metrics.intervals import (
    BATCHES,
    Estimate,
    batch_means,
    check_batches,
    check_level,
    mser5,
    naive_interval,
    refused,
    replicated,
    t_quantile,
)
from qlab.metrics.littles_law import little
from qlab.metrics.measures import Measured, Warmup, measure, source_of
from qlab.metrics.paired import compare
from qlab.whole import is_whole

__all__ = [
    "METRICS",
    "Estimate",
    "Metric",
    "batch_means",
    "compare",
    "jain",
    "jobs_needed",
    "little",
    "mser5",
    "naive_interval",
    "replicated",
    "summary",
    "t_quantile",
]

_Found: TypeAlias = dict[tuple[str, ...], Estimate]


def summary(
    what: object,
    *,
    workers: int | None = None,
    warmup: Warmup = 0,
    warmup_seconds: float = 0.0,
    by: Literal["name", "worker"] | None = None,
    level: float = 0.95,
    batches: int = BATCHES,
) -> pd.DataFrame:
    """Tell every metric of a run, or of several.

    Args:
        what: A Run, a Trace or a Queue; or a list of Runs of one scenario, each with a seed of its own.
        workers: How many workers there were, which utilisation and fairness need; a Run knows.
        warmup: How many jobs from the start on do not count, because the run had not yet come to rest; `mser5` lets
            the waits say so.
        warmup_seconds: How many seconds from the start on do not count, instead.
        by: A summary of each handler's jobs (`name`), or of what each worker has reserved (`worker`).
        level: How often an interval is to cover the truth.
        batches: Into how many batches a run is cut, from 20.

    Returns:
        One row a metric, indexed by `metric` (with `by`: by `name` or `worker`, then `metric`), in the order of
        `METRICS`, which says what each is:

        - `value` (float64): the number; NaN where there is nothing that it is a number of;
        - `low`, `high` (float64): the interval; NaN where there is none;
        - `unit` (str): the unit of these three;
        - `n` (int64): how many jobs, waits or runs it is a number of;
        - `why` (str): why there is no interval: too few jobs, a run that is too short for what jobs that follow each
          other have in common, a number that only a whole run has. Empty where there is one.

    Raises:
        TypeError: It is not what has a trace.
        ValueError: An argument is out of its range, or the warm-up leaves nothing.

    Example:
        >>> from qlab import metrics, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(1), jobs=100), poll=None)
        >>> metrics.summary(run).loc[["jobs", "wait", "service", "utilisation"], ["value", "unit"]].round(2)
                     value   unit
        metric
        jobs         100.0   jobs
        wait           0.0      s
        service        1.0      s
        utilisation    0.5  share
        >>> metrics.summary(run).loc["wait", "why"]
        '100 are too few: an interval needs 20 batches of 10, so 200'
    """
    check_level(level)
    check_batches(batches)
    if workers is not None and not is_whole(workers, 1):
        raise ValueError(f"workers is {workers!r}: use a number from 1")
    if by not in ("name", "worker", None):
        raise ValueError(f"by is {by!r}: use 'name', 'worker' or None")

    def of_one(run: object) -> _Found:
        source = source_of(run)
        part = measure(source.trace, until=source.until, warmup=warmup, warmup_seconds=warmup_seconds)

        def make(part: Measured) -> Estimates:
            return Estimates(part, workers or source.workers, level, batches, source.requests)

        if by is None:
            return {(name,): found for name, found in make(part).all().items()}
        parts = part.by_name() if by == "name" else part.by_worker()
        return {(group, name): found for group, mine in parts for name, found in make(mine).all().items()}

    names = ["metric"] if by is None else [by, "metric"]
    if not isinstance(what, list | tuple):
        return _frame(of_one(what), names)
    runs = [of_one(run) for run in what]
    if not runs:
        raise ValueError("there is no run in the list: use at least one")
    return _frame(_over_runs(runs, level), names)


def jobs_needed(
    what: object,
    precision: float,
    *,
    metric: str = "wait",
    warmup: Warmup = 0,
    workers: int | None = None,
    level: float = 0.95,
) -> int:
    """Tell how many jobs a run needs for a metric to be so precise, from how much it varies in this one.

    Half as wide an interval needs four times as many jobs. The number is as rough as the variance of 20 batches is; for
    M/M/1 there is a formula: `theory.jobs_for`.

    Args:
        what: A Run, a Trace or a Queue; or a list of Runs, for how many runs are needed.
        precision: Half the interval's width as a share of the metric: 0.05 for ± 5 %.
        metric: Which metric, by its name in `METRICS`.
        warmup: As for `summary`; these jobs come on top.
        workers: As for `summary`.
        level: How often the interval is to cover the truth.

    Returns:
        How many jobs, or runs where a list of them was given.

    Raises:
        TypeError: It is not what has a trace.
        ValueError: There is no such metric, the precision is not above 0, or the run gives no interval: its reason.

    Example:
        >>> from qlab import metrics, simulate
        >>> from qlab.workload import Exponential, Poisson, Workload
        >>> work = Workload(Poisson(1.0), Exponential(0.5), jobs=1000)
        >>> run = simulate("memory://", workload=work, poll=None, seed=7)
        >>> round(metrics.jobs_needed(run, 0.05), -3)
        29000
    """
    if metric not in METRICS:
        raise ValueError(f"there is no metric {metric!r}: use one of {', '.join(METRICS)}")
    if isinstance(precision, bool) or not isinstance(precision, int | float) or not 0 < precision < math.inf:
        raise ValueError(f"precision is {precision!r}: use a number above 0, such as 0.05 for ± 5 %")
    told = summary(what, workers=workers, warmup=warmup, level=level).loc[[metric]].to_dict("records")[0]
    if told["why"] or told["value"] == 0:
        raise ValueError(f"this run does not tell how much {metric} varies: {told['why'] or 'it is 0'}")
    half = (told["high"] - told["low"]) / 2
    needed: int = math.ceil(told["n"] * (half / (precision * abs(told["value"]))) ** 2)
    return needed


def _over_runs(runs: Sequence[_Found], level: float) -> _Found:
    """Put the same numbers of several runs together."""
    told = {}
    for key in dict.fromkeys(key for found in runs for key in found):
        values = [found[key].value if key in found else math.nan for found in runs]
        together = replicated(values, level=level)
        told[key] = refused(COUNT, together.value, together.n) if key[-1] in COUNTS else together
    return told


def _frame(found: Mapping[tuple[str, ...], Estimate], names: Sequence[str]) -> pd.DataFrame:
    parts: list[Any] = [pd.Index([key[i] for key in found], dtype=object, name=name) for i, name in enumerate(names)]
    columns: dict[str, Any] = {
        "value": np.array([one.value for one in found.values()], np.float64),
        "low": np.array([one.low for one in found.values()], np.float64),
        "high": np.array([one.high for one in found.values()], np.float64),
        "unit": np.array([METRICS[key[-1]].unit for key in found], object),
        "n": np.array([one.n for one in found.values()], np.int64),
        "why": np.array([one.why for one in found.values()], object),
    }
    return pd.DataFrame(columns, index=parts[0] if len(parts) == 1 else pd.MultiIndex.from_arrays(parts))
