"""`qlab bench` on Redis: both sides do the same jobs on the same keys, and no server is left. No speed is asserted."""

import math
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from qlab import benchmarks
from qlab.benchmarks import redis as redis_benchmarks
from qlab.contend.arms import arm
from qlab.contend.stores import Store, Stores
from qlab.driver import Counts
from qlab.peers import raw_redis

NAMES = [each.name for each in benchmarks.BENCHMARKS if each.name.startswith("redis")]
PAYLOADS = [{"i": number} for number in range(20)]


@pytest.fixture(autouse=True)
def server() -> None:
    if reason := redis_benchmarks.missing():
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(params=redis_benchmarks.LAYOUTS)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Stores() as stores, stores.store(arm(f"redis_{request.param} none tcp")) as one:
        yield one


@pytest.fixture
def workers(store: Store) -> Iterator[dict[str, Any]]:
    place = raw_redis.place_of(store.driver, store.queue)  # type: ignore[arg-type]
    with closing(raw_redis.Raw(place)) as raw, closing(raw_redis.Ours(place)) as ours:
        yield {"raw": raw, "qlab": ours}


@pytest.mark.parametrize("kind", redis_benchmarks.KINDS)
def test_both_loops_do_every_job_once(store: Store, workers: dict[str, Any], kind: str) -> None:
    workers["qlab"].fill(PAYLOADS)
    assert workers[kind].work() == len(PAYLOADS)
    assert store.driver.counts(store.queue, now=0.0) == Counts()
    assert store.driver.check(store.queue, now=0.0) == []


def test_single_writes_leave_what_dispatch_many_leaves(store: Store, workers: dict[str, Any]) -> None:
    for kind in redis_benchmarks.KINDS:
        workers[kind].fill(PAYLOADS)
    assert store.driver.check(store.queue, now=0.0) == []
    jobs = store.driver.jobs(store.queue, now=0.0)
    by_hand, by_qlab = jobs[: len(PAYLOADS)], jobs[len(PAYLOADS) :]
    assert [(job.name, job.body, job.attempts) for job in by_hand] == [
        (job.name, job.body, job.attempts) for job in by_qlab
    ]
    assert [job.id for job in jobs] == list(range(1, 2 * len(PAYLOADS) + 1))
    assert all(job.dispatched_at == job.available_at for job in jobs)
    assert workers["qlab"].work() == 2 * len(PAYLOADS)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_measured_on_both_layouts(name: str) -> None:
    measured = benchmarks.measure([name], jobs=100, runs=1).measured
    assert {each.figure.split()[0] for each in measured} == set(redis_benchmarks.LAYOUTS)
    for each in measured:
        assert len(each.runs) == 1
        assert 0 < each.runs[0] < math.inf


def test_a_backlog_is_made_once_however_many_runs_there_are() -> None:
    assert {len(each.runs) for each in benchmarks.measure(["redis_growth"], jobs=100, runs=3).measured} == {1}


def test_a_job_that_is_lost_ends_the_measurement_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_redis.Raw, "work", lambda _: 0)
    (problem,) = benchmarks.measure(["redis"], jobs=100, runs=1).problems
    assert "0 of 1 jobs were done" in problem


def test_where_there_is_no_server_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stores, "missing", lambda *_: "no server here")
    for each in benchmarks.measure([*NAMES, "memory"], jobs=100, runs=1).measured:
        assert each.skipped == ("" if each.figure == "memory driver" else "no server here")


def test_ctrl_c_leaves_no_server_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of the work of four processes."""
    before = children()

    def interrupted(*_: object) -> None:
        assert children() > before
        raise KeyboardInterrupt

    monkeypatch.setattr(redis_benchmarks.Crew, "go", interrupted)
    with pytest.raises(KeyboardInterrupt):
        benchmarks.measure(["redis_four"], jobs=100, runs=1)
    assert children() == before


def children() -> set[str]:
    """The numbers of this process's children, as Linux lists them for its main thread."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())
