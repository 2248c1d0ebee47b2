"""A crew of worker processes: they start together, tell what they do, and never outlive the process that made them.

Each is `python -m MODULE`. Its standard input gives it a line of JSON, a line when it may begin, and perhaps more;
where the input ends, so must the process. On its standard output it tells messages, each a JSON list on a line:
`["ready"]` first, and `["end", …]` last.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, Self, cast

from qlab.clock import monotonic
from qlab.errors import QlabError

Message = list[Any]
Inbox = SimpleQueue[tuple[int, Message | None]]

_START_DEADLINE = 60.0  # seconds
_GRACE = 3.0  # seconds
_SILENCE = 0.25  # seconds
_SHOWN_ERRORS = 4_000  # bytes
_KILLED_BY_SOMEBODY = (-9, -15)


class Crew:
    """Processes that are ready while the context is open, and gone when it closes.

    Args:
        module: What each of them runs, such as `qlab.contend.worker`; or one module for each.
        setups: The first line of each, a JSON value.
        check: Called now and then until all are ready; what it raises ends them.

    Attributes:
        killed: Which of them, from 0, somebody killed.

    Raises:
        QlabError: One could not get ready; what it wrote to its standard error is in the message.
    """

    def __init__(
        self,
        module: str | Sequence[str],
        setups: Sequence[dict[str, Any]],
        *,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self.killed: list[int] = []
        self._check = check
        self._modules = [module] * len(setups) if isinstance(module, str) else module
        self._setups = setups
        self._members: list[_Member] = []
        self._inbox: Inbox = SimpleQueue()

    def __enter__(self) -> Self:
        try:
            for number, module in enumerate(self._modules):
                self._members.append(_Member(module, number))
            for member, setup in zip(self._members, self._setups, strict=True):
                member.listen(self._inbox)
                member.say(json.dumps(setup))
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def go(self, word: object = "go") -> float:
        """Let all of them begin, and tell when that was, on the monotonic clock.

        Args:
            word: What each is told, a JSON value.
        """
        line = json.dumps(word)
        began = monotonic()
        for member in self._members:
            member.say(line)
        return began

    def say(self, line: str) -> None:
        """Tell each of them a line more."""
        for member in self._members:
            member.say(line)

    def messages(self) -> Iterator[tuple[int, Message] | None]:
        """Give what each of them tells, with its number, until all have ended; None after a quarter second of silence.

        One that somebody killed is noted in `killed`, and the others go on.

        Raises:
            QlabError: One ended by itself before its time; what it wrote to its standard error is in the message.
        """
        working = set(range(len(self._members)))
        ended: set[int] = set()
        while working:
            try:
                number, message = self._inbox.get(timeout=_SILENCE)
            except Empty:
                yield None
                continue
            if message is None:
                working.discard(number)
                if number not in ended:
                    self._note_death(self._members[number])
            else:
                if message[0] == "end":
                    ended.add(number)
                yield number, message

    def _wait_until_ready(self) -> None:
        deadline, waiting = monotonic() + _START_DEADLINE, set(range(len(self._members)))
        while waiting:
            self._check()
            try:
                number, message = self._inbox.get(timeout=_SILENCE)
            except Empty:
                if monotonic() < deadline:
                    continue
                raise QlabError(f"{len(waiting)} worker processes were not ready after {_START_DEADLINE:g} s") from None
            if message is None:
                raise self._members[number].obituary()
            waiting.discard(number)

    def _note_death(self, member: "_Member") -> None:
        if member.wait(_GRACE) not in _KILLED_BY_SOMEBODY:
            raise member.obituary()
        self.killed.append(member.number)

    def _stop(self) -> None:
        deadline = monotonic() + _GRACE
        try:
            for member in self._members:
                member.let_go()
            for member in self._members:
                member.wait(deadline - monotonic())
        finally:
            for member in self._members:
                member.bury()


class _Member:
    """One process, and its pipes."""

    def __init__(self, module: str, number: int) -> None:
        # The same places as here, in the same order: it must find this qlab, and the handlers that are found here.
        places = os.pathsep.join(str(place or Path.cwd()) for place in sys.path)
        self.number = number
        self._listener: Thread | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PYTHONPATH": places},
            start_new_session=True,  # A Ctrl-C at the terminal reaches the process that made it, and that one ends it.
        )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)

    def listen(self, inbox: Inbox) -> None:
        """Let what it tells come into an inbox, and None where it has ended."""
        self._listener = Thread(target=self._listen, args=[inbox], daemon=True)
        self._listener.start()

    def say(self, line: str) -> None:
        with suppress(OSError):  # It has died, which the inbox tells.
            self._input.write(f"{line}\n".encode())
            self._input.flush()

    def let_go(self) -> None:
        """End its input, and so it."""
        with suppress(OSError):
            self._input.close()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end, and tell its exit code; None where it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(max(0.0, seconds))
        return None

    def obituary(self) -> QlabError:
        """Tell how it ended, and what it said at last."""
        code = self.wait(_GRACE)
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _SHOWN_ERRORS))
        said = self._errors.read().decode(errors="replace").strip()
        return QlabError(f"worker process {self.number + 1} ended by itself (exit code {code}): {said or 'no word'}")

    def bury(self) -> None:
        """Kill it if it is still there, and close what belongs to it."""
        self._process.kill()
        self._process.wait()
        if self._listener:
            self._listener.join()
        self._output.close()
        self._errors.close()

    def _listen(self, inbox: Inbox) -> None:
        for line in self._output:
            if line.endswith(b"\n"):  # The last one is torn, where it was killed while it wrote.
                inbox.put((self.number, json.loads(line)))
        inbox.put((self.number, None))
