"""Faults that meet: one in the middle of another, at the moment of an end, or where nobody is."""

from collections.abc import Iterator

import pytest

from qlab import Policy, Queue, SimulatedClock
from qlab.cost import Cost
from qlab.faults import Crash, Drain, Fault, Pause, Restart
from qlab.job import Attempt
from qlab.scenario import Arrival, Behaviour, Poll, Scenario
from qlab.simulation import Run, simulate
from qlab.simulation.simulator import Simulation
from qlab.trace import Kind
from qlab.workload import Always, Every, Fixed, Workload, recorded


def run_of(*jobs: tuple[float, float], faults: tuple[Fault, ...] = (), workers: int = 1, **stated: object) -> Run:
    """Run jobs, each told as when it comes and how long it takes."""
    workload = Workload(recorded([{"at": at, "service": service} for at, service in jobs]))
    stated = {"poll": None} | stated
    return simulate("memory://", workload=workload, workers=workers, faults=faults, **stated)  # type: ignore[arg-type]


def told(run: Run, *kinds: Kind) -> list[tuple[float, str, int | None]]:
    return [(event.at, str(event.kind), event.job) for event in run.trace if event.kind in kinds]


def moments(run: Run, kind: Kind) -> list[float]:
    return [at for at, _, _ in told(run, kind)]


MEETINGS: dict[str, tuple[tuple[Fault, ...], list[tuple[float, str]]]] = {
    "a crash of a worker that stands still": (
        (Pause(200.0, at=2.0), Crash(at=4.0, back_after=1.0)),
        [(2.0, "paused"), (4.0, "crashed"), (5.0, "resumed"), (100.0, "completed")],
    ),
    "a pause within a pause": (
        (Pause(20.0, at=2.0), Pause(5.0, at=4.0)),
        [(2.0, "paused"), (22.0, "resumed"), (30.0, "completed")],
    ),
    "a pause that outlasts another": (
        (Pause(5.0, at=2.0), Pause(20.0, at=4.0)),
        [(2.0, "paused"), (24.0, "resumed"), (32.0, "completed")],
    ),
    "a pause of a worker that is gone": (
        (Crash(at=1.0, back_after=5.0), Pause(50.0, at=3.0)),
        [(1.0, "crashed"), (6.0, "resumed"), (100.0, "completed")],
    ),
    "an order to stop that is heard after a pause": (
        (Pause(20.0, at=2.0), Drain(at=4.0, grace=300.0, back_after=0.0)),
        [(2.0, "paused"), (22.0, "resumed"), (30.0, "completed")],
    ),
    "a grace that ends in a pause, in which nothing is given back": (
        (Pause(20.0, at=2.0), Drain(at=4.0, grace=3.0, back_after=30.0)),
        [(2.0, "paused"), (7.0, "crashed"), (100.0, "completed")],
    ),
    "a restart within a grace, whose end is no new worker's": (
        (Drain(at=2.0, grace=95.0), Restart(at=3.0)),
        [(3.0, "crashed"), (100.0, "completed")],
    ),
    "a restart while its worker is gone, and would come back later": (
        (Crash(at=1.0, back_after=200.0), Restart(at=2.0), Crash(at=95.0, back_after=None), Restart(at=300.0)),
        [(1.0, "crashed"), (95.0, "crashed"), (310.0, "completed")],
    ),
    "a crash at the microsecond of a completion": ((Crash(at=10.0),), [(10.0, "crashed")]),
    "a pause at the microsecond of a completion": (
        (Pause(5.0, at=10.0),),
        [(10.0, "paused"), (15.0, "resumed"), (15.0, "completed")],
    ),
    "two restarts at one moment": ((Restart(at=3.0), Restart(at=3.0)), [(3.0, "crashed"), (100.0, "completed")]),
    "crashes for ever, and nobody comes back": ((Crash(at=Every(10.0, first=1.0)),), [(1.0, "crashed")]),
}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_faults_that_meet(meeting: str, tmp_path: object) -> None:
    """On a file, which loses nothing; and a run without an end ends where nothing more will happen."""
    faults, expected = MEETINGS[meeting]
    kinds = (Kind.PAUSED, Kind.RESUMED, Kind.CRASHED, Kind.COMPLETED)
    workload = Workload(recorded([{"at": 0.0, "service": 10.0}]))
    run = simulate(f"sqlite:///{tmp_path}/jobs.db", workload=workload, faults=faults, poll=None)
    assert [(at, kind) for at, kind, _ in told(run, *kinds)] == expected


@pytest.mark.parametrize("times", [1, 3, None])
@pytest.mark.parametrize("seconds", [0.0, 20.0])
@pytest.mark.parametrize("kind", ["drawn", "stated", "own", "at once"])
def test_a_pause_before_the_store_is_told_strikes_an_attempt_once(kind: str, seconds: float, times: int | None) -> None:
    fault = Pause(seconds, handler="job", when="completing", times=times)
    with Queue("memory://", clock=SimulatedClock()) as queue:
        if kind == "own":
            queue.handler("job")(lambda job: None)
        if kind == "at once":
            scenario = Scenario("at once", (Arrival(2.0, "job"),), poll=None, faults=(fault,))
            queue.handler("job")(lambda job: None)
        elif kind == "stated":
            scenario = Scenario("stated", (Arrival(0.0, "job"),), {"job": Behaviour(2.0)}, poll=None, faults=(fault,))
        else:
            workload = Workload(recorded([{"at": 0.0, "service": 2.0}]))
            scenario = Scenario("drawn", workload=workload, poll=None, faults=(fault,))
        run = simulate(queue, scenario)
    assert moments(run, Kind.PAUSED) == [2.0]
    assert moments(run, Kind.COMPLETED) == [2.0 + seconds]


