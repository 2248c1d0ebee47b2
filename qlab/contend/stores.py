"""The stores that arms are run on: made for a session, an empty queue for each run, and nothing left at the end."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from qlab import drivers
from qlab.contend.arms import Arm
from qlab.contend.janitor import Janitor
from qlab.contend.relay import Relay
from qlab.driver import Driver
from qlab.drivers.failed_jobs import file_of
from qlab.drivers.server import EmbeddedServer
from qlab.errors import MissingRequirement, QlabError
from qlab.escape import without_password
from qlab.log import log
from qlab.tokens import Tokens

_PREFIX = "qlab-contend"


@dataclass(frozen=True, slots=True)
class Store:
    """The store of an arm during one run, in which nothing is but what the run puts there.

    Attributes:
        arm: The arm.
        driver: A driver on it, open up to the end of the run.
        queue: The queue to use; each run's store has it to itself.
        folder: Where its files are.
        server: Its server, where that is private.
    """

    arm: Arm
    driver: Driver
    queue: str
    folder: Path
    server: EmbeddedServer | None = None
    _disk_before: int = 0

    @property
    def url(self) -> str:
        """The address that opens it, also from another process; it may hold a password."""
        return self.driver.url

    def server_cpu(self) -> float:
        """Tell the processor time that the server has taken since its start, in seconds; 0 where there is none."""
        facts = _facts(self.driver)
        return float(facts.get("used_cpu_user", 0.0)) + float(facts.get("used_cpu_sys", 0.0))

    def disk_bytes(self) -> int:
        """Tell what its files take: a SQLite file with its journal, or what the run has added to a server's log."""
        if self.arm.driver == "sqlite":
            return sum(path.stat().st_size for path in self.folder.iterdir() if not path.name.endswith("-shm"))
        return max(0, _log_bytes(self.driver) - self._disk_before)


class Stores:
    """The stores of a session's arms: for each run a folder of mode 0700, and one private server for each persistence.

    All of it is gone when the context closes, after an error or a Ctrl-C too, and also where this process is killed. On
    a server that was there before, the keys of each run are deleted, which all start with a prefix of their own; only
    those stay where this process is killed.

    Args:
        arms: Which arms there will be; those of one persistence share a server, whatever way they reach it.
    """

    def __init__(self, arms: Iterable[Arm] = ()) -> None:
        self._arms = tuple(arms)
        self._servers: dict[tuple[str, str, bool], EmbeddedServer] = {}
        self._relays: dict[tuple[str | tuple[str, int], float], Relay] = {}
        self._prefix = f"{_PREFIX}-{Tokens().next()[:12]}"
        self._numbers = count(1)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._janitor = opened.enter_context(Janitor())
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def missing(self, arm: Arm) -> str:
        """Tell why there can be no store for an arm here, what to install; empty where there can."""
        try:
            if arm.driver.startswith("redis"):
                drivers.require_redis()
                if not arm.url:
                    self._server(arm)
        except MissingRequirement as problem:
            return str(problem)
        return ""

    @contextmanager
    def store(self, arm: Arm, queue: str = "work") -> Iterator[Store]:
        """Open an arm's store for one run.

        Raises:
            MissingRequirement: A library or a server for it is not installed.
            DriverUnavailable: Its server does not answer.
            UnusableStore: Its files cannot be made.
            ValueError: Its address or an option of it is none.
        """
        with ExitStack() as opened:
            place = Path(file_of(arm.url)).absolute().parent if arm.driver == "sqlite" and arm.url else None
            number = next(self._numbers)
            folder = opened.enter_context(self._janitor.folder(place, f"{_PREFIX}-{number}-"))
            driver = opened.enter_context(drivers.open(self._address(arm, folder, number)))
            if arm.driver.startswith("redis"):
                opened.callback(_delete, driver.url, queue)
            server = self._server(arm) if arm.persistence else None
            yield Store(arm, driver, queue, folder, server, _log_bytes(driver))

    def _address(self, arm: Arm, folder: Path, number: int) -> str:
        if arm.private:
            return arm.url or "memory://"
        if arm.driver == "sqlite":
            settings = urlsplit(arm.url).query if arm.url else f"synchronous={arm.synchronous}&journal={arm.journal}"
            return f"sqlite:///{quote(str(folder))}/jobs.db?{settings}"
        base, _, options = self._reached(arm).partition("?")
        given = dict(option.partition("=")[::2] for option in options.split("&") if option)
        prefix = "-".join([*filter(None, [given.get("prefix")]), self._prefix, str(number)])
        ours = {
            "layout": arm.driver.removeprefix("redis_"),
            "prefix": prefix,
            "failed_jobs": f"sqlite:///{quote(quote(str(folder)))}/failed.db",
        }
        return f"{base}?{'&'.join(f'{name}={value}' for name, value in (given | ours).items())}"

    def _reached(self, arm: Arm) -> str:
        """Tell where an arm's server is reached, and start what is missing on the way."""
        if not arm.url:
            server = self._server(arm)
            if arm.delay:
                return _through(self._relay(server.socket, arm.delay), server.tcp_url)
            return server.tcp_url if arm.tcp else server.url
        if arm.delay:
            parts = urlsplit(arm.url)
            return _through(self._relay((parts.hostname or "localhost", parts.port or 6379), arm.delay), arm.url)
        return arm.url

    def _server(self, arm: Arm) -> EmbeddedServer:
        same = [other for other in self._arms if (other.persistence, other.server) == (arm.persistence, arm.server)]
        tcp = arm.tcp or any(other.tcp for other in same)
        key = arm.persistence, arm.server, tcp
        if key not in self._servers:
            server = EmbeddedServer(server=arm.server or None, persistence=arm.persistence, tcp=tcp)
            self._servers[key] = self._opened.enter_context(server)
        return self._servers[key]

    def _relay(self, place: str | tuple[str, int], delay: float) -> Relay:
        if (place, delay) not in self._relays:
            self._relays[place, delay] = self._opened.enter_context(Relay(place, delay))
        return self._relays[place, delay]


def _through(relay: Relay, url: str) -> str:
    parts = urlsplit(url)
    entry, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{entry}{at}127.0.0.1:{relay.port}").geturl()


def _facts(driver: Driver) -> dict[str, Any]:
    facts: dict[str, Any] = getattr(driver, "facts", dict)()
    return facts


def _log_bytes(driver: Driver) -> int:
    return int(_facts(driver).get("aof_current_size", 0))


def _delete(url: str, queue: str) -> None:
    """Delete a queue's keys; by a connection of its own, for the run may have closed the other."""
    try:
        with drivers.open(url) as driver:
            driver.delete(queue)  # type: ignore[attr-defined] # it is one of Redis
    except QlabError as problem:
        log.warning("keys of the queue %r may be left at %s: %s", queue, without_password(url), problem)
