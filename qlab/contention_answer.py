"""What a contention means, in words: which store is enough until when, and what cannot be said."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from qlab import frames
from qlab.contend import Contention
from qlab.contention_limits import SHARE, Class, Limit, Row, classes_of, rows_of
from qlab.frames.predictions import Prediction, predictions, round_trip_of
from qlab.show import rounded

_ENOUGH = (
    f"A store is counted on for {SHARE:.0%} of the most that it did here; the mean time in line for it at that rate is "
    "what M/M/1 gives, for arrivals by chance, and the call that reserves comes on top. No power was cut: what "
    "survives one is what the settings promise."
)
_FAR = 0.0005  # seconds: a round trip within a data centre
_FAR_OFF = 1.5  # times what a model foretold: it does not hold then
_LITTLE = 1e-6  # seconds: shorter waits are not told apart


def answer(found: Contention, *, rate: float | None = None) -> list[str]:
    """Say in sentences which store is enough until when, each with its numbers, and what cannot be said.

    Args:
        found: What `qlab.contention` gave.
        rate: How many jobs come in a second: what is enough for them comes first.

    Raises:
        ValueError: The rate is not above 0.
    """
    if rate is not None and not 0 < rate < math.inf:
        raise ValueError(f"rate is {rate!r}: use a number of jobs a second above 0")
    return list(_sentences(found, frames.contention(found), rate))


def _sentences(found: Contention, frame: pd.DataFrame, rate: float | None) -> Iterator[str]:
    rows = rows_of(frame)
    classes = classes_of(rows)
    if rate is not None:
        yield from (_at_rate(each, rate) for each in classes)
    yield from _whole(rows)
    yield from (_standing(each) for each in classes if each.near)
    if rows:
        yield _ENOUGH
    yield from _network(frame, rows)
    yield from _not_said(found, rows, classes)


def _whole(rows: Sequence[Row]) -> Iterator[str]:
    odd = [row for row in rows if row["lost"] or row["duplicated"]]
    for row in odd:
        yield (
            f"WRONG: {row['arm']} with {_workers(row['workers'])} lost {_count(row['lost'], 'job')} and did "
            f"{row['duplicated']:,} twice."
        )
    if rows and not odd:
        jobs = sum(row["jobs"] * row["runs"] for row in rows)
        yield f"Of {_count(jobs, 'job')}, no arm lost one or did one twice."


# -- where all survive the same --


def _standing(arms: Class) -> str:
    """Say which store is enough until when, and what each did at most."""
    sqlite, redis = arms.best("SQLite"), arms.best("Redis")
    if sqlite is None or redis is None:
        shown, said = arms.near, "; ".join(f"{each.arm} until {_until(each)}" for each in arms.near)
    else:
        shown, said = [sqlite, redis], _both(sqlite, redis)
    return f"To survive {arms.survives}: {said}. At most, {'; '.join(map(_most, shown))}."


def details(arms: Class) -> list[str]:
    """Say of arms that survive the same who is the faster, how evenly workers share, and what one worker foretold."""
    sqlite, redis = arms.best("SQLite"), arms.best("Redis")
    both = [_faster(sqlite, redis)] if sqlite and redis else []
    return [f"{each}." for each in (*both, _shared(arms.near), _models(arms.near)) if each]


def _both(sqlite: Limit, redis: Limit) -> str:
    first, second = f"SQLite until {_until(sqlite)}", f"Redis until {_until(redis)}"
    if _once(sqlite.top, redis.top):
        return f"{first}; {second}"
    if sqlite.top["high"] >= redis.top["low"] and redis.top["high"] >= sqlite.top["low"]:
        return f"SQLite or Redis until {_until(min(sqlite, redis, key=lambda each: each.rate))}; their runs overlap"
    if redis.rate > sqlite.rate:
        return f"{first}; {second}" if sqlite.rising else f"{first}; from there {second}"
    return f"{first}; {second}" if redis.rising else f"{first}; Redis reaches no further here ({_about(redis.enough)})"


def _once(*rows: Row) -> bool:
    """Tell whether one was run once, so that no difference can be told from chance."""
    return any(int(row["runs"]) < 2 for row in rows)


def _until(limit: Limit) -> str:
    least, wait = "at least " if limit.rising else "", rounded(_wait(limit.rate, limit.enough))
    return f"{least}{_about(limit.enough)} (mean time in line {wait})"


def _most(limit: Limit) -> str:
    told = [_workers(limit.top["workers"]), *(["still rising"] if limit.rising else [])]
    told += [f"worst reserve {rounded(limit.top['reserve_max'])}"] if limit.top["reserve_max"] > 0 else []
    return f"{limit.arm} did {_rate(limit.rate)} ({', '.join(told)})"


def _wait(most: float, rate: float) -> float:
    """Tell the mean time in line of M/M/1 (Erlang, 1909), in seconds, where so many jobs a second are done at most."""
    return rate / most / (most - rate)


def _faster(sqlite: Limit, redis: Limit) -> str:
    """Tell with how many workers who is the faster; neither, where their repeats overlap."""
    others, said = {row["workers"]: row for row in redis.rows}, dict[str, list[str]]()
    for row in sqlite.rows:
        if other := others.get(row["workers"]):
            ratio, count = other["jobs_per_second"] / row["jobs_per_second"], f"{row['workers']}"
            if _once(row, other):
                said.setdefault("not told, for it was run once,", []).append(count)
            elif other["low"] > row["high"]:
                said.setdefault("Redis", []).append(f"{count} ({ratio:.3g} times)")
            elif row["low"] > other["high"]:
                said.setdefault("SQLite", []).append(f"{count} ({1 / ratio:.3g} times)")
            else:
                said.setdefault("neither clearly", []).append(count)
    told = "; ".join(f"{who} with {_and(counts)}" for who, counts in said.items())
    return f"Who is the faster, by workers: {told}" if told else "They were not run with the same number of workers"


def _shared(limits: Sequence[Limit]) -> str:
    last = [(each.arm, each.rows[-1]) for each in limits if each.rows[-1]["workers"] > 1]
    told = [
        f"{arm} {rounded(row['reserve_max'])} and {row['fewest_most']:.2f} ({_workers(row['workers'])})"
        for arm, row in last
        if row["reserve_max"] > 0
    ]
    return f"Worst reserve, and fewest jobs of a worker by the most of one: {'; '.join(told)}" if told else ""


def _models(limits: Sequence[Limit]) -> str:
    told = [
        f"{each.arm} has its knee at {_count_of(model.knee)}, and {_workers(most['workers'])} did "
        f"{most['jobs_per_second'] / model.at(most['workers']):.2f} times what they should"
        for each in limits
        for most in each.rows[-1:]
        for model in predictions(pd.DataFrame(each.rows))
        if most["workers"] > 1
    ]
    return f"Foretold from 1 worker's run, {'; '.join(told)}" if told else ""


def _count_of(knee: float) -> str:
    return "1 worker" if f"{knee:.3g}" == "1" else f"{knee:.3g} workers"


# -- a network --


def _network(frame: pd.DataFrame, rows: Sequence[Row]) -> Iterator[str]:
    """Say what a round trip changes: as it was measured, else as the model says."""
    near = {(row["arm"], row["workers"]): row for row in rows}
    far: dict[str, list[str]] = {}
    for row in rows:
        base = row["arm"].rsplit(" +", 1)[0]
        other = near.get((f"{base} tcp", row["workers"]), near.get((base, row["workers"])))
        if round_trip_of(row["arm"]) and other:
            rates = f"{_rate(row['jobs_per_second'])} instead of {_rate(other['jobs_per_second'])}"
            far.setdefault(row["arm"], []).append(f"{_workers(row['workers'])} did {rates}")
    for arm, told in far.items():
        yield f"With a round trip of {rounded(round_trip_of(arm))} more ({arm}), {', '.join(told)}."
    if not far:
        yield from _foretold(frame)


def _foretold(frame: pd.DataFrame) -> Iterator[str]:
    redis = [model for model in predictions(frame) if model.driver.startswith("redis") and _holds(model, frame)]
    for model in sorted(redis, key=lambda each: each.demand)[:1]:
        away = replace(model, think=model.think + _FAR)
        yield (
            f"Redis ran beside its workers. By the model, a round trip of {rounded(_FAR)} more lets 1 worker of "
            f"{model.arm} do {_rate(away.at(1))} instead of {_rate(model.at(1))} and puts the knee at "
            f"{_count_of(away.knee)} instead of {model.knee:.3g}: it takes more workers for the same rate. A SQLite "
            "file is for one machine."
        )


def _holds(model: Prediction, frame: pd.DataFrame) -> bool:
    """Tell whether a model foretold what more workers did: where one sync serves several, they do far more."""
    mine = frame[frame["arm"].astype(str) == model.arm]
    rates = zip(mine["workers"], mine["jobs_per_second"], strict=True)
    return all(rate <= _FAR_OFF * model.at(int(workers)) for workers, rate in rates)


# -- a rate that was asked for --


def _at_rate(arms: Class, rate: float) -> str:
    where = f"At {_rate(rate)}, to survive {arms.survives}"
    stores = [each for each in (arms.best("SQLite"), arms.best("Redis")) if each] or list(arms.limits)
    able = [each for each in stores if rate <= each.enough]
    short = [_beyond(each, rate) for each in stores if each not in able]
    if not able:
        return f"{where}: none is enough. {'; '.join(short)}."
    told = "; so is ".join(_use(each, rate) for each in able)
    return f"{where}: {able[0].store} is enough. {'; '.join([told, *short])}."


def _use(limit: Limit, rate: float) -> str:
    row = limit.serving(rate)
    most = row["jobs_per_second"]
    wait = _wait(most, rate)
    waits = f"waits in line for {rounded(wait)} on average" if wait >= _LITTLE else "hardly waits"
    return f"{limit.arm} with {_workers(row['workers'])} ({_rate(most)} at most; a job {waits})"


def _beyond(limit: Limit, rate: float) -> str:
    if rate > limit.rate:
        return f"{limit.arm} did {_rate(limit.rate)} at most"
    return f"{limit.arm} would be at {rate / limit.rate:.0%} of the {_rate(limit.rate)} that it did at most"


# -- what cannot be said --


def _not_said(found: Contention, rows: Sequence[Row], classes: Sequence[Class]) -> Iterator[str]:
    if not rows:
        yield "Nothing was run to its end, so nothing can be said."
    if found.interrupted:
        yield "It was ended before its end: what had not run by then is missing."
    for each in classes:
        stores = {limit.store for limit in each.near} & {"SQLite", "Redis"}
        if len(stores) == 1:
            other = "Redis" if "SQLite" in stores else "SQLite"
            yield f"Nothing can be said of {other} where {each.survives} is to be survived: it was not run."
    if rows and max(row["runs"] for row in rows) < 2:
        yield "Each was run once, so no difference can be told from chance: use 3 repeats or more."
    if rows and not any(row["workers"] == 1 for row in rows):
        yield "There is no closed model: it is made from what 1 worker does alone, which was not run."
    yield from found.notes
    yield from (f"{name} was left out: {reason}" for name, reason in found.skipped.items())


# -- numbers --


def _rate(rate: float) -> str:
    return f"{rate:,.0f} jobs/s" if rate >= 100 else f"{rate:.3g} jobs/s"


def _about(rate: float) -> str:
    """Write a rate that is a rule of thumb."""
    return f"about {float(f'{rate:.2g}'):,.10g} jobs/s"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _workers(count: int) -> str:
    return _count(count, "worker")


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
