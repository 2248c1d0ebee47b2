"""One worker of a scan, as a process of its own: `python -m qlab.contend.scan_worker`, which `scanning` starts.

It works until nothing is left in the queue: no job that is ready, delayed or reserved. So it never leaves while another
may still dispatch, or may die and leave its job to whoever comes next. What it does it tells as it does it.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from threading import Thread
from typing import IO, Any, Literal

from qlab.clock import monotonic, pause
from qlab.job import Attempt
from qlab.library import Item
from qlab.policy import Backoff, Policy
from qlab.queue import Decorated, Queue
from qlab.registry import Tries

_OUT_OF_WORK = 3


class Contender(Queue):
    """A queue whose work is told on a pipe: events as `trace` has them, each start of a handler, what came of it.

    Args:
        setup: The `url`, `queue` and `policy` of an arm, its `handlers` as `module:function`, the `worker`'s name, and
            how many seconds it waits where nothing is due (`poll`).
        pipe: Where it tells.
    """

    def __init__(self, setup: dict[str, Any], pipe: IO[str]) -> None:
        super().__init__(setup["url"], name=setup["queue"], policy=Policy(**setup["policy"]))
        self._worker: str = setup["worker"]
        self._poll: float = setup["poll"]
        self._pipe = pipe
        self._events_told = 0
        self._ended: float | None = None
        module, _, function = setup["handlers"].partition(":")
        getattr(import_module(module), function)(self)

    def handler(
        self, name: str, *, tries: Tries = "policy", backoff: Backoff | Literal["policy"] = "policy"
    ) -> Callable[[Decorated], Decorated]:
        """Register the function below as the handler of a name; each of its runs is told."""
        register = super().handler(name, tries=tries, backoff=backoff)

        def told(run: Decorated) -> Decorated:
            register(lambda job: self._run(run, job))
            return run

        return told

    def compete(self) -> None:
        """Work until nothing is left."""
        while True:
            self._ended = None
            self.drain(worker=self._worker)
            self._tell_events()
            if self.counts().depth == 0:
                return
            pause(self._poll * random.uniform(0.5, 1.5))

    def tell(self, *message: object) -> None:
        """Tell something."""
        self._pipe.write(json.dumps(message) + "\n")
        self._pipe.flush()

    def _run(self, run: Callable[[Attempt], Any], job: Attempt) -> Any:
        wait = self.clock.now() - job.reservation.job.dispatched_at
        gap = None if self._ended is None else monotonic() - self._ended
        self._tell_events()
        self.tell("ran", job.payload.get("path", ""), wait, gap)
        self._ended = None
        result = run(job)
        if isinstance(result, Item):
            self.tell("item", *result)
        self._ended = monotonic()
        return result

    def _tell_events(self) -> None:
        for place in range(self._events_told, len(self.trace)):
            self.tell("event", monotonic(), *self.trace[place])
        self._events_told = len(self.trace)


def main() -> None:
    """Get ready, wait for the start, work, and tell how much processor time it took."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that started it is the one to stop.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What a handler prints is no message.
    setup = sys.stdin.readline()
    if not setup:
        return
    with Contender(json.loads(setup), pipe) as contender:
        contender.counts()  # The connection is there, and has answered.
        contender.tell("ready")
        if not sys.stdin.readline():
            return
        Thread(target=_end_with_the_input, daemon=True).start()
        began = _processor_seconds()
        contender.compete()
        took = _processor_seconds() - began
    contender.tell("end", took)


def _end_with_the_input() -> None:
    """End in the middle of whatever is going on: nobody wants it, and the job that is held will run out."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(_OUT_OF_WORK)


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    main()
