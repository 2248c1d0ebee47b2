"""The points of a grid: which there are, how one is called, and what it gave as rows of plain values."""

import dataclasses
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from qlab.escape import error_text, shortened, traceback_text
from qlab.interrupts import let_through
from qlab.whole import is_whole

Point = dict[str, Any]
Row = dict[str, Any]
Grid = Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]

ERROR = "error"
"""The column of a point that failed."""

_VALUE = "value"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Given(NamedTuple):
    """What a point gave.

    Attributes:
        rows: Its rows; none where it failed.
        error: The error in one line; empty where it did not fail.
        traceback: The error's traceback.
    """

    rows: list[Row]
    error: str = ""
    traceback: str = ""


def points(grid: Grid, *, seed: int | None, repeats: int) -> list[Point]:
    """List the points of a grid, in its order: the last name changes fastest, and seeds faster still.

    Args:
        grid: Names with the values of each, or the points one by one.
        seed: The first seed; None for none.
        repeats: How many seeds each point gets.

    Raises:
        TypeError: It is no grid.
        ValueError: It has no points, or a name that a sweep needs itself.
    """
    listed = _crossed(grid) if isinstance(grid, Mapping) else [_point(each) for each in _records(grid) or grid]
    if not listed:
        raise ValueError("the grid has no points: give each name at least one value")
    if not is_whole(repeats, 1):
        raise ValueError(f"repeats is {repeats!r}: use a number from 1")
    if seed is not None and not is_whole(seed, 0):
        raise ValueError(f"seed is {seed!r}: use a whole number from 0")
    for taken in {ERROR} | ({"seed"} if seed is not None or repeats > 1 else set()):
        if any(taken in point for point in listed):
            raise ValueError(f"the grid has a name {taken!r}, which the sweep gives itself: use another, or none")
    if seed is None and repeats == 1:
        return listed
    seeds = range(seed or 0, (seed or 0) + repeats)
    return [point | {"seed": each} for point in listed for each in seeds]


def _crossed(grid: Mapping[str, Iterable[Any]]) -> list[Point]:
    for name, values in grid.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise TypeError(f"the grid's {name!r} is {values!r}: use a list of values, as in [{values!r}]")
    _point(grid)
    names, values = list(grid), [list(each) for each in grid.values()]
    if empty := [name for name, each in zip(names, values, strict=True) if not each]:
        raise ValueError(f"the grid's {empty[0]!r} has no values: give it at least one")
    return [dict(zip(names, each, strict=True)) for each in itertools.product(*values)] if names else []


def _point(point: Any) -> Point:
    if not isinstance(point, Mapping):
        raise TypeError(f"a point of the grid is {shortened(repr(point))}: use a mapping from names to values")
    if odd := [name for name in point if not isinstance(name, str)]:
        raise TypeError(f"a name in the grid is {odd[0]!r}: use text, the name of an argument")
    return dict(point)


def check_call(function: Callable[..., Any], listed: Sequence[Point]) -> None:
    """Refuse a grid whose points a function cannot be called with.

    Raises:
        TypeError: It takes other arguments, or cannot be called.
    """
    if not callable(function):
        raise TypeError(f"what is swept is {function!r}: use a function")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # it does not tell
    for names in dict.fromkeys(tuple(point) for point in listed):
        try:
            signature.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise TypeError(
                f"{name_of(function)}{signature} cannot be called with {', '.join(names)}: {error}"
            ) from None


def call(function: Callable[..., Any], point: Point, kept: bool) -> Given:
    """Call a function with a point; what it raises is the point's error, and stops nothing.

    Args:
        function: What gives a number, a mapping, or several of them.
        point: Its arguments by name.
        kept: Whether the rows will be written down, and must be JSON values.
    """
    try:
        rows = list(_rows(function(**point), point))
        return Given(json.loads(_written(rows)) if kept else rows)
    except BaseException as error:  # noqa: BLE001 - a function may raise anything, and the other points go on
        let_through(error)
        return Given([], error_text(error), traceback_text(error))


def key(point: Point) -> str:
    """Write a point as text that is the same whenever it is written.

    Raises:
        ValueError: A value of it is written anew each time.
    """
    return json.dumps({name: _told(name, value) for name, value in point.items()}, ensure_ascii=False, sort_keys=True)


def _told(name: str, value: Any) -> Any:
    value = _number(value)
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        if _ADDRESS.search(repr(value)):
            raise ValueError(
                f"the grid's {name!r} is {shortened(repr(value))}, which a file cannot tell from others: use a number, "
                "text, or a dataclass"
            ) from None
        return {"repr": repr(value)}
    return value


def name_of(function: Callable[..., Any]) -> str:
    """Tell what a function is called, with its module."""
    named = inner(function)
    return f"{named.__module__}.{named.__qualname__}"


def inner(function: Callable[..., Any]) -> Any:
    """Tell what has a function's name: itself, what a `partial` stands for, or the class of a called object."""
    named = inner(function.func) if isinstance(function, partial) else function
    return named if hasattr(named, "__qualname__") else type(named)


# -- what came back --


def _rows(returned: Any, point: Point) -> Iterator[Row]:
    many = _records(returned)
    for each in [returned] if many is None else many:
        fields = _fields(each)
        row = {_VALUE: each} if fields is None else dict(fields)
        row = {str(name): _number(value) for name, value in row.items()}
        for name in (*point, ERROR):
            if name in row and not (name in point and row[name] == point[name]):
                raise ValueError(f"it returned {name!r}, which is a column of the sweep already: use another name")
        yield {name: value for name, value in row.items() if name not in point}


def _records(returned: Any) -> Iterable[Any] | None:
    """Tell the rows of what came back; None where it is a single one."""
    if hasattr(returned, "columns") and hasattr(returned, "to_dict"):
        found: list[Any] = returned.to_dict("records")
        return found
    if isinstance(returned, list | Iterator) or (isinstance(returned, tuple) and not hasattr(returned, "_asdict")):
        return returned
    return None


def _fields(row: Any) -> Mapping[Any, Any] | None:
    """Tell a row's values by their names; None where it is a single value."""
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "_asdict"):
        named: Mapping[Any, Any] = row._asdict()
        return named
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if hasattr(row, "index") and hasattr(row, "to_dict"):
        series: Mapping[Any, Any] = row.to_dict()
        return series
    if _number(row) is None or isinstance(_number(row), str | int | float):
        return None
    raise TypeError(
        f"it returned a {type(row).__name__}: return a number, a mapping from columns to values, or a list of mappings"
    )


def _number(value: Any) -> Any:
    """Make NumPy's numbers Python's own."""
    plain = hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", 1) == 0
    return value.item() if plain else value


def _written(rows: list[Row]) -> str:
    for row in rows:
        for name, value in row.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise TypeError(
                    f"it returned a {type(value).__name__} as {name!r}, which the file to resume from cannot keep: "
                    "return numbers or text"
                ) from None
    return json.dumps(rows)
