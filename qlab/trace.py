"""What happened: every transition of every job, as columns of small values.

No uid and no token stands in a trace, so equal seeds give equal traces, byte for byte.
"""

import hashlib
import math
import struct
import sys
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, NamedTuple

from qlab.clock import from_us, us
from qlab.driver import Counts
from qlab.forks import free_in_children
from qlab.job import JobState
from qlab.show import seconds, table_html


class Kind(StrEnum):
    """What an event says, in the past tense."""

    DISPATCHED = "dispatched"
    RESERVED = "reserved"
    EXTENDED = "extended"
    COMPLETED = "completed"
    RELEASED = "released"
    FAILED = "failed"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    RETRIED = "retried"
    FORGOTTEN = "forgotten"
    RECOVERED = "recovered"
    CLEARED = "cleared"
    MISSED = "missed"
    BLOCKED = "blocked"
    CRASHED = "crashed"
    PROGRESSED = "progressed"
    PAUSED = "paused"
    RESUMED = "resumed"
    RESTARTED = "restarted"
    LOST = "lost"
    REJECTED = "rejected"

    __hash__ = str.__hash__  # an enumeration's own is slow, and each event looks its number up


_KINDS = tuple(Kind)
CODES = {kind: code for code, kind in enumerate(_KINDS)}
"""The number of each kind, as a trace's columns keep it: its place in `tuple(Kind)`."""
NOTHING = -(2**62)
"""What stands in a trace's columns where there is no job or no time."""

ROW = struct.Struct("=qqqqIIIIB7x")
_WORD = ROW.size // 8
_AT_ONCE = 4_096  # rows that wait to become columns
_TEXTS = ("name", "worker", "detail")
_SETTLES = {Kind.COMPLETED: JobState.DONE, Kind.FAILED: JobState.FAILED, Kind.LOST: JobState.LOST}
_APPEARS = (Kind.RESERVED, Kind.RELEASED, Kind.RECOVERED, Kind.COMPLETED, Kind.FAILED)


class Event(NamedTuple):
    """One transition.

    Attributes:
        at: When, in seconds.
        kind: What happened.
        job: The job's id; None where it is about no job, and for `retried` and `forgotten` where it failed elsewhere.
            `crashed`, `paused`, `resumed`: the job that the worker has in hand.
        name: The handler's name.
        attempt: Which attempt, from 1; 0 before the first.
        worker: Who did it, as the caller named it.
        since: `reserved`: since when it had been claimable; `blocked`: when the wait began; else None. In seconds.
        until: `reserved`, `extended`: when the reservation runs out; `dispatched`, `released`,
            `recovered`: when the job may be reserved; `expired`: the deadline that passed; else None. In seconds.
        detail: The error, the verb that came too late, how far the job is, how many were cleared; `resumed`:
            after what; `restarted`: what was, the `process` or the `server`;
            `lost`: how, where that is not sure.

    Example:
        >>> from qlab import Event
        >>> from qlab.trace import Kind
        >>> Event(2.5, Kind.COMPLETED, job=1, worker="w1").says
        'job 1 was completed by w1'
    """

    at: float
    kind: Kind
    job: int | None = None
    name: str = ""
    attempt: int = 0
    worker: str = ""
    since: float | None = None
    until: float | None = None
    detail: str = ""

    @property
    def says(self) -> str:
        """The event in words."""
        who = f"job {self.job}" if self.job is not None else (self.worker or "a job")
        worker = self.worker or "a worker"
        hand = f"with {'no job' if self.job is None else who} in hand"
        by = f" by {self.worker}" if self.worker and self.job is not None else ""
        told = {
            Kind.DISPATCHED: f"{who} ({self.name}) was dispatched, available at {seconds(self.until)}",
            Kind.RESERVED: f"{who} was reserved{by}, attempt {self.attempt}, until {seconds(self.until)}",
            Kind.EXTENDED: f"{who} was extended{by}, until {seconds(self.until)}",
            Kind.COMPLETED: f"{who} was completed{by}",
            Kind.RELEASED: f"{who} was released{by}, available at {seconds(self.until)}",
            Kind.FAILED: f"{who} failed after {self.attempt} attempt{'' if self.attempt == 1 else 's'}",
            Kind.EXPIRED: f"the reservation of {who} had run out at {seconds(self.until)}",
            Kind.SUPERSEDED: f"{who} could not be settled{by}: its reservation was superseded",
            Kind.RETRIED: f"{who} was taken out of the failed jobs, to be dispatched again",
            Kind.FORGOTTEN: f"{who} was forgotten",
            Kind.RECOVERED: f"{who} was recovered",
            Kind.CLEARED: "the queue was cleared",
            Kind.MISSED: f"nothing was due{' for ' + self.worker if self.worker else ''}",
            Kind.BLOCKED: "a lock was waited for",
            Kind.CRASHED: f"{worker} crashed {hand}",
            Kind.PROGRESSED: f"{who} progressed",
            Kind.PAUSED: f"{worker} was paused {hand}",
            Kind.RESUMED: f"{worker} resumed {hand}",
            Kind.LOST: f"{who} is lost",
            Kind.REJECTED: f"a job ({self.name}) was rejected: the system was full",
            Kind.RESTARTED: f"the {self.detail or 'process'} was restarted",
        }[self.kind]
        return f"{told} ({self.detail})" if self.detail and self.kind is not Kind.RESTARTED else told


