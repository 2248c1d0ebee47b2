"""A SQLite file, opened with care: its connections, its lock, its transactions, and what its errors mean."""

import os
import random
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from qlab.clock import monotonic, pause
from qlab.driver import Statement, tell
from qlab.drivers.connections import Seat, check_not_inherited
from qlab.drivers.files import MEMORY, check_path, same_file
from qlab.drivers.schema import Schema
from qlab.drivers.sqlite_errors import is_busy, meaning
from qlab.drivers.statements import sql
from qlab.errors import DriverUnavailable, MissingRequirement, QlabError, QueueClosed, UnusableStore
from qlab.escape import shortened
from qlab.forks import generation

OLDEST = (3, 37, 0)
"""The first SQLite that has STRICT tables."""

Values = Mapping[str, Any] | Sequence[Any]
Listener = Callable[[Statement], None]
Source = sqlite3.Connection | sqlite3.Cursor
Result = TypeVar("Result")

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
_JOURNALS = ("WAL", "DELETE")
_WAIT = (0.001, 0.003)  # seconds
_OLD = 0.02  # seconds: who has waited for so long asks twice as often
_OLDEST_ASKS = 4  # times as often as who has just begun to wait
_LOOK_EVERY, _CHECKPOINT_EVERY = 16, 240  # uses of a connection: while a WAL grows, each sync to the disk is slower
_AFTER_A_READER = 1_000  # as above
_LONG = 64 * 2**20  # bytes
_CHECKPOINT_TRIES = 20
_patience = random.Random()


