"""The same jobs in other hands."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from qlab import drawing
from qlab.drawing import drawable, significant
from qlab.plots import arms, given

_SHADES = ("0.78", "0.6", "0.45", "0.32")
_UNACKNOWLEDGED = "////"


def peers_bars(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second each queue does, one bar a number of workers, the fastest first.

    qlab's are in the colours of its drivers, all others grey; a paler bar is fewer workers. What does not acknowledge
    is hatched: a job in the hands of a killed worker is gone.

    Args:
        frame: One row a queue and number of workers, of one class:

            - `peer` (text): what it is; qlab's are called `qlab`;
            - `store` (text): where its jobs are, such as `SQLite` or `Redis`; with `driver`, qlab's have its colour;
            - `survives` (text): what it survives;
            - `workers` (int), `jobs_per_second` (float), with `low` and `high` (may be left out): the range of repeats;
            - `acknowledges` (bool, may be left out): whether a job is kept until it is done.
        ax: Where to draw; by default a picture as tall as the queues need.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, or they survive different things.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> rates = {"peer": ["huey", "qlab"], "store": "SQLite", "workers": 1, "jobs_per_second": [3_000.0, 3_400.0]}
        >>> ax = plots.peers_bars(pd.DataFrame(rates).assign(survives="a power cut", acknowledges=[False, True]))
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['qlab, SQLite', 'huey, SQLite']
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['1 worker', "no acknowledgement: a killed worker's job is gone"]
    """
    given.check(
        frame, "a frame as help(plots.peers_bars) tells", "peer", "store", "survives", "workers", "jobs_per_second"
    )
    arms.check_alike(frame)
    rows = len(frame[["peer", "store"]].drop_duplicates()) if len(frame) else 1
    counts = sorted(set(frame["workers"])) if len(frame) else [1]
    ax = drawing.new_axes(9.0, 1.6 + 0.24 * max(3, rows * (len(counts) + 0.6))) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "jobs per second", "queue", "no runs yet")
    names = _fastest_first(frame)
    for place, (peer, store) in enumerate(names):
        mine = frame[(frame["peer"].astype(str) == peer) & (frame["store"].astype(str) == store)]
        _draw_bars(ax, mine, place, counts)
    _label_axes(ax, names, frame)
    ax.set_title(f"On stores that survive {frame['survives'].iloc[0]}", loc="left", fontsize=10, color="0.25")
    drawing.add_key(ax, _explained(frame, counts))
    return ax


def _fastest_first(frame: pd.DataFrame) -> list[tuple[str, str]]:
    told = pd.DataFrame({"peer": frame["peer"].astype(str), "store": frame["store"].astype(str)})
    best = told.assign(rate=frame["jobs_per_second"]).groupby(["peer", "store"], sort=False)["rate"].max()
    return list(best.sort_values(ascending=False, kind="stable").index)


def _draw_bars(ax: Axes, mine: pd.DataFrame, place: int, counts: list[int]) -> None:
    width = 0.82 / len(counts)
    for row in mine.to_dict("records"):
        nth = counts.index(row["workers"])
        middle = place + (nth - (len(counts) - 1) / 2) * width
        kept = row.get("acknowledges", True)
        style: dict[str, Any] = {"ec": "white", "lw": 0, "hatch": "" if kept else _UNACKNOWLEDGED}
        ax.barh(middle, row["jobs_per_second"], 0.92 * width, fc=_colour(row, nth, len(counts)), **style)
        _write_rate(ax, row, middle)


def _colour(row: dict[Any, Any], nth: int, of: int) -> Any:
    """Choose a bar's colour: a driver's for qlab, grey for others; the fewer workers, the paler."""
    if not str(row["peer"]).startswith("qlab"):
        return _SHADES[min(nth, len(_SHADES) - 1)]
    driver = str(row.get("driver") or ("sqlite" if "sqlite" in str(row["store"]).lower() else "redis_zset"))
    colour = drawing.looks_of([driver])[driver].colour
    return (*_rgb(colour), 1 - 0.5 * (of - 1 - nth) / max(1, of - 1))


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _write_rate(ax: Axes, row: dict[Any, Any], middle: float) -> None:
    rate, end = row["jobs_per_second"], row["jobs_per_second"]
    if {"low", "high"} <= {*row} and row["high"] > row["low"]:
        ax.plot([row["low"], row["high"]], [middle, middle], color="0.2", lw=1.2, label="_range")
        end = max(end, row["high"])
    halo = [withStroke(linewidth=2.5, foreground="white")]
    place: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "path_effects": halo}
    ax.annotate(significant(rate), (end, middle), (3, 0), **place)


def _label_axes(ax: Axes, names: list[tuple[str, str]], frame: pd.DataFrame) -> None:
    ends = frame["high"] if "high" in frame else frame["jobs_per_second"]
    ax.set(xlim=(0, 1.12 * np.nanmax(ends)), ylim=(len(names) - 0.5, -0.5), xlabel="jobs per second", ylabel="queue")
    ax.set_yticks(range(len(names)), [drawable(f"{peer}, {store}", 40) for peer, store in names])
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    ax.grid(axis="x", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)


def _explained(frame: pd.DataFrame, counts: list[int]) -> list[Artist]:
    told: list[Artist] = [
        Patch(fc=_SHADES[min(i, len(_SHADES) - 1)], label=arms.of(count)) for i, count in enumerate(counts)
    ]
    if "acknowledges" in frame and not frame["acknowledges"].all():
        label = "no acknowledgement: a killed worker's job is gone"
        told.append(Patch(fc="0.6", ec="white", hatch=_UNACKNOWLEDGED, label=label))
    return told
