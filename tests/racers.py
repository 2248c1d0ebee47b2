"""What runs in the processes that tests start; imports as little as it can, for each of them pays for it."""

import os
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from multiprocessing.synchronize import Event as Signal
from pathlib import Path

from qlab import drivers
from qlab.drivers.failed_jobs import FailedJobs
from qlab.job import NewJob


def race(url: str, queue: str, rounds: int, start: Barrier, won: "SimpleQueue[list[int]]") -> None:
    """Try to reserve one job, round after round, each begun by all racers at once; tell the rounds that were won.

    A round lasts 100 s of job time, as long as a reservation: whoever comes second finds the job reserved.
    """
    driver = drivers.open(url)
    winner_of = []
    for number in range(rounds):
        start.wait(60.0)
        if driver.reserve(queue, now=number * 100.0, retry_after=100.0):
            winner_of.append(number)
    won.put(winner_of)
    driver.close()


def reserve(url: str, queue: str) -> None:
    """Reserve a job at moment 0."""
    drivers.open(url).reserve(queue, now=0.0, retry_after=90.0)


def hold_the_lock(path: str, held: Signal, let_go: Signal) -> None:
    """Hold a SQLite file's write lock until told to let go."""
    import sqlite3  # noqa: PLC0415 - only this one needs it

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    held.set()
    let_go.wait(60.0)
    connection.execute("COMMIT")
    connection.close()


def open_at_once(folder: str, journal: str, rounds: int, start: Barrier) -> None:
    """Open a new file in each round with all others at once, push a job and fail one; note each file's own name."""
    names = []
    for number in range(rounds):
        file = f"sqlite:///{folder}/{number}.db"
        start.wait(60.0)
        failed_jobs = FailedJobs(file)
        with drivers.open(f"{file}?journal={journal}") as driver:
            names.append(failed_jobs.note(None, ""))
            uids = f"{os.getpid()}-{number}-kept", f"{os.getpid()}-{number}-failed"
            driver.push("mail", [NewJob(uid, "A", "null", 0.0) for uid in uids], now=0.0)
            (held,) = driver.reserve("mail", now=0.0, retry_after=90.0)
            driver.fail(held, now=0.0, attempts=1, error="boom")
        failed_jobs.close()
    Path(folder, f"{os.getpid()}.names").write_text("\n".join(names))
