"""A primary, a replica and three sentinels that watch over them, on the loopback, for the tests of a failover."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import redis
from clusters import free_ports

from qlab.clock import monotonic, pause
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable

SERVICE = "jobs"
PASSWORD = "correct horse"
_DEADLINE = 60.0
_IDS = [f"{letter * 40}" for letter in "abc"]

_SENTINEL = """
sentinel myid {id}
sentinel monitor {service} 127.0.0.1 {primary} 2
sentinel auth-pass {service} "{password}"
sentinel down-after-milliseconds {service} 400
sentinel failover-timeout {service} 3000
sentinel known-replica {service} 127.0.0.1 {replica}
"""


class Watched:
    """Each server ends as an embedded one does; the sentinels know each other from the start, which spares seconds.

    Args:
        server: `redis`, to look for its program on the path.
        binary: The program, where it is known.

    Attributes:
        servers: The primary, and its replica.
        sentinels: The three that watch over them.
        ports: Where the five listen on 127.0.0.1.
        url: The address of the service.
    """

    def __init__(self, server: str = "", binary: str | os.PathLike[str] = "") -> None:
        self._program = str(binary) if binary else str(shutil.which(f"{server}-server"))
        self._open = ExitStack()
        self._folder = Path(mkdtemp())
        self._open.callback(shutil.rmtree, self._folder)
        self.servers: list[EmbeddedServer] = []
        self.sentinels: list[EmbeddedServer] = []
        try:
            for tries_left in (2, 1, 0):  # somebody else may take a port between the look for a free one and the start
                try:
                    self._start()
                    break
                except DriverUnavailable:
                    if not tries_left:
                        raise
        except BaseException:
            self.close()
            raise
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports[2:])
        self.url = f"redis+sentinel://:{PASSWORD.replace(' ', '%20')}@{hosts}/{SERVICE}"

    def _start(self) -> None:
        self.ports = free_ports(5)
        self.sentinels = []
        primary, replica, *watching = self.ports
        follow = f"--replicaof 127.0.0.1 {primary} --repl-diskless-sync-delay 0"
        self.servers = [
            self._run("primary", f"--bind 127.0.0.1 --port {primary} --repl-diskless-sync-delay 0", "everysec"),
            self._run("replica", f"--bind 127.0.0.1 --port {replica} {follow}", "everysec"),
        ]
        for server in self.servers:  # which is asked without a password while it starts
            with redis.Redis(unix_socket_path=server.socket) as client:
                client.config_set("masterauth", PASSWORD)
                client.config_set("requirepass", PASSWORD)
        self.wait_for(lambda: self.tells(1, "master_link_status") == "up", "the replica copies nothing")
        for number, port in enumerate(watching):
            file = self._folder / f"sentinel-{number}.conf"
            others = [each for each in range(3) if each != number]
            known = [f"sentinel known-sentinel {SERVICE} 127.0.0.1 {watching[each]} {_IDS[each]}" for each in others]
            told = _SENTINEL.format(
                id=_IDS[number], service=SERVICE, primary=primary, replica=replica, password=PASSWORD
            )
            file.write_text(told + "\n".join(known) + "\n")
            options = f"--sentinel --bind 127.0.0.1 --port {port}"
            self.sentinels.append(self._run(f"sentinel-{number}", options, file=str(file)))

    def _run(self, name: str, options: str, persistence: str = "none", *, file: str = "") -> EmbeddedServer:
        script = self._folder / name
        script.write_text(f'#!/bin/sh\nexec "{self._program}" {file} "$@" {options}\n')
        script.chmod(0o755)
        return self._open.enter_context(EmbeddedServer(persistence=persistence, binary=script))

    # -- what happens to them --

    def kill_primary(self) -> None:
        """Kill the first server with SIGKILL."""
        self.servers[0].kill()

    @contextmanager
    def frozen_primary(self) -> Iterator[None]:
        """Let the first server stand still meanwhile."""
        os.kill(self.servers[0].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.servers[0].pid, signal.SIGCONT)

    def swap_roles(self) -> None:
        """Make the second server the primary of the first, before any sentinel hears of it."""
        self.ask(1, "REPLICAOF", "NO", "ONE")
        self.ask(0, "REPLICAOF", "127.0.0.1", str(self.ports[1]))

    def tell_sentinels(self) -> None:
        """Let every sentinel call the second server the primary."""
        for sentinel in self.sentinels:
            with redis.Redis(unix_socket_path=sentinel.socket) as client:
                client.execute_command("SENTINEL", "REMOVE", SERVICE)
                client.execute_command("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", str(self.ports[1]), "2")

    def wait_for_failover(self) -> None:
        """Wait until every sentinel names the second server."""
        named = [b"127.0.0.1", str(self.ports[1]).encode()]
        self.wait_for(lambda: all(self.named(number) == named for number in range(3)), "no failover")

    def cut_replication(self) -> None:
        """Let the replica hear no more of what the primary is told, and the sentinels think nothing of it."""
        self.ask(0, "ACL", "SETUSER", "default", "-psync", "-sync")
        self.ask(0, "CLIENT", "KILL", "TYPE", "replica")

    def wait_for_replica(self) -> None:
        """Wait until the replica has all that the primary was told before this call."""
        with self._client(0) as client:
            client.set("the last", "word")
            assert client.execute_command("WAIT", 1, 60_000) == 1

    # -- what they say --

    def ask(self, number: int, *words: str) -> Any:
        """Give a command to one of the servers."""
        with self._client(number) as client:
            return client.execute_command(*words)

    def tells(self, number: int, what: str) -> Any:
        """Tell what one of the servers says of its replication."""
        return self.ask(number, "INFO", "replication").get(what)

    def named(self, number: int) -> Any:
        """Tell where one of the sentinels says that the primary is."""
        with redis.Redis(unix_socket_path=self.sentinels[number].socket) as client:
            return client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)

    def wait_for(self, reached: Any, otherwise: str) -> None:
        until = monotonic() + _DEADLINE
        while not reached():
            assert monotonic() < until, f"{otherwise}: {self._logs()}"
            pause(0.02)

    def _logs(self) -> str:
        running = (*self.servers, *self.sentinels)
        return "\n".join((server.folder / "server.log").read_text()[-2_000:] for server in running)

    def _client(self, number: int) -> redis.Redis:
        return redis.Redis(unix_socket_path=self.servers[number].socket, password=PASSWORD)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
