"""One run: a number of workers on one store, from a start that they share until nothing is left."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from threading import Event
from typing import Any, NamedTuple

from qlab.clock import monotonic
from qlab.contend import acting, noise
from qlab.contend.merging import completed, merged, tally
from qlab.contend.plain_stores import Store
from qlab.contend.worker import LAST, Worked
from qlab.crew import Crew
from qlab.errors import QlabError
from qlab.measured import Measured
from qlab.queue import Queue
from qlab.scenario import Poll, Scenario
from qlab.simulation import Run
from qlab.trace import Trace

MODULE = "qlab.contend.worker"
QUEUE = "contention"

_PATIENCE = 60.0  # seconds


class Stopped(Exception):
    """Somebody wants no more."""


class Killed(QlabError):
    """A worker was killed, and what it did is not known."""


class Plan(NamedTuple):
    """What all runs of a contention share.

    Attributes:
        scenario: What happens.
        handlers: The address of the function that registers the handlers; None for the scenario's.
        mode: `process` or `thread`.
        counts_a_second: How far one counts in a second here, undisturbed.
        stop: Set where somebody wants no more.
    """

    scenario: Scenario
    handlers: str | None
    mode: str
    counts_a_second: float
    stop: Event


class Side(NamedTuple):
    """What is measured beside the workers.

    Attributes:
        workers: What each worker did.
        epoch: When they began, in seconds of the clock.
        began: The same on the monotonic clock.
        ended: When the last of them had told, on the monotonic clock.
        own: The processor time that this process took meanwhile, in seconds.
        busy: What all processes of the machine took; None where the system does not tell.
    """

    workers: list[Worked]
    epoch: float
    began: float
    ended: float
    own: float
    busy: float | None


def run_once(
    store: Store, plan: Plan, *, workers: int, repeat: int, tell: Callable[[float], object]
) -> tuple[Run, float]:
    """Run the scenario once on a store in which nothing is.

    Args:
        store: The store.
        plan: What happens.
        workers: How many workers there are.
        repeat: Which repeat it is, from 0.
        tell: Told which share of the jobs is done.

    Returns:
        The run, whose noise is the seconds of its spins, and how many processors other processes took meanwhile.

    Raises:
        Stopped: Somebody wants no more.
        Killed: A worker was killed.
        QlabError: A worker ended by itself, or nothing went on.
    """
    scenario = replace(plan.scenario, workers=workers)
    queue = Queue(store.driver, name=QUEUE, policy=scenario.policy)
    for name in _names(scenario):
        queue.handler(name)(_unwanted)
    jobs = dispatch(queue, scenario, plan.stop)
    spun, cpu = noise.spin(), store.server_cpu()
    setups = [setup(store, plan, scenario, worker) for worker in range(workers)]
    side = _in_processes(queue, setups, jobs, plan.stop, tell)
    server_cpu, spun = store.server_cpu() - cpu, max(spun, noise.spin())
    trace = merged([queue.trace, *(each.trace for each in side.workers)], side.epoch)
    left = [job.id for job in queue.driver.jobs(QUEUE, now=queue.clock.now())]
    counted = tally(trace, left)
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
    until = max([measured.seconds, *(event.at for event in _last(trace))])
    run = Run(
        trace, scenario, driver.name, driver.order, driver.description, driver.durability, until, measured=measured
    )
    return run, _others(side, measured.worker_cpu + server_cpu)


def dispatch(queue: Queue, scenario: Scenario, stop: Event) -> int:
    """Dispatch all that a scenario's workload brings, before anybody works, and tell how many jobs those are."""
    workload = scenario.workload
    payload = None if workload is None else workload.payload
    names = [] if workload is None else [workload.handlers[0]] * (workload.jobs or 0)
    jobs = [*((each.name, each.payload) for each in scenario.arrivals), *((name, payload) for name in names)]
    for first in range(0, len(jobs), 1_000):
        if stop.is_set():
            raise Stopped
        queue.dispatch_many(jobs[first : first + 1_000])
    return len(jobs)


def setup(store: Store, plan: Plan, scenario: Scenario, worker: int) -> dict[str, Any]:
    """Say what a worker must know."""
    poll = scenario.poll if isinstance(scenario.poll, Poll) else Poll(0.001)
    return {
        "url": store.url,
        "queue": QUEUE,
        "policy": asdict(scenario.policy),
        "worker": worker,
        "handlers": plan.handlers,
        "part": acting.part_of(scenario),
        "counts_a_second": plan.counts_a_second,
        "poll": [poll.interval, poll.jitter],
    }


def _names(scenario: Scenario) -> Iterator[str]:
    yield from scenario.handlers
    yield from (arrival.name for arrival in scenario.arrivals)
    yield from () if scenario.workload is None else scenario.workload.handlers


def _unwanted(_job: object) -> None:
    raise AssertionError("the process that measures works no job")


def _in_processes(
    queue: Queue, setups: list[dict[str, Any]], jobs: int, stop: Event, tell: Callable[[float], object]
) -> Side:
    crew, done = Crew(MODULE, setups), [0] * len(setups)
    worked: dict[int, Worked] = {}
    with crew:
        busy, own = noise.busy_seconds(), noise.own_seconds()
        epoch = queue.clock.now()
        began = last = crew.go(epoch)
        crew.say(LAST)
        for message in crew.messages():
            if stop.is_set():
                raise Stopped
            if crew.killed:
                raise Killed(f"worker {crew.killed[0] + 1} of {len(setups)} was killed, so what it did is not known")
            if message is None and monotonic() > last + _PATIENCE:
                raise QlabError(f"no job was done for {_PATIENCE:g} s: {sum(done)} of {jobs} were until then")
            match message:
                case (number, ["done", count]):
                    done[number], last = count, monotonic()
                    tell(sum(done) / jobs if jobs else 1.0)
                case (number, ["worked", told]):
                    worked[number] = Worked.heard(told)
        ended = monotonic()
        own, after = noise.own_seconds() - own, noise.busy_seconds()
    if crew.killed:
        raise Killed(f"worker {crew.killed[0] + 1} of {len(setups)} was killed, so what it did is not known")
    taken = None if busy is None or after is None else after - busy
    return Side([worked[number] for number in sorted(worked)], epoch, began, ended, own, taken)


def _others(side: Side, known: float) -> float:
    """Tell how many processors other processes took; 0 where the system does not tell."""
    if side.busy is None or side.ended <= side.began:
        return 0.0
    return max(0.0, side.busy - side.own - known) / (side.ended - side.began)


def _together(parts: "Iterator[array[int]]") -> tuple[int, ...]:
    return tuple(number for part in parts for number in part)


def _last(trace: Trace) -> list[Any]:
    return [trace[len(trace) - 1]] if len(trace) else []
