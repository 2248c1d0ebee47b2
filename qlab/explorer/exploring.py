"""Every order in which the workers of a small scenario can take their steps, on a real driver.

What is explored is the driver itself: each order is taken step by step on a queue, and states that nothing tells apart
are merged, so that many thousand orders are counted from a few hundred states.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from qlab.clock import SimulatedClock
from qlab.escape import html
from qlab.explorer.interleaving import Path
from qlab.explorer.invariants import PROMISES, Kept, Promise, first_broken, promise
from qlab.explorer.narration import ending, opening, sentence, verdict
from qlab.explorer.plays import Plays, Store
from qlab.explorer.sampling import Schedule, schedule, walk_some
from qlab.explorer.situation import SITUATIONS, Situation, situation
from qlab.explorer.stage import Stage
from qlab.explorer.walks import Walked, walk_all
from qlab.queue import Queue
from qlab.scenario import Scenario
from qlab.show import Table, table_html
from qlab.trace import Trace


class Broken(NamedTuple):
    """The first path that breaks a promise, of which no step can be left out.

    Attributes:
        path: The steps.
        promise: What the promise is called.
        says: How it is broken.

    Example:
        >>> from qlab import explore, flaws
        >>> broken = explore("one_job", driver=flaws.CompletesById).first_broken
        >>> len(broken.path), broken.promise
        (5, 'superseded workers change nothing')
        >>> broken.says
        'job 1 is nowhere now, while worker 2 still has it in hand'
    """

    path: Path
    promise: str
    says: str


class Explored:
    """What came of every order, or of those that were sampled; `explore` gives it.

    Args:
        plays: Takes a path's steps again.
        promises: What was looked for.
        walked: The states and paths that were found.
        description: On what: product, version and settings of the store.
        schedule: How orders were sampled; None where all were walked through.

    Attributes:
        situation: What was explored.
        driver: On what: product, version and settings of the store.
        paths: How many orders there are, or how many were sampled.
        states: How many states are different.
        outcomes: How many orders end so, by how they end, the most frequent first.
        first_broken: The path that breaks a promise and is told soonest; None where none does.
        sampled: How orders were sampled: `random` or `pct`; None where all were walked through.
        bound: With which probability one sampled order finds what takes `depth` choices, at the least; only of `pct`.

    Example:
        >>> from qlab import explore
        >>> explored = explore("takes_two")
        >>> explored.paths, explored.states, explored.first_broken
        (56, 42, None)
        >>> dict(explored.outcomes)
        {'done, run 2x': 44, 'failed although run 2x': 12}
    """

    def __init__(
        self,
        plays: Plays,
        promises: Sequence[Promise],
        walked: Walked,
        description: str,
        schedule: Schedule | None = None,
    ) -> None:
        self.situation, self.driver = plays.situation, description
        self.sampled = None if schedule is None else schedule.name
        self.bound = None if schedule is None else schedule.bound
        self._plays, self._promises, self._walked = plays, tuple(promises), walked
        self.states = walked.states
        self.outcomes: Mapping[str, int] = dict(sorted(walked.outcomes.items(), key=lambda item: -item[1]))
        self.paths = sum(self.outcomes.values())
        found = walked.found
        self.first_broken = None if found is None else Broken(found.path, found.promise.name, found.says)

    def paths_of(self, outcome: str | None = None, limit: int | None = None) -> Iterator[Path]:
        """Give paths that end in an outcome.

        Args:
            outcome: One of `outcomes`; None for all.
            limit: How many at the most.

        Raises:
            ValueError: No path ends so.
        """
        if outcome is not None and outcome not in self.outcomes:
            raise ValueError(f"no path ends in {outcome!r}: use one of {', '.join(map(repr, self.outcomes))}")
        return itertools.islice(self._walked.paths_of(outcome), limit)

    def story(self, path: Path) -> list[str]:
        """Tell a path in sentences, one a step, and at last which promise it breaks.

        Raises:
            ValueError: A step of it cannot be taken.
        """
        with self._plays.stage(path) as stage:
            return [*_told(stage, path, self._promises, last=True)]

    def breaks(self, path: Path) -> Broken | None:
        """Tell which promise a path breaks first, with its steps up to there; None where it breaks none.

        Raises:
            ValueError: A step of it cannot be taken.
        """
        with self._plays.stage(path) as stage:
            for taken, step in enumerate(path, 1):
                stage.take(step)
                if found := first_broken(self._promises, stage.state(last=taken == len(path))):
                    return Broken(path[:taken], found[0].name, found[1])
        return None

    def trace(self, path: Path) -> Trace:
        """Give a path as a trace, one second a step: `plots.timeline` draws it.

        Raises:
            ValueError: A step of it cannot be taken.
        """
        with self._plays.stage(path) as stage:
            for step in path:
                stage.take(step)
            return stage.queue.trace

    def replay(self, path: Path, queue: Queue) -> Iterator[str]:
        """Take a path's steps on a queue, one each time that the next sentence is asked for.

        Args:
            path: The path.
            queue: An empty queue on any driver, under a `SimulatedClock`; it gets the scenario's handlers.

        Yields:
            What is there at first, what each step did, and at last which promise was broken, or that none was.

        Raises:
            TypeError: The queue's clock is no `SimulatedClock`.
            ValueError: There are jobs in the queue, or a step cannot be taken on this driver.
        """
        if queue.counts().depth:
            raise ValueError(f"the queue {queue.name!r} has {queue.counts().depth} jobs: a replay needs an empty one")
        if not isinstance(queue.clock, SimulatedClock):
            raise TypeError(f"the queue {queue.name!r} has a {type(queue.clock).__name__}: use a SimulatedClock")
        return self._replayed(path, queue)

    def _replayed(self, path: Path, queue: Queue) -> Iterator[str]:
        policy = queue.policy
        try:
            yield from _told(Stage(self.situation, queue, path), path, self._promises, last=False)
        finally:
            queue.policy = policy

    def row(self) -> dict[str, object]:
        """Tell it as one row of a table for people."""
        broken = self.first_broken.promise if self.first_broken else "none"
        return {"scenario": self.situation.name, "orders": self.paths, "states": self.states, "broken promise": broken}

    def __repr__(self) -> str:
        broken = f"broken: {self.first_broken.promise}" if self.first_broken else "no promise is broken"
        return f"<Explored {self.situation.name!r} on {self.driver}: {_counted([(self.paths, 'order')])}, {broken}>"

    def _repr_html_(self) -> str:
        caption = f"{self.situation.name} on {self.driver}: {self.says}"
        table = table_html(("outcome", "orders"), self.outcomes.items(), caption)
        if self.first_broken is None:
            return f"{table}<p>No promise is broken.</p>"
        told = "".join(f"<li>{html(each)}</li>" for each in self.story(self.first_broken.path))
        return f"{table}<p>A promise is broken: {html(self.first_broken.promise)}.</p><ol>{told}</ol>"

    @property
    def says(self) -> str:
        """What was walked through, in words."""
        situation, scenario = self.situation, self.situation.scenario
        orders = f"{self.paths:,} order{'' if self.paths == 1 else 's'}"
        orders = f"a sample of {orders}" if self.sampled else orders
        of = [(scenario.workers, "worker"), (len(scenario.arrivals), "job")]
        wrong = [(situation.expiries, "run-out"), (situation.crashes, "crash"), (situation.restarts, "restart")]
        return f"{orders} of {_counted(of)}, with {_counted(wrong) or 'nothing that goes wrong'}"


def _counted(things: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{count} {_plural(thing, count)}" for count, thing in things if count)


def _plural(thing: str, count: int) -> str:
    return thing if count == 1 else thing + ("es" if thing.endswith("sh") else "s")


def explore(
    scenario: Situation | Scenario | str = "one_job",
    *,
    driver: Store = "memory://",
    promises: Sequence[Kept | Promise] | None = None,
    expiries: int | None = None,
    crashes: int | None = None,
    restarts: int | None = None,
    most: int = 20_000,
    sample: Literal["random", "pct"] | None = None,
    samples: int = 1_000,
    depth: int = 3,
    seed: int = 0,
) -> Explored:
    """Take the steps of a small scenario in every order, and count how they end.

    A worker's steps are: it reserves a job, its handler ends, it settles the job. Beside those a reservation may run
    out under its worker, and a worker may crash with a job in hand.

    Args:
        scenario: What is to be done: one of `qlab.explorer.SITUATIONS` or its name, or a scenario.
        driver: A driver, its address, or what makes one, such as a flaw's class.
        promises: What to look for: functions of a `State`, which say how it is broken or give None; by default what
            every driver promises, `qlab.explorer.invariants.PROMISES`.
        expiries: How many reservations run out, at the most; the situation's number by default, and 1 for a scenario.
        crashes: How many workers crash, at the most; the situation's number by default, and none for a scenario.
        restarts: How many crashed workers are started again, at the most; likewise.
        most: How many different states there may be.
        sample: How to choose orders where there are too many for all of them: `random`, each step as likely as the
            others, or `pct`, which finds what takes `depth` choices with a probability that is known (`bound`).
        samples: How many orders to choose.
        depth: How many choices `pct` reckons with, from 1.
        seed: Where chance starts.

    Returns:
        What came of every order, or of those that were sampled.

    Raises:
        TypeError: The scenario is none.
        ValueError: There is no situation of this name, or a value is out of its range.
        TooLarge: There are more states than `most`: sample them.

    Example:
        >>> from qlab import explore, flaws
        >>> explored = explore("one_job", driver=flaws.CompletesById)
        >>> explored.paths
        30
        >>> explored.first_broken.promise
        'superseded workers change nothing'
        >>> explored.story(explored.first_broken.path)[-2]
        'Worker 1, whose reservation was superseded, completes job 1 all the same.'
    """
    situated = _situated(scenario, expiries=expiries, crashes=crashes, restarts=restarts)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"most is {most!r}: use a number from 1")
    wanted = [promise(each) for each in (PROMISES if promises is None else promises)]
    with Plays(situated, driver) as plays:
        description = plays.description
        if sample is None:
            return Explored(plays, wanted, walk_all(plays.play, wanted, most), description)
        chosen = schedule(sample, situated, depth=depth, seed=seed)
        return Explored(plays, wanted, walk_some(plays, chosen, wanted, samples), description, chosen)


def hunt(driver: Store = "memory://", *, promises: Sequence[Kept | Promise] | None = None) -> Table[Explored]:
    """Explore the situations that have a name, the smallest first, up to the first in which a promise is broken.

    Args:
        driver: As for `explore`.
        promises: As for `explore`.

    Returns:
        What came of each; the last one is where a promise was broken, if any was.

    Example:
        >>> from qlab.explorer import hunt
        >>> from qlab.flaws import ReleasesInPlace
        >>> hunt(ReleasesInPlace)[-1]
        <Explored 'two_jobs' on memory with a flaw: release in place: 1 order, broken: nobody starves>
    """
    explored: Table[Explored] = Table()
    for each in SITUATIONS.values():
        explored.append(explore(each, driver=driver, promises=promises))
        if explored[-1].first_broken is not None:
            break
    return explored


def _situated(scenario: Situation | Scenario | str, **numbers: int | None) -> Situation:
    given: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
    if isinstance(scenario, str):
        scenario = situation(scenario)
    if isinstance(scenario, Situation):
        return replace(scenario, **given)
    if not isinstance(scenario, Scenario):
        raise TypeError(f"scenario is {scenario!r}: use a Scenario, or one of {', '.join(SITUATIONS)}")
    return Situation(scenario, **given)


def _told(stage: Stage, path: Path, promises: Sequence[Promise], *, last: bool) -> Iterator[str]:
    before = stage.state()
    yield opening(before)
    broken = None
    for left, step in zip(range(len(path) - 1, -1, -1), path, strict=True):
        did = stage.take(step)
        after = stage.state(last=last and not left)
        broken = broken or first_broken(promises, after)
        yield sentence(did, before, after)
        before = after
    yield ending(before, not stage.possible()) if broken is None else verdict(broken[0].name, broken[1])
