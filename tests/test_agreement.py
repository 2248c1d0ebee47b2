"""Random programs: after each of their steps every driver says what a plain model of the contract says."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from conftest import DRIVERS, ONE_OF_EACH, QUEUE, Store
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import Model
from tried import Tried

from qlab import drivers
from qlab.job import FailedJob, Job, NewJob, Reservation

QUEUES = (QUEUE, "thumbs")
WORKERS = 2
FLOOD = 130
"""More jobs than a list appends at once."""

SECONDS = (0.0, 1.0, 2.0, 10.0)
"""Few and round, so that moments meet."""

queues = st.sampled_from((QUEUE,) * 4 + QUEUES)
workers = st.integers(0, WORKERS - 1)
seconds = st.sampled_from(SECONDS)
pauses = st.sampled_from((0.0,) * 5 + SECONDS)
delays = st.sampled_from((0.0, *SECONDS, -3.0))
some_delays = st.lists(delays, min_size=3, max_size=6)
retry_after = st.sampled_from((2.0, 1.0, 10.0, None))
back = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 5, 8))
few = st.integers(0, 3)
known = st.sampled_from(("kept", "failed", "any"))


class Side:
    """The model, or a driver's store: where it can be shared, each worker has a driver of its own on it.

    How a store numbers its jobs is its own business: here a queue's jobs are counted as they are first seen.
    """

    def __init__(self, name: str, open_one: Callable[[], Any], *, shared: bool) -> None:
        self.name = name
        self.shared = shared
        self.held: list[Reservation] = []
        self._open_one = open_one
        self._drivers = [open_one() for _ in range(WORKERS)] if shared else [open_one()] * WORKERS
        self._numbers: dict[str, dict[int, int]] = {queue: {0: 0} for queue in QUEUES}

    def ask(self, worker: int, verb: str, *args: Any, **how: Any) -> Any:
        return self._told(getattr(self._drivers[worker], verb)(*args, **how))

    def reopen(self, worker: int) -> None:
        if self.shared:
            self._drivers[worker].close()
            self._drivers[worker] = self._open_one()

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()

    def _told(self, answer: Any) -> Any:
        """Take from an answer what is the store's own business, and keep the reservations in it."""
        if isinstance(answer, Job):
            numbers = self._numbers[answer.queue]
            return answer._replace(id=numbers.setdefault(answer.id, len(numbers)))
        if isinstance(answer, Reservation):
            self.held.append(answer)
            return answer._replace(job=self._told(answer.job), token="")
        if type(answer) in (list, tuple):
            return [self._told(part) for part in answer]
        return answer


