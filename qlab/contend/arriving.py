"""What a scenario brings in real time: jobs that are there before the start, and jobs that come while workers work."""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

from qlab.clock import us
from qlab.payload import LIMIT, encode
from qlab.scenario import Scenario
from qlab.workload import Closed, Recorded, Workload
from qlab.workload.streams import Streams

CHUNK = 1_000
"""How many jobs are dispatched at once, where they are there before the start."""

CHUNK_BYTES = 4_000_000
"""How many bytes they have together, at the most, where one alone has not more."""


class Coming(NamedTuple):
    """A job that comes.

    Attributes:
        at: When, in microseconds from the start.
        name: The handler's name.
        payload: Any JSON value.
        delay: How many seconds later it may be reserved.
    """

    at: int
    name: str
    payload: Any
    delay: float


class Arriving(NamedTuple):
    """The jobs of a scenario.

    Attributes:
        before: Those that are there when workers start: they come at 0 s, without a delay.
        later: The others, in the order of time.
        payload_limit: The bytes that the largest payload has, or the usual limit where that is more.
        chunk: How many jobs to dispatch at once.
    """

    before: tuple[Coming, ...]
    later: tuple[Coming, ...]
    payload_limit: int
    chunk: int

    @property
    def jobs(self) -> int:
        """How many there are."""
        return len(self.before) + len(self.later)

    @property
    def longest_gap(self) -> float:
        """How many seconds lie between two that come later, at the most."""
        moments = [0, *(job.at + us(job.delay) for job in self.later)]
        return max((later - earlier for earlier, later in pairwise(sorted(moments))), default=0) / 1_000_000

    def told(self) -> dict[str, Any]:
        """Say as JSON what comes later; a payload that many jobs share is said once."""
        payloads = {id(job.payload): job.payload for job in self.later}
        places = {known: place for place, known in enumerate(payloads)}
        names = list(dict.fromkeys(job.name for job in self.later))
        codes = {name: code for code, name in enumerate(names)}
        rows = [(job.at, codes[job.name], places[id(job.payload)], job.delay) for job in self.later]
        return {"names": names, "payloads": list(payloads.values()), "jobs": rows}


def arriving(scenario: Scenario) -> Arriving:
    """Tell what a scenario brings, and when: the same that `simulate` has with the same seed.

    Raises:
        ValueError: Its workload has no end, or needs simulated time: its clients wait, ask again or are turned away.
        InvalidPayload: A payload is no JSON value.
    """
    jobs = [Coming(us(each.at), each.name, each.payload, each.delay) for each in scenario.arrivals]
    if scenario.workload is not None:
        _check(scenario.name, scenario.workload)
        jobs += _drawn(scenario.workload, Streams(scenario.seed))
    jobs.sort(key=lambda job: job.at)
    before = tuple(job for job in jobs if not job.at and not job.delay)
    later = tuple(job for job in jobs if job.at or job.delay)
    known = {id(job.payload): job for job in jobs}
    largest = max((_bytes(job) for job in known.values()), default=0)
    return Arriving(before, later, max(LIMIT, largest), max(1, min(CHUNK, CHUNK_BYTES // max(1, largest))))


def made(told: dict[str, Any]) -> Iterator[Coming]:
    """Make the jobs again that `Arriving.told` has said, in order."""
    names, payloads = told["names"], told["payloads"]
    for at, name, payload, delay in told["jobs"]:
        yield Coming(at, names[name], payloads[payload], delay)


def _check(name: str, workload: Workload) -> None:
    for has, what in (
        (isinstance(workload.arrivals, Closed), "clients that wait for their jobs (Closed)"),
        (workload.clients is not None, "clients who ask again"),
        (workload.capacity is not None, "a capacity beyond which jobs are rejected"),
        (_has_times(workload), "recorded jobs that take times of their own (service)"),
    ):
        if has:
            raise ValueError(
                f"scenario {name!r} has {what}, which is for simulated time: use simulate, or leave it out"
            )
    if not workload.ends:
        raise ValueError(f"scenario {name!r} has arrivals without an end: say how many, as in Workload(…, jobs=10_000)")


def _has_times(workload: Workload) -> bool:
    arrivals = workload.arrivals
    return isinstance(arrivals, Recorded) and any(job.service is not None for job in arrivals.jobs)


def _drawn(workload: Workload, streams: Streams) -> Iterator[Coming]:
    name, arrivals = workload.namer(streams.of("names")), workload.arrivals
    if isinstance(arrivals, Recorded):
        for job in arrivals.jobs[: workload.jobs]:
            payload = workload.payload if job.payload is None else job.payload
            yield Coming(us(job.at), job.name or name(), payload, job.delay)
    elif not isinstance(arrivals, Closed):
        for moment in islice(arrivals.moments(streams.of("arrivals")), workload.jobs):
            yield Coming(us(moment), name(), workload.payload, 0.0)


def _bytes(job: Coming) -> int:
    return len(encode(job.payload, what=f"a job of {job.name!r}", limit=1 << 40).encode())
