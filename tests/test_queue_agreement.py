"""Queues on stores of one order: the same steps of their workers leave the same trace, event by event."""

import math
from collections.abc import Callable, Generator
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
from tried import Tried

from qlab import Policy, Queue, SimulatedClock, drivers
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.job import Attempt, Release, Reservation
from qlab.trace import Kind, Trace

WHAT = ("return", "raise", "raise once", "exit", "release", "extend", "dispatch", "progress", "spend")
HANDLERS = ("usual", "once", "patient")

OF_REAL_TIME = {Kind.BLOCKED, Kind.PAUSED, Kind.RESUMED, Kind.RESTARTED, Kind.LOST, Kind.REJECTED}
"""What happens only to workers and stores that are processes, and before a system that is full."""

whats = st.sampled_from(WHAT)
handlers = st.sampled_from(HANDLERS)
workers = st.sampled_from(("w1", "w2"))
seconds = st.sampled_from((0.0, 1.0, 2.0, 10.0))
few = st.integers(0, 3)


class Bench:
    """A queue with handlers that do what the payload says, and what its workers hold and were told."""

    def __init__(self, name: str, queue: Queue) -> None:
        self.name = name
        self.queue = queue
        self.held: list[Reservation] = []
        self.ran: list[tuple[int, int]] = []
        self.seen = 0
        queue.handler("usual")(self.handle)
        queue.handler("once", tries=1)(self.handle)
        queue.handler("patient", tries=5, backoff=lambda attempts: 2.0 * attempts)(self.handle)
        queue.handler("spend")(self.spend)

    def handle(self, job: Attempt) -> Release | None:
        what, seconds = job.payload
        self.ran.append((job.id, job.number))
        if what == "exit":
            raise SystemExit(3)
        if what == "raise" or (what == "raise once" and job.number == 1):
            raise ValueError(f"boom {job.number}")
        if what == "extend":
            job.extend(seconds + 1.0)
        if what == "dispatch":
            job.dispatch("once", ["return", 0.0], delay=seconds)
        if what == "progress":
            job.progress(job.number, 3)
        return Release(seconds) if what == "release" else None

    def spend(self, job: Attempt) -> Generator[float, None, None]:
        _, seconds = job.payload
        self.ran.append((job.id, job.number))
        yield seconds
        if job.number == 1:
            yield seconds
            raise ValueError("too slow")

    def news(self) -> list[Any]:
        """The events since this was last asked."""
        trace, seen = self.queue.trace, self.seen
        self.seen = len(trace)
        return [trace[place] for place in range(seen, self.seen)]


some_wait = precondition(lambda self: self.first.queue.jobs())
many_wait = precondition(lambda self: len(self.first.queue.jobs()) > 8)
some_are_held = precondition(lambda self: self.first.held)


class Work(RuleBasedStateMachine):
    """Steps of two workers and of who watches them, each taken on every bench."""

    def __init__(self, benches: list[Bench], count: Callable[[str], None]) -> None:
        super().__init__()
        self.benches = benches
        self.count = count
        count("random programs")

    def everywhere(self, act: Callable[[Bench], Any]) -> Any:
        expected, *answers = [act(bench) for bench in self.benches]
        for bench, answer in zip(self.benches[1:], answers, strict=True):
            assert answer == expected, f"{bench.name} says something else than {self.benches[0].name}"
        return expected

    @property
    def first(self) -> Bench:
        return self.benches[0]

    # -- steps --

    @initialize(name=handlers, jobs=st.lists(st.tuples(whats, seconds), min_size=3, max_size=6))
    def begin(self, name: str, jobs: list[tuple[str, float]]) -> None:
        self.dispatch(name, jobs, 0.0)

    @rule(name=handlers, jobs=st.lists(st.tuples(whats, seconds), min_size=1, max_size=4), delay=seconds)
    def dispatch(self, name: str, jobs: list[tuple[str, float]], delay: float) -> None:
        new = [("spend" if what == "spend" else name, [what, seconds]) for what, seconds in jobs]
        self.everywhere(lambda bench: [job.id for job in bench.queue.dispatch_many(new, delay=delay)])

    @some_wait
    @rule(worker=workers, ahead=st.sampled_from((0.0, 0.0, 0.0, 2.0)))
    def work_once(self, worker: str, ahead: float) -> None:
        """At the clock's moment or at a later one, which leaves the clock alone."""
        now = self.first.queue.clock.now() + ahead if ahead else None
        self.everywhere(lambda bench: bench.queue.work_once(now, worker=worker))

    @many_wait
    @rule(worker=workers)
    def drain(self, worker: str) -> None:
        self.everywhere(lambda bench: list(bench.queue.drain(worker=worker)))

    @some_wait
    @rule(after=seconds, worker=workers)
    def reserve(self, after: float, worker: str) -> None:
        def reserve(bench: Bench) -> Any:
            held = bench.queue.reserve(worker=worker)
            if held:
                bench.held.append(held)
            return held and (held.job.id, held.job.attempts, held.claimable_since, held.reserved_until, held.ran_out)

        self.advance(after)
        self.everywhere(reserve)

    @some_are_held
    @rule(worker=workers, which=few)
    def finish(self, worker: str, which: int) -> None:
        """In time, or late."""
        place = which % len(self.first.held)
        self.everywhere(lambda bench: bench.queue.finish(bench.held.pop(place), worker=worker))

    @some_are_held
    @rule(worker=workers)
    def crash(self, worker: str) -> None:
        self.everywhere(lambda bench: bench.queue.crash(bench.held.pop(), worker=worker))

    @some_are_held
    @rule(force=st.booleans())
    def recover(self, force: bool) -> None:
        self.everywhere(lambda bench: [job.id for job in bench.queue.recover(force=force)])

    @many_wait
    @rule()
    def clear(self) -> None:
        self.everywhere(lambda bench: bench.queue.clear())

    @precondition(lambda self: self.first.queue.failed())
    @rule(which=few, verb=st.sampled_from(("retry", "retry", "forget")))
    def take_failed(self, which: int, verb: str) -> None:
        ids: list[Any] = ["all", *(row.id for row in self.first.queue.failed())]
        self.everywhere(lambda bench: getattr(bench.queue, verb)(ids[which % len(ids)]))

    @rule(seconds=seconds)
    def advance(self, seconds: float) -> None:
        self.everywhere(lambda bench: bench.queue.clock.spend(seconds))

    @rule()
    def advance_to_the_next_due_time(self) -> None:
        def advance(bench: Bench) -> None:
            bench.queue.clock.spend((bench.queue.next_due() or 0.0) - bench.queue.clock.now())

        if self.everywhere(lambda bench: bench.queue.next_due()) is not None:
            self.everywhere(advance)

    @many_wait
    @rule(worker=workers)
    def work_until_nothing_is_left(self, worker: str) -> None:
        self.everywhere(lambda bench: list(bench.queue.drain(math.inf, worker=worker)))
        assert self.everywhere(lambda bench: bench.queue.counts().depth) == 0

    # -- what must hold after each --

    @invariant()
    def all_traces_are_the_same(self) -> None:
        self.count("steps of them")
        self.everywhere(Bench.news)
        self.everywhere(lambda bench: bench.ran)
        self.everywhere(lambda bench: bench.queue.counts())
        self.everywhere(lambda bench: bench.queue.next_due())
        self.everywhere(lambda bench: [row._replace(uid="") for row in bench.queue.failed()])

    @invariant()
    def the_trace_knows_what_the_store_knows(self) -> None:
        for bench in self.benches:
            if bench.queue.driver.order == "available_at":
                now = bench.queue.clock.now()
                assert bench.queue.trace.at(math.inf).counts(now) == bench.queue.counts(), bench.name

    def teardown(self) -> None:
        for bench in self.benches:
            bench.queue.close()


