"""A table as the queue: a reservation is one `UPDATE … RETURNING`; a job can commit with the row that it is about."""

import sqlite3
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from qlab.clock import NEVER, from_us, us
from qlab.driver import Counts, Driver, Durability, Mark
from qlab.drivers.database import Database, Transaction
from qlab.drivers.failed_jobs import failed_job, forgotten, ids_of, rows_of
from qlab.drivers.files import MEMORY
from qlab.errors import UnusableStore
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.tokens import Tokens

_LOSES_AT_POWER_CUT = {
    "OFF": "recent jobs, and maybe the file",
    "NORMAL": "the last moments' commits, never the file's soundness",
    "FULL": "nothing",
    "EXTRA": "nothing",
}


class SqliteDriver(Driver):
    """A store in one SQLite file, beside the application's own tables or alone.

    Args:
        path: The file, or `:memory:` for one that only this process sees.
        synchronous: `OFF`, `NORMAL`, `FULL` or `EXTRA`: what a power cut may lose. With a rollback journal `FULL`
            becomes `EXTRA`, which also syncs the folder from which the journal was deleted.
        journal: `WAL` or `DELETE`; by default what the file has, and WAL for a new one.
        lock_wait: How many seconds a lock is waited for.
        create: Whether the file and its tables may be made.

    Raises:
        MissingRequirement: SQLite is older than 3.37.
        UnusableStore: The file is no database, has another table of the same name, or is not there and may not be made.
    """

    name = "sqlite"
    tables: tuple[str, ...] = ("jobs", "jobs_seq", "failed_jobs")
    folder = ""
    """Where its statements are, below `sql/`."""

    def __init__(
        self,
        path: str,
        *,
        synchronous: str = "NORMAL",
        journal: str | None = None,
        lock_wait: float = 30.0,
        create: bool = True,
    ) -> None:
        super().__init__()
        self.database = Database(
            path,
            schema=self.tables,
            folder=self.folder,
            synchronous=synchronous,
            journal=journal,
            lock_wait=lock_wait,
            create=create,
        )
        self.database.listeners = self._listeners
        self.url = _url(self.database)
        self._tokens = Tokens()

    @property
    def description(self) -> str:
        return self.database.description

    @property
    def private(self) -> bool:
        return self.database.path == MEMORY

    @property
    def durability(self) -> Durability:
        if self.database.path == MEMORY:
            return Durability("everything: the jobs are in the worker's process", "everything", "everything")
        normal_in_rollback = self.database.journal == "DELETE" and self.database.synchronous == "NORMAL"
        lost = (
            "at most the last commit, and rarely the file's soundness"
            if normal_in_rollback
            else _LOSES_AT_POWER_CUT[self.database.synchronous]
        )
        return Durability("nothing", "nothing", lost)

    def push(
        self,
        queue: str,
        jobs: Sequence[NewJob],
        *,
        now: float,
        resent: bool = False,
        connection: sqlite3.Connection | None = None,
    ) -> list[Job]:
        """Store jobs; with `connection`, in the transaction of an application that has the same file open."""
        if connection is not None:
            return self._push(self.database.join(connection), queue, jobs, us(now), resent)
        return self.database.transact(self._push, queue, jobs, us(now), resent)

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        asked = self._asked(queue, now, retry_after)
        rows = self.database.run("reserve", asked) if limit == 1 else self.database.transact(_claim, asked, limit)
        return [_reservation(row, asked) for row in rows]

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return bool(self.database.run("complete", _fence(reservation)))

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        asked = self._asked(reservation[0][2], now, retry_after)
        completed, rows = self.database.transact(_complete_and_reserve, _fence(reservation), asked)
        return completed, _reservation(rows[0], asked) if rows else None

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        def act(transaction: Transaction) -> bool:
            released = bool(transaction.run("release", _fence(reservation) | {"available_at": us(now) + us(delay)}))
            if released:
                transaction.run("release", which=1)
            return released

        return self.database.transact(act)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return bool(self.database.run("extend", _fence(reservation) | {"available_at": us(now) + us(seconds)}))

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        told = {"attempts": attempts, "error": error, "traceback": traceback, "now": us(now)}

        def act(transaction: Transaction) -> bool:
            transaction.run("fail", _fence(reservation) | told)
            return bool(transaction.run("fail", _fence(reservation), which=1))

        return self.database.transact(act)

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        def act(transaction: Transaction) -> list[Any]:
            until = NEVER if force else us(now)
            rows = transaction.run("recover", {"queue": queue, "now": us(now), "until": until})
            transaction.run("recover", {"count": len(rows)}, which=1)
            return rows

        return [_job(row[1:]) for row in sorted(self.database.transact(act))]

    def clear(self, queue: str, *, now: float) -> int:
        return len(self.database.run("clear", {"queue": queue}))

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        values = {"queue": queue, "after": after, "limit": -1 if limit is None else limit}
        return [failed_job(row) for row in self.database.run("failed", values)]

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        return [id for id, _ in ids_of(self.database, queue, before)]

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        def act(transaction: Transaction) -> list[tuple[int, Job]]:
            rows = rows_of(transaction, queue, ids, body)
            again = [NewJob(row.uid, row.name, row.body, now) for row in rows]
            jobs = self._push(transaction, queue, again, us(now), resent=False)
            for row in rows:
                transaction.run("retry", {"id": row.id}, which=1)
            return [(row.id, job) for row, job in zip(rows, jobs, strict=True) if row.id is not None]

        return self.database.transact(act)

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        return self.database.transact(lambda transaction: forgotten(transaction, queue, ids))

    def counts(self, queue: str, *, now: float) -> Counts:
        return Counts(*self.database.run("counts", {"queue": queue, "now": us(now)})[0])

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        return [_job(row) for row in self.database.run("jobs", {"queue": queue})]

    def next_due(self, queue: str, *, now: float) -> float | None:
        first = self.database.run("next_due", {"queue": queue})[0][0]
        return None if first is None or first >= NEVER else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        try:
            problems = [str(row[0]) for row in self.database.run("check") if row[0] != "ok"]
            odd = self.database.run("check", {"queue": queue}, which=1)
        except UnusableStore as error:
            return [str(error)]
        return problems + [f"job {row[0]} has a reservation without a token, or a token without one" for row in odd]

    def mark(self, queue: str, mark: Mark) -> None:
        values = {"queue": queue, "kind": mark.kind, "name": mark.name, "value": us(mark.value)}

        def act(transaction: Transaction) -> None:
            transaction.run("mark")
            transaction.run("mark", values, which=1)

        self.database.transact(act)

    def unmark(self, queue: str, kind: str, name: str) -> None:
        def act(transaction: Transaction) -> None:
            if transaction.run("marks"):
                transaction.run("unmark", {"queue": queue, "kind": kind, "name": name})

        self.database.transact(act)

    def marks(self, queue: str) -> list[Mark]:
        if not self.database.run("marks"):
            return []
        rows = self.database.run("marks", {"queue": queue}, which=1)
        return [Mark(kind, name, from_us(value)) for kind, name, value in rows]

    def blocked(self) -> float:
        return self.database.blocked()

    def close(self) -> None:
        self.database.close()

    def _push(self, transaction: Transaction, queue: str, jobs: Sequence[NewJob], now: int, resent: bool) -> list[Job]:
        """Store jobs in a transaction, whoever opened it."""
        if not jobs:
            return []
        last = transaction.run("push", {"count": len(jobs)})[0][0]
        first = last - len(jobs) + 1
        if len(jobs) > 1 and not resent and (stored := _push_together(transaction, queue, jobs, now, first)):
            return stored
        return [_push_one(transaction, queue, job, now, first + i, resent) for i, job in enumerate(jobs)]

    def _asked(self, queue: str, now: float, retry_after: float | None) -> dict[str, Any]:
        """Say what is asked of `reserve`, with a token for it."""
        moment = us(now)
        deadline = NEVER if retry_after is None else moment + us(retry_after)
        return {"queue": queue, "now": moment, "deadline": deadline, "token": self._tokens.next()}


