"""The queue: dispatch jobs, step workers with `work_once`, look at what failed, try it again."""

import math
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

from qlab import drivers, payload
from qlab.clock import Clock, SystemClock, duration, us
from qlab.driver import Counts, Driver, Statement
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable, QueueClosed, ReplyLost, UnknownFailedJob, UnusableStore
from qlab.escape import shortened
from qlab.job import Attempt, AttemptVerbs, FailedJob, Job, JobState, NewJob, Reservation
from qlab.log import log
from qlab.outcome import Outcome, Settled
from qlab.policy import Backoff, Policy
from qlab.registry import Handler, Registry, Tries, checked_name
from qlab.running import Ended
from qlab.show import Table
from qlab.steps import Asked, Steps, Told, never, nobody
from qlab.tokens import Tokens
from qlab.trace import CODES, NOTHING, Kind, NoTrace, Trace

Decorated = TypeVar("Decorated", bound=Handler)
Item = TypeVar("Item")

CHUNK = 500
"""How many jobs `dispatch_many` stores in one transaction or script, at the most."""

CHUNK_TEXT = 1_000_000
"""How many characters their payloads have at the most, unless there is only one."""


_FAILED_AT_ONCE = 100
_DISPATCHED = CODES[Kind.DISPATCHED]
_AS_IT_IS: Any = object()


