"""Two queues of one process: in its memory, which ADR-006 rejected, and in asyncio over SQLite."""

import os

from qlab.clock import Clock
from qlab.drivers.in_process import InProcessDriver
from qlab.drivers.sqlite import SqliteDriver
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.service import WorkerService
from qlab.systems.parts import Jobs, System, register
from qlab.trace import Kind


class InProcess(System):
    """A queue in the process's own memory, and its workers; `in_process` makes one.

    Args:
        queue: The queue, on an `InProcessDriver`; it closes with the system.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.
        recover: What is made ready again before they begin, as a `Worker` takes it.

    Attributes:
        queue: The queue: dispatch to it, step it, look into it.

    Example:
        >>> from qlab.systems import in_process
        >>> app = in_process({"mail": lambda job: None})
        >>> _ = app.queue.dispatch("mail"), app.queue.dispatch("mail")
        >>> app.queue.work_once().says
        'job 1 is done'
        >>> app.restart()
        1
    """

    def restart(self) -> int:
        """End the process and start it again: everything is forgotten, and no one is told.

        A handler that runs cannot be stopped, as it would be: it is left to itself, and how it ends changes nothing.

        Returns:
            How many jobs were lost; only the lab knows, and its trace says which.
        """
        worked = bool(self.workers)
        self.stop(0.0)
        now = self.queue.clock.now()
        assert isinstance(self.queue.driver, InProcessDriver)  # noqa: S101 - `in_process` has made it
        lost = self.queue.driver.lose(self.queue.name, now=now)
        for job in lost:
            self.queue.trace.record(now, Kind.LOST, job.id, job.name, job.attempts, detail="the process ended")
        if worked:
            self.start()
        return len(lost)


def in_process(
    jobs: Jobs = (), *, tries: int | None = 3, clock: Clock | None = None, workers: int = 1, poll: float = 1.0
) -> InProcess:
    """Set up what ADR-006 rejected: a queue in the memory of the process that works it.

    Fast, and nothing to install or to back up. But `restart` loses what is queued and what is in hand, nobody can look
    at what waits, and what a crash cut off is never tried again. An exception is, as long as the process lives; after
    the last attempt the job is gone, and only the log tells. Workers work inside `with app:`.

    Args:
        jobs: The handlers: `{"thumbnail": thumbnail}` or `[("thumbnail", thumbnail)]`.
        tries: How many attempts a job has in all; None for no limit.
        clock: Where the time of jobs comes from; the machine's clock by default.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.

    Raises:
        ValueError: A number is out of its range, or a name is there twice.

    Example:
        >>> from qlab.systems import in_process
        >>> app = in_process({"mail": lambda job: None})
        >>> _ = app.queue.dispatch("mail")
        >>> app.restart()
        1
    """
    queue = Queue(InProcessDriver(), policy=Policy(tries=tries, retry_after=None), clock=clock, name="in process")
    register(queue, jobs)
    return InProcess(queue, workers=workers, poll=poll, recover=None)


def worker_service(
    path: str | os.PathLike[str],
    jobs: Jobs = (),
    *,
    concurrency: int = 4,
    policy: Policy | None = None,
    clock: Clock | None = None,
    poll: float = 1.0,
) -> WorkerService:
    """Set up the worker beside ADR 0019: an asynchronous service over a durable queue in a SQLite file.

    Args:
        path: The file; made where it is not there.
        jobs: The handlers, `async def` or `def`: `{"webhook": webhook}` or `[("webhook", webhook)]`.
        concurrency: How many jobs are in hand at the most.
        policy: Tries, backoff and reservations; ADR 0019's by default.
        clock: Where the time of jobs comes from; the machine's clock by default.
        poll: After how many seconds it asks again where nothing is due, give or take half of it.

    Returns:
        The service: `await service.serve()` in a loop that runs, `service.run()` where none does; `service.queue` to
        dispatch, and to close when it is over.

    Raises:
        ValueError: A number is out of its range, or a name is there twice.
        UnusableStore: The file cannot hold a queue.

    Example:
        >>> import tempfile
        >>> from qlab.systems import worker_service
        >>> async def webhook(job):
        ...     service.stop()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     service = worker_service(f"{folder}/worker.db", {"webhook": webhook})
        ...     with service.queue as queue:
        ...         _ = queue.dispatch("webhook", "https://example.org")
        ...         service.run().completed
        1
    """
    queue = Queue(SqliteDriver(os.fspath(path)), policy=policy, clock=clock, name="worker")
    try:
        service = WorkerService(queue, concurrency=concurrency, poll=poll)
        register(service, jobs)
    except BaseException:
        queue.close()
        raise
    return service
