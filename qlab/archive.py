"""Columns of whole numbers in one file: a zip archive of them, and of `run.json`, which says what they are made of.

A column is an entry of its name, such as `trace/at`: its numbers one after the other, the lowest byte first, of as many
bytes each as `run.json` says (`q` is 8, `I` 4, `B` 1). Loading executes nothing that is in the file.
"""

import io
import json
import os
import sys
import zipfile
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from qlab.saved import AnyPath, check_head, parsed, write

VERSION = 1

Table: TypeAlias = "dict[str, array[int]]"

_HEAD = "run.json"
_TYPES = ("q", "I", "B")
_FAST = 1  # a million events in a fifth of a second; the slowest level makes a file that is a tenth smaller
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal runs are equal files
_LARGEST_HEAD = 2**30


def save(path: AnyPath, facts: Mapping[str, Any], tables: Mapping[str, Table]) -> Path:
    """Write tables of whole numbers and what they were made of: the whole file, or none.

    Args:
        path: The file, which is replaced where it is there.
        facts: What JSON can hold.
        tables: Columns by name, by the table's name.

    Returns:
        The file.

    Raises:
        OSError: The file cannot be written; what was there before still is.
    """
    shapes = {
        table: {name: [column.typecode, len(column)] for name, column in columns.items()}
        for table, columns in tables.items()
    }
    head = {"qlab": "run", "version": VERSION, **facts, "tables": shapes}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, _HEAD, _text(head).encode())
        for table, columns in tables.items():
            for name, column in columns.items():
                _add(archive, f"{table}/{name}", _little(column).tobytes())
    return write(path, buffer.getvalue())


def load(path: AnyPath) -> tuple[dict[str, Any], dict[str, Table]]:
    """Read what `save` wrote.

    Returns:
        What the tables were made of, and the tables.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file, from a newer qlab, or damaged; the message says what is wrong.
    """
    content = Path(path).read_bytes()
    if content.startswith(b"{"):
        raise ValueError(f"{os.fspath(path)}: it is text: a saved scenario is read by Scenario.load")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error
    except Exception as error:
        # What is damaged is met in many places of zipfile, which has an exception of its own for few of them.
        raise ValueError(f"{os.fspath(path)}: it is damaged, or no saved run: {error}") from error


def _text(head: Mapping[str, Any]) -> str:
    """Write each fact on a line of its own."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(fact)}" for name, fact in head.items()) + "\n}\n"


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _FAST)


def _read(archive: zipfile.ZipFile) -> tuple[dict[str, Any], dict[str, Table]]:
    if archive.getinfo(_HEAD).file_size > _LARGEST_HEAD:
        raise ValueError(f"its {_HEAD} is too large: it is no saved run")
    facts = parsed(archive.read(_HEAD))
    check_head(facts, "run", VERSION)
    shapes = facts.pop("tables")
    return facts, {
        table: {name: _column(archive, f"{table}/{name}", *shape) for name, shape in columns.items()}
        for table, columns in shapes.items()
    }


def _column(archive: zipfile.ZipFile, entry: str, typecode: str, length: int) -> "array[int]":
    if typecode not in _TYPES:
        raise ValueError(f"its {entry} is of the type {typecode!r}: use one of {', '.join(_TYPES)}")
    column = array(typecode)
    if archive.getinfo(entry).file_size != length * column.itemsize:
        raise ValueError(f"its {entry} has not the length that {_HEAD} says: it is damaged")
    column.frombytes(archive.read(entry))
    return _little(column)


def _little(column: "array[int]") -> "array[int]":
    """Give a column with the lowest byte first, or back from it."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
