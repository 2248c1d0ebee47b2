"""What the systems are made of: a queue with its workers, and the application's own database beside it."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from qlab.drivers.database import Database
from qlab.queue import Queue
from qlab.service import WorkerService
from qlab.team import Team, workers
from qlab.whole import is_whole
from qlab.worker import Recover, Worker

Jobs = Mapping[str, Callable[..., Any]] | Iterable[tuple[str, Callable[..., Any]]]


class System:
    """A queue and its workers; a context manager in which they work.

    Args:
        queue: The queue; it closes with the system.
        workers: How many threads `start` makes; they are daemons, as a `Worker`'s.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.
        recover: What is made ready again before they begin, as a `Worker` does.

    Raises:
        ValueError: `workers` is no whole number from 0.

    Attributes:
        queue: The queue: dispatch to it, step it, look into it.
    """

    def __init__(self, queue: Queue, *, workers: int = 1, poll: float = 1.0, recover: Recover = "expired") -> None:
        if not is_whole(workers, 0):
            raise ValueError(f"workers is {workers!r}: use how many threads work, from 0")
        self.queue = queue
        self._count, self._poll, self._recover = workers, poll, recover
        self._team: Team | None = None

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that work now."""
        return () if self._team is None else self._team.members

    def start(self) -> Self:
        """Start the workers in threads of their own.

        Raises:
            RuntimeError: They work already.
        """
        self._prepare()
        if self._count:
            self._engage(self._count).start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Let each worker finish its job in hand and take no other.

        Args:
            timeout: How many seconds to wait for all of them; no limit by default.

        Returns:
            Whether all have ended; what has not is left to itself, as by `Worker.stop`.
        """
        team, self._team = self._team, None
        return team is None or team.stop(timeout)

    def work(self, workers: int = 1) -> None:
        """Only work, in this thread and as many more as it takes, until Ctrl-C or `stop`.

        Raises:
            RuntimeError: They work already.
        """
        self._prepare()
        mine, *others = self._engage(workers).members
        try:
            for worker in others:
                worker.start()
            mine.run()
        finally:
            self.stop()

    def close(self) -> None:
        """Stop the workers, and close the queue."""
        self.stop()
        self.queue.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.queue!r}>"

    def _prepare(self) -> None:
        """Do what comes before any worker."""

    def _engage(self, count: int) -> Team:
        if self._team is not None:
            raise RuntimeError(f"the workers of {self.queue!r} work already: stop() them first")
        self._team = workers(self.queue, count, poll=self._poll, recover=self._recover)
        return self._team


class AppDatabase:
    """An application's own SQLite database: each thread has a connection, and waits for the lock as the queue does.

    Args:
        path: The file.
        synchronous: What a power cut may lose, as in a `sqlite:///` address.
    """

    def __init__(self, path: str, *, synchronous: str = "NORMAL") -> None:
        self._database = Database(path, schema=(), synchronous=synchronous)
        self.path = self._database.path

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Run one statement, which commits by itself, and fetch all its rows."""
        return self._database.use(lambda connection: self._database.execute(connection, "app", statement, values))

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: it commits at the end, or rolls back where anything is raised.

        What it gives is also what `dispatch(…, connection=)` takes.
        """
        connection = self._database.use(lambda mine: mine)
        self._database.execute(connection, "begin", "BEGIN IMMEDIATE", ())
        try:
            yield connection
            self._database.execute(connection, "commit", "COMMIT", ())
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole file as it is at one moment, while others read and write it.

        Args:
            path: A file that is not there yet; it appears when it is whole.

        Raises:
            ValueError: It is there already.
        """
        whole = Path(path)
        part = whole.with_name(f"{whole.name}.part")
        if whole.exists():
            raise ValueError(f"{whole} is there already: a backup is a new file")
        try:
            with closing(sqlite3.connect(part)) as copy:
                part.chmod(0o600)
                self._database.use(lambda connection: connection.backup(copy))
            part.replace(whole)
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def __repr__(self) -> str:
        return f"AppDatabase({self.path!r})"


def register(to: Queue | WorkerService, jobs: Jobs) -> None:
    """Register the handlers that an application names.

    Raises:
        ValueError: A name is there twice.
    """
    there: set[str] = set()
    for name, run in jobs.items() if isinstance(jobs, Mapping) else jobs:
        if name in there:
            raise ValueError(f"the handler {name!r} is named twice: give each its own name")
        to.handler(name)(run)
        there.add(name)
