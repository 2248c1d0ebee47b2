"""A number against what it hangs on: what runs gave as points, what theory says dashed, and how far chance reaches."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from qlab import drawing
from qlab.drawing import drawable
from qlab.plots import given

_MARKERS = "osD^vPX<>*"
_BANDS = ("band_low", "band_high")
_BAND: dict[str, Any] = {"color": "0.2", "alpha": 0.16, "lw": 0}


def wait_by_utilisation(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the mean wait against how busy the workers are: the knee that every queue has.

    Args:
        frame: One row a point:

            - `utilisation` (0 to 1): the share of the workers' time that is spent on jobs;
            - `wait` (s): the mean wait of a run; NaN where only the closed form is known;
            - `low`, `high` (s, may be left out): the interval of that mean;
            - `closed_form` (s, may be left out): what theory says;
            - `band_low`, `band_high` (s, may be left out): between which the mean of such a run lies, by sampling error
              alone;
            - `driver`, `model` (may be left out): a line for each.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots, theory
        >>> loads = [0.5, 0.8, 0.9]
        >>> frame = pd.DataFrame({"utilisation": loads, "wait": [1.02, 3.9, 9.4], "model": "M/M/1"})
        >>> frame["closed_form"] = [theory.MMc(load, 1.0).wait for load in loads]
        >>> ax = plots.wait_by_utilisation(frame)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('utilisation (%)', 'mean wait (s)')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['M/M/1', 'closed form']
    """
    given.check(frame, "a frame as help(plots.wait_by_utilisation) tells", "utilisation", "wait")
    ax = drawing.new_axes(9.0, 4.2) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "utilisation (%)", "mean wait (s)", "no runs yet")
    drawing.share_axis(ax, "utilisation")
    entries = _draw_lines(ax, frame, "utilisation", "wait", ("driver", "model"))
    drawing.count_axis(ax, "mean wait (s)", whole=False)
    drawing.add_key(ax, entries)
    return ax


def runs_by_retry_after(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many times a job runs against how long it may take: a reservation that runs out makes one run more.

    Args:
        frame: One row a point:

            - `retry_after` (s): how long a reservation holds;
            - `runs`: the mean number of runs a job; NaN where only the closed form is known;
            - `low`, `high`, `closed_form`, `band_low`, `band_high` (runs, may be left out): as in
              `wait_by_utilisation`;
            - `driver`, `completion` (may be left out): a line for each; by `completion` is meant whether a worker
              completes by its reservation's token, as the contract says, or by the job's id.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import math
        >>> import pandas as pd
        >>> from qlab import plots, theory
        >>> frame = pd.DataFrame({"retry_after": [30.0, 60.0], "runs": [1.31, 1.06], "completion": "by token"})
        >>> frame["closed_form"] = [theory.runs_by_token(math.exp(-seconds / 20)) for seconds in frame["retry_after"]]
        >>> ax = plots.runs_by_retry_after(frame)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('retry_after (s)', 'runs per job')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['by token', 'closed form']
    """
    given.check(frame, "a frame as help(plots.runs_by_retry_after) tells", "retry_after", "runs")
    ax = drawing.new_axes(9.0, 4.2) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "retry_after (s)", "runs per job", "no runs yet")
    drawing.seconds_axis(ax, "retry_after", min(0.0, frame["retry_after"].min()), frame["retry_after"].max())
    entries = _draw_lines(ax, frame, "retry_after", "runs", ("driver", "completion"))
    drawing.count_axis(ax, "runs per job", whole=False)
    ax.set_ylim(bottom=1 - 0.04 * (ax.get_ylim()[1] - 1))  # no job is done without a run
    drawing.add_key(ax, entries)
    return ax


class _Line(NamedTuple):
    """A line of a picture: its name, its colour, its points' marker and size, and its rows."""

    name: str
    colour: str
    marker: str
    size: float
    rows: pd.DataFrame


def _draw_lines(ax: Axes, frame: pd.DataFrame, x: str, y: str, by: tuple[str, str]) -> list[Artist]:
    """Draw what theory says and each line's points; give the entries of the key."""
    frame = frame.sort_values(x, kind="stable")
    lines = _lines(frame, by)
    _draw_theory(ax, lines, x)
    for line in lines:
        _draw_points(ax, line, x, y)
    named = [
        Line2D([], [], ls="", marker=line.marker, color=line.colour, label=drawable(line.name) or "simulated")
        for line in lines
    ]
    return [*named, *_explained(frame)]


def _lines(frame: pd.DataFrame, by: tuple[str, str]) -> list[_Line]:
    """Part the rows into lines; points that may lie on each other are the smaller, the later they are drawn."""
    there = [column for column in by if column in frame]
    parts = [*frame.groupby(there, sort=False, observed=True)] if there else [((), frame)]
    names = [tuple(map(str, key)) for key, _ in parts]
    looks = drawing.looks_of(dict.fromkeys(name[0] if name else "" for name in names))
    return [
        _Line(", ".join(name), looks[name[0] if name else ""].colour, _MARKERS[i % len(_MARKERS)], size, rows)
        for i, (name, (_, rows)) in enumerate(zip(names, parts, strict=True))
        for size in [5.5 + 1.5 * min(3, len(parts) - 1 - i)]
    ]


def _draw_theory(ax: Axes, lines: list[_Line], x: str) -> None:
    """Draw each closed form and each band once, also where several drivers have the same."""
    drawn = set()
    for line in lines:
        for columns, draw in ((("closed_form",), _draw_closed_form), (_BANDS, _draw_band)):
            told = line.rows[[x, *columns]].to_numpy(float).tobytes() if {*columns} <= {*line.rows} else b""
            if told and (columns, told) not in drawn:
                drawn.add((columns, told))
                draw(ax, line, x)


def _draw_closed_form(ax: Axes, line: _Line, x: str) -> None:
    ax.plot(line.rows[x], line.rows["closed_form"], **drawing.CLOSED_FORM | {"label": f"_{line.name}"})


def _draw_band(ax: Axes, line: _Line, x: str) -> None:
    ax.fill_between(line.rows[x], line.rows["band_low"], line.rows["band_high"], **_BAND)


def _draw_points(ax: Axes, line: _Line, x: str, y: str) -> None:
    seen = line.rows[line.rows[y].notna()]
    at, value = seen[x].to_numpy(float), seen[y].to_numpy(float)
    style: dict[str, Any] = {"fmt": line.marker, "color": line.colour, "ms": line.size, "mec": "white", "mew": 0.6}
    if {"low", "high"} <= {*seen}:
        low, high = seen["low"].to_numpy(float), seen["high"].to_numpy(float)
        style["yerr"] = np.maximum([value - low, high - value], 0)
    ax.errorbar(at, value, **style, elinewidth=1.2, capsize=2.5, label=line.name, zorder=3)


def _explained(frame: pd.DataFrame) -> list[Artist]:
    """Explain what is there besides the points."""
    told: list[Artist] = []
    if {"low", "high"} <= {*frame}:
        told.append(Line2D([], [], ls="", marker="|", ms=11, mew=1.2, color="0.35", label="interval of the mean"))
    if "closed_form" in frame:
        told.append(Line2D([], [], **drawing.CLOSED_FORM))
    if {*_BANDS} <= {*frame}:
        told.append(Patch(**_BAND, label="sampling error of such a run"))
    return told
