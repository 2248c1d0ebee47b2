"""Where a sweep writes down each point that it has finished, so that another can go on from there.

A file of lines, each a JSON value: `{"sweep": 1, "function": …, "version": …}`, and then for each point that ended
`{"point": …, "rows": […]}` or `{"point": …, "error": …, "traceback": …}`. Of two lines about a point the later counts.
"""

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from qlab.sweeps.points import Given, name_of

_FORMAT = 1


class SweepFile:
    """A file of finished points, open for more.

    A line is written whole by one call of the system: whoever kills the process leaves the file good for the next, and
    half a line, as a full disk or a power cut may leave it, is taken away before the next is written.

    Args:
        path: The file; it is made where there is none.
        function: What is swept.
        version: What stands for the function's version; None for a digest of its source.

    Attributes:
        finished: The rows of each point that has not failed, by `points.key`.

    Raises:
        ValueError: The file is another function's or another version's, is damaged, or is no sweep's; it is unchanged.
        OSError: It cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], function: Callable[..., Any], version: str | None) -> None:
        self._path = Path(path)
        self._head = {
            "sweep": _FORMAT,
            "function": name_of(function),
            "version": version_of(function) if version is None else version,
        }
        text = self._read()
        whole = text[: text.rfind(b"\n") + 1]
        if not whole and not _line(self._head).startswith(text):
            raise self._is_no_sweeps()
        self.finished = dict(self._points(whole.splitlines()))
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        os.truncate(self._file, len(whole))
        if not whole:
            self._write(self._head)

    def add(self, key: str, given: Given) -> None:
        """Write down what a point gave."""
        about = {"error": given.error, "traceback": given.traceback} if given.error else {"rows": given.rows}
        self._write({"point": key} | about)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def _points(self, lines: Sequence[bytes]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for number, line in enumerate(lines, 1):
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if number == 1:
                self._check_head(told)
            elif not isinstance(told, dict) or "point" not in told:
                raise ValueError(f"line {number} of {self._path} is damaged: take it out, and its point runs again")
            elif "rows" in told:
                yield told["point"], told["rows"]

    def _check_head(self, told: Any) -> None:
        if not isinstance(told, dict) or told.get("sweep") != _FORMAT:
            raise self._is_no_sweeps()
        if told.get("function") != self._head["function"]:
            raise ValueError(
                f"{self._path} has points of {told.get('function')}, this sweep is of {self._head['function']}: "
                "use another file"
            )
        if told.get("version") != self._head["version"]:
            raise ValueError(
                f"{self._path} has points of another version of {told['function']} ({told.get('version')}, now "
                f"{self._head['version']}): use another file, or where the change does not matter, "
                f"version={told.get('version')!r}"
            )

    def _is_no_sweeps(self) -> ValueError:
        return ValueError(f"{self._path} is no file of a sweep, and is left as it is: use another name")

    def _write(self, value: dict[str, Any]) -> None:
        line = _line(value)
        if os.write(self._file, line) < len(line):
            raise OSError(f"{self._path} took only a part of a line: is the disk full?")


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def version_of(function: Callable[..., Any]) -> str:
    """Tell a function's version: a digest of its own source, and not of what it calls.

    Of one whose arguments were bound beforehand, also of these; of one without a source, the empty text.
    """
    if isinstance(function, partial):
        told = f"{version_of(function.func)} {function.args!r} {sorted(function.keywords.items())!r}"
    else:
        try:
            told = inspect.getsource(function if hasattr(function, "__qualname__") else type(function))
        except (OSError, TypeError):
            return ""
    lines = [line.rstrip() for line in told.splitlines()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
