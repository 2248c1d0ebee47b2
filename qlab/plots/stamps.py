"""What stands under a picture of a run: the store, and the digest that a run made again must have."""

from textwrap import wrap
from typing import Protocol

from matplotlib.axes import Axes

from qlab import drawing
from qlab.drawing import drawable
from qlab.trace import Trace


class Made(Protocol):
    """What a picture must say of what it shows; a `Run` has it."""

    @property
    def trace(self) -> Trace:
        """What happened."""

    @property
    def description(self) -> str:
        """Product, version and settings of the store."""


def stamp(ax: Axes, *runs: Made) -> Axes:
    """Write under a picture what it is of: the store, the seed where there is one, and the trace's digest.

    Equal digests are equal runs, event by event; such runs share a line.

    Args:
        ax: The picture, its key included: the stamp stands below it.
        runs: What it shows.
    """
    return write_stamp(ax, told(*runs))


def told(*runs: Made) -> list[str]:
    """Say what a picture of these runs is of, a line for each digest."""
    together: dict[str, list[Made]] = {}
    for run in runs:
        together.setdefault(run.trace.digest(), []).append(run)
    return [_line(equal, digest) for digest, equal in together.items()]


def write_stamp(ax: Axes, lines: list[str]) -> Axes:
    """Write lines under a picture and its key, in small letters, no wider than the axes."""
    room = max(20, int(drawing.size_of(ax)[0] / 3.9))
    text = "\n".join(part for line in lines for part in wrap(drawable(line, 400), room))
    key = ax.get_legend()
    ax.annotate(
        text, (0, 0), (0, -5 if key else -8), xycoords=("axes fraction", key or ax.xaxis.label),
        textcoords="offset points", annotation_clip=False, va="top", fontsize=7, color="0.35",
    )  # fmt: skip
    return ax


def _line(runs: list[Made], digest: str) -> str:
    stores = " = ".join(dict.fromkeys(run.description for run in runs))
    seeds = dict.fromkeys(f"seed {run.scenario.seed}" for run in runs if hasattr(run, "scenario"))
    return " · ".join([stores, *seeds, f"trace {digest}"])
