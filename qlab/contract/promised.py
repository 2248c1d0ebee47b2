"""A promise of the contract: a small program that any driver can be held against."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from qlab.driver import Counts, Driver
from qlab.errors import QlabError
from qlab.escape import shortened
from qlab.explorer.plays import Store
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.tokens import Tokens

Said = tuple[str, object, object]
"""What was asked of a driver, what it gave, and what is promised."""

_uids = Tokens()


class NothingDue(QlabError):
    """A job was due, and `reserve` gave none."""


class Hands:
    """A driver and a queue of it in which nothing is yet, with short words for what promises do to it.

    Args:
        driver: The driver.
        store: What makes one like it, where there is such a thing; else the driver itself.

    Attributes:
        queue: The queue's name.
        other: The name of another queue, in which nothing is either.
        open: Whether the driver is still open.

    Example:
        >>> from qlab import drivers
        >>> from qlab.contract import Hands
        >>> with drivers.open("memory://") as driver:
        ...     on = Hands(driver, driver)
        ...     _ = on.push("a", "b")
        ...     held = on.take()
        ...     on.names(now=0.0), driver.complete(held, now=1.0)
        (['b'], True)
    """

    def __init__(self, driver: Driver, store: Store) -> None:
        self.driver, self.store = driver, store
        self.queue = f"contract {_uids.next()[-12:]}"
        self.other = f"{self.queue} other"
        self.open = True

    def push(self, *names: str, now: float = 0.0, at: float | None = None, queue: str = "") -> list[Job]:
        """Push jobs with these names at once, due at a moment; now by default."""
        jobs = [new(name, at=now if at is None else at) for name in names]
        return self.driver.push(queue or self.queue, jobs, now=now)

    def take(self, *, now: float = 0.0, retry_after: float | None = 90.0, queue: str = "") -> Reservation:
        """Reserve the next job, which must be there."""
        found = self.driver.reserve(queue or self.queue, now=now, retry_after=retry_after)
        if not found:
            raise NothingDue(f"a job was due at {now:g} s, and reserve gave none")
        return found[0]

    def names(self, *, now: float, limit: int = 100) -> list[str]:
        """Name what one call reserves, in order."""
        return [held.job.name for held in self.driver.reserve(self.queue, now=now, retry_after=90.0, limit=limit)]

    def fail(self, held: Reservation, *, now: float = 0.0, error: str = "ValueError: boom") -> bool:
        """Fail a job with the attempts that it has had."""
        return self.driver.fail(held, now=now, attempts=held.job.attempts, error=error)

    def failed_one(self, name: str = "a", *, now: float = 0.0) -> FailedJob:
        """Push a job and fail it, where no other is due."""
        self.push(name, now=now)
        self.fail(self.take(now=now), now=now)
        return self.failed()[-1]

    def failed(self, queue: str = "") -> list[FailedJob]:
        """List the failed jobs."""
        return self.driver.failed(queue or self.queue)

    def counts(self, *, now: float, queue: str = "") -> Counts:
        """Count the jobs by state."""
        return self.driver.counts(queue or self.queue, now=now)

    def all(self, *, now: float, queue: str = "") -> object:
        """Give all that the driver tells about a queue."""
        named = queue or self.queue
        tell = self.driver
        return tell.counts(named, now=now), tell.jobs(named, now=now), tell.failed(named), tell.next_due(named, now=now)


Steps = Iterator[Said]
Program = Callable[[Hands], Steps]


class Promise(NamedTuple):
    """A promise.

    Attributes:
        name: What it is, as a sentence.
        about: More of it, and why it matters.
        program: The small program.

    Example:
        >>> from qlab.contract import PROMISES
        >>> print(PROMISES[0])
        a queue that was never used is empty
    """

    name: str
    about: str
    program: Program

    def broken(self, hands: Hands) -> str | None:
        """Say how a driver breaks it, at the first answer that is another than promised; None where it is kept."""
        steps = self.program(hands)
        if not isinstance(steps, Iterator):
            raise TypeError(f"a promise yields what was asked, what came and what is promised; this one gave {steps!r}")
        for what, found, promised in itertools.chain(steps, _sound(hands)):
            if found != promised:
                return f"{what}: {_shown(found)}, where {_shown(promised)} is promised"
        return None

    def __str__(self) -> str:
        return self.name


def promise(program: Program) -> Promise:
    """Make a promise of a program, which is named as a sentence.

    Args:
        program: A function of `Hands` that yields `(what was asked, what came, what is promised)`, once or often.

    Example:
        >>> from qlab.contract import judge, new, promise
        >>> @promise
        ... def a_long_payload_comes_back_whole(on):
        ...     on.driver.push(on.queue, [new(body='"…"' * 100_000)], now=0.0)
        ...     yield "its length", len(on.take().job.body), 300_000
        >>> judge("memory://", promises=[a_long_payload_comes_back_whole])
        [✓ a long payload comes back whole]
    """
    return Promise(program.__name__.replace("_", " "), (program.__doc__ or "").strip(), program)


def new(name: str = "a", *, at: float = 0.0, body: str = "null") -> NewJob:
    """Make a job to push, with a uid that no other has.

    Args:
        name: The handler's name.
        at: When it may be reserved from, in seconds.
        body: The payload as JSON text.

    Example:
        >>> from qlab.contract import new
        >>> new("a", at=5.0)[1:]
        ('a', 'null', 5.0)
    """
    return NewJob(_uids.next(), name, body, at)


def raised(call: Callable[[], object]) -> str:
    """Name what a call raises, or `nothing`."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - which it is is what is asked
        return type(error).__name__
    return "nothing"


def _shown(value: object) -> str:
    return shortened(repr(value), 200)


def _sound(hands: Hands) -> Steps:
    found = hands.driver.check(hands.queue, now=0.0) if hands.open else []
    yield "what check finds afterwards", found, []
