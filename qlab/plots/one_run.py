"""What happened in one run: each job a row, how many were where, how many attempts they took."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qlab import drawing
from qlab.drawing import DRAWN, Numbers
from qlab.timeline_rows import draw_spans, key_entries, label_rows, rows_height

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
    drawing.seconds_axis(ax, drawing.time_since(origin), spans["start"].min() - origin, spans["end"].max() - origin)
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
    drawing.seconds_axis(ax, drawing.time_since(origin), depth["at"].min() - origin, depth["at"].max() - origin)
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
    above = drawing.label_bars(ax, table.index.to_numpy(), floor, [f"{count:,.0f}" for count in floor], 0.7)
    drawing.count_axis(ax, "jobs", above)
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def _lasting(counts: "pd.Series[Any]") -> Numbers:
    """Let the last row last to the picture's edge."""
    return np.append(counts, counts.iloc[-1])


def _peaks(depth: pd.DataFrame) -> pd.DataFrame:
    """Keep so many rows as can be seen: the deepest and the shallowest of each stretch."""
    if len(depth) <= DRAWN:
        return depth
    depth = depth.reset_index(drop=True)
    stretches = depth["depth"].groupby(np.arange(len(depth)) * (DRAWN // 2) // len(depth))
    return depth.loc[sorted({0, len(depth) - 1, *stretches.idxmax(), *stretches.idxmin()})]
