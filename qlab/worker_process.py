"""One process of `qlab work`: `python -m qlab.worker_process SETUP`, which `qlab.supervisor` starts.

It works until it is told otherwise. On its standard input each letter is an order: `s` to finish the job in hand and
take no other, `l` to leave that job. Where the input ends, the supervisor is gone: it stops, and leaves after the
grace. On its standard output it tells messages, each a JSON list on a line: `["ready"]` once it has recovered, or
`["refused", why]` where there is nothing to work.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from qlab import target
from qlab.errors import DriverUnavailable, QlabError
from qlab.escape import traceback_text
from qlab.job import Release, Reservation
from qlab.log import fields, log, to_stderr
from qlab.outcome import Released, Superseded
from qlab.queue import Queue
from qlab.running import Ended
from qlab.trace import NoTrace, Trace
from qlab.worker import Worker

FINISHED = 0
"""Every job in hand was finished."""
RELEASED = 3
"""The job in hand was given back."""
LEFT = 4
"""The job in hand was left; it comes again when its reservation runs out."""

STOP, LEAVE = b"s", b"l"
LEAVING = 5.0
"""How many seconds giving a job back may take."""

_REFUSED = 1


class Process:
    """What a worker process does with the orders that it gets.

    Args:
        setup: The `target` as `MODULE:QUEUE`; whether it is `moved` to the store that `QLAB_URL` names; `name`, `poll`,
            `wait` and `recover` of the `Worker`; the `grace` in seconds; `unfinished`, which is `release` or `expire`;
            whether to `log_payloads`, to be `quiet`, and to count for `metrics`.
        tell: What takes its messages.
    """

    def __init__(self, setup: dict[str, Any], tell: Callable[..., None]) -> None:
        self._setup, self._tell = setup, tell
        self._queue: Queue
        self._worker: Worker | None = None
        self._guard = threading.RLock()
        self._code = FINISHED
        self._leaving = False
        self._left = threading.Event()

    def run(self) -> int:
        """Work until the worker ends, and tell the exit code."""
        setup = self._setup
        try:
            queue = self._queue = self._loaded()
            how = {name: setup[name] for name in ("name", "poll", "wait", "recover")}
            worker = _Telling(queue, lambda: self._tell("ready"), **how)
        except DriverUnavailable as error:
            log.error("worker=%s: its store is away, so it cannot begin: %s", setup["name"], str(error))
            return _REFUSED
        except (QlabError, ValueError) as error:
            if error.__cause__ is not None:
                sys.stderr.write(traceback_text(error.__cause__))
            self._tell("refused", str(error))
            return _REFUSED
        queue.log_payloads = setup["log_payloads"]
        if type(queue.trace) is Trace:  # which would grow with each job for as long as this lives; nobody reads it here
            queue.trace = NoTrace()
        if setup.get("metrics"):
            from qlab.prometheus import count_attempts  # noqa: PLC0415 - its package may not be installed

            count_attempts(queue)
        with self._guard:
            self._worker = worker
        worker.run()
        if self._leaving:
            self._left.wait()  # It ends the process, with the right exit code.
        queue.close()
        return FINISHED

    def _loaded(self) -> Queue:
        try:
            url = os.environ.get(target.ADDRESS) if self._setup.get("moved") else None
            return target.for_processes(self._setup["target"], url)
        finally:
            to_stderr(quiet=self._setup["quiet"])  # after the application has arranged for its own log

    def listen(self, orders: int) -> None:
        """Follow the orders that come on a pipe, up to its end."""
        while order := os.read(orders, 1):
            if order == STOP:
                self.stop()
                self._say("finishing")
            elif order == LEAVE:
                self.leave()
        self.stop()
        self._say("finishing")
        if self._worker is not None and not self._worker.stop(self._setup["grace"]):
            self.leave()

    def stop(self) -> None:
        """Let the job in hand be finished; where nothing has begun yet, end at once."""
        with self._guard:
            if self._worker is None:
                os._exit(FINISHED)
            self._worker.ask_to_stop()

    def leave(self) -> None:
        """End this process, in the middle of whatever its handler does."""
        self._leaving, self._code = True, LEFT
        giving_back = threading.Thread(target=self._give_back, daemon=True)
        giving_back.start()
        giving_back.join(LEAVING)  # Its handler may hold the very lock that this needs.
        if self._code == LEFT:
            self._say("left")
        sys.stdout.flush()
        os._exit(self._code)

    def _say(self, what: str) -> None:
        """Say what becomes of the job in hand; never in a signal's handler, which may have interrupted the log."""
        if self._worker is not None and (held := self._worker.in_hand):
            log.info("%s", fields(**{what: held.job.id}, handler=held.job.name, worker=self._worker.name))

    def _give_back(self) -> None:
        worker = self._worker
        if worker is None or worker.stop(0.0):
            self._code = FINISHED
        elif held := worker.in_hand:
            self._code = self._released(worker, held) if self._setup["unfinished"] == "release" else LEFT
        elif worker.stop(LEAVING):  # It settled a job, or asked for one, which is given back unstarted.
            self._code = FINISHED

    def _released(self, worker: Worker, held: Reservation) -> int:
        outcome = self._queue.settle(held, Ended(Release()), worker=worker.name)
        if isinstance(outcome, Superseded):
            return FINISHED  # Its handler ended after all, or another worker has the job.
        return RELEASED if isinstance(outcome, Released) else LEFT


class _Telling(Worker):
    """A worker that tells when it is ready to take jobs."""

    def __init__(self, queue: Queue, ready: Callable[[], None], **how: Any) -> None:
        super().__init__(queue, **how)
        self._ready: Callable[[], None] | None = ready

    def _boot(self) -> None:
        super()._boot()
        if self._ready:
            self._ready()
            self._ready = None


def main() -> None:
    """Work as the setup says."""
    setup = json.loads(sys.argv[1])
    orders, messages = _take_pipes()
    _restore("PYTHONPATH", setup["pythonpath"])

    def tell(*message: object) -> None:
        os.write(messages, f"{json.dumps(message)}\n".encode())

    process = Process(setup, tell)
    signal.signal(signal.SIGINT, lambda *_: None)  # Not SIG_IGN, which what a handler starts would inherit.
    signal.signal(signal.SIGTERM, lambda *_: process.stop())
    threading.Thread(target=process.listen, args=[orders], daemon=True).start()
    sys.exit(process.run())


def _restore(name: str, value: str | None) -> None:
    """Let what handlers start have the environment that the supervisor was started in."""
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value


def _take_pipes() -> tuple[int, int]:
    """Keep the pipes to the supervisor from handlers and what they start: their input is empty, their output shown."""
    orders, messages = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # it is a TextIOWrapper here
    return orders, messages


if __name__ == "__main__":
    main()
