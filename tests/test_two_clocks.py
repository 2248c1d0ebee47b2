"""Workers on two machines have two clocks, and drivers read none: what a difference of so many seconds does."""

from collections import Counter

import pytest
from conftest import BY_ARRIVAL, IN_ORDER, QUEUE, only

from qlab import Completed, Policy, Queue, SimulatedClock, Superseded, simulate
from qlab.driver import Driver
from qlab.faults import Skew
from qlab.job import Reservation
from qlab.steps import Ended
from qlab.workload import Fixed, Poisson, Workload

LASTS, LONG = 90.0, 60.0  # seconds: a reservation, and the job
EARLIER = 0.000_001


class Machine:
    """A machine whose clock is ahead of the truth by so many seconds, or behind."""

    def __init__(self, driver: Driver, ahead: float) -> None:
        self._ahead, self._clock = ahead, SimulatedClock(1_000.0 + ahead)
        self.queue = Queue(driver, name=QUEUE, clock=self._clock, policy=Policy(retry_after=LASTS))
        self.queue.handler("send")(lambda job: None)

    def at(self, truth: float) -> Queue:
        """Its queue, at a moment of the truth, in seconds from the beginning."""
        self._clock.advance_to(1_000.0 + truth + self._ahead)
        return self.queue

    def takes(self, truth: float) -> Reservation | None:
        return self.at(truth).reserve()


@pytest.mark.parametrize("ahead", [-40.0, 0.0, 40.0])
def test_a_reservation_runs_out_earlier_by_what_the_other_clock_is_ahead_and_later_by_what_it_is_behind(
    driver: Driver, ahead: float
) -> None:
    right, wrong = Machine(driver, 0.0), Machine(driver, ahead)
    right.at(0.0).dispatch("send")
    assert right.takes(0.0)
    assert not wrong.takes(LASTS - ahead - EARLIER)
    assert wrong.takes(LASTS - ahead)


@pytest.mark.parametrize("ahead", [-40.0, 0.0, 40.0])
def test_a_delayed_job_starts_earlier_by_what_the_worker_s_clock_is_ahead_of_the_dispatcher_s(
    driver: Driver, ahead: float
) -> None:
    right, wrong = Machine(driver, 0.0), Machine(driver, ahead)
    right.at(0.0).dispatch_later("send", delay=LASTS)
    assert not wrong.takes(LASTS - ahead - EARLIER)
    assert wrong.takes(LASTS - ahead)


@only(*IN_ORDER)
def test_a_job_of_a_dispatcher_whose_clock_is_ahead_waits_until_the_worker_s_says_so_too(driver: Driver) -> None:
    right, early = Machine(driver, 0.0), Machine(driver, 40.0)
    early.at(0.0).dispatch("send")
    assert not right.takes(40.0 - EARLIER)
    assert right.takes(40.0)


@only(*IN_ORDER)
def test_a_dispatcher_whose_clock_is_behind_jumps_the_queue_by_as_much(driver: Driver) -> None:
    right, late = Machine(driver, 0.0), Machine(driver, -40.0)
    for truth in (0.0, 20.0, 50.0):
        right.at(truth).dispatch("send", "right")
    late.at(50.0).dispatch("send", "late")
    taken = [right.takes(50.0) for _ in range(4)]
    assert [held.job.payload for held in taken if held] == ["right", "late", "right", "right"]


@only(*BY_ARRIVAL)
def test_in_a_list_the_clock_that_is_furthest_ahead_speaks_for_all(driver: Driver) -> None:
    right, early = Machine(driver, 0.0), Machine(driver, 40.0)
    right.at(0.0).dispatch_later("send", "delayed", delay=90.0)
    right.at(0.0).dispatch_later("send", "delayed too", delay=90.0)
    assert not right.takes(50.0)
    assert early.takes(50.0)  # which puts both into the list
    assert right.takes(50.0)
    early.at(60.0).dispatch("send")  # and what is ready for who dispatches it is ready
    assert right.takes(60.0)


# -- the bound --


@pytest.mark.parametrize("ahead", [0.0, LASTS - LONG - 0.1, LASTS - LONG, LASTS - LONG + 0.1, 2 * LASTS])
def test_a_job_runs_once_as_long_as_clocks_differ_by_less_than_its_reservation_is_longer_than_it(
    driver: Driver, ahead: float
) -> None:
    """Where they differ by more it runs twice, but is completed once: the fence needs no clock."""
    first, second = Machine(driver, 0.0), Machine(driver, ahead)
    first.at(0.0).dispatch("send")
    assert (held := first.takes(0.0))
    again = second.takes(LONG)  # in the last moment before it is done
    assert bool(again) == (ahead >= LASTS - LONG)
    assert isinstance(first.at(LONG).settle(held, Ended()), Superseded if again else Completed)
    if again:
        assert isinstance(second.queue.settle(again, Ended()), Completed)
    assert second.queue.counts().depth == 0


@pytest.mark.parametrize(("skew", "twice"), [(0.0, 0), (9.9, 0), (-9.9, 0), (11.0, 154), (15.0, 246)])
def test_a_simulated_run_tells_how_many_jobs_run_twice(skew: float, twice: int) -> None:
    """Jobs of 10 s with reservations of 20 s; README has these numbers."""
    work = Workload(Poisson(0.12), service=Fixed(10.0), jobs=1_000)
    rules = Policy(retry_after=20.0)
    run = simulate("memory://", workload=work, workers=2, poll=None, seed=1, policy=rules, faults=[Skew(2, skew)])
    kinds = Counter(str(event.kind) for event in run.trace)
    assert kinds["completed"] == 1_000
    assert kinds["reserved"] - 1_000 == kinds["superseded"] == twice
