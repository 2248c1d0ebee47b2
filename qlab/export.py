"""A lab as a file: its events, its timeline, or the whole board as one page that needs neither kernel nor network."""

import base64
import math
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from qlab import frames, front, plots
from qlab.errors import MissingRequirement, QlabError
from qlab.escape import csv_cell, html, shortened
from qlab.job import JobState
from qlab.lab import Lab
from qlab.show import seconds, table_html
from qlab.side import Side
from qlab.telling import Teller
from qlab.trace import Moment, Seen, Trace

_ROWS = 20  # of a table that stands for a board
_PAYLOADS = 500  # that a page carries


def export(lab: Lab, path: str | Path) -> Path:
    """Write what happened in a lab into a file; its ending says in which form.

    Raises:
        ValueError: The ending is none of `FORMS`.
        MissingRequirement: pyarrow, which `.parquet` needs, is not installed.
    """
    file = Path(path)
    write = FORMS.get(file.suffix.lower())
    if write is None:
        raise ValueError(f"{file} ends with {file.suffix!r}: use one of {', '.join(FORMS)}")
    file.write_bytes(write(lab))
    return file


# -- events --


def events(lab: Lab) -> pd.DataFrame:
    """Give the events of all drivers: a column `driver`, then those of `frames.events`."""
    told = [frames.events(side.trace).assign(driver=side.driver) for side in lab.sides]
    whole = pd.concat(told, ignore_index=True) if len(told) > 1 else told[0]
    return whole[["driver", *(name for name in whole.columns if name != "driver")]]


def _csv(lab: Lab) -> bytes:
    """Write text so that no spreadsheet reads it as a formula."""
    safe = events(lab).astype(object).map(csv_cell)
    return safe.to_csv(index=False).encode()


def _parquet(lab: Lab) -> bytes:
    buffer = BytesIO()
    try:
        events(lab).to_parquet(buffer, index=False)
    except ImportError as error:
        raise MissingRequirement("a .parquet file needs pyarrow: `pip install pyarrow`, or use .csv") from error
    return buffer.getvalue()


# -- pictures --


class Drawn(NamedTuple):
    """A picture of a lab.

    Attributes:
        about: What it shows, in a sentence: its caption and its alternative text.
        png: The picture.
    """

    about: str
    png: bytes


def pictures(lab: Lab) -> list[Drawn]:
    """Draw a lab's throughput, waits, depth and attempts, what became of each job, and what each worker did."""
    waits = pd.concat([frames.waits(side.trace).assign(driver=side.driver) for side in lab.sides], ignore_index=True)
    drawn = [
        _drawn("jobs completed over time, each driver a line", plots.throughput, events(lab), lab.sides),
        _drawn(
            "share of waits that were over within so many seconds, each driver a line", plots.waits, waits, lab.sides
        ),
    ]
    of_each: tuple[tuple[str, Callable[..., Any], Callable[[Trace], pd.DataFrame]], ...] = (
        ("jobs reserved, ready and delayed over time", plots.depth, frames.depth),
        ("jobs by how many attempts they took", plots.attempts, frames.jobs),
        ("what each job was in over time", plots.timeline, frames.spans),
        ("what each worker had in hand over time", plots.workers, frames.attempts),
    )
    for about, draw, frame in of_each:
        for side in lab.sides:
            on = f", on {side.driver}" if len(lab.sides) > 1 else ""
            drawn.append(_drawn(about + on, draw, frame(side.trace), [side]))
    return drawn


def _drawn(about: str, draw: Callable[..., Any], frame: pd.DataFrame, of: Sequence[Side]) -> Drawn:
    picture = plots.Picture(figsize=(6.4, 3.4))
    plots.stamp(draw(frame, ax=picture.add_subplot()), *of)
    return Drawn(about, _saved(picture, "png"))


def _timeline(lab: Lab, form: str) -> bytes:
    """Draw every driver's timeline, one below the other."""
    spans = [frames.spans(side.trace) for side in lab.sides]
    heights = [max(1.5, min(7.0, 0.3 * told["job"].nunique()) + 0.6) for told in spans]
    picture = plots.Picture(figsize=(9, sum(heights) + 0.5 * len(heights)))
    grid = picture.subplots(len(spans), 1, squeeze=False, height_ratios=heights)
    for side, told, (ax,) in zip(lab.sides, spans, grid, strict=True):
        plots.stamp(plots.timeline(told, ax=ax), side).set_title(side.driver, loc="left")
    return _saved(picture, form)


def _saved(picture: plots.Picture, form: str) -> bytes:
    buffer = BytesIO()
    picture.savefig(buffer, format=form, dpi=144, facecolor="white", metadata={"Date": None} if form == "svg" else None)
    return buffer.getvalue()


# -- the page --


def page(lab: Lab) -> str:
    """Write the board as one HTML page: its scrubber needs no kernel, and nothing is fetched."""
    return _template().render(
        name=lab.name,
        drivers=", ".join(side.driver for side in lab.sides),
        css=front.read("board.css"),
        js=front.module(),
        told=front.in_script(without_kernel(lab)),
        still=still(lab),
    )


