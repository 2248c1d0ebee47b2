"""Runs of jobs that outlast their reservations, where a worker is always free."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qlab import frames
from qlab.cases.case import Case
from qlab.cases.laws import Law, named_law, positive
from qlab.cases.plans import Plan, Simulate, key_of, pick, simulated
from qlab.flaws import CompletesById
from qlab.policy import Policy
from qlab.workload import Every, Fixed, Poisson, Recorded, RecordedJob, Workload

if TYPE_CHECKING:
    import pandas as pd

_TRIES = 3  # of jobs that can never be completed in time, any number tells
_FREE = 12  # workers beside those that are busy on average, so that one is always free

_JOBS: dict[str, Callable[["pd.DataFrame"], float]] = {
    "starts_ack_by_token": lambda jobs: float(jobs["runs"].mean()),
    "starts_ack_by_id": lambda jobs: float(jobs["runs"].mean()),
    "starts_ack_by_id_same_S": lambda jobs: float(jobs["runs"].mean()),
    "P_dead_despite_success": lambda jobs: float((jobs["state"] == "failed").mean()),
    "P_duplicate": lambda jobs: float((jobs["attempts"] > 1).mean()),
}


def lease(case: Case) -> Plan:
    """Plan jobs that run again when their reservation runs out, while the run before goes on."""
    if case.metric == "redeliveries_before_eta":
        return _held(case)
    law, after = named_law(case), positive(case, "retry_after")
    read = pick(case, _JOBS)
    if case.has("batch"):
        return _batches(case, law, after)
    by_id = case.metric.startswith("starts_ack_by_id")
    same = case.metric in ("starts_ack_by_id_same_S", "P_dead_despite_success")
    tries = _TRIES if case.metric == "P_dead_despite_success" else None
    apart = 2 * law.mean / (1 - min(law.tail(after), 0.99))
    workload = Workload(Poisson(1 / apart), law.distribution, jobs=case.count(), redraw=not same)

    def run(simulate: Simulate) -> "pd.DataFrame":
        store: Any = CompletesById() if by_id else "memory://"
        done = simulated(
            simulate,
            store,
            workload=workload,
            workers=_FREE,
            policy=Policy(tries=tries, backoff=(), retry_after=after),
        )
        return frames.jobs(done.trace)

    return Plan((key_of(case), by_id, same, tries), run, read)


def _batches(case: Case, law: Law, after: float) -> Plan:
    """Plan bursts of as many jobs as a worker reserves at once, each so late that the one before is over.

    The jobs of a burst are ready at one moment, a little after they came: whoever is first takes all. There are two
    tries, for without a limit some jobs never end: those who hold them take them from each other for ever.
    """
    batch = case.whole("batch")
    apart, a_little = 20 * (batch * law.mean + after), law.mean
    jobs = [RecordedJob(n // batch * apart, delay=a_little) for n in range(-(-case.count() // batch) * batch)]
    workload = Workload(Recorded(jobs), law.distribution)

    def run(simulate: Simulate) -> "pd.DataFrame":
        policy = Policy(tries=2, backoff=(), retry_after=after)
        done = simulated(simulate, workload=workload, workers=_FREE, batch=batch, policy=policy)
        return frames.jobs(done.trace)

    return Plan(key_of(case), run, pick(case, _JOBS))


def _held(case: Case) -> Plan:
    """Plan a job that a worker holds until its moment, while its reservation runs out again and again."""
    moment, after = positive(case, "eta_s"), positive(case, "visibility_s")

    def run(simulate: Simulate) -> float:
        done = simulated(
            simulate,
            workload=Workload(Every(1.0), Fixed(moment), jobs=1),
            workers=int(moment / after) + 2,
            policy=Policy(tries=None, backoff=(), retry_after=after),
            until=moment,
        )
        reserved = frames.events(done.trace).query("kind == 'reserved' and at < @moment")
        return float(len(reserved) - 1)

    return Plan(key_of(case), run, float)
