"""litequeue: a message is locked in one transaction of SQLite, and marked as done in another."""

import json
from collections.abc import Callable, Iterable
from contextlib import closing

from litequeue import LiteQueue

from qlab.peers.handled import handle

_LOCK_WAIT = 30.0  # seconds: what its README shows


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    with closing(LiteQueue(address, timeout=_LOCK_WAIT)) as queue:
        for number in numbers:
            queue.put(json.dumps(number))


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left."""
    queue = LiteQueue(address, timeout=_LOCK_WAIT)

    def work() -> None:
        while (message := queue.pop()) is not None:
            handle(json.loads(message.data))
            queue.done(message.message_id, claim_id=message.claim_id)

    return work


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    with closing(LiteQueue(address)) as queue:
        return int(queue.active_count())


def settings(address: str) -> tuple[str, int]:
    """Ask its own connection for `journal_mode` and `synchronous`."""
    with closing(LiteQueue(address)) as queue:
        ask = queue.conn.execute
        return ask("PRAGMA journal_mode").fetchone()[0], ask("PRAGMA synchronous").fetchone()[0]
