"""One picture a function: `f(frame, *, ax=None) -> Axes`.

Without `ax` a function draws into a `Picture` of its own. An `Axes` does not show itself: a cell ends with its figure,
as in `plots.timeline(spans).figure`; a program calls `.figure.savefig("timeline.png")`. Several pictures in one:

    picture = plots.Picture(figsize=(14, 4))
    left, right = picture.subplots(1, 2)
    plots.timeline(one, ax=left)
    plots.timeline(other, ax=right)
    picture

Nothing is registered with pyplot. Axes say their units. Coordinates are seconds: those of the frame, or, where they are
a machine clock's, from the frame's first moment on. Colours are Okabe and Ito's (https://jfly.uni-koeln.de/color/), and
what differs in colour differs in height, hatch, dashes or marker too. A picture of a frame without rows says so.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qlab import drawing
from qlab.drawing import COLOURS, Numbers, Picture, Unit, drawable, significant
from qlab.timeline_rows import draw_spans, key_entries, label_rows, rows_height

__all__ = ["COLOURS", "Picture", "attempts", "depth", "rates", "throughput", "timeline", "waits"]

_DRAWN = 3_000  # points of a line: more than a picture has pixels
_STATES: dict[str, dict[str, Any]] = {
    "reserved": {"facecolor": "#0072B2", "edgecolor": "#00507D"},
    "ready": {"facecolor": "#A6D7F2", "edgecolor": "#56B4E9"},
    "delayed": {"facecolor": "#EEEEEE", "edgecolor": "#999999", "hatch": "////"},
}
_ENDS: dict[str, dict[str, Any]] = {
    "done": {"facecolor": "#009E73"},
    "failed": {"facecolor": "#D55E00", "hatch": "///"},
    "not finished": {"facecolor": "#BBBBBB", "hatch": "..."},
}


# -- one run --


def timeline(spans: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each job as a row: what it was in, and what happened to it, against time.

    Up to about 60 jobs each row has a label; above, the rows are thin lines.

    Args:
        spans: What `frames.spans` gives.
        ax: Where to draw; by default a picture as tall as the jobs need.
    """
    jobs = spans.drop_duplicates("job")
    height = 72 * rows_height(len(jobs)) if ax is None else drawing.size_of(ax)[1]
    ax = drawing.new_axes(9.0, height / 72 + 1.1) if ax is None else ax
    if spans.empty:
        return drawing.say_nothing(ax, "time (s)", "job")
    origin, points = drawing.origin_of(spans["start"].min()), min(30.0, height / len(jobs))
    drawing.seconds_axis(ax, _time(origin), spans["start"].min() - origin, spans["end"].max() - origin)
    placed = spans.assign(row=pd.factorize(spans["job"])[0], start=spans["start"] - origin, end=spans["end"] - origin)
    draw_spans(ax, placed, points)
    ax.set_ylim(height / points - 0.5, -0.5)
    label_rows(ax, jobs, points)
    drawing.add_key(ax, key_entries(set(spans["span"])))
    return ax


