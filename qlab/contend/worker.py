"""One worker of a contention: in a thread, or as a process of its own: `python -m qlab.contend.worker`.

It works until nothing is left in the queue and no more will come: so it never leaves while another may die, and leave
its job to whoever comes next. What it saw it keeps in memory, and tells once it has ended: that costs the work nothing.
"""

import base64
import random
from array import array
from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple, Self

from qlab import drivers
from qlab.clock import SystemClock, monotonic
from qlab.contend import acting
from qlab.contend.member import Member
from qlab.contend.noise import own_seconds
from qlab.contend.timed import Timed
from qlab.driver import Driver
from qlab.errors import DriverUnavailable
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.trace import Trace

LAST = "last"
"""What a worker process is told once no more jobs will come."""

_PATIENCE = 60.0  # seconds; a lock alone may be waited for half as long
_CALLS = ("reserves", "completes", "waits")


class Worked(NamedTuple):
    """What a worker did.

    Attributes:
        trace: What it saw.
        reserves: The microseconds of each call that brought it a job.
        completes: The microseconds of each call that completed one.
        waits: The microseconds from a job's dispatch to when it had been reserved first.
        done: How many jobs it completed.
        last_done: When the last of them was, on the monotonic clock; 0 where it did none.
        lock_errors: How many calls the store gave up.
        cpu: Its processor time, in seconds.
    """

    trace: Trace
    reserves: "array[int]"
    completes: "array[int]"
    waits: "array[int]"
    done: int
    last_done: float
    lock_errors: int
    cpu: float

    def told(self) -> dict[str, Any]:
        """Say it as JSON."""
        columns, texts = self.trace.columns()
        arrays = columns | {name: getattr(self, name) for name in _CALLS}
        packed = {name: [each.typecode, base64.b64encode(each.tobytes()).decode()] for name, each in arrays.items()}
        rest = {name: getattr(self, name) for name in ("done", "last_done", "lock_errors", "cpu")}
        return {"columns": packed, "texts": texts, "rest": rest}

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Self:
        """Make it of what `told` gave in another process of this machine."""
        arrays = {name: array(code, base64.b64decode(text)) for name, (code, text) in told["columns"].items()}
        reserves, completes, waits = (arrays.pop(name) for name in _CALLS)
        return cls(Trace.of_columns(arrays, told["texts"]), reserves, completes, waits, **told["rest"])


class Place:
    """A worker at its place, with its own connection to the store.

    Args:
        setup: `url`, `queue`, `policy`; which `worker` it is, from 0; the address of the function that registers its
            `handlers`, None for the scenario's, whose `part` is what `acting.part_of` gave; `counts_a_second`; `poll`:
            how many seconds it waits where nothing is due, and by which part of it that varies.
        tell: Told how many jobs it has done, now and then.
        driver: The store, where it cannot be opened anew.
        register: Registers the handlers, where they have no address.

    Attributes:
        over: Set once no more jobs will come.
        left: Set where it is to take no further job.
    """

    def __init__(
        self,
        setup: dict[str, Any],
        tell: Callable[[int], object],
        *,
        driver: Driver | None = None,
        register: Callable[[Queue], object] | None = None,
    ) -> None:
        self.over, self.left = Event(), Event()
        self._name, self._poll = f"worker {setup['worker'] + 1}", setup["poll"]
        clock = SystemClock()
        self._shared = driver is not None
        self._timed = Timed(drivers.open(setup["url"]) if driver is None else driver, clock, tell)
        self._queue = Queue(self._timed, name=setup["queue"], policy=Policy(**setup["policy"]), clock=clock)
        if register is None and setup["handlers"] is not None:
            register = acting.function_at(setup["handlers"])
        if register is not None:
            register(self._queue)
        else:
            acting.act(self._queue, setup["part"], self.left.wait, setup["counts_a_second"], worker=setup["worker"])

    def warm_up(self) -> None:
        """Let the connection have answered, and its statements be known, before anything counts."""
        self._queue.counts()
        self._timed.store.reserve(f"{self._queue.name} not", now=self._queue.clock.now(), retry_after=1.0)

    def work(self, epoch: float) -> None:
        """Work until nothing is left and no more will come, or until it is to leave.

        Args:
            epoch: When all began, in seconds of the clock.
        """
        self._timed.began = epoch
        away: tuple[int, float] | None = None  # how many jobs were done, and when it was, as the store did not answer
        with self._queue.unlogged():
            while not self.left.is_set():
                try:
                    self._queue.work(_hear, worker=self._name, stopping=self.left.is_set)
                    if self.over.is_set() and self._queue.counts().depth == 0:
                        return
                    away = None
                except DriverUnavailable:
                    if away is None or away[0] != self._timed.done:
                        away = self._timed.done, monotonic()
                    elif monotonic() > away[1] + _PATIENCE:
                        raise
                seconds, jitter = self._poll
                self.left.wait(seconds * random.uniform(1 - jitter, 1 + jitter))

    def worked(self, cpu: float) -> Worked:
        """Tell what it did."""
        timed = self._timed
        reserves, completes, waits = map(_microseconds, (timed.reserves, timed.completes, timed.waits))
        trace, done, last = self._queue.trace, timed.done, timed.last_done
        return Worked(trace, reserves, completes, waits, done, last, timed.lock_errors, cpu)

    def close(self) -> None:
        """Give up the connection, where it is its own."""
        if not self._shared:
            self._queue.close()


def _microseconds(seconds: "array[float]") -> "array[int]":
    return array("q", (round(each * 1_000_000) for each in seconds))


def _hear(_outcome: object) -> None:
    """Hear how a job ended: the trace keeps it."""


def main() -> None:
    """Get ready, wait for the start, work, and tell what was done."""
    member = Member()
    place = Place(member.setup(), lambda done: member.tell("done", done))
    place.warm_up()

    def hear(word: str) -> None:
        if word == LAST:
            place.over.set()

    epoch = member.start(hear)
    began = own_seconds()
    place.work(epoch)
    took = own_seconds() - began
    place.close()
    member.tell("worked", place.worked(took).told())
    member.tell("end", own_seconds() - began)


if __name__ == "__main__":
    main()
