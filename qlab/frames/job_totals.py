"""What became of each job of a trace, counted and added up over its steps, and how many were where."""

import numpy as np
from pandas.api.extensions import ExtensionArray

from qlab.errors import AttemptsExhausted
from qlab.frames.columns import CODES, NOTHING, Array, category, seconds
from qlab.frames.job_steps import FAILED, GONE, LOST, OPEN, READY, Steps
from qlab.job import JobState
from qlab.trace import Kind

COUNTED = (JobState.READY, JobState.DELAYED, JobState.RESERVED, JobState.FAILED, JobState.DONE)
"""The states that are counted, numbered as the places where steps put jobs."""


def final_states(steps: Steps) -> ExtensionArray:
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


def superseded(steps: Steps) -> Array:
    """Count how often a worker came too late to settle each job; to extend it is not to settle it."""
    texts = steps.columns.texts
    row, source = steps.about(Kind.SUPERSEDED)
    settling = steps.columns.detail[source] != (texts.index("extend") if "extend" in texts else NOTHING)
    return np.bincount(row[settling], minlength=len(steps.ids))


def last_worker(steps: Steps) -> Array:
    """Give the number of the text that names who reserved each job last."""
    return steps.last(steps.of(Kind.RESERVED), "worker")


def last_error(steps: Steps) -> Array:
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
