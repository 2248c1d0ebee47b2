"""Bars of one driver beside another's."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from qlab import drawing
from qlab.drawing import Numbers, drawable, significant
from qlab.plots import given


def rates(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second each driver did, for each number of workers.

    Args:
        frame: Columns `driver`, `workers` and `jobs_per_second`, one row a bar; with `low` and `high` (jobs a second
            too), the range of the runs behind it is a line on the bar.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> rates = {"driver": ["sqlite", "redis_zset"], "workers": [4, 4], "jobs_per_second": [9_000.0, 5_200.0]}
        >>> ax = plots.rates(pd.DataFrame(rates))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('workers', 'jobs per second')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['sqlite', 'redis_zset']
    """
    given.check(frame, "a frame as help(plots.rates) tells", "driver", "workers", "jobs_per_second")
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


def _draw_rates(ax: Axes, mine: pd.DataFrame, middle: Numbers, width: float, **style: Any) -> float:
    rate = mine["jobs_per_second"].to_numpy(float)
    top = np.nan_to_num(rate)
    ax.bar(middle, rate, 0.92 * width, edgecolor="white", lw=0, **style)
    if {"low", "high"} <= set(mine.columns):
        low, high = mine["low"].to_numpy(float), mine["high"].to_numpy(float)
        reach = np.maximum([rate - low, high - rate], 0)
        ax.errorbar(middle, rate, reach, fmt="none", ecolor="0.2", elinewidth=1.2, capsize=2.5)
        top = np.fmax(top, high)
    return drawing.label_bars(ax, middle, top, [significant(value) for value in rate], width)
