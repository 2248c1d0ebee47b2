"""What a trace tells, as tables: one frame a question.

Every time in a frame is in seconds: NaN where something did not happen, inf for never. A frame has the same columns and
dtypes also when the trace is empty. Text columns are categories, with an empty text where there is nothing to say.

`jobs`, `depth` and `spans` tell what had happened by the trace's last moment. They follow the order of the trace: a
clock that was set back counts as one that stood still, so no duration is negative.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray

from qlab.clock import NEVER
from qlab.errors import AttemptsExhausted
from qlab.job import JobState
from qlab.trace import Kind, Trace

SPANS = ("delayed", "waiting", "reserved", "backoff", "late")
"""What a job can be in for a while, as `spans` names it."""
MARKS = ("done", "failed", "retrying", "released", "crashed", "superseded")
"""What can happen to a job at a moment, as `spans` names it."""

_Array: TypeAlias = NDArray[Any]
_Columns: TypeAlias = dict[str, _Array]

_NOTHING = -(2**62)
_OPEN = 255
_COUNTED = (JobState.READY, JobState.DELAYED, JobState.RESERVED, JobState.FAILED, JobState.DONE)
_READY, _DELAYED, _RESERVED, _FAILED, _DONE, _GONE, _LOST = range(7)
_CODES = {kind: code for code, kind in enumerate(Kind)}
_BEGINS = {
    Kind.DISPATCHED: _DELAYED,
    Kind.RELEASED: _DELAYED,
    Kind.RECOVERED: _DELAYED,
    Kind.RESERVED: _RESERVED,
    Kind.EXTENDED: _RESERVED,
    Kind.FAILED: _FAILED,
    Kind.COMPLETED: _DONE,
    Kind.RETRIED: _GONE,
    Kind.FORGOTTEN: _GONE,
    Kind.LOST: _LOST,
}
_BEGUN = np.array([_BEGINS.get(kind, -1) for kind in Kind])
_SPAN = {span: code for code, span in enumerate((*SPANS, *MARKS))}


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
    columns, texts = _columns(trace)
    return pd.DataFrame(
        {
            "at": _seconds(columns["at"]),
            "kind": _category(columns["kind"], Kind),
            "job": pd.arrays.IntegerArray(columns["job"], columns["job"] == _NOTHING),
            "name": _text(columns["name"], texts),
            "attempt": columns["attempt"].astype(np.int64),
            "worker": _text(columns["worker"], texts),
            "since": _seconds(columns["since"]),
            "until": _seconds(columns["until"]),
            "detail": _text(columns["detail"], texts),
        }
    )


def jobs(trace: Trace) -> pd.DataFrame:
    """Tell what became of every job, as one flat row each.

    A failed job that is retried is another job from then on, with an id of its own: its first row stays failed.

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
    columns, texts = _columns(trace)
    steps = _steps(columns)
    wrong = np.isin(steps.kind, _codes(Kind.RELEASED, Kind.FAILED)) & (columns["detail"][steps.source] != 0)
    return pd.DataFrame(
        {
            "job": steps.ids,
            "name": _text(steps.names, texts),
            "state": _final_states(steps),
            **_tries(steps, columns, texts),
            **_moments(steps),
            **_durations(steps, columns),
            "worker": _text(_last(steps, _is(steps, Kind.RESERVED), columns["worker"]), texts),
            "superseded": _superseded(steps, columns, texts),
            "error": _text(_last(steps, wrong, columns["detail"]), texts),
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
    moments, counts = _counts(_steps(_columns(trace)[0]))
    frame = pd.DataFrame({"at": _seconds(moments)} | {str(state): counts[:, i] for i, state in enumerate(_COUNTED)})
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
    columns, texts = _columns(trace)
    steps = _steps(columns)
    pieces = [*_state_pieces(steps, columns), *_late_pieces(steps, columns), *_mark_pieces(steps, columns)]
    span, row, source, start, end = (np.concatenate(part) for part in zip(*pieces, strict=True))
    order = np.lexsort((end, start, row))
    span, row, source, start, end = (part[order] for part in (span, row, source, start, end))
    nobody = np.isin(span, [_SPAN["delayed"], _SPAN["waiting"], _SPAN["backoff"]])
    return pd.DataFrame(
        {
            "job": steps.ids[row],
            "name": _text(steps.names[row], texts),
            "span": _category(span, _SPAN),
            "start": _seconds(start),
            "end": _seconds(end),
            "attempt": columns["attempt"][source].astype(np.int64),
            "worker": _text(np.where(nobody, 0, columns["worker"][source]), texts),
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
    columns, texts = _columns(trace)
    steps = _steps(columns)
    row, source, since, end, still = _waits(steps, columns)
    return pd.DataFrame(
        {
            "job": steps.ids[row],
            "name": _text(steps.names[row], texts),
            "attempt": columns["attempt"][source].astype(np.int64) + still,
            "since": _seconds(since),
            "reserved_at": _seconds(np.where(still, _NOTHING, end)),
            "wait": _seconds(end - since),
            "worker": _text(np.where(still, 0, columns["worker"][source]), texts),
        }
    )


# -- the steps of each job, which the frames but `events` are made of --


class _Steps(NamedTuple):
    """Every event that changed where a job was, job by job in order, with what came after it; times in microseconds.

    Attributes:
        ids: The jobs' ids, sorted.
        names: Their handlers' names, as numbers of texts.
        row: Which job each step belongs to, as a place in `ids`.
        source: The event's place in the trace.
        kind: The event's kind, as a code.
        at: When the step began.
        turn: When the job became claimable by time alone; the step's end where it did not.
        end: When the job's next step began or the queue was cleared; else the trace's last moment.
        then: The kind of what ended the step, as a code; `_OPEN` for nothing.
        claimable: Whether the job was claimable by the step's end.
    """

    ids: _Array
    names: _Array
    row: _Array
    source: _Array
    kind: _Array
    at: _Array
    turn: _Array
    end: _Array
    then: _Array
    claimable: _Array


def _steps(columns: _Columns) -> _Steps:
    kinds, clock = columns["kind"], columns["clock"]
    source = np.flatnonzero((_BEGUN[kinds] >= 0) & (columns["job"] != _NOTHING))
    source = source[np.argsort(columns["job"][source], kind="stable")]
    ids, first, row = np.unique(columns["job"][source], return_index=True, return_inverse=True)
    kind, at, after = kinds[source], clock[source], _after(source, row, kinds)
    end = np.append(clock, clock[-1:])[after]
    until = _until(columns["until"][source], kind, at)
    return _Steps(
        ids=ids,
        names=columns["name"][source[first]],
        row=row,
        source=source,
        kind=kind,
        at=at,
        turn=np.clip(until, at, end),
        end=end,
        then=np.append(kinds, np.uint8(_OPEN))[after],
        claimable=until <= end,
    )


def _after(source: _Array, row: _Array, kinds: _Array) -> _Array:
    """Find the event that ends each step: the job's next one, or a clearing of the queue; `len(kinds)` for none."""
    after = np.full(len(source), len(kinds))
    same = np.flatnonzero(row[1:] == row[:-1])
    after[same] = source[same + 1]
    cleared = np.append(np.flatnonzero(kinds == _CODES[Kind.CLEARED]), len(kinds))
    settled = _BEGUN[kinds[source]] >= _FAILED
    return np.where(settled, after, np.minimum(after, cleared[np.searchsorted(cleared, source)]))


def _until(until: _Array, kind: _Array, at: _Array) -> _Array:
    """Tell when each step turns claimable by time alone; where the event does not say, at once or (reserved) never."""
    said = np.where(until == _NOTHING, np.where(_BEGUN[kind] == _DELAYED, at, NEVER), until)
    return np.where(_BEGUN[kind] >= _FAILED, NEVER, said)


def _backed_off(steps: _Steps, columns: _Columns) -> _Array:
    """Tell which steps began with a failed attempt that is tried again: an error says so."""
    backed_off: _Array = _is(steps, Kind.RELEASED) & (columns["detail"][steps.source] != 0)
    return backed_off


def _late(steps: _Steps) -> _Array:
    """Tell which reservations their worker settled or extended after they had run out."""
    by_the_worker = np.isin(steps.then, _codes(Kind.EXTENDED, Kind.RELEASED, Kind.COMPLETED, Kind.FAILED))
    late: _Array = _held(steps) & by_the_worker & steps.claimable
    return late


# -- jobs --


def _final_states(steps: _Steps) -> ExtensionArray:
    """Tell where each job was at the trace's last moment."""
    states = np.where(steps.claimable, _READY, _BEGUN[steps.kind])
    states[states == _GONE] = _FAILED
    states[steps.then == _CODES[Kind.CLEARED]] = len(_COUNTED)
    final = np.zeros(len(steps.ids), np.int8)
    final[steps.row] = states
    return _category(final, (*_COUNTED, Kind.CLEARED, Kind.LOST))


def _tries(steps: _Steps, columns: _Columns, texts: list[str]) -> _Columns:
    """Count how often each job was reserved, and to be run."""
    exhausted = [code for code, text in enumerate(texts) if text.startswith(AttemptsExhausted.__name__)]
    unused = _is(steps, Kind.FAILED) & np.isin(columns["detail"][steps.source], exhausted)
    attempts = _sum(steps, _is(steps, Kind.RESERVED))
    return {"attempts": attempts, "runs": attempts - _sum(steps, unused)}


def _moments(steps: _Steps) -> _Columns:
    """Tell when each job was dispatched, first reserved, and settled."""
    return {
        "dispatched_at": _first(steps, _is(steps, Kind.DISPATCHED)),
        "first_reserved_at": _first(steps, _is(steps, Kind.RESERVED)),
        "finished_at": _first(steps, _is(steps, Kind.COMPLETED, Kind.FAILED)),
    }


def _durations(steps: _Steps, columns: _Columns) -> _Columns:
    """Sum up each job's times.

    What goes by while a job is claimable is the next reservation's wait, or the service of a worker that settles late.
    """
    on_time, after = steps.turn - steps.at, steps.end - steps.turn
    waited = np.isin(steps.then, _codes(Kind.RESERVED, Kind.RECOVERED)) & steps.claimable
    ended = _held(steps) & ((steps.then != _OPEN) | steps.claimable)
    wait = _seconds(_sum(steps, np.where(waited, after, 0) + _seen_late(steps, columns)))
    service = _seconds(_sum(steps, np.where(ended, on_time, 0) + np.where(_late(steps), after, 0)))
    wait[_sum(steps, _is(steps, Kind.RESERVED)) == 0] = np.nan
    service[_sum(steps, ended) == 0] = np.nan
    backoff = _seconds(_sum(steps, np.where(_backed_off(steps, columns), on_time, 0)))
    return {"wait": wait, "service": service, "backoff": backoff, "sojourn": wait + service}


def _seen_late(steps: _Steps, columns: _Columns) -> _Array:
    """Tell how long a job had waited that the trace first sees when it is reserved."""
    return np.where(_first_seen_reserved(steps, columns), steps.at - _told_since(steps, columns), 0)


def _first_seen_reserved(steps: _Steps, columns: _Columns) -> _Array:
    first = np.diff(steps.row, prepend=-1) > 0
    seen: _Array = first & _is(steps, Kind.RESERVED) & (columns["since"][steps.source] != _NOTHING)
    return seen


def _told_since(steps: _Steps, columns: _Columns) -> _Array:
    """Tell since when its job had been claimable, as each reservation says; on a faster clock it was not later."""
    return np.minimum(columns["since"][steps.source], steps.at)


def _superseded(steps: _Steps, columns: _Columns, texts: list[str]) -> _Array:
    """Count how often a worker came too late to settle each job; to extend it is not to settle it."""
    row, source = _about(steps, columns, Kind.SUPERSEDED)
    settling = columns["detail"][source] != (texts.index("extend") if "extend" in texts else -1)
    return np.bincount(row[settling], minlength=len(steps.ids))


# -- depth --


def _counts(steps: _Steps) -> tuple[_Array, _Array]:
    """Count the jobs in each state at each moment at which a count changes."""
    begun, turned, ended = _BEGUN[steps.kind], steps.claimable & (steps.turn > steps.at), steps.then != _OPEN
    final = np.where(steps.claimable, _READY, begun)
    ready = np.full(turned.sum(), _READY)
    state = np.concatenate([np.where(turned, begun, final), begun[turned], ready, final[ended]])
    sign = np.repeat([1, -1, 1, -1], [len(begun), len(ready), len(ready), ended.sum()])
    times = np.concatenate([steps.at, steps.turn[turned], steps.turn[turned], steps.end[ended]])
    moments, place = np.unique(times, return_inverse=True)
    size = _LOST + 1
    changes = np.bincount(place * size + state, sign, minlength=len(moments) * size).astype(np.int64).reshape(-1, size)
    changes = changes[:, :_GONE]
    changed = changes.any(axis=1)
    return moments[changed], changes.cumsum(axis=0)[changed]


# -- waits --


def _waits(steps: _Steps, columns: _Columns) -> tuple[_Array, ...]:
    """Tell of each wait its job, its source (the reservation, else what it began with), its ends, and if it goes on."""
    ends = steps.claimable & np.isin(steps.then, [_CODES[Kind.RESERVED], _OPEN])
    still = ends & (steps.then == _OPEN)
    reservation = np.append(steps.source, 0)[1:]  # where one ended the wait, it is the job's next step
    known = (steps.row, np.where(still, steps.source, reservation), _claimable_since(steps), steps.end, still)
    seen = (steps.row, steps.source, _told_since(steps, columns), steps.at, np.zeros(len(still), bool))
    first = _first_seen_reserved(steps, columns)
    parts = [np.append(one[ends], other[first]) for one, other in zip(known, seen, strict=True)]
    order = np.lexsort((parts[2], parts[0]))
    return tuple(part[order] for part in parts)


def _claimable_since(steps: _Steps) -> _Array:
    """Tell since when each step's job is claimable: one that was recovered has been since its reservation ran out."""
    before = np.maximum(np.arange(len(steps.row)) - 1, 0)
    recovered = _is(steps, Kind.RECOVERED) & (steps.row[before] == steps.row) & steps.claimable[before]
    return np.where(recovered, steps.turn[before], steps.turn)


# -- spans --

_Piece: TypeAlias = tuple[_Array, _Array, _Array, _Array, _Array]


def _piece(span: str, row: _Array, source: _Array, start: _Array, end: _Array) -> _Piece:
    return np.full(len(row), _SPAN[span], np.int8), row, source, start, end


def _state_pieces(steps: _Steps, columns: _Columns) -> list[_Piece]:
    """Tell what jobs were in; what took no time only where it is a reservation, or where the job is at last."""
    last, backoff = steps.then == _OPEN, _backed_off(steps, columns)
    timed = (_BEGUN[steps.kind] == _DELAYED) & ((steps.turn > steps.at) | (last & ~steps.claimable))
    waiting = steps.claimable & ((steps.end > steps.turn) | last)
    begun = {"delayed": timed & ~backoff, "reserved": _held(steps), "backoff": timed & backoff}
    return [
        *(_piece(span, steps.row[i], steps.source[i], steps.at[i], steps.turn[i]) for span, i in begun.items()),
        _piece("waiting", steps.row[waiting], steps.source[waiting], steps.turn[waiting], steps.end[waiting]),
    ]


def _late_pieces(steps: _Steps, columns: _Columns) -> list[_Piece]:
    """Tell how long workers went on with jobs that were not theirs any more, or could have been another's."""
    settled = _late(steps) & (steps.end > steps.turn)
    row, source = _about(steps, columns, Kind.SUPERSEDED)
    told = {(r, attempt): s for r, attempt, s in zip(row, columns["attempt"][source], source, strict=True)}
    mine = np.flatnonzero(_held(steps) & np.isin(steps.row, row))
    attempts = columns["attempt"][steps.source[mine]]
    held = {(r, attempt): i for r, attempt, i in zip(steps.row[mine], attempts, mine, strict=True)}
    step = np.array([held[key] for key in told if key in held], np.int64)
    end = columns["clock"][np.array([told[key] for key in told if key in held], np.int64)]
    return [
        _piece("late", steps.row[settled], steps.source[settled], steps.turn[settled], steps.end[settled]),
        _piece("late", steps.row[step], steps.source[step], steps.turn[step], end),
    ]


def _mark_pieces(steps: _Steps, columns: _Columns) -> list[_Piece]:
    """Tell what happened to jobs at a moment."""
    backoff = _backed_off(steps, columns)
    marks = {
        "done": _is(steps, Kind.COMPLETED),
        "failed": _is(steps, Kind.FAILED),
        "retrying": backoff,
        "released": _is(steps, Kind.RELEASED) & ~backoff,
    }
    found = {span: (steps.row[i], steps.source[i]) for span, i in marks.items()}
    found |= {str(kind): _about(steps, columns, kind) for kind in (Kind.CRASHED, Kind.SUPERSEDED)}
    return [_piece(span, row, s, columns["clock"][s], columns["clock"][s]) for span, (row, s) in found.items()]


# -- columns --


def _columns(trace: Trace) -> tuple[_Columns, list[str]]:
    """Give the trace's columns, and as `clock` when each event was if the clock never went back."""
    if not isinstance(trace, Trace):
        raise TypeError(f"a frame is made of a Trace, such as queue.trace, not of {trace!r}")
    columns, texts = trace.columns()
    arrays: _Columns = {name: np.asarray(column) for name, column in columns.items()}
    return arrays | {"clock": np.maximum.accumulate(arrays["at"])}, texts


def _seconds(microseconds: _Array) -> NDArray[np.float64]:
    seconds = microseconds / 1_000_000
    seconds[microseconds >= NEVER] = np.inf
    seconds[microseconds == _NOTHING] = np.nan
    return seconds


def _text(codes: _Array, texts: list[str]) -> ExtensionArray:
    """Make a column of text, whose categories are the texts in it."""
    used = np.bincount(codes, minlength=len(texts)) > 0
    return _category((np.cumsum(used) - 1)[codes], (text for text, there in zip(texts, used, strict=True) if there))


def _category(codes: _Array, categories: Iterable[str]) -> ExtensionArray:
    return pd.Categorical.from_codes(codes.astype(np.int64), categories=pd.Index([*map(str, categories)], dtype=str))


def _codes(*kinds: Kind) -> list[int]:
    return [_CODES[kind] for kind in kinds]


def _is(steps: _Steps, *kinds: Kind) -> _Array:
    return np.isin(steps.kind, _codes(*kinds))


def _held(steps: _Steps) -> _Array:
    held: _Array = _BEGUN[steps.kind] == _RESERVED
    return held


def _sum(steps: _Steps, values: _Array) -> _Array:
    """Add up, for each job, an integer of each of its steps; doubles hold these exactly."""
    return np.bincount(steps.row, values, minlength=len(steps.ids)).astype(np.int64)


def _first(steps: _Steps, chosen: _Array) -> _Array:
    """Tell when, in seconds, the first of the chosen steps of each job was."""
    first = np.full(len(steps.ids), _NOTHING)
    first[steps.row[chosen][::-1]] = steps.at[chosen][::-1]
    return _seconds(first)


def _last(steps: _Steps, chosen: _Array, column: _Array) -> _Array:
    """Give, for each job, the text's number in the last of its chosen steps; 0 stands for no text."""
    last = np.zeros(len(steps.ids), np.int64)
    last[steps.row[chosen]] = column[steps.source[chosen]]
    return last


def _about(steps: _Steps, columns: _Columns, kind: Kind) -> tuple[_Array, _Array]:
    """Find the events of a kind that are about a job: its place among the ids, and the event's in the trace."""
    source = np.flatnonzero((columns["kind"] == _CODES[kind]) & np.isin(columns["job"], steps.ids))
    return np.searchsorted(steps.ids, columns["job"][source]), source
