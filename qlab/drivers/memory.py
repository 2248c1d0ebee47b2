"""The contract in plain Python: the reference that the other drivers are compared with.

It forgets everything when its process ends, which is what ADR-006 rejected it for.

A Ctrl-C may strike between any two calls. So what a verb does to one job is one statement without a call, after
whatever may be left over without harm, such as a place in the line that is no job's; for several jobs it is deferred.
"""

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qlab.clock import NEVER, from_us, us
from qlab.driver import Counts, Durability, Mark
from qlab.drivers.failed_jobs import FailedJobs, Failing, StagedFailures
from qlab.errors import QueueClosed
from qlab.forks import free_in_children
from qlab.interrupts import Deferred
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.tokens import Tokens

AT_ONCE = 100
"""How many jobs that fell due, and how many skipped items, one call looks at where `order="arrival"`."""


class MemoryDriver(StagedFailures):
    """A store in this process.

    Args:
        order: `available_at` for the contract's order; `arrival` to imitate the `redis_list` layout, where jobs that
            fall due are appended to a list when somebody polls, at most 100 a call.
    """

    name = "memory"
    wakes = True

    def __init__(self, order: str = "available_at") -> None:
        if order not in ("available_at", "arrival"):
            raise ValueError(f"order is {order!r}: use 'available_at' or 'arrival'")
        super().__init__(FailedJobs("sqlite:///:memory:"))
        self.order = order
        self.url = "memory://" if order == "available_at" else "memory://?order=arrival"
        self._queues: dict[str, _Queue] = {}
        self._lock = threading.RLock()
        free_in_children(self)
        self._tokens = Tokens()
        self._closed = False

    @property
    def description(self) -> str:
        return "memory" if self.order == "available_at" else "memory, order=arrival"

    @property
    def private(self) -> bool:
        return True

    @property
    def durability(self) -> Durability:
        return Durability("everything: the jobs are in the worker's process", "everything", "everything")

    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        if resent or len(jobs) != 1:
            return super().push(queue, jobs, now=now, resent=resent)
        moment, at = us(now), us(jobs[0].available_at)
        with self._lock:
            there = self._queues.get(queue) or self._queue(queue)
            return [there.push(jobs[0], moment, at, queue)]

    def _push(self, queue: str, jobs: Sequence[NewJob], now: int) -> list[Job]:
        moments = [us(job.available_at) for job in jobs]
        with self._lock, Deferred():
            there = self._queue(queue)
            return [there.push(job, now, at, queue) for job, at in zip(jobs, moments, strict=True)]

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        moment = us(now)
        deadline = NEVER if retry_after is None else moment + us(retry_after)
        if limit == 1:
            with self._lock:
                there = self._queues.get(queue) or self._queue(queue)
                held = there.line.take_one(there, moment, deadline, self._tokens, queue)
                if held is not None:
                    return [held]
                there.tokens = 0  # of jobs that are gone
                return []
        reservations: list[Reservation] = []
        with self._lock, Deferred():
            there = self._queue(queue)
            more = True

            def reserve(row: _Row) -> None:
                reservations.append(there.reserve(row, moment, deadline, self._tokens.next(), queue))

            while more and len(reservations) < limit:
                more = there.line.take(moment, there.rows, limit - len(reservations), reserve)
            if limit and not reservations:
                there.tokens = 0
        return reservations

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        with self._lock:
            job = reservation.job
            there = self._queues.get(job.queue) or self._queue(job.queue)
            row = there.rows.get(job.id)
            if row is None or row.token != reservation.token:
                return False
            del there.rows[row.id], there.uids[row.uid]
            return True

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        with self._lock:  # an interrupt in between leaves the job completed and none reserved
            completed = self.complete(reservation, now=now)
            following = self.reserve(reservation.job.queue, now=now, retry_after=retry_after)
            return completed, following[0] if following else None

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            there = self._queue(reservation.job.queue)
            row = there.held(reservation)
            if row is None:
                return False
            there.wait(row, us(now), us(now) + us(delay))
            return True

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        with self._lock:
            there = self._queue(reservation.job.queue)
            row = there.held(reservation)
            if row is None:
                return False
            there.line.put(row, (us(now) + us(seconds), row.seq), (row.attempts, row.reserved_at, row.token), None)
            return True

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        moment = us(now)
        with self._lock, Deferred():
            there = self._queue(queue)
            held = [
                row
                for row in there.rows.values()
                if row.reserved_at is not None and (force or row.available_at <= moment)
            ]
            held.sort(key=_place)
            for row in held:
                there.wait(row, moment, moment)
            return [row.job(queue) for row in held]

    def clear(self, queue: str, *, now: float) -> int:
        with self._lock:
            there = self._queue(queue)
            cleared, line = len(there.rows), type(there.line)()
            there.rows, there.uids, there.line, there.tokens = {}, {}, line, 0
            return cleared

    def counts(self, queue: str, *, now: float) -> Counts:
        moment = us(now)
        with self._lock:
            there = self._queue(queue)
            waiting = [row for row in there.rows.values() if row.available_at > moment and not row.listed]
            reserved = sum(row.reserved_at is not None for row in waiting)
            ready, delayed = len(there.rows) - len(waiting), len(waiting) - reserved
            failing, notes = list(there.failing.values()), set(there.retried)
        return Counts(ready, delayed, reserved, self._count_failed(queue, failing, notes))

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        with self._lock:
            return [row.job(queue) for row in sorted(self._queue(queue).rows.values(), key=_place)]

    def next_due(self, queue: str, *, now: float) -> float | None:
        moment = us(now)
        with self._lock:
            there = self._queue(queue)
            first = there.line.first(moment, there.rows)
        return None if first >= NEVER else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        with self._lock:
            rows = self._queue(queue).rows.values()
            return [
                f"job {row.id} is reserved without a token"
                for row in rows
                if (row.reserved_at is None) != (row.token is None)
            ]

    def wait(self, queue: str, seconds: float) -> bool:
        with self._lock:
            there = self._queue(queue)
            there.waiting += 1
            try:
                woken = there.awake.wait_for(lambda: there.tokens or self._closed, seconds)
            finally:
                there.waiting -= 1
            if self._closed:
                raise QueueClosed()
            there.tokens -= bool(woken)
            return bool(woken)

    def mark(self, queue: str, mark: Mark) -> None:
        with self._lock:
            marks, key, value = self._queue(queue).marks, (mark.kind, mark.name), us(mark.value)
            marks[key] = max(value, marks.get(key, value))

    def unmark(self, queue: str, kind: str, name: str) -> None:
        with self._lock:
            self._queue(queue).marks.pop((kind, name), None)

    def marks(self, queue: str) -> list[Mark]:
        with self._lock:
            return [Mark(*key, from_us(value)) for key, value in sorted(self._queue(queue).marks.items())]

    def close(self) -> None:
        self._closed = True
        with self._lock:
            queues, self._queues = self._queues, {}
            for there in queues.values():
                there.awake.notify_all()
        self.failed_jobs.close()

    # -- staged failures --

    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        with self._lock:
            there = self._queue(reservation.job.queue)
            row = there.held(reservation)
            if row is None:
                return False
            failed = FailedJob(
                None, row.uid, reservation.job.queue, row.name, row.body, attempts, error, traceback,
                from_us(row.dispatched_at), from_us(now),
            )  # fmt: skip
            entry = Failing(reservation.token, failed)
            there.failing[row.uid] = entry
            del there.rows[row.id], there.uids[row.uid]
            return True

    def _failing(self, queue: str) -> list[Failing]:
        with self._lock:
            return list(self._queue(queue).failing.values())

    def _unstage(self, queue: str, failing: Sequence[Failing]) -> None:
        with self._lock:
            there = self._queue(queue).failing
            for entry in failing:
                uid = entry.failed.uid
                if uid in there and there[uid].token == entry.token:
                    del there[uid]

    def _again(self, queue: str, rows: Sequence[FailedJob], now: int) -> list[Job | None]:
        notes = [self.failed_jobs.note(row.id, row.uid) for row in rows]
        with self._lock, Deferred():
            there = self._queue(queue)
            return [self._made_anew(there, row, name, now) for row, name in zip(rows, notes, strict=True)]

    def _made_anew(self, there: "_Queue", row: FailedJob, name: str, now: int) -> Job | None:
        if name in there.retried:
            return None
        there.retried.add(name)
        there.failing.pop(row.uid, None)
        return there.push(NewJob(row.uid, row.name, row.body, from_us(now)), now, now, row.queue)

    def _noted(self, queue: str) -> set[str]:
        with self._lock:
            return set(self._queue(queue).retried)

    def _drop_notes(self, queue: str, notes: Sequence[str]) -> None:
        with self._lock:
            self._queue(queue).retried.difference_update(notes)

    # -- what flaws.py turns --

    def _row(self, job: Job) -> "_Row | None":
        """Find what is stored of a job, whoever holds it now."""
        return self._queue(job.queue).rows.get(job.id)

    def _place(self, job: Job, available_at: int, seq: int, now: int) -> None:
        """Give a job that waits another place in the line."""
        there = self._queue(job.queue)
        row = there.rows[job.id]
        there.line.put(row, (available_at, seq), (row.attempts, row.reserved_at, row.token), now)

    def _take_out(self, job: Job) -> bool:
        """Delete what is stored of a job, whoever holds it now; False where nothing is."""
        row = self._row(job)
        if row is not None:
            self._queue(job.queue).drop(row)
        return row is not None

    def _put_in(self, reservation: Reservation) -> None:
        """Store a job as reserved by this reservation, also where it is gone or another's by now."""
        job, there = reservation.job, self._queue(reservation.job.queue)
        uid = job.uid if there.uids.get(job.uid, job.id) == job.id else f"{job.uid}-{job.id}"
        there.rows[job.id] = _Row(
            job.id, uid, job.name, job.body, us(job.dispatched_at), us(job.available_at), 0, job.attempts,
            us(job.reserved_at or 0.0), reservation.token,
        )  # fmt: skip
        there.uids[uid] = job.id

    def _queue(self, queue: str) -> "_Queue":
        if self._closed:
            raise QueueClosed()
        there = self._queues.get(queue)
        if there is None:
            there = self._queues[queue] = _Queue(
                _ByTime() if self.order == "available_at" else _ByArrival(), self._lock
            )
        return there


