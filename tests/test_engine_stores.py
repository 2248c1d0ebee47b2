"""Simulated stores in trouble, and systems that are full: what comes is neither lost, nor doubled, nor forgotten."""

import pytest

from qlab import Policy, Queue, SimulatedClock
from qlab.drivers.memory import MemoryDriver
from qlab.drivers.troubled import Troubled
from qlab.errors import UnknownHandler
from qlab.faults import Away, Crash, Fault, Locked, LostReply, Pause, Restart
from qlab.scenario import Arrival, Behaviour, Scenario
from qlab.simulation import Run, simulate
from qlab.simulation.bench import Bench
from qlab.simulation.requests import NOTHING
from qlab.trace import Kind
from qlab.workload import (
    Always,
    Arrivals,
    Clients,
    Closed,
    Every,
    Fixed,
    Poisson,
    Workload,
    recorded,
)

WAYS = ("stated", "recorded", "drawn", "closed", "asked for")
"""In which ways a job can come."""


def names(run: Run) -> list[str]:
    return [event.name for event in run.trace if event.kind == Kind.DISPATCHED]


def coming(way: str, *faults: Fault, capacity: int | None = None, service: float = 0.25) -> Run:
    """Let three jobs come, from second 1 on."""
    rows = recorded([{"at": float(at), "payload": {"job": at}, "service": service} for at in (1, 2, 3)])
    clients = Clients(timeout=500.0, attempts=1)
    workload = {
        "recorded": Workload(rows, Fixed(service), capacity=capacity),
        "drawn": Workload(Every(1.0, first=1.0), Fixed(service), jobs=3, capacity=capacity),
        "closed": Workload(Closed(1, Fixed(1.0)), Fixed(service), jobs=3, capacity=capacity),
        "asked for": Workload(rows, Fixed(service), capacity=capacity, clients=clients),
    }.get(way)
    arrivals = tuple(Arrival(float(at), "job", {"job": at}) for at in (1, 2, 3)) if way == "stated" else ()
    handlers = {"job": Behaviour(service)} if way == "stated" else {}
    scenario = Scenario(way, arrivals, handlers, workload=workload, faults=faults, poll=None)
    return simulate("memory://", scenario)


def moments(run: Run, kind: Kind) -> list[float]:
    return [event.at for event in run.trace if event.kind is kind]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "faults",
    [(Away(0.5, 3.0),), (Locked(0.5, 3.0),), (Locked(0.5, 300.0),), (Locked(0.5, 3.0), Away(2.0, 9.0))],
    ids=["away", "locked", "locked for longer than it is waited for", "away while it is locked"],
)
def test_what_comes_while_the_store_does_not_answer_comes_when_it_does(way: str, faults: tuple[Fault, ...]) -> None:
    run = coming(way, *faults)
    assert len(moments(run, Kind.DISPATCHED)) == len(moments(run, Kind.COMPLETED)) == 3
    opens = max(fault.at + fault.seconds for fault in faults if isinstance(fault, Away | Locked))
    assert min(moments(run, Kind.DISPATCHED)) >= opens


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_dispatch_whose_reply_is_lost_makes_one_job_while_that_is_there(way: str, times: int) -> None:
    """Once it is done, the store knows nothing of it: sent again then, it is done again."""
    run = coming(way, LostReply("push", times=times), service=9.0)
    assert {event.job for event in run.trace if event.job is not None} == {1, 2, 3}
    assert len(moments(run, Kind.COMPLETED)) == 3


@pytest.mark.parametrize("fault", [LostReply("push", times=4), Away(1.5, 3.0)], ids=str)
@pytest.mark.parametrize(
    "arrivals",
    [recorded([{"at": float(at)} for at in range(6)]), Closed(3, Fixed(1.0)), Every(1.0)],
    ids=lambda arrivals: type(arrivals).__name__,
)
def test_a_job_keeps_its_name_however_often_its_dispatch_is_sent(arrivals: Arrivals, fault: Fault) -> None:
    workload = Workload(arrivals, Fixed(50.0), names=("a", "b", "c"), jobs=6)
    for seed in range(4):
        sound, troubled = (
            simulate("memory://", workload=workload, poll=None, seed=seed, faults=faults) for faults in ((), (fault,))
        )
        names = [
            sorted(event.name for event in run.trace if event.kind == Kind.DISPATCHED) for run in (sound, troubled)
        ]
        assert names[0] == names[1]
        assert {event.job for event in troubled.trace if event.job is not None} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("way", [way for way in WAYS if way != "stated"])
