"""Maps: what happens at each pair of two numbers."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from qlab import drawing
from qlab.drawing import Numbers
from qlab.plots import given

_STUCK = LinearSegmentedColormap.from_list("stuck", ["#FFFFFF", "#F0B287", "#D55E00", "#5E2900"])
_SHARES = {0.0: "none stuck", 0.5: "half stuck", 1.0: "all stuck"}
_UNKNOWN: dict[str, Any] = {"facecolor": "#F4F4F4", "edgecolor": "#BBBBBB", "hatch": "////"}


def storm_map(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw where clients that try again keep a queue overloaded after an outage is over: a retry storm.

    A queue whose requests all time out gets A times its load where a client sends a request up to A times. Right of the
    dashed line, where λ > μ / A, it can stay stuck.

    Args:
        frame: One row a cell, or a run of a cell:

            - `attempts` (from 1): how often a client sends a request at most (A);
            - `arrival_rate` (requests per second): λ;
            - `stuck` (0 to 1): the share of runs that stayed stuck; NaN, or no row, where none was run;
            - `service_rate` (requests per second, may be left out): μ, the same in each row; it draws the line.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> cells = {"attempts": [1, 1, 4, 4], "arrival_rate": [0.2, 0.4, 0.2, 0.4], "stuck": [0.0, 0.0, 0.0, 1.0]}
        >>> ax = plots.storm_map(pd.DataFrame(cells).assign(service_rate=1.0))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('arrival rate λ (requests per second)', 'attempts of a request')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['none stuck', 'half stuck', 'all stuck', 'λ = μ / A']
    """
    given.check(frame, "a frame as help(plots.storm_map) tells", "attempts", "arrival_rate", "stuck")
    ax = drawing.new_axes(9.0, 3.6) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "arrival rate λ (requests per second)", "attempts of a request", "no runs yet")
    table = frame.groupby(["attempts", "arrival_rate"])["stuck"].mean().unstack()
    edges = _edges(table.columns.to_numpy(float))
    _draw_cells(ax, table, edges)
    _label_axes(ax, table, edges)
    entries: list[Artist] = [Patch(fc=_STUCK(share), ec="0.6", label=text) for share, text in _SHARES.items()]
    if table.isna().to_numpy().any():
        entries.append(Patch(**_UNKNOWN, label="not run"))
    drawing.add_key(ax, [*entries, *_draw_threshold(ax, frame, table)])
    return ax


def _edges(values: Numbers) -> Numbers:
    """Tell where each cell ends: half way to the next, and as far on the other side at the ends."""
    if len(values) == 1:
        values = values * np.array([0.8, 1.0, 1.2])
        return (values[1:] + values[:-1]) / 2
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])


def _draw_cells(ax: Axes, table: pd.DataFrame, edges: Numbers) -> None:
    """Draw a cell for each pair, and its share in it where there is room."""
    rows = np.arange(len(table) + 1) - 0.5
    ax.fill_between(edges[[0, -1]], -0.5, rows[-1], lw=0, **_UNKNOWN)
    shares = table.to_numpy(float)
    ax.pcolormesh(edges, rows, np.ma.masked_invalid(shares), cmap=_STUCK, vmin=0, vmax=1, ec="white", lw=1, zorder=2)
    points = drawing.size_of(ax)[0] / (edges[-1] - edges[0]) * np.diff(edges)
    middle = (edges[1:] + edges[:-1]) / 2
    for row, column in np.argwhere(~np.isnan(shares) & (points >= 26)):
        share = shares[row, column]
        halo = withStroke(linewidth=4, foreground=_STUCK(share))
        ax.text(
            middle[column], row, f"{100 * share:.0f} %", ha="center", va="center", fontsize=8, zorder=5,
            color="white" if share > 0.45 else "0.2", path_effects=[halo],
        )  # fmt: skip


def _label_axes(ax: Axes, table: pd.DataFrame, edges: Numbers) -> None:
    ax.set(xlim=edges[[0, -1]], ylim=(-0.5, len(table) - 0.5))
    ax.set(xlabel="arrival rate λ (requests per second)", ylabel="attempts of a request")
    ax.set_yticks(range(len(table)), [f"{attempts}" for attempts in table.index])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_threshold(ax: Axes, frame: pd.DataFrame, table: pd.DataFrame) -> list[Artist]:
    """Draw in each row where λ = μ / A; where no rate of service is known, nothing."""
    if "service_rate" not in frame or frame["service_rate"].isna().all():
        return []
    at = np.repeat(frame["service_rate"].dropna().iloc[0] / table.index.to_numpy(float), 2)
    height = np.repeat(np.arange(len(table) + 1) - 0.5, 2)[1:-1]
    return list(ax.plot(at, height, **drawing.CLOSED_FORM | {"label": "λ = μ / A", "zorder": 4, "lw": 2}))
