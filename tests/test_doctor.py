"""The checkup: what is broken has its own finding with a way out, and what is sound has none."""

import json
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from click.testing import CliRunner, Result
from conftest import ONE_OF_EACH, QUEUE, REDIS, failed_one, new, only, program, push, take
from watching import PATIENCE, Watched

from qlab import Checkup, Finding, Policy, Queue, SystemClock, checkup, doctor, drivers
from qlab.checkup import store_checks
from qlab.cli import main
from qlab.clock import monotonic
from qlab.driver import Driver, Mark
from qlab.drivers.paced import PacedDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.server import EmbeddedServer
from qlab.signs import ALIVE, RUN, Signs


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server of this file's own, whose settings come and go."""
    with EmbeddedServer(persistence="everysec", **program("redis8")) as running:
        yield running


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[Any]:
    with redis.Redis(unix_socket_path=server.socket, decode_responses=True) as client:
        client.flushall()
        before = client.config_get("*")
        yield client
        client.execute_command("REPLICAOF", "NO", "ONE")
        for name in ("appendonly", "save", "maxmemory", "maxmemory-policy"):
            client.config_set(name, before[name])
        client.config_resetstat()
        client.save()


class Place(NamedTuple):
    """Where a set-up is broken.

    Attributes:
        folder: The working folder.
        server: A server that keeps its jobs.
        client: A client of it.
        patch: Changes what is around.
    """

    folder: Path
    server: EmbeddedServer
    client: Any
    patch: pytest.MonkeyPatch

    @property
    def sqlite(self) -> str:
        return f"sqlite:///{self.folder}/jobs.db"

    @property
    def redis(self) -> str:
        return f"{self.server.url}?prefix=test&failed_jobs=sqlite:///{self.folder}/failed.db"


