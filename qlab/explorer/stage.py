"""Takes the steps of a path on a real queue, one second each, and looks at what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qlab.clock import SimulatedClock
from qlab.errors import QlabError
from qlab.explorer.cast import Card, Hand, handler
from qlab.explorer.interleaving import Did, Path, State, Step, Verb
from qlab.explorer.situation import Situation
from qlab.job import Job, JobState, Reservation
from qlab.outcome import Completed, Failed, Released, Retrying, Superseded, Unknown
from qlab.queue import Queue
from qlab.running import Ended

TICK = 1.0
"""How long a step takes, in seconds."""
FAR = 10_000.0
"""After how many seconds a reservation runs out that does not on a path longer than the policy's time."""
_ENOUGH = 4
_VERBS = {Completed: "complete", Released: "release", Retrying: "release", Failed: "fail"}


class NothingDue(ValueError):
    """A worker asked for a job while one was ready, and got none."""


class Stage:
    """Takes steps on a queue in which nothing is.

    Which reservation runs out when is fixed when it is made: so the whole path must be known from the start.

    Args:
        situation: What is to be done. Its handlers are registered on the queue, its jobs are dispatched.
        queue: The queue; its policy is another one from here on.
        path: The steps that will be taken.
    """

    def __init__(self, situation: Situation, queue: Queue, path: Path = ()) -> None:
        if not isinstance(queue.clock, SimulatedClock):
            raise TypeError(f"the queue has a {type(queue.clock).__name__}: steps are taken under a SimulatedClock")
        self.situation, self.queue, self._clock = situation, queue, queue.clock
        self._waits, self._length = waits(path), len(path)
        self._taken = 0
        self._spent = {Verb.RUN_OUT: 0, Verb.CRASH: 0, Verb.RESTART: 0}
        scenario = situation.scenario
        self._policy = replace(scenario.policy, backoff=(), jitter=0.0)
        queue.policy = self._policy
        for name, behaviour in scenario.handlers.items():
            queue.handler(name)(handler(behaviour))
        jobs = queue.dispatch_many([(each.name, each.payload) for each in scenario.arrivals])
        self._numbers = {job.uid: number for number, job in enumerate(jobs, 1)}
        self._cards = {number: Card() for number in self._numbers.values()}
        self._hands = [Hand(f"worker {number}") for number in range(1, scenario.workers + 1)]
        self._failed = False
        self._did: Did | None = None

    # -- steps --

    def take(self, step: Step, *, sure: bool = False) -> Did:
        """Take the next step; a worker's step need not name the job.

        Args:
            step: The step.
            sure: Whether it is known that it can be taken.

        Raises:
            ValueError: It cannot be taken here, or another job is reserved than the step says.
        """
        if not sure and not any(_fits(step, possible) for possible in self.possible()):
            raise ValueError(f"step {self._taken + 1}, {step}, cannot be taken here")
        self._clock.advance(TICK)
        take = {
            Verb.RESERVE: self._reserve, Verb.FINISH: self._finish, Verb.SETTLE: self._settle,
            Verb.CRASH: self._crash, Verb.RESTART: self._restart, Verb.RUN_OUT: self._run_out,
        }[step.verb]  # fmt: skip
        if step.verb in self._spent:
            self._spent[step.verb] += 1
        self._did = take(step)
        self._taken += 1
        return self._did

    def _reserve(self, step: Step) -> Did:
        hand = self._hand(step)
        waiting = [self._numbers[job.uid] for job in self._ready()]
        self.queue.policy = replace(self._policy, retry_after=self._lasts())
        held = self.queue.reserve(worker=hand.name)
        self.queue.policy = self._policy
        if held is None:
            raise NothingDue(f"step {self._taken + 1}, {step}: the store had a ready job, and gave none")
        job, card = self._numbers[held.job.uid], self._card(held.job)
        if step.job not in (0, job):
            raise ValueError(f"step {self._taken + 1}, {step}: it got job {job} instead")
        self._pass(waiting, job)
        card.reserved += 1
        card.holder = card.reserved
        if self._policy.tries is not None and held.job.attempts > self._policy.tries:
            return self._exhausted(step, hand, held)
        card.started += 1
        hand.take(held, job, card.reserved)
        return Did(step, "reserve", job, held.job.attempts)

    def _pass(self, waiting: Sequence[int], taken: int) -> None:
        """Remember of each job that waits which one went before it."""
        for number in waiting:
            card = self._cards[number]
            card.passed = () if number == taken else tuple(sorted((*card.passed, taken)))

    def _exhausted(self, step: Step, hand: Hand, held: Reservation) -> Did:
        """Fail a job whose tries are used up, as whoever reserves it does."""
        outcome = self.queue.finish(held, worker=hand.name)
        self._failed = True
        self._card(held.job).back()
        accepted = not isinstance(outcome, Superseded)
        return Did(step, "fail", self._numbers[held.job.uid], held.job.attempts, accepted, exhausted=True)

    def _finish(self, step: Step) -> Did:
        hand = self._hand(step)
        held = hand.reserved
        hand.ended = _run(self.queue, held, hand.name)
        card = self._cards[hand.job]
        card.ended += 1
        card.succeeded += hand.ended.error is None
        return Did(step, "", hand.job, held.job.attempts, hand.ended.error is None, self._superseded(hand))

    def _settle(self, step: Step) -> Did:
        hand = self._hand(step)
        held, card, superseded = hand.reserved, self._cards[hand.job], self._superseded(hand)
        before = self._contents() if superseded else None
        assert hand.ended is not None  # noqa: S101 - only a step that is possible is taken
        outcome = self.queue.settle(held, hand.ended, worker=hand.name)
        if isinstance(outcome, Unknown):
            raise QlabError(f"step {self._taken + 1}, {step}: {outcome.says}")
        accepted = not isinstance(outcome, Superseded)
        verb = outcome.verb if isinstance(outcome, Superseded) else _VERBS[type(outcome)]
        self._failed |= verb == "fail"
        changed = before is not None and before != self._contents()
        did = Did(step, verb, hand.job, held.job.attempts, accepted, superseded, changed)
        if accepted:
            card.back()
            card.completed += verb == "complete"
        hand.drop()
        return did

    def _crash(self, step: Step) -> Did:
        hand = self._hand(step)
        held = hand.reserved
        did = Did(step, "", hand.job, held.job.attempts, True, self._superseded(hand))
        self.queue.crash(held, worker=hand.name)
        hand.alive = False
        hand.drop()
        return did

    def _restart(self, step: Step) -> Did:
        hand = self._hand(step)
        alone = not any(each.alive for each in self._hands)
        hand.alive = True
        if self.situation.renamed:
            hand.name = f"{hand.name} (again)"
        recovered = self.queue.recover(force=alone, worker=hand.name)
        for job in recovered:
            self._card(job).back()
        return Did(step, "recover", recovered=tuple(self._numbers[job.uid] for job in recovered))

    def _run_out(self, step: Step) -> Did:
        return Did(step, "", step.job)

    # -- looking --

    def possible(self) -> list[Step]:
        """Give the steps that may come next, by what the store tells and what may still go wrong.

        None after four times as many as any order has on a driver that keeps its promises: on others they may go on
        for ever.
        """
        if self._taken >= _ENOUGH * self.situation.longest:
            return []
        ready = self._ready()
        steps = [step for number, hand in enumerate(self._hands, 1) for step in self._of(number, hand, ready)]
        if self._spent[Verb.RUN_OUT] < self.situation.expiries:
            reserved = [job for job in self._jobs() if job.state(self._clock.now()) is JobState.RESERVED]
            steps += sorted(Step(Verb.RUN_OUT, job=self._numbers[job.uid]) for job in reserved)
        return steps

    def _of(self, number: int, hand: Hand, ready: Sequence[Job]) -> Iterator[Step]:
        most = self.situation
        if not hand.alive:
            if self._spent[Verb.RESTART] < most.restarts:
                yield Step(Verb.RESTART, number)
        elif hand.held is None:
            if ready:
                yield Step(Verb.RESERVE, number)
        else:
            yield Step(Verb.FINISH if hand.ended is None else Verb.SETTLE, number, hand.job)
            if self._spent[Verb.CRASH] < most.crashes:
                yield Step(Verb.CRASH, number, hand.job)

    def state(self, *, last: bool = False) -> State:
        """Look at the jobs and the workers.

        Args:
            last: Whether no step will be taken any more, so that jobs may be reserved to see which come in which order,
                and which would never come.
        """
        places = self._places()
        line = tuple(self._numbers[job.uid] for job in self._ready())
        stranded: tuple[int, ...] = ()
        if last:
            line, stranded = self._probe(line)
        return State(
            tuple(card.view(number, places.get(number, [])) for number, card in self._cards.items()),
            tuple(hand.view(number, self._superseded(hand)) for number, hand in enumerate(self._hands, 1)),
            line,
            self._spent[Verb.RUN_OUT], self._spent[Verb.CRASH], self._spent[Verb.RESTART],
            self._policy.tries, self._did, stranded,
        )  # fmt: skip

    def _probe(self, line: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tell in which order the ready jobs would be reserved, and which jobs never would be."""
        given = tuple(self._given(0.0)) if line else ()
        held = {hand.job for hand in self._hands if hand.held is not None and not self._superseded(hand)}
        lasting = self._policy.retry_after is None and not all(hand.alive for hand in self._hands)
        left = sorted({self._numbers[job.uid] for job in self._jobs()} - held - {*given})
        if lasting or not left:
            return given, ()
        come = {*self._given(2 * FAR)}
        return given, tuple(number for number in left if number not in come)

    def _given(self, after: float) -> list[int]:
        """Reserve all that is due so many seconds from now."""
        now = self._clock.now() + after
        found = self.queue.driver.reserve(self.queue.name, now=now, retry_after=TICK, limit=len(self._numbers) + 1)
        return [self._numbers[held.job.uid] for held in found]

    def _places(self) -> dict[int, list[tuple[str, int]]]:
        """Tell where each job is, with its attempts there."""
        places: dict[int, list[tuple[str, int]]] = {}
        for job in self._jobs():
            there = str(job.state(self._clock.now())), job.attempts
            places.setdefault(self._numbers[job.uid], []).append(there)
        if self._failed:
            for failed in self.queue.driver.failed(self.queue.name):
                places.setdefault(self._numbers[failed.uid], []).append((str(JobState.FAILED), failed.attempts))
        return places

    # -- small things --

    def _jobs(self) -> list[Job]:
        return self.queue.driver.jobs(self.queue.name, now=self._clock.now())

    def _ready(self) -> list[Job]:
        now = self._clock.now()
        return [job for job in self._jobs() if job.state(now) is JobState.READY]

    def _contents(self) -> object:
        return self._jobs(), self.queue.driver.failed(self.queue.name)

    def _hand(self, step: Step) -> Hand:
        return self._hands[step.worker - 1]

    def _card(self, job: Job) -> Card:
        return self._cards[self._numbers[job.uid]]

    def _superseded(self, hand: Hand) -> bool:
        return hand.held is not None and hand.reservation != self._cards[hand.job].holder

    def _lasts(self) -> float | None:
        """Tell how long the reservation lasts that is made next."""
        if self._taken in self._waits:
            return self._waits[self._taken] * TICK
        usual = self._policy.retry_after
        return usual if usual is None or usual > (self._length + 1) * TICK else FAR


def _fits(step: Step, possible: Step) -> bool:
    """Tell whether a step is one that is possible; its job need not be named where its worker names it."""
    alike = step[:2] == possible[:2]
    return alike and (step.job == possible.job or (step.worker > 0 and 0 in (step.job, possible.job)))


def waits(path: Path) -> dict[int, int]:
    """Tell after how many steps each reservation runs out that does, by the place of its step."""
    made: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for place, step in enumerate(path):
        if step.verb is Verb.RESERVE:
            made[step.job] = place
        elif step.verb is Verb.RUN_OUT and step.job in made:
            lasts.setdefault(made[step.job], place - made[step.job])
    return lasts


def _run(queue: Queue, held: Reservation, worker: str) -> Ended:
    steps = queue.steps(held, worker=worker)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            ended: Ended = stop.value
            return ended
