"""The two job kinds of a library: `scan_library` finds Python files, `enrich_item` learns what is in one of them.

Both may run twice, as every job may: a file gives the same answer each time, and answers are kept by file, so a second
run costs time and changes nothing.
"""

import ast
import os
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from qlab.escape import error_text
from qlab.job import Attempt
from qlab.queue import Queue

DEFAULT_LIMIT = 500
"""How many files are scanned, unless the payload says otherwise."""

_NOT_OURS = {"site-packages", "dist-packages"}
_PROGRESS_EVERY = 50
# `catch_warnings` changes what the whole process does: two threads at once could leave it changed.
_quiet = threading.Lock()


class Item(NamedTuple):
    """What is in one Python file.

    Attributes:
        path: The file, relative to the folder that was scanned, with `/`.
        parsed: Whether it is Python that this interpreter can parse.
        functions: How many functions and methods it defines.
        classes: How many classes it defines.
        lines: How many lines it has.
        error: Why it could not be parsed; empty where it could.
    """

    path: str
    parsed: bool
    functions: int
    classes: int
    lines: int
    error: str = ""


class Summary(NamedTuple):
    """What is in many files; equal for two runs over the same ones, whoever did which.

    Attributes:
        files: How many files were read.
        parsed: How many of them could be parsed.
        unparsed: How many could not.
        functions: How many functions and methods they define.
        classes: How many classes they define.
        lines: How many lines they have.
    """

    files: int
    parsed: int
    unparsed: int
    functions: int
    classes: int
    lines: int


def register(queue: Queue) -> None:
    """Register both handlers on a queue."""
    queue.handler("scan_library")(scan_library)
    queue.handler("enrich_item")(enrich_item)


def scan_library(job: Attempt) -> int:
    """Dispatch an `enrich_item` for each Python file of a folder.

    Args:
        job: Its payload is `{"folder": …, "limit": …}`; the standard library and 500 where they are missing.

    Returns:
        How many were dispatched.
    """
    wanted = job.payload or {}
    folder = os.path.abspath(wanted.get("folder") or default_folder())
    files = python_files(folder, wanted.get("limit", DEFAULT_LIMIT))
    for done, path in enumerate(files, start=1):
        # One by one: each is a short write of its own, so that others get their turn in between.
        job.dispatch("enrich_item", {"folder": folder, "path": path})
        if done % _PROGRESS_EVERY == 0 or done == len(files):
            job.progress(done, len(files))
    return len(files)


def enrich_item(job: Attempt) -> Item:
    """Read and parse one file; one that does not parse is an answer, one that cannot be read a failure.

    Args:
        job: Its payload is `{"folder": …, "path": …}`.
    """
    path = job.payload["path"]
    return item(path, Path(job.payload["folder"], path).read_bytes())


def item(path: str, source: bytes) -> Item:
    """Count what a Python file has, by its bytes, which may be in any encoding and need not be Python."""
    lines = source.count(b"\n") + (not source.endswith(b"\n") and bool(source))
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Item(path, parsed=False, functions=0, classes=0, lines=lines, error=error_text(error))
    nodes = list(ast.walk(tree))
    functions = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
    classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
    return Item(path, parsed=True, functions=functions, classes=classes, lines=lines)


def summary(items: Iterable[Item]) -> Summary:
    """Add up what is in many files, each counted once however often it was read."""
    files = {each.path: each for each in items}.values()
    parsed = sum(each.parsed for each in files)
    totals = [sum(getattr(each, what) for each in files) for what in ("functions", "classes", "lines")]
    return Summary(len(files), parsed, len(files) - parsed, *totals)


def default_folder() -> Path:
    """Name the folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def python_files(folder: str | os.PathLike[str] | None = None, limit: int = DEFAULT_LIMIT) -> list[str]:
    """List the Python files of a folder and the folders in it, sorted by their paths.

    What lies in `site-packages` or `dist-packages` below it is left out, and links to folders are not followed.

    Args:
        folder: The standard library by default.
        limit: How many at the most.

    Returns:
        Paths relative to the folder, with `/`; at least one.

    Raises:
        ValueError: The limit is below 1; or there is no such folder, it cannot be read, it has no Python file, or one
            whose name is no Unicode text.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit!r}: use a number from 1")
    top = Path(default_folder() if folder is None else folder)
    if not top.is_dir():
        what = "is no folder" if top.exists() else "does not exist"
        raise ValueError(f"the folder to scan, {str(top)!r}, {what}: {_WAY_OUT}")
    files = list(islice((path for path in sorted(_walk(top)) if (top / path).is_file()), limit))
    if not files:
        left_out = "site-packages and dist-packages are left out"
        raise ValueError(f"the folder to scan, {str(top)!r}, has no .py file: {left_out}; {_WAY_OUT}")
    for path in (str(top), *files):
        if not _is_text(path):
            raise ValueError(f"{path!r} is no Unicode text, which a payload must be: rename it, or {_WAY_OUT}")
    return files


_WAY_OUT = "name a folder with Python files, or none for the standard library"


def _walk(top: Path) -> Iterator[str]:
    for where, folders, names in os.walk(top, onerror=_refuse):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        inside = Path(where).relative_to(top)
        yield from ((inside / name).as_posix() for name in names if name.endswith(".py"))


def _refuse(error: OSError) -> None:
    raise ValueError(f"the folder {error.filename!r} cannot be read ({error.strerror}): {_WAY_OUT}") from error


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
