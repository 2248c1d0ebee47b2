"""The contract: what every driver does, and what none may do.

A driver keeps jobs for any number of queues in one store. It never reads a clock: every verb is told the moment
(`now`, in seconds), and every bound is inclusive. A driver may be used from several threads.

One rule of order: `available_at` always means *may be reserved from*. Dispatch sets it to now plus the delay,
reserving to now plus `retry_after`, releasing to now plus the delay, `recover` to now. The job that has been claimable
longest goes first; ties go by a serial number that is new at each dispatch, release and recover.

One fence: each reservation has a token that no other ever had. `complete`, `release`, `extend` and `fail` act only
while that token is the job's, and say whether they did. Running out ends nothing by itself: the token stays good until
the next reservation, release, fail, recover or clear of that job.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, Self

from qlab.escape import html, without_password
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.log import tell_each
from qlab.show import table_html


class Counts(NamedTuple):
    """How many jobs of a queue are where, at one moment.

    Attributes:
        ready: May be reserved now (the backlog).
        delayed: Available later.
        reserved: In a worker's hands (in flight).
        failed: In `failed_jobs`.

    Example:
        >>> from qlab import Queue
        >>> queue = Queue("memory://")
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail"), queue.dispatch_later("mail", delay=60)
        >>> queue.counts(), queue.counts().depth
        (Counts(ready=1, delayed=1, reserved=0, failed=0), 2)
    """

    ready: int = 0
    delayed: int = 0
    reserved: int = 0
    failed: int = 0

    @property
    def depth(self) -> int:
        """All that is still to do: ready + delayed + reserved."""
        return self.ready + self.delayed + self.reserved

    def _repr_html_(self) -> str:
        return table_html((*self._fields, "depth"), [(*self, self.depth)])


class Durability(NamedTuple):
    """What a store promises about jobs that it has answered for, in words.

    Attributes:
        worker_killed: What a killed worker process loses.
        store_killed: What a killed server, or the killed process that holds the store, loses.
        power_cut: What a power cut loses.
    """

    worker_killed: str
    store_killed: str
    power_cut: str

    @property
    def survives(self) -> str:
        """What jobs survive, as one of `SURVIVED`: stores of one class may be compared, those of two cost differently.

        A store that may be damaged, or loses more than moments, is only said to survive a killed worker.
        """
        nothing, worker, almost, power_cut = SURVIVED
        if self.worker_killed != "nothing":
            return nothing
        if self.power_cut == "nothing":
            return power_cut
        return almost if self.power_cut in LAST_MOMENTS else worker


SURVIVED = ("nothing", "a killed worker", "a power cut but for the last moments", "a power cut")
"""Classes of like durability, each of which survives what those before it do."""

LAST_MOMENTS = ("the last moments' commits, never the file's soundness", "about the last two seconds")
"""What a power cut loses of a SQLite file with `synchronous=NORMAL`, and of an append-only file synced every second."""


class Mark(NamedTuple):
    """The largest value that a store was ever told under a name: what workers leave for a checkup to read.

    Attributes:
        kind: `alive` or `run`.
        name: A worker's name where `alive`, a handler's where `run`.
        value: In seconds: until when the worker counts as alive; how long the longest run took.
    """

    kind: str
    name: str
    value: float


class Statement(NamedTuple):
    """One statement or script call, as it ran.

    Attributes:
        language: `SQL` or `Lua`.
        verb: The verb that it belongs to; its file has the same name.
        text: What was run.
        values: What was bound to it: parameters, or keys and arguments; a long text is cut.
    """

    language: str
    verb: str
    text: str
    values: str

    def __repr__(self) -> str:
        return f"-- {self.verb} ({self.language}) {self.values}\n{self.text.strip()}"

    def _repr_html_(self) -> str:
        return f"<pre>{html(repr(self))}</pre>"


def tell(listeners: Sequence[Callable[[Statement], None]], statement: Statement) -> None:
    """Tell listeners of a statement that is about to run; it runs also where one of them raises, which is logged."""
    wrong = f"a listener of statements went wrong; the statement {statement.verb} runs all the same"
    tell_each(listeners, statement, wrong=wrong)


class Lane(Protocol):
    """One queue of a store, in whole microseconds and one job at a time: for a loop that takes very many steps.

    It keeps the contract: what it does is what the verbs of the same names do.
    """

    def push(self, new: NewJob, now: int, available_at: int) -> Job:
        """Store a job that may be reserved from a moment on, whatever it says itself."""

    def reserve(self, now: int, retry_after: float | None) -> Reservation | None:
        """Reserve the job that has been claimable longest; the span is in seconds."""


class Driver(ABC):
    """A store of jobs that keeps the contract, which `qlab.driver` states.

    It never reads a clock: every verb is told the moment, as `now` in seconds. What settles or extends a job takes what
    `reserve` gave, and changes nothing where that was superseded.

    Attributes:
        url: The address that opens the same store again, also from another process. It may hold a password: show
            `str(driver)` instead.
        name: The family: `memory`, `sqlite`, `redis_list` or `redis_zset`.
        order: `available_at` for the contract's order; `arrival` where jobs that fall due are appended when somebody
            polls.
        wakes: Whether `wait` can be woken.
        keeps: Whether a job stays in the store while a worker has it in hand.
        restart_server: Kills the store's server and starts it again, where that is this driver's own; else None.

    Raises:
        DriverUnavailable: From each verb: the store did not answer, or could not do it just now.
        ReplyLost: From each verb: it may have been done, all the same.
        QueueClosed: From each verb: the driver is closed.

    Example:
        >>> from qlab import drivers
        >>> with drivers.open("memory://") as driver:
        ...     driver.name, driver.order, driver.counts("default", now=0.0).depth
        ('memory', 'available_at', 0)
    """

    url: str
    name: str
    order: str = "available_at"
    wakes: bool = False
    keeps: bool = True
    restart_server: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._listeners: list[Callable[[Statement], None]] = []

    @property
    @abstractmethod
    def description(self) -> str:
        """What is really behind it: product, version and settings, such as `SQLite 3.40.1, WAL, synchronous=NORMAL`."""

    @property
    def store(self) -> "Driver":
        """The driver that keeps the jobs: this one, unless it stands before another."""
        return self

    @property
    def private(self) -> bool:
        """Whether only this process sees the store, or the store ends with it."""
        return False

    @property
    @abstractmethod
    def durability(self) -> Durability:
        """What the store promises about jobs that it has answered for."""

    # -- verbs that change the store --

    @abstractmethod
    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        """Store jobs, all of them or none.

        A uid that the queue holds already (waiting, reserved, being failed) changes nothing and gives the job that is
        there; `resent` looks in `failed_jobs` too, for a push repeated after a lost reply. A resend after completion
        runs again.

        Args:
            queue: The queue's name.
            jobs: What to store, in order.
            now: The moment, in seconds.
            resent: Whether an earlier call with the same uids may have been carried out.

        Returns:
            The jobs, in the same order; one whose uid is in `failed_jobs` or being failed has id 0.
        """

    @abstractmethod
    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        """Reserve the jobs that have been claimable longest.

        Eligible is every job with `available_at <= now`, also one whose reservation has run out. Each counts an
        attempt and gets a new token. One job is never given to two callers.

        A batch costs one round trip or commit for all of its jobs, and all are reserved from now on: who works one
        after the other begins the last of k only after k - 1 handlers. It has run out by then, and another may be
        running it too, where `retry_after` is below the sum of those. Choose it above k times what a slow job takes,
        extend the ones that wait, or take fewer; a worker that dies lets k jobs wait for their reservations to run out.

        Args:
            queue: The queue's name.
            now: The moment, in seconds.
            retry_after: After how many seconds, more than 0, the reservations run out; None for never.
            limit: How many jobs at the most.

        Returns:
            At most `limit` reservations, in order; none when nothing is due.
        """

    @abstractmethod
    def complete(self, reservation: Reservation, *, now: float) -> bool:
        """Delete a job that is done.

        Returns:
            False, having changed nothing, where the reservation was superseded.
        """

    @abstractmethod
    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        """Complete a job and reserve the next of its queue in the same transaction or script.

        Returns:
            What `complete` says, and the next reservation (None when nothing is due).
        """

    @abstractmethod
    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        """Give a job back, available `delay` seconds from now, behind those that are claimable by then.

        Returns:
            False, having changed nothing, where the reservation was superseded.
        """

    @abstractmethod
    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        """Make a reservation run out `seconds` from now, also one that has run out already.

        Returns:
            False, having changed nothing, where the reservation was superseded.
        """

    @abstractmethod
    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        """Move a job to `failed_jobs`: never in neither place, never twice.

        Args:
            reservation: What the worker holds.
            now: The moment, in seconds.
            attempts: How many attempts to show.
            error: The error in one line.
            traceback: Its traceback.

        Returns:
            False, having changed nothing, where the reservation was superseded.
        """

    @abstractmethod
    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        """Make reserved jobs ready again, each behind those that are claimable now.

        Args:
            queue: The queue's name.
            now: The moment, in seconds.
            force: Take every reservation, not only those that have run out: only for a process that is alone, because
                it robs each worker that is alive.

        Returns:
            The jobs, as they wait now.
        """

    @abstractmethod
    def clear(self, queue: str, *, now: float) -> int:
        """Delete every job of a queue that is waiting or reserved, and say how many; failed jobs stay."""

    # -- verbs of failed jobs --

    @abstractmethod
    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        """List the failed jobs of a queue by id, the oldest first.

        Args:
            queue: The queue's name.
            after: Only those with a larger id: to read page by page.
            limit: How many at the most.

        Returns:
            The failed jobs; last, with id None, those whose failure is still being written.
        """

    @abstractmethod
    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        """List the ids of a queue's failed jobs, all or those that failed at or before a moment (in seconds).

        What a dead process left half written is finished first.
        """

    @abstractmethod
    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        """Move failed jobs back to the queue with their attempts reset, each exactly once whatever dies half way.

        A retried job keeps its uid and gets a new id.

        Args:
            queue: The queue's name.
            ids: The failed jobs' ids.
            now: The moment, in seconds.
            body: The payload that they get, as JSON text; None for the one that each has.

        Returns:
            `(id, job)` for each id that was there, in the order of the ids.
        """

    @abstractmethod
    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        """Delete failed jobs, and tell those of the ids that were there."""

    # -- reading verbs --

    @abstractmethod
    def counts(self, queue: str, *, now: float) -> Counts:
        """Count a queue's jobs by state; all zeros for a queue that was never used."""

    @abstractmethod
    def jobs(self, queue: str, *, now: float) -> list[Job]:
        """List the jobs of a queue that are waiting or reserved, in the order `(available_at, serial number)`."""

    @abstractmethod
    def next_due(self, queue: str, *, now: float) -> float | None:
        """Tell the earliest moment, from now on, at which `reserve` would find a job; None where none comes."""

    @abstractmethod
    def check(self, queue: str, *, now: float) -> list[str]:
        """Say in words what is inconsistent in the store; an empty list is a sound store."""

    def lane(self, queue: str) -> Lane | None:  # noqa: ARG002 - for those that have one
        """Give the fast way to a queue; None where the store has none of its own."""
        return None

    # -- waiting --

    def wait(self, queue: str, seconds: float) -> bool:  # noqa: ARG002 - for those that wake
        """Wait, in real time, until a job has become ready since somebody last found none: by any verb but by time.

        It is a hint, never more: who is woken may find nothing, and who is not must ask now and then all the same, for
        jobs that fall due, reservations that run out, and tokens that died with whoever had taken them.

        Args:
            queue: The queue's name.
            seconds: For how long at the most; it may be less.

        Returns:
            Whether it was woken; of several that wait, about as many are as jobs became ready.

        Raises:
            ValueError: This store can wake nobody.
        """
        raise ValueError(
            f"{self.name} cannot wake a worker, since no process is told of what another one commits, and to ask its "
            'file again and again is polling: use wait="poll" with a shorter poll, or a redis:// address'
        )

    # -- marks: they say something of workers and nothing of jobs, so a store may do without --

    def mark(self, queue: str, mark: Mark) -> None:  # noqa: B027 - a store that keeps none needs none
        """Keep a mark of a queue, unless a larger one of its kind and name is there."""

    def unmark(self, queue: str, kind: str, name: str) -> None:  # noqa: B027 - as above
        """Drop a mark of a queue; nothing happens where there is none."""

    def marks(self, queue: str) -> list[Mark]:  # noqa: ARG002 - as above
        """List the marks of a queue, sorted; none for a queue that no worker has worked."""
        return []

    # -- life --

    @abstractmethod
    def close(self) -> None:
        """Give up connections and whatever the driver owns; closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def progress(self, reservation: Reservation, *, now: float, done: int, total: int) -> None:  # noqa: B027 - optional
        """Keep how far a job has come, where the store has a place for it; most have none, and the trace tells it."""

    def blocked(self) -> float:
        """Tell how many seconds this thread has waited for the store's lock since it last asked."""
        return 0.0

    def listen(self, tell: Callable[[Statement], None]) -> None:
        """Tell a function of every statement and script call, as it runs; what that raises is logged, no more."""
        self._listeners.append(tell)

    @contextmanager
    def statements(self) -> Iterator[list[Statement]]:
        """Collect the statements and script calls that run while the context is open, as a growing list."""
        seen: list[Statement] = []
        self._listeners.append(seen.append)
        try:
            yield seen
        finally:
            self._listeners.remove(seen.append)

    def __repr__(self) -> str:
        return f"<{self.name} {without_password(self.url)} ({self.description})>"
