"""What metrics are numbers of: a part of a trace, with its jobs, its reservations and what changes over time in it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from qlab.clock import duration, us
from qlab.frames import job_totals
from qlab.frames.columns import CODES, NOTHING, Array, codes
from qlab.frames.job_attempts import Attempts, attempts_of
from qlab.frames.job_spans import oldest_of, waits_of
from qlab.frames.job_steps import DELAYED, LOST, Steps, steps_of
from qlab.metrics.curves import Age, Curve, Number
from qlab.metrics.intervals import mser5
from qlab.show import seconds as shown
from qlab.simulation.requests import Requests
from qlab.trace import Kind, Trace
from qlab.whole import is_whole

Warmup: TypeAlias = int | Literal["mser5"]

_UNSTEADY = "MSER-5 finds no steady part: the run is too short, or does not come to rest"


class Source(NamedTuple):
    """What numbers are of.

    Attributes:
        trace: What happened.
        until: When it ended, in seconds; None at its last event.
        workers: How many workers there were; None where nobody says.
        requests: What clients saw; None where there were none.
    """

    trace: Trace
    until: float | None
    workers: int | None
    requests: Requests | None


def source_of(what: object) -> Source:
    """Take the trace from a Run, or from whatever else has one.

    Raises:
        TypeError: It has none.
    """
    trace = what if isinstance(what, Trace) else getattr(what, "trace", None)
    if not isinstance(trace, Trace):
        raise TypeError(f"numbers are of a Run, a Trace or a Queue, or of several Runs in a list, not of {what!r}")
    workers = getattr(getattr(what, "scenario", None), "workers", None)
    return Source(trace, getattr(what, "until", None), workers, getattr(what, "requests", None) or None)


@dataclass(frozen=True)
class Measured:
    """A part of a trace, from a moment to its end; times in microseconds where nothing else is said.

    Attributes:
        steps: The steps of every job, also of those that came before.
        attempts: Their reservations.
        start: From when it is measured.
        end: Up to when.
        kept: The jobs that count, as places among the ids, in the order in which they came.
        removed: How many came before them.
        name: Whose jobs are measured: a handler's, as the number of a text; None for everybody's.
        worker: Whose work is measured: a worker's, as the number of a text; None for everybody's.
        why: Why nothing has an interval; empty where it may have one.
    """

    steps: Steps
    attempts: Attempts
    start: int
    end: int
    kept: Array
    removed: int = 0
    name: int | None = None
    worker: int | None = None
    why: str = ""

    # -- one value a job, or a reservation --

    @cached_property
    def ended(self) -> Array:
        """Which of the jobs that count are done or have failed, after a reservation that the trace tells of."""
        reserved = self.steps.total(self.steps.of(Kind.RESERVED)) > 0
        ended: Array = (self._ends[self.kept] >= 0) & reserved[self.kept]
        return ended

    @cached_property
    def per_job(self) -> dict[str, Array]:
        """What each job that counts and has ended adds up to; times in seconds, in the order in which the jobs came."""
        steps, last = self.steps, self._ends
        jobs = self.kept[self.ended]
        told = job_totals.tries(steps) | job_totals.durations(steps)
        again = np.bincount(self.attempts.row[self.attempts.again], minlength=len(steps.ids))
        columns = {
            "wait_per_job": told["wait"],
            "sojourn": told["sojourn"],
            "backoff": told["backoff"],
            "time_to_end": (steps.at[last] - self.came) / 1_000_000,
            "attempts": told["attempts"],
            "runs": told["runs"],
            "duplicates": again,
            "p_duplicate": again > 0,
            "failed": steps.of(Kind.FAILED)[last],
        }
        return {name: values[jobs].astype(np.float64) for name, values in columns.items()}

    @cached_property
    def per_attempt(self) -> dict[str, Array]:
        """The wait before each reservation of a job that counts, and the service of each run that has ended."""
        found = self.attempts
        counts = np.zeros(len(self.steps.ids), bool)
        counts[self.kept] = True
        chosen = np.flatnonzero(counts[found.row] & self._by_the_worker(found.source))
        chosen = chosen[np.argsort(found.source[chosen], kind="stable")]
        wait = (found.reserved - found.since)[chosen] / 1_000_000
        ran = chosen[found.ran[chosen] & (found.ended[chosen] != NOTHING)]
        service = (found.ended - found.reserved)[ran] / 1_000_000
        return {"wait": wait, "p_wait": (wait > 0).astype(np.float64), "service": service}

    @cached_property
    def lost(self) -> Array:
        """Which of the jobs that count are lost."""
        lost: Array = self.steps.total(self.steps.begun == LOST)[self.kept] > 0
        return lost.astype(np.float64)

    @cached_property
    def rejected(self) -> Array:
        """Which of the jobs that came to the system, each in turn, found it full."""
        columns = self.steps.columns
        came = np.isin(columns.kind, codes(Kind.DISPATCHED, Kind.REJECTED)) & (columns.clock >= self.start)
        mine = came if self.name is None else came & (columns.name == self.name)
        return np.asarray(columns.kind[mine] == CODES[Kind.REJECTED], np.float64)

    # -- what changes over time --

    @cached_property
    def over_time(self) -> dict[str, Curve]:
        """How many jobs are where, and how old the oldest is that waits."""
        where = visits(self.steps)
        return {
            "depth": reduce(Number.join, where.values()),
            "L": where["ready"].join(where["reserved"]),
            "Lq": where["ready"],
            "in_flight": where["reserved"],
            "delayed": where["delayed"],
            "in_backoff": where["backoff"],
            "oldest_age": self.age,
        }

    @cached_property
    def age(self) -> Age:
        """How old the oldest job is that waits."""
        return Age(oldest_of(waits_of(self.steps)))

    @cached_property
    def busy(self) -> Number:
        """The workers that have a job in hand; one that has several counts once."""
        found = self.attempts
        worker = self.steps.columns.worker[found.source].astype(np.int64)
        left = np.where(found.left == NOTHING, self.end, found.left)
        chosen = np.flatnonzero(self._by_the_worker(found.source))
        order = chosen[np.lexsort((found.reserved[chosen], worker[chosen]))]
        worker, start, end = worker[order], found.reserved[order], left[order]
        shift = worker * (1 + end.max(initial=0) - start.min(initial=0))  # so that one worker's come after another's
        before = np.append(NOTHING, np.maximum.accumulate(end + shift)[:-1])[: len(end)] - shift
        return Number(np.clip(before, start, end), end)

    # -- how often something happens --

    @cached_property
    def moments(self) -> dict[str, Array]:
        """When jobs came, left the system, and were done."""
        last = self._ends[self._ends >= 0]
        last = last[self._by_the_worker(self.steps.source[last])]
        done = last[self.steps.of(Kind.COMPLETED)[last]]
        came = {"arrivals": self.came} if self.worker is None else {}
        return came | {"throughput": self.steps.at[last], "goodput": self.steps.at[done]}

    @cached_property
    def done_by(self) -> dict[str, int]:
        """How many jobs each worker has completed; 0 for one that has asked for jobs only."""
        columns, steps = self.steps.columns, self.steps
        asked = np.unique(columns.worker[np.isin(columns.kind, codes(Kind.RESERVED, Kind.MISSED))])
        done = steps.told("worker")[steps.of(Kind.COMPLETED) & (steps.at >= self.start)]
        counts = np.bincount(done, minlength=len(columns.texts))
        return {columns.texts[worker]: int(counts[worker]) for worker in asked}

    # -- parts of it --

    def by_name(self) -> Iterator[tuple[str, "Measured"]]:
        """Measure each handler's jobs."""
        for name in np.unique(self.steps.names):
            mine = self.steps.names == name
            steps = self.steps.only(mine)
            kept = (np.cumsum(mine) - 1)[self.kept[mine[self.kept]]]
            removed = len(steps.ids) - len(kept)
            part = replace(self, steps=steps, attempts=attempts_of(steps), kept=kept, removed=removed, name=int(name))
            yield steps.columns.texts[name], part

    def by_worker(self) -> Iterator[tuple[str, "Measured"]]:
        """Measure what each worker has reserved."""
        for worker in self.done_by:
            yield worker, replace(self, worker=self.steps.columns.texts.index(worker))

    @property
    def came(self) -> Array:
        """When each job came."""
        came: Array = self.steps.columns.clock[self.steps.begins]
        return came

    @cached_property
    def _ends(self) -> Array:
        """The step with which each job was first done or failed; -1 where there is none."""
        ends, found = np.full(len(self.steps.ids), -1), np.flatnonzero(self.steps.of(Kind.COMPLETED, Kind.FAILED))
        ends[self.steps.row[found][::-1]] = found[::-1]
        return ends

    def _by_the_worker(self, source: Array) -> Array:
        """Tell which events are of the worker whose work is measured."""
        if self.worker is None:
            return np.ones(len(source), bool)
        mine: Array = self.steps.columns.worker[source] == self.worker
        return mine


