"""Runs with outages, crashes and shutdowns."""

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from qlab import frames
from qlab.cases.case import Case
from qlab.cases.laws import Law, mean_service, named_law, positive
from qlab.cases.observed import Numbers, numbers
from qlab.cases.plans import SEED, Plan, Simulate, key_of, pick, simulated
from qlab.faults import Crash, Pause
from qlab.policy import Policy
from qlab.scenario import Arrival
from qlab.workload import Closed, Every, Exponential, Fixed, Poisson, Workload

if TYPE_CHECKING:
    from qlab.simulation import Run

# -- outages --


def outage(case: Case) -> Plan:
    """Plan outages, each of a system that was busy as usual before, and what follows until its queue is empty."""
    rate, service = positive(case, "lam"), mean_service(case)
    down, count = case.number("D"), case.whole("n_outages", default=case.jobs or 1)

    def run(simulate: Simulate) -> Numbers:
        there = _found_at(simulate, rate, service, count)
        return np.array([_drain(simulate, rate, service, down, int(n), SEED + i) for i, n in enumerate(there)])

    return Plan(key_of(case), run, pick(case, _DRAINS))


_DRAINS: dict[str, Callable[[Numbers], float]] = {
    "drain_time": lambda drains: float(drains.mean()),
    "drain_time_sd": lambda drains: float(drains.std()),
}


def _found_at(simulate: Simulate, rate: float, service: float, count: int) -> Numbers:
    """Tell how many jobs are there at so many random moments of a run."""
    jobs = 200 * max(count, 100)
    done = simulated(
        simulate,
        workload=Workload(Poisson(rate), Exponential(service), jobs=jobs),
    )
    told = frames.jobs(done.trace)
    arrived, finished = numbers(told["dispatched_at"]), np.sort(numbers(told["finished_at"]))
    begin, end = arrived[jobs // 20], arrived[-1]
    random = Random(f"{SEED} outages")
    moments = np.array([begin + (end - begin) * (n + random.random()) / count for n in range(count)])
    there = np.searchsorted(arrived, moments, side="right") - np.searchsorted(finished, moments, side="right")
    return np.asarray(there, dtype=np.float64)


def _drain(simulate: Simulate, rate: float, service: float, down: float, there: int, seed: int) -> float:
    """Tell how many seconds an outage's end is from the moment at which the queue is empty."""
    until = down + 1.3 * (there + rate * down) / (1 / service - rate) + 20 * service
    while True:
        done = simulated(
            simulate,
            arrivals=[Arrival(0.0, "job")] * there,
            workload=Workload(Poisson(rate), Exponential(service), names=("job",)),
            faults=(Pause(down, at=0.0, worker=1),) if down else (),
            seed=seed,
            until=until,
        )
        depth = frames.depth(done.trace)
        empty = numbers(depth["at"][(depth["at"] >= down) & (depth["depth"] == 0)])
        if len(empty):
            return float(empty[0]) - down
        until *= 2


# -- crashes --


def crash(case: Case) -> Plan:
    """Plan a busy worker that crashes and is there again at once."""
    plans = {"runs_per_job": _runs, "recovery_lag": _lag}
    if case.metric not in plans:
        raise case.unknown_metric(", ".join(plans))
    return plans[case.metric](case)


def _runs(case: Case) -> Plan:
    """Plan crashes at random moments; a job whose worker crashed runs again when its reservation has run out."""
    mean, alpha, count = mean_service(case), positive(case, "alpha"), case.count() + case.warmup
    law = Fixed(mean) if case.has("s") else Exponential(mean)
    after = 2 * mean if case.has("s") else 50 * mean

    def run(simulate: Simulate) -> float:
        done = simulated(
            simulate,
            workload=Workload(Closed(_clients(alpha, after), Fixed(0.0)), law, jobs=count),
            faults=(Crash(at=Poisson(alpha), back_after=0.0, worker=1),),
            policy=Policy(tries=None, retry_after=after, backoff=()),
        )
        jobs = frames.jobs(done.trace).iloc[case.warmup :]
        return float(jobs["runs"][jobs["state"] == "done"].mean())

    return Plan(key_of(case), run, float)


def _clients(alpha: float, after: float) -> int:
    """Tell how many clients keep a worker busy while some of their jobs wait to run out."""
    waiting = alpha * after
    return math.ceil(waiting + 10 * math.sqrt(waiting) + 20)


def _lag(case: Case) -> Plan:
    """Plan crashes so far apart that each meets a service of any age."""
    mean, after, count = mean_service(case), positive(case, "retry_after"), case.count()
    apart = 10 * mean

    def run(simulate: Simulate) -> Numbers:
        done = simulated(
            simulate,
            workload=Workload(Closed(_clients(1 / apart, after), Fixed(0.0)), Exponential(mean)),
            faults=(Crash(at=Every(apart, first=apart), back_after=0.0, worker=1),),
            policy=Policy(tries=None, retry_after=after, backoff=()),
            until=apart * (count + 0.5),
        )
        return _lags(done)

    return Plan(key_of(case), run, lambda lags: float(lags.mean()))


def _lags(run: "Run") -> Numbers:
    """Tell how long after each crash the job in hand could be reserved again; at once where it had run out."""
    events = frames.events(run.trace)
    events = events[events["kind"].isin(["reserved", "crashed"]) & events["job"].notna()]
    deadlines = events["until"].where(events["kind"] == "reserved").groupby(events["job"]).ffill()
    crashed = events["kind"] == "crashed"
    return np.maximum(numbers((deadlines - events["at"])[crashed]), 0.0)


# -- shutdowns --

_LOOK = 200_000  # jobs in one run
_MOST = 20  # runs


def shutdown(case: Case) -> Plan:
    """Plan a worker that is always busy, and moments at which somebody shuts it down.

    The moments are looked at, and not acted upon: a worker that was stopped begins with a new job, and it would take
    some hundred services until a long one is as likely in its hands as theory says. That a shutdown cuts a job at the
    grace's end, and what becomes of it, is what the traces are about.
    """
    law, grace = named_law(case), case.number("grace")
    if case.metric not in ("P_killed", "jobs_cut"):
        raise case.unknown_metric("P_killed, jobs_cut")
    workers = case.whole("workers", "w", default=1) * case.number("rho", default=1.0)
    times = workers if case.metric == "jobs_cut" else 1.0
    return Plan(key_of(case), lambda simulate: _cut(case, law, grace, simulate), lambda share: share * times)


def _cut(case: Case, law: Law, grace: float, simulate: Simulate) -> float:
    """Tell the share of moments at which more than the grace is left, from as many runs as make it sure enough."""
    long, whole = [], []
    for services in _services(case, law, simulate):
        long.append(float(np.clip(services - grace, 0, None).sum()))
        whole.append(float(services.sum()))
        if len(whole) > 1 and _error(long, whole) <= case.allowed / 5:
            break
    return sum(long) / sum(whole)


def _error(long: list[float], whole: list[float]) -> float:
    """Tell the standard error of a ratio of sums, from the runs it was added up from."""
    ratio = sum(long) / sum(whole)
    left = np.array(long) - ratio * np.array(whole)
    return float(left.std(ddof=1) * math.sqrt(len(long)) / sum(whole))


def _services(case: Case, law: Law, simulate: Simulate) -> Iterator[Numbers]:
    jobs = min(_LOOK, case.count())
    for n in range(_MOST):
        done = simulated(
            simulate,
            workload=Workload(Closed(2, Fixed(0.0)), law.distribution, jobs=jobs),
            seed=SEED + n,
        )
        yield numbers(frames.jobs(done.trace)["service"])
