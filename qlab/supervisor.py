"""The processes of `qlab work`: started, watched, started again where one dies, and stopped in good order."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import IO, Any, cast

from qlab.clock import monotonic
from qlab.errors import QlabError
from qlab.escape import without_password
from qlab.log import fields, log
from qlab.target import ADDRESS
from qlab.worker_process import FINISHED, LEAVE, LEAVING, LEFT, RELEASED, STOP

FIRST_WAIT = 0.5
"""After how many seconds a worker that died is started again; twice as long each time that it dies soon."""
LONGEST_WAIT = 30.0
"""After how many seconds at the most; a worker that lived longer than this did not die soon."""

_TICK = 0.5  # seconds; a signal that comes just before a wait is heard only after it
_KILL_AFTER = LEAVING + 5.0  # seconds
_LAST_WORDS = 1.0  # seconds


class Supervisor:
    """Runs worker processes until a signal comes.

    The first one recovers; the others are started when it has. None outlives this process for longer than the grace,
    however it ends: each watches a pipe from it.

    Args:
        setup: What `qlab.worker_process` takes, but for the `name`; and the `url` of the store, where it is another
            than the target's, which is handed down in the environment so that no list of processes shows its password.
        count: How many processes, from 1.
        name: What they are called: `worker-1`, `worker-2` and so on.
        grace: How many seconds the job in hand may take after the first SIGTERM or Ctrl-C.
    """

    def __init__(self, setup: dict[str, Any], *, count: int, name: str, grace: float) -> None:
        self._setup = setup | {"grace": grace, "pythonpath": os.environ.get("PYTHONPATH")}
        self._grace = grace
        self._inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._posts = [_Post(f"{name}-{number}", self._inbox) for number in range(1, count + 1)]
        self._ready = self._stopping = self._leaving = False
        self._leave_at = self._kill_at = float("inf")
        self._code = FINISHED

    def run(self) -> int:
        """Supervise, and tell the exit code.

        Returns:
            `FINISHED`, `RELEASED` or `LEFT` (0, 3, 4): the worst that happened to a job in hand when it stopped.

        Raises:
            QlabError: There is nothing to work: the target is none.
        """
        with self._hearing_signals():
            try:
                log.info("%s", fields(**self._task(), workers=len(self._posts), process=os.getpid()))
                self._start(self._posts[0])
                while any(post.busy for post in self._posts):
                    self._step()
            finally:
                for post in self._posts:
                    post.let_go()
        return self._code

    def _task(self) -> dict[str, str]:
        url = self._setup.get("url")
        return {"working": self._setup["target"]} | ({"at": without_password(url.partition("?")[0])} if url else {})

    def _step(self) -> None:
        moments = [self._leave_at, self._kill_at, *(post.again_at for post in self._posts)]
        with suppress(Empty):
            self._hear(*self._inbox.get(timeout=min(_TICK, max(0.0, min(moments) - monotonic()))))
        now = monotonic()
        if now >= self._kill_at:
            self._kill()
        elif now >= self._leave_at:
            self._leave("the grace is over")
        for post in self._posts:
            if post.again_at <= now:
                self._start(post)

    def _hear(self, what: str, *about: Any) -> None:
        match what, about:
            case "signal", [number]:
                self._stop(signal.Signals(number).name)
            case "said", [post, ["ready"]]:
                post.ready = True
                if not self._ready:
                    self._ready = True
                    for post in self._posts[1:] if not self._stopping else []:
                        self._start(post)
            case "said", [post, ["refused", why]]:
                if not self._ready:
                    raise QlabError(why)
                log.error("worker=%s: %s", post.name, why)
            case "ended", [post, code]:
                self._note_end(post, code)

    def _start(self, post: "_Post") -> None:
        recover = self._setup["recover"]
        # A worker that comes later must not rob those that are there.
        how = {"recover": "expired" if recover == "force" and self._ready else recover}
        post.start(self._setup | how | {"name": post.name})

    def _note_end(self, post: "_Post", code: int) -> None:
        lived = post.ended()
        if self._stopping:
            if post.ready:
                self._code = max(self._code, code if code in (FINISHED, RELEASED) else LEFT)
            if code not in (FINISHED, RELEASED, LEFT):
                log.warning("%s", fields(worker=post.name, process=post.pid, ended=_how(code)))
            return
        post.deaths = 0 if lived > LONGEST_WAIT else post.deaths + 1
        wait = min(FIRST_WAIT * 2 ** min(post.deaths - 1, 10), LONGEST_WAIT) if post.deaths else FIRST_WAIT
        post.again_at = monotonic() + wait
        log.warning("%s", fields(worker=post.name, process=post.pid, ended=_how(code), again_in=f"{wait:g}s"))

    # -- the end --

    def _stop(self, why: str) -> None:
        if self._stopping:
            self._leave(why)
            return
        self._stopping, self._leave_at = True, monotonic() + self._grace
        log.info("%s", fields(stopping=why, grace=f"{self._grace:g}s"))
        for post in self._posts:
            post.again_at = float("inf")
            post.order(STOP)

    def _leave(self, why: str) -> None:
        if not self._leaving:
            self._leaving, self._leave_at, self._kill_at = True, float("inf"), monotonic() + _KILL_AFTER
            log.warning("%s", fields(leaving=why, unfinished=self._setup["unfinished"]))
            for post in self._posts:
                post.order(LEAVE)

    def _kill(self) -> None:
        self._kill_at = float("inf")
        for post in self._posts:
            post.kill()

    @contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        def hear(number: int, _: FrameType | None) -> None:
            self._inbox.put(("signal", number))  # It may interrupt a get or a put of this very queue.

        before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Post:
    """The place of one worker process, whichever holds it now."""

    def __init__(self, name: str, inbox: "SimpleQueue[tuple[Any, ...]]") -> None:
        self.name, self._inbox = name, inbox
        self.pid = self.deaths = 0
        self.ready = False
        self.again_at = float("inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    @property
    def busy(self) -> bool:
        """Whether a process is there, or is to come."""
        return self._process is not None or self.again_at < float("inf")

    def start(self, setup: dict[str, Any]) -> None:
        # Where qlab was found here it must be found there; the current folder is added for the target, and only then.
        places = os.pathsep.join(str(place or Path.cwd()) for place in sys.path)
        self.ready, self.again_at, self._began = False, float("inf"), monotonic()
        url = setup.pop("url", None)
        setup["moved"] = url is not None
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "qlab.worker_process", json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": places} | ({ADDRESS: url} if url else {}),
            start_new_session=True,  # A Ctrl-C at the terminal reaches the supervisor alone, and that one tells them.
        )
        self.pid = self._process.pid
        threading.Thread(target=self._watch, args=[self._process], daemon=True).start()

    def order(self, letter: bytes) -> None:
        if self._process is not None:
            with suppress(OSError):  # It has died, which the inbox tells.
                cast("IO[bytes]", self._process.stdin).write(letter)
                cast("IO[bytes]", self._process.stdin).flush()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def let_go(self) -> None:
        """End its orders: where it is still there, it stops, and leaves after the grace."""
        if self._process is not None:
            with suppress(OSError):
                cast("IO[bytes]", self._process.stdin).close()

    def ended(self) -> float:
        """Note that the process is gone, and tell how many seconds it lived."""
        self.let_go()
        self._process = None
        return monotonic() - self._began

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        # What a handler has started may hold the pipe longer than the worker lives: the process is waited for.
        reader = threading.Thread(target=self._listen, args=[process.stdout], daemon=True)
        reader.start()
        code = process.wait()
        reader.join(_LAST_WORDS)
        self._inbox.put(("ended", self, code))

    def _listen(self, messages: IO[bytes]) -> None:
        with messages:
            for line in messages:
                if line.endswith(b"\n"):  # The last one is torn, where it was killed while it wrote.
                    self._inbox.put(("said", self, json.loads(line)))


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
