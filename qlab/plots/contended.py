"""Real workers on real stores: what they reached together, the worst call and the fairness under it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from qlab import drawing
from qlab.drawing import DRAWN, Numbers, significant
from qlab.frames.predictions import Prediction, predictions
from qlab.plots import arms, given
from qlab.plots.arms import ArmLook
from qlab.show import rounded

_MODEL: dict[str, Any] = {key: value for key, value in drawing.CLOSED_FORM.items() if key not in ("color", "label")}
_KNEE: dict[str, Any] = {"ls": "", "marker": "|", "ms": 17, "mew": 2.2}


def throughput_by_workers(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs a second so many workers did together, beside what a closed model predicts.

    The model is dashed, in its arm's colour, and a prediction: both of its numbers come from the run with one worker
    alone (`frames.predicted` says how). N workers think for Z, each for itself, and then need the store for D, one
    after the other. Its knee, (Z + D) / D workers, is a bar across it: from there on, workers wait for each other.

    Args:
        frame: What `frames.contention` gives, its arms of one class (`survives`): how fast a store is says nothing
            where another promises more. With `low` and `high`, the range of the repeats is a line at the point.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, or the arms survive different things.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> frame = pd.DataFrame({"arm": ["sqlite FULL"] * 2, "workers": [1, 8], "jobs_per_second": [400.0, 700.0]})
        >>> ax = plots.throughput_by_workers(frame)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('workers', 'jobs per second')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['sqlite FULL: 700 at most (8 workers)']
    """
    given.check(frame, arms.MADE_BY, "arm", "workers", "jobs_per_second")
    arms.check_alike(frame)
    ax = drawing.new_axes(9.0, 4.4) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "workers", "jobs per second", "no runs yet")
    arms.workers_axis(ax, frame["workers"])
    looks, models = arms.looks_of(frame), _models(frame)
    for arm, model in models.items():
        _draw_model(ax, model, looks[arm], int(frame["workers"].max()))
    entries = [_draw_measured(ax, frame, arm, look, models.get(arm)) for arm, look in looks.items()]
    drawing.count_axis(ax, "jobs per second", whole=False)
    arms.say_class(ax, frame)
    drawing.add_key(ax, [*entries, *_explained(frame, models)])
    return ax


def _models(frame: pd.DataFrame) -> dict[str, Prediction]:
    there = {"driver", "survives"} <= set(frame)
    return {model.arm: model for model in predictions(frame)} if there else {}


def _draw_model(ax: Axes, model: Prediction, look: ArmLook, most: int) -> None:
    counts = np.unique(np.geomspace(1, most, 64).round().astype(int))
    rates = [model.at(int(count)) for count in counts]
    ax.plot(counts, rates, color=look.colour, label="_model", zorder=2, **_MODEL)
    if model.knee <= most:
        at = np.interp(model.knee, counts, rates)
        ax.plot([model.knee], [at], color=look.colour, label="_knee", zorder=4, **_KNEE)


def _draw_measured(ax: Axes, frame: pd.DataFrame, arm: str, look: ArmLook, model: Prediction | None) -> Any:
    mine = _of(frame, arm)
    workers, rate = mine["workers"].to_numpy(float), mine["jobs_per_second"].to_numpy(float)
    style = arms.line_style(look) | {"lw": 2.2, "elinewidth": 1.2, "capsize": 2.5}
    if {"low", "high"} <= set(mine):
        reach = np.array([rate - mine["low"].to_numpy(float), mine["high"].to_numpy(float) - rate])
        style["yerr"] = np.maximum(np.nan_to_num(reach), 0)
    best = arms.nth_best(rate)
    told = [] if best is None else [f"{significant(rate[best])} at most ({arms.of(int(workers[best]))})"]
    told += [f"knee {significant(model.knee)}"] if model is not None else []
    drawn: Any = ax.errorbar(workers, rate, **style, label=arms.named(arm, *told), zorder=3)
    return drawn


def _explained(frame: pd.DataFrame, models: dict[str, Prediction]) -> list[Artist]:
    told: list[Artist] = []
    if {"low", "high"} <= set(frame) and (frame["high"] > frame["low"]).any():
        told.append(Line2D([], [], ls="", marker="|", ms=11, mew=1.2, color="0.35", label="range of the repeats"))
    if models:
        label = "closed model, predicted from the run with 1 worker"
        told.append(Line2D([], [], color="0.2", label=label, **_MODEL))
        told.append(Line2D([], [], color="0.2", label="its knee: from here on workers wait", **_KNEE | {"ms": 11}))
    return told


