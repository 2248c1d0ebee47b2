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
from io import BytesIO
from itertools import cycle
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from qlab.escape import shortened

COLOURS = {"memory": "#000000", "sqlite": "#0072B2", "redis_list": "#D55E00", "redis_zset": "#E69F00"}
"""Each driver's colour, the same in every picture."""

_Numbers: TypeAlias = NDArray[Any]

_SPARE = ("#009E73", "#CC79A7", "#56B4E9", "#999999")
_DASHES: dict[str, Any] = {
    "memory": (0, (1, 1)),
    "sqlite": "-",
    "redis_list": (0, (6, 2)),
    "redis_zset": (0, (6, 2, 1, 2)),
}
_HATCHES = {"redis_list": "//"}  # the only one whose brightness is close to another's
_UNITS = ((0.5, 0.001, "ms"), (7_200.0, 1.0, "s"), (172_800.0, 3_600.0, "h"), (math.inf, 86_400.0, "d"))
_MACHINE = 1e8  # seconds: a simulated clock hardly comes this far, a machine's passed it in 1973
_DRAWN = 3_000  # points of a line: more than a picture has pixels


class _Bar(NamedTuple):
    """How a span looks: its upper and lower edge in a row whose middle is 0, and its filling."""

    label: str
    upper: float
    lower: float
    colour: str
    edge: str
    hatch: str = ""


class _Mark(NamedTuple):
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
_MARKS = {
    "retrying": _Mark("attempt failed", "x", "#000000", "#000000", 0.7),
    "released": _Mark("released", "<", "#FFFFFF", "#000000", 0.8),
    "crashed": _Mark("crashed", "*", "#F0E442", "#000000", 1.5),
    "superseded": _Mark("superseded", "D", "#CC79A7", "#000000", 0.7, 0.41),
    "failed": _Mark("failed", "X", "#D55E00", "#FFFFFF", 1.2),
    "done": _Mark("done", "o", "#009E73", "#FFFFFF"),
}
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


class Picture(Figure):
    """A matplotlib figure that shows itself as the last value of a cell, with pyplot or without."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"layout": "constrained"} | options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Draw it twice as fine as it is shown."""
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=2 * self.dpi)
        width, height = (round(side * self.dpi) for side in self.get_size_inches())
        return drawn.getvalue(), {"width": width, "height": height}


# -- one run --


