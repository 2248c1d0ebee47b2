"""One queue of the memory driver: its rows, and the line in which they wait.

A row is replaced and never changed, and its place in a line is the row itself: a place whose row was replaced since
is nobody's, and is skipped. So a Ctrl-C finds a job before or after: the new row is first put in a line, where it harms
nobody, and then takes the old one's place in one statement without a call.

Nearly all jobs become ready in the order in which they are pushed, and are reserved for one span of time: such rows
stand in two plain lines, at whose ends they are put and taken. Only what is out of order goes into a heap.
"""

import heapq
import math
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from qlab.clock import NEVER
from qlab.drivers.failed_jobs import Failing
from qlab.job import Job, NewJob, Reservation
from qlab.tokens import Tokens

AT_ONCE = 100
"""How many jobs that fell due, and how many skipped items, one call looks at where `order="arrival"`."""

_STALE = 1_000
"""How many places that are nobody's are kept, and as many as twice the rows: those of long reservations that ended."""

_new = tuple.__new__  # makes a NamedTuple in less than half the time


class Row(NamedTuple):
    """What is stored of a job.

    Attributes:
        available_at: As the job's, in microseconds.
        seq: The serial number of its last dispatch, release or recover.
        turn: Tells it from the job's earlier rows with the same serial number, so that no two are equal.
        job: The job.
        token: The reservation's token; None while it waits.
        listed: Whether it is in the list of `order="arrival"`.
    """

    available_at: int
    seq: int
    turn: int
    job: Job
    token: str | None = None
    listed: bool = False


