"""Many workers in simulated time: what they do, held to a recursion that knows nothing of qlab, and to each fault."""

import heapq
import itertools
import math
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import IN_ORDER, only
from hypothesis import given, settings
from hypothesis import strategies as st

from qlab import Policy, Queue, SimulatedClock, drivers
from qlab.clock import from_us, us
from qlab.cost import Cost
from qlab.driver import Driver
from qlab.drivers.paced import PacedDriver
from qlab.faults import Away, Crash, Drain, Fault, Locked, LostReply, Pause, Restart, Skew
from qlab.job import Attempt, Release
from qlab.scenario import NAMED, Arrival, Behaviour, Poll, Scenario, named
from qlab.simulation import Run, simulate
from qlab.simulation.requests import NOTHING
from qlab.simulation.simulator import Simulation
from qlab.trace import Kind
from qlab.workload import (
    Always,
    Budget,
    Chance,
    Clients,
    Closed,
    Every,
    Exponential,
    FirstAttempts,
    Fixed,
    Lognormal,
    Poisson,
    Workload,
    recorded,
)

Told = list[tuple[float, str, int | None, str]]


def told(run: Run, *kinds: Kind) -> Told:
    return [(event.at, str(event.kind), event.job, event.worker) for event in run.trace if event.kind in kinds]


def moments(run: Run, kind: Kind) -> list[float]:
    return [event.at for event in run.trace if event.kind is kind]


def jobs(*rows: tuple[float, float]) -> Workload:
    return Workload(recorded([{"at": at, "service": service} for at, service in rows]))


def one(seconds: float) -> Workload:
    return jobs((0.0, seconds))


def waiting(workload: Workload, faults: tuple[Fault, ...] = (), workers: int = 2, **stated: object) -> Run:
    return simulate("memory://", workload=workload, faults=faults, workers=workers, poll=None, **stated)  # type: ignore[arg-type]


# -- against a recursion that knows nothing of qlab --


def starts(rows: list[tuple[int, int]], workers: int) -> list[int]:
    """Tell when each job starts, first come first served: Kiefer and Wolfowitz 1955, in microseconds."""
    free, found = [0] * workers, []
    for at, service in rows:
        start = max(at, heapq.heappop(free))
        heapq.heappush(free, start + service)
        found.append(start)
    return found


ROWS = st.lists(st.tuples(st.integers(0, 20_000_000), st.integers(0, 9_000_000)), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, workers=st.integers(1, 5))
def test_every_job_starts_when_the_recursion_says(rows: list[tuple[int, int]], workers: int) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    run = waiting(
        jobs(*((from_us(at), from_us(service)) for at, service in rows)),
        workers=workers,
        policy=Policy(retry_after=None),
    )
    begun = {event.job: us(event.at) for event in run.trace if event.kind is Kind.RESERVED}
    assert [begun[job] for job in range(1, len(rows) + 1)] == starts(rows, workers)
    ended = {event.job: us(event.at) for event in run.trace if event.kind is Kind.COMPLETED}
    assert all(ended[i] == begun[i] + service for i, (_, service) in enumerate(rows, 1))


# -- equal seeds --


def lively(seed: int) -> Scenario:
    return Scenario(
        "lively",
        workers=3,
        poll=Poll(1.0, jitter=0.2),
        workload=Workload(
            Poisson(1.5),
            {"a": Exponential(1.0), "b": Lognormal(1.0, cv=2.0)},
            {"a": Chance(0.2), "b": FirstAttempts(1)},
            names={"a": 0.7, "b": 0.3},
            jobs=120,
        ),
        faults=(Crash(at=Poisson(0.02), back_after=2.0), Pause(15.0, at=20.0, worker=1), LostReply(times=2)),
        policy=Policy(backoff=(1, 5), retry_after=10, jitter=0.1),
        seed=seed,
    )


