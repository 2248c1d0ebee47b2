"""rq on Redis: its `SimpleWorker` in burst mode, which spares the process that `Worker` makes for each job."""

from collections.abc import Callable, Iterable

from redis import Redis
from rq import Queue, SimpleWorker

from qlab.peers.handled import handle


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""
    with Redis.from_url(address) as client:
        queue = Queue(connection=client)
        for number in numbers:
            queue.enqueue(handle, number)


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left."""
    simple = SimpleWorker(["default"], connection=Redis.from_url(address))

    def work() -> None:
        simple.work(burst=True, logging_level="WARNING")

    return work


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""
    with Redis.from_url(address) as client:
        queue = Queue(connection=client)
        return int(queue.count + queue.started_job_registry.get_job_count(cleanup=False))
