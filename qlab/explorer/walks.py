"""Walks through the orders of a small scenario: all of them, with equal states merged, or some at random."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qlab.errors import QlabError
from qlab.explorer.interleaving import Path, State, Step, Verb
from qlab.explorer.invariants import Promise, first_broken

GOES_WRONG = (Verb.RUN_OUT, Verb.CRASH)
"""What goes wrong by itself."""
_LATE = (Verb.RESERVE, Verb.RUN_OUT, Verb.CRASH, Verb.RESTART, Verb.FINISH, Verb.SETTLE)


class Here(NamedTuple):
    """Where a path leads.

    Attributes:
        path: The path, with the jobs that were reserved.
        state: What there is then.
        possible: Which steps may come next.
    """

    path: Path
    state: State
    possible: Sequence[Step]


class Found(NamedTuple):
    """A path that breaks a promise.

    Attributes:
        path: The path.
        promise: Which it breaks.
        says: How.
    """

    path: Path
    promise: Promise
    says: str

    @property
    def cost(self) -> tuple[int, int]:
        """How much a reader must follow: the steps, and among them what goes wrong by itself."""
        return len(self.path), sum(step.verb in GOES_WRONG for step in self.path)


Play = Callable[[Path], Here | None]
"""Takes the steps of a path on a store of its own; None where that cannot be done."""


def look(here: Here, promises: Sequence[Promise]) -> Found | None:
    """Find what a path breaks at its last step."""
    broken = first_broken(promises, here.state)
    return None if broken is None else Found(here.path, *broken)


def cheaper(one: Found | None, other: Found | None) -> Found | None:
    """Choose between two paths the one that is told sooner."""
    if one is None or other is None:
        return one or other
    return other if other.cost < one.cost else one


@dataclass(slots=True)
class Walked:
    """What was seen on the way.

    Attributes:
        outcomes: How many paths ended how.
        states: How many states are different.
        found: The path that breaks a promise and is told soonest.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    states: int = 0
    found: Found | None = None

    def paths_of(self, outcome: str | None) -> Iterator[Path]:
        """Give the paths that end in an outcome; all where it is None."""
        raise NotImplementedError


# -- all --


class Graph(Walked):
    """All states, and the steps from each to the next."""

    __slots__ = ("_edges", "_ends", "_outcomes")

    def __init__(self) -> None:
        super().__init__()
        self._edges: list[list[tuple[Step, int]]] = []
        self._ends: list[str] = []
        self._outcomes: dict[int, Counter[str]] = {}

    def paths_of(self, outcome: str | None) -> Iterator[Path]:
        """Give the paths that end in an outcome, in the order of the workers' numbers; all where it is None."""
        return self._from(0, (), outcome)

    def _from(self, here: int, path: Path, outcome: str | None) -> Iterator[Path]:
        if outcome is not None and not self._counted(here)[outcome]:
            return
        if not self._edges[here]:
            yield path
        for step, there in self._edges[here]:
            yield from self._from(there, (*path, step), outcome)

    def _counted(self, here: int) -> Counter[str]:
        """Count the paths from a state on, by how they end."""
        if here not in self._outcomes:
            counted = Counter() if self._edges[here] else Counter({self._ends[here]: 1})
            for _, there in self._edges[here]:
                counted.update(self._counted(there))
            self._outcomes[here] = counted
        return self._outcomes[here]

    def walk(self, play: Play, promises: Sequence[Promise], most: int) -> None:
        """Take every step from every state, the shortest ways first."""
        start = _first(play)
        self.found = look(start, promises)
        known, reached = {start.state: 0}, [start]
        for place, here in enumerate(reached):
            self._edges.append([])
            self._ends.append(here.state.outcome)
            for step in sorted(here.possible, key=_told_best):
                there = play((*here.path, step))
                if there is None:
                    continue
                self.found = cheaper(self.found, look(there, promises))
                if there.state not in known:
                    if len(known) == most:
                        raise TooLarge(most)
                    known[there.state] = len(reached)
                    reached.append(there)
                self._edges[place].append((there.path[-1], known[there.state]))
            self._edges[place].sort(key=lambda edge: _browsed(edge[0]))
        self.states = len(known)
        self.outcomes = self._counted(0)


class TooLarge(QlabError):
    """A scenario has too many states to walk through all.

    Args:
        most: How many there may be.

    Example:
        >>> from qlab import explore
        >>> explore("one_job", most=10)
        Traceback (most recent call last):
            ...
        qlab.explorer.walks.TooLarge: there are more than 10 states: take fewer workers, jobs, run-outs or crashes, ...
    """

    def __init__(self, most: int) -> None:
        super().__init__(
            f"there are more than {most:,} states: take fewer workers, jobs, run-outs or crashes, choose orders by "
            'chance (sample="random" or "pct"), or allow for more (most=…)'
        )


def walk_all(play: Play, promises: Sequence[Promise], most: int) -> Graph:
    """Walk through every order.

    Args:
        play: What takes the steps.
        promises: What to look for.
        most: How many states there may be.

    Raises:
        TooLarge: There are more.
    """
    graph = Graph()
    graph.walk(play, promises, most)
    return graph


def _told_best(step: Step) -> int:
    """Of several paths to one state the first is told: one in which a worker that is late comes late."""
    return _LATE.index(step.verb)


def _browsed(step: Step) -> tuple[int, int]:
    """Put the paths in an order to browse in: the first worker first, and what goes wrong last."""
    return step.verb in GOES_WRONG, step.worker


def _first(play: Play) -> Here:
    start = play(())
    assert start is not None  # noqa: S101 - no step is to be taken
    return start
