"""Who dispatches while workers work: a thread, or a process of its own: `python -m qlab.contend.producer`.

Each job is dispatched alone at its moment, as an application does; what is due already is dispatched at once. So
arrivals that are faster than the store can take come as fast as they can.
"""

import base64
from array import array
from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple, Self

from qlab import drivers
from qlab.clock import SystemClock, monotonic
from qlab.contend.arriving import Coming, made
from qlab.contend.member import Member
from qlab.contend.noise import own_seconds
from qlab.driver import Driver
from qlab.errors import DriverUnavailable
from qlab.job import Attempt, Job
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.trace import Trace

_PATIENCE = 30.0  # seconds
_AGAIN = 0.01  # seconds

Dispatch = Callable[[float, float], Job]


class Produced(NamedTuple):
    """What a producer did.

    Attributes:
        trace: The dispatches.
        calls: The microseconds of each.
        behind: How late the latest of them began, in seconds.
        cpu: Its processor time, in seconds.
    """

    trace: Trace
    calls: "array[int]"
    behind: float
    cpu: float

    def told(self) -> dict[str, Any]:
        """Say it as JSON."""
        columns, texts = self.trace.columns()
        arrays = columns | {"calls": self.calls}
        packed = {name: [each.typecode, base64.b64encode(each.tobytes()).decode()] for name, each in arrays.items()}
        return {"columns": packed, "texts": texts, "behind": self.behind, "cpu": self.cpu}

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Self:
        """Make it of what `told` gave in another process of this machine."""
        arrays = {name: array(code, base64.b64decode(text)) for name, (code, text) in told["columns"].items()}
        calls = arrays.pop("calls")
        return cls(Trace.of_columns(arrays, told["texts"]), calls, told["behind"], told["cpu"])


class Producer:
    """A producer at its place, with its own connection to the store.

    Args:
        setup: `url`, `queue`, `policy`, `payload_limit`; and the `jobs`, as `Arriving.told` gives them.
        driver: The store, where it cannot be opened anew.

    Attributes:
        left: Set where it is to dispatch no more.
    """

    def __init__(self, setup: dict[str, Any], *, driver: Driver | None = None) -> None:
        self.left = Event()
        self._clock, self._shared = SystemClock(), driver is not None
        self._queue = Queue(
            drivers.open(setup["url"]) if driver is None else driver,
            name=setup["queue"],
            policy=Policy(**setup["policy"]),
            clock=self._clock,
            payload_limit=setup["payload_limit"],
        )
        for name in setup["jobs"]["names"]:
            self._queue.handler(name)(_unwanted)
        self._jobs = list(made(setup["jobs"]))
        self._dispatch: dict[tuple[str, int], Dispatch] = {}
        for job in self._jobs:
            self._dispatcher(job)
        self._calls = array("q")
        self._behind = 0.0

    def warm_up(self) -> None:
        """Let the connection have answered before anything counts."""
        self._queue.counts()

    def work(self, epoch: float) -> None:
        """Dispatch each job at its moment, or until it is to leave.

        Args:
            epoch: When all began, in seconds of the clock.
        """
        now = self._clock.now
        for job in self._jobs:
            due = epoch + job.at / 1_000_000
            if (ahead := due - now()) > 0.0:
                self.left.wait(ahead)
            if self.left.is_set():
                return
            began = now()
            self._behind = max(self._behind, began - due)
            self._push(self._dispatcher(job), job.delay)

    def produced(self, cpu: float) -> Produced:
        """Tell what it did."""
        return Produced(self._queue.trace, self._calls, self._behind, cpu)

    def close(self) -> None:
        """Give up the connection, where it is its own."""
        if not self._shared:
            self._queue.close()

    def _push(self, dispatch: Dispatch, delay: float) -> None:
        asked = monotonic()
        while True:
            now = self._clock.now()
            try:
                dispatch(now, now + delay)
                break
            except DriverUnavailable:
                if monotonic() > asked + _PATIENCE or self.left.wait(_AGAIN):
                    raise
        self._calls.append(round((monotonic() - asked) * 1_000_000))

    def _dispatcher(self, job: Coming) -> Dispatch:
        key = job.name, id(job.payload)
        if key not in self._dispatch:
            self._dispatch[key] = self._queue.dispatcher(job.name, job.payload)
        return self._dispatch[key]


def _unwanted(_: Attempt) -> None:
    raise AssertionError("who dispatches works no job")


def main() -> None:
    """Get ready, wait for the start, dispatch, and tell what was done."""
    member = Member()
    producer = Producer(member.setup())
    producer.warm_up()
    epoch = member.start()
    began = own_seconds()
    producer.work(epoch)
    took = own_seconds() - began
    producer.close()
    member.tell("produced", producer.produced(took).told())
    member.tell("end", own_seconds())


if __name__ == "__main__":
    main()
