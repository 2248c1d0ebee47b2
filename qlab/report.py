"""A result as one self-contained HTML page, with its pictures and its events beside it."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd

from qlab.escape import csv_cell, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GENERATOR = "qlab"
_PAGE = "index.html"
_DPI = 110
_ENDINGS = (".html", ".png", ".csv")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a report.

    Attributes:
        name: Its file's name, without an ending.
        about: What it shows, in a sentence: caption and alternative text.
        axes: The picture, as the functions of `plots` return it.
    """

    name: str
    about: str
    axes: Axes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its heading.
        texts: Its paragraphs.
        tables: Its tables, with their captions.
        pictures: Its pictures.
    """

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[tuple[str, pd.DataFrame]] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a page says.

    Attributes:
        title: Its heading.
        subtitle: The line below it.
        answer: What was found, in sentences.
        sections: Its parts.
        machine: Versions and settings, by name.
        tables: What is written beside the page as CSV, by the file's name without an ending.
    """

    title: str
    subtitle: str
    answer: Sequence[str]
    sections: Sequence[Section]
    machine: Mapping[str, str]
    tables: Mapping[str, pd.DataFrame]


def write(report: Report, folder: str | Path, *, command: str) -> Path:
    """Write a report into a folder, whole or not at all.

    Args:
        report: What it says.
        folder: Where: a folder that is not there yet, is empty, or holds an earlier report, which is replaced.
        command: The command that makes it again.

    Returns:
        The page: `index.html` in the folder, beside its pictures (PNG) and tables (CSV).

    Raises:
        ValueError: The folder holds something else.
    """
    target = Path(folder).absolute()
    check_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as private:
        made = Path(private) / target.name
        made.mkdir()
        _fill(made, report, command)
        if target.exists():
            target.rename(Path(private) / "earlier")
        made.rename(target)
    return target / _PAGE


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that a report must not replace.

    Raises:
        ValueError: It is a file, or holds something that is no report.
    """
    target = Path(folder).absolute()
    if target.is_dir():
        page = target / _PAGE
        ours = page.is_file() and f'content="{_GENERATOR}"' in page.read_text(encoding="utf-8", errors="replace")
        strange = [
            entry.name for entry in target.iterdir() if not (ours and entry.suffix in _ENDINGS and entry.is_file())
        ]
        if strange:
            raise ValueError(
                f"{target} holds {strange[0]!r}, which is of no report: name a folder that is new or empty, or that "
                "holds an earlier report and nothing else"
            )
    elif target.exists() or target.is_symlink():
        raise ValueError(f"{target} is no folder: name a folder for the report")
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"{target} cannot be made: {above} cannot be written")


def _fill(folder: Path, report: Report, command: str) -> None:
    sections = []
    for section in report.sections:
        pictures = []
        for picture in section.pictures:
            data = _png(picture.axes)
            (folder / f"{picture.name}.png").write_bytes(data)
            pictures.append(
                {
                    "file": f"{picture.name}.png",
                    "data": base64.b64encode(data).decode(),
                    "about": printable(picture.about),
                }
            )
        tables = [_table(title, frame) for title, frame in section.tables]
        sections.append({"title": section.title, "texts": section.texts, "tables": tables, "pictures": pictures})
    page = _template().render(
        generator=_GENERATOR,
        title=report.title,
        subtitle=report.subtitle,
        answer=report.answer,
        sections=sections,
        machine=list(report.machine.items()),
        command=command,
    )
    for name, frame in report.tables.items():
        _safe(frame).to_csv(folder / f"{name}.csv", index=False)
    (folder / _PAGE).write_text(page, encoding="utf-8")


def _table(title: str, frame: pd.DataFrame) -> dict[str, Any]:
    numbers = [pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns]
    return {
        "title": title,
        "columns": list(zip(map(str, frame.columns), numbers, strict=True)),
        "rows": [
            [(shown(value), number) for value, number in zip(row, numbers, strict=True)]
            for row in frame.itertuples(index=False)
        ],
    }


def shown(value: object) -> str:
    """Show a value of a table for people: thousands apart, three digits that count, a dash for nothing."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else printable(str(value))


def _safe(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep a spreadsheet from running text of handlers as formulas."""
    text = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    safe = frame.copy()
    for name in text:
        safe[name] = frame[name].astype(object).map(csv_cell)
    return safe


def _png(axes: Axes) -> bytes:
    buffer = BytesIO()
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("the picture was taken from its figure")
    figure.savefig(buffer, format="png", dpi=_DPI, bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string((files("qlab") / "static" / "report.html.jinja").read_text(encoding="utf-8"))
