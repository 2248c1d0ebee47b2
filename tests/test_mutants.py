"""Wrong simulators, each with the check that notices it: no check is there that notices nothing."""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from qlab import Policy
from qlab.clock import us
from qlab.drivers.memory import MemoryDriver
from qlab.job import NewJob, Reservation
from qlab.simulation import simulate
from qlab.simulation.engine import Engine
from qlab.simulation.feed import Feed
from qlab.trace import Kind
from qlab.workload import Exponential, Fixed, Poisson, Workload
from qlab.workload.streams import Streams

LAM, MU, JOBS = 1.6, 2.0, 20_000
"""A service rate that is not 1: a rate that was taken for a mean would go unnoticed."""


class Seen(NamedTuple):
    """A run's jobs: when each came, began and ended, in microseconds."""

    came: list[int]
    begun: list[int]
    ended: list[int]

    @property
    def waits(self) -> list[float]:
        return [(begun - came) / 1e6 for came, begun in zip(self.came, self.begun, strict=True)]

    @property
    def services(self) -> list[float]:
        return [(ended - begun) / 1e6 for begun, ended in zip(self.begun, self.ended, strict=True)]


def watch(driver: MemoryDriver, workload: Workload, workers: int, seed: int) -> Seen:
    rules = Policy(tries=None, retry_after=None)
    with driver:
        run = simulate(driver, workload=workload, workers=workers, poll=None, seed=seed, policy=rules)
    seen: dict[Kind, dict[int | None, int]] = {Kind.DISPATCHED: {}, Kind.RESERVED: {}, Kind.COMPLETED: {}}
    for event in run.trace:
        if event.kind in seen:
            seen[event.kind][event.job] = us(event.at)
    return Seen(*([column[job] for job in sorted(column)] for column in seen.values()))  # type: ignore[type-var]


class Evidence(NamedTuple):
    """What the checks look at: drawn jobs, and jobs of which everything is known beforehand."""

    drawn: Seen
    given: Seen
    shared: Seen


def evidence(driver: Callable[[], MemoryDriver] = MemoryDriver) -> Evidence:
    drawn = Workload(Poisson(LAM), Exponential(1 / MU), jobs=JOBS)
    given = Workload(Poisson(LAM), Fixed(0.5), jobs=500)
    shared = Workload(Poisson(4 * LAM), Exponential(1 / MU), jobs=2_000)
    return Evidence(watch(driver(), drawn, 1, 11), watch(driver(), given, 1, 12), watch(driver(), shared, 4, 13))


# -- the checks --


def first_come_first_served(seen: Seen, workers: int) -> bool:
    """Each job begins when the recursion of Kiefer and Wolfowitz says, to the microsecond."""
    free, right = [0] * workers, True
    for came, begun, ended in zip(*seen, strict=True):
        right = right and begun == max(came, heapq.heappop(free))
        heapq.heappush(free, ended)
    return right


def near(values: list[float], expected: float, error: float) -> bool:
    """The mean is within four standard errors."""
    return abs(sum(values) / len(values) - expected) < 4 * error / math.sqrt(len(values))


def correlation(left: list[float], right: list[float]) -> float:
    x, y = sum(left) / len(left), sum(right) / len(right)
    both = sum((a - x) * (b - y) for a, b in zip(left, right, strict=True))
    spread = sum((a - x) ** 2 for a in left) * sum((b - y) ** 2 for b in right)
    return both / math.sqrt(spread) if spread else 0.0


def between(came: list[int]) -> list[float]:
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(came)]


RHO = LAM / MU
WAIT = RHO / (MU - LAM)
SPREAD = (
    math.sqrt(RHO * (2 + 5 * RHO - 4 * RHO**2 + RHO**3)) / (1 - RHO) ** 2 / MU
)  # of n times the mean wait's variance

CHECKS: dict[str, Callable[[Evidence], bool]] = {
    "starts of one worker": lambda e: first_come_first_served(e.drawn, 1) and first_come_first_served(e.given, 1),
    "starts of four workers": lambda e: first_come_first_served(e.shared, 4),
    "service given": lambda e: {round(service * 1e6) for service in e.given.services} == {500_000},
    "mean service": lambda e: near(e.drawn.services, 1 / MU, 1 / MU),
    "long services": lambda e: near([float(s > 2 / MU) for s in e.drawn.services], math.exp(-2), 0.342),
    "arrivals and services": lambda e: (
        abs(correlation(between(e.drawn.came), e.drawn.services[1:])) < 4 / math.sqrt(JOBS)
    ),
    "mean between arrivals": lambda e: near(between(e.drawn.came), 1 / LAM, 1 / LAM),
    "mean wait": lambda e: near(e.drawn.waits, WAIT, SPREAD),
    "share that waits": lambda e: near([float(wait > 0) for wait in e.drawn.waits], RHO, 1.3),
}


def misses(found: Evidence) -> set[str]:
    return {name for name, check in CHECKS.items() if not check(found)}


# -- the mutants --


class Usual(MemoryDriver):
    """Takes no short cut, so that what is broken on the usual way is met."""


class LastInFirstOut(MemoryDriver):
    """Reserves what came last."""

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        found = super().reserve(queue, now=now, retry_after=retry_after, limit=1_000_000)
        last = max(found, key=lambda held: held.job.id, default=None)
        for held in sorted(found, key=lambda held: held.job.id):
            if held is not last:
                self.release(held, now=now)
        return [last] if last else []


