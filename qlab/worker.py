"""A worker: a loop that works a queue in real time until it is told to stop."""

import threading
from collections import Counter
from typing import Literal, NamedTuple, Self

from qlab.clock import Flag, duration, monotonic
from qlab.errors import QueueClosed
from qlab.escape import error_text
from qlab.interrupts import first_interrupt
from qlab.job import Reservation
from qlab.log import log
from qlab.outcome import Completed, Failed, Outcome, Released, Retrying, Superseded, Unknown
from qlab.patience import LONGEST_WAIT, Patience
from qlab.queue import Queue
from qlab.signs import Signs

_DEAF = 0.5  # seconds: while it waits for its store a worker hears nothing else
_ENDINGS = (Completed, Released, Retrying, Failed, Superseded, Unknown)  # in the order of `Worked`
Recover = Literal["expired", "force"] | None


class Worked(NamedTuple):
    """How many attempts a worker has ended, by how they ended; the outcomes say what each means."""

    completed: int = 0
    released: int = 0
    retrying: int = 0
    failed: int = 0
    superseded: int = 0
    unknown: int = 0


class Recovery:
    """What is made ready again before work begins: once, however many workers share it.

    Args:
        queue: The queue.
        how: `"expired"`, `"force"` or None, as a `Worker` takes it.

    Raises:
        ValueError: `how` is none of its choices.
    """

    def __init__(self, queue: Queue, how: Recover) -> None:
        if how not in ("expired", "force", None):
            raise ValueError(f"recover is {how!r}: use 'expired', 'force' or None")
        self._queue, self._how = queue, how
        self._lock = threading.Lock()

    def make(self) -> None:
        """Recover, where that is still to do; others wait meanwhile, for no job may be taken before."""
        with self._lock:
            if self._how is not None:
                self._queue.recover(force=self._how == "force")
                self._how = None


