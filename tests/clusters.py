"""A real Redis Cluster for the tests: three servers on the loopback."""

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import redis

from qlab.clock import monotonic, pause
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable

SLOTS = 16_384
_DEADLINE = 60.0


class ClusterOfThree:
    """Three primaries that share the slots; each ends as an embedded server does, and listens on TCP as well.

    Args:
        server: `redis`, to look for its program on the path.
        binary: The program, where it is known.

    Attributes:
        nodes: The servers.
        ports: Where each listens on 127.0.0.1.
        url: The address of the first.
    """

    def __init__(self, server: str = "", binary: str | os.PathLike[str] = "") -> None:
        self._program = str(binary) if binary else str(shutil.which(f"{server}-server"))
        self._open = ExitStack()
        self._folder = Path(mkdtemp())
        self._open.callback(shutil.rmtree, self._folder)
        self.nodes: list[EmbeddedServer] = []
        self.ports: list[int] = []
        try:
            for number in range(3):
                self._start(self._program, number)
            self._join()
        except BaseException:
            self.close()
            raise
        self.url = f"redis://127.0.0.1:{self.ports[0]}"

    def _start(self, program: str, number: int) -> None:
        # Somebody else may take a port between the look for a free one and the start.
        for tries_left in (2, 1, 0):
            port, bus = free_ports(2)
            script = self._folder / f"node-{number}"
            script.write_text(
                f'#!/bin/sh\nexec "{program}" "$@" --bind 127.0.0.1 --port {port} --cluster-enabled yes '
                f"--cluster-port {bus} --cluster-node-timeout 60000 --cluster-config-file nodes.conf\n"
            )
            script.chmod(0o755)
            try:
                self.nodes.append(self._open.enter_context(EmbeddedServer(persistence="always", binary=script)))
            except DriverUnavailable:
                if not tries_left:
                    raise
                continue
            self.ports.append(port)
            self.ask(number, "CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            if number:
                self.ask(0, "CLUSTER", "MEET", "127.0.0.1", str(port), str(bus))
            return

    def add_replica(self, of: int) -> int:
        """Start one more node, which copies a primary, and tell its number once it holds all that the primary does."""
        self._start(self._program, number := len(self.nodes))
        primary = self.ask(of, "CLUSTER", "MYID")
        self._wait(lambda: f"{primary} " in str(self.ask(number, "CLUSTER", "NODES")), "the replica knows no primary")
        self.ask(number, "CLUSTER", "REPLICATE", primary)
        link = "master_link_status"
        self._wait(lambda: self.ask(number, "INFO", "replication").get(link) == "up", "the replica copies nothing")
        return number

    def _join(self) -> None:
        bounds = [SLOTS * number // 3 for number in range(4)]
        for number in range(3):
            self.ask(number, "CLUSTER", "ADDSLOTSRANGE", str(bounds[number]), str(bounds[number + 1] - 1))
        self.wait_until_all_agree()

    def wait_until_all_agree(self, *numbers: int) -> None:
        """Wait until each of these nodes, or of all, knows the others and finds every slot served."""
        known = f"cluster_known_nodes:{len(self.nodes)}"
        for number in numbers or range(len(self.nodes)):
            self._wait(lambda number=number: {"cluster_state:ok", known} <= set(self.info(number)), "no agreement")

    def _wait(self, reached: Callable[[], bool], otherwise: str) -> None:
        until = monotonic() + _DEADLINE
        while not reached():
            assert monotonic() < until, otherwise
            pause(0.02)

    def info(self, number: int) -> list[str]:
        """What a node says of the cluster, line by line."""
        with redis.Redis(unix_socket_path=self.nodes[number].socket) as client:
            said: Any = client.execute_command("CLUSTER", "INFO")
        return said.decode().splitlines() if isinstance(said, bytes) else [f"{key}:{said[key]}" for key in said]

    def ask(self, number: int, *words: str) -> Any:
        """Give a command to one node, whatever slot it is about."""
        with redis.Redis(unix_socket_path=self.nodes[number].socket, decode_responses=True) as client:
            return client.execute_command(*words)

    def owner(self, slot: int) -> int:
        """The number of the node that had a slot at the start."""
        return next(number for number in range(3) if slot < SLOTS * (number + 1) // 3)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback on which nobody listens."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
