"""What ADR-006 rejected, and the worker crate's service over SQLite."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import outcomes, told
from watching import Gate, eventually

from qlab import SimulatedClock
from qlab.async_attempt import AsyncAttempt
from qlab.driver import Counts
from qlab.errors import QlabError, UnusableStore
from qlab.job import Attempt
from qlab.systems import InProcess, in_process, worker_service
from qlab.trace import Kind
from qlab.worker import Worked


@pytest.fixture
def app(clock: SimulatedClock) -> Iterator[InProcess]:
    with in_process_app(clock) as app:
        app.stop()
        yield app


def in_process_app(clock: SimulatedClock, jobs: Any = None, **how: Any) -> InProcess:
    return in_process(jobs or {"A": lambda job: None}, clock=clock, poll=0.002, **how)


def test_a_restart_loses_queued_work(app: InProcess) -> None:
    app.queue.dispatch_many([("A", 1), ("A", 2)])
    app.queue.dispatch_later("A", delay=60.0)
    assert app.restart() == 3
    assert outcomes(app.queue, 0.0, 60.0, 1e6) == ["Idle"] * 3
    assert told(app.queue, "lost") == [(0.0, "lost", job) for job in (1, 2, 3)]
    assert {seen.settled for seen in app.queue.trace.at(0.0).jobs.values()} == {"lost"}


def test_a_restart_is_silent(
    app: InProcess, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    app.queue.dispatch("A")
    caplog.clear()
    app.restart()
    assert (caplog.messages, capsys.readouterr()) == ([], ("", ""))


def test_there_is_no_way_to_see_what_waits(app: InProcess) -> None:
    app.queue.dispatch("A")
    for look in (app.queue.counts, app.queue.jobs, app.queue.failed):
        with pytest.raises(QlabError, match="cannot tell .*: keep it in a table, as in sqlite:///jobs.db"):
            look()


def test_there_is_no_way_to_retry_a_failure_after_a_crash(clock: SimulatedClock) -> None:
    app = in_process_app(clock, {"A": lambda job: 1 / 0}, tries=2)
    app.queue.dispatch("A")
    held = app.queue.reserve()
    assert held is not None
    app.queue.crash(held)
    assert outcomes(app.queue, 90.0, 1e6) == ["Idle", "Idle"]
    app.queue.dispatch("A")
    assert outcomes(app.queue, 1e6, 1e6 + 10.0) == ["Retrying", "Failed"]
    assert (app.queue.retry("all"), app.queue.forget("all")) == (0, 0)
    app.close()


def test_a_handler_that_was_running_at_the_restart_changes_nothing_any_more(clock: SimulatedClock) -> None:
    gate, after = Gate(), threading.Event()
    app = in_process_app(clock, {"A": gate, "B": lambda job: after.set()})
    app.queue.dispatch("A")
    with app:
        (left,) = app.workers
        gate.until_begun()
        assert app.restart() == 1
        app.queue.dispatch("B")
        assert eventually(after)
        gate.may_end.set()
        assert left.stop()
    assert left.worked == Worked(superseded=1)
    kinds = [event.kind for event in app.queue.trace if event.job == 1 and event.kind != Kind.MISSED]
    assert kinds == ["dispatched", "reserved", "lost", "superseded"]


# -- the service over SQLite --


def test_a_service_over_sqlite_goes_on_after_a_restart_where_it_was(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def webhook(job: AsyncAttempt) -> None:
        await asyncio.to_thread(seen.append, job.payload)
        if job.payload == 3:
            services[-1].stop()

    def thumbnail(job: Attempt) -> None:
        seen.append("thumbnail")

    def serve() -> Worked:
        services.append(worker_service(tmp_path / "w.db", {"webhook": webhook, "thumbnail": thumbnail}, poll=0.002))
        try:
            return services[-1].run()
        finally:
            services[-1].queue.close()

    services: list[Any] = [worker_service(tmp_path / "w.db", [("webhook", webhook), ("thumbnail", thumbnail)])]
    services[0].queue.dispatch_many([("thumbnail", None), ("webhook", 3)])
    assert services[0].queue.counts() == Counts(ready=2)
    services[0].queue.close()
    assert serve() == Worked(completed=2)
    assert sorted(map(str, seen)) == ["3", "thumbnail"]


def test_a_service_over_a_file_that_cannot_hold_a_queue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableStore):
        worker_service(tmp_path)
    with pytest.raises(ValueError, match="the handler 'A' is named twice"):
        worker_service(tmp_path / "w.db", [("A", print), ("A", print)])
