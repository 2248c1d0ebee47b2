"""A process that has everything imported and forks others from itself, for tests that kill them.

A forked process begins within a few milliseconds. Its number is nobody else's until the test has waited for it, so that
no signal ever reaches a stranger. And none outlives the test, whatever dies first: the nursery ends with its input and
takes its children along, and where it is killed itself, `alive` tells them so.
"""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, Self

Word = list[Any]

_life = -1
"""In a forked process: an end of a pipe that closes when the nursery is gone."""


# -- the test's side --


class Nursery:
    """Forks processes that run functions of the module `mortals`, while the context is open."""

    def __init__(self) -> None:
        places = os.pathsep.join(place for place in sys.path if place)
        self._words: list[Word] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": places},
            start_new_session=True,
        )

    def fork(self, function: str, **how: Any) -> int:
        """Fork a process that runs a function, and tell its number."""
        self._say("fork", function, how)
        pid: int = self._hear("forked")[1]
        return pid

    def told(self, pid: int) -> Any:
        """Wait for what a process tells next."""
        return self._hear("told", pid)[2]

    def kill(self, pid: int) -> None:
        """Kill a process, which must have been alive, and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        code = self.wait(pid)
        assert code == -signal.SIGKILL, f"it had ended by itself: {code}"

    def wait(self, pid: int) -> int:
        """Wait for the end of a process, and tell its exit code."""
        self._say("wait", pid)
        code: int = self._hear("ended", pid)[2]
        return code

    def close(self) -> None:
        """End it, and whatever it has forked."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.read()  # It ends when the last of them has ended.
        self._process.stdout.close()
        self._process.wait()

    def die(self) -> None:
        """Kill the nursery itself."""
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say(self, *words: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _hear(self, *wanted: Any) -> Word:
        while True:
            for word in self._words:
                if word[: len(wanted)] == list(wanted):
                    self._words.remove(word)
                    return word
            assert self._process.stdout
            line = self._process.stdout.readline()
            assert line, "the nursery has died"
            word = json.loads(line)
            assert word[0] != "raised", f"process {word[1]} raised:\n{word[2]}"
            self._words.append(word)


# -- the forked processes' side --


def tell(value: Any) -> None:
    """Tell the test something."""
    _write("told", os.getpid(), value)


def alive() -> bool:
    """Whether the nursery is there."""
    return not select.select([_life], [], [], 0.0)[0]


def stay_here() -> None:
    """Wait to be killed."""
    os.read(_life, 1)
    os._exit(1)


# -- the nursery --


def main() -> None:
    """Fork whom the test asks for, and take them along at the end."""
    global _life
    import_module("mortals")
    _life, held = os.pipe()
    children: set[int] = set()
    for line in sys.stdin:
        match json.loads(line):
            case ["fork", function, how]:
                pid = os.fork()
                if pid == 0:
                    os.close(held)
                    _live(getattr(import_module("mortals"), function), how)
                children.add(pid)
                _write("forked", pid)
            case ["wait", pid]:
                _write("ended", pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                children.discard(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _live(run: Callable[..., None], how: dict[str, Any]) -> None:
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # What the test says is for the nursery.
        run(**how)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the test hears of it
        _write("raised", os.getpid(), traceback.format_exc()[-3000:])
    finally:
        os._exit(code)


def _write(*words: Any) -> None:
    os.write(1, f"{json.dumps(words)}\n".encode())  # At once: shorter than what a pipe takes whole.


if __name__ == "__main__":
    # As the module that children import, so that there is one `_life`.
    import_module("nursery").main()
