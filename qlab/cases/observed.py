"""What is measured of a station's run: numbers from its jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qlab import frames
from qlab.cases.case import Case, bound, level

if TYPE_CHECKING:
    from qlab.simulation import Run

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Observed:
    """The jobs of a run, and the window in which they are counted; times in seconds.

    Attributes:
        wait: How long each counted job waited.
        service: How long it was served.
        arrived: When every job came, also those before the warm-up's end.
        reserved: When it was first reserved.
        finished: When it was done or had failed.
        refused: When arrivals were rejected.
        begin: When the window begins: with the first counted arrival.
        end: When it ends: with the last arrival.
        workers: How many workers there were.
    """

    wait: Numbers
    service: Numbers
    arrived: Numbers
    reserved: Numbers
    finished: Numbers
    refused: Numbers
    begin: float
    end: float
    workers: int


def observe(run: "Run", warmup: int, workers: int) -> Observed:
    """Take the jobs of a run, without those that arrived first.

    Args:
        run: The run.
        warmup: How many arrivals come before the window; those that were rejected count.
        workers: How many workers there were.
    """
    jobs = frames.jobs(run.trace)
    arrived = numbers(jobs["dispatched_at"])
    refused = rejections(run)
    arrivals = np.sort(np.concatenate([arrived, refused]))
    begin, end = float(arrivals[min(warmup, len(arrivals) - 1)]), float(arrivals[-1])
    counted = (arrived >= begin) & np.isfinite(numbers(jobs["finished_at"]))
    return Observed(
        wait=numbers(jobs["wait"])[counted],
        service=numbers(jobs["service"])[counted],
        arrived=arrived,
        reserved=numbers(jobs["first_reserved_at"]),
        finished=numbers(jobs["finished_at"]),
        refused=refused,
        begin=begin,
        end=end,
        workers=workers,
    )


def rejections(run: "Run") -> Numbers:
    """Tell when arrivals were rejected, in seconds."""
    events = frames.events(run.trace)
    return numbers(events["at"][events["kind"] == "rejected"])


def numbers(column: Any) -> Numbers:
    """Give a column's numbers."""
    return np.asarray(column, dtype=np.float64)


def reader(case: Case) -> Callable[[Observed], float]:
    """Give what reads a station's metric.

    Raises:
        CaseError: A station has no such metric.
    """
    for name, tail, with_service in (("Wq", "P_wq", False), ("W", "P_w", True)):
        if (q := level(case.metric, name)) is not None:
            return _quantile(q, with_service=with_service)
        if (t := bound(case.metric, tail)) is not None:
            return _tail(t, with_service=with_service)
    if case.metric not in METRICS:
        raise case.unknown_metric(f"{', '.join(METRICS)}, Wq_p95, W_p95, P_wq_gt_1, P_w_gt_1")
    return METRICS[case.metric]


def _quantile(q: float, *, with_service: bool) -> Callable[[Observed], float]:
    return lambda seen: float(np.quantile(seen.wait + seen.service * with_service, q))


def _tail(t: float, *, with_service: bool) -> Callable[[Observed], float]:
    return lambda seen: float(np.mean(seen.wait + seen.service * with_service > t))


def _mean_number(seen: Observed, since: Numbers, until: Numbers) -> float:
    """Tell how many were there on average over the window, by the area under their number."""
    there = np.minimum(until, seen.end) - np.maximum(since, seen.begin)
    return float(np.clip(np.nan_to_num(there, nan=0.0), 0, None).sum() / (seen.end - seen.begin))


def _done_in_window(seen: Observed) -> int:
    return int(((seen.finished > seen.begin) & (seen.finished <= seen.end)).sum())


def _blocked(seen: Observed) -> float:
    refused = int((seen.refused >= seen.begin).sum())
    return refused / (refused + int((seen.arrived >= seen.begin).sum()))


METRICS: dict[str, Callable[[Observed], float]] = {
    "Wq": lambda seen: float(seen.wait.mean()),
    "W": lambda seen: float((seen.wait + seen.service).mean()),
    "R": lambda seen: float((seen.wait + seen.service).mean()),
    "Wq_sd": lambda seen: float(seen.wait.std()),
    "W_sd": lambda seen: float((seen.wait + seen.service).std()),
    "P_wait": lambda seen: float((seen.wait > 0).mean()),
    "Lq": lambda seen: _mean_number(seen, seen.arrived, seen.reserved),
    "L": lambda seen: _mean_number(seen, seen.arrived, seen.finished),
    "util": lambda seen: _mean_number(seen, seen.reserved, seen.finished) / seen.workers,
    "throughput": lambda seen: _done_in_window(seen) / (seen.end - seen.begin),
    "X": lambda seen: _done_in_window(seen) / (seen.end - seen.begin),
    "P_block": _blocked,
}