class WholeSeconds(MemoryDriver):
    """Keeps moments in whole seconds."""

    def push(self, queue: str, jobs: Any, *, now: float, resent: bool = False) -> Any:
        later = [NewJob(job.uid, job.name, job.body, math.ceil(job.available_at)) for job in jobs]
        return super().push(queue, later, now=now, resent=resent)


def scaled(patch: pytest.MonkeyPatch, change: Callable[[int], int]) -> None:
    takes = Feed._takes  # noqa: SLF001 - what is broken is inside
    patch.setattr(Feed, "_takes", lambda self, held: change(takes(self, held) or 0))


def hidden_poll(patch: pytest.MonkeyPatch, seconds: float) -> None:
    ready = Engine.ready

    def late(self: Engine) -> None:
        if self._idle:
            self.plan(self.now + seconds, lambda *_: ready(self, self.now))

    patch.setattr(Engine, "is_there", late)


def one_stream(patch: pytest.MonkeyPatch) -> None:
    """Seed each stream alike."""
    patch.setattr(Streams, "of", lambda self, _: random.Random(str(self.seed)))


def normal(patch: pytest.MonkeyPatch) -> None:
    def sampler(self: Exponential, source: random.Random) -> Callable[[], int]:
        return lambda: us(abs(source.gauss(0.0, self.mean * math.sqrt(math.pi / 2))))

    patch.setattr(Exponential, "sampler", sampler)


def rate_for_mean(patch: pytest.MonkeyPatch) -> None:
    sampler = Exponential.sampler
    patch.setattr(Exponential, "sampler", lambda self, source: sampler(Exponential(1 / self.mean), source))


def evenly(patch: pytest.MonkeyPatch) -> None:
    def moments(self: Poisson, _: random.Random, until: float = math.inf) -> Iterator[float]:
        return (i / self.rate for i in range(1, 10**9))

    patch.setattr(Poisson, "moments", moments)


def seldom(patch: pytest.MonkeyPatch) -> None:
    moments = Poisson.moments
    patch.setattr(Poisson, "moments", lambda self, source: (moment * 1.05 for moment in moments(self, source)))


def wrong_worker(patch: pytest.MonkeyPatch) -> None:
    """Each job is one worker's, whoever else is free."""
    is_there = Engine.is_there

    def mine_only(self: Engine) -> None:
        if len(self.seats) == 1 or len(self.queue.trace) % 4:
            is_there(self)

    patch.setattr(Engine, "is_there", mine_only)


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], object], type[MemoryDriver], set[str], set[str]]] = {
    "last in, first out": (
        lambda _: None, LastInFirstOut, {"starts of one worker"}, {"mean wait", "share that waits", "mean service"},
    ),
    "a hidden poll of a tenth of a service": (
        lambda patch: hidden_poll(patch, 0.05), Usual, {"starts of one worker"}, {"mean service"},
    ),
    "a hidden poll of half a service": (
        lambda patch: hidden_poll(patch, 0.25), Usual, {"starts of one worker", "share that waits"}, set(),
    ),
    "an overhead of 2 %": (
        lambda patch: scaled(patch, lambda took: round(took * 1.02)), Usual, {"service given"}, {"mean wait"},
    ),
    "an overhead of 5 %": (
        lambda patch: scaled(patch, lambda took: round(took * 1.05)),
        Usual, {"service given", "mean service"}, {"starts of one worker"},
    ),
    "services rounded down to tenths": (
        lambda patch: scaled(patch, lambda took: took // 100_000 * 100_000),
        Usual, {"mean service"}, {"service given", "starts of one worker"},
    ),
    "moments in whole seconds": (
        lambda _: None, WholeSeconds, {"starts of one worker", "mean wait"}, {"mean service"},
    ),
    "one stream for everything": (one_stream, Usual, {"arrivals and services"}, {"mean service"}),
    "the size of a normal number for a service": (normal, Usual, {"long services"}, {"mean service"}),
    "a rate taken for a mean": (rate_for_mean, Usual, {"mean service"}, {"starts of one worker"}),
    "arrivals without chance": (evenly, Usual, {"mean wait"}, {"mean between arrivals", "starts of one worker"}),
    "arrivals that are 5 % too seldom": (
        seldom, Usual, {"mean between arrivals"}, {"starts of one worker", "mean service"},
    ),
    "workers that leave others' jobs alone": (
        wrong_worker, Usual, {"starts of four workers"}, {"starts of one worker"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("driver", [MemoryDriver, Usual])
def test_the_simulator_passes_every_check(driver: type[MemoryDriver]) -> None:
    assert misses(evidence(driver)) == set()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_simulator_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the checks that are named, and not by those that are blind to it, which is why there are others."""
    break_it, driver, noticed, blind = MUTANTS[mutant]
    break_it(monkeypatch)
    missed = misses(evidence(driver))
    assert noticed <= missed, missed
    assert not blind & missed, missed


def test_every_check_notices_something() -> None:
    noticed = set().union(*(noticed for _, _, noticed, _ in MUTANTS.values()))
    assert set(CHECKS) == noticed
