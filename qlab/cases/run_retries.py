"""Runs of jobs whose attempts fail."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qlab import frames
from qlab.cases.case import Case
from qlab.cases.laws import mean_service, positive
from qlab.cases.observed import numbers
from qlab.cases.plans import Plan, Simulate, key_of, pick, simulated
from qlab.policy import Policy
from qlab.workload import Always, Chance, Every, Exponential, Fixed, Poisson, Workload

if TYPE_CHECKING:
    import pandas as pd

    from qlab.simulation import Run

_JOBS: dict[str, Callable[["pd.DataFrame"], float]] = {
    "attempts": lambda jobs: float(jobs["attempts"].mean()),
    "P_dead": lambda jobs: float((jobs["state"] == "failed").mean()),
    "mean_backoff_s": lambda jobs: float(jobs["backoff"].mean()),
    "mean_backoff_s_success": lambda jobs: float(jobs["backoff"][jobs["state"] == "done"].mean()),
    "time_to_dead_s": lambda jobs: float((jobs["finished_at"] - jobs["first_reserved_at"]).mean()),
}


def retry(case: Case) -> Plan:
    """Plan jobs whose attempts fail with a probability, and take no time."""
    tries, backoff = case.whole("tries"), case.seconds("backoff") if case.has("backoff") else ()
    workload = Workload(Every(1.0), Fixed(0.0), Chance(case.number("p")), jobs=case.count())
    return _of_jobs(case, workload, Policy(tries=tries, backoff=backoff, retry_after=None))


def backoff(case: Case) -> Plan:
    """Plan jobs that fail and wait between their attempts."""
    if case.metric != "time_to_dead_s":
        return retry(case)
    policy = Policy(tries=case.whole("tries"), backoff=case.seconds("backoff"), retry_after=None)
    takes = Fixed(case.number("s", "service", default=0.0))
    return _of_jobs(case, Workload(Every(1.0), takes, Always(), jobs=case.count()), policy)


def _of_jobs(case: Case, workload: Workload, policy: Policy) -> Plan:
    def run(simulate: Simulate) -> "pd.DataFrame":
        done = simulated(simulate, workload=workload, policy=policy)
        return frames.jobs(done.trace)

    return Plan(key_of(case), run, pick(case, _JOBS))


# -- a queue with retries --


def retry_queue(case: Case) -> Plan:
    """Plan a station whose jobs fail with a probability, back off and come again."""
    workload = Workload(
        Poisson(positive(case, "lam")),
        Exponential(mean_service(case)),
        Chance(case.number("p")),
        jobs=case.count() + case.warmup,
    )
    policy = Policy(tries=case.whole("tries"), backoff=case.seconds("backoff"), retry_after=None)
    workers = case.whole("c", default=1)

    def run(simulate: Simulate) -> _Counted:
        done = simulated(simulate, workload=workload, workers=workers, policy=policy)
        return _Counted(done, case.warmup, workers)

    return Plan(key_of(case), run, pick(case, _QUEUE))


class _Counted:
    """The jobs of a run that came after the warm-up, and the waits of their attempts."""

    def __init__(self, run: "Run", warmup: int, workers: int) -> None:
        jobs = frames.jobs(run.trace)
        waits = frames.waits(run.trace)
        self.jobs = jobs.iloc[warmup:]
        self.waits = numbers(waits["wait"][waits["job"].isin(self.jobs["job"])])
        self.workers = workers
        arrived = numbers(jobs["dispatched_at"])
        self.begin, self.end = float(arrived[min(warmup, len(arrived) - 1)]), float(arrived[-1])

    @property
    def rate(self) -> float:
        """How many jobs came in a second."""
        return (len(self.jobs) - 1) / (self.end - self.begin)


_QUEUE: dict[str, Callable[[_Counted], float]] = {
    "time_to_final_state": lambda seen: float((seen.jobs["finished_at"] - seen.jobs["dispatched_at"]).mean()),
    "Wq_per_attempt": lambda seen: float(seen.waits.mean()),
    "P_wait_per_attempt": lambda seen: float(np.mean(seen.waits > 0)),
    "attempts": lambda seen: float(seen.jobs["attempts"].mean()),
    "P_dead": lambda seen: float((seen.jobs["state"] == "failed").mean()),
    "L_delayed": lambda seen: float(seen.jobs["backoff"].mean()) * seen.rate,
    "util": lambda seen: float(seen.jobs["service"].mean()) * seen.rate / seen.workers,
}
