"""A peer's worker that is killed in the handler of job 29: `python -m dying_peer`, as `qlab.peers.worker` is."""

import os
import signal

from qlab.peers import worker
from qlab.peers.handled import HANDLED

LAST = 29


def die(number: int) -> None:
    if number == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    HANDLED.note = die  # type: ignore[method-assign]
    worker.main()