@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_job_that_nobody_was_told_the_end_of_takes_no_room_and_holds_up_no_client(way: str, verb: str) -> None:
    run = coming(way, LostReply(verb), capacity=1)  # type: ignore[arg-type]
    assert len(moments(run, Kind.DISPATCHED)) == 3
    assert moments(run, Kind.REJECTED) == []
    assert NOTHING not in run.requests.answered_at, "a client sees that its job is done"


def test_a_client_does_not_take_a_job_that_failed_for_done_where_nobody_was_told() -> None:
    workload = Workload(Every(1.0), Fixed(1.0), Always(), jobs=1, clients=Clients(timeout=50.0, attempts=1))
    faults = (LostReply("fail"),)
    run = simulate("memory://", workload=workload, poll=None, policy=Policy(tries=1), faults=faults)
    assert list(run.requests.given_up_at) == [1_000_000]


def test_jobs_that_a_handler_dispatches_take_no_room_of_those_that_come() -> None:
    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.handler("child")(lambda job: None)
        queue.handler("job")(lambda job: job.dispatch("child"))
        workload = Workload(Every(1.0), Fixed(1.5), jobs=6, capacity=1)
        run = simulate(queue, workload=workload, workers=3, poll=None)
    assert moments(run, Kind.REJECTED) == [1.0, 3.0, 5.0]


def test_a_restart_makes_room_once_for_a_job_that_had_failed_before() -> None:
    workload = Workload(Every(1.0), Fixed(1.5), Always(), jobs=9, capacity=1)
    stated = {"workload": workload, "poll": None, "policy": Policy(tries=1)}
    run = simulate("memory://", faults=(Restart(at=3.75),), **stated)  # type: ignore[arg-type]
    assert moments(run, Kind.REJECTED) == [1.0, 3.0, 5.0, 7.0], "as without the restart"


def test_a_restart_does_not_lose_what_was_done_before_though_nobody_was_told() -> None:
    rows = [{"at": at, "service": 1.0} for at in (0.0, 2.0)]
    faults = (LostReply("complete"), Restart(at=2.5))
    run = simulate("memory://", workload=Workload(recorded(rows)), poll=None, faults=faults)
    assert [event.job for event in run.trace if event.kind is Kind.LOST] == [2]


def test_a_run_ends_though_a_closed_client_waits_for_a_job_that_never_ends() -> None:
    workload = Workload(Closed(2, Fixed(1.0)), Fixed(1.0), jobs=9)
    faults = (Crash(at=2.5, worker=1, back_after=1.0), Pause(30.0, at=4.0, worker=2))
    run = simulate(
        "memory://", workload=workload, workers=2, poll=1.0, faults=faults, policy=Policy(retry_after=None), seed=1
    )
    assert len(moments(run, Kind.DISPATCHED)) in (8, 9)
    assert run.until < 100


def test_the_run_of_a_store_that_is_away_at_its_end_ends() -> None:
    rows = [{"at": 0.0, "service": 2.0}] * 2
    run = simulate("memory://", workload=Workload(recorded(rows)), poll=None, faults=(Away(1.0, 5.0),))
    assert len(moments(run, Kind.COMPLETED)) == 2


def test_a_recording_keeps_its_delays_and_services_where_clients_ask_for_it() -> None:
    rows = [{"at": 1.0, "delay": 5.0, "service": 2.0, "payload": [1]}]
    workload = Workload(recorded(rows), clients=Clients(timeout=50.0, attempts=1))
    run = simulate("memory://", workload=workload, poll=None)
    assert moments(run, Kind.RESERVED) == [6.0]
    assert moments(run, Kind.COMPLETED) == [8.0]


def test_more_tries_in_a_branch_take_their_time() -> None:
    workload = Workload(Every(1.0), Fixed(2.0), Always(), jobs=1)
    run = simulate("memory://", workload=workload, poll=None, policy=Policy(tries=2, backoff=(1.0,)))
    assert moments(run.branch(1.0, {"tries": 4}), Kind.FAILED) == [11.0]


