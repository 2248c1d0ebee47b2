"""A queue's workers in simulated time, moved by hand or let run."""

import math
from array import array
from collections.abc import Callable
from typing import Any

from qlab.clock import NEVER, from_us, us
from qlab.job import Reservation
from qlab.outcome import Outcome
from qlab.running import Ended
from qlab.scenario import Arrival
from qlab.simulation.engine import Engine
from qlab.simulation.seat import Seat
from qlab.simulation.standstill import MOST, Standstill

_AT_ONCE = 4096  # how many things happen between two looks at whether time goes by


class Bench(Engine):
    """Workers on a queue under a simulated clock: let them run, or move each by hand.

    Its arguments are those of `Engine`.

    Attributes:
        outcomes: How each job that was settled here ended.
        marks: How many events the trace had after each thing that happened in the last run.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.outcomes: list[Outcome] = []
        self.marks = array("q")

    def arrive(self, arrival: Arrival) -> None:
        """Plan a dispatch."""
        self.coming += 1
        self.plan(arrival.at, self._arrived, arrival)

    def run(
        self,
        until: float,
        *,
        working: bool = True,
        most: float = math.inf,
        reserving: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Let time go by.

        Args:
            until: Up to which moment, in seconds; `math.inf` until nothing is left that will ever be due.
            working: Whether workers take jobs, and begin to run what they hold; handlers that run go on either way.
            most: How many things may happen: that something falls due, or that one worker has its turn.
            reserving: Whether a worker may still reserve a job then, and stop there.
            stopping: Asked before each of them whether to stop there.

        Returns:
            How many things had happened where it was stopped, by whichever; None where it came to the moment.

        Raises:
            EndlessMoment: Things happen for ever while no time goes by.
        """
        last = NEVER if until == math.inf else us(until)
        self.marks, strike = array("q"), self.strike
        standstill = Standstill(self.queue.trace, MOST)
        if working:
            self.begin()
        try:
            while self.is_ahead(last):
                if len(self.marks) >= most or stopping():
                    if reserving:
                        self.strike = lambda step, _: step == "reserved"
                        self.step(last)
                    return len(self.marks)
                self.step(last)
                self.marks.append(len(self.queue.trace))
                if not len(self.marks) % _AT_ONCE:
                    standstill.look(self.now, _AT_ONCE)
        finally:
            self.strike = strike
            self.end()
        if most < math.inf:
            return len(self.marks)  # nothing else would have happened, but time is not to go on
        if until != math.inf:
            self.clock.advance_to(max(self.clock.now(), until))
        return None

    def next_change(self) -> float | None:
        """Tell the next moment at which anything changes by itself, in seconds; None where nothing will."""
        now = self.clock.now()
        coming = [job.available_at for job in self.queue.jobs() if now < job.available_at < math.inf]
        coming += [from_us(at) for at in self.planned() if from_us(at) > now]
        return min(coming, default=None)

    # -- by hand --

    def reserve(self, seat: Seat) -> Reservation | None:
        """Let a worker reserve the next job, and stop there."""
        seat.held = self.queue.reserve(worker=seat.name)
        return seat.held

    def start(self, seat: Seat) -> None:
        """Let a worker start the handler of the job that it holds; it goes on as time goes by."""
        self.catch_up()
        self._begin(seat)

    def finish(self, seat: Seat) -> None:
        """Let a worker run its handler to the end now; the clock moves by what the handler spends."""
        if seat.until is None:
            self.start(seat)
        while seat.until is not None:
            self.run(max(seat.until, self.clock.now()), working=False)
            if seat.paused:
                return

    def perform(self, seat: Seat) -> None:
        """Let a worker run its handler to the end now, and stop there: the store is not told."""
        if seat.held is None or seat.until is not None:
            return
        steps = self.queue.steps(seat.held, worker=seat.name)
        while seat.ended is None:
            try:
                spent = next(steps)
            except StopIteration as stop:
                seat.ended = stop.value
            else:
                self.run(self.clock.now() + spent, working=False)

    def _begin(self, seat: Seat) -> None:
        if seat.ended is None:
            super()._begin(seat)
        else:
            self._finish(seat, seat.ended)

    def _complete(self, seat: Seat, held: Reservation) -> None:  # noqa: ARG002 - here every outcome is told
        self._end(seat, Ended())

    def _hear(self, held: Reservation, outcome: Outcome) -> None:
        super()._hear(held, outcome)
        self.outcomes.append(outcome)

    def _arrived(self, arrival: Arrival, _: int) -> None:
        self.send((self.queue.dispatcher(arrival.name, arrival.payload), arrival.delay))
