"""The steps of each job in a trace, which every frame but those of events and polls is made of.

A step is an event that changed where a job was, with what came after it.
"""

from dataclasses import dataclass, replace

import numpy as np

from qlab.clock import NEVER, us
from qlab.frames.columns import CODES, NOTHING, Array, Columns, codes, columns_of, seconds
from qlab.trace import Kind, Trace

OPEN = 255
"""What ended a step that nothing has ended."""
READY, DELAYED, RESERVED, FAILED, DONE, GONE, LOST = range(7)
"""Where a step puts a job."""

_BEGINS = {
    Kind.DISPATCHED: DELAYED,
    Kind.RELEASED: DELAYED,
    Kind.RECOVERED: DELAYED,
    Kind.RESERVED: RESERVED,
    Kind.EXTENDED: RESERVED,
    Kind.FAILED: FAILED,
    Kind.COMPLETED: DONE,
    Kind.RETRIED: GONE,
    Kind.FORGOTTEN: GONE,
    Kind.LOST: LOST,
}
_PUTS = np.array([_BEGINS.get(kind, -1) for kind in Kind])
_BY_THE_WORKER = codes(Kind.EXTENDED, Kind.RELEASED, Kind.COMPLETED, Kind.FAILED)


@dataclass(frozen=True, slots=True)
class Steps:
    """Every step, job by job in order; times in microseconds.

    Attributes:
        columns: The trace's columns.
        ids: The jobs' ids, sorted. One that a store which had begun anew gave again stands there once more.
        names: Their handlers' names, as numbers of texts.
        begins: Where in the trace each job is first told of.
        row: Which job each step belongs to, as a place in `ids`.
        source: The event's place in the trace.
        kind: The event's kind, as a number.
        begun: Where it put the job.
        at: When the step began.
        turn: When the job became claimable by time alone; the step's end where it did not.
        end: When the job's next step began or the queue was cleared; else the trace's last moment.
        then: The kind of what ended the step, as a number; `OPEN` for nothing.
        claimable: Whether the job was claimable by the step's end.
        until: The last moment.
    """

    columns: Columns
    ids: Array
    names: Array
    begins: Array
    row: Array
    source: Array
    kind: Array
    begun: Array
    at: Array
    turn: Array
    end: Array
    then: Array
    claimable: Array
    until: int

    def only(self, chosen: Array) -> "Steps":
        """Give the steps of some of the jobs."""
        mine = chosen[self.row]
        of_steps = ("source", "kind", "begun", "at", "turn", "end", "then", "claimable")
        of_jobs = ("ids", "names", "begins")
        parts = {name: getattr(self, name)[mine] for name in of_steps}
        parts |= {name: getattr(self, name)[chosen] for name in of_jobs}
        return replace(self, row=(np.cumsum(chosen) - 1)[self.row[mine]], **parts)

    # -- which steps --

    def of(self, *kinds: Kind) -> Array:
        """Tell which steps began with an event of these kinds."""
        return np.isin(self.kind, codes(*kinds))

    def ended_by(self, *kinds: Kind) -> Array:
        """Tell which steps an event of these kinds ended."""
        return np.isin(self.then, codes(*kinds))

    @property
    def held(self) -> Array:
        """Which steps are reservations, or extensions of them."""
        held: Array = self.begun == RESERVED
        return held

    @property
    def late(self) -> Array:
        """Which reservations their worker settled or extended after they had run out."""
        late: Array = self.held & np.isin(self.then, _BY_THE_WORKER) & self.claimable
        return late

    @property
    def backed_off(self) -> Array:
        """Which steps began with a failed attempt that is tried again: an error says so."""
        backed_off: Array = self.of(Kind.RELEASED) & (self.told("detail") != 0)
        return backed_off

    @property
    def first_seen_reserved(self) -> Array:
        """Which steps are the first of their job, and a reservation that says since when it had been claimable."""
        first = np.diff(self.row, prepend=-1) > 0
        seen: Array = first & self.of(Kind.RESERVED) & (self.told("since") != NOTHING)
        return seen

    # -- what each tells --

    def told(self, column: str) -> Array:
        """Give what the events say in a column of the trace."""
        told: Array = getattr(self.columns, column)[self.source]
        return told

    @property
    def told_since(self) -> Array:
        """Since when its job had been claimable, as each reservation says; on a faster clock it was not later."""
        return np.minimum(self.told("since"), self.at)

    @property
    def claimable_since(self) -> Array:
        """Since when each step's job is claimable: one that was recovered has been since its reservation ran out."""
        before = np.maximum(np.arange(len(self.row)) - 1, 0)
        recovered = self.of(Kind.RECOVERED) & (self.row[before] == self.row) & self.claimable[before]
        return np.where(recovered, self.turn[before], self.turn)

    # -- one value a job --

    def total(self, values: Array) -> Array:
        """Add up, for each job, an integer of each of its steps; doubles hold these exactly."""
        return np.bincount(self.row, values, minlength=len(self.ids)).astype(np.int64)

    def first(self, chosen: Array) -> Array:
        """Tell when, in seconds, the first of the chosen steps of each job was."""
        first = np.full(len(self.ids), NOTHING)
        first[self.row[chosen][::-1]] = self.at[chosen][::-1]
        return seconds(first)

    def last(self, chosen: Array, column: str) -> Array:
        """Give, for each job, the text's number in the last of its chosen steps; 0 stands for no text."""
        last = np.zeros(len(self.ids), np.int64)
        last[self.row[chosen]] = self.told(column)[chosen]
        return last

    # -- events that are no steps --

    def about(self, kind: Kind) -> tuple[Array, Array]:
        """Find the events of a kind that are about a job: its place among the ids, and the event's in the trace."""
        source = np.flatnonzero((self.columns.kind == CODES[kind]) & np.isin(self.columns.job, self.ids))
        job, size = self.columns.job[source], len(self.columns.kind)
        first = np.searchsorted(self.ids, job)
        known = np.searchsorted(self.ids, self.ids) * size + self.begins
        return np.maximum(first, np.searchsorted(known, first * size + source) - 1), source


