"""A cluster behind one client: each command goes to the node that has its key's slot.

redis-py's own cluster client tells too little: where a node goes away it looks for the others before it raises, and
when that fails as well, nobody learns whether the command had been sent. It also wants the right to ask the server
where a command's keys are.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import redis
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, MovedError

from qlab.drivers.redis_commands import Client, Command, command

_REDIRECTIONS = 5
_SLOTS = command("CLUSTER SLOTS")
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

    def __init__(self, seed: Client) -> None:
        at = seed.connection_pool.connection_kwargs
        self._seed = seed
        self._nodes = {Place(at.get("host", "localhost"), int(at.get("port", 6379))): seed}
        self._owners: dict[int, Place] = {}
        self._silent: set[Place] = set()

    def ask(self, command: Command, values: Sequence[object] = ()) -> Any:
        """Run a command on the node that has its key, or on the first that answers where it has none."""
        if not command.key:
            return self._of_any(command, values)[1]
        slot = key_slot(command.key.encode())
        for _ in range(_REDIRECTIONS):
            try:
                return self._of(slot, command, values)
            except MovedError:
                continue
        return self._of(slot, command, values)

    def forget(self) -> None:
        """Give up the connections that are not in use, of every node."""
        for node in list(self._nodes.values()):
            node.forget()

    def pools(self) -> Iterator["redis.ConnectionPool"]:
        """Tell the connection pools of the nodes that were used."""
        return (node.connection_pool for node in list(self._nodes.values()))

    def close(self) -> None:
        """Close the connections to every node."""
        for node in list(self._nodes.values()):
            node.close()

    def _of(self, slot: int, command: Command, values: Sequence[object]) -> Any:
        place = self._owner(slot)
        try:
            return self._node(place).ask(command, values)
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
        asked, ranges = self._of_any(_SLOTS)
        owners: dict[int, Place] = {}
        for first, last, *nodes in ranges:
            # A node that does not know its own name leaves it out: it is the one that was asked.
            places = [Place(_text(host) or asked.host, port) for host, port, *_ in nodes]
            owners |= dict.fromkeys(range(first, last + 1), places[0])
            for place in places:
                self._node(place)  # known from now on, also a replica: it can be asked when others are gone
        return owners

    def _of_any(self, command: Command, values: Sequence[object] = ()) -> tuple[Place, Any]:
        problem: Exception = AssertionError("there is always the first node")
        for place, node in sorted(self._nodes.items(), key=lambda each: each[0] in self._silent):
            try:
                answer = node.ask(command, values)
            except _NO_ANSWER as error:
                problem = error
                self._silent.add(place)
            else:
                self._silent.discard(place)
                return place, answer
        raise problem

    def _node(self, place: Place) -> Client:
        if place not in self._nodes:
            pool = self._seed.connection_pool
            settings = pool.connection_kwargs | place._asdict()
            node = Client(redis.ConnectionPool(connection_class=pool.connection_class, **settings))
            return self._nodes.setdefault(place, node)
        return self._nodes[place]


def _text(host: bytes | str | None) -> str:
    return host.decode() if isinstance(host, bytes) else host or ""
