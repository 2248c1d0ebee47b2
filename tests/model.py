"""The contract, said as plainly as it can be: lists, `sorted`, and a look at every job for every question.

It shares no code with the drivers. Times are seconds; a sum is rounded to the microsecond.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from qlab.driver import Counts
from qlab.job import FailedJob, Job, NewJob, Reservation

AT_ONCE = 100  # jobs that fell due join the line in one poll, where the order is arrival


@dataclass(eq=False)
class Kept:
    """A job that waits or is reserved: its record, its serial number, and its reservation's token."""

    job: Job
    seq: int
    token: str | None = None

    def due(self, now: float) -> bool:
        return self.job.available_at <= now

    def place(self) -> tuple[float, int]:
        return self.job.available_at, self.seq


class Model:
    """A store; its verbs are the driver's.

    In the order of arrival, jobs that may be reserved stand in a line: one that is due when it is dispatched, released
    or recovered joins it at once, any other when somebody polls after it fell due. Who reserves takes the first.
    """

    def __init__(self, order: str) -> None:
        self.order = order
        self.kept: list[Kept] = []
        self.lines: defaultdict[str, list[Kept]] = defaultdict(list)
        self.rows: list[FailedJob] = []
        self.ids: Counter[str] = Counter()
        self.seqs, self.tokens, self.row_ids = itertools.count(1), itertools.count(1), itertools.count(1)

    # -- verbs that change the store --

    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        return [self.push_one(queue, new, now, resent) for new in jobs]

    def push_one(self, queue: str, new: NewJob, now: float, resent: bool = False) -> Job:
        job = Job(0, new.uid, queue, new.name, new.body, 0, now, max(now, new.available_at))
        if resent and any(row.uid == new.uid for row in self.failed(queue)):
            return job
        for kept in self.of(queue):
            if kept.job.uid == new.uid:
                return kept.job
        self.ids[queue] += 1
        kept = Kept(job._replace(id=self.ids[queue]), next(self.seqs))
        self.kept.append(kept)
        self.join_the_line_if_due(kept, now)
        return kept.job

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        return [self.reserve_one(kept, now, retry_after) for kept in self.first(queue, now, limit)]

    def first(self, queue: str, now: float, limit: int) -> list[Kept]:
        if self.order == "available_at":
            return sorted((kept for kept in self.of(queue) if kept.due(now)), key=Kept.place)[:limit]
        line = self.lines[queue]
        while True:
            fell_due = [kept for kept in self.of(queue) if kept.due(now) and kept not in line]
            line += sorted(fell_due, key=Kept.place)[:AT_ONCE]
            if len(line) >= limit or len(fell_due) < AT_ONCE:
                return line[:limit]

    def reserve_one(self, kept: Kept, now: float, retry_after: float | None) -> Reservation:
        since, ran_out = min(kept.job.available_at, now), kept.token is not None
        until = math.inf if retry_after is None else later(now, retry_after)
        self.leave_the_line(kept)
        kept.job = kept.job._replace(attempts=kept.job.attempts + 1, reserved_at=now, available_at=until)
        kept.token = f"token {next(self.tokens)}"
        return Reservation(kept.job, kept.token, since, ran_out)

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        kept = self.held(reservation)
        if kept:
            self.delete(kept)
        return kept is not None

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        completed = self.complete(reservation, now=now)
        following = self.reserve(reservation.job.queue, now=now, retry_after=retry_after)
        return completed, following[0] if following else None

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        kept = self.held(reservation)
        if kept:
            self.wait(kept, now, later(now, delay))
        return kept is not None

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        kept = self.held(reservation)
        if kept:
            self.leave_the_line(kept)
            kept.job = kept.job._replace(available_at=later(now, seconds))
        return kept is not None

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        kept = self.held(reservation)
        if kept:
            self.delete(kept)
            _, uid, queue, name, body, _, dispatched_at, *_ = kept.job
            if all(row.uid != uid for row in self.failed(queue)):
                told = (uid, queue, name, body, attempts, error, traceback, dispatched_at, now)
                self.rows.append(FailedJob(next(self.row_ids), *told))
        return kept is not None

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        stale = sorted((kept for kept in self.of(queue) if kept.token and (force or kept.due(now))), key=Kept.place)
        for kept in stale:
            self.wait(kept, now, now)
        return [kept.job for kept in stale]

    def clear(self, queue: str, *, now: float) -> int:
        cleared = self.of(queue)
        for kept in cleared:
            self.delete(kept)
        return len(cleared)

    # -- verbs of failed jobs --

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        return [row for row in self.rows if row.queue == queue and row.id > after][:limit]

    def failed_ids(self, queue: str, *, before: float = math.inf) -> list[int]:
        return [row.id for row in self.failed(queue) if row.failed_at <= before]

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        rows = [row if body is None else row._replace(body=body) for row in self.take(queue, ids)]
        return [(row.id, self.push_one(queue, NewJob(row.uid, row.name, row.body, now), now)) for row in rows]

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        return [row.id for row in self.take(queue, ids)]

    def take(self, queue: str, ids: Sequence[int]) -> list[FailedJob]:
        there = {row.id: row for row in self.failed(queue)}
        taken = [there.pop(id) for id in ids if id in there]
        self.rows = [row for row in self.rows if row not in taken]
        return taken

    # -- reading verbs --

    def counts(self, queue: str, *, now: float) -> Counts:
        aside = [kept for kept in self.of(queue) if not kept.due(now) and kept not in self.lines[queue]]
        ready, reserved = len(self.of(queue)) - len(aside), sum(kept.token is not None for kept in aside)
        return Counts(ready, len(aside) - reserved, reserved, len(self.failed(queue)))

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        return [kept.job for kept in sorted(self.of(queue), key=Kept.place)]

    def next_due(self, queue: str, *, now: float) -> float | None:
        moments = [now if kept in self.lines[queue] else kept.job.available_at for kept in self.of(queue)]
        first = min(moments, default=math.inf)
        return None if first == math.inf else max(now, first)

    # -- what the verbs share --

    def of(self, queue: str) -> list[Kept]:
        return [kept for kept in self.kept if kept.job.queue == queue]

    def held(self, reservation: Reservation) -> Kept | None:
        """The job, while nobody has reserved, released or recovered it since; running out alone ends nothing."""
        return next((kept for kept in self.kept if kept.token == reservation.token), None)

    def wait(self, kept: Kept, now: float, available_at: float) -> None:
        self.leave_the_line(kept)
        kept.job = kept.job._replace(available_at=available_at, reserved_at=None)
        kept.seq, kept.token = next(self.seqs), None
        self.join_the_line_if_due(kept, now)

    def delete(self, kept: Kept) -> None:
        self.leave_the_line(kept)
        self.kept.remove(kept)

    def join_the_line_if_due(self, kept: Kept, now: float) -> None:
        if self.order == "arrival" and kept.due(now):
            self.lines[kept.job.queue].append(kept)

    def leave_the_line(self, kept: Kept) -> None:
        if kept in self.lines[kept.job.queue]:
            self.lines[kept.job.queue].remove(kept)


def later(now: float, seconds: float) -> float:
    return round(now + seconds, 6)
