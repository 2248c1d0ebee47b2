"""A network between clients and a server on this machine: a relay that adds a stated time to each round trip."""

import subprocess
import sys
from pathlib import Path
from typing import IO, Self, cast

from qlab.errors import DriverUnavailable

_GRACE = 3.0  # seconds


class Relay:
    """A process that listens on a port of 127.0.0.1, and carries all that is said there to a server and back.

    It works everywhere and needs no rights. It takes processor time like a busy client, so on a machine without a core
    to spare it slows down more than it says: what is measured through it is at least as slow as through such a network.

    Args:
        place: The server's Unix socket, or its host and port.
        delay: How many seconds are added to each round trip, half of them each way.

    Attributes:
        port: The port's number.

    Raises:
        DriverUnavailable: It could not be started.
    """

    def __init__(self, place: str | tuple[str, int], delay: float) -> None:
        script = str(Path(__file__).with_name("relay_process.py"))
        target = [place] if isinstance(place, str) else [place[0], str(place[1])]
        pipe = subprocess.PIPE
        try:
            # In a session of its own no Ctrl-C of a terminal reaches it: it ends after those who speak through it.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(delay), *target],
                bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise DriverUnavailable(f"the relay to {place!r} cannot be started: {error}") from error
        if not (port := cast("IO[bytes]", self._process.stdout).readline()):
            said = cast("IO[bytes]", self._process.stderr).read().decode(errors="replace")
            self.close()
            raise DriverUnavailable(f"the relay to {place!r} cannot be started: {said.strip() or 'no word'}")
        self.port = int(port)

    def close(self) -> None:
        """End it, and every connection that goes through it; twice is harmless."""
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            cast("IO[bytes]", stream).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