def test_a_pause_does_not_hold_up_what_the_store_was_asked_before() -> None:
    run = run_of((0.0, 2.0), faults=(Pause(3.0, at=4.0),), cost=Cost(complete=10.0))
    assert told(run, Kind.PAUSED, Kind.RESUMED, Kind.COMPLETED) == [
        (4.0, "paused", 1),
        (7.0, "resumed", 1),
        (12.0, "completed", 1),
    ]


def test_a_crash_strikes_whoever_has_the_job_in_its_batch() -> None:
    workload = Workload(recorded([{"at": 0, "name": name, "service": 1.0} for name in "abc"]))
    run = simulate(
        "memory://",
        workload=workload,
        poll=Poll(1.0, phase=1.0),
        batch=3,
        faults=(Crash("b", back_after=0.0),),
        policy=Policy(retry_after=5),
    )
    assert told(run, Kind.CRASHED) == [(1.0, "crashed", job) for job in (1, 2, 3)]
    assert len(moments(run, Kind.COMPLETED)) == 3


def test_a_crash_before_the_store_is_told_finds_the_work_done() -> None:
    done: list[float] = []
    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.handler("job")(lambda job: done.append(queue.clock.now()))
        simulate(
            queue,
            workload=Workload(Every(1.0), Fixed(2.0), jobs=1),
            poll=None,
            workers=2,
            faults=(Crash("job", when="completing"),),
        )
    assert done == [2.0, 92.0], "twice, which is what such a crash is about"


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_not_begun() -> None:
    polls = Poll(1.0, phase=1.0)
    run = run_of(*[(0.0, 4.0)] * 3, batch=3, workers=2, faults=(Drain(at=2.0, grace=10.0, worker=1),), poll=polls)
    assert told(run, Kind.RELEASED) == [(2.0, "released", 2), (2.0, "released", 3)]
    assert moments(run, Kind.COMPLETED) == [5.0, 6.0, 10.0]


def test_chance_says_how_the_attempts_of_a_generator_end_too() -> None:
    with Queue("memory://", clock=SimulatedClock(), policy=Policy(tries=2, backoff=(1.0,))) as queue:

        @queue.handler("job")
        def job(_: Attempt) -> Iterator[float]:
            yield 3.0

        run = simulate(queue, poll=None, workload=Workload(Every(1.0), failures=Always(), jobs=1))
    assert told(run, Kind.RELEASED, Kind.FAILED) == [(3.0, "released", 1), (7.0, "failed", 1)]


def test_a_function_that_gives_a_generator_spends_what_that_yields_when_its_drawn_time_is_over() -> None:
    def steps() -> Iterator[float]:
        yield 3.0

    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.handler("job")(lambda job: steps())
        run = simulate(queue, poll=None, workload=Workload(Every(1.0), Fixed(2.0), jobs=1))
    assert moments(run, Kind.COMPLETED) == [5.0]


@pytest.mark.parametrize(("tries", "end"), [(1, 2.0 + 5.0), (2, 2.0 + 1.0 + 2.0 + 5.0)])
def test_to_fail_costs_what_it_costs_to_fail(tries: int, end: float) -> None:
    run = simulate(
        "memory://",
        workload=Workload(Every(1.0), Fixed(2.0), Always(), jobs=1),
        poll=None,
        policy=Policy(tries=tries, backoff=(0.0,)),
        cost=Cost(fail=5.0, release=1.0),
    )
    assert moments(run, Kind.FAILED) == [end]


# -- by hand, in a branch --


def test_what_is_done_in_a_branch_happens_at_its_moment() -> None:
    run = run_of((0.0, 1.0), (50.0, 1.0))
    assert told(run.branch(20.0, lambda simulation: simulation.dispatch("job")), Kind.DISPATCHED)[1] == (
        20.0,
        "dispatched",
        2,
    )


def test_a_pause_in_a_branch_ends_also_where_no_reservation_does() -> None:
    run = run_of((0.0, 10.0), policy=Policy(retry_after=None))
    assert moments(run.branch(5.0, lambda simulation: simulation.pause(1, 30.0)), Kind.COMPLETED) == [40.0]


def test_who_is_gone_cannot_be_struck_in_a_branch() -> None:
    def change(simulation: Simulation) -> None:
        simulation.stop(1)
        simulation.crash(1)

    with pytest.raises(ValueError, match="worker 1 is gone at 5 s"):
        run_of((0.0, 1.0), (9.0, 1.0)).branch(5.0, change)


def test_a_branch_at_the_moment_of_the_end_is_the_same_run() -> None:
    polls = Poll(1.0, phase=0.0)
    run = simulate("memory://", workload=Workload(recorded([{"at": 0.0, "service": 1.0}])), workers=3, poll=polls)
    many = simulate("memory://", workload=Workload(Every(1.0), Fixed(1.0), jobs=3), workers=3, poll=0.5)
    for each in (run, many):
        assert each.branch(each.until, {}).digest == each.digest
