"""The workers, each a row: what it had in hand, and how that ended."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from qlab import drawing
from qlab.drawing import drawable
from qlab.plots import given
from qlab.plots.shifts import COLUMNS, away_of, bars_of, crashes_of, natural
from qlab.timeline_rows import MARKS, draw_marks, mark_key, rows_height


class _Look(NamedTuple):
    """How an attempt looks that ended in one of several ways, and the mark at its end."""

    label: str
    ways: tuple[str, ...]
    colour: str
    edge: str
    mark: str = ""


_LOOKS = (
    _Look("completed", ("completed",), "#009E73", "#00664A"),
    _Look("attempt failed", ("retrying",), "#F0E442", "#9A9100", "retrying"),
    _Look("failed", ("failed",), "#D55E00", "#8A3D00", "failed"),
    _Look("released", ("released",), "#A6D7F2", "#56B4E9", "released"),
    _Look("taken by another worker", ("superseded",), "#CC79A7", "#9C4A77", "superseded"),
    _Look("ran out or taken away", ("ran out", "recovered", "cleared", "lost"), "#CCCCCC", "#777777"),
    _Look("broken off by a crash", ("crashed",), "#777777", "#333333"),
    _Look("in hand", ("reserved",), "#0072B2", "#00507D"),
)
_LATE: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "hatch": "/////"}
_AWAY: dict[str, Any] = {"facecolor": "white", "edgecolor": "#AAAAAA", "hatch": "xxxx"}
_DARK = ("completed", "failed", "crashed", "reserved")
_HIGH = 0.7  # of a row
_LETTER = 4.8  # points that a letter of a bar's text takes
_WRITTEN = 400  # bars at most that tell their job and have an edge of their own: with more there is no room


def workers(attempts: pd.DataFrame, *, events: pd.DataFrame | None = None, ax: Axes | None = None) -> Axes:
    """Draw each worker as a row: a bar for each attempt, coloured by how it ended, against time.

    The part of an attempt that came after its reservation had run out, or was taken from it, is hatched. What a worker
    has in hand at the same time stands one below the other. A bar tells its job where there is room.

    Args:
        attempts: What `frames.attempts` gives.
        events: What `frames.events` gives of the same trace: with it, the times are drawn too in which a worker was
            paused or gone, and the crashes of workers that had nothing in hand.
        ax: Where to draw; by default a picture as tall as the workers need.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=3)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> ax = plots.workers(frames.attempts(run.trace))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('time (s)', 'worker')
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['worker 1']
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['completed', 'attempt failed']
    """
    given.check(attempts, "frames.attempts(run.trace)", *COLUMNS, bare=False)
    if events is not None:
        given.check(events, "frames.events(run.trace)", "at", "kind", "worker", bare=False)
    bars, crashes = bars_of(attempts), crashes_of(attempts, events)
    away = away_of(events, bars["end"].max())
    names = sorted({*bars["worker"], *away["worker"], *crashes["worker"]}, key=natural)
    height = 72 * max(0.9, rows_height(2 * len(names))) if ax is None else drawing.size_of(ax)[1]
    ax = drawing.new_axes(9.0, height / 72 + 1.2) if ax is None else ax
    if not names:
        return drawing.say_nothing(ax, "time (s)", "worker", "no attempts yet")
    moments = np.concatenate([bars["start"], bars["end"], away["start"], away["end"], crashes["at"]])
    origin, points = drawing.origin_of(moments.min()), min(46.0, height / len(names))
    drawing.seconds_axis(ax, drawing.time_since(origin), moments.min() - origin, moments.max() - origin)
    row = {name: place for place, name in enumerate(names)}
    bars, away, crashes = (told.assign(row=told["worker"].map(row).astype(float)) for told in (bars, away, crashes))
    _label_rows(ax, names, height / points, points)
    entries = [*_draw_away(ax, away, origin), *_draw_bars(ax, bars, origin, points)]
    drawing.add_key(ax, [*entries, *_draw_crashes(ax, crashes, origin, points)])
    return ax


def _label_rows(ax: Axes, names: list[str], rows: float, points: float) -> None:
    every = 1 if points >= 9 else int(20 // points)
    shown = range(0, len(names), every)
    ax.set_yticks(shown, [drawable(names[place] or "nobody", 24) for place in shown])
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_ylabel("worker")
    ax.tick_params(axis="y", length=0)


def _draw_away(ax: Axes, away: pd.DataFrame, origin: float) -> list[Artist]:
    """Draw the times in which a worker was paused or gone, behind what it has in hand."""
    if away.empty:
        return []
    row = away["row"].to_numpy()
    _draw_boxes(ax, away["start"] - origin, away["end"] - origin, row - 0.5, row + 0.5, "away", 1, **_AWAY, lw=0)
    return [Patch(**_AWAY, label="paused or gone", lw=0.5)]


def _draw_bars(ax: Axes, bars: pd.DataFrame, origin: float, points: float) -> Iterator[Artist | tuple[Artist, ...]]:
    """Draw every attempt, by how it ended; give the entries of the key."""
    high = _HIGH / bars["lanes"]
    placed = bars.assign(
        start=bars["start"] - origin,
        end=bars["end"] - origin,
        upper=bars["row"] - _HIGH / 2 + bars["lane"] * high,
        lower=bars["row"] - _HIGH / 2 + (bars["lane"] + 0.94) * high,
    )
    for look in _LOOKS:
        if len(mine := placed[placed["how"].isin(look.ways)]):
            yield _draw_look(ax, look, mine, points)
    if len(late := placed[placed["late"] > 0]):
        edges = (late["end"] - late["late"], late["end"], late["upper"], late["lower"])
        _draw_boxes(ax, *edges, "late", 3, **_LATE, lw=min(0.8, points / 20))
        yield Patch(**_LATE, label="after its reservation had ended", lw=0.5)
    _write_jobs(ax, placed, points)


def _draw_look(ax: Axes, look: _Look, mine: pd.DataFrame, points: float) -> Artist | tuple[Artist, ...]:
    edges = (mine["start"], mine["end"], mine["upper"], mine["lower"])
    style: dict[str, Any] = {"facecolor": look.colour, "edgecolor": look.edge, "lw": min(0.8, points / 20)}
    many = {"edgecolor": look.colour, "lw": 0.3} if len(mine) > _WRITTEN else {}
    _draw_boxes(ax, *edges, look.label, 2, **style | many)
    patch = Patch(**style | {"lw": 0.8}, label=look.label)
    if not look.mark:
        return patch
    mark = MARKS[look.mark]._replace(below=0)
    draw_marks(ax, mark, mine["end"], (mine["upper"] + mine["lower"]) / 2, 0.6 * points / mine["lanes"].max())
    return patch, mark_key(mark)


def _draw_boxes(
    ax: Axes, start: Any, end: Any, upper: Any, lower: Any, label: str, zorder: float, **style: Any
) -> None:
    corners = np.stack([start, upper, end, upper, end, lower, start, lower], axis=1).astype(float).reshape(-1, 4, 2)
    boxes = PolyCollection(list(corners), label=label, **style)
    boxes.set_zorder(zorder)
    ax.add_collection(boxes, autolim=False)


def _write_jobs(ax: Axes, placed: pd.DataFrame, points: float) -> None:
    """Write into a bar its job and handler, or its job, or nothing, as there is room."""
    if len(placed) > _WRITTEN or points * _HIGH < 9:
        return
    left, right = ax.get_xlim()
    scale = drawing.size_of(ax)[0] / (right - left)
    alone = placed[placed["lanes"] == 1]
    room = (alone["end"] - alone["late"] - alone["start"]) * scale - 6
    columns = (alone["job"], alone["name"], alone["how"], alone["start"], alone["row"], room)
    for job, name, how, start, row, free in zip(*columns, strict=True):
        texts = (drawable(f"{job} {name}", 28), f"{job}", "")
        text = next(text for text in texts if not text or _LETTER * len(text) <= free)
        colour = "white" if how in _DARK else "black"
        ax.annotate(text, (start + 3 / scale, row), va="center", fontsize=8, color=colour, zorder=4)


def _draw_crashes(ax: Axes, crashes: pd.DataFrame, origin: float, points: float) -> list[Artist]:
    if crashes.empty:
        return []
    draw_marks(ax, MARKS["crashed"], crashes["at"] - origin, crashes["row"], 0.6 * points)
    return [mark_key(MARKS["crashed"])]
