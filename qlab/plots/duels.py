"""One store against another, where they survive the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from qlab import drawing
from qlab.frames.predictions import round_trip_of
from qlab.plots import arms, given
from qlab.show import rounded

_MORE = "s^DvoX"
_RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_AXES = {
    "workers": "workers",
    "length": "length of a job",
    "round_trip": "round trip added on the way to the server",
}


class Duel(NamedTuple):
    """A Redis arm against the fastest SQLite arm of its class, at each number of workers, or length, or round trip.

    Attributes:
        arm: The Redis arm.
        against: The SQLite arms that were the fastest somewhere.
        survives: What both survive.
        at: Where on the axis, rising.
        ratio: Redis' jobs a second by SQLite's.
        low: Redis' slowest repeat by SQLite's fastest.
        high: Redis' fastest by SQLite's slowest.
        workers: How many, where the axis is something else.
    """

    arm: str
    against: str
    survives: str
    at: list[float]
    ratio: list[float]
    low: list[float]
    high: list[float]
    workers: int | None


def crossover(frame: pd.DataFrame, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw where which store is the faster: Redis' jobs a second by SQLite's, of what survives the same.

    Above the line at 1 Redis is the faster, below it SQLite. Each Redis arm is held against the fastest SQLite arm of
    its class; the line at a point goes from its slowest repeat by SQLite's fastest to the opposite. Where it touches 1,
    neither is clearly the faster.

    Args:
        frame: What `frames.contention` gives, of all classes. Frames of several experiments can be put together with
            columns `length` (s, of a job) or `round_trip` (s, added on the way to the server).
        by: What the x axis is: `workers`, `length` or `round_trip`; by default the last of these of which the frame has
            several values. Round trips are also told by the names of arms, such as `redis_zset always +1 ms`.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: There is no such axis, or the frame lacks a column.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> rows = [("sqlite FULL", "sqlite", 1, 900.0), ("redis_zset always", "redis_zset", 1, 450.0)]
        >>> frame = pd.DataFrame(rows, columns=["arm", "driver", "workers", "jobs_per_second"])
        >>> ax = plots.crossover(frame.assign(survives="a power cut"))
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['redis_zset always / sqlite FULL: survive a power cut']
        >>> [float(ratio) for ratio in ax.containers[0][0].get_ydata()]
        [0.5]
    """
    given.check(frame, arms.MADE_BY, "arm", "driver", "survives", "workers", "jobs_per_second")
    ax = drawing.new_axes(9.0, 4.0) if ax is None else ax
    if by == "round_trip" and by not in frame and any(round_trip_of(str(arm)) for arm in frame.get("arm", ())):
        frame = by_round_trip(frame)
    by = _axis(frame, by)
    found = [] if frame.empty else list(duels(frame, by))
    if not found:
        why = "no runs yet" if frame.empty else "nothing to compare: no SQLite and Redis of like durability"
        return drawing.say_nothing(ax, _AXES[by], "Redis / SQLite, jobs per second", why)
    _ratio_axes(ax, found, by)
    entries = [_draw_duel(ax, each, look) for each, look in zip(found, _looks(frame, found), strict=True)]
    drawing.add_key(ax, entries)
    return ax


def duels(frame: pd.DataFrame, by: str = "workers") -> Iterator[Duel]:
    """Hold each Redis arm against the fastest SQLite arm of its class."""
    told = arms.as_text(frame)
    others = [] if by == "workers" else ["workers"]
    for (survives, *workers), rows in told.groupby(["survives", *others], sort=False):
        sqlite = rows[rows["driver"] == "sqlite"]
        best = sqlite.sort_values("jobs_per_second", kind="stable").drop_duplicates(by, keep="last")
        for arm, mine in rows[rows["driver"].str.startswith("redis")].groupby("arm", sort=False):
            both = mine.drop_duplicates(by).merge(best, on=by, suffixes=("", "_sqlite")).sort_values(by)
            if len(both):
                yield _duel(str(arm), str(survives), by, both, *workers)


