"""Locks that a forked child finds free: a thread that held one in its parent is not there to let it go."""

import os
import threading
import weakref
from typing import Any

_owners: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
_RLOCK = type(threading.RLock())
_forked = 0


def free_in_children(owner: Any) -> None:
    """Give an object's `_lock` anew to each child that is forked from this process.

    What the lock guards may be half done there, if another thread was at it: only where that does no harm.

    Args:
        owner: The object; it has a lock as `_lock`.
    """
    _owners[id(owner)] = owner


def generation() -> int:
    """Tell how many forks lie between the first process and this one: another number is another process.

    It takes a fraction of what asking the system for the process's number takes.
    """
    return _forked


def _after_fork() -> None:
    global _forked  # noqa: PLW0603 - it is this process's
    _forked += 1
    for owner in list(_owners.values()):
        owner._lock = threading.RLock() if isinstance(owner._lock, _RLOCK) else threading.Lock()  # noqa: SLF001 - as above


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
