"""Signs of life: what a worker leaves in its store, so that a checkup in another process can tell of it."""

import itertools
import math
import os
import socket
from contextlib import suppress

from qlab.clock import monotonic
from qlab.driver import Mark
from qlab.job import Reservation
from qlab.queue import Queue

ALIVE, RUN = "alive", "run"
"""The kinds of marks: until when a worker counts as alive, and how long the longest run of a handler took."""
BEAT = 5.0
"""How many seconds pass, at the least, before a worker writes again."""

_SLACK = 10.0  # seconds that a busy machine may be late
_STALE = 86_400.0  # seconds after which a worker that was killed is forgotten
_numbers = itertools.count(1)


class Signs:
    """The marks of one worker: that it is alive, and how long its runs took. No work hangs on them.

    It writes at most every 5 s, and what the longest runs were only where they have grown.

    Args:
        queue: The queue that it works.
        name: What it is called; its machine, process and a number are added.
        wait: How many seconds it may wait, at the most, before it comes by again.
    """

    def __init__(self, queue: Queue, name: str, wait: float) -> None:
        self._queue = queue
        self._name = name or "worker"
        self._lasts = wait + BEAT + _SLACK
        self._next = -math.inf
        self._longest: dict[str, float] = {}
        self._grown: set[str] = set()
        self._there = False

    def ran(self, held: Reservation) -> None:
        """Hear that the handler of a job has just ended; one that extended its reservation looks after itself."""
        try:
            _, _, _, name, _, _, _, until, reserved_at = held[0]
            seconds = self._queue.clock.now() - (reserved_at or 0.0)
            if seconds > self._longest.get(name, 0.0) and self._queue.reserved_until(held) == until:
                self._longest[name] = seconds
                self._grown.add(name)
        except Exception:  # noqa: BLE001 - no work hangs on it; to enter `suppress` takes as long as all of this
            return

    def alive(self) -> None:
        """Leave a mark of being alive, unless one was left in the last seconds."""
        if monotonic() < self._next:
            return
        first, self._next, self._there = self._next == -math.inf, monotonic() + BEAT, False
        with suppress(Exception):
            now, driver, queue = self._queue.clock.now(), self._queue.driver, self._queue.name
            if first:
                self._name += f"@{socket.gethostname()}:{os.getpid()}.{next(_numbers)}"
                self._forget_the_dead(now)
            driver.mark(queue, Mark(ALIVE, self._name, now + self._lasts))
            self._tell_runs()
            self._there = True

    def gone(self) -> None:
        """Take the mark of being alive away; where the store did not answer last, nobody waits for it once more."""
        if self._there:
            with suppress(Exception):
                self._tell_runs()
                self._queue.driver.unmark(self._queue.name, ALIVE, self._name)

    def _tell_runs(self) -> None:
        for name in list(self._grown):
            self._queue.driver.mark(self._queue.name, Mark(RUN, name, self._longest[name]))
            self._grown.discard(name)

    def _forget_the_dead(self, now: float) -> None:
        for mark in self._queue.driver.marks(self._queue.name):
            if mark.kind == ALIVE and mark.value < now - _STALE:
                self._queue.driver.unmark(self._queue.name, ALIVE, mark.name)