def _claim(transaction: Transaction, asked: dict[str, Any], limit: int) -> list[Any]:
    """Claim one after the other: `WHERE id IN (…)` is a scan once ANALYZE has met the table with a single job."""
    rows: list[Any] = []
    while len(rows) < limit and (found := transaction.run("reserve", asked)):
        rows += found
    return rows


def _complete_and_reserve(
    transaction: Transaction, fence: dict[str, Any], asked: dict[str, Any]
) -> tuple[bool, list[Any]]:
    return bool(transaction.run("complete", fence)), transaction.run("reserve", asked)


def _reservation(row: Sequence[Any], asked: dict[str, Any]) -> Reservation:
    """Tell what was reserved; tuples made without their names, for this is done once a job."""
    since, ran_out, id, uid, name, body, attempts, dispatched_at = row
    at, until = asked["now"] / 1_000_000, from_us(asked["deadline"])
    job = tuple.__new__(Job, (id, uid, asked["queue"], name, body, attempts, dispatched_at / 1_000_000, until, at))
    return tuple.__new__(Reservation, (job, f"{asked['token']}-{id}", since / 1_000_000, ran_out > 0))


def _push_together(
    transaction: Transaction, queue: str, jobs: Sequence[NewJob], now: int, seq: int
) -> list[Job] | None:
    """Store jobs by one statement that is given all of them; None where it met one that is there already.

    That one is then for `_push_one`, as are those before it, which it will find.
    """
    moments = {when: max(now, us(when)) for when in {job.available_at for job in jobs}}
    rows = [
        (uid, queue, name, body, now, moments[when], place) for place, (uid, name, body, when) in enumerate(jobs, seq)
    ]
    if not transaction.run_many("push", rows, which=4):
        return None
    first, last = (transaction.run("push", {"queue": queue, "uid": jobs[end].uid}, which=2)[0][0] for end in (0, -1))
    if last - first != len(jobs) - 1:  # an application's trigger makes jobs of its own
        return None
    at, ends = from_us(now), {when: from_us(moment) for when, moment in moments.items()}
    return [
        tuple.__new__(Job, (id, uid, queue, name, body, 0, at, ends[when], None))
        for id, (uid, name, body, when) in enumerate(jobs, first)
    ]


