"""What happened in one run: each job a row, how many were where, how many attempts they took."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qlab import drawing
from qlab.drawing import DRAWN, Numbers, significant
from qlab.plots import given
from qlab.timeline_rows import draw_spans, key_entries, label_rows, rows_height

_STATES: dict[str, dict[str, Any]] = {
    "reserved": {"facecolor": "#0072B2", "edgecolor": "#00507D"},
    "ready": {"facecolor": "#A6D7F2", "edgecolor": "#56B4E9"},
    "delayed": {"facecolor": "#EEEEEE", "edgecolor": "#999999", "hatch": "////"},
}
_STRETCHES = 600  # of a run with more rows than can be seen
_ENDS: dict[str, dict[str, Any]] = {
    "done": {"facecolor": "#009E73"},
    "failed": {"facecolor": "#D55E00", "hatch": "///"},
    "not finished": {"facecolor": "#BBBBBB", "hatch": "..."},
}


def timeline(spans: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw each job as a row: what it was in, and what happened to it, against time.

    Up to about 60 jobs each row has a label; above, the rows are thin lines.

    Args:
        spans: What `frames.spans` gives.
        ax: Where to draw; by default a picture as tall as the jobs need.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=3)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> ax = plots.timeline(frames.spans(run.trace))
        >>> ax.get_xlabel(), [label.get_text() for label in ax.get_yticklabels()]
        ('time (s)', ['1 job', '2 job', '3 job'])
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['waiting', 'backoff', 'reserved', 'attempt failed', 'done']
    """
    given.check(spans, "frames.spans(run.trace)", "job", "name", "span", "start", "end")
    jobs = spans.drop_duplicates("job")
    height = 72 * rows_height(len(jobs)) if ax is None else drawing.size_of(ax)[1]
    ax = drawing.new_axes(9.0, height / 72 + 1.1) if ax is None else ax
    if spans.empty:
        return drawing.say_nothing(ax, "time (s)", "job")
    origin, points = drawing.origin_of(spans["start"].min()), min(30.0, height / len(jobs))
    drawing.seconds_axis(ax, drawing.time_since(origin), spans["start"].min() - origin, spans["end"].max() - origin)
    placed = spans.assign(row=pd.factorize(spans["job"])[0], start=spans["start"] - origin, end=spans["end"] - origin)
    draw_spans(ax, placed, points)
    ax.set_ylim(height / points - 0.5, -0.5)
    label_rows(ax, jobs, points)
    drawing.add_key(ax, key_entries(set(spans["span"])))
    return ax


