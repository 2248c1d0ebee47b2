"""Runs of jobs whose attempts take and end as stated, and all that can be observed of one job."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qlab import drivers, frames
from qlab.cases.plans import Simulate
from qlab.clock import SimulatedClock
from qlab.driver import Driver
from qlab.job import Attempt
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.scenario import Arrival

if TYPE_CHECKING:
    from qlab.simulation import Run

_EVENTS = ("completed", "superseded", "released", "failed", "crashed")


def run_stated(
    simulate: Simulate,
    takes: Mapping[str, Sequence[float]],
    arrivals: Sequence[Arrival],
    store: Driver | str = "memory://",
    *,
    policy: Policy | None = None,
    fails: Mapping[str, Sequence[bool]] | None = None,
    **stated: Any,
) -> "Run":
    """Run jobs whose attempts take and end as stated, the last one of a list for all that follow."""
    driver = drivers.open(store) if isinstance(store, str) else store
    with driver:
        queue = Queue(driver, policy=policy or Policy(), clock=SimulatedClock())
        for name, seconds in takes.items():
            queue.handler(name)(_handler(seconds, (fails or {}).get(name, [False])))
        return simulate(queue, **({"arrivals": arrivals, "workers": 1, "poll": None, "progress": False} | stated))


def _handler(seconds: Sequence[float], fails: Sequence[bool]) -> Callable[[Attempt], Iterator[float]]:
    def run(job: Attempt) -> Iterator[float]:
        yield seconds[min(job.number, len(seconds)) - 1]
        if fails[min(job.number, len(fails)) - 1]:
            raise RuntimeError("this attempt is meant to fail")

    return run


def seconds_of(value: Any) -> list[float]:
    """Read how long attempts take: a number for all, or a list with one for each."""
    return [float(each) for each in value] if isinstance(value, list) else [float(value)]


def ran(run: "Run") -> Any:
    """Give the attempts that were there to run, in the order of their beginning."""
    attempts = frames.attempts(run.trace)
    return attempts[attempts["how"] != "exhausted"].sort_values("reserved_at", kind="stable")


def told_of(run: "Run") -> dict[str, Any]:
    """Tell all that can be observed of a single job."""
    attempts, events = frames.attempts(run.trace), frames.events(run.trace)
    runs, job = ran(run), frames.jobs(run.trace).iloc[0]
    at = {kind: [float(each) for each in events["at"][events["kind"] == kind]] for kind in _EVENTS}
    told: dict[str, Any] = {
        "reserved": [float(each) for each in attempts["reserved_at"]],
        "starts": [float(each) for each in runs["reserved_at"]],
        "attempts": int(job["attempts"]),
        "runs": len(runs),
        "runs_of_handler": len(runs),
        "acks_ok": at["completed"],
        "acks_stale": at["superseded"],
        "final": {"done": "done", "failed": "dead"}.get(str(job["state"]), str(job["state"])),
        "final_at": float(job["finished_at"]),
        "handler_ended_at": max([*at["completed"], *at["superseded"], *at["released"]], default=None),
        "duplicate_runs": len(runs) - 1,
    }
    with suppress(IndexError):
        told["failed_at"] = told["dead_at"] = at["failed"][0]
    with suppress(IndexError):
        told["killed_at"] = at["crashed"][0]
    return told
