"""What both Redis layouts share: the client, the keys, how a script is called, and what the server's errors mean."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from qlab.clock import NEVER, from_us, us
from qlab.driver import Counts, Durability, Statement, tell
from qlab.drivers.failed_jobs import FailedJobs, Failing, StagedFailures
from qlab.drivers.redis_cluster import Cluster
from qlab.drivers.statements import lua, script
from qlab.errors import DriverUnavailable, QueueClosed, ReplyLost, UnexpectedReply, UnusableStore
from qlab.escape import shortened, without_password
from qlab.job import FailedJob, Job, NewJob, Reservation
from qlab.tokens import Tokens

DEFAULT_PREFIX = "qlab"
REPLY_WAIT = 10.0
"""How many seconds an answer is waited for, unless the address says otherwise."""

_PAGE = 500
_log = logging.getLogger("qlab")
_MEANINGS = {
    "NOAUTH": "the server wants a password: put it into the address, redis://:PASSWORD@host",
    "WRONGPASS": "the server refused the user or the password of the address",
    "NOPERM": "this user may not do that: README lists the commands and keys that qlab needs",
    "LOADING": "the server is still loading its data: try again in a moment",
    "BUSY": "the server is busy with a long script: try again in a moment",
    "OOM": "the server's memory is full (maxmemory): nothing was stored",
    "MISCONF": "the server cannot save to its disk and refuses writes",
    "READONLY": "this server is a replica: use the address of the primary",
    "CROSSSLOT": "the keys of one queue must share a slot: choose a prefix without braces",
    "CLUSTERDOWN": "the cluster is down",
    "MOVED": "the queue's slot is on another node at each try: try again in a moment",
    "ASK": "the queue's slot is being moved to another node: try again in a moment",
    "TRYAGAIN": "the queue's slot is being moved to another node: try again in a moment",
}


class RedisStore(StagedFailures):
    """A store on a server that speaks Redis's protocol, or on a cluster: tested with Redis 7.0 and 8.2, and Valkey 9.1.

    Args:
        client: A client, of any node of a cluster; the driver makes connections of its own like the client's, which
            never resend by themselves.
        failed_jobs: The table for failed jobs, as `sqlite:///path`.
        prefix: What every key starts with; with `APP_ENV=production` it must be given.
        url: The address that opens the same store again.
        on_close: What else ends with the driver, such as an embedded server.

    Raises:
        ValueError: The prefix is none.
        DriverUnavailable: The server does not answer.
    """

    layout: ClassVar[str]
    key_names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        client: "redis.Redis | redis.RedisCluster",
        *,
        failed_jobs: str = "sqlite:///qlab.db",
        prefix: str | None = None,
        url: str | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.prefix = check_prefix(prefix)
        super().__init__(FailedJobs(failed_jobs))
        if isinstance(client, redis.RedisCluster):
            client = client.get_redis_connection(client.get_default_node())
        self._client: redis.Redis | Cluster = _own(client)
        self._on_close = on_close
        self._tokens = Tokens()
        self._closed = False
        self._digests: dict[str, str] = {}
        self.url = url or _url_of(client, self)
        try:
            self.info = self._ask("INFO", "server")
            if self._is_cluster:
                self._client = self._cluster(self._client)
        except BaseException:
            self._client.close()
            raise

    @cached_property
    def description(self) -> str:
        """Product, version and settings, such as `Redis 7.0.15, AOF everysec, layout=zset`."""
        product = ("Valkey", "valkey_version") if "valkey_version" in self.info else ("Redis", "redis_version")
        cluster = ", cluster" if self._is_cluster else ""
        return f"{product[0]} {self.info.get(product[1], '?')}{cluster}, {self.persistence}, layout={self.layout}"

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
    def durability(self) -> Durability:
        """What the server promises about jobs that it has answered for."""
        stored, cut = {
            "AOF always": ("nothing", "nothing"),
            "AOF everysec": ("nothing", "about the last second"),
            "AOF no": ("nothing", "what the system had not written yet, often 30 seconds"),
            "no persistence": ("everything", "everything"),
            "persistence unknown": ("unknown: the server does not tell", "unknown: the server does not tell"),
        }.get(self.persistence, ("what came after the last snapshot", "what came after the last snapshot"))
        return Durability("nothing", stored, cut)

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        reservations: list[Reservation] = []
        while asked := min(limit - len(reservations), _PAGE):
            moment, deadline, token = us(now), _deadline(now, retry_after), self._tokens.next()
            reply = self._call("reserve", queue, moment, deadline, token, asked)
            reservations += self._reservations(queue, reply, token)
            if not reply[0] and len(reply) <= asked:
                break
        return reservations

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return bool(self._call("complete", reservation.job.queue, reservation.job.id, reservation.token))

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        queue, token = reservation.job.queue, self._tokens.next()
        fence = (reservation.job.id, reservation.token)
        reply = self._call("complete_and_reserve", queue, *fence, us(now), _deadline(now, retry_after), token, 1)
        following = self._reservations(queue, reply[1], token)
        if not following and reply[1][0]:
            # The job is completed: where the store goes away now, the next one is asked for later.
            with suppress(DriverUnavailable):
                following = self.reserve(queue, now=now, retry_after=retry_after)
        return bool(reply[0]), following[0] if following else None

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        job = reservation.job
        return bool(self._call("release", job.queue, job.id, reservation.token, us(now), us(now) + us(delay)))

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        job = reservation.job
        return bool(self._call("extend", job.queue, job.id, reservation.token, us(now) + us(seconds)))

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        if mended := list(self._pages("mend", queue, int(force))):
            _log.warning("queue=%s: put back %s jobs that stood in no set: were keys deleted?", queue, len(mended))
        recovered: list[Job] = []
        while True:
            page = self._call("recover", queue, us(now), "+inf" if force else us(now))
            recovered += (self._job(queue, row) for row in page[1:])
            if page[0] < _PAGE:
                return recovered

    def clear(self, queue: str, *, now: float) -> int:
        return int(self._call("clear", queue))

    def counts(self, queue: str, *, now: float) -> Counts:
        failing, notes = self._failing(queue), self._noted(queue)
        ready, delayed, reserved = self._call("counts", queue, us(now))
        return Counts(ready, delayed, reserved, self._count_failed(queue, failing, notes))

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        rows = {row[0]: row for row in self._pages("jobs", queue)}
        in_order = sorted(rows.values(), key=lambda row: (row[6], row[10]))
        return [self._job(queue, row) for row in in_order]

    def next_due(self, queue: str, *, now: float) -> float | None:
        reply = self._call("next_due", queue, us(now))
        first = NEVER if reply is None else int(float(reply))
        return None if first >= NEVER else max(now, from_us(first))

    def check(self, queue: str, *, now: float) -> list[str]:
        return [_text(sentence) for sentence in self._pages("check", queue)]

    def delete(self, queue: str) -> None:
        """Delete every key of a queue, its counters and unwritten failures too: for a queue made for an experiment."""
        self._ask("UNLINK", *self.keys(queue))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
            self.failed_jobs.close()
            self._on_close()

    # -- staged failures --

    def _push(self, queue: str, jobs: Sequence[NewJob], now: int) -> list[Job]:
        if not jobs:
            return []
        moments = [max(now, us(job.available_at)) for job in jobs]
        values = (part for job, at in zip(jobs, moments, strict=True) for part in (job.uid, job.name, job.body, at))
        replies = self._call("push", queue, now, *values)
        return [
            self._job(queue, reply)
            if isinstance(reply, list)
            else Job(reply, job.uid, queue, job.name, job.body, 0, from_us(now), from_us(at))
            for job, at, reply in zip(jobs, moments, replies, strict=True)
        ]

    def _stage(self, reservation: Reservation, now: int, attempts: int, error: str, traceback: str) -> bool:
        job = reservation.job
        return bool(self._call("fail", job.queue, job.id, reservation.token, now, attempts, error, traceback))

    def _failing(self, queue: str) -> list[Failing]:
        entries = sorted(self._call("failing", queue), key=lambda entry: int(entry[0]))
        return [_failing(queue, [_text(part) for part in entry[1:]]) for entry in entries]

    def _unstage(self, queue: str, failing: Sequence[Failing]) -> None:
        for start in range(0, len(failing), _PAGE):
            page = failing[start : start + _PAGE]
            self._call("unstage", queue, *(part for entry in page for part in (entry.failed.uid, entry.token)))

    def _again(self, queue: str, rows: Sequence[FailedJob], now: int) -> list[Job | None]:
        if not rows:
            return []
        note = self.failed_jobs.note
        replies = self._call(
            "retry",
            queue,
            now,
            *(part for row in rows for part in (note(row.id, row.uid), row.uid, row.name, row.body)),
        )
        return [self._job(queue, reply) if isinstance(reply, list) else None for reply in replies]

    def _noted(self, queue: str) -> set[str]:
        return {_text(member) for member in self._ask("SMEMBERS", self.keys(queue)[self.key_names.index("retried")])}

    def _drop_notes(self, queue: str, notes: Sequence[str]) -> None:
        if notes:
            self._ask("SREM", self.keys(queue)[self.key_names.index("retried")], *notes)

    # -- the server --

    @property
    def _is_cluster(self) -> bool:
        return "cluster" in (self.info.get("redis_mode"), self.info.get("server_mode"))

    def _cluster(self, node: "redis.Redis") -> Cluster:
        if "path" in node.connection_pool.connection_kwargs:
            raise UnusableStore(
                f"{without_password(self.url)} is a node of a cluster, whose nodes are reached by TCP: "
                "write redis://HOST:PORT"
            )
        return Cluster(node)

    def _pools(self) -> Iterable["redis.ConnectionPool"]:
        client = self._client
        return client.pools() if isinstance(client, Cluster) else [client.connection_pool]

    def keys(self, queue: str) -> list[str]:
        """Name the keys of a queue: they start with the prefix, and share a slot of a cluster."""
        tag = self._tag(queue)
        return [tag + name for name in self.key_names]

    def _tag(self, queue: str) -> str:
        return f"{self.prefix}:{{{escaped(queue)}}}:{self.layout}:"

    def _call(self, verb: str, queue: str, *values: object) -> Any:
        """Run a verb's script; the server is sent its text only where it does not know it."""
        text, keys = script(self.layout, verb), self.keys(queue)
        if self._listeners:
            tell(self._listeners, self._statement(verb, queue, values))
        digest = self._digests.get(verb)
        if digest is None:
            digest = self._digests[verb] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        with self._explained(verb):
            try:
                reply = self._client.execute_command("EVALSHA", digest, str(len(keys)), *keys, *_words(values))
            except redis.exceptions.NoScriptError:
                reply = self._client.execute_command("EVAL", text, str(len(keys)), *keys, *_words(values))
        return self._checked(verb, reply)

    def _checked(self, verb: str, reply: Any) -> Any:
        if (
            verb == "next_due"
            or isinstance(reply, int)
            or (isinstance(reply, list) and (reply or verb in _MAY_BE_EMPTY))
        ):
            return reply
        raise UnexpectedReply(
            f"{self}: the answer to {verb} is {reply!r}: is something else between qlab and the server?"
        )

    def _pages(self, verb: str, queue: str, *values: object) -> Iterator[Any]:
        cursor = "0"
        while True:
            page = self._call(verb, queue, cursor, *values)
            yield from page[1:]
            cursor = _text(page[0])
            if cursor == "0":
                return

    def _ask(self, command: str, *values: object) -> Any:
        if self._listeners:
            words = " ".join(shortened(str(value)) for value in values)
            tell(self._listeners, Statement("Redis", command.lower(), command, words))
        with self._explained(command):
            return self._client.execute_command(command, *_words(values))

    def _settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in ("appendonly", "appendfsync", "save"):
            reply = self._ask("CONFIG GET", name)
            found |= {_text(key): _text(value) for key, value in reply.items()}
        return found

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        if self._closed:
            raise QueueClosed()
        try:
            yield
        except redis.exceptions.RedisError as error:
            raise (QueueClosed() if self._closed else self._meaning(what, error)) from error
        except BaseException as error:
            # Interrupted between question and answer, a connection would give the next question this one's answer.
            for pool in self._pools():
                pool.disconnect(inuse_connections=False)
            if self._closed and isinstance(error, Exception):
                raise QueueClosed from error
            if not isinstance(error, OSError):
                raise
            raise ReplyLost(f"{without_password(self.url)} does not answer: {error}") from error

    def _meaning(self, what: str, error: Exception) -> Exception:
        where, said = without_password(self.url), str(error)
        code = _code(error, said)
        if isinstance(error, redis.exceptions.ConnectionError) and "connecting to" in said:
            return DriverUnavailable(
                f"{where} does not answer ({said}): is a server running there? redis+embedded:// needs none"
            )
        lost = isinstance(error, redis.exceptions.ConnectionError | redis.exceptions.TimeoutError)
        if lost and code not in _MEANINGS:
            return ReplyLost(f"{where} did not answer {what} ({said}); it may or may not have been done")
        if code == "WRONGTYPE":
            return UnusableStore(
                f"{where}: a key under the prefix {self.prefix!r} is another application's: choose another prefix"
            )
        return DriverUnavailable(f"{where} could not run {what}: {_MEANINGS.get(code, 'the server refused')} ({said})")

    def _statement(self, verb: str, queue: str, values: Sequence[object]) -> Statement:
        files = ("complete", "reserve") if verb == "complete_and_reserve" else (verb,)
        argv = " ".join(shortened(str(value)) for value in values)
        return Statement(
            "Lua",
            verb,
            "\n".join(lua(self.layout, file) for file in files),
            f"KEYS {shortened(self._tag(queue), 300)}* ARGV {argv}",
        )

    # -- replies --

    def _reservations(self, queue: str, reply: Sequence[Any], token: str) -> list[Reservation]:
        return [
            Reservation(self._job(queue, row), f"{token}-{row[0]}", from_us(row[8]), bool(row[9])) for row in reply[1:]
        ]

    def _job(self, queue: str, row: Sequence[Any]) -> Job:
        reserved_at = None if row[7] is None else from_us(row[7])
        return Job(
            row[0],
            _text(row[1]),
            queue,
            _text(row[2]),
            _text(row[3]),
            row[4],
            from_us(row[5]),
            from_us(row[6]),
            reserved_at,
        )