def _duel(arm: str, survives: str, by: str, both: pd.DataFrame, workers: Any = None) -> Duel:
    ours, theirs = both["jobs_per_second"], both["jobs_per_second_sqlite"]
    ranged = {"low", "high"} <= {*both}
    low = both["low"] / both["high_sqlite"] if ranged else ours / theirs
    high = both["high"] / both["low_sqlite"] if ranged else ours / theirs
    against = " or ".join(dict.fromkeys(both["arm_sqlite"]))
    return Duel(arm, against, survives, [*both[by]], [*(ours / theirs)], [*low], [*high], workers)


def by_round_trip(frame: pd.DataFrame) -> pd.DataFrame:
    """Put arms that differ in a round trip under one name, with the time of it in a column, in seconds.

    An arm without one stands at 0, rather over TCP, as the others are; SQLite, which has none, at each of the times.
    """
    told = arms.as_text(frame)
    told = told.assign(round_trip=told["arm"].map(round_trip_of))
    far = told[told["round_trip"] > 0]
    names = {arm.rsplit(" +", 1)[0] for arm in far["arm"]}
    over_tcp = {name for name in names if f"{name} tcp" in set(told["arm"])}
    start = {f"{name} tcp" if name in over_tcp else name: name for name in names}
    near = told[told["arm"].isin(list(start))].assign(arm=lambda rows: rows["arm"].map(start))
    away = far.assign(arm=far["arm"].str.rsplit(" +", n=1).str[0])
    sqlite = told[told["driver"] == "sqlite"]
    times = sorted({*near["round_trip"], *away["round_trip"]})
    return pd.concat([*(sqlite.assign(round_trip=time) for time in times), near, away], ignore_index=True)


def _axis(frame: pd.DataFrame, by: str | None) -> str:
    if by is None:
        return next((name for name in reversed(_AXES) if name in frame and frame[name].nunique() > 1), "workers")
    if by not in _AXES:
        raise ValueError(f"by is {by!r}: use one of {', '.join(_AXES)}")
    if by not in frame and len(frame):
        raise ValueError(f"the frame has no column {by!r}: add it, as in frame.assign({by}=0.001), in seconds")
    return by


def _ratio_axes(ax: Axes, found: list[Duel], by: str) -> None:
    at = [place for each in found for place in each.at]
    if by == "workers":
        arms.workers_axis(ax, at)
    else:
        ax.set_xscale("symlog", linthresh=min([place for place in at if place > 0], default=1.0))
        ax.xaxis.set_major_locator(FixedLocator(sorted(set(at))))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(value)))
        ax.set_xlabel(_AXES[by])
        ax.spines[["top", "right"]].set_visible(False)
    ends = [value for each in found for value in (*each.low, *each.high, *each.ratio)]
    low, high = arms.span([*ends, 0.5, 2.0], 1.25)
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(FixedLocator(_RATIOS))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_ylabel("Redis / SQLite, jobs per second")
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.axhline(1, color="black", lw=1.4, zorder=1.5)
    style: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "rotation": 90}
    style |= {"fontsize": 8, "color": "0.25", "annotation_clip": False}
    ax.annotate("Redis faster", (1, 1), (4, 4), va="bottom", **style)
    ax.annotate("SQLite faster", (1, 1), (4, -4), va="top", **style)


def _looks(frame: pd.DataFrame, found: list[Duel]) -> list[arms.ArmLook]:
    """Give each duel the look of its Redis arm; where an arm has several, by workers, other markers."""
    looks, seen, chosen = arms.looks_of(frame), Counter[str](), []
    for each in found:
        nth, look = seen[each.arm], looks[each.arm]
        seen[each.arm] += 1
        chosen.append(look._replace(marker=_MORE[nth % len(_MORE)], inside="white") if nth else look)
    return chosen


def _draw_duel(ax: Axes, duel: Duel, look: arms.ArmLook) -> Any:
    ratio = np.array(duel.ratio)
    reach = np.nan_to_num(np.maximum([ratio - duel.low, np.array(duel.high) - ratio], 0))
    of = "" if duel.workers is None else f", {arms.of(duel.workers)}"
    style = arms.line_style(look) | {"ls": look.dashes, "lw": 2.0, "elinewidth": 1.2, "capsize": 2.5}
    label = arms.named(f"{duel.arm} / {duel.against}{of}", f"survive {duel.survives}")
    drawn: Any = ax.errorbar(duel.at, ratio, yerr=reach, label=label, zorder=3, **style)
    return drawn
