"""What runs in the processes that tests kill."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nursery

from qlab import Policy, Queue, Release, SimulatedClock, SystemClock, Unknown, drivers
from qlab.clock import pause
from qlab.driver import Driver, Statement
from qlab.drivers import redis_list, redis_zset, sqlite
from qlab.errors import DriverUnavailable
from qlab.history import Journal
from qlab.job import Attempt
from qlab.outcome import Idle
from qlab.trace import Kind
from qlab.worker import Worker

IMPORTED = (redis_list, redis_zset, sqlite)
"""What a driver's address imports: here already, so that no forked process has to."""

MORTAL = "mortal"

# -- to be killed at a point --


def register(queue: Queue, runs: str, within: Callable[[], None] = lambda: None) -> None:
    """Give a queue handlers that write down each of their runs: one returns, one fails at first, one always."""

    def ran(job: Attempt) -> None:
        with Path(runs).open("a") as file:
            file.write(f"{job.payload}\n")
        within()

    def fails_at_first(job: Attempt) -> None:
        ran(job)
        assert job.number > 1, "not the first time"

    def fails(job: Attempt) -> None:
        ran(job)
        raise ValueError("boom")

    queue.handler("send")(ran)
    queue.handler("shake")(fails_at_first)
    queue.handler("break", tries=1)(fails)


PROGRAMS: dict[str, Callable[[Queue], object]] = {
    "complete": lambda queue: queue.work_once(worker=MORTAL),
    "release": lambda queue: queue.work_once(worker=MORTAL),
    "fail": lambda queue: queue.work_once(worker=MORTAL),
    "drain": lambda queue: queue.drain(worker=MORTAL),
    "retry": lambda queue: queue.retry("all"),
    "forget": lambda queue: queue.forget("all"),
    "dispatch": lambda queue: queue.dispatch_many([("send", number) for number in range(3)]),
    "recover": lambda queue: queue.recover(force=True),
    "clear": lambda queue: queue.clear(),
}


def come_to(url: str, queue: str, journal: str, runs: str, program: str, point: str | int) -> None:
    """Run a program up to a point, say so, and wait there to be killed.

    The point is `before VERB` or `after VERB` of the driver, `in the handler`, or the number of a statement.
    """
    clock, driver = SimulatedClock(), drivers.open(url)

    def stop(*what: object) -> None:
        nursery.tell(" ".join(map(str, what)) or point)
        nursery.stay_here()

    mortal = Queue(driver, clock=clock, name=queue, trace=Journal(journal, clock))
    register(mortal, runs, stop if point == "in the handler" else lambda: None)
    if isinstance(point, int):
        _stop_at_statement(driver, point, stop)
    elif point != "in the handler":
        _stop_at_verb(driver, *point.split(), stop)
    PROGRAMS[program](mortal)
    nursery.tell("the end")
    nursery.stay_here()


def _stop_at_statement(driver: Driver, number: int, stop: Callable[..., None]) -> None:
    seen = 0

    def count(statement: Statement) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            stop(statement.verb, statement.text.strip().partition("\n")[0][:60])

    driver.listen(count)


def _stop_at_verb(driver: Driver, when: str, verb: str, stop: Callable[..., None]) -> None:
    real = getattr(driver, verb)

    def last(*args: Any, **how: Any) -> None:
        if when == "after":
            real(*args, **how)
        stop()

    setattr(driver, verb, last)


# -- to be killed at any moment --

RULES = Policy(backoff=(0.05,), retry_after=0.5)


def work(url: str, queue: str, folder: str, worker: str, *, looping: bool = False) -> None:
    """Work a queue until killed, as a `Worker` or step by step; where the store does not answer, go on when it does."""
    clock = SystemClock()
    journal = Journal(Path(folder) / f"{worker}.journal", clock)
    mortal = Queue(_opened(url), clock=clock, name=queue, policy=RULES, trace=journal)
    give_handlers(mortal, Path(folder) / f"{worker}.runs")
    if looping:
        Worker(mortal, name=worker, poll=0.02).start()
        nursery.stay_here()
    while nursery.alive():
        try:
            outcome = mortal.work_once(worker=worker)
        except DriverUnavailable as error:
            journal.record(clock.now(), Kind.CRASHED, worker=worker, detail=str(error)[:100])
            pause(random.uniform(0.005, 0.02))
            continue
        if isinstance(outcome, Unknown):
            told = outcome.job, outcome.name, outcome.attempt, worker
            journal.record(clock.now(), Kind.CRASHED, *told, detail=outcome.error[:100])
        if isinstance(outcome, Idle):
            pause(random.uniform(0.005, 0.02))


def _opened(url: str) -> Driver:
    """Open a driver, as soon as its store answers."""
    while True:
        try:
            return drivers.open(url)
        except DriverUnavailable:
            if not nursery.alive():
                raise
            pause(0.02)


def give_handlers(queue: Queue, runs: Path) -> None:
    """Give a queue the handlers of a load, which write down when each run begins and when it ends."""

    def write(what: str, job: Attempt) -> None:
        with runs.open("ab", buffering=0) as file:
            file.write(f"{what} {job.id}\n".encode())

    def written_down(sort: Sort) -> Callable[[Attempt], Any]:
        def run(job: Attempt) -> Any:
            write("began", job)
            returned = sort.run(job)
            write("ended", job)
            return returned

        return run

    for name, sort in SORTS.items():
        queue.handler(name, tries=sort.tries)(written_down(sort))


def _take_a_while(job: Attempt) -> None:
    pause(random.uniform(0.0, 0.1))


def _be_late(job: Attempt) -> None:
    pause(0.7 if job.number == 1 else 0.35)  # The second is at work when the first comes too late.


def _extend(job: Attempt) -> None:
    for _ in range(3):
        job.extend(0.5)
        pause(0.02)


def _come_back(job: Attempt) -> Release | None:
    return Release(0.02) if job.number == 1 else None


def _fail_twice(job: Attempt) -> None:
    assert job.number > 2, "not yet"


def _fail(job: Attempt) -> None:
    raise ValueError("boom")


class Sort(NamedTuple):
    """A sort of job.

    Attributes:
        share: How many of a hundred there are.
        run: Its handler.
        runs: How often it runs by itself.
        tries: How many attempts it has.
    """

    share: int
    run: Callable[[Attempt], Any]
    runs: int = 1
    tries: int = 50


SORTS = {
    "is quick": Sort(30, lambda job: None),
    "takes a while": Sort(49, _take_a_while),
    "is late": Sort(2, _be_late),
    "extends": Sort(5, _extend),
    "comes back": Sort(4, _come_back, runs=2),
    "fails at first": Sort(5, _fail_twice, runs=3),
    "breaks": Sort(5, _fail, runs=2, tries=2),
}
