"""A trace's columns as arrays, and arrays as a frame's columns."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray

from qlab.clock import NEVER
from qlab.trace import Kind, Trace

Array: TypeAlias = NDArray[Any]

NOTHING = -(2**62)
"""What stands in a trace's column of integers where there is nothing."""
CODES = {kind: code for code, kind in enumerate(Kind)}
"""The number of each kind in a trace's column."""


class Columns(NamedTuple):
    """The columns of `Trace.columns` as arrays, and when each event was if the clock never went back."""

    at: Array
    kind: Array
    job: Array
    name: Array
    attempt: Array
    worker: Array
    since: Array
    until: Array
    detail: Array
    clock: Array
    texts: list[str]


def events(trace: Trace) -> pd.DataFrame:
    """Tell every event.

    Args:
        trace: What happened.

    Returns:
        One row an event, in the order of the trace:

        - `at` (float64, s): when;
        - `kind` (category of every `Kind`): what happened;
        - `job` (Int64): the job's id; missing where it is about no job, or a failed job that failed elsewhere;
        - `name` (category): the handler's name;
        - `attempt` (int64): which attempt, from 1; 0 before the first;
        - `worker` (category): who did it;
        - `since` (float64, s): `reserved`: since when the job had been claimable; `blocked`: when the wait began; else
          NaN;
        - `until` (float64, s): `reserved`, `extended`: when the reservation runs out, inf for never; `dispatched`,
          `released`, `recovered`: when the job may be reserved; `expired`: the deadline that passed; else NaN;
        - `detail` (category): the error, the verb that came too late, how far the job is, and so on, as in `Event`.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import Queue, SimulatedClock, frames
        >>> queue = Queue("memory://", clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch_later("mail", None, delay=60)
        >>> _ = queue.drain(until=60)
        >>> frames.events(queue.trace)[["at", "kind", "job", "attempt", "worker", "since", "until"]]
             at        kind   job  attempt worker  since  until
        0   0.0  dispatched     1        0           NaN   60.0
        1   0.0      missed  <NA>        0           NaN    NaN
        2  60.0    reserved     1        1          60.0  150.0
        3  60.0   completed     1        1           NaN    NaN
        4  60.0      missed  <NA>        0           NaN    NaN
    """
    columns = columns_of(trace)
    return pd.DataFrame(
        {
            "at": seconds(columns.at),
            "kind": category(columns.kind, Kind),
            "job": pd.arrays.IntegerArray(columns.job, columns.job == NOTHING),
            "name": text(columns.name, columns.texts),
            "attempt": columns.attempt.astype(np.int64),
            "worker": text(columns.worker, columns.texts),
            "since": seconds(columns.since),
            "until": seconds(columns.until),
            "detail": text(columns.detail, columns.texts),
        }
    )


def columns_of(trace: Trace) -> Columns:
    """Take a trace's columns."""
    if not isinstance(trace, Trace):
        raise TypeError(f"a frame is made of a Trace, such as queue.trace, not of {trace!r}")
    columns, texts = trace.columns()
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return Columns(**arrays, clock=np.maximum.accumulate(arrays["at"]), texts=texts)


def codes(*kinds: Kind) -> list[int]:
    """Give the numbers of kinds."""
    return [CODES[kind] for kind in kinds]


def seconds(microseconds: Array) -> NDArray[np.float64]:
    """Make a column of seconds: inf for never, NaN where there is nothing."""
    told = microseconds / 1_000_000
    told[microseconds >= NEVER] = np.inf
    told[microseconds == NOTHING] = np.nan
    return told


def text(numbers: Array, texts: list[str]) -> ExtensionArray:
    """Make a column of text, whose categories are the texts in it."""
    used = np.bincount(numbers, minlength=len(texts)) > 0
    return category((np.cumsum(used) - 1)[numbers], (text for text, there in zip(texts, used, strict=True) if there))


def category(numbers: Array, categories: Iterable[str]) -> ExtensionArray:
    """Make a column of numbers of categories."""
    return pd.Categorical.from_codes(numbers.astype(np.int64), categories=pd.Index([*map(str, categories)], dtype=str))
