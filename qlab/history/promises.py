"""Which promises of a queue a history breaks, in words."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from qlab.history import History, Record
from qlab.history.overtaking import overtaken
from qlab.history.stories import ENDS, Story, stories_of, until
from qlab.show import seconds
from qlab.trace import Kind

_TAKES = (Kind.RETRIED, Kind.FORGOTTEN)


class Fault(StrEnum):
    """Which promise was broken."""

    LOST = "lost"
    """A job vanished: nobody ended it, and it is neither in the queue nor in `failed_jobs`."""
    DUPLICATED = "duplicated"
    """One attempt was given to two, a job ended twice, or it is in two places."""
    UNEXPECTED = "unexpected"
    """A job that nobody dispatched or that was not due yet, or something settled that was not reserved."""
    RECOVERED = "recovered"
    """A job was brought back that was done, or while somebody held it."""
    OVERTAKEN = "order broken"
    """A job went before another that had been claimable longer."""


class Broken(NamedTuple):
    """A promise that was broken.

    Attributes:
        fault: Which.
        job: Whose; None where it cannot be told which job it is.
        says: What happened, in one sentence.
        promised: What was told before, which this contradicts; None where it contradicts nothing.
        seen: What broke the promise; None where it is what the store holds at the end.
    """

    fault: Fault
    job: int | None
    says: str
    promised: Record | None = None
    seen: Record | None = None


def broken(
    history: History,
    *,
    left: Collection[int] | None = None,
    failed: Collection[int] = (),
    runs: Mapping[int, int] | None = None,
    order: str | None = None,
) -> list[Broken]:
    """Name each promise that a history breaks; an empty list is a sound history.

    The history is that of a whole queue, from when it was empty. What a worker was not told because it died (an
    event `crashed`) may have happened: for each death one reservation, and whatever ended the attempt that it held.

    Args:
        history: What everybody was told.
        left: The ids of the jobs that wait or are reserved at the end; None where nobody looked, so that nothing is
            said about where jobs are.
        failed: The ids that the jobs in `failed_jobs` had, at the end.
        runs: How often each job really ran, by its id, where its runs left traces of their own.
        order: The driver's order, where it is promised: `available_at`, or `arrival`, which is checked for the first
            attempts of jobs that were dispatched without a delay.

    Returns:
        What was broken, in the order in which it showed.
    """
    stories = stories_of(history)
    found: list[Broken] = []
    for story in stories.values():
        found += [
            *_duplicated(story),
            *_unexpected(story, order),
            *_recovered(story, order),
            *_ran_too_often(story, runs or {}),
        ]
    found += _told_to_nobody(stories, history)
    if left is not None:
        places = _Places(Counter(left), Counter(failed))
        found += [*_misplaced(stories, places), *_lost(stories, history, places)]
    if order is not None:
        found += _overtaken(stories, order, set(left or ()))
    return sorted(found, key=lambda each: math.inf if each.seen is None else each.seen.told)


# -- one job --


def _duplicated(story: Story) -> Iterator[Broken]:
    job, dispatched, ends = story.job, story.of(Kind.DISPATCHED), story.of(*ENDS)
    for again in dispatched[1:]:
        yield Broken(Fault.DUPLICATED, job, f"two jobs were dispatched as job {job}", dispatched[0], again)
    for attempt, (first, *others) in story.reserved.items():
        for other in others:
            says = f"attempt {attempt} of job {job} was {_did(first)} and {_did(other)}"
            yield Broken(Fault.DUPLICATED, job, says, first, other)
    for again in ends[1:]:
        says = f"job {job} was {_did(ends[0])} and {_did(again)}"
        yield Broken(Fault.DUPLICATED, job, says, ends[0], again)
    for attempt, (first, *others) in story.settled.items():
        for other in others:
            if not {first.event.kind, other.event.kind} <= set(ENDS):
                says = f"attempt {attempt} of job {job} was {_did(first)} and {_did(other)}"
                yield Broken(Fault.DUPLICATED, job, says, first, other)


def _unexpected(story: Story, order: str | None) -> Iterator[Broken]:
    job, dispatched = story.job, story.of(Kind.DISPATCHED)
    if not dispatched:
        seen = story.records[0]
        yield Broken(Fault.UNEXPECTED, job, f"job {job} was {_did(seen)}, but nobody dispatched it", None, seen)
    for first in story.reserved.get(1, [])[:1]:
        if dispatched and _moment(first, order) < until(dispatched[0]):
            says = f"job {job} was {_did(first)}, but was not due before {seconds(until(dispatched[0]))}"
            yield Broken(Fault.UNEXPECTED, job, says, dispatched[0], first)
    for stranger in story.strangers:
        says = f"attempt {stranger.event.attempt} of job {job} was {_did(stranger)}, which had not reserved it"
        yield Broken(Fault.UNEXPECTED, job, says, None, stranger)


def _recovered(story: Story, order: str | None) -> Iterator[Broken]:
    job = story.job
    for attempt, settles in story.settled.items():
        for end in (each for each in settles if each.event.kind in ENDS):
            back = [each for each in story.attempts if each.event.attempt > attempt]
            back += [each for each in story.of(Kind.RECOVERED) if end.before(each)]
            for again in back[:1]:
                says = f"job {job} was {_did(again)}, after it was {_did(end)}"
                yield Broken(Fault.RECOVERED, job, says, end, again)
    for held, again in zip(story.attempts, story.attempts[1:], strict=False):
        attempt = held.event.attempt
        if again.event.attempt == attempt + 1 and _moment(again, order) < (free := story.free_from(attempt)):
            says = f"job {job} was {_did(again)}, but after attempt {attempt} was not due before {seconds(free)}"
            yield Broken(Fault.RECOVERED, job, says, held, again)


def _moment(reserved: Record, order: str | None) -> float:
    """Tell by when a job must have been due that somebody got.

    Where the order is that of arrival, a job that was due by one clock is there for a worker that asked a bit earlier.
    """
    return reserved.latest if order == "arrival" else reserved.event.at


def _ran_too_often(story: Story, runs: Mapping[int, int]) -> Iterator[Broken]:
    ran, reserved = runs.get(story.job, 0), len(story.of(Kind.RESERVED))
    if ran > reserved:
        says = f"job {story.job} ran {_times(ran)}, but was reserved {_times(reserved)}"
        yield Broken(Fault.DUPLICATED, story.job, says)


# -- all jobs --


def _told_to_nobody(stories: Mapping[int, Story], history: History) -> Iterator[Broken]:
    """Name reservations that nobody was told of, where more of them are missing than anybody died of."""
    deaths = sum(record.event.kind is Kind.CRASHED for record in history)
    for story in stories.values():
        for following in story.attempts:
            missing = following.event.attempt - 1
            if missing == 0 or missing in story.reserved:
                continue
            deaths -= 1
            if deaths < 0:
                says = f"nobody was told of attempt {missing} of job {story.job}, and nobody died of it"
                yield Broken(Fault.UNEXPECTED, story.job, says, None, following)


def _misplaced(stories: Mapping[int, Story], places: "_Places") -> Iterator[Broken]:
    for job in sorted(places.left | places.failed):
        where, story = places.of(job), stories.get(job)
        if places.left[job] + places.failed[job] > 1:
            yield Broken(Fault.DUPLICATED, job, f"job {job} is {where}", story.records[-1] if story else None)
        if story is None:
            yield Broken(Fault.UNEXPECTED, job, f"job {job} is {where}, but nobody dispatched it")
        elif done := story.of(Kind.COMPLETED):
            yield Broken(Fault.RECOVERED, job, f"job {job} is {where}, after it was {_did(done[0])}", done[0])
        elif (ended := story.of(Kind.FAILED)) and places.left[job]:
            yield Broken(Fault.RECOVERED, job, f"job {job} is {where}, after it was {_did(ended[0])}", ended[0])
        elif places.failed[job] and not ended and not _may_be_gone(story):
            yield Broken(Fault.UNEXPECTED, job, f"job {job} is {where}, but nobody failed it", story.records[-1])


def _lost(stories: Mapping[int, Story], history: History, places: "_Places") -> Iterator[Broken]:
    taken = {record.event.job for record in history if record.event.kind in _TAKES}
    # Who retries or forgets a job that failed in another process is not told which job that was.
    unknown = sum(record.event.kind in _TAKES and record.event.job is None for record in history)
    cleared = [record for record in history if record.event.kind is Kind.CLEARED]
    for job, story in stories.items():
        if job in places.left or job in places.failed or job in taken or story.of(Kind.COMPLETED):
            continue
        if story.of(Kind.FAILED):
            unknown -= 1
            gone = unknown >= 0
        else:
            gone = _may_be_gone(story) or any(not clear.before(story.records[0]) for clear in cleared)
        if not gone:
            last = story.records[-1]
            says = f"job {job} is nowhere: the last that is known of it is that it was {_did(last)}"
            yield Broken(Fault.LOST, job, says, last)


def _may_be_gone(story: Story) -> bool:
    return bool(story.attempts) and story.may_have_ended(story.attempts[-1].event.attempt)


def _overtaken(stories: Mapping[int, Story], order: str, left: Collection[int]) -> Iterator[Broken]:
    for waiting, taken in overtaken(stories.values(), order, left):
        first, then = waiting.event.job, taken.event.job
        says = f"job {then} was {_did(taken)}, while job {first} waited, which was {_did(waiting)}"
        yield Broken(Fault.OVERTAKEN, then, says, waiting, taken)


class _Places(NamedTuple):
    """How often each job is where, at the end."""

    left: Counter[int]
    failed: Counter[int]

    def of(self, job: int) -> str:
        counts = {"in the queue": self.left[job], "in failed_jobs": self.failed[job]}
        return " and ".join(f"{where} {_times(n)}" if n > 1 else where for where, n in counts.items() if n)


# -- words --


def _did(record: Record) -> str:
    event = record.event
    by = f" by {event.worker}" if event.worker else ""
    available = event.until is not None and event.kind in (Kind.DISPATCHED, Kind.RELEASED, Kind.RECOVERED)
    since = f", available at {seconds(event.until)}" if available else ""
    return f"{event.kind}{by} at {seconds(event.at)}{since}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
