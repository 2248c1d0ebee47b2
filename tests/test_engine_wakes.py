"""Workers that wake: no job waits while one of them is free and could take it."""

import pytest

from qlab import Policy
from qlab.faults import Crash, Fault, LostReply, Skew
from qlab.simulation import Run, simulate
from qlab.simulation.simulator import Simulation
from qlab.trace import Kind
from qlab.workload import FirstAttempts, Workload, recorded


def run_of(
    *jobs: tuple[float, float, float], faults: tuple[Fault, ...] = (), workers: int = 2, **stated: object
) -> Run:
    """Run jobs, each told as when it comes, from how much later on it may be reserved, and how long it takes."""
    rows = [{"at": at, "delay": delay, "service": service} for at, delay, service in jobs]
    if rows:
        stated["workload"] = Workload(recorded(rows))
    return simulate("memory://", workers=workers, faults=faults, poll=None, **stated)  # type: ignore[arg-type]


def reserved(run: Run) -> list[tuple[float, int | None]]:
    return [(event.at, event.job) for event in run.trace if event.kind is Kind.RESERVED]


def test_a_moment_that_no_float_tells_exactly_wakes_and_is_over() -> None:
    """0.1 + 0.2 is more than 0.3: a wake for it, at 0.3, must not stand for all that are planned later."""
    workload = Workload(
        recorded([{"at": 0.0, "service": 0.1}, {"at": 1.0, "delay": 5.0, "service": 0.1}]), failures=FirstAttempts(1)
    )
    run = run_of(workload=workload, policy=Policy(backoff=(0.2,)))
    assert reserved(run) == [(0.0, 1), (0.3, 1), (6.0, 2), (6.3, 2)]


def test_what_was_reserved_and_nobody_was_told_of_wakes_when_it_runs_out() -> None:
    run = run_of((0.0, 0.0, 1.0), faults=(LostReply("reserve"),))
    assert reserved(run) == [(90.0, 1)]


@pytest.mark.parametrize("struck", [1, 2])
@pytest.mark.parametrize("how", ["crash", "pause", "stop"])
def test_a_worker_that_is_struck_on_its_way_to_a_job_leaves_it_to_another(struck: int, how: str) -> None:
    def change(simulation: Simulation) -> None:
        simulation.dispatch("job")
        getattr(simulation, how)(struck, *([9.0] if how == "pause" else []))

    other = run_of((0.0, 0.0, 1.0), (50.0, 0.0, 1.0)).branch(20.0, change)
    assert reserved(other)[1] == (20.0, 2)


@pytest.mark.parametrize("ahead", [-4.0, -0.0000005, 0.0000005, 4.0])
def test_a_lone_worker_wakes_by_its_own_clock(ahead: float) -> None:
    run = run_of((0.0, 10.0, 1.0), (20.0, 0.0, 1.0), faults=(Skew(1, ahead),), workers=1)
    assert [job for _, job in reserved(run)] == [1, 2]
    assert run.until < 30.0


def test_a_job_goes_to_the_worker_by_whose_clock_it_is_ready_first() -> None:
    run = run_of((5.0, 10.0, 1.0), (20.0, 0.0, 1.0), faults=(Skew(1, -4.0), Skew(2, 3.0)))
    workers = [(event.job, event.worker) for event in run.trace if event.kind is Kind.RESERVED]
    assert workers == [(1, "worker 2"), (2, "worker 2")]
    assert [event.at for event in run.trace if event.kind is Kind.COMPLETED] == [13.0 + 3.0, 21.0 + 3.0]


def test_a_worker_that_is_back_takes_what_has_waited() -> None:
    run = run_of((0.0, 0.0, 1.0), (5.0, 0.0, 1.0), faults=(Crash(at=3.0, back_after=4.0),), workers=1)
    assert reserved(run) == [(0.0, 1), (7.0, 2)]


def test_a_job_that_was_given_back_wakes_though_nobody_was_told() -> None:
    workload = Workload(recorded([{"at": 0.0, "service": 1.0}]), failures=FirstAttempts(1))
    run = run_of(workload=workload, faults=(LostReply("release"),), policy=Policy(backoff=(2.0,), retry_after=None))
    assert reserved(run) == [(0.0, 1), (3.0, 1)]
