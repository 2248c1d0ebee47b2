"""Jobs that come while real workers work: each at its moment, none lost, and the same as in simulated time."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from qlab import Queue, frames, simulate
from qlab.clock import SystemClock, us
from qlab.contend import contending, contention
from qlab.contend.arriving import CHUNK, CHUNK_BYTES, Arriving, arriving, made
from qlab.contend.producer import Produced, Producer
from qlab.errors import InvalidPayload, QlabError
from qlab.measured import Measured
from qlab.payload import LIMIT
from qlab.policy import Policy
from qlab.scenario import Arrival, Behaviour, Scenario
from qlab.simulation import Run
from qlab.trace import Kind
from qlab.workload import (
    Bursts,
    Clients,
    Closed,
    Every,
    Fixed,
    Poisson,
    Recorded,
    RecordedJob,
    Renewal,
    Varying,
    Workload,
)

NAMES = ("resize", "mail")
BY_CHANCE = {
    "Poisson": Poisson(20.0),
    "Every": Every(0.25),
    "Renewal": Renewal(Fixed(0.1)),
    "Bursts": Bursts(5, every=1.0, spread=0.5),
    "Varying": Varying(lambda moment: 5.0 + moment, most=100.0),
    "Recorded": Recorded([RecordedJob(0.5, delay=1.0), RecordedJob(0.25, "mail", payload={"to": 7}), RecordedJob(0.0)]),
}


def brought(workload: Workload, *, seed: int = 3) -> Arriving:
    return arriving(Scenario("x", workload=workload, seed=seed))


def measured(run: Run) -> Measured:
    assert run.measured is not None
    return run.measured


# -- what comes, and when --


@pytest.mark.parametrize("arrivals", BY_CHANCE.values(), ids=BY_CHANCE)
@pytest.mark.parametrize("seed", [0, 7])
def test_what_comes_is_what_simulate_has_with_the_same_seed(arrivals: Any, seed: int) -> None:
    scenario = Scenario("x", workload=Workload(arrivals, names=NAMES, jobs=30), seed=seed)
    coming = arriving(scenario)
    run = simulate("memory://", scenario)
    dispatched = [event for event in run.trace if event.kind is Kind.DISPATCHED]
    assert [(us(each.at), each.name, us(each.until or 0)) for each in dispatched] == [
        (each.at, each.name, each.at + us(each.delay)) for each in (*coming.before, *coming.later)
    ]


def test_what_comes_at_0_s_is_there_before_and_the_rest_comes_later_in_order() -> None:
    arrivals = [Arrival(2.0, "a"), Arrival(0.0, "b", "first"), Arrival(0.0, "c", delay=1.0), Arrival(0.5, "d")]
    scenario = Scenario(
        "x", arrivals, dict.fromkeys("abcd", Behaviour()), workload=Workload(Every(1.0), jobs=3, names=("e",))
    )
    coming = arriving(scenario)
    assert [job.name for job in coming.before] == ["b", "e"]
    assert [(job.at, job.name) for job in coming.later] == [
        (0, "c"), (500_000, "d"), (1_000_000, "e"), (2_000_000, "a"), (2_000_000, "e"),
    ]  # fmt: skip
    assert coming.jobs == 7
    assert coming.longest_gap == 1.0


def test_what_comes_later_survives_the_way_to_another_process() -> None:
    large = {"text": "x" * 1_000}
    workload = Workload(Recorded([RecordedJob(i / 10, NAMES[i % 2], payload=large) for i in range(50)]), names=NAMES)
    coming = brought(workload)
    assert tuple(made(coming.told())) == coming.later
    assert len(coming.told()["payloads"]) == 1  # what all share is said once


@pytest.mark.parametrize(("size", "chunk"), [(2, CHUNK), (CHUNK_BYTES // 10, 10), (CHUNK_BYTES * 2, 1)])
def test_large_payloads_are_dispatched_in_smaller_chunks_and_may_be_larger_than_usual(size: int, chunk: int) -> None:
    coming = brought(Workload(Bursts(3, every=None), payload="x" * (size - 2)))
    assert coming.chunk == chunk
    assert coming.payload_limit == max(LIMIT, size)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (
            Workload(Closed(3, Fixed(1.0)), jobs=5),
            "has clients that wait for their jobs (Closed), which is for simulated",
        ),
        (Workload(Poisson(1.0), jobs=5, clients=Clients(timeout=1.0, attempts=2)), "has clients who ask again"),
        (Workload(Poisson(1.0), jobs=5, capacity=3), "has a capacity beyond which jobs are rejected"),
        (
            Workload(Recorded([RecordedJob(0.0, service=1.0)])),
            "has recorded jobs that take times of their own (service)",
        ),
        (Workload(Poisson(1.0)), "has arrivals without an end: say how many, as in Workload(…, jobs=10_000)"),
    ],
)
def test_what_only_simulated_time_has_is_refused_with_the_way_out(workload: Workload, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"scenario 'x' {says}")):
        contention("sqlite", Scenario("x", workload=workload))


def test_a_payload_that_is_no_json_value_is_refused_first() -> None:
    with pytest.raises(InvalidPayload, match="a job of 'resize'"):
        brought(Workload(Every(1.0), names=("resize",), jobs=2, payload={1, 2}))


# -- a producer --


@pytest.fixture
def producer(tmp_path: Path) -> Any:
    made = []

    def make(coming: Arriving) -> Producer:
        setup = {"url": f"sqlite:///{tmp_path}/jobs.db", "queue": "work", "policy": {"tries": 3}}
        made.append(Producer(setup | {"payload_limit": coming.payload_limit, "jobs": coming.told()}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_each_job_is_dispatched_alone_and_never_before_its_moment(producer: Any, tmp_path: Path) -> None:
    coming = brought(Workload(Poisson(500.0), names=NAMES, jobs=40, payload={"n": 1}))
    there = producer(coming)
    there.warm_up()
    epoch = SystemClock().now()
    there.work(epoch)
    did = Produced.heard(there.produced(1.5).told())
    assert [event.name for event in did.trace] == [job.name for job in coming.later]
    assert all(event.at >= epoch + job.at / 1e6 for event, job in zip(did.trace, coming.later, strict=True))
    latest = max(event.at - epoch - job.at / 1e6 for event, job in zip(did.trace, coming.later, strict=True))
    assert 0 <= did.behind <= latest + 1e-3
    assert (len(did.calls), did.cpu) == (40, 1.5)
    with Queue(f"sqlite:///{tmp_path}/jobs.db", name="work") as queue:
        assert [(job.name, job.payload) for job in queue.jobs()] == [(job.name, {"n": 1}) for job in coming.later]


def test_a_delay_counts_from_when_a_job_was_dispatched(producer: Any, tmp_path: Path) -> None:
    there = producer(brought(Workload(Recorded([RecordedJob(0.0, "mail", delay=60.0)]), names=NAMES)))
    there.work(SystemClock().now())
    (event,) = there.produced(0.0).trace
    assert event.until == pytest.approx(event.at + 60.0)


def test_a_producer_that_is_to_leave_dispatches_no_more(producer: Any) -> None:
    there = producer(brought(Workload(Every(3_600.0, first=3_600.0), jobs=2)))
    there.left.set()
    there.work(SystemClock().now())
    assert len(there.produced(0.0).calls) == 0


# -- beside workers --

EACH = {
    "memory": ("memory", "thread"),
    "threads": ("sqlite NORMAL", "thread"),
    "sqlite": ("sqlite NORMAL", "process"),
    "redis_zset": ("redis_zset none +1 ms", "process"),
    "redis_list": ("redis_list everysec tcp", "process"),
}


@pytest.mark.parametrize(("arm", "mode"), EACH.values(), ids=EACH)
def test_a_producer_and_workers_lose_nothing_and_double_nothing(arm: str, mode: Any) -> None:
    (run,) = contention(arm, workers=2, jobs=150, enqueue=math.inf, mode=mode, repeats=1, progress=False).runs
    found = measured(run)
    assert (found.lost, found.duplicated, sum(found.per_worker), len(found.dispatches)) == (0, 0, 150, 150)
    kinds = [event.kind for event in run.trace]
    assert [kinds.count(kind) for kind in (Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED)] == [150] * 3
    assert min(event.at for event in run.trace) >= 0.0
    frame = frames.contention([run])
    assert (frame[["dispatch_p50", "dispatch_max"]] > 0).all(axis=None)
    assert frame["behind"][0] == found.behind


def test_a_megabyte_a_job_comes_through_while_workers_work() -> None:
    (run,) = contention(
        "redis_zset none", workers=2, jobs=5, enqueue=1_000, payload=2_000_000, repeats=1, progress=False
    ).runs
    assert (measured(run).lost, sum(measured(run).per_worker)) == (0, 5)


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_workers_wait_for_what_is_still_to_come(mode: Any) -> None:
    arrivals = [Arrival(0.0, "a"), Arrival(0.4, "b"), Arrival(0.4, "c", delay=0.3)]
    scenario = Scenario("x", arrivals, dict.fromkeys("abc", Behaviour()), poll=0.01, policy=Policy(tries=1))
    (run,) = contention("sqlite", scenario, workers=2, repeats=1, mode=mode, progress=False).runs
    started = {run.trace[i].name: run.trace[i].at for i in range(len(run.trace)) if run.trace[i].kind is Kind.RESERVED}
    assert started["b"] >= 0.4
    assert started["c"] >= 0.7
    assert measured(run).lost == 0


def test_where_a_producer_comes_late_it_is_said_and_where_it_is_to_be_as_fast_as_it_can_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contending, "_LATE", -1.0)
    for enqueue, late in ((1_000, True), (math.inf, False)):
        found = contention("memory", workers=1, jobs=20, enqueue=enqueue, mode="thread", repeats=1, progress=False)
        assert any("later than they should (memory)" in note for note in found.notes) == late


@pytest.mark.parametrize("enqueue", [0, -1, math.nan, True, "fast"])
def test_a_rate_that_is_none_is_refused(enqueue: Any) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"enqueue is {enqueue!r}: use how many jobs a second come, above 0")
    ):
        contention("sqlite", enqueue=enqueue)


def test_a_producer_that_is_killed_is_told_and_its_run_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slayer.py").write_text(
        "import os, signal\n"
        "def register(queue):\n"
        "    queue.handler('mine')(run)\n"
        "def run(job):\n"
        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        try:\n"
        "            words, told = open(f'/proc/{pid}/cmdline').read(), open(f'/proc/{pid}/stat').read()\n"
        "        except OSError:\n"
        "            continue\n"
        f"        if 'qlab.contend.producer' in words and told.split()[3] == '{os.getpid()}':\n"
        "            os.kill(int(pid), signal.SIGKILL)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(QlabError, match="the producer was killed"):
        contention("sqlite", workers=1, jobs=2, enqueue=0.5, handlers="slayer:register", repeats=1, progress=False)
