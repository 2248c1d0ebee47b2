"""Exercises: each is made of its solution, so that the two cannot part.

An exercise `NAME` is three cells of a notebook: `try-NAME`, where the reader writes; `check-NAME`, which ends with a
`check`; and `solution-NAME`, a folded text whose first Python block is the whole of `try-NAME` as it should become. In
it, the lines that end with `# solution` are the answer: `try-NAME` has a gap in their place.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat

from qlab.escape import error_text, shortened

Notebook = Any
"""A notebook as nbformat reads it."""

_MARK = "  # solution"
_BLOCK = re.compile(r"^```python\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(\s*\w+(?:, \w+)* = )")


def read(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        ValueError: The file is none.
    """
    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call] # nbformat has no types
    except Exception as error:  # of what a file may hold, nbformat foresees a part
        raise ValueError(f"{path.name} cannot be read as a notebook: {shortened(error_text(error), 200)}") from error


def exercises(notebook: Notebook) -> Iterator[tuple[Notebook, str]]:
    """Give each exercise's cell to write in, with its solution.

    Raises:
        ValueError: One has no solution, or a solution without a line that ends with `# solution`.
    """
    named = {cell.id: cell for cell in notebook.cells if "id" in cell}  # older notebooks name no cells
    texts = {id: cell.source for id, cell in named.items()}
    for id, cell in named.items():
        name = id.removeprefix("try-")
        if cell.cell_type != "code" or name == id:
            continue
        found = _BLOCK.search(texts.get(f"solution-{name}", ""))
        if found is None or _MARK not in found[1]:
            raise ValueError(f"the exercise {cell.id!r} has no cell 'solution-{name}' with lines that end in {_MARK!r}")
        yield cell, found[1]


def gap(solution: str) -> str:
    """Take the answer out of a solution.

    What is left is `name = ...` for one line that names something, `return ...` where it ends with that, else `...`.
    """
    runs = groupby(solution.splitlines(), key=lambda line: line.endswith(_MARK))
    return "\n".join(_gap([*lines]) if answer else "\n".join(lines) for answer, lines in runs)


def _gap(answer: Sequence[str]) -> str:
    named = _NAMED.match(answer[0]) if len(answer) == 1 else None
    indent = answer[0].removesuffix(answer[0].lstrip())
    left = named[1] if named else indent + "return " * answer[-1].lstrip().startswith("return ")
    return f"{left}...  # your answer"


def opened(notebook: Notebook) -> Notebook:
    """Put a gap into each exercise, made of its solution; the notebook is changed."""
    for cell, solution in exercises(notebook):
        cell.source = gap(solution)
    return notebook


def solved(notebook: Notebook) -> Notebook:
    """Put each solution into its exercise; the notebook is changed."""
    for cell, solution in exercises(notebook):
        cell.source = "\n".join(line.removesuffix(_MARK) for line in solution.splitlines())
    return notebook


def text(notebook: Notebook) -> str:
    """Write a notebook as its file has it."""
    return f"{nbformat.writes(notebook)}\n"  # type: ignore[no-untyped-call] # as above


def write(notebook: Notebook, path: Path) -> bool:
    """Write a notebook where it is another than the file has. Returns whether it was."""
    new = text(notebook)
    if path.is_file() and path.read_text(encoding="utf-8") == new:
        return False
    path.write_text(new, encoding="utf-8")
    return True