class Worker:
    """Works a queue until it is stopped: in this thread with `run`, in one of its own with `start` or `with`.

    A store that is away is waited for, longer each time up to 5 s, give or take the jitter; it is logged once when it
    goes and once when it is back. Nothing that a handler or a store does ends a worker.

    To have several, make several; they may share a queue. A worker runs once.

    Args:
        queue: The queue. Its clock tells the time of jobs; the waits are in real time with any clock.
        name: What the trace and the log call it.
        poll: After how many seconds it asks again where nothing is due.
        jitter: By which share of itself each wait is made longer or shorter, from 0 to 1: without, workers bunch.
        recover: What it makes ready again before it begins: `"expired"` what has run out, as `Queue.recover()` does;
            `"force"` every reservation, as `Queue.recover(force=True)` does, which robs each worker that is alive: only
            for a process that is alone; None nothing. Workers that are given the same `Recovery` do it once for all.
        wait: What it waits for where nothing is due: `"poll"` for its poll only; `"notify"` also for the store to tell
            that a job became ready, which Redis and memory can. The poll stays the longest wait: nobody is woken where
            a job falls due by time or a reservation runs out. It then hears a `stop` within half a second.

    Attributes:
        name: What the trace and the log call it.

    Raises:
        ValueError: `poll` is not above 0, `jitter` is not from 0 to 1, `recover` or `wait` is none of its choices, or
            the store can wake nobody.

    Example:
        >>> from threading import Event
        >>> from qlab import Queue, Worker
        >>> queue, done = Queue("memory://"), Event()
        >>> _ = queue.handler("mail")(lambda job: done.set())
        >>> _ = queue.dispatch("mail")
        >>> with Worker(queue) as worker:
        ...     done.wait(timeout=60)
        True
        >>> worker.worked.completed
        1
    """

    def __init__(
        self,
        queue: Queue,
        *,
        name: str = "",
        poll: float = 1.0,
        jitter: float = 0.5,
        recover: Recover | Recovery = "expired",
        wait: Literal["poll", "notify"] = "poll",
    ) -> None:
        if not isinstance(queue, Queue):
            raise TypeError(f"a worker works a Queue, not {queue!r}")
        if wait not in ("poll", "notify"):
            raise ValueError(f"wait is {wait!r}: use 'poll' or 'notify'")
        if wait == "notify" and not queue.driver.wakes:
            queue.driver.wait(queue.name, 0.0)  # which says why not
        self.name = name
        self._wait, self._said = wait, False
        self._queue = queue
        self._recovery = recover if isinstance(recover, Recovery) else Recovery(queue, recover)
        self._patience = Patience(poll, jitter, name)
        self._signs = Signs(queue, name, self._patience.poll * (1 + self._patience.jitter))
        self._tally: Counter[type[Outcome]] = Counter()
        self._in_hand: Reservation | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping, self._left, self._ended = Flag(), Flag(), Flag()

    @property
    def worked(self) -> Worked:
        """What it has done so far."""
        return Worked(*(self._tally[how] for how in _ENDINGS))

    @property
    def in_hand(self) -> Reservation | None:
        """The reservation of the job whose handler runs; None where none does."""
        return self._in_hand

    def run(self) -> Worked:
        """Work until `stop` is called, or the queue is closed.

        In the main thread the first Ctrl-C is a `stop`: the job in hand is finished. The second interrupts: that job
        stays reserved, and comes again when its reservation runs out. An application's own handler of it stays.

        Returns:
            What it did.

        Raises:
            RuntimeError: It runs, or has run, already.
        """
        self._engage(threading.current_thread())
        with first_interrupt(self._stopping.set):
            self._work()
        return self.worked

    def start(self) -> Self:
        """Run in a thread of its own, which does not keep the process from ending.

        Raises:
            RuntimeError: It runs, or has run, already.
        """
        thread = threading.Thread(target=self._work, name=f"qlab worker {self.name}", daemon=True)
        self._engage(thread)
        thread.start()
        return self

    def ask_to_stop(self) -> None:
        """Let the job in hand be finished and no other be taken, and wait for nothing; a signal's handler may ask."""
        self._stopping.set()

    def stop(self, timeout: float | None = None) -> bool:
        """Let the job in hand be finished and no other be taken, and wait for that; from any thread, for good.

        When the limit passes, the worker is left to itself. The job in hand stays reserved: it is settled if its
        handler ends after all, else it comes again when its reservation runs out. No handler is called any more: a
        job whose reservation was under way is given back, its attempt stays counted.

        Args:
            timeout: How many seconds to wait at the most; no limit by default.

        Returns:
            Whether it has ended. In the worker's own thread (a handler's, or a signal's) nothing is waited for.
        """
        limit = None if timeout is None else duration(timeout, "timeout")
        self._stopping.set()
        if self._thread is None:
            return True
        if self._thread is threading.current_thread() or self._ended.wait(limit):
            return self._ended.is_set()
        self._left.set()
        return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Worker {self.name!r} of {self._queue!r}>"

    # -- the loop --

    def _engage(self, thread: threading.Thread) -> None:
        with self._guard:
            if self._thread is not None:
                raise RuntimeError(f"{self!r} runs, or has run, already: make another Worker")
            self._thread = thread

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                self._rest(self._round())
            self._signs.gone()
        finally:
            self._ended.set()

    def _round(self) -> float:
        """Work until nothing is due, and tell how many seconds to wait."""
        try:
            self._boot()
            self._signs.alive()
            self._queue.work(
                self._count,
                worker=self.name,
                stopping=self._stopping.is_set,
                leaving=self._left.is_set,
                holding=self._hold,
            )
        except QueueClosed:
            log.warning("worker=%s: its queue is closed, so it ends", self.name)
            self._stopping.set()
        except Exception as error:  # noqa: BLE001 - a worker outlives whatever its store, clock or trace raises
            return self._patience.away(error)
        if not self._stopping.is_set():
            self._patience.answered()
        return self._patience.idle()

    def _rest(self, seconds: float) -> None:
        if self._wait == "poll" or self._patience.gone:
            self._stopping.wait(seconds)
            return
        until = monotonic() + seconds
        try:
            while not self._stopping.is_set() and (left := until - monotonic()) > 0:
                woken = self._queue.wait(min(left, _DEAF))
                self._said = False
                if woken:
                    return
        except QueueClosed:
            return  # which the next round tells
        except Exception as error:  # noqa: BLE001 - as above
            if not self._said:
                log.warning("worker=%s: it cannot be woken, so it polls: %s", self.name, error_text(error))
                self._said = True
            self._stopping.wait(min(seconds, LONGEST_WAIT))

    def _boot(self) -> None:
        self._recovery.make()

    def _hold(self, held: Reservation | None) -> None:
        if held is None and self._in_hand is not None:
            self._signs.ran(self._in_hand)
        self._in_hand = held

    def _count(self, outcome: Outcome) -> None:
        how = type(outcome)
        self._tally[how] += 1
        if how is not Unknown:
            if self._patience.gone:
                self._patience.answered()
            self._signs.alive()
