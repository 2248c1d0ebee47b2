"""A network between clients and a server: everything comes through, in order, and never before its time."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from qlab.clock import monotonic
from qlab.contend import relay as module
from qlab.contend.relay import Relay
from qlab.errors import DriverUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0  # seconds


class Echo:
    """A server that says back what it hears, after a greeting that nobody asks for."""

    def __init__(self, place: str | tuple[str, int]) -> None:
        family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
        self._listening = socket.create_server(place, family=family)
        self.place = place if isinstance(place, str) else ("127.0.0.1", self._listening.getsockname()[1])
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(Thread(target=self._echo, args=[connection]))
            self._threads[-1].start()

    def _echo(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # a client may be gone
            connection.sendall(b"hello\n")
            while heard := connection.recv(65_536):
                if heard == b"leave\n":
                    return
                connection.sendall(heard)
            connection.sendall(b"bye\n")

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.fixture(params=["port", "socket"])
def echo(request: pytest.FixtureRequest) -> Iterator[Echo]:
    if request.param == "socket" and sys.platform == "win32":
        pytest.skip("Windows has no Unix sockets")
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(prefix="r"))  # short: the path of a socket may not be long
        place = f"{folder}/socket" if request.param == "socket" else ("127.0.0.1", 0)
        yield opened.enter_context(closing(Echo(place)))


def call(relay: Relay) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE)
    assert heard(connection, 6) == b"hello\n"
    return connection


def heard(connection: socket.socket, size: int) -> bytes:
    """Hear so many bytes, or fewer where the other side ends."""
    parts = []
    while size and (part := connection.recv(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@pytest.mark.parametrize("delay", [0.0005, 0.02])
def test_no_round_trip_takes_less_than_is_added(echo: Echo, delay: float) -> None:
    with Relay(echo.place, delay) as relay, call(relay) as connection:
        for _ in range(20):
            asked = monotonic()
            connection.sendall(b"ping")
            assert heard(connection, 4) == b"ping"
            assert monotonic() - asked >= delay


def test_much_that_is_said_at_once_comes_in_order_and_is_not_delayed_in_turn(echo: Echo) -> None:
    said = random.Random(7).randbytes(4_000_000)
    with Relay(echo.place, 0.2) as relay, call(relay) as connection:
        asked = monotonic()
        speaking = Thread(target=connection.sendall, args=[said])
        speaking.start()
        assert heard(connection, len(said)) == said
        speaking.join(PATIENCE)
        assert 0.2 <= monotonic() - asked < PATIENCE


def test_many_clients_are_carried_side_by_side(echo: Echo) -> None:
    with Relay(echo.place, 0.01) as relay, ExitStack() as opened:
        clients = [opened.enter_context(call(relay)) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(b"%04d" % number)
        assert [int(heard(client, 4)) for client in clients] == list(range(20))


def test_the_end_comes_after_all_that_was_said_from_either_side(echo: Echo) -> None:
    with Relay(echo.place, 0.02) as relay:
        with call(relay) as connection:
            connection.sendall(b"last words")
            connection.shutdown(socket.SHUT_WR)
            assert heard(connection, 1_000) == b"last wordsbye\n"
        with call(relay) as connection:
            connection.sendall(b"leave\n")
            assert heard(connection, 1_000) == b""


def test_where_there_is_no_server_a_client_is_hung_up_on_and_may_come_again(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = "127.0.0.1", probe.getsockname()[1]
    with Relay(place, 0.001) as relay:
        for _ in range(2):
            connection = socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE)
            with connection, suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with closing(Echo(place)), call(relay) as connection:
            connection.sendall(b"ping")
            assert heard(connection, 4) == b"ping"


def test_it_ends_when_it_is_closed_and_hangs_up(echo: Echo) -> None:
    relay = Relay(echo.place, 0.001)
    with call(relay) as connection:
        relay.close()
        relay.close()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE)


def test_it_ends_with_whoever_holds_its_input(echo: Echo) -> None:
    relay = Relay(echo.place, 0.001)
    process = relay._process  # noqa: SLF001 - its owner is as good as killed where this closes
    assert process.stdin
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    relay.close()


def test_a_relay_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "relay.py"))
    with pytest.raises(DriverUnavailable, match="cannot be started: .*relay_process.py"):
        Relay(("127.0.0.1", 1), 0.001)
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    with pytest.raises(DriverUnavailable, match="cannot be started: no more processes"):
        Relay(("127.0.0.1", 1), 0.001)


def _no_process(*_: object, **__: object) -> None:
    raise BlockingIOError("no more processes")
