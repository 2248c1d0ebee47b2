"""What both Redis layouts share: the client, the keys, how a script is called, and what the server's errors mean."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

import redis

from qlab.clock import NEVER, from_us, us
from qlab.driver import Counts, Durability, Mark, Statement, tell
from qlab.drivers import redis_errors, redis_replies
from qlab.drivers.failed_jobs import FailedJobs, Failing, StagedFailures
from qlab.drivers.redis_clients import own, reply_wait, url_of
from qlab.drivers.redis_cluster import Cluster
from qlab.drivers.redis_commands import Client, Command, command
from qlab.drivers.redis_sentinel import Sentinels
from qlab.drivers.statements import lua, script
from qlab.errors import DriverUnavailable, QlabError, QueueClosed, UnusableStore
from qlab.escape import shortened, without_password
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.log import log
from qlab.tokens import Tokens

DEFAULT_PREFIX = "qlab"
_PAGE = 500
_REMEMBERED = 1_000
_KEYED = ("BLPOP", "SMEMBERS", "SREM", "UNLINK")

Item = TypeVar("Item")


class RedisStore(StagedFailures):
    """A store on a server that speaks Redis's protocol, or on a cluster: tested with Redis 7.0 and 8.2, and Valkey 9.1.

    Args:
        client: A client, of any node of a cluster, or of a service that sentinels watch over; the driver makes
            connections of its own like the client's, which never resend by themselves.
        failed_jobs: The table for failed jobs, as `sqlite:///path`.
        prefix: What every key starts with; with `APP_ENV=production` it must be given.
        url: The address that opens the same store again.
        on_close: What else ends with the driver: its own embedded server.

    Raises:
        TypeError: The client is none, or an asynchronous one.
        ValueError: The prefix is none.
        DriverUnavailable: The server does not answer.
    """

    wakes = True
    layout: ClassVar[str]
    key_names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        client: "redis.Redis | redis.RedisCluster",
        *,
        failed_jobs: str = "sqlite:///qlab.db",
        prefix: str | None = None,
        url: str | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        if not isinstance(client, redis.Redis | redis.RedisCluster):
            kind = f"{type(client).__module__}.{type(client).__qualname__}"
            raise TypeError(
                f"client is a {kind}: use a redis.Redis or redis.RedisCluster; drivers.open takes an address"
            )
        self.prefix = check_prefix(prefix)
        super().__init__(FailedJobs(failed_jobs))
        if isinstance(client, redis.RedisCluster):
            client = client.get_redis_connection(client.get_default_node())
        self._client: Client | Cluster | Sentinels = own(client)
        self._reply_wait = reply_wait(client)
        self._on_close = on_close
        self._tokens = Tokens()
        self._closed = False
        self._commands: dict[tuple[str, str], Command] = {}
        self.url = url or self._url_of(client)
        try:
            self.info = self._ask("INFO", "server", read=redis_replies.facts)
            if isinstance(self._client, Client):
                self._client = self._behind(self._client)
        except BaseException:
            self._client.close()
            raise

    @cached_property
    def description(self) -> str:
        """Product, version and settings, such as `Redis 7.0.15, AOF everysec, layout=zset`."""
        product = ("Valkey", "valkey_version") if "valkey_version" in self.info else ("Redis", "redis_version")
        part = ", cluster" if self._is_cluster else ", sentinel" if isinstance(self._client, Sentinels) else ""
        return f"{product[0]} {self.info.get(product[1], '?')}{part}, {self.persistence}, layout={self.layout}"

    @cached_property
    def persistence(self) -> str:
        """What the server says of it: `no persistence`, `AOF everysec`, `snapshots (…)`, or `persistence unknown`."""
        try:
            told = self._settings()
        except (DriverUnavailable, QueueClosed):
            return "persistence unknown"
        if told.get("appendonly") == "yes":
            return f"AOF {told.get('appendfsync')}"
        return f"snapshots ({told['save']})" if told.get("save") else "no persistence"

    @property
    def private(self) -> bool:
        """Whether the server ends with this process."""
        return self._on_close is not None

    @property
    def durability(self) -> Durability:
        """What the server promises about jobs that it has answered for."""
        stored, cut = {
            "AOF always": ("nothing", "nothing"),
            # While the disk is busy with the last second, the server puts the next write off, for two at the most.
            "AOF everysec": ("now and then the last two seconds", "about the last two seconds"),
            "AOF no": ("nothing", "what the system had not written yet, often 30 seconds"),
            "no persistence": ("everything", "everything"),
            "persistence unknown": ("unknown: the server does not tell", "unknown: the server does not tell"),
        }.get(self.persistence, ("what came after the last snapshot", "what came after the last snapshot"))
        if isinstance(self._client, Sentinels):
            stored = "what no replica had received"  # one takes over, and what the primary comes back with is dropped
        return Durability("nothing", stored, cut)

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        reservations: list[Reservation] = []
        while asked := min(limit - len(reservations), _PAGE):
            moment, deadline, token = us(now), _deadline(now, retry_after), self._tokens.next()
            values = (moment, deadline, token, asked)
            read = partial(redis_replies.reserved, queue=queue, token=token)
            try:
                more, found = self._call("reserve", queue, *values, read=read)
            except DriverUnavailable:
                if not reservations:
                    raise
                break  # what is reserved already is handed out: nobody else would run it before it has run out
            reservations += found
            if not more and len(found) < asked:
                break
        return reservations

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return self._settle("complete", reservation)

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        queue, token = reservation.job.queue, self._tokens.next()
        asked = (reservation.job.id, reservation.token, us(now), _deadline(now, retry_after), token, 1)
        read = partial(redis_replies.completed_and_reserved, queue=queue, token=token)
        completed, (more, following) = self._call("complete_and_reserve", queue, *asked, read=read)
        if not following and more:
            # The job is completed: where the store goes away now, the next one is asked for later.
            with suppress(DriverUnavailable):
                following = self.reserve(queue, now=now, retry_after=retry_after)
        return completed, following[0] if following else None

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        return self._settle("release", reservation, us(now), us(now) + us(delay))

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return self._settle("extend", reservation, us(now) + us(seconds))

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        if mended := list(self._pages("mend", queue, redis_replies.text, int(force))):
            log.warning("queue=%s: put back %s jobs that stood in no set: were keys deleted?", queue, len(mended))
        recovered: list[Job] = []
        read = redis_replies.page(redis_replies.whole, redis_replies.job(queue))
        while True:
            seen, jobs = self._call("recover", queue, us(now), "+inf" if force else us(now), read=read)
            recovered += jobs
            if seen < _PAGE:
                return recovered

    def clear(self, queue: str, *, now: float) -> int:
        return self._call("clear", queue, read=redis_replies.whole)

    def counts(self, queue: str, *, now: float) -> Counts:
        failing, notes = self._failing(queue), self._noted(queue)
        ready, delayed, reserved = self._call("counts", queue, us(now), read=redis_replies.three)
        return Counts(ready, delayed, reserved, self._count_failed(queue, failing, notes))

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        found = self._pages("jobs", queue, redis_replies.in_order(queue))
        return [job for _, job in sorted({job.id: (place, job) for place, job in found}.values())]

    def next_due(self, queue: str, *, now: float) -> float | None:
        first = self._call("next_due", queue, us(now), read=redis_replies.moment)
        return None if first is None or first >= NEVER else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        return list(self._pages("check", queue, redis_replies.text))

    def wait(self, queue: str, seconds: float) -> bool:
        longest = self._reply_wait / 2  # A server that is silent for longer than the whole of it counts as away.
        asked = f"{max(0.001, min(seconds, longest)):.3f}"
        return self._ask("BLPOP", self._key(queue, "wake"), asked, read=redis_replies.woken)

    def mark(self, queue: str, mark: Mark) -> None:
        self._call("mark", queue, f"{mark.kind}:{mark.name}", us(mark.value), read=redis_replies.flag)

    def unmark(self, queue: str, kind: str, name: str) -> None:
        self._call("unmark", queue, f"{kind}:{name}", read=redis_replies.flag)

    def marks(self, queue: str) -> list[Mark]:
        return sorted(set(self._pages("marks", queue, redis_replies.mark)))

    def facts(self) -> dict[str, Any]:
        """Ask the server, or a node of the cluster, about itself: its `INFO`, by name."""
        return self._ask("INFO", read=redis_replies.facts)

    def delete(self, queue: str) -> None:
        """Delete every key of a queue, its counters and unwritten failures too: for a queue made for an experiment."""
        self._ask("UNLINK", *self.keys(queue), read=redis_replies.whole)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
            self.failed_jobs.close()
            if self._on_close:
                self._on_close()

    # -- staged failures --

    def _push(self, queue: str, jobs: Sequence[NewJob], now: int) -> list[Job]:
        if not jobs:
            return []
        moments = [max(now, us(job.available_at)) for job in jobs]
        values = (part for job, at in zip(jobs, moments, strict=True) for part in (job.uid, job.name, job.body, at))
        return self._call("push", queue, now, *values, read=redis_replies.pushed(queue, jobs, now, moments))

    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        return self._settle("fail", reservation, now, attempts, error, traceback)

    def _failing(self, queue: str) -> list[Failing]:
        return self._call("failing", queue, read=redis_replies.failing(queue))

    def _unstage(self, queue: str, failing: Sequence[Failing]) -> None:
        for start in range(0, len(failing), _PAGE):
            page = failing[start : start + _PAGE]
            values = (part for entry in page for part in (entry.failed.uid, entry.token))
            self._call("unstage", queue, *values, read=redis_replies.whole)

    def _again(self, queue: str, rows: Sequence[FailedJob], now: int) -> list[Job | None]:
        if not rows:
            return []
        note = self.failed_jobs.note
        values = (part for row in rows for part in (note(row.id, row.uid), row.uid, row.name, row.body))
        return self._call("retry", queue, now, *values, read=redis_replies.retried(queue, rows))

    def _noted(self, queue: str) -> set[str]:
        return set(self._ask("SMEMBERS", self._key(queue, "retried"), read=redis_replies.texts))

    def _drop_notes(self, queue: str, notes: Sequence[str]) -> None:
        if notes:
            self._ask("SREM", self._key(queue, "retried"), *notes, read=redis_replies.whole)

    # -- the server --

    @property
    def _is_cluster(self) -> bool:
        return "cluster" in (self.info.get("redis_mode"), self.info.get("server_mode"))

    def _behind(self, node: Client) -> Client | Cluster:
        """Find out what a server is part of, and make the client that this takes."""
        if self.info.get("redis_mode") == "sentinel":
            raise UnusableStore(
                f"{self._where} is a sentinel, which keeps no jobs: write redis+sentinel://HOST:PORT/SERVICE, with the "
                "name of the service that it watches over"
            )
        if not self._is_cluster:
            return node
        if "path" in node.connection_pool.connection_kwargs:
            raise UnusableStore(
                f"{self._where} is a node of a cluster, whose nodes are reached by TCP: write redis://HOST:PORT"
            )
        return Cluster(node)

    def _pools(self) -> Iterable["redis.ConnectionPool"]:
        client = self._client
        return [client.connection_pool] if isinstance(client, Client) else client.pools()

    def _url_of(self, client: "redis.Redis") -> str:
        return url_of(client, {"layout": self.layout, "prefix": self.prefix, "failed_jobs": self.failed_jobs.url})

    def keys(self, queue: str) -> list[str]:
        """Name the keys of a queue: they start with the prefix, and share a slot of a cluster."""
        tag = self._tag(queue)
        return [tag + name for name in self.key_names]

    def _tag(self, queue: str) -> str:
        return f"{self.prefix}:{{{escaped(queue)}}}:{self.layout}:"

    def _key(self, queue: str, name: str) -> str:
        return self._tag(queue) + name

    def _settle(self, verb: str, reservation: Reservation, *values: object) -> bool:
        job = reservation.job
        return self._call(verb, job.queue, job.id, reservation.token, *values, read=redis_replies.flag)

    def _call(self, verb: str, queue: str, *values: object, read: redis_replies.Read[Item]) -> Item:
        """Run a verb's script and read its answer."""
        if self._listeners:
            tell(self._listeners, self._statement(verb, queue, values))
        return self._answer(verb, lambda: self._run(verb, queue, values), read)

    def _run(self, verb: str, queue: str, values: Sequence[object]) -> Any:
        """Run a script; the server is sent its text only where it does not know it."""
        try:
            return self._client.ask(self._command(verb, queue), values)
        except redis.exceptions.NoScriptError:
            return self._client.ask(self._script_call("EVAL", script(self.layout, verb), queue), values)

    def _command(self, verb: str, queue: str) -> Command:
        known = self._commands.get((verb, queue))
        if known is None:
            if len(self._commands) >= _REMEMBERED:
                self._commands.clear()
            digest = hashlib.sha1(script(self.layout, verb).encode(), usedforsecurity=False).hexdigest()
            known = self._commands[verb, queue] = self._script_call("EVALSHA", digest, queue)
        return known

    def _script_call(self, name: str, what: str, queue: str) -> Command:
        keys = self.keys(queue)
        return command(name, what, len(keys), *keys, key=keys[0])

    def _pages(self, verb: str, queue: str, row: redis_replies.Read[Item], *values: object) -> Iterator[Item]:
        cursor = "0"
        while True:
            cursor, rows = self._call(verb, queue, cursor, *values, read=redis_replies.page(redis_replies.text, row))
            yield from rows
            if cursor == "0":
                return

    def _ask(self, name: str, *values: object, read: redis_replies.Read[Item]) -> Item:
        if self._listeners:
            words = " ".join(shortened(str(value)) for value in values)
            tell(self._listeners, Statement("Redis", name.lower(), name, words))
        asked = command(name, key=str(values[0]) if name in _KEYED else "")
        return self._answer(name, lambda: self._client.ask(asked, values), read)

    def _answer(self, what: str, ask: Callable[[], Any], read: redis_replies.Read[Item]) -> Item:
        if self._closed:
            raise QueueClosed()
        try:
            reply = ask()
        except Exception as error:
            if (problem := self._problem(what, error)) is None:
                raise
            # The server may have repeated the password, which no traceback should show either.
            raise problem from (None if self._secret(str(error)) else error)
        try:
            return read(reply)
        except redis_replies.MALFORMED as error:
            raise self._unexpected(what, repr(reply)) from error

    def _settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in ("appendonly", "appendfsync", "save"):
            found |= self._ask("CONFIG GET", name, read=redis_replies.settings)
        return found

    def _problem(self, what: str, error: Exception) -> QlabError | None:
        """Tell what an error of the client library means; None for one that is not about the server."""
        if self._closed:
            return QueueClosed()
        if isinstance(error, redis.exceptions.RedisError | OSError):
            return redis_errors.meaning(
                error, shortened(self._scrubbed(str(error)), 200), what, self._where, self.prefix
            )
        if isinstance(error, redis_replies.MALFORMED) and not isinstance(error, UnicodeEncodeError):
            return self._unexpected(what, f"what redis-py cannot read ({type(error).__name__}: {error})")
        return None

    def _unexpected(self, what: str, shown: str) -> QlabError:
        self._client.forget()  # The next answer on this connection may be another question's.
        return redis_errors.unexpected(shortened(self._scrubbed(shown), 200), what, f"{self.name} at {self._where}")

    @property
    def _where(self) -> str:
        base = without_password(self.url.partition("?")[0])
        client = self._client
        return f"{base} (now {client.primary})" if isinstance(client, Sentinels) and client.primary else base

    def _secret(self, said: str) -> bool:
        return self._scrubbed(said) != said

    def _scrubbed(self, said: str) -> str:
        passwords = {str(pool.connection_kwargs.get("password") or "") for pool in self._pools()} - {""}
        for password in passwords:
            said = said.replace(password, "***")
        return said

    def _statement(self, verb: str, queue: str, values: Sequence[object]) -> Statement:
        files = ("complete", "reserve") if verb == "complete_and_reserve" else (verb,)
        argv = " ".join(shortened(str(value)) for value in values)
        return Statement(
            "Lua",
            verb,
            "\n".join(lua(self.layout, file) for file in files),
            f"KEYS {shortened(self._tag(queue), 300)}* ARGV {argv}",
        )


def check_prefix(prefix: str | None) -> str:
    """Refuse a prefix that would let queues meet each other.

    Raises:
        ValueError: It is empty, or missing in production, or would scatter a queue's keys over a cluster.
    """
    if prefix is None:
        if os.environ.get("APP_ENV") == "production":
            raise ValueError(
                "APP_ENV is production and no prefix is given: applications that share a Redis would run each other's "
                "jobs; write redis://…?prefix=NAME"
            )
        return DEFAULT_PREFIX
    if not prefix or "{}" in prefix:
        raise ValueError(f"prefix is {prefix!r}: use text without an empty pair of braces")
    return prefix


def escaped(queue: str) -> str:
    """Write a queue's name so that it cannot leave its place in a key."""
    for character in "%{}:":
        queue = queue.replace(character, f"%{ord(character):02X}")
    return queue


def _deadline(now: float, retry_after: float | None) -> int:
    return NEVER if retry_after is None else us(now) + us(retry_after)
