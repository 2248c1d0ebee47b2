"""How far runs were from theory, case by case."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from qlab import drawing
from qlab.drawing import Numbers, drawable
from qlab.plots import given

_FAR = 2.0  # tolerances: what is farther off stands at the edge
_MET: dict[str, Any] = {"marker": "o", "s": 26, "c": "#009E73", "edgecolors": "white", "linewidths": 0.5, "zorder": 2}
_MISSED: dict[str, Any] = {
    "marker": "X",
    "s": 60,
    "c": "#D55E00",
    "edgecolors": "white",
    "linewidths": 0.6,
    "zorder": 3,
}
_NAMED = 12  # missed cases whose names are written


def deviations(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how far each case was from what theory expects, in its own tolerance: inside the band it is met.

    Points of independent runs lie on both sides of 0, most of them in the middle half of the band.

    Args:
        frame: One row a case:

            - `id`, `group`: its name, and the row that it is drawn in;
            - `expected`, `got`, `tolerance` (in the case's own unit): numbers; a case without one of them, or with a
              tolerance of 0, is not drawn;
            - `met`: whether it counts as met.
        ax: Where to draw; by default a picture as tall as the groups need.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> rows = [("mm1.wait", "mm1", 1.0, 1.02, 0.1, True), ("poll.wait", "polling", 2.5, 2.9, 0.2, False)]
        >>> frame = pd.DataFrame(rows, columns=["id", "group", "expected", "got", "tolerance", "met"])
        >>> ax = plots.deviations(frame)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('(got − expected) / tolerance', 'group of cases')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['within the tolerance', 'met: 1', 'missed: 1']
    """
    given.check(
        frame,
        "a frame as help(plots.deviations) tells",
        "id",
        "group",
        "expected",
        "got",
        "tolerance",
        "met",
        bare=False,
    )
    groups = list(dict.fromkeys(frame["group"].astype(str)))
    ax = drawing.new_axes(9.0, 1.5 + 0.28 * max(3, len(groups))) if ax is None else ax
    measured = _measured(frame)
    if measured.empty:
        return drawing.say_nothing(ax, "(got − expected) / tolerance", "group of cases", "no cases yet")
    groups = [group for group in groups if (measured["group"].astype(str) == group).any()]
    ax.axvspan(-1, 1, color="0.92", lw=0, zorder=0)
    ax.axvline(0, color="0.6", lw=0.8, zorder=1)
    row = np.array([groups.index(str(group)) for group in measured["group"]])
    _draw_points(ax, measured, row + _spread(row))
    _label_axes(ax, groups)
    drawing.add_key(ax, _explained(measured, int((~frame["met"].astype(bool)).sum())))
    return ax


def _measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the cases that are numbers, with how far off each is, in tolerances."""
    got, expected, tolerance = (
        pd.to_numeric(frame[name], errors="coerce") for name in ("got", "expected", "tolerance")
    )
    off = (got - expected) / tolerance.where(tolerance > 0)
    return frame.assign(off=off)[np.isfinite(off)]


def _spread(row: Numbers) -> Numbers:
    """Set the cases of a row a little below each other, so that equal ones are all seen."""
    place = pd.Series(row).groupby(row).cumcount().to_numpy()
    return (place * 0.382 % 1 - 0.5) * 0.5


def _draw_points(ax: Axes, measured: pd.DataFrame, height: Numbers) -> None:
    off, met = measured["off"].to_numpy(float), measured["met"].to_numpy(bool)
    ax.scatter(off[met], height[met], **_MET)
    ax.scatter(off[~met].clip(-_FAR, _FAR), height[~met], **_MISSED)
    for i in np.flatnonzero(~met)[:_NAMED]:
        place, side = (off[i].clip(-_FAR, _FAR), height[i]), -1 if off[i] > 0 else 1
        name = drawable(str(measured["id"].iloc[i]))
        far = f" ({off[i]:+.3g})".replace("-", "−") if abs(off[i]) > _FAR else ""
        ax.annotate(
            name + far, place, (7 * side, 0), textcoords="offset points", fontsize=8, va="center",
            ha="left" if side > 0 else "right",
        )  # fmt: skip


def _label_axes(ax: Axes, groups: list[str]) -> None:
    ax.set(xlim=(-_FAR - 0.08, _FAR + 0.08), ylim=(len(groups) - 0.5, -0.5))
    ax.set(xlabel="(got − expected) / tolerance", ylabel="group of cases")
    ax.set_yticks(range(len(groups)), [drawable(group, 24) for group in groups])
    ax.xaxis.set_major_locator(MultipleLocator(0.5))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _explained(measured: pd.DataFrame, missed: int) -> list[Artist]:
    met = int(measured["met"].sum())
    told: list[Artist] = [
        Patch(color="0.92", label="within the tolerance"),
        Line2D([], [], ls="", marker="o", ms=5, mfc=_MET["c"], mec="white", label=f"met: {met:,}"),
    ]
    drawn = len(measured) - met
    if missed:
        left = f", {missed - drawn:,} of them without a number" if missed > drawn else ""
        style = {"marker": "X", "ms": 8, "mfc": _MISSED["c"], "mec": "white"}
        told.append(Line2D([], [], ls="", **style, label=f"missed: {missed:,}{left}"))
    return told
