"""The faults of a scenario, let loose on workers in simulated time."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from qlab.engine import Engine
from qlab.faults import Away, Crash, Drain, Fault, Locked, LostReply, Pause, Restart, Skew, When
from qlab.seat import Seat

IN_STORE = (LostReply, Locked, Away)
"""The faults that are the store's; `drivers.troubled` makes them happen."""

Act = Callable[[Any, Seat], None]


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
                self._together(fault.at, partial(self._restarted, fault), seed)
            case Skew():
                for seat in self._seats(fault, fault.worker):
                    seat.ahead += fault.seconds

    # -- when --

    def _each(self, fault: Fault, at: When | None, worker: int | None, act: Act, seed: str) -> None:
        """Let something happen to each of some workers, at moments of its own where chance tells them."""
        for seat in self._seats(fault, worker):
            self._together(at, partial(self._strike_one, act, fault, seat), f"{seed} {seat.name}")

    def _together(self, at: When | None, act: Callable[[], None], seed: str) -> None:
        if isinstance(at, int | float):
            self._next(iter([at]), act)
        elif at is not None:
            self._next(at.moments(Random(seed)), act)

    def _next(self, moments: Iterator[float], act: Callable[[], None]) -> None:
        moment = next(moments, None)
        if moment is not None:
            self._engine.plan(moment, self._happen, (moments, act))

    def _happen(self, what: tuple[Iterator[float], Callable[[], None]], _: int) -> None:
        moments, act = what
        self._next(moments, act)
        act()

    # -- what --

    def _strike_one(self, act: Act, fault: Fault, seat: Seat) -> None:
        if not seat.gone and not seat.paused:
            act(fault, seat)

    def _strike(self, step: str, seat: Seat) -> bool:
        """Let the first fault strike that waits for this step of a job of this handler."""
        name = seat.held.job.name if seat.held is not None else ""
        waiting = self._by_handler.get((step, name))
        if not waiting:
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

    def _crash(self, fault: Crash, seat: Seat) -> None:
        self._engine.crash(seat)
        if fault.back_after is not None:
            self._after(fault.back_after, self._boot, (fault, seat))

    def _boot(self, what: tuple[Crash, Seat], _: int) -> None:
        fault, seat = what
        if seat.gone:
            self._engine.sweep(seat, fault.recover)
            self._engine.resume(seat)

    def _pause(self, fault: Pause, seat: Seat) -> None:
        self._engine.pause(seat)
        self._engine.coming += 1
        self._after(fault.seconds, self._resume, (fault, seat))

    def _resume(self, what: tuple[Pause, Seat], _: int) -> None:
        fault, seat = what
        self._engine.coming -= 1
        if seat.paused and not seat.gone:
            self._engine.resume(seat, shifted=fault.seconds)

    def _drain(self, fault: Drain, seats: list[Seat]) -> None:
        for seat in seats:
            if not seat.gone and not seat.leaving:
                self._engine.stop(seat)
                self._after(fault.grace, self._grace_ended, (fault, seat, seat.held))

    def _grace_ended(self, what: tuple[Drain, Seat, Any], _: int) -> None:
        fault, seat, held = what
        if held is not None and seat.held is held:
            if fault.then == "release":
                self._engine.give_back(seat)
            else:
                self._engine.crash(seat)
        if fault.back_after is not None:
            self._after(fault.back_after, self._come_back, [seat])

    def _restarted(self, fault: Restart) -> None:
        self._restart(fault)
        if fault.what == "process":
            for seat in self._engine.seats:
                seat.gone = True
            self._after(fault.back_after, self._come_back, self._engine.seats)

    def _come_back(self, seats: list[Seat], _: int) -> None:
        self._engine.come_back(seats)

    # -- small things --

    def _after(self, seconds: float, act: Callable[[Any, int], object], what: Any) -> None:
        self._engine.plan(self._engine.clock.now() + seconds, act, what)

    def _seats(self, fault: Fault, worker: int | None) -> list[Seat]:
        if worker is None:
            return list(self._engine.seats)
        if worker > len(self._engine.seats):
            raise ValueError(f"{fault} names worker {worker}, there are {len(self._engine.seats)}")
        return [self._engine.seats[worker - 1]]
