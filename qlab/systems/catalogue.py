"""ADR-006: a catalogue whose queue is a table in the same SQLite database, with no broker and no second process."""

import os
from contextlib import ExitStack, closing
from pathlib import Path

from qlab.clock import Clock, pause
from qlab.drivers.files import MEMORY
from qlab.drivers.vellum import Progress, VellumDriver
from qlab.job import Attempt, Job
from qlab.library import DEFAULT_LIMIT, Item, item, python_files
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.show import Table
from qlab.systems.parts import AppDatabase, System
from qlab.whole import is_whole

BREATH = 0.005
"""How many seconds a scan leaves between two chunks: whoever waits for the lock asks again every three milliseconds.

Chunks one right after the other would keep them waiting as long as one transaction does (`scan_wait` measures it).
"""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS libraries (id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE) STRICT",
    """
    CREATE TABLE IF NOT EXISTS items (
        library INTEGER NOT NULL REFERENCES libraries (id),
        path TEXT NOT NULL,
        parsed INTEGER, functions INTEGER, classes INTEGER, lines INTEGER, error TEXT,  -- NULL until it is enriched
        PRIMARY KEY (library, path)
    ) STRICT
    """,
)
_ENRICHED = """
    UPDATE items SET parsed = ?, functions = ?, classes = ?, lines = ?, error = ?
    WHERE library = ? AND path = ?
"""