class Queue:
    """A queue of jobs in a store, the handlers that run them, and the trace of what happened.

    Every moment and duration is in seconds of its clock. A context manager: it closes at the end, and whatever then
    asks the store raises `QueueClosed`.

    Args:
        driver: The store, or its address such as `sqlite:///jobs.db`.
        policy: Tries, backoff and reservations.
        clock: Where the time of jobs comes from; the machine's clock by default.
        name: Which queue of the store.
        context: What handlers get as `job.context`, usually the application's database; a handler that writes through
            it must commit before it returns, or its own job cannot be settled in the same file.
        payload_limit: How many bytes of UTF-8 an encoded payload may have.
        trace: Where to record, such as the trace of a queue that was closed; a new one by default. False records
            nothing, as a worker should that lives for weeks: a trace grows with every job.

    Attributes:
        name: Which queue of the store.
        driver: The store.
        clock: Where the time of jobs comes from.
        payload_limit: How many bytes of UTF-8 an encoded payload may have.

    Raises:
        ValueError: The name is empty, too long, or no Unicode text.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> @queue.handler("mail")
        ... def mail(job):
        ...     print("to", job.payload["to"])
        >>> _ = queue.dispatch_later("mail", {"to": "ada"}, delay=60)
        >>> queue.counts()
        Counts(ready=0, delayed=1, reserved=0, failed=0)
        >>> queue.clock.advance(60)
        60.0
        >>> queue.work_once()
        to ada
        Completed(job=1, name='mail', attempt=1, at=60.0)
    """

    def __init__(
        self,
        driver: Driver | str,
        *,
        policy: Policy | None = None,
        clock: Clock | None = None,
        name: str = "default",
        context: Any = None,
        payload_limit: int = payload.LIMIT,
        trace: Trace | bool | None = None,
    ) -> None:
        self.name = checked_name(name, "the queue's name")
        self.driver = drivers.open(driver) if isinstance(driver, str) else driver
        self.clock: Clock = clock or SystemClock()
        self.payload_limit = payload_limit
        self._registry = Registry()
        kept = _kept_in(trace)
        self._steps = Steps(self.driver, self.name, policy or Policy(), self.clock, self._registry, kept, context)
        self._steps.verbs = AttemptVerbs(self._extend, self._progress, self._dispatch_from)
        self._uids = Tokens()
        self._closed = False

    @property
    def policy(self) -> Policy:
        """The rules; setting others does not reach reservations that are held."""
        return self._steps.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._steps.policy = policy

    @property
    def trace(self) -> Trace:
        """What happened; setting another records there from now on, and a `NoTrace` nothing."""
        return self._steps.trace

    @trace.setter
    def trace(self, trace: Trace) -> None:
        self._steps.trace = _kept_in(trace)

    @property
    def log_payloads(self) -> bool:
        """Whether the log shows payloads: a line for each outcome, at most 1,000 characters of its job's; not at first.

        They may hold what no log should keep.
        """
        return self._steps.log_payloads

    @log_payloads.setter
    def log_payloads(self, shown: bool) -> None:
        self._steps.log_payloads = shown

    @contextmanager
    def unlogged(self) -> Iterator[None]:
        """Write no lines into the log meanwhile, as where a simulated hour fails a thousand jobs."""
        before, self._steps.logs = self._steps.logs, False
        try:
            yield
        finally:
            self._steps.logs = before

    @property
    def stepper(self) -> Steps:
        """The steps of the queue's workers, for a loop that takes very many of them."""
        return self._steps

    @property
    def context(self) -> Any:
        """What handlers get as `job.context`."""
        return self._steps.context

    # -- handlers --

    def handler(
        self,
        name: str,
        *,
        tries: Tries = "policy",
        backoff: Backoff | Literal["policy"] = "policy",
    ) -> Callable[[Decorated], Decorated]:
        """Register the function below as the handler of a name; run again, the latest wins.

        A handler takes an `Attempt`. Raising means that the attempt failed; returning `Release(delay)` gives the job
        back. A generator handler yields the seconds that it spends.

        Args:
            name: The handler's name.
            tries: How many attempts its jobs have; the policy's by default.
            backoff: How many seconds its jobs wait between attempts, as in a `Policy`; the policy's by default.

        Raises:
            TypeError: What stands below is no function, or an `async` one.
            ValueError: The name is empty, too long or no Unicode text, or a rule is out of its range.
        """
        checked_name(name, "the handler's name")

        def register(run: Decorated) -> Decorated:
            self._registry.add(name, run, tries, backoff)
            return run

        return register

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names that have a handler, sorted."""
        return self._registry.names

    # -- dispatch --

    def dispatch(self, name: str, payload: Any = None, *, connection: sqlite3.Connection | None = None) -> Job:
        """Store a job that may be reserved from now on.

        Args:
            name: The handler's name.
            payload: Any JSON value.
            connection: An application's connection to the same SQLite file: the job commits, or rolls back, with what
                the application does in its transaction.

        Returns:
            The job.

        Raises:
            UnknownHandler: No handler has this name; near names are suggested.
            InvalidPayload: The payload is no JSON value, or too large. Nothing was stored.
            DriverUnavailable: The store did not answer; the job may or may not be there.
        """
        now = self.clock.now()
        return self._dispatch([(name, payload)], now, now, connection)[0]

    def dispatch_later(
        self, name: str, payload: Any = None, *, delay: float, connection: sqlite3.Connection | None = None
    ) -> Job:
        """Store a job that may be reserved some seconds from now; else like `dispatch`.

        Args:
            name: The handler's name.
            payload: Any JSON value.
            delay: How many seconds, from 0.
            connection: As in `dispatch`.

        Raises:
            TypeError: The delay is not a number.
            ValueError: The delay is negative, NaN or infinite.
        """
        now = self.clock.now()
        return self._dispatch([(name, payload)], now, now + duration(delay, "delay"), connection)[0]

    def dispatch_at(
        self, name: str, payload: Any = None, *, at: float | datetime, connection: sqlite3.Connection | None = None
    ) -> Job:
        """Store a job that may be reserved from a moment on; else like `dispatch`.

        Args:
            name: The handler's name.
            payload: Any JSON value.
            at: The clock's seconds, or an aware datetime; a moment in the past counts as now.
            connection: As in `dispatch`.

        Raises:
            ValueError: The datetime is naive, or the clock does not know which day its 0 is.
        """
        moment = self.clock.moment(at)
        if moment == math.inf:
            raise ValueError(f"at is {at!r}: use a moment that comes")
        now = self.clock.now()
        return self._dispatch([(name, payload)], now, max(now, moment), connection)[0]

    def dispatcher(self, name: str, payload: Any = None) -> Callable[[float, float], Job]:
        """Make a function that dispatches the same job again and again; name and payload are checked here, once.

        Args:
            name: The handler's name.
            payload: Any JSON value.

        Returns:
            It takes the moment and from when the job may be reserved, both in seconds, and returns the job. Called
            again after the store did not answer, it sends the same job again, which is stored once.
        """
        body, uids, steps = self._new_job(name, payload, 0.0).body, self._uids, self._steps
        unanswered: list[str] = []
        lane = self.driver.lane(self.name)

        def dispatch(now: float, available_at: float) -> Job:
            uid = unanswered.pop() if unanswered else uids.next()
            at = round(now * 1_000_000)
            if lane is not None:
                until = at if available_at <= now else us(available_at)
                job = lane.push(tuple.__new__(NewJob, (uid, name, body, available_at)), at, until)
                steps.trace.record_us(at, _DISPATCHED, job[0], name, 0, "", NOTHING, until)
                return job
            jobs = [tuple.__new__(NewJob, (uid, name, body, available_at))]
            try:
                try:
                    job = self.driver.push(self.name, jobs, now=now)[0]
                except ReplyLost:
                    job = self.driver.push(self.name, jobs, now=now, resent=True)[0]
            except DriverUnavailable:
                unanswered.append(uid)
                raise
            steps.trace.record_us(at, _DISPATCHED, job.id, name, 0, "", NOTHING, us(job.available_at))
            return job

        return dispatch

    def dispatch_many(self, jobs: Iterable[tuple[str, Any]], *, delay: float = 0.0) -> list[Job]:
        """Store many jobs, in order, in writes that stay short: 500 jobs each, or fewer where their payloads are large.

        All are checked before the first is stored. Where the store fails on the way, the chunks before are there.

        Args:
            jobs: `(name, payload)` pairs.
            delay: How many seconds later they may be reserved.

        Returns:
            The jobs.

        Raises:
            TypeError: One of them is no pair. Nothing was stored.
            ValueError: The delay is negative, NaN or infinite.
            UnknownHandler: No handler has one of the names. Nothing was stored.
            InvalidPayload: A payload is no JSON value, or too large. Nothing was stored.
            DriverUnavailable: The store did not answer.
        """
        now = self.clock.now()
        return self._dispatch(_pairs(jobs), now, now + duration(delay, "delay"))

    def handler_of(self, name: str) -> Handler | None:
        """Find the function that is registered as a handler; None where none has this name."""
        return self._registry.find(name).run if name in self._registry.names else None

    def tries_of(self, name: str) -> int | None:
        """Tell how many attempts a handler's jobs have: its own rule, or the policy's; None for no limit."""
        return self._registry.rules(name, self.policy)[0]

    # -- work --

    def work_once(self, now: float | None = None, *, worker: str = "") -> Outcome:
        """Reserve the next due job, run its handler, settle it, and say how it ended; `Idle` when nothing is due.

        Never raises for what a handler did: whatever it raises is a failed attempt, except a KeyboardInterrupt.

        Args:
            now: The moment for all of it, in seconds, which leaves the clock alone; the clock's by default.
            worker: Who does it, for the trace.

        Returns:
            A `Completed`, `Released`, `Retrying`, `Failed`, `Superseded`, `Unknown` or `Idle`.

        Raises:
            DriverUnavailable: The store did not answer, and nothing was reserved; where the answer was lost on its way,
                what was reserved comes again when that runs out.
        """
        self._check_open()
        return self._steps.work_once(now, worker)

    def drain(self, until: float | None = None, *, worker: str = "") -> "Table[Outcome]":
        """Work until nothing is due.

        Args:
            until: A moment in seconds up to which the clock jumps (a machine's clock is waited for) from due time to
                due time; by default the work stays at its moment. `math.inf` goes on until no job is left that will
                ever be due.
            worker: Who does it, for the trace.

        Returns:
            How each job ended, in order.
        """
        self._check_open()
        last = None if until is None else self.clock.moment(until)
        outcomes: Table[Outcome] = Table()
        try:
            self._steps.drain(outcomes.append, worker)
            while last is not None and (due := self.next_due()) is not None and due <= last:
                self._wait_until(due)
                self._steps.drain(outcomes.append, worker)
        except (DriverUnavailable, UnusableStore):
            # A store that goes away after jobs were run ends the work; what was done is told.
            if not outcomes:
                raise
        if last is not None and last != math.inf:
            self._wait_until(last)
        return outcomes

    def work(
        self,
        tell: Callable[[Outcome], object],
        *,
        worker: str = "",
        stopping: Asked = never,
        leaving: Asked = never,
        holding: Told = nobody,
    ) -> None:
        """Work until nothing is due, or until it is to stop; the loop inside a `Worker`.

        Args:
            tell: What is told how each job ended, as it ends; where it raises, the work ends, and a job that was
                reserved by then comes again when its reservation runs out.
            worker: Who does it, for the trace.
            stopping: Asked between any two steps: whether to take no further job. The one in hand is finished.
            leaving: Asked before a handler is called: whether to call none any more. A job whose reservation was
                under way is given back, its attempt stays counted, and the work ends.
            holding: Told the reservation of a job before its handler is called, and None after.

        Raises:
            DriverUnavailable: The store did not answer, and nothing is held.
        """
        self._check_open()
        self._steps.drain(tell, worker, stopping, leaving, holding)

    def wait(self, seconds: float) -> bool:
        """Wait, in real time, until a job may have become ready since somebody last found none.

        For a worker that finds nothing due. A hint, no promise: who is woken may find nothing, and a job that falls due
        by time, or whose reservation runs out, wakes nobody.

        Args:
            seconds: For how long at the most; it may be less.

        Returns:
            Whether it was woken.

        Raises:
            ValueError: The store can wake nobody: SQLite.
        """
        self._check_open()
        return self.driver.wait(self.name, duration(seconds, "wait"))

    def reserve(self, now: float | None = None, *, worker: str = "") -> Reservation | None:
        """Reserve the next due job and stop there, as a worker does that is about to run it.

        `finish` runs and settles it; `crash` makes the worker vanish.

        Args:
            now: The moment, in seconds; the clock's by default.
            worker: Who does it, for the trace.

        Returns:
            What the worker holds; None when nothing is due.
        """
        self._check_open()
        return self._steps.reserve(now, worker)

    def take(
        self, limit: int, now: float | None = None, *, worker: str = "", tell_missed: bool = True
    ) -> list[Reservation]:
        """Reserve the next due jobs and stop there, as a worker does that runs a batch one after another.

        Every reservation of a batch begins now, also that of the job which is run last.

        Args:
            limit: How many at the most.
            now: The moment, in seconds; the clock's by default.
            worker: Who does it, for the trace.
            tell_missed: Whether it is recorded when nothing is due.
        """
        self._check_open()
        return self._steps.take(limit, now, worker, tell_missed)

    def finish(
        self, reservation: Reservation, now: float | None = None, *, worker: str = "", holding: Told = nobody
    ) -> Outcome:
        """Run the handler of a reserved job and settle it, as late as you like.

        Args:
            reservation: What `reserve` gave.
            now: The moment, in seconds; a generator handler settles at that plus what it yields. The clock's by
                default.
            worker: Who does it, for the trace.
            holding: Told None when the handler has ended, before the job is settled.
        """
        self._check_open()
        return self._steps.finish(reservation, now, worker, holding)

    def steps(
        self, reservation: Reservation, now: float | None = None, *, worker: str = ""
    ) -> Generator[float, None, Ended]:
        """Run the handler of a reserved job as a generator of the seconds that it spends; its value is how it ended.

        For those who move time themselves. A job whose attempts are used up is not run: it ends with
        `AttemptsExhausted`.

        Args:
            reservation: What `reserve` gave.
            now: The moment at which it begins, in seconds; the clock's by default.
            worker: Who does it, for the trace.

        Returns:
            The generator; `settle` takes its value.
        """
        self._check_open()
        return self._steps.run(reservation, now, worker)

    def settle(self, reservation: Reservation, ended: Ended, now: float | None = None, *, worker: str = "") -> Outcome:
        """Complete, release or fail a job by how its handler ended, and record it.

        Args:
            reservation: What `reserve` gave.
            ended: How its handler ended: the value of `steps`.
            now: The moment, in seconds; the clock's by default.
            worker: Who does it, for the trace.
        """
        self._check_open()
        return self._steps.settle(reservation, ended, now, worker)

    def reserved_until(self, reservation: Reservation) -> float:
        """Tell when a reservation runs out, in seconds, also where its handler has extended it."""
        return self._steps.extended.get(reservation.token, reservation.reserved_until)

    def listen(self, tell: Callable[[Reservation, Settled], object]) -> None:
        """Tell a function how each attempt ends here, right after it has; what that raises is logged, no more.

        Args:
            tell: Takes the reservation and the outcome.
        """
        self._steps.listeners.append(tell)

    def crash(self, reservation: Reservation, now: float | None = None, *, worker: str = "") -> None:
        """Let the worker that holds a job vanish: the store is told nothing, the trace is.

        Args:
            reservation: What `reserve` gave.
            now: The moment, in seconds; the clock's by default.
            worker: Who it is, for the trace.
        """
        self._check_open()
        job = reservation.job
        self._steps.extended.pop(reservation.token, None)
        moment = self.clock.now() if now is None else now
        self.trace.record(moment, Kind.CRASHED, job.id, job.name, job.attempts, worker)
        if not self.driver.store.keeps:
            lost = "it was nowhere but in the worker's hands"
            self.trace.record(moment, Kind.LOST, job.id, job.name, job.attempts, detail=lost)

    def recover(self, *, force: bool = False, worker: str = "") -> "Table[Job]":
        """Make jobs ready again whose reservation has run out.

        Args:
            force: Take every reservation, run out or not. Only for a single process that has just booted and is
                alone: it robs each worker that is alive, whose job then runs twice.
            worker: Who does it; only a flaw of the lab goes by it.

        Returns:
            The jobs.
        """
        self._check_open()
        now = self.clock.now()
        if force and self._steps.logs:
            log.warning("queue=%s: recovers every reservation; a worker that is alive is robbed of its job", self.name)
        self._steps.introduce(worker, now)
        recovered = self.driver.recover(self.name, now=now, force=force)
        for job in recovered:
            self.trace.record(now, Kind.RECOVERED, job.id, job.name, job.attempts, until=job.available_at)
        return Table(recovered)

    def clear(self) -> int:
        """Delete every job that is waiting or reserved, and say how many; failed jobs stay."""
        self._check_open()
        now = self.clock.now()
        cleared = self.driver.clear(self.name, now=now)
        self.trace.record(now, Kind.CLEARED, detail=f"{cleared} jobs")
        return cleared

    # -- failed jobs --

    def failed(self, *, limit: int | None = None) -> "Table[FailedJob]":
        """List the failed jobs, the oldest first.

        Args:
            limit: How many at the most; all by default.
        """
        self._check_open()
        return Table(self.driver.failed(self.name, limit=limit))

    def job_of(self, failed: FailedJob) -> int | None:
        """Tell the id that a failed job had while it was a job; None where it did not fail here."""
        return self._steps.failed.get(failed.uid)

    def retry(self, which: int | Literal["all"], *, payload: Any = _AS_IT_IS) -> int:
        """Move failed jobs back to the queue, with their attempts reset.

        Args:
            which: A failed job's id, or `"all"` for those of this queue.
            payload: What the job gets instead of the payload with which it failed: any JSON value, None included. For
                one failed job, not for all.

        Returns:
            How many were moved.

        Raises:
            UnknownFailedJob: No failed job has this id.
            InvalidPayload: The payload is no JSON value, or too large. Nothing was changed.
        """
        body = None
        if payload is not _AS_IT_IS:
            if which == "all":
                raise ValueError("retry('all', payload=…): a payload is for one failed job, name its id")
            body = self._encoded(payload, f"failed job {which!r}, queue {self.name!r}")
        ids = self._failed_ids(which)
        moved = 0
        for chunk in _chunks(ids, _FAILED_AT_ONCE):
            now = self.clock.now()
            retried = self.driver.retry(self.name, chunk, now=now, body=body)
            moved += len(retried)
            for failed_id, job in retried:
                was = self._steps.failed.pop(job.uid, None)
                self.trace.record(now, Kind.RETRIED, was, job.name, detail=f"failed job {failed_id}")
                self.trace.record(now, Kind.DISPATCHED, job.id, job.name, until=job.available_at)
        return self._check_found(which, moved)

    def forget(self, which: int | Literal["all"], *, before: float | datetime | None = None) -> int:
        """Delete failed jobs for good.

        Args:
            which: A failed job's id, or `"all"` for those of this queue.
            before: With `"all"`: only those that failed at this moment or before it (seconds or an aware datetime).

        Returns:
            How many were deleted.

        Raises:
            UnknownFailedJob: No failed job has this id.
        """
        if before is not None and which != "all":
            raise ValueError(f"forget({which!r}, before=…): before goes with 'all'")
        ids = self._failed_ids(which, None if before is None else self.clock.moment(before))
        forgotten = 0
        for chunk in _chunks(ids, _FAILED_AT_ONCE):
            now = self.clock.now()
            were = self._were(chunk)
            gone = self.driver.forget(self.name, chunk)
            forgotten += len(gone)
            for failed_id in gone:
                self.trace.record(now, Kind.FORGOTTEN, were.get(failed_id), detail=f"failed job {failed_id}")
        return self._check_found(which, forgotten)

    # -- reading --

    def counts(self) -> Counts:
        """Count the jobs by state, now."""
        self._check_open()
        return self.driver.counts(self.name, now=self.clock.now())

    def jobs(self, state: JobState | str | None = None) -> "Table[Job]":
        """List the jobs that are waiting or reserved, in the order in which they may be reserved.

        Args:
            state: Only those in this state now: `delayed`, `ready` or `reserved`.
        """
        self._check_open()
        now = self.clock.now()
        wanted = None if state is None else _state(state)
        found = self.driver.jobs(self.name, now=now)
        return Table(job for job in found if wanted is None or job.state(now) is wanted)

    def next_due(self) -> float | None:
        """Tell the earliest moment, from now on, at which a job may be reserved; None where no such moment comes."""
        self._check_open()
        return self.driver.next_due(self.name, now=self.clock.now())

    def statements(self) -> AbstractContextManager[list[Statement]]:
        """Collect the SQL, or the script calls, as they run while the context is open.

        Example:
            >>> from qlab import Queue
            >>> with Queue("sqlite:///:memory:") as queue, queue.statements() as seen:
            ...     _ = queue.counts()
            >>> [statement.verb for statement in seen]
            ['counts']
        """
        self._check_open()
        return self.driver.statements()

    # -- life --

    def on(self, driver: Driver | str, *, clock: Clock | None = None, trace: Trace | None = None) -> "Queue":
        """Make a queue like this one, with its handlers as they are now, on another store.

        It records, also where this one does not.

        Args:
            driver: The store, or its address.
            clock: Where the time of jobs comes from; this queue's clock by default.
            trace: Where to record; a new one by default.
        """
        other = Queue(
            driver,
            policy=self.policy,
            clock=clock or self.clock,
            name=self.name,
            context=self.context,
            payload_limit=self.payload_limit,
            trace=trace,
        )
        self.copy_handlers(other)
        return other

    def copy_handlers(self, other: "Queue") -> None:
        """Register this queue's handlers, as they are now, with another."""
        self._registry.copy_to(other._registry)  # noqa: SLF001 - of the same class

    def close(self) -> None:
        """Close the queue and its driver; closing twice is harmless."""
        self._closed = True
        self.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} on {'closed ' if self._closed else ''}{self.driver!r}>"

    # -- dispatching --

    def _dispatch(
        self,
        jobs: Sequence[tuple[str, Any]],
        now: float,
        available_at: float,
        connection: sqlite3.Connection | None = None,
        worker: str = "",
    ) -> list[Job]:
        self._check_open()
        new = [self._new_job(name, value, available_at) for name, value in jobs]
        detail = "" if connection is None else "in the application's transaction"
        stored: list[Job] = []
        record, at = self.trace.record_us, us(now)
        for chunk in _writes(new):
            pushed = self._push(chunk, now, connection)
            self._steps.record_wait(now, worker)
            stored += pushed
            for job in pushed if self.trace.records else ():
                if job.id:
                    record(at, _DISPATCHED, job.id, job.name, 0, worker, NOTHING, us(job.available_at), detail)
        return stored

    def _new_job(self, name: str, value: Any, available_at: float) -> NewJob:
        self._registry.find(name)
        body = payload.encode_flat(value, self.payload_limit)
        if body is None:
            body = self._encoded(value, f"handler {name!r}, queue {self.name!r}")
        return NewJob(self._uids.next(), name, body, available_at)

    def _encoded(self, value: Any, what: str) -> str:
        return payload.encode(value, what=what, limit=self.payload_limit)

    def _push(self, jobs: Sequence[NewJob], now: float, connection: sqlite3.Connection | None) -> list[Job]:
        if connection is not None:
            store = self.driver.store
            if not isinstance(store, SqliteDriver):
                raise TypeError(
                    f"connection= needs the sqlite driver, this queue is on {store.name}: "
                    "only in one SQLite file do a row and its job commit together"
                )
            return store.push(self.name, jobs, now=now, connection=connection)
        try:
            return self.driver.push(self.name, jobs, now=now)
        except ReplyLost:
            # The jobs may be there: their uids make it safe to send them once more.
            return self.driver.push(self.name, jobs, now=now, resent=True)

    # -- what an attempt can ask for --

    def _extend(self, attempt: Attempt, seconds: float) -> bool:
        seconds = duration(seconds, "extend")
        if us(seconds) == 0:
            raise ValueError("extend(0) would give the job to the next worker: use a number of seconds above 0")
        now = self._moment(attempt)
        if self._extended(attempt.reservation, now, seconds):
            self._steps.extended[attempt.reservation.token] = now + seconds
            self._record(Kind.EXTENDED, attempt, now, until=now + seconds)
            return True
        self._record(Kind.SUPERSEDED, attempt, now, detail="extend")
        return False

    def _extended(self, reservation: Reservation, now: float, seconds: float) -> bool:
        try:
            return self.driver.extend(reservation, now=now, seconds=seconds)
        except ReplyLost:
            # Made once or twice, it ends the same; and a handler should not fail for a reply.
            return self.driver.extend(reservation, now=now, seconds=seconds)

    def _progress(self, attempt: Attempt, done: int, total: int) -> None:
        now = self._moment(attempt)
        self.driver.progress(attempt.reservation, now=now, done=done, total=total)
        self._record(Kind.PROGRESSED, attempt, now, detail=f"{done} of {total}")

    def _dispatch_from(self, attempt: Attempt, name: str, value: Any, delay: float) -> Job:
        now = self._moment(attempt)
        return self._dispatch([(name, value)], now, now + duration(delay, "delay"), worker=attempt.worker)[0]

    def _moment(self, attempt: Attempt) -> float:
        return self.clock.now() if attempt.now is None else attempt.now

    def _record(
        self, kind: Kind, attempt: Attempt, now: float, *, until: float | None = None, detail: str = ""
    ) -> None:
        told = (attempt.id, attempt.name, attempt.number, attempt.worker)
        self.trace.record(now, kind, *told, until=until, detail=detail)

    # -- small things --

    def _wait_until(self, moment: float) -> None:
        ahead = moment - self.clock.now()
        if ahead > 0:
            self.clock.spend(ahead)

    def _failed_ids(self, which: int | Literal["all"], before: float | None = None) -> list[int]:
        self._check_open()
        if which == "all":
            return self.driver.failed_ids(self.name, before=before)
        if isinstance(which, bool) or not isinstance(which, int):
            raise TypeError(f"{which!r} is no failed job's id: use an integer, or 'all'")
        return [which] if 0 < which < 2**63 else []

    def _were(self, ids: Sequence[int]) -> dict[int, int]:
        """Tell which jobs these failed jobs were, as far as they failed here."""
        if not self._steps.failed:
            return {}
        rows = self.driver.failed(self.name, after=ids[0] - 1, limit=len(ids))
        return {row.id: job for row in rows if row.id is not None and (job := self.job_of(row)) is not None}

    def _check_found(self, which: int | Literal["all"], found: int) -> int:
        if which != "all" and not found:
            raise UnknownFailedJob(
                f"there is no failed job {which!r} in the queue {self.name!r}: Queue.failed() lists them"
            )
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise QueueClosed