class Database:
    """A SQLite file with one connection for each thread and process, or one locked connection for `:memory:`.

    Args:
        path: The file, or `:memory:`.
        schema: The names of the SQL files that make its tables.
        folder: Where its SQL files are, below `sql/`.
        synchronous: `OFF`, `NORMAL`, `FULL` or `EXTRA`; with a rollback journal `FULL` becomes `EXTRA`.
        journal: `WAL` or `DELETE`; by default what the file has, and WAL for a new one.
        lock_wait: How many seconds a lock is waited for.
        create: Whether the file and its tables may be made.

    Raises:
        MissingRequirement: SQLite is older than 3.37.
        UnusableStore: The file is no database, or its tables are not qlab's; nothing was changed.
        DriverUnavailable: It cannot be opened now.
    """

    def __init__(
        self,
        path: str,
        *,
        schema: Sequence[str],
        folder: str = "",
        synchronous: str = "NORMAL",
        journal: str | None = None,
        lock_wait: float = 30.0,
        create: bool = True,
    ) -> None:
        check_version(sqlite3.sqlite_version_info)
        self.path = path if path == MEMORY else os.path.abspath(path)
        self.synchronous = _chosen("synchronous", synchronous, _SYNCHRONOUS)
        self.journal = "" if journal is None else _chosen("journal", journal, _JOURNALS)
        self.lock_wait = lock_wait
        self.listeners: list[Listener] = []
        self._schema = Schema(schema, folder)
        self._folder = folder
        self._create = create
        self._local = threading.local()
        self._opened: dict[threading.Thread, Seat] = {}
        self._guard = threading.RLock()
        self._process = generation()
        self._closed = False
        self._shared: Seat | None = None
        if self.path == MEMORY:
            self.journal = "MEMORY"
            self._shared = self._open()
        else:
            self._seat()
            self._create = False  # a file that vanishes later is no new one

    @property
    def description(self) -> str:
        """Product, version and settings."""
        where = "in memory" if self.path == MEMORY else f"{self.journal}, synchronous={self.synchronous}"
        return f"SQLite {sqlite3.sqlite_version}, {where}"

    def run(self, verb: str, values: Values = (), *, which: int = 0) -> list[Any]:
        """Run one statement of `sql/<verb>.sql` in a transaction of its own, and fetch all its rows."""
        return self.use(self.execute, verb, sql(verb, self._folder)[which], values)

    def transact(self, act: Callable[..., Result], *told: Any) -> Result:
        """Hold the write lock for several statements: all of them happen, or none.

        It takes a function because a `with` block of ours would not do: an interrupt that comes between the block and
        its `__exit__` leaves it open, and the lock held, for as long as somebody looks at the traceback.

        Args:
            act: Is given the transaction, and what it is told; a verb of every job needs no closure so.
            told: What it is told.
        """
        result: Result = self.use(self._transact_on, act, *told)
        return result

    def use(self, act: Callable[..., Result], *told: Any) -> Result:
        """Do something with this thread's connection, which it is given before what it is told; a fork waits."""
        while True:
            seat = self._seat()
            with seat.lock:
                if seat.connection is not None:
                    seat.uses += 1
                    if seat.uses >= seat.look_at:
                        self._look_at_wal(seat, seat.connection)
                    return act(seat.connection, *told)

    def join(self, connection: sqlite3.Connection) -> "Transaction":
        """Take part in an application's own transaction on the same file.

        Raises:
            TypeError: It is no connection.
            ValueError: It is closed, or another thread's, or to another file, or hides the queue's tables.
        """
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError(f"connection= is {connection!r}: use the sqlite3.Connection that the job joins")
        try:
            cursor = connection.cursor()
        except sqlite3.ProgrammingError as error:
            raise ValueError(f"connection= cannot be used: use one that is open and this thread's ({error})") from error
        cursor.row_factory = None
        self._check_same_file(cursor)
        self._check_not_hidden(cursor)
        return Transaction(self, cursor, self._folder)

    def _check_same_file(self, cursor: sqlite3.Cursor) -> None:
        files = [os.fsdecode(row[2]) for row in self._fetch(cursor, "PRAGMA database_list") if row[0] == 0]
        if self.path == MEMORY or not any(file and same_file(file, self.path) for file in files):
            raise ValueError(
                f"connection= is to {files[0] or MEMORY!r}, the queue is in {self.path}: "
                "a row and its job commit together only where both are in the same file"
            )

    def _check_not_hidden(self, cursor: sqlite3.Cursor) -> None:
        """A TEMP table takes the place of the file's table of the same name: a job would vanish in it."""
        names = {os.fsdecode(row[0]) for row in self._fetch(cursor, "SELECT lower(name) FROM sqlite_temp_schema")}
        for name in sorted(names.intersection(self._schema.tables)):
            raise ValueError(
                f"connection= has a TEMP table or view {name!r}, which hides the queue's table of that name: "
                "drop it, or dispatch without connection="
            )

    def blocked(self) -> float:
        """Tell how many seconds this thread has waited for the lock since it last asked."""
        waited: float = getattr(self._local, "blocked", 0.0)
        self._local.blocked = 0.0
        return waited

    def close(self) -> None:
        """Close every connection of this process; closing twice is harmless."""
        self._closed = True
        if generation() != self._process:
            return
        with self._guard:
            for seat in [*self._opened.values(), *filter(None, [self._shared])]:
                with seat.lock:
                    seat.close()
            self._opened.clear()

    def execute(self, connection: Source, verb: str, text: str, values: Values) -> list[Any]:
        """Run a statement on a connection, waiting for the lock where need be, and fetch all its rows."""
        if self.listeners:
            tell(self.listeners, Statement("SQL", verb, text, _shown(values)))
        return self._fetch(connection, text, values)

    def execute_many(self, connection: Source, verb: str, text: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Run a statement for each row of values, within a transaction that holds the lock.

        Returns:
            False where it cannot be, because the table refuses a row: those before it are there. False, with none of
            them there, where no transaction is open.
        """
        owner = connection.connection if isinstance(connection, sqlite3.Cursor) else connection
        if not owner.in_transaction:
            return False
        if self.listeners:
            tell(self.listeners, Statement("SQL", verb, text, f"{_shown(rows[0])}; and {len(rows) - 1} more"))
        try:
            connection.executemany(text, rows)
        except sqlite3.IntegrityError as error:
            if owner.in_transaction:
                return False
            raise self._explained(error) from error  # a trigger has rolled all of it back
        except sqlite3.Error as error:
            raise self._explained(error) from error
        return True

    def _fetch(self, connection: Source, text: str, values: Values = ()) -> list[Any]:
        try:
            return connection.execute(text, values).fetchall()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise self._explained(error) from error
        return self._again(connection, text, values)

    def _again(self, connection: Source, text: str, values: Values) -> list[Any]:
        """Ask for the lock after short random waits, the shorter the longer it has been waited for.

        SQLite's own waits grow longer, so that who has just had the lock gets it again and others starve.
        """
        began = monotonic()
        while (waited := monotonic() - began) < self.lock_wait:
            pause(_patience.uniform(*_WAIT) / min(1 + waited / _OLD, _OLDEST_ASKS))
            if self._closed:
                raise QueueClosed
            try:
                rows = connection.execute(text, values).fetchall()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._explained(error) from error
            else:
                self._local.blocked = getattr(self._local, "blocked", 0.0) + monotonic() - began
                return rows
        raise DriverUnavailable(
            f"{self.path} has been locked by another connection for {waited:.1f} s: "
            "end the transaction that holds it (a handler's own? then commit before it returns; or dispatch with "
            "connection=), or wait longer with ?lock_wait=SECONDS"
        )

    def _look_at_wal(self, seat: Seat, connection: sqlite3.Connection) -> None:
        """Write the WAL back now and then, at last while nobody writes, so that it begins anew.

        SQLite would do so by itself after a commit, but lets others write meanwhile, and begins anew only once all of
        it is written back: where somebody writes at every moment that is never, and the WAL grows without an end.
        """
        seat.look_at = seat.uses + _LOOK_EVERY
        if self.journal != "WAL" or connection.in_transaction:
            return
        since, long = seat.uses - seat.checkpointed_at, self._wal_bytes() >= _LONG
        if long or since >= _CHECKPOINT_EVERY:
            seat.checkpointed_at = seat.uses
            if not _checkpointed(connection, "TRUNCATE" if long else "RESTART"):
                seat.look_at = seat.uses + _AFTER_A_READER  # somebody reads for long, and is not waited for
        elif since >= _CHECKPOINT_EVERY - _LOOK_EVERY:
            _checkpointed(connection, "PASSIVE")  # most of it, while others write

    def _wal_bytes(self) -> int:
        with suppress(OSError):
            return Path(f"{self.path}-wal").stat().st_size
        return 0

    def _explained(self, error: sqlite3.Error) -> QlabError:
        return QueueClosed() if self._closed else meaning(self.path, error)

    def _transact_on(self, connection: sqlite3.Connection, act: Callable[..., Result], *told: Any) -> Result:
        try:
            self.execute(connection, "begin", "BEGIN IMMEDIATE", ())
            result = act(Transaction(self, connection, self._folder), *told)
            self.execute(connection, "commit", "COMMIT", ())
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        return result

    # -- connections --

    def _seat(self) -> Seat:
        if self._closed:
            raise QueueClosed
        if self._process != generation():
            self._forget_inherited()
        seat: Seat | None = self._shared or getattr(self._local, "seat", None)
        if seat is None or seat.connection is None:
            seat = self._local.seat = self._open()
            self._remember(seat)
        return seat

    def _remember(self, seat: Seat) -> None:
        with self._guard:
            for thread in [thread for thread in self._opened if not thread.is_alive()]:
                self._opened.pop(thread).close()
            self._opened[threading.current_thread()] = seat

    def _forget_inherited(self) -> None:
        """Leave a parent's connections alone in a forked child, which opens its own."""
        if self._shared is not None:
            raise DriverUnavailable("a database in memory does not reach a forked process: use a file")
        self._opened = {}
        self._local = threading.local()
        self._guard = threading.RLock()
        self._process = generation()

    def _open(self) -> Seat:
        if self.path != MEMORY:
            check_path(self.path, create=self._create)
            check_not_inherited(self.path)
        try:
            seat = Seat(self.path)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        with seat.lock:
            try:
                if seat.connection is not None:
                    self._set_up(seat.connection)
            except BaseException:
                seat.close()
                raise
        return seat

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self.path != MEMORY:
            self._schema.check(self.path, self._there(connection), create=self._create)
            self._set_journal(connection)
        if (self.journal, self.synchronous) == ("DELETE", "FULL"):
            self.synchronous = "EXTRA"  # with FULL a power cut may bring back the journal, which undoes the last commit
        self.execute(connection, "open", f"PRAGMA synchronous = {self.synchronous}", ())
        self.execute(connection, "open", "PRAGMA wal_autocheckpoint = 0", ())
        if self._schema.missing(self._there(connection)):
            self._transact_on(connection, self._make_tables, connection)

    def _set_journal(self, connection: sqlite3.Connection) -> None:
        if not self.journal:
            found = self.execute(connection, "open", "PRAGMA journal_mode", ())[0][0].upper()
            self.journal = found if self._there(connection) and found in _JOURNALS else "WAL"
        answer = self.execute(connection, "open", f"PRAGMA journal_mode = {self.journal}", ())[0][0]
        if answer.upper() != self.journal:
            raise UnusableStore(
                f"{self.path}: SQLite answered journal mode {answer!r} where {self.journal} was asked for; "
                "its file system may not allow it: use a local disk, or ?journal=DELETE"
            )

    def _there(self, connection: sqlite3.Connection) -> dict[str, str]:
        query = (
            "SELECT lower(name), sql FROM sqlite_schema WHERE type IN ('table', 'view', 'index') AND sql IS NOT NULL"
        )
        return dict(self.execute(connection, "open", query, ()))

    def _make_tables(self, transaction: "Transaction", connection: sqlite3.Connection) -> None:
        for table in self._schema.missing(self._there(connection)):
            for which in range(len(sql(f"schema_{table}", self._folder))):
                transaction.run(f"schema_{table}", which=which)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_patience.seed)


