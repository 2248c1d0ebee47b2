"""The workers of a run as threads of this process: each has connections of its own, all share its interpreter lock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from qlab.clock import SystemClock, monotonic
from qlab.contend.noise import Meter, own_seconds
from qlab.contend.sides import Plan, Side
from qlab.contend.worker import Place, Worked
from qlab.driver import Driver
from qlab.errors import QlabError
from qlab.escape import error_text
from qlab.log import log

_GRACE = 10.0  # seconds
_LOOK_EVERY = 0.1  # seconds


def work_in_threads(
    driver: Driver, setups: Sequence[dict[str, Any]], plan: Plan, jobs: int, tell: Callable[[float], object]
) -> Side:
    """Let threads work until nothing is left; none of them takes a job after this returns or raises.

    Args:
        driver: The store; one that only this process sees is worked as it is, another opened anew by each.
        setups: What each of them must know.
        plan: What happens.
        jobs: How many jobs there are.
        tell: Told which share of them is done.

    Raises:
        Stopped: Somebody wants no more.
        QlabError: One ended by itself, or nothing went on.
    """
    shared = driver if driver.private else None
    with _team(setups, plan, shared) as team:
        meter, own = Meter(), own_seconds()
        epoch, began = SystemClock().now(), monotonic()
        for member in team:
            member.begin(epoch)
        done, last = 0, began
        while not all(member.ended.wait(_LOOK_EVERY) for member in team):
            plan.check_wanted()
            if (now := sum(member.done for member in team)) != done:
                done, last = now, monotonic()
                tell(done / jobs)
            plan.check_patience(last, done, jobs)
        cpu = (own_seconds() - own) / len(team)
        seconds, others = meter.read()
        return Side([member.worked(cpu) for member in team], epoch, began, seconds, others)


class _Member:
    """One of the threads."""

    def __init__(self, setup: dict[str, Any], plan: Plan, shared: Driver | None) -> None:
        self.done = 0
        self.ready, self.ended = Event(), Event()
        self._error: BaseException | None = None
        self._number = setup["worker"] + 1
        self._place: Place | None = None
        self._setup, self._plan, self._shared = setup, plan, shared
        self._started, self._epoch = Event(), 0.0
        self._left = Event()
        self.thread = Thread(target=self._work, name=f"qlab contention {self._number}", daemon=True)

    def begin(self, epoch: float) -> None:
        self._epoch = epoch
        self._started.set()

    def leave(self) -> None:
        """Take no further job."""
        self._left.set()
        if self._place is not None:
            self._place.left.set()
        self._started.set()

    def check(self) -> None:
        """Raise what ended it, where that was not its work."""
        if self._error is not None:
            raise QlabError(f"worker {self._number} ended by itself: {error_text(self._error)}") from self._error

    def worked(self, cpu: float) -> Worked:
        self.check()
        if self._place is None:
            raise QlabError(f"worker {self._number} never began")
        return self._place.worked(cpu)

    def _count(self, done: int) -> None:
        self.done = done

    def _work(self) -> None:
        try:
            place = Place(self._setup, self._count, driver=self._shared, register=self._plan.register)
            self._place = place
            try:
                place.over.set()
                place.warm_up()
                self.ready.set()
                self._started.wait()
                if not self._left.is_set():
                    place.work(self._epoch)
            finally:
                place.close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that measures is told
            self._error = error
        finally:
            self.ready.set()
            self.ended.set()


@contextmanager
def _team(setups: Sequence[dict[str, Any]], plan: Plan, shared: Driver | None) -> Iterator[list[_Member]]:
    """Threads that are ready; at the end they have ended, or are left to themselves, with a store that will close."""
    team = [_Member(setup, plan, shared) for setup in setups]
    try:
        for member in team:
            member.thread.start()
        for member in team:
            while not member.ready.wait(_LOOK_EVERY):
                plan.check_wanted()
            member.check()
        yield team
    finally:
        for member in team:
            member.leave()
        until = monotonic() + _GRACE
        for member in team:
            if member.thread.ident is not None:
                member.thread.join(max(0.0, until - monotonic()))
        if still := [member for member in team if member.thread.is_alive()]:
            log.warning("%s threads of the contention are in a handler that does not end; they end with it", len(still))
