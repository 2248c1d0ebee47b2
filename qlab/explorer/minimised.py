"""A path that breaks a promise, without the steps that it does not need."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from qlab.explorer.interleaving import Path, Verb
from qlab.explorer.invariants import Promise
from qlab.explorer.walks import Found, Play, look

_AT_ONCE = 4
"""How many steps are left out together, at the most: a run is three, and what made it necessary one."""


def shortened(found: Found, play: Play, promises: Sequence[Promise]) -> Found:
    """Leave out steps of a path for as long as what is left still breaks a promise.

    Args:
        found: The path.
        play: What takes its steps.
        promises: What to look for.

    Returns:
        The path that is left: without any one to four of its steps it cannot be taken, or breaks nothing.
    """
    best = found
    while (better := next(_better(best, play, promises), None)) is not None:
        best = better
    return best


def _better(found: Found, play: Play, promises: Sequence[Promise]) -> Iterator[Found]:
    path = found.path
    for count in range(1, min(_AT_ONCE, len(path)) + 1):
        for left_out in combinations(range(len(path)), count):
            rest = [place for place in range(len(path)) if place not in left_out]
            better = _broken(path, rest, play, promises)
            if better is not None:
                yield better


def _broken(path: Path, rest: Sequence[int], play: Play, promises: Sequence[Promise]) -> Found | None:
    """Take the steps that are left, up to the first that breaks a promise.

    Without the steps before it a worker may get another job: a run-out is one of the reservation, whatever its job.
    """
    taken: Path = ()
    for place in rest:
        step = path[place]._replace(job=0)
        if step.verb is Verb.RUN_OUT:
            made = _made(path, place)
            if made not in rest:
                return None
            step = step._replace(job=taken[rest.index(made)].job)
        here = play((*taken, step))
        if here is None:
            return None
        taken = here.path
        broken = look(here, promises)
        if broken is not None:
            return broken
    return None


def _made(path: Path, place: int) -> int:
    """Tell which step made the reservation that runs out at another."""
    made = (i for i in range(place) if path[i].verb is Verb.RESERVE and path[i].job == path[place].job)
    return max(made, default=-1)
