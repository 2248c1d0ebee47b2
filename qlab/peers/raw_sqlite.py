"""Bare loops on SQLite: plain `sqlite3` and the driver's own statements, with nothing around them; and qlab's loop.

`python -m qlab.peers.raw_sqlite` is one worker of qlab as a process of its own, which takes the time of its calls: its
setup has the `url`, and how it `waits` for the lock: `qlab`, or `sqlite` for SQLite's own waiting.
"""

import json
import sqlite3
from collections.abc import Iterable
from itertools import count
from typing import Any

from qlab import drivers
from qlab.clock import SystemClock, monotonic
from qlab.contend.member import Member
from qlab.contend.timed import Timed
from qlab.driver import Driver
from qlab.drivers.sqlite import SqliteDriver
from qlab.drivers.statements import sql
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.tokens import Tokens

NAME, QUEUE = "noop", "work"
"""The handler, which does nothing but look at its payload, and the queue."""

WAITS = ("qlab", "sqlite")
"""Whose waiting for the lock there is."""

_RETRY_AFTER = 90_000_000  # microseconds
_BUSY_TIMEOUT = 5_000  # milliseconds, which is what `sqlite3.connect` sets if it is not told


class Raw:
    """A worker made of plain `sqlite3`.

    Args:
        driver: The store, whose file and settings are used.
        fused: Whether a job is completed and the next reserved in one transaction, instead of two.
    """

    def __init__(self, driver: SqliteDriver, *, fused: bool = False) -> None:
        database = driver.database
        self._connection = sqlite3.connect(database.path, isolation_level=None, cached_statements=256)
        self._connection.execute(f"PRAGMA synchronous = {database.synchronous}")
        self._tokens = Tokens()
        self._clock = SystemClock()
        self._fused = fused

    def work(self) -> int:
        """Reserve each job, look at its payload, complete it, until nothing is due; tell how many those were."""
        return self._work_fused() if self._fused else self._work()

    def fill(self, payloads: Iterable[object]) -> None:
        """Store a job for each payload, all by one statement in one transaction."""
        execute, token, at = self._connection.execute, self._tokens.next, self._now()
        execute("BEGIN IMMEDIATE")
        ((seq,),) = execute("SELECT seq FROM jobs_seq").fetchall()
        rows = (
            (token(), QUEUE, NAME, json.dumps(payload, separators=(",", ":")), at, at, place)
            for place, payload in enumerate(payloads, seq + 1)
        )
        stored = self._connection.executemany(sql("push")[4], rows).rowcount
        execute("UPDATE jobs_seq SET seq = seq + ?", (stored,))
        execute("COMMIT")

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()

    def _work(self) -> int:
        execute, (reserve,), (complete,) = self._connection.execute, sql("reserve"), sql("complete")
        for done in count():
            asked = self._asked()
            rows = execute(reserve, asked).fetchall()
            if not rows:
                return done
            _, _, id, _, _, payload, *_ = rows[0]
            json.loads(payload)
            execute(complete, {"id": id, "token": f"{asked['token']}-{id}"}).fetchall()
        raise AssertionError("there is always another number")

    def _work_fused(self) -> int:
        execute, (reserve,), (complete,) = self._connection.execute, sql("reserve"), sql("complete")
        held = {"id": 0, "token": ""}
        for done in count():
            asked = self._asked()
            execute("BEGIN IMMEDIATE")
            execute(complete, held).fetchall()
            rows = execute(reserve, asked).fetchall()
            execute("COMMIT")
            if not rows:
                return done
            _, _, id, _, _, payload, *_ = rows[0]
            json.loads(payload)
            held = {"id": id, "token": f"{asked['token']}-{id}"}
        raise AssertionError("there is always another number")

    def _asked(self) -> dict[str, Any]:
        now = self._now()
        return {"queue": QUEUE, "now": now, "deadline": now + _RETRY_AFTER, "token": self._tokens.next()}

    def _now(self) -> int:
        return round(self._clock.now() * 1_000_000)


class Ours:
    """A worker of qlab, with its whole loop and without a trace.

    Args:
        driver: The store.
    """

    def __init__(self, driver: Driver) -> None:
        self.queue = Queue(driver, name=QUEUE, trace=False)
        self.queue.handler(NAME)(_look)
        self.queue.counts()  # The connection is there, and has answered.

    def work(self, jobs: int | None = None) -> int:
        """Work until nothing is due, or until so many jobs are done; tell how many were completed."""
        done = taken = 0

        def tell(_: object) -> None:
            nonlocal done
            done += 1

        def hold(held: object) -> None:
            nonlocal taken
            taken += held is not None

        if jobs is None:
            self.queue.work(tell)
        else:
            self.queue.work(tell, stopping=lambda: taken >= jobs, holding=hold)
        return done

    def fill(self, payloads: Iterable[object]) -> None:
        """Store a job for each payload."""
        self.queue.dispatch_many((NAME, payload) for payload in payloads)


def fill(driver: Driver, jobs: int) -> None:
    """Store jobs that are ready."""
    Ours(driver).fill({"i": number} for number in range(jobs))


def let_sqlite_wait(driver: SqliteDriver) -> None:
    """Let this thread's connection wait for the lock as SQLite does by itself, for five seconds at a time."""
    driver.database.use(lambda connection: connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}").fetchall())


def _look(job: Attempt) -> None:
    """Do nothing but decode the payload."""
    _ = job.payload


def main() -> None:
    """Get ready, wait for the start, work; tell how many jobs that was, when it was done, its longest reserve (s)."""
    member = Member()
    setup = member.setup()
    driver = drivers.open(setup["url"])
    if setup["waits"] == "sqlite" and isinstance(driver, SqliteDriver):
        let_sqlite_wait(driver)
    timed = Timed(driver, SystemClock(), lambda _: None)
    worker = Ours(timed)
    member.start()
    done = worker.work()
    member.tell("end", done, monotonic(), max(timed.reserves, default=0.0))


if __name__ == "__main__":
    main()