def fairness_by_workers(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the worst reserve of so many workers, and under it how evenly they shared the jobs.

    Args:
        frame: What `frames.contention` gives, its arms of one class: `reserve_max` (s) is the longest that a worker
            waited for a job which was there, `fewest_most` (0 to 1) how many jobs the worker with the fewest did
            against the one with the most.
        ax: Where to draw; by default a picture of its own. The space is shared with axes above it, for the worst
            reserve.

    Returns:
        The lower axes.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, or the arms survive different things.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> shares = {"arm": ["sqlite FULL"] * 2, "workers": [1, 8], "reserve_max": [0.004, 2.5]}
        >>> ax = plots.fairness_by_workers(pd.DataFrame(shares).assign(fewest_most=[1.0, 0.4]))
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['sqlite FULL: 2.5 s (8 workers)']
        >>> [each.get_ylabel() for each in ax.figure.axes]
        ['fewest / most jobs', 'worst reserve']
    """
    given.check(frame, arms.MADE_BY, "arm", "workers", "reserve_max", "fewest_most")
    arms.check_alike(frame)
    ax = drawing.new_axes(9.0, 5.2) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "workers", "fewest / most jobs", "no runs yet")
    above = _above(ax)
    arms.workers_axis(ax, frame["workers"])
    arms.log_seconds(above, "y", "worst reserve")
    above.set_ylim(arms.span(frame["reserve_max"]))
    ax.set(ylim=(-0.03, 1.05), yticks=[0, 0.25, 0.5, 0.75, 1], ylabel="fewest / most jobs")
    ax.grid(axis="y", color="0.9", lw=0.8)
    entries = []
    for arm, look in arms.looks_of(frame).items():
        mine = _of(frame, arm)
        style = arms.line_style(look) | {"lw": 2.0, "label": arms.named(arm, *_worst(mine))}
        above.plot(mine["workers"], mine["reserve_max"].where(mine["reserve_max"] > 0), **style)
        entries += ax.plot(mine["workers"], mine["fewest_most"], **style)
    arms.say_class(above, frame)
    drawing.add_key(ax, entries)
    return ax


def _above(ax: Axes) -> Axes:
    """Halve the place of the axes; give new ones in its upper part, above the same x axis."""
    place, spec = ax.get_position(), ax.get_subplotspec()
    if spec is None:
        ax.set_position((place.x0, place.y0, place.width, 0.44 * place.height))
        above = ax.figure.add_axes((place.x0, place.y0 + 0.56 * place.height, place.width, 0.44 * place.height))
    else:
        parts = spec.subgridspec(2, 1, height_ratios=(6, 5))
        ax.set_subplotspec(parts[1])
        above = ax.figure.add_subplot(parts[0])
    above.sharex(ax)
    above.tick_params(axis="x", labelbottom=False)
    return above


def _worst(mine: pd.DataFrame) -> list[str]:
    took, worst = mine["reserve_max"].to_numpy(float), arms.nth_best(mine["reserve_max"])
    return [] if worst is None else [f"{rounded(took[worst])} ({arms.of(int(mine['workers'].iloc[worst]))})"]


def reserve_ecdf(reserves: pd.DataFrame, *, workers: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw which share of the calls that brought a worker its job was over within how long.

    The key tells the half, the slowest of 100, and the slowest of all, which no curve shows.

    Args:
        reserves: What `frames.reserves` gives; with `survives`, all of one class. Repeats are put together.
        workers: Of how many workers; by default of the most there are.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column, the arms survive different things, or nothing was run with so many workers.

    Example:
        >>> import pandas as pd
        >>> from qlab import plots
        >>> frame = pd.DataFrame({"arm": "sqlite FULL", "workers": 8, "reserve": [0.001, 0.001, 0.001, 0.09]})
        >>> ax = plots.reserve_ecdf(frame)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('time of a reserve', 'reserves that were over (%)')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['sqlite FULL: half within 1 ms, 99 % 87.3 ms, all 90 ms']
    """
    given.check(reserves, "frames.reserves(found)", "arm", "workers", "reserve")
    arms.check_alike(reserves)
    ax = drawing.new_axes(9.0, 3.8) if ax is None else ax
    if reserves.empty:
        return drawing.say_nothing(ax, "time of a reserve", "reserves that were over (%)", "no runs yet")
    count = int(reserves["workers"].max()) if workers is None else workers
    mine = reserves[reserves["workers"] == count]
    if mine.empty:
        there = ", ".join(map(str, sorted(set(reserves["workers"]))))
        raise ValueError(f"nothing was run with {workers!r} workers: use one of {there}")
    arms.log_seconds(ax, "x", "time of a reserve")
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_xlim(arms.span(mine["reserve"], 1.3))
    _draw_ecdf(ax, mine)
    ax.set(ylim=(0, 104), yticks=range(0, 101, 25), ylabel="reserves that were over (%)")
    arms.say_class(ax, mine, arms.of(count))
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def _draw_ecdf(ax: Axes, mine: pd.DataFrame) -> None:
    looks = arms.looks_of(mine)
    dashes = drawing.looks_of(dict.fromkeys(arms.drivers_of(mine)))
    for (arm, look), driver in zip(looks.items(), _drivers(mine, looks), strict=True):
        took = np.sort(_of(mine, arm)["reserve"].to_numpy(float))
        at, share = _thinned(took)
        half, late = np.quantile(took, [0.5, 0.99])
        told = f"half within {rounded(half)}", f"99 % {rounded(late)}", f"all {rounded(took[-1])}"
        style = arms.line_style(look) | {"markevery": max(1, len(at) // 6), "lw": 2.0}
        ax.step(at, share, where="post", ls=dashes[driver].dashes, label=arms.named(arm, *told), **style)


def _drivers(frame: pd.DataFrame, looks: dict[str, ArmLook]) -> list[str]:
    of = dict(zip(frame["arm"].astype(str), arms.drivers_of(frame), strict=True))
    return [of[arm] for arm in looks]


def _thinned(took: Numbers) -> tuple[Numbers, Numbers]:
    kept = np.unique(np.linspace(0, len(took) - 1, min(len(took), DRAWN)).astype(int))
    return took[kept], 100 * (kept + 1) / len(took)


def _of(frame: pd.DataFrame, arm: str) -> pd.DataFrame:
    mine = frame[frame["arm"].astype(str) == arm]
    return mine.sort_values("workers", kind="stable")
