"""The same four-server queue in other hands: what a simulated run is measured against."""

import heapq
import importlib
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

from qlab.drivers.statements import sql
from qlab.simulation import Run, simulate
from qlab.tokens import Tokens
from qlab.workload import Exponential, Poisson, Workload
from qlab.workload.streams import Streams

SERVERS = 4
ARRIVALS, SERVICES = Poisson(3.2), Exponential(1.0)
_SPAN = 90_000_000  # microseconds after which a reservation runs out


def qlab(jobs: int, seed: int, url: str = "memory://") -> Run:
    """Simulate M/M/4 here, with its trace; workers wake at once."""
    stated = Workload(ARRIVALS, SERVICES, jobs=jobs)
    return simulate(url, workers=SERVERS, poll=None, workload=stated, seed=seed, progress=False).whole()


def waits(run: Run) -> float:
    """Tell the mean wait of a run's jobs, in seconds."""
    found = [event.at - event.since for event in run.trace if event.since is not None]
    return sum(found) / len(found)


def customers(jobs: int, seed: int) -> Iterator[tuple[int, int]]:
    """Draw when each customer comes and how long it is served, in microseconds: those of a simulated run."""
    streams = Streams(seed)
    moments, service = ARRIVALS.moments(streams.of("arrivals")), SERVICES.sampler(streams.of("services"))
    return ((round(next(moments) * 1_000_000), service()) for _ in range(jobs))


def simpy() -> ModuleType | None:
    """Import SimPy; None where it is not installed."""
    try:
        return importlib.import_module("simpy")
    except ImportError:
        return None


def simpy_queue(simpy: Any, jobs: int, seed: int) -> float:
    """Simulate M/M/4 with SimPy, which keeps each customer's wait.

    Returns:
        The mean wait, in seconds.
    """
    environment = simpy.Environment()
    servers = simpy.Resource(environment, capacity=SERVERS)
    waited: list[float] = []

    def customer(service: float) -> Iterator[Any]:
        came = environment.now
        with servers.request() as turn:
            yield turn
            waited.append(environment.now - came)
            yield environment.timeout(service)

    def source() -> Iterator[Any]:
        for at, service in customers(jobs, seed):
            yield environment.timeout(at / 1_000_000 - environment.now)
            environment.process(customer(service / 1_000_000))

    environment.process(source())
    environment.run()
    return sum(waited) / len(waited)


def raw_sqlite(jobs: int, seed: int) -> float:
    """Simulate M/M/4 with the statements of the sqlite driver and nothing around them, in memory, without a trace.

    Returns:
        The mean wait, in seconds.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)) as connection:
        for table in ("jobs", "jobs_seq", "failed_jobs"):
            for statement in sql(f"schema_{table}"):
                connection.execute(statement)
        return _worked(connection, customers(jobs, seed))


def _worked(connection: sqlite3.Connection, coming: Iterator[tuple[int, int]]) -> float:
    execute, tokens, idle, ends = connection.execute, Tokens(), deque(range(SERVERS)), [(0, 0, 0, "")][:0]
    (next_seq, insert, *_), (reserve,), (complete,) = sql("push"), sql("reserve"), sql("complete")
    services: dict[int, int] = {}
    waited, jobs = 0, 0
    arrival = next(coming, None)
    while arrival is not None or ends:
        if arrival is not None and (not ends or arrival[0] < ends[0][0]):
            now, service = arrival
            execute("BEGIN IMMEDIATE")
            seq = execute(next_seq, {"count": 1}).fetchall()[0][0]
            row = {
                "uid": tokens.next(), "queue": "q", "name": "job", "payload": "null",
                "now": now, "available_at": now, "seq": seq,
            }  # fmt: skip
            services[execute(insert, row).fetchall()[0][0]] = service
            execute("COMMIT")
            arrival = next(coming, None)
            worker = idle.popleft() if idle else None
        else:
            now, worker, id, token = heapq.heappop(ends)
            execute(complete, {"id": id, "token": token}).fetchall()
        if worker is None:
            continue
        token = tokens.next()
        asked = {"queue": "q", "now": now, "deadline": now + _SPAN, "token": token}
        found = execute(reserve, asked).fetchall()
        if not found:
            idle.append(worker)
            continue
        since, id = found[0][0], found[0][2]
        waited, jobs = waited + now - since, jobs + 1
        heapq.heappush(ends, (now + services.pop(id), worker, id, f"{token}-{id}"))
    return waited / jobs / 1_000_000
