"""Folders that are gone at the end, also where this process is killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self, cast

from qlab.errors import UnusableStore


class Janitor:
    """Makes folders, and has a process that removes them where this one ends before it does so itself."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            cast("IO[bytes]", self._process.stdin).close()
            self._process.wait()

    @contextmanager
    def folder(self, parent: Path | None, prefix: str) -> Iterator[Path]:
        """Make a folder of mode 0700, which is removed when the context closes, with all that is in it.

        Args:
            parent: Where; by default where temporary files go.
            prefix: How its name begins.

        Raises:
            UnusableStore: It cannot be made.
        """
        try:
            made = TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
        except OSError as error:
            raise UnusableStore(f"no files can be made in {error.filename}: {error.strerror}") from error
        with made as path:
            folder = Path(path).absolute()
            self._tell(folder)
            yield folder

    def _tell(self, folder: Path) -> None:
        if self._process is None:
            script = str(Path(__file__).with_name("janitor_process.py"))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script], bufsize=0, stdin=subprocess.PIPE, start_new_session=True
            )
        cast("IO[bytes]", self._process.stdin).write(f"{os.fsencode(folder).hex()}\n".encode())
