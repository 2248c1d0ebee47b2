"""How the arms of a contention look: a colour each driver, a marker each arm, shapes by what a store survives."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from qlab import drawing
from qlab.drawing import Numbers, drawable
from qlab.driver import SURVIVED
from qlab.show import rounded

MADE_BY = "frames.contention(found)"
"""What gives the frame that most of these pictures draw."""

HATCHES = {SURVIVED[0]: "..", SURVIVED[1]: "//", SURVIVED[2]: "", SURVIVED[3]: "xx"}
DASHES: dict[str, Any] = {SURVIVED[0]: ":", SURVIVED[1]: (0, (6, 2)), SURVIVED[2]: "-", SURVIVED[3]: (0, (6, 2, 1, 2))}

_MARKERS = {SURVIVED[0]: "H8", SURVIVED[1]: "v^<>", SURVIVED[2]: "oX*p", SURVIVED[3]: "sDPd"}
_THIN = "X*Pd"  # markers that look smaller than they are


class ArmLook(NamedTuple):
    """How an arm looks: its driver's colour, a marker of its class, and what tells it from others in grey."""

    colour: str
    marker: str
    inside: str
    dashes: Any
    hatch: str


def looks_of(frame: pd.DataFrame) -> dict[str, ArmLook]:
    """Choose how each arm of a frame looks, by its driver and by what it survives.

    They come in the order of the categories, where `arm` is one, so that an arm looks the same in each picture; else in
    the order of the frame.
    """
    named = pd.DataFrame({"arm": frame["arm"].astype(str), "driver": drivers_of(frame), "survives": _survives(frame)})
    arms = named.drop_duplicates("arm").set_index("arm", drop=False)
    if isinstance(frame["arm"].dtype, pd.CategoricalDtype):
        arms = arms.loc[[name for name in frame["arm"].cat.categories if name in arms.index]]
    colours = drawing.looks_of(dict.fromkeys(arms["driver"]))
    seen: Counter[str] = Counter()
    looks = {}
    for arm, driver, survives in arms.astype(str).to_numpy():
        markers, place = _MARKERS.get(survives, "os^D"), seen[survives]
        seen[survives] += 1
        inside = colours[driver].colour if place // len(markers) % 2 == 0 else "white"
        look = ArmLook(
            colours[driver].colour,
            markers[place % len(markers)],
            inside,
            DASHES.get(survives, "-"),
            HATCHES.get(survives, ""),
        )
        looks[arm] = look
    return looks


def drivers_of(frame: pd.DataFrame) -> pd.Series:
    """Tell each row's driver: an arm's name begins with it."""
    return frame["driver"].astype(str) if "driver" in frame else frame["arm"].astype(str).str.split().str[0]


def _survives(frame: pd.DataFrame) -> pd.Series:
    return frame["survives"].astype(str) if "survives" in frame else pd.Series("", frame.index)


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Give a frame with text in place of categories."""
    told = frame.copy()
    for name in ("arm", "driver", "survives"):
        told[name] = frame[name].astype(str)
    return told


def check_alike(frame: pd.DataFrame) -> None:
    """Refuse arms of unlike durability: a faster one may be faster because it promises less.

    Raises:
        ValueError: There are several classes.
    """
    classes = sorted(set(_survives(frame)), key=lambda name: SURVIVED.index(name) if name in SURVIVED else -1)
    if len(classes) > 1:
        raise ValueError(
            f"the arms survive different things ({', '.join(classes)}): draw those of one class, as in "
            f"frame[frame['survives'] == {classes[-1]!r}]"
        )


def say_class(ax: Axes, frame: pd.DataFrame, *more: str) -> None:
    """Write above the picture what its arms survive, and what else holds for all of it."""
    survives = [f"each survives {_survives(frame).iloc[0]}"] if "survives" in frame and len(frame) else []
    told = "; ".join([*more, *survives])
    ax.set_title(told[:1].upper() + told[1:], loc="left", fontsize=10, color="0.25")


def of(count: int, name: str = "worker") -> str:
    """Write how many there are: `1 worker`, `8 workers`."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def line_style(look: ArmLook) -> dict[str, Any]:
    """Give the style of a line through what was measured."""
    return {
        "color": look.colour,
        "marker": look.marker,
        "mfc": look.inside,
        "mec": "white" if look.inside != "white" else look.colour,
        "mew": 0.6 if look.inside != "white" else 1.5,
        "ms": 10 if look.marker in _THIN else 8,
    }


# -- axes --


def workers_axis(ax: Axes, counts: Any, margin: float = 0.25) -> None:
    """Put numbers of workers on the x axis, each doubling as far as the last."""
    there = np.unique(np.asarray(counts, float))
    ax.set_xscale("log", base=2)
    ax.set_xlim(there[0] / 2**margin, there[-1] * 2**margin)
    ax.xaxis.set_major_locator(FixedLocator(list(there)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.set_xlabel("workers")
    _plain(ax)


def log_seconds(ax: Axes, which: str, what: str) -> None:
    """Put seconds on an axis, `x` or `y`, a step each power of ten, written as µs, ms or s."""
    axis = _log(ax, which)
    axis.set_major_formatter(FuncFormatter(lambda value, _: rounded(value)))
    axis.set_label_text(what)


def log_counts(ax: Axes, what: str) -> None:
    """Put a quantity on the y axis, a step each power of ten."""
    axis = _log(ax, "y")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_label_text(what)


class _Steps(LogLocator):
    """Powers of ten, and 2 and 5 between them where there are few."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        self.set_params(subs=(1.0,) if vmax > 500 * vmin else (1.0, 2.0, 5.0), numticks=14)
        return super().tick_values(vmin, vmax)


def _log(ax: Axes, which: str) -> Any:
    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    axis.set_major_locator(_Steps())
    axis.set_minor_locator(NullLocator())
    ax.grid(axis=which, color="0.9", lw=0.8)  # type: ignore[arg-type] # "x" or "y"
    _plain(ax)
    return axis


def _plain(ax: Axes) -> None:
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def nth_best(values: Any) -> int | None:
    """Tell the place of the largest of some values; None where there is none."""
    there = np.asarray(values, float)
    return int(np.nanargmax(there)) if np.isfinite(there).any() else None


def span(values: Any, room: float = 1.6) -> tuple[float, float]:
    """Tell from where to where a log axis of these values goes; what is not above 0 has no place on it."""
    there: Numbers = np.asarray(values, float)
    there = there[np.isfinite(there) & (there > 0)]
    return (there.min() / room, there.max() * room) if len(there) else (0.1, 10.0)


def named(arm: str, *told: str) -> str:
    """Write an entry of the key: an arm, and what is told of it."""
    return ": ".join([drawable(arm, 80), ", ".join(told)]) if told else drawable(arm, 80)
