"""A process of a `Crew`: how it hears its setup, its start and its end, and how it tells."""

import json
import os
import signal
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

_OUT_OF_WORK = 3


class Member:
    """This process's end of the pipes to whoever made it.

    What it prints otherwise is no message: it goes to its standard error. A Ctrl-C is for the process that made it.
    """

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def setup(self) -> dict[str, Any]:
        """Hear what it must know; where nobody wants it any more, the process ends."""
        setup: dict[str, Any] = self._hear()
        return setup

    def start(self, hear: Callable[[str], object] = lambda _: None) -> Any:
        """Say that it is ready, and wait for the start; where its input ends from then on, the process ends.

        Args:
            hear: Told each line that comes after the start.

        Returns:
            The word of the start.
        """
        self.tell("ready")
        word = self._hear()
        Thread(target=_listen, args=[hear], daemon=True).start()
        return word

    def tell(self, *message: object) -> None:
        """Tell something."""
        self._pipe.write(json.dumps(message) + "\n")
        self._pipe.flush()

    def _hear(self) -> Any:
        if not (line := sys.stdin.readline()):
            sys.exit()
        return json.loads(line)


def _listen(hear: Callable[[str], object]) -> None:
    """Hear up to the end of the input, and end, in the middle of whatever goes on: nobody wants it."""
    for line in sys.stdin:
        hear(line.strip())
    os._exit(_OUT_OF_WORK)
