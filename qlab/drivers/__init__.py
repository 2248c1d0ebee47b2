"""The stores that a queue can live in, and how an address names one: `open` takes it."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode, urlsplit

from qlab.driver import Driver
from qlab.drivers.failed_jobs import file_of
from qlab.drivers.files import is_there
from qlab.errors import MissingRequirement, NoQueueThere
from qlab.escape import without_password

if TYPE_CHECKING:
    from qlab.drivers.server import EmbeddedServer

__all__ = ["open"]

LAYOUTS = ("zset", "list")

_OPTIONS = {
    "memory": ("order",),
    "sqlite": ("synchronous", "journal", "lock_wait"),
    "redis": ("layout", "prefix", "failed_jobs", "reply_wait", "db"),
    "redis+sentinel": ("layout", "prefix", "failed_jobs", "reply_wait", "db", "sentinel_username", "sentinel_password"),
    "redis+embedded": ("layout", "prefix", "server", "persistence", "failed_jobs", "reply_wait"),
}


def open(url: str, *, create: bool = True) -> Driver:  # noqa: A001 - `drivers.open` reads as what it does, like gzip.open
    """Open the store at an address.

    Args:
        url: One of

            - `memory://`, `memory://?order=arrival`;
            - `sqlite:///jobs.db`, `sqlite:////absolute/jobs.db`, `sqlite:///:memory:`, with
              `synchronous=OFF|NORMAL|FULL|EXTRA`, `journal=WAL|DELETE`, `lock_wait=SECONDS`;
            - `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `unix:///path/to/socket`, with
              `layout=zset|list`, `prefix=TEXT`, `failed_jobs=sqlite:///FILE`, `reply_wait=SECONDS`, and redis-py's
              `ssl_…` options;
            - `redis+sentinel://[user:password@]host[:port][,host[:port]…]/SERVICE[/db]`, `rediss+sentinel://…`: the
              primary of a service that these sentinels watch over, with the same options, and `sentinel_username`,
              `sentinel_password` where the sentinels have some of their own;
            - `redis+embedded://`: a private server that ends with this process, with `layout`, `prefix`, `failed_jobs`,
              `reply_wait`, `server=redis|valkey`, `persistence=none|everysec|always`.
        create: Whether a SQLite file that is not there, or the tables in one that is, may be made.

    Returns:
        The driver; its `url` is the resolved address.

    Raises:
        TypeError: The address is no text.
        ValueError: The address or an option of it is none of these.
        UnusableStore: What is there cannot hold a queue, or nothing is there and `create` is False.
        DriverUnavailable: The server does not answer.
        MissingRequirement: A library, or a server for the embedded one, is not installed.

    Example:
        >>> from qlab import drivers
        >>> with drivers.open("sqlite:///:memory:?synchronous=FULL") as driver:
        ...     driver.name, driver.counts("default", now=0.0).depth
        ('sqlite', 0)
        >>> drivers.open("jobs.db")
        Traceback (most recent call last):
            ...
        ValueError: 'jobs.db' names no driver: ...; for a file write sqlite:///jobs.db
    """
    if not isinstance(url, str):
        raise TypeError(f"a driver's address is text such as 'sqlite:///jobs.db', not {url!r}")
    scheme = urlsplit(url).scheme
    if scheme == "flaw":
        raise ValueError(
            f"{url!r} is a broken queue, for the lab only, which no address opens: make it from qlab.flaws.FLAWS"
        )
    openers: dict[str, Callable[[str], Driver]] = {
        "memory": _open_memory,
        "sqlite": partial(_open_sqlite, create=create),
        "redis": _open_redis,
        "rediss": _open_redis,
        "unix": _open_redis,
        "redis+sentinel": _open_redis,
        "rediss+sentinel": _open_redis,
        "redis+embedded": _open_embedded,
    }
    if scheme not in openers:
        known = ", ".join(f"{name}://" for name in openers)
        raise ValueError(
            f"{without_password(url)!r} names no driver: an address begins with {known}; for a file write sqlite:///jobs.db"
        )
    return openers[scheme](url)


def _open_memory(url: str) -> Driver:
    from qlab.drivers.memory import MemoryDriver

    options = _options(url, "memory")
    _check_no_place(url)
    return MemoryDriver(options.get("order", "available_at"))


def _open_sqlite(url: str, *, create: bool) -> Driver:
    from qlab.drivers.sqlite import SqliteDriver

    options = _options(url, "sqlite")
    path = file_of(url)
    if not create and path != ":memory:" and not is_there(path):
        raise NoQueueThere(f"there is no file {os.path.abspath(path)}: is {url!r} the right address?")
    return SqliteDriver(
        path,
        synchronous=options.get("synchronous", "NORMAL"),
        journal=options.get("journal"),
        lock_wait=_seconds("lock_wait", options.get("lock_wait", "30"), url),
        create=create,
    )


def _open_redis(url: str) -> Driver:
    options = _options(url, "redis+sentinel" if urlsplit(url).scheme.endswith("+sentinel") else "redis")
    layout = _layout(options, url)
    failed_jobs = _absolute(options.get("failed_jobs", "sqlite:///qlab.db"))
    return _connect(url, options, layout, failed_jobs, None)


def _open_embedded(url: str) -> Driver:
    require_redis()
    from qlab.drivers.server import EmbeddedServer

    options = _options(url, "redis+embedded")
    _check_no_place(url)
    layout = _layout(options, url)
    server = EmbeddedServer(options.get("server"), persistence=options.get("persistence", "none"))
    return on_server(server, layout=layout, options=options)


def on_server(server: EmbeddedServer, *, layout: str = "zset", options: dict[str, str] | None = None) -> Driver:
    """Open a layout on an embedded server that is running; the server ends with the driver.

    Args:
        server: The server.
        layout: `zset` or `list`.
        options: `prefix`, `failed_jobs` and `reply_wait`, as in an address.
    """
    options = options or {}
    failed_jobs = _absolute(options.get("failed_jobs", f"sqlite:///{quote(str(server.folder))}/failed_jobs.db"))

    def restart_server() -> None:
        server.kill()
        server.restart()

    try:
        driver = _connect(
            server.url, options | {"prefix": options.get("prefix", "qlab")}, layout, failed_jobs, server.close
        )
    except BaseException:
        server.close()
        raise
    driver.restart_server = restart_server
    return driver


def _connect(
    url: str, options: dict[str, str], layout: str, failed_jobs: str, on_close: Callable[[], None] | None
) -> Driver:
    require_redis()
    from qlab.drivers.redis_clients import REPLY_WAIT, of_url
    from qlab.drivers.redis_list import RedisListDriver
    from qlab.drivers.redis_store import check_prefix
    from qlab.drivers.redis_zset import RedisZsetDriver

    _check_database(url)
    prefix = check_prefix(options.get("prefix"))
    wait = _seconds("reply_wait", options.get("reply_wait", str(REPLY_WAIT)), url)
    address = url.partition("?")[0]
    passed = {name: value for name, value in options.items() if name == "db" or name.startswith("ssl_")}
    base = f"{address}?{urlencode(passed, safe=':/', quote_via=quote)}" if passed else address
    logins = {name: value for name, value in options.items() if name.startswith("sentinel_")}
    resolved = passed | logins | {"layout": layout, "prefix": prefix, "failed_jobs": failed_jobs}
    if wait != REPLY_WAIT:
        resolved["reply_wait"] = f"{wait:g}"
    client = of_url(base, options, wait)
    kind = RedisZsetDriver if layout == "zset" else RedisListDriver
    whole = f"{address}?{urlencode(resolved, safe=':/', quote_via=quote)}"
    return kind(client, failed_jobs=failed_jobs, prefix=prefix, url=whole, on_close=on_close)


def _check_no_place(url: str) -> None:
    parts = urlsplit(url)
    if parts.netloc or parts.path:
        raise ValueError(
            f"{without_password(url)!r}: a store that ends with this process is at no place: write {parts.scheme}://, "
            "and options after a ?"
        )


def _check_database(url: str) -> None:
    parts = urlsplit(url)
    number = parts.path.removeprefix("/")
    if parts.scheme in ("redis", "rediss") and number and not number.isdecimal():
        raise ValueError(f"{without_password(url)!r}: a database is a number, as in redis://host/0")


def require_redis() -> None:
    """Refuse to go on without the library of the Redis drivers.

    Raises:
        MissingRequirement: It is not installed.
    """
    if importlib.util.find_spec("redis") is None:
        raise MissingRequirement(
            "the Python library redis is not installed: pip install redis, or use sqlite:///jobs.db or memory://"
        )


def _options(url: str, family: str) -> dict[str, str]:
    try:
        asked = urlsplit(url).query
    except ValueError as error:
        raise ValueError(f"{without_password(url)!r} is no address: {type(error).__name__}") from error
    # Not as a form: there a + would be a space.
    options = {
        unquote(name): unquote(value) for name, _, value in (part.partition("=") for part in asked.split("&") if part)
    }
    known = _OPTIONS[family]
    unknown = sorted(
        name
        for name in options
        if name not in known and not (family in ("redis", "redis+sentinel") and name.startswith("ssl_"))
    )
    if unknown:
        names = ", ".join(name if name.isidentifier() else "***" for name in unknown)
        raise ValueError(f"{without_password(url)!r}: unknown option {names}; there are {', '.join(known)}")
    return options


def _layout(options: dict[str, str], url: str) -> str:
    layout = options.get("layout", "zset")
    if layout not in LAYOUTS:
        raise ValueError(f"{without_password(url)!r}: layout is {layout!r}, use zset or list")
    return layout


def _seconds(name: str, text: str, url: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{without_password(url)!r}: {name} is {text!r}, use a number of seconds above 0")
    return value


def _absolute(url: str) -> str:
    path = file_of(url)
    return url if path == ":memory:" else f"sqlite:///{quote(os.path.abspath(path))}"
