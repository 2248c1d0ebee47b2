"""What real workers reached: a row for each arm and number of workers, or for each call."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd

from qlab.contend import Contention
from qlab.driver import SURVIVED
from qlab.frames.job_steps import steps_of
from qlab.frames.job_totals import moments
from qlab.measured import Measured
from qlab.simulation import Run

_FAMILIES = ("memory", "sqlite", "redis_list", "redis_zset")
_TEXT = ("server", "worker_killed", "store_killed", "power_cut")
_WHOLE = ("workers", "runs", "jobs", "locked", "lock_errors", "lost", "duplicated", "disk_bytes")
_SPREAD = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
_CALLS = ("wait", "reserve", "complete", "dispatch")
_COLUMNS = (
    *("arm", "driver", "server", "survives", "worker_killed", "store_killed", "power_cut"),
    *("workers", "runs", "jobs", "jobs_per_second", "low", "high"),
    *(f"{call}_{part}" for call in _CALLS for part in _SPREAD),
    "reserve_mean",
    *("fewest_most", "jain", "locked", "lock_errors", "locked_s", "lost", "duplicated"),
    *("worker_cpu", "server_cpu", "disk_bytes", "noise", "behind"),
)


def contention(found: Contention | Iterable[Run]) -> pd.DataFrame:
    """Tell what real workers reached.

    Args:
        found: What `qlab.contention` gave, or runs of it.

    Returns:
        One row an arm and number of workers, by arm as they were asked for (runs alone: in the order of appearance):

        - `arm` (category): what was run, such as `sqlite FULL`;
        - `driver` (category: memory, sqlite, redis_list, redis_zset): the driver's family;
        - `server` (str): product, version and settings of the store;
        - `survives` (ordered category, `qlab.driver.SURVIVED`): its class of like durability;
        - `worker_killed`, `store_killed`, `power_cut` (str): what a killed worker, a killed store and a power cut lose;
        - `workers`, `runs` (int64): how many workers, how many repeats;
        - `jobs` (int64): how many jobs one run completed;
        - `jobs_per_second`, `low`, `high` (float64, jobs/s): the median of the repeats, the slowest, the fastest;
        - `wait_p50`, `wait_p95`, `wait_p99`, `wait_max` (float64, s): from a job's dispatch, or from the start where it
          was there before, to its first start: medians of the repeats, and the longest of all;
        - `reserve_p50`, … `reserve_max` (float64, s): how long a call took that brought a worker its job;
        - `reserve_mean` (float64, s): its mean; the median of the repeats;
        - `complete_p50`, … `complete_max` (float64, s): how long a call took that completed one; a call that did both
          counts in both;
        - `dispatch_p50`, … `dispatch_max` (float64, s): how long a dispatch took while workers worked; NaN where all
          jobs were there before;
        - `fewest_most` (float64, 0 to 1): the fewest jobs of a worker by the most of one; the median;
        - `jain` (float64, 0 to 1): Jain's index of fairness, (Σx)² / (n Σx²) of the jobs x of n workers; the median;
        - `locked`, `lock_errors` (int64): how many calls waited over 1 ms for the store's lock, and were given up
          (SQLite: because of it; a server: because it did not answer), in all repeats;
        - `locked_s` (float64, s): how long they waited, together;
        - `lost`, `duplicated` (int64): how many jobs vanished, or were done twice, in all repeats;
        - `worker_cpu`, `server_cpu` (float64, s): processor time a job, of the workers and of the server; medians;
        - `disk_bytes` (int64): what the store's files take at the end; the median;
        - `noise` (float64): how much longer the same counting took than on the quietest occasion; the worst repeat;
        - `behind` (float64, s): how much later than it should a job was dispatched, at the worst.

    Raises:
        TypeError: It is something else.
        ValueError: A run is a simulated one.

    Example:
        >>> from qlab import contention, frames
        >>> found = contention("memory", jobs=20, workers=[2], repeats=1, mode="thread")
        >>> frames.contention(found)[["arm", "workers", "runs", "jobs", "lost", "duplicated", "survives"]]
              arm  workers  runs  jobs  lost  duplicated survives
        0  memory        2     1    20     0           0  nothing
    """
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in _runs(found):
        groups.setdefault((_measured(run).arm, _measured(run).workers), []).append(run)
    arms = _arms(found, [arm for arm, _ in groups])
    rows = [_row(groups[key]) for key in sorted(groups, key=lambda key: (arms.index(key[0]), key[1]))]
    frame = pd.DataFrame(rows, columns=[*_COLUMNS])
    return frame.astype(
        dict.fromkeys(_COLUMNS, "float64")
        | {
            "arm": pd.CategoricalDtype(pd.Index(arms, dtype=str)),
            "driver": pd.CategoricalDtype(pd.Index(_FAMILIES, dtype=str)),
            "survives": pd.CategoricalDtype(pd.Index(SURVIVED, dtype=str), ordered=True),
        }
        | dict.fromkeys(_TEXT, "str")
        | dict.fromkeys(_WHOLE, "int64")
    )


def reserves(found: Contention | Iterable[Run]) -> pd.DataFrame:
    """Tell each call that brought a real worker its job: for the distribution of how long they take.

    Args:
        found: What `qlab.contention` gave, or runs of it.

    Returns:
        One row a call, by run, in no order within it:

        - `arm` (category): what was run, such as `sqlite FULL`;
        - `workers`, `repeat` (int64): how many workers there were, and which repeat it was, from 0;
        - `reserve` (float64, s): how long the call took.

    Raises:
        TypeError: It is something else.
        ValueError: A run is a simulated one.

    Example:
        >>> from qlab import contention, frames
        >>> found = contention("memory", jobs=20, workers=[2], repeats=1, mode="thread")
        >>> calls = frames.reserves(found)
        >>> len(calls), list(calls.columns), bool((calls["reserve"] >= 0).all())
        (20, ['arm', 'workers', 'repeat', 'reserve'], True)
    """
    runs = _runs(found)
    measured = [_measured(run) for run in runs]
    arms, counts = _arms(found, [each.arm for each in measured]), [len(each.reserves) for each in measured]
    arm = np.repeat(np.array([arms.index(each.arm) for each in measured], dtype=np.int64), counts)
    calls = np.fromiter(chain.from_iterable(each.reserves for each in measured), dtype=np.int64, count=sum(counts))
    return pd.DataFrame(
        {
            "arm": pd.Categorical.from_codes(arm, categories=pd.Index(arms, dtype=str)),
            "workers": np.repeat(np.array([each.workers for each in measured], dtype=np.int64), counts),
            "repeat": np.repeat(np.array([each.repeat for each in measured], dtype=np.int64), counts),
            "reserve": calls / 1_000_000,
        }
    )


def _runs(found: Contention | Iterable[Run]) -> Sequence[Run]:
    given = found.runs if isinstance(found, Contention) else found
    runs = tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(run, Run) for run in runs):
        raise TypeError(f"this frame is made of what qlab.contention gives, or of runs of it, not of {found!r}")
    return cast("Sequence[Run]", runs)


def _arms(found: Contention | Iterable[Run], names: Iterable[str]) -> list[str]:
    """Order the arms that there are: as they were asked for, else as they appear."""
    asked, there = getattr(found, "arms", ()), list(dict.fromkeys(names))
    return sorted(there, key=lambda name: asked.index(name) if name in asked else len(asked))


def _measured(run: Run) -> Measured:
    if run.measured is None:
        raise ValueError(f"{run!r} is a simulated run: this frame is made of runs in real time")
    return run.measured


def _row(runs: Sequence[Run]) -> dict[str, Any]:
    first, durability, measured = runs[0], runs[0].durability, [_measured(run) for run in runs]
    rates, jobs = [each.jobs_per_second for each in measured], [sum(each.per_worker) for each in measured]
    done = np.array([count or np.nan for count in jobs])
    return {
        "arm": measured[0].arm,
        "driver": first.driver,
        "server": first.description,
        "survives": durability.survives,
        **durability._asdict(),
        "workers": measured[0].workers,
        "runs": len(runs),
        "jobs": int(np.median(jobs)),
        "jobs_per_second": np.median(rates),
        "low": min(rates),
        "high": max(rates),
        **_spread("wait", [_waits(run) for run in runs]),
        **_spread("reserve", [np.asarray(each.reserves) / 1_000_000 for each in measured]),
        **_spread("complete", [np.asarray(each.completes) / 1_000_000 for each in measured]),
        "reserve_mean": _mean([each.reserves for each in measured if each.reserves]),
        **_spread("dispatch", [np.asarray(each.dispatches) / 1_000_000 for each in measured]),
        "fewest_most": np.median([_fewest_most(each.per_worker) for each in measured]),
        "jain": np.median([_jain(each.per_worker) for each in measured]),
        **{name: sum(getattr(each, name) for each in measured) for name in _SUMS},
        "locked_s": sum(each.locked_seconds for each in measured),
        "worker_cpu": np.median(np.array([each.worker_cpu for each in measured]) / done),
        "server_cpu": np.median(np.array([each.server_cpu for each in measured]) / done),
        "disk_bytes": int(np.median([each.disk_bytes for each in measured])),
        "noise": max(each.noise for each in measured),
        "behind": max(each.behind for each in measured),
    }


_SUMS = ("locked", "lock_errors", "lost", "duplicated")


def _waits(run: Run) -> Any:
    """Tell each job's wait in seconds: as it was measured, else by the trace."""
    if waits := _measured(run).waits:
        return np.asarray(waits) / 1_000_000
    told = moments(steps_of(run.trace))
    waits_told = told["first_reserved_at"] - told["dispatched_at"]
    return waits_told[~np.isnan(waits_told)]


def _spread(call: str, runs: Sequence[Any]) -> dict[str, float]:
    """Give the medians of some runs' percentiles, and the longest of all."""
    there = [times for times in runs if len(times)]
    if not there:
        return {f"{call}_{part}": np.nan for part in _SPREAD}
    parts = {name: [float(np.quantile(times, share)) for times in there] for name, share in _SPREAD.items()}
    return {f"{call}_{name}": max(each) if name == "max" else float(np.median(each)) for name, each in parts.items()}


def _mean(runs: Sequence[Sequence[int]]) -> float:
    """Give the median of some runs' means, in seconds."""
    return float(np.median([np.mean(times) for times in runs])) / 1_000_000 if runs else np.nan


def _fewest_most(per_worker: Sequence[int]) -> float:
    return min(per_worker) / max(per_worker) if any(per_worker) else np.nan


def _jain(per_worker: Sequence[int]) -> float:
    return sum(per_worker) ** 2 / (len(per_worker) * sum(x * x for x in per_worker)) if any(per_worker) else np.nan
