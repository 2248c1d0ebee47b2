"""What SQLite's errors mean for a queue, and the way out of each."""

import sqlite3

from qlab.errors import DriverUnavailable, QlabError, UnusableStore


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock, so that waiting helps."""
    code = _code(error)
    return code != sqlite3.SQLITE_BUSY_SNAPSHOT and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def meaning(path: str, error: sqlite3.Error) -> QlabError:
    """Make the error that a caller gets: it names the file, what SQLite said, and the way out."""
    if _code(error) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return DriverUnavailable(
            f"{path}: another connection has written since this transaction began to read: "
            "roll it back, and begin with BEGIN IMMEDIATE"
        )
    code = _code(error) & 0xFF
    kind = UnusableStore if code in _UNUSABLE else DriverUnavailable
    return kind(_MEANINGS.get(code, "{path}: {error}").format(path=path, error=error))


_UNUSABLE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_ERROR)
_UNSOUND = "{path} is no sound SQLite database ({error}): use another file, or restore a backup"
_MEANINGS = {
    sqlite3.SQLITE_NOTADB: _UNSOUND,
    sqlite3.SQLITE_CORRUPT: _UNSOUND,
    sqlite3.SQLITE_ERROR: "{path} is not as this qlab left it ({error}): did another program or another version change "
    "its tables? restore a backup, or use another file",
    sqlite3.SQLITE_READONLY: "{path} cannot be written ({error}): check its permissions and its folder's, and that its "
    "disk, or your connection=, is not read-only",
    sqlite3.SQLITE_CANTOPEN: "{path} could not be opened ({error}): its folder must let SQLite make files beside it, "
    "and this process may have no more files open than its limit",
    sqlite3.SQLITE_FULL: "the disk of {path} is full ({error}): nothing was stored; free space on it and try again",
    sqlite3.SQLITE_IOERR: "the disk of {path} failed ({error}): nothing was stored; is it full, read-only or gone? the "
    "system's log may tell",
}


def _code(error: sqlite3.Error) -> int:
    """Tell SQLite's extended code; 0 for an error of Python's own."""
    return getattr(error, "sqlite_errorcode", 0)
