"""A service that sentinels watch over: each command goes to the server that they call its primary.

redis-py's own pool for sentinels calls a refusal by a server that has become a replica a broken connection, so that
nobody learns that nothing was done.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import redis
from redis.exceptions import MasterDownError, ReadOnlyError, ResponseError

from qlab.drivers.redis_commands import Client, Command, command

_WHERE = command("SENTINEL GET-MASTER-ADDR-BY-NAME")
_NO_ANSWER = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)
_NO_PRIMARY = (ReadOnlyError, MasterDownError)

Place = tuple[str, int]


class NoPrimary(redis.exceptions.ConnectionError):
    """No sentinel could be asked which server is the primary."""


class NoService(redis.exceptions.RedisError):
    """The sentinels watch over no such service, or are none."""


class Sentinels:
    """Stands for a client of whichever server is a service's primary.

    Its sentinels are asked when the first command comes, and again after the primary did not answer or said that it is
    one no more. Nothing is sent a second time but what was refused, by a replica or with the connection, and only where
    they name another server by then.

    Args:
        watchers: A client of each sentinel.
        service: What they call the service.
        like: Connections of this kind are made to the service's servers.

    Attributes:
        service: What they call the service.
        primary: Where the last primary is, `host:port`; empty before the first command.
    """

    def __init__(self, watchers: Sequence[Client], service: str, like: "redis.ConnectionPool") -> None:
        self.service = service
        self.primary = ""
        self._watchers = list(watchers)
        self._like = like
        self._nodes: dict[Place, Client] = {}
        self._now: Client | None = None

    def ask(self, command: Command, values: Sequence[object] = ()) -> Any:
        """Run a command on the primary."""
        node = self._now or self._found()
        try:
            return self._run(node, command, values)
        except (*_NO_ANSWER, *_NO_PRIMARY) as error:
            if not _was_left_undone(error) or self._found() is node:
                raise
        return self._run(self._now or self._found(), command, values)

    def forget(self) -> None:
        """Give up the connections that are not in use, to every server and sentinel."""
        for each in (*self._nodes.values(), *self._watchers):
            each.forget()

    def pools(self) -> "Iterator[redis.ConnectionPool]":
        """Tell the connection pools of the servers that were used, and of the sentinels."""
        return (each.connection_pool for each in (*self._nodes.values(), *self._watchers))

    def close(self) -> None:
        """Close the connections to every server and sentinel."""
        for each in (*self._nodes.values(), *self._watchers):
            each.close()

    def _run(self, node: Client, command: Command, values: Sequence[object]) -> Any:
        try:
            return node.ask(command, values)
        except (*_NO_ANSWER, *_NO_PRIMARY):
            if self._now is node:
                self._now = None
            node.forget()
            raise

    def _found(self) -> Client:
        place = self._named()
        if place not in self._nodes:
            settings = self._like.connection_kwargs | {"host": place[0], "port": place[1]}
            pool = redis.ConnectionPool(connection_class=self._like.connection_class, **settings)
            self._nodes.setdefault(place, Client(pool))
        self.primary = f"{place[0]}:{place[1]}"
        self._now = self._nodes[place]
        return self._now

    def _named(self) -> Place:
        """Ask one sentinel after the other where the primary is; who answers is asked first from then on."""
        silent: list[str] = []
        for watcher in list(self._watchers):
            try:
                named = watcher.ask(_WHERE, (self.service,))
            except _NO_ANSWER as error:
                silent.append(_why(error))
                continue
            except ResponseError as error:
                if "unknown command" in str(error).lower():
                    raise NoService(f"{_place(watcher)} is no sentinel: write redis://{_place(watcher)}") from error
                raise
            if named is not None:
                self._watchers.sort(key=lambda each: each is not watcher)
                host, port = named
                return _text(host), int(port)
        if len(silent) < len(self._watchers):
            raise NoService(f"its sentinels know no service {self.service!r}: is its name right?")
        raise NoPrimary("; ".join(dict.fromkeys(silent)))


def _was_left_undone(error: Exception) -> bool:
    return isinstance(error, _NO_PRIMARY) or "connecting to" in str(error)


def _place(watcher: Client) -> str:
    at = watcher.connection_pool.connection_kwargs
    return f"{at.get('host', 'localhost')}:{at.get('port', 26379)}"


def _why(error: Exception) -> str:
    cause = error.__context__
    return (isinstance(cause, OSError) and cause.strerror) or str(error)


def _text(host: bytes | str) -> str:
    return host.decode() if isinstance(host, bytes) else host
