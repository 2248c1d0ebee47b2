"""The rights that README lists for a user of a server with ACLs: enough for every verb, and none too many."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from clusters import ClusterOfThree
from conftest import QUEUE, Servers, failed_one, program, push, take

from qlab import drivers
from qlab.driver import Counts, Driver, Mark
from qlab.drivers import LAYOUTS
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
PATTERN, COMMANDS, ON_A_CLUSTER, INSTEAD_OF = re.findall(
    r"`([^`]+)`", README.split("A user of a Redis server with ACLs")[1]
)[:4]
RIGHTS = COMMANDS.split()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server of this file's own, whose users come and go."""
    with EmbeddedServer(persistence="always", **program("redis8")) as server:
        yield server


def let_in(client: Any, rights: list[str], prefix: str) -> None:
    """Give the user `app` these rights, on a server that knows no script and has no key."""
    client.flushall()
    client.script_flush()
    commands = [f"+{right.lower()}" for right in rights]
    keys = PATTERN.replace("PREFIX", prefix)
    client.execute_command("ACL", "SETUSER", "app", "reset", "on", ">pw", keys, "-@all", *commands)


def address(socket: str, layout: str, folder: Path, prefix: str = "own") -> str:
    failed_jobs = f"sqlite:///{folder}/{layout}.db"
    return f"unix://app:pw@{socket}?db=1&layout={layout}&prefix={prefix}&failed_jobs={failed_jobs}"


def every_verb(driver: Driver) -> None:
    """Call every verb on every way that it can take in the store."""
    assert driver.persistence.startswith("AOF ")
    assert "maxmemory_policy" in driver.facts()
    push(driver, "a", "b", "c")
    push(driver, "later", at=5.0)
    failed_one(driver, now=-1.0)
    assert driver.counts(QUEUE, now=0.0) == Counts(3, 1, 0, 1)
    assert driver.retry(QUEUE, driver.failed_ids(QUEUE), now=0.0)
    assert driver.forget(QUEUE, [failed_one(driver, now=-1.0).id or 0])
    assert driver.extend(take(driver), now=0.0, seconds=1.0)
    assert driver.release(take(driver), now=0.0, delay=1.0)
    assert driver.recover(QUEUE, now=1.0)
    assert driver.recover(QUEUE, now=1.0, force=True) == []
    assert driver.complete(take(driver, now=1.0), now=1.0)
    assert driver.complete_and_reserve(take(driver, now=1.0), now=1.0, retry_after=1.0)[0]
    assert driver.next_due(QUEUE, now=1.0) == 1.0
    assert driver.jobs(QUEUE, now=1.0)
    assert driver.check(QUEUE, now=1.0) == []
    assert driver.clear(QUEUE, now=1.0) == 3
    driver.mark(QUEUE, Mark("run", "a", 1.0))
    assert driver.marks(QUEUE) == [Mark("run", "a", 1.0)]
    driver.unmark(QUEUE, "run", "a")


@pytest.mark.parametrize("kind", ["redis", "valkey", "redis8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rights_that_readme_lists_are_enough_for_every_verb(kind: str, layout: str, tmp_path: Path) -> None:
    with EmbeddedServer(persistence="always", **program(kind)) as server:
        with redis.Redis(unix_socket_path=server.socket) as client:
            let_in(client, RIGHTS, "own")
        with drivers.open(address(server.socket, layout, tmp_path)) as driver:
            every_verb(driver)


@pytest.mark.parametrize("right", RIGHTS)
def test_no_right_that_readme_lists_is_too_many(server: EmbeddedServer, right: str, tmp_path: Path) -> None:
    problems = []
    for layout in LAYOUTS:
        with redis.Redis(unix_socket_path=server.socket) as client:
            let_in(client, [each for each in RIGHTS if each != right], "own")
        try:
            with drivers.open(address(server.socket, layout, tmp_path)) as driver:
                every_verb(driver)
        except (DriverUnavailable, AssertionError) as problem:
            problems.append(str(problem))
    assert problems
    said = "persistence unknown" if right == "CONFIG|GET" else f"this user may not do that.*{re.escape(right)}"
    assert all(re.search(said, problem, re.IGNORECASE) for problem in problems), problems


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", ["own:eu", "ow", "own2", "own:eu:{mail}", "another"])
def test_a_user_reaches_no_prefix_but_its_own(server: EmbeddedServer, other: str, layout: str, tmp_path: Path) -> None:
    with redis.Redis(unix_socket_path=server.socket) as client:
        let_in(client, RIGHTS, "own")
    with drivers.open(address(server.socket, layout, tmp_path)) as driver:
        push(driver, "a")
    with drivers.open(address(server.socket, layout, tmp_path, other)) as stranger:
        for act in (
            lambda: push(stranger, "a"),
            lambda: stranger.counts(QUEUE, now=0.0),
            lambda: stranger.clear(QUEUE, now=0.0),
        ):
            with pytest.raises(DriverUnavailable, match="this user may not do that"):
                act()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_worker_is_woken_with_one_right_more(server: EmbeddedServer, layout: str, tmp_path: Path) -> None:
    for rights in ([*RIGHTS, "BLPOP"], RIGHTS):
        with redis.Redis(unix_socket_path=server.socket) as client:
            let_in(client, rights, "own")
        with drivers.open(address(server.socket, layout, tmp_path)) as driver:
            push(driver, "a")
            if "BLPOP" in rights:
                assert driver.wait(QUEUE, 1.0)
            else:
                with pytest.raises(DriverUnavailable, match="this user may not do that.*blpop"):
                    driver.wait(QUEUE, 1.0)


def on_each(cluster: ClusterOfThree, act: Callable[[Any], object]) -> None:
    for node in cluster.nodes:
        with redis.Redis(unix_socket_path=node.socket) as client:
            act(client)


@pytest.mark.parametrize("kind", ["redis", "valkey"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_on_a_cluster_one_right_more_is_needed_and_one_less(
    servers: Servers, kind: str, layout: str, tmp_path: Path
) -> None:
    cluster: ClusterOfThree = servers[f"cluster-{kind}"]
    url = address("", layout, tmp_path).replace("unix://app:pw@?db=1&", f"redis://app:pw@127.0.0.1:{cluster.ports[0]}?")
    rights = [ON_A_CLUSTER, *(right for right in RIGHTS if right != INSTEAD_OF)]
    on_each(cluster, lambda client: let_in(client, rights, "own"))
    with drivers.open(url) as driver:
        every_verb(driver)
    on_each(cluster, lambda client: let_in(client, rights[1:], "own"))
    with drivers.open(url) as driver, pytest.raises(DriverUnavailable, match="this user may not do that.*cluster"):
        every_verb(driver)
    on_each(cluster, lambda client: client.execute_command("ACL", "DELUSER", "app"))
