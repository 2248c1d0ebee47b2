"""What a store's verbs cost on this machine, its disk and its server: measured with one client, in real time."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple, TypeVar

from qlab import drivers
from qlab.clock import monotonic
from qlab.cost import VERBS, Cost
from qlab.driver import Driver, Durability
from qlab.errors import QlabError
from qlab.job import NewJob, Reservation
from qlab.payload import encode
from qlab.progress import bar
from qlab.show import table_html
from qlab.tokens import Tokens
from qlab.whole import is_whole

JOBS = 100
"""How many times each verb is called in a round."""

REPEATS = 5
"""How many rounds there are."""

FUSED = "complete_and_reserve"

_BODY = encode({"image": 1_234_567, "size": "thumbnail"})
_WARM_UP = 10  # jobs
_WOBBLY = 1.5

Each = TypeVar("Each")
Result = TypeVar("Result")


class Measured(NamedTuple):
    """How long a verb takes, in seconds a call.

    Attributes:
        verb: The verb.
        seconds: The median of the rounds, each of which is the mean of its calls.
        least: The fastest round.
        most: The slowest round.
    """

    verb: str
    seconds: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a store's verbs cost here.

    Attributes:
        driver: The driver's family: `memory`, `sqlite`, `redis_list` or `redis_zset`.
        description: Product, version and settings of the store.
        durability: What the store promises, which is what its commits cost time for.
        verbs: What was measured, one verb each.
        jobs: How many times each verb was called in a round.
        repeats: How many rounds there were.
        load: How many processes ran or waited to, on average, in the last minute; None where the system does not tell.
        processors: How many processors there are.

    Example:
        >>> from qlab import calibrate
        >>> measured = calibrate("memory://", jobs=20, repeats=2)
        >>> [verb.verb for verb in measured.verbs]
        ['push', 'reserve', 'complete', 'complete_and_reserve', 'release', 'fail']
    """

    driver: str
    description: str
    durability: Durability
    verbs: tuple[Measured, ...]
    jobs: int
    repeats: int
    load: float | None
    processors: int

    @property
    def cost(self) -> Cost:
        """What `simulate(cost=…)` charges for the verbs: the medians.

        Each of the stores does one write at a time. Of a server's seconds most are the way there and back, in which it
        serves others too: many simulated clients find it busier than it would be.
        """
        medians = {each.verb: round(each.seconds, 9) for each in self.verbs if each.verb in VERBS}
        return Cost(**medians, serial=True, about=self.description)

    @property
    def noise(self) -> str:
        """What makes the numbers doubtful, in a sentence; empty where the rounds agree."""
        worst = max(self.verbs, key=lambda each: each.most / each.least)
        if worst.most < _WOBBLY * worst.least:
            return ""
        load = "" if self.load is None else f" (load {self.load:.1f} on {self.processors} processors)"
        return (
            f"{worst.verb} took from {_us(worst.least)} to {_us(worst.most)} µs, the machine or its disk was busy with "
            f"something else{load}: measure again when it is not, and trust ratios more than numbers"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Tell each verb as one row of a table for people, in microseconds a call."""
        return [
            {
                "verb": each.verb,
                "median µs": _us(each.seconds),
                "least µs": _us(each.least),
                "most µs": _us(each.most),
                "calls a second": round(1 / each.seconds),
            }
            for each in self.verbs
        ]

    def json(self) -> str:
        """Write it as JSON, all times in seconds."""
        told = asdict(self) | {
            "durability": self.durability._asdict(),
            "verbs": {each.verb: dict(zip(each._fields[1:], each[1:], strict=True)) for each in self.verbs},
            "noise": self.noise,
        }
        return json.dumps(told, indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        told = ", ".join(f"{each.verb} {_us(each.seconds)} µs" for each in self.verbs)
        return f"<Calibration of {self.description}: {told}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        note = f"{self.description}. {self.noise}" if self.noise else self.description
        return table_html(tuple(rows[0]), [tuple(row.values()) for row in rows], note)


def calibrate(
    store: Driver | str,
    *,
    jobs: int = JOBS,
    repeats: int = REPEATS,
    progress: bool | Callable[[float], object] | None = None,
) -> Calibration:
    """Measure what a store's verbs cost: one client, one job a call, a payload of some 40 characters.

    It works in a queue of its own, of which nothing is left, and which slows down whoever else uses the store.

    Args:
        store: A driver, or the address of one; a SQLite file that is not there is made.
        jobs: How many times each verb is called in a round.
        repeats: How many rounds there are.
        progress: Whether to show a bar; by default at a terminal and in a notebook. Or a function that is told which
            share is over.

    Raises:
        ValueError: A number or the address is none.
        QlabError: The store does not answer, or gives no jobs at the pace that is asked for.

    Example:
        >>> from qlab import calibrate
        >>> measured = calibrate("memory://", jobs=20, repeats=2)
        >>> measured.cost
        Cost(push=..., reserve=..., complete=..., release=..., fail=..., serial=True, about='...')
    """
    for name, number in (("jobs", jobs), ("repeats", repeats)):
        if not is_whole(number, 1):
            raise ValueError(f"{name} is {number!r}: use a number from 1")
    if isinstance(store, Driver):
        return _calibrated(store, jobs, repeats, progress)
    with drivers.open(store) as driver:
        return _calibrated(driver, jobs, repeats, progress)


def _calibrated(
    driver: Driver, jobs: int, repeats: int, progress: bool | Callable[[float], object] | None
) -> Calibration:
    queue = f"calibration {Tokens().next()[:12]}"
    with bar(progress) as shown:
        try:
            _Round(driver, queue).run(_WARM_UP)
            rounds = []
            for done in range(repeats):
                rounds.append(_Round(driver, queue).run(jobs))
                shown.show((done + 1) / repeats)
        finally:
            _leave_nothing(driver, queue)
    verbs = tuple(_measured(verb, [each[verb] for each in rounds]) for verb in rounds[0])
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    store = driver.description, driver.durability
    return Calibration(driver.name, *store, verbs, jobs, repeats, load, os.cpu_count() or 1)


class _Round:
    """Each verb a number of times, on a queue in which nothing is before and nothing after."""

    def __init__(self, driver: Driver, queue: str) -> None:
        self._driver = driver
        self._queue = queue
        self._tokens = Tokens()
        self._took: dict[str, float] = {}

    def run(self, jobs: int) -> dict[str, float]:
        """Tell how many seconds a call of each verb took, on average."""
        driver = self._driver
        self._times("push", lambda job: driver.push(self._queue, [job], now=0.0), self._new(jobs))
        held = self._times("reserve", lambda _: self._reserve(), range(jobs))
        self._times("complete", lambda each: driver.complete(each, now=1.0), held)
        self._fused(jobs)
        driver.push(self._queue, self._new(jobs), now=2.0)
        self._times("release", lambda each: driver.release(each, now=2.0), [self._reserve() for _ in range(jobs)])
        self._times(
            "fail",
            lambda each: driver.fail(each, now=3.0, attempts=2, error="ValueError: a bad day", traceback="line\n" * 20),
            [self._reserve() for _ in range(jobs)],
        )
        driver.forget(self._queue, driver.failed_ids(self._queue))
        return self._took

    def _fused(self, jobs: int) -> None:
        self._driver.push(self._queue, self._new(jobs + 1), now=2.0)
        held = self._reserve()

        def complete_and_reserve(_: int) -> None:
            nonlocal held
            _, following = self._driver.complete_and_reserve(held, now=2.0, retry_after=90.0)
            held = self._given([following] if following else [])

        self._times(FUSED, complete_and_reserve, range(jobs))
        self._driver.complete(held, now=2.0)

    def _times(self, verb: str, act: Callable[[Each], Result], over: Iterable[Each]) -> list[Result]:
        each = list(over)
        began = monotonic()
        results = [act(one) for one in each]
        self._took[verb] = (monotonic() - began) / len(each)
        return results

    def _new(self, jobs: int) -> list[NewJob]:
        return [NewJob(self._tokens.next(), "calibrated", _BODY, 0.0) for _ in range(jobs)]

    def _reserve(self) -> Reservation:
        return self._given(self._driver.reserve(self._queue, now=2.0, retry_after=90.0))

    def _given(self, found: list[Reservation]) -> Reservation:
        if not found:
            raise QlabError(f"{self._driver} gave no job although some wait: what slows it down would be measured, too")
        return found[0]


def _measured(verb: str, rounds: list[float]) -> Measured:
    return Measured(verb, median(rounds), min(rounds), max(rounds))


def _leave_nothing(driver: Driver, queue: str) -> None:
    driver.clear(queue, now=3.0)
    driver.forget(queue, driver.failed_ids(queue))
    if driver.store.name.startswith("redis"):
        from qlab.drivers.redis_store import RedisStore  # noqa: PLC0415 - the library redis may not be there

        if isinstance(driver.store, RedisStore):
            driver.store.delete(queue)


def _us(seconds: float) -> float:
    """Tell microseconds with three digits."""
    rounded = float(f"{seconds * 1e6:.3g}")
    return int(rounded) if rounded >= 100 else rounded