class Vellum(System):
    """A catalogue of Python files, and ADR-006's queue in the same file; `vellum` makes one.

    Args:
        queue: The queue, on a `VellumDriver`; it closes with the system.
        database: The catalogue's tables.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.
        chunk: How many files a scan takes in one transaction.

    Attributes:
        queue: The queue: dispatch to it, step it, look into it.
        database: The catalogue's tables, `libraries` and `items`; handlers get it as `job.context`.
        chunk: How many files a scan takes in one transaction.

    Example:
        >>> import tempfile
        >>> from contextlib import closing
        >>> from pathlib import Path
        >>> from qlab.systems import vellum
        >>> with tempfile.TemporaryDirectory() as folder, closing(vellum(f"{folder}/vellum.db")) as app:
        ...     _ = Path(folder, "hello.py").write_text("def hello(): ...")
        ...     job = app.scan(app.add_library(folder))
        ...     _ = app.queue.drain()
        ...     app.status(1).state, [item.path for item in app.items(1)]
        ('done', ['hello.py'])
    """

    def __init__(self, queue: Queue, database: AppDatabase, *, workers: int, poll: float, chunk: int) -> None:
        super().__init__(queue, workers=workers, poll=poll, recover=None)
        self.database = database
        self.chunk = chunk
        self._booted = False
        queue.handler("scan_library")(self._scan_library)
        queue.handler("enrich_item")(self._enrich_item)

    # -- the catalogue --

    def add_library(self, folder: str | os.PathLike[str]) -> int:
        """Take a folder into the catalogue, and tell its number; a folder that is there keeps the one it has.

        Raises:
            ValueError: It is no folder.
        """
        path = Path(folder).absolute()
        if not path.is_dir():
            raise ValueError(f"{str(path)!r} is no folder: a library is a folder of Python files")
        with self.database.transaction() as db:
            db.execute("INSERT INTO libraries (folder) VALUES (?) ON CONFLICT DO NOTHING", [str(path)])
            return int(db.execute("SELECT id FROM libraries WHERE folder = ?", [str(path)]).fetchone()[0])

    def scan(self, library: int, *, limit: int = DEFAULT_LIMIT) -> Job:
        """Dispatch a `scan_library`, which dispatches an `enrich_item` for each file that is new.

        Args:
            library: The library's number.
            limit: How many files at the most, from 1.

        Raises:
            LookupError: There is no such library.
            ValueError: `limit` is not from 1.
        """
        if not is_whole(limit, 1):
            raise ValueError(f"limit is {limit!r}: use how many files a scan takes, from 1")
        self._folder(library)
        return self.queue.dispatch("scan_library", {"library": library, "limit": limit})

    def status(self, library: int) -> Progress | None:
        """Tell how the latest scan of a library stands, as the row of its job has it; None where there was none.

        Raises:
            LookupError: There is no such library.
        """
        self._folder(library)
        assert isinstance(self.queue.driver, VellumDriver)  # noqa: S101 - `vellum` has made it
        return self.queue.driver.status("scan_library", library)

    def items(self, library: int) -> list[Item]:
        """List the files of a library that were enriched, by path."""
        rows = self.database.execute(
            "SELECT path, parsed, functions, classes, lines, error FROM items WHERE library = ? AND parsed IS NOT NULL "
            "ORDER BY path",
            [library],
        )
        return [Item(path, bool(parsed), *rest) for path, parsed, *rest in rows]

    # -- its life --

    def boot(self) -> "Table[Job]":
        """Recover whatever a dead process left `running`; `start` and `work` do it once, before anything works.

        It takes the jobs of every process that has the file open: only one may.

        Returns:
            The jobs.
        """
        self._booted = True
        return self.queue.recover(force=True)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy catalogue and queue as they are at one moment, while both are in use.

        Args:
            path: A file that is not there yet; `vellum(path)` goes on from it.

        Raises:
            ValueError: It is there already.
        """
        self.database.backup(path)

    def close(self) -> None:
        """Stop the workers, and close the queue and the catalogue."""
        super().close()
        self.database.close()

    def _prepare(self) -> None:
        if not self._booted:
            self.boot()

    # -- the two kinds of jobs --

    def _scan_library(self, job: Attempt) -> None:
        library, limit = job.payload["library"], job.payload.get("limit", DEFAULT_LIMIT)
        files = python_files(self._folder(library), limit)
        for start in range(0, len(files), self.chunk):
            if start:
                pause(BREATH)
            self._take_in(library, files[start : start + self.chunk])
            job.progress(min(start + self.chunk, len(files)), len(files))

    def _take_in(self, library: int, paths: list[str]) -> None:
        """Store some files, each with its job: a scan that is cut off and runs again finds them there."""
        with self.database.transaction() as db:
            for path in paths:
                row = "INSERT INTO items (library, path) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING path"
                if db.execute(row, [library, path]).fetchall():
                    self.queue.dispatch("enrich_item", {"library": library, "path": path}, connection=db)

    def _enrich_item(self, job: Attempt) -> None:
        library, path = job.payload["library"], job.payload["path"]
        found = item(path, Path(self._folder(library), path).read_bytes())
        self.database.execute(_ENRICHED, [*found[1:], library, path])

    def _folder(self, library: int) -> str:
        rows = self.database.execute("SELECT folder FROM libraries WHERE id = ?", [library])
        if not rows:
            raise LookupError(f"there is no library {library!r}: add_library(folder) gives a number")
        return str(rows[0][0])


def vellum(
    path: str | os.PathLike[str] = "vellum.db",
    *,
    clock: Clock | None = None,
    workers: int = 4,
    poll: float = 1.0,
    tries: int | None = 3,
    chunk: int = 100,
) -> Vellum:
    """Set up a catalogue with its queue in the same SQLite file, as ADR-006 has it.

    Reserving is one statement. Nothing runs out: what a dead process left `running` is recovered at the next boot. An
    exception is tried again, a panic (what is no `Exception`) fails its job at once, and neither ends a worker. Rows
    are kept, so that `status(library)` tells how a scan goes. Workers work inside `with app:`.
    `VellumDriver` says what such a table does not promise.

    Args:
        path: The file; made where it is not there.
        clock: Where the time of jobs comes from; the machine's clock by default.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.
        tries: How many attempts a job has in all; None for no limit.
        chunk: How many files a scan takes in one transaction: small ones let others write in between, in a pause of
            5 ms after each.

    Raises:
        ValueError: A number is out of its range, or the path names no file.
        UnusableStore: The file is no database, or has another table `jobs`.

    Example:
        >>> import tempfile
        >>> from contextlib import closing
        >>> from qlab.systems import vellum
        >>> with tempfile.TemporaryDirectory() as folder, closing(vellum(f"{folder}/vellum.db", tries=2)) as app:
        ...     app.add_library(folder), app.queue.handlers, app.queue.policy.tries
        (1, ('enrich_item', 'scan_library'), 2)
    """
    if not is_whole(chunk, 1):
        raise ValueError(f"chunk is {chunk!r}: use how many files a transaction takes, from 1")
    if os.fspath(path) == MEMORY:
        raise ValueError(f"path is {path!r}: catalogue and queue have a connection each; name a file, as vellum.db")
    policy = Policy(tries=tries, retry_after=None, panic_fails=True)
    with ExitStack() as opened:
        driver = opened.enter_context(VellumDriver(os.fspath(path)))
        database = opened.enter_context(closing(AppDatabase(os.fspath(path))))
        for table in _TABLES:
            database.execute(table)
        queue = Queue(driver, policy=policy, clock=clock, name="vellum", context=database)
        app = Vellum(queue, database, workers=workers, poll=poll, chunk=chunk)
        opened.pop_all()
    return app
