"""One order of a small scenario, taken step by step in a lab of its own, whose board shows it."""

from collections.abc import Sequence
from dataclasses import replace

from qlab.explorer import Explored
from qlab.explorer.interleaving import Path, Step, Verb
from qlab.explorer.stage import FAR, TICK, waits
from qlab.lab import Lab
from qlab.simulation.simulator import behave


class Replay:
    """Takes the steps of a path in a lab, one second each: by hand from any of them on, if you like.

    Args:
        explored: What the path was found in.
        path: The path; by default the first that breaks a promise.
        driver: On what: the name of a driver or a flaw, an address, or several, which are moved in lockstep. Where one
            cannot take a step, the others do.
        name: What the lab is called.

    Attributes:
        lab: The lab: `lab.board()` shows it.
        path: The path.
        sentences: What is told of it: what there is at first, each step, and whether a promise was broken.
        taken: How many steps were taken.

    Raises:
        ValueError: No path was given, and none breaks a promise; or the driver is none.
    """

    def __init__(
        self,
        explored: Explored,
        path: Path | None = None,
        *,
        driver: str | Sequence[str] = "memory",
        name: str = "replay",
    ) -> None:
        if path is None:
            if explored.first_broken is None:
                raise ValueError(f"no promise is broken on {explored.driver}: give a path, such as one of paths_of()")
            path = explored.first_broken.path
        self.path, self.sentences, self.taken = path, explored.story(path), 0
        self._waits = waits(path)
        self._renamed = explored.situation.renamed
        self._gone: list[int] = []
        scenario = explored.situation.scenario
        self._policy = replace(scenario.policy, backoff=(), jitter=0.0)
        self.lab = Lab(driver, seed=scenario.seed, name=name, workers=scenario.workers, policy=self._policy)
        for handler, how in scenario.handlers.items():
            self.lab.handler(handler)(behave(how._replace(seconds=0.0, late_by=0.0)))
        for arrival in scenario.arrivals:
            self.lab.dispatch(arrival.name, arrival.payload)

    def next(self) -> str | None:
        """Take the next step, and tell it; None where all were taken."""
        if self.taken == len(self.path):
            return None
        step = self.path[self.taken]
        self.lab.advance(TICK)
        self._take(step)
        self.taken += 1
        return self.sentences[self.taken]

    def rest(self) -> list[str]:
        """Take all steps that are left, and tell them."""
        return [said for _ in range(self.taken, len(self.path)) if (said := self.next()) is not None]

    def _take(self, step: Step) -> None:
        match step.verb:
            case Verb.RESERVE:
                self._reserve(step.worker)
            case Verb.FINISH:
                self.lab.perform(step.worker)
            case Verb.SETTLE:
                self.lab.complete(step.worker)
            case Verb.CRASH:
                self.lab.crash(step.worker)
                self._gone.append(step.worker)
            case Verb.RESTART:
                self._restart(step.worker)

    def _reserve(self, worker: int) -> None:
        lasts = self._lasts()
        if lasts != self.lab.policy.retry_after:
            self.lab.change_policy(retry_after=lasts)
        self.lab.reserve(worker)
        held, tries = self.lab.sides[0].seat(worker).held, self._policy.tries
        if held is not None and tries is not None and held.job.attempts > tries:
            self.lab.complete(worker)

    def _lasts(self) -> float | None:
        """Tell how long the reservation lasts that is made next: as long as the path says."""
        if self.taken in self._waits:
            return self._waits[self.taken] * TICK
        usual = self._policy.retry_after
        return usual if usual is None or usual > (len(self.path) + 1) * TICK else FAR

    def _restart(self, worker: int) -> None:
        alone = len(self._gone) == len(self.lab.sides[0].bench.seats)
        self._gone.remove(worker)
        self.lab.resume(worker, renamed=self._renamed)
        self.lab.recover(worker, force=alone)

    def __repr__(self) -> str:
        return f"<Replay of {len(self.path)} steps, {self.taken} of them taken, in {self.lab!r}>"
