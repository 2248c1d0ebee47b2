"""The stores that real workers contend for, by name: each is a driver, how durable it is set, and how it is reached."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit

from qlab.clock import duration
from qlab.escape import without_password

ROUND_TRIP = 0.001
"""How many seconds the arms that end in `+1 ms` add to each round trip."""

_LAYOUTS = ("redis_zset", "redis_list")
_PERSISTENCE = ("none", "everysec", "always")
_FAMILIES = {"sqlite": "sqlite NORMAL", **{layout: f"{layout} everysec" for layout in _LAYOUTS}}
_IN_MEMORY = "sqlite:///:memory:"
_REMOTE = ("redis", "rediss", "unix")
_UNDELAYED = ("rediss", "unix")  # a certificate names its host; a port would open a private socket to everybody
_MILLISECONDS = re.compile(r"(.+) \+(\S+) ms")


@dataclass(frozen=True, slots=True)
class Arm:
    """A store that workers contend for.

    Attributes:
        name: What tables and plots call it.
        driver: The driver's family: `memory`, `sqlite`, `redis_zset` or `redis_list`.
        synchronous: SQLite's setting.
        journal: SQLite's journal: `WAL` or `DELETE`.
        persistence: A private server's: `none`, `everysec` or `always`.
        server: A private server's product, `redis` or `valkey`; empty for the first that is found.
        tcp: Whether a private server is reached through a port of this machine, instead of a Unix socket.
        delay: How many seconds are added to each round trip, as a network would; always over TCP.
        url: The address that it was made from: of a server that is there, or of a SQLite file whose folder is where
            the arm's own files go, and whose options they get. Empty where the store is made for the arm alone.
    """

    name: str
    driver: str
    synchronous: str = ""
    journal: str = ""
    persistence: str = ""
    server: str = ""
    tcp: bool = False
    delay: float = 0.0
    url: str = ""

    @property
    def private(self) -> bool:
        """Whether only the process that opens it sees its jobs, so that only threads can contend for them."""
        return self.driver == "memory" or self.url.startswith(_IN_MEMORY)

    def __str__(self) -> str:
        return self.name


def arm(given: str | Arm) -> Arm:
    """Give an arm by its name, by a driver's family, or by an address.

    Args:
        given: One of `ARMS`; `sqlite` for its NORMAL, `redis_zset` or `redis_list` for an AOF synced every second; an
            address as `drivers.open` takes it. One of Redis may end in ` +0.5 ms`, any time that is added to each
            round trip.

    Raises:
        TypeError: It is neither text nor an arm.
        ValueError: It names none; near names are suggested.
    """
    if isinstance(given, Arm):
        return given
    if not isinstance(given, str):
        raise TypeError(f"an arm is {given!r}: use a name such as 'sqlite FULL', or an address")
    if found := ARMS.get(_FAMILIES.get(given, given)):
        return found
    if delayed := _MILLISECONDS.fullmatch(given):
        return _delayed(arm(delayed[1]), delayed[2])
    if "://" in given:
        return _at(given)
    raise ValueError(f"there is no arm {given!r}: {_near(given)}")


def chosen(given: Iterable[str | Arm] | str | Arm) -> tuple[Arm, ...]:
    """Give arms in order, each once.

    Raises:
        TypeError: One is neither text nor an arm.
        ValueError: One names no arm, or there is none; near names are suggested.
    """
    arms = tuple(dict.fromkeys(map(arm, [given] if isinstance(given, str | Arm) else given)))
    if not arms:
        raise ValueError("there is no arm to run: name at least one, such as 'sqlite NORMAL'")
    names = [each.name for each in arms]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two arms are named {twice[0]!r}: give each a name of its own")
    return arms


def on_server(given: str | Arm, url: str) -> Arm:
    """Give an arm as it is on a server that is there, which says how durable it is, and how it is reached.

    Args:
        given: As `arm` takes it; one that is none of Redis, or has an address of its own, stays as it is.
        url: The server's address.
    """
    asked = arm(given)
    if asked.driver not in _LAYOUTS or asked.url:
        return asked
    base, _, options = url.partition("?")
    kept = [option for option in options.split("&") if option and not option.startswith("layout=")]
    layout = f"layout={asked.driver.removeprefix('redis_')}"
    there = arm(f"{base}?{'&'.join([*kept, layout])}")
    return _delayed(there, f"{asked.delay * 1_000:g}") if asked.delay else there


def _arms() -> Iterable[Arm]:
    yield Arm("memory", "memory")
    for synchronous in ("OFF", "NORMAL", "FULL"):
        yield Arm(f"sqlite {synchronous}", "sqlite", synchronous, "WAL")
    yield Arm("sqlite DELETE", "sqlite", "FULL", "DELETE")
    for layout in _LAYOUTS:
        for persistence in _PERSISTENCE:
            plain = Arm(f"{layout} {persistence}", layout, persistence=persistence)
            yield plain
            yield replace(plain, name=f"{plain} tcp", tcp=True)
            yield _delayed(plain, f"{ROUND_TRIP * 1_000:g}")


def _delayed(plain: Arm, milliseconds: str) -> Arm:
    name = f"{plain} +{milliseconds} ms"
    if plain.driver not in _LAYOUTS or urlsplit(plain.url).scheme in _UNDELAYED:
        raise ValueError(f"there is no arm {name!r}: what can be delayed is a private server's arm, or redis://…")
    if plain.delay:
        raise ValueError(f"there is no arm {name!r}: {plain.name!r} adds a time to each round trip already")
    try:
        delay = duration(float(milliseconds) / 1_000, "delay")
    except ValueError:
        delay = 0.0
    if not delay:
        raise ValueError(f"there is no arm {name!r}: use a number of milliseconds above 0, as in {plain} +1 ms")
    return replace(plain, name=name, tcp=True, delay=delay)


def _at(url: str) -> Arm:
    """Read an address; what else may be wrong with it is said when it is opened."""
    scheme, options = urlsplit(url).scheme, dict(parse_qsl(urlsplit(url).query))
    layout = f"redis_{options.get('layout', 'zset')}"
    if scheme == "memory":
        return ARMS["memory"] if url == "memory://" else Arm(url, "memory", url=url)
    if scheme == "sqlite":
        settings = options.get("synchronous", "NORMAL"), options.get("journal", "WAL")
        return Arm(without_password(url), "sqlite", *settings, url=url)
    if scheme == "redis+embedded" and layout in _LAYOUTS:
        persistence, server = options.get("persistence", "none"), options.get("server", "")
        name = f"{layout} {persistence}" + (f" on {server}" if server else "")
        return Arm(name, layout, persistence=persistence, server=server)
    if scheme in _REMOTE and layout in _LAYOUTS:
        return Arm(without_password(url), layout, tcp=scheme != "unix", url=url)
    raise ValueError(
        f"there is no arm {without_password(url)!r}: use sqlite:///FILE, redis://…, rediss://…, unix://… (with "
        "layout=zset or list), redis+embedded:// or memory://"
    )


def _near(name: str) -> str:
    there = {known.lower(): known for known in (*_FAMILIES, *ARMS)}
    near = [there[found] for found in get_close_matches(name.lower(), there, n=3)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"use one of {', '.join(ARMS)}, or an address"


ARMS: Mapping[str, Arm] = MappingProxyType({each.name: each for each in _arms()})
"""The arms that have a name, in the order of tables."""
