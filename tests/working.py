"""`qlab work` as people run it: real processes on an application in a folder, whose lines can be waited for."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from watching import PATIENCE

ROOT = Path(__file__).parents[1]

APPLICATION = '''
import fcntl
import os
import sys
from qlab import Policy, Queue

lasts = float(os.environ.get("SHOP_RETRY_AFTER") or 90)
queue = Queue(os.environ["SHOP_URL"], name="mail", policy=Policy(tries=5, retry_after=lasts))


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # whole, also beside the lines of other processes


@queue.handler("hold")
def hold(job):
    """Stands still until the test opens the gate."""
    tell("begun", os.getpid(), job.id, job.number)
    with open("gate") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)


@queue.handler("lock and hold")
def lock_and_hold(job):
    """Stands still in the middle of a transaction on the queue's own file."""
    import sqlite3

    with sqlite3.connect(os.environ["SHOP_URL"].removeprefix("sqlite:///"), isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        hold(job)


@queue.handler("quick")
def quick(job):
    tell("ran", job.payload)


@queue.handler("tell the trace")
def tell_the_trace(job):
    tell("trace", repr(queue.trace), len(queue.trace))


@queue.handler("look around")
def look_around(job):
    tell("input", repr(sys.stdin.read()), "path", os.environ.get("PYTHONPATH"))
'''


class Shop:
    """An application in a folder, with a gate that its handlers stand before."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        folder.mkdir()
        (folder / "shop.py").write_text(APPLICATION)
        self._gate = (folder / "gate").open("w")
        self.close_gate()

    def close_gate(self) -> None:
        """Let those stand still who come to the gate."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)

    def open_gate(self) -> None:
        """Let go on whoever stands before the gate, or comes to it."""
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        self._gate.close()

    def work(self, *words: object, target: str = "shop:queue", within: Sequence[str] = ()) -> "Working":
        return Working(self, "work", target, *map(str, words), within=within)


class Working:
    """A `qlab` that runs, perhaps within another command; it and its workers are gone when the context is left.

    Attributes:
        lines: What it and its workers have said so far.
    """

    def __init__(self, shop: Shop, *words: str, within: Sequence[str] = ()) -> None:
        self.lines: list[str] = []
        self._shop = shop
        self._more, self._silent = threading.Condition(), threading.Event()
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "qlab", *words],
            cwd=shop.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "SHOP_URL": shop.url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def until(self, text: str, times: int = 1, patience: float = PATIENCE) -> list[str]:
        """Wait for lines with this text, for so many seconds at the most, and give them."""
        with self._more:
            enough = self._more.wait_for(lambda: len(self.lines) >= times and len(self.said(text)) >= times, patience)
            assert enough, self.lines[-100:]
        return self.said(text)

    def said(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    def end(self, patience: float = PATIENCE) -> int:
        """Wait for its end and for that of all its processes, each of which holds the pipe, and tell the exit code."""
        code = self._process.wait(patience)
        assert self._silent.wait(PATIENCE), f"a process was left behind; {self.lines}"
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._reader.is_alive():
            self._shop.open_gate()  # A worker in the middle of a job outlives its supervisor by the grace.
        self._reader.join(PATIENCE)

    def _read(self) -> None:
        with self._process.stdout as said:  # type: ignore[union-attr] # it is a pipe
            for line in said:
                with self._more:
                    self.lines.append(line.rstrip("\n"))
                    self._more.notify_all()
        self._silent.set()
