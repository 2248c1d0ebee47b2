"""How small tables look in a notebook: plain HTML that follows the reader's theme."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from qlab.escape import html, shortened

_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "text-align:left;padding:.2em .8em .2em 0;border-bottom:1px solid rgba(128,128,128,.35)"
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
_WHOLE = 12  # characters of a cell that is not broken, such as a moment

Row = TypeVar("Row")


def table_html(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Draw a table as HTML.

    Args:
        columns: The head of each column.
        rows: One sequence of values a row; each is escaped.
        caption: A line above the table.
    """
    head = "".join(f'<th scope="col" style="{_CELL}">{html(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    title = f'<caption style="text-align:left">{html(caption)}</caption>' if caption else ""
    return f'<table style="{_STYLE}">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: object) -> str:
    keep = ";white-space:nowrap" if len(str(value)) <= _WHOLE else ""
    return f'<td style="{_CELL}{keep}">{html(value)}</td>'


def seconds(value: float | None) -> str:
    """Show seconds for people: `90 s`, `37.565 s`, `0.000004 s`, `never`, or a dash where there is none."""
    if value is None:
        return "–"
    if value == float("inf"):
        return "never"
    digits = 3 if abs(value) >= 0.1 else 6
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") + " s"


def rounded(value: float) -> str:
    """Show seconds with the three digits that count, in the unit that suits: `31 µs`, `1.25 ms`, `2.1 s`, or a dash."""
    if math.isnan(value):
        return "–"
    size = abs(value)
    unit, scale = next(((name, each) for name, each in _UNITS if size >= 0.9995 * each), _UNITS[-1])
    return f"{_three_digits(value / scale)} {unit}" if size else "0 s"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def plain(value: float) -> str:
    """Show seconds as a number, with as many digits as it has: `90`, `37.565157`, `inf`."""
    return "inf" if value == float("inf") else f"{value:.6f}".rstrip("0").rstrip(".")


class Table(list[Row]):
    """A list of records that shows itself as a table in a notebook; otherwise just a list."""

    shown = 50
    """How many rows the HTML form shows; the rest is counted below it."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>none</p>"
        first: Any = self[0]
        rows: list[Any] = list(self[: self.shown])
        columns = _columns(rows) if hasattr(first, "row") else ("value",)
        cells = (
            [row.row().get(c, "") for c in columns] if hasattr(row, "row") else [shortened(repr(row))] for row in rows
        )
        more = f"<p>and {len(self) - self.shown} more</p>" if len(self) > self.shown else ""
        return table_html(columns, cells) + more


def _columns(rows: list[Any]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row.row()))
