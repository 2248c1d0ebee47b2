"""What each arm of a contention did at most, by what it survives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from qlab.driver import SURVIVED
from qlab.frames.predictions import round_trip_of

SHARE = 0.7
"""How much of the most that a store did it is counted on for: beyond it, waits grow faster than the rate."""

_RISING = 1.5  # times what half the workers did: they were too few, and the store has more
_STORES = {"sqlite": "SQLite", "redis_zset": "Redis", "redis_list": "Redis"}

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Limit:
    """An arm at its fastest.

    Attributes:
        arm: Its name.
        store: Whose it is: `SQLite`, `Redis`, or the driver's name.
        rows: What it did with each number of workers, fewest first: rows of `frames.contention`.
    """

    arm: str
    store: str
    rows: Sequence[Row]

    @property
    def top(self) -> Row:
        """What it did with as many workers as were the fastest together."""
        return max(self.rows, key=lambda row: float(row["jobs_per_second"]))

    @property
    def rate(self) -> float:
        """The most that it did, in jobs a second: a median of repeats."""
        return float(self.top["jobs_per_second"])

    @property
    def enough(self) -> float:
        """Up to how many jobs a second it is counted on."""
        return SHARE * self.rate

    @property
    def rising(self) -> bool:
        """Whether the most workers still did far more than half of them: they were the limit, not the store."""
        workers = self.top["workers"]
        fewer = [row for row in self.rows if 2 * row["workers"] <= workers]
        last = workers == self.rows[-1]["workers"]
        return last and bool(fewer) and self.rate > _RISING * fewer[-1]["jobs_per_second"]

    def serving(self, rate: float) -> Row:
        """Give the fewest workers that can be counted on for a rate, up to `enough`."""
        return next(row for row in self.rows if SHARE * row["jobs_per_second"] >= rate)


@dataclass(frozen=True)
class Class:
    """The arms that survive the same.

    Attributes:
        survives: What they survive.
        limits: Each arm.
    """

    survives: str
    limits: Sequence[Limit]

    @property
    def near(self) -> list[Limit]:
        """Those without a round trip added."""
        return [each for each in self.limits if not round_trip_of(each.arm)]

    def best(self, store: str) -> Limit | None:
        """Give a store's fastest of these."""
        there = (each for each in self.near if each.store == store)
        return max(there, key=lambda each: each.rate, default=None)


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Give the rows of `frames.contention` in which something was done, with text in place of categories."""
    done = frame[frame["jobs_per_second"] > 0]
    texts = {name: done[name].astype(str) for name in ("arm", "driver", "survives")}
    return [{str(name): value for name, value in row.items()} for row in done.assign(**texts).to_dict("records")]


def classes_of(rows: Iterable[Row]) -> list[Class]:
    """Put arms together by what they survive; those that survive most first."""
    arms: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        arms.setdefault((row["survives"], row["arm"]), []).append(row)
    return [
        Class(survives, [_limit(mine) for (theirs, _), mine in arms.items() if theirs == survives])
        for survives in reversed(SURVIVED)
        if any(theirs == survives for theirs, _ in arms)
    ]


def _limit(rows: list[Row]) -> Limit:
    arm, driver = str(rows[0]["arm"]), str(rows[0]["driver"])
    return Limit(arm, _STORES.get(driver, driver), sorted(rows, key=lambda row: int(row["workers"])))
