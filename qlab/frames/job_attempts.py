"""The attempts of the jobs of a trace: each reservation, what came of it, and when its worker let go of it."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from qlab.frames.columns import NOTHING, Array, category, seconds, text
from qlab.frames.job_steps import OPEN, Steps, steps_of
from qlab.frames.job_totals import exhausted
from qlab.trace import Kind, Trace

ENDS = (
    *("reserved", "completed", "released", "retrying", "failed", "exhausted"),
    *("superseded", "ran out", "recovered", "cleared", "lost"),
)
"""How a reservation can have ended, as `frames.attempts` names it; the first: not yet."""
SETTLED = ("completed", "released", "retrying", "failed", "exhausted")
"""Those in which its worker settled the job."""
_END = {end: number for number, end in enumerate(ENDS)}
_ENDED_BY = {
    Kind.COMPLETED: "completed",
    Kind.RELEASED: "released",
    Kind.FAILED: "failed",
    Kind.RESERVED: "superseded",
    Kind.RECOVERED: "recovered",
    Kind.CLEARED: "cleared",
    Kind.LOST: "lost",
}


def attempts(trace: Trace) -> pd.DataFrame:
    """Tell each attempt: a reservation, what came of it, and when its worker let go of the job.

    Args:
        trace: What happened.

    Returns:
        One row a reservation, by job and in order; the waits and services of a job add up to those in `jobs`:

        - `job` (int64), `name` (category): the job's id and its handler;
        - `attempt` (int64): which attempt, from 1;
        - `worker` (category): who reserved it;
        - `since` (float64, s): since when the job had been claimable;
        - `reserved_at` (float64, s): when it was reserved;
        - `until` (float64, s): when the reservation was to run out, by the last extension;
        - `ended_at` (float64, s): when it ended: its worker settled the job, or it ran out or was taken away; NaN while
          it goes on;
        - `how` (category: one of `ENDS`): how it ended: `completed`; `released` (given back without an error);
          `retrying` (failed, to be tried again); `failed`; `exhausted` (there was no attempt left: it was no run);
          `superseded` (another worker reserved the job); `ran out`; `recovered`; `cleared`; `lost`; or `reserved`: it
          has not;
        - `left_at` (float64, s): when its worker let go of the job: it settled it, was told that it came too late, or
          crashed; where nothing tells, as `ended_at`;
        - `wait` (float64, s): from `since` to `reserved_at`;
        - `service` (float64, s): from `reserved_at` to `ended_at`;
        - `late` (float64, s): how long its worker went on after the reservation had run out or was taken away.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=2)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> frames.attempts(run.trace)[["job", "attempt", "reserved_at", "ended_at", "how", "wait", "service"]]
           job  attempt  reserved_at  ended_at        how  wait  service
        0    1        1          0.0       3.0   retrying   0.0      3.0
        1    1        2         13.0      16.0  completed   0.0      3.0
        2    2        1          3.0       6.0   retrying   1.0      3.0
        3    2        2         16.0      19.0  completed   0.0      3.0
    """
    steps = steps_of(trace)
    found, columns = attempts_of(steps), steps.columns
    return pd.DataFrame(
        {
            "job": steps.ids[found.row],
            "name": text(steps.names[found.row], columns.texts),
            "attempt": columns.attempt[found.source].astype(np.int64),
            "worker": text(columns.worker[found.source], columns.texts),
            "since": seconds(found.since),
            "reserved_at": seconds(found.reserved),
            "until": seconds(found.until),
            "ended_at": seconds(found.ended),
            "how": category(found.how, ENDS),
            "left_at": seconds(found.left),
            "wait": seconds(found.reserved - found.since),
            "service": seconds(np.where(found.ended == NOTHING, NOTHING, found.ended - found.reserved)),
            "late": seconds(found.late),
        }
    )


class Attempts(NamedTuple):
    """Every reservation, by job and in its order; times in microseconds, `NOTHING` where something did not happen.

    Attributes:
        row: The job's place among the ids.
        source: The place in the trace.
        since: Since when the job had been claimable.
        reserved: When it was reserved.
        until: When the reservation was to run out, at last.
        ended: When it ended: its worker settled the job, else it ran out or was taken away.
        left: When its worker let go of the job: it settled it or was told that it came too late, or it crashed; where
            nothing tells, when the reservation ended.
        late: How long its worker went on after the reservation had run out or was taken away.
        how: How it ended, as a place in `ENDS`.
    """

    row: Array
    source: Array
    since: Array
    reserved: Array
    until: Array
    ended: Array
    left: Array
    late: Array
    how: Array

    @property
    def ran(self) -> Array:
        """Which of them were there to run the job: one that found every attempt used up was not."""
        ran: Array = self.how != _END["exhausted"]
        return ran

    @property
    def again(self) -> Array:
        """Which runs began although no run before had failed or given the job back: a reservation had ended by itself.

        What a crashed worker had begun is run again, and what a slow worker is at is run beside it.
        """
        by_itself = np.isin(self.how, [_END["superseded"], _END["recovered"]])
        before = np.append(False, by_itself[:-1] & (self.row[1:] == self.row[:-1]))[: len(self.row)]
        return before & self.ran


def attempts_of(steps: Steps) -> Attempts:
    """Find every attempt."""
    begin = np.flatnonzero(steps.of(Kind.RESERVED))
    last = _last_steps(steps, begin)
    how = _how(steps, last)
    settled = np.isin(how, [_END[end] for end in SETTLED])
    ended = np.where(how == 0, NOTHING, np.where(settled, steps.end[last], steps.turn[last]))
    left = _left(steps, begin, settled, ended)
    late = np.append(0, np.cumsum(np.where(steps.late, steps.end - steps.turn, 0)))
    return Attempts(
        row=steps.row[begin],
        source=steps.source[begin],
        since=_since(steps)[begin],
        reserved=steps.at[begin],
        until=steps.told("until")[last],
        ended=ended,
        left=left,
        late=late[last + 1] - late[begin] + np.where(how == 0, 0, np.maximum(left - ended, 0)),
        how=how,
    )


def _last_steps(steps: Steps, begin: Array) -> Array:
    """Find the last step of each reservation, which may have been extended."""
    others = np.append(np.flatnonzero(~steps.of(Kind.EXTENDED) | (np.diff(steps.row, prepend=-1) > 0)), len(steps.row))
    return others[np.searchsorted(others, begin, side="right")] - 1


def _how(steps: Steps, last: Array) -> Array:
    """Tell how each reservation ended."""
    by = np.full(OPEN + 1, _END["lost"], np.int8)
    for kind, end in _ENDED_BY.items():
        by[list(Kind).index(kind)] = _END[end]
    how = by[steps.then[last]]
    after = np.minimum(last + 1, len(steps.row) - 1)
    how[(how == _END["released"]) & steps.backed_off[after]] = _END["retrying"]
    how[(how == _END["failed"]) & exhausted(steps)[after]] = _END["exhausted"]
    still = steps.then[last] == OPEN
    how[still] = np.where(steps.claimable[last[still]], _END["ran out"], _END["reserved"])
    return how


def _since(steps: Steps) -> Array:
    """Tell since when the job of each reservation had been claimable; at once where nothing tells."""
    before = np.maximum(np.arange(len(steps.row)) - 1, 0)
    known = (np.diff(steps.row, prepend=-1) == 0) & steps.claimable[before]
    said = np.where(steps.told("since") == NOTHING, steps.at, steps.told_since)
    return np.where(known, steps.claimable_since[before], said)


def _left(steps: Steps, begin: Array, settled: Array, ended: Array) -> Array:
    """Tell when each reservation's worker let go of the job."""
    left, texts = ended.copy(), steps.columns.texts
    size = np.int64(1) + steps.columns.attempt.max(initial=0)
    mine = steps.row[begin] * size + steps.told("attempt")[begin]
    order = np.argsort(mine, kind="stable")
    for kind in (Kind.SUPERSEDED, Kind.CRASHED):
        row, source = steps.about(kind)
        key = row * size + steps.columns.attempt[source]
        place = np.searchsorted(mine[order], key, side="right") - 1
        extend = texts.index("extend") if "extend" in texts else NOTHING
        told = np.flatnonzero((place >= 0) & (steps.columns.detail[source] != extend))
        told = told[mine[order[place[told]]] == key[told]]
        left[order[place[told]]] = steps.columns.clock[source[told]]
    return np.where(settled, ended, left)
