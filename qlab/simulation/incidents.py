"""The faults of a scenario, let loose on workers in simulated time."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from qlab.drivers.troubled import Troubled
from qlab.faults import IN_STORE, Crash, Drain, Fault, Pause, Restart, Skew, When
from qlab.job import Reservation
from qlab.queue import Queue
from qlab.simulation.engine import Engine
from qlab.simulation.seat import Seat

Act = Callable[[Any, Seat], None]


def in_trouble(queue: Queue, faults: Sequence[Fault]) -> Queue:
    """Give a queue to whose store happens what of some faults is the store's; the same queue where nothing is."""
    own = [fault for fault in faults if isinstance(fault, IN_STORE)]
    return queue.on(Troubled(queue.driver, own), trace=queue.trace) if own else queue


class Incidents:
    """Plans faults on an engine.

    Args:
        engine: The workers.
        faults: What goes wrong; those of the store are left to the store.
        seed: Where chance starts.
        restart: What a restart does to the store: told the fault, it returns when it has been done.

    Raises:
        ValueError: A fault names a worker that is not there.
    """

    def __init__(
        self, engine: Engine, faults: Sequence[Fault], *, seed: int = 0, restart: Callable[[Restart], None]
    ) -> None:
        self._engine = engine
        self._restart = restart
        self._by_handler: dict[tuple[str, str], list[list[Any]]] = {}
        for number, fault in enumerate(faults):
            self._plan(fault, f"{seed} faults {number}")
        if self._by_handler:
            engine.strike = self._strike

    def _plan(self, fault: Fault, seed: str) -> None:
        match fault:
            case Crash() | Pause() if fault.handler is not None:
                left = [fault, -1 if fault.times is None else fault.times]
                self._by_handler.setdefault((fault.when, fault.handler), []).append(left)
            case Crash():
                self._each(fault, fault.at, fault.worker, self._crash, seed)
            case Pause():
                self._each(fault, fault.at, fault.worker, self._pause, seed)
            case Drain():
                self._together(fault.at, partial(self._drain, fault, self._seats(fault, fault.worker)), seed)
            case Restart():
                self._engine.awaited += 1
                self._together(fault.at, partial(self._restarted, fault), seed, self._no_more_restarts)
            case Skew():
                for seat in self._seats(fault, fault.worker):
                    seat.ahead += fault.seconds

    # -- when --

    def _each(self, fault: Fault, at: When | None, worker: int | None, act: Act, seed: str) -> None:
        """Let something happen to each of some workers, at moments of its own where chance tells them."""
        for seat in self._seats(fault, worker):
            self._together(at, partial(act, fault, seat), f"{seed} {seat.name}")

    def _together(
        self, at: When | None, act: Callable[[], None], seed: str, last: Callable[[], None] = lambda: None
    ) -> None:
        if isinstance(at, int | float):
            self._next(iter([at]), act, last)
        elif at is not None:
            self._next(at.moments(Random(seed)), act, last)

    def _next(self, moments: Iterator[float], act: Callable[[], None], last: Callable[[], None]) -> None:
        moment = next(moments, None)
        if moment is not None:
            self._engine.plan(moment, self._happen, (moments, act, last))
        else:
            last()

    def _happen(self, what: tuple[Iterator[float], Callable[[], None], Callable[[], None]], _: int) -> None:
        moments, act, last = what
        self._next(moments, act, last)
        act()

    # -- what --

    def _strike(self, step: str, seat: Seat) -> bool:
        """Let the first fault strike that waits for this step of a job of this handler."""
        held = [] if seat.held is None else [seat.held, *(seat.behind if step == "reserved" else ())]
        lines = (self._by_handler.get((step, each.job.name)) for each in held if not self._is_used_up(each))
        waiting = next(filter(None, lines), None)
        if waiting is None:
            return False
        fault, left = waiting[0]
        waiting[0][1] = left - 1
        if left == 1:
            waiting.pop(0)
        if isinstance(fault, Crash):
            self._crash(fault, seat)
        else:
            self._pause(fault, seat)
        return True

    def _is_used_up(self, held: Reservation) -> bool:
        """Tell whether a job has no attempt left: its handler, which would kill its worker, is not called any more."""
        tries = self._engine.queue.tries_of(held.job.name)
        return tries is not None and held.job.attempts > tries

    def _crash(self, fault: Crash, seat: Seat) -> None:
        if seat.gone:
            return
        self._engine.crash(seat)
        if fault.back_after is not None:
            seat.back = self._bring_back(fault.back_after, self._boot, (fault, seat))

    def _boot(self, what: tuple[Crash, Seat], serial: int) -> None:
        fault, seat = what
        self._engine.awaited -= 1
        if seat.back != serial:
            return
        if wait := self._engine.sweep(seat, fault.recover):
            seat.back = self._bring_back(wait, self._boot, what)
        else:
            self._engine.resume(seat)

    def _pause(self, fault: Pause, seat: Seat) -> None:
        if not seat.gone:
            self._engine.hold_still(seat, fault.seconds)

    def _drain(self, fault: Drain, seats: list[Seat]) -> None:
        for seat in seats:
            if not seat.gone and not seat.leaving:
                self._engine.awaited += fault.back_after is not None
                seat.grace = self._after(fault.grace, self._grace_ended, (fault, seat))
                self._engine.stop(seat)

    def _grace_ended(self, what: tuple[Drain, Seat], serial: int) -> None:
        fault, seat = what
        self._engine.awaited -= fault.back_after is not None
        if seat.grace != serial:
            return
        if fault.then == "leave" or seat.paused:  # who stands still gives nothing back
            self._engine.crash(seat)
        elif not seat.gone:
            self._engine.give_back(seat)
        if fault.back_after is not None:
            seat.back = self._bring_back(fault.back_after, self._come_back, seat)

    def _restarted(self, fault: Restart) -> None:
        self._restart(fault)
        if fault.what == "process":
            for seat in self._engine.seats:
                self._engine.leave(seat)
            for seat in self._engine.seats:
                seat.back = self._bring_back(fault.back_after, self._come_back, seat)

    def _no_more_restarts(self) -> None:
        self._engine.awaited -= 1

    def _come_back(self, seat: Seat, serial: int) -> None:
        self._engine.awaited -= 1
        if seat.back == serial:
            self._engine.come_back([seat])

    # -- small things --

    def _bring_back(self, seconds: float, act: Callable[[Any, int], object], what: Any) -> int:
        """Plan what may bring a worker back; it says so when it has happened."""
        self._engine.awaited += 1
        return self._after(seconds, act, what)

    def _after(self, seconds: float, act: Callable[[Any, int], object], what: Any) -> int:
        return self._engine.plan(self._engine.clock.now() + seconds, act, what)

    def _seats(self, fault: Fault, worker: int | None) -> list[Seat]:
        if worker is None:
            return list(self._engine.seats)
        if worker > len(self._engine.seats):
            raise ValueError(f"{fault} names worker {worker}, there are {len(self._engine.seats)}")
        return [self._engine.seats[worker - 1]]
