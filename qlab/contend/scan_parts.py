"""The two processes of `scan_wait`: `python -m qlab.contend.scan_parts`, with its part in the setup.

One scans: it takes the files of a folder into a table, each with a job, so many in one transaction. The other
dispatches at a steady pace, on the same SQLite file, until it is told that the scan is over.
"""

from math import inf
from pathlib import Path
from threading import Event
from typing import Any

from qlab.clock import SystemClock, monotonic, pause
from qlab.contend.member import Member
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.systems.parts import AppDatabase

TABLE = "CREATE TABLE IF NOT EXISTS items (path TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT"
_ITEM = "INSERT INTO items (path, bytes) VALUES (?, ?)"
_LEAD = 0.05  # seconds in which the other gets into its pace


def scan(queue: Queue, database: AppDatabase, folder: str, files: list[str], chunk: int, apart: float) -> None:
    """Take files in, each with its job in the same transaction: a scan that is cut off and runs again finds them there.

    Args:
        queue: The queue, in the database's file.
        database: Where the table `items` is.
        folder: The folder.
        files: Their names in it.
        chunk: How many rows a transaction stores.
        apart: How many seconds to pause between two.
    """
    for first in range(0, len(files), chunk):
        if first and apart:
            pause(apart)
        with database.transaction() as db:
            for name in files[first : first + chunk]:
                db.execute(_ITEM, [name, Path(folder, name).stat().st_size])
                queue.dispatch("enrich_item", {"path": name}, connection=db)


class Pace:
    """Dispatches at a steady pace; what is late is dispatched at once.

    Args:
        queue: The queue.
        every: How many seconds lie between two.
    """

    def __init__(self, queue: Queue, every: float) -> None:
        self._queue, self._every = queue, every
        self._until = inf
        self._told = Event()

    def end(self, moment: str) -> None:
        """Hear when the last one is due, on the monotonic clock."""
        self._until = float(moment)
        self._told.set()

    def dispatch(self) -> list[tuple[float, float]]:
        """Dispatch up to the end.

        Returns:
            Of each, when it was due and when it was done, on the monotonic clock.
        """
        done, due = [], monotonic()
        while due <= self._until:
            if (ahead := due - monotonic()) > 0.0 and not self._told.wait(ahead):
                continue
            self._queue.dispatch("enrich_item", {"path": "new.py"})
            done.append((due, monotonic()))
            due += self._every
        return done


def main() -> None:
    """Scan, or dispatch, as the setup says."""
    member = Member()
    setup = member.setup()
    with Queue(setup["url"], name=setup["queue"], clock=SystemClock()) as queue:
        queue.handler("enrich_item")(_unwanted)
        queue.counts()
        if setup["part"] == "scan":
            _scan(member, queue, setup)
        else:
            pace = Pace(queue, setup["every"])
            member.start(pace.end)
            member.tell("dispatched", pace.dispatch())
    member.tell("end")


def _scan(member: Member, queue: Queue, setup: dict[str, Any]) -> None:
    database = AppDatabase(setup["path"], synchronous=setup["synchronous"])
    database.execute(TABLE)
    member.start()
    pause(_LEAD)
    began = monotonic()
    if setup["chunk"]:
        scan(queue, database, setup["folder"], setup["files"], setup["chunk"], setup["apart"])
    else:
        pause(setup["idle"])
    ended = monotonic()
    database.close()
    member.tell("scanned", began, ended)


def _unwanted(_: Attempt) -> None:
    raise AssertionError("nobody works these jobs")


if __name__ == "__main__":
    main()
