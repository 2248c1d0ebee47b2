"""ADR-006's table: the state is a word in the row, rows are kept, and jobs are reserved as the ADR prints it."""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from qlab.clock import from_us, us
from qlab.driver import Counts
from qlab.drivers.database import Database, Transaction
from qlab.drivers.sqlite import SqliteDriver
from qlab.job import FailedJob, Job, NewJob, Reservation


class Progress(NamedTuple):
    """How a job of one kind stands, as the table tells it.

    Attributes:
        job: The job's id.
        state: `queued`, `running`, `done` or `failed`.
        attempts: How many times it was claimed.
        done: How much of it is done, as it said last; 0 before it said anything.
        total: Of how much; 0 before it said anything.
        error: Why it failed; empty where it has not.

    Example:
        >>> from qlab.systems import Progress
        >>> scan = Progress(job=1, state="running", attempts=1, done=100, total=250, error="")
        >>> f"{scan.done / scan.total:.0%}"
        '40%'
    """

    job: int
    state: str
    attempts: int
    done: int
    total: int
    error: str


class VellumDriver(SqliteDriver):
    """A table beside the application's own, for a single process, that promises less than the contract.

    - no fence: the number of a job is all that settling asks for, so a worker that comes too late settles the run of
      another;
    - no expiry: a job whose worker died stays `running` until a process boots and calls `recover(force=True)`, and
      that takes the jobs of live workers too; `extend` has nothing to extend;
    - one queue: the table keeps no queue's name, so any name means the same jobs;
    - no identity: a push that is repeated makes a second job, and a retried job keeps its row and id;
    - ties go by id: a job that is given back goes before younger ones that are due since the same moment;
    - nothing is deleted: rows of jobs that are done stay, and the table grows;
    - when a job was claimed is not kept: `reserved_at` is the moment from which it could be.

    Args:
        path: The file.
        lock_wait: How many seconds a lock is waited for.
        create: Whether the file and its table may be made.

    Raises:
        UnusableStore: The file is no database, has another table `jobs`, or is not there and may not be made.

    Example:
        >>> import tempfile
        >>> from qlab import Policy, Queue
        >>> from qlab.systems import VellumDriver
        >>> forever = Policy(retry_after=None)
        >>> with (
        ...     tempfile.TemporaryDirectory() as folder,
        ...     Queue(VellumDriver(f"{folder}/v.db"), policy=forever) as queue,
        ... ):
        ...     _ = queue.handler("mail")(lambda job: None)
        ...     _ = queue.dispatch("mail"), queue.reserve()
        ...     len(queue.recover()), len(queue.recover(force=True))
        (0, 1)
    """

    name = "vellum"
    tables = ("jobs",)
    folder = "vellum"

    def __init__(self, path: str, *, lock_wait: float = 30.0, create: bool = True) -> None:
        super().__init__(path, lock_wait=lock_wait, create=create)
        self.url = self.url.replace("sqlite:", "vellum:", 1)

    @property
    def description(self) -> str:
        return f"a table with words for states, {super().description}"

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        _check_no_expiry(retry_after)
        reservations: list[Reservation] = []
        while len(reservations) < limit and (claimed := _claim(self.database, queue, us(now))):
            reservations.append(claimed)
        return reservations

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return bool(self.database.run("complete", {"id": reservation.job.id, "now": us(now)}))

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        _check_no_expiry(retry_after)

        def act(transaction: Transaction) -> tuple[bool, Reservation | None]:
            completed = bool(transaction.run("complete", {"id": reservation.job.id, "now": us(now)}))
            return completed, _claim(transaction, reservation.job.queue, us(now))

        return self.database.transact(act)

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        return bool(self.database.run("release", {"id": reservation.job.id, "run_after": us(now) + us(delay)}))

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return bool(self.database.run("extend", {"id": reservation.job.id}))

    def progress(self, reservation: Reservation, *, now: float, done: int, total: int) -> None:
        self.database.run("progress", {"id": reservation.job.id, "done": done, "total": total})

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        told = {"attempts": attempts, "error": error, "traceback": traceback, "now": us(now)}
        return bool(self.database.run("fail", {"id": reservation.job.id} | told))

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        rows = self.database.run("recover") if force else []
        return sorted((_job(queue, row) for row in rows), key=lambda job: (job.available_at, job.id))

    def clear(self, queue: str, *, now: float) -> int:
        return len(self.database.run("clear"))

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        values = {"after": after, "limit": -1 if limit is None else limit}
        return [_failed_job(queue, row) for row in self.database.run("failed", values)]

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        return [row[0] for row in self.database.run("failed_ids", {"before": us(inf if before is None else before)})]

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        told = {"now": us(now), "payload": body}

        def act(transaction: Transaction) -> list[tuple[int, Job]]:
            return [(id, _job(queue, row)) for id in ids for row in transaction.run("retry", told | {"id": id})]

        return self.database.transact(act)

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        return self.database.transact(
            lambda transaction: [id for id in ids if transaction.run("forget", {"id": id})],
        )

    def counts(self, queue: str, *, now: float) -> Counts:
        return Counts(*self.database.run("counts", {"now": us(now)})[0])

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        return [_job(queue, row) for row in self.database.run("jobs")]

    def next_due(self, queue: str, *, now: float) -> float | None:
        first = self.database.run("next_due")[0][0]
        return None if first is None else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        return [str(row[0]) for row in self.database.run("check") if row[0] != "ok"]

    def status(self, kind: str, library: int) -> Progress | None:
        """Tell how the latest job of a kind stands that a library's number is in the payload of; None where none is."""
        rows = self.database.run("status", {"kind": kind, "library": library})
        return Progress(*rows[0]) if rows else None

    def _push(self, transaction: Transaction, queue: str, jobs: Sequence[NewJob], now: int, resent: bool) -> list[Job]:
        pushed = []
        for job in jobs:
            run_after = max(now, us(job.available_at))
            values = {"kind": job.name, "payload": job.body, "run_after": run_after, "now": now}
            id = transaction.run("push", values)[0][0]
            pushed.append(_job(queue, (id, job.name, job.body, 0, now, run_after, "queued")))
        return pushed


def _check_no_expiry(retry_after: float | None) -> None:
    if retry_after is not None:
        raise ValueError(
            f"retry_after is {retry_after!r} s, but this table has no expiry: use Policy(retry_after=None), and "
            "recover(force=True) when the process boots"
        )


def _claim(source: Database | Transaction, queue: str, now: int) -> Reservation | None:
    claimed = source.run("reserve", (now,))
    if not claimed:
        return None
    id, kind, body, attempts = claimed[0]
    told = source.run("reserve", (id,), which=1)
    run_after, created_at = told[0] if told else (now, now)  # cleared in between
    job = _job(queue, (id, kind, body, attempts, created_at, run_after, "running"))
    return Reservation(job._replace(reserved_at=from_us(now)), str(id), from_us(run_after), ran_out=False)


def _job(queue: str, row: Sequence[Any]) -> Job:
    id, kind, body, attempts, created_at, run_after, state = row
    running = state == "running"
    available_at, reserved_at = (inf, from_us(run_after)) if running else (from_us(run_after), None)
    return Job(id, f"{id:032x}", queue, kind, body, attempts, from_us(created_at), available_at, reserved_at)


def _failed_job(queue: str, row: Sequence[Any]) -> FailedJob:
    id, kind, body, attempts, error, traceback, created_at, finished_at = row
    times = from_us(created_at), from_us(finished_at)
    return FailedJob(id, f"{id:032x}", queue, kind, body, attempts, error, traceback, *times)
