"""What became of each job of a trace, counted and added up over its steps, and how many were where."""

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from qlab.errors import AttemptsExhausted
from qlab.frames.columns import CODES, NOTHING, Array, category, seconds, text
from qlab.frames.job_steps import FAILED, GONE, LOST, OPEN, READY, Steps, steps_of
from qlab.job import JobState
from qlab.trace import Kind, Trace

COUNTED = (JobState.READY, JobState.DELAYED, JobState.RESERVED, JobState.FAILED, JobState.DONE)
"""The states that are counted, numbered as the places where steps put jobs."""


def jobs(trace: Trace) -> pd.DataFrame:
    """Tell what became of every job, as one flat row each.

    A failed job that is retried is another job from then on, with an id of its own: its first row stays failed. An id
    that a store gives again, once it has begun anew, is another job too.

    Args:
        trace: What happened.

    Returns:
        One row a job, by id:

        - `job` (int64), `name` (category): its id and its handler;
        - `state` (category: ready, delayed, reserved, failed, done, cleared, lost): where it was at the trace's last
          moment;
        - `attempts` (int64): how many times it was reserved;
        - `runs` (int64): how many of those were there to run it: one whose worker crashed was, one that only found
          every attempt used up was not;
        - `dispatched_at` (float64, s): when it was dispatched, or came back from the failed jobs;
        - `first_reserved_at`, `finished_at` (float64, s): when it was first reserved; when it was done or had failed;
        - `wait` (float64, s): from claimable to reserved, summed over its reservations; NaN without one;
        - `service` (float64, s): from reserved to settled, summed over its reservations; one that nobody settled counts
          until it ran out, was recovered, cleared or lost, one that goes on does not count; NaN without one that does;
        - `backoff` (float64, s): from released by a failed attempt to claimable again, summed; 0 without one;
        - `sojourn` (float64, s): wait + service;
        - `worker` (category): who reserved it last;
        - `superseded` (int64): how many times a worker came too late to settle it;
        - `error` (category): the last error of its attempts.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> frames.jobs(run.trace)[["job", "state", "attempts", "dispatched_at", "wait", "service", "sojourn"]]
           job state  attempts  dispatched_at  wait  service  sojourn
        0    1  done         1            0.0   0.0      3.0      3.0
        1    2  done         1            2.0   1.0      3.0      4.0
        2    3  done         1            4.0   2.0      3.0      5.0
    """
    steps = steps_of(trace)
    texts = steps.columns.texts
    return pd.DataFrame(
        {
            "job": steps.ids,
            "name": text(steps.names, texts),
            "state": _final_states(steps),
            **tries(steps),
            **moments(steps),
            **durations(steps),
            "worker": text(_last_worker(steps), texts),
            "superseded": _superseded(steps),
            "error": text(_last_error(steps), texts),
        }
    )


def depth(trace: Trace) -> pd.DataFrame:
    """Tell how many jobs were where, at each moment at which that changed.

    Where a delay ended or a reservation ran out, a job became ready by time alone: that moment is a row too.

    Args:
        trace: What happened.

    Returns:
        One row a moment, which holds until the next:

        - `at` (float64, s): when;
        - `ready`, `delayed`, `reserved` (int64): how many jobs were in this state;
        - `failed`, `done` (int64): how many had failed, were done; a retry or a forget takes nothing away from them;
        - `depth` (int64): ready + delayed + reserved.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> frames.depth(run.trace)
            at  ready  delayed  reserved  failed  done  depth
        0  0.0      0        0         1       0     0      1
        1  2.0      1        0         1       0     0      2
        2  3.0      0        0         1       0     1      1
        3  4.0      1        0         1       0     1      2
        4  6.0      0        0         1       0     2      1
        5  9.0      0        0         0       0     3      0
    """
    at, found = counts(steps_of(trace))
    counted = {str(state): found[:, place] for place, state in enumerate(COUNTED)}
    frame = pd.DataFrame({"at": seconds(at)} | counted)
    frame["depth"] = frame["ready"] + frame["delayed"] + frame["reserved"]
    return frame


