"""What the jobs of a trace were in, from when to when."""

from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from qlab.frames.columns import NOTHING, Array, category, seconds, text
from qlab.frames.job_steps import DELAYED, OPEN, Steps, steps_of
from qlab.trace import Kind, Trace

SPANS = ("delayed", "waiting", "reserved", "backoff", "late")
"""What a job can be in for a while, as `frames.spans` names it."""
MARKS = ("done", "failed", "retrying", "released", "crashed", "superseded")
"""What can happen to a job at a moment, as `frames.spans` names it."""
SPAN = {span: number for number, span in enumerate((*SPANS, *MARKS))}
"""The number of each."""

_Piece: TypeAlias = tuple[Array, Array, Array, Array, Array]


def spans(trace: Trace) -> pd.DataFrame:
    """Tell what each job was in, from when to when: what `plots.timeline` draws.

    Args:
        trace: What happened.

    Returns:
        One row a span, by job and start; what still goes on ends at the trace's last moment:

        - `job` (int64), `name` (category): the job's id and its handler;
        - `span` (category): one of `SPANS`: `delayed`; `waiting` (claimable, also after a reservation ran out);
          `reserved`; `backoff` (delayed after a failed attempt); `late` (a worker went on after its reservation had run
          out or was taken from it: told once it is heard of again, and beside whatever else the job was in). Or one of
          `MARKS`: `done`; `failed`; `retrying` (an attempt failed); `released` (given back without an error);
          `crashed`; `superseded` (a worker came too late);
        - `start`, `end` (float64, s): equal for a mark, and for an attempt that took no time;
        - `attempt` (int64): which attempt it belongs to; where nobody has the job, how many there had been;
        - `worker` (category): who has the job; empty where nobody has.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=2)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> frames.spans(run.trace).query("job == 1")[["job", "span", "start", "end", "attempt"]]
           job      span  start   end  attempt
        0    1  reserved    0.0   3.0        1
        1    1  retrying    3.0   3.0        1
        2    1   backoff    3.0  13.0        1
        3    1  reserved   13.0  16.0        2
        4    1      done   16.0  16.0        2
    """
    steps = steps_of(trace)
    span, row, source, start, end = _spans_of(steps)
    nobody = np.isin(span, [SPAN["delayed"], SPAN["waiting"], SPAN["backoff"]])
    texts = steps.columns.texts
    return pd.DataFrame(
        {
            "job": steps.ids[row],
            "name": text(steps.names[row], texts),
            "span": category(span, SPAN),
            "start": seconds(start),
            "end": seconds(end),
            "attempt": steps.columns.attempt[source].astype(np.int64),
            "worker": text(np.where(nobody, 0, steps.columns.worker[source]), texts),
        }
    )


def waits(trace: Trace) -> pd.DataFrame:
    """Tell each wait, from the moment from which a job was claimable to its reservation: what `plots.waits` draws.

    A job waits once for each attempt. A delay and a backoff are no waits: nobody may reserve the job then. Nor is it a
    wait when a worker settles late a job that nobody else has taken. A recovery does not end a wait.

    Args:
        trace: What happened.

    Returns:
        One row a wait, by job and beginning; those of a job that is done or has failed add up to its `wait` in `jobs`:

        - `job` (int64), `name` (category): the job's id and its handler;
        - `attempt` (int64): the attempt that it waited for, from 1;
        - `since` (float64, s): from when the job was claimable;
        - `reserved_at` (float64, s): when it was reserved; NaN for a job that waited still at the trace's last moment;
        - `wait` (float64, s): how long; until that last moment where it was not over;
        - `worker` (category): who reserved it; empty where nobody has.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> frames.waits(run.trace)
           job name  attempt  since  reserved_at  wait    worker
        0    1  job        1    0.0          0.0   0.0  worker 1
        1    2  job        1    2.0          3.0   1.0  worker 1
        2    3  job        1    4.0          6.0   2.0  worker 1
    """
    steps = steps_of(trace)
    found, texts = waits_of(steps), steps.columns.texts
    return pd.DataFrame(
        {
            "job": steps.ids[found.row],
            "name": text(steps.names[found.row], texts),
            "attempt": steps.columns.attempt[found.source].astype(np.int64) + found.still,
            "since": seconds(found.since),
            "reserved_at": seconds(np.where(found.still, NOTHING, found.end)),
            "wait": seconds(found.end - found.since),
            "worker": text(np.where(found.still, 0, steps.columns.worker[found.source]), texts),
        }
    )


def oldest(trace: Trace) -> pd.DataFrame:
    """Tell how old the oldest job was that waited: for how long it had been claimable.

    Between two rows no job waited. Within a row the age grows by a second a second.

    Args:
        trace: What happened.

    Returns:
        One row a stretch of time in which one job was the oldest, in their order:

        - `job` (int64): the job's id;
        - `start`, `end` (float64, s): from when to when it was the oldest;
        - `age`, `age_at_end` (float64, s): for how long it had been claimable at the start, and at the end.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=4), poll=None)
        >>> frames.oldest(run.trace)
           job  start  end  age  age_at_end
        0    2    2.0  3.0  0.0         1.0
        1    3    4.0  6.0  0.0         2.0
        2    4    6.0  9.0  0.0         3.0
    """
    steps = steps_of(trace)
    found = oldest_of(waits_of(steps))
    return pd.DataFrame(
        {
            "job": steps.ids[found.row],
            "start": seconds(found.start),
            "end": seconds(found.end),
            "age": seconds(found.start - found.since),
            "age_at_end": seconds(found.end - found.since),
        }
    )