class MemoryQueue:
    """One queue's rows in the contract's order, the failures on their way to the table, and the marks.

    Args:
        lock: The driver's, held by whoever calls.

    Attributes:
        rows: What is stored, by id.
        uids: The ids by uid.
        ready: Rows that wait and were due when they came, in order.
        reserved: Rows that are reserved, in order.
        heap: All other rows.
        failing: The failures that wait for their rows, by uid.
        retried: The notes of rows that were retried.
        tokens: How many jobs became ready since somebody last found none.
        awake: Where a worker waits for one.
        waiting: How many wait there.
        marks: The marks, by kind and name.
    """

    lists = False

    def __init__(self, lock: "threading.RLock") -> None:
        self.rows: dict[int, Row] = {}
        self.uids: dict[str, int] = {}
        self.ready: deque[Row] = deque()
        self.reserved: deque[Row] = deque()
        self.heap: list[Row] = []
        self.failing: dict[str, Failing] = {}
        self.retried: set[str] = set()
        self.tokens = 0
        self.renew(lock)
        self.marks: dict[tuple[str, str], int] = {}
        self._last_id = 0
        self._last_seq = 0

    def renew(self, lock: "threading.RLock") -> None:
        """Wait with a lock; a forked child has another than its parent."""
        if getattr(self, "_lock", None) is not lock:
            self._lock, self.awake, self.waiting = lock, threading.Condition(lock), 0

    def push(self, new: NewJob, now: int, available_at: int, queue: str) -> Job:
        """Store a job, unless its uid is there; times in microseconds."""
        uid, name, body, _ = new
        if uid in self.uids and uid not in self.failing:
            return self.rows[self.uids[uid]].job
        if available_at < now:
            available_at = now
        id = 0 if uid in self.failing else self._last_id + 1
        at = math.inf if available_at >= NEVER else available_at / 1_000_000
        job = _new(Job, (id, uid, queue, name, body, 0, now / 1_000_000, at, None))
        if not id:
            return job
        self._last_id, self._last_seq = id, self._last_seq + 1
        row = _new(Row, (available_at, self._last_seq, 0, job, None, self.lists and available_at <= now))
        ready = self.ready
        if available_at <= now and not self.lists and (not ready or ready[-1] < row):
            ready.append(row)  # as `enter` does
        else:
            self.enter(row, now)
        self.rows[id], self.uids[uid] = row, id
        if available_at <= now and self.tokens < AT_ONCE:
            self.tokens += 1
            if self.waiting:
                self._awaken()
        return job

    def take_one(self, now: int, deadline: int, tokens: Tokens, queue: str) -> Reservation | None:
        """Reserve the row that is due first; times in microseconds."""
        line: deque[Row] | list[Row] = self.ready
        reserved, heap = self.reserved, self.heap
        if (
            not line
            or self.rows.get(line[0][3][0]) is not line[0]
            or (reserved and reserved[0][0] <= now)
            or (heap and heap[0][0] <= now)
        ):
            line = self._first_line(now)
        if not line or line[0][0] > now:
            return None
        row = line[0]
        available_at, seq, turn, job, _, _ = row
        id, uid, _, name, body, attempts, dispatched_at, _, held_at = job
        token = tokens.next()
        until = math.inf if deadline >= NEVER else deadline / 1_000_000
        taken = _new(Job, (id, uid, queue, name, body, attempts + 1, dispatched_at, until, now / 1_000_000))
        reservation = _new(Reservation, (taken, token, available_at / 1_000_000, held_at is not None))
        fresh = _new(Row, (deadline, seq, turn + 1, taken, token, False))
        if deadline < NEVER and len(reserved) < _STALE and (not reserved or reserved[-1] < fresh):
            reserved.append(fresh)  # as `enter` does
        else:
            self.enter(fresh, None)
        self.rows[id] = fresh
        if line is heap:
            heapq.heappop(heap)
        else:
            line.popleft()  # type: ignore[union-attr]  # it is no list
        if len(reserved) > _STALE + 2 * len(self.rows):
            self.reserved = self._not_stale(reserved, fresh)
        return reservation

    def complete(self, reservation: Reservation) -> bool:
        """Forget a row that is done; False where its reservation was superseded."""
        rows, reserved = self.rows, self.reserved
        row = rows.get(reservation[0][0])
        if row is None or row[4] != reservation[1]:
            return False
        job = row[3]
        del rows[job[0]], self.uids[job[1]]
        while reserved and rows.get(reserved[0][3][0]) is not reserved[0]:
            reserved.popleft()  # a line of jobs that are done would be looked through again and again
        return True

    def take(self, now: int, deadline: int, limit: int, tokens: Tokens, queue: str) -> list[Reservation]:
        """Reserve at most so many rows; times in microseconds."""
        found: list[Reservation] = []
        while len(found) < limit and (held := self.take_one(now, deadline, tokens, queue)) is not None:
            found.append(held)
        return found

    def wait(self, row: Row, now: int, available_at: int) -> Job:
        """Let a row wait, behind those that may be reserved by then; times in microseconds."""
        waiting = self.place(row, available_at, self.next_seq(), None, row.job._replace(reserved_at=None), now)
        if available_at <= now and self.tokens < AT_ONCE:
            self.tokens += 1
            if self.waiting:
                self._awaken()
        return waiting

    def place(self, row: Row, available_at: int, seq: int, token: str | None, job: Job, now: int | None) -> Job:
        """Give a row another place.

        Args:
            row: The row.
            available_at: From when it may be reserved, in microseconds.
            seq: Its serial number.
            token: Its reservation's token.
            job: What it becomes, but for that moment.
            now: The moment, in microseconds; None where it is reserved.
        """
        listed = self.lists and now is not None and available_at <= now
        job = job._replace(available_at=math.inf if available_at >= NEVER else available_at / 1_000_000)
        fresh = Row(available_at, seq, row.turn + 1, job, token, listed)
        self.enter(fresh, now)
        self.rows[job.id] = fresh
        return job

    def next_seq(self) -> int:
        """Give a serial number that is larger than those before."""
        self._last_seq += 1
        return self._last_seq

    def held(self, reservation: Reservation) -> Row | None:
        """Find the row of a reservation; None where that was superseded."""
        row = self.rows.get(reservation.job.id)
        return row if row is not None and row.token == reservation.token else None

    def drop(self, row: Row) -> None:
        """Forget a row."""
        del self.rows[row.job.id], self.uids[row.job.uid]

    def clear(self) -> int:
        """Forget every row, and say how many there were."""
        cleared = len(self.rows)
        ready, reserved = deque[Row](), deque[Row]()
        self.rows, self.uids, self.ready, self.reserved, self.heap, self.tokens = {}, {}, ready, reserved, [], 0
        return cleared

    # -- the lines --

    def enter(self, row: Row, now: int | None) -> None:
        """Put a row in a line; one that will never be due has no place in any.

        Args:
            row: The row.
            now: The moment, in microseconds; None where it is reserved.
        """
        at = row[0]
        line = self.reserved if now is None else self.ready
        if at >= NEVER:
            return
        if (now is None or at <= now) and (not line or line[-1] < row):
            line.append(row)
            if now is None and len(line) > _STALE + 2 * len(self.rows):
                self.reserved = self._not_stale(self.reserved, row)  # only these leave from the middle of their line
        else:
            self._put_in_heap(row)

    def _put_in_heap(self, row: Row) -> None:
        heapq.heappush(self.heap, row)
        if len(self.heap) > _STALE + 2 * len(self.rows):
            self.heap[:] = sorted(self._not_stale(self.heap, row))  # in one statement, and what is sorted is a heap

    def _not_stale(self, line: Iterable[Row], new: Row) -> deque[Row]:
        """Give the places of a line that are somebody's, and that of a row which is about to be its job's."""
        return deque(row for row in line if row is new or self.rows.get(row.job.id) is row)

    def first(self, now: int) -> int:
        """Tell from when on there is a row to reserve, in microseconds; `NEVER` where there is none."""
        line = self._first_line(NEVER)
        return line[0][0] if line else NEVER

    def _first_line(self, now: int) -> "deque[Row] | list[Row]":
        """Drop what is stale at the heads of the lines, and tell whose head is first of those that are due."""
        ready, held, heap, get = self.ready, self.reserved, self.heap, self.rows.get
        while ready and get(ready[0][3][0]) is not ready[0]:
            ready.popleft()
        line: deque[Row] | list[Row] = ready
        if held and held[0][0] <= now:
            while held and get(held[0][3][0]) is not held[0]:
                held.popleft()
            if held and (not line or held[0] < line[0]):
                line = held
        if heap and heap[0][0] <= now:
            while heap and get(heap[0][3][0]) is not heap[0]:
                heapq.heappop(heap)
            if heap and (not line or heap[0] < line[0]):
                line = heap
        return line

    def _awaken(self) -> None:
        with suppress(RuntimeError):  # a parent's lock: who waited there is not in its forked child
            self.awake.notify()