@only(*IN_ORDER)
def test_equal_seeds_give_equal_traces_on_every_driver_that_keeps_the_order(driver: Driver) -> None:
    run = simulate(driver, lively(5))
    assert run.digest == simulate("memory://", lively(5)).digest
    assert run.digest == "e69f76a658fb0b4d", "and in every Python"
    assert driver.check("simulation", now=run.until) == []


def test_another_seed_is_another_run() -> None:
    assert len({simulate("memory://", lively(seed)).digest for seed in range(5)}) == 5


def test_arms_share_what_comes_and_how_long_it_takes() -> None:
    """Common random numbers: with more workers or another poll, the same jobs come with the same first service."""
    workload = Workload(Poisson(1.0), Exponential(0.5), jobs=200)
    few = simulate("memory://", workload=workload, workers=1, poll=None, seed=3)
    many = simulate("memory://", workload=workload, workers=4, poll=2.0, seed=3)
    assert moments(few, Kind.DISPATCHED) == moments(many, Kind.DISPATCHED)

    def service(run: Run) -> dict[int | None, int]:
        begun = {event.job: us(event.at) for event in run.trace if event.kind is Kind.RESERVED}
        return {event.job: us(event.at) - begun[event.job] for event in run.trace if event.kind is Kind.COMPLETED}

    assert service(few) == service(many)


# -- how workers ask --


def test_a_worker_that_wakes_is_told_of_nothing_in_vain() -> None:
    run = waiting(Workload(Poisson(1.0), Exponential(0.5), jobs=100))
    assert moments(run, Kind.MISSED) == []


def test_a_poll_clock_starts_anew_after_a_job() -> None:
    run = simulate("memory://", poll=Poll(1.0, phase=0.3), workload=jobs((1.0, 0.25)))
    assert told(run, Kind.MISSED, Kind.RESERVED, Kind.COMPLETED)[:4] == [
        (0.3, "missed", None, "worker 1"),
        (1.3, "reserved", 1, "worker 1"),
        (1.55, "completed", 1, "worker 1"),
        (1.55, "missed", None, "worker 1"),
    ]
    later = simulate("memory://", poll=Poll(1.0, phase=0.3), workload=jobs((1.0, 0.25), (2.0, 0.0)))
    assert moments(later, Kind.RESERVED) == [1.3, 2.55]


def test_a_beat_is_kept_and_takes_one_job_a_beat() -> None:
    run = simulate("memory://", poll=Poll(60.0, phase=0.0, beat=True), workload=jobs(*[(10.0, 0.0)] * 3))
    assert moments(run, Kind.COMPLETED) == [60.0, 120.0, 180.0]
    batch = simulate("memory://", poll=Poll(60.0, phase=0.0, beat=True), batch=2, workload=jobs(*[(10.0, 0.0)] * 3))
    assert moments(batch, Kind.COMPLETED) == [60.0, 60.0, 120.0]


def test_a_beat_that_comes_while_a_worker_is_busy_is_left_out() -> None:
    run = simulate("memory://", poll=Poll(10.0, phase=0.0, beat=True), workload=jobs((0.0, 25.0), (0.0, 1.0)))
    assert moments(run, Kind.RESERVED) == [0.0, 30.0]


def test_jitter_makes_each_wait_another_within_its_part() -> None:
    run = simulate("memory://", poll=Poll(1.0, jitter=0.5, phase=0.0), workload=jobs((200.0, 0.0)))
    polls = moments(run, Kind.MISSED)
    waits = [later - earlier for earlier, later in itertools.pairwise(polls)][:-1]
    assert 0.5 <= min(waits) < 0.6
    assert 1.4 < max(waits) <= 1.5


def test_polls_that_find_nothing_may_stay_untold() -> None:
    workload = jobs((5.0, 1.0))
    loud = simulate("memory://", poll=0.5, workload=workload, seed=2)
    quiet = simulate("memory://", poll=0.5, workload=workload, seed=2, record_polls=False)
    assert [event for event in loud.trace if event.kind is not Kind.MISSED] == list(quiet.trace)
    assert moments(loud, Kind.MISSED) != []


