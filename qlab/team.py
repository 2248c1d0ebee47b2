"""Several workers of one queue, in threads of this process."""

from typing import Any, NamedTuple, Self

from qlab.clock import duration, monotonic
from qlab.queue import Queue
from qlab.show import Table, table_html
from qlab.worker import Recover, Recovery, Worked, Worker


class Member(NamedTuple):
    """What one worker of a team has done.

    Attributes:
        name: What the trace and the log call it.
        worked: How many attempts it has ended, by how they ended.
    """

    name: str
    worked: Worked

    def row(self) -> dict[str, object]:
        """Tell it as one row of a table for people."""
        return {"worker": self.name, **self.worked._asdict()}


class Team:
    """Workers that begin and stop together; `workers` makes one.

    Attributes:
        members: The workers.
    """

    def __init__(self, members: tuple[Worker, ...]) -> None:
        self.members = members

    @property
    def worked(self) -> Table[Member]:
        """What each has done so far."""
        return Table(Member(worker.name, worker.worked) for worker in self.members)

    @property
    def total(self) -> Worked:
        """What they have done together so far."""
        return Worked(*(sum(counts) for counts in zip(*(worker.worked for worker in self.members), strict=True)))

    def start(self) -> Self:
        """Let each run in a thread of its own.

        Raises:
            RuntimeError: They run, or have run, already.
        """
        for worker in self.members:
            worker.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Let the jobs in hand be finished and no other be taken, and wait for that; as `Worker.stop` does, for all.

        Args:
            timeout: How many seconds to wait for all of them at the most; no limit by default.

        Returns:
            Whether all have ended. In a thread of one of them, that one is not waited for.
        """
        limit = None if timeout is None else duration(timeout, "timeout")
        for worker in self.members:
            worker.ask_to_stop()
        until = None if limit is None else monotonic() + limit
        ended = [worker.stop(None if until is None else max(0.0, until - monotonic())) for worker in self.members]
        return all(ended)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{len(self.members)} workers: {', '.join(worker.name for worker in self.members)}>"

    def _repr_html_(self) -> str:
        rows = [member.row() for member in self.worked]
        return table_html(tuple(rows[0]), [tuple(row.values()) for row in rows])


def workers(queue: Queue, count: int, *, name: str = "worker", recover: Recover = "expired", **how: Any) -> Team:
    """Make several workers of a queue, each with a thread and, where the store has any, a connection of its own.

    `with workers(queue, 4):` runs them until the block is left. They recover once, before any of them takes a job.

    Args:
        queue: The queue.
        count: How many, from 1.
        name: What they are called: `worker-1`, `worker-2` and so on.
        recover: What is made ready again before they begin, as a `Worker` takes it.
        **how: What else a `Worker` takes: `poll`, `jitter`, `wait`.

    Returns:
        The workers, to be started with `with` or `start`.

    Raises:
        ValueError: `count` is not from 1, or a `Worker` refuses what it is given.

    Example:
        >>> from threading import Event
        >>> from qlab import Queue, workers
        >>> queue, done = Queue("memory://"), Event()
        >>> _ = queue.handler("mail")(lambda job: done.set())
        >>> _ = queue.dispatch("mail")
        >>> with workers(queue, 2) as team:
        ...     done.wait(timeout=60)
        True
        >>> team.total.completed
        1
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"count is {count!r}: use a whole number of workers")
    if count < 1:
        raise ValueError(f"count is {count!r}: use a number of workers from 1")
    once = Recovery(queue, recover)
    return Team(tuple(Worker(queue, name=f"{name}-{number}", recover=once, **how) for number in range(1, count + 1)))
