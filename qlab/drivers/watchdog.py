"""Run a server for as long as the process that started this one lives.

Run by its path and never imported, so that it starts in a few milliseconds and needs nothing but the standard library:

    python -I -S watchdog.py FOLDER fresh|kept PROGRAM ARGUMENT…

The owner holds the other end of standard input. When that closes, which it does however the owner dies, the server is
ended, and a fresh folder removed. Until then each line `NUMBER COMMAND` is answered by one line `NUMBER ANSWER`, where
the command is `start`, `kill` or `state` and the answer `started PID`, `running`, `ended CODE` or `failed REASON`.

The server is a child of this process, so a signal meant for it reaches no stranger that was given its number later.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable

GRACE = 5.0
"""How many seconds a server that was asked to end may take."""


def main(folder: str, kind: str, *command: str) -> None:
    """Answer the owner until there is none."""
    child = Child(list(command))
    with contextlib.ExitStack() as at_the_end:
        try:
            make(folder, fresh=kind == "fresh")
            if kind == "fresh":
                at_the_end.callback(remove, folder)
            occupy(folder)
        except OSError as error:
            refusal = f"failed {error}"
            serve(dict.fromkeys(("start", "kill", "state"), lambda: refusal))
            return
        at_the_end.callback(child.end)
        signal.signal(signal.SIGCHLD, child.reap)
        serve({"start": child.start, "kill": child.kill, "state": child.state})


def make(folder: str, *, fresh: bool) -> None:
    """Make the folder; a fresh one must not be there yet."""
    os.umask(0o077)
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102 - importing pathlib would add 3 ms to each start
    except FileExistsError:
        if fresh:
            raise


def occupy(folder: str) -> None:
    """Take the folder for this process alone, and have whatever goes wrong from now on written down there."""
    os.chdir(folder)
    try:
        # Never closed: the lock ends with this process. A second server would take the first one's socket away.
        fcntl.flock(os.open(".", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(f"another server uses the folder {folder!r}") from None
    os.dup2(os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)


def serve(commands: dict[str, Callable[[], str]]) -> None:
    """Do what the owner says, line by line, up to the end of input."""
    for line in sys.stdin:
        number, name = line.split()
        with contextlib.suppress(BrokenPipeError):
            os.write(1, f"{number} {commands[name]()}\n".encode(errors="replace"))


def remove(folder: str) -> None:
    """Remove the folder and what the server left in it."""
    import shutil  # noqa: PLC0415 - only at the end, for it would double the time that a start takes

    shutil.rmtree(folder, ignore_errors=True)


class Child:
    """The server's process, which can be started again and again."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """End the server if it runs, and start it."""
        self.end()
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
        except OSError as error:
            return f"failed {error}"
        return f"started {self._process.pid}"

    def state(self) -> str:
        """Tell whether the server runs."""
        code = self._process.poll() if self._process else 0
        return "running" if code is None else f"ended {code}"

    def kill(self) -> str:
        """End the server at once, as a crash would."""
        if self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                # The group, for a server may have a child of its own that rewrites the log of its data.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        return self.state()

    def end(self) -> None:
        """Ask the server to end, and kill it when it does not."""
        if self._process:
            self._process.terminate()
            # Stopped by a SIGSTOP, it would never see the request.
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self.kill()

    def reap(self, *_: object) -> None:
        """Let a server that ended by itself leave the table of processes."""
        if self._process:
            self._process.poll()


if __name__ == "__main__":
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # It ends after its owner, never before. Not SIG_IGN, which the server would inherit.
        signal.signal(number, lambda *_: None)
    main(*sys.argv[1:])
