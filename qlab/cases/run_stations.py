"""Runs of stations: open, bounded and closed."""

from typing import Any

from qlab.cases.case import Case
from qlab.cases.laws import gaps, mean_service, positive, station_law
from qlab.cases.observed import observe, reader
from qlab.cases.plans import Plan, Simulate, key_of, simulated
from qlab.workload import Closed, Exponential, Poisson, Renewal, Workload


def open_station(case: Case) -> Plan:
    """Plan a station at which jobs arrive by themselves: M/M/c, M/D/c, M/G/1, GI/M/1, M/M/c/K."""
    between = Renewal(gaps(case)) if case.group == "gg1" else Poisson(positive(case, "lam"))
    workload = Workload(
        between,
        station_law(case).distribution,
        jobs=case.count() + case.warmup,
        capacity=case.whole("K") if case.group == "mmck" else None,
    )
    return station(case, workload, case.whole("c", default=1))


def closed_station(case: Case) -> Plan:
    """Plan a station whose clients wait for their job, think, and come again."""
    arrivals = Closed(case.whole("N"), Exponential(positive(case, "Z")))
    workload = Workload(arrivals, Exponential(mean_service(case)), jobs=case.count() + case.warmup)
    return station(case, workload, case.whole("c", default=1))


def station(case: Case, workload: Workload, workers: int, **stated: Any) -> Plan:
    """Plan a run of a workload whose jobs are observed as a station's are."""

    def run(simulate: Simulate) -> object:
        return observe(simulated(simulate, workload=workload, workers=workers, **stated), case.warmup, workers)

    return Plan(key_of(case), run, reader(case))
