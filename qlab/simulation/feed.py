"""A workload, fed to workers in simulated time: when jobs come, how long they take, who waits for them."""

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from qlab.clock import us
from qlab.errors import DriverUnavailable
from qlab.job import Attempt, Job, Reservation
from qlab.outcome import Completed, Failed, Outcome, Unknown
from qlab.queue import Queue
from qlab.running import Ended
from qlab.simulation.engine import Act, Engine
from qlab.simulation.requests import Requests
from qlab.trace import Kind
from qlab.workload import Workload
from qlab.workload.arrivals import Closed
from qlab.workload.failures import Never
from qlab.workload.recording import Recorded, RecordedJob
from qlab.workload.streams import Streams

_DONE = Ended()
_ENDS = (Completed, Failed)
_PUT_OFF = Job(0, "", "", "", "", 0, 0.0, 0.0)


class _Asked(NamedTuple):
    """A client's job: which request it is for, how many times the client has asked, and for what."""

    request: int
    asked: int
    job: RecordedJob


def stand_in(_: Attempt) -> None:
    """Do nothing: what a job of a workload takes, and whether it fails, is drawn."""


def staff(queue: Queue, workload: Workload) -> None:
    """Give each name of a workload a handler that does nothing, where it has none."""
    for name in workload.handlers:
        if queue.handler_of(name) is None:
            queue.handler(name)(stand_in)