def test_a_batch_is_reserved_at_once_and_run_one_after_another() -> None:
    rules = Policy(retry_after=5)
    run = simulate("memory://", poll=Poll(1.0, phase=1.0), batch=3, policy=rules, workload=jobs(*[(0.0, 3.0)] * 4))
    assert moments(run, Kind.RESERVED)[:3] == [1.0, 1.0, 1.0]
    assert moments(run, Kind.COMPLETED)[:3] == [4.0, 7.0, 10.0], "also the one whose reservation had run out by then"


# -- handlers --


def queue_of(url: str = "memory://", **rules: object) -> Queue:
    return Queue(url, clock=SimulatedClock(), policy=Policy(**rules))  # type: ignore[arg-type]


def test_a_function_of_ones_own_is_called_when_its_drawn_time_is_over() -> None:
    called: list[tuple[float, int]] = []
    with queue_of() as queue:
        queue.handler("job")(lambda job: called.append((queue.clock.now(), job.id)))
        simulate(queue, poll=None, workload=Workload(Every(10.0), Fixed(3.0), jobs=2))
    assert called == [(3.0, 1), (13.0, 2)]


def test_a_generator_of_ones_own_says_itself_how_long_it_takes() -> None:
    with queue_of() as queue:

        @queue.handler("job")
        def job(job: Attempt) -> Iterator[float]:
            yield 2.0
            job.extend(60)
            yield 4.0

        run = simulate(queue, poll=None, workload=Workload(Every(10.0), Fixed(100.0), jobs=2))
    assert moments(run, Kind.COMPLETED) == [6.0, 16.0]
    assert moments(run, Kind.EXTENDED) == [2.0, 12.0]


def test_a_handler_that_raises_or_gives_back_is_settled_so() -> None:
    with queue_of(tries=2, backoff=(1,)) as queue:

        @queue.handler("job")
        def job(job: Attempt) -> Release | None:
            if job.id == 1:
                raise RuntimeError("no")
            return Release(5) if job.number == 1 else None

        run = simulate(queue, poll=None, workload=Workload(Every(10.0), Fixed(1.0), jobs=2))
    assert told(run, Kind.RELEASED, Kind.FAILED, Kind.COMPLETED) == [
        (1.0, "released", 1, "worker 1"),
        (3.0, "failed", 1, "worker 1"),
        (11.0, "released", 2, "worker 1"),
        (17.0, "completed", 2, "worker 1"),
    ]


def test_what_a_handler_dispatches_wakes_a_worker() -> None:
    with queue_of() as queue:
        queue.handler("child")(lambda job: None)
        queue.handler("job")(lambda job: job.dispatch("child"))
        run = simulate(queue, workers=2, poll=None, workload=Workload(Every(10.0), Fixed(1.0), jobs=1))
    assert told(run, Kind.RESERVED)[1] == (1.0, "reserved", 2, told(run, Kind.RESERVED)[1][3])


def test_each_attempt_takes_a_time_of_its_own_or_the_same() -> None:
    def times(redraw: bool) -> set[int]:
        workload = Workload(Every(100.0), Exponential(1.0), FirstAttempts(2), jobs=1, redraw=redraw)
        run = waiting(workload, policy=Policy(backoff=(1,)))
        begun = moments(run, Kind.RESERVED)
        ended = [event.at for event in run.trace if event.kind in (Kind.RELEASED, Kind.COMPLETED)]
        return {us(end) - us(begin) for begin, end in zip(begun, ended, strict=True)}

    assert len(times(redraw=True)) == 3
    assert len(times(redraw=False)) == 1


# -- faults, one at a time --


