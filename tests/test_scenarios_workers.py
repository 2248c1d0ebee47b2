"""Scenarios of the bug catalogue: how workers idle, stop and recover."""

import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest
from conftest import ONE_OF_EACH, QUEUE, Store, only, told
from watching import PATIENCE, Gate, Watched, heard, spy_on

from qlab import Completed, Policy, Queue, SimulatedClock, Worker
from qlab.driver import Counts, Driver
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.patience import LONGEST_WAIT, Patience
from qlab.worker import Worked

# -- waits --


@pytest.mark.scenario("B26")
@only(*ONE_OF_EACH)
def test_an_idle_wait_does_not_grow_however_often_nothing_was_due(queue: Queue) -> None:
    with Watched(queue, poll=0.000_001, jitter=0.5) as worker:
        worker.until_round(2_000)
    assert max(worker.waits) <= 0.000_001_5


@pytest.mark.scenario("B26")
def test_the_wait_for_a_store_does_not_grow_beyond_its_limit_however_long_it_is_away() -> None:
    patient = Patience(1.0, 0.5, "w")
    waits = [patient.away(DriverUnavailable("away")) for _ in range(100_000)]
    assert max(waits) <= 1.5 * LONGEST_WAIT


class Settable(SimulatedClock):
    """A machine's clock as people set it: also back."""

    def set(self, moment: float) -> None:
        self._us = round(moment * 1_000_000)


@pytest.mark.scenario("B64")
@pytest.mark.parametrize("by", [-6 * 3600.0, 6 * 3600.0])
def test_a_clock_that_is_set_makes_no_idle_wait_longer(driver: Driver, by: float) -> None:
    clock = Settable(1_000_000.0)
    queue = Queue(driver, name=QUEUE, clock=clock)
    ran: list[str] = []
    for name in ("later", "now"):
        queue.handler(name)(lambda job: ran.append(job.name))
    queue.dispatch_later("later", delay=10.0)
    with Watched(queue, poll=0.01) as worker:
        worker.until_idle()
        assert ran == []
        clock.set(1_000_000.0 + by)
        queue.dispatch("now")
        worker.until_idle()
        assert sorted(ran) == ["later", "now"] if by > 0 else ["now"]
        clock.set(1_000_010.0)
        worker.until_idle()
    assert sorted(ran) == ["later", "now"]
    assert max(worker.waits) <= 0.015


# -- stop --


@pytest.mark.scenario("B73")
def test_a_job_in_hand_when_the_limit_passes_is_settled_if_its_handler_still_ends(queue: Queue) -> None:
    gate = Gate()
    queue.handler("A")(gate)
    queue.dispatch("A")
    queue.dispatch("A")
    worker = Worker(queue).start()
    gate.until_begun()
    assert not worker.stop(timeout=0.01)
    assert queue.counts() == Counts(ready=1, reserved=1)
    gate.may_end.set()
    assert worker.stop(PATIENCE)
    assert worker.worked == Worked(completed=1)
    assert [job.attempts for job in queue.jobs()] == [0]


@pytest.mark.scenario("B73")
def test_a_job_in_hand_when_the_limit_passes_comes_again_when_its_reservation_runs_out(
    queue: Queue, clock: SimulatedClock
) -> None:
    gate, again = Gate(), []
    queue.handler("A")(gate)
    queue.dispatch("A")
    worker = Worker(queue).start()
    gate.until_begun()
    assert not worker.stop(timeout=0.0)
    other = Queue(queue.driver, name=QUEUE, clock=clock)
    other.handler("A")(lambda job: again.append(job.number))
    clock.advance(89.0)
    assert type(other.work_once()).__name__ == "Idle"
    clock.advance(1.0)
    assert isinstance(other.work_once(), Completed)
    gate.may_end.set()
    assert worker.stop(PATIENCE)
    assert worker.worked == Worked(superseded=1)
    assert (again, other.counts(), list(other.failed())) == ([2], Counts(), [])


