"""The endpoint for Prometheus: what it counts, whom it lets in, and that no job hangs on it."""

import importlib
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import ONE_OF_EACH, QUEUE, only
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from watching import PATIENCE
from working import Shop

from qlab import Queue, Release, SimulatedClock, drivers
from qlab.driver import Driver
from qlab.errors import DriverUnavailable, MissingRequirement
from qlab.prometheus import Endpoint, serve_metrics

Numbers = dict[tuple[str, ...], float]


def scraped(url: str) -> Numbers:
    """Read a page of metrics: the value by name and the values of the labels."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@pytest.fixture
def endpoint(queue: Queue) -> Iterator[Endpoint]:
    with serve_metrics(queue, port=0) as endpoint:
        yield endpoint


@only(*ONE_OF_EACH)
def test_attempts_are_counted_by_handler_and_outcome(queue: Queue, endpoint: Endpoint, clock: SimulatedClock) -> None:
    def works(job: Any) -> Iterator[float]:
        yield 40.0

    queue.handler("works")(works)
    queue.handler("back")(lambda job: Release(1_000.0))
    queue.handler("fails", tries=2, backoff=[0.0])(lambda job: 1 / 0)
    queue.dispatch("works")
    queue.dispatch_many([(name, None) for name in ("works", "back", "fails")], delay=7.0)
    queue.drain(until=100.0)
    found = {key[1:3]: value for key, value in scraped(endpoint.url).items() if key[0] == "qlab_attempts_total"}
    assert found == {
        ("works", "completed"): 2.0,
        ("back", "released"): 1.0,
        ("fails", "retrying"): 1.0,
        ("fails", "failed"): 1.0,
    }


@only(*ONE_OF_EACH)
def test_runs_and_waits_are_measured_in_the_job_s_time(queue: Queue, endpoint: Endpoint) -> None:
    def works(job: Any) -> Iterator[float]:
        yield 40.0

    queue.handler("works")(works)
    queue.dispatch_many([("works", None)] * 2)
    queue.drain()
    found = scraped(endpoint.url)
    assert found["qlab_run_seconds_sum", "works", QUEUE] == 80.0
    assert found["qlab_run_seconds_count", "works", QUEUE] == 2.0
    assert found["qlab_run_seconds_bucket", "works", "30.0", QUEUE] == 0.0
    assert found["qlab_run_seconds_bucket", "works", "60.0", QUEUE] == 2.0
    assert found["qlab_wait_seconds_sum", "works", QUEUE] == 40.0
    assert found["qlab_wait_seconds_count", "works", QUEUE] == 2.0


def test_an_attempt_that_was_used_up_unrun_is_no_run(queue: Queue, endpoint: Endpoint, clock: SimulatedClock) -> None:
    queue.handler("A", tries=1)(lambda job: None)
    queue.dispatch("A")
    assert queue.reserve()
    clock.advance(100.0)
    queue.drain()
    found = scraped(endpoint.url)
    assert found["qlab_attempts_total", "A", "failed", QUEUE] == 1.0
    assert ("qlab_run_seconds_count", "A", QUEUE) not in found


def test_how_many_jobs_are_where_is_asked_at_each_scrape(queue: Queue, endpoint: Endpoint) -> None:
    queue.handler("A")(lambda job: None)
    queue.handler("B", tries=1)(lambda job: 1 / 0)

    def counts() -> list[float]:
        found = scraped(endpoint.url)
        assert found["qlab_store_up", QUEUE] == 1.0
        return [found["qlab_jobs", QUEUE, state] for state in ("ready", "delayed", "reserved", "failed")]

    assert counts() == [0, 0, 0, 0]
    queue.dispatch("B")
    queue.work_once()
    queue.dispatch_many([("A", None)] * 3)
    queue.dispatch_later("A", delay=5.0)
    queue.reserve()
    assert counts() == [2, 1, 1, 1]


def test_a_store_that_is_away_is_told_and_the_rest_is_served(
    queue: Queue, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    queue.drain()

    def away(*_: object, **how: object) -> None:
        raise DriverUnavailable("away")

    monkeypatch.setattr(queue.driver, "counts", away)
    found = scraped(endpoint.url)
    assert found["qlab_store_up", QUEUE] == 0.0
    assert found["qlab_attempts_total", "A", "completed", QUEUE] == 1.0
    assert not [key for key in found if key[0] == "qlab_jobs"]


def reached(port: int, address: str) -> bool:
    try:
        socket.create_connection((address, port), PATIENCE).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine on Linux alone")
def test_it_listens_at_one_address_of_this_machine_unless_told_otherwise(lone: Queue) -> None:
    with serve_metrics(lone, port=0) as endpoint:
        assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/metrics"
        assert [reached(endpoint.port, address) for address in ("127.0.0.1", "127.0.0.2")] == [True, False]
    endpoint.close()
    assert not reached(endpoint.port, "127.0.0.1")
    with Queue("memory://") as other, serve_metrics(other, port=0, address="0.0.0.0") as endpoint:
        assert reached(endpoint.port, "127.0.0.2")


def test_a_port_that_is_taken_is_named(lone: Queue) -> None:
    with serve_metrics(lone, port=0) as endpoint, pytest.raises(OSError, match=f"127.0.0.1 port {endpoint.port}"):
        serve_metrics(lone, port=endpoint.port)


def test_an_application_s_own_registry_serves_both(lone: Queue) -> None:
    registry = CollectorRegistry()
    Counter("orders", "Orders.", registry=registry).inc(3)
    lone.handler("A")(lambda job: None)
    with serve_metrics(lone, port=0, registry=registry) as endpoint:
        lone.dispatch("A")
        lone.drain()
        found = scraped(endpoint.url)
    assert found["orders_total",] == 3.0
    assert found["qlab_attempts_total", "A", "completed", QUEUE] == 1.0


@only(*ONE_OF_EACH)
def test_no_job_hangs_on_a_listener_of_outcomes(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    heard = []

    def wrong(*_: object) -> None:
        raise ZeroDivisionError("boom")

    queue.listen(wrong)
    queue.listen(lambda held, outcome: heard.append((held.job.id, outcome)))
    queue.handler("A")(lambda job: None)
    queue.dispatch_many([("A", None)] * 2)
    outcomes = queue.drain()
    assert heard == [(outcome.job, outcome) for outcome in outcomes]  # type: ignore[attr-defined]
    assert [type(outcome).__name__ for outcome in outcomes] == ["Completed", "Completed"]
    assert "a listener of outcomes went wrong; job=1 ended all the same" in caplog.text


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "qlab.prometheus")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingRequirement, match="pip install prometheus-client"):
        importlib.import_module("qlab.prometheus")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals, nor named pipes")
@pytest.mark.timeout(300)
@only("sqlite", "redis_zset-valkey")
def test_the_processes_of_qlab_work_count_together(
    address: str, open_again: Callable[[], Driver], tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shop = Shop(tmp_path / "shop", address)
    url = f"http://127.0.0.1:{port}/metrics"
    with closing(shop), Queue(drivers.open(address), name=QUEUE) as queue:
        for name in ("hold", "quick"):
            queue.handler(name)(lambda job: None)
        queue.dispatch_many([("hold", None)] * 2)
        with shop.work("--poll", "0.05", "--workers", 2, "--metrics", port) as working:
            begun = working.until("begun ", 2)
            assert len({line.split()[1] for line in begun}) == 2
            assert scraped(url)["qlab_jobs", QUEUE, "reserved"] == 2.0
            shop.open_gate()
            working.until("outcome=completed", 2)
            queue.dispatch_many([("quick", number) for number in range(20)])
            working.until("outcome=completed", 22)
            found = {key[1:3]: value for key, value in scraped(url).items() if key[0] == "qlab_attempts_total"}
            assert found == {("hold", "completed"): 2.0, ("quick", "completed"): 20.0}
            working.signal(signal.SIGTERM)
            working.until("stopping=")
            assert working.end() == 0
            assert working.said(f"metrics={url}")
