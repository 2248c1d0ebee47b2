"""What can go wrong, as a few classes with one base.

A bad argument is a built-in `ValueError` or `TypeError` with the value in it. Everything else is a `QlabError`.
"""


class QlabError(Exception):
    """Something in qlab went wrong."""

    def __str__(self) -> str:
        return super().__str__() or (type(self).__doc__ or "").split("\n")[0]


class DriverUnavailable(QlabError):
    """The store did not answer, or could not do what was asked just now; the same call may work later."""


class ReplyLost(DriverUnavailable):
    """The store was asked and did not answer; what was asked may or may not have been done."""


class UnexpectedReply(ReplyLost):
    """The store answered, but not what was asked; that may or may not have been done."""


class UnusableStore(QlabError):
    """The file or server is there, but cannot hold a queue as it is."""


class NoQueueThere(UnusableStore):
    """There is no queue of qlab at this address."""


class MissingRequirement(QlabError):
    """A library or a program that this needs is not installed."""


class InvalidPayload(QlabError, ValueError):
    """The payload is not a JSON value that qlab can keep; nothing was stored."""


class UnknownHandler(QlabError, LookupError):
    """No handler is registered under this name."""


class UnknownQueue(QlabError, LookupError):
    """No queue is found under this name."""


class UnknownFailedJob(QlabError, LookupError):
    """No failed job has this id in this queue."""


class QueueClosed(QlabError):
    """The queue is closed: make a new Queue to go on."""


class AttemptsExhausted(QlabError):
    """Every attempt was used up without an answer: each worker that reserved the job vanished or gave it back."""


class EndlessMoment(QlabError):
    """In a simulation, things happen for ever while no time goes by."""


class InternalHandlerError(QlabError):
    """A handler returned or yielded something that is not part of the contract."""
