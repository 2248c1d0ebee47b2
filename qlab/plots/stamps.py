"""What stands under a picture of runs: the store, the seed, and the digest that a run made again must have."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import NamedTuple, Protocol

from matplotlib.axes import Axes

from qlab import drawing
from qlab.drawing import drawable
from qlab.trace import Trace, together

_LINES = 4  # of a stamp: more runs than that share one


class Made(Protocol):
    """What a picture must say of what it shows; a `Run` has it, and so has a side of a lab."""

    @property
    def trace(self) -> Trace:
        """What happened."""

    @property
    def description(self) -> str:
        """Product, version and settings of the store."""


class Mark(NamedTuple):
    """What is left of a run for a stamp, where it is too large to be kept.

    Attributes:
        description: Product, version and settings of the store.
        seed: Where its chance started; empty where that is not known.
        digest: 16 hexadecimal digits that stand for its trace.

    Example:
        >>> from qlab import plots
        >>> kept = plots.Mark("SQLite 3.40.1", seed="7", digest="0f2a4c6e8b1d3f57")
        >>> ax = plots.stamp(plots.Picture().add_subplot(), kept)
        >>> ax.texts[-1].get_text()
        'SQLite 3.40.1 · seed 7 · trace 0f2a4c6e8b1d3f57'
    """

    description: str
    seed: str
    digest: str


def mark(run: Made) -> Mark:
    """Take from a run what its stamp needs.

    Args:
        run: What `simulate` or a real run gave, or a side of a lab.

    Raises:
        TypeError: It has no trace, or does not say of which store.

    Example:
        >>> from qlab import plots, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None, seed=7)
        >>> plots.mark(run) == plots.Mark("memory", "7", run.trace.digest())
        True
    """
    if not (hasattr(run, "trace") and hasattr(run, "description")):
        raise TypeError(f"a stamp is of a Run, such as simulate gives, or of what mark took from one, not of {run!r}")
    scenario = getattr(run, "scenario", None)
    return Mark(run.description, "" if scenario is None else f"{scenario.seed}", run.trace.digest())


def stamp(ax: Axes, *runs: Made | Mark) -> Axes:
    """Write under a picture what it is of: the store, the seed where there is one, and the trace's digest.

    Equal digests are equal runs, event by event; such runs share a line. Of many runs, one digest stands for all.

    Args:
        ax: The picture, its key included: the stamp stands below it.
        runs: What it shows.

    Raises:
        TypeError: A run has no trace, or does not say of which store.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None, seed=7)
        >>> ax = plots.stamp(plots.depth(frames.depth(run.trace)), run)
        >>> ax.texts[-1].get_text()
        'memory · seed 7 · trace 4745d816566d1f2b'
    """
    return write(ax, _lines([run if isinstance(run, Mark) else mark(run) for run in runs]))


def stamp_machine(ax: Axes, servers: Iterable[str], machine: Mapping[str, str]) -> Axes:
    """Write under a picture of runs in real time what they ran on: the stores, and the machine.

    Args:
        ax: The picture, its key included: the stamp stands below it.
        servers: Product, version and settings of the stores, as `frames.contention` has them in `server`.
        machine: Versions and settings, by name, as `Contention.machine` has them.

    Example:
        >>> from qlab import plots
        >>> machine = {"machine": "x86_64, 2 cores", "Python": "CPython 3.11.7"}
        >>> ax = plots.stamp_machine(plots.Picture().add_subplot(), ["SQLite 3.40.1, WAL"], machine)
        >>> print(ax.texts[-1].get_text())
        SQLite 3.40.1, WAL
        x86_64, 2 cores · Python CPython 3.11.7
    """
    of = " · ".join(f"{value}" if name == "machine" else f"{name} {value}" for name, value in machine.items())
    return write(ax, [line for line in (" · ".join(dict.fromkeys(map(str, servers))), of) if line])


def write(ax: Axes, lines: Iterable[str]) -> Axes:
    """Write lines in small letters under a picture and its key."""
    room = max(20, int(drawing.size_of(ax)[0] / 3.9))
    text = "\n".join(part for line in lines for part in wrap(drawable(line, 600), room))
    key = ax.get_legend()
    ax.annotate(
        text, (0, 0), (0, -5 if key else -8), xycoords=("axes fraction", key or ax.xaxis.label),
        textcoords="offset points", annotation_clip=False, va="top", fontsize=7, color="0.35",
    )  # fmt: skip
    return ax


def _lines(marks: list[Mark]) -> Iterator[str]:
    """Say what a picture is of, a line for each digest, or one for all."""
    equal: dict[str, list[Mark]] = {}
    for each in marks:
        equal.setdefault(each.digest, []).append(each)
    if len(equal) > _LINES:
        yield _line(marks, ", ", f"{len(marks):,} runs, their traces {together(each.digest for each in marks)}")
        return
    for digest, same in equal.items():
        yield _line(same, " ≡ ", f"trace {digest}")


def _line(marks: list[Mark], between: str, traces: str) -> str:
    stores = between.join(dict.fromkeys(each.description for each in marks))
    seeds = list(dict.fromkeys(each.seed for each in marks if each.seed))
    seed = [] if not seeds else [f"seed {seeds[0]}"] if len(seeds) == 1 else [f"{len(seeds)} seeds"]
    return " · ".join([stores, *seed, traces])
