"""A queue's workers in simulated time: a heap of moments, and the queue's own steps."""

import heapq
import math
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from random import Random

from qlab.clock import SimulatedClock, from_us, us
from qlab.job import Reservation
from qlab.outcome import Outcome
from qlab.queue import Queue
from qlab.scenario import Arrival
from qlab.seat import Seat
from qlab.steps import Ended
from qlab.trace import Kind


@dataclass(order=True, slots=True)
class _Due:
    at: int
    serial: int
    act: Callable[[], None] = field(compare=False)


class Bench:
    """Workers on a queue under a simulated clock: let them run, or move each by hand.

    What falls due at the same microsecond happens in the order in which it was planned.

    Args:
        queue: The queue.
        clock: Its clock.
        workers: How many seats, from 1.
        poll: How many seconds a worker that found nothing waits before it asks again; None to wake at the moment when
            something is due.
        seed: Where the first polls' moments start.
        crashes: Handlers whose first job takes its worker down, with the seconds until that is back (None: never).

    Attributes:
        seats: The workers' places.
        outcomes: How each job that was settled here ended.
        marks: How many events the trace had after each thing that happened in the last run.
    """

    def __init__(
        self,
        queue: Queue,
        clock: SimulatedClock,
        *,
        workers: int = 1,
        poll: float | None = None,
        seed: int = 0,
        crashes: dict[str, float | None] | None = None,
    ) -> None:
        self.queue = queue
        self.clock = clock
        self.seats = [Seat(f"worker {number}") for number in range(1, workers + 1)]
        self.outcomes: list[Outcome] = []
        self.marks = array("q")
        self._poll = poll
        self._crashes = dict(crashes or {})
        self._heap: list[_Due] = []
        self._turns: deque[Seat] = deque()
        self._serial = 0
        self._arrivals = 0
        self._working = self._reserving = False
        self._wake_at = math.inf
        self._first_polls = Random(f"{seed} polls")
        self._asking: set[str] = set()

    # -- by themselves --

    def arrive(self, arrival: Arrival) -> None:
        """Plan a dispatch."""
        self._arrivals += 1
        self._plan(arrival.at, lambda: self._dispatch(arrival))

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
        """
        self._working = working
        if working:
            self._turns.extend(seat for seat in self.seats if seat.holding)
            self._sit_down()
        self.marks = array("q")
        try:
            while (happen := self._next(until)) is not None:
                if len(self.marks) >= most or stopping():
                    self._reserve_only(happen, reserving)
                    return len(self.marks)
                happen()
                self.marks.append(len(self.queue.trace))
        finally:
            self._working = False
            self._wake_at = math.inf
            self._turns.clear()
        if most < math.inf:
            return len(self.marks)  # nothing else would have happened, but time is not to go on
        if until != math.inf:
            self.clock.advance_to(max(self.clock.now(), until))
        return None

    def _reserve_only(self, happen: Callable[[], None], reserving: bool) -> None:
        self._reserving = reserving
        if reserving:
            happen()
        self._reserving = False

    def next_change(self) -> float | None:
        """Tell the next moment at which anything changes by itself, in seconds; None where nothing will."""
        now = self.clock.now()
        coming = [job.available_at for job in self.queue.jobs() if now < job.available_at < math.inf]
        coming += [from_us(due.at) for due in self._heap if from_us(due.at) > now]
        return min(coming, default=None)

    # -- by hand --

    def reserve(self, seat: Seat) -> Reservation | None:
        """Let a worker reserve the next job, and stop there."""
        seat.held = self.queue.reserve(worker=seat.name)
        return seat.held

    def start(self, seat: Seat) -> None:
        """Let a worker start the handler of the job that it holds; it goes on as time goes by."""
        if seat.held is not None:
            seat.steps = self.queue.steps(seat.held, worker=seat.name)
            self._go_on(seat)

    def finish(self, seat: Seat) -> None:
        """Let a worker run its handler to the end now; the clock moves by what the handler spends."""
        if seat.steps is None:
            self.start(seat)
        while seat.until is not None:
            self.run(max(seat.until, self.clock.now()), working=False)
            if seat.paused:
                return

    def crash(self, seat: Seat) -> None:
        """Let a worker vanish with what it holds."""
        if seat.held is not None:
            self.queue.crash(seat.held, worker=seat.name)
        else:
            self._record(Kind.CRASHED, seat)
        self._let_go(seat)
        seat.gone = True

    def pause(self, seat: Seat) -> None:
        """Let a worker stand still, with what it holds."""
        self._record(Kind.PAUSED, seat)
        seat.paused = True

    def resume(self, seat: Seat) -> None:
        """Let a worker that stood still or was gone go on; a handler that should have ended ends now."""
        self._record(Kind.RESUMED, seat, "after a crash" if seat.gone else "after a pause")
        seat.paused = seat.gone = False
        if seat.until is not None and seat.until <= self.clock.now():
            self._go_on(seat)
        self._ask_again(seat)

    def restart(self, queue: Queue) -> None:
        """Let the process of all workers vanish with what they hold, and start it again on a queue."""
        for seat in self.seats:
            if seat.held is not None:
                self.crash(seat)
            seat.paused = seat.gone = False
        self.queue.trace.record(self.clock.now(), Kind.RESTARTED, detail="process")
        self.queue = queue

    def _record(self, kind: Kind, seat: Seat, detail: str = "") -> None:
        job = None if seat.held is None else seat.held.job
        id, name, attempt = (None, "", 0) if job is None else (job.id, job.name, job.attempts)
        self.queue.trace.record(self.clock.now(), kind, id, name, attempt, seat.name, detail=detail)

    # -- what happens next --

    def _next(self, until: float) -> Callable[[], None] | None:
        """Find what happens next, up to a moment: a worker's turn, else what falls due."""
        seat = self._whose_turn()
        if seat is not None:
            return lambda: self._take_turn(seat)
        self._wake_when_due()
        if not self._heap or self._heap[0].at > us(until) or (until == math.inf and self._is_over()):
            return None
        return self._fall_due

    def _whose_turn(self) -> Seat | None:
        while self._turns:
            seat = self._turns.popleft()
            if seat.holding:
                return seat
            if seat.free:
                due = self.queue.next_due()
                if due is not None and due <= self.clock.now():
                    return seat
                self._turns.clear()
        return None

    def _take_turn(self, seat: Seat) -> None:
        if seat.holding:
            self.start(seat)
        else:
            self._ask(seat)

    def _fall_due(self) -> None:
        due = heapq.heappop(self._heap)
        self.clock.advance_to(max(self.clock.now(), from_us(due.at)))
        due.act()

    def _plan(self, at: float, act: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, _Due(us(at), self._serial, act))

    def _is_over(self) -> bool:
        busy = any(seat.held is not None and not seat.paused for seat in self.seats)
        return not (self._arrivals or busy) and self.queue.next_due() is None

    def _dispatch(self, arrival: Arrival) -> None:
        self._arrivals -= 1
        self.queue.dispatch_later(arrival.name, arrival.payload, delay=arrival.delay)

    def _sit_down(self) -> None:
        """Let every free worker that polls do so at a moment of its own."""
        for seat in self._free() if self._poll is not None else ():
            if seat.name not in self._asking:
                self._ask_at(seat, self.clock.now() + self._first_polls.uniform(0, self._poll or 0))

    def _free(self) -> Iterator[Seat]:
        return (seat for seat in self.seats if seat.free)

    def _wake_when_due(self) -> None:
        if self._poll is not None or not self._working or next(self._free(), None) is None:
            return
        due = self.queue.next_due()
        if due is not None and due < self._wake_at:
            self._wake_at = due
            self._plan(due, self._wake)

    def _wake(self) -> None:
        self._wake_at = math.inf
        if self._working:
            self._turns.extend(self.seats)

    def _ask_at(self, seat: Seat, moment: float) -> None:
        self._asking.add(seat.name)
        self._plan(moment, lambda: self._poll_once(seat))

    def _poll_once(self, seat: Seat) -> None:
        self._asking.discard(seat.name)
        if self._working and seat.free:
            self._ask(seat)

    def _ask(self, seat: Seat) -> None:
        held = self.reserve(seat)
        if held is None:
            if self._poll is not None:
                self._ask_at(seat, self.clock.now() + self._poll)
        elif self._reserving:
            return
        elif held.job.name in self._crashes:
            back_after = self._crashes.pop(held.job.name)
            self.crash(seat)
            if back_after is not None:
                self._plan(self.clock.now() + back_after, lambda: self._come_back(seat))
        else:
            self.start(seat)

    def _come_back(self, seat: Seat) -> None:
        if seat.gone:
            self.resume(seat)

    def _ask_again(self, seat: Seat) -> None:
        if self._poll is not None and seat.free and seat.name not in self._asking:
            self._ask_at(seat, self.clock.now())

    def _go_on(self, seat: Seat) -> None:
        """Take the next step of a worker's handler, and settle its job at the end."""
        steps, held = seat.steps, seat.held
        if steps is None or held is None:
            return
        try:
            seconds = next(steps)
        except StopIteration as stop:
            self._let_go(seat)
            self.outcomes.append(self.queue.settle(held, stop.value, worker=seat.name))
            self._ask_again(seat)
        else:
            seat.until = self.clock.now() + seconds
            self._plan(seat.until, lambda: self._end_step(seat, steps))

    def _end_step(self, seat: Seat, steps: Generator[float, None, Ended]) -> None:
        if seat.steps is steps and not seat.paused:
            self._go_on(seat)

    def _let_go(self, seat: Seat) -> None:
        if seat.steps is not None:
            seat.steps.close()
        seat.held = seat.until = seat.steps = None
