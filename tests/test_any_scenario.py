"""Any scenario at all, with any faults: it ends, nothing is lost or forgotten, and it repeats."""

from collections.abc import Callable
from pathlib import Path

import pytest
from any_scenario import Case, cases, queue_of
from conftest import Store, only
from hypothesis import given, settings
from hypothesis import strategies as st

from qlab import metrics
from qlab.clock import NEVER, us
from qlab.errors import EndlessMoment
from qlab.faults import LostReply, Restart, Skew
from qlab.history import sequential
from qlab.history.promises import Fault, broken
from qlab.job import JobState
from qlab.simulation import Run, simulate, simulator
from qlab.simulation.simulator import Simulation
from qlab.trace import Kind, Moment

MOST = 3_000


def run_of(case: Case, url: str = "memory://") -> Run | None:
    """Run a case; None where attempts without a limit go on for ever at one moment, which is found out."""
    try:
        return simulate(queue_of(url), case.scenario, until=case.until, cost=case.cost)
    except EndlessMoment:
        assert not case.ends
        return None


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "MOST", MOST)


def all_of(run: Run) -> Moment:
    """What was where at the end, also where a worker's clock is ahead of it."""
    told = Moment()
    for event in run.trace:
        told.apply(event)
    told.at = run.until
    return told


def check_places(case: Case, run: Run) -> None:
    """Each job that was dispatched is where the store has it."""
    assert run.queue is not None
    there, told = run.queue.counts(), all_of(run)
    assert run.queue.driver.check(run.queue.name, now=run.until) == []
    if case.has(LostReply):
        return  # nobody was told
    assert told.counts() == there
    done = sum(seen.settled is JobState.DONE for seen in told.jobs.values())
    lost = sum(event.kind is Kind.LOST for event in run.trace)
    assert done + lost + there.failed + there.depth == sum(event.kind is Kind.DISPATCHED for event in run.trace)


def check_promises(case: Case, run: Run) -> None:
    queue = run.queue
    assert queue is not None
    ended = {event.job for event in run.trace if event.kind is Kind.FAILED and event.job is not None}
    lost = [event.job for event in run.trace if event.kind is Kind.LOST and event.job is not None]
    left = [job.id for job in queue.jobs()] + [job for job in lost if job not in ended]
    order = None if case.has(Skew, LostReply) else run.order
    found = broken(sequential(run.trace), left=left, failed=ended, order=order)
    if case.has(LostReply):  # of which nobody was told
        found = [each for each in found if each.fault not in (Fault.LOST, Fault.UNEXPECTED, Fault.RECOVERED)]
    assert found == []


@settings(max_examples=120)
@given(case=cases(), data=st.data())
def test_any_scenario(case: Case, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = run_of(case)
    if run is None:
        return
    check_places(case, run)
    check_promises(case, run)
    if len(run.trace) and not case.has(Skew):
        assert metrics.little(run.trace)["holds"].all()
    file = run_of(case, "sqlite:///:memory:")
    assert file is not None
    assert run.trace.difference(file.trace) is None
    assert run.requests == file.requests
    at = data.draw(st.floats(0.0, run.until) | st.sampled_from([event.at for event in run.trace] or [0.0]))
    if at <= run.until:
        assert run.branch(at, {}).trace.difference(run.trace) is None
    path = run.save(Path(tmp_path_factory.mktemp("run")) / "run.qlab")
    assert Run.load(path).digest == run.digest


@only("redis_zset-valkey")
def test_redis_does_the_same(store: Store, fresh: Callable[[Store], str]) -> None:
    @settings(max_examples=12)
    @given(case=cases().filter(lambda case: not case.has(Restart)))  # which costs a server of its own nothing
    def check(case: Case) -> None:
        run, same = run_of(case), run_of(case, fresh(store))
        if run is not None and same is not None:
            assert run.trace.difference(same.trace) is None
            check_places(case, same)
            same.queue.close()  # type: ignore[union-attr]  # it was not loaded

    check()


def check_workers(simulation: Simulation) -> None:
    """No worker that is free stays away from a job that is ready by its clock."""
    engine, poll = simulation._engine, simulation.scenario.poll  # noqa: SLF001 - what a worker waits for is inside
    queue, on_their_way = simulation.given, sum(seat.free and seat.asking != 0 for seat in engine.seats)
    for seat in engine.seats:
        if seat.free and not seat.asking:
            now = max(0.0, engine.now + seat.ahead)
            assert poll is None, f"{seat} polls no more"
            assert queue.driver.counts(queue.name, now=now).ready <= on_their_way, f"{seat} sleeps at {engine.now}"


@settings(max_examples=120)
@given(case=cases())
def test_no_worker_sleeps_while_a_job_is_ready(case: Case) -> None:
    queue = queue_of("memory://")
    queue.policy = case.scenario.policy
    simulation = Simulation(queue, case.scenario, cost=case.cost)
    engine, last, still = simulation._engine, NEVER if case.until == float("inf") else us(case.until), 0  # noqa: SLF001
    engine.begin()
    while engine.is_ahead(last):
        before = engine.now
        engine.step(last)
        still = still + 1 if engine.now == before else 0
        if still > MOST:
            assert not case.ends
            return
        if not engine._turns and min(engine.planned(), default=NEVER) > us(engine.now):  # noqa: SLF001
            check_workers(simulation)
    run = run_of(case)
    assert run is not None
    assert run.trace.difference(queue.trace) is None, "step by step is as all at once"
