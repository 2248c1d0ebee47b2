"""Two machines for the tests: namespaces of the network, with a cable between, on this one."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from typing import Self

import pytest

HERE, THERE = "10.87.0.1", "10.87.0.2"
NOBODY = "10.87.0.9"
"""An address of the same network whose machine swallows whatever comes, as a firewall does."""


class TwoMachines:
    """The first has the address `HERE`, the second `THERE`; files are the same on both.

    Attributes:
        here: What a command begins with that runs on the first, a list of words.
        there: The same for the second.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        names = [f"qlab-{os.getpid()}-{side}" for side in ("here", "there")]
        self.here, self.there = (["ip", "netns", "exec", name] for name in names)
        try:
            for name in names:
                self._ip("netns", "add", name)
                self._open.callback(self._ip, "netns", "delete", name)
            self._ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "cable", "netns", names[1])
            for name, address in zip(names, (HERE, THERE), strict=True):
                self._ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
                self._ip("-n", name, "link", "set", "cable", "up")
                self._ip("-n", name, "link", "set", "lo", "up")
            self._ip("-n", names[1], "neighbour", "add", NOBODY, "lladdr", "02:00:00:00:00:09", "dev", "cable")
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"namespaces of the network cannot be made here: {error.stderr.strip()}")

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def two_machines() -> TwoMachines:
    """Make them; where this is not allowed the test is skipped."""
    if not shutil.which("ip"):
        pytest.skip("namespaces of the network are made with ip (iproute2), which is not here")
    if os.geteuid():
        pytest.skip("namespaces of the network are made by root")
    return TwoMachines()