def settling(**how: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """A step of a worker that settles what it holds, or held."""
    step = rule(worker=workers, after=pauses, late=st.booleans(), back=back, **how)
    return lambda function: precondition(lambda self: self.sides[0].held)(step(function))


class Programs(RuleBasedStateMachine):
    """Steps that workers take on a store with two queues, each taken on every side."""

    def __init__(self, sides: list[Side], count: Callable[[str], None]) -> None:
        super().__init__()
        self.sides = sides
        self.count = count
        self.clock_goes_back = False
        self.now = 0.0
        self.uids: list[str] = []
        self.jobs: list[Job] = []
        self.failed: list[FailedJob] = []
        count("random programs")

    def everywhere(self, act: Callable[[Side], Any]) -> Any:
        expected, *answers = [act(side) for side in self.sides]
        for side, answer in zip(self.sides[1:], answers, strict=True):
            assert answer == expected, f"{side.name} says something else than {self.sides[0].name}"
        return expected

    def ask(self, verb: str, *args: Any, worker: int = 0, **how: Any) -> Any:
        return self.everywhere(lambda side: side.ask(worker, verb, *args, **how))

    def new(self, delay: float) -> NewJob:
        self.uids.append(f"{len(self.uids):032x}")
        return NewJob(self.uids[-1], f"job {len(self.uids)}", f'{{"n": {len(self.uids)}}}', self.at(delay))

    def at(self, delay: float) -> float:
        return round(self.now + delay, 6)

    # -- steps --

    @initialize(delays=some_delays, flooded=st.sampled_from((False,) * 9 + (True,)), clock_goes_back=st.booleans())
    def start(self, delays: list[float], flooded: bool, clock_goes_back: bool) -> None:
        self.clock_goes_back = clock_goes_back
        self.push(0, QUEUE, delays + [1.0] * FLOOD * flooded)

    @rule(worker=workers, queue=queues, delays=st.lists(delays, min_size=1, max_size=4))
    def push(self, worker: int, queue: str, delays: list[float]) -> None:
        self.ask("push", queue, [self.new(delay) for delay in delays], now=self.now, worker=worker)

    @rule(worker=workers, queue=queues, known=known, which=few, resent=st.booleans())
    def push_again(self, worker: int, queue: str, known: str, which: int, resent: bool) -> None:
        uids = {"kept": [job.uid for job in self.jobs], "failed": [row.uid for row in self.failed]}
        known_uids = uids.get(known) or self.uids
        again = NewJob(known_uids[which % len(known_uids)], "again", "null", self.at(-1.0))
        self.ask("push", queue, [again, again, self.new(0.0)], now=self.now, resent=resent, worker=worker)

    @precondition(lambda self: self.jobs)
    @rule(worker=workers, after=pauses, retry_after=retry_after)
    def reserve(self, worker: int, after: float, retry_after: float | None) -> None:
        self.now = self.at(after)
        self.ask("reserve", QUEUE, now=self.now, retry_after=retry_after, worker=worker)

    @precondition(lambda self: self.jobs)
    @rule(worker=workers, queue=queues, limit=st.sampled_from((2, 3, 5, 200)), retry_after=retry_after)
    def reserve_some(self, worker: int, queue: str, limit: int, retry_after: float | None) -> None:
        self.ask("reserve", queue, now=self.now, retry_after=retry_after, limit=limit, worker=worker)

    @settling()
    def complete(self, **who: Any) -> None:
        self.settle("complete", **who)

    @settling(retry_after=retry_after)
    def complete_and_reserve(self, retry_after: float | None, **who: Any) -> None:
        self.settle("complete_and_reserve", retry_after=retry_after, **who)

    @settling(delay=seconds)
    def release(self, delay: float, **who: Any) -> None:
        self.settle("release", delay=delay, **who)

    @settling(seconds=seconds)
    def extend(self, seconds: float, **who: Any) -> None:
        self.settle("extend", seconds=seconds, **who)

    @settling(attempts=st.integers(1, 3))
    def fail(self, attempts: int, **who: Any) -> None:
        self.settle("fail", attempts=attempts, error=f"boom at {self.now}", traceback="where", **who)

    def settle(self, verb: str, *, worker: int, after: float, late: bool, back: int, **how: Any) -> None:
        self.now = self.at(after)
        which = self.reservation(late, back)
        self.everywhere(lambda side: side.ask(worker, verb, side.held[which], now=self.now, **how))

    def reservation(self, late: bool, back: int) -> int:
        """The place of one that is still good, the last first; of any at all for a worker that may be late."""
        given = self.sides[0].held
        reserved = {(job.queue, job.id, job.attempts) for job in self.jobs if job.reserved_at is not None}
        good = [place for place, (job, *_) in enumerate(given) if (job.queue, job.id, job.attempts) in reserved]
        places = range(len(given)) if late or not good else good
        return places[-1 - min(back, len(places) - 1)]

    @precondition(lambda self: self.sides[0].held)
    @rule(worker=workers, queue=queues, after=pauses, force=st.booleans())
    def recover(self, worker: int, queue: str, after: float, force: bool) -> None:
        self.now = self.at(after)
        self.ask("recover", queue, now=self.now, force=force, worker=worker)

    @precondition(lambda self: len(self.jobs) > 12)
    @rule(worker=workers, queue=queues)
    def clear(self, worker: int, queue: str) -> None:
        self.ask("clear", queue, now=self.now, worker=worker)

    @precondition(lambda self: self.failed)
    @rule(worker=workers, queue=queues, which=st.lists(few), body=st.sampled_from((None, '"corrected"')))
    def retry(self, worker: int, queue: str, which: list[int], body: str | None) -> None:
        self.ask("retry", queue, self.row_ids(which), now=self.now, body=body, worker=worker)

    @precondition(lambda self: self.failed)
    @rule(worker=workers, queue=queues, which=st.lists(few))
    def forget(self, worker: int, queue: str, which: list[int]) -> None:
        self.ask("forget", queue, self.row_ids(which), worker=worker)

    def row_ids(self, which: list[int]) -> list[int]:
        """Ids of rows, also of the other queue's, which is left alone; and one that no row has."""
        ids = [*(row.id for row in self.failed), 999]
        return [ids[place % len(ids)] for place in which]

    @rule(worker=workers)
    def reopen(self, worker: int) -> None:
        for side in self.sides:
            side.reopen(worker)

    @precondition(lambda self: self.jobs)
    @rule(early=st.booleans())
    def wait_until_one_is_due(self, early: bool) -> None:
        due = self.ask("next_due", QUEUE, now=self.now) or self.now
        self.now = max(self.now, round(due - (0.000001 if early else 0.0), 6))

    @precondition(lambda self: self.jobs)
    @rule()
    def wait_until_all_are_due(self) -> None:
        self.now = max([self.now, *(job.available_at for job in self.jobs if job.available_at < math.inf)])

    @precondition(lambda self: self.clock_goes_back)
    @rule(seconds=seconds)
    def go_back(self, seconds: float) -> None:
        self.now = self.at(-seconds)

    # -- what must hold after each --

    @invariant()
    def all_sides_say_the_same(self) -> None:
        self.count("steps of them")
        self.jobs = [job for queue in QUEUES for job in self.ask("jobs", queue, now=self.now)]
        self.failed = [row for queue in QUEUES for row in self.ask("failed", queue)]
        for queue in QUEUES:
            self.ask("counts", queue, now=self.now)
            self.ask("next_due", queue, now=self.now)
            self.ask("failed_ids", queue, before=self.at(-2.0))
            for store in self.sides[1:]:
                assert store.ask(0, "check", queue, now=self.now) == [], store.name

    def teardown(self) -> None:
        for store in self.sides[1:]:
            store.close()


class Agreement:
    """Runs programs on stores that nobody has used, and on the model."""

    def __init__(self, fresh: Callable[[Store], str], tried: Tried) -> None:
        self.fresh = fresh
        self.tried = tried

    def run(self, stores: Sequence[Store], programs: int) -> None:
        (order,) = {store.order for store in stores}

        def program() -> Programs:
            model = Side(f"the model ({order})", lambda: Model(order), shared=False)
            return Programs([model, *map(self.open, stores)], count)

        def count(what: str) -> None:
            counted[what] += 1
            for store in stores:
                self.tried.add(store.name, what)

        counted: Counter[str] = Counter()
        run_state_machine_as_test(program, settings=settings(max_examples=programs, stateful_step_count=50))
        assert counted["steps of them"] > 25 * programs

    def open(self, store: Store) -> Side:
        address = self.fresh(store)
        return Side(store.name, lambda: drivers.open(address), shared=store.shared)


@pytest.fixture
def agreement(fresh: Callable[[Store], str], tried: Tried) -> Agreement:
    return Agreement(fresh, tried)


orders = pytest.mark.parametrize("order", ["available_at", "arrival"])


@orders
@pytest.mark.timeout(3600)  # with --deep
def test_every_driver_says_what_the_contract_says(order: str, agreement: Agreement, deep: bool) -> None:
    stores = [store for store in DRIVERS if store.order == order and (deep or store.name in ONE_OF_EACH)]
    agreement.run(stores, programs=120 if deep else 50)


@orders
@pytest.mark.timeout(3600)  # with --deep
def test_a_store_in_memory_says_so_in_many_more_programs(order: str, agreement: Agreement, deep: bool) -> None:
    stores = [store for store in DRIVERS if store.order == order and not store.shared]
    agreement.run(stores, programs=1000 if deep else 200)
