"""Scenarios of every kind at random: what comes, who works, and what goes wrong, in any combination."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from qlab import Policy, Queue, SimulatedClock
from qlab.cost import Cost
from qlab.faults import Away, Crash, Drain, Fault, Locked, LostReply, Pause, Restart, Skew
from qlab.job import Attempt, Release
from qlab.scenario import Arrival, Behaviour, Poll, Scenario
from qlab.workload import (
    Always,
    Arrivals,
    Budget,
    Bursts,
    Chance,
    Clients,
    Closed,
    Distribution,
    Empirical,
    Erlang,
    Every,
    Exponential,
    FirstAttempts,
    Fixed,
    Lognormal,
    Never,
    Poisson,
    Recorded,
    RecordedJob,
    Renewal,
    Varying,
    Workload,
)

NAMES = ("drawn", "also drawn", "own", "steps")
"""Names of jobs: a workload's alone, and those of functions and generators of one's own."""

STATED = "stated"


@dataclass(frozen=True)
class Case:
    """A run to be: a scenario, what verbs cost, and up to when it goes."""

    scenario: Scenario
    cost: Cost | None
    until: float

    @property
    def ends(self) -> bool:
        """Whether each job has so many attempts at the most."""
        return self.scenario.policy.tries is not None

    def has(self, *kinds: type[Fault]) -> bool:
        return any(isinstance(fault, kinds) for fault in self.scenario.faults)


def queue_of(url: str) -> Queue:
    """A queue with handlers of one's own that do all that a handler can."""
    queue = Queue(url, clock=SimulatedClock())

    @queue.handler("own")
    def own(job: Attempt) -> Release | None:
        if job.id % 5 == 0 and job.number == 1:
            raise ValueError(f"job {job.id}")
        if job.id % 7 == 0 and job.number == 1:
            return Release(0.5)
        if job.id % 3 == 0:
            job.dispatch("child", job.id, delay=float(job.id % 2))
        return None

    @queue.handler("steps", tries=4, backoff=(0.25,))
    def steps(job: Attempt) -> Iterator[float]:
        yield 0.25
        job.extend(1.0 + job.id % 4)
        job.progress(1, 2)
        if job.id % 4 == 0:
            job.dispatch("child")
        yield 0.5 * (job.id % 3)
        if job.number <= job.id % 3:
            raise ValueError(f"attempt {job.number}")

    queue.handler("child")(lambda job: None)
    return queue


# -- the parts --

moments = st.integers(0, 80).map(lambda quarters: quarters / 4)
"""On a grid, so that things fall together."""

seconds = st.sampled_from([0.0, 0.25, 1.0, 3.0, 12.5])
durations: st.SearchStrategy[Distribution] = st.one_of(
    st.sampled_from([0.0, 0.25, 1.0, 2.5]).map(Fixed),
    st.sampled_from([0.2, 1.0]).map(Exponential),
    st.just(Lognormal(0.8, cv=2.0)),
    st.just(Erlang(3, 0.6)),
    st.just(Empirical([0.0, 0.5, 4.0])),
)
failures = st.one_of(
    st.just(Never()), st.just(Always()), st.sampled_from([0.1, 0.6]).map(Chance), st.integers(1, 3).map(FirstAttempts)
)


@st.composite
def recordings(draw: st.DrawFn) -> Recorded:
    job = st.builds(
        RecordedJob,
        moments,
        st.sampled_from(["", *NAMES]),
        st.sampled_from([None, 0.0, 0.75]),
        st.sampled_from([0.0, 0.0, 2.0]),
        st.sampled_from([None, {"a": [1]}]),
    )
    return Recorded(draw(st.lists(job, min_size=1, max_size=12)))


