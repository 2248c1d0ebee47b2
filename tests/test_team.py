"""Several workers in threads: they begin and stop together, recover once, and each tells what it has done."""

import threading
from collections import Counter
from typing import Any

import pytest
from conftest import ONE_OF_EACH, only
from watching import PATIENCE, Gate, eventually, spy_on

from qlab import Queue, workers
from qlab.driver import Counts
from qlab.errors import DriverUnavailable
from qlab.job import Attempt
from qlab.worker import Worked


class Reserves:
    """Counts how often a queue's store was asked for a job, and can be waited for."""

    def __init__(self, queue: Queue, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._asked, self._more = queue.driver.reserve, asked, threading.Condition()
        monkeypatch.setattr(queue.driver, "reserve", self)

    def __call__(self, *args: Any, **how: Any) -> Any:
        found = self._real(*args, **how)
        with self._more:
            self._asked.append("reserve")
            self._more.notify_all()
        return found

    def until(self, times: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self._asked.count("reserve") >= times, PATIENCE)


def test_four_workers_run_at_the_same_time_and_each_job_once(queue: Queue) -> None:
    together, ran, last = threading.Barrier(4), Counter[int](), threading.Event()

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        if job.payload < 4:
            together.wait(PATIENCE)  # nobody goes on before all four hold a job
        ran[job.payload] += 1
        if job.payload == 99:
            last.set()

    queue.dispatch_many([("A", number) for number in range(100)])
    with workers(queue, 4, poll=0.002) as team:
        assert eventually(last)
    assert ran == Counter(range(100))
    assert [member.name for member in team.worked] == ["worker-1", "worker-2", "worker-3", "worker-4"]
    assert all(member.worked.completed >= 1 for member in team.worked)
    assert team.total == Worked(completed=100)
    assert {event.worker for event in queue.trace if event.kind == "completed"} == {m.name for m in team.worked}
    assert queue.counts() == Counts()


@only("sqlite")
def test_each_worker_has_a_connection_of_its_own(queue: Queue) -> None:
    together, seats, ended = threading.Barrier(3), [], threading.Barrier(4)

    @queue.handler("A")
    def handler(job: Attempt) -> None:
        seats.append(queue.driver.database._seat())  # type: ignore[attr-defined]  # noqa: SLF001 - what is tested
        together.wait(PATIENCE)
        ended.wait(PATIENCE)

    queue.dispatch_many([("A", None)] * 3)
    with workers(queue, 3, poll=0.002):
        ended.wait(PATIENCE)
    assert len({id(seat) for seat in seats}) == 3


@only(*ONE_OF_EACH)
@pytest.mark.parametrize(("recover", "recovered"), [("expired", 0), ("force", 1), (None, 0)])
def test_they_recover_once_for_all_before_any_takes_a_job(
    queue: Queue, recover: Any, recovered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    assert queue.reserve() is not None
    spy_on(queue.driver, "recover", asked, monkeypatch)
    reserves = Reserves(queue, asked, monkeypatch)
    with workers(queue, 4, poll=0.002, recover=recover) as team:
        reserves.until(12)
    assert asked.count("recover") == (recover is not None)
    assert recover is None or asked[0] == "recover"
    assert team.total == Worked(completed=recovered)


@only(*ONE_OF_EACH)
def test_no_worker_takes_a_job_while_the_store_cannot_be_recovered(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the forced recovery that comes later would rob the team's own worker."""
    asked: list[str] = []
    real, problems = queue.driver.recover, iter([DriverUnavailable("away")] * 3)

    def recover(*args: Any, **how: Any) -> Any:
        for problem in problems:
            asked.append("in vain")
            raise problem
        asked.append("recover")
        return real(*args, **how)

    monkeypatch.setattr(queue.driver, "recover", recover)
    reserves = Reserves(queue, asked, monkeypatch)
    with workers(queue, 4, poll=0.002, recover="force"):
        reserves.until(4)
    assert asked[:4] == ["in vain"] * 3 + ["recover"]
    assert set(asked[4:]) == {"reserve"}


def test_a_stop_that_is_not_waited_for_reaches_every_worker(lone: Queue) -> None:
    gates = [Gate(), Gate()]
    lone.handler("A")(lambda job: gates[job.payload](job))
    lone.dispatch_many([("A", 0), ("A", 1), ("A", 0), ("A", 1)])
    team = workers(lone, 2, poll=0.002).start()
    for gate in gates:
        gate.until_begun()
    assert not team.stop(0.0)
    for gate in gates:
        gate.may_end.set()
    assert team.stop(PATIENCE)
    assert team.total == Worked(completed=2)
    assert lone.counts() == Counts(ready=2)


def test_all_are_asked_to_stop_before_one_is_waited_for(lone: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the others take jobs while the first finishes its own."""
    team = workers(lone, 3, poll=0.002).start()
    first, asked, real = team.members[0], [], team.members[0].stop

    def stop(limit: float | None) -> bool:
        asked.extend(worker._stopping.is_set() for worker in team.members)  # noqa: SLF001 - what is tested
        return real(limit)

    monkeypatch.setattr(first, "stop", stop)
    assert team.stop()
    assert asked == [True] * 3


def test_a_worker_tells_the_job_in_hand_while_its_handler_runs(queue: Queue) -> None:
    gate = Gate()
    queue.handler("A")(gate)
    job = queue.dispatch("A")
    with workers(queue, 1, poll=0.002) as team:
        gate.until_begun()
        (worker,) = team.members
        assert worker.in_hand is not None
        assert (worker.in_hand.job.id, worker.in_hand.job.attempts) == (job.id, 1)
        gate.may_end.set()
    assert worker.in_hand is None


def test_leaving_the_block_stops_them_whatever_happened_inside(lone: Queue) -> None:
    gate = Gate()
    lone.handler("A")(gate)
    lone.dispatch("A")
    team = workers(lone, 2)

    def leave() -> None:
        with team:
            gate.until_begun()
            gate.may_end.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave()
    assert team.stop(0.0)
    assert team.total == Worked(completed=1)
    with pytest.raises(RuntimeError, match="runs, or has run, already"):
        team.start()


def test_a_team_shows_itself_as_a_table(lone: Queue) -> None:
    team = workers(lone, 2, name="w")
    assert repr(team) == "<2 workers: w-1, w-2>"
    assert "<td" in team._repr_html_()
    assert "w-2" in team._repr_html_()


@pytest.mark.parametrize(
    ("count", "how", "error", "says"),
    [
        (0, {}, ValueError, "count is 0: use a number of workers from 1"),
        (-1, {}, ValueError, "count is -1"),
        (True, {}, TypeError, "count is True: use a whole number"),
        ("4", {}, TypeError, "count is '4'"),
        (2.0, {}, TypeError, r"count is 2\.0"),
        (2, {"poll": 0}, ValueError, "poll is 0"),
        (2, {"recover": "all"}, ValueError, "recover is 'all'"),
    ],
)
def test_what_no_team_can_be_made_of_is_refused(
    lone: Queue, count: Any, how: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        workers(lone, count, **how)


def test_a_team_is_given_a_queue_and_no_address() -> None:
    with pytest.raises(TypeError, match="a worker works a Queue, not 'memory://'"):
        workers("memory://", 2)  # type: ignore[arg-type]
