"""What each worker of a run was told, joined into one history: `promises` finds in it what was broken.

A run of several processes has no one order of what happened. A history knows of each event when it was asked for and
when its answer was there: what was told before another was asked for came first, and of two that overlap either may.
"""

import json
import os
import threading
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from qlab.clock import Clock, from_us, us
from qlab.trace import Event, Kind, Trace


class Record(NamedTuple):
    """An event, and when it can have taken effect.

    Attributes:
        event: What was told. A worker that died, or whose store did not answer it, is told of as `crashed`.
        asked: Not before this moment, in seconds; in a run without concurrency, the event's place.
        told: Not after this moment, in the same unit.
        latest: When it was told, in seconds.
    """

    event: Event
    asked: float
    told: float
    latest: float

    def before(self, other: "Record") -> bool:
        """Tell whether this took effect before another did, whatever the order of the two in the store."""
        return self.told < other.asked


History = Sequence[Record]


class Journal(Trace):
    """A trace that is written down as it grows, so that it can be read after its process was killed.

    An event is in the file before `record` returns, and so before whoever was told of it acts on it.

    Args:
        path: The file; what it has already stays.
        clock: The queue's clock.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self._clock = clock
        self._order = threading.Lock()
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - it lives as long as the journal
        super().__init__()

    def record_us(self, *fields: Any, **named: Any) -> None:
        """Add an event and write it down, whichever way it came; its fields are those of `Trace.record_us`."""
        with self._order:
            super().record_us(*fields, **named)
            # Rounded up, so that no answer seems to be there before it was.
            told = from_us(us(self._clock.now()) + 1)
            self._file.write(f"{json.dumps([told, *self[-1]])}\n".encode())

    def close(self) -> None:
        """Close the file; the trace can still be read."""
        self._file.close()


def written(path: str | os.PathLike[str]) -> list[Record]:
    """Read what a journal wrote, up to where its process was killed."""
    lines = Path(path).read_bytes().splitlines(keepends=True)
    return [_record(*json.loads(line)) for line in lines if line.endswith(b"\n")]


def sequential(events: Iterable[Event]) -> list[Record]:
    """Make the history of a run in which one thing happened after the other, such as a simulation's trace."""
    return [Record(event, place, place, event.at) for place, event in enumerate(events)]


def joined(*parts: Iterable[Record]) -> list[Record]:
    """Join what several processes were told, in the order in which they were told it."""
    return sorted(chain(*parts), key=lambda record: record.told)


def _record(told: float, at: float, kind: str, *fields: Any) -> Record:
    return Record(Event(at, Kind(kind), *fields), at, told, told)
