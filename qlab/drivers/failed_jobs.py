"""The table `failed_jobs`, and how a job gets there and back when it waits in another store.

Where table and jobs are in one SQLite file, failing is one transaction. Elsewhere it is three ordered steps, each
safe to repeat:

1. the store moves the job with its error to `failing`: from here on it counts as failed;
2. a row is inserted, once for each reservation that failed;
3. the store drops its `failing` entry.

Retry likewise: the store makes the jobs anew, drops their `failing` entries and notes the rows in `retried`; the rows
are deleted; the notes are dropped. Whoever comes next finishes what a dead process left, under the table's write lock
and after looking again in the store. A note is `file:id:uid`, because the store may be used with another file, where
the same number is another row.
"""

import math
import os
import threading
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from qlab.clock import from_us, us
from qlab.driver import Driver
from qlab.drivers.database import Database, Transaction
from qlab.drivers.files import MEMORY, is_there
from qlab.errors import NoQueueThere, QlabError
from qlab.escape import without_password
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.log import log


class Failing(NamedTuple):
    """A failure that the store holds until its row is written.

    Attributes:
        token: The reservation's token: it tells this failure from a later one of the same job.
        failed: What the row will say.
    """

    token: str
    failed: FailedJob


class FailedJobs:
    """The table, in a SQLite file that is made when the first job fails.

    Args:
        url: `sqlite:///path`, or `sqlite:///:memory:`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = file_of(url)
        self.listeners: list[Any] = []
        self._writing: Database | None = None
        self._reading: Database | None = None
        self._name: str | None = None
        self._guards: dict[int, threading.Lock] = {}

    @property
    def _guard(self) -> threading.Lock:
        """A lock of each process: a thread that held it while this one was forked is not here to let it go."""
        return self._guards.setdefault(os.getpid(), threading.Lock())

    def database(self) -> Database:
        """Open the file to write, making it where it is not there yet."""
        with self._guard:
            if self._writing is None:
                self._writing = self._open(("failed_jobs", "failures_written", "failed_jobs_file"), create=True)
            return self._writing

    def there(self) -> Database | None:
        """Open the file to read; None, and nothing made, where no job has ever failed."""
        with self._guard:
            if self._writing is None and self._reading is None and self.path != MEMORY and is_there(self.path):
                with suppress(NoQueueThere):
                    self._reading = self._open(("failed_jobs",), create=False)
            return self._writing or self._reading

    def rows(self, queue: str, after: int, limit: int | None) -> list[FailedJob]:
        """Read a page of a queue's rows, by id."""
        values = {"queue": queue, "after": after, "limit": -1 if limit is None else limit}
        database = self.there()
        return [failed_job(row) for row in database.run("failed", values)] if database else []

    def ids(self, queue: str, before: float | None) -> list[tuple[int, str]]:
        """List `(id, uid)` of a queue's rows that failed at or before a moment, by id."""
        database = self.there()
        return ids_of(database, queue, before) if database else []

    def note(self, id: int | None, uid: str) -> str:
        """Name a row so that no row of any other file has the same name."""
        if self._name is None:
            self._name = str(self.database().run("file_name")[0][0])
        return f"{self._name}:{id}:{uid}"

    def written(self, failing: "Sequence[Failing]") -> set[str]:
        """Tell the tokens of these failures whose rows were written, whoever took the rows since."""
        if not failing or self.there() is None:
            return set()
        return {row[0] for row in self.database().run("written", which=2)}

    def _open(self, schema: Sequence[str], *, create: bool) -> Database:
        database = Database(self.path, schema=schema, create=create)
        database.listeners = self.listeners
        return database

    def close(self) -> None:
        """Close the file."""
        for database in filter(None, (self._writing, self._reading)):
            database.close()


def ids_of(source: Database | Transaction, queue: str, before: float | None) -> list[tuple[int, str]]:
    """List `(id, uid)` of a queue's rows that failed at or before a moment (in seconds; None for all), by id."""
    moment = us(math.inf if before is None else before)
    return [(row[0], row[1]) for row in source.run("failed_ids", {"queue": queue, "before": moment})]


