"""What durability costs each driver."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from qlab import drawing
from qlab.drawing import significant
from qlab.driver import SURVIVED
from qlab.plots import arms, given


def durability_cost(frame: pd.DataFrame, *, workers: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second each driver does, by what its arms survive: what durability costs.

    Over each bar stands by how much it is slower than the fastest arm of its driver that survives less.

    Args:
        frame: What `frames.contention` gives, of all classes.
        workers: Of how many workers; by default of one, where it was run, for there nobody waits for anybody.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, or nothing was run with so many workers.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> arms = {"arm": ["sqlite FULL", "sqlite NORMAL"], "jobs_per_second": [400.0, 9_000.0]}
        >>> survives = ["a power cut", "a power cut but for the last moments"]
        >>> frame = pd.DataFrame(arms).assign(survives=survives, driver="sqlite", workers=1)
        >>> ax = plots.durability_cost(frame)
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['survives a power cut but for the last moments', 'survives a power cut']
        >>> ax.texts[-1].get_text().splitlines()
        ['FULL', '400', '÷ 22.5']
    """
    given.check(frame, arms.MADE_BY, "arm", "driver", "survives", "workers", "jobs_per_second")
    ax = drawing.new_axes(9.0, 4.0) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "driver", "jobs per second", "no runs yet")
    count = int(frame["workers"].min()) if workers is None else workers
    mine = _ordered(frame[(frame["workers"] == count) & (frame["jobs_per_second"] > 0)])
    if mine.empty:
        there = ", ".join(map(str, sorted(set(frame["workers"]))))
        raise ValueError(f"nothing was done with {workers!r} workers: use one of {there}")
    arms.log_counts(ax, "jobs per second")
    ax.set_ylim(10 ** np.floor(np.log10(mine["jobs_per_second"].min() / 2)), 2.2 * mine["jobs_per_second"].max())
    _draw_costs(ax, mine)
    ax.set_xlabel("driver")
    ax.set_title(arms.of(count), loc="left", fontsize=10, color="0.25")
    classes = [name for name in SURVIVED if name in set(mine["survives"])]
    drawing.add_key(ax, [Patch(fc="0.75", ec="white", hatch=arms.HATCHES[c], label=f"survives {c}") for c in classes])
    return ax


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Put the arms of a driver together, those that survive least first."""
    told = arms.as_text(frame)
    driver = {name: i for i, name in enumerate(dict.fromkeys(told["driver"]))}
    place = {name: i for i, name in enumerate(SURVIVED)}
    key = pd.DataFrame({"driver": told["driver"].map(driver), "class": told["survives"].map(place)})
    order = key.assign(rate=-told["jobs_per_second"]).sort_values([*key, "rate"], kind="stable").index
    return told.loc[order]


def _draw_costs(ax: Axes, mine: pd.DataFrame) -> None:
    looks, drivers = arms.looks_of(mine), list(dict.fromkeys(mine["driver"]))
    place, middles, ticks, names = 0.0, [], [], []
    for driver in drivers:
        rows = mine[mine["driver"] == driver]
        ticks.append(place + (len(rows) - 1) / 2)
        for row in rows.to_dict("records"):
            look, rate = looks[row["arm"]], row["jobs_per_second"]
            ax.bar(place, rate, 0.9, fc=look.colour, hatch=look.hatch, ec="white", lw=0)
            less = rows[rows["survives"].map(SURVIVED.index) < SURVIVED.index(row["survives"])]
            names.append(_cost(row["arm"].removeprefix(driver).strip(), rate, less["jobs_per_second"].max()))
            middles.append((place, rate))
            place += 1
        place += 0.8
    for at, text in zip(middles, names, strict=True):
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.annotate(
            text, at, (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=8, path_effects=halo
        )
    ax.set_xlim(-0.9, place - 0.9)
    ax.set_xticks(ticks, [drawing.drawable(driver) for driver in drivers])
    ax.tick_params(axis="x", length=0)


def _cost(setting: str, rate: float, without: float) -> str:
    """Write over a bar its setting, its rate, and how many times slower it is than what survives less."""
    told = [drawing.drawable(setting)] if setting else []
    factor = [f"÷ {without / rate:.3g}" if rate < without else f"× {rate / without:.3g}"] if without > 0 else []
    return "\n".join([*told, significant(rate), *factor])
