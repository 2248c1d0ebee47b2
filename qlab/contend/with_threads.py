"""The workers of a run as threads of this process: each has connections of its own, all share its interpreter lock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Generic, Protocol, TypeVar

from qlab.clock import SystemClock, monotonic
from qlab.contend.noise import Meter, own_seconds
from qlab.contend.producer import Producer
from qlab.contend.sides import Plan, Side
from qlab.contend.worker import Place
from qlab.driver import Driver
from qlab.errors import QlabError
from qlab.escape import error_text
from qlab.log import log

_GRACE = 10.0  # seconds
_LOOK_EVERY = 0.1  # seconds


def work_in_threads(
    driver: Driver,
    setups: Sequence[dict[str, Any]],
    producing: dict[str, Any] | None,
    plan: Plan,
    tell: Callable[[float], object],
) -> Side:
    """Let threads work until nothing is left; none of them takes a job after this returns or raises.

    Args:
        driver: The store; one that only this process sees is worked as it is, another opened anew by each.
        setups: What each of them must know.
        producing: What one more must know, that dispatches meanwhile; None where all jobs are there.
        plan: What happens.
        tell: Told which share of the jobs is done.

    Raises:
        Stopped: Somebody wants no more.
        QlabError: One ended by itself, or nothing went on.
    """
    shared, counts = driver if driver.private else None, [0] * len(setups)
    workers = [_Member(f"worker {n + 1}", _place(setup, plan, shared, counts)) for n, setup in enumerate(setups)]
    producers = [] if producing is None else [_Member("the producer", lambda: Producer(producing, driver=shared))]
    team: list[_Member[Any]] = [*producers, *workers]
    with _ready(team, plan):
        meter, own = Meter(), own_seconds()
        epoch, began = SystemClock().now(), monotonic()
        for member in team:
            member.begin(epoch)
        done, last = 0, began
        _say_over(producers, workers)
        while not all(worker.ended.wait(_LOOK_EVERY) for worker in workers):
            plan.check_wanted()
            _say_over(producers, workers)
            if (now := sum(counts)) != done:
                done, last = now, monotonic()
                tell(done / plan.coming.jobs)
            plan.check_patience(last, done, plan.coming.jobs)
        cpu = (own_seconds() - own) / len(workers)
        seconds, others = meter.read()
        produced = [producer.seat().produced(0.0) for producer in producers]
        worked = [worker.seat().worked(cpu) for worker in workers]
        return Side(worked, produced[0] if produced else None, epoch, began, seconds, others)


class _Seat(Protocol):
    """What a thread does at its place."""

    left: Event

    def warm_up(self) -> None: ...

    def work(self, epoch: float) -> None: ...

    def close(self) -> None: ...


Seat = TypeVar("Seat", bound=_Seat)


class _Member(Generic[Seat]):
    """One of the threads."""

    def __init__(self, name: str, sit: Callable[[], Seat]) -> None:
        self.ready, self.ended = Event(), Event()
        self._error: BaseException | None = None
        self._name, self._sit = name, sit
        self._seat: Seat | None = None
        self._started, self._epoch = Event(), 0.0
        self._left = Event()
        self.thread = Thread(target=self._work, name=f"qlab contention {name}", daemon=True)

    def begin(self, epoch: float) -> None:
        self._epoch = epoch
        self._started.set()

    def leave(self) -> None:
        """Take no further job."""
        self._left.set()
        if self._seat is not None:
            self._seat.left.set()
        self._started.set()

    def seat(self) -> Seat:
        """Give what it did, or raise what ended it, where that was not its work."""
        if self._error is not None:
            raise QlabError(f"{self._name} ended by itself: {error_text(self._error)}") from self._error
        if self._seat is None:
            raise QlabError(f"{self._name} never began")
        return self._seat

    def _work(self) -> None:
        try:
            self._seat = seat = self._sit()
            try:
                seat.warm_up()
                self.ready.set()
                self._started.wait()
                if not self._left.is_set():
                    seat.work(self._epoch)
            finally:
                seat.close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that measures is told
            self._error = error
        finally:
            self.ready.set()
            self.ended.set()


def _place(setup: dict[str, Any], plan: Plan, shared: Driver | None, counts: list[int]) -> Callable[[], Place]:
    def count(done: int) -> None:
        counts[setup["worker"]] = done

    return lambda: Place(setup, count, driver=shared, register=plan.register)


def _say_over(producers: Sequence[_Member[Producer]], workers: Sequence[_Member[Place]]) -> None:
    """Tell the workers once no more jobs will come."""
    if all(producer.ended.is_set() and producer.seat() for producer in producers):
        for worker in workers:
            worker.seat().over.set()


@contextmanager
def _ready(team: Sequence[_Member[Any]], plan: Plan) -> Iterator[None]:
    """Threads that are ready; at the end they have ended, or are left to themselves, with a store that will close."""
    try:
        for member in team:
            member.thread.start()
        for member in team:
            while not member.ready.wait(_LOOK_EVERY):
                plan.check_wanted()
            member.seat()
        yield
    finally:
        for member in team:
            member.leave()
        until = monotonic() + _GRACE
        for member in team:
            if member.thread.ident is not None:
                member.thread.join(max(0.0, until - monotonic()))
        if still := [member for member in team if member.thread.is_alive()]:
            log.warning("%s threads of the contention are in a handler that does not end; they end with it", len(still))
