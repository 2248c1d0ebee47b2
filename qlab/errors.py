"""What can go wrong, as a few classes with one base.

A bad argument is a built-in `ValueError` or `TypeError` with the value in it. Everything else is a `QlabError`.
"""

__all__ = [
    "AttemptsExhausted",
    "DriverUnavailable",
    "EndlessMoment",
    "InternalHandlerError",
    "InvalidPayload",
    "MissingRequirement",
    "NoQueueThere",
    "QlabError",
    "QueueClosed",
    "ReplyLost",
    "UnexpectedReply",
    "UnknownFailedJob",
    "UnknownHandler",
    "UnknownQueue",
    "UnusableStore",
]


class QlabError(Exception):
    """Something in qlab went wrong.

    Example:
        >>> from qlab import Queue
        >>> from qlab.errors import QlabError
        >>> try:
        ...     Queue("memory://").retry(7)
        ... except QlabError as error:
        ...     print(type(error).__name__)
        UnknownFailedJob
    """

    def __str__(self) -> str:
        return super().__str__() or (type(self).__doc__ or "").split("\n")[0]


class DriverUnavailable(QlabError):
    """The store did not answer, or could not do what was asked just now; the same call may work later.

    Example:
        >>> from qlab import Queue, SimulatedClock, drivers, faults
        >>> from qlab.drivers.troubled import Troubled
        >>> store = Troubled(drivers.open("memory://"), [faults.Away(at=0, seconds=60)])
        >>> Queue(store, clock=SimulatedClock()).counts()
        Traceback (most recent call last):
            ...
        qlab.errors.DriverUnavailable: the store is away until 60 s, counts came at 0 s: nothing was done
    """


class ReplyLost(DriverUnavailable):
    """The store was asked and did not answer; what was asked may or may not have been done.

    Example:
        >>> from qlab import Queue, SimulatedClock, drivers, faults
        >>> from qlab.drivers.troubled import Troubled
        >>> store = Troubled(drivers.open("memory://"), [faults.LostReply("push", times=None)])
        >>> queue = Queue(store, clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> queue.dispatch("mail")
        Traceback (most recent call last):
            ...
        qlab.errors.ReplyLost: the store did push at 0 s, and its reply was lost
    """


class UnexpectedReply(ReplyLost):
    """The store answered, but not what was asked; that may or may not have been done.

    Example:
        >>> from qlab.errors import DriverUnavailable, UnexpectedReply
        >>> issubclass(UnexpectedReply, DriverUnavailable)
        True
    """


class UnusableStore(QlabError):
    """The file or server is there, but cannot hold a queue as it is.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from qlab import drivers
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "jobs.db").write_text("no database " * 100)
        ...     drivers.open(f"sqlite:///{folder}/jobs.db")
        Traceback (most recent call last):
            ...
        qlab.errors.UnusableStore: ...jobs.db is no sound SQLite database (file is not a database): ...
    """


class NoQueueThere(UnusableStore):
    """There is no queue of qlab at this address.

    Example:
        >>> from qlab import drivers
        >>> drivers.open("sqlite:///not-there.db", create=False)
        Traceback (most recent call last):
            ...
        qlab.errors.NoQueueThere: there is no file ...not-there.db: is 'sqlite:///not-there.db' the right address?
    """


class MissingRequirement(QlabError):
    """A library or a program that this needs is not installed.

    Example:
        >>> from qlab.errors import MissingRequirement
        >>> str(MissingRequirement())
        'A library or a program that this needs is not installed.'
    """


class InvalidPayload(QlabError, ValueError):
    """The payload is not a JSON value that qlab can keep; nothing was stored.

    Example:
        >>> from qlab import Queue
        >>> queue = Queue("memory://")
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> queue.dispatch("mail", {"to": {"ada", "bob"}})
        Traceback (most recent call last):
            ...
        qlab.errors.InvalidPayload: ... payload['to'] is a set, which JSON does not have: use a sorted list
    """


class UnknownHandler(QlabError, LookupError):
    """No handler is registered under this name.

    Example:
        >>> from qlab import Queue
        >>> queue = Queue("memory://")
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> queue.dispatch("mial")
        Traceback (most recent call last):
            ...
        qlab.errors.UnknownHandler: no handler is called 'mial': did you mean 'mail'? Register it with ...
    """


class UnknownQueue(QlabError, LookupError):
    """No queue is found under this name.

    Example:
        >>> from qlab.errors import UnknownQueue
        >>> str(UnknownQueue())
        'No queue is found under this name.'
    """


class UnknownFailedJob(QlabError, LookupError):
    """No failed job has this id in this queue.

    Example:
        >>> from qlab import Queue
        >>> Queue("memory://").forget(7)
        Traceback (most recent call last):
            ...
        qlab.errors.UnknownFailedJob: there is no failed job 7 in the queue 'default': Queue.failed() lists them
    """


class QueueClosed(QlabError):
    """The queue is closed: make a new Queue to go on.

    Example:
        >>> from qlab import Queue
        >>> queue = Queue("memory://")
        >>> queue.close()
        >>> queue.counts()
        Traceback (most recent call last):
            ...
        qlab.errors.QueueClosed: The queue is closed: make a new Queue to go on.
    """


class AttemptsExhausted(QlabError):
    """Every attempt was used up without an answer: each worker that reserved the job vanished or gave it back.

    Example:
        >>> from qlab import Policy, Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock(), policy=Policy(tries=1))
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail"), queue.reserve(), queue.clock.advance(90)
        >>> queue.work_once().error
        'AttemptsExhausted: Every attempt was used up without an answer: ...'
        >>> queue.close()
    """


class EndlessMoment(QlabError):
    """In a simulation, things happen for ever while no time goes by.

    Example:
        >>> from qlab.errors import EndlessMoment
        >>> str(EndlessMoment())
        'In a simulation, things happen for ever while no time goes by.'
    """


class InternalHandlerError(QlabError):
    """A handler returned or yielded something that is not part of the contract.

    Example:
        >>> from qlab import Queue, SimulatedClock
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> @queue.handler("mail", tries=1)
        ... def mail(job):
        ...     yield "a minute"
        >>> _ = queue.dispatch("mail")
        >>> queue.work_once().error
        "InternalHandlerError: a generator handler yields the seconds that it spends: ..."
        >>> queue.close()
    """
