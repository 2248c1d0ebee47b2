"""What the front end of a board is told of a lab: all of it once, then only what is new.

Everything here is JSON. Times of events are in microseconds, as a trace keeps them; all others are in seconds, None for
never. `from` numbers say where a piece belongs, so that a front end sees what it has missed and what it has already.
"""

import threading
from collections.abc import Sequence
from typing import Any

from qlab.errors import QlabError
from qlab.explanation import why
from qlab.lab import Lab
from qlab.policy import Policy
from qlab.scenario import NAMED
from qlab.side import Side
from qlab.trace import Difference, Kind, Trace

_NOTHING = -(2**62)
_CODES = {kind: code for code, kind in enumerate(Kind)}
_ABOUT_FAILED = {_CODES[kind] for kind in (Kind.FAILED, Kind.FORGOTTEN, Kind.RETRIED, Kind.LOST)}
_MAY_BE_NOTHING = ("job", "since", "until")


def packed(trace: Trace, first: int = 0, texts_first: int = 0) -> dict[str, Any]:
    """Pack a trace's events, from one on, as columns.

    Args:
        trace: What happened.
        first: From which event on.
        texts_first: From which text on: `name`, `worker` and `detail` are numbers of texts.
    """
    columns, texts = trace.columns()
    told: dict[str, Any] = {name: column[first:].tolist() for name, column in columns.items()}
    for name in _MAY_BE_NOTHING:
        told[name] = [None if value == _NOTHING else value for value in told[name]]
    return {"from": first, "texts_from": texts_first, "texts": texts[texts_first:]} | told