def _final_states(steps: Steps) -> ExtensionArray:
    """Tell where each job was at the trace's last moment."""
    states = np.where(steps.claimable, READY, steps.begun)
    states[states == GONE] = FAILED
    states[steps.then == CODES[Kind.CLEARED]] = len(COUNTED)
    final = np.zeros(len(steps.ids), np.int8)
    final[steps.row] = states
    return category(final, (*COUNTED, Kind.CLEARED, Kind.LOST))


def exhausted(steps: Steps) -> Array:
    """Tell which steps began with a failure for want of attempts: the reservation before was no run."""
    said = [number for number, text in enumerate(steps.columns.texts) if text.startswith(AttemptsExhausted.__name__)]
    exhausted: Array = steps.of(Kind.FAILED) & np.isin(steps.told("detail"), said)
    return exhausted


def tries(steps: Steps) -> dict[str, Array]:
    """Count how often each job was reserved, and to be run."""
    attempts = steps.total(steps.of(Kind.RESERVED))
    return {"attempts": attempts, "runs": attempts - steps.total(exhausted(steps))}


def moments(steps: Steps) -> dict[str, Array]:
    """Tell when each job was dispatched, first reserved, and settled."""
    return {
        "dispatched_at": steps.first(steps.of(Kind.DISPATCHED)),
        "first_reserved_at": steps.first(steps.of(Kind.RESERVED)),
        "finished_at": steps.first(steps.of(Kind.COMPLETED, Kind.FAILED)),
    }


def durations(steps: Steps) -> dict[str, Array]:
    """Sum up each job's times.

    What goes by while a job is claimable is the next reservation's wait, or the service of a worker that settles late.
    """
    on_time, after = steps.turn - steps.at, steps.end - steps.turn
    waited = steps.ended_by(Kind.RESERVED, Kind.RECOVERED) & steps.claimable
    ended = steps.held & ((steps.then != OPEN) | steps.claimable)
    seen_late = np.where(steps.first_seen_reserved, steps.at - steps.told_since, 0)
    wait = seconds(steps.total(np.where(waited, after, 0) + seen_late))
    service = seconds(steps.total(np.where(ended, on_time, 0) + np.where(steps.late, after, 0)))
    wait[steps.total(steps.of(Kind.RESERVED)) == 0] = np.nan
    service[steps.total(ended) == 0] = np.nan
    backoff = seconds(steps.total(np.where(steps.backed_off, on_time, 0)))
    return {"wait": wait, "service": service, "backoff": backoff, "sojourn": wait + service}


def _superseded(steps: Steps) -> Array:
    """Count how often a worker came too late to settle each job; to extend it is not to settle it."""
    texts = steps.columns.texts
    row, source = steps.about(Kind.SUPERSEDED)
    settling = steps.columns.detail[source] != (texts.index("extend") if "extend" in texts else NOTHING)
    return np.bincount(row[settling], minlength=len(steps.ids))


def _last_worker(steps: Steps) -> Array:
    """Give the number of the text that names who reserved each job last."""
    return steps.last(steps.of(Kind.RESERVED), "worker")


def _last_error(steps: Steps) -> Array:
    """Give the number of the text that is the last error of each job's attempts."""
    return steps.last(steps.of(Kind.RELEASED, Kind.FAILED) & (steps.told("detail") != 0), "detail")


def counts(steps: Steps) -> tuple[Array, Array]:
    """Count the jobs in each state at each moment at which a count changes."""
    turned, ended = steps.claimable & (steps.turn > steps.at), steps.then != OPEN
    final = np.where(steps.claimable, READY, steps.begun)
    ready = np.full(turned.sum(), READY)
    state = np.concatenate([np.where(turned, steps.begun, final), steps.begun[turned], ready, final[ended]])
    sign = np.repeat([1, -1, 1, -1], [len(turned), len(ready), len(ready), ended.sum()])
    times = np.concatenate([steps.at, steps.turn[turned], steps.turn[turned], steps.end[ended]])
    moments, place = np.unique(times, return_inverse=True)
    size = LOST + 1
    changes = np.bincount(place * size + state, sign, minlength=len(moments) * size).astype(np.int64).reshape(-1, size)
    changes = changes[:, :GONE]
    changed = changes.any(axis=1)
    return moments[changed], changes.cumsum(axis=0)[changed]
