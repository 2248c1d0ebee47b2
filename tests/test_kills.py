"""Workers that are really killed: wherever SIGKILL meets one, its job is in one place, and the others finish it."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mortals
import pytest
from conftest import QUEUE, only, outcomes
from nursery import Nursery
from tried import Tried

from qlab import Queue, SimulatedClock
from qlab.driver import Counts, Driver
from qlab.history import Journal, joined, written
from qlab.history.promises import broken
from qlab.trace import Kind

SHARED_BY_PROCESSES = ("sqlite", "redis_zset-redis8", "redis_list-valkey")
STAGED_ON_SERVERS = SHARED_BY_PROCESSES[1:]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


def test_no_forked_process_outlives_a_nursery_that_is_killed(tmp_path: Path) -> None:
    nursery = Nursery()
    how = {"url": f"sqlite:///{tmp_path}/jobs.db", "queue": QUEUE, "folder": str(tmp_path), "worker": "w"}
    for _ in range(3):
        nursery.fork("work", **how)
    nursery.die()
    nursery.close()


class Scene:
    """A queue in which one worker is killed, and a survivor in this process."""

    def __init__(self, nursery: Nursery, tried: Tried, url: str, driver: Driver, folder: Path, name: str) -> None:
        self.name = name
        self.clock = SimulatedClock()
        self._nursery = nursery
        self._tried = tried
        self._url = url
        self._files = {what: str(folder / f"{name} {what}") for what in ("journal", "runs", "ours")}
        self.queue = Queue(driver, clock=self.clock, name=name, trace=Journal(self._files["ours"], self.clock))
        mortals.register(self.queue, self._files["runs"])
        self.ids: dict[str, int] = {}

    def dispatch(self, *names: str) -> None:
        for number, name in enumerate(names):
            job = self.queue.dispatch(name, number)
            self.ids[job.uid] = job.id

    def kill_at(self, program: str, point: str | int) -> str:
        """Kill a worker where it comes to a point of a program, and tell where it was."""
        how = {what: self._files[what] for what in ("journal", "runs")}
        pid = self._nursery.fork("come_to", url=self._url, queue=self.name, program=program, point=point, **how)
        where: str = self._nursery.told(pid)
        self._nursery.kill(pid)
        self._tried.add(self.queue.driver.name, "worker processes killed")
        self.clock.advance_to(1.0)
        self.queue.trace.record(1.0, Kind.CRASHED, worker=mortals.MORTAL)
        return where

    @property
    def runs(self) -> list[str]:
        """The payloads of the jobs that ran, in order."""
        path = Path(self._files["runs"])
        return path.read_text().split() if path.exists() else []

    def faults(self) -> list[str]:
        """What the history of all breaks."""
        driver, now = self.queue.driver, self.clock.now()
        history = joined(written(self._files["ours"]), written(self._files["journal"]))
        left = [job.id for job in driver.jobs(self.name, now=now)]
        failed = [self.ids[row.uid] for row in driver.failed(self.name)]
        found = broken(history, left=left, failed=failed, order=driver.order)
        return [each.says for each in found] + driver.check(self.name, now=now)

    def close(self) -> None:
        assert isinstance(self.queue.trace, Journal)
        self.queue.trace.close()


@pytest.fixture
def scene(nursery: Nursery, tried: Tried, address: str, driver: Driver, tmp_path: Path) -> Iterator[Scene]:
    opened = Scene(nursery, tried, address, driver, tmp_path, QUEUE)
    yield opened
    opened.close()


class Point(NamedTuple):
    """Where a worker is killed, and what becomes of its job.

    Attributes:
        job: The handler's name.
        program: What the worker does.
        at: Where it is killed.
        left: Where the job is a second later.
        then: How a survivor's steps end at 1 s and at 90 s, when the reservation has run out.
        runs: How often the job ran in all.
    """

    job: str
    program: str
    at: str
    left: Counts
    then: tuple[str, str]
    runs: int


HELD, GONE, FAILED = Counts(reserved=1), Counts(), Counts(failed=1)

POINTS = {
    "before it reserves": Point("send", "complete", "before reserve", Counts(ready=1), ("Completed", "Idle"), 1),
    "after it has reserved": Point("send", "complete", "after reserve", HELD, ("Idle", "Completed"), 1),
    "in the handler": Point("send", "complete", "in the handler", HELD, ("Idle", "Completed"), 2),
    "before it completes": Point("send", "complete", "before complete", HELD, ("Idle", "Completed"), 2),
    "after it has completed": Point("send", "complete", "after complete", GONE, ("Idle", "Idle"), 1),
    "before it gives back": Point("shake", "release", "before release", HELD, ("Idle", "Completed"), 2),
    "after it has given back": Point("shake", "release", "after release", Counts(delayed=1), ("Idle", "Completed"), 2),
    "before it fails": Point("break", "fail", "before fail", HELD, ("Idle", "Failed"), 1),
    "after it has failed": Point("break", "fail", "after fail", FAILED, ("Idle", "Idle"), 1),
}

BETWEEN_TWO_STORES = {
    "before its row is written": Point("break", "fail", "after _stage", FAILED, ("Idle", "Idle"), 1),
    "after its row is written": Point("break", "fail", "before _unstage", FAILED, ("Idle", "Idle"), 1),
    "after the store has dropped it": Point("break", "fail", "after _unstage", FAILED, ("Idle", "Idle"), 1),
}


def check(scene: Scene, point: Point) -> None:
    scene.dispatch(point.job)
    assert scene.kill_at(point.program, point.at) == point.at
    assert scene.queue.counts() == point.left
    assert scene.faults() == []
    assert outcomes(scene.queue, 1.0, 90.0) == list(point.then)
    scene.clock.advance_to(90.0)
    failed = int(point.job == "break")
    assert scene.queue.counts() == Counts(failed=failed)
    assert len(scene.queue.failed()) == failed
    assert len(scene.runs) == point.runs
    assert scene.faults() == []


@only(*SHARED_BY_PROCESSES)
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_worker_that_is_killed_leaves_its_job_in_one_place(scene: Scene, point: Point) -> None:
    check(scene, point)


@only(*STAGED_ON_SERVERS)
@pytest.mark.parametrize("point", BETWEEN_TWO_STORES.values(), ids=BETWEEN_TWO_STORES)
def test_a_worker_that_is_killed_between_two_stores_leaves_a_job_failed_once(scene: Scene, point: Point) -> None:
    check(scene, point)
    (row,) = scene.queue.failed()
    assert scene.queue.retry("all") == 1
    assert scene.queue.counts() == Counts(ready=1)
    assert (row.error, row.attempts) == ("ValueError: boom", 1)


@only(*STAGED_ON_SERVERS)
@pytest.mark.parametrize("step", ["after _again", "before _drop_notes", "after _drop_notes"])
def test_a_retry_of_all_that_is_killed_after_any_of_its_steps_moves_each_job_once(scene: Scene, step: str) -> None:
    scene.dispatch("break", "break", "break")
    scene.queue.drain()
    assert scene.kill_at("retry", step) == step
    assert scene.queue.counts() == Counts(ready=3)
    assert scene.queue.failed() == []
    assert scene.queue.retry("all") == 0
    assert sorted(job.payload for job in scene.queue.jobs()) == [0, 1, 2]
    scene.queue.drain()
    assert sorted(scene.runs) == ["0", "0", "1", "1", "2", "2"]
    assert scene.queue.counts() == Counts(failed=3)


# -- at every statement --


def fail_all(scene: Scene) -> None:
    scene.dispatch("break", "break", "break")
    scene.queue.drain()


def reserve_all(scene: Scene) -> None:
    scene.dispatch("send", "send", "send")
    while scene.queue.reserve():
        pass


class Program(NamedTuple):
    """What a worker does that is killed at each of its statements.

    Attributes:
        set_up: What there is before.
        left: Where the jobs may be a second later.
        again: What a survivor does then.
        end: Where the jobs are when the survivor has worked until nothing is left.
        runs: How often they have run in all, at the least and at the most.
    """

    set_up: Callable[[Scene], None]
    left: tuple[Counts, ...]
    again: Callable[[Queue], object]
    end: Counts
    runs: tuple[int, int]


READY, ALL_READY, ALL_FAILED = Counts(ready=1), Counts(ready=3), Counts(failed=3)

EVERY = {
    "complete": Program(lambda s: s.dispatch("send"), (READY, HELD, GONE), lambda q: None, GONE, (1, 2)),
    "release": Program(lambda s: s.dispatch("shake"), (READY, HELD, Counts(delayed=1)), lambda q: None, GONE, (2, 3)),
    "fail": Program(lambda s: s.dispatch("break"), (READY, HELD, FAILED), lambda q: None, FAILED, (1, 1)),
    "drain": Program(
        lambda s: s.dispatch("send", "break"),
        (Counts(ready=2), Counts(1, 0, 1), READY, HELD, FAILED),
        lambda q: None,
        FAILED,
        (2, 3),
    ),
    "retry": Program(fail_all, (ALL_FAILED, ALL_READY), lambda q: q.retry("all"), ALL_FAILED, (6, 6)),
    "forget": Program(fail_all, (ALL_FAILED, GONE), lambda q: q.forget("all"), GONE, (3, 3)),
    "dispatch": Program(lambda s: None, (GONE, ALL_READY), lambda q: None, GONE, (0, 3)),
    "recover": Program(reserve_all, (Counts(reserved=3), ALL_READY), lambda q: q.recover(force=True), GONE, (3, 3)),
    "clear": Program(
        lambda s: s.dispatch("send", "send", "send"), (ALL_READY, GONE), lambda q: q.clear(), GONE, (0, 0)
    ),
}


@only(*SHARED_BY_PROCESSES)
@pytest.mark.parametrize("verb", EVERY)
def test_a_process_that_is_killed_at_any_statement_leaves_each_job_in_one_place(
    verb: str, nursery: Nursery, tried: Tried, address: str, driver: Driver, tmp_path: Path
) -> None:
    program, number, where = EVERY[verb], 0, ""
    seen = set()
    while where != "the end":
        number += 1
        scene = Scene(nursery, tried, address, driver, tmp_path, f"{QUEUE} {number}")
        program.set_up(scene)
        where = scene.kill_at(verb, number)
        left = scene.queue.counts()
        seen.add(left)
        assert left in program.left, f"killed at {where}"
        listed = [job.uid for job in scene.queue.jobs()] + [row.uid for row in scene.queue.failed()]
        assert len(listed) == len(set(listed)) == sum(left), f"killed at {where}"
        program.again(scene.queue)
        scene.queue.drain(math.inf)
        assert scene.queue.counts() == program.end, f"killed at {where}"
        assert len(scene.queue.failed()) == program.end.failed
        assert program.runs[0] <= len(scene.runs) <= program.runs[1], f"killed at {where}"
        assert driver.check(scene.name, now=90.0) == []
        if verb in ("complete", "release", "fail", "drain"):
            assert scene.faults() == [], f"killed at {where}"
        scene.close()
    assert len(seen) >= 2