class Teller:
    """Tells a front end of a lab, and remembers what it has told; safe to use from several threads.

    Args:
        lab: The lab.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._lock = threading.Lock()
        self._sides: tuple[Side, ...] = ()
        self._told: list[_SideTeller] = []
        self._head: dict[str, Any] = {}
        self._layout = 0
        self._number = 0

    def everything(self, **more: Any) -> dict[str, Any]:
        """Tell all there is; what `news` tells next is not changed by it.

        Args:
            more: What else belongs to the head.
        """
        with self._lock:
            self._look()
            return self._message(_head(self._lab) | more, [side.everything() for side in self._told])

    def news(self, **more: Any) -> dict[str, Any]:
        """Tell what is new since this was last called.

        Args:
            more: What else belongs to the head.
        """
        with self._lock:
            self._look()
            head = _head(self._lab) | more
            changed = {name: value for name, value in head.items() if self._head.get(name, ...) != value}
            self._head = head
            self._number += 1
            return self._message(changed, [side.news() for side in self._told])

    def failed(self, side: int) -> list[list[int]]:
        """Tell `[job, row]` for each failed job of a side that is in `failed_jobs` now."""
        with self._lock:
            self._look()
            return self._told[side].failed.look()

    def _look(self) -> None:
        if self._sides is not self._lab.sides:
            self._sides = self._lab.sides
            self._layout += 1
            self._told = [_SideTeller(side, self._lab) for side in self._sides]

    def _message(self, head: dict[str, Any], sides: list[dict[str, Any]]) -> dict[str, Any]:
        return {"layout": self._layout, "number": self._number, "head": head, "sides": sides}


class _SideTeller:
    def __init__(self, side: Side, lab: Lab) -> None:
        self._side = side
        self._first = lab.sides[0]
        self._events = self._texts = self._entries = 0
        self._same = 0
        self._difference: dict[str, Any] | None = None
        self.failed = _FailedRows(side, lab)
        self._latest: dict[str, Any] = {}
        self._what = _description(side)
        self._has_server = lab.has_server(side)

    def everything(self) -> dict[str, Any]:
        return self._pieces(0, 0, 0) | self._present()

    def news(self) -> dict[str, Any]:
        told = self._pieces(self._events, self._texts, self._entries)
        self._events += len(told["events"]["at"])
        self._texts += len(told["events"]["texts"])
        self._entries += len(told["ledger"])
        present = self._present()
        changed = {name: value for name, value in present.items() if self._latest.get(name, ...) != value}
        self._latest = present
        return told | changed

    def _pieces(self, events: int, texts: int, entries: int) -> dict[str, Any]:
        rows = [list(entry) for entry in self._side.ledger.entries[entries:]]
        return {"events": packed(self._side.trace, events, texts), "ledger": rows, "ledger_from": entries}

    def _present(self) -> dict[str, Any]:
        return {
            "driver": self._side.driver,
            "what": self._what,
            "order": self._side.order,
            "server": self._has_server,
            "seats": [_seat(seat) for seat in self._side.bench.seats],
            "failed": self.failed.look(),
            "difference": self._differs(),
        }

    def _differs(self) -> dict[str, Any] | None:
        """Tell where this side's trace first differs from the first side's; what has been compared is not again."""
        if self._side is self._first or (self._difference is not None and not self._difference["open"]):
            return self._difference
        left, right = self._first.trace, self._side.trace
        shared = min(len(left), len(right))
        while self._same < shared and left[self._same] == right[self._same]:
            self._same += 1
        place = self._same
        if place == max(len(left), len(right)):
            self._difference = None
            return None
        one, other = (trace[place] if place < len(trace) else None for trace in (left, right))
        reason = why(self._first, self._side, Difference(place, one, other))
        self._difference = {"place": place, "why": reason, "open": one is None or other is None}
        return self._difference


class _FailedRows:
    """Knows which row of `failed_jobs` each failed job of a trace has: neither the trace nor the row tells both.

    Rows are numbered in the order of failing. So the last rows, those that were retried or forgotten since among them,
    belong to the last failures. While an action goes on, the trace and the store may be at different moments: then this
    is left for when it has ended, which is told too.
    """

    def __init__(self, side: Side, lab: Lab) -> None:
        self._side = side
        self._lock = lab.lock
        self._seen = 0
        self._jobs: dict[int, int] = {}
        self._present: list[list[int]] = []

    def look(self) -> list[list[int]]:
        """Tell `[job, row]` for each failed job that is there now."""
        if self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._present

    def _look(self) -> None:
        columns, texts = self._side.trace.columns()
        kinds, jobs = columns["kind"], columns["job"]
        news = [i for i in range(self._seen, len(kinds)) if kinds[i] in _ABOUT_FAILED]
        lost = {jobs[i]: i for i in news if kinds[i] == _CODES[Kind.LOST]}
        failed = [jobs[i] for i in news if kinds[i] == _CODES[Kind.FAILED] and lost.get(jobs[i], i) <= i]
        left = [i for i in news if kinds[i] in (_CODES[Kind.RETRIED], _CODES[Kind.FORGOTTEN])]
        gone = {int(texts[columns["detail"][i]].split()[-1]) for i in left}  # "failed job 7" is row 7
        if not news or self._match(failed, gone):
            self._seen = len(kinds)

    def _match(self, failed: list[int], gone: set[int]) -> bool:
        queue = self._side.queue
        try:
            there = queue.driver.failed_ids(queue.name)
        except QlabError:
            return False  # the store is closed or gone: it may come back
        rows = sorted({*there, *gone})[-len(failed) :] if failed else []
        self._jobs.update(zip(rows, failed, strict=False))
        self._present = [[self._jobs[row], row] for row in there if row in self._jobs]
        return True


# -- the head --


def _head(lab: Lab) -> dict[str, Any]:
    return {
        "name": lab.name,
        "now": lab.now,
        "closed": lab.closed,
        "drivers": [side.driver for side in lab.sides],
        "handlers": list(lab.handlers),
        "policy": _policy(lab.policy),
        "first_policy": lab.policy == lab.first_policy,
        "scenario": "" if lab.scenario is None else lab.scenario.name,
        "scenarios": [[name, (make.__doc__ or "").strip()] for name, make in NAMED.items()],
        "seed": lab.seed,
    }


def _policy(policy: Policy) -> dict[str, Any]:
    backoff = list(policy.backoff) if isinstance(policy.backoff, Sequence) else None
    return {"tries": policy.tries, "backoff": backoff, "retry_after": policy.retry_after}


def _seat(seat: Any) -> dict[str, Any]:
    held = seat.held
    return {
        "name": seat.name,
        "held": None if held is None else [held.job.id, held.job.attempts],
        "until": seat.until,
        "ended": seat.ended is not None,
        "paused": seat.paused,
        "gone": seat.gone,
    }


def _description(side: Side) -> str:
    try:
        return side.queue.driver.description
    except QlabError:
        return side.driver
