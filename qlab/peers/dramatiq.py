"""dramatiq on Redis: its worker with eight threads, which is what its command starts in each process."""

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from dramatiq import Worker, actor
from dramatiq.brokers.redis import RedisBroker

from qlab.peers.handled import handle


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    broker, job = _open(address)
    with closing(broker.client):
        for number in numbers:
            job.send(number)


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left."""
    broker, job = _open(address)

    def work() -> None:
        Worker(broker).start()
        broker.join(job.queue_name)

    return work


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    broker, job = _open(address)
    with closing(broker.client) as client:
        return int(client.hlen(f"{broker.namespace}:{job.queue_name}.msgs"))


def _open(address: str) -> tuple[Any, Any]:
    broker = RedisBroker(url=address)
    return broker, actor(actor_name="job", broker=broker)(handle)
