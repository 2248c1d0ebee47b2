"""The clients of a driver: made of an application's or of an address, and the address that reaches the same."""

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from qlab.drivers.redis_commands import Client
from qlab.drivers.redis_sentinel import Sentinels
from qlab.escape import without_password

REPLY_WAIT = 10.0
"""How many seconds an answer is waited for, unless the address says otherwise."""

_SENTINEL_PORT = 26_379
_SENTINEL_WAIT = 3.0  # seconds; a sentinel has little to do, and the next one can be asked


def own(client: "redis.Redis") -> Client | Sentinels:
    """Make a client like another, with connections of its own, plain bytes, and without resending.

    Raises:
        ValueError: It is a client of replicas.
    """
    pool = client.connection_pool
    if not isinstance(pool, SentinelConnectionPool):
        return Client(_pool_like(pool))
    if not pool.is_master:
        raise ValueError("client is of replicas, which take no jobs: use Sentinel(…).master_for(…)")
    watchers = [Client(_pool_like(each.connection_pool)) for each in pool.sentinel_manager.sentinels]
    return Sentinels(watchers, pool.service_name, _pool_like(pool))


def reply_wait(client: "redis.Redis") -> float:
    """Tell how many seconds the driver's own client waits for an answer."""
    return float(client.connection_pool.connection_kwargs.get("socket_timeout") or REPLY_WAIT)


def _pool_like(pool: "redis.ConnectionPool") -> "redis.ConnectionPool":
    settings = dict(pool.connection_kwargs)
    settings.pop("connection_pool", None)  # a Sentinel's, of which its connections ask where to go
    settings |= {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "retry_on_timeout": False,
        "decode_responses": False,
        "socket_timeout": settings.get("socket_timeout") or REPLY_WAIT,
        "encoding": "utf-8",
    }
    kind = pool.connection_class
    if isinstance(pool, SentinelConnectionPool):
        kind = redis.SSLConnection if _is_safe(pool) else redis.Connection
    return redis.ConnectionPool(connection_class=kind, **settings)


# -- addresses --


def of_url(url: str, options: Mapping[str, str], wait: float) -> "redis.Redis":
    """Make a client of an address.

    Args:
        url: The address; of its options only those that redis-py knows are left.
        options: All of its options.
        wait: How many seconds an answer is waited for.

    Raises:
        ValueError: It is none.
    """
    waits: dict[str, Any] = {"socket_timeout": wait, "socket_connect_timeout": wait, "protocol": 2}
    watched = "+sentinel:" in url
    try:
        return _watched(url, options, waits) if watched else redis.Redis.from_url(url, **waits)
    except ValueError as error:
        write = (
            "name the sentinels and the service that they watch over, redis+sentinel://host:26379,other:26379/mymaster"
            if watched
            else "write redis://user:password@host:port/0, with the password percent-encoded"
        )
        raise ValueError(f"{without_password(url)!r} is no address of a server: {write}") from error


def _watched(url: str, options: Mapping[str, str], waits: dict[str, Any]) -> "redis.Redis":
    """Make a client of the primary that sentinels tell."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.removeprefix("/").partition("/")
    if not hosts or not service or not (database or "0").isdecimal():
        raise ValueError("a part of it is missing")
    scheme = parts.scheme.removesuffix("+sentinel")
    settings = parse_url(f"{scheme}://{login}{at}localhost/{database}?{parts.query}")
    settings.pop("host")
    safe = settings.pop("connection_class", None) is not None
    logins = {name: options.get(f"sentinel_{name}") for name in ("username", "password")}
    tls = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    asked = waits | tls | logins | {"ssl": safe, "socket_connect_timeout": min(waits["socket_timeout"], _SENTINEL_WAIT)}
    manager = Sentinel([_place(host) for host in hosts.split(",")], sentinel_kwargs=asked)
    client: redis.Redis = manager.master_for(unquote(service), ssl=safe, **waits, **settings)
    return client


def _place(host: str) -> tuple[str, int]:
    at = urlsplit(f"//{host}")
    if not at.hostname:
        raise ValueError("a sentinel has no name")
    return at.hostname, at.port or _SENTINEL_PORT


def url_of(client: "redis.Redis", options: Mapping[str, object]) -> str:
    """Write the address that reaches what a client does.

    Args:
        client: An application's.
        options: What the address is to say besides.
    """
    pool = client.connection_pool
    at = pool.connection_kwargs
    more = {"db": at.get("db") or 0} | _tls(at) | dict(options)
    scheme = "rediss" if _is_safe(pool) else "redis"
    if isinstance(pool, SentinelConnectionPool):
        watchers = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
        hosts = ",".join(_host(each, _SENTINEL_PORT) for each in watchers)
        where = f"{scheme}+sentinel://{_login(at)}{hosts}/{quote(pool.service_name, safe='')}"
        for name in ("username", "password"):
            if value := watchers[0].get(name):
                more[f"sentinel_{name}"] = value
    elif "path" in at:
        where = f"unix://{_login(at)}{quote(str(at['path']))}"
    else:
        where = f"{scheme}://{_login(at)}{_host(at, 6_379)}"
    return f"{where}?{urlencode(more, safe=':/', quote_via=quote)}"


def _host(at: Mapping[str, Any], port: int) -> str:
    host = str(at.get("host", "localhost"))
    return f"[{host}]:{at.get('port', port)}" if ":" in host else f"{host}:{at.get('port', port)}"


def _login(at: Mapping[str, Any]) -> str:
    user, password = at.get("username"), at.get("password")
    if not user and not password:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"


def _tls(at: Mapping[str, Any]) -> dict[str, object]:
    said: dict[str, object] = {name: value for name, value in at.items() if name.startswith("ssl_")}
    needed, checked = said.get("ssl_cert_reqs"), said.get("ssl_check_hostname")
    texts: dict[str, object] = {name: value for name, value in said.items() if isinstance(value, str)}
    if isinstance(needed, ssl.VerifyMode):
        texts["ssl_cert_reqs"] = needed.name.removeprefix("CERT_").lower()
    return texts | ({"ssl_check_hostname": False} if checked is False else {})


def _is_safe(pool: "redis.ConnectionPool") -> bool:
    return issubclass(pool.connection_class, redis.SSLConnection)
