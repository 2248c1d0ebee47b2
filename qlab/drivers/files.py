"""Where a SQLite file is to be: made private, or refused with a reason, and never opened beside SQLite."""

import os
import threading
from pathlib import Path

from qlab.errors import NoQueueThere, UnusableStore

MEMORY = ":memory:"
"""The path of a database that is no file."""

_making = threading.Lock()


def is_there(path: str) -> bool:
    """Tell whether a file is there.

    Raises:
        UnusableStore: It cannot be told, because a folder on the way may not be searched.
    """
    try:
        return Path(path).exists()
    except (OSError, ValueError) as error:
        raise UnusableStore(f"{path[:200]!r} cannot be used as a file: {error}") from error


def same_file(path: str, other: str) -> bool:
    """Tell whether two paths lead to one file that is there."""
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


def check_path(path: str, *, create: bool) -> None:
    """Make a new file readable by its owner only; SQLite gives its -wal and -shm the same mode.

    A file that is there is never opened here: closing any descriptor of it would drop every lock that SQLite holds on
    it in this process, and another process could then take the file's journal away.

    Args:
        path: The file.
        create: Whether it may be made.

    Raises:
        NoQueueThere: It is not there, and may not be made.
        UnusableStore: It cannot be made, or not be written.
    """
    try:
        _check_place(path, create=create)
    except (OSError, ValueError) as error:
        raise UnusableStore(f"{path[:200]!r} cannot be used as a file: {error}") from error


def _check_place(path: str, *, create: bool) -> None:
    file = Path(path)
    if file.is_dir():
        raise UnusableStore(f"{path} is a folder: name a file in it, as in sqlite:///{path}/qlab.db")
    if create and not file.parent.is_dir():
        raise UnusableStore(f"{path} cannot be made, its folder does not exist: make the folder first")
    with _making:
        if create and not file.exists():
            try:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                pass
            except OSError as error:
                raise UnusableStore(f"{path} cannot be made: {error.strerror}") from error
    if not file.exists():
        raise NoQueueThere(f"{path} is not there, or not any more: is it the right file?")
    if not os.access(path, os.R_OK | os.W_OK):
        raise UnusableStore(
            f"{path} cannot be opened to be written: check its permissions, and that its disk is not read-only"
        )


def _after_fork() -> None:
    global _making  # noqa: PLW0603 - another thread of the parent may have held it
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