def depth(depth: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs were reserved, ready and delayed over time, one above the other, and how many had failed.

    The upper edge is the depth. Of many thousand rows the deepest and the shallowest of each stretch are drawn.

    Args:
        depth: What `frames.depth` gives.
        ax: Where to draw; by default a picture of its own.
    """
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if depth.empty:
        return drawing.say_nothing(ax, "time (s)", "jobs")
    origin, drawn = drawing.origin_of(depth["at"].min()), _peaks(depth)
    drawing.seconds_axis(ax, _time(origin), depth["at"].min() - origin, depth["at"].max() - origin)
    at, floor = np.append(drawn["at"] - origin, ax.get_xlim()[1]), np.zeros(len(drawn) + 1)
    for state, look in _STATES.items():
        top = floor + _lasting(drawn[state])
        ax.fill_between(at, floor, top, step="post", label=state, lw=0, **look)
        floor = top
    ax.step(at, floor, where="post", color="black", lw=1, label="depth")
    failed = _lasting(drawn["failed"])
    if failed.any():
        since = max(0, int(np.flatnonzero(failed)[0]) - 1)
        ax.step(at[since:], failed[since:], where="post", color="#D55E00", lw=2, ls=(0, (4, 1.5)), label="failed")
    drawing.count_axis(ax, "jobs")
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def attempts(jobs: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs took how many attempts, by how they ended.

    A reservation that only found every attempt used up is none (the frame's `runs`).

    Args:
        jobs: What `frames.jobs` gives.
        ax: Where to draw; by default a picture of its own.
    """
    ax = drawing.new_axes(6.0, 3.4) if ax is None else ax
    if jobs.empty:
        return drawing.say_nothing(ax, "attempts", "jobs")
    state = jobs["state"].astype(str)
    table = pd.crosstab(jobs["runs"], state.where(state.isin(["done", "failed"]), "not finished"))
    floor = np.zeros(len(table))
    for end, look in _ENDS.items():
        if end in table:
            ax.bar(table.index, table[end], 0.7, floor, edgecolor="white", label=end, **look)
            floor = floor + table[end].to_numpy()
    ax.set_xlabel("attempts")
    ax.set_xlim(min(table.index.min(), 1) - 0.6, max(table.index.max(), 3) + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    above = _label_bars(ax, table.index.to_numpy(), floor, [f"{count:,.0f}" for count in floor], 0.7)
    drawing.count_axis(ax, "jobs", above)
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


# -- one driver beside another --


def throughput(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs had been completed by when: the steeper, the more in a second.

    A staircase needs no bins, so it hides no pause. The key tells the mean rate, from the first event (in a jobs frame:
    the first dispatch) to the last completion.

    Args:
        frame: What `frames.events` or `frames.jobs` gives; with a column `driver`, a line for each.
        ax: Where to draw; by default a picture of its own.
    """
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "time (s)", "jobs completed")
    stairs = {driver: _staircase(mine) for driver, mine in _by_driver(frame)}
    origins = {driver: drawing.origin_of(at[0]) for driver, (at, _) in stairs.items()}
    ends = [at[[0, -1]] - origins[driver] for driver, (at, _) in stairs.items()]
    drawing.seconds_axis(ax, _time(any(origins.values())), np.min(ends), np.max(ends))
    lines = {driver: (at - origins[driver], count) for driver, (at, count) in stairs.items()}
    _draw_stairs(ax, lines, {driver: _rate_label(driver, *steps) for driver, steps in stairs.items()})
    drawing.count_axis(ax, "jobs completed")
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def waits(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw what share of the waits was over within how many seconds: the further left a line rises, the sooner.

    The empirical distribution: no bins, and the slowest are as plain to see as the many. A job that waits still counts
    as not reserved, so a line that ends below 100 % shows how many there are. The key tells within what half of all
    waits were over, and the longest.

    Args:
        frame: What `frames.waits` gives; with a column `driver`, a line for each.
        ax: Where to draw; by default a picture of its own.
    """
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "wait (s)", "waits that were over (%)", "no job has waited yet")
    over = {driver: np.sort(mine["wait"][mine["reserved_at"].notna()]) for driver, mine in _by_driver(frame)}
    count = {driver: len(mine) for driver, mine in _by_driver(frame)}
    longest = max(float(wait[-1]) if len(wait) else 0.0 for wait in over.values())
    drawing.seconds_axis(ax, "wait", 0, longest)
    stairs = {driver: _risen(wait, count[driver], ax.get_xlim()[1]) for driver, wait in over.items()}
    unit = drawing.unit_of(longest)
    _draw_stairs(ax, stairs, {driver: _waits_label(driver, wait, count[driver], unit) for driver, wait in over.items()})
    drawing.count_axis(ax, "waits that were over (%)")
    ax.set(ylim=(0, 106), yticks=range(0, 101, 25))
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def rates(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second each driver did, for each number of workers.

    Args:
        frame: Columns `driver`, `workers` and `jobs_per_second`, one row a bar; with `low` and `high` (jobs a second
            too), the range of the runs behind it is a line on the bar.
        ax: Where to draw; by default a picture of its own.
    """
    ax = drawing.new_axes(9.0, 3.8) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "workers", "jobs per second")
    workers = sorted(frame["workers"].unique())
    ax.set_xlim(-0.5, len(workers) - 0.5)
    looks = drawing.looks_of(frame["driver"].unique())
    width, above = 0.84 / len(looks), 0.0
    for i, (driver, look) in enumerate(looks.items()):
        mine = frame[frame["driver"] == driver]
        middle = np.searchsorted(workers, mine["workers"]) + (i - (len(looks) - 1) / 2) * width
        style = {"label": drawable(driver), "facecolor": look.colour, "hatch": look.hatch}
        above = max(above, _draw_rates(ax, mine, middle, width, **style))
    drawing.count_axis(ax, "jobs per second", above, whole=False)
    ax.set_xticks(range(len(workers)), [f"{count}" for count in workers])
    ax.set_xlabel("workers")
    ax.tick_params(axis="x", length=0)
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


# -- lines and bars of numbers --


def _time(origin: float) -> str:
    """Name the time of an axis that begins there."""
    return "time since the start" if origin else "time"


def _lasting(counts: "pd.Series[Any]") -> Numbers:
    """Let the last row last to the picture's edge."""
    return np.append(counts, counts.iloc[-1])


def _peaks(depth: pd.DataFrame) -> pd.DataFrame:
    """Keep so many rows as can be seen: the deepest and the shallowest of each stretch."""
    if len(depth) <= _DRAWN:
        return depth
    depth = depth.reset_index(drop=True)
    stretches = depth["depth"].groupby(np.arange(len(depth)) * (_DRAWN // 2) // len(depth))
    return depth.loc[sorted({0, len(depth) - 1, *stretches.idxmax(), *stretches.idxmin()})]


def _thinned(at: Numbers, count: Numbers) -> tuple[Numbers, Numbers]:
    """Keep so many steps of a staircase as can be seen."""
    kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), _DRAWN)).astype(int))
    return at[kept], count[kept]


def _by_driver(frame: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    if "driver" not in frame:
        return [("", frame)]
    return ((str(driver), mine) for driver, mine in frame.groupby("driver", sort=False, observed=True))


def _staircase(frame: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """Tell how many jobs had been completed by when, from the first moment to the last."""
    if "kind" in frame:
        around, done = frame["at"], frame["at"][frame["kind"] == "completed"]
    else:
        around, done = frame["dispatched_at"], frame["finished_at"][frame["state"] == "done"]
    seen = np.concatenate([around.dropna(), done])
    at = np.concatenate([[seen.min()], np.sort(done), [seen.max()]])
    return at, np.append(np.arange(len(done) + 1), len(done))


def _risen(wait: Numbers, count: int, end: float) -> tuple[Numbers, Numbers]:
    """Tell what share of so many waits was over within how many seconds, in percent, as far as the picture's edge."""
    share = 100 * np.arange(len(wait) + 1) / count
    return np.concatenate([[0.0], wait, [end]]), np.append(share, share[-1])


def _draw_stairs(ax: Axes, stairs: dict[str, tuple[Numbers, Numbers]], labels: dict[str, str]) -> None:
    """Draw each driver's staircase; one that others lie on exactly is wider, so that it is seen beneath them."""
    steps = [(x.tobytes(), y.tobytes()) for x, y in stairs.values()]
    for i, (driver, look) in enumerate(drawing.looks_of(stairs).items()):
        above = steps[i + 1 :].count(steps[i])
        style: dict[str, Any] = {"lw": 2 + 2 * above, "color": look.colour, "ls": "-" if above else look.dashes}
        ax.step(*_thinned(*stairs[driver]), where="post", label=labels[driver], **style)


def _rate_label(driver: str, at: Numbers, count: Numbers) -> str:
    done, took = count[-1], at[-2] - at[0]
    rate = f"{significant(done / took)} jobs/s" if took > 0 else f"{done:,} at once" if done else "none completed"
    return f"{drawable(driver)}: {rate}" if driver else rate


def _waits_label(driver: str, over: Numbers, count: int, unit: Unit) -> str:
    """Say within what half of the waits were over, and all of them, or how many go on."""
    half, told = math.ceil(count / 2), []
    if len(over) == count and over[-1] == 0:
        told = ["none waited"]
    elif len(over) >= half:
        told = [f"half within {unit.say(over[half - 1])}"]
    if len(over) < count:
        told.append(f"{count - len(over):,} of {count:,} still wait")
    elif over[-1] > 0:
        told.append(f"all within {unit.say(over[-1])}")
    return f"{drawable(driver)}: {', '.join(told)}" if driver else ", ".join(told)


def _draw_rates(ax: Axes, mine: pd.DataFrame, middle: Numbers, width: float, **style: Any) -> float:
    rate = mine["jobs_per_second"].to_numpy(float)
    top = np.nan_to_num(rate)
    ax.bar(middle, rate, 0.92 * width, edgecolor="white", lw=0, **style)
    if {"low", "high"} <= set(mine.columns):
        low, high = mine["low"].to_numpy(float), mine["high"].to_numpy(float)
        reach = np.maximum([rate - low, high - rate], 0)
        ax.errorbar(middle, rate, reach, fmt="none", ecolor="0.2", elinewidth=1.2, capsize=2.5)
        top = np.fmax(top, high)
    return _label_bars(ax, middle, top, [significant(value) for value in rate], width)


def _label_bars(ax: Axes, x: Numbers, tops: Numbers, texts: list[str], width: float) -> float:
    """Write a text above each bar, upright where the bars are narrow; tell how many points that takes."""
    left, right = ax.get_xlim()
    room = drawing.size_of(ax)[0] * width / (right - left)
    longest = 5.5 * max(map(len, texts))
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 8}
    style["rotation"] = 90 if longest > room else 0
    for at, top, text in zip(x, tops, texts, strict=True):
        ax.annotate(text, (at, top), (0, 3), **style)
    return 5 + (longest if style["rotation"] else 11)