def measure(trace: Trace, *, until: float | None = None, warmup: Warmup = 0, warmup_seconds: float = 0.0) -> Measured:
    """Choose the part of a trace that is measured.

    Args:
        trace: What happened.
        until: Up to when, in seconds, if that is later than the last event.
        warmup: How many jobs from the start on do not count; `mser5` to find out.
        warmup_seconds: How many seconds from the start on do not count.

    Raises:
        ValueError: Nothing would be left.
    """
    steps = steps_of(trace, until)
    clock = steps.columns.clock
    start, end = (int(clock[0]), steps.until) if len(clock) else (0, 0)
    order = np.argsort(steps.begins, kind="stable")
    every = Measured(steps, attempts_of(steps), start, end, order)
    removed, why = _removed(every, warmup), ""
    if removed is None:
        removed, why = 0, _UNSTEADY
    if spent := us(duration(warmup_seconds, "warmup_seconds")):
        if warmup != 0:
            raise ValueError(f"warmup is {warmup!r} and warmup_seconds is {warmup_seconds!r}: use one of them")
        if start + spent >= end:
            raise ValueError(f"warmup_seconds is {warmup_seconds!r}, but the trace lasts {shown((end - start) / 1e6)}")
        start, removed = start + spent, int((every.came < start + spent).sum())
    elif removed:
        start = int(every.came[order[removed]])
    return replace(every, start=start, kept=order[removed:], removed=removed, why=why)


