"""Fixtures for the tests of applications that use qlab: write `pytest_plugins = ["qlab.testing"]` in conftest.py.

| fixture | what it is |
|---|---|
| `qlab_clock` | a `SimulatedClock` that stands at 2030-01-01 UTC |
| `qlab_driver` | a fresh store; the test runs once on each driver |
| `qlab_queue` | a `Queue` on that store and clock, without handlers |
| `qlab_swap` | puts a queue like an application's own, on that store and clock, in its place |
| `qlab_dispatched` | what was dispatched to that store, with assertions: a `Dispatched` |
| `qlab_server` | the private server of the Redis drivers, for the whole session |

Which drivers is said by pytest's setting `qlab_drivers` (by default `DRIVERS`: `memory sqlite redis_zset redis_list`),
and for one test by `@pytest.mark.qlab_drivers("memory")`. The Redis drivers run on a private server; where there is
none, their tests are skipped. `EPOCH` is where `qlab_clock` stands at first, as a datetime.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest

from qlab import drivers
from qlab.clock import SimulatedClock
from qlab.contract import judge
from qlab.driver import Driver
from qlab.drivers.server import EmbeddedServer
from qlab.errors import MissingRequirement
from qlab.explorer.plays import Store
from qlab.job import Job, NewJob
from qlab.outcome import Completed, Idle, Outcome
from qlab.queue import Queue

__all__ = [
    "DRIVERS",
    "EPOCH",
    "Dispatch",
    "Dispatched",
    "assert_completed",
    "assert_contract",
    "qlab_clock",
    "qlab_dispatched",
    "qlab_driver",
    "qlab_queue",
    "qlab_server",
    "qlab_swap",
]

DRIVERS = ("memory", "sqlite", "redis_zset", "redis_list")
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""Where `qlab_clock` stands at first."""

_numbers = itertools.count(1)


class Dispatch(NamedTuple):
    """One job as it was dispatched.

    Attributes:
        name: The handler's name.
        payload: Its payload, as a handler will get it.
        delay: After how many seconds it may be reserved.
        queue: Which queue of the store it went to.

    Example:
        >>> from qlab.testing import Dispatch
        >>> Dispatch("mail", {"to": "ada"}, delay=60.0, queue="default").name
        'mail'
    """

    name: str
    payload: Any
    delay: float
    queue: str


class Dispatched(list[Dispatch]):
    """What was dispatched, in order, also what was done since; `clear()` forgets it.

    A job that joined an application's transaction is listed even if that rolled back.

    Args:
        iterable: What it begins with; the fixture `qlab_dispatched` begins with nothing.

    Example:
        >>> from qlab.testing import Dispatch, Dispatched
        >>> dispatched = Dispatched([Dispatch("mail", {"to": "ada"}, delay=60.0, queue="default")])
        >>> dispatched.assert_once("mail", {"to": "ada"}).delay
        60.0
        >>> dispatched.assert_none("report")
    """

    def named(self, name: str) -> list[Dispatch]:
        """List those of one handler."""
        return [each for each in self if each.name == name]

    def assert_once(self, name: str, payload: Any = ANY, *, delay: float = ANY) -> Dispatch:
        """Assert that exactly one job was dispatched that is so, and give it.

        Args:
            name: The handler's name.
            payload: Its payload; any by default.
            delay: After how many seconds it may be reserved; any by default.

        Raises:
            AssertionError: There is none, or more than one; the message lists what was dispatched.
        """
        __tracebackhide__ = True
        found = [each for each in self.named(name) if each.payload == payload and each.delay == delay]
        if len(found) != 1:
            wanted = f"{name!r} with payload {payload!r} and delay {delay!r}"
            raise AssertionError(f"{wanted} was dispatched {len(found)} times, not once; there were:\n{self._told()}")
        return found[0]

    def assert_none(self, name: str = ANY) -> None:
        """Assert that nothing was dispatched, or nothing for this handler.

        Raises:
            AssertionError: There is a job; the message lists what was dispatched.
        """
        __tracebackhide__ = True
        if found := [each for each in self if each.name == name]:
            raise AssertionError(f"{len(found)} jobs were dispatched where none should be:\n{self._told()}")

    def _told(self) -> str:
        return "\n".join(f"  {each.name} {each.payload!r}, delay {each.delay:g} s" for each in self) or "  nothing"


