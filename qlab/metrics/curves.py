"""What changes over time, as areas under its curve: from areas come averages over any stretch of time, exactly.

Times are in microseconds, as integers.
"""

from typing import NamedTuple, Protocol

import numpy as np

from qlab.frames.columns import Array
from qlab.frames.job_spans import Oldest


class Curve(Protocol):
    """Something that has a value at each moment."""

    def area(self, edges: Array) -> Array:
        """Give the area under it, from its beginning up to each of some moments."""


class Number(NamedTuple):
    """How many there are of what lasts from one moment to another.

    Attributes:
        start: When each began, in any order.
        end: When each ended, not before.
    """

    start: Array
    end: Array

    def join(self, other: "Number") -> "Number":
        """Count those of both."""
        return Number(np.append(self.start, other.start), np.append(self.end, other.end))

    def area(self, edges: Array) -> Array:
        """Give the area under it, up to each of some moments."""
        return _since(self.start, edges) - _since(self.end, edges)


def _since(moments: Array, edges: Array) -> Array:
    """Add up, at each of some edges, for how long each of the moments has been over.

    What is too large for an integer of 64 bits wraps around, and comes back in a difference that is not too large.
    """
    ordered = np.sort(moments, kind="stable")  # which is fast where they are nearly in order
    over = np.searchsorted(ordered, edges)
    since: Array = over * edges - np.append(0, np.cumsum(ordered))[over]
    return since


class Age(NamedTuple):
    """How old the oldest is: it grows by a microsecond a microsecond, and is 0 where there is none."""

    oldest: Oldest

    def area(self, edges: Array) -> Array:
        """Give the area under it, up to each of some moments."""
        row, since, start, end = self.oldest
        if len(row) == 0:
            return np.zeros(len(edges))
        whole = _grown(start - since, end - since)
        last = np.maximum(np.searchsorted(start, edges, side="right") - 1, 0)
        age = start[last] - since[last]
        grown = _grown(age, np.clip(edges, start[last], end[last]) - since[last])
        return np.asarray(np.append(0.0, np.cumsum(whole))[last] + grown)

    def most(self, start: int, end: int) -> int:
        """Tell the largest it is between two moments."""
        _, since, first, last = self.oldest
        there = (last > start) & (first < end)
        return int((np.minimum(last, end) - since)[there].max(initial=0))


def _grown(age: Array, until: Array) -> Array:
    """Give the area under an age that grows up to another."""
    return np.asarray((until.astype(np.float64) ** 2 - age.astype(np.float64) ** 2) / 2)
