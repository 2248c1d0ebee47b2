"""What all flaws share."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from qlab.drivers.memory import MemoryDriver
from qlab.job import Job, Reservation


class Flaw(MemoryDriver):
    """A memory driver that breaks one promise.

    Attributes:
        name: What it is called in `FLAWS`.
        promise: The promise that it breaks.
        does: What it does instead.

    Example:
        >>> from qlab import flaws
        >>> flaw = flaws.FLAWS["release in place"]
        >>> flaw.promise
        'A released job goes behind those that are claimable by then.'
        >>> flaw().description
        'memory with a flaw: release in place'
    """

    promise: ClassVar[str]
    does: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.url = f"flaw:{quote(self.name)}"

    @property
    def description(self) -> str:
        return f"memory with a flaw: {self.name}"

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        with self._lock:
            completed = self.complete(reservation, now=now)
            following = self.reserve(reservation.job.queue, now=now, retry_after=retry_after)
            return completed, following[0] if following else None


def those(jobs: Sequence[Job], which: Sequence[Job]) -> list[Job]:
    """Give those of the jobs that are among others, as they are now."""
    ids = {job.id for job in which}
    return [job for job in jobs if job.id in ids]