class Transaction:
    """Statements that happen together."""

    __slots__ = ("_connection", "_database", "_folder")

    def __init__(self, database: Database, connection: Source, folder: str) -> None:
        self._database = database
        self._connection = connection
        self._folder = folder

    def run(self, verb: str, values: Values = (), *, which: int = 0) -> list[Any]:
        """Run one statement of `sql/<verb>.sql`, and fetch all its rows."""
        return self._database.execute(self._connection, verb, sql(verb, self._folder)[which], values)

    def run_many(self, verb: str, rows: Sequence[Sequence[Any]], *, which: int) -> bool:
        """Run one statement of `sql/<verb>.sql` for each row of values, as `Database.execute_many` does."""
        return self._database.execute_many(self._connection, verb, sql(verb, self._folder)[which], rows)


def check_version(version: tuple[int, ...]) -> None:
    """Refuse a SQLite library that has no STRICT tables.

    Raises:
        MissingRequirement: It is older than 3.37.
    """
    if version < OLDEST:
        raise MissingRequirement(
            f"this Python's SQLite is {'.'.join(map(str, version))}, qlab needs 3.37 or newer for sqlite:// addresses "
            "and for the failed jobs of every driver: use a newer Python"
        )


def _checkpointed(connection: sqlite3.Connection, how: str) -> bool:
    """Write the WAL back, and tell whether that was done, or another one is at it."""
    with suppress(sqlite3.Error):
        for _ in range(_CHECKPOINT_TRIES):
            busy, pages, _ = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            if not busy or pages < 0:
                return True
            pause(_patience.uniform(*_WAIT) / _OLDEST_ASKS)
    return False


def _chosen(what: str, value: str, choices: tuple[str, ...]) -> str:
    if value.upper() not in choices:
        raise ValueError(f"{what} is {value!r}: use one of {', '.join(choices)}")
    return value.upper()


def _shown(values: Values) -> str:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return ", ".join(f"{name}={shortened(str(value))}" for name, value in pairs)