def without_kernel(lab: Lab) -> dict[str, Any]:
    """Tell all that a board without a kernel shows, as JSON values."""
    shown = [{"about": one.about, "data": base64.b64encode(one.png).decode()} for one in pictures(lab)]
    return Teller(lab).everything(problem="", payloads=_payloads(lab), pictures=shown)


def _payloads(lab: Lab) -> list[dict[int, str]]:
    """Collect what the stores hold of payloads; a job that is done has left its store, and its payload with it."""
    return [{job: shortened(body, 2_000) for job, body in _bodies(side)} for side in lab.sides]


def _bodies(side: Side) -> list[tuple[int, str]]:
    try:
        return [(job.id, job.body) for job in side.queue.jobs()[:_PAYLOADS]]
    except QlabError:
        return []  # the lab is closed, or its store is gone: the page tells what happened all the same


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(front.read("board.html.jinja"))


# -- the static form --


def still(lab: Lab) -> str:
    """Show a lab without a kernel and without scripts, as HTML: its lanes as a picture, and its jobs as a table."""
    return "".join(_still(side) for side in lab.sides)


def _still(side: Side) -> str:
    now = side.clock.now()
    moment = side.trace.at(now)
    rows = [_row(seen, now) for seen in list(moment.jobs.values())[-_ROWS:]]
    more = f", the last {_ROWS}" if len(moment.jobs) > _ROWS else ""
    caption = f"{side.driver} at {seconds(now)}: {len(moment.jobs)} jobs{more}"
    columns = ("job", "handler", "state", "attempts", "available at", "worker", "last said")
    return f"<div>{_lanes(moment, now, side.driver)}{table_html(columns, rows, caption)}</div>"


def _row(seen: Seen, now: float) -> tuple[object, ...]:
    available = "–" if seen.settled else seconds(seen.available_at)
    said = shortened(seen.detail)
    return seen.id, shortened(seen.name), seen.state(now), seen.attempts, available, seen.worker or "–", said or "–"


_LANES = {
    JobState.DELAYED: ("#999999", "M0 -5A5 5 0 1 1 -.1 -5z", True),
    JobState.READY: ("#56B4E9", "M0 -5A5 5 0 1 1 -.1 -5z", False),
    JobState.RESERVED: ("#0072B2", "M-4 -5 5 0 -4 5z", False),
    JobState.DONE: ("#009E73", "M-5 0 -1.5 4 5 -4", True),
    JobState.FAILED: ("#D55E00", "M-4 -4 4 4M4 -4 -4 4", True),
}
"""Each lane's colour, its mark, and whether the mark is a line."""
_WIDE, _A_ROW, _ROOM = 132, 8, 40


def _lanes(moment: Moment, now: float, driver: str) -> str:
    """Draw the lanes: a mark a job, as many as there is room for.

    As an image and not as SVG inside the page: where a page is cleaned of what might be a script, as a notebook from
    elsewhere is, an image stays and SVG does not. It has a ground of its own, because it does not know its page's.
    """
    states = [seen.state(now) for seen in moment.jobs.values()]
    counts = {state: states.count(state) for state in _LANES}
    rows = max(1, math.ceil(min(_ROOM, max(counts.values())) / _A_ROW))
    lanes = "".join(_lane(i, state, counts[state], rows) for i, state in enumerate(_LANES))
    wide, high = _WIDE * len(_LANES) + 8, 54 + 15 * rows + (16 if max(counts.values()) > _ROOM else 0)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="-8 -8 {wide} {high}" '
        f'font-family="sans-serif" font-size="14"><rect x="-8" y="-8" width="{wide}" height="{high}" rx="6" '
        f'fill="#fff"/>{lanes}</svg>'
    )
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    size = f'width="{wide}" height="{high}" style="max-width:100%;height:auto;display:block"'
    return f'<img alt="{html(driver)}: {told}" src="{source}" {size}>'


def _lane(i: int, state: JobState, count: int, rows: int) -> str:
    colour, path, line = _LANES[state]
    look = f'fill="none" stroke="{colour}" stroke-width="2.5"' if line else f'fill="{colour}"'
    marks = "".join(
        f'<path d="{path}" transform="translate({14 + 14 * (n % _A_ROW)} {46 + 15 * (n // _A_ROW)})"/>'
        for n in range(min(count, _ROOM))
    )
    rest = f'<text x="8" y="{50 + 15 * rows}" font-size="12">and {count - _ROOM:,} more</text>' if count > _ROOM else ""
    return (
        f'<g transform="translate({_WIDE * i} 0)"><rect width="{_WIDE - 8}" height="3" fill="{colour}"/>'
        f'<g fill="#111"><text x="8" y="24">{state}</text>'
        f'<text x="{_WIDE - 16}" y="24" text-anchor="end" font-weight="bold">{count:,}</text>{rest}</g>'
        f"<g {look}>{marks}</g></g>"
    )


FORMS: dict[str, Callable[[Lab], bytes]] = {
    ".csv": _csv,
    ".html": lambda lab: page(lab).encode(),
    ".parquet": _parquet,
    ".png": lambda lab: _timeline(lab, "png"),
    ".svg": lambda lab: _timeline(lab, "svg"),
}
"""How each ending is written."""
