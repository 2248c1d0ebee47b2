"""Runs that cannot begin, or would not end: each is refused, or found out, and named."""

import math
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from qlab import Policy, Queue, SimulatedClock, drivers
from qlab.errors import EndlessMoment
from qlab.faults import Crash
from qlab.scenario import Poll
from qlab.simulation import bench, simulate, simulator
from qlab.simulation.bench import Bench
from qlab.trace import Kind
from qlab.workload import (
    Always,
    Arrivals,
    Bursts,
    Clients,
    Closed,
    Every,
    Exponential,
    Fixed,
    Poisson,
    Renewal,
    Varying,
    Workload,
    recorded,
)

ONE = recorded([{"at": 5.0}])


def dispatching_itself() -> None:
    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.handler("job")(lambda job: job.dispatch("job"))
        simulate(queue, workload=Workload(ONE), poll=None)


def failing() -> None:
    rules = Policy(tries=None, backoff=())
    simulate("memory://", workload=Workload(ONE, failures=Always()), poll=None, policy=rules)


def killing() -> None:
    fault = Crash("job", back_after=0.0, times=None, recover="all")
    simulate("memory://", workload=Workload(ONE), poll=None, policy=Policy(tries=None), faults=(fault,))


def thinking_of_nothing() -> None:
    simulate("memory://", workload=Workload(Closed(1, Fixed(0.0))), poll=None, until=9.0)


def asking_for_ever() -> None:
    clients = Clients(timeout=99.0, attempts=10**9)
    arrivals = recorded([{"at": 5.0}, {"at": 5.0}])
    simulate("memory://", workload=Workload(arrivals, Fixed(9.0), capacity=1, clients=clients), poll=None)


def by_hand() -> None:
    queue = Queue("memory://", clock=SimulatedClock(), policy=Policy(tries=None, backoff=()))
    queue.handler("job")(lambda job: 1 / 0)
    queue.dispatch("job")
    Bench(queue, queue.clock).run(9.0)


@pytest.mark.parametrize(
    "endless", [dispatching_itself, failing, killing, thinking_of_nothing, asking_for_ever, by_hand]
)
def test_what_goes_on_for_ever_in_no_time_is_found_out_and_named(
    endless: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (simulator, bench):
        monkeypatch.setattr(module, "MOST", 20_000)  # of 200,000, which take a while
    with pytest.raises(EndlessMoment, match=r"more than 20,\d00 things happened at \d s, the last: "):
        endless()


def test_a_great_many_jobs_at_one_moment_are_no_endless_one() -> None:
    run = simulate("memory://", workload=Workload(Bursts(80_000, None)), poll=None, record_polls=False)
    assert len(run.trace) == 3 * 80_000


@pytest.mark.parametrize(
    "arrivals",
    [
        Poisson(1.0),
        Every(1.0),
        Renewal(Exponential(1.0)),
        Bursts(5, every=9.0),
        Varying(((0.0, 1.0), (5.0, 2.0))),
        Varying(math.sin, most=1.0),
        Closed(2, Fixed(1.0)),
    ],
    ids=lambda arrivals: type(arrivals).__name__,
)
def test_arrivals_without_an_end_need_one(arrivals: Arrivals) -> None:
    with pytest.raises(ValueError, match=r"has no end: say until=3600\.0, or Workload\(…, jobs=10_000\)"):
        simulate("memory://", workload=Workload(arrivals))
    if not isinstance(arrivals, Varying):
        assert simulate("memory://", workload=Workload(arrivals), until=3.0).until == 3.0
        assert simulate("memory://", workload=Workload(arrivals, jobs=3)).until < 100


@pytest.mark.parametrize("arrivals", [ONE, Bursts(5, every=None), Varying(((0.0, 1.0), (5.0, 0.0)))])
def test_arrivals_that_end_by_themselves_need_no_other_end(arrivals: Arrivals) -> None:
    assert simulate("memory://", workload=Workload(arrivals)).until < 100


def test_a_run_begins_at_0_and_says_so_where_the_clock_does_not() -> None:
    with Queue("memory://", clock=SimulatedClock()) as queue:
        simulate(queue, workload=Workload(ONE), poll=None)
        with pytest.raises(ValueError, match=r"the queue's clock stands at 5 s, .* Run\.branch"):
            simulate(queue, workload=Workload(ONE), poll=None)
        assert queue.counts().depth == 0


def test_a_store_in_which_something_is_left_is_not_taken_for_an_empty_one() -> None:
    with drivers.open("memory://") as driver:
        simulate(driver, workload=Workload(ONE), poll=None)
        simulate(driver, workload=Workload(ONE, Fixed(9.0)), poll=None, until=7.0)
        with pytest.raises(ValueError, match="has 1 jobs and 0 failed ones in the queue 'simulation'"):
            simulate(driver, workload=Workload(ONE), poll=None)
        assert len(simulate(driver, workload=Workload(ONE), poll=None, name="another").trace) == 3
        with Queue(driver, clock=SimulatedClock(), name="simulation") as queue:
            queue.handler("job")(lambda job: None)
            run = simulate(queue, poll=None)
        assert [event.kind for event in run.trace if event.kind is Kind.COMPLETED] == [Kind.COMPLETED]


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 4.9e-7])
def test_a_poll_that_would_take_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="use a number of seconds from 0.000001"):
        Poll(seconds)


def test_a_ctrl_c_that_a_handler_raises_itself_is_its_own() -> None:
    """Only the keyboard's is heard and keeps what is there; this one is let through, as everywhere."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.handler("job")(interrupt)
        with pytest.raises(KeyboardInterrupt):
            simulate(queue, workload=Workload(ONE), poll=None)
        assert queue.counts().reserved == 1


def test_a_branch_has_its_run_s_context_and_calendar() -> None:
    clock, kept = SimulatedClock(epoch=datetime(2026, 10, 25, tzinfo=UTC)), []
    with Queue("memory://", clock=clock, context="the application's") as queue:
        queue.handler("job")(lambda job: kept.append(job.context))
        run = simulate(queue, workload=Workload(ONE), poll=None)
        assert run.branch(2.0, {}).digest == run.digest
        other = run.branch(2.0, lambda simulation: kept.append(simulation.queue.clock.date().day))
    assert kept == ["the application's"] * 2 + [25, "the application's"]
    assert other.queue is not None