@pytest.fixture
def place(tmp_path: Path, server: EmbeddedServer, client: Any, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QLAB_URL", raising=False)
    monkeypatch.delenv("APP_ENV", raising=False)
    return Place(tmp_path, server, client, monkeypatch)


def sound(url: str | Driver, clock: Any = None) -> Queue:
    """A queue whose one job a worker is about to take."""
    queue = Queue(url, name=QUEUE, clock=clock)
    queue.handler("send")(lambda job: None)
    queue.dispatch("send")
    Signs(queue, "w", 60.0).alive()
    return queue


def wrong(found: Checkup) -> list[str]:
    return [finding.about for finding in found.wrong]


def now() -> float:
    return SystemClock().now()


@pytest.mark.parametrize("where", ["sqlite", "redis"])
def test_a_sound_set_up_has_nothing_wrong(place: Place, where: str) -> None:
    url = getattr(place, where)
    with sound(url) as queue:
        for found in (doctor(queue), doctor(url, name=QUEUE)):
            assert [finding for finding in found if finding.level != "fine"] == []
            assert all(finding.says and not finding.advice for finding in found)
        assert len(doctor(queue)) == len(found) + 1  # what only a queue of one's own tells: its handlers


@pytest.mark.parametrize("where", ["sqlite", "redis"])
def test_a_store_that_is_paced_is_looked_through(place: Place, where: str) -> None:
    paced = PacedDriver(drivers.open(getattr(place, where)), pace=60.0, cap=None, day_ends=lambda at: at + 86_400.0)
    with sound(paced) as queue:
        found = doctor(queue)
    assert [finding for finding in found if finding.level != "fine"] == []
    assert {"SQLite" if where == "sqlite" else "persistence", "disk", "workers"} <= {each.about for each in found}


# -- broken set-ups --


def nobody_works(place: Place) -> Queue:
    queue = Queue(place.sqlite, name=QUEUE)
    queue.handler("send")(lambda job: None)
    queue.dispatch("send")
    queue.driver.mark(QUEUE, Mark(ALIVE, "killed", now() - 60.0))
    return queue


def no_handler(place: Place) -> Queue:
    queue = sound(place.sqlite)
    push(queue.driver, "sned", "sned", now=now())
    return queue


def simulated_times(place: Place) -> Queue:
    queue = sound(place.sqlite)
    push(queue.driver, "send", now=5.0)
    return queue


def runs_too_long(place: Place) -> Queue:
    queue = sound(place.sqlite)
    queue.driver.mark(QUEUE, Mark(RUN, "send", 95.0))
    queue.policy = Policy(retry_after=95.0)
    return queue


def power_cut(place: Place) -> Queue:
    return sound(f"{place.sqlite}?synchronous=OFF")


def half_a_reservation(place: Place) -> Queue:
    queue = sound(place.sqlite)
    with closing(sqlite3.connect(place.folder / "jobs.db")) as connection, connection:
        connection.execute("UPDATE jobs SET reserved_at = 1")
    return queue


def no_file(place: Place) -> str:
    return place.sqlite


def another_s_file(place: Place) -> str:
    (place.folder / "jobs.db").write_bytes(b"no database " * 1000)
    return place.sqlite


def nobody_listens(place: Place) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"redis://:hunter2@127.0.0.1:{port}"


def no_prefix(place: Place) -> str:
    place.patch.setenv("APP_ENV", "production")
    return place.server.url


def forgets(place: Place) -> Queue:
    place.client.config_set("appendonly", "no")
    return sound(place.redis)


def evicts(place: Place) -> Queue:
    place.client.config_set("maxmemory", "1gb")
    place.client.config_set("maxmemory-policy", "allkeys-lru")
    return sound(place.redis)


def full(place: Place) -> Queue:
    queue = sound(place.redis)
    place.client.config_set("maxmemory", place.client.info("memory")["used_memory"] + 1000)
    return queue


def cannot_save(place: Place) -> Queue:
    queue, in_its_way = sound(place.redis), Path(place.server.folder, "dump.rdb")
    in_its_way.unlink(missing_ok=True)
    in_its_way.mkdir()
    place.client.bgsave(schedule=True)  # once the append-only file of the test before is written
    until = monotonic() + PATIENCE
    while place.client.info("persistence")["rdb_last_bgsave_status"] != "err":
        assert monotonic() < until
    in_its_way.rmdir()
    return queue


def replica(place: Place) -> Queue:
    queue = sound(place.redis)
    place.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    return queue


class Fast(SystemClock):
    """A machine's clock that is an hour ahead."""

    def now(self) -> float:
        return super().now() + 3600.0


def wrong_clock(place: Place) -> Queue:
    return sound(place.redis, Fast())


def no_folder(place: Place) -> Queue:
    return sound(f"{place.server.url}?prefix=test&failed_jobs=sqlite:///{place.folder}/nowhere/failed.db")


def reservation_lost(place: Place) -> Queue:
    queue = sound(place.redis)
    assert isinstance(queue.driver, RedisStore)
    take(queue.driver, now=now() + 100)
    keys = dict(zip(queue.driver.key_names, queue.driver.keys(QUEUE), strict=True))
    place.client.delete(keys["reserved"])
    return queue


BROKEN: dict[str, tuple[Callable[[Place], Queue | str], str, str, str]] = {
    "nobody works": (nobody_works, "workers", "none runs, and 1 job waits", "qlab work MODULE:QUEUE"),
    "a name without a handler": (no_handler, "handlers", "2 jobs wait for a handler 'sned'", "@queue.handler('sned')"),
    "times of a simulated clock": (
        simulated_times,
        "times",
        "1 job has times of a simulated clock",
        "one kind of clock",
    ),
    "runs too long": (runs_too_long, "reservations", "'send' took 95 s, its reservation lasts 95 s", "job.extend"),
    "not safe at a power cut": (power_cut, "synchronous", "a power cut loses", "take synchronous=OFF out"),
    "half a reservation": (half_a_reservation, "store", "job 1 has a reservation without a token", "from a backup"),
    "no file": (no_file, "store", "there is no file", "correct the address"),
    "another's file": (another_s_file, "store", "jobs.db", "correct the address, or put the store right"),
    "nobody listens": (nobody_listens, "store", "does not answer", "let the store answer"),
    "no prefix in production": (no_prefix, "store", "APP_ENV is production", "correct the address"),
    "forgets at a restart": (forgets, "persistence", "forgets every job when it restarts", "CONFIG SET appendonly yes"),
    "evicts": (evicts, "eviction", "allkeys-lru: when its memory is full the server throws jobs away", "noeviction"),
    "memory is full": (full, "memory", "bytes are used", "raise its maxmemory"),
    "cannot save": (cannot_save, "saving", "could not write to its disk", "look into its log"),
    "a replica": (replica, "replica", "is a replica of 127.0.0.1:1", "the primary"),
    "a clock that is ahead": (wrong_clock, "clocks", "this machine's clock is 36.* s ahead of the server's", "NTP"),
    "no folder for failed jobs": (no_folder, "failed jobs", "nowhere/failed.db cannot be made", "make the folder"),
    "a reservation was lost": (reservation_lost, "store", "job 1 stands in RESERVED at another moment", "qlab recover"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_set_up_has_its_own_finding_with_a_way_out(place: Place, name: str) -> None:
    broken, about, says, advice = BROKEN[name]
    queue = broken(place)
    found = doctor(queue)
    if isinstance(queue, Queue):
        queue.close()
    assert wrong(found) == [about]
    (finding,) = found.wrong
    assert re.search(says, finding.says)
    assert advice in finding.advice
    assert "hunter2" not in found.json()


@only(*REDIS)
@pytest.mark.scenario("B07")
def test_a_job_that_stands_in_no_set_is_named(driver: Driver, queue: Queue, servers: Any, store: Any) -> None:
    assert isinstance(driver, RedisStore)
    queue.handler("send")(lambda job: None)
    queue.dispatch("send")
    assert queue.reserve()
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        client.delete(driver.keys(QUEUE)[driver.key_names.index("reserved")])
    named = [finding for finding in doctor(queue).wrong if finding.about == "store"]
    assert named
    assert named[0].says.startswith("job 1 ")
    queue.recover(force=True)
    assert "store" not in wrong(doctor(queue))


@only(*ONE_OF_EACH)
@pytest.mark.scenario("B08")
@pytest.mark.parametrize(
    ("took", "level"), [(10.0, "fine"), (72.0, "mind"), (89.0, "mind"), (90.0, "wrong"), (100.0, "wrong")]
)
def test_runs_that_reach_their_reservation_are_warned_of(queue: Queue, took: float, level: str) -> None:
    def run(job: Any) -> Iterator[float]:
        yield took

    queue.handler("slow", tries=1)(run)
    queue.dispatch("slow")
    with Watched(queue) as worker:
        worker.until_idle()
    (finding,) = [finding for finding in doctor(queue) if finding.about == "reservations"]
    assert finding.level == level
    assert f"{took:g} s" in finding.says


# -- what is worth knowing --


def found_about(about: str, findings: list[Finding] | Checkup) -> Finding:
    (finding,) = [finding for finding in findings if finding.about == about]
    return finding


@pytest.mark.parametrize(("version", "level"), [("6.29.5", "mind"), ("7.0.0", "fine"), ("10.1", "fine"), ("", "fine")])
def test_a_kernel_that_does_one_thing_at_a_time_is_told(
    version: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "_version", lambda package: version or None)
    finding = found_about("kernel", list(checkup.here()))
    assert finding.level == level
    assert str(version or "no ipykernel") in finding.says


def test_a_slow_disk_is_told(place: Place) -> None:
    place.patch.setattr(store_checks, "fsync_seconds", lambda folder: 0.2)
    with sound(place.sqlite) as queue:
        finding = found_about("disk", doctor(queue))
    assert finding.level == "mind"
    assert "writes a page for good in 2e+02 ms, which is slow" in finding.says


def test_jobs_that_are_held_while_no_worker_tells_of_itself_may_be_in_long_handlers(queue: Queue) -> None:
    queue.handler("send")(lambda job: None)
    queue.dispatch_many([("send", None)] * 2)
    assert queue.reserve()
    finding = found_about("workers", doctor(queue))
    assert finding.level == "mind"
    assert "1 job is reserved; 1 job waits" in finding.says


def test_failures_that_wait_for_their_rows_are_told(place: Place) -> None:
    (place.folder / "away").mkdir()
    url = place.redis.replace("/failed.db", "/away/failed.db")
    with sound(url) as queue:
        (place.folder / "away").rmdir()
        driver = queue.driver
        assert driver.fail(take(driver, now=now() + 100), now=now() + 100, attempts=1, error="boom")
        (place.folder / "away").mkdir()
        told = [finding for finding in doctor(queue) if finding.about == "failed jobs"]
        assert told[0].level == "mind"
        assert told[0].says.startswith("1 failed jobs wait for their rows")


def test_a_checkup_changes_nothing(queue: Queue) -> None:
    queue.handler("send")(lambda job: None)
    push(queue.driver, "send", "nobody", "later", now=0.0)
    failed_one(queue.driver, now=-1.0)
    before = (queue.counts(), queue.jobs(), queue.failed(), queue.driver.marks(QUEUE), len(queue.trace))
    doctor(queue)
    assert (queue.counts(), queue.jobs(), queue.failed(), queue.driver.marks(QUEUE), len(queue.trace)) == before


def test_a_store_that_has_gone_away_is_one_finding(place: Place) -> None:
    with sound(place.redis) as queue:
        place.server.kill()
        try:
            found = doctor(queue)
        finally:
            place.server.restart()
    assert wrong(found) == ["store"]
    assert "does not answer" in found.wrong[0].says


def test_a_notebook_shows_a_checkup_as_a_table(place: Place) -> None:
    shown = doctor(nobody_listens(place))._repr_html_()
    assert "<td" in shown
    assert "let the store answer" in shown
    assert "hunter2" not in shown


# -- the command --


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *words])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def test_the_command_says_each_finding_and_whether_something_is_wrong(place: Place) -> None:
    with sound(place.sqlite) as queue:
        told = run("--url", place.sqlite, "--queue", QUEUE)
        assert (told.exit_code, told.stderr) == (0, "")
        assert told.stdout.endswith("\n\nnothing is wrong\n")
        assert "fine   jobs          1 ready, 0 delayed, 0 reserved\n" in told.stdout
        queue.driver.unmark(QUEUE, ALIVE, queue.driver.marks(QUEUE)[0].name)
        told = run("--url", place.sqlite, "--queue", QUEUE)
    assert told.exit_code == 1
    assert told.stdout.endswith("\n\n1 thing is wrong\n")
    assert (
        "wrong  workers       none runs, and 1 job waits\n"
        "                     > run `qlab work MODULE:QUEUE`, or `Worker(queue).run()`\n"
    ) in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_the_command_tells_machines_the_same(place: Place) -> None:
    told = run("--url", nobody_listens(place), "--json")
    said = json.loads(told.stdout)
    assert told.exit_code == 1
    assert (said["queue"], said["wrong"]) == ("default", 1)
    assert "hunter2" not in told.stdout
    assert {"about", "level", "says", "advice"} == set(said["findings"][0])
    assert said["findings"][-1]["about"] == "store"


SHOP = """
from qlab import Queue
queue = Queue({url!r}, name="mail")
queue.handler("send")(lambda job: None)
"""


@pytest.mark.parametrize("reached", [True, False])
def test_a_queue_of_a_module_is_looked_at_with_its_handlers(place: Place, reached: bool) -> None:
    url = place.sqlite if reached else nobody_listens(place)
    (place.folder / "shop_of_doctor.py").write_text(SHOP.format(url=url))
    if reached:
        with drivers.open(url) as driver:
            driver.push(QUEUE, [new("sned", at=now())], now=now())
    place.patch.syspath_prepend(place.folder)
    told = run("shop_of_doctor:queue")
    sys.modules.pop("shop_of_doctor", None)
    assert told.exit_code == 1
    assert ("2 things are wrong" if reached else "1 thing is wrong") in told.stdout
    assert ("handler 'sned'" if reached else "does not answer") in told.stdout


@pytest.mark.parametrize("words", [(), ("nowhere_to_be_found:queue",), ("shop.py:queue",)], ids=" ".join)
def test_what_names_no_queue_is_refused_in_a_line(place: Place, words: tuple[str, ...]) -> None:
    told = run(*words)
    assert told.exit_code in (1, 2)
    assert told.stdout == ""
    assert told.stderr


def test_the_command_works_as_a_process_of_its_own(place: Place) -> None:
    with sound(place.redis):
        command = [sys.executable, "-m", "qlab", "doctor", "--url", place.redis, "--queue", QUEUE]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "persistence   AOF everysec" in told.stdout