@pytest.mark.parametrize("order", ["available_at", "arrival"])
@pytest.mark.timeout(3600)  # with --deep
def test_queues_of_one_order_leave_the_same_trace(
    order: str, fresh: Callable[[Store], str], tried: Tried, deep: bool
) -> None:
    stores = [store for store in DRIVERS if store.order == order and (deep or store.name in ONE_OF_EACH)]

    def bench(store: Store) -> Bench:
        return Bench(store.name, new_queue(drivers.open(fresh(store))))

    def count(what: str) -> None:
        for store in stores:
            tried.add(store.name, what)

    run_state_machine_as_test(
        lambda: Work([bench(store) for store in stores], count),
        settings=settings(max_examples=60 if deep else 16, stateful_step_count=50),
    )


def new_queue(driver: Driver) -> Queue:
    policy = Policy(tries=3, backoff=(1.0, 10.0), retry_after=5.0)
    return Queue(driver, clock=SimulatedClock(), name=QUEUE, policy=policy)


def script(queue: Queue) -> Trace:
    """Dispatches and failures of every kind; jobs fall due, and reservations run out, while nobody polls."""
    bench = Bench("", queue)
    queue.dispatch_many([("usual", [what, 2.0]) for what in WHAT[:-1]])
    queue.dispatch("spend", ["spend", 2.0])
    queue.dispatch_later("once", ["raise", 0.0], delay=3.0)
    queue.drain(worker="w1")
    queue.clock.spend(20.0)
    queue.dispatch_many([("patient", ["raise", 0.0]), ("patient", ["return", 0.0])])
    held = [queue.reserve(worker=worker) for worker in ("w1", "w2", "w3")]
    queue.clock.spend(1.0)
    queue.crash(held[0], worker="w1")
    queue.clock.spend(5.0)
    queue.drain(worker="w1")
    queue.finish(held[1], worker="w2")
    queue.dispatch("once", ["return", 0.0])
    queue.reserve(worker="w1")
    queue.recover(force=True)
    queue.drain(until=60.0, worker="w2")
    queue.retry(queue.failed()[0].id)
    queue.forget(queue.failed()[-1].id)
    queue.dispatch_later("usual", ["return", 0.0], delay=5.0)
    queue.clear()
    queue.retry("all")
    queue.drain(math.inf, worker="w1")
    assert bench.ran
    return queue.trace


@pytest.mark.scenario("B80")
def test_one_script_leaves_one_trace_on_every_driver_of_an_order(driver: Driver, store: Store) -> None:
    with new_queue(MemoryDriver(store.order)) as reference:
        expected = script(reference)
        assert script(new_queue(driver)).difference(expected) is None
    assert {event.kind for event in expected} == set(Kind) - OF_REAL_TIME


@pytest.mark.scenario("B80")
def test_the_orders_differ_where_jobs_fell_due_while_nobody_polled() -> None:
    with new_queue(MemoryDriver("available_at")) as one, new_queue(MemoryDriver("arrival")) as other:
        assert script(one).difference(script(other)) is not None
