"""When workers ask, on a circle: once around is one interval between two polls."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from qlab import drawing
from qlab.drawing import Numbers
from qlab.plots import given

_INNER = 0.3  # the first moment's radius; the last one's is 1
_MOMENTS = 60  # as many as can be told apart
_COLOUR = "#0072B2"
_LABEL = {"fc": "white", "ec": "none", "alpha": 0.75, "pad": 0.8}
_AROUND, _OUTWARD = "when in the interval a worker polls (s)", "time (s), outward"


def poll_phases(polls: pd.DataFrame, *, interval: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw at which point of the interval each worker polls, one dot a worker; time goes outward.

    Workers that ask one after the other stand apart, and a job is found soon. Where they have drifted together, they
    all ask at once, and a job waits as long as if there were one worker. The key tells the longest time without a poll.

    Args:
        polls: One row a poll, as `frames.polls` gives it: `at` (s) is when, `worker` who asked; with `driver`, which
            must be one, in that driver's colour.
        interval: How many seconds a worker waits between two polls; by default what is usual in the frame.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, the interval is not above 0, or no worker has polled twice, so that none can be
            found.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> polls = pd.DataFrame({"at": [0.0, 0.25, 1.0, 1.25], "worker": ["one", "two", "one", "two"]})
        >>> ax = plots.poll_phases(polls)
        >>> [text.get_text() for text in ax.get_legend().get_texts()][2:]
        ['longest without a poll, at first: 0.75 s', 'longest without a poll, at last: 0.75 s']
    """
    given.check(polls, "frames.polls(run.trace)", "at", "worker")
    ax = drawing.new_axes(5.4, 5.6) if ax is None else ax
    if polls.empty:
        return drawing.say_nothing(ax, _AROUND, _OUTWARD, "no polls yet")
    each = {str(name): np.sort(mine["at"].to_numpy(float)) for name, mine in polls.groupby("worker", observed=True)}
    once = _usual(each) if interval is None else interval
    if not 0 < once < np.inf:
        raise ValueError(f"interval is {once} s: use a number of seconds above 0")
    moments = np.linspace(max(at[0] for at in each.values()), polls["at"].max(), _MOMENTS)
    phases = np.array([_phases(at, moments, once) for at in each.values()])
    _draw_rings(ax, once, moments)
    for worker in phases:
        _draw_worker(ax, worker, _colour(polls))
    drawing.add_key(ax, _explained(phases, once, _colour(polls)))
    return ax


def _usual(each: dict[str, Numbers]) -> float:
    gaps = np.concatenate([np.diff(at) for at in each.values()])
    gaps = gaps[gaps > 0]
    if not len(gaps):
        raise ValueError("no worker polled twice: say the interval, as in poll_phases(polls, interval=1.0)")
    return float(np.median(gaps))


def _phases(at: Numbers, moments: Numbers, interval: float) -> Numbers:
    """Tell at which point of the interval, from 0 to 1, a worker's latest poll was, at each moment."""
    latest: Numbers = at[np.searchsorted(at, moments, side="right") - 1]
    return latest % interval / interval


def _colour(polls: pd.DataFrame) -> str:
    return drawing.looks_of([str(polls["driver"].iloc[0])]).popitem()[1].colour if "driver" in polls else _COLOUR


def _places(phases: Numbers, radius: Numbers | float) -> tuple[Numbers, Numbers]:
    """Place points on the circle: 0 at the top, clockwise."""
    return radius * np.sin(2 * np.pi * phases), radius * np.cos(2 * np.pi * phases)


def _draw_worker(ax: Axes, phases: Numbers, colour: str) -> None:
    """Draw where a worker was at each moment, the darker, the later, and a large dot where it is at last."""
    x, y = _places(phases, np.linspace(_INNER, 1, len(phases)))
    later = [(*to_rgb(colour), opaque) for opaque in np.linspace(0.25, 0.8, len(x) - 1)]
    ax.scatter(x[:-1], y[:-1], s=7, c=later, lw=0, zorder=2)
    ax.plot(x[-1:], y[-1:], "o", ms=9, mfc=colour, mec="white", mew=0.8, alpha=0.8, zorder=4)


def _draw_rings(ax: Axes, interval: float, moments: Numbers) -> None:
    """Draw the circle, in place of straight axes: the interval around it, and time outward."""
    unit, origin = drawing.unit_of(interval), drawing.origin_of(moments[0])
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9}
    spokes = np.array([0, 0.25, 0.5, 0.75])
    ax.plot(*_places(np.stack([spokes, spokes]), np.array([[_INNER], [1.03]])), color="0.85", lw=0.8, zorder=1)
    for x, y, spoke in zip(*_places(spokes, 1.14), spokes, strict=True):
        ax.text(x, y, unit.say(spoke * interval), **style)
    radii = np.array([_INNER, (1 + _INNER) / 2, 1])
    shown, times = drawing.unit_of(moments[-1] - moments[0]), np.interp(radii, radii[[0, 2]], moments[[0, -1]]) - origin
    for x, y, radius, moment in zip(*_places(np.full(3, 0.125), radii), radii, times, strict=True):
        ax.add_patch(Circle((0, 0), radius, fill=False, ec="0.85", lw=0.8, zorder=1))
        ax.text(x, y, shown.say(moment), **style | {"fontsize": 7, "color": "0.2", "zorder": 5, "bbox": _LABEL})
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.25, 1.25), xticks=[], yticks=[], aspect="equal")
    ax.set_xlabel(_AROUND)
    ax.set_ylabel(_OUTWARD, labelpad=14)
    ax.spines[:].set_visible(False)


def _explained(phases: Numbers, interval: float, colour: str) -> list[Artist]:
    first, last = (_longest_gap(phases[:, i]) * interval for i in (0, -1))
    unit = drawing.unit_of(interval)
    dot: dict[str, Any] = {"ls": "", "marker": "o", "mec": "white", "mfc": colour}
    return [
        Line2D([], [], **dot, ms=9, label=f"each of {len(phases)} workers, at last"),
        Line2D([], [], **dot, ms=4, alpha=0.6, label="before, from the start"),
        Line2D([], [], ls="", label=f"longest without a poll, at first: {unit.say(first)}"),
        Line2D([], [], ls="", label=f"longest without a poll, at last: {unit.say(last)}"),
    ]


def _longest_gap(phases: Numbers) -> float:
    """Tell the largest share of the interval in which nobody polls."""
    around = np.sort(phases)
    return float(np.max(np.diff(np.append(around, around[0] + 1))))
