"""Traces of everything that can happen to jobs, taken at random."""

import math
from itertools import pairwise
from random import Random

from qlab.trace import Kind, Trace

NEVER = math.inf


class Walk:
    """A queue taken at random through everything that can happen, recording a trace."""

    def __init__(self, seed):
        self.random, self.trace, self.now = Random(seed), Trace(), 0.0
        self.waiting, self.held, self.late, self.last = {}, {}, [], 0

    def record(self, kind, job, attempt=0, **more):
        self.trace.record(self.now, kind, job, "resize", attempt, **more)

    def step(self):
        self.now += self.random.choice((0, 0, 0.5, 1, 3))
        often = {self.dispatch: 6, self.reserve: 8, self.settle: 6}
        seldom = {self.extend: 1, self.come_late: 1, self.recover: 1, self.clear: 0.1, self.miss: 1}
        verbs = often | seldom
        self.random.choices(list(verbs), list(verbs.values()))[0]()

    def due(self):
        free = {job: (until, attempt) for job, (until, attempt) in self.waiting.items() if until <= self.now}
        return free | {job: (until, n) for job, (until, n, _) in self.held.items() if until <= self.now}

    def dispatch(self):
        self.last += 1
        until = self.now + self.random.choice((0, 0, 4))
        self.waiting[self.last] = until, 0
        self.record(Kind.DISPATCHED, self.last, until=until)

    def reserve(self):
        if not self.due():
            return self.miss()
        job, (since, attempt) = self.random.choice(sorted(self.due().items()))
        if job in self.held:
            self.late.append((job, attempt, self.held.pop(job)[2]))
            self.record(Kind.EXPIRED, job, attempt, until=since)
        self.waiting.pop(job, None)
        worker, until = f"w{self.random.randrange(3)}", self.now + self.random.choice((2, 5, NEVER))
        self.held[job] = until, attempt + 1, worker
        return self.record(Kind.RESERVED, job, attempt + 1, worker=worker, since=since, until=until)

    def settle(self):
        if self.held:
            job = self.random.choice(sorted(self.held))
            _, attempt, worker = self.held.pop(job)
            kind, detail = self.random.choice(
                ((Kind.COMPLETED, ""), (Kind.RELEASED, ""), (Kind.RELEASED, "E: no"), (Kind.FAILED, "E: no"))
            )
            until = self.now + self.random.choice((0, 3)) if kind is Kind.RELEASED else None
            if until is not None:
                self.waiting[job] = until, attempt
            self.record(kind, job, attempt, worker=worker, until=until, detail=detail)

    def extend(self):
        if self.held:
            job = self.random.choice(sorted(self.held))
            _, attempt, worker = self.held[job]
            self.held[job] = self.now + 4, attempt, worker
            self.record(Kind.EXTENDED, job, attempt, worker=worker, until=self.now + 4)

    def come_late(self):
        if self.late:
            job, attempt, worker = self.late.pop()
            self.record(Kind.SUPERSEDED, job, attempt, worker=worker, detail="complete")

    def recover(self):
        for job in [job for job, (until, *_) in self.held.items() if until <= self.now]:
            _, attempt, _ = self.held.pop(job)
            self.waiting[job] = self.now, attempt
            self.record(Kind.RECOVERED, job, attempt, until=self.now)

    def clear(self):
        self.waiting, self.held, self.late = {}, {}, []
        self.trace.record(self.now, Kind.CLEARED)

    def miss(self):
        self.trace.record(self.now, Kind.MISSED, worker="w0")


def moments(trace):
    """Every moment at which something happens or could, up to the last, and one between each two."""
    last = trace[len(trace) - 1].at
    told = {time for e in trace for time in (e.at, e.until) if time is not None and time <= last}
    return sorted(told | {(a + b) / 2 for a, b in pairwise(sorted(told))})
