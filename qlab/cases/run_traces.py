"""Runs in which nothing is left to chance: a stated input, and everything that is observed of it."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qlab import frames
from qlab.cases.files import StatedTrace
from qlab.cases.observed import numbers
from qlab.cases.plans import Simulate
from qlab.cases.stated import ran, run_stated, seconds_of, told_of
from qlab.driver import Driver
from qlab.faults import Crash, Drain, Restart
from qlab.flaws import CompletesById, CountsFailures, RecoversInPlace, together
from qlab.policy import Policy
from qlab.scenario import Arrival, Poll

if TYPE_CHECKING:
    from qlab.simulation import Run

Observations: TypeAlias = Mapping[str, Any]
Watch: TypeAlias = Callable[[StatedTrace, Simulate], Observations]

_HORIZON = 1_000.0
_KILLED_AFTER, _BACK_AFTER, _GOOD = 1.0, 4.0, ("a", "b", "c")  # of jobs that kill their worker, and those behind them


def watch(trace: StatedTrace) -> Callable[[Simulate], Observations]:
    """Plan a trace's run, by what its input has.

    Raises:
        CaseError: Nothing is known that has such an input.
    """
    for keys, run in _RUNS:
        if keys <= set(trace.input):
            return lambda simulate: run(trace, simulate)
    known = "; ".join(" and ".join(sorted(keys)) for keys, _ in _RUNS)
    raise trace.wrong(f"no run is known for an input of {', '.join(trace.input) or 'nothing'}; these are: {known}")


# -- each kind of input --


def _jobs_given(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe jobs whose arrivals and services are given."""
    jobs = trace.input["jobs"]
    arrivals = [Arrival(float(job["arrive"]), f"job {n}") for n, job in enumerate(jobs)]
    takes = {f"job {n}": [float(job["service"])] for n, job in enumerate(jobs)}
    run = run_stated(simulate, takes, arrivals, workers=int(trace.input["workers"]), policy=Policy(retry_after=None))
    told = frames.jobs(run.trace)
    seen = [
        {"arrive": arrive, "service": service, "start": start, "wait": wait, "finish": finish}
        for arrive, service, start, wait, finish in zip(
            told["dispatched_at"], told["service"], told["first_reserved_at"], told["wait"], told["finished_at"],
            strict=True,
        )
    ]  # fmt: skip
    return {"jobs": seen, "little": _little(run)}


def _little(run: "Run") -> Observations:
    """Measure both sides of Little's law on their own: the area under the depth, and the sojourns."""
    jobs, depth = frames.jobs(run.trace), frames.depth(run.trace)
    horizon = float(jobs["finished_at"].max())
    until = np.append(numbers(depth["at"])[1:], horizon)
    area = float((numbers(depth["depth"]) * (until - numbers(depth["at"]))).sum())
    rate, sojourn = len(jobs) / horizon, float((jobs["finished_at"] - jobs["dispatched_at"]).mean())
    return {
        "horizon": horizon,
        "area_under_N": area,
        "L": area / horizon,
        "lam": rate,
        "W": sojourn,
        "L_equals_lamW": abs(area / horizon - rate * sojourn) <= 1e-9,
    }


