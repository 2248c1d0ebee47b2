"""One step of a worker: reserve, run, settle, record. Everything that works a queue goes through here."""

import inspect
import logging
import math
import random
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from qlab.clock import NEVER, Clock, SimulatedClock, SystemClock, pause, us
from qlab.driver import Driver, Lane
from qlab.errors import AttemptsExhausted, DriverUnavailable, QlabError, QueueClosed, ReplyLost, UnusableStore
from qlab.escape import error_text, shortened, traceback_text
from qlab.job import Attempt, AttemptVerbs, Job, Release, Reservation
from qlab.log import fields, log, tell_each
from qlab.outcome import Completed, Failed, Idle, Outcome, Released, Retrying, Settled, Superseded, Unknown, completed
from qlab.policy import Policy
from qlab.registry import Registry
from qlab.running import RETURNED, Ended, called, close, stepped
from qlab.show import seconds as shown
from qlab.trace import CODES, NOTHING, Kind, Trace

Asked = Callable[[], bool]
Told = Callable[[Reservation | None], object]
Heard = Callable[[Reservation, Settled], object]

_NO_ANSWER = (DriverUnavailable, UnusableStore, QueueClosed)
_REMEMBERED = 10_000
_SETTLE_TRIES = 3
_BLOCKED = 0.001
_LOGGED_PAYLOAD = 1_000  # characters
_RESERVED, _COMPLETED, _RELEASED = CODES[Kind.RESERVED], CODES[Kind.COMPLETED], CODES[Kind.RELEASED]
_FAILED, _SUPERSEDED = CODES[Kind.FAILED], CODES[Kind.SUPERSEDED]


def never() -> bool:
    """Say no, whenever asked."""
    return False


def nobody(_: Reservation | None) -> None:
    """Hear what a worker holds, and keep it to oneself."""


_GIVEN_BACK = Ended(Release())
_is_logged = log.logger.isEnabledFor  # each look-up would be made once for every job


