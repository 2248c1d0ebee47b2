"""Orders that are chosen by chance, where there are too many to walk through all."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

from qlab.explorer.interleaving import Path, State, Step, Verb
from qlab.explorer.invariants import Promise
from qlab.explorer.minimised import shortened
from qlab.explorer.plays import Plays
from qlab.explorer.situation import Situation
from qlab.explorer.stage import NothingDue, Stage
from qlab.explorer.walks import GOES_WRONG, Here, Walked, cheaper, look

_KEPT = 100
"""How many paths are kept of each outcome."""


class Schedule:
    """Chooses the next step, each as likely as the others.

    Args:
        random: Where chance comes from.

    Attributes:
        name: What it is called.
        bound: With which probability one order finds what it is made to find, at the least; None where nobody knows.
    """

    name = "random"
    bound: float | None = None

    def __init__(self, random: Random) -> None:
        self._random = random

    def begin(self) -> None:
        """Begin another order."""

    def choose(self, possible: Sequence[Step]) -> Step:
        """Choose one of the steps that are possible."""
        return possible[int(self._random.random() * len(possible))]


class Priorities(Schedule):
    """Probabilistic concurrency testing (PCT): who has the highest priority goes, until a change at a random moment.

    Burckhardt, Kothari, Musuvathi, Nagarakatte: A randomized scheduler with probabilistic guarantees of finding bugs,
    ASPLOS 2010. Each of n actors gets a random priority, and at d - 1 random moments among k steps whoever would go
    falls below all others. What needs d choices in a certain order is found with a probability of at least
    1 / (n * k**(d - 1)). The actors are the workers, and what goes wrong by itself: each job's reservation that runs
    out, and each worker's crash.

    Args:
        random: Where chance comes from.
        actors: How many actors there are (n).
        steps: How many steps an order has, at the most (k).
        depth: How many choices it reckons with (d).
    """

    name = "pct"

    def __init__(self, random: Random, *, actors: int, steps: int, depth: int) -> None:
        super().__init__(random)
        self._steps, self._depth = steps, depth
        self._priorities: dict[Step, float] = {}
        self._changes: list[int] = []
        self._taken = 0
        self.bound = 1 / (actors * steps ** (depth - 1))

    def begin(self) -> None:
        """Begin another order, with other priorities."""
        self._priorities, self._taken = {}, 0
        self._changes = [1 + int(self._random.random() * self._steps) for _ in range(self._depth - 1)]

    def choose(self, possible: Sequence[Step]) -> Step:
        """Choose a step of whoever has the highest priority."""
        self._taken += 1
        actors = [_actor(step) for step in possible]
        for actor in actors:
            self._priorities.setdefault(actor, self._depth + self._random.random())
        first = max(actors, key=self._priorities.__getitem__)
        for place, change in enumerate(self._changes):
            if change == self._taken:
                self._priorities[first] = place
                first = max(actors, key=self._priorities.__getitem__)
        return possible[actors.index(first)]


def _actor(step: Step) -> Step:
    """Tell whose step it is: a worker's, or that of what goes wrong, which has nothing else to do."""
    return step if step.verb in GOES_WRONG else Step(Verb.RESERVE, step.worker)


def schedule(name: str, situation: Situation, *, depth: int, seed: int) -> Schedule:
    """Make a schedule of a name.

    Raises:
        ValueError: There is none of this name, the depth is none, or orders of the situation need not end.
    """
    random = Random(f"{seed} schedules")
    steps = situation.longest
    if name == "random":
        return Schedule(random)
    if name != "pct":
        raise ValueError(f"sample is {name!r}: use 'random', 'pct', or None for all orders")
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= steps:
        raise ValueError(f"depth is {depth!r}: use a number from 1 to {steps}, which is how long an order can be")
    workers, jobs = situation.scenario.workers, len(situation.scenario.arrivals)
    actors = workers + (jobs if situation.expiries else 0) + (workers if situation.crashes else 0)
    return Priorities(random, actors=actors, steps=steps, depth=depth)


def walk_some(plays: Plays, schedule: Schedule, promises: Sequence[Promise], samples: int) -> "Sample":
    """Walk through orders that a schedule chooses; what breaks a promise is shortened as far as it goes."""
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples is {samples!r}: use a number from 1")
    sample, states, found = Sample(), set[State](), None
    for _ in range(samples):
        schedule.begin()
        last = None
        for here in _walk(plays, schedule):
            states.add(here.state)
            found = cheaper(found, look(here, promises))
            last = here
        if last is not None:
            sample.add(last.path, last.state.outcome)
    sample.states = len(states)
    sample.found = None if found is None else shortened(found, plays.play, promises)
    return sample


class Sample(Walked):
    """Orders that were chosen by chance."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: dict[str, dict[Path, None]] = defaultdict(dict)

    def add(self, path: Path, outcome: str) -> None:
        """Add an order."""
        self.outcomes[outcome] += 1
        if len(self._paths[outcome]) < _KEPT:
            self._paths[outcome][path] = None

    def paths_of(self, outcome: str | None) -> Iterator[Path]:
        """Give different paths that ended in an outcome, at most a hundred of each."""
        for name, paths in self._paths.items():
            if outcome in (None, name):
                yield from paths


def _walk(plays: Plays, schedule: Schedule) -> Iterator[Here]:
    """Walk through one order; a run-out must be known when its reservation is made, so there it begins anew."""
    path: Path = ()
    going = True
    while going:
        with plays.stage(path) as stage:
            for step in path:
                stage.take(step)
            yield Here(path, stage.state(), ())
            going = False
            for step in _steps(stage, schedule):
                path = (*path, step)
                if step.verb is Verb.RUN_OUT:
                    going = True
                    break
                yield Here(path, stage.state(), ())
            else:
                yield Here(path, stage.state(last=True), ())


def _steps(stage: Stage, schedule: Schedule) -> Iterator[Step]:
    """Take steps until none is possible; one that is a run-out is not taken."""
    possible = stage.possible()
    while possible:
        step = schedule.choose(possible)
        if step.verb is Verb.RUN_OUT:
            yield step
        try:
            did = stage.take(step)
        except NothingDue:
            possible.remove(step)
            continue
        yield step._replace(job=did.job)
        possible = stage.possible()