def test_a_worker_that_crashes_leaves_its_job_to_the_end_of_its_reservation() -> None:
    run = waiting(one(10.0), (Crash(at=3.0, worker=1),))
    assert told(run, Kind.CRASHED, Kind.RESERVED, Kind.COMPLETED) == [
        (0.0, "reserved", 1, "worker 1"),
        (3.0, "crashed", 1, "worker 1"),
        (90.0, "reserved", 1, "worker 2"),
        (100.0, "completed", 1, "worker 2"),
    ]


@pytest.mark.parametrize(("when", "at"), [("reserved", 0.0), ("completing", 10.0)])
def test_a_crash_strikes_before_the_work_or_after_it(when: str, at: float) -> None:
    run = waiting(one(10.0), (Crash("job", when=when),))  # type: ignore[arg-type]
    assert told(run, Kind.CRASHED) == [(at, "crashed", 1, "worker 1")]
    assert moments(run, Kind.COMPLETED) == [100.0]


def test_a_killer_kills_until_its_attempts_are_used_up_and_no_longer() -> None:
    run = waiting(
        Workload(recorded([{"at": 0, "name": name} for name in ("killer", "a", "b", "c")]), Fixed(1.0)),
        (Crash("killer", when="completing", times=None, back_after=4.0, recover="all"),),
        workers=1,
    )
    assert told(run, Kind.COMPLETED, Kind.FAILED) == [
        (6.0, "completed", 2, "worker 1"),
        (7.0, "completed", 3, "worker 1"),
        (8.0, "completed", 4, "worker 1"),
        (18.0, "failed", 1, "worker 1"),
    ]


def test_a_sweep_at_boot_robs_who_is_alive() -> None:
    run = waiting(jobs((0.0, 20.0), (1.0, 20.0)), (Crash(at=3.0, worker=2, back_after=5.0, recover="all"),))
    assert [at for at, _, job, _ in told(run, Kind.RESERVED) if job == 1] == [0.0, 8.0]
    careful = waiting(jobs((0.0, 20.0), (1.0, 20.0)), (Crash(at=3.0, worker=2, back_after=5.0, recover="expired"),))
    assert [at for at, _, job, _ in told(careful, Kind.RESERVED) if job == 1] == [0.0]


def test_a_rate_of_crashes_strikes_each_worker_by_itself() -> None:
    run = waiting(Workload(Poisson(1.0), Exponential(1.0)), (Crash(at=Poisson(0.1), back_after=0.0),), until=2_000.0)
    crashes = [worker for _, _, _, worker in told(run, Kind.CRASHED)]
    for worker in ("worker 1", "worker 2"):
        assert abs(crashes.count(worker) - 200) < 4 * math.sqrt(200)


def test_a_paused_worker_goes_on_where_it_was_and_comes_too_late() -> None:
    run = waiting(one(10.0), (Pause(100.0, at=4.0, worker=1),))
    assert told(run, Kind.PAUSED, Kind.RESUMED, Kind.SUPERSEDED, Kind.COMPLETED) == [
        (4.0, "paused", 1, "worker 1"),
        (100.0, "completed", 1, "worker 2"),
        (104.0, "resumed", 1, "worker 1"),
        (110.0, "superseded", 1, "worker 1"),
    ]


@pytest.mark.parametrize("when", ["reserved", "completing"])
def test_a_pause_strikes_a_job_of_its_handler(when: str) -> None:
    run = waiting(one(10.0), (Pause(20.0, handler="job", when=when),))  # type: ignore[arg-type]
    assert moments(run, Kind.COMPLETED) == [30.0]


def test_a_lost_reply_leaves_a_worker_in_the_dark_and_the_job_done() -> None:
    run = waiting(one(10.0), (LostReply("complete"),))
    assert moments(run, Kind.COMPLETED) == [], "nobody was told"
    assert moments(run, Kind.RESERVED) == [0.0]
    assert run.until == 10.0


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_lost_reply_to_a_dispatch_makes_no_second_job_while_the_first_is_there(times: int) -> None:
    run = waiting(Workload(Every(10.0), Fixed(5.0), jobs=3), (LostReply("push", times=times),))
    assert len(moments(run, Kind.COMPLETED)) == 3


