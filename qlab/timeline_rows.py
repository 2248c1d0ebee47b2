"""The rows of `plots.timeline`: how each span and each mark looks, and where it is drawn."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from qlab.drawing import drawable


class _Bar(NamedTuple):
    """How a span looks: its upper and lower edge in a row whose middle is 0, and its filling."""

    label: str
    upper: float
    lower: float
    colour: str
    edge: str
    hatch: str = ""


class Mark(NamedTuple):
    """How a moment looks, and how far below the middle of its row it stands."""

    label: str
    marker: str
    colour: str
    edge: str
    size: float = 1.0
    below: float = 0.0


_BARS = {
    "delayed": _Bar("delayed", -0.05, 0.05, "#999999", "#999999"),
    "waiting": _Bar("waiting", -0.16, 0.16, "#A6D7F2", "#56B4E9"),
    "backoff": _Bar("backoff", -0.16, 0.16, "#FFFFFF", "#E69F00", "/////"),
    "reserved": _Bar("reserved", -0.32, 0.32, "#0072B2", "#00507D"),
    "late": _Bar("late worker", 0.35, 0.47, "#CC79A7", "#9C4A77"),
}
MARKS = {
    "retrying": Mark("attempt failed", "x", "#000000", "#000000", 0.7),
    "released": Mark("released", "<", "#FFFFFF", "#000000", 0.8),
    "crashed": Mark("crashed", "*", "#F0E442", "#000000", 1.5),
    "superseded": Mark("superseded", "D", "#CC79A7", "#000000", 0.7, 0.41),
    "failed": Mark("failed", "X", "#D55E00", "#FFFFFF", 1.2),
    "done": Mark("done", "o", "#009E73", "#FFFFFF"),
}


def rows_height(jobs: int) -> float:
    """Tell how tall the rows together should be, in inches."""
    if jobs > 60:
        return 7.0
    return max(0.5, min(0.3 * jobs, max(6.0, 0.17 * jobs)))


def draw_spans(ax: Axes, spans: pd.DataFrame, points: float) -> None:
    """Draw every span in its row, which has so many points."""
    for span, mine in spans.groupby("span", observed=True):
        if span in _BARS:
            _draw_bars(ax, _BARS[str(span)], mine, points)
        else:
            draw_marks(ax, MARKS[str(span)], mine["start"], mine["row"], points)


def _draw_bars(ax: Axes, bar: _Bar, spans: pd.DataFrame, points: float) -> None:
    """Draw spans of one kind; where a row has few points, as a line in the colour that is left without filling."""
    fine = points <= 4
    row, start, end = (spans[name].to_numpy(float) for name in ("row", "start", "end"))
    upper, lower = (row - 0.5, row + 0.5) if fine else (row + bar.upper, row + bar.lower)
    corners = np.stack([start, upper, end, upper, end, lower, start, lower], axis=1).reshape(-1, 4, 2)
    bars = PolyCollection(list(corners), label=bar.label, edgecolor=bar.edge)
    bars.set_facecolor(bar.edge if fine else bar.colour)
    bars.set_linewidth(0 if fine else min(0.8, points / 12))
    bars.set_hatch("" if points < 6 else bar.hatch)
    bars.set_snap(not fine)
    bars.set_zorder(2)
    ax.add_collection(bars, autolim=False)


def draw_marks(ax: Axes, mark: Mark, at: "pd.Series[Any]", row: "pd.Series[Any]", points: float) -> None:
    """Draw the same mark at each moment in its row, which has so many points."""
    size = mark.size * min(7.0, max(1.5, 0.55 * points))
    style: dict[str, Any] = {"marker": mark.marker, "c": mark.colour, "linewidths": min(0.8, size / 8), "zorder": 3}
    if mark.marker != "x":  # which is all edge
        style["edgecolors"] = mark.edge
    ax.scatter(at, row + mark.below, s=size**2, label=mark.label, **style)


def label_rows(ax: Axes, jobs: pd.DataFrame, points: float) -> None:
    """Label each row, or as many as there is room for."""
    every = 1 if points >= 7 else math.ceil(20 / points)
    shown = jobs.iloc[::every]
    labels = [drawable(f"{job} {name}", 28) for job, name in zip(shown["job"], shown["name"], strict=True)]
    ax.set_yticks(range(0, len(jobs), every), labels, fontsize=min(9.0, 0.8 * points * every))
    ax.set_ylabel("job")
    ax.tick_params(axis="y", length=0)
    if every == 1:
        ax.grid(axis="y", color="0.92", lw=0.6)


def key_entries(there: set[str]) -> list[Artist]:
    """Make the key's entries for the spans that are there."""
    bars = [bar for span, bar in _BARS.items() if span in there]
    marks = [mark for span, mark in MARKS.items() if span in there]
    return [
        *(Patch(facecolor=bar.colour, edgecolor=bar.edge, hatch=bar.hatch, label=bar.label, lw=0.8) for bar in bars),
        *(mark_key(mark) for mark in marks),
    ]


def mark_key(mark: Mark) -> Line2D:
    """Make a mark's entry of the key."""
    edge = mark.colour if mark.marker == "x" else mark.edge
    return Line2D(
        [], [], ls="", marker=mark.marker, ms=7 * mark.size, mfc=mark.colour, mec=edge, mew=0.8, label=mark.label
    )
