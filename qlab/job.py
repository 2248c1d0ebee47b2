"""What travels: jobs, reservations, attempts and failed jobs, as small records. Every time in them is in seconds."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from qlab import payload as _payload
from qlab.escape import shortened
from qlab.show import plain, seconds, table_html

_UNREAD: Any = object()


class JobState(StrEnum):
    """Where a job is; a function of its row and of the moment, the same on every driver.

    Attributes:
        DELAYED: Available later, and not reserved.
        READY: May be reserved now; so may a job whose reservation has run out.
        RESERVED: In a worker's hands, until it settles or the reservation runs out.
        FAILED: In `failed_jobs`.
        DONE: Completed and gone from the store: only a trace remembers it.
        LOST: Vanished with its store, which kept it in memory only: only a trace remembers it.

    Example:
        >>> from qlab import JobState
        >>> JobState.READY == "ready"
        True
        >>> [state.value for state in JobState]
        ['delayed', 'ready', 'reserved', 'failed', 'done', 'lost']
    """

    DELAYED = "delayed"
    READY = "ready"
    RESERVED = "reserved"
    FAILED = "failed"
    DONE = "done"
    LOST = "lost"


class NewJob(NamedTuple):
    """A job on its way into a store.

    Attributes:
        uid: 32 hexadecimal digits made by the client: the job's identity across stores, retries and resends.
        name: The handler's name.
        body: The payload as JSON text.
        available_at: When it may be reserved from, in seconds; a moment in the past counts as now.
    """

    uid: str
    name: str
    body: str
    available_at: float


class Job(NamedTuple):
    """A job as a store holds it.

    Attributes:
        id: A small integer, unique within its queue for one life of the store: what people read.
        uid: 32 hexadecimal digits: its identity across stores, retries and resends.
        queue: The queue's name.
        name: The handler's name.
        body: The payload as JSON text.
        attempts: How many times it has been reserved.
        dispatched_at: When it was dispatched, in seconds.
        available_at: When it may be reserved from, in seconds; while it is reserved, when the reservation runs out
            (`math.inf`: never).
        reserved_at: When it was reserved last, in seconds; None while it waits.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> job = queue.dispatch_later("mail", {"to": "ada"}, delay=5)
        >>> job
        Job(id=1, name='mail', payload={"to":"ada"}, attempts=0, available_at=5)
        >>> job.state(now=0), job.state(now=5)
        (<JobState.DELAYED: 'delayed'>, <JobState.READY: 'ready'>)
    """

    id: int
    uid: str
    queue: str
    name: str
    body: str
    attempts: int
    dispatched_at: float
    available_at: float
    reserved_at: float | None = None

    @property
    def payload(self) -> Any:
        """The payload, decoded anew at each reading."""
        return _payload.decode(self.body)

    def state(self, now: float) -> JobState:
        """Tell whether the job is delayed, ready or reserved at a moment.

        Args:
            now: The moment, in seconds.
        """
        if self.available_at <= now:
            return JobState.READY
        return JobState.DELAYED if self.reserved_at is None else JobState.RESERVED

    def row(self) -> dict[str, object]:
        """Tell the job as one row of a table for people."""
        return {
            "id": self.id,
            "handler": shortened(self.name),
            "payload": shortened(self.body),
            "attempts": self.attempts,
            "dispatched at": seconds(self.dispatched_at),
            "available at": seconds(self.available_at),
            "reserved at": seconds(self.reserved_at),
        }

    def __repr__(self) -> str:
        held = "" if self.reserved_at is None else f", reserved_at={plain(self.reserved_at)}"
        return (
            f"Job(id={self.id}, name={self.name!r}, payload={shortened(self.body)}, attempts={self.attempts}, "
            f"available_at={plain(self.available_at)}{held})"
        )

    def _repr_html_(self) -> str:
        return _record_html(self.row())


class Reservation(NamedTuple):
    """A job in a worker's hands.

    Attributes:
        job: The job as it was reserved; its `available_at` is when the reservation runs out.
        token: What fences the settling verbs: no other reservation ever had it.
        claimable_since: Since when the job could have been reserved, in seconds: where its wait starts.
        ran_out: Whether it follows a reservation that ran out, which was at `claimable_since`.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail")
        >>> reservation = queue.reserve()
        >>> reservation
        Reservation(job=1, name='mail', attempt=1, until=90)
        >>> queue.finish(reservation)
        Completed(job=1, name='mail', attempt=1, at=0.0)
    """

    job: Job
    token: str
    claimable_since: float
    ran_out: bool

    @property
    def reserved_until(self) -> float:
        """When the reservation runs out, in seconds; `math.inf` for never."""
        return self.job.available_at

    def __repr__(self) -> str:
        job = self.job
        return f"Reservation(job={job.id}, name={job.name!r}, attempt={job.attempts}, until={plain(job.available_at)})"


class FailedJob(NamedTuple):
    """A job that used up its attempts, as `failed_jobs` keeps it.

    Attributes:
        id: The row's own number, which `retry` and `forget` take; None while a staged failure is still being written.
        uid: The job's identity, which a retry keeps.
        queue: The queue's name.
        name: The handler's name.
        body: The payload as JSON text.
        attempts: How many attempts it had.
        error: The last error in one line.
        traceback: The last error's traceback; empty where no handler ran.
        dispatched_at: When it was dispatched, in seconds.
        failed_at: When it failed, in seconds.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail", tries=1)(lambda job: 1 / 0)
        >>> _ = queue.dispatch("mail", {"to": "ada"})
        >>> _ = queue.work_once()
        >>> queue.failed()
        [FailedJob(id=1, name='mail', payload={"to":"ada"}, attempts=1, error='ZeroDivisionError: ...', failed_at=0)]
        >>> queue.close()
    """

    id: int | None
    uid: str
    queue: str
    name: str
    body: str
    attempts: int
    error: str
    traceback: str
    dispatched_at: float
    failed_at: float

    @property
    def payload(self) -> Any:
        """The payload, decoded anew at each reading."""
        return _payload.decode(self.body)

    def row(self) -> dict[str, object]:
        """Tell the failed job as one row of a table for people."""
        return {
            "failed id": "–" if self.id is None else self.id,
            "handler": shortened(self.name),
            "payload": shortened(self.body),
            "attempts": self.attempts,
            "error": shortened(self.error, 100),
            "failed at": seconds(self.failed_at),
        }

    def __repr__(self) -> str:
        return (
            f"FailedJob(id={self.id}, name={self.name!r}, payload={shortened(self.body)}, attempts={self.attempts}, "
            f"error={shortened(self.error)!r}, failed_at={plain(self.failed_at)})"
        )

    def _repr_html_(self) -> str:
        return _record_html(self.row())


class Attempt:
    """One run of a handler on a job: what a handler is given (by habit it calls it `job`).

    Args:
        verbs: What it can ask its queue for, which makes it. The rest is kept, as below.

    Attributes:
        context: What the application gave the queue, usually its database.
        reservation: What the worker holds.
        worker: Who runs it, as the trace names it.
        now: The moment that its queue was told, in seconds; None where the queue's clock tells it.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> @queue.handler("resize")
        ... def resize(job):
        ...     print(job.id, job.name, job.number, job.payload["width"])
        >>> _ = queue.dispatch("resize", {"width": 80})
        >>> _ = queue.work_once()
        1 resize 1 80
    """

    __slots__ = ("_payload", "_verbs", "context", "now", "reservation", "worker")

    def __init__(
        self, reservation: Reservation, context: Any, verbs: "AttemptVerbs", now: float | None = None, worker: str = ""
    ) -> None:
        self.reservation = reservation
        self.context = context
        self.now = now
        self.worker = worker
        self._payload: Any = _UNREAD
        self._verbs = verbs

    @property
    def id(self) -> int:
        """The job's id."""
        return self.reservation.job.id

    @property
    def name(self) -> str:
        """The handler's name."""
        return self.reservation.job.name

    @property
    def number(self) -> int:
        """Which attempt this is, from 1."""
        return self.reservation.job.attempts

    @property
    def payload(self) -> Any:
        """The payload, decoded when it is first read; every attempt gets its own."""
        if self._payload is _UNREAD:
            self._payload = _payload.decode(self.reservation.job.body)
        return self._payload

    def extend(self, seconds: float) -> bool:
        """Make the reservation run out later, or sooner.

        Args:
            seconds: How long from now, above 0.

        Returns:
            Whether the reservation was still this worker's; False means that the job is another's now.

        Raises:
            ValueError: The seconds are not above 0.
        """
        return self._verbs.extend(self, seconds)

    def progress(self, done: int, total: int) -> None:
        """Record how far the job has come, for those who watch.

        Args:
            done: How much of it is done, in any unit.
            total: Of how much.
        """
        self._verbs.progress(self, done, total)

    def dispatch(self, name: str, payload: Any = None, *, delay: float = 0.0) -> Job:
        """Dispatch another job to the same queue, at this attempt's moment.

        Args:
            name: The handler's name.
            payload: Any JSON value.
            delay: How many seconds later it may be reserved.

        Returns:
            The job.

        Raises:
            UnknownHandler: No handler has this name.
            InvalidPayload: The payload is no JSON value, or too large.
        """
        return self._verbs.dispatch(self, name, payload, delay)

    def __repr__(self) -> str:
        return f"Attempt(job={self.id}, name={self.name!r}, number={self.number})"


class AttemptVerbs(NamedTuple):
    """What an attempt can ask for: callables that the queue gives it."""

    extend: Callable[[Attempt, float], bool]
    progress: Callable[[Attempt, int, int], None]
    dispatch: Callable[[Attempt, str, Any, float], Job]


class Release(NamedTuple):
    """What a handler returns to give its job back without failing.

    Attributes:
        delay: After how many seconds the job may be reserved again.

    Example:
        >>> from qlab import Queue, Release, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: Release(30))
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once().says
        'job 1 was given back, until 30 s'
    """

    delay: float = 0.0


def _record_html(row: dict[str, object]) -> str:
    return table_html(tuple(row), [tuple(row.values())])
