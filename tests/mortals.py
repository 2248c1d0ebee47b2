"""What runs in the processes that tests kill."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nursery

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Driver, Statement
from qlab.drivers import redis_list, redis_zset, sqlite
from qlab.history import Journal
from qlab.job import Attempt

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
