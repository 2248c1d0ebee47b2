"""What a trace tells, as tables: one frame a question.

Every time in a frame is in seconds: NaN where something did not happen, inf for never. A frame has the same columns and
dtypes also when the trace is empty. Text columns are categories, with an empty text where there is nothing to say.

`jobs`, `depth` and `spans` tell what had happened by the trace's last moment. They follow the order of the trace: a
clock that was set back counts as one that stood still, so no duration is negative.
"""

import numpy as np
import pandas as pd

from qlab.frames import job_totals
from qlab.frames.asks import polls, requests
from qlab.frames.columns import NOTHING, category, columns_of, seconds, text
from qlab.frames.contended import contention, reserves
from qlab.frames.job_attempts import ENDS, attempts_of
from qlab.frames.job_spans import MARKS, SPAN, SPANS, oldest_of, spans_of, waits_of
from qlab.frames.job_steps import steps_of
from qlab.frames.peer_rates import peers
from qlab.frames.predictions import predicted
from qlab.trace import Kind, Trace

__all__ = [
    "ENDS",
    "MARKS",
    "SPANS",
    "attempts",
    "contention",
    "depth",
    "events",
    "jobs",
    "oldest",
    "peers",
    "polls",
    "predicted",
    "requests",
    "reserves",
    "spans",
    "waits",
]


def events(trace: Trace) -> pd.DataFrame:
    """Tell every event.

    Args:
        trace: What happened.

    Returns:
        One row an event, in the order of the trace:

        - `at` (float64, s): when;
        - `kind` (category of every `Kind`): what happened;
        - `job` (Int64): the job's id; missing where it is about no job, or a failed job that failed elsewhere;
        - `name` (category): the handler's name;
        - `attempt` (int64): which attempt, from 1; 0 before the first;
        - `worker` (category): who did it;
        - `since`, `until` (float64, s): as in `Event`;
        - `detail` (category): the error, the verb that came too late, how far the job is.
    """
    columns = columns_of(trace)
    return pd.DataFrame(
        {
            "at": seconds(columns.at),
            "kind": category(columns.kind, Kind),
            "job": pd.arrays.IntegerArray(columns.job, columns.job == NOTHING),
            "name": text(columns.name, columns.texts),
            "attempt": columns.attempt.astype(np.int64),
            "worker": text(columns.worker, columns.texts),
            "since": seconds(columns.since),
            "until": seconds(columns.until),
            "detail": text(columns.detail, columns.texts),
        }
    )


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
    """
    steps = steps_of(trace)
    texts = steps.columns.texts
    return pd.DataFrame(
        {
            "job": steps.ids,
            "name": text(steps.names, texts),
            "state": job_totals.final_states(steps),
            **job_totals.tries(steps),
            **job_totals.moments(steps),
            **job_totals.durations(steps),
            "worker": text(job_totals.last_worker(steps), texts),
            "superseded": job_totals.superseded(steps),
            "error": text(job_totals.last_error(steps), texts),
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
    """
    moments, counts = job_totals.counts(steps_of(trace))
    counted = {str(state): counts[:, place] for place, state in enumerate(job_totals.COUNTED)}
    frame = pd.DataFrame({"at": seconds(moments)} | counted)
    frame["depth"] = frame["ready"] + frame["delayed"] + frame["reserved"]
    return frame


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
    """
    steps = steps_of(trace)
    span, row, source, start, end = spans_of(steps)
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
    """Tell each wait: from the moment from which a job was claimable to its reservation. What `plots.waits` draws.

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
    """
    steps = steps_of(trace)
    waits, texts = waits_of(steps), steps.columns.texts
    return pd.DataFrame(
        {
            "job": steps.ids[waits.row],
            "name": text(steps.names[waits.row], texts),
            "attempt": steps.columns.attempt[waits.source].astype(np.int64) + waits.still,
            "since": seconds(waits.since),
            "reserved_at": seconds(np.where(waits.still, NOTHING, waits.end)),
            "wait": seconds(waits.end - waits.since),
            "worker": text(np.where(waits.still, 0, steps.columns.worker[waits.source]), texts),
        }
    )


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