def _outcomes(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a job whose attempts end as they are given."""
    stated = trace.input
    policy = Policy(tries=stated["tries"], backoff=stated["backoff"], retry_after=None)
    fails = [outcome != "ok" for outcome in stated["outcomes"]]
    run = run_stated(
        simulate, {"job": seconds_of(stated["service"])}, [Arrival(0.0, "job")], policy=policy, fails={"job": fails}
    )
    return told_of(run)


def _outlasted(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a job that outlasts its reservation."""
    stated = trace.input
    policy = Policy(tries=stated.get("tries"), backoff=(), retry_after=stated["retry_after"])
    store: Driver | str = CompletesById() if stated.get("ack") == "id" else "memory://"
    takes = {"job": seconds_of(stated["service"])}
    return told_of(run_stated(simulate, takes, [Arrival(0.0, "job")], store, workers=stated["workers"], policy=policy))


def _crashed(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a job whose worker vanishes, while another is free."""
    stated = trace.input
    fault = Crash(at=stated["crash_at"], worker=1)
    policy = Policy(tries=None, backoff=(), retry_after=stated["retry_after"])
    takes = {"job": seconds_of(stated["service"])}
    return told_of(run_stated(simulate, takes, [Arrival(0.0, "job")], workers=2, policy=policy, faults=(fault,)))


def _swept(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a job that another worker recovers when it boots."""
    stated = trace.input
    if stated["sweep"] not in ("all", "expired"):
        raise trace.wrong(f"its sweep is {stated['sweep']!r}: use all or expired")
    crash_at = stated.get("crash_at", stated["boot_at"] / 2)
    fault = Crash(at=crash_at, worker=2, back_after=stated["boot_at"] - crash_at, recover=stated["sweep"])
    policy = Policy(tries=None, backoff=(), retry_after=None)
    run = run_stated(
        simulate,
        {"job": seconds_of(stated["service"])},
        [Arrival(0.0, "job")],
        workers=2,
        policy=policy,
        faults=(fault,),
    )
    told = told_of(run)
    return {**told, "starts_job1": told["starts"], "duplicate_runs": told["runs"] - 1}


def _shut_down(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a job in whose middle its worker is told to stop, while another is free."""
    stated = trace.input
    fault = Drain(stated["term_at"], stated["grace"], "release" if stated.get("release") else "leave", worker=1)
    policy = Policy(tries=None, backoff=(), retry_after=stated.get("retry_after"))
    takes = {"job": seconds_of(stated["service"])}
    return told_of(run_stated(simulate, takes, [Arrival(0.0, "job")], workers=2, policy=policy, faults=(fault,)))


def _delayed(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a delayed job that a poll finds."""
    stated = trace.input
    poll = Poll(stated["poll"], phase=stated["poll_phase"])
    run = run_stated(simulate, {"job": [0.0]}, [Arrival(0.0, "job", delay=stated["available_at"])], poll=poll)
    start = told_of(run)["starts"][0]
    return {"start": start, "lateness": start - stated["available_at"]}


def _restarted(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe a restart in the middle, of a store in memory and of one in a file."""
    stated = trace.input
    arrivals = [Arrival(float(at), "job") for at in stated["arrivals"]]
    takes = {"job": seconds_of(stated["service"])}

    def run(store: str) -> "Run":
        return run_stated(
            simulate, takes, arrivals, store, workers=stated.get("workers", 1), faults=(Restart(stated["restart_at"]),)
        )

    with tempfile.TemporaryDirectory() as folder:
        in_file = run(f"sqlite:///{Path(folder) / 'jobs.db'}")
        lost = {"lost_memory": _lost(in_memory := run("memory://")), "lost_sqlite": _lost(in_file)}
    return {"done": int((frames.jobs(in_memory.trace)["state"] == "done").sum()), **lost}


def _lost(run: "Run") -> int:
    return int((frames.jobs(run.trace)["state"] == "lost").sum())


def _ticks(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe mails that leave one a tick."""
    arrivals = [Arrival(float(at), "mail") for at in trace.input["arrivals"]]
    run = run_stated(simulate, {"mail": [0.0]}, arrivals, poll=Poll(trace.input["tick"], phase=0.0, beat=True))
    return {"sent": told_of(run)["starts"]}


def _poison(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe jobs behind one that always fails."""
    names = [str(name) for name in trace.input["order"]]
    bad = names[0]
    run = run_stated(
        simulate,
        {name: [1.0] for name in names},
        [Arrival(0.0, name) for name in names],
        policy=Policy(tries=trace.input["tries"], backoff=(), retry_after=None),
        fails={bad: [True]},
    )
    jobs = frames.jobs(run.trace)
    attempts = ran(run)
    return {
        "run_order": [str(name) for name in attempts["name"]],
        "finish_good": [float(at) for at in jobs["finished_at"][jobs["name"] != bad]],
        "dead_at": float(jobs["finished_at"][jobs["name"] == bad].iloc[0]),
    }


def _killers(trace: StatedTrace, simulate: Simulate) -> Observations:
    """Observe jobs behind one that kills its worker, which comes back and recovers it in place."""
    stated = trace.input
    if stated["count_attempts"] not in ("on failure", "on reserve"):
        raise trace.wrong(f"its count_attempts is {stated['count_attempts']!r}: use 'on failure' or 'on reserve'")
    counts_late = stated["count_attempts"] == "on failure"
    store = (together(CountsFailures, RecoversInPlace) if counts_late else RecoversInPlace)()
    names = ("P", *_GOOD)
    run = run_stated(
        simulate,
        {name: [_KILLED_AFTER] for name in names},
        [Arrival(0.0, name) for name in names],
        store,
        policy=Policy(tries=stated.get("tries", 3), backoff=(), retry_after=None),
        faults=(Crash("P", back_after=_BACK_AFTER, when="completing", times=None, recover="all"),),
        until=stated.get("horizon", _HORIZON),
    )
    attempts, jobs = ran(run), frames.jobs(run.trace)
    until = stated.get("horizon", _HORIZON)
    attempts = attempts[attempts["reserved_at"] < until]
    good = attempts[attempts["name"] != "P"]
    dead = jobs["finished_at"][(jobs["name"] == "P") & (jobs["state"] == "failed")]
    return {
        "starts": [float(at) for at in attempts["reserved_at"][attempts["name"] == "P"]],
        "dead_at": float(dead.iloc[0]) if len(dead) else None,
        "first_good_start": float(good["reserved_at"].min()) if len(good) else None,
        f"runs_in_{until:g}s": int((attempts["name"] == "P").sum()),
        "good_done": int(((jobs["name"] != "P") & (jobs["state"] == "done")).sum()),
    }


_RUNS: Sequence[tuple[set[str], Watch]] = (
    ({"jobs"}, _jobs_given),
    ({"outcomes", "tries", "backoff", "service"}, _outcomes),
    ({"crash_at", "retry_after", "service"}, _crashed),
    ({"boot_at", "sweep", "service"}, _swept),
    ({"term_at", "grace", "service"}, _shut_down),
    ({"available_at", "poll", "poll_phase"}, _delayed),
    ({"arrivals", "restart_at", "service"}, _restarted),
    ({"arrivals", "tick"}, _ticks),
    ({"order", "tries"}, _poison),
    ({"count_attempts"}, _killers),
    ({"retry_after", "service", "workers"}, _outlasted),
)
