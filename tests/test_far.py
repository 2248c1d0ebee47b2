"""Past one machine: a worker needs no more than an address, and what is in the way is told with the way out."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from conftest import QUEUE, program
from networks import HERE, NOBODY, THERE, TwoMachines, two_machines
from working import ROOT, Shop

from qlab import Queue
from qlab.driver import Counts
from qlab.drivers.server import EmbeddedServer

PORT = 6379  # a namespace has all ports of its own


@pytest.fixture(scope="module")
def machines() -> Iterator[TwoMachines]:
    with two_machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def server(machines: TwoMachines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server on the first machine that the second reaches; each test has a prefix of its own."""
    program("redis")
    script = tmp_path_factory.mktemp("server") / "redis"
    options = f"--bind {HERE} 127.0.0.1 --port {PORT} --protected-mode no"
    script.write_text(f'#!/bin/sh\nexec {" ".join(machines.here)} {shutil.which("redis-server")} "$@" {options}\n')
    script.chmod(0o755)
    with EmbeddedServer(persistence="everysec", binary=script) as server:
        yield server


@pytest.fixture
def shop(server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """An application on the first machine, whose module knows the server's socket there."""
    monkeypatch.setenv("SHOP_RETRY_AFTER", "2.5")
    options = f"prefix={tmp_path.name}&failed_jobs=sqlite:///{tmp_path}/failed.db"
    with closing(Shop(tmp_path / "shop", f"{server.url}?{options}")) as shop:
        yield shop


@pytest.fixture
def queue(shop: Shop) -> Iterator[Queue]:
    with Queue(shop.url, name=QUEUE) as queue:
        for name in ("hold", "quick"):
            queue.handler(name)(lambda job: None)
        yield queue


def from_there(shop: Shop) -> str:
    """The address of the shop's store for who is on the second machine."""
    return f"redis://{HERE}?{shop.url.partition('?')[2]}"


# -- two machines --


def test_one_command_line_on_another_machine_is_enough_and_what_it_dies_with_is_recovered_on_the_first(
    shop: Shop, queue: Queue, machines: TwoMachines, server: EmbeddedServer
) -> None:
    """The module's own address is a socket of the first machine; the second is told another."""
    queue.dispatch("quick", 1)
    queue.dispatch("hold")
    with shop.work("--poll", "0.05", "--url", from_there(shop), within=machines.there) as there:
        there.until(f"working=shop:queue at=redis://{HERE} workers=1")
        there.until("outcome=completed job=1 ")
        (begun,) = there.until("begun ")
        with redis.Redis(unix_socket_path=server.socket) as client:  # files are the same on both, sockets among them
            assert any(each["addr"].startswith(f"{THERE}:") for each in client.client_list())
        there.signal(signal.SIGKILL)
        os.kill(int(begun.split()[1]), signal.SIGKILL)
    with shop.work("--poll", "0.05", within=machines.here) as here:
        here.until("working=shop:queue workers=1")
        (begun,) = here.until("begun ")
        assert begun.split()[2:] == ["2", "2"]  # the same job, as its second attempt
        shop.open_gate()
        here.until("outcome=completed job=2 ")
        here.signal(signal.SIGTERM)
        assert here.end() == 0
    assert queue.counts() == Counts()


def test_a_failed_job_is_kept_by_the_machine_on_which_it_failed(
    shop: Shop, queue: Queue, machines: TwoMachines, tmp_path: Path
) -> None:
    queue.dispatch("quick", 1)
    url = from_there(shop).replace("failed.db", "of-the-second.db")
    (shop.folder / "broken.py").write_text(
        "import shop\nqueue = shop.queue\n@queue.handler('quick', tries=1)\ndef quick(job): raise ValueError('boom')\n"
    )
    with shop.work("--poll", "0.05", "--url", url, target="broken:queue", within=machines.there) as there:
        there.until("outcome=failed job=1 ")
        there.signal(signal.SIGTERM)
        assert there.end() == 0
    assert queue.failed() == []
    with Queue(f"{shop.url}".replace("failed.db", "of-the-second.db"), name=QUEUE) as second:
        assert [job.name for job in second.failed()] == ["quick"]
        second.copy_handlers(queue)
        second.retry("all")
    assert queue.counts() == Counts(ready=1)


# -- what is in the way --

_OPEN = """
import sys
from qlab import drivers
from qlab.errors import QlabError
for url in sys.argv[1:]:
    try:
        drivers.open(f"{url}?reply_wait=0.5&failed_jobs=sqlite:///:memory:").close()
        print("opened")
    except QlabError as error:
        print(error)
"""

REFUSALS = {
    f"redis://{HERE}:6378": "does not answer (Connection refused): is a server running there? And does it listen to",
    f"redis://{NOBODY}": "does not answer (timed out): is a server running there? And does every firewall between let",
    "redis://10.88.0.1": "does not answer (Network is unreachable): is a server running there? And does every firewall",
    "redis://no-such-machine.invalid": "And is the name of its machine right?",
    "redis://127.0.0.1:6378": "does not answer (Connection refused): is a server running there? redis+embedded://",
}


def told_there(machines: TwoMachines, folder: Path, *urls: str) -> list[str]:
    """What `drivers.open` says on the second machine to each address."""
    words = [*machines.there, sys.executable, "-c", _OPEN, *urls]
    done = subprocess.run(
        words, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def test_who_is_not_reached_is_named_with_what_may_be_in_the_way(
    machines: TwoMachines, server: EmbeddedServer, tmp_path: Path
) -> None:
    for (url, says), told in zip(REFUSALS.items(), told_there(machines, tmp_path, *REFUSALS), strict=True):
        assert told.startswith(f"{url} ")
        assert says in told


def test_a_server_in_protected_mode_is_told_how_to_let_others_in(
    machines: TwoMachines, server: EmbeddedServer, tmp_path: Path
) -> None:
    with redis.Redis(unix_socket_path=server.socket) as client:
        client.config_set("protected-mode", "yes")
        try:
            (told,) = told_there(machines, tmp_path, f"redis://{HERE}")
            assert told.startswith(f"redis://{HERE} ")
            assert "in protected mode" in told
            assert "set a password there (requirepass)" in told
            client.config_set("requirepass", "secret")
            without, with_it = told_there(machines, tmp_path, f"redis://{HERE}", f"redis://:secret@{HERE}")
            assert "the server wants a password: put it into the address" in without
            assert with_it == "opened"
        finally:
            client.config_set("requirepass", "")
            client.config_set("protected-mode", "no")