def together(digests: Iterable[str]) -> str:
    """Give digits that stand for several traces in their order; for one, its own; for none, none."""
    told = list(digests)
    return told[0] if len(told) == 1 else hashlib.sha256(" ".join(told).encode()).hexdigest()[:16] if told else ""


@dataclass(slots=True)
class Seen:
    """A job as a trace knows it at one moment.

    Attributes:
        id: The job's id.
        name: The handler's name.
        attempts: How many times it had been reserved.
        available_at: When it may be reserved, or when its reservation runs out, in seconds.
        worker: Who holds it; empty while nobody does.
        settled: `done`, `failed` or `lost` once it is; None before.
        detail: The last error or progress.
    """

    id: int
    name: str
    attempts: int
    available_at: float
    worker: str = ""
    reserved: bool = False
    settled: JobState | None = None
    detail: str = ""

    def apply(self, event: Event) -> None:
        """Go one event of the job further."""
        kind = event.kind
        if kind is Kind.RESERVED:
            self.attempts, self.worker, self.reserved, self.settled = event.attempt, event.worker, True, None
        if kind in (Kind.RELEASED, Kind.RECOVERED, *_SETTLES):
            self.worker, self.reserved = "", False
        if kind in (Kind.RESERVED, Kind.EXTENDED, Kind.RELEASED, Kind.RECOVERED) and event.until is not None:
            self.available_at = event.until
        if kind in _SETTLES:
            self.settled = _SETTLES[kind]
        if event.detail and kind not in (Kind.EXPIRED, Kind.SUPERSEDED, Kind.RESUMED):
            self.detail = event.detail

    def state(self, now: float) -> JobState:
        """Tell the job's state at a moment, in seconds."""
        if self.settled is not None:
            return self.settled
        if self.available_at <= now:
            return JobState.READY
        return JobState.RESERVED if self.reserved else JobState.DELAYED


