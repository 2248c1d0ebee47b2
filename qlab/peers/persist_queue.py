"""persist-queue: an item of its `SQLiteAckQueue` is taken in one transaction, and acknowledged in another."""

from collections.abc import Callable, Iterable
from contextlib import closing

from persistqueue import Empty, SQLiteAckQueue

from qlab.peers.handled import handle


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    with closing(SQLiteAckQueue(address)) as queue:
        for number in numbers:
            queue.put(number)


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left."""
    queue = SQLiteAckQueue(address)

    def work() -> None:
        while True:
            try:
                number = queue.get(block=False)
            except Empty:
                return
            handle(number)
            queue.ack(number)

    return work


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    with closing(SQLiteAckQueue(address, auto_resume=False)) as queue:
        return int(queue.size + queue.unack_count())


def settings(address: str) -> tuple[str, int]:
    """Ask its own connection for `journal_mode` and `synchronous`."""
    with closing(SQLiteAckQueue(address)) as queue:
        ask = queue._conn.execute  # noqa: SLF001 - only there can be seen what it is set to
        return ask("PRAGMA journal_mode").fetchone()[0], ask("PRAGMA synchronous").fetchone()[0]
