"""Runs of workers that ask at intervals."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qlab import frames
from qlab.cases.case import Case
from qlab.cases.forms import latency_level
from qlab.cases.laws import intervals, mean_service, positive
from qlab.cases.observed import Numbers, numbers
from qlab.cases.plans import Plan, Simulate, key_of, simulated
from qlab.cases.run_stations import station
from qlab.faults import Drain
from qlab.scenario import Poll
from qlab.workload import Erlang, Every, Exponential, Fixed, Poisson, Renewal, Workload

if TYPE_CHECKING:
    from qlab.simulation import Run

_ASKED = 1_000  # intervals in which an idle fleet's asks are counted


def polling(case: Case) -> Plan:
    """Plan workers that ask at intervals: under load (`V`), or with nothing else to do."""
    if case.has("V"):
        return _vacation(case)
    (interval, jitter), workers = intervals(case), case.whole("workers", default=1)
    if case.metric == "polls_per_s":
        return _asks(case, interval, jitter, workers)
    read = _latency(case)
    if case.params.get("phases") == "equal":
        return _idle(case, Poll(interval, jitter, phase=0.0), workers, _mixed(interval, workers), read)
    if jitter:
        return _idle(case, Poll(interval, jitter), workers, _mixed(interval, workers), read)
    return _redrawn(case, interval, workers, read)


def _vacation(case: Case) -> Plan:
    """Plan a station whose worker sleeps whenever it finds nothing."""
    service = Exponential(mean_service(case))
    workload = Workload(Poisson(positive(case, "lam")), service, jobs=case.count() + case.warmup)
    return station(case, workload, case.whole("c", default=1), poll=Poll(positive(case, "V")))


def _latency(case: Case) -> Callable[[Numbers], float]:
    if case.metric == "mean_latency_s":
        return lambda waits: float(waits.mean())
    q = latency_level(case)
    if q is None:
        raise case.unknown_metric("mean_latency_s, p95_latency_s, polls_per_s")
    return lambda waits: float(np.quantile(waits, q))


def _redrawn(case: Case, interval: float, workers: int, read: Callable[[Numbers], float]) -> Plan:
    """Plan workers that are started anew before each job, which draws their phases again.

    Without jitter phases stay what they were, and one run would tell of one draw only.
    """
    apart = 1.5 * interval
    workload = Workload(Every(apart, first=0.25 * interval), Fixed(0.0), jobs=case.count())
    anew = Drain(Every(apart), grace=0.0, back_after=0.0)

    def run(simulate: Simulate) -> Numbers:
        done = simulated(
            simulate,
            workload=workload,
            workers=workers,
            poll=Poll(interval),
            faults=(anew,),
            until=apart * (case.count() + 1),
        )
        return _waits(done)

    return Plan(key_of(case), run, read)


def _mixed(interval: float, workers: int) -> Workload:
    """State jobs that come so seldom that each finds the phases mixed again; of many workers, one is hardly missed."""
    return Workload(Renewal(Erlang(4, interval * max(2.0, 12.0 / workers))), Fixed(0.0))


def _idle(case: Case, poll: Poll, workers: int, workload: Workload, read: Callable[[Numbers], float]) -> Plan:
    stated = Workload(workload.arrivals, workload.service, jobs=case.count())

    def run(simulate: Simulate) -> Numbers:
        done = simulated(
            simulate,
            workload=stated,
            workers=workers,
            poll=poll,
        )
        return _waits(done)

    return Plan(key_of(case), run, read)


def _waits(run: "Run") -> Numbers:
    return numbers(frames.jobs(run.trace)["wait"])


def _asks(case: Case, interval: float, jitter: float, workers: int) -> Plan:
    """Plan an idle fleet, whose asks are counted over some intervals."""
    until = _ASKED * interval

    def run(simulate: Simulate) -> float:
        done = simulated(simulate, workers=workers, poll=Poll(interval, jitter), until=until, record_polls=True)
        events = frames.events(done.trace)
        return float((events["kind"] == "missed").sum()) / until

    return Plan(key_of(case), run, float)


# -- bunching --


def bunching(case: Case) -> Plan:
    """Plan workers that ask at once after a job, and else at intervals: without jitter their phases run together."""
    found = re.fullmatch(r"mean_latency_jobs_(\d+)_to_(\d+)", case.metric)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise case.unknown_metric("mean_latency_jobs_4001_to_8000")
    first, last = int(found[1]), int(found[2])
    workload = Workload(Poisson(positive(case, "lam")), Fixed(case.number("service")), jobs=last)
    poll, workers = Poll(positive(case, "T"), case.number("jitter")), case.whole("workers")

    def run(simulate: Simulate) -> Numbers:
        done = simulated(
            simulate,
            workload=workload,
            workers=workers,
            poll=poll,
        )
        return _waits(done)

    return Plan(key_of(case), run, lambda waits: float(waits[first - 1 : last].mean()))
