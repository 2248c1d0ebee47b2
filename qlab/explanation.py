"""Where two runs of a scenario differ first, and why, in words."""

from typing import NamedTuple, Protocol

from qlab.show import seconds
from qlab.trace import Difference, Event, Kind, Trace

_WAITS = (Kind.DISPATCHED, Kind.RETRIED, Kind.RELEASED, Kind.RECOVERED)


class Traced(Protocol):
    """A trace, and on which kind of driver it was made."""

    @property
    def driver(self) -> str:
        """The driver's family."""

    @property
    def order(self) -> str:
        """The driver's order: `available_at` or `arrival`."""

    @property
    def trace(self) -> Trace:
        """What happened."""


class Agreement(NamedTuple):
    """How a run's trace compares with another's.

    Attributes:
        driver: The driver's family.
        reference: The family that it is compared with.
        difference: The first event in which they differ; None where the traces are the same.
        why: The reason in words; empty where they are the same.
    """

    driver: str
    reference: str
    difference: Difference | None
    why: str


def agreement(reference: Traced, run: Traced) -> Agreement:
    """Compare a run's trace with another's of the same scenario."""
    difference = reference.trace.difference(run.trace)
    return Agreement(
        run.driver, reference.driver, difference, "" if difference is None else why(reference, run, difference)
    )


def why(left: Traced, right: Traced, difference: Difference) -> str:
    """Say in words why two runs of a scenario differ at their first different event."""
    one, other = difference.left, difference.right
    if one is None or other is None:
        longer, event = (right, other) if one is None else (left, one)
        goes_on = f"the trace of {longer.driver} goes on where the other has ended"
        return goes_on if event is None else f"{goes_on}: {event.says}"
    if left.order == right.order or one.kind is not Kind.RESERVED or other.kind is not Kind.RESERVED:
        return f"on {left.driver} {one.says}; on {right.driver} {other.says}"
    if right.order == "arrival":
        return _by_time_and_by_arrival(left.driver, one, right, other)
    return _by_time_and_by_arrival(right.driver, other, left, one)


def _by_time_and_by_arrival(driver: str, first: Event, run: Traced, second: Event) -> str:
    one, other = f"job {first.job}", f"job {second.job}"
    return (
        f"At {seconds(first.at)} {first.worker} asked for a job, and two could be had: {one}, claimable since "
        f"{seconds(first.since)}, and {other}, claimable since {seconds(second.since)}. {driver} goes by that moment, "
        f"then by dispatch, and gave {one}. {run.driver} goes by the order in which jobs came into its list, and gave "
        f"{other}: {other} was {_came(run.trace, second.job, second)}, {one} was {_came(run.trace, first.job, second)}."
    )


def _came(trace: Trace, job: int | None, asked: Event) -> str:
    """Say how a job had come, when somebody asked, into a list that is appended to when somebody polls."""
    last: Event | None = None
    for event in trace:
        if event == asked:
            break
        if event.job == job and event.kind in (*_WAITS, Kind.RESERVED):
            last = event
    if last is None:
        return "there before"
    if last.kind is Kind.RESERVED:
        return f"appended when somebody polled after its reservation had run out, at {seconds(last.until)}"
    if last.until is not None and last.until > last.at:
        return f"appended only when somebody polled after it had fallen due, at {seconds(last.until)}"
    return f"appended when it was {last.kind}, at {seconds(last.at)}"