def test_while_the_store_is_locked_everybody_waits_for_it() -> None:
    run = waiting(jobs((0.0, 2.0), (4.0, 1.0)), (Locked(1.0, 5.0),), workers=1)
    assert told(run, Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED) == [
        (0.0, "dispatched", 1, ""),
        (0.0, "reserved", 1, "worker 1"),
        (6.0, "completed", 1, "worker 1"),
        (6.0, "dispatched", 2, ""),
        (6.0, "reserved", 2, "worker 1"),
        (7.0, "completed", 2, "worker 1"),
    ]


def test_while_the_store_is_away_nothing_is_done_and_nothing_is_lost() -> None:
    run = waiting(Workload(Every(1.0), Fixed(0.5), jobs=10), (Away(2.2, 4.0),), policy=Policy(retry_after=5))
    done = {job for _, _, job, _ in told(run, Kind.COMPLETED)}
    assert len(done) == 10
    assert not any(2.2 <= event.at < 6.2 for event in run.trace if event.kind in (Kind.DISPATCHED, Kind.RESERVED))


def test_a_clock_that_is_ahead_takes_jobs_before_their_time() -> None:
    workload = Workload(recorded([{"at": 0.0, "delay": 10.0, "service": 1.0}]))
    run = simulate("memory://", workload=workload, poll=Poll(1.0, phase=0.5), faults=(Skew(1, 4.0),))
    assert moments(run, Kind.RESERVED) == [10.5], "it is 6.5 for everybody else"
    behind = simulate("memory://", workload=workload, poll=Poll(1.0, phase=0.5), faults=(Skew(1, -4.0),))
    assert moments(behind, Kind.RESERVED) == [10.5], "it is 14.5 for everybody else"
    assert run.until < 8 < 14 < behind.until


@pytest.mark.parametrize(("url", "lost"), [("memory://", 3), ("sqlite:///:memory:", 3), ("sqlite:///{}/jobs.db", 0)])
def test_a_restart_loses_what_was_kept_in_memory_only(url: str, lost: int, tmp_path: object) -> None:
    run = simulate(
        url.format(tmp_path),
        poll=None,
        workload=jobs((0.0, 3.0), (1.0, 3.0), (2.0, 3.0), (3.0, 3.0)),
        faults=(Restart(at=4.0),),
    )
    assert len(moments(run, Kind.LOST)) == lost
    assert len(moments(run, Kind.COMPLETED)) == 4 - lost
    assert moments(run, Kind.RESTARTED) == [4.0]


@pytest.mark.parametrize(("persistence", "lost"), [("none", 3), ("always", 0)])
def test_a_restart_of_a_server_is_a_real_one(persistence: str, lost: int) -> None:
    run = simulate(
        f"redis+embedded://?persistence={persistence}",
        poll=None,
        workload=jobs((0.0, 3.0), (1.0, 3.0), (2.0, 3.0)),
        faults=(Restart(at=2.5, what="server"),),
    )
    assert len(moments(run, Kind.LOST)) == lost
    assert moments(run, Kind.CRASHED) == [], "workers live on"


def test_a_store_without_a_server_of_its_own_cannot_be_restarted() -> None:
    with pytest.raises(ValueError, match="needs a server of its own"):
        simulate("memory://", workload=one(1.0), faults=(Restart(at=1.0, what="server"),))


def test_workers_that_are_told_to_stop_finish_within_their_grace() -> None:
    run = waiting(jobs((0.0, 8.0), (1.0, 3.0), (6.0, 1.0)), (Drain(at=5.0, grace=5.0, back_after=10.0),))
    assert told(run, Kind.RESERVED, Kind.COMPLETED, Kind.CRASHED, Kind.RELEASED) == [
        (0.0, "reserved", 1, "worker 1"),
        (1.0, "reserved", 2, "worker 2"),
        (4.0, "completed", 2, "worker 2"),
        (8.0, "completed", 1, "worker 1"),
        (20.0, "reserved", 3, "worker 1"),
        (21.0, "completed", 3, "worker 1"),
    ]