@dataclass(slots=True)
class Moment:
    """All jobs of a trace at one moment; a failed job that was retried or forgotten is gone, its retry is another job.

    Attributes:
        at: The moment, in seconds.
        jobs: What the trace knows of each job, by id.
        before: What it knows of jobs whose ids were given again, by a store that had begun anew.
    """

    at: float = -math.inf
    jobs: dict[int, Seen] = field(default_factory=dict)
    before: list[Seen] = field(default_factory=list)

    def apply(self, event: Event) -> None:
        """Go one event further."""
        self.at = max(self.at, event.at)
        kind, job = event.kind, event.job
        if kind is Kind.CLEARED:
            self.jobs = {id: seen for id, seen in self.jobs.items() if seen.settled}
        if job is None:
            return
        if kind in (Kind.RETRIED, Kind.FORGOTTEN):
            self._drop(job)
        elif kind is Kind.DISPATCHED or (job not in self.jobs and kind in _APPEARS):
            if job in self.jobs and self.jobs[job].settled:
                self.before.append(self.jobs[job])
            self.jobs[job] = Seen(job, event.name, 0, event.at if event.until is None else event.until)
        if job in self.jobs:
            self.jobs[job].apply(event)

    def _drop(self, job: int) -> None:
        """Drop a failed job, which may be one of those before."""
        earlier = [seen for seen in self.before if seen.id == job and seen.settled is JobState.FAILED]
        if earlier and self.jobs[job].settled is not JobState.FAILED:
            self.before.remove(earlier[-1])
        else:
            self.jobs.pop(job, None)

    def counts(self, now: float | None = None) -> Counts:
        """Count the jobs by state, at this moment or a later one (in seconds); done and lost jobs are in none."""
        moment = self.at if now is None else now
        states = [seen.state(moment) for seen in (*self.before, *self.jobs.values())]
        return Counts(
            *(states.count(state) for state in (JobState.READY, JobState.DELAYED, JobState.RESERVED, JobState.FAILED))
        )


class Difference(NamedTuple):
    """The first event in which two traces differ.

    Attributes:
        place: Its place in both, from 0.
        left: The event in the first trace; None where that one has ended.
        right: The event in the second trace; None where that one has ended.
    """

    place: int
    left: Event | None
    right: Event | None