def _push_one(transaction: Transaction, queue: str, job: NewJob, now: int, seq: int, resent: bool) -> Job:
    available_at = max(now, us(job.available_at))
    values: dict[str, Any] = {
        "uid": job.uid, "queue": queue, "name": job.name, "payload": job.body,
        "now": now, "available_at": available_at, "seq": seq,
    }  # fmt: skip
    failed = resent and transaction.run("push", values, which=3)
    rows = [[0]] if failed else transaction.run("push", values, which=1)
    if not rows:
        return _job(transaction.run("push", values, which=2)[0])
    return Job(rows[0][0], job.uid, queue, job.name, job.body, 0, from_us(now), from_us(available_at))


def _fence(reservation: Reservation) -> dict[str, Any]:
    return {"id": reservation[0][0], "token": reservation[1]}


def _job(row: Sequence[Any]) -> Job:
    id, uid, queue, name, body, attempts, dispatched_at, available_at, reserved_at = row
    held = None if reserved_at is None else from_us(reserved_at)
    return Job(id, uid, queue, name, body, attempts, from_us(dispatched_at), from_us(available_at), held)


def _url(database: Database) -> str:
    asked = {
        "synchronous": (database.synchronous, "NORMAL"),
        "journal": (database.journal, "WAL"),
        "lock_wait": (database.lock_wait, 30.0),
    }
    options = "&".join(f"{name}={value}" for name, (value, usual) in asked.items() if value != usual)
    path = database.path if database.path == MEMORY else quote(database.path)
    return f"sqlite:///{path}" + (f"?{options}" if options and database.path != MEMORY else "")
