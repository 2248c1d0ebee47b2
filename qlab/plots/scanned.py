"""A large scan that is stored at once, or in chunks, and who waits for it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from qlab import drawing
from qlab.plots import arms, given
from qlab.show import rounded

_SCAN_MARKERS = "osD^v"


def scan_wait(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how long a dispatch waited while a large scan was stored, at once or in chunks.

    Args:
        frame: One row a dispatch: `how` (text) the scan was stored, such as `one transaction`, and how long it waited,
            `wait` (s).
        ax: Where to draw; by default a picture of its own.
    """
    given.check(frame, "a frame as help(plots.scan_wait) tells", "how", "wait")
    ways = list(dict.fromkeys(frame["how"].astype(str))) if len(frame) else []
    ax = drawing.new_axes(9.0, 1.8 + 0.6 * max(1, len(ways))) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "wait of a dispatch", "scan stored in", "no runs yet")
    arms.log_seconds(ax, "x", "wait of a dispatch")
    ax.set_xlim(arms.span(frame["wait"], 1.5))
    for row, how in enumerate(ways):
        wait = np.sort(frame.loc[frame["how"].astype(str) == how, "wait"].to_numpy(float))
        spread = ((np.arange(len(wait)) * 0.382) % 1 - 0.5) * 0.44
        colour, marker = drawing.COLOURS["sqlite"], _SCAN_MARKERS[row % len(_SCAN_MARKERS)]
        ax.plot(wait, row + spread, ls="", marker=marker, ms=5, mfc=colour, mec="white", mew=0.4, alpha=0.7)
        ends = float(np.median(wait)), float(wait[-1])
        for at in ends:
            ax.plot([at, at], [row - 0.3, row + 0.3], color="black", lw=1.6, label="_end")
        text, place = "half within {}, all within {}".format(*map(rounded, ends)), ("axes fraction", "data")
        ax.annotate(text, (0.01, row - 0.34), xycoords=place, va="bottom", fontsize=8)
    ax.set(ylim=(len(ways) - 0.4, -0.75), ylabel="scan stored in")
    ax.set_yticks(range(len(ways)), [drawing.drawable(how, 24) for how in ways])
    ax.tick_params(axis="y", length=0)
    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 5, "mec": "white"}
    drawing.add_key(
        ax,
        [
            Line2D([], [], mfc=drawing.COLOURS["sqlite"], label="a dispatch", **dot),
            Line2D([], [], ls="", marker="|", ms=11, mew=1.6, color="black", label="median and slowest"),
        ],
    )
    return ax