class Trace:
    """Events in the order in which they happened; safe to record from several threads.

    `len(trace)`, `trace[0]` and `for event in trace` give its events; traces are equal where these are. It takes about
    52 bytes an event: text is kept once.

    Args:
        events: What it begins with.

    Attributes:
        records: Whether it keeps what it is told.

    Example:
        >>> from qlab import Trace
        >>> from qlab.trace import Kind
        >>> trace = Trace()
        >>> trace.record(0.0, Kind.DISPATCHED, job=1, name="mail", until=5.0)
        >>> trace[0].says
        'job 1 (mail) was dispatched, available at 5 s'
        >>> trace.at(2.0).counts()
        Counts(ready=0, delayed=1, reserved=0, failed=0)
    """

    records = True

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._at, self._job, self._since, self._until = array("q"), array("q"), array("q"), array("q")
        self._name, self._attempt, self._worker, self._detail = array("I"), array("I"), array("I"), array("I")
        self._kind = array("B")
        self._columns = {
            "at": self._at, "kind": self._kind, "job": self._job, "name": self._name, "attempt": self._attempt,
            "worker": self._worker, "since": self._since, "until": self._until, "detail": self._detail,
        }  # fmt: skip
        self._kept = 0
        self._rows: list[bytes] = []
        self._texts: list[str] = [""]
        self._codes: dict[str, int] = {"": 0}
        self._lock = threading.Lock()
        free_in_children(self)
        for event in events:
            self.record(*event)

    def record(
        self,
        at: float,
        kind: Kind,
        job: int | None = None,
        name: str = "",
        attempt: int = 0,
        worker: str = "",
        since: float | None = None,
        until: float | None = None,
        detail: str = "",
    ) -> None:
        """Add an event; its fields are those of `Event`, times in seconds."""
        self.record_us(
            us(at),
            CODES[kind],
            NOTHING if job is None else job,
            name,
            attempt,
            worker,
            NOTHING if since is None else us(since),
            NOTHING if until is None else us(until),
            detail,
        )

    def record_us(
        self,
        at: int,
        code: int,
        job: int,
        name: str,
        attempt: int,
        worker: str,
        since: int = NOTHING,
        until: int = NOTHING,
        detail: str = "",
    ) -> None:
        """Add an event as the columns keep it: for whoever records many.

        Args:
            at: When, in microseconds.
            code: What happened, as its number in `CODES`.
            job: The job's id; `NOTHING` for none.
            name: The handler's name.
            attempt: Which attempt.
            worker: Who did it.
            since: As in `Event`, in microseconds; `NOTHING` for none.
            until: As in `Event`, in microseconds; `NOTHING` for none.
            detail: As in `Event`.
        """
        codes, rows = self._codes, self._rows
        try:
            row = ROW.pack(at, job, since, until, codes[name], attempt, codes[worker], codes[detail], code)
        except KeyError:
            for text in (name, worker, detail):
                self._number(text)
            Trace.record_us(self, at, code, job, name, attempt, worker, since, until, detail)  # in a Journal too: once
            return
        except struct.error as error:
            raise ValueError(f"job {job!r}, attempt {attempt!r} at {at!r} µs cannot be recorded: {error}") from error
        rows.append(row)  # in one step, so that neither a thread nor an interrupt comes between
        if len(rows) >= _AT_ONCE:
            with self._lock:
                self._move()

    def _number(self, text: str) -> None:
        with self._lock:
            if text not in self._codes:
                self._texts.append(text)
                self._codes[text] = len(self._texts) - 1

    def _move(self) -> None:
        """Make columns of the rows, with the lock held; what an interrupted move has left behind them is dropped."""
        columns, kept, rows = self._columns.values(), self._kept, self._rows
        if any(len(column) != kept for column in columns):
            for column in columns:
                del column[kept:]
        if not rows:
            return
        count = len(rows)
        block = memoryview(b"".join(rows[:count]))
        longs, ints, bytes_ = block.cast("q"), block.cast("I"), block
        for place, column in enumerate((self._at, self._job, self._since, self._until)):
            column.frombytes(longs[place::_WORD].tobytes())
        for place, column in enumerate((self._name, self._attempt, self._worker, self._detail), 8):
            column.frombytes(ints[place :: _WORD * 2].tobytes())
        self._kind.frombytes(bytes_[48 :: ROW.size].tobytes())
        kept += count
        del rows[:count]
        self._kept = kept  # no call stands between this line and the last: both happen, or neither

    def gather(self) -> None:
        """Make columns of what was recorded by whoever looks after their number himself."""
        with self._lock:
            self._move()

    def columns(self) -> "tuple[dict[str, array[int]], list[str]]":
        """Give copies of the columns, and the texts that name, worker and detail are numbers of.

        Returns:
            `at`, `since`, `until` (int64, microseconds), `job` (int64), `attempt`, `name`, `worker`, `detail`
            (uint32) and `kind` (uint8, an index into `tuple(Kind)`); `-2**62` stands for nothing. Then the list of
            texts.
        """
        with self._lock:
            self._move()
            return {name: column[:] for name, column in self._columns.items()}, list(self._texts)

    @classmethod
    def of_columns(cls, columns: "Mapping[str, array[int]]", texts: Sequence[str]) -> "Trace":
        """Make a trace of what `columns` gives.

        Raises:
            ValueError: These are no columns of a trace.
        """
        trace = cls()
        for name, column in trace._columns.items():
            given = columns.get(name)
            if given is None or given.typecode != column.typecode or len(given) != len(columns["at"]):
                raise ValueError(f"the column {name!r} is missing, or not as long as the others, or of another type")
            below = len(_KINDS) if name == "kind" else len(texts) if name in _TEXTS else None
            if below is not None and given and max(given) >= below:
                raise ValueError(f"the column {name!r} has the number {max(given)}, there are {below:,}")
            column.extend(given)
        trace._kept = len(trace._at)
        trace._texts = ["", *(text for text in texts if text)]
        if trace._texts != list(texts) or len(set(texts)) < len(texts):
            raise ValueError("the texts do not begin with the empty one, or one stands there twice")
        trace._codes = {text: code for code, text in enumerate(trace._texts)}
        return trace

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel to another process, which its lock cannot."""
        return Trace.of_columns, self.columns()

    def at(self, moment: float) -> Moment:
        """Rebuild what was where at a moment, in seconds: every event of that moment or an earlier one has happened."""
        rebuilt = Moment()
        for event in self:
            if event.at <= moment:
                rebuilt.apply(event)
        rebuilt.at = moment
        return rebuilt

    def difference(self, other: "Trace") -> Difference | None:
        """Find the first event in which two traces differ; None where they are the same."""
        (mine, texts), (theirs, others) = self.columns(), other.columns()
        numbers = {text: number for number, text in enumerate(texts)}
        _renumber(theirs, {code: numbers.setdefault(text, len(numbers)) for code, text in enumerate(others)})

        shared, longest = sorted((len(mine["at"]), len(theirs["at"])))
        place, differs = 0, shared
        while place < differs:  # what lies before `place` is equal
            middle = (place + differs + 1) // 2
            if all(mine[name][place:middle] == theirs[name][place:middle] for name in mine):
                place = middle
            else:
                differs = middle - 1
        if place == longest:
            return None
        left, right = (trace[place] if place < len(trace) else None for trace in (self, other))
        return Difference(place, left, right)

    def digest(self) -> str:
        """Give 16 hexadecimal digits that stand for the whole trace: equal traces have equal ones."""
        columns, texts = self.columns()
        # Numbers of texts tell in which order threads came to record, so they are given anew in the order of events.
        rows = zip(*(columns[name] for name in _TEXTS), strict=True)
        used = list(dict.fromkeys(chain((0,), chain.from_iterable(rows))))
        _renumber(columns, {code: number for number, code in enumerate(used)})
        hashed = hashlib.sha256(repr([len(columns["at"]), *(texts[code] for code in used)]).encode())
        for column in columns.values():
            if sys.byteorder == "big":
                column.byteswap()
            hashed.update(column)
        return hashed.hexdigest()[:16]

    def __len__(self) -> int:
        with self._lock:
            return self._kept + len(self._rows)

    def __iter__(self) -> Iterator[Event]:
        columns, texts = self.columns()
        return (_event(row, texts) for row in zip(*columns.values(), strict=True))

    def __getitem__(self, index: int) -> Event:
        with self._lock:
            self._move()
            return _event([column[index] for column in self._columns.values()], self._texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.difference(other) is None

    __hash__ = None  # type: ignore[assignment]  # it grows, so it cannot be a key

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} events, {self.digest()}>"

    def _repr_html_(self) -> str:
        shown = 50
        first = max(0, len(self) - shown)
        rows = [(seconds(e.at), e.kind, e.says) for e in (self[i] for i in range(first, len(self)))]
        caption = f"{len(self)} events" + (f", the last {shown}" if first else "")
        return table_html(("at", "event", "what happened"), rows, caption)


class NoTrace(Trace):
    """An empty trace that records nothing: for a worker that lives for weeks, whose trace nobody reads."""

    records = False

    def record(self, *_: Any, **__: Any) -> None:
        """Let an event go."""

    def record_us(self, *_: Any, **__: Any) -> None:
        """Let an event go."""

    def __repr__(self) -> str:
        return "<NoTrace: it records nothing>"

    def _repr_html_(self) -> str:
        return "<p>This queue's trace records nothing: <code>Queue(…, trace=False)</code>, or a worker process.</p>"


def _event(row: Sequence[int], texts: Sequence[str]) -> Event:
    at, kind, job, name, attempt, worker, since, until, detail = row
    return Event(
        from_us(at),
        _KINDS[kind],
        None if job == NOTHING else job,
        texts[name],
        attempt,
        texts[worker],
        _seconds(since),
        _seconds(until),
        texts[detail],
    )


def _renumber(columns: "dict[str, array[int]]", anew: Mapping[int, int]) -> None:
    """Give the texts of columns other numbers."""
    if any(number != code for code, number in anew.items()):
        for name in _TEXTS:
            columns[name] = array("I", map(anew.__getitem__, columns[name]))


def _seconds(microseconds: int) -> float | None:
    return None if microseconds == NOTHING else from_us(microseconds)
