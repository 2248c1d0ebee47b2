"""What several workers saw, as one trace, and whether every job is accounted for."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qlab.clock import NEVER, us
from qlab.trace import CODES, NOTHING, Kind, Trace

_DISPATCHED, _RESERVED, _COMPLETED = CODES[Kind.DISPATCHED], CODES[Kind.RESERVED], CODES[Kind.COMPLETED]
_FAILED, _BLOCKED = CODES[Kind.FAILED], CODES[Kind.BLOCKED]
_TEXTS = ("name", "worker", "detail")


class Tally(NamedTuple):
    """What a merged trace and the store say together.

    Attributes:
        lost: How many jobs were dispatched, and are neither completed, failed nor in the store.
        duplicated: How many were completed more than once, had an attempt given out twice, or are still there though
            they were completed.
        locked: How many waits for the lock there were.
        locked_seconds: How long they took together.
    """

    lost: int
    duplicated: int
    locked: int
    locked_seconds: float


def merged(traces: Iterable[Trace], epoch: float) -> Trace:
    """Put what several workers saw in the order of time; at one moment, dispatches first.

    What was before the start happens at 0 s. A worker reads the clock before it asks for a job, which may be dispatched
    in between: such an event is moved behind the dispatch.

    Args:
        traces: What each saw.
        epoch: When they began, in seconds of the clock.
    """
    columns, texts = _joined(traces)
    start = us(epoch)
    at, since, until, kind, job = (columns[name] for name in ("at", "since", "until", "kind", "job"))
    for moments in (at, since, until):
        for place, moment in enumerate(moments):
            if moment != NOTHING and moment < NEVER:
                moments[place] = max(moment - start, 0)
    begun = {job[place]: at[place] for place, code in enumerate(kind) if code == _DISPATCHED}
    for place, code in enumerate(kind):
        if code != _BLOCKED:
            at[place] = max(at[place], since[place], begun.get(job[place], 0))
    keys = [2 * moment + (code != _DISPATCHED) for moment, code in zip(at, kind, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return Trace.of_columns(
        {name: array(column.typecode, map(column.__getitem__, order)) for name, column in columns.items()}, texts
    )


def completed(trace: Trace) -> int:
    """Tell how many jobs were completed."""
    return trace.columns()[0]["kind"].count(_COMPLETED)


def tally(trace: Trace, left: Sequence[int]) -> Tally:
    """Count what became of the jobs.

    Args:
        trace: What happened, from when the queue was empty.
        left: The ids of the jobs that are in the store at the end.
    """
    columns, _ = trace.columns()
    there = set(left)
    dispatched: set[int] = set()
    failed: set[int] = set()
    done: Counter[int] = Counter()
    reserved: Counter[tuple[int, int]] = Counter()
    locked = locked_us = 0
    rows = zip(*(columns[name] for name in ("kind", "job", "attempt", "at", "since")), strict=True)
    for kind, job, attempt, at, since in rows:
        if kind == _DISPATCHED:
            dispatched.add(job)
        elif kind == _RESERVED:
            reserved[job, attempt] += 1
        elif kind == _COMPLETED:
            done[job] += 1
        elif kind == _FAILED:
            failed.add(job)
        elif kind == _BLOCKED:
            locked, locked_us = locked + 1, locked_us + at - since
    lost = dispatched - done.keys() - failed - there
    twice = {job for job, times in done.items() if times > 1}
    twice |= {job for (job, _), times in reserved.items() if times > 1} | (done.keys() & there)
    return Tally(len(lost), len(twice), locked, locked_us / 1_000_000)


def _joined(traces: Iterable[Trace]) -> "tuple[dict[str, array[int]], list[str]]":
    """String the columns of traces together, with one list of texts for all."""
    whole: dict[str, array[int]] = {}
    numbers = {"": 0}
    for trace in traces:
        columns, texts = trace.columns()
        codes = [numbers.setdefault(text, len(numbers)) for text in texts]
        for name, column in columns.items():
            part = array(column.typecode, map(codes.__getitem__, column)) if name in _TEXTS else column
            whole.setdefault(name, array(column.typecode)).extend(part)
    return whole, list(numbers)
