"""One queue in six shards: on one node of a Redis Cluster, and on three, by as many processes."""

from contextlib import closing
from importlib import import_module
from typing import Any

from qlab import drivers
from qlab.benchmarks.figures import Benchmark, Figure, Values
from qlab.crew import Crew
from qlab.errors import MissingRequirement, QlabError
from qlab.theory import Closed

SHARDS = 6
NODES = 3


def missing() -> str:
    """Say why there can be no nodes here; empty where there can."""
    try:
        drivers.require_redis()
        _nodes().program()
    except MissingRequirement as error:
        return str(error)
    return ""


def _shards(jobs: int, run: int) -> Values:
    """A tenth of the jobs on each; what a node could do is worked out from one process alone."""
    if missing():
        return {}
    count = max(jobs // 10, SHARDS)
    with _nodes().Nodes(1) as one, _nodes().Nodes(NODES) as three:
        alone, _ = _worked(one, count, 1)
        arms = {"one node": one, "three nodes": three}
        found = {name: _worked(arms[name], count, SHARDS) for name in sorted(arms, reverse=bool(run % 2))}
    rates = {name: rate for name, (rate, _) in found.items()}
    service = found["one node"][1]
    think = max(1 / alone - service, service / 1_000)
    full, apart = Closed(SHARDS, think, service), Closed(SHARDS // NODES, think, service)
    return rates | {
        "one process": alone,
        "three / one": rates["three nodes"] / rates["one node"],
        "three / one, model": NODES * apart.throughput / full.throughput,
        "a node's time": service * 1e6,
        "most of a node": 1 / service,
        "processes that fill a node": full.knee,
    }


def _worked(nodes: Any, count: int, processes: int) -> tuple[float, float]:
    """Let processes work so many jobs, each a queue; tell the jobs a second, and the nodes' processor time of a job."""
    raw, each = import_module("qlab.peers.raw_redis"), count // processes
    with drivers.open(f"{nodes.url}?failed_jobs=sqlite:///:memory:") as driver:
        places = [raw.place_of(driver, f"mail-{number}") for number in range(processes)]
    for place in places:
        with closing(raw.Ours(place)) as dispatcher:
            dispatcher.fill([{"i": number} for number in range(each)])
    with Crew("qlab.peers.raw_redis", [{"kind": "qlab", **place._asdict()} for place in places]) as crew:
        before, began = nodes.cpu(), crew.go()
        ends = [message[1][1:] for message in crew.messages() if message]
        used = nodes.cpu() - before
    done = sum(number for number, _ in ends)
    if done != each * processes:
        raise QlabError(f"{done} of {each * processes} jobs were done: a job was lost or came twice")
    return done / (max(moment for _, moment in ends) - began), used / done


def _nodes() -> Any:
    """Import what needs redis-py, which not everybody has."""
    return import_module("qlab.benchmarks.nodes")


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "shards",
        "six shards of a queue on one node of a Redis Cluster and on three, on this machine, by six processes",
        (
            Figure("one process", "jobs/s"), Figure("one node", "jobs/s"), Figure("three nodes", "jobs/s"),
            Figure("three / one"), Figure("three / one, model"), Figure("a node's time", "µs a job"),
            Figure("most of a node", "jobs/s"), Figure("processes that fill a node"),
        ),
        _shards,
        missing,
    ),
)  # fmt: skip
"""What is measured of a queue in shards."""
