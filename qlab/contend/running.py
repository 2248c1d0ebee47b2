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

_CHUNK = 1_000  # jobs
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
    queue = Queue(store.driver, name=store.queue, policy=scenario.policy)
    jobs = _dispatch(queue, scenario, plan)
    spun, cpu = noise.spin(), store.server_cpu()
    setups = [_setup(store, plan, scenario, worker) for worker in range(workers)]
    if plan.mode == "process":
        side = work_in_processes(setups, plan, jobs, tell)
    else:
        side = work_in_threads(store.driver, setups, plan, jobs, tell)
    server_cpu, spun = store.server_cpu() - cpu, max(spun, noise.spin())
    trace = merged([queue.trace, *(each.trace for each in side.workers)], side.epoch)
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


def _dispatch(queue: Queue, scenario: Scenario, plan: Plan) -> int:
    """Dispatch what a scenario brings, before anybody works, and tell how many jobs that are."""
    workload = scenario.workload
    names = [] if workload is None else [workload.handlers[0]] * (workload.jobs or 0)
    payload = None if workload is None else workload.payload
    jobs = [*((each.name, each.payload) for each in scenario.arrivals), *((name, payload) for name in names)]
    for name in {name for name, _ in jobs}:
        queue.handler(name)(_unwanted)
    for first in range(0, len(jobs), _CHUNK):
        plan.check_wanted()
        queue.dispatch_many(jobs[first : first + _CHUNK])
    return len(jobs)


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


def _others(side: Side, server_cpu: float) -> float:
    """Tell how many processors other processes took; 0 where that cannot be told."""
    if side.others is None or side.seconds < _SHORT:
        return 0.0
    return max(0.0, side.others - server_cpu) / side.seconds


def _together(parts: "Iterable[array[int]]") -> tuple[int, ...]:
    return tuple(chain.from_iterable(parts))


def _last_moment(trace: Trace) -> float:
    return trace[len(trace) - 1].at if len(trace) else 0.0
