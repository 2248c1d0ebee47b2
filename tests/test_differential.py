"""The same chance steps on every driver of one order: after each of them they must say the same."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import DRIVERS, QUEUE, Servers, Store, snapshot

from qlab import drivers
from qlab.driver import Driver
from qlab.job import NewJob, Reservation

GROUPS = {
    "available_at": ("memory", "sqlite", "sqlite-memory", "redis_zset-valkey"),
    "arrival": ("memory-arrival", "redis_list-valkey"),
}
STEPS = 200


class Arm(NamedTuple):
    """A driver, and the reservations that it has given so far."""

    driver: Driver
    held: list[Reservation]


@pytest.fixture(params=GROUPS)
def arms(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[list[Arm]]:
    with ExitStack() as opened:

        def arm(store: Store) -> Arm:
            server = servers[store.server].url if store.server else ""
            url = store.url.format(folder=tmp_path, server=server, prefix=tmp_path.name)
            return Arm(opened.enter_context(drivers.open(url)), [])

        yield [arm(store) for store in DRIVERS if store.name in GROUPS[request.param]]


Step = Callable[[Arm, float], Any]


class Chance:
    """Draws steps; a step is drawn once and then taken on every arm."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._uids: list[str] = []
        self._given = 0

    def step(self) -> tuple[str, Step]:
        kinds = {
            self.push: 6, self.push_again: 1, self.reserve: 8, self.settle: 8, self.fuse: 2,
            self.recover: 1, self.clear: 0.2, self.retry: 2, self.forget: 0.5,
        }  # fmt: skip
        return self._random.choices(list(kinds), list(kinds.values()))[0]()

    def seconds(self) -> float:
        return self._random.choice((0.0, 0.0, 0.0, 0.25, 1.0, 3.0, 10.0))

    def push(self) -> tuple[str, Step]:
        many = 130 if self._random.random() < 0.01 else self._random.randint(1, 4)
        delays = [self._random.choice((0.0, 0.0, 1.0, 5.0, -3.0)) for _ in range(many)]
        uids = [f"{self._random.getrandbits(128):032x}" for _ in delays]
        self._uids += uids
        return f"push {delays[:4]} ({many})", lambda arm, now: arm.driver.push(
            QUEUE,
            [NewJob(uid, f"job {uid[:4]}", f'"{uid}"', now + delay) for uid, delay in zip(uids, delays, strict=True)],
            now=now,
        )

    def push_again(self) -> tuple[str, Step]:
        uid, resent = self._random.choice(self._uids or ["0" * 32]), self._random.random() < 0.7
        return f"push again {uid[:4]} {resent=}", lambda arm, now: arm.driver.push(
            QUEUE, [NewJob(uid, "again", "null", now)], now=now, resent=resent
        )

    def reserve(self) -> tuple[str, Step]:
        limit, retry_after = self._random.choice((1, 1, 1, 2, 5)), self._random.choice((2.0, 5.0, 10.0, None))

        def take(arm: Arm, now: float) -> list[Any]:
            batch = arm.driver.reserve(QUEUE, now=now, retry_after=retry_after, limit=limit)
            arm.held.extend(batch)
            return [held._replace(token="") for held in batch]

        return f"reserve {limit=} {retry_after=}", take

    def settle(self) -> tuple[str, Step]:
        """Any reservation that there ever was, the late ones more often."""
        back, delay = self._back(), self._random.choice((0.0, 1.0, 4.0))
        verb = self._random.choice(("complete", "complete", "release", "release", "extend", "fail"))
        more: dict[str, Any] = {
            "complete": {},
            "release": {"delay": delay},
            "extend": {"seconds": delay + 1.0},
            "fail": {"attempts": 3, "error": "boom"},
        }[verb]

        def settle(arm: Arm, now: float) -> Any:
            return back <= len(arm.held) and getattr(arm.driver, verb)(arm.held[-back], now=now, **more)

        return f"{verb} -{back} {more}", settle

    def fuse(self) -> tuple[str, Step]:
        back = self._back()

        def fuse(arm: Arm, now: float) -> Any:
            if back > len(arm.held):
                return None
            done, following = arm.driver.complete_and_reserve(arm.held[-back], now=now, retry_after=5.0)
            if following:
                arm.held.append(following)
            return done, following and following._replace(token="")

        return f"complete -{back} and reserve", fuse

    def recover(self) -> tuple[str, Step]:
        force = self._random.random() < 0.2
        return f"recover {force=}", lambda arm, now: arm.driver.recover(QUEUE, now=now, force=force)

    def clear(self) -> tuple[str, Step]:
        return "clear", lambda arm, now: arm.driver.clear(QUEUE, now=now)

    def retry(self) -> tuple[str, Step]:
        share = self._random.random()

        def retry(arm: Arm, now: float) -> Any:
            ids = arm.driver.failed_ids(QUEUE)
            return arm.driver.retry(QUEUE, [*ids[: round(len(ids) * share)], 999], now=now)

        return f"retry {share:.2f}", retry

    def forget(self) -> tuple[str, Step]:
        return "forget", lambda arm, now: arm.driver.forget(QUEUE, arm.driver.failed_ids(QUEUE, before=now - 5.0)[:2])

    def _back(self) -> int:
        return self._random.choice((1, 1, 2, 3, 5, 8, 20))


@pytest.mark.parametrize("back", [False, True], ids=["steady", "clock-goes-back"])
@pytest.mark.parametrize("seed", range(3))
def test_drivers_of_one_order_say_the_same_at_every_step(arms: list[Arm], seed: int, back: bool) -> None:
    chance, now, steps = Chance(seed), 0.0, []
    for _ in range(STEPS):
        now += chance.seconds() * (-1 if back and chance.seconds() == 10.0 else 1)
        name, take = chance.step()
        steps.append(f"{now:g}: {name}")
        answers = [(take(arm, now), snapshot(arm.driver, now=now)) for arm in arms]
        for arm, answer in zip(arms, answers, strict=True):
            assert answer == answers[0], "\n".join(
                [f"{arms[0].driver.name} and {arm.driver.name} differ after", *steps]
            )
    assert [arm.driver.check(QUEUE, now=now) for arm in arms] == [[] for _ in arms]