def _kept_in(trace: Trace | bool | None) -> Trace:
    if isinstance(trace, Trace):
        return trace
    if trace is None or isinstance(trace, bool):
        return NoTrace() if trace is False else Trace()
    raise TypeError(f"trace is {trace!r}: use a Trace, or False to record nothing")


def _state(state: JobState | str) -> JobState:
    choices = (JobState.DELAYED, JobState.READY, JobState.RESERVED)
    if state not in choices:
        raise ValueError(f"state is {state!r}: use {', '.join(choices)}; failed() lists the failed jobs")
    return JobState(state)


def _pairs(jobs: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    if not isinstance(jobs, Iterable):
        raise TypeError(f"jobs is {jobs!r}: use (name, payload) pairs")
    pairs = list(jobs)
    for place, each in enumerate(pairs):
        if not isinstance(each, tuple | list) or len(each) != 2:  # two letters would be a pair, too
            raise TypeError(f"jobs[{place}] is {shortened(repr(each), 200)}: use a pair, (name, payload)")
    return pairs


def _writes(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    write: list[NewJob] = []
    text = 0
    for job in jobs:
        if len(write) == CHUNK or (write and text + len(job.body) > CHUNK_TEXT):
            yield write
            write, text = [], 0
        write.append(job)
        text += len(job.body)
    if write:
        yield write


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
