"""Plain tables for a terminal: nothing in them can move its cursor, and they fit its width."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from qlab.clock import is_simulated
from qlab.escape import printable, shortened
from qlab.show import seconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GAP = 2
_NARROWEST = 8


def width() -> int:
    """Tell how many columns there are: the terminal's, or 80."""
    return shutil.get_terminal_size((80, 24)).columns


def moment(at: float) -> str:
    """Write a moment (in seconds): as a date in UTC, or as it is where a simulated clock was used."""
    if is_simulated(at) or at == float("inf"):
        return seconds(at)
    return f"{_EPOCH + timedelta(seconds=int(at)):%Y-%m-%d %H:%M:%SZ}"


def paragraph(text: str) -> list[str]:
    """Write text as lines that fit."""
    return textwrap.wrap(printable(text), width())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Write a table as lines: numbers to the right; where it is too wide, the widest cells are wrapped.

    Args:
        head: The head of each column; an underscore in it is a place to wrap.
        rows: One sequence of values a row.
    """
    if not head:
        return []
    cells, right = _cells(head, rows)
    return _placed(cells, _widths(cells), right)


def one_line_each(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Write a table in which each row is one line: where it is too wide, the last column is cut."""
    cells, right = _cells(head, rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = max(_NARROWEST, width() - sum(widths[:-1]) - _GAP * (len(widths) - 1))
    widths[-1] = min(widths[-1], room)
    return _placed([[*row[:-1], shortened(row[-1], room)] for row in cells], widths, right)


def _cells(head: Sequence[str], rows: Iterable[Sequence[object]]) -> tuple[list[list[str]], list[bool]]:
    """Give the texts of a table, and which columns are numbers."""
    values = [list(row) for row in rows]
    right = [all(isinstance(value, int | float) for value in column) for column in zip(*values, strict=True)]
    cells = [[name.replace("_", " ") for name in head]]
    return cells + [[_text(value) for value in row] for row in values], right or [False] * len(head)


def _placed(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    return [line.rstrip() for row in cells for line in _lines(row, widths, right)]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value)).replace("\n", " ")


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    """Give each column what it needs, and take from the widest until the table fits; words break where they must."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max((len(word) for cell in column for word in cell.split()), default=1) for column in columns]
    room = width() - _GAP * (len(widths) - 1)
    last = words if sum(words) <= room else [_NARROWEST] * len(words)
    for least in ([max(_NARROWEST, word) for word in words], last):
        while sum(widths) > room and (wide := [i for i, each in enumerate(widths) if each > least[i]]):
            widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterable[str]:
    wrapped = [textwrap.wrap(cell, each) or [""] for cell, each in zip(row, widths, strict=True)]
    for i in range(max(map(len, wrapped))):
        parts = (lines[i] if i < len(lines) else "" for lines in wrapped)
        placed = (
            part.rjust(each) if to_the_right else part.ljust(each)
            for part, each, to_the_right in zip(parts, widths, right, strict=True)
        )
        yield (" " * _GAP).join(placed)
