"""Queues without a simulator: the recursions of Lindley and of Kiefer and Wolfowitz, and traces of what they say."""

import heapq

import numpy as np

from qlab.trace import Event, Kind, Trace


def mm1_waits(runs, jobs, rho, *, warmup=0, first=0.0, seed=1):
    """Waits in so many runs of M/M/1 with mean service 1, a row a run.

    W' = max(0, W + S − A), where the first job waits `first`; it is a running minimum.
    """
    random = np.random.default_rng(seed)
    count = warmup + jobs
    steps = random.exponential(1.0, (runs, count)) - random.exponential(1 / rho, (runs, count))
    walk = np.cumsum(np.concatenate([np.zeros((runs, 1)), steps[:, :-1]], axis=1), axis=1)
    return (walk - np.minimum(np.minimum.accumulate(walk, axis=1), -first))[:, warmup:]


def poisson(jobs, rate, *, seed=1, mean=1.0):
    """Arrival moments and exponential services."""
    random = np.random.default_rng(seed)
    return np.cumsum(random.exponential(1 / rate, jobs)), random.exponential(mean, jobs)


def trace_of(arrivals, services, workers=1, names=("job",)):
    """The trace of jobs that are served in the order in which they come, by the worker that is free first."""
    free = [(0.0, f"worker {number}") for number in range(1, workers + 1)]
    events = []
    for job, (at, service) in enumerate(zip(arrivals.round(6), services.round(6), strict=True), 1):
        since, worker = heapq.heappop(free)
        start, name = max(at, since), names[job % len(names)]
        end = round(start + service, 6)
        heapq.heappush(free, (end, worker))
        events += [
            (at, job, 0, Event(at, Kind.DISPATCHED, job, name, until=at)),
            (start, job, 1, Event(start, Kind.RESERVED, job, name, 1, worker, at, start + 1e6)),
            (end, job, 2, Event(end, Kind.COMPLETED, job, name, 1, worker)),
        ]
    events.sort(key=lambda event: event[:3])
    return Trace(event for *_, event in events)
