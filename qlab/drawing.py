"""What the pictures of `plots` are drawn with: axes, keys, the drivers' looks, and text from anywhere."""

import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import cycle
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from qlab.clock import is_simulated
from qlab.escape import shortened

COLOURS = {"memory": "#000000", "sqlite": "#0072B2", "redis_list": "#D55E00", "redis_zset": "#E69F00"}
"""Each driver's colour, the same in every picture."""

DRAWN = 3_000
"""Points of a line: more than a picture has pixels."""

CLOSED_FORM: dict[str, Any] = {
    "color": "black",
    "ls": (0, (4, 2)),
    "lw": 1.3,
    "label": "closed form",
    "path_effects": [withStroke(linewidth=3, foreground="white")],
}
"""How what theory says looks, in every picture: the white around it parts it from what it lies on."""

Numbers: TypeAlias = NDArray[Any]

_SPARE = ("#009E73", "#CC79A7", "#56B4E9", "#999999")
_DASHES: dict[str, Any] = {
    "memory": (0, (1, 1)),
    "sqlite": "-",
    "redis_list": (0, (6, 2)),
    "redis_zset": (0, (6, 2, 1, 2)),
}
_HATCHES = {"redis_list": "//"}  # the only one whose brightness is close to another's
_UNITS = ((0.5, 0.001, "ms"), (7_200.0, 1.0, "s"), (172_800.0, 3_600.0, "h"), (math.inf, 86_400.0, "d"))


class Unit(NamedTuple):
    """A unit of time, and how many seconds it is."""

    seconds: float
    name: str

    def say(self, seconds: float) -> str:
        """Write seconds in this unit."""
        return f"{significant(seconds / self.seconds)} {self.name}"


class Picture(Figure):
    """A matplotlib figure that shows itself as the last value of a cell, with pyplot or without.

    Args:
        options: What `matplotlib.figure.Figure` takes, such as `figsize` in inches; `layout` is `constrained` unless
            said.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> picture = plots.Picture(figsize=(12, 4))
        >>> left, right = picture.subplots(1, 2)
        >>> _ = plots.depth(frames.depth(run.trace), ax=left)
        >>> _ = plots.waits(frames.waits(run.trace), ax=right)
        >>> [ax.get_xlabel() for ax in picture.axes]
        ['time (s)', 'wait (s)']
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"layout": "constrained"} | options)

    def about(self) -> str:
        """Tell what it shows, for those who cannot see it: titles, axes with their units, and what is in the keys."""
        told = "; ".join(said for ax in self.axes if (said := _about(ax)))
        return told or ", ".join(text.get_text() for ax in self.axes for text in ax.texts) or "a picture"

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """Draw it twice as fine as it is shown."""
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=2 * self.dpi)
        width, height = (round(side * self.dpi) for side in self.get_size_inches())
        return drawn.getvalue(), {"width": width, "height": height, "alt": self.about()}


def _about(ax: Axes) -> str:
    legend = ax.get_legend()
    keys = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    titles = [ax.get_title(loc) for loc in ("left", "center", "right")]
    sides = [label for label in (ax.get_ylabel(), ax.get_xlabel()) if label]
    parts = [*filter(None, titles), " against ".join(sides), ", ".join(keys)]
    return " ".join(": ".join(part for part in parts if part).split())


class Look(NamedTuple):
    """How a driver looks: the colour, dashes and hatch of its lines and bars."""

    colour: str
    dashes: Any
    hatch: str


def looks_of(drivers: Iterable[str]) -> dict[str, Look]:
    """Choose how each driver looks; those without a colour of their own get the spare ones, in their order."""
    spare = cycle(_SPARE)
    return {
        driver: Look(COLOURS[driver], _DASHES[driver], _HATCHES.get(driver, ""))
        if driver in COLOURS
        else Look(next(spare), "-", "")
        for driver in drivers
    }


# -- axes --


def new_axes(width: float, height: float) -> Axes:
    """Make a picture of so many inches, and its axes."""
    return Picture(figsize=(width, height)).add_subplot()


def say_nothing(ax: Axes, x: str, y: str, why: str = "no jobs yet") -> Axes:
    """Say that there is nothing to draw yet."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color="0.4")
    ax.set(xlabel=x, ylabel=y, xticks=[], yticks=[])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def size_of(ax: Axes) -> tuple[float, float]:
    """Tell how wide and how high the axes are, in points; the layout may still change it a little."""
    return 72 * ax.bbox.width / ax.figure.dpi, 72 * ax.bbox.height / ax.figure.dpi