def rows_of(table: Transaction, queue: str, ids: Sequence[int], body: str | None = None) -> list[FailedJob]:
    """Read a queue's rows with these ids, each once, in their order; with another payload where one is given."""
    found = [row for id in dict.fromkeys(ids) for row in table.run("retry", {"queue": queue, "id": id})]
    rows = [failed_job(row) for row in found]
    return rows if body is None else [row._replace(body=body) for row in rows]


def forgotten(table: Transaction, queue: str, ids: Sequence[int]) -> list[int]:
    """Delete the rows of a queue that have these ids; gives those that were there."""
    return [id for id in ids if table.run("forget", {"queue": queue, "id": id})]


def failed_job(row: Sequence[Any]) -> FailedJob:
    """Make the record of a row of `failed_jobs`."""
    id, uid, queue, name, body, attempts, error, traceback, dispatched_at, failed_at = row
    return FailedJob(id, uid, queue, name, body, attempts, error, traceback, from_us(dispatched_at), from_us(failed_at))


class StagedFailures(Driver):
    """What drivers whose jobs are not in SQLite share: failing and retrying in steps.

    Args:
        failed_jobs: The table.
    """

    def __init__(self, failed_jobs: FailedJobs) -> None:
        super().__init__()
        self.failed_jobs = failed_jobs
        failed_jobs.listeners = self._listeners

    # -- what the store does --

    @abstractmethod
    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        """Step 1 of a failure; False where the reservation was superseded."""

    @abstractmethod
    def _failing(self, queue: str) -> list[Failing]:
        """Read the failures that wait for their rows, in the order in which they happened."""

    @abstractmethod
    def _unstage(self, queue: str, failing: Sequence[Failing]) -> None:
        """Step 3 of a failure: drop these entries, where they are still the same failure."""

    @abstractmethod
    def _again(self, queue: str, rows: Sequence[FailedJob], now: int) -> list[Job | None]:
        """Step 1 of a retry: make the jobs anew and note the rows; None for a row that was noted already."""

    @abstractmethod
    def _noted(self, queue: str) -> set[str]:
        """Read the notes of rows that were retried and not yet deleted."""

    @abstractmethod
    def _drop_notes(self, queue: str, notes: Sequence[str]) -> None:
        """Step 3 of a retry."""

    @abstractmethod
    def _push(self, queue: str, jobs: Sequence[NewJob], now: int) -> list[Job]:
        """Store jobs whose uid is not there."""

    # -- the verbs --

    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        if not resent or self.failed_jobs.there() is None:
            return self._push(queue, jobs, us(now))

        # Under the lock, so that no failure moves between the look into the table and the push.
        def act(table: Transaction) -> list[Job]:
            failed = [bool(table.run("push", {"queue": queue, "uid": job.uid}, which=3)) for job in jobs]
            pushed = iter(
                self._push(queue, [job for job, there in zip(jobs, failed, strict=True) if not there], us(now))
            )
            return [_gone(queue, job, now) if there else next(pushed) for job, there in zip(jobs, failed, strict=True)]

        return self.failed_jobs.database().transact(act)

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        if not self._stage(reservation, us(now), attempts, error, traceback):
            return False
        try:
            self._finish(reservation.job.queue)
        except QlabError as problem:
            log.warning("job=%s is failed; its row will be written later: %s", reservation.job.id, problem)
        return True

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        # The store is read first: what moves to the table meanwhile is then seen twice, and not missed.
        failing, noted = self._failing(queue), self._noted(queue)
        # A row of a retry that was cut short counts no more: as many more are read.
        rows = self.failed_jobs.rows(queue, after, None if limit is None else limit + len(noted))
        if noted:
            rows = [row for row in rows if self.failed_jobs.note(row.id, row.uid) not in noted]
        written = self.failed_jobs.written(failing)
        return [*rows, *(entry.failed for entry in failing if entry.token not in written)][:limit]

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        self._finish(queue)
        return [id for id, _ in self.failed_jobs.ids(queue, before)]

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        self._finish(queue)
        if self.failed_jobs.there() is None:
            return []

        def act(table: Transaction) -> tuple[list[FailedJob], list[Job | None]]:
            rows = rows_of(table, queue, ids, body)
            jobs = self._again(queue, rows, us(now))
            for row in rows:
                table.run("retry", {"id": row.id}, which=1)
            return rows, jobs

        rows, jobs = self.failed_jobs.database().transact(act)
        try:
            self._drop_notes(queue, [self.failed_jobs.note(row.id, row.uid) for row in rows])
        except QlabError as problem:
            log.warning("queue=%s: jobs are retried; the notes of it will be dropped later: %s", queue, problem)
        return [(row.id, job) for row, job in zip(rows, jobs, strict=True) if row.id is not None and job is not None]

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        self._finish(queue)
        if self.failed_jobs.there() is None:
            return []
        return self.failed_jobs.database().transact(lambda table: forgotten(table, queue, ids))

    def _count_failed(self, queue: str, failing: Sequence[Failing], notes: set[str]) -> int:
        ids = self.failed_jobs.ids(queue, None)
        rows = sum(self.failed_jobs.note(*row) not in notes for row in ids) if notes else len(ids)
        written = self.failed_jobs.written(failing)
        return rows + sum(entry.token not in written for entry in failing)

    def _own_notes(self, queue: str) -> list[str]:
        """Tell the notes of rows of this file; another's stay until its owner has deleted its rows."""
        noted = self._noted(queue)
        if not noted or self.failed_jobs.there() is None:
            return []
        mine = self.failed_jobs.note(None, "").split(":")[0] + ":"
        return sorted(name for name in noted if name.startswith(mine))

    def _finish(self, queue: str) -> None:
        """Write the rows of failures that wait for them, and delete the rows of retries that died half way."""
        if not self._failing(queue) and not self._own_notes(queue):
            return
        failing, noted = self.failed_jobs.database().transact(lambda table: self._write(table, queue))
        self._unstage(queue, failing)
        self._drop_notes(queue, noted)

        def act(table: Transaction) -> None:
            for entry in failing:
                table.run("written", {"token": entry.token}, which=1)

        self.failed_jobs.database().transact(act)

    def _write(self, table: Transaction, queue: str) -> tuple[list[Failing], list[str]]:
        failing, noted = self._failing(queue), self._own_notes(queue)
        for id in (int(name.split(":")[1]) for name in noted):
            table.run("retry", {"id": id}, which=1)
        for entry in failing:
            # Once only: somebody may have taken the row by another store since, and the job with it.
            if table.run("written", {"token": entry.token}):
                table.run("keep", _row(entry.failed))
        return failing, noted


def file_of(url: str) -> str:
    """Tell the path in a `sqlite:///…` address.

    Raises:
        ValueError: It is another kind of address, or names no file.
    """
    parts = urlsplit(url)
    path = unquote(parts.path[1:])
    if parts.fragment:
        raise ValueError(f"{without_password(url)!r}: a # in a file's name is written %23")
    if not url.lower().startswith("sqlite:///") or not path:
        raise ValueError(
            f"{without_password(url)!r} names no SQLite file: write sqlite:///jobs.db, or sqlite:////an/absolute/path.db"
        )
    return path


def _row(failed: FailedJob) -> dict[str, Any]:
    return {
        "uid": failed.uid,
        "queue": failed.queue,
        "name": failed.name,
        "payload": failed.body,
        "attempts": failed.attempts,
        "error": failed.error,
        "traceback": failed.traceback,
        "dispatched_at": us(failed.dispatched_at),
        "failed_at": us(failed.failed_at),
    }


def _gone(queue: str, job: NewJob, now: float) -> Job:
    at = us(now)
    return Job(0, job.uid, queue, job.name, job.body, 0, from_us(at), from_us(max(at, us(job.available_at))))
