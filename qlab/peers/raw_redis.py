"""Bare loops on Redis: plain redis-py and the drivers' own scripts, with nothing around them; and qlab's loop.

`python -m qlab.peers.raw_redis` is one worker of either kind as a process of its own: its setup has its `kind`, `raw`
or `qlab`, and what `Place` tells.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import redis

from qlab.clock import SystemClock, monotonic
from qlab.contend.member import Member
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.statements import script
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.tokens import Tokens

NAME = "noop"
"""The handler that does nothing but look at its payload."""

_RETRY_AFTER = 90_000_000  # microseconds
_CHUNK = 500  # jobs in a pipeline, as in a script of `dispatch_many`


class Place(NamedTuple):
    """A queue on a server, as plain redis-py sees it.

    Attributes:
        url: The server's address, for redis-py.
        store: The store's address, for qlab.
        queue: The queue's name.
        layout: `zset` or `list`.
        keys: The queue's keys, in the order in which the scripts take them.
    """

    url: str
    store: str
    queue: str
    layout: str
    keys: list[str]


class Raw:
    """A worker made of plain redis-py.

    Args:
        place: The queue.
    """

    def __init__(self, place: Place) -> None:
        self.client = redis.Redis.from_url(place.url)
        self._place = place
        self._tokens = Tokens()
        self._clock = SystemClock()
        for verb in ("reserve", "complete"):
            self.client.script_load(script(place.layout, verb))

    def work(self) -> int:
        """Reserve each job, look at its payload, complete it, until nothing is due; tell how many those were."""
        execute: Any = self.client.execute_command
        now, token, reserve, complete = self._now, self._tokens.next, self._call("reserve"), self._call("complete")
        for done in count():
            mine, at = token(), now()
            _, *rows = execute(*reserve, at, at + _RETRY_AFTER, mine, 1)
            if not rows:
                return done
            id, _, _, payload, *_ = rows[0]
            json.loads(payload)
            execute(*complete, id, f"{mine}-{id}")
        raise AssertionError("there is always another number")

    def fill(self, payloads: Sequence[object]) -> None:
        """Store a job for each payload by pipelines of single writes, which leave what the driver's script leaves."""
        keys = dict(zip(self._names(), self._place.keys, strict=True))
        for start in range(0, len(payloads), _CHUNK):
            chunk = payloads[start : start + _CHUNK]
            ids = self.client.hincrby(keys["counters"], "id", len(chunk)) - len(chunk)
            seqs = self.client.hincrby(keys["counters"], "seq", len(chunk)) - len(chunk)
            at = self._now()
            with self.client.pipeline(transaction=False) as writes:
                for number, payload in enumerate(chunk, start=1):
                    id, uid = ids + number, self._tokens.next()
                    writes.hset(keys["rows"], id, _row(uid, at, seqs + number))
                    writes.hset(keys["bodies"], id, json.dumps(payload, separators=(",", ":")))
                    writes.hset(keys["uids"], uid, id)
                    if "ready" in keys:
                        writes.rpush(keys["ready"], f"{id}:1")
                    else:
                        writes.zadd(keys["available"], {f"{seqs + number:016d}:{id}": at})
                writes.execute()

    def close(self) -> None:
        """Give up the connection."""
        self.client.close()

    def _now(self) -> int:
        return round(self._clock.now() * 1_000_000)

    def _names(self) -> list[str]:
        return [key.rpartition(":")[2] for key in self._place.keys]

    def _call(self, verb: str) -> tuple[Any, ...]:
        digest = hashlib.sha1(script(self._place.layout, verb).encode(), usedforsecurity=False).hexdigest()
        return ("EVALSHA", digest, len(self._place.keys), *self._place.keys)


class Ours:
    """A worker of qlab, with its whole loop and without a trace.

    Args:
        place: The queue.
    """

    def __init__(self, place: Place) -> None:
        self.queue = Queue(place.store, name=place.queue, trace=False)
        self.queue.handler(NAME)(_look)
        self.queue.counts()  # The connection is there, and has answered.

    def work(self) -> int:
        """Work until nothing is due; tell how many jobs were completed."""
        done = count()
        self.queue.work(lambda _: next(done))
        return next(done)

    def fill(self, payloads: Sequence[object]) -> None:
        """Store a job for each payload."""
        self.queue.dispatch_many((NAME, payload) for payload in payloads)

    def close(self) -> None:
        """Give up the connection."""
        self.queue.close()


KINDS: dict[str, Callable[[Place], Raw | Ours]] = {"raw": Raw, "qlab": Ours}
"""The two kinds of worker."""


def place_of(driver: RedisStore, queue: str) -> Place:
    """Tell where a queue of a store on one server is."""
    return Place(driver.url.partition("?")[0], driver.url, queue, driver.layout, driver.keys(queue))


def _look(job: Attempt) -> None:
    """Do nothing but decode the payload."""
    _ = job.payload


def _row(uid: str, at: int, seq: int) -> bytes:
    """Pack a new job's fields as `save` in `row.lua` does."""
    name = NAME.encode()
    head = b"\x9b\xd9%c%b%c%b" % (len(uid), uid.encode(), 0xA0 | len(name), name)
    return head + struct.pack(">BQBBQBQ", 0xCF, at, 0, 0xCF, at, 0xCF, seq) + b"\xc2\xc2\xc2\xc2\x01"


def main() -> None:
    """Get ready, wait for the start, work, and tell how many jobs that were, and when it was done."""
    member = Member()
    setup = member.setup()
    worker = KINDS[setup.pop("kind")](Place(**setup))
    member.start()
    done = worker.work()
    member.tell("end", done, monotonic())


if __name__ == "__main__":
    main()