def origin_of(first: float) -> float:
    """Tell from where seconds are counted: a machine clock's are too large to be read."""
    return 0.0 if is_simulated(first) else first


def time_since(origin: float) -> str:
    """Name the time of an axis that begins there."""
    return "time since the start" if origin else "time"


def unit_of(length: float) -> Unit:
    """Choose the unit in which so many seconds are best read."""
    return next(Unit(scale, name) for limit, scale, name in _UNITS if length <= limit)


def seconds_axis(ax: Axes, what: str, first: float, last: float) -> None:
    """Put seconds on the x axis, written in the unit that suits how many there are."""
    length = last - first or 1.0
    unit = unit_of(length)
    ax.set_xlim(first - 0.02 * length, first + 1.03 * length)
    ax.xaxis.set_major_locator(_Ticks(unit.seconds))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round(x / unit.seconds, 9):,.10g}"))
    ax.set_xlabel(f"{what} ({unit.name})")
    ax.grid(axis="x", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


class _Ticks(MaxNLocator):
    """Round numbers of a unit that is so many seconds."""

    def __init__(self, scale: float) -> None:
        super().__init__(nbins="auto", steps=[1, 2, 2.5, 5, 10])
        self._scale = scale

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return np.asarray(super().tick_values(vmin / self._scale, vmax / self._scale)) * self._scale


def share_axis(ax: Axes, what: str) -> None:
    """Put shares from 0 to 1 on the x axis, written in percent."""
    ax.set(xlim=(-0.02, 1.02), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0", "25", "50", "75", "100"])
    ax.set_xlabel(f"{what} (%)")
    ax.grid(axis="x", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def count_axis(ax: Axes, what: str, above: float = 12.0, whole: bool = True) -> None:
    """Put a quantity on the y axis, from 0 to its largest value and so many points above."""
    height, largest = size_of(ax)[1], ax.dataLim.y1
    ax.set_ylabel(what)
    ax.set_ylim(0, (largest if largest > 0 else 1.0) * height / max(height - above, 0.5 * height))
    ax.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=whole))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{round(y, 9):,.10g}"))
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def add_key(ax: Axes, entries: Sequence[Artist | tuple[Artist, ...]]) -> None:
    """Put the key below the axes, where it covers nothing and leaves the top to a title.

    Artists in a tuple are one entry, drawn on each other; the first one's label counts.
    """
    labels = [str((entry if hasattr(entry, "get_label") else entry[0]).get_label()) for entry in entries]
    widest = max([80.0, *(36 + 4.8 * len(label) for label in labels)])  # points
    below = ax.transAxes + ScaledTranslation(0, -38 / 72, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        entries, labels, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, borderaxespad=0, frameon=False,
        ncols=max(1, int(size_of(ax)[0] // (widest + 12))), fontsize=9, handlelength=2, columnspacing=1.4,
    )  # fmt: skip
    for line in legend.get_lines():
        line.set_linewidth(min(line.get_linewidth(), 4.0))


def label_bars(ax: Axes, x: Numbers, tops: Numbers, texts: list[str], width: float) -> float:
    """Write a text above each bar, upright where the bars are narrow; tell how many points that takes."""
    left, right = ax.get_xlim()
    room = size_of(ax)[0] * width / (right - left)
    longest = 5.5 * max(map(len, texts))
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 8}
    style["path_effects"] = [withStroke(linewidth=2.5, foreground="white")]
    style["rotation"] = 90 if longest > room else 0
    for at, top, text in zip(x, tops, texts, strict=True):
        ax.annotate(text, (at, top), (0, 3), **style)
    return 5 + (longest if style["rotation"] else 11)


# -- text and numbers --


def significant(value: float) -> str:
    """Write a number with the three digits that count, `1,234` in full; a dash where there is none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def drawable(text: str, limit: int = 40) -> str:
    """Make text safe to draw: no mathematics between dollars, no control characters, nothing that the font has not."""
    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in rcParams["font.family"]]
    seen = shortened(text, limit)
    drawn = (c if any(font.get_char_index(ord(c)) for font in fonts) else _named(c) for c in seen)
    drawable = "".join(drawn).replace("$", r"\$")
    return f" {drawable}" if drawable.startswith("_") else drawable  # a key leaves out what starts with an underscore


def _named(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
