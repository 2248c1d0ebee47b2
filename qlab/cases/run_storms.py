"""Runs of clients that ask again while a system that stood still catches up, or never does."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qlab.cases.case import Case
from qlab.cases.laws import mean_service, positive
from qlab.cases.plans import Plan, Simulate, key_of, pick, simulated
from qlab.faults import Pause
from qlab.workload import Budget, Clients, Exponential, Poisson, Workload
from qlab.workload.clients import Jitter

if TYPE_CHECKING:
    from qlab.simulation import Run

SEEDS = (3, 5, 9, 13, 15, 19, 20, 24)
"""Of eight runs, in which also a system recovers whose drain takes as long as there is time."""
_STOPS_AT, _LAST, _HORIZON = 500.0, 500.0, 3_000.0
_JITTERS: dict[str, Jitter] = {"full jitter": "full", "equal jitter": "equal", "expo no jitter": "none"}
_RECOVERED, _STUCK, _NEARLY_ALL = 0.9, 0.5, 7


def storm(case: Case) -> Plan:
    """Plan some runs of one worker that stands still for a while, under clients that ask again."""
    service = mean_service(case) if case.has("mu") else 1.0
    workload = Workload(Poisson(positive(case, "lam")), Exponential(service), clients=_clients(case))
    until = case.number("horizon", default=_HORIZON)
    stands_still = Pause(case.number("outage"), at=_STOPS_AT, worker=1)

    def run(simulate: Simulate) -> list[float]:
        return [
            _goodput(
                simulated(
                    simulate,
                    workload=workload,
                    faults=(stands_still,),
                    seed=seed,
                    until=until,
                )
            )
            for seed in SEEDS
        ]

    return Plan(key_of(case), run, pick(case, _METRICS) if case.metric != "outcome" else _outcome)


def _goodput(run: "Run") -> float:
    """Tell the share of the last requests that were answered in time: answers over requests, in the last while."""
    begin = (run.until - _LAST) * 1e6
    started, answered = np.asarray(run.requests.started_at), np.asarray(run.requests.answered_at)
    return float((answered >= begin).sum() / max(1, (started >= begin).sum()))


def _outcome(goodputs: list[float]) -> str:
    if sum(goodput > _RECOVERED for goodput in goodputs) >= _NEARLY_ALL:
        return "recovers"
    return "stuck" if sum(goodput < _STUCK for goodput in goodputs) >= _NEARLY_ALL else "neither"


_METRICS: dict[str, Callable[[list[float]], float]] = {
    f"fraction_stuck_of_{len(SEEDS)}_seeds": lambda goodputs: (
        sum(goodput < _STUCK for goodput in goodputs) / len(SEEDS)
    ),
    "goodput": lambda goodputs: sum(goodputs) / len(SEEDS),
}


def _clients(case: Case) -> Clients:
    """Read how clients ask again: at once, within a budget, or after a backoff with or without jitter."""
    timeout, attempts = positive(case, "timeout"), case.whole("A", "attempts")
    policy = str(case.params.get("policy", "immediate"))
    if policy == "immediate":
        return Clients(timeout, attempts)
    if budget := re.fullmatch(r"budget(\d+)", policy):
        return Clients(timeout, attempts, budget=Budget(int(budget[1]) / 100))
    found = re.fullmatch(r"(full jitter|equal jitter|expo no jitter) base([\d.]+) cap([\d.]+)", policy)
    if not found:
        raise case.wrong(f"its policy is {policy!r}: use budget10, or 'full jitter base20 cap320' and the like")
    base, cap = float(found[2]), float(found[3])
    gaps = tuple(min(base * 2**n, cap) for n in range(max(1, attempts - 1)))
    return Clients(timeout, attempts, gaps, _JITTERS[found[1]], cap)