_MAY_BE_EMPTY = ("failing", "push", "retry")


_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (redis.exceptions.AuthenticationError, "WRONGPASS"),
    (redis.exceptions.BusyLoadingError, "LOADING"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.OutOfMemoryError, "OOM"),
    (redis.exceptions.ReadOnlyError, "READONLY"),
    (redis.exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis.exceptions.ClusterCrossSlotError, "CROSSSLOT"),
    (redis.exceptions.MovedError, "MOVED"),
    (redis.exceptions.AskError, "ASK"),
    (redis.exceptions.TryAgainError, "TRYAGAIN"),
)


def _code(error: Exception, said: str) -> str:
    """Tell the code that the server's error began with; redis-py takes it away from those it has classes for."""
    if "HELLO must be called" in said or "Authentication required" in said:
        return "NOAUTH"
    if any(words in said for words in ("can't run this command", "No permissions to access", "ACL failure in script")):
        return "NOPERM"
    written = said.split(" ", 1)[0].rstrip(":")
    return next((code for kind, code in _CLASSES if isinstance(error, kind)), written)


def _words(values: Sequence[object]) -> list[str]:
    """Send text only: hiredis crashes where a signal comes while it converts a number."""
    return [value if isinstance(value, str) else str(value) for value in values]


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


def _own(client: "redis.Redis") -> "redis.Redis":
    """Make a client with a pool like another's, but with plain bytes and without resending."""
    pool = client.connection_pool
    settings = dict(pool.connection_kwargs)
    settings |= {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "retry_on_timeout": False,
        "decode_responses": False,
    }
    settings["socket_timeout"] = settings.get("socket_timeout") or REPLY_WAIT
    settings["encoding"] = "utf-8"
    own = redis.ConnectionPool(connection_class=pool.connection_class, **settings)
    return redis.Redis.from_pool(own)


def _url_of(client: "redis.Redis", driver: RedisStore) -> str:
    at = client.connection_pool.connection_kwargs
    where = f"unix://{at['path']}" if "path" in at else f"redis://{at.get('host', 'localhost')}:{at.get('port', 6379)}"
    options = {"db": at.get("db", 0), "layout": driver.layout, "prefix": driver.prefix}
    return f"{where}?{urlencode(options | {'failed_jobs': driver.failed_jobs.url}, safe=':/', quote_via=quote)}"


def _deadline(now: float, retry_after: float | None) -> int:
    return NEVER if retry_after is None else us(now) + us(retry_after)


def _failing(queue: str, entry: Sequence[str]) -> Failing:
    uid, token, name, body, attempts, error, traceback, dispatched_at, failed_at = entry
    times = from_us(int(dispatched_at)), from_us(int(failed_at))
    return Failing(token, FailedJob(None, uid, queue, name, body, int(attempts), error, traceback, *times))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
