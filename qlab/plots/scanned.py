"""A large scan that is stored at once, or in chunks, and who waits for it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from qlab import drawing
from qlab.drawing import COLOURS, drawable
from qlab.plots import arms, given
from qlab.show import rounded

_MARKS = {"p50_s": ("o", "half of them"), "p95_s": ("|", "95 % of them"), "max_s": ("D", "all of them")}
_SIZES = {"o": 8, "|": 13, "D": 8}


def scan_wait(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how long a dispatch waited while a large scan was stored in the same file, at once or in chunks.

    Args:
        frame: One row a way to scan, as `pd.DataFrame` makes it of what the measuring of scans gives: `scan` (text),
            such as `one transaction`; `p50_s`, `p95_s`, `max_s` (s): within what half of the dispatches, 95 %, and all
            were stored, NaN where none fell due. With `scan_s` (s), how long the scan took stands there, too.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> rows = [("one transaction", 1.2, 2.1, 2.3), ("chunks of 500", 0.002, 0.01, 0.03)]
        >>> ax = plots.scan_wait(pd.DataFrame(rows, columns=["scan", "p50_s", "p95_s", "max_s"]))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('wait of a dispatch', 'scan stored in')
        >>> [text.get_text() for text in ax.texts]
        ['half within 1.2 s, 95 % 2.1 s, all 2.3 s', 'half within 2 ms, 95 % 10 ms, all 30 ms']
    """
    given.check(frame, "a frame as help(plots.scan_wait) tells", "scan", "p50_s", "p95_s", "max_s")
    ax = drawing.new_axes(9.0, 1.8 + 0.6 * max(1, len(frame))) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "wait of a dispatch", "scan stored in", "no runs yet")
    arms.log_seconds(ax, "x", "wait of a dispatch")
    ax.set_xlim(arms.span(frame[[*_MARKS]].to_numpy(float).ravel(), 1.5))
    for place, row in enumerate(frame.to_dict("records")):
        _draw_way(ax, place, {str(name): value for name, value in row.items()})
    ax.set(ylim=(len(frame) - 0.5, -0.75), ylabel="scan stored in")
    ax.set_yticks(range(len(frame)), [drawable(str(scan), 32) for scan in frame["scan"]])
    ax.tick_params(axis="y", length=0)
    drawing.add_key(
        ax, [Line2D([], [], ls="", label=f"{what} stored within", **_style(m)) for m, what in _MARKS.values()]
    )
    return ax


def _style(marker: str) -> dict[str, Any]:
    edge = {"mec": COLOURS["sqlite"], "mew": 2.4} if marker == "|" else {"mec": "white", "mew": 0.6}
    return {"marker": marker, "ms": _SIZES[marker], "mfc": COLOURS["sqlite"], **edge}


def _draw_way(ax: Axes, place: int, row: dict[str, Any]) -> None:
    waits = [row[name] for name in _MARKS]
    if not np.isfinite(waits).any():
        return
    ax.plot([np.nanmin(waits), np.nanmax(waits)], [place, place], color=COLOURS["sqlite"], lw=1.6, alpha=0.5, label="_")
    for wait, (marker, _) in zip(waits, _MARKS.values(), strict=True):
        ax.plot([wait], [place], ls="", label="_", **_style(marker))
    said = "half within {}, 95 % {}, all {}".format(*map(rounded, waits))
    said += f"; the scan took {rounded(row['scan_s'])}" if "scan_s" in row else ""
    ax.annotate(said, (0.01, place - 0.2), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
