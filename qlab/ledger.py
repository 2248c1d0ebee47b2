"""What jobs did to the world, however often they ran."""

from collections import Counter
from typing import NamedTuple

from qlab.job import Job


class Entry(NamedTuple):
    """A side effect.

    Attributes:
        at: When, in seconds.
        job: The id of the job that did it.
        amount: How much it moved.
        worker: Which worker ran the job.
        events: How many events the trace had before it.
        effect: Which effect of its job it is, from 1.
    """

    at: float
    job: int
    amount: float
    worker: str
    events: int
    effect: int


class Ledger:
    """An account that every run of a job moves.

    A job is known by its uid: ids begin at 1 again in a store that has forgotten everything, and a retry has another.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._effects: Counter[str] = Counter()

    def enter(self, job: Job, amount: float, at: float, worker: str, events: int) -> None:
        """Enter a side effect of a job; the rest is as in `Entry`."""
        self._effects[job.uid] += 1
        self.entries.append(Entry(at, job.id, amount, worker, events, self._effects[job.uid]))

    @property
    def balance(self) -> float:
        """The sum of all side effects."""
        return sum(entry.amount for entry in self.entries)

    @property
    def expected(self) -> float:
        """What the sum would be had each job run once."""
        return sum(entry.amount for entry in self.entries if entry.effect == 1)

    @property
    def doubled(self) -> list[int]:
        """The jobs that took effect more than once."""
        return sorted({entry.job for entry in self.entries if entry.effect > 1})