def steps_of(trace: Trace, until: float | None = None) -> Steps:
    """Find the steps of every job.

    Args:
        trace: What happened.
        until: A moment after the last event, in seconds, up to which nothing else did.
    """
    columns = columns_of(trace)
    last = max([*columns.clock[-1:].tolist(), *([] if until is None else [us(until)])], default=0)
    source = np.flatnonzero((_PUTS[columns.kind] >= 0) & (columns.job != NOTHING))
    source = source[np.argsort(columns.job[source], kind="stable")]
    begins = _begins(source, columns)
    first, row = np.flatnonzero(begins), np.cumsum(begins) - 1
    kind, at, after = columns.kind[source], columns.clock[source], _after(source, row, columns.kind)
    end = np.append(columns.clock, last)[after]
    turns = _turns(columns.until[source], kind, at)
    return Steps(
        columns=columns,
        ids=columns.job[source[first]],
        names=columns.name[source[first]],
        begins=source[first],
        row=row,
        source=source,
        kind=kind,
        begun=_PUTS[kind],
        at=at,
        turn=np.clip(turns, at, end),
        end=end,
        then=np.append(columns.kind, np.uint8(OPEN))[after],
        claimable=turns <= end,
        until=last,
    )


def _begins(source: Array, columns: Columns) -> Array:
    """Tell which steps are the first of their job: also a dispatch under the id of one that has left."""
    job, kind = columns.job[source], columns.kind[source]
    cleared = np.cumsum(columns.kind == CODES[Kind.CLEARED])[source]
    left = np.append(False, (_PUTS[kind[:-1]] >= FAILED) | (cleared[1:] > cleared[:-1]))[: len(job)]
    begins: Array = (np.diff(job, prepend=NOTHING) != 0) | (left & (kind == CODES[Kind.DISPATCHED]))
    return begins


def _after(source: Array, row: Array, kinds: Array) -> Array:
    """Find the event that ends each step: the job's next one, or a clearing of the queue; `len(kinds)` for none."""
    after = np.full(len(source), len(kinds))
    same = np.flatnonzero(row[1:] == row[:-1])
    after[same] = source[same + 1]
    cleared = np.append(np.flatnonzero(kinds == CODES[Kind.CLEARED]), len(kinds))
    settled = _PUTS[kinds[source]] >= FAILED
    return np.where(settled, after, np.minimum(after, cleared[np.searchsorted(cleared, source)]))


def _turns(until: Array, kind: Array, at: Array) -> Array:
    """Tell when each step turns claimable by time alone; where the event does not say, at once or (reserved) never."""
    said = np.where(until == NOTHING, np.where(_PUTS[kind] == DELAYED, at, NEVER), until)
    return np.where(_PUTS[kind] >= FAILED, NEVER, said)
