"""Many workers in simulated time: a heap of moments, and the queue's own reserve and settle."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable
from random import Random
from typing import Any

from qlab.clock import NEVER, SimulatedClock, us
from qlab.cost import Cost
from qlab.driver import Driver
from qlab.errors import AttemptsExhausted, DriverUnavailable
from qlab.job import Job, Release, Reservation
from qlab.outcome import Outcome, Released, Retrying, Unknown
from qlab.queue import Queue
from qlab.running import Ended
from qlab.scenario import Poll
from qlab.simulation.seat import Seat
from qlab.trace import Kind

_WAITS = (Released, Retrying)
_FAR = 9e9  # seconds; `us` looks closer at what is farther away
_ASK_AGAIN = 1.0  # seconds; after the store did not answer, where nobody polls

Act = Callable[[Any, int], object]


class Engine:
    """Workers on a queue under a simulated clock.

    What falls due at the same microsecond happens in the order in which it was planned; a worker that may have a job
    now has its turn before.

    Args:
        queue: The queue.
        clock: Its clock.
        workers: How many, from 1.
        poll: How a worker that found nothing asks again; None to wake at the moment when something is due.
        batch: How many jobs a worker reserves at once.
        seed: Where the polls' moments start.
        cost: What the store's verbs cost.
        tell_misses: Whether a poll that finds nothing is recorded.

    Attributes:
        seats: The workers' places.
        coming: How many things will still bring jobs: while there are any, a run without an end goes on.
        awaited: How many things will still bring workers back.
        service: Tells how many microseconds an attempt takes; None for one whose handler tells it as it runs.
        ending: Tells how an attempt ends that `service` knows; None for one whose handler is to be called then.
        strike: Told which worker has `reserved` a job, or is `completing` it; whether a fault has struck it.
        settled: Told how each job was settled.
        done: Told which job is done, instead, where every attempt ends so and nothing else is to be told: then each
            costs less.
        ends: What is done when an attempt ends, instead of the engine's own.
        is_instant: Whether the store always answers at once, and free of charge.
    """

    def __init__(
        self,
        queue: Queue,
        clock: SimulatedClock,
        *,
        workers: int = 1,
        poll: Poll | float | None = None,
        batch: int = 1,
        seed: int = 0,
        cost: Cost | None = None,
        tell_misses: bool = True,
    ) -> None:
        self.queue = queue
        self.clock = clock
        self.seats = [Seat(f"worker {number}") for number in range(1, workers + 1)]
        self.coming = 0
        self.awaited = 0
        self.service: Callable[[Reservation], int | None] | None = None
        self.ending: Callable[[Reservation], Ended | None] | None = None
        self.strike: Callable[[str, Seat], bool] | None = None
        self.settled: Callable[[Reservation, Outcome], object] | None = None
        self.done: Callable[[Reservation], object] | None = None
        self.ends: Act | None = None
        self._poll = Poll(poll) if isinstance(poll, int | float) else poll
        self._batch = batch
        self._cost = cost
        self._tell_misses = tell_misses and self._poll is not None
        self._heap: list[tuple[int, int, Act, Any]] = []
        self._serial = 0
        self._now = us(clock.now())
        self._turns: deque[Seat] = deque()
        self._idle: deque[Seat] = deque()
        self._is_unsure = True
        self._due = math.inf  # seconds: before this, time alone makes no job ready
        self._ahead = 0.0  # seconds: by how much the clock is ahead that is furthest ahead
        self._skewed = False
        self._wake_at = math.inf
        self._free_at = 0
        self._working = False
        self._polls = Random(f"{seed} polls")
        self._meet_store()

    @property
    def now(self) -> float:
        """The present moment, in seconds."""
        return self._now / 1_000_000

    # -- what others plan --

    def push(
        self, dispatch: Callable[[float, float], Job], delay: float = 0.0, *, again: Act, what: Any = None
    ) -> Job | None:
        """Let a job be dispatched now, or, where that costs time, be there when it is over.

        Args:
            dispatch: What `Queue.dispatcher` made.
            delay: How many seconds later the job may be reserved.
            again: What is planned, as `again(what, serial)`, where the store is locked or does not answer.
            what: What it is told.

        Returns:
            The job; None where the store is to be asked again.
        """
        now = self._now / 1_000_000
        if self._opens_at is not None and (opens := self._opens_at(now)) > now:
            self.plan(opens, again, what)
            return None
        available_at = now + delay if delay else now
        if self._cost is not None:
            available_at = max(available_at, self._answered_at("push") / 1_000_000)
        try:
            job = dispatch(now, available_at)
        except DriverUnavailable:
            self.plan(now + _ASK_AGAIN, again, what)
            self.ready(available_at)  # it is there, if only the reply was lost
            return None
        self.ready(job.available_at)
        return job

    def send(self, what: tuple[Callable[[float, float], Job], float], _: int = 0) -> None:
        """Let a job come that is counted as coming: what `Queue.dispatcher` made, and its delay in seconds."""
        dispatch, delay = what
        if self.push(dispatch, delay, again=self.send, what=what) is not None:
            self.coming -= 1

    def plan(self, at: float, act: Act, arg: Any = None) -> int:
        """Let something happen at a moment, in seconds: `act(arg, serial)`. Returns the serial number."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (round(at * 1_000_000) if -_FAR < at < _FAR else us(at), serial, act, arg))
        return serial

    def begin(self) -> None:
        """Let the workers take up work: those that hold a job, and those that are free."""
        self._working = True
        self.catch_up()
        self._turns.extend(seat for seat in self.seats if seat.holding)
        self._due, self._is_unsure = math.inf, True
        self._ahead = max(0.0, *(seat.ahead for seat in self.seats))
        self._skewed = any(seat.ahead for seat in self.seats)
        self.sit_down(self.seats)

    def sit_down(self, seats: Iterable[Seat]) -> None:
        """Let free workers ask: each that polls at a first moment of its own, the others now."""
        for seat in seats:
            if not seat.free:
                continue
            if self._poll is None:
                self._turns.append(seat)
            elif not seat.asking:
                phase = self._polls.random() * self._poll.interval if self._poll.phase is None else self._poll.phase
                seat.beat = self._now + us(phase)
                seat.asking = self._plan(seat.beat, self._poll_once, seat)

    def end(self) -> None:
        """Let the workers take no further job."""
        self._working = False
        self._wake_at = math.inf
        self._turns.clear()
        self._idle.clear()

    def is_ahead(self, until: int = NEVER) -> bool:
        """Tell whether anything will happen up to a moment in microseconds; `NEVER` for as long as jobs will be due."""
        if self._turns:
            return True
        heap = self._heap
        return bool(heap) and heap[0][0] <= until and (until != NEVER or not self._is_over(heap[0][0]))

    def planned(self) -> Iterable[int]:
        """Tell the moments for which something is planned, in microseconds, in no order."""
        return (at for at, _, _, _ in self._heap)

    def catch_up(self) -> None:
        """Hear what the clock says, where somebody else has moved it."""
        self._now = max(self._now, us(self.clock.now()))

    def step(self, until: int = NEVER) -> bool:
        """Let one thing happen: a worker's turn, else what falls due by a moment in microseconds.

        Returns:
            Whether there was any.
        """
        if self._turns:
            self._take_turn(self._turns.popleft())
            return True
        heap = self._heap
        if not heap or heap[0][0] > until or (until == NEVER and self.coming <= 0 and self._is_over(heap[0][0])):
            return False
        at, serial, act, arg = heapq.heappop(heap)
        if at > self._now:
            self._now = at
            self.clock.jump(at)
        act(arg, serial)
        return True

    def go(self, until: int, count: int) -> bool:
        """Let so many things happen. Returns whether there may be more."""
        heap, turns, pop, jump = self._heap, self._turns, heapq.heappop, self.clock.jump
        for _ in range(count):  # as `step`, without a call for each
            if turns:
                self._take_turn(turns.popleft())
                continue
            if not heap or heap[0][0] > until or (until == NEVER and self.coming <= 0 and self._is_over(heap[0][0])):
                return False
            at, serial, act, arg = pop(heap)
            if at > self._now:
                self._now = at
                jump(at)
            act(arg, serial)
        return True

    def is_there(self) -> None:
        """Hear that a job may be reserved now."""
        if self._idle and not self._skewed:
            if self._turns or not self.is_instant:
                self._turns.append(self._idle.popleft())
            else:
                self._reserve(self._idle.popleft())
        elif self._skewed:
            self.ready(self._now / 1_000_000)

    def ready(self, at: float) -> None:
        """Hear that a job may be reserved from a moment on, in seconds."""
        at -= self._ahead
        if at <= self._now / 1_000_000:
            if self._skewed:
                self._wake()  # the first of them may have a clock by which it is not ready yet
            elif self._idle:
                self._turns.append(self._idle.popleft())
        elif at < self._due:
            self._due = at
            self._plan_wake()

    # -- what happens to workers --

    def crash(self, seat: Seat) -> None:
        """Let a worker vanish with what it holds; one that is gone already does nothing."""
        self.catch_up()
        if seat.gone:
            return
        if seat.held is not None:
            for held in (seat.held, *seat.behind):
                self.queue.crash(held, self._moment(seat), worker=seat.name)
        else:
            self.record(Kind.CRASHED, seat)
        seat.behind.clear()
        self._let_go(seat)
        self.leave(seat)

    def hold_still(self, seat: Seat, seconds: float) -> None:
        """Let a worker stand still for so many seconds; one that does already, for the longer of the two."""
        if not seat.paused:
            self.pause(seat)
        ends = max(seat.still_until, self.now + seconds)
        if not seat.still or ends > seat.still_until:
            seat.still_until = ends
            seat.still = self.plan(ends, self._still_enough, seat)

    def _still_enough(self, seat: Seat, serial: int) -> None:
        if seat.still == serial:
            self.resume(seat, shifted=self.now - seat.still_since)

    def _still_no_more(self, seat: Seat) -> None:
        seat.paused, seat.still = False, 0

    def pause(self, seat: Seat) -> None:
        """Let a worker stand still, with what it holds."""
        self.catch_up()
        self.record(Kind.PAUSED, seat)
        seat.paused, seat.still_since, seat.still_until = True, self.now, self.now
        self._sleep_no_more(seat)

    def resume(self, seat: Seat, *, shifted: float = 0.0) -> None:
        """Let a worker that stood still or was gone go on; a handler that should have ended ends now.

        Args:
            seat: The worker's place.
            shifted: How many seconds its handler stood still with it.
        """
        self.catch_up()
        self.record(Kind.RESUMED, seat, "after a crash" if seat.gone else "after a pause")
        self._still_no_more(seat)
        if seat.gone:
            self._start(seat)
        if seat.until is None:
            if seat.holding and self._working:
                self._turns.append(seat)
        elif seat.until + shifted <= self.clock.now():
            self._end_step(seat, seat.planned)
        elif not seat.telling:
            seat.until += shifted
            seat.planned = self.plan(seat.until, self._end_step, seat)
        if seat.leaving:
            self._wind_up(seat)
        else:
            self._ask_again(seat)

    def stop(self, seat: Seat) -> None:
        """Tell a worker to stop: it takes no further job, gives back what it has not begun, and leaves.

        One that stands still hears it when it goes on.
        """
        self.catch_up()
        seat.leaving = True
        if not seat.paused:
            self._wind_up(seat)

    def _wind_up(self, seat: Seat) -> None:
        behind = tuple(seat.behind)
        seat.behind.clear()
        for held in behind:
            if self.is_instant or (at := self._answered_at("release")) <= self._now:
                self._settle(seat, held, Ended(Release()))
            else:
                self._plan(at, self._give_back, (seat, held))
        if seat.held is None:
            self.leave(seat)
        else:
            self._sleep_no_more(seat)

    def _give_back(self, what: tuple[Seat, Reservation], _: int) -> None:
        self._settle(*what, Ended(Release()))

    def give_back(self, seat: Seat) -> None:
        """Let a worker release the job in its hands, half done as it is; one that is being settled stays so."""
        self.catch_up()
        if seat.held is not None and not seat.telling:
            self._stop_handler(seat)
            self._finish(seat, Ended(Release()))

    def come_back(self, seats: Iterable[Seat]) -> None:
        """Let workers that are gone sit down again, as new ones."""
        for seat in seats:
            if seat.gone:
                self._start(seat)
                if self._working:
                    self.sit_down([seat])
            seat.leaving = False

    def sweep(self, seat: Seat, what: str | None) -> float:
        """Let a worker that boots make jobs ready again: those whose reservation has run out, or all.

        Returns:
            After how many seconds it has to try again, as the store is locked or does not answer; 0 where it is done.
        """
        if what is None:
            return 0.0
        if self._opens_at is not None and (opens := self._opens_at(self.now)) > self.now:
            return opens - self.now
        try:
            recovered = self.queue.recover(force=what == "all", worker=seat.name)
        except DriverUnavailable:
            return _ASK_AGAIN
        for job in recovered:
            self.ready(job.available_at)
        return 0.0

    def restart(self, queue: Queue) -> None:
        """Let the process of all workers vanish with what they hold, and start it again on a queue."""
        for seat in self.seats:
            if seat.held is not None:
                self.crash(seat)
            self._start(seat)
        self.queue.trace.record(self.clock.now(), Kind.RESTARTED, detail="process")
        self.queue = queue
        self._meet_store()

    def leave(self, seat: Seat) -> None:
        """Let a worker that holds nothing be gone."""
        self._still_no_more(seat)
        seat.gone = True
        seat.asking = seat.back = 0
        self._sleep_no_more(seat)

    def _start(self, seat: Seat) -> None:
        """Let a worker be there as a new one."""
        self._still_no_more(seat)
        seat.gone = seat.leaving = False
        seat.back = seat.grace = 0

    def record(self, kind: Kind, seat: Seat, detail: str = "") -> None:
        """Record that something has happened to a worker, with whatever it holds."""
        job = None if seat.held is None else seat.held.job
        id, name, attempt = (None, "", 0) if job is None else (job.id, job.name, job.attempts)
        self.queue.trace.record(self.clock.now(), kind, id, name, attempt, seat.name, detail=detail)

    # -- asking --

    def _take_turn(self, seat: Seat) -> None:
        if seat.held is not None:
            if seat.holding:
                self._begin(seat)
        elif self._working and not (seat.paused or seat.gone or seat.leaving):
            if self.is_instant:
                self._reserve(seat)
            else:
                self._ask(seat)

    def _poll_once(self, seat: Seat, serial: int) -> None:
        if seat.asking == serial:
            seat.asking = 0
            if self._working and seat.free:
                self._ask(seat)

    def _ask(self, seat: Seat) -> None:
        """Let a free worker ask for a job, once the store can answer."""
        if self.is_instant or (at := self._answered_at("reserve")) <= self._now:
            self._reserve(seat)
        else:
            seat.asking = self._plan(at, self._asked, seat)

    def _asked(self, seat: Seat, serial: int) -> None:
        if seat.asking == serial:
            seat.asking = 0
            if self._working and seat.free:
                self._reserve(seat)

    def _reserve(self, seat: Seat) -> None:
        """Let a worker reserve what there is for it, and begin."""
        if self._lane is not None and not seat.ahead:
            one = self._steps.take_one(self._lane, self._now, seat.name)
            if one is None:
                self._rest(seat)
            else:
                self._hold(seat, one)
            return
        now = self._moment(seat) if seat.ahead else None
        try:
            found = self._steps.take(self._batch, now, seat.name, self._tell_misses)
        except DriverUnavailable:
            again = _ASK_AGAIN if self._poll is None else self._poll.interval
            seat.asking = self._plan(self._now + us(again), self._poll_once, seat)
            if (lasts := self.queue.policy.retry_after) is not None:
                self.ready(self.now + seat.ahead + lasts)  # what it has reserved, if only the reply was lost
            return
        if not found:
            self._rest(seat)
            return
        if len(found) > 1:
            seat.behind.extend(found[1:])
        self._hold(seat, found[0])

    def _hold(self, seat: Seat, held: Reservation) -> None:
        """Let a worker begin what it has reserved."""
        seat.held = held
        if held[0][7] < self._due:
            self._due = held[0][7]
            if self._idle:
                self._plan_wake()
        if self.strike is None or not self.strike("reserved", seat):
            self._begin(seat)

    def _rest(self, seat: Seat) -> None:
        """Let a worker that found nothing wait."""
        if self._poll is None:
            self._idle.append(seat)
            if self._is_unsure or self._skewed or self._is_paced:
                self._wait_for_time(seat)
            elif self._due < self._wake_at:
                self._plan_wake()
        elif self._poll.beat:
            self._wait_for_beat(seat)
        else:
            wait = self._poll.interval
            if self._poll.jitter:
                wait *= 1 + self._poll.jitter * (2 * self._polls.random() - 1)
            seat.asking = self._plan(self._now + us(wait), self._poll_once, seat)

    def _wait_for_beat(self, seat: Seat) -> None:
        beat = us(self._poll.interval) if self._poll is not None else 1
        gone = (self._now - seat.beat) // beat + 1
        seat.asking = self._plan(seat.beat + gone * beat, self._poll_once, seat)

    def _ask_again(self, seat: Seat) -> None:
        """Let a worker that has become free ask at once, or at its next beat."""
        if seat.leaving:
            self.leave(seat)
        elif not self._working:
            return
        elif seat.held is None and not (seat.paused or seat.gone or seat.asking):
            if self._poll is not None and self._poll.beat:
                self._wait_for_beat(seat)
            else:
                self._turns.append(seat)

    def _wait_for_time(self, seat: Seat) -> None:
        """Find out when time alone will make a job ready for a worker that rests, by its own clock."""
        due = self._next_due(seat)
        at = math.inf if due is None else max(due - seat.ahead, (self._now + 1) / 1_000_000)
        self._due = at if len(self._idle) == 1 else min(self._due, at)
        self._is_unsure = False
        self._plan_wake()

    def _next_due(self, seat: Seat) -> float | None:
        """Tell when a job may be reserved by a worker's clock, also while its store has troubles."""
        now = self._moment(seat)
        return self._calm.next_due(self.queue.name, now=self.now if now is None else now)

    def _plan_wake(self) -> None:
        if self._idle and self._due < self._wake_at:
            self._wake_at = self._due
            self.plan(self._due, self._wake_as_planned)

    def _wake_as_planned(self, _: None, __: int) -> None:
        if us(self._wake_at) <= self._now:  # not one that was planned before it
            self._wake_at = math.inf
        self._wake()

    def _wake(self) -> None:
        self._is_unsure = True
        self._turns.extend(self._idle)
        self._idle.clear()

    def _sleep_no_more(self, seat: Seat) -> None:
        if seat in self._idle:
            self._idle.remove(seat)
        elif seat.held is None and self._idle:
            self._turns.append(self._idle.popleft())  # for the job that it was woken for

    # -- running --

    def _begin(self, seat: Seat) -> None:
        """Let a worker start the job in its hands."""
        held = seat.held
        if held is None:
            return
        takes = None if self.service is None else self.service(held)
        seat.judged = False
        if takes is None:
            seat.steps = self.queue.steps(held, None, worker=seat.name)
            self._go_on(seat)
        else:
            at = self._now + takes
            seat.until = at / 1_000_000
            self._serial = seat.planned = serial = self._serial + 1
            heapq.heappush(self._heap, (at, serial, self.ends or self._end_step, seat))

    def _end_step(self, seat: Seat, serial: int) -> None:
        held = seat.held
        if seat.planned != serial or seat.paused or seat.telling or held is None:
            return
        if self.done is not None and seat.steps is None and not seat.ahead and self.is_instant and self.strike is None:
            self._complete(seat, held)
        elif seat.ended is not None:
            self._finish(seat, seat.ended)
        elif seat.steps is not None:
            self._go_on(seat)
        else:
            ended = None if self.ending is None else self.ending(held)
            if ended is None:  # the handler is called when its time is over, and does at its end what it does
                seat.steps, seat.judged = self._steps.run(held, None, seat.name), True
                self._go_on(seat)
            else:
                self._end(seat, ended)

    def _complete(self, seat: Seat, held: Reservation) -> None:
        """Let a worker complete its job and ask for the next: what happens most, in the fewest calls."""
        seat.held = seat.until = None
        seat.planned = 0
        outcome = self._steps.complete(held, seat.name)
        if outcome is None:
            self.done(held)  # type: ignore[misc]  # it was looked for
        else:
            self._hear(held, outcome)
        if seat.behind:
            seat.held = seat.behind.popleft()
            self._turns.append(seat)
        elif self._turns or seat.leaving or self._poll is not None or not self._working:
            self._ask_again(seat)
        elif self._idle and not self._is_unsure and not self._skewed and self._now / 1_000_000 < self._due:
            self._idle.append(seat)  # where another rests, nothing is there
        else:
            self._reserve(seat)

    def _go_on(self, seat: Seat) -> None:
        """Take the next step of a worker's handler."""
        steps, held = seat.steps, seat.held
        if steps is None or held is None:
            return
        try:
            seconds = self._heard(lambda: next(steps))
        except StopIteration as stop:
            ended: Ended = stop.value
            if ended.error is None and self.ending is not None and not seat.judged:
                ended = self.ending(held) or ended
            self._end(seat, ended)
        else:
            seat.until = self.clock.now() + seconds
            seat.planned = self.plan(seat.until, self._end_step, seat)

    def _end(self, seat: Seat, ended: Ended) -> None:
        """Let a handler have ended, unless a fault strikes before the store is told."""
        if self.strike is not None and not isinstance(ended.error, AttemptsExhausted):
            self._stop_handler(seat)
            seat.ended, seat.until = ended, self.now  # for when it goes on after a pause
            if self.strike("completing", seat):
                return
        if self.is_instant:
            self._finish_now(seat, ended)
        else:
            self._finish(seat, ended)

    def _heard(self, act: Callable[[], Any]) -> Any:
        """Run a part of a handler, and let workers look for what it may have dispatched."""
        before = len(self.queue.trace)
        try:
            return act()
        finally:
            if (len(self.queue.trace) != before or self._opens_at is not None) and self._working:
                self._wake()

    def _finish(self, seat: Seat, ended: Ended) -> None:
        """Settle a job whose handler has ended, once the store can answer."""
        at = self._now if self.is_instant else self._answered_at(self._verb(seat, ended))
        if at > self._now:
            seat.telling, seat.until = True, at / 1_000_000
            seat.planned = self._plan(at, self._answered, (seat, ended))
        else:
            self._finish_now(seat, ended)

    def _verb(self, seat: Seat, ended: Ended) -> str:
        """Tell which verb settles a job."""
        if ended.error is None or seat.held is None:
            return "release" if isinstance(ended.returned, Release) else "complete"
        tries = self.queue.tries_of(seat.held.job.name)
        return "release" if tries is None or seat.held.job.attempts < tries else "fail"

    def _answered(self, what: tuple[Seat, Ended], serial: int) -> None:
        seat, ended = what
        if seat.planned == serial:
            self._finish_now(seat, ended)

    def _finish_now(self, seat: Seat, ended: Ended) -> None:
        held = seat.held
        if held is None:
            return
        self._let_go(seat)
        self._settle(seat, held, ended)
        if seat.behind:
            seat.held = seat.behind.popleft()
            self._turns.append(seat)
        else:
            self._ask_again(seat)

    def _settle(self, seat: Seat, held: Reservation, ended: Ended) -> None:
        outcome = self._steps.settle(held, ended, self._moment(seat) if seat.ahead else None, seat.name)
        if isinstance(outcome, _WAITS):
            self.ready(outcome.available_at)
        elif isinstance(outcome, Unknown) and (due := self._next_due(seat)) is not None:
            self.ready(due)  # it was given back, if only the reply was lost
        self._hear(held, outcome)

    def _hear(self, held: Reservation, outcome: Outcome) -> None:
        if self.settled is not None:
            self.settled(held, outcome)

    # -- small things --

    def _moment(self, seat: Seat) -> float | None:
        """Tell what a worker's clock says, in seconds; None where it is right."""
        return max(0.0, self._now / 1_000_000 + seat.ahead) if seat.ahead else None

    def _answered_at(self, verb: str) -> int:
        """Tell when the store answers what is asked now, in microseconds."""
        at = self._now
        if self._opens_at is not None:
            at = max(at, us(self._opens_at(self._now / 1_000_000)))
        if self._cost is not None:
            begins = max(at, self._free_at) if self._cost.serial else at
            at = begins + us(getattr(self._cost, verb))
            self._free_at = at
        return at

    def _meet_store(self) -> None:
        """Find out what the store can tell that others cannot."""
        self._steps = self.queue.stepper
        plain = self._batch == 1 and not self._tell_misses
        self._lane = self.queue.driver.lane(self.queue.name) if plain else None
        self.is_instant = self._cost is None and not hasattr(self.queue.driver, "opens_at")
        self._opens_at: Callable[[float], float] | None = getattr(self.queue.driver, "opens_at", None)
        self._calm: Driver = getattr(self.queue.driver, "calm", self.queue.driver)
        self._is_paced = self._calm is not self._calm.store  # what stands before a store may hold back what is ready

    def _plan(self, at: int, act: Act, arg: Any = None) -> int:
        self._serial += 1
        heapq.heappush(self._heap, (at, self._serial, act, arg))
        return self._serial

    def _is_over(self, at: int) -> bool:
        """Tell whether nothing will ever be done before what comes next, at a moment in microseconds.

        What happens at one moment happens whole, so that a run that is taken up there again goes on alike.
        """
        if self.coming > 0 or at <= self._now:
            return False
        if any(seat.held is not None and (seat.still or not seat.paused) for seat in self.seats):
            return False
        if not self.awaited and all(seat.gone for seat in self.seats):
            return True
        return self._next_due(self.seats[0]) is None

    def _let_go(self, seat: Seat) -> None:
        self._stop_handler(seat)
        seat.held = seat.ended = None
        seat.telling = False

    def _stop_handler(self, seat: Seat) -> None:
        steps: Generator[float, None, Ended] | None = seat.steps
        seat.until = seat.steps = None
        seat.planned = 0
        if steps is not None:
            steps.close()
