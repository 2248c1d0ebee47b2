"""The stores that workers contend for: each opens, is what it says, survives what it says, and leaves nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from conftest import Servers, new, take
from redis import AuthenticationError, Redis

from qlab import Queue, drivers
from qlab.clock import monotonic, pause
from qlab.contend import stores
from qlab.contend.arms import ARMS, Arm, arm, chosen
from qlab.contend.stores import Stores
from qlab.errors import DriverUnavailable, MissingRequirement, UnusableStore
from qlab.outcome import Completed

if sys.platform == "win32":
    pytest.skip("the embedded server needs Unix sockets", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
OF_PROCESSES = [each for each in ARMS.values() if not each.private]
ON_SERVERS = [each for each in OF_PROCESSES if each.persistence]
MEGABYTE = 1_000_000

SAYS = {
    "memory": "memory",
    "sqlite OFF": "WAL, synchronous=OFF",
    "sqlite NORMAL": "WAL, synchronous=NORMAL",
    "sqlite FULL": "WAL, synchronous=FULL",
    "sqlite DELETE": "DELETE, synchronous=EXTRA",
    "none": "no persistence",
    "everysec": "AOF everysec",
    "always": "AOF always",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[Path]:
    """Where files go; it must be empty at the end."""
    assert tmp_path_factory.getbasetemp()  # what the whole session has is not to go there
    assert servers["valkey"]
    usual = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        tempfile.tempdir = folder
        yield Path(folder)
        tempfile.tempdir = usual
        assert list(Path(folder).iterdir()) == []


@pytest.fixture(scope="module")
def all_stores(base: Path) -> Iterator[Stores]:
    with Stores(ARMS.values()) as opened:
        yield opened


def by_name(which: Any) -> Any:
    return pytest.mark.parametrize("each", which, ids=str)


# -- names --


@by_name(ARMS.values())
def test_an_arm_is_named_by_its_name(each: Arm) -> None:
    assert arm(each.name) is arm(each) is each


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("sqlite", "sqlite NORMAL"),
        ("redis_zset", "redis_zset everysec"),
        ("redis_list", "redis_list everysec"),
        ("memory://", "memory"),
        ("redis+embedded://?persistence=always", "redis_zset always"),
        ("redis+embedded://?layout=list&server=valkey", "redis_list none on valkey"),
        ("redis_zset everysec +0.25 ms", "redis_zset everysec +0.25 ms"),
        ("redis_zset +1 ms", "redis_zset everysec +1 ms"),
        ("sqlite:////data/jobs.db?synchronous=EXTRA", "sqlite:////data/jobs.db?synchronous=EXTRA"),
        ("redis://:secret@queue.example/0?layout=list", "redis://:***@queue.example/0?layout=list"),
    ],
)
def test_a_family_and_an_address_name_an_arm_too_and_no_password_is_in_its_name(given: str, name: str) -> None:
    assert arm(given).name == name
    assert arm(given) == ARMS.get(name, arm(given))


def test_an_address_says_what_there_is_to_say() -> None:
    file = arm("sqlite:////data/jobs.db?synchronous=FULL&journal=DELETE")
    assert (file.driver, file.synchronous, file.journal) == ("sqlite", "FULL", "DELETE")
    server = arm("redis://queue.example?layout=list +2 ms")
    assert (server.driver, server.tcp, server.delay) == ("redis_list", True, 0.002)
    assert arm("unix:///run/redis.sock").tcp is False
    assert [arm(url).private for url in ("memory://?order=arrival", "sqlite:///:memory:", "sqlite:///x.db")] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("sqlite Normal", "'sqlite NORMAL'"),
        ("redis_zest", "'redis_zset'"),
        ("redis_zset allways", "'redis_zset always'"),
        ("postgres", "use one of memory, sqlite OFF"),
        ("postgres://host", "use sqlite:///FILE"),
        ("redis://:secret@host?layout=tree", "'redis://:***@host?layout=tree'"),
        ("sqlite FULL +1 ms", "what can be delayed"),
        ("rediss://host +1 ms", "what can be delayed"),
        ("redis_zset none +1 ms +1 ms", "already"),
        ("redis_zset none +0 ms", "a number of milliseconds above 0"),
        ("redis_zset none +nan ms", "a number of milliseconds above 0"),
        ("redis_zset none +quick ms", "a number of milliseconds above 0"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_way_out(given: str, told: str) -> None:
    with pytest.raises(ValueError, match="there is no arm") as caught:
        arm(given)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_neither_text_nor_an_arm_is_refused() -> None:
    with pytest.raises(TypeError, match="an arm is 7: use a name such as 'sqlite FULL'"):
        arm(7)  # type: ignore[arg-type]


def test_arms_are_chosen_once_each_and_in_order() -> None:
    assert chosen(["redis_zset", "sqlite FULL", "redis_zset everysec"]) == (
        ARMS["redis_zset everysec"], ARMS["sqlite FULL"],
    )  # fmt: skip
    assert chosen("sqlite") == chosen(ARMS["sqlite NORMAL"]) == (ARMS["sqlite NORMAL"],)
    with pytest.raises(ValueError, match="name at least one"):
        chosen([])
    with pytest.raises(ValueError, match="two arms are named 'mine'"):
        chosen([Arm("mine", "sqlite", "FULL", "WAL"), Arm("mine", "sqlite", "OFF", "WAL")])


# -- what they are --


@by_name(ARMS.values())
def test_every_arm_is_what_its_name_says(each: Arm, all_stores: Stores) -> None:
    assert all_stores.missing(each) == ""
    with all_stores.store(each) as store:
        assert store.driver.name == each.driver == each.name.partition(" ")[0]
        assert SAYS.get(each.name, SAYS.get(each.persistence, "?")) in store.driver.description
        if each.persistence:
            assert f"layout={each.driver.removeprefix('redis_')}" in store.driver.description
            over = "redis" if each.tcp else "unix"
            assert urlsplit(store.url).scheme == over
            assert each.tcp == (each.name.endswith((" tcp", " ms")))


@by_name(ARMS.values())
def test_every_arm_begins_empty_and_carries_a_megabyte(each: Arm, all_stores: Stores) -> None:
    for _ in range(2):
        with all_stores.store(each) as store, Queue(store.driver, name=store.queue) as queue:
            assert queue.counts().depth == 0
            queue.handler("keep")(lambda job: job.payload)
            queue.dispatch("keep", "x" * MEGABYTE)
            assert store.disk_bytes() >= (MEGABYTE if each.driver == "sqlite" or each.persistence == "always" else 0)
            (job,) = queue.jobs()
            assert job.payload == "x" * MEGABYTE
            assert isinstance(queue.work_once(), Completed)
            queue.dispatch("keep", "left behind")
            assert (store.server_cpu() > 0.0) == (store.server is not None)


def test_arms_of_one_persistence_share_a_server_however_they_reach_it(all_stores: Stores) -> None:
    pids: dict[str, set[int]] = {}
    for each in ON_SERVERS:
        with all_stores.store(each) as store:
            pids.setdefault(each.persistence, set()).add(store.driver.facts()["process_id"])  # type: ignore[attr-defined]
    assert [len(ids) for ids in pids.values()] == [1, 1, 1]
    assert len(set.union(*pids.values())) == 3


def test_an_arm_with_other_settings_is_a_server_of_its_own() -> None:
    unix, tcp = ARMS["redis_zset none"], ARMS["redis_zset none tcp"]
    with Stores([unix]) as some, some.store(unix) as plain, some.store(tcp) as reached:
        assert plain.server is not reached.server
        assert plain.server is not None
        assert plain.server.tcp_url == ""


@by_name([each for each in ON_SERVERS if each.tcp])
def test_a_port_asks_for_the_password_also_through_the_relay(each: Arm, all_stores: Stores) -> None:
    with all_stores.store(each) as store:
        parts = urlsplit(store.url)
        assert parts.hostname == "127.0.0.1"
        assert parts.password
        for entry in ("", ":wrong@"):
            url = f"redis://{entry}127.0.0.1:{parts.port}"
            with pytest.raises(AuthenticationError), Redis.from_url(url) as client:
                client.ping()


def test_files_and_sockets_are_closed_to_others(all_stores: Stores, base: Path) -> None:
    mask = os.umask(0)
    try:
        with all_stores.store(ARMS["sqlite FULL"]) as store, all_stores.store(ARMS["redis_list always"]):
            store.driver.push(store.queue, [new()], now=0.0)
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in base.rglob("*")}
            assert {path: mode for path, mode in modes.items() if mode & 0o077 and not _kept(path, base)} == {}
    finally:
        os.umask(mask)


def _kept(path: Path, base: Path) -> bool:
    """Tell whether a folder above it is closed already."""
    return any(stat.S_IMODE(above.stat().st_mode) == 0o700 for above in path.parents if base in above.parents)


# -- what they survive --

RESERVES_AND_DIES = """
import os, signal, sys
from qlab import Queue
urls, name = sys.argv[2:], sys.argv[1]
for url in urls:
    queue = Queue(url, name=name)
    queue.handler("send")(lambda job: None)
    queue.dispatch("send", {})
    queue.driver.reserve(name, now=queue.clock.now(), retry_after=None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_arm_of_processes_survives_a_killed_one(all_stores: Stores) -> None:
    with ExitStack() as opened:
        running = [opened.enter_context(all_stores.store(each, "mail")) for each in OF_PROCESSES]
        command = [sys.executable, "-c", RESERVES_AND_DIES, "mail", *(store.url for store in running)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
        for store in running:
            assert store.driver.durability.worker_killed == "nothing"
            assert store.driver.counts("mail", now=0.0).reserved == 1
            assert store.driver.check("mail", now=0.0) == []


@pytest.mark.parametrize("persistence", ["none", "everysec", "always"])
def test_a_killed_server_loses_what_its_arms_say(persistence: str, base: Path) -> None:
    with Stores() as some, ExitStack() as opened:
        for layout in ("redis_zset", "redis_list"):
            store = opened.enter_context(some.store(ARMS[f"{layout} {persistence}"]))
            assert store.server is not None
            lost = store.driver.durability.store_killed
            store.driver.push(store.queue, [new()], now=0.0)
            if persistence == "everysec":  # it may lose two seconds: those are waited for
                _until(lambda store=store: not store.driver.facts().get("aof_buffer_length"))
            store.server.kill()
            store.server.restart()
            with drivers.open(store.url) as again:
                left = again.counts(store.queue, now=0.0).ready
            assert left == (0 if persistence == "none" else 1)
            assert lost == {"none": "everything", "always": "nothing"}.get(
                persistence, "now and then the last two seconds"
            )


CLASSES = {
    "nothing": {"memory"},
    "a killed worker": {"sqlite OFF", "none"},
    "a power cut but for the last moments": {"sqlite NORMAL", "everysec"},
    "a power cut": {"sqlite FULL", "sqlite DELETE", "always"},
}


@by_name(ARMS.values())
def test_every_arm_is_of_the_class_of_those_that_survive_the_same(each: Arm, all_stores: Stores) -> None:
    with all_stores.store(each) as store:
        alike = CLASSES[store.driver.durability.survives]
    assert (each.persistence or each.name) in alike


# -- what they leave --


@contextmanager
def a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; it must be empty at the end."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)
        _until(lambda: not list(Path(folder).iterdir()))


@pytest.mark.parametrize("ending", [None, RuntimeError, KeyboardInterrupt], ids=["in peace", "an error", "Ctrl-C"])
def test_nothing_is_left_however_it_ends(ending: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    before, processes = _descendants(os.getpid()), set()
    with a_folder_of_its_own(monkeypatch) as folder:
        with suppress(RuntimeError, KeyboardInterrupt), Stores() as some, ExitStack() as opened:
            for name in ("memory", "sqlite FULL", "redis_zset always tcp", "redis_list none +1 ms"):
                store = opened.enter_context(some.store(ARMS[name]))
                store.driver.push(store.queue, [new()], now=0.0)
            assert len(list(folder.iterdir())) == 6  # one for each store, and one for each server
            processes = _descendants(os.getpid()) - before
            assert len(processes) == 6  # two servers, each with its watchdog, a relay, and a janitor
            if ending:
                raise ending
        assert _descendants(os.getpid()) == before
    assert not any(map(_runs, processes))


OWNER = """
import sys
from contextlib import ExitStack
from qlab.contend.arms import arm
from qlab.contend.stores import Stores
names = "sqlite FULL", "redis_zset always tcp", "redis_list none +1 ms", f"sqlite:///{sys.argv[1]}/jobs.db"
with Stores() as some, ExitStack() as opened:
    for name in names:
        opened.enter_context(some.store(arm(name))).driver.counts("work", now=0.0)
    print("there", flush=True)
    sys.stdin.read()
"""


def test_nothing_of_an_owner_that_was_killed_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    temporary, given = tmp_path / "temporary", tmp_path / "given"
    temporary.mkdir()
    given.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    pipe, command = subprocess.PIPE, [sys.executable, "-c", OWNER, str(given)]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == "there\n"
        processes = _descendants(owner.pid)
        assert len(processes) == 6
        assert list(given.iterdir())
        owner.kill()
    _until(lambda: not any(map(_runs, processes)))
    assert [*temporary.iterdir(), *given.iterdir()] == []


def test_a_server_that_was_there_is_left_as_it_was(servers: Servers, base: Path) -> None:
    url = servers["valkey"].url
    with closing(Redis.from_url(url)) as client:
        client.set("somebody's", "value")
        before = sorted(client.keys())
        given = [arm(url), arm(f"{url}?layout=list&prefix=app%3A")]
        with Stores(given) as some:
            for each in given:
                with some.store(each) as store:
                    assert store.server is None
                    assert store.driver.description.startswith("Valkey")
                    store.driver.push(store.queue, [new(), new()], now=0.0)
                    assert store.driver.fail(take(store.driver, queue=store.queue), now=0.0, attempts=1, error="no")
                    take(store.driver, queue=store.queue)
                    added = {key.decode() for key in client.scan_iter()} - {key.decode() for key in before}
                    assert added
                    assert all(key.startswith("app:" if "prefix" in each.url else "qlab-contend-") for key in added)
                    store.driver.close()
                assert sorted(client.keys()) == before
        client.delete("somebody's")


def test_a_given_file_is_not_touched_and_its_folder_is_where_the_arm_is(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("mine")
    given = arm(f"sqlite:///{tmp_path}/jobs.db?synchronous=FULL&journal=DELETE")
    with Stores([given]) as some, some.store(given) as store:
        store.driver.push(store.queue, [new()], now=0.0)
        assert "DELETE, synchronous=EXTRA" in store.driver.description
        assert store.folder.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.db"]
    assert (tmp_path / "jobs.db").read_text() == "mine"


def test_a_store_that_cannot_be_made_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_folder_of_its_own(monkeypatch), Stores() as some:
        with (
            pytest.raises(UnusableStore, match="no files can be made in /nowhere/at/all"),
            some.store(arm("sqlite:////nowhere/at/all/jobs.db")),
        ):
            pass
        with pytest.raises(DriverUnavailable), some.store(arm("redis://127.0.0.1:1")):
            pass
        with pytest.raises(ValueError, match="synchronous"), some.store(arm("sqlite:///jobs.db?synchronous=MAYBE")):
            pass


def test_without_a_server_only_the_arms_that_need_one_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: object) -> None:
        raise MissingRequirement("no server here")

    monkeypatch.setattr(stores, "EmbeddedServer", missing)
    with Stores() as some:
        assert {each for each in ARMS.values() if some.missing(each)} == set(ON_SERVERS)
        assert some.missing(ARMS["redis_zset none"]) == "no server here"
        assert some.missing(arm("redis://127.0.0.1:1")) == ""


# -- small things --


def _until(condition: Any) -> None:
    deadline = monotonic() + 60.0
    while not condition():
        assert monotonic() < deadline, "it did not come about"
        pause(0.005)


def _runs(pid: int) -> bool:
    """Tell whether it exists and is no zombie, which a machine's first process may leave for a while."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(told.strip()) and not told.startswith("Z")


def _descendants(owner: int) -> set[int]:
    """Find the processes that a process has started, and those that they have."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    parents = {
        int(pid): int(parent) for pid, parent, name in map(str.split, listing.stdout.splitlines()) if name != "ps"
    }
    found = {owner}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {owner}
