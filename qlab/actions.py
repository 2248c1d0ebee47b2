"""What was done to a lab, and how much of that belongs to a moment."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from qlab.trace import Kind, Trace

ACTIONS = (
    *("advance", "change_policy", "complete", "crash", "dispatch", "forget", "pause", "perform", "play"),
    *("recover", "reserve", "reset", "restart", "restart_server", "resume", "retry", "run", "step", "step_all"),
)
"""The methods that do something to a lab: the board's buttons, and all that a saved lab may ask for."""

_PASS = ("advance", "run")  # they go on after their last event
_RESERVES = ([Kind.RESERVED], [Kind.EXPIRED, Kind.RESERVED])


class Action(NamedTuple):
    """Something that was done to a lab.

    Attributes:
        verb: The method's name.
        arguments: What it was given, as JSON values.
        events: How many events the first driver's trace had afterwards.
        marks: How many it had after each part of a `run` or an `advance`, and after each worker of a `step_all`.
    """

    verb: str
    arguments: dict[str, Any]
    events: int
    marks: Sequence[int] = ()


class Past(NamedTuple):
    """What was done up to an event.

    Attributes:
        actions: What to do again, the last one cut where it went on.
        events: How many events there are then: fewer than were asked for where an action cannot be cut there.
    """

    actions: list[Action]
    events: int


def until(events: int, actions: Sequence[Action], trace: Trace, sides: int) -> Past:
    """Tell what was done up to an event; time that went by after it without an event counts only at the end.

    Args:
        events: Up to how many events.
        actions: All that was done.
        trace: The first driver's trace.
        sides: How many drivers there are.
    """
    if events >= len(trace):
        return Past(list(actions), len(trace))
    done: list[Action] = []
    had = 0
    for action in actions:
        if action.events > events or (action.events == events > had and action.verb in _PASS):
            parts, had = _part(events, action, had, trace, sides)
            return Past([*done, *parts], had)
        if had < events or not had:
            done.append(action)
        had = action.events
    return Past(done, had)


def _part(events: int, action: Action, had: int, trace: Trace, sides: int) -> Past:
    """Cut an action where it goes on beyond an event, as near to that as can be."""
    if action.verb == "dispatch":
        return Past([_with(action, count=events - had)] if events > had else [], events)
    marks = action.marks
    over = bisect_right(marks, events)
    reached = marks[over - 1] if over else had
    if [trace[i].kind for i in range(reached, events)] in _RESERVES:
        return Past(_reserving(action, over, trace[events - 1].worker, sides), events)
    if reached == had:
        return Past([], had)
    return Past(_cut(action, bisect_left(marks, reached) + 1, sides), reached)


def _cut(action: Action, parts: int, sides: int, *, reserving: bool = False) -> list[Action]:
    """Do the first parts of an action."""
    if action.verb == "step_all":
        return [Action("step", {"worker": worker}, 0) for worker in range(1, parts + 1)]
    also = {"reserving": reserving} if action.verb == "run" else {}
    return [_with(action, most=[parts] * sides, **also)]


def _reserving(action: Action, parts: int, worker: str, sides: int) -> list[Action]:
    """Do the first parts of an action, and let a worker reserve what it reserved then, and stop there."""
    if action.verb == "run":
        return _cut(action, parts, sides, reserving=True)
    before = _cut(action, parts, sides) if action.verb == "step_all" else []
    return [*before, Action("reserve", {"worker": int(worker.split()[1])}, 0)]


def _with(action: Action, **changed: Any) -> Action:
    return action._replace(arguments=action.arguments | changed)
