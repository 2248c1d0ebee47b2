"""How one step of a worker ends: small values, never exceptions."""

from dataclasses import dataclass
from typing import Any

from qlab.escape import shortened
from qlab.show import seconds, table_html


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one step of a worker ended.

    Example:
        >>> from qlab import Idle, Outcome, Queue, SimulatedClock
        >>> outcome = Queue("memory://", clock=SimulatedClock()).work_once()
        >>> isinstance(outcome, Outcome), isinstance(outcome, Idle), outcome.says
        (True, True, 'nothing is due at 0 s')
    """

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return type(self).__name__

    def row(self) -> dict[str, object]:
        """Tell the outcome as one row of a table for people."""
        return {"outcome": type(self).__name__, "says": shortened(self.says, 160)}

    def _repr_html_(self) -> str:
        row = self.row()
        return table_html(tuple(row), [tuple(row.values())])


@dataclass(frozen=True, slots=True)
class Idle(Outcome):
    """Nothing was due.

    Attributes:
        at: The moment, in seconds.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> outcome = Queue("memory://", clock=SimulatedClock(5)).work_once()
        >>> outcome
        Idle(at=5.0)
        >>> outcome.says
        'nothing is due at 5 s'
    """

    at: float

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"nothing is due at {seconds(self.at)}"


@dataclass(frozen=True, slots=True)
class Settled(Outcome):
    """A job was reserved, and this is how that ended.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
    """

    job: int
    name: str
    attempt: int
    at: float

    def row(self) -> dict[str, object]:
        """Tell the outcome as one row of a table for people."""
        return {
            "outcome": type(self).__name__,
            "job": self.job,
            "handler": shortened(self.name),
            "attempt": self.attempt,
            "at": seconds(self.at),
            "says": shortened(self.says, 160),
        }


@dataclass(frozen=True, slots=True)
class Completed(Settled):
    """The handler returned; the job is done and gone from the store.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once()
        Completed(job=1, name='mail', attempt=1, at=0.0)
    """

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"job {self.job} is done"


_settled: Any = Settled
_set_job, _set_name, _set_attempt, _set_at = (
    getattr(_settled, field).__set__ for field in ("job", "name", "attempt", "at")
)


def completed(job: int, name: str, attempt: int, at: float) -> Completed:
    """Make a `Completed` in half the time that its own `__init__` takes: nearly every job ends so."""
    outcome = object.__new__(Completed)
    _set_job(outcome, job)
    _set_name(outcome, name)
    _set_attempt(outcome, attempt)
    _set_at(outcome, at)
    return outcome


@dataclass(frozen=True, slots=True)
class Released(Settled):
    """The handler gave the job back.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
        available_at: When it may be reserved again, in seconds.

    Example:
        >>> from qlab import Queue, Release, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: Release(30))
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once()
        Released(job=1, name='mail', attempt=1, at=0.0, available_at=30.0)
    """

    available_at: float

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"job {self.job} was given back, until {seconds(self.available_at)}"


@dataclass(frozen=True, slots=True)
class Retrying(Settled):
    """The attempt failed; the job is tried again after its backoff.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
        error: The error in one line.
        available_at: When the backoff ends, in seconds.

    Example:
        >>> from qlab import Policy, Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock(), policy=Policy(backoff=[10]))
        >>> _ = queue.handler("mail")(lambda job: 1 / 0)
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once().says
        'attempt 1 of job 1 failed (ZeroDivisionError: division by zero); again at 10 s'
    """

    error: str
    available_at: float

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"attempt {self.attempt} of job {self.job} failed ({self.error}); again at {seconds(self.available_at)}"


@dataclass(frozen=True, slots=True)
class Failed(Settled):
    """The last attempt failed; the job is in `failed_jobs`.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
        error: The error in one line.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail", tries=1)(lambda job: 1 / 0)
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once()
        Failed(job=1, name='mail', attempt=1, at=0.0, error='ZeroDivisionError: division by zero')
        >>> queue.close()
    """

    error: str

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"job {self.job} failed after {self.attempt} attempt{'' if self.attempt == 1 else 's'}: {self.error}"


@dataclass(frozen=True, slots=True)
class Superseded(Settled):
    """The worker came too late: the job had left its hands, and nothing was changed.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
        verb: What the worker wanted to do: `complete`, `release` or `fail`.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail")
        >>> late = queue.reserve()
        >>> queue.clock.advance(100)
        100.0
        >>> _ = queue.work_once(worker="another")
        >>> queue.finish(late)
        Superseded(job=1, name='mail', attempt=1, at=100.0, verb='complete')
    """

    verb: str

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return f"too late to {self.verb} job {self.job}: its reservation was superseded, nothing was changed"


@dataclass(frozen=True, slots=True)
class Unknown(Settled):
    """The handler ran, but the store did not answer when the job was settled; it may or may not have been.

    Attributes:
        job: The job's id.
        name: The handler's name.
        attempt: Which attempt it was, from 1.
        at: When it ended, in seconds.
        error: What went wrong, in one line.
        reserved_until: When the job is reserved again if it was not settled, in seconds.

    Example:
        >>> from qlab import Queue, SimulatedClock, drivers, faults
        >>> from qlab.drivers.troubled import Troubled
        >>> store = Troubled(drivers.open("memory://"), [faults.LostReply("complete")])
        >>> queue = Queue(store, clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once()
        Unknown(job=1, name='mail', attempt=1, at=0.0, error='ReplyLost: ...', reserved_until=90.0)
    """

    error: str
    reserved_until: float

    @property
    def says(self) -> str:
        """What happened, in one sentence."""
        return (
            f"job {self.job} ran, but its store did not answer ({self.error}): "
            f"unless it was settled, it comes again at {seconds(self.reserved_until)}"
        )
