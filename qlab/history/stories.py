"""What a history tells about each job: who held it, how each attempt ended, and what may have happened unseen."""

import math
from collections import defaultdict
from collections.abc import Container, Sequence

from qlab.history import History, Record
from qlab.trace import Event, Kind

ENDS = (Kind.COMPLETED, Kind.FAILED)
_BY_ITS_HOLDER = (*ENDS, Kind.RELEASED, Kind.EXTENDED, Kind.SUPERSEDED)

Held = tuple[int, int, str]  # job, attempt, worker


class Story:
    """What was told about one job.

    Args:
        job: Its id.
        records: What was told about it, in the order in which it was told.
        died: Which workers died with which job and attempt in hand.

    Attributes:
        reserved: Who was told that it reserved the job, by attempt: one for each, where all is well.
        attempts: The first of each of these, in the order of the attempts.
        settled: How each attempt ended, by attempt: none where the reservation ran out or was superseded.
        extended: How it was extended, likewise.
        superseded: The attempts that somebody settled too late.
        strangers: What was settled or extended by a worker that had not reserved it.
    """

    def __init__(self, job: int, records: Sequence[Record], died: Container[Held]) -> None:
        self.job = job
        self.records = records
        self._died = died
        self.reserved: dict[int, list[Record]] = defaultdict(list)
        self.settled: dict[int, list[Record]] = defaultdict(list)
        self.extended: dict[int, list[Record]] = defaultdict(list)
        self.superseded: set[int] = set()
        self.strangers: list[Record] = []
        for record in self.of(Kind.RESERVED):
            self.reserved[record.event.attempt].append(record)
        for record in self.of(*_BY_ITS_HOLDER):
            self._add(record)
        self.attempts = [self.reserved[attempt][0] for attempt in sorted(self.reserved)]

    def of(self, *kinds: Kind) -> list[Record]:
        """Give the records of these kinds, in the order in which they were told."""
        return [record for record in self.records if record.event.kind in kinds]

    def free_from(self, attempt: int) -> float:
        """Tell from which moment, in seconds, somebody else could reserve the job after an attempt that was told."""
        back = [record for record in self.settled.get(attempt, ()) if record.event.kind is Kind.RELEASED]
        back += [record for record in self.of(Kind.RECOVERED) if record.event.attempt == attempt]
        if back:
            return min(until(record) for record in back)
        if attempt in self.settled or self.may_have_ended(attempt):
            return -math.inf
        return until([*self.reserved[attempt], *self.extended.get(attempt, ())][-1])

    def may_have_ended(self, attempt: int) -> bool:
        """Tell whether an attempt may have ended in a way that nobody was told of: its worker died with it."""
        if attempt in self.settled or attempt in self.superseded:
            return False
        return any((self.job, attempt, each.event.worker) in self._died for each in self.reserved.get(attempt, ()))

    def _add(self, record: Record) -> None:
        attempt = self._attempt_of(record)
        if record.event.kind is Kind.SUPERSEDED:
            self.superseded.add(record.event.attempt if attempt is None else attempt)
        elif attempt is None:
            self.strangers.append(record)
        else:
            (self.extended if record.event.kind is Kind.EXTENDED else self.settled)[attempt].append(record)

    def _attempt_of(self, record: Record) -> int | None:
        """Tell which of its attempts a worker settled; a job whose tries are used up fails with fewer than it had."""
        event = record.event
        mine = [
            attempt
            for attempt, given in self.reserved.items()
            if any(each.event.worker == event.worker and each.told <= record.told for each in given)
        ]
        if event.kind is Kind.FAILED or event.detail == "fail":
            return max((attempt for attempt in mine if attempt >= event.attempt), default=None)
        return event.attempt if event.attempt in mine else None


def stories_of(history: History) -> dict[int, Story]:
    """Sort a history by its jobs."""
    records: dict[int, list[Record]] = defaultdict(list)
    holds: dict[str, Event] = {}
    died: set[Held] = set()
    for event in (record.event for record in history):
        if event.kind is Kind.RESERVED:
            holds[event.worker] = event
        elif event.kind is Kind.CRASHED:
            held = holds.get(event.worker, event) if event.job is None else event
            died.add((held.job or 0, held.attempt, event.worker))
    for record in history:
        if record.event.job is not None and record.event.kind is not Kind.CRASHED:
            records[record.event.job].append(record)
    return {job: Story(job, told, died) for job, told in records.items()}


def until(record: Record) -> float:
    """Tell from which moment the job could be reserved after this, in seconds."""
    event = record.event
    return event.at if event.until is None else event.until
