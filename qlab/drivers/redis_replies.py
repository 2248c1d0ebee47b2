"""What a server's answers are read as. Anything may stand between qlab and a server, so nothing is taken on trust.

A reader makes its value of an answer or raises one of `MALFORMED`; the store tells what was asked, and of whom.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from qlab.clock import from_us
from qlab.driver import Mark
from qlab.drivers.failed_jobs import Failing
from qlab.job import FailedJob, Job, NewJob, Reservation

Item = TypeVar("Item")
Read = Callable[[Any], Item]

MALFORMED = (TypeError, ValueError, LookupError, AttributeError)
"""What reading raises where an answer is not what it should be, redis-py's own reading included."""


def whole(reply: Any) -> int:
    """Read a number."""
    if type(reply) is not int:  # a bool is one, but no answer to how many
        raise TypeError(reply)
    return reply


def flag(reply: Any) -> bool:
    """Read 1 or 0."""
    return {1: True, 0: False}[whole(reply)]


def text(reply: Any) -> str:
    """Read text, decoded already or not."""
    if isinstance(reply, bytes):
        return reply.decode()
    if not isinstance(reply, str):
        raise TypeError(reply)
    return reply


def texts(reply: Any) -> list[str]:
    """Read texts, in order or as a set."""
    if not isinstance(reply, list | set | tuple):
        raise TypeError(reply)
    return [text(each) for each in reply]


def settings(reply: Any) -> dict[str, str]:
    """Read a mapping of text to text."""
    return {text(name): text(value) for name, value in reply.items()}


def facts(reply: Any) -> dict[str, Any]:
    """Read the server's description of itself, as redis-py takes it apart; each server has one of these versions."""
    found = dict(reply.items())
    if not found.keys() & {"redis_version", "valkey_version"}:
        raise ValueError(found)
    return found


def moment(reply: Any) -> int | None:
    """Read a moment in microseconds, or that there is none."""
    return None if reply is None else int(float(text(reply)))


def woken(reply: Any) -> bool:
    """Read whether a token came, as `[key, token]`."""
    if reply is None:
        return False
    _, token = reply
    return text(token) == ""


def mark(reply: Any) -> Mark:
    """Read a mark."""
    field, value = texts(listed(reply))
    kind, _, name = field.partition(":")
    return Mark(kind, name, from_us(int(value)))


def three(reply: Any) -> tuple[int, int, int]:
    """Read three numbers."""
    first, second, third = listed(reply)
    return whole(first), whole(second), whole(third)


def listed(reply: Any) -> list[Any]:
    """Read a list."""
    if not isinstance(reply, list):
        raise TypeError(reply)
    return reply


def page(head: Read[Item], row: Callable[[Any], Any]) -> Read[tuple[Item, list[Any]]]:
    """Make a reader of a list that has something else at its head."""
    return lambda reply: (head(listed(reply)[0]), [row(each) for each in reply[1:]])


def job(queue: str) -> Read[Job]:
    """Make a reader of a job, as `described` in `row.lua` tells it."""
    return lambda row: _job(queue, row)


def _job(queue: str, row: Any) -> Job:
    id, uid, name, body, attempts, dispatched_at, available_at, reserved_at, _, _, _ = listed(row)
    times = from_us(whole(dispatched_at)), from_us(whole(available_at))
    since = None if reserved_at is None else from_us(whole(reserved_at))
    return Job(whole(id), text(uid), queue, text(name), text(body), whole(attempts), *times, since)


def in_order(queue: str) -> Read[tuple[tuple[int, int], Job]]:
    """Make a reader of a job with its place in the order, `(available_at, serial number)`."""
    return lambda row: ((whole(row[6]), whole(row[10])), _job(queue, row))


def reserved(reply: Any, queue: str, token: str) -> tuple[bool, list[Reservation]]:
    """Read whether more may be left, and what was reserved with a token; nil is that nothing was."""
    if reply is None or reply is False:
        return False, []
    more, *rows = listed(reply)
    return flag(more), [_reservation(queue, token, row) for row in rows]


def _reservation(queue: str, token: str, row: Any) -> Reservation:
    held = _job(queue, row)
    return Reservation(held, f"{token}-{held.id}", from_us(whole(row[8])), flag(row[9]))


def completed_and_reserved(reply: Any, queue: str, token: str) -> tuple[bool, tuple[bool, list[Reservation]]]:
    """Read whether a job was completed, and what was reserved."""
    completed, following = listed(reply)
    return flag(completed), reserved(following, queue, token)


def pushed(queue: str, jobs: Sequence[NewJob], now: int, moments: Sequence[int]) -> Read[list[Job]]:
    """Make a reader of what became of jobs: each one's new id, or the job that has its uid already."""
    read = job(queue)

    def one(reply: Any, new: NewJob, at: int) -> Job:
        if isinstance(reply, list):
            return read(reply)
        return Job(whole(reply), new.uid, queue, new.name, new.body, 0, from_us(now), from_us(at))

    return lambda reply: [one(*each) for each in zip(listed(reply), jobs, moments, strict=True)]


def retried(queue: str, rows: Sequence[FailedJob]) -> Read[list[Job | None]]:
    """Make a reader of the jobs that rows of failed_jobs became; 0 for a row that was noted already."""
    read = job(queue)

    def one(reply: Any) -> Job | None:
        return read(reply) if isinstance(reply, list) else {0: None}[whole(reply)]

    return lambda reply: [one(each) for each, _ in zip(listed(reply), rows, strict=True)]


def failing(queue: str) -> Read[list[Failing]]:
    """Make a reader of the failures whose rows are not written yet, in the order in which they happened."""

    def entry(reply: Any) -> tuple[int, Failing]:
        serial, uid, token, name, body, attempts, error, traceback, dispatched_at, failed_at = map(text, listed(reply))
        times = from_us(int(dispatched_at)), from_us(int(failed_at))
        row = FailedJob(None, uid, queue, name, body, int(attempts), error, traceback, *times)
        return int(serial), Failing(token, row)

    return lambda reply: [each for _, each in sorted(map(entry, listed(reply)), key=lambda found: found[0])]