def test_the_bar_of_a_recording_knows_how_far_it_is() -> None:
    shares: list[float] = []
    rows = recorded([{"at": float(at)} for at in range(10_000)])
    simulate("memory://", workload=Workload(rows), poll=None, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_time_outs_of_clients_that_were_answered_leave_nothing_behind() -> None:
    """A client that would wait for a year is answered at once: nothing is to wait for that year's end."""
    clients = Clients(timeout=3e7, attempts=2)
    queue = Queue("memory://", clock=SimulatedClock())
    seen: list[int] = []

    def look(simulation: object) -> None:
        engine, feed = simulation._engine, simulation._feed  # type: ignore[attr-defined]  # noqa: SLF001 - what is left is inside
        seen.extend([len(engine._heap), len(feed._patience), len(feed._clients), len(feed._inside)])  # noqa: SLF001

    workload = Workload(Poisson(1.0), Fixed(0.5), jobs=2_000, clients=clients)
    simulate(queue, workload=workload, poll=None).branch(1_000.0, look)
    assert max(seen) < 20


def test_planned_arrivals_of_a_bench_wait_for_their_store() -> None:
    clock = SimulatedClock()
    queue = Queue(Troubled(MemoryDriver(), [Away(0.5, 3.0)]), clock=clock)
    queue.handler("job")(lambda job: None)
    bench = Bench(queue, clock)
    bench.arrive(Arrival(1.0, "job"))
    bench.run(20.0)
    assert [str(event.kind) for event in queue.trace] == ["dispatched", "reserved", "completed"]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (Scenario("nobody", (Arrival(0.0, "a"), Arrival(5.0, "b"))), "no handler is called 'b'"),
        (Scenario("no JSON", (Arrival(0.0, "a"), Arrival(5.0, "a", {1, 2}))), "payload is a set"),
        (Scenario("typo", (Arrival(0.0, "a"),), faults=(Crash("b"),)), "names the handler 'b', the queue has 'a'"),
        (Scenario("long", workload=Workload(recorded([{"at": 5.0, "payload": "x" * 99}]))), "payload"),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_what_cannot_be_dispatched_is_refused_before_anything_is_stored(scenario: Scenario, message: str) -> None:
    with Queue("memory://", clock=SimulatedClock(), payload_limit=50) as queue:
        queue.handler("a")(lambda job: None)
        with pytest.raises((ValueError, UnknownHandler), match=message):
            simulate(queue, scenario)
        assert len(queue.trace) == queue.counts().depth == 0


@pytest.mark.parametrize("trouble", [Away(2.5, 4.0), Locked(2.5, 4.0), Locked(2.5, 34.0)], ids=str)
def test_a_worker_that_boots_while_the_store_does_not_answer_sweeps_when_it_does(trouble: Fault) -> None:
    rows = [{"at": 0.0, "service": 5.0}]
    faults = (Crash(at=2.0, back_after=1.0, recover="all"), trouble)
    run = simulate("memory://", workload=Workload(recorded(rows)), poll=None, faults=faults, until=80.0)
    (recovered,) = moments(run, Kind.RECOVERED)
    assert trouble.at + trouble.seconds <= recovered <= trouble.at + trouble.seconds + 1  # type: ignore[union-attr]
    assert moments(run, Kind.COMPLETED) == [recovered + 5.0]


@pytest.mark.parametrize("when", ["reserved", "completing"])
def test_a_job_that_kills_every_worker_is_failed_when_its_attempts_are_used_up(when: str) -> None:
    faults = (Crash("job", when=when, times=None, back_after=1.0, recover="all"),)  # type: ignore[arg-type]
    run = simulate("memory://", workload=Workload(recorded([{"at": 0.0, "service": 5.0}])), poll=None, faults=faults)
    assert len(moments(run, Kind.CRASHED)) == 3
    assert len(moments(run, Kind.FAILED)) == 1


def test_a_job_whose_dispatch_was_not_answered_is_taken_at_once() -> None:
    workload = Workload(Every(1.0, first=3.0), Fixed(9.0), jobs=1)
    run = simulate("memory://", workload=workload, poll=None, faults=(LostReply("push", times=2),))
    assert moments(run, Kind.RESERVED) == [3.0], "the worker knows of it before its sender does"
