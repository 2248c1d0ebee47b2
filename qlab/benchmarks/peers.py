"""How fast qlab is beside other queues, on stores that are as durable."""

from collections.abc import Callable, Sequence

from qlab.benchmarks.figures import Benchmark, Figure, Values
from qlab.errors import QlabError
from qlab.peers.measuring import WORKERS, measure, reasons
from qlab.peers.rounds import Compared
from qlab.peers.table import PEERS, Peer

_SECONDS = 3e-6  # each measurement takes for each job that is asked for, about

_LEAST = {"SQLite": "at least 2.2", "Redis": "at least 2"}
_LEAST_UNACKNOWLEDGED = {"SQLite": "at least 1.4", "Redis": "at least 2"}


def _against(peer: Peer) -> str:
    """Name the arm of qlab that is as durable."""
    return f"qlab {peer.store} {peer.synchronous}".strip()


def _figure(peer: Peer, workers: int) -> str:
    return f"qlab / {peer.package}, {workers}"


def _benchmark(store: str) -> Benchmark:
    peers = [peer for peer in PEERS if peer.store == store]
    return Benchmark(
        f"peers_{store.lower()}",
        f"jobs that do nothing through qlab and other queues on {store}, by one and by four processes",
        tuple(Figure(_figure(peer, workers), "", _aim(peer)) for peer in peers for workers in WORKERS),
        _measuring(peers),
        lambda: "; ".join(dict.fromkeys(reasons(peers).values())),
    )


def _aim(peer: Peer) -> str:
    return (_LEAST if peer.acknowledges else _LEAST_UNACKNOWLEDGED)[peer.store]


def _measuring(peers: Sequence[Peer]) -> Callable[[int, int], Values]:
    def run(jobs: int, run: int) -> Values:
        missing = reasons(peers)
        here = [peer for peer in peers if peer.name not in missing]
        if not here:
            return {}
        names = {name for peer in here for name in (peer.name, _against(peer))}
        compared = measure(names, repeats=1, seconds=jobs * _SECONDS, seed=run)
        if compared.interrupted:
            raise KeyboardInterrupt
        _check(compared)
        rates = {(each.peer.name, each.workers): each.jobs_per_second for each in compared.rounds}
        return {
            _figure(peer, workers): rates[_against(peer), workers] / rates[peer.name, workers]
            for peer in here
            for workers in WORKERS
            if (peer.name, workers) in rates
        }

    return run


def _check(compared: Compared) -> None:
    """Hold qlab to what it promises: a rate of jobs of which some were lost or done twice is none."""
    for each in compared.rounds:
        if each.peer.package == "qlab" and (each.lost or each.duplicated):
            told = f"{each.lost} jobs were lost and {each.duplicated} done twice"
            raise QlabError(f"{each.peer.name} with {each.workers} processes: {told}, of {each.jobs}")
    for peer in compared.peers:
        if peer.package == "qlab" and (why := compared.missing.get(peer.name)):
            raise QlabError(f"{peer.name} was not measured: {why}")


BENCHMARKS: tuple[Benchmark, ...] = (_benchmark("SQLite"), _benchmark("Redis"))
"""What is measured beside other queues."""