_new = tuple.__new__  # of a NamedTuple, in less than half the time that its own takes
_Place = tuple[int, int]  # available_at, seq
_Held = tuple[int, int | None, str | None]  # attempts, reserved_at, token


@dataclass(slots=True)
class _Row:
    """A job; every time in microseconds."""

    id: int
    uid: str
    name: str
    body: str
    dispatched_at: int
    available_at: int
    seq: int
    attempts: int = 0
    reserved_at: int | None = None
    token: str | None = None
    listed: bool = False
    entry: int = 0

    def job(self, queue: str) -> Job:
        at, held = self.available_at, self.reserved_at
        return _new(Job, (
            self.id, self.uid, queue, self.name, self.body, self.attempts, self.dispatched_at / 1_000_000,
            math.inf if at >= NEVER else at / 1_000_000, None if held is None else held / 1_000_000,
        ))  # fmt: skip


def _place(row: _Row) -> tuple[int, int]:
    return row.available_at, row.seq


class _Queue:
    """One queue's rows, their line, the failures on their way to the table, and the marks."""

    def __init__(self, line: "_ByTime | _ByArrival", lock: "threading.RLock") -> None:
        self.line = line
        self.rows: dict[int, _Row] = {}
        self.uids: dict[str, int] = {}
        self.failing: dict[str, Failing] = {}
        self.retried: set[str] = set()
        self.tokens, self.waiting, self.awake = 0, 0, threading.Condition(lock)
        self.marks: dict[tuple[str, str], int] = {}
        self._last_id = 0
        self._last_seq = 0

    def push(self, new: NewJob, now: int, available_at: int, queue: str) -> Job:
        uid, name, body, _ = new
        if available_at < now:
            available_at = now
        if uid in self.failing:
            return Job(0, uid, queue, name, body, 0, from_us(now), from_us(available_at))
        if uid in self.uids:
            return self.rows[self.uids[uid]].job(queue)
        self._last_id = id = self._last_id + 1
        self._last_seq = seq = self._last_seq + 1
        row = _Row(id, uid, name, body, now, available_at, seq)
        self.line.put(row, (available_at, seq), (0, None, None), now)
        self.rows[id], self.uids[uid] = row, id
        self._awaken(now, available_at)
        return row.job(queue)

    def reserve(self, row: _Row, now: int, deadline: int, token: str, queue: str) -> Reservation:
        since, ran_out = row.available_at, row.reserved_at is not None
        if since > now:
            since = now
        self.line.put(row, (deadline, row.seq), (row.attempts + 1, now, token), None)
        return _new(Reservation, (row.job(queue), token, since / 1_000_000, ran_out))

    def wait(self, row: _Row, now: int, available_at: int) -> None:
        self.line.put(row, (available_at, self._next_seq()), (row.attempts, None, None), now)
        self._awaken(now, available_at)

    def held(self, reservation: Reservation) -> _Row | None:
        row = self.rows.get(reservation.job.id)
        return row if row is not None and row.token == reservation.token else None

    def drop(self, row: _Row) -> None:
        del self.rows[row.id], self.uids[row.uid]

    def _awaken(self, now: int, available_at: int) -> None:
        if available_at <= now and self.tokens < AT_ONCE:
            self.tokens += 1
            if self.waiting:
                self.awake.notify()

    def _next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq


