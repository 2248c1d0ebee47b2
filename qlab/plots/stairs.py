"""Staircases, a line for each driver: what had been done by when, and which waits were over within what."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from qlab import drawing
from qlab.drawing import DRAWN, Numbers, Unit, drawable, significant
from qlab.plots import given


def throughput(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs had been completed by when: the steeper, the more in a second.

    A staircase needs no bins, so it hides no pause. The key tells the mean rate, from the first event (in a jobs frame:
    the first dispatch) to the last completion.

    Args:
        frame: What `frames.events` or `frames.jobs` gives; with a column `driver`, a line for each.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> ax = plots.throughput(frames.events(run.trace))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('time (s)', 'jobs completed')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['0.333 jobs/s']
    """
    told = ("at", "kind") if "kind" in getattr(frame, "columns", ()) else ("dispatched_at", "finished_at", "state")
    given.check(frame, "frames.events(run.trace) or frames.jobs(run.trace)", *told)
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "time (s)", "jobs completed")
    stairs = {driver: _staircase(mine) for driver, mine in _by_driver(frame)}
    origins = {driver: drawing.origin_of(at[0]) for driver, (at, _) in stairs.items()}
    ends = [at[[0, -1]] - origins[driver] for driver, (at, _) in stairs.items()]
    drawing.seconds_axis(ax, drawing.time_since(any(origins.values())), np.min(ends), np.max(ends))
    lines = {driver: (at - origins[driver], count) for driver, (at, count) in stairs.items()}
    _draw_stairs(ax, lines, {driver: _rate_label(driver, *steps) for driver, steps in stairs.items()})
    drawing.count_axis(ax, "jobs completed")
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def waits(frame: pd.DataFrame, *, closed_form: Callable[[float], float] | None = None, ax: Axes | None = None) -> Axes:
    """Draw what share of the waits was over within how many seconds: the further left a line rises, the sooner.

    The empirical distribution: no bins, and the slowest are as plain to see as the many. A job that waits still counts
    as not reserved, so a line that ends below 100 % shows how many there are. The key tells within what half of all
    waits were over, and the longest.

    Args:
        frame: What `frames.waits` gives; with a column `driver`, a line for each.
        closed_form: What theory says: takes seconds, gives the share of the waits that is over by then, from 0 to 1. It
            is drawn dashed.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate, theory
        >>> from qlab.workload import Exponential, Poisson, Workload
        >>> run = simulate("memory://", workload=Workload(Poisson(0.8), Exponential(1.0), jobs=500), poll=None, seed=7)
        >>> station = theory.MMc(0.8, 1.0)
        >>> ax = plots.waits(frames.waits(run.trace), closed_form=lambda t: 1 - station.wait_tail(t))
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['half within 3.67 s, all within 21.9 s', 'closed form']
    """
    given.check(frame, "frames.waits(run.trace)", "wait", "reserved_at")
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if frame.empty:
        return drawing.say_nothing(ax, "wait (s)", "waits that were over (%)", "no job has waited yet")
    over = {driver: np.sort(mine["wait"][mine["reserved_at"].notna()]) for driver, mine in _by_driver(frame)}
    count = {driver: len(mine) for driver, mine in _by_driver(frame)}
    longest = max(float(wait[-1]) if len(wait) else 0.0 for wait in over.values())
    drawing.seconds_axis(ax, "wait", 0, longest)
    stairs = {driver: _risen(wait, count[driver], ax.get_xlim()[1]) for driver, wait in over.items()}
    unit = drawing.unit_of(longest)
    _draw_stairs(ax, stairs, {driver: _waits_label(driver, wait, count[driver], unit) for driver, wait in over.items()})
    if closed_form is not None:
        at = np.linspace(0, ax.get_xlim()[1], 400)
        ax.plot(at, [100 * closed_form(float(second)) for second in at], **drawing.CLOSED_FORM)
    drawing.count_axis(ax, "waits that were over (%)")
    ax.set(ylim=(0, 106), yticks=range(0, 101, 25))
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def _thinned(at: Numbers, count: Numbers) -> tuple[Numbers, Numbers]:
    """Keep so many steps of a staircase as can be seen."""
    kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), DRAWN)).astype(int))
    return at[kept], count[kept]


def _by_driver(frame: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    if "driver" not in frame:
        return [("", frame)]
    return ((str(driver), mine) for driver, mine in frame.groupby("driver", sort=False, observed=True))


def _staircase(frame: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """Tell how many jobs had been completed by when, from the first moment to the last."""
    if "kind" in frame:
        around, done = frame["at"], frame["at"][frame["kind"] == "completed"]
    else:
        around, done = frame["dispatched_at"], frame["finished_at"][frame["state"] == "done"]
    seen = np.concatenate([around.dropna(), done])
    at = np.concatenate([[seen.min()], np.sort(done), [seen.max()]])
    return at, np.append(np.arange(len(done) + 1), len(done))


def _risen(wait: Numbers, count: int, end: float) -> tuple[Numbers, Numbers]:
    """Tell what share of so many waits was over within how many seconds, in percent, as far as the picture's edge."""
    share = 100 * np.arange(len(wait) + 1) / count
    return np.concatenate([[0.0], wait, [end]]), np.append(share, share[-1])


def _draw_stairs(ax: Axes, stairs: dict[str, tuple[Numbers, Numbers]], labels: dict[str, str]) -> None:
    """Draw each driver's staircase; one that others lie on exactly is wider, so that it is seen beneath them."""
    steps = [(x.tobytes(), y.tobytes()) for x, y in stairs.values()]
    for i, (driver, look) in enumerate(drawing.looks_of(stairs).items()):
        above = steps[i + 1 :].count(steps[i])
        style: dict[str, Any] = {"lw": 2 + 2 * above, "color": look.colour, "ls": "-" if above else look.dashes}
        ax.step(*_thinned(*stairs[driver]), where="post", label=labels[driver], **style)


def _rate_label(driver: str, at: Numbers, count: Numbers) -> str:
    done, took = count[-1], at[-2] - at[0]
    rate = f"{significant(done / took)} jobs/s" if took > 0 else f"{done:,} at once" if done else "none completed"
    return f"{drawable(driver)}: {rate}" if driver else rate


def _waits_label(driver: str, over: Numbers, count: int, unit: Unit) -> str:
    """Say within what half of the waits were over, and all of them, or how many go on."""
    half, told = math.ceil(count / 2), []
    if len(over) == count and over[-1] == 0:
        told = ["none waited"]
    elif len(over) >= half:
        told = [f"half within {unit.say(over[half - 1])}"]
    if len(over) < count:
        told.append(f"{count - len(over):,} of {count:,} still wait")
    elif over[-1] > 0:
        told.append(f"all within {unit.say(over[-1])}")
    return f"{drawable(driver)}: {', '.join(told)}" if driver else ", ".join(told)
