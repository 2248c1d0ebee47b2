"""The short way to a server: a command whose beginning is packed already, on a connection that redis-py made and reads.

redis-py's own way to run a command takes longer than the server takes for a whole script. Connections, their passwords,
certificates and answers are redis-py's here too.
"""

import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import redis

_UNUSABLE = (redis.exceptions.RedisError, OSError)


class Command(NamedTuple):
    """What every call of a command begins with.

    Attributes:
        name: The command.
        key: The key that tells which node of a cluster runs it; empty where any does.
        words: How many words it begins with.
        packed: Those words, as the protocol has them.
    """

    name: str
    key: str
    words: int
    packed: bytes

    def call(self, values: Sequence[object]) -> bytes:
        """Pack a call with the values that follow."""
        return b"".join([b"*%d\r\n" % (self.words + len(values)), self.packed, *_packed(values)])


def command(name: str, *words: object, key: str = "") -> Command:
    """Pack what every call of a command begins with, such as a script and its keys."""
    beginning = (*name.split(), *words)
    return Command(name, key, len(beginning), b"".join(_packed(beginning)))


class Client(redis.Redis):
    """A client that runs a command once, and never uses a connection again whose last answer it has not read.

    One that an interrupt leaves between question and answer is lost, and closed with whoever held it.

    Args:
        pool: Tells what connections are like; it closes with the client.
    """

    def __init__(self, pool: "redis.ConnectionPool") -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._idle: list[redis.Connection] = []
        self._made: set[weakref.ref[redis.Connection]] = set()

    def ask(self, command: Command, values: Sequence[object] = ()) -> Any:
        """Run a command and give its answer; raises what redis-py raises."""
        packed, connection = command.call(values), self._connection()
        try:
            connection.send_packed_command((packed,))
            answer = connection.read_response()
            if (read := self.response_callbacks.get(command.name)) is not None:
                answer = read(answer)
        except redis.exceptions.ResponseError:  # an answer as well
            self._idle.append(connection)
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return answer

    def forget(self) -> None:
        """Close every connection that is not in use: its next answer may be another question's."""
        while (connection := self._taken()) is not None:
            connection.disconnect()

    def close(self) -> None:
        """Close all connections, those in use too."""
        super().close()
        for made in self._made.copy():
            if connection := made():
                connection.disconnect()

    def _connection(self) -> "redis.Connection":
        while (connection := self._taken()) is not None:
            if connection.pid == os.getpid() and _is_silent(connection):
                return connection
            connection.disconnect()
        pool = self.connection_pool
        made: redis.Connection = pool.connection_class(**pool.connection_kwargs)
        self._made.add(weakref.ref(made, self._made.discard))
        return made

    def _taken(self) -> "redis.Connection | None":
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _is_silent(connection: "redis.Connection") -> bool:
    """Tell whether a connection is open and nothing has come on it that nobody asked for."""
    try:
        return not connection.can_read()
    except _UNUSABLE:
        return False


def _packed(words: Iterable[object]) -> list[bytes]:
    """Pack words as text: hiredis, with which redis-py packs, crashes where a signal comes as it converts a number."""
    packed: list[bytes] = []
    for word in words:
        encoded = str(word).encode()
        packed += (b"$%d\r\n" % len(encoded), encoded, b"\r\n")
    return packed
