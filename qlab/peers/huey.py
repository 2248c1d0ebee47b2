"""huey, on SQLite or Redis: a task is taken off its queue in one step, before it runs."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from sqlite3 import OperationalError
from typing import Any

from huey import RedisHuey, SqliteHuey

from qlab.peers.handled import handle

_READ_TIMEOUT = 0.1  # seconds that a read waits where nothing is left: after the last job, which ends what is measured


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    with _opened(address) as (_, task):
        for number in numbers:
            task(number)


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left, by the two steps of huey's own worker.

    That one goes on after an error, too. Where the lock of a file was not to be had it asks again, but a task that it
    has taken by then is gone.
    """
    app, _ = _open(address)

    def work() -> None:
        while True:
            with suppress(OperationalError):
                if (task := app.dequeue()) is None:
                    return
                app.execute(task)

    return work


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    with _opened(address) as (app, _):
        return int(app.pending_count())


def settings(address: str) -> tuple[str, int]:
    """Ask its own connection for `journal_mode` and `synchronous`."""
    with _opened(address) as (app, _):
        ask = app.storage.conn.execute
        return ask("PRAGMA journal_mode").fetchone()[0], ask("PRAGMA synchronous").fetchone()[0]


def _open(address: str) -> tuple[Any, Any]:
    is_server = "://" in address
    app = RedisHuey(url=address, read_timeout=_READ_TIMEOUT) if is_server else SqliteHuey(filename=address)
    return app, app.task(name="job")(handle)


@contextmanager
def _opened(address: str) -> Iterator[tuple[Any, Any]]:
    app, task = _open(address)
    try:
        yield app, task
    finally:
        (app.storage.pool if "://" in address else app.storage).close()
