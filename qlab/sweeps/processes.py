"""Local processes that run functions, as an executor: one that dies fails the call that it ran, and no other.

The one of the standard library breaks as a whole then, and cannot end a call that is under way.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn, TypeVar

from qlab.errors import QlabError

Result = TypeVar("Result")

_SPAWN = multiprocessing.get_context("spawn")


class NotReady(QlabError):
    """A process could not begin to work."""


class ProcessDied(QlabError):
    """The process that ran it died."""


class Processes(Executor):
    """Processes that start when they are first needed, and end with this one, however it ends.

    They start anew, as `multiprocessing` spawns them, and not as forks: those would inherit half of what other threads
    are doing. A Ctrl-C at the keyboard does not reach them.

    Args:
        workers: How many, from 1.
        function: What will be called in them: a process that cannot import it is not ready.
    """

    def __init__(self, workers: int, function: Callable[..., Any]) -> None:
        self._function = pickle.dumps(function)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="qlab-processes")
        self._mine = threading.local()
        self._guard = threading.Lock()
        self._members: set[_Member] = set()
        self._ended = False

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Call a function in the next process that is free.

        Its future raises `NotReady` where no process could begin to work, and `ProcessDied` where it died.
        """
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; with `cancel_futures` at once, also in the middle of a call."""
        if cancel_futures:
            with self._guard:
                self._ended = True
                for member in self._members:
                    member.kill()
        self._threads.shutdown(wait=wait or cancel_futures, cancel_futures=cancel_futures)
        for member in self._members:
            member.end()

    def _call(self, fn: Callable[..., Result], args: Any, kwargs: Any) -> Result:
        task = pickle.dumps((fn, args, kwargs))
        member: _Member | None = getattr(self._mine, "member", None)
        if member is None or not member.alive:
            member = self._mine.member = self._start()
        answer: Result = member.ask(task)
        return answer

    def _start(self) -> "_Member":
        with self._guard:
            if self._ended:
                raise ProcessDied("the processes have ended")
            try:
                member = _Member()
            except (OSError, RuntimeError) as error:  # no memory for one; or a script that is only being imported
                raise NotReady(f"a process could not be started: {error}") from error
            self._members.add(member)
        member.get_ready(self._function)
        return member


class _Member:
    """One of the processes, and the pipe to it, in the hands of one thread."""

    def __init__(self) -> None:
        self._pipe, other = _SPAWN.Pipe()
        self._process: SpawnProcess = _SPAWN.Process(target=_serve, args=(other,), name="qlab-process")
        _block_interrupts()
        self._process.start()
        other.close()
        self.alive = True

    def get_ready(self, function: bytes) -> None:
        try:
            self._pipe.send_bytes(function)
            problem = self._pipe.recv()
        except (EOFError, OSError):
            problem = f"it ended with {self._exit()}, see above; a script must start its work {_GUARD}"
        if problem:
            raise NotReady(f"a process could not begin to work: {problem}")

    def ask(self, task: bytes) -> Any:
        try:
            self._pipe.send_bytes(task)
            done, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise ProcessDied(f"the process that ran it ended with {self._exit()}") from None
        if not done:
            raise answer
        return answer

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Let the process end by itself, which it does when nobody can ask it any more."""
        self._pipe.close()
        self._process.join()
        self._process.close()

    def _exit(self) -> str:
        self.alive = False
        self._process.join()
        code = self._process.exitcode or 0
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}{_HINTS.get(-code, '')}"


_GUARD = 'under if __name__ == "__main__":, since each process imports it'
_HINTS = {9: ": was there enough memory?"}


def _block_interrupts() -> None:
    """Keep a Ctrl-C from a child of this thread until the child can ignore it by itself."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


# -- in the process --


def _serve(pipe: Connection) -> None:
    """Call what comes through a pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send(_problem_with(pipe.recv_bytes()))
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _problem_with(function: bytes) -> str:
    try:
        pickle.loads(function)  # noqa: S301 - from the process that started this one
    except Exception as error:  # noqa: BLE001 - importing a user's module may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _answer(task: bytes) -> bytes:
    try:
        fn, args, kwargs = pickle.loads(task)  # noqa: S301 - as above
        return pickle.dumps((True, fn(*args, **kwargs)))
    except Exception as error:  # noqa: BLE001 - it is the caller's
        with suppress(Exception):
            return pickle.dumps((False, error))
        return pickle.dumps((False, QlabError(f"{type(error).__name__}: {error}")))


def _end_with_parent() -> NoReturn:
    parent = multiprocessing.parent_process()
    wait([parent.sentinel] if parent else [])
    os._exit(1)
