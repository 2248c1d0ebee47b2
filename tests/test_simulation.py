"""Scenarios in simulated time: what happens, that it repeats, and where drivers part."""

import signal
from itertools import pairwise

import pytest
from conftest import BY_ARRIVAL, IN_ORDER, only

from qlab import Lab, Policy, Queue, SimulatedClock, cases, compare, drivers, simulate
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.drivers.paced import PacedDriver
from qlab.explanation import agreement
from qlab.faults import Away
from qlab.peers import simulators
from qlab.scenario import NAMED, Arrival, Behaviour, Crash, Scenario, named
from qlab.simulation import Run
from qlab.simulation.bench import Bench
from qlab.simulation.simulator import Simulation
from qlab.trace import Kind

Told = list[tuple[float, str, int | None, str]]


def told(run: Run, *kinds: Kind) -> Told:
    return [(event.at, str(event.kind), event.job, event.worker) for event in run.trace if event.kind in kinds]


def reference(name: str, order: str = "available_at", seed: int = 7) -> Run:
    with drivers.open(f"memory://?order={order}") as driver:
        return simulate(driver, named(name, seed=seed))


@pytest.mark.parametrize("name", NAMED)
@only(*IN_ORDER)
def test_drivers_that_go_by_time_do_the_same_event_by_event(driver: Driver, name: str) -> None:
    run = simulate(driver, named(name, seed=7))
    assert run.trace.difference(reference(name).trace) is None
    assert driver.check("simulation", now=run.until) == []


@pytest.mark.parametrize("name", NAMED)
@only(*BY_ARRIVAL)
def test_drivers_that_go_by_arrival_do_the_same_event_by_event(driver: Driver, name: str) -> None:
    run = simulate(driver, named(name, seed=7))
    assert run.trace.difference(reference(name, "arrival").trace) is None
    assert driver.check("simulation", now=run.until) == []


def test_another_seed_is_another_trace() -> None:
    assert reference("all_kinds", seed=7).trace.digest() != reference("all_kinds", seed=8).trace.digest()


def test_all_kinds_of_things_happen_in_the_scenario_of_that_name() -> None:
    run = reference("all_kinds")
    kinds = {event.kind for event in run.trace}
    wanted = {Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED, Kind.RELEASED, Kind.FAILED, Kind.CRASHED, Kind.MISSED}
    assert kinds == wanted | {Kind.EXPIRED, Kind.SUPERSEDED, Kind.RESUMED}
    assert [event.name for event in run.trace if event.kind is Kind.FAILED] == ["broken"]
    assert [event.name for event in run.trace if event.kind is Kind.SUPERSEDED] == ["report"]
    assert [event.name for event in run.trace if event.kind is Kind.CRASHED] == ["crasher"]
    assert [event.attempt for event in run.trace if event.kind is Kind.COMPLETED and event.name == "webhook"] == [3]


def test_where_a_list_parts_from_the_contract_it_is_said_why() -> None:
    by_time, by_arrival = reference("between_polls"), reference("between_polls", "arrival")
    found = agreement(by_time, by_arrival)
    assert found.difference is not None
    assert (found.difference.left.job, found.difference.right.job) == (2, 3)  # type: ignore[union-attr]
    assert "job 2, claimable since 5 s" in found.why
    assert "job 3 was appended when it was dispatched" in found.why
    assert "job 2 was appended only when somebody polled after it had fallen due, at 5 s" in found.why
    assert agreement(by_arrival, by_time).why.startswith(found.why[:20])
    assert agreement(by_time, by_time).difference is None


def test_how_a_job_came_into_a_list_is_said_whoever_takes_it_afterwards() -> None:
    with Lab(["memory", "memory://?order=arrival"]) as lab:
        lab.dispatch("pay", delay=5)
        lab.advance(6)
        lab.dispatch("pay")
        lab.advance(1)
        lab.reserve(worker=1)
        lab.reserve(worker=2)
        (agreed,) = lab.agreements
    assert "job 2 was appended when it was dispatched, at 6 s" in agreed.why
    assert "job 1 was appended only when somebody polled after it had fallen due, at 5 s" in agreed.why


def one_worker(*arrivals: Arrival, **changes: object) -> Scenario:
    handlers = {"fast": Behaviour(1.0), "fatal": Behaviour(1.0), "bad": Behaviour(1.0, fails=None)}
    settings: dict[str, object] = {"arrivals": arrivals, "handlers": handlers, "policy": Policy(retry_after=20)}
    return Scenario("one worker", **(settings | changes))  # type: ignore[arg-type]


def run(scenario: Scenario, until: float = float("inf")) -> Run:
    with drivers.open("memory://") as driver:
        return simulate(driver, scenario, until=until)


def test_a_worker_polls_again_after_its_interval_and_at_once_after_a_job() -> None:
    done = run(one_worker(Arrival(5.0, "fast"), Arrival(5.0, "fast"), poll=2.0))
    polls = [event.at for event in done.trace if event.kind in (Kind.MISSED, Kind.RESERVED)]
    pauses = [round(later - earlier, 6) for earlier, later in pairwise(polls)]
    assert pauses[-1] == 1.0
    assert set(pauses) == {2.0, 1.0}


def test_a_crashed_worker_comes_back_and_its_job_runs_again_when_the_reservation_runs_out() -> None:
    crashed = run(one_worker(Arrival(0.0, "fatal"), faults=(Crash("fatal", back_after=3.0),)))
    moments = told(crashed, Kind.RESERVED, Kind.CRASHED, Kind.RESUMED, Kind.EXPIRED, Kind.COMPLETED)
    assert [(kind, job) for _, kind, job, _ in moments] == [
        ("reserved", 1), ("crashed", 1), ("resumed", None), ("expired", 1), ("reserved", 1), ("completed", 1),
    ]  # fmt: skip
    assert moments[2][0] == moments[0][0] + 3
    assert moments[3][0] >= moments[0][0] + 20


