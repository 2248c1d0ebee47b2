"""Which jobs went before others that had been claimable longer."""

import heapq
import math
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from qlab.history import Record
from qlab.history.stories import Story, until
from qlab.trace import Kind

Key = tuple[float, int, int]
"""A place in the order, the smaller first: since when, whether it has been reserved before, the job."""

_PUTS = (Kind.DISPATCHED, Kind.RELEASED, Kind.RECOVERED)
_KEEPS = (*_PUTS, Kind.RESERVED, Kind.EXTENDED)


class _Wait(NamedTuple):
    """A job that waits to be reserved: certainly from when `since` was told up to `end`."""

    key: Key
    end: float
    since: Record


def overtaken(stories: Iterable[Story], order: str, left: Collection[int]) -> Iterator[tuple[Record, Record]]:
    """Give what put a job into the queue, with the reservation of another that overtook it.

    Only what is certain: the job was there before the reservation was asked for, and still after it was told.
    """
    known = [story for story in stories if story.of(Kind.DISPATCHED)]
    waits = sorted((wait for story in known for wait in _waits(story, order, left)), key=lambda wait: wait.since.told)
    takes = sorted((take for story in known for take in _takes(story, order)), key=lambda take: take[1].asked)
    heap: list[_Wait] = []
    begun = 0
    for key, take in takes:
        while begun < len(waits) and waits[begun].since.before(take):
            heapq.heappush(heap, waits[begun])
            begun += 1
        first = _first_before(heap, key, take)
        if first is not None:
            yield first.since, take


def _first_before(heap: list[_Wait], key: Key, take: Record) -> _Wait | None:
    """Find the first that waited all through a reservation; drop those that no later one can have overtaken."""
    unsure, found = [], None
    while found is None and heap and heap[0].key < key:
        wait = heapq.heappop(heap)
        if wait.end > take.told:
            found = wait
        if wait.end > take.asked:
            unsure.append(wait)
    for wait in unsure:
        heapq.heappush(heap, wait)
    return found


def _takes(story: Story, order: str) -> Iterator[tuple[Key, Record]]:
    for record in story.attempts:
        fresh = record.event.attempt == 1
        if order == "arrival":
            if fresh and _due_at_once(story):
                yield (0.0, 0, story.job), record
        elif record.event.since is not None:
            # What has been reserved before goes by a serial number that nobody is told: equal moments prove nothing.
            yield (record.event.since, 0, story.job if fresh else 0), record


def _waits(story: Story, order: str, left: Collection[int]) -> Iterator[_Wait]:
    for key, taken in _takes(story, order):
        fresh = taken.event.attempt == 1
        put = [r for r in story.of(*_KEEPS) if until(r) == taken.event.since and r.told <= taken.told and r != taken]
        if put:
            yield _Wait(key if fresh else (key[0], 1, 0), taken.asked, put[-1])
    last = story.records[-1]
    if story.job in left and last.event.kind in _PUTS:
        fresh = last.event.kind is Kind.DISPATCHED
        if order != "arrival":
            yield _Wait((until(last), 0, story.job) if fresh else (until(last), 1, 0), math.inf, last)
        elif fresh and _due_at_once(story):
            yield _Wait((0.0, 0, story.job), math.inf, last)


def _due_at_once(story: Story) -> bool:
    dispatched = story.of(Kind.DISPATCHED)[0]
    return until(dispatched) <= dispatched.event.at
