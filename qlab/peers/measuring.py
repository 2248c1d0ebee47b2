"""The same jobs through qlab and its peers, in worker processes, in turn: how many a second each does."""

import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from qlab.clock import monotonic
from qlab.crew import Crew
from qlab.drivers.server import EmbeddedServer
from qlab.errors import MissingRequirement, QlabError
from qlab.peers.rounds import Compared, Round
from qlab.peers.table import OURS, PEERS, Peer
from qlab.whole import is_whole

WORKERS = (1, 4)
"""How many processes work, unless it is said otherwise."""

PERSISTENCE = "everysec"
"""How the server of those on Redis keeps its jobs, which compares with SQLite's NORMAL; it is reached over TCP."""

_FEWEST = 20  # jobs
_ONE_BY_ONE = 200  # jobs: how many are stored one at a time to measure that
_PATIENCE = 60.0  # seconds


def measure(
    names: Iterable[str] = (),
    *,
    workers: Sequence[int] = WORKERS,
    repeats: int = 3,
    seconds: float = 1.0,
    seed: int = 0,
    progress: Callable[[float, str], object] = lambda *_: None,
) -> Compared:
    """Let qlab and its peers work jobs that do nothing; each repeat measures all of them, in an order of its own.

    Each has a store of its own every time, in which nothing was before. A Ctrl-C ends it: what was measured until then
    is returned. No process and no file is left when it returns or raises.

    Args:
        names: Which of `OURS` and `PEERS`; all by default.
        workers: How many processes.
        repeats: How often.
        seconds: About how long each measurement takes; it tells how many jobs there are.
        seed: Where the random orders start.
        progress: Told the share that is done, and who is next.

    Raises:
        ValueError: A name is none of theirs, or a number is out of its range.
    """
    compared = Compared(_chosen(names))
    for what, numbers in (("workers", tuple(workers)), ("repeats", (repeats,))):
        if not numbers or not all(is_whole(number, 1) for number in numbers):
            raise ValueError(f"{what} is {numbers!r}: use whole numbers from 1")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds is {seconds!r}: use a number above 0")
    compared.missing.update(reasons(compared.peers))
    here = [peer for peer in compared.peers if peer.name not in compared.missing]
    arms, chance = [(peer, number) for peer in here for number in workers], random.Random(seed)
    order = [arm for _ in range(repeats) for arm in chance.sample(arms, len(arms))]
    try:
        for place, (peer, number) in enumerate(order):
            progress(place / len(order), peer.name)
            if peer.name not in compared.missing:
                _add(compared, peer, number, max(_FEWEST, round(peer.pace * seconds)))
        progress(1.0, "")
    except KeyboardInterrupt:
        return replace(compared, interrupted=True)
    return compared


def _add(compared: Compared, peer: Peer, workers: int, jobs: int) -> None:
    try:
        compared.rounds.append(measure_once(peer, workers, jobs))
    except QlabError as error:  # The others can be measured all the same.
        told = str(error).splitlines()
        compared.missing[peer.name] = " … ".join(dict.fromkeys([told[0], told[-1]]))  # without a worker's traceback


def measure_once(peer: Peer, workers: int, jobs: int) -> Round:
    """Measure one peer once, in a fresh store.

    Raises:
        QlabError: A worker ended by itself, or they were not done for very long.
    """
    module: Any = import_module(f"qlab.peers.{peer.module}")
    with store(peer) as (address, server):
        one_by_one = min(jobs, _ONE_BY_ONE)
        began = monotonic()
        module.enqueue(address, range(one_by_one))
        enqueuing = monotonic() - began
        getattr(module, "fill", module.enqueue)(address, range(one_by_one, jobs))
        handled, seconds, cpu = _worked(peer, address, workers, _PATIENCE + 10 * jobs / peer.pace)
    return Round(
        peer=peer,
        server=server,
        workers=workers,
        jobs=jobs,
        jobs_per_second=len(handled) / seconds,
        enqueue_per_second=one_by_one / enqueuing,
        worker_cpu=cpu,
        lost=jobs - len(handled),
        duplicated=sum(times > 1 for times in handled.values()),
    )


@contextmanager
def store(peer: Peer) -> Iterator[tuple[str, str]]:
    """Make a fresh store for a peer: its address, as that peer takes it, and a description; it is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="qlab-peer-") as folder:
        ours = peer.package == "qlab"
        if peer.store == "SQLite":
            path = Path(folder, "jobs.db")
            server = f"SQLite {sqlite3.sqlite_version}, WAL, synchronous={peer.synchronous}"
            yield f"sqlite:///{quote(str(path))}?synchronous={peer.synchronous}" if ours else str(path), server
            return
        with EmbeddedServer(persistence=PERSISTENCE, tcp=True) as redis:
            server = f"{redis.name} {redis.version}, AOF {PERSISTENCE}"
            failed = f"?failed_jobs=sqlite:///{quote(folder)}/failed.db"
            yield f"{redis.tcp_url}{failed}" if ours else redis.tcp_url, server


def reasons(peers: Sequence[Peer]) -> dict[str, str]:
    """Say why some cannot be measured here, by their names."""
    server = _no_server() if any(peer.store == "Redis" for peer in peers) else ""
    found = {peer.name: peer.missing() or (server if peer.store == "Redis" else "") for peer in peers}
    return {name: reason for name, reason in found.items() if reason}


def _worked(peer: Peer, address: str, workers: int, patience: float) -> tuple[Counter[int], float, float]:
    """Let workers work until nothing is left: how often each job was handled, how long it took, and their CPU time."""
    handled: Counter[int] = Counter()
    last = cpu = 0.0
    with Crew("qlab.peers.worker", [{"module": peer.module, "address": address}] * workers) as crew:
        began = crew.go()
        for message in crew.messages():
            if message is not None:
                _, (_, numbers, moment, took) = message
                handled.update(numbers)
                last, cpu = max(last, moment), cpu + took
            elif monotonic() > began + patience:
                raise QlabError(f"{peer.name} was not done after {patience:.0f} s")
    if not handled:
        raise QlabError(f"{peer.name} handled none of the jobs")
    return handled, last - began, cpu


def _chosen(names: Iterable[str]) -> tuple[Peer, ...]:
    there = [peer.name for peer in (*OURS, *PEERS)]
    wanted = set(names)
    if unknown := sorted(wanted - set(there)):
        raise ValueError(f"there is no peer {unknown[0]!r}: use {', '.join(there)}")
    return tuple(peer for peer in (*OURS, *PEERS) if peer.name in wanted or not wanted)


def _no_server() -> str:
    try:
        EmbeddedServer().close()
    except MissingRequirement as error:
        return str(error)
    return ""
