"""A result as one self-contained HTML page, with its pictures and its events beside it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2
import pandas as pd

from qlab import whole_folder
from qlab.escape import csv_cell, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORM = whole_folder.Form("report", "qlab", (".html", ".png", ".csv"))
_DPI = 110


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
        command: The command that makes it again; empty where there is none.

    Returns:
        The page: `index.html` in the folder, beside its pictures (PNG) and tables (CSV).

    Raises:
        ValueError: The folder holds something else.
    """
    with whole_folder.making(folder, _FORM) as made:
        _fill(made, report, command)
    return Path(folder).absolute() / whole_folder.INDEX


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that a report must not replace.

    Raises:
        ValueError: It is a file, or holds something that is no report.
    """
    whole_folder.check(folder, _FORM)


def write_page(report: Report, file: str | Path, *, command: str) -> Path:
    """Write a report as one page with nothing beside it, whole or not at all; its `tables` are left out.

    Args:
        report: What it says.
        file: Where: a file that is not there yet, or an earlier page, which is replaced.
        command: The command that makes it again; empty where there is none.

    Returns:
        The page.

    Raises:
        ValueError: The file is something else.
    """
    target = Path(file).absolute()
    check_page(target)
    page = _page(
        report, command, [[(picture, "", png(picture.axes)) for picture in s.pictures] for s in report.sections]
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as private:
        made = Path(private) / target.name
        made.write_text(page, encoding="utf-8")
        made.replace(target)
    return target


def check_page(file: str | Path) -> None:
    """Refuse a file that a page must not replace.

    Raises:
        ValueError: It is a folder, does not end with .html, holds something that is no report, or cannot be written.
    """
    target = Path(file).absolute()
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{target} does not end with .html: a report is a page")
    if target.is_dir():
        raise ValueError(f"{target} is a folder: name a file for the page")
    if target.exists() and not _FORM.is_made(target):
        raise ValueError(f"{target} is no report: name a file that is new, or an earlier report")
    whole_folder.check_writable(target)


_Drawn: TypeAlias = tuple[Picture, str, bytes]
"""A picture, its file's name (empty where there is none), and what is in it."""


def _fill(folder: Path, report: Report, command: str) -> None:
    drawn = [[(picture, f"{picture.name}.png", png(picture.axes)) for picture in s.pictures] for s in report.sections]
    for _, file, data in (one for section in drawn for one in section):
        (folder / file).write_bytes(data)
    for name, frame in report.tables.items():
        _safe(frame).to_csv(folder / f"{name}.csv", index=False)
    (folder / whole_folder.INDEX).write_text(_page(report, command, drawn), encoding="utf-8")


def _page(report: Report, command: str, drawn: Sequence[Sequence[_Drawn]]) -> str:
    sections = [
        {
            "title": section.title,
            "texts": section.texts,
            "tables": [_table(title, frame) for title, frame in section.tables],
            "pictures": [
                {"file": file, "data": base64.b64encode(data).decode(), "about": printable(picture.about)}
                for picture, file, data in pictures
            ],
        }
        for section, pictures in zip(report.sections, drawn, strict=True)
    ]
    return _template().render(
        generator=_FORM.generator,
        title=report.title,
        subtitle=report.subtitle,
        answer=report.answer,
        sections=sections,
        machine=list(report.machine.items()),
        command=command,
    )


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


def png(axes: Axes) -> bytes:
    """Draw a picture as a report has it.

    Raises:
        ValueError: It was taken from its figure.
    """
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
