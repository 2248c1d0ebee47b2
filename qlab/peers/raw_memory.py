"""A bare loop in memory: a heap and a dict under a lock, and nothing around them; and qlab's loop."""

import heapq
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from qlab.clock import SystemClock
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.worker import Worker

Handler = Callable[[Any], object]

PAYLOAD = {"id": 7_301, "to": "someone@example.org", "subject": "Your order has left the house", "tags": ["a", "b"]}
"""What each job brings: about 100 bytes."""

_RETRY_AFTER = 90.0  # seconds


def ignore(_: Any) -> None:
    """Handle a job: do nothing."""


class Bare:
    """Jobs in a heap by time and a dict by number; a reservation ends by itself, and no more is promised.

    Args:
        payloads: Of each job its payload, which is kept encoded.
    """

    def __init__(self, payloads: Sequence[Any]) -> None:
        self._lock = threading.Lock()
        self._now = SystemClock.now
        now = self._now()
        self._jobs = {number: (json.dumps(payload), 0, now) for number, payload in enumerate(payloads)}
        self._due = [(now, number) for number in self._jobs]

    def work(self, handle: Handler = ignore) -> int:
        """Reserve each job, call its handler with the decoded payload, complete it; tell how many those were."""
        lock, due, jobs, now, done = self._lock, self._due, self._jobs, self._now, 0
        while True:
            with lock:
                moment = now()
                if not due or due[0][0] > moment:
                    return done
                _, number = heapq.heappop(due)
                body, attempts, _ = jobs[number]
                jobs[number] = body, attempts + 1, moment + _RETRY_AFTER
            handle(json.loads(body))
            with lock:
                del jobs[number]
            done += 1


class Ours:
    """The same jobs in a queue of qlab, worked by a `Worker`.

    Args:
        payloads: Of each job its payload.
        address: The store.
        trace: Whether the queue records.
    """

    def __init__(self, payloads: Sequence[Any], address: str = "memory://", *, trace: bool = False) -> None:
        self.queue = Queue(address, trace=trace)
        self._worker = Worker(self.queue)
        self._handle: Handler = ignore
        self.queue.handler("job")(self._run)
        self.queue.handler("last")(lambda _: self._worker.ask_to_stop())
        self.queue.dispatch_many([*(("job", payload) for payload in payloads), ("last", None)])

    def work(self, handle: Handler = ignore) -> int:
        """Let the worker run until it has worked all; tell how many those were."""
        self._handle = handle
        done = self._worker.run().completed - 1
        self.queue.close()
        return done

    def _run(self, job: Attempt) -> None:
        self._handle(job.payload)
