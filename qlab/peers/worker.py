"""One worker of a peer, as a process of its own: `python -m qlab.peers.worker`, which `measuring` starts.

Its setup names the `module` and the `address`. It works until nothing is left, and tells at its end which jobs it
handled, when the last, and how much processor time it took.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from threading import Thread

from qlab.contend.noise import own_seconds
from qlab.peers.handled import HANDLED

_OUT_OF_WORK = 3


def main() -> None:
    """Open the queue, wait for the start, work, tell."""
    pipe = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What a peer prints is no message.
    setup = json.loads(sys.stdin.readline())
    work: Callable[[], None] = import_module(f"qlab.peers.{setup['module']}").worker(setup["address"])
    _tell(pipe, "ready")
    if not sys.stdin.readline():
        return
    Thread(target=_end_with_the_input, daemon=True).start()
    before = own_seconds()
    work()
    _tell(pipe, "end", HANDLED.numbers, HANDLED.last, own_seconds() - before)
    os._exit(0)  # No thread of a peer is waited for.


def _tell(pipe: int, *message: object) -> None:
    with os.fdopen(os.dup(pipe), "w") as stream:
        stream.write(f"{json.dumps(message)}\n")


def _end_with_the_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(_OUT_OF_WORK)


if __name__ == "__main__":
    main()