class ListedQueue(MemoryQueue):
    """A queue in the order of the `redis_list` layout: a list, and what is not due yet beside it."""

    lists = True

    def __init__(self, lock: "threading.RLock") -> None:
        super().__init__(lock)
        self.list: deque[Row] = deque()

    def take_one(self, now: int, deadline: int, tokens: Tokens, queue: str) -> Reservation | None:
        found = self.take(now, deadline, 1, tokens, queue)
        return found[0] if found else None

    def take(self, now: int, deadline: int, limit: int, tokens: Tokens, queue: str) -> list[Reservation]:
        """Do what calls of the script do, again where one stopped at 100 and more may be left."""
        found: list[Reservation] = []
        more = True
        while more and len(found) < limit:
            moved, skipped = self._move(now), 0
            while self.list and len(found) < limit and skipped < AT_ONCE:
                row = self.list[0]
                if self.rows.get(row.job.id) is row:
                    found.append(self._reserve(row, now, deadline, tokens.next(), queue))
                else:
                    skipped += 1
                self.list.popleft()
            more = AT_ONCE in (moved, skipped)
        return found

    def clear(self) -> int:
        cleared = len(self.rows)
        listed = deque[Row]()
        self.rows, self.uids, self.heap, self.list, self.tokens = {}, {}, [], listed, 0
        return cleared

    def enter(self, row: Row, now: int | None) -> None:
        if row.listed:
            self.list.append(row)
        elif row[0] < NEVER:
            self._put_in_heap(row)

    def first(self, now: int) -> int:
        return now if any(self.rows.get(row.job.id) is row for row in self.list) else super().first(now)

    def _reserve(self, row: Row, now: int, deadline: int, token: str, queue: str) -> Reservation:
        job = row.job._replace(queue=queue, attempts=row.job.attempts + 1, reserved_at=now / 1_000_000)
        taken = self.place(row, deadline, row.seq, token, job, None)
        return Reservation(taken, token, min(row.available_at, now) / 1_000_000, row.job.reserved_at is not None)

    def _move(self, now: int) -> int:
        moved = 0
        while moved < AT_ONCE and self.heap and self.heap[0].available_at <= now:
            row = self.heap[0]
            if self.rows.get(row.job.id) is row:
                listed = row._replace(turn=row.turn + 1, listed=True)
                self.list.append(listed)
                self.rows[row.job.id] = listed
                moved += 1
            heapq.heappop(self.heap)
        return moved
