"""The nodes of a Redis Cluster side by side on this machine, each with its share of the slots."""

import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

import redis

from qlab.clock import monotonic, pause
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable, MissingRequirement

SLOTS = 16_384
_DEADLINE = 30.0  # seconds
_PORTS = 3  # somebody else may take a port between the look for a free one and the start


class Nodes:
    """A cluster of so many nodes while the context is open; each ends as an embedded server does.

    Args:
        count: How many nodes, from 1.

    Attributes:
        url: The address of the first, which is that of the whole; it holds the password of all.

    Raises:
        MissingRequirement: There is no redis-server on PATH.
        DriverUnavailable: They did not start, or did not agree.
    """

    def __init__(self, count: int) -> None:
        self._open = ExitStack()
        self._program = program()
        self._servers: list[EmbeddedServer] = []
        self._clients: list[redis.Redis] = []
        try:
            self._folder = Path(mkdtemp())
            self._open.callback(shutil.rmtree, self._folder)
            for number in range(count):
                self._start(number)
            self._join()
        except BaseException:
            self.close()
            raise
        self.url = self._servers[0].tcp_url

    def cpu(self) -> float:
        """Tell how many seconds of processor time the nodes have used."""
        told = [client.info("cpu") for client in self._clients]
        return sum(float(each["used_cpu_user"]) + float(each["used_cpu_sys"]) for each in told)

    def close(self) -> None:
        """End the nodes."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, number: int) -> None:
        for left in reversed(range(_PORTS)):
            script = self._folder / f"node-{number}"
            options = f"--cluster-enabled yes --cluster-port {_free_port()}"
            script.write_text(f'#!/bin/sh\nexec "{self._program}" "$@" {options}\n')
            script.chmod(0o755)
            try:
                server = self._open.enter_context(EmbeddedServer(binary=script, tcp=True))
            except DriverUnavailable:
                if not left:
                    raise
            else:
                client = redis.Redis.from_url(server.url, decode_responses=True)
                self._servers.append(server)
                self._clients.append(self._open.enter_context(client))
                return

    def _join(self) -> None:
        first, count = self._clients[0], len(self._clients)
        password = first.connection_pool.connection_kwargs["password"]
        for number, client in enumerate(self._clients):
            client.config_set("requirepass", password)
            client.connection_pool.connection_kwargs["password"] = password
            begin, end = (SLOTS * each // count for each in (number, number + 1))
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                bus = client.config_get("cluster-port")["cluster-port"]
                first.execute_command("CLUSTER", "MEET", "127.0.0.1", _port(self._servers[number]), bus)
        until = monotonic() + _DEADLINE
        while not all(self._agrees(client) for client in self._clients):
            if monotonic() > until:
                raise DriverUnavailable(f"the {count} nodes of a cluster did not agree within {_DEADLINE:g} s")
            pause(0.02)

    def _agrees(self, client: "redis.Redis") -> bool:
        told = client.execute_command("CLUSTER INFO")
        return bool(told["cluster_state"] == "ok" and int(told["cluster_known_nodes"]) == len(self._clients))


def program() -> str:
    """Tell which program the nodes run.

    Raises:
        MissingRequirement: There is none on PATH.
    """
    if found := shutil.which("redis-server"):
        return found
    raise MissingRequirement("there is no redis-server on PATH, of which the nodes of a cluster are made")


def _port(server: EmbeddedServer) -> str:
    return server.tcp_url.rpartition(":")[2]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
