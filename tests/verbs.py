"""Every verb of a driver on a queue that has one job of each kind: for what must hold whichever verb it is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from qlab.driver import Driver
from qlab.job import NewJob, Reservation

Verb = Callable[[Driver, str, list[Reservation]], object]

WRITING: dict[str, Verb] = {
    "push": lambda driver, queue, held: driver.push(queue, [new(queue, "x"), new(queue, "y")], now=1.0),
    "push again": lambda driver, queue, held: driver.push(queue, [new(queue, "x")], now=1.0, resent=True),
    "reserve": lambda driver, queue, held: driver.reserve(queue, now=1.0, retry_after=90.0, limit=2),
    "reserve one": lambda driver, queue, held: driver.reserve(queue, now=1.0, retry_after=90.0),
    "complete": lambda driver, queue, held: driver.complete(held[0], now=1.0),
    "complete_and_reserve": lambda driver, queue, held: driver.complete_and_reserve(held[0], now=1.0, retry_after=9.0),
    "release": lambda driver, queue, held: driver.release(held[0], now=1.0, delay=5.0),
    "extend": lambda driver, queue, held: driver.extend(held[0], now=1.0, seconds=500.0),
    "fail": lambda driver, queue, held: driver.fail(held[0], now=1.0, attempts=1, error="again"),
    "recover": lambda driver, queue, held: driver.recover(queue, now=1.0, force=True),
    "clear": lambda driver, queue, held: driver.clear(queue, now=1.0),
    "retry": lambda driver, queue, held: driver.retry(queue, driver.failed_ids(queue), now=1.0),
    "forget": lambda driver, queue, held: driver.forget(queue, driver.failed_ids(queue)),
}

READING: dict[str, Verb] = {
    "counts": lambda driver, queue, held: driver.counts(queue, now=1.0),
    "jobs": lambda driver, queue, held: driver.jobs(queue, now=1.0),
    "next_due": lambda driver, queue, held: driver.next_due(queue, now=1.0),
    "failed": lambda driver, queue, held: driver.failed(queue),
    "failed_ids": lambda driver, queue, held: driver.failed_ids(queue),
}


def new(queue: str, name: str, body: str = "null") -> NewJob:
    return NewJob(f"{queue}-{name}", name, body, 0.0)


def prepared(driver: Driver, queue: str) -> list[Reservation]:
    """Make a queue of two jobs that wait, two that are reserved (which it gives), and one that failed."""
    driver.push(queue, [new(queue, name) for name in "abcde"], now=0.0)
    *held, last = driver.reserve(queue, now=0.0, retry_after=90.0, limit=3)
    driver.fail(last, now=0.0, attempts=1, error="first")
    return held


def state(driver: Driver, queue: str) -> Any:
    """Tell all that a driver tells of a queue, but for what no two queues have alike."""
    jobs = [(job.name, job.attempts, job.available_at, job.reserved_at) for job in driver.jobs(queue, now=1.0)]
    failed = [(row.name, row.error, row.failed_at) for row in driver.failed(queue)]
    return driver.counts(queue, now=1.0), jobs, failed


def assert_sound(file: Path | str) -> None:
    """Let SQLite itself look through a whole file."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