def assert_completed(outcomes: Iterable[Outcome]) -> None:
    """Assert that each outcome, as of `queue.drain()`, is a completed job, for no handler's error raises by itself.

    Args:
        outcomes: How steps ended; `Idle` is as good.

    Raises:
        AssertionError: One ended otherwise; the message says how.

    Example:
        >>> from qlab import Queue
        >>> from qlab.testing import assert_completed
        >>> queue = Queue("memory://")
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch("mail")
        >>> assert_completed(queue.drain())
    """
    __tracebackhide__ = True
    if others := [each.says for each in outcomes if not isinstance(each, Completed | Idle)]:
        raise AssertionError("not every job was completed:\n" + "\n".join(f"  {says}" for says in others))


def assert_contract(driver: Store) -> None:
    """Assert that a driver of your own keeps the contract of `qlab.driver`.

    Args:
        driver: What makes one, such as its class; its address; or a driver, which stays open.

    Raises:
        AssertionError: A promise is broken; the message names each, and says how.

    Example:
        >>> from qlab.drivers.memory import MemoryDriver
        >>> from qlab.testing import assert_contract
        >>> assert_contract(MemoryDriver)
    """
    __tracebackhide__ = True
    judged = judge(driver)
    if judged.broken:
        told = "\n".join(f"  {each.promise}\n    {each.says}" for each in judged.broken)
        raise AssertionError(f"{len(judged.broken)} of {len(judged)} promises are broken:\n{told}")


# -- the plugin --


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting."""
    parser.addini("qlab_drivers", "the drivers that tests with qlab_driver run on", type="args", default=list(DRIVERS))


def pytest_configure(config: pytest.Config) -> None:
    """Add the mark."""
    config.addinivalue_line("markers", "qlab_drivers(*names): the drivers that a test with qlab_driver runs on")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each driver."""
    if "qlab_driver" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("qlab_drivers")
    names = mark.args if mark else metafunc.config.getini("qlab_drivers")
    for name in names:
        if name not in DRIVERS:
            raise pytest.UsageError(f"qlab_drivers: {name!r} is none of {', '.join(DRIVERS)}")
    metafunc.parametrize("qlab_driver", names, indirect=True)


@pytest.fixture(scope="session")
def qlab_server() -> Iterator[EmbeddedServer]:
    """A private Redis or Valkey, for the whole session."""
    try:
        server = EmbeddedServer()
    except MissingRequirement as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def qlab_clock() -> SimulatedClock:
    """A clock that moves only when the test moves it, and knows its date."""
    return SimulatedClock(epoch=EPOCH)


@pytest.fixture
def qlab_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    """A fresh store; the test runs once on each driver."""
    with drivers.open(_address(request, tmp_path)) as driver:
        yield driver


def _address(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{folder}/qlab-jobs.db"
    server: EmbeddedServer = request.getfixturevalue("qlab_server")
    layout = str(request.param).removeprefix("redis_")
    failed_jobs = f"sqlite:///{folder}/qlab-failed.db"
    return f"{server.url}?layout={layout}&prefix=test-{next(_numbers)}&failed_jobs={failed_jobs}"


@pytest.fixture
def qlab_queue(qlab_driver: Driver, qlab_clock: SimulatedClock) -> Queue:
    """A queue without handlers."""
    return Queue(qlab_driver, clock=qlab_clock)


@pytest.fixture
def qlab_swap(qlab_driver: Driver, qlab_clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Queue]:
    """Puts a queue with an application's handlers, policy and context, on the test's store, in its place.

    `queue = qlab_swap(shop)` for the variable `queue` of the module `shop`; `qlab_swap(shop, "mails")` for another.
    Where a second module has imported the variable, swap it there too.
    """

    def swap(module: object, variable: str = "queue") -> Queue:
        swapped: Queue = getattr(module, variable).on(qlab_driver, clock=qlab_clock)
        monkeypatch.setattr(module, variable, swapped)
        return swapped

    return swap


@pytest.fixture
def qlab_dispatched(qlab_driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Dispatched:
    """What is dispatched to the test's store from now on."""
    dispatched, push = Dispatched(), qlab_driver.push

    def pushed(queue: str, jobs: Sequence[NewJob], *, now: float, **how: Any) -> list[Job]:
        stored = push(queue, jobs, now=now, **how)
        for job in jobs:
            delay = max(0.0, round(job.available_at - now, 6))
            dispatched.append(Dispatch(job.name, json.loads(job.body), delay, queue))
        return stored

    monkeypatch.setattr(qlab_driver, "push", pushed)
    return dispatched