def timeline(spans: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each job as a row: what it was in, and what happened to it, against time.

    Up to about 60 jobs each row has a label; above, the rows are thin lines.

    Args:
        spans: What `frames.spans` gives.
        ax: Where to draw; by default a picture as tall as the jobs need.
    """
    jobs = spans.drop_duplicates("job")
    height = 72 * _rows_height(len(jobs)) if ax is None else _size(ax)[1]
    ax = _axes(9.0, height / 72 + 1.1) if ax is None else ax
    if spans.empty:
        return _nothing(ax, "time (s)", "job")
    origin, points = _origin(spans["start"].min()), min(30.0, height / len(jobs))
    _time_axis(ax, spans["start"].min() - origin, spans["end"].max() - origin, bool(origin))
    placed = spans.assign(row=pd.factorize(spans["job"])[0], start=spans["start"] - origin, end=spans["end"] - origin)
    for span, mine in placed.groupby("span", observed=True):
        if span in _BARS:
            _draw_bars(ax, _BARS[str(span)], mine, points)
        else:
            _draw_marks(ax, _MARKS[str(span)], mine, points)
    ax.set_ylim(height / points - 0.5, -0.5)
    _label_rows(ax, jobs, points)
    _legend(ax, _keys(set(spans["span"])))
    return ax


def depth(depth: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs were reserved, ready and delayed over time, one above the other, and how many had failed.

    The upper edge is the depth. Of many thousand rows the deepest and the shallowest of each stretch are drawn.

    Args:
        depth: What `frames.depth` gives.
        ax: Where to draw; by default a picture of its own.
    """
    ax = _axes(9.0, 3.4) if ax is None else ax
    if depth.empty:
        return _nothing(ax, "time (s)", "jobs")
    origin, drawn = _origin(depth["at"].min()), _peaks(depth)
    _time_axis(ax, depth["at"].min() - origin, depth["at"].max() - origin, bool(origin))
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
    _count_axis(ax, "jobs")
    _legend(ax, ax.get_legend_handles_labels()[0])
    return ax


def attempts(jobs: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs took how many attempts, by how they ended.

    A reservation that only found every attempt used up is none (the frame's `runs`).

    Args:
        jobs: What `frames.jobs` gives.
        ax: Where to draw; by default a picture of its own.
    """
    ax = _axes(6.0, 3.4) if ax is None else ax
    if jobs.empty:
        return _nothing(ax, "attempts", "jobs")
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
    above = _value_labels(ax, table.index.to_numpy(), floor, [f"{count:,.0f}" for count in floor], 0.7)
    _count_axis(ax, "jobs", above)
    _legend(ax, ax.get_legend_handles_labels()[0])
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
    ax = _axes(9.0, 3.4) if ax is None else ax
    if frame.empty:
        return _nothing(ax, "time (s)", "jobs completed")
    stairs = {driver: _staircase(mine) for driver, mine in _by_driver(frame)}
    origins = {driver: _origin(at[0]) for driver, (at, _) in stairs.items()}
    ends = [at[[0, -1]] - origins[driver] for driver, (at, _) in stairs.items()]
    _time_axis(ax, np.min(ends), np.max(ends), any(origins.values()))
    beneath = _same(stairs)
    for driver, look in _looks(stairs).items():
        at, count = stairs[driver]
        steps, label = _thinned(at - origins[driver], count), _rate_label(driver, at, count)
        dashes = "-" if beneath[driver] else look.dashes
        ax.step(*steps, where="post", label=label, lw=2 + 2 * beneath[driver], color=look.colour, ls=dashes)
    _count_axis(ax, "jobs completed")
    _legend(ax, ax.get_legend_handles_labels()[0])
    return ax


def rates(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second each driver did, for each number of workers.

    Args:
        frame: Columns `driver`, `workers` and `jobs_per_second`, one row a bar; with `low` and `high` (jobs a second
            too), the range of the runs behind it is a line on the bar.
        ax: Where to draw; by default a picture of its own.
    """
    ax = _axes(9.0, 3.8) if ax is None else ax
    if frame.empty:
        return _nothing(ax, "workers", "jobs per second")
    workers = sorted(frame["workers"].unique())
    ax.set_xlim(-0.5, len(workers) - 0.5)
    looks = _looks(frame["driver"].unique())
    width, above = 0.84 / len(looks), 0.0
    for i, (driver, look) in enumerate(looks.items()):
        mine = frame[frame["driver"] == driver]
        middle = np.searchsorted(workers, mine["workers"]) + (i - (len(looks) - 1) / 2) * width
        style = {"label": _text(driver), "facecolor": look.colour, "hatch": look.hatch}
        above = max(above, _draw_rates(ax, mine, middle, width, **style))
    _count_axis(ax, "jobs per second", above, whole=False)
    ax.set_xticks(range(len(workers)), [f"{count}" for count in workers])
    ax.set_xlabel("workers")
    ax.tick_params(axis="x", length=0)
    _legend(ax, ax.get_legend_handles_labels()[0])
    return ax


# -- rows of a timeline --


def _rows_height(jobs: int) -> float:
    """Tell how tall the rows together should be, in inches."""
    if jobs > 60:
        return 7.0
    return max(0.5, min(0.3 * jobs, max(6.0, 0.17 * jobs)))


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


def _draw_marks(ax: Axes, mark: _Mark, spans: pd.DataFrame, points: float) -> None:
    size = mark.size * min(7.0, max(1.5, 0.55 * points))
    style: dict[str, Any] = {"marker": mark.marker, "c": mark.colour, "linewidths": min(0.8, size / 8), "zorder": 3}
    if mark.marker != "x":  # which is all edge
        style["edgecolors"] = mark.edge
    ax.scatter(spans["start"], spans["row"] + mark.below, s=size**2, label=mark.label, **style)


def _label_rows(ax: Axes, jobs: pd.DataFrame, points: float) -> None:
    """Label each row, or as many as there is room for."""
    every = 1 if points >= 7 else math.ceil(20 / points)
    shown = jobs.iloc[::every]
    labels = [_text(f"{job} {name}", 28) for job, name in zip(shown["job"], shown["name"], strict=True)]
    ax.set_yticks(range(0, len(jobs), every), labels, fontsize=min(9.0, 0.8 * points * every))
    ax.set_ylabel("job")
    ax.tick_params(axis="y", length=0)
    if every == 1:
        ax.grid(axis="y", color="0.92", lw=0.6)


def _keys(there: set[str]) -> list[Artist]:
    """Make the key's entries for the spans that are there."""
    bars = [bar for span, bar in _BARS.items() if span in there]
    marks = [mark for span, mark in _MARKS.items() if span in there]
    return [
        *(Patch(facecolor=bar.colour, edgecolor=bar.edge, hatch=bar.hatch, label=bar.label, lw=0.8) for bar in bars),
        *(_mark_key(mark) for mark in marks),
    ]


def _mark_key(mark: _Mark) -> Line2D:
    edge = mark.colour if mark.marker == "x" else mark.edge
    return Line2D(
        [], [], ls="", marker=mark.marker, ms=7 * mark.size, mfc=mark.colour, mec=edge, mew=0.8, label=mark.label
    )


# -- lines and bars of numbers --


def _lasting(counts: "pd.Series[Any]") -> _Numbers:
    """Let the last row last to the picture's edge."""
    return np.append(counts, counts.iloc[-1])


def _peaks(depth: pd.DataFrame) -> pd.DataFrame:
    """Keep so many rows as can be seen: the deepest and the shallowest of each stretch."""
    if len(depth) <= _DRAWN:
        return depth
    depth = depth.reset_index(drop=True)
    stretches = depth["depth"].groupby(np.arange(len(depth)) * (_DRAWN // 2) // len(depth))
    return depth.loc[sorted({0, len(depth) - 1, *stretches.idxmax(), *stretches.idxmin()})]


def _thinned(at: _Numbers, count: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Keep so many steps of a staircase as can be seen."""
    kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), _DRAWN)).astype(int))
    return at[kept], count[kept]


def _by_driver(frame: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    if "driver" not in frame:
        return [("", frame)]
    return ((str(driver), mine) for driver, mine in frame.groupby("driver", sort=False, observed=True))


def _staircase(frame: pd.DataFrame) -> tuple[_Numbers, _Numbers]:
    """Tell how many jobs had been completed by when, from the first moment to the last."""
    if "kind" in frame:
        around, done = frame["at"], frame["at"][frame["kind"] == "completed"]
    else:
        around, done = frame["dispatched_at"], frame["finished_at"][frame["state"] == "done"]
    seen = np.concatenate([around.dropna(), done])
    at = np.concatenate([[seen.min()], np.sort(done), [seen.max()]])
    return at, np.append(np.arange(len(done) + 1), len(done))


def _same(stairs: dict[str, tuple[_Numbers, _Numbers]]) -> dict[str, int]:
    """Tell how many later staircases lie exactly on each, which is drawn wider so that it is seen beneath them."""
    at = [at.tobytes() for at, _ in stairs.values()]
    return {driver: at[i + 1 :].count(at[i]) for i, driver in enumerate(stairs)}


def _rate_label(driver: str, at: _Numbers, count: _Numbers) -> str:
    done, took = count[-1], at[-2] - at[0]
    rate = f"{_significant(done / took)} jobs/s" if took > 0 else f"{done:,} at once" if done else "none completed"
    return f"{_text(driver)}: {rate}" if driver else rate


def _draw_rates(ax: Axes, mine: pd.DataFrame, middle: _Numbers, width: float, **style: Any) -> float:
    rate = mine["jobs_per_second"].to_numpy(float)
    top = np.nan_to_num(rate)
    ax.bar(middle, rate, 0.92 * width, edgecolor="white", lw=0, **style)
    if {"low", "high"} <= set(mine.columns):
        low, high = mine["low"].to_numpy(float), mine["high"].to_numpy(float)
        reach = np.maximum([rate - low, high - rate], 0)
        ax.errorbar(middle, rate, reach, fmt="none", ecolor="0.2", elinewidth=1.2, capsize=2.5)
        top = np.fmax(top, high)
    return _value_labels(ax, middle, top, [_significant(value) for value in rate], width)


def _value_labels(ax: Axes, x: _Numbers, tops: _Numbers, texts: list[str], width: float) -> float:
    """Write a text above each bar, upright where the bars are narrow; tell how many points that takes."""
    left, right = ax.get_xlim()
    room = _size(ax)[0] * width / (right - left)
    longest = 5.5 * max(map(len, texts))
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 8}
    style["rotation"] = 90 if longest > room else 0
    for at, top, text in zip(x, tops, texts, strict=True):
        ax.annotate(text, (at, top), (0, 3), **style)
    return 5 + (longest if style["rotation"] else 11)


def _significant(value: float) -> str:
    """Write a number with the three digits that count, `1,234` in full; a dash where there is none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class _Look(NamedTuple):
    colour: str
    dashes: Any
    hatch: str


def _looks(drivers: Iterable[str]) -> dict[str, _Look]:
    """Choose how each driver looks; those without a colour of their own get the spare ones, in their order."""
    spare = cycle(_SPARE)
    return {
        driver: _Look(COLOURS[driver], _DASHES[driver], _HATCHES.get(driver, ""))
        if driver in COLOURS
        else _Look(next(spare), "-", "")
        for driver in drivers
    }


# -- axes --


def _axes(width: float, height: float) -> Axes:
    return Picture(figsize=(width, height)).add_subplot()


def _nothing(ax: Axes, x: str, y: str) -> Axes:
    """Say that there is nothing to draw yet."""
    ax.text(0.5, 0.5, "no jobs yet", transform=ax.transAxes, ha="center", va="center", color="0.4")
    ax.set(xlabel=x, ylabel=y, xticks=[], yticks=[])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _size(ax: Axes) -> tuple[float, float]:
    """Tell how wide and how high the axes are, in points; the layout may still change it a little."""
    return 72 * ax.bbox.width / ax.figure.dpi, 72 * ax.bbox.height / ax.figure.dpi


def _origin(first: float) -> float:
    """Tell from where seconds are counted: a machine clock's are too large to be read."""
    return first if first > _MACHINE else 0.0


def _time_axis(ax: Axes, first: float, last: float, since_start: bool) -> None:
    """Put seconds on the x axis, written in the unit that suits how many there are."""
    length = last - first or 1.0
    scale, unit = next((scale, unit) for limit, scale, unit in _UNITS if length <= limit)
    ax.set_xlim(first - 0.02 * length, first + 1.03 * length)
    ax.xaxis.set_major_locator(_Ticks(scale))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round(x / scale, 9):,.10g}"))
    ax.set_xlabel(f"time since the start ({unit})" if since_start else f"time ({unit})")
    ax.grid(axis="x", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


class _Ticks(MaxNLocator):
    """Round numbers of a unit that is so many seconds."""

    def __init__(self, scale: float) -> None:
        super().__init__(nbins="auto", steps=[1, 2, 2.5, 5, 10])
        self._scale = scale

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return np.asarray(super().tick_values(vmin / self._scale, vmax / self._scale)) * self._scale


def _count_axis(ax: Axes, what: str, above: float = 12.0, whole: bool = True) -> None:
    """Put a quantity on the y axis, from 0 to its largest value and so many points above."""
    height, largest = _size(ax)[1], ax.dataLim.y1
    ax.set_ylabel(what)
    ax.set_ylim(0, (largest if largest > 0 else 1.0) * height / max(height - above, 0.5 * height))
    ax.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=whole))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{round(y, 9):,.10g}"))
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes, entries: list[Any]) -> None:
    """Put the key below the axes, where it covers nothing and leaves the top to a title."""
    below = ax.transAxes + ScaledTranslation(0, -38 / 72, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        handles=entries, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, borderaxespad=0, frameon=False,
        ncols=max(1, int(_size(ax)[0] // 92)), fontsize=9, handlelength=2, columnspacing=1.4,
    )  # fmt: skip
    for line in legend.get_lines():
        line.set_linewidth(min(line.get_linewidth(), 4.0))


# -- text from anywhere --


def _text(text: str, limit: int = 40) -> str:
    """Make text safe to draw: no mathematics between dollars, no control characters, nothing that the font has not."""
    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in rcParams["font.family"]]
    seen = shortened(text, limit)
    drawn = (c if any(font.get_char_index(ord(c)) for font in fonts) else _named(c) for c in seen)
    drawable = "".join(drawn).replace("$", r"\$")
    return f" {drawable}" if drawable.startswith("_") else drawable  # a key leaves out what starts with an underscore


def _named(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