def depth(depth: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs were reserved, ready and delayed over time, one above the other, and how many had failed.

    The upper edge is the depth. Of many thousand rows, the areas are the means of short stretches, and the line is the
    deepest of each.

    Args:
        depth: What `frames.depth` gives.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=3), poll=None)
        >>> ax = plots.depth(frames.depth(run.trace))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('time (s)', 'jobs')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['reserved', 'ready', 'delayed', 'depth']
    """
    given.check(depth, "frames.depth(run.trace)", "at", "reserved", "ready", "delayed", "depth", "failed")
    ax = drawing.new_axes(9.0, 3.4) if ax is None else ax
    if depth.empty:
        return drawing.say_nothing(ax, "time (s)", "jobs")
    origin, areas, peaks = drawing.origin_of(depth["at"].min()), _areas(depth), _peaks(depth)
    drawing.seconds_axis(ax, drawing.time_since(origin), depth["at"].min() - origin, depth["at"].max() - origin)
    end, floor = ax.get_xlim()[1], np.zeros(len(areas) + 1)
    for state, look in _STATES.items():
        top = floor + _lasting(areas[state])
        ax.fill_between(np.append(areas["at"] - origin, end), floor, top, step="post", label=state, lw=0, **look)
        floor = top
    at = np.append(peaks["at"] - origin, end)
    line: dict[str, Any] = (
        {"lw": 1, "label": "depth"} if areas is depth else {"lw": 0.5, "label": "depth, at its deepest"}
    )
    ax.step(at, _lasting(peaks["depth"]), where="post", color="black", **line)
    failed = _lasting(peaks["failed"])
    if failed.any():
        since = max(0, int(np.flatnonzero(failed)[0]) - 1)
        ax.step(at[since:], failed[since:], where="post", color="#D55E00", lw=2, ls=(0, (4, 1.5)), label="failed")
    drawing.count_axis(ax, "jobs")
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def attempts(jobs: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how many jobs took how many attempts, by how they ended.

    A reservation that only found every attempt used up is none (the frame's `runs`).

    Args:
        jobs: What `frames.jobs` gives.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=3)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> ax = plots.attempts(frames.jobs(run.trace))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('attempts', 'jobs')
        >>> [text.get_text() for text in ax.texts]
        ['3']
    """
    given.check(jobs, "frames.jobs(run.trace)", "state", "runs")
    ax = drawing.new_axes(6.0, 3.4) if ax is None else ax
    if jobs.empty:
        return drawing.say_nothing(ax, "attempts", "jobs")
    state = jobs["state"].astype(str)
    table = pd.crosstab(jobs["runs"], state.where(state.isin(["done", "failed"]), "not finished"))
    floor = np.zeros(len(table))
    for end, look in _ENDS.items():
        if end in table:
            ax.bar(table.index, table[end], 0.7, floor, edgecolor="white", label=end, **look)
            floor = floor + table[end].to_numpy()
    _count_attempts(ax, table.index)
    above = drawing.label_bars(ax, table.index.to_numpy(), floor, [f"{count:,.0f}" for count in floor], 0.7)
    drawing.count_axis(ax, "jobs", above)
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def backoff(jobs: pd.DataFrame, *, closed_form: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw how long jobs were in backoff, by how many attempts they took: what failing costs in time.

    A bar is the mean, the line on it goes from the shortest to the longest. Jobs that have not ended are left out: they
    may go into backoff again.

    Args:
        jobs: What `frames.jobs` gives.
        closed_form: What theory says of the mean over all jobs, in seconds; it is drawn dashed.
        ax: Where to draw; by default a picture of its own.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.

    Example:
        >>> from qlab import frames, plots, simulate
        >>> from qlab.workload import Every, FirstAttempts, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), FirstAttempts(1), jobs=3)
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> ax = plots.backoff(frames.jobs(run.trace), closed_form=10.0)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('attempts', 'time in backoff (s)')
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['mean of all 3 jobs: 10 s', 'closed form: 10 s', 'mean', 'shortest to longest']
    """
    given.check(jobs, "frames.jobs(run.trace)", "state", "runs", "backoff", bare=False)
    ax = drawing.new_axes(6.0, 3.6) if ax is None else ax
    ended = jobs[jobs["state"].isin(["done", "failed"])]
    if ended.empty:
        return drawing.say_nothing(ax, "attempts", "time in backoff (s)", "no job has ended yet")
    told = ended.groupby("runs")["backoff"].agg(["mean", "min", "max"])
    mean, reach = told["mean"], np.array([told["mean"] - told["min"], told["max"] - told["mean"]]).clip(min=0)
    ax.bar(told.index, mean, 0.7, label="mean", facecolor="#E69F00", hatch="///", edgecolor="white")
    ax.errorbar(told.index, mean, reach, fmt="none", ecolor="0.2", capsize=3, label="shortest to longest")
    over = ended["backoff"].mean()
    ax.axhline(over, color="0.45", lw=1.2, zorder=0.9, label=f"mean of all {len(ended):,} jobs: {significant(over)} s")
    if closed_form is not None:
        ax.axhline(
            closed_form, **drawing.CLOSED_FORM | {"label": f"closed form: {significant(closed_form)} s", "zorder": 0.9}
        )
    _count_attempts(ax, told.index)
    above = drawing.label_bars(ax, told.index.to_numpy(), told["max"].to_numpy(), [significant(m) for m in mean], 0.7)
    drawing.count_axis(ax, "time in backoff (s)", above, whole=False)
    drawing.add_key(ax, ax.get_legend_handles_labels()[0])
    return ax


def _count_attempts(ax: Axes, counts: "pd.Index[Any]") -> None:
    """Put numbers of attempts on the x axis, from 1 to at least 3."""
    ax.set_xlabel("attempts")
    ax.set_xlim(min(counts.min(), 1) - 0.6, max(counts.max(), 3) + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))


def _lasting(counts: "pd.Series[Any]") -> Numbers:
    """Let the last row last to the picture's edge."""
    return np.append(counts, counts.iloc[-1])


def _areas(depth: pd.DataFrame) -> pd.DataFrame:
    """Give so many rows as can be seen: of more, the means over time of equal stretches."""
    if len(depth) <= DRAWN:
        return depth
    at = depth["at"].to_numpy(float)
    edges = np.linspace(at[0], at[-1], _STRETCHES + 1)
    counts = depth[[*_STATES]].to_numpy(float)
    areas = np.vstack([np.zeros(counts.shape[1]), np.cumsum(counts[:-1] * np.diff(at)[:, None], axis=0)])
    upto = np.column_stack([np.interp(edges, at, area) for area in areas.T])
    means = np.diff(upto, axis=0) / (edges[1] - edges[0])
    return pd.DataFrame({"at": edges[:-1], **dict(zip(_STATES, means.T, strict=True))})


def _peaks(depth: pd.DataFrame) -> pd.DataFrame:
    """Keep so many rows as can be seen: of more, the deepest of each stretch, and the ends."""
    if len(depth) <= DRAWN:
        return depth
    depth = depth.reset_index(drop=True)
    deepest = depth["depth"].groupby(np.arange(len(depth)) * _STRETCHES // len(depth)).idxmax()
    return depth.loc[sorted({0, len(depth) - 1, *deepest})]
