"""An endpoint for Prometheus, through the package `prometheus-client`: what workers did, and how many jobs are where.

| metric | kind | labels |
|---|---|---|
| `qlab_attempts_total` | counter | `queue`, `handler`, `outcome` (`completed`, `released`, `retrying`, `failed`, …) |
| `qlab_run_seconds` | histogram | `queue`, `handler`: from reserved to settled |
| `qlab_wait_seconds` | histogram | `queue`, `handler`: from claimable to reserved |
| `qlab_jobs` | gauge | `queue`, `state` (`ready`, `delayed`, `reserved`, `failed`): asked of the store at each scrape |
| `qlab_store_up` | gauge | `queue`: 1, or 0 where the store did not answer |

What is counted is what this process does. The processes of `qlab work --metrics PORT` count together.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Self

from qlab.errors import MissingRequirement, QlabError
from qlab.job import Reservation
from qlab.outcome import Settled
from qlab.queue import Queue

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.multiprocess import MultiProcessCollector
except ImportError as error:
    raise MissingRequirement("the package prometheus-client is not installed: pip install prometheus-client") from error

PORT = 9464
"""The port that such endpoints often have."""

_LABELS = ("queue", "handler")
_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 90.0, 300.0, 1800.0)
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Endpoint:
    """A page of metrics over HTTP, in threads of its own, until it is closed.

    Attributes:
        url: Where it is.
        port: Its port; of 0 the first that is free.
    """

    def __init__(self, registry: CollectorRegistry, port: int, address: str) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            raise OSError(f"no metrics can be served at {address} port {port}: {error.strerror or error}") from error
        self.port = self._server.server_port
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}/metrics"

    def close(self) -> None:
        """Close it; closing twice is harmless."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_metrics(
    queue: Queue, *, port: int = PORT, address: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> Endpoint:
    """Count what this process does with a queue from now on, and serve it.

    Args:
        queue: The queue.
        port: The port; 0 for one that is free.
        address: Who reaches it: this machine; `0.0.0.0` for every machine that reaches this one.
        registry: Where to put the metrics, as `prometheus_client.REGISTRY`; one of its own by default.

    Returns:
        The endpoint: close it, or leave its context.

    Raises:
        OSError: The port is taken.
        ValueError: The registry has these metrics already.
    """
    registry = CollectorRegistry() if registry is None else registry
    count_attempts(queue, registry)
    registry.register(_Jobs(lambda: queue))
    return Endpoint(registry, port, address)


@contextmanager
def serve_processes(opened: Callable[[], Queue], *, port: int, address: str = "127.0.0.1") -> Iterator[Endpoint]:
    """Serve what the processes count that are started meanwhile and call `count_attempts`, all together.

    Args:
        opened: Opens the queue for the counts of jobs; asked at the first scrape.
        port: The port; 0 for one that is free.
        address: Who reaches it.
    """
    with TemporaryDirectory(prefix="qlab-metrics-") as folder:
        registry, jobs = CollectorRegistry(), _Jobs(opened)
        MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]  # it has no types
        registry.register(jobs)
        with Endpoint(registry, port, address) as endpoint:
            os.environ[_FOLDER] = folder
            try:
                yield endpoint
            finally:
                del os.environ[_FOLDER]
        jobs.close()


def count_attempts(queue: Queue, registry: CollectorRegistry | None = None) -> None:
    """Count how the attempts of a queue end in this process, how long they run, and how long their jobs waited."""
    attempts = Counter("qlab_attempts", "Attempts that ended.", (*_LABELS, "outcome"), registry=registry)
    runs = Histogram("qlab_run_seconds", "From reserved to settled.", _LABELS, buckets=_BUCKETS, registry=registry)
    waits = Histogram("qlab_wait_seconds", "From claimable to reserved.", _LABELS, buckets=_BUCKETS, registry=registry)

    def hear(held: Reservation, outcome: Settled) -> None:
        labels, reserved_at = (queue.name, outcome.name), held.job.reserved_at or 0.0
        attempts.labels(*labels, type(outcome).__name__.lower()).inc()
        waits.labels(*labels).observe(max(0.0, reserved_at - held.claimable_since))
        if outcome.attempt == held.job.attempts:  # else its attempts were used up, and nothing ran
            runs.labels(*labels).observe(max(0.0, outcome.at - reserved_at))

    queue.listen(hear)


class _Jobs:
    """Asks the store at each scrape how many jobs are where."""

    def __init__(self, opened: Callable[[], Queue]) -> None:
        self._opened = opened
        self._queue: Queue | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the queue, where it was opened here."""
        if self._queue is not None:
            self._queue.close()

    def describe(self) -> list[Metric]:
        """Tell the names without asking the store."""
        return [GaugeMetricFamily(name, "") for name in ("qlab_jobs", "qlab_store_up")]

    def collect(self) -> Iterator[Metric]:
        """Ask the store."""
        jobs = GaugeMetricFamily("qlab_jobs", "Jobs by state.", labels=("queue", "state"))
        up = GaugeMetricFamily("qlab_store_up", "Whether the store answers.", labels=("queue",))
        answered = 0
        with self._lock, suppress(QlabError, ValueError):
            self._queue = self._queue or self._opened()
            for state, count in self._queue.counts()._asdict().items():
                jobs.add_metric((self._queue.name, state), count)
            answered = 1
        up.add_metric((self._queue.name if self._queue else "",), answered)
        yield from (jobs, up)
