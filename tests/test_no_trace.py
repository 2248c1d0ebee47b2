"""A queue that records nothing: the same in all else, and it says so."""

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import only
from watching import Watched
from working import Shop

from qlab import Queue, Release, SimulatedClock, Trace, simulate
from qlab.driver import Driver
from qlab.history import written
from qlab.job import Attempt
from qlab.trace import NoTrace
from qlab.worker import Worked

process = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals, nor named pipes")

KEPT = """
from qlab import SystemClock
from qlab.history import Journal
from shop import queue

queue.trace = Journal("journal", SystemClock())
"""


def worked(queue: Queue) -> list[object]:
    """Let a queue go through whatever it can, and tell how."""

    @queue.handler("A", tries=2, backoff=0)
    def handler(job: Attempt) -> Any:
        job.progress(1, 2)
        job.extend(50.0)
        if job.payload == "more":
            job.dispatch("A", "good", delay=1.0)
        if job.payload == "bad":
            raise ValueError("boom")
        return Release(1.0) if job.payload == "back" and job.number == 1 else None

    queue.dispatch_many([("A", what) for what in ("good", "bad", "back", "more")])
    queue.dispatcher("A", "good")(0.0, 2.0)
    told: list[object] = [*queue.drain(until=60.0)]
    queue.dispatch("A", "good")
    held = queue.reserve(worker="w")
    assert held is not None
    queue.crash(held)
    told += [*queue.recover(force=True), *queue.drain()]
    (failed,) = queue.failed()
    assert failed.id is not None
    counted = queue.retry(failed.id)
    told += [*queue.drain(), queue.work_once()]
    return [*(type(each).__name__ for each in told), counted, *queue.counts(), queue.forget("all"), queue.clear()]


def test_a_queue_that_records_nothing_does_what_any_other_does(driver: Driver) -> None:
    silent = Queue(driver, clock=SimulatedClock(), name="silent", trace=False)
    telling = Queue(driver, clock=SimulatedClock(), name="telling", trace=True)
    assert worked(silent) == worked(telling)
    assert (len(silent.trace), list(silent.trace)) == (0, [])
    assert {"completed", "released", "failed", "extended", "progressed", "crashed", "recovered", "retried"} <= {
        event.kind for event in telling.trace
    }


def test_it_says_so() -> None:
    with Queue("memory://", trace=False) as queue:
        assert repr(queue.trace) == "<NoTrace: it records nothing>"
        assert "records nothing" in queue.trace._repr_html_()
        assert not queue.trace.records
        assert queue.trace == Trace()


def test_a_worker_collects_nothing(driver: Driver) -> None:
    queue = Queue(driver, trace=False)
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", None)] * 50)
    with Watched(queue) as worker:
        worker.until_idle()
    assert worker.worked == Worked(completed=50)
    assert len(queue.trace) == 0


def test_a_queue_may_begin_and_end_to_record(lone: Queue) -> None:
    """Also for a dispatcher that was made before."""
    lone.handler("A")(lambda job: None)
    dispatch, first = lone.dispatcher("A"), lone.trace
    dispatch(0.0, 0.0)
    lone.trace = NoTrace()
    dispatch(0.0, 0.0)
    lone.drain()
    lone.trace = first
    lone.dispatch("A")
    assert [event.kind for event in first] == ["dispatched", "dispatched"]
    lone.trace = other = Trace()
    lone.drain()
    assert [event.kind for event in other] == ["reserved", "completed", "missed"]


@pytest.mark.parametrize("wrong", ["off", 0, [], "trace.json"], ids=repr)
def test_what_is_no_trace_is_refused(lone: Queue, wrong: Any) -> None:
    with pytest.raises(TypeError, match="trace is .*: use a Trace, or False to record nothing"):
        Queue(lone.driver, trace=wrong)
    with pytest.raises(TypeError, match="use a Trace"):
        lone.trace = wrong


def test_what_is_made_of_its_trace_is_refused_or_records_by_itself() -> None:
    with Queue("memory://", clock=SimulatedClock(), trace=False) as queue:
        queue.handler("job")(lambda job: None)
        with pytest.raises(ValueError, match=r"records nothing \(trace=False\), and a run is its trace"):
            simulate(queue, progress=False)
        assert len(queue.on("memory://").trace) == 0
        assert queue.on("memory://").trace.records


def worker_process(address: str, folder: Path, module: str) -> list[str]:
    """What a handler in a process of `qlab work` says of its queue's trace, three times."""
    shop = Shop(folder, address)
    (folder / "kept.py").write_text(KEPT)
    with Queue(address, name="mail") as queue:
        queue.handler("tell the trace")(lambda job: None)
        queue.dispatch_many([("tell the trace", None)] * 3)
        with shop.work("--poll", "0.05", target=f"{module}:queue") as working:
            said = list(working.until("trace ", 3))
    shop.close()
    return said


@only("sqlite")
@process
@pytest.mark.timeout(300)
def test_a_worker_process_records_nothing(address: str, tmp_path: Path) -> None:
    assert worker_process(address, tmp_path / "shop", "shop") == ["trace <NoTrace: it records nothing> 0"] * 3


@only("sqlite")
@process
@pytest.mark.timeout(300)
def test_a_worker_process_goes_on_with_a_journal_of_the_application_s(address: str, tmp_path: Path) -> None:
    said = worker_process(address, tmp_path / "shop", "kept")
    assert [int(line.split()[-1]) for line in said] == [1, 3, 5]  # before it: reserved, completed, reserved, …
    kinds = [record.event.kind for record in written(tmp_path / "shop" / "journal")]
    assert kinds[:5] == ["reserved", "completed", "reserved", "completed", "reserved"]