class Feed:
    """Plans a workload's arrivals on an engine, and tells it how long attempts take and how they end.

    Args:
        engine: The workers; a name without a handler in their queue gets one that does nothing.
        workload: What comes.
        seed: Where chance starts.
        requests: Where it is written down what clients saw.
    """

    def __init__(self, engine: Engine, workload: Workload, *, seed: int, requests: Requests) -> None:
        self._engine = engine
        self._workload = workload
        self._requests = requests
        self._streams = Streams(seed)
        self._left = workload.jobs
        self._inside: dict[int, int | None] = {}  # the jobs in the system, with the service drawn for the first attempt
        self._clients: dict[int, _Asked] = {}
        self._patience: deque[tuple[float, int]] = deque()  # until when a client waits for a job, in order
        self._is_patient = False
        self._thinking: dict[int, int] = {}
        self._purse = workload.clients.budget.purse() if workload.clients and workload.clients.budget else None
        self._names = workload.namer(self._streams.of("names"))
        self._repeats = self._streams.of("repeats")
        self._draws_once = not workload.redraw or isinstance(workload.arrivals, Recorded)
        self.arrives: Act | None = None
        self._thinks = isinstance(workload.arrivals, Closed)
        self.meet(engine.queue)
        engine.service, engine.ending, engine.settled = self._takes, self._ends, self._settled
        self._begin()

    @property
    def share(self) -> float:
        """What share of the arrivals has come; NaN where they have no end."""
        jobs, arrivals = self._workload.jobs, self._workload.arrivals
        if isinstance(arrivals, Recorded):
            last = arrivals.jobs[: self._left][-1].at
            return min(1.0, self._engine.now / last) if last else 1.0
        return math.nan if jobs is None or self._left is None else 1 - self._left / jobs

    def lose(self, jobs: Sequence[int]) -> None:
        """Hear that the store has lost jobs."""
        for job in jobs:
            self._inside.pop(job, None)
            if (client := self._thinking.pop(job, None)) is not None:
                self._let_think(client)

    def meet(self, queue: Queue) -> None:
        """Work on a queue: find out about each name once what is asked for each job.

        Args:
            queue: The engine's, at the start and after a restart; a name without a handler there gets one.
        """
        self._queue = queue
        staff(queue, self._workload)
        first, self._first, self._again = self._streams.of("services"), {}, {}
        self._fails: dict[str, Callable[[int, Random], bool] | None] = {}
        self._called: set[str] = set()
        self._dispatch: dict[str, Callable[[float, float], Job]] = {}
        self._unanswered: dict[int, Callable[[float, float], Job]] = {}
        self._plain = {name: RecordedJob(0.0, name) for name in self._workload.handlers}
        for name in self._workload.handlers:
            run, failures = self._queue.handler_of(name), self._workload.failures_of(name)
            if not inspect.isgeneratorfunction(run):
                self._first[name] = self._workload.service_of(name).sampler(first)
                self._again[name] = self._workload.service_of(name).sampler(self._repeats)
            if run is not stand_in:
                self._called.add(name)
            self._fails[name] = None if isinstance(failures, Never) else failures.fails
            self._dispatch[name] = self._queue.dispatcher(name, self._workload.payload)
        self._failures = self._streams.of("failures")
        workload, always = self._workload, not self._called and not any(self._fails.values())
        self._engine.done = self._done if always else None
        self._is_open = workload.clients is None and workload.capacity is None

    # -- arrivals --

    def _begin(self) -> None:
        arrivals, engine = self._workload.arrivals, self._engine
        if isinstance(arrivals, Closed):
            self._think = arrivals.think.sampler(self._streams.of("clients"))
            for client in range(arrivals.clients):
                self._let_think(client)
        elif isinstance(arrivals, Recorded):
            for job in arrivals.jobs[: self._left]:
                if job.payload is not None:
                    self._queue.dispatcher(job.name or self._workload.handlers[0], job.payload)  # which checks it
            for job in arrivals.jobs[: self._left]:
                engine.coming += 1
                engine.plan(job.at, self._come, job)
        else:
            engine.coming += 1
            self._next(arrivals.moments(self._streams.of("arrivals")))

    def _next(self, moments: Iterator[float]) -> None:
        moment = next(moments, None) if self._left is None or self._left > 0 else None
        if moment is None:
            self._engine.coming -= 1
            return
        if self._left is not None:
            self._left -= 1
        self._engine.plan(moment, self.arrives or self._arrive, moments)

    def _arrive(self, moments: Iterator[float], serial: int) -> None:
        self._next(moments)
        name = self._names()
        if self._is_open and self._engine.is_instant:
            self._dispatch_now(name)
        else:
            self._engine.coming += 1
            self._come(self._plain[name], serial)

    def _dispatch_now(self, name: str) -> None:
        """Dispatch a job to a store that always answers: what happens most, in the fewest calls."""
        now = self._engine.now
        try:
            id = self._dispatch[name](now, now)[0]
        except DriverUnavailable:
            self._engine.coming += 1
            self._come(self._plain[name], 0)
            return
        self._inside[id] = self._first[name]() if name in self._first else None
        self._engine.is_there()

    def _come(self, job: RecordedJob, _: int) -> None:
        """Let a job come, or a client with a request for one; it comes again where the store does not answer."""
        if not job.name:
            job = job._replace(name=self._names())  # once: it keeps it, however often it comes
        if self._workload.clients is not None:
            request = self._requests.begin(us(self._engine.now))
            self._ask(_Asked(request, 1, job), 0)
        elif self._dispatch_or_put_off(job, self._come) is not _PUT_OFF:
            self._engine.coming -= 1

    def _dispatch_or_put_off(self, job: RecordedJob, again: Act, what: Any = None) -> Job | None:
        """Dispatch a job, unless the system is full; where the store does not answer, plan another try.

        Returns:
            The job; None where it was rejected, `_PUT_OFF` where it will be tried again.
        """
        engine, name = self._engine, job.name
        what = job if what is None else what
        if self._workload.capacity is not None and len(self._inside) >= self._workload.capacity:
            self._queue.trace.record(engine.now, Kind.REJECTED, name=name)
            return None
        if job.payload is None:
            dispatch = self._dispatch[name]
        else:
            dispatch = self._unanswered.pop(id(job), self._queue.dispatcher(name, job.payload))
        made = engine.push(dispatch, job.delay, again=again, what=what)
        if made is None:
            if job.payload is not None:
                self._unanswered[id(job)] = dispatch  # the same job, should the store have it already
            return _PUT_OFF
        if name not in self._first:
            self._inside[made.id] = None
        else:
            self._inside[made.id] = self._first[name]() if job.service is None else us(job.service)
        return made

    # -- closed --

    def _let_think(self, client: int) -> None:
        self._engine.coming += 1
        self._engine.plan(self._engine.now + self._think() / 1_000_000, self._ask_after_thinking, client)

    def _ask_after_thinking(self, client: int, _: int) -> None:
        if self._left == 0:
            self._engine.coming -= 1
            return
        if self._left is not None:
            self._left -= 1
        self._ask_for((client, self._plain[self._names()]), 0)

    def _ask_for(self, what: tuple[int, RecordedJob], _: int) -> None:
        client, wanted = what
        job = self._dispatch_or_put_off(wanted, self._ask_for, what)
        if job is _PUT_OFF:
            return
        self._engine.coming -= 1
        if job is None:
            self._let_think(client)
        else:
            self._thinking[job.id] = client

    # -- clients --

    def _ask(self, asked: _Asked, _: int) -> None:
        clients = self._workload.clients
        job = self._dispatch_or_put_off(asked.job, self._ask, asked)
        if job is _PUT_OFF:
            return
        self._requests.ask(asked.request)
        if job is None or clients is None:
            self._ask_again(asked)
            return
        self._clients[job.id] = asked
        self._patience.append((self._engine.now + clients.timeout, job.id))
        self._be_patient()

    def _be_patient(self) -> None:
        """Plan the next time-out: one at a time, as nearly all are for nothing."""
        patience = self._patience
        while patience and patience[0][1] not in self._clients:
            patience.popleft()
        if patience and not self._is_patient:
            self._is_patient = True
            self._engine.plan(patience[0][0], self._lose_patience)

    def _lose_patience(self, _: None, __: int) -> None:
        """Let what ends at this very moment end in time."""
        self._engine.plan(self._engine.now, self._time_out)

    def _time_out(self, _: None, __: int) -> None:
        self._is_patient = False
        now, patience = us(self._engine.now), self._patience
        while patience and us(patience[0][0]) <= now:
            asked = self._clients.pop(patience.popleft()[1], None)
            if asked is not None:
                self._ask_again(asked)
        self._be_patient()

    def _ask_again(self, asked: _Asked) -> None:
        clients = self._workload.clients
        if clients is None or asked.asked >= clients.attempts or (self._purse is not None and not self._purse.spend()):
            self._requests.give_up(asked.request, us(self._engine.now))
            self._engine.coming -= 1
            return
        wait = clients.wait(asked.asked, self._streams.of("jitter"))
        self._engine.plan(self._engine.now + wait, self._ask, asked._replace(asked=asked.asked + 1))

    # -- attempts --

    def _takes(self, held: Reservation) -> int | None:
        """Tell how many microseconds an attempt takes; None where its handler tells it, or none is to be run."""
        job = held[0]
        if job[5] == 1 and (first := self._inside.get(job[0])) is not None:
            return first
        again = self._again.get(job.name)
        if again is None or (job.attempts > 1 and self._is_used_up(job)):
            return None
        first = self._inside.get(job.id)
        if first is not None and (job.attempts == 1 or self._draws_once):
            return first
        return again()

    def _is_used_up(self, job: Job) -> bool:
        tries = self._queue.tries_of(job.name)
        return tries is not None and job.attempts > tries

    def _ends(self, held: Reservation) -> Ended | None:
        """Tell how an attempt ends; None where its handler is to be called."""
        name = held.job.name
        fails = self._fails.get(name)
        if fails is not None and fails(held.job.attempts, self._failures):
            return Ended(error=RuntimeError("the workload has this attempt fail"))
        return None if name in self._called or name not in self._fails else _DONE

    def _settled(self, held: Reservation, outcome: Outcome) -> None:
        if isinstance(outcome, _ENDS) or (isinstance(outcome, Unknown) and self._is_gone(held)):
            self._done(held, not isinstance(outcome, Failed) and not self._has_failed(held, outcome))

    def _done(self, held: Reservation, done: bool = True) -> None:
        job = held[0][0]
        self._inside.pop(job, None)
        if self._clients:
            self._answer(job, done)
        if self._thinking and (client := self._thinking.pop(job, None)) is not None:
            self._let_think(client)

    def _is_gone(self, held: Reservation) -> bool:
        """Tell whether a job has left the store after all, though nobody was told."""
        there = self._queue.driver.store.jobs(self._queue.name, now=self._engine.now)
        return all(job.id != held.job.id for job in there)

    def _has_failed(self, held: Reservation, outcome: Outcome) -> bool:
        """Tell whether a job that has left the store with nobody being told is among the failed ones."""
        if not isinstance(outcome, Unknown):
            return False
        return any(job.uid == held.job.uid for job in self._queue.driver.store.failed(self._queue.name))

    def _answer(self, job: int, done: bool) -> None:
        asked = self._clients.pop(job, None)
        if asked is None:
            return
        self._be_patient()
        if not done:
            self._ask_again(asked)
            return
        self._requests.answer(asked.request, us(self._engine.now))
        self._engine.coming -= 1
        if self._purse is not None:
            self._purse.earn()