class _ByTime:
    """The contract's order: one heap; an entry that is no longer its row's place is skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []

    def put(self, row: _Row, place: _Place, held: _Held, now: int | None) -> None:
        if place[0] < NEVER:
            heapq.heappush(self._heap, (*place, row.id))
        (row.available_at, row.seq), (row.attempts, row.reserved_at, row.token) = place, held

    def first(self, now: int, rows: dict[int, _Row]) -> int:
        """Tell from when on there is a row to reserve, and drop the entries before it; `NEVER` where there is none."""
        heap = self._heap
        while heap:
            available_at, seq, id = heap[0]
            row = rows.get(id)
            if row is not None and row.seq == seq and row.available_at == available_at:
                return available_at
            heapq.heappop(heap)
        return NEVER

    def take_one(self, there: "_Queue", now: int, deadline: int, tokens: Tokens, queue: str) -> Reservation | None:
        """Reserve the row that is due first."""
        heap, rows = self._heap, there.rows
        while heap:
            available_at, seq, id = heap[0]
            if available_at > now:
                break
            row = rows.get(id)
            if row is not None and row.seq == seq and row.available_at == available_at:
                return there.reserve(row, now, deadline, tokens.next(), queue)
            heapq.heappop(heap)
        return None

    def take(self, now: int, rows: dict[int, _Row], limit: int, reserve: Callable[[_Row], None]) -> bool:
        """Reserve at most so many rows that are due; False, since none is left to look at."""
        left = limit
        while self._heap and self._heap[0][0] <= now:
            available_at, seq, id = self._heap[0]
            row = rows.get(id)
            if row is None or (row.available_at, row.seq) != (available_at, seq):
                heapq.heappop(self._heap)
            elif left:
                left -= 1
                reserve(row)
            else:
                break
        return False


class _ByArrival:
    """The order of the `redis_list` layout: a list, and what is not due yet beside it."""

    def __init__(self) -> None:
        self._list: deque[tuple[int, int]] = deque()
        self._later: list[tuple[int, int, int, int]] = []

    def put(self, row: _Row, place: _Place, held: _Held, now: int | None) -> None:
        entry, listed = row.entry + 1, now is not None and place[0] <= now
        if listed:
            self._list.append((row.id, entry))
        elif place[0] < NEVER:
            heapq.heappush(self._later, (*place, row.id, entry))
        row.entry, row.listed = entry, listed
        (row.available_at, row.seq), (row.attempts, row.reserved_at, row.token) = place, held

    def first(self, now: int, rows: dict[int, _Row]) -> int:
        """Tell from when on there is a row to reserve; `NEVER` where there is none."""
        if any((row := rows.get(id)) is not None and row.entry == entry for id, entry in self._list):
            return now
        while self._later:
            available_at, _, id, entry = self._later[0]
            row = rows.get(id)
            if row is not None and row.entry == entry:
                return available_at
            heapq.heappop(self._later)
        return NEVER

    def take_one(self, there: "_Queue", now: int, deadline: int, tokens: Tokens, queue: str) -> Reservation | None:
        """Reserve the row that is first in the list."""
        found: list[Reservation] = []

        def reserve(row: _Row) -> None:
            found.append(there.reserve(row, now, deadline, tokens.next(), queue))

        while self.take(now, there.rows, 1, reserve) and not found:
            pass
        return found[0] if found else None

    def take(self, now: int, rows: dict[int, _Row], limit: int, reserve: Callable[[_Row], None]) -> bool:
        """Do what one call of the script does; True where it stopped at 100 and more may be left."""
        moved, skipped, left = self._move(now, rows), 0, limit
        while self._list and left and skipped < AT_ONCE:
            id, entry = self._list[0]
            row = rows.get(id)
            if row is not None and row.entry == entry:
                left -= 1
                reserve(row)
            else:
                skipped += 1
            self._list.popleft()
        return AT_ONCE in (moved, skipped)

    def _move(self, now: int, rows: dict[int, _Row]) -> int:
        moved = 0
        while moved < AT_ONCE and self._later and self._later[0][0] <= now:
            _, _, id, entry = self._later[0]
            row = rows.get(id)
            if row is not None and row.entry == entry:
                self._list.append((id, entry + 1))
                row.entry, row.listed = entry + 1, True
                moved += 1
            heapq.heappop(self._later)
        return moved