def _removed(every: Measured, warmup: Warmup) -> int | None:
    """Tell how many jobs do not count; None where nothing tells."""
    if warmup == "mser5":
        waits = every.attempts
        first = np.flatnonzero(np.diff(waits.row, prepend=-1) != 0)
        by_coming = first[np.argsort(every.steps.begins[waits.row[first]], kind="stable")]
        return mser5((waits.reserved - waits.since)[by_coming])
    if not is_whole(warmup, 0):
        raise ValueError(f"warmup is {warmup!r}: use a number of jobs from 0, or 'mser5'; for seconds, warmup_seconds")
    if warmup and warmup >= len(every.kept):
        raise ValueError(f"warmup is {warmup}, but the trace has {len(every.kept)} jobs: use fewer, or run longer")
    return warmup


def visits(steps: Steps) -> dict[str, Number]:
    """Tell from when to when jobs were where: ready, reserved, delayed or, after a failed attempt, in backoff.

    A job that nobody let wait was ready for no time; one that its dispatch did not delay was not delayed.
    """
    off = steps.backed_off
    delayed = (steps.begun == DELAYED) & ~off & (steps.turn > steps.at)
    begun = {"reserved": steps.held, "delayed": delayed, "backoff": off}
    ready = steps.claimable
    return {"ready": Number(steps.turn[ready], steps.end[ready])} | {
        place: Number(steps.at[chosen], steps.turn[chosen]) for place, chosen in begun.items()
    }
