"""The contract in plain Python: the reference that the other drivers are compared with.

It forgets everything when its process ends, which is what ADR-006 rejected it for.

A Ctrl-C may strike between any two calls. What a verb does to one job is therefore one statement (`memory_queue` says
how); for several jobs it is deferred.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache

from qlab.clock import NEVER, from_us, us
from qlab.driver import Counts, Durability, Lane, Mark
from qlab.drivers.failed_jobs import FailedJobs, Failing, StagedFailures
from qlab.drivers.memory_queue import ListedQueue, MemoryQueue, Row
from qlab.errors import QueueClosed
from qlab.forks import free_in_children
from qlab.interrupts import Deferred
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.tokens import Tokens

_FAR = 9e9  # seconds; `us` looks closer at what is farther away
_us_of = lru_cache(64)(us)  # of what is the same for every job


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
        self._queues: dict[str, MemoryQueue] = {}
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
        new, moment = jobs[0], round(now * 1_000_000) if -_FAR < now < _FAR else us(now)
        at = moment if new.available_at == now else us(new.available_at)
        with self._lock:
            there = self._queues.get(queue) or self._queue(queue)
            return [there.push(new, moment, at, queue)]

    def _push(self, queue: str, jobs: Sequence[NewJob], now: int) -> list[Job]:
        moments = [us(job.available_at) for job in jobs]
        with self._lock, Deferred():
            there = self._queue(queue)
            return [there.push(job, now, at, queue) for job, at in zip(jobs, moments, strict=True)]

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        moment = round(now * 1_000_000) if -_FAR < now < _FAR else us(now)
        deadline = NEVER if retry_after is None else moment + _us_of(retry_after)
        if limit == 1:
            with self._lock:
                there = self._queues.get(queue) or self._queue(queue)
                held = there.take_one(moment, deadline, self._tokens, queue)
                if held is not None:
                    return [held]
                there.tokens = 0  # of jobs that are gone
                return []
        with self._lock, Deferred():
            there = self._queue(queue)
            reservations = there.take(moment, deadline, limit, self._tokens, queue)
            if limit and not reservations:
                there.tokens = 0
        return reservations

    def lane(self, queue: str) -> Lane | None:
        return MemoryLane(self, queue) if type(self) is MemoryDriver else None  # a flaw has verbs of its own

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        queue = reservation[0][2]
        with self._lock:
            there = self._queues.get(queue) or self._queue(queue)
            return there.complete(reservation)

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        queue, moment = reservation[0][2], round(now * 1_000_000) if -_FAR < now < _FAR else us(now)
        deadline = NEVER if retry_after is None else moment + _us_of(retry_after)
        with self._lock:  # an interrupt in between leaves the job completed and none reserved
            there = self._queues.get(queue) or self._queue(queue)
            completed = there.complete(reservation)
            following = there.take_one(moment, deadline, self._tokens, queue)
            if following is None:
                there.tokens = 0  # of jobs that are gone
            return completed, following

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
            there.place(row, us(now) + us(seconds), row.seq, row.token, row.job, None)
            return True

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        moment = us(now)
        with self._lock, Deferred():
            there = self._queue(queue)
            held = sorted(
                row
                for row in there.rows.values()
                if row.job.reserved_at is not None and (force or row.available_at <= moment)
            )
            return [there.wait(row, moment, moment) for row in held]

    def clear(self, queue: str, *, now: float) -> int:
        with self._lock:
            return self._queue(queue).clear()

    def counts(self, queue: str, *, now: float) -> Counts:
        moment = us(now)
        with self._lock:
            there = self._queue(queue)
            waiting = [row for row in there.rows.values() if row.available_at > moment and not row.listed]
            reserved = sum(row.job.reserved_at is not None for row in waiting)
            ready, delayed = len(there.rows) - len(waiting), len(waiting) - reserved
            failing, notes = list(there.failing.values()), set(there.retried)
        return Counts(ready, delayed, reserved, self._count_failed(queue, failing, notes))

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        with self._lock:
            return [row.job for row in sorted(self._queue(queue).rows.values())]

    def next_due(self, queue: str, *, now: float) -> float | None:
        moment = us(now)
        with self._lock:
            first = self._queue(queue).first(moment)
        return None if first >= NEVER else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        with self._lock:
            rows = self._queue(queue).rows.values()
            return [
                f"job {row.job.id} is reserved without a token"
                for row in rows
                if (row.job.reserved_at is None) != (row.token is None)
            ]

    def wait(self, queue: str, seconds: float) -> bool:
        with self._lock:
            there = self._queue(queue)
            there.renew(self._lock)
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
            job = row.job
            failed = FailedJob(
                None, job.uid, job.queue, job.name, job.body, attempts, error, traceback, job.dispatched_at,
                from_us(now),
            )  # fmt: skip
            entry = Failing(reservation.token, failed)
            there.failing[job.uid] = entry
            del there.rows[job.id], there.uids[job.uid]
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

    def _made_anew(self, there: MemoryQueue, row: FailedJob, name: str, now: int) -> Job | None:
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

    # -- what the flaws turn --

    def _row(self, job: Job) -> Row | None:
        """Find what is stored of a job, whoever holds it now."""
        return self._queue(job.queue).rows.get(job.id)

    def _place(self, job: Job, available_at: int, seq: int, now: int) -> None:
        """Give a job that waits another place in the line."""
        there = self._queue(job.queue)
        row = there.rows[job.id]
        there.place(row, available_at, seq, row.token, row.job, now)

    def _recount(self, job: Job, more: int) -> None:
        """Count some attempts more, or fewer, of a job."""
        there = self._queue(job.queue)
        row = there.rows.get(job.id)
        if row is not None:
            attempts = row.job.attempts + more
            there.place(row, row.available_at, row.seq, row.token, row.job._replace(attempts=attempts), None)

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
        stored = job._replace(uid=uid, reserved_at=job.reserved_at or 0.0)
        there.rows[job.id] = Row(us(job.available_at), 0, there.next_seq() << 32, stored, reservation.token)
        there.uids[uid] = job.id

    def _queue(self, queue: str) -> MemoryQueue:
        if self._closed:
            raise QueueClosed()
        there = self._queues.get(queue)
        if there is None:
            made = MemoryQueue if self.order == "available_at" else ListedQueue
            there = self._queues[queue] = made(self._lock)
        return there


class MemoryLane:
    """A queue in this process, in microseconds.

    Args:
        driver: The store.
        queue: The queue's name.
    """

    __slots__ = ("_driver", "_queue")

    def __init__(self, driver: MemoryDriver, queue: str) -> None:
        self._driver = driver
        self._queue = queue

    def push(self, new: NewJob, now: int, available_at: int) -> Job:
        """Store a job that may be reserved from a moment on, whatever it says itself."""
        driver, queue = self._driver, self._queue
        with driver._lock:  # noqa: SLF001 - it is a part of the driver
            there = driver._queues.get(queue) or driver._queue(queue)  # noqa: SLF001 - as above
            return there.push(new, now, available_at, queue)

    def reserve(self, now: int, retry_after: float | None) -> Reservation | None:
        """Reserve the job that has been claimable longest; the span is in seconds."""
        driver, queue = self._driver, self._queue
        deadline = NEVER if retry_after is None else now + _us_of(retry_after)
        with driver._lock:  # noqa: SLF001 - as above
            there = driver._queues.get(queue) or driver._queue(queue)  # noqa: SLF001 - as above
            held = there.take_one(now, deadline, driver._tokens, queue)  # noqa: SLF001 - as above
            if held is None:
                there.tokens = 0  # of jobs that are gone
            return held
