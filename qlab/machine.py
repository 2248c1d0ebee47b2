"""What something was measured on: the machine, and the versions that matter."""

import os
import platform
import sqlite3
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("queue-lab", "redis", "hiredis", "pandas", "matplotlib")
_PROCESSORS = Path("/proc/cpuinfo")


def about() -> dict[str, str]:
    """Tell what this machine is, its load, where stores lie, and the versions that matter, by name."""
    return {
        "machine": ", ".join([platform.machine(), *_processor(), f"{cores()} cores", _system()]),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "load": _load(),
        "stores on": _file_system(tempfile.gettempdir()),
        **{name: _version(name) for name in _PACKAGES},
    }


def cores() -> int:
    """Tell how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _system() -> str:
    return f"{platform.system()} {platform.release()}"


def _processor() -> list[str]:
    """Name the processor, where the system tells."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith("model name")][:1]


def _load() -> str:
    """Tell how many processes were waiting for the processor in the last minute, where the system tells."""
    return f"{os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else "unknown"


def _file_system(folder: str) -> str:
    """Name a folder and, where the system tells, its file system: in memory, nothing is ever synced to a disk."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return folder
    inside = [(len(place), kind) for place, kind in mounts if Path(folder).is_relative_to(place)]
    return f"{folder} ({max(inside)[1]})" if inside else folder


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
