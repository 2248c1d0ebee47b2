"""qlab itself, measured as its peers are: the same handler, in the loop that its `Worker` has."""

from collections.abc import Callable, Iterable

from qlab.job import Attempt
from qlab.outcome import Outcome
from qlab.peers.handled import handle
from qlab.queue import Queue


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    queue = _open(address)
    for number in numbers:
        queue.dispatch("job", number)
    queue.close()


def fill(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, many at a time."""
    queue = _open(address)
    queue.dispatch_many(("job", number) for number in numbers)
    queue.close()


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left."""
    queue = _open(address)
    queue.counts()  # The connection is there, and has answered.
    return lambda: queue.work(_tell)


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    queue = _open(address)
    try:
        return queue.counts().depth
    finally:
        queue.close()


def _open(address: str) -> Queue:
    queue = Queue(address, trace=False)

    @queue.handler("job")
    def job(attempt: Attempt) -> None:
        handle(attempt.payload)

    return queue


def _tell(outcome: Outcome) -> None:
    """Be told how a job ended, as a `Worker` is, and do nothing about it."""
