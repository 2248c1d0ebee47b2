"""Real workers in real time: processes that start together on one store, and what they reached."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlab.contend.contending import contention
    from qlab.contend.found import Contention
    from qlab.contend.scans import scan_wait

__all__ = ["Contention", "contention", "scan_wait"]

_HOMES = {"Contention": "found", "contention": "contending", "scan_wait": "scans"}


def __getattr__(name: str) -> Any:
    """Resolve a name when it is first used, so that a worker process starts without what only its parent needs."""
    if name not in _HOMES:
        raise AttributeError(f"module 'qlab.contend' has no attribute {name!r}")
    return getattr(import_module(f"qlab.contend.{_HOMES[name]}"), name)