@pytest.mark.parametrize(("then", "again", "end"), [("release", 10.0, 22.0), ("leave", 90.0, 102.0)])
def test_a_job_that_outlasts_the_grace_is_given_back_or_left(then: str, again: float, end: float) -> None:
    run = waiting(one(12.0), (Drain(at=5.0, grace=5.0, then=then, worker=1),))  # type: ignore[arg-type]
    assert moments(run, Kind.RESERVED) == [0.0, again]
    assert moments(run, Kind.COMPLETED) == [end]


def test_a_fault_that_names_no_worker_of_the_run_is_refused_before_anything_happens() -> None:
    with pytest.raises(ValueError, match="names worker 3, there are 2"):
        waiting(one(1.0), (Crash(at=1.0, worker=3),))
    with pytest.raises(ValueError, match="names worker 9"):
        waiting(one(1.0), (Skew(9, 1.0),))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Crash, "either handler= or at="),
        (lambda: Crash("job", at=1.0), "either handler= or at="),
        (lambda: Crash(at=-1.0), "Crash.at is -1.0"),
        (lambda: Crash("job", when="later"), "Crash.when is 'later'"),
        (lambda: Crash("job", times=0), "Crash.times is 0"),
        (lambda: Crash(at=1.0, recover="mine"), "Crash.recover is 'mine'"),
        (lambda: Pause(-1.0, at=0.0), "Pause.seconds is -1.0"),
        (lambda: LostReply("clear"), "LostReply.verb is 'clear'"),
        (lambda: Locked(0.0, math.nan), "Locked.seconds is nan"),
        (lambda: Skew(0, 1.0), "Skew.worker is 0"),
        (lambda: Skew(1, math.inf), "Skew.seconds is inf"),
        (lambda: Restart(at=1.0, what="house"), "Restart.what is 'house'"),
        (lambda: Drain(at=1.0, grace=-1.0), "Drain.grace is -1.0"),
        (lambda: Poll(0.0), "poll is 0 s"),
        (lambda: Poll(1.0, jitter=2.0), "Poll.jitter is 2.0"),
        (lambda: Poll(1.0, jitter=0.5, beat=True), "a beat has none"),
        (lambda: Cost(push=-1.0), "Cost.push is -1.0"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fault()  # type: ignore[operator]


# -- who waits, and who is refused --


def test_a_system_that_is_full_rejects_who_comes() -> None:
    run = waiting(Workload(Every(1.0), Fixed(10.0), jobs=5, capacity=2), workers=1)
    assert told(run, Kind.DISPATCHED, Kind.REJECTED) == [
        (0.0, "dispatched", 1, ""),
        (1.0, "dispatched", 2, ""),
        (2.0, "rejected", None, ""),
        (3.0, "rejected", None, ""),
        (4.0, "rejected", None, ""),
    ]


def test_a_closed_client_waits_for_its_job_before_it_thinks_again() -> None:
    run = waiting(Workload(Closed(2, Fixed(5.0)), Fixed(3.0), jobs=6), workers=1)
    assert moments(run, Kind.DISPATCHED) == [5.0, 5.0, 13.0, 16.0, 21.0, 24.0]


def test_a_client_asks_again_with_another_job_and_its_first_one_is_not_cancelled() -> None:
    workload = Workload(Every(1.0), Fixed(4.0), jobs=2, clients=Clients(timeout=5.0, attempts=2, backoff=1.0))
    run = waiting(workload, workers=1)
    assert moments(run, Kind.DISPATCHED) == [0.0, 1.0, 7.0]
    assert moments(run, Kind.COMPLETED) == [4.0, 8.0, 12.0]
    requests = run.requests
    assert list(requests.started_at) == [0, 1_000_000]
    assert list(requests.asked) == [1, 2]
    assert list(requests.answered_at) == [4_000_000, 12_000_000]


def test_a_client_that_was_refused_asks_again_as_one_whose_time_was_up() -> None:
    workload = Workload(
        Every(1.0), Fixed(10.0), jobs=2, capacity=1, clients=Clients(timeout=30.0, attempts=3, backoff=5.0)
    )
    run = waiting(workload, workers=1)
    assert moments(run, Kind.REJECTED) == [1.0, 6.0]
    assert list(run.requests.answered_at) == [10_000_000, 21_000_000]


def test_a_budget_ends_the_asking() -> None:
    clients = Clients(timeout=1.0, attempts=10, budget=Budget(ratio=0.1, start=2.0))
    run = waiting(Workload(Every(1.0), Fixed(100.0), jobs=4, clients=clients), workers=1, until=60.0)
    assert sum(run.requests.asked) == 4 + 2
    assert sum(at != NOTHING for at in run.requests.given_up_at) == 4


def test_a_job_that_failed_is_an_answer_that_a_client_does_not_take() -> None:
    workload = Workload(
        Every(1.0), Fixed(1.0), Always(), jobs=1, clients=Clients(timeout=50.0, attempts=2, backoff=1.0)
    )
    run = waiting(workload, policy=Policy(tries=1))
    assert moments(run, Kind.FAILED) == [1.0, 3.0]
    assert list(run.requests.given_up_at) == [3_000_000]


# -- what verbs cost --


def test_a_cost_is_charged_before_a_verb_does_its_work() -> None:
    run = waiting(one(10.0), cost=Cost(reserve=0.5, complete=0.25), workers=1)
    assert told(run, Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED) == [
        (0.0, "dispatched", 1, ""),
        (0.5, "reserved", 1, "worker 1"),
        (10.75, "completed", 1, "worker 1"),
    ]


@pytest.mark.parametrize(("serial", "begun"), [(True, [1.0, 2.0, 3.0]), (False, [1.0, 1.0, 1.0])])
def test_a_store_that_does_one_thing_at_a_time_is_queued_for(serial: bool, begun: list[float]) -> None:
    run = waiting(jobs(*[(0.5, 10.0)] * 3), cost=Cost(reserve=1.0, serial=serial), workers=3, until=9.0)
    first = moments(run, Kind.RESERVED)
    assert [round(at - first[0], 6) for at in first] == [at - begun[0] for at in begun]


# -- runs --


def test_a_branch_without_a_change_is_the_same_run_wherever_it_begins() -> None:
    run = simulate("memory://", lively(5))
    for at in (0.0, 0.5, 20.0, 33.3, run.until):
        assert run.branch(at, {}).digest == run.digest


def test_two_futures_have_one_past() -> None:
    run = simulate("memory://", lively(5), until=60.0)
    other = run.branch(30.0, {"retry_after": 3})
    found = run.trace.difference(other.trace)
    assert found is not None
    assert found.left is not None
    assert found.left.at >= 30.0
    assert other.until == 60.0

    def change(simulation: Simulation) -> None:
        simulation.crash(2)
        simulation.dispatch("a")

    crashed = run.branch(30.0, change, until=40.0)
    assert (30.0, "crashed") in [(event.at, str(event.kind)) for event in crashed.trace]
    assert crashed.until == 40.0


def test_a_run_whose_past_does_not_repeat_is_not_branched() -> None:
    counted = iter(range(100))
    with queue_of() as queue:

        @queue.handler("job")
        def job(job: Attempt) -> Iterator[float]:
            yield 1.0 + next(counted)

        run = simulate(queue, poll=None, workload=Workload(Every(10.0), jobs=3))
        with pytest.raises(ValueError, match="does not repeat"):
            run.branch(15.0, {})
    with pytest.raises(ValueError, match="goes from 0 to"):
        run.branch(1e6, {})


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"workers": 5}, ValueError, "there is no rule 'workers': use tries, backoff, retry_after, .*, or a function"),
        ({"tries": 0}, ValueError, "tries is 0"),
        (5, TypeError, "change is 5: use a function of the simulation, or rules, as in {'tries': 5}"),
        (None, TypeError, "change is None"),
    ],
)
def test_a_branch_says_what_it_can_change(change: Any, error: type[Exception], words: str) -> None:
    run = simulate("memory://", arrivals=[Arrival(0.0, "job")], handlers={"job": Behaviour(1.0)}, progress=False)
    with pytest.raises(error, match=words):
        run.branch(0.5, change)


