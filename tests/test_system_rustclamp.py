"""ADR 0019's queue, set up by `rustclamp`: each test is named after what the ADR says."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import Servers, outcomes
from watching import Gate, eventually, heard

from qlab import Completed, Failed, SimulatedClock
from qlab.driver import Counts
from qlab.errors import DriverUnavailable, UnknownHandler
from qlab.job import Attempt
from qlab.patience import Patience
from qlab.systems import Rustclamp, Settings, rustclamp
from qlab.systems.parts import AppDatabase

Makes = Callable[..., Rustclamp]


@pytest.fixture(params=["database", "redis"])
def connection(request: pytest.FixtureRequest) -> str:
    """Which of the two drivers `QUEUE_CONNECTION` chooses."""
    return request.param


@pytest.fixture
def makes(connection: str, servers: Servers, tmp_path: Path, clock: SimulatedClock) -> Iterator[Makes]:
    """Sets the application up, with a fresh database and prefix."""
    usual = {"QUEUE_CONNECTION": connection, "DATABASE_URL": f"sqlite:///{tmp_path}/app.db"}
    if connection == "redis":
        usual |= {"REDIS_URL": servers["valkey"].url, "REDIS_PREFIX": tmp_path.name}
    with ExitStack() as opened:

        def make(jobs: Any = (), *, fast: bool = True, **environment: str) -> Rustclamp:
            app = rustclamp(jobs, usual | environment, clock=clock, **({"poll": 0.002} if fast else {}))
            opened.callback(app.close)
            return app

        yield make


@pytest.fixture
def server(servers: Servers) -> Iterator[redis.Redis]:
    """The server itself."""
    with redis.Redis.from_url(servers["valkey"].url) as client:
        yield client


def nothing(job: Attempt) -> None:
    """A handler that returns."""


def fails(job: Attempt) -> None:
    raise ValueError("boom")


# -- handlers --


def test_handlers_are_named_on_the_app(makes: Makes) -> None:
    assert makes([("thumbnail", nothing), ("webhook", fails)]).queue.handlers == ("thumbnail", "webhook")
    assert makes({"thumbnail": nothing}).queue.handlers == ("thumbnail",)
    with pytest.raises(ValueError, match="the handler 'thumbnail' is named twice"):
        makes([("thumbnail", nothing), ("thumbnail", fails)])


def test_the_job_carries_the_payload_the_attempt_number_and_the_app_s_database(makes: Makes) -> None:
    def thumbnail(job: Attempt) -> None:
        assert isinstance(job.context, AppDatabase)
        with job.context.transaction() as db:
            db.execute("INSERT INTO thumbnails VALUES (?, ?)", (job.payload["image"], job.number))

        done.set()

    done = threading.Event()
    app = makes({"thumbnail": thumbnail})
    app.database.execute("CREATE TABLE thumbnails (image INTEGER, attempt INTEGER)")
    app.queue.dispatch("thumbnail", {"image": 7})
    app.start()
    assert eventually(done)
    assert app.stop()
    assert app.database.execute("SELECT * FROM thumbnails") == [(7, 1)]
    assert app.queue.counts() == Counts()


def test_a_handler_s_transaction_that_fails_leaves_nothing_in_the_app_s_database(makes: Makes) -> None:
    def thumbnail(job: Attempt) -> None:
        with job.context.transaction() as db:
            db.execute("INSERT INTO thumbnails VALUES (?)", (job.number,))
            if job.number == 1:
                raise OSError("disk full")

    app = makes({"thumbnail": thumbnail})
    app.database.execute("CREATE TABLE thumbnails (attempt INTEGER)")
    app.queue.dispatch("thumbnail")
    assert outcomes(app.queue, 0.0, 10.0) == ["Retrying", "Completed"]
    assert app.database.execute("SELECT * FROM thumbnails") == [(2,)]


@pytest.mark.parametrize("panic", [SystemExit, GeneratorExit, RecursionError])
def test_a_panic_counts_as_a_failure(makes: Makes, panic: type[BaseException]) -> None:
    def handler(job: Attempt) -> None:
        raise panic

    app = makes({"thumbnail": handler}, QUEUE_TRIES="1")
    app.queue.dispatch("thumbnail")
    assert isinstance(app.queue.work_once(), Failed)


# -- dispatch --


def test_dispatching_a_name_that_has_no_handler_is_an_error_at_dispatch_time(makes: Makes) -> None:
    app = makes({"thumbnail": nothing})
    with pytest.raises(UnknownHandler, match="did you mean 'thumbnail'"):
        app.queue.dispatch("thumbnal")
    assert app.queue.counts() == Counts()


def test_a_job_and_the_row_that_it_is_about_commit_together_where_both_are_in_the_database(tmp_path: Path) -> None:
    app = rustclamp({"mail": nothing}, {"DATABASE_URL": f"sqlite:///{tmp_path}/app.db"})
    app.database.execute("CREATE TABLE orders (item TEXT)")

    def order(*, paid: bool) -> None:
        with app.database.transaction() as db:
            db.execute("INSERT INTO orders VALUES ('book')")
            app.queue.dispatch("mail", connection=db)
            if not paid:
                raise OSError("no money")

    with pytest.raises(OSError, match="no money"):
        order(paid=False)
    assert (app.queue.counts(), app.database.execute("SELECT * FROM orders")) == (Counts(), [])
    order(paid=True)
    assert (app.queue.counts(), app.database.execute("SELECT * FROM orders")) == (Counts(ready=1), [("book",)])
    app.close()


def test_when_the_driver_can_t_be_reached_the_caller_decides_what_to_do(tmp_path: Path) -> None:
    app = rustclamp({"mail": nothing}, {"DATABASE_URL": f"sqlite:///{tmp_path}/app.db?lock_wait=0.01"})
    with app.database.transaction(), pytest.raises(DriverUnavailable, match="has been locked by another connection"):
        app.queue.dispatch("mail")
    assert app.queue.counts() == Counts()
    app.close()


# -- at least once --


def test_a_reservation_older_than_queue_retry_after_makes_the_job_available_again(makes: Makes) -> None:
    for environment, seconds in (({}, 90.0), ({"QUEUE_RETRY_AFTER": "7.5"}, 7.5)):
        app = makes({"A": nothing}, **environment)
        app.queue.dispatch("A")
        held = app.queue.reserve(0.0)
        assert held is not None
        app.queue.crash(held, 0.0)
        assert outcomes(app.queue, seconds - 0.001, seconds) == ["Idle", "Completed"]


def test_a_handler_that_runs_longer_than_queue_retry_after_can_run_alongside_its_own_retry(makes: Makes) -> None:
    app = makes({"A": nothing})
    app.queue.dispatch("A")
    slow = app.queue.reserve(0.0)
    again = app.queue.reserve(90.0)
    assert slow is not None
    assert again is not None
    assert (slow.job.id, slow.job.attempts, again.job.id, again.job.attempts) == (1, 1, 1, 2)
    assert type(app.queue.finish(slow, 95.0)).__name__ == "Superseded"
    assert isinstance(app.queue.finish(again, 96.0), Completed)


# -- retries, then failed_jobs --


def test_a_failed_attempt_is_retried_after_10_60_and_300_seconds_up_to_queue_tries(makes: Makes) -> None:
    app = makes({"A": fails}, QUEUE_TRIES="5")
    app.queue.dispatch("A")
    app.queue.drain(until=2000.0)
    assert [event.at for event in app.queue.trace if event.kind == "reserved"] == [0.0, 10.0, 70.0, 370.0, 670.0]
    again = makes({"A": fails})
    again.queue.dispatch("A")
    assert len(again.queue.drain(until=4000.0)) == 3


def test_after_the_last_attempt_the_job_moves_to_failed_jobs_in_the_app_s_database_and_an_error_is_logged(
    makes: Makes, caplog: pytest.LogCaptureFixture
) -> None:
    app = makes({"A": fails}, QUEUE_TRIES="1")
    app.queue.dispatch("A", {"n": 1})
    app.queue.work_once(5.0)
    assert app.queue.counts() == Counts(failed=1)
    with sqlite3.connect(app.settings.database_path) as db:
        rows = db.execute("SELECT name, payload, error, failed_at FROM failed_jobs").fetchall()
    db.close()
    assert rows == [("A", '{"n":1}', "ValueError: boom", 5_000_000)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_job_whose_worker_dies_every_time_ends_in_failed_jobs_instead_of_looping(makes: Makes) -> None:
    app = makes({"A": nothing})
    app.queue.dispatch("A")
    for moment in (0.0, 90.0, 180.0):
        held = app.queue.reserve(moment)
        assert held is not None
        app.queue.crash(held, moment)
    assert outcomes(app.queue, 270.0, 1000.0) == ["Failed", "Idle"]
    (failed,) = app.queue.failed()
    assert (failed.attempts, failed.error.partition(":")[0]) == (3, "AttemptsExhausted")


@pytest.mark.parametrize("connection", ["redis"], indirect=True)
def test_failures_survive_a_redis_flush(makes: Makes, server: redis.Redis) -> None:
    app = makes({"A": fails}, QUEUE_TRIES="1")
    app.queue.dispatch_many([("A", 1), ("A", 2)])
    app.queue.work_once()
    server.flushdb()
    assert (app.queue.counts(), [job.payload for job in app.queue.failed()]) == (Counts(failed=1), [1])


def test_retry_moves_failed_jobs_back_onto_the_active_driver_with_their_attempts_reset(makes: Makes) -> None:
    failing = makes({"A": fails}, QUEUE_TRIES="1")
    failing.queue.dispatch_many([("A", 1), ("A", 2)])
    failing.queue.drain()
    active = makes({"A": nothing}, QUEUE_CONNECTION="database")
    first = active.queue.failed()[0].id
    assert first is not None
    assert active.queue.retry(first) == 1
    assert [(job.payload, job.attempts) for job in active.queue.jobs()] == [(1, 0)]
    assert active.queue.retry("all") == 1
    assert [type(outcome) for outcome in active.queue.drain()] == [Completed, Completed]
    assert (failing.queue.counts(), active.queue.counts()) == (Counts(), Counts())


def test_forget_deletes_failed_jobs(makes: Makes) -> None:
    app = makes({"A": fails}, QUEUE_TRIES="1")
    app.queue.dispatch_many([("A", number) for number in range(3)])
    app.queue.drain()
    first = app.queue.failed()[0].id
    assert first is not None
    assert (app.queue.forget(first), app.queue.forget("all"), app.queue.failed()) == (1, 2, [])


# -- the two drivers --


def test_two_drivers_are_chosen_by_queue_connection_and_database_is_the_default(makes: Makes, connection: str) -> None:
    expected = {"database": "sqlite", "redis": "redis_list"}[connection]
    assert makes().queue.driver.name == expected
    assert Settings.of({}).connection == "database"


@pytest.mark.parametrize("connection", ["database"], indirect=True)
def test_the_jobs_table_is_made_in_the_app_s_database_beside_its_own_tables(makes: Makes) -> None:
    app = makes()
    app.database.execute("CREATE TABLE users (name TEXT)")
    tables = {row[0] for row in app.database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {"users", "jobs", "failed_jobs"} <= tables
    columns = {row[1] for row in app.database.execute("PRAGMA table_info(jobs)")}
    assert {"id", "name", "payload", "attempts", "available_at", "reserved_at"} <= columns


@pytest.mark.parametrize("connection", ["redis"], indirect=True)
def test_keys_start_with_redis_prefix_and_two_apps_on_one_server_do_not_run_each_other_s_jobs(
    makes: Makes, server: redis.Redis
) -> None:
    one, two = makes({"A": nothing}, REDIS_PREFIX="one-app"), makes({"A": nothing}, REDIS_PREFIX="two-app")
    one.queue.dispatch("A")
    keys = server.keys("*one-app*")
    assert keys
    assert all(key.startswith(b"one-app:") for key in keys)
    assert outcomes(two.queue, 0.0) == ["Idle"]
    assert outcomes(one.queue, 0.0) == ["Completed"]


def test_in_production_the_redis_queue_is_refused_without_a_prefix(tmp_path: Path) -> None:
    there = {"DATABASE_URL": f"sqlite:///{tmp_path}/app.db", "APP_ENV": "production"}
    for prefix in ({}, {"REDIS_PREFIX": ""}, {"REDIS_PREFIX": "  "}):
        for name in ("production", "Production"):
            with pytest.raises(ValueError, match="REDIS_PREFIX is not set: applications that share a Redis"):
                rustclamp((), there | prefix | {"QUEUE_CONNECTION": "redis", "APP_ENV": name})
    assert list(tmp_path.iterdir()) == []
    rustclamp((), there).close()  # a database is one application's own


# -- where workers run --


def test_outside_production_one_worker_runs_beside_the_app_and_queue_workers_says_how_many(makes: Makes) -> None:
    with makes() as app:
        assert len(app.workers) == 1
    with makes(QUEUE_WORKERS="3") as app:
        assert len(app.workers) == 3


def test_in_production_queue_workers_defaults_to_0_and_work_works_all_the_same(makes: Makes) -> None:
    app = makes({"A": lambda job: app.stop()}, APP_ENV="production", REDIS_PREFIX="shop")
    app.queue.dispatch("A")
    with heard() as log:
        app.start()
    assert (app.workers, app.queue.counts(), log.count("QUEUE_WORKERS is 0 and 1 job wait")) == ((), Counts(ready=1), 1)
    app.work()
    assert app.queue.counts() == Counts()


def test_an_app_that_is_to_work_with_no_worker_is_refused_and_works_all_the_same_later(makes: Makes) -> None:
    app = makes({"A": lambda job: app.stop()}, QUEUE_WORKERS="2")
    app.queue.dispatch("A")
    with pytest.raises(ValueError, match="count is 0: use a number of workers from 1"):
        app.work(0)
    app.work(1)
    assert app.queue.counts() == Counts()


def test_the_warning_is_given_only_where_nothing_works_and_jobs_wait(makes: Makes) -> None:
    with heard() as log:
        makes(QUEUE_WORKERS="0").start()
        app = makes({"A": nothing}, QUEUE_WORKERS="0")
        assert log.said == []
        app.queue.dispatch_many([("A", 1), ("A", 2)])
        app.start()
    (warning,) = log.said
    assert warning.startswith(
        "QUEUE_WORKERS is 0 and 2 jobs wait: nothing runs them here; run `qlab work MODULE:QUEUE`"
    )


def test_a_store_that_is_away_does_not_keep_the_app_from_starting_without_workers(
    makes: Makes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **how: Any) -> Counts:
        raise DriverUnavailable("gone")

    app = makes(QUEUE_WORKERS="0")
    monkeypatch.setattr(app.queue.driver, "counts", away)
    with heard() as log:
        app.start()
    assert log.said == ["QUEUE_WORKERS is 0, and whether jobs wait cannot be told: gone"]


def test_once_stopped_a_worker_takes_no_new_job_and_finishes_the_one_it_is_running(makes: Makes) -> None:
    gate = Gate()
    app = makes({"A": gate})
    app.queue.dispatch_many([("A", 1), ("A", 2)])
    app.start()
    gate.until_begun()
    assert not app.workers[0].stop(0.0)
    gate.may_end.set()
    assert app.stop()
    assert app.queue.counts() == Counts(ready=1)


def test_a_worker_asks_again_about_once_a_second_where_nothing_is_due(
    makes: Makes, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    waited, idle = threading.Event(), Patience.idle

    def tell(patience: Patience) -> float:
        waits.append(idle(patience))
        waited.set()
        return waits[-1]

    monkeypatch.setattr(Patience, "idle", tell)
    app = makes(fast=False).start()
    assert eventually(waited)
    assert app.stop()
    assert all(0.5 <= seconds <= 1.5 for seconds in waits)


def test_an_app_that_works_is_not_started_twice(makes: Makes) -> None:
    with makes() as app, pytest.raises(RuntimeError, match=r"work already: stop\(\) them first"):
        app.start()


# -- tests --


def test_setting_the_app_up_starts_no_worker_and_a_test_runs_the_next_due_job_with_a_given_clock(makes: Makes) -> None:
    ran: list[str] = []
    app = makes({"A": lambda job: ran.append(threading.current_thread().name)})
    app.queue.dispatch_later("A", delay=30.0)
    assert app.workers == ()
    assert outcomes(app.queue, 29.0, 30.0) == ["Idle", "Completed"]
    assert ran == [threading.current_thread().name]


# -- settings --


def test_the_defaults_are_those_of_the_decision() -> None:
    assert Settings.of({}) == Settings(
        connection="database", tries=3, retry_after=90.0, workers=1, database_url="sqlite:///app.db",
        redis_url="redis://127.0.0.1:6379/0", redis_prefix="app", app_env="development",
    )  # fmt: skip
    assert Settings.of(dict.fromkeys(("QUEUE_TRIES", "QUEUE_WORKERS", "APP_ENV"), "")) == Settings.of({})
    assert Settings.of({"APP_ENV": "production"}).workers == 0


WRONG = {
    "QUEUE_CONNECTION": ({"kafka": "'kafka': use database or redis", "Redis": "use database or redis"}),
    "QUEUE_TRIES": dict.fromkeys(("0", "-1", "2.5", "three", "²"), "use a whole number from 1"),
    "QUEUE_RETRY_AFTER": dict.fromkeys(("0", "-90", "nan", "inf", "90s"), "use a number of seconds above your slowest"),
    "QUEUE_WORKERS": dict.fromkeys(("-1", "many", "1.0"), "use a whole number from 0"),
    "DATABASE_URL": {
        "postgres://root:secret@db/app": r"postgres://root:\*\*\*@db/app.*write sqlite:///jobs.db",
        "sqlite:///:memory:": "name a file, as in sqlite:///app.db",
        "app.db": "names no SQLite file",
    },
    "REDIS_URL": {
        "http://:secret@cache": r"'http://:\*\*\*@cache': write redis://host:6379/0",
        "redis://cache?prefix=shop": "leave prefix out; the prefix is REDIS_PREFIX",
        "redis://cache?layout=zset&failed_jobs=sqlite:///x.db": "leave layout, failed_jobs out",
    },
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_setting_that_cannot_be_is_named_with_the_way_out_before_anything_opens(
    tmp_path: Path, name: str, value: str
) -> None:
    usual = {"DATABASE_URL": f"sqlite:///{tmp_path}/app.db", "QUEUE_CONNECTION": "redis"}
    with pytest.raises(ValueError, match=WRONG[name][value]) as refused:
        rustclamp((), usual | {name: value})
    assert str(refused.value).startswith(name)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_the_process_s_environment_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/shop.db")
    monkeypatch.setenv("QUEUE_TRIES", "7")
    app = rustclamp()
    assert (app.settings.tries, app.queue.policy.tries, app.database.path) == (7, 7, f"{tmp_path}/shop.db")
    app.close()