class Waits(NamedTuple):
    """Every wait; times in microseconds.

    Attributes:
        row: Whose it is, as a place among the ids.
        source: The place in the trace of the reservation that ended it, else of what it began with.
        since: When it began.
        end: When it ended; the trace's last moment where it goes on.
        still: Whether it goes on.
    """

    row: Array
    source: Array
    since: Array
    end: Array
    still: Array


def waits_of(steps: Steps) -> Waits:
    """Find every wait, by job and beginning."""
    ends = steps.claimable & (steps.ended_by(Kind.RESERVED) | (steps.then == OPEN))
    still = ends & (steps.then == OPEN)
    reservation = np.append(steps.source, 0)[1:]  # where one ended the wait, it is the job's next step
    known = (steps.row, np.where(still, steps.source, reservation), steps.claimable_since, steps.end, still)
    seen = (steps.row, steps.source, steps.told_since, steps.at, np.zeros(len(still), bool))
    first = steps.first_seen_reserved
    parts = [np.append(one[ends], other[first]) for one, other in zip(known, seen, strict=True)]
    order = np.lexsort((parts[2], parts[0]))
    return Waits(*(part[order] for part in parts))


class Oldest(NamedTuple):
    """Which job had been claimable longest, from when to when; times in microseconds.

    Attributes:
        row: The job's place among the ids.
        since: Since when it had been claimable.
        start: From when it was the oldest.
        end: Until when.
    """

    row: Array
    since: Array
    start: Array
    end: Array


def oldest_of(waits: Waits) -> Oldest:
    """Find, for each moment at which a job waited, the one that had been claimable longest."""
    order = np.lexsort((waits.end, waits.since))
    row, since, end = waits.row[order], waits.since[order], waits.end[order]
    before = np.append(NOTHING, np.maximum.accumulate(end)[:-1])[: len(end)]
    start = np.maximum(since, before)
    there = end > start
    return Oldest(row[there], since[there], start[there], end[there])


def _spans_of(steps: Steps) -> tuple[Array, Array, Array, Array, Array]:
    """Find every span, by job and start: its number, the job's place among the ids, its source, its start and end."""
    pieces = [*_state_pieces(steps), *_late_pieces(steps), *_mark_pieces(steps)]
    span, row, source, start, end = (np.concatenate(part) for part in zip(*pieces, strict=True))
    order = np.lexsort((end, start, row))
    return span[order], row[order], source[order], start[order], end[order]


def _piece(span: str, row: Array, source: Array, start: Array, end: Array) -> _Piece:
    return np.full(len(row), SPAN[span], np.int8), row, source, start, end


def _state_pieces(steps: Steps) -> list[_Piece]:
    """Tell what jobs were in; what took no time only where it is a reservation, or where the job is at last."""
    last, backoff = steps.then == OPEN, steps.backed_off
    timed = (steps.begun == DELAYED) & ((steps.turn > steps.at) | (last & ~steps.claimable))
    waiting = steps.claimable & ((steps.end > steps.turn) | last)
    begun = {"delayed": timed & ~backoff, "reserved": steps.held, "backoff": timed & backoff}
    return [
        *(_piece(span, steps.row[i], steps.source[i], steps.at[i], steps.turn[i]) for span, i in begun.items()),
        _piece("waiting", steps.row[waiting], steps.source[waiting], steps.turn[waiting], steps.end[waiting]),
    ]


def _late_pieces(steps: Steps) -> list[_Piece]:
    """Tell how long workers went on with jobs that were not theirs any more, or could have been another's."""
    settled = steps.late & (steps.end > steps.turn)
    row, source = steps.about(Kind.SUPERSEDED)
    told = {(r, attempt): s for r, attempt, s in zip(row, steps.columns.attempt[source], source, strict=True)}
    mine = np.flatnonzero(steps.held & np.isin(steps.row, row))
    attempts = steps.told("attempt")[mine]
    held = {(r, attempt): i for r, attempt, i in zip(steps.row[mine], attempts, mine, strict=True)}
    step = np.array([held[key] for key in told if key in held], np.int64)
    end = steps.columns.clock[np.array([told[key] for key in told if key in held], np.int64)]
    return [
        _piece("late", steps.row[settled], steps.source[settled], steps.turn[settled], steps.end[settled]),
        _piece("late", steps.row[step], steps.source[step], steps.turn[step], end),
    ]


def _mark_pieces(steps: Steps) -> list[_Piece]:
    """Tell what happened to jobs at a moment."""
    backoff, clock = steps.backed_off, steps.columns.clock
    marks = {
        "done": steps.of(Kind.COMPLETED),
        "failed": steps.of(Kind.FAILED),
        "retrying": backoff,
        "released": steps.of(Kind.RELEASED) & ~backoff,
    }
    found = {span: (steps.row[i], steps.source[i]) for span, i in marks.items()}
    found |= {str(kind): steps.about(kind) for kind in (Kind.CRASHED, Kind.SUPERSEDED)}
    return [_piece(span, row, source, clock[source], clock[source]) for span, (row, source) in found.items()]