@pytest.mark.parametrize("name", NAMED)
def test_a_named_scenario_is_a_run_that_can_be_looked_at_at_any_moment(name: str) -> None:
    run = simulate("memory://", named(name))
    assert run.at(run.until).counts() == run.trace.at(run.until).counts()
    assert run.digest in repr(run)


def test_a_queue_that_had_jobs_already_is_worked_too() -> None:
    with queue_of() as queue:
        queue.handler("job")(lambda job: None)
        queue.dispatch("job")
        queue.dispatch_later("job", delay=5.0)
        run = simulate(queue, poll=None)
    assert moments(run, Kind.COMPLETED) == [0.0, 5.0]


def test_the_bar_is_told_how_far_a_run_is() -> None:
    shares: list[float] = []
    waiting(Workload(Poisson(1.0), Exponential(0.1), jobs=20_000), progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_an_interrupt_keeps_what_is_there() -> None:
    def stop(share: float) -> None:
        if share > 0.2:
            signal.raise_signal(signal.SIGINT)

    run = waiting(Workload(Poisson(1.0), Exponential(0.1), jobs=50_000), progress=stop)
    assert run.interrupted
    assert 5_000 < len(moments(run, Kind.DISPATCHED)) < 45_000
    assert "interrupted" in repr(run)


def test_a_run_in_real_time_is_refused() -> None:
    with Queue("memory://") as queue, pytest.raises(ValueError, match="SimulatedClock"):
        simulate(queue, workload=one(1.0))


def test_what_no_scenario_has_is_refused() -> None:
    with pytest.raises(TypeError, match="simulate takes no 'worker'"):
        simulate("memory://", worker=3)
    with pytest.raises(TypeError, match="workers beside it"):
        simulate("memory://", lively(1), workers=3)
    with pytest.raises(TypeError, match="scenario is 'all_kinds'"):
        simulate("memory://", "all_kinds")  # type: ignore[arg-type]


def test_listed_arrivals_and_a_workload_come_side_by_side() -> None:
    scenario = Scenario(
        "both",
        (Arrival(2.0, "listed"),),
        {"listed": Behaviour(1.0)},
        workload=Workload(Every(3.0), Fixed(0.5), names=("drawn",), jobs=2),
        poll=None,
    )
    run = simulate("memory://", scenario)
    assert [(event.at, event.name) for event in run.trace if event.kind is Kind.DISPATCHED] == [
        (0.0, "drawn"),
        (2.0, "listed"),
        (3.0, "drawn"),
    ]
    assert replace(scenario, workers=2).workers == 2


def test_redis_in_the_order_of_arrival_is_the_same_as_memory_in_it() -> None:
    with drivers.open("redis+embedded://?layout=list") as driver:
        run = simulate(driver, lively(5))
    assert run.digest == simulate("memory://?order=arrival", lively(5)).digest


def test_a_store_that_paces_its_jobs_is_waited_for() -> None:
    day = 86_400.0
    with drivers.open("memory://") as store:
        paced = PacedDriver(store, pace=60.0, cap=2, day_ends=lambda now: (now // day + 1) * day)
        run = simulate(paced, poll=None, workload=jobs(*[(0.0, 0.0)] * 5))
    assert moments(run, Kind.COMPLETED) == [0.0, 60.0, day, day + 60.0, 2 * day]
