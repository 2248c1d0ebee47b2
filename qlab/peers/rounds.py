"""What was measured of qlab and its peers, as it was and summed up."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from qlab.driver import SURVIVED
from qlab.peers.table import Peer

_SURVIVES = {
    "NORMAL": SURVIVED[2],
    "FULL": SURVIVED[3],
    "": SURVIVED[2],
}  # on Redis, an AOF that is synced every second


@dataclass(frozen=True, slots=True)
class Round:
    """One queue, measured once.

    Attributes:
        peer: Which queue.
        server: Product, version and settings of the store.
        workers: How many processes worked.
        jobs: How many jobs there were.
        jobs_per_second: How many different ones were handled in a second, up to the last.
        enqueue_per_second: How many one process stored in a second, one at a time.
        worker_cpu: The workers' processor time, in seconds.
        lost: How many were not handled.
        duplicated: How many were handled more than once.
    """

    peer: Peer
    server: str
    workers: int
    jobs: int
    jobs_per_second: float
    enqueue_per_second: float
    worker_cpu: float
    lost: int
    duplicated: int


@dataclass(frozen=True, slots=True)
class Compared:
    """What was measured of qlab and its peers.

    Attributes:
        peers: Who was to be measured, in the order of the table.
        rounds: Every measurement, in the order in which they were made.
        missing: Why one was not measured, by its name.
        interrupted: Whether somebody ended it before all was measured.
    """

    peers: tuple[Peer, ...]
    rounds: list[Round] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """Sum it up: a row for each queue and number of workers, as `frames.peers` tells."""
        arms: dict[tuple[int, int], list[Round]] = {}
        for one in self.rounds:
            arms.setdefault((self.peers.index(one.peer), one.workers), []).append(one)
        return [_row(arms[key]) for key in sorted(arms)]


def _row(rounds: list[Round]) -> dict[str, Any]:
    first, peer, rates = rounds[0], rounds[0].peer, [one.jobs_per_second for one in rounds]
    return {
        "peer": peer.package,
        "version": peer.version,
        "store": peer.store,
        "server": first.server,
        "survives": _SURVIVES[peer.synchronous],
        "workers": first.workers,
        "runs": len(rounds),
        "jobs": first.jobs,
        "jobs_per_second": median(rates),
        "low": min(rates),
        "high": max(rates),
        "enqueue_per_second": median(one.enqueue_per_second for one in rounds),
        "worker_cpu": median(one.worker_cpu / one.jobs for one in rounds),
        "lost": sum(one.lost for one in rounds),
        "duplicated": sum(one.duplicated for one in rounds),
        "acknowledges": peer.acknowledges,
        "retries": peer.retries,
        "delays": peer.delays,
        "loses": peer.loses,
        "together": peer.together,
        "source": peer.source,
    }
