"""A cluster behind one client: each command goes to the node that has its key's slot.

redis-py's own cluster client tells too little: where a node goes away it looks for the others before it raises, and
when that fails as well, nobody learns whether the command had been sent. It also wants the right to ask the server
where a command's keys are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import redis
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, MovedError

_REDIRECTIONS = 5
_KEY_AT = {"EVALSHA": 3, "EVAL": 3, "SMEMBERS": 1, "SREM": 1, "UNLINK": 1, "BLPOP": 1}
_NO_ANSWER = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)


class Place(NamedTuple):
    """Where a node listens.

    Attributes:
        host: Its name or number.
        port: Its port.
    """

    host: str
    port: int


class Cluster:
    """Stands for a client in front of a cluster's nodes; which node has which slot is asked when it matters.

    Nothing is sent a second time but what a node refused because another has its slot. A node that does not answer is
    told as such, and the next command asks anew who has which slot.

    Args:
        seed: A client of any node; the others' are like it.
    """

    def __init__(self, seed: "redis.Redis") -> None:
        at = seed.connection_pool.connection_kwargs
        self._seed = seed
        self._nodes = {Place(at.get("host", "localhost"), int(at.get("port", 6379))): seed}
        self._owners: dict[int, Place] = {}
        self._silent: set[Place] = set()

    def execute_command(self, *words: str) -> Any:
        """Run a command on the node that has its first key, or on the first that answers where it has none."""
        at = _KEY_AT.get(words[0])
        if at is None:
            return self._of_any(*words)[1]
        slot = key_slot(words[at].encode())
        for _ in range(_REDIRECTIONS):
            try:
                return self._of(slot, *words)
            except MovedError:
                continue
        return self._of(slot, *words)

    def pools(self) -> Iterator["redis.ConnectionPool"]:
        """Tell the connection pools of the nodes that were used."""
        return (node.connection_pool for node in list(self._nodes.values()))

    def close(self) -> None:
        """Close the connections to every node."""
        for node in list(self._nodes.values()):
            node.close()

    def _of(self, slot: int, *words: str) -> Any:
        place = self._owner(slot)
        try:
            return self._node(place).execute_command(*words)
        except MovedError as moved:
            self._owners[slot] = Place(moved.host or place.host, moved.port)
            raise
        except (*_NO_ANSWER, ClusterDownError):
            self._owners = {}
            raise

    def _owner(self, slot: int) -> Place:
        if not self._owners:
            self._owners = self._ask_owners()
        if slot not in self._owners:
            raise ClusterDownError(f"no node has the slot {slot}")
        return self._owners[slot]

    def _ask_owners(self) -> dict[int, Place]:
        asked, ranges = self._of_any("CLUSTER", "SLOTS")
        owners: dict[int, Place] = {}
        for first, last, *nodes in ranges:
            # A node that does not know its own name leaves it out: it is the one that was asked.
            places = [Place(_text(host) or asked.host, port) for host, port, *_ in nodes]
            owners |= dict.fromkeys(range(first, last + 1), places[0])
            for place in places:
                self._node(place)  # known from now on, also a replica: it can be asked when others are gone
        return owners

    def _of_any(self, *words: str) -> tuple[Place, Any]:
        problem: Exception = AssertionError("there is always the first node")
        for place, node in sorted(self._nodes.items(), key=lambda each: each[0] in self._silent):
            try:
                answer = node.execute_command(*words)
            except _NO_ANSWER as error:
                problem = error
                self._silent.add(place)
            else:
                self._silent.discard(place)
                return place, answer
        raise problem

    def _node(self, place: Place) -> "redis.Redis":
        if place not in self._nodes:
            pool = self._seed.connection_pool
            settings = pool.connection_kwargs | place._asdict()
            node = redis.Redis.from_pool(redis.ConnectionPool(connection_class=pool.connection_class, **settings))
            return self._nodes.setdefault(place, node)
        return self._nodes[place]


def _text(host: bytes | str | None) -> str:
    return host.decode() if isinstance(host, bytes) else host or ""
