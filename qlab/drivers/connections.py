"""The connections of this process to SQLite files, and what a fork does to them.

SQLite keeps the locks of a process in memory. A forked child inherits that without the locks themselves: while an
inherited connection is open there, SQLite takes the file to be locked already, and what the child writes may be lost
when its parent closes the file. So each connection is closed before a fork, to be opened again when it is needed, and
none is opened meanwhile. One that stays in use keeps its file from the child, which is told so.
"""

import os
import random
import sqlite3
import threading
import weakref

from qlab.clock import monotonic
from qlab.drivers.files import MEMORY, same_file
from qlab.errors import DriverUnavailable

PATIENCE = 5.0
"""For how many seconds a fork waits for the connections that are in use."""

_forking = threading.RLock()
_seats: "weakref.WeakSet[Seat]" = weakref.WeakSet()
_inherited: "list[Seat]" = []


class Seat:
    """A thread's connection, and the lock that is held while it is used.

    Attributes:
        connection: The connection; None once it is closed.
        lock: Whoever uses or closes the connection holds it.
        uses: How often it was used.
        look_at: From how many uses on somebody looks whether the WAL is to be written back.
        checkpointed_at: After how many uses it wrote the WAL back last.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.uses = self.look_at = 0
        self.checkpointed_at = -random.randrange(240)  # those of other connections are at other moments
        self.lock = threading.RLock()
        with _forking:
            self.connection: sqlite3.Connection | None = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            if path != MEMORY:
                _seats.add(self)

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close_idle(self, patience: float) -> None:
        """Close the connection unless it stays in use."""
        if self.lock.acquire(timeout=patience):
            try:
                if self.connection is not None and not self.connection.in_transaction:
                    self.close()
            finally:
                self.lock.release()


def check_not_inherited(path: str) -> None:
    """Refuse a file that the parent was using while it forked this process.

    Raises:
        DriverUnavailable: It was.
    """
    if any(same_file(path, seat.path) for seat in _inherited):
        raise DriverUnavailable(
            f"{path} was in use by another thread while this process was forked, so SQLite cannot lock it here: "
            "fork while no thread works, or start processes with multiprocessing's forkserver or spawn"
        )


def _before_fork() -> None:
    _forking.acquire()
    until = monotonic() + PATIENCE
    for seat in list(_seats):
        seat.close_idle(max(0.0, until - monotonic()))


def _after_fork_in_parent() -> None:
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking  # noqa: PLW0603 - another thread of the parent may be waiting for it
    _forking = threading.RLock()
    # Neither used nor closed: each shares memory with its parent.
    _inherited.extend(seat for seat in _seats if seat.connection is not None)
    _seats.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
