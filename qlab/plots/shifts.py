"""From when to when each worker was at what: the bars of `plots.workers`."""

import re

import numpy as np
import pandas as pd

COLUMNS = ("how", "worker", "job", "name", "reserved_at", "ended_at", "left_at", "late")
"""What of `frames.attempts` they are made of."""


def bars_of(attempts: pd.DataFrame) -> pd.DataFrame:
    """Tell from when to when each worker was at each job, from when on too late, and in which lane of its row.

    What goes on still ends with the frame.
    """
    ran = attempts[attempts["how"] != "exhausted"]
    last = ran[["reserved_at", "left_at"]].max(axis=None) if len(ran) else 0.0
    bars = pd.DataFrame(
        {
            "worker": ran["worker"].astype(str),
            "job": ran["job"],
            "name": ran["name"].astype(str),
            "how": ran["how"].astype(str).mask(_left_early(ran), "crashed"),
            "start": ran["reserved_at"],
            "end": ran["left_at"].fillna(last),
            "late": ran["late"].fillna(0.0),
        }
    ).sort_values(["worker", "start"], kind="stable", ignore_index=True)
    return _in_lanes(bars)


def _in_lanes(bars: pd.DataFrame) -> pd.DataFrame:
    """Put what a worker had in hand at the same time into lanes of its row."""
    lanes: list[int] = []
    busy: dict[str, list[float]] = {}
    for worker, start, end in zip(bars["worker"], bars["start"], bars["end"], strict=True):
        until = busy.setdefault(worker, [])
        free = next((lane for lane, last in enumerate(until) if last <= start), len(until))
        until[free : free + 1] = [end]
        lanes.append(free)
    told = bars.assign(lane=np.array(lanes, int))
    return told.assign(lanes=told.groupby("worker")["lane"].transform("max") + 1)


def away_of(events: pd.DataFrame | None, last: float) -> pd.DataFrame:
    """Tell from when to when each worker was paused or gone."""
    told = []
    if events is not None:
        since: dict[str, float] = {}
        moved = events[events["kind"].isin(["crashed", "paused", "resumed"])]
        for at, kind, worker in zip(moved["at"], moved["kind"], moved["worker"].astype(str), strict=True):
            if kind != "resumed":
                since.setdefault(worker, at)
            elif worker in since:
                told.append((worker, since.pop(worker), at))
        last = max(last, events["at"].max() if len(events) else 0.0)
        told += [(worker, at, last) for worker, at in since.items()]
    return pd.DataFrame(told, columns=["worker", "start", "end"]).astype({"start": float, "end": float})


def crashes_of(attempts: pd.DataFrame, events: pd.DataFrame | None) -> pd.DataFrame:
    """Tell when which worker crashed: without events, only those that had a job in hand, and so left it early."""
    if events is not None:
        told = events[events["kind"] == "crashed"]
        return pd.DataFrame({"worker": told["worker"].astype(str), "at": told["at"]})
    told = attempts[_left_early(attempts)]
    return pd.DataFrame({"worker": told["worker"].astype(str), "at": told["left_at"]})


def _left_early(attempts: pd.DataFrame) -> "pd.Series[bool]":
    """Tell which attempts were left before their reservation ended: only a crash does that."""
    return attempts["left_at"].notna() & ~(attempts["left_at"] >= attempts["ended_at"])


def natural(name: str) -> list[tuple[int, str]]:
    """Give the key by which `worker 2` comes before `worker 10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
