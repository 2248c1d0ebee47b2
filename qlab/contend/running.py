"""One run: a number of workers on one store, from a start that they share until nothing is left."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from qlab.contend import acting, noise
from qlab.contend.merging import completed, merged, tally
from qlab.contend.sides import Plan, Side
from qlab.contend.stores import Store
from qlab.contend.with_processes import work_in_processes
from qlab.contend.with_threads import work_in_threads
from qlab.measured import Measured
from qlab.queue import Queue
from qlab.scenario import Poll, Scenario
from qlab.simulation import Run
from qlab.trace import Trace

_SHORT = 0.2  # seconds; in less, a system that counts hundredths tells too little
_WOKEN = Poll(0.001, jitter=0.5)


def run_once(
    store: Store, plan: Plan, *, workers: int, repeat: int, tell: Callable[[float], object]
) -> tuple[Run, float]:
    """Run a scenario once, on a store in which nothing is.

    Args:
        store: The store.
        plan: What happens.
        workers: How many workers there are.
        repeat: Which repeat it is, from 0.
        tell: Told which share of the jobs is done.

    Returns:
        The run, whose noise is the seconds of its spins; and how many processors other processes took meanwhile.

    Raises:
        Stopped: Somebody wants no more.
        Killed: A worker was killed.
        QlabError: A worker ended by itself, or nothing went on.
    """
    scenario = replace(plan.scenario, workers=workers)
    limit = plan.coming.payload_limit
    queue = Queue(store.driver, name=store.queue, policy=scenario.policy, payload_limit=limit)
    _dispatch(queue, plan)
    spun, cpu = noise.spin(), store.server_cpu()
    setups = [_setup(store, plan, scenario, worker) for worker in range(workers)]
    producing = _producing(store, plan) if plan.coming.later else None
    if plan.mode == "process":
        side = work_in_processes(setups, producing, plan, tell)
    else:
        side = work_in_threads(store.driver, setups, producing, plan, tell)
    server_cpu, spun = store.server_cpu() - cpu, max(spun, noise.spin())
    produced = [] if side.produced is None else [side.produced]
    traces = [queue.trace, *(each.trace for each in produced), *(each.trace for each in side.workers)]
    trace = merged(traces, side.epoch)
    counted = tally(trace, [job.id for job in queue.driver.jobs(queue.name, now=queue.clock.now())])
    driver, done = queue.driver, side.workers
    measured = Measured(
        arm=store.arm.name,
        workers=workers,
        repeat=repeat,
        mode=plan.mode,
        seconds=max(0.0, max(each.last_done for each in done) - side.began),
        per_worker=tuple(completed(each.trace) for each in done),
        reserves=_together(each.reserves for each in done),
        completes=_together(each.completes for each in done),
        waits=_together(each.waits for each in done),
        dispatches=_together(each.calls for each in produced),
        behind=max((each.behind for each in produced), default=0.0),
        locked=counted.locked,
        locked_seconds=counted.locked_seconds,
        lock_errors=sum(each.lock_errors for each in done),
        lost=counted.lost,
        duplicated=counted.duplicated,
        worker_cpu=sum(each.cpu for each in done),
        server_cpu=server_cpu,
        disk_bytes=store.disk_bytes(),
        noise=spun,
    )
    made_of = driver.name, driver.order, driver.description, driver.durability
    run = Run(trace, scenario, *made_of, max(measured.seconds, _last_moment(trace)), measured=measured)
    return run, _others(side, server_cpu)


def _dispatch(queue: Queue, plan: Plan) -> None:
    """Dispatch what is there before anybody works."""
    jobs = [(job.name, job.payload) for job in plan.coming.before]
    for name in {name for name, _ in jobs}:
        queue.handler(name)(_unwanted)
    for first in range(0, len(jobs), plan.coming.chunk):
        plan.check_wanted()
        queue.dispatch_many(jobs[first : first + plan.coming.chunk])


def _unwanted(_job: object) -> None:
    raise AssertionError("who measures works no job")


def _setup(store: Store, plan: Plan, scenario: Scenario, worker: int) -> dict[str, Any]:
    """Say what a worker must know."""
    poll = scenario.poll if isinstance(scenario.poll, Poll) else _WOKEN
    return {
        "url": store.url,
        "queue": store.queue,
        "policy": asdict(scenario.policy),
        "worker": worker,
        "handlers": plan.handlers,
        "part": acting.part_of(scenario),
        "counts_a_second": plan.counts_a_second,
        "poll": [poll.interval, poll.jitter],
    }


def _producing(store: Store, plan: Plan) -> dict[str, Any]:
    """Say what a producer must know."""
    return {
        "url": store.url,
        "queue": store.queue,
        "policy": asdict(plan.scenario.policy),
        "payload_limit": plan.coming.payload_limit,
        "jobs": plan.coming.told(),
    }


def _others(side: Side, server_cpu: float) -> float:
    """Tell how many processors other processes took; 0 where that cannot be told."""
    if side.others is None or side.seconds < _SHORT:
        return 0.0
    return max(0.0, side.others - server_cpu) / side.seconds


def _together(parts: "Iterable[array[int]]") -> tuple[int, ...]:
    return tuple(chain.from_iterable(parts))


def _last_moment(trace: Trace) -> float:
    return trace[len(trace) - 1].at if len(trace) else 0.0