def test_a_run_ends_when_nothing_will_ever_be_due_again() -> None:
    gone = run(one_worker(Arrival(0.0, "fatal"), faults=(Crash("fatal"),), policy=Policy(retry_after=None)))
    assert told(gone, Kind.CRASHED) != []
    assert run(one_worker(Arrival(3.0, "fast"))).until < 6


def test_a_run_stops_at_its_moment() -> None:
    assert run(one_worker(Arrival(3.0, "fast"), Arrival(50.0, "fast")), until=10.0).until == 10.0


def test_a_scenario_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        one_worker(workers=0)
    with pytest.raises(ValueError, match="poll is 0 s"):
        one_worker(poll=0.0)
    with pytest.raises(ValueError, match=r"names \['unheard'\]"):
        one_worker(Arrival(0.0, "unheard"))
    with pytest.raises(ValueError, match="there is no scenario 'none': use one of all_kinds"):
        named("none")


# -- workers that are moved by hand --


@pytest.fixture
def bench(queue: Queue, clock: SimulatedClock) -> Bench:
    def slow(job: object) -> object:
        yield 10.0

    queue.handler("slow")(slow)
    queue.handler("quick")(lambda job: None)
    return Bench(queue, clock, workers=2)


def kinds(bench: Bench) -> list[tuple[float, str, int | None]]:
    return [(event.at, str(event.kind), event.job) for event in bench.queue.trace]


@only("memory", "sqlite")
def test_a_paused_worker_comes_back_too_late(bench: Bench) -> None:
    first, second = bench.seats
    bench.queue.dispatch("slow")
    bench.reserve(first)
    bench.start(first)
    bench.pause(first)
    bench.run(91.0, working=False)
    bench.reserve(second)
    bench.resume(first)
    assert kinds(bench)[1:] == [
        (0.0, "reserved", 1),
        (0.0, "paused", 1),
        (91.0, "expired", 1),
        (91.0, "reserved", 1),
        (91.0, "resumed", 1),
        (91.0, "superseded", 1),
    ]
    assert first.free
    assert second.held is not None


@only("memory", "sqlite")
def test_workers_wake_when_something_is_due_and_not_before(bench: Bench) -> None:
    bench.queue.dispatch_later("quick", delay=5.0)
    bench.queue.dispatch_later("slow", delay=7.0)
    bench.run(30.0)
    assert kinds(bench)[2:] == [
        (5.0, "reserved", 1),
        (5.0, "completed", 1),
        (7.0, "reserved", 2),
        (17.0, "completed", 2),
    ]
    assert bench.clock.now() == 30.0


@only("memory", "sqlite")
def test_time_alone_starts_no_job(bench: Bench) -> None:
    bench.queue.dispatch("quick")
    assert bench.next_change() is None
    bench.run(5.0, working=False)
    bench.reserve(bench.seats[0])
    assert bench.next_change() == 95.0
    assert kinds(bench)[1:] == [(5.0, "reserved", 1)]


@only("memory", "sqlite")
def test_a_worker_that_crashed_takes_no_job_until_it_is_back(bench: Bench) -> None:
    bench.queue.dispatch("quick")
    for seat in bench.seats:
        bench.crash(seat)
    bench.run(5.0)
    assert kinds(bench)[1:] == [(0.0, "crashed", None), (0.0, "crashed", None)]
    bench.resume(bench.seats[1])
    bench.run(6.0)
    assert kinds(bench)[3:] == [(5.0, "resumed", None), (5.0, "reserved", 1), (5.0, "completed", 1)]


def test_a_driver_that_holds_jobs_back_is_asked_when_it_lets_one_go() -> None:
    """A pace makes a job due at a moment that neither an arrival nor a reservation tells."""
    paced = PacedDriver(MemoryDriver(), pace=60.0, cap=None, day_ends=lambda moment: moment + 86_400.0)
    arrivals = tuple(Arrival(at, "mail") for at in (0.0, 0.0, 10.0, 200.0))
    run = simulate(paced, arrivals=arrivals, handlers={"mail": Behaviour(seconds=1.0)}, workers=2, poll=None)
    assert [event.at for event in run.trace if event.kind is Kind.RESERVED] == [0.0, 60.0, 120.0, 200.0]
    away = simulate(
        PacedDriver(MemoryDriver(), pace=60.0, cap=None, day_ends=lambda moment: moment + 86_400.0),
        arrivals=arrivals, handlers={"mail": Behaviour(seconds=1.0)}, poll=None, faults=(Away(30.0, 50.0),),
    )  # fmt: skip
    assert [event.at for event in away.trace if event.kind is Kind.RESERVED][:2] == [0.0, 80.0]


SEVERAL = {
    "cases that are judged": lambda: list(cases.judge(cases.shipped().only("mm1"))),
    "a comparison": lambda: compare(["memory", "sqlite"], quick=True),
    "a benchmark": lambda: [simulators.qlab(1_000, seed) for seed in range(3)],
}


@pytest.mark.parametrize("several", SEVERAL)
def test_ctrl_c_within_one_run_ends_what_the_run_is_a_part_of(several: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def interrupted(simulation: Simulation, *_: object) -> None:
        runs.append(simulation)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Simulation, "_tell", interrupted)
    monkeypatch.setattr("qlab.simulation.simulator._AT_ONCE", 1)
    with pytest.raises(KeyboardInterrupt):
        SEVERAL[several]()
    assert len(runs) == 1
