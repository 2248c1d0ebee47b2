"""A table of what came when, read as a workload's arrivals: a CSV file, a list of mappings or a DataFrame."""

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

from qlab.clock import duration
from qlab.errors import InvalidPayload
from qlab.payload import encode
from qlab.workload.distributions import plain


class RecordedJob(NamedTuple):
    """A job of a recording.

    Attributes:
        at: When it comes, in seconds.
        name: The handler's name; empty for one of the workload's names.
        service: How long each attempt takes, in seconds; None for what the workload says.
        delay: How many seconds later it may be reserved.
        payload: Any JSON value.

    Example:
        >>> from qlab.workload import RecordedJob
        >>> RecordedJob(at=1.5, name="mail", service=0.2)
        RecordedJob(at=1.5, name='mail', service=0.2, delay=0.0, payload=None)
    """

    at: float
    name: str = ""
    service: float | None = None
    delay: float = 0.0
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrivals as they were; nothing is drawn for them.

    `recorded` reads a table of them.

    Attributes:
        jobs: The jobs; those that come earlier first, whatever their order was.

    Raises:
        TypeError: A value is of another type.
        ValueError: There is no job, or a value is out of its range; the message names the job, from 1.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Recorded, RecordedJob
        >>> list(Recorded([RecordedJob(at=3.0), RecordedJob(at=1.0)]).moments(Random(7)))
        [1.0, 3.0]
    """

    jobs: Sequence[RecordedJob]

    def __post_init__(self) -> None:
        jobs = [_check_job(job, f"job {i}") for i, job in enumerate(self.jobs, 1)]
        if not jobs:
            raise ValueError("the recording has no jobs: use at least one")
        object.__setattr__(self, "jobs", tuple(sorted(jobs, key=lambda job: job.at)))

    def moments(self, random: Random, until: float = math.inf) -> Iterator[float]:  # noqa: ARG002 - nothing is drawn
        """Tell when jobs come, in seconds, up to a moment."""
        return iter([job.at for job in self.jobs if job.at <= until])


COLUMNS = RecordedJob._fields
_COLUMNS = frozenset(COLUMNS)


class Frame(Protocol):
    """A pandas DataFrame, or what gives its rows likewise."""

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        """Give the rows."""


def recorded(source: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | Frame) -> Recorded:
    """Read a table of arrivals.

    The columns: `at` (seconds from the start, from 0), and if there: `name` (the handler's name), `service` (seconds
    that an attempt takes), `delay` (seconds until the job may be reserved), `payload` (any JSON value; in a CSV file,
    its JSON text). An empty cell, None and NaN say nothing.

    Args:
        source: The path of a CSV file (UTF-8, commas, a head with the columns' names), a list with a mapping for each
            job, or a DataFrame.

    Returns:
        Arrivals for a `Workload`, the earliest first.

    Raises:
        OSError: The file cannot be read.
        TypeError: The source is none of these, or a value is of another type.
        ValueError: The table does not have this form; the message names row (from 1, without the head), column and
            value.

    Example:
        >>> from qlab.workload import recorded
        >>> seen = recorded([{"at": 0, "name": "mail", "service": 2.5}, {"at": 4, "name": "mail"}])
        >>> [(job.at, job.name, job.service) for job in seen.jobs]
        [(0.0, 'mail', 2.5), (4.0, 'mail', None)]
    """
    if isinstance(source, str | os.PathLike):
        table = os.fspath(source)
        return _read(_lines(Path(source)), table)
    if isinstance(source, Mapping | bytes) or not (hasattr(source, "to_dict") or isinstance(source, Iterable)):
        raise TypeError(f"{source!r} is no table: use the path of a CSV file, a list of mappings or a DataFrame")
    return _read(source.to_dict("records") if hasattr(source, "to_dict") else source, "the table")


def _read(rows: Iterable[Mapping[str, Any]], table: str) -> Recorded:
    jobs = [_job(row, f"{table}, row {i}") for i, row in enumerate(rows, 1)]
    if not jobs:
        raise ValueError(f"{table} has no rows: use one for each job")
    return Recorded(jobs)


def _job(row: Mapping[str, Any], place: str) -> RecordedJob:
    if not isinstance(row, Mapping):
        raise TypeError(f"{place} is {row!r}: use a mapping with the columns {', '.join(COLUMNS)}")
    if not row.keys() <= _COLUMNS:
        for column in row:
            _check_column(column, place)
    there = {column: value for column, value in row.items() if not _is_missing(value)}
    if "at" not in there:
        raise ValueError(f"{place} has no at: say in each row when the job comes, in seconds from the start")
    for column in ("at", "service", "delay"):
        if column in there:
            there[column] = _seconds(there[column], f"{place}, column {column}")
    if not isinstance(there.get("name", ""), str):
        raise TypeError(f"{place}, column name is {there['name']!r}: use text")
    if "payload" in there:
        try:
            encode(there["payload"], what=f"{place}, column payload")
        except InvalidPayload as error:
            raise ValueError(str(error)) from error
    return RecordedJob(**there)


def _check_column(column: object, place: str) -> None:
    if column in COLUMNS:
        return
    if column is None:
        raise ValueError(f"{place} has more cells than the head has columns: put text with a comma between quotes")
    near = get_close_matches(str(column), COLUMNS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if isinstance(column, str) and any(sign in column for sign in ";\t"):
        hint = "separate the cells with commas; "
    raise ValueError(f"{place} has the column {column!r}: {hint}use {', '.join(COLUMNS)}, and drop all others")


def _is_missing(value: object) -> bool:
    """Tell whether a cell says nothing: empty, None, and the several ways of pandas."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or value == "" or type(value).__name__ in ("NAType", "NaTType")


def _seconds(value: object, what: str) -> float:
    try:
        number = float(value) if isinstance(value, str) else plain(value)
    except ValueError:
        raise ValueError(
            f"{what} is {value!r}: use a number of seconds, with a point, such as 12.5; "
            "of a date, the seconds since the first one"
        ) from None
    try:
        return duration(number, what)
    except TypeError:
        raise TypeError(
            f"{what} is {value!r}: use a number of seconds; of dates, (dates - dates.min()).dt.total_seconds()"
        ) from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            head = reader.fieldnames or []
            if twice := sorted({column for column in head if head.count(column) > 1}):
                raise ValueError(f"{path} has the columns {twice} twice: use each once")
            for i, row in enumerate(reader, 1):
                yield _decoded(row, f"{path}, row {i}")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text in UTF-8 ({error}): save the table as UTF-8") from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num} is no line of a CSV file: {error}") from error


def _decoded(row: dict[str, Any], place: str) -> dict[str, Any]:
    if row.get("payload"):
        try:
            row["payload"] = json.loads(row["payload"], parse_constant=_no_json)
        except ValueError as error:
            raise ValueError(
                f"{place}, column payload is {row['payload']!r}: use JSON, in which text stands between quotes: {error}"
            ) from error
    return row


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _check_job(job: RecordedJob, what: str) -> RecordedJob:
    if not isinstance(job, RecordedJob):
        raise TypeError(f"{what} is {job!r}: use RecordedJob(at=…, …), or recorded(…) of a table")
    if not isinstance(job.name, str):
        raise TypeError(f"{what}, name is {job.name!r}: use text")
    if job.payload is not None:
        encode(job.payload, what=f"{what}, payload")
    return RecordedJob(
        duration(job.at, f"{what}, at"),
        job.name,
        None if job.service is None else duration(job.service, f"{what}, service"),
        duration(job.delay, f"{what}, delay"),
        job.payload,
    )