class Steps:
    """The steps of a queue's workers; it knows the store, the rules and the handlers, and records into the trace.

    Attributes:
        policy: The rules; they may be exchanged for others between two steps.
        trace: Where they record; it may be exchanged for another between two steps.
        context: What handlers get as `job.context`.
        verbs: What an attempt can ask for.
        extended: Until when the reservations that were extended last, in seconds, by token.
        failed: The ids of the last 10,000 jobs that failed here, by uid.
        log_payloads: Whether the lines of the log show payloads.
        logs: Whether there are lines of the log.
        listeners: What is told how each attempt ended.
    """

    verbs: AttemptVerbs

    def __init__(
        self, driver: Driver, queue: str, policy: Policy, clock: Clock, registry: Registry, trace: Trace, context: Any
    ) -> None:
        self.driver = driver
        self.policy = policy
        self.clock = clock
        self.context = context
        self._queue = queue
        self._registry = registry
        self.trace = trace
        self._random = random.Random(policy.seed)
        self.extended: dict[str, float] = {}
        self.failed: dict[str, int] = {}
        self.log_payloads = False
        self.logs = True
        self.listeners: list[Heard] = []
        self._hear: Callable[..., None] | None = getattr(driver.store, "hear", None)
        self._in_real_time = isinstance(clock, SystemClock)
        self._has_lock = type(driver.store).blocked is not Driver.blocked

    # -- the step --

    def work_once(self, now: float | None, worker: str) -> Outcome:
        """Reserve the next due job, run its handler, settle it, record it."""
        now = None if now is None else self._at(now)
        held = self.reserve(now, worker)
        return Idle(self._at(now)) if held is None else self.finish(held, now, worker)

    def reserve(self, now: float | None, worker: str) -> Reservation | None:
        """Reserve the next due job."""
        found = self.take(1, now, worker)
        return found[0] if found else None

    def take(self, limit: int, now: float | None, worker: str, tell_missed: bool = True) -> list[Reservation]:
        """Reserve at most so many jobs at once."""
        moment = self.clock.now() if now is None else self._at(now)
        if moment - moment:  # NaN, which is what it is where the moment is NaN or infinite
            self._at(moment)
        if self._hear is not None:
            self.introduce(worker, moment)
        found = self.driver.reserve(self._queue, now=moment, retry_after=self.policy.retry_after, limit=limit)
        if found:
            self.record_wait(moment, worker)
            for held in found:
                self._record_reserved(held, moment, worker)
        elif tell_missed:
            self._record_missed(moment, worker)
        return found

    def take_one(self, lane: Lane, now: int, worker: str) -> Reservation | None:
        """Reserve the next due job through a lane, at a moment in microseconds; nothing is recorded of a miss."""
        held = lane.reserve(now, self.policy.retry_after)
        if held is None:
            return None
        (id, _, _, name, _, attempts, _, until, _), _, since, ran_out = held
        if ran_out:
            self.trace.record(now / 1_000_000, Kind.EXPIRED, id, name, attempts - 1, worker, until=since)
        ends = round(until * 1_000_000) if until < math.inf else NEVER
        self.trace.record_us(now, _RESERVED, id, name, attempts, worker, round(since * 1_000_000), ends)
        return held

    def introduce(self, worker: str, now: float) -> None:
        """Say who calls next to a store that goes by names: no driver does, a flaw of the lab may."""
        if self._hear is not None:
            self._hear(worker, now=now)

    def finish(self, held: Reservation, now: float | None, worker: str, holding: Told = nobody) -> Outcome:
        """Run and settle a reserved job; time goes by as its handler yields it."""
        if now is None:
            ended = self._run_through(held, None, worker, self.clock.spend)
            holding(None)
            return self.settle(held, ended, None, worker)
        now, spent = self._at(now), [0.0]
        ended = self._run_through(held, now, worker, spent.append)
        holding(None)
        return self.settle(held, ended, now + sum(spent), worker)

    def run(self, held: Reservation, now: float | None, worker: str) -> Generator[float, None, Ended]:
        """Run a reserved job's handler as a generator of the seconds that it spends; its value is how it ended."""
        attempt = Attempt(held, self.context, self.verbs, now, worker)
        ended = self._called(attempt)
        if ended is RETURNED or not inspect.isgenerator(ended.returned):
            return ended
        return (yield from self._stepped(attempt, ended.returned))

    def settle(self, held: Reservation, ended: Ended, now: float | None, worker: str) -> Outcome:
        """Complete, release or fail a job by how its handler ended."""
        moment = self.clock.now() if now is None else self._at(now)
        if moment - moment:  # NaN, which is what it is where the moment is NaN or infinite
            self._at(moment)
        if self._hear is not None:
            self.introduce(worker, moment)
        id, _, _, name, _, attempts, _, _, _ = held.job
        told = (id, name, attempts, moment)
        if ended.error is not None:
            outcome = self._after_error(held, ended.error, moment)
        elif isinstance(ended.returned, Release):
            delay = ended.returned.delay
            outcome = self._tell("release", held, Released(*told, moment + delay), delay=delay)
        else:
            outcome = self._tell("complete", held, completed(*told))
        return self._record(held, outcome, worker)

    def complete(self, held: Reservation, worker: str) -> Outcome | None:
        """Complete a job now, as `settle` does with one whose handler has returned nothing.

        Returns:
            None where it is done and nobody is to be told; else how it ended.
        """
        if self.listeners or self.logs or self._in_real_time or self._hear is not None:
            return self.settle(held, RETURNED, None, worker)
        now, job = self.clock.now(), held[0]
        try:
            done = self.driver.complete(held, now=now)
        except _NO_ANSWER as error:
            told = Completed(job.id, job.name, job.attempts, now)
            return self._record(held, self._tell("complete", held, told, problem=error), worker)
        if not done:
            return self.settle(held, RETURNED, None, worker)
        if self.extended:
            self.extended.pop(held[1], None)
        self.trace.record_us(round(now * 1_000_000), _COMPLETED, job[0], job[3], job[5], worker)
        return None

    def drain(
        self,
        tell: Callable[[Outcome], object],
        worker: str,
        stopping: Asked = never,
        leaving: Asked = never,
        holding: Told = nobody,
    ) -> None:
        """Work until nothing is due; each job is completed and the next reserved in one transaction or script.

        Args:
            tell: Told how each job ended.
            worker: Who does it.
            stopping: Whether to take no further job.
            leaving: Whether to run none either: one whose reservation was under way is given back.
            holding: Told what is in hand before its handler is called, and None after.
        """
        spend = self.clock.spend
        held = self._next(worker, stopping)
        while held is not None:
            holding(held)
            left = leaving()
            ended = _GIVEN_BACK if left else self._run_through(held, None, worker, spend)
            holding(None)
            if ended.error is None and not isinstance(ended.returned, Release) and not stopping():
                held = self._complete_and_reserve(held, worker, tell, stopping)
            else:
                tell(self.settle(held, ended, None, worker))
                held = None if left else self._next(worker, stopping)

    def _next(self, worker: str, stopping: Asked) -> Reservation | None:
        return None if stopping() else self.reserve(None, worker)

    # -- running --

    def _run_through(
        self, held: Reservation, now: float | None, worker: str, spend: Callable[[float], object]
    ) -> Ended:
        """Run a handler to its end; what it spends is told as it yields it."""
        attempt = Attempt(held, self.context, self.verbs, now, worker)
        ended = self._called(attempt)
        if ended is RETURNED or not inspect.isgenerator(ended.returned):
            return ended
        steps = self._stepped(attempt, ended.returned)
        while True:
            try:
                seconds = next(steps)
            except StopIteration as stop:
                through: Ended = stop.value
                return through
            spend(seconds)

    def _called(self, attempt: Attempt) -> Ended:
        _, _, _, name, _, attempts, _, _, _ = attempt.reservation[0]
        handler = self._registry.get(name)
        if attempts > 1:
            tries, _ = self._registry.rules(name, self.policy)
            if tries is not None and attempts > tries:
                return Ended(error=AttemptsExhausted())
        return called(self._find if handler is None else handler[0], attempt)

    def _find(self, attempt: Attempt) -> Any:
        return self._registry.find(attempt.name).run(attempt)  # which raises, unless somebody has just registered it

    def _stepped(self, attempt: Attempt, steps: Generator[Any, Any, Any]) -> Generator[float, None, Ended]:
        try:
            while not isinstance(step := stepped(steps), Ended):
                yield step
                if attempt.now is not None:
                    attempt.now += step
            return step
        finally:
            close(steps)

    # -- settling --

    def _after_error(self, held: Reservation, error: BaseException, now: float) -> Settled:
        job = held.job
        tries, backoff = self._registry.rules(job.name, self.policy)
        text = error_text(error)
        panicked = self.policy.panic_fails and not isinstance(error, Exception)
        if not panicked and (tries is None or job.attempts < tries):
            delay = self.policy.delay(job.attempts, self._random, backoff)
            return self._tell(
                "release", held, Retrying(job.id, job.name, job.attempts, now, text, now + delay), delay=delay
            )
        attempts = job.attempts if tries is None else min(job.attempts, tries)
        failed = Failed(job.id, job.name, attempts, now, text)
        traceback = "" if isinstance(error, AttemptsExhausted) else traceback_text(error)
        outcome = self._tell("fail", held, failed, attempts=failed.attempt, error=text, traceback=traceback)
        if outcome is failed:
            self._remember(job)
        return outcome

    def _remember(self, job: Job) -> None:
        self.failed[job.uid] = job.id
        if len(self.failed) > _REMEMBERED:
            with suppress(KeyError, RuntimeError):  # another worker drops it, or adds one, at this moment
                del self.failed[next(iter(self.failed))]

    def _tell(
        self, verb: str, held: Reservation, outcome: Settled, *, problem: QlabError | None = None, **how: Any
    ) -> Settled:
        """Tell the store how a job ended, a bounded number of times where it does not answer.

        A repeat that finds the token gone is unknown, not superseded: the call before may be the one that settled it.
        """
        tried = 0
        while tried < _SETTLE_TRIES:
            try:
                done = getattr(self.driver, verb)(held, now=outcome.at, **how)
            except _NO_ANSWER as error:
                problem = error
                if not isinstance(self.clock, SimulatedClock):
                    pause(0.01 * tried)
                tried += 1
                continue
            if done:
                if self.extended:
                    self.extended.pop(held.token, None)
                return outcome
            break
        until = self.extended.pop(held.token, held.reserved_until)
        told = (outcome.job, outcome.name, outcome.attempt, outcome.at)
        return Superseded(*told, verb) if problem is None else Unknown(*told, error_text(problem), until)

    def _complete_and_reserve(
        self, held: Reservation, worker: str, tell: Callable[[Outcome], object], stopping: Asked
    ) -> Reservation | None:
        """Complete a job, reserve the next, and tell how the first ended."""
        now = self.clock.now()
        if self._hear is not None:
            self.introduce(worker, now)
        id, _, _, name, _, attempts, _, _, _ = held[0]
        outcome: Settled = completed(id, name, attempts, now)
        try:
            done, following = self.driver.complete_and_reserve(held, now=now, retry_after=self.policy.retry_after)
        except _NO_ANSWER as error:
            # What the call reserved, if its reply was lost, runs out: repeated, it might reserve one more.
            lost = error if isinstance(error, ReplyLost) else None
            tell(self._record(held, self._tell("complete", held, outcome, problem=lost), worker))
            return self._next(worker, stopping)
        if self.extended:
            self.extended.pop(held[1], None)
        if not done:
            outcome = Superseded(id, name, attempts, now, "complete")
        self._record(held, outcome, worker)
        if following is None:
            self._record_missed(now, worker)
        else:
            self._record_reserved(following, now, worker)
        tell(outcome)
        return following

    # -- recording --

    def record_wait(self, now: float, worker: str) -> None:
        """Record that the store's lock was waited for, where it was worth telling."""
        asks = self._has_lock and self._in_real_time and self.trace.records
        if asks and (blocked := self.driver.blocked()) > _BLOCKED:
            self.trace.record(now, Kind.BLOCKED, worker=worker, since=now - blocked, detail=shown(blocked))

    def _record_missed(self, now: float, worker: str) -> None:
        self.record_wait(now, worker)
        self.trace.record(now, Kind.MISSED, worker=worker)

    def _record_reserved(self, held: Reservation, now: float, worker: str) -> None:
        if not self.trace.records:
            return
        job, _, since, ran_out = held
        id, _, _, name, _, attempts, _, until, _ = job
        if ran_out:
            self.trace.record(now, Kind.EXPIRED, id, name, attempts - 1, worker, until=since)
        ends = round(until * 1_000_000) if until < math.inf else NEVER
        at, since_us = round(now * 1_000_000), round(since * 1_000_000)
        self.trace.record_us(at, _RESERVED, id, name, attempts, worker, since_us, ends)

    def _record(self, held: Reservation, outcome: Settled, worker: str) -> Settled:
        if self.trace.records:
            self._record_settled(outcome, worker)
            if self._has_lock:
                self.record_wait(outcome.at, worker)
        if self.listeners:
            wrong = f"a listener of outcomes went wrong; job={outcome.job} ended all the same"
            tell_each(self.listeners, held, outcome, wrong=wrong)
        if self.logs and _is_logged(level := logging.ERROR if type(outcome) is Failed else logging.INFO):
            log.log(level, "%s", self._line(held, outcome, worker))
        return outcome

    def _record_settled(self, outcome: Settled, worker: str) -> None:
        at, job, name, attempt = round(outcome.at * 1_000_000), outcome.job, outcome.name, outcome.attempt
        if type(outcome) is Completed:
            self.trace.record_us(at, _COMPLETED, job, name, attempt, worker)
            return
        code, until, detail = _event(outcome)
        if code is not None:
            self.trace.record_us(at, code, job, name, attempt, worker, NOTHING, until, detail)

    def _line(self, held: Reservation, outcome: Settled, worker: str) -> str:
        """Write an outcome as a line of the log."""
        reserved_at = held.job.reserved_at
        return fields(
            outcome=type(outcome).__name__.lower(),
            job=outcome.job,
            handler=outcome.name,
            attempt=outcome.attempt,
            worker=worker or None,
            took=None if reserved_at is None else round(outcome.at - reserved_at, 6),
            error=getattr(outcome, "error", None),
            payload=shortened(held.job.body, _LOGGED_PAYLOAD) if self.log_payloads else None,
        )

    def _at(self, now: float | None) -> float:
        moment = self.clock.now() if now is None else self.clock.moment(now)
        if not -math.inf < moment < math.inf:
            raise ValueError(f"now is {moment}: use a moment that comes")
        return moment


def _event(outcome: Settled) -> tuple[int | None, int, str]:
    """Tell which event an outcome is, until when in microseconds, and its detail."""
    match outcome:
        case Released():
            return _RELEASED, us(outcome.available_at), ""
        case Retrying():
            return _RELEASED, us(outcome.available_at), outcome.error
        case Failed():
            return _FAILED, NOTHING, outcome.error
        case Superseded():
            return _SUPERSEDED, NOTHING, outcome.verb
    return None, NOTHING, ""