arrivals: st.SearchStrategy[Arrivals] = st.one_of(
    st.sampled_from([0.5, 3.0]).map(Poisson),
    st.builds(Every, st.sampled_from([0.25, 1.0, 4.0]), moments),
    durations.filter(lambda each: each.mean > 0).map(Renewal),
    st.builds(Bursts, st.integers(1, 6), st.sampled_from([None, 5.0]), moments, st.sampled_from([0.0, 2.0])),
    st.just(Varying(((0.0, 0.5), (10.0, 3.0), (20.0, 0.0)))),
    recordings(),
    st.builds(Closed, st.integers(1, 3), durations),
)
clients = st.builds(
    Clients,
    st.sampled_from([0.5, 2.0, 30.0]),
    st.integers(1, 3),
    st.sampled_from([0.0, 1.0, (0.25, 3.0)]),
    st.sampled_from(["none", "full", "equal"]),
    budget=st.sampled_from([None, Budget(0.5, 1.0)]),
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    comes = draw(arrivals)
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    return Workload(
        comes,
        draw(durations),
        draw(failures),
        names,
        draw(st.integers(1, 25)),
        draw(st.sampled_from([None, None, 1, 4])),
        None if isinstance(comes, Closed) else draw(st.none() | clients),
        draw(st.booleans()),
    )


polls = st.one_of(
    st.none(),
    st.none(),
    st.builds(Poll, st.sampled_from([0.25, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.none() | moments),
    st.builds(Poll, st.sampled_from([0.5, 2.0]), phase=st.none() | moments, beat=st.just(True)),
)


def faults(workers: int, named: list[str]) -> st.SearchStrategy[Fault]:
    when = moments | st.sampled_from([Poisson(0.1), Every(5.0, 0.5)])
    worker = st.none() | st.integers(1, workers)
    name, times = st.sampled_from(named), st.sampled_from([1, 2, None])
    step, back = st.sampled_from(["reserved", "completing"]), st.none() | seconds
    sweep = st.sampled_from([None, "expired", "all"])
    verbs = st.sampled_from(["push", "reserve", "complete", "release", "fail"])
    return st.one_of(
        st.builds(Crash, at=when, worker=worker, back_after=back, recover=sweep),
        st.builds(Crash, name, when=step, times=times, back_after=back, recover=sweep),
        st.builds(Pause, seconds, at=when, worker=worker),
        st.builds(Pause, seconds, handler=name, when=step, times=times),
        st.builds(Drain, when, seconds, st.sampled_from(["release", "leave"]), worker, back),
        st.builds(Restart, when, seconds),
        st.builds(LostReply, verbs, moments, st.integers(1, 4), st.none() | name),
        st.builds(Locked, moments, st.sampled_from([0.25, 1.0, 40.0])),
        st.builds(Away, moments, st.sampled_from([0.25, 1.0, 7.0])),
        st.builds(Skew, st.integers(1, workers), st.sampled_from([-3.0, -0.0000004, 0.3, 3.0])),
    )


policies = st.builds(
    Policy,
    tries=st.sampled_from([None, 1, 3]),
    backoff=st.sampled_from([(), (0.3,), (1.0, 5.0)]),
    retry_after=st.sampled_from([None, 2.0, 10.0]),
    jitter=st.sampled_from([0.0, 0.5]),
)
costs = (
    st.none()
    | st.none()
    | st.builds(
        Cost,
        *[st.sampled_from([0.0, 0.125])] * 5,
        serial=st.booleans(),
    )
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    workers = draw(st.integers(1, 4))
    workload = draw(st.none() | workloads() | workloads())
    stated = draw(
        st.lists(st.builds(Arrival, moments, st.just(STATED), st.just(7), st.sampled_from([0.0, 2.0])), max_size=5)
    )
    behaviour = draw(
        st.builds(Behaviour, st.sampled_from([0.0, 1.5]), st.sampled_from([0, 1, None]), st.sampled_from([0.0, 6.0]))
    )
    named = [STATED, *(workload.handlers if workload is not None else ())]
    policy = draw(policies)
    scenario = Scenario(
        "any",
        tuple(stated),
        {STATED: behaviour},
        workers=workers,
        poll=draw(polls),
        batch=draw(st.integers(1, 3)),
        faults=tuple(draw(st.lists(faults(workers, named), max_size=4))),
        policy=policy,
        seed=draw(st.integers(0, 3)),
        workload=workload,
    )
    # What strikes again and again may keep a worker from its job for ever, as attempts without a limit may go on.
    endless = policy.tries is None or any(hasattr(getattr(fault, "at", None), "moments") for fault in scenario.faults)
    last = st.sampled_from([7.25, 60.0]) if endless else st.sampled_from([float("inf"), 7.25, 60.0])
    return Case(scenario, draw(costs), draw(last))
