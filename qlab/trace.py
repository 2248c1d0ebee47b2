"""What happened: every transition of every job, as columns of small values.

No uid and no token stands in a trace, so equal seeds give equal traces, byte for byte.
"""

import hashlib
import math
import threading
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

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


_KINDS = tuple(Kind)
_CODES = {kind: code for code, kind in enumerate(_KINDS)}
_NOTHING = -(2**62)
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

    About 57 bytes an event: text is kept once.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._at, self._since, self._until, self._job = array("q"), array("q"), array("q"), array("q")
        self._kind = array("B")
        self._name, self._attempt, self._worker, self._detail = array("I"), array("I"), array("I"), array("I")
        times = self._at, self._kind, self._job, self._attempt, self._since, self._until
        self._columns = (*times, self._name, self._worker, self._detail)
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
        told = (
            us(at),
            _CODES[kind],
            _NOTHING if job is None else job,
            attempt,
            _NOTHING if since is None else us(since),
            _NOTHING if until is None else us(until),
        )
        with self._lock:
            row = (*told, self._code(name), self._code(worker), self._code(detail))
            if len(self._at) != len(self._detail):
                self._mend()
            try:
                for column, value in zip(self._columns, row, strict=True):
                    column.append(value)
            except BaseException:
                self._mend()
                raise

    def _mend(self) -> None:
        """Drop what was recorded in part: by an interrupt, or of a value that no column takes."""
        for column in self._columns:
            del column[len(self._detail) :]

    def columns(self) -> "tuple[dict[str, array[int]], list[str]]":
        """Give copies of the columns, and the texts that name, worker and detail are numbers of.

        Returns:
            `at`, `since`, `until` (int64, microseconds), `job` (int64), `attempt`, `name`, `worker`, `detail`
            (uint32) and `kind` (uint8, an index into `tuple(Kind)`); `-2**62` stands for nothing. Then the list of
            texts.
        """
        with self._lock:
            names = ("at", "kind", "job", "name", "attempt", "worker", "since", "until", "detail")
            return {name: getattr(self, "_" + name)[: len(self)] for name in names}, list(self._texts)

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
        for i in range(max(len(self), len(other))):
            left = self[i] if i < len(self) else None
            right = other[i] if i < len(other) else None
            if left != right:
                return Difference(i, left, right)
        return None

    def digest(self) -> str:
        """Give 16 hexadecimal digits that stand for the whole trace: equal traces have equal ones."""
        hashed = hashlib.sha256()
        for event in self:
            hashed.update(repr(tuple(event)).encode())
        return hashed.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._detail)

    def __iter__(self) -> Iterator[Event]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Event:
        job, texts = self._job[index], self._texts
        return Event(
            from_us(self._at[index]),
            _KINDS[self._kind[index]],
            None if job == _NOTHING else job,
            texts[self._name[index]],
            self._attempt[index],
            texts[self._worker[index]],
            _seconds(self._since[index]),
            _seconds(self._until[index]),
            texts[self._detail[index]],
        )

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

    def _code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code


def _seconds(microseconds: int) -> float | None:
    return None if microseconds == _NOTHING else from_us(microseconds)