class UnderWay:
    """A reservation under way: the store has made it, and its reply has not come yet."""

    def __init__(self, driver: Driver, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made, self._come = threading.Event(), threading.Event()
        real = getattr(driver, verb)

        def slow(*args: Any, **how: Any) -> Any:
            reply = real(*args, **how)
            if reply not in ([], (True, None)):
                self._made.set()
                assert self._come.wait(PATIENCE)
            return reply

        monkeypatch.setattr(driver, verb, slow)

    def until_made(self) -> None:
        assert self._made.wait(PATIENCE)

    def comes(self) -> None:
        self._come.set()


both_ways = pytest.mark.parametrize(("verb", "before"), [("reserve", 0), ("complete_and_reserve", 1)])


@pytest.mark.scenario("B73")
@both_ways
@only(*ONE_OF_EACH)
def test_a_reservation_under_way_at_stop_is_the_job_in_hand(
    queue: Queue, verb: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    queue.handler("A", tries=1)(lambda job: ran.append(job.payload))
    for number in range(before + 2):
        queue.dispatch("A", number)
    under_way = UnderWay(queue.driver, verb, monkeypatch)
    worker = Worker(queue).start()
    under_way.until_made()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    assert worker._stopping.wait(PATIENCE)  # noqa: SLF001 - the moment that is meant
    under_way.comes()
    stopping.join(PATIENCE)
    assert ran == list(range(before + 1))
    assert [job.attempts for job in queue.jobs()] == [0]


@pytest.mark.scenario("B73")
@both_ways
@only(*ONE_OF_EACH)
def test_a_reservation_under_way_when_the_limit_passes_is_given_back_and_runs_again(
    queue: Queue, verb: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[int, int]] = []
    queue.handler("A")(lambda job: ran.append((job.payload, job.number)))
    for number in range(before + 1):
        queue.dispatch("A", number)
    under_way = UnderWay(queue.driver, verb, monkeypatch)
    worker = Worker(queue).start()
    under_way.until_made()
    assert not worker.stop(timeout=0.0)
    under_way.comes()
    assert worker.stop(PATIENCE)
    assert worker.worked == Worked(completed=before, released=1)
    assert queue.counts() == Counts(ready=1)
    assert ran == [(number, 1) for number in range(before)]
    with Watched(queue) as other:
        other.until_idle()
    assert ran[before:] == [(before, 2)]


@pytest.mark.scenario("B74")
def test_the_job_in_hand_at_stop_is_finished_and_the_next_is_not_taken(queue: Queue) -> None:
    gate, ran = Gate(), []

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        gate(job)
        ran.append(job.payload)

    queue.dispatch("A", "first")
    queue.dispatch("A", "second")
    worker = Worker(queue).start()
    gate.until_begun()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    assert worker._stopping.wait(PATIENCE)  # noqa: SLF001 - the moment that is meant
    gate.may_end.set()
    stopping.join(PATIENCE)
    assert ran == ["first"]
    assert worker.worked == Worked(completed=1)
    assert [(job.payload, job.attempts) for job in queue.jobs()] == [("second", 0)]
    assert queue.counts() == Counts(ready=1)


# -- recover at boot --


def crashed(queue: Queue, worker: str = "w1") -> None:
    """A job whose worker has vanished."""
    queue.dispatch("A")
    held = queue.reserve(worker=worker)
    assert held
    queue.crash(held, worker=worker)


@pytest.mark.scenario("B75")
@pytest.mark.parametrize("recover", ["expired", None])
def test_what_a_dead_worker_held_comes_again_when_it_runs_out_and_no_sooner(
    queue: Queue, clock: SimulatedClock, recover: Literal["expired"] | None
) -> None:
    ran: list[tuple[float, int]] = []
    queue.handler("A")(lambda job: ran.append((clock.now(), job.number)))
    crashed(queue)
    clock.advance(10.0)
    with Watched(queue, recover=recover) as worker:
        worker.until_idle()
        clock.advance(79.0)
        worker.until_idle()
        assert ran == []
        clock.advance(1.0)
        worker.until_idle()
    assert ran == [(90.0, 2)]
    assert queue.counts() == Counts()


@pytest.mark.scenario("B75")
@pytest.mark.parametrize("retry_after", [90.0, None])
def test_a_worker_that_is_alone_may_take_at_once_what_a_dead_one_held(
    queue: Queue, clock: SimulatedClock, retry_after: float | None
) -> None:
    ran: list[tuple[float, int]] = []
    queue.policy = Policy(retry_after=retry_after)
    queue.handler("A")(lambda job: ran.append((clock.now(), job.number)))
    crashed(queue)
    clock.advance(10.0)
    with heard() as log, Watched(queue, recover="force") as worker:
        worker.until_idle()
    assert ran == [(10.0, 2)]
    assert log.said == ["queue=mail: recovers every reservation; a worker that is alive is robbed of its job"]
    assert told(queue, "recovered") == [(10.0, "recovered", 1)]


@pytest.fixture
def elsewhere(store: Store, driver: Driver, open_again: Callable[[], Driver], clock: SimulatedClock) -> Queue:
    """The same queue as another process has it: on a driver of its own, where the store can be shared."""
    return Queue(open_again() if store.shared else driver, name=QUEUE, clock=clock)


@pytest.mark.scenario("B76")
def test_a_worker_that_boots_takes_nothing_from_one_that_is_alive(
    queue: Queue, elsewhere: Queue, clock: SimulatedClock
) -> None:
    gate, stolen = Gate(), []
    queue.handler("A")(gate)
    elsewhere.handler("A")(lambda job: stolen.append(job.id))
    queue.dispatch("A")
    with Watched(queue) as alive:
        gate.until_begun()
        clock.advance(30.0)
        with heard() as log, Watched(elsewhere) as booted:
            booted.until_idle()
        assert elsewhere.counts() == Counts(reserved=1)
        gate.may_end.set()
    assert (alive.worked, booted.worked, stolen) == (Worked(completed=1), Worked(), [])
    assert log.said == []


@pytest.mark.scenario("B76")
def test_recovery_by_force_robs_a_worker_that_is_alive_and_says_so(
    queue: Queue, elsewhere: Queue, clock: SimulatedClock
) -> None:
    gate, again = Gate(), []
    queue.handler("A")(gate)
    elsewhere.handler("A")(lambda job: again.append(job.number))
    queue.dispatch("A")
    with Watched(queue) as alive:
        gate.until_begun()
        clock.advance(30.0)
        with heard() as log, Watched(elsewhere, recover="force") as booted:
            booted.until_idle()
        gate.may_end.set()
    assert (booted.worked, again) == (Worked(completed=1), [2])
    assert alive.worked == Worked(superseded=1)
    assert log.count("a worker that is alive is robbed of its job") == 1
    assert elsewhere.counts() == Counts()


@pytest.mark.scenario("B76")
@pytest.mark.parametrize("force", [False, True])
def test_recovery_by_hand_robs_a_worker_that_is_alive_only_by_force(
    queue: Queue, elsewhere: Queue, force: bool
) -> None:
    gate = Gate()
    queue.handler("A")(gate)
    queue.dispatch("A")
    with Watched(queue) as alive, heard() as log:
        gate.until_begun()
        assert len(elsewhere.recover(force=force)) == force
        assert log.count("a worker that is alive is robbed") == force
        assert elsewhere.clear() == 1
        gate.may_end.set()
    assert alive.worked == Worked(superseded=1)


@pytest.mark.parametrize("recover", ["expired", "force", None])
@only(*ONE_OF_EACH)
def test_a_worker_recovers_once_before_it_begins(
    queue: Queue, recover: Literal["expired", "force"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for verb in ("recover", "reserve"):
        spy_on(queue.driver, verb, asked, monkeypatch)
    with Watched(queue, recover=recover) as worker:
        worker.until_round(5)
    assert asked[0] == ("reserve" if recover is None else "recover")
    assert asked.count("recover") == (recover is not None)


@pytest.mark.scenario("B77")
@pytest.mark.parametrize("name", ["w1", "another", ""])
def test_what_is_recovered_hangs_on_the_reservation_and_on_no_worker_s_name(
    queue: Queue, clock: SimulatedClock, name: str
) -> None:
    ran: list[tuple[float, int]] = []
    queue.handler("A")(lambda job: ran.append((clock.now(), job.number)))
    crashed(queue, worker="w1")
    clock.advance(89.0)
    with Watched(queue, name=name) as early:
        early.until_idle()
    assert (early.worked, queue.counts()) == (Worked(), Counts(reserved=1))
    clock.advance(1.0)
    with Watched(queue, name=name) as late:
        late.until_idle()
    assert ran == [(90.0, 2)]
    assert told(queue, "recovered") == [(90.0, "recovered", 1)]
