"""What ADR-006 rejected: a queue in the memory of the process that works it, as a program would keep a list."""

from collections.abc import Sequence
from typing import NoReturn

from qlab.driver import Counts
from qlab.drivers.memory import MemoryDriver
from qlab.errors import QlabError
from qlab.job import FailedJob, Job, Reservation


class InProcessDriver(MemoryDriver):
    """Jobs in a program's own memory: no way to look at them, no failed jobs, and a restart forgets all.

    Args:
        order: As a memory driver's: `available_at` or `arrival`.

    Example:
        >>> from qlab import Queue
        >>> from qlab.systems import InProcessDriver
        >>> Queue(InProcessDriver()).counts()
        Traceback (most recent call last):
            ...
        qlab.errors.QlabError: a queue in a program's memory cannot tell how many jobs wait: ...
    """

    name = "in process"

    @property
    def description(self) -> str:
        return "a list in the process, which nobody can look into"

    def lose(self, queue: str, *, now: float) -> list[Job]:
        """Forget every job of a queue, as the end of the process does, and tell the lab which they were."""
        lost = super().jobs(queue, now=now)
        self.clear(queue, now=now)
        return lost

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        return self.complete(reservation, now=now)  # there is no place to keep it

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        return []

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        return []

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        return []

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        _shows_nothing("which jobs failed")

    def counts(self, queue: str, *, now: float) -> Counts:
        _shows_nothing("how many jobs wait")

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        _shows_nothing("which jobs wait")


def _shows_nothing(what: str) -> NoReturn:
    raise QlabError(
        f"a queue in a program's memory cannot tell {what}: keep it in a table, as in sqlite:///jobs.db, to look into "
        "it (the trace of this lab knows all the same)"
    )
