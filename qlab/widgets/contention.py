"""Contention: real workers on real stores, picked and measured in a notebook, with pictures of what they reached."""

import math
import threading
from collections.abc import Sequence
from typing import Any

from qlab import contention_report, front, report
from qlab.contend import Contention, contention
from qlab.contend.arms import ARMS, Arm
from qlab.driver import SURVIVED
from qlab.lab import Lab
from qlab.widgets.panel import Panel

WAYS = {"": "a Unix socket", " tcp": "TCP", " +1 ms": "TCP, 1 ms added to each round trip"}
"""How a Redis is reached: the end of an arm's name, and in words."""

_CLASSES = {"OFF": 1, "none": 1, "NORMAL": 2, "everysec": 2, "FULL": 3, "always": 3}  # places in SURVIVED
_FIRST = ("sqlite NORMAL", "redis_zset everysec")

_panels: dict[str, "ContentionPanel"] = {}


def contention_panel(lab: Lab) -> "ContentionPanel":
    """Make the contention panel of a lab; of a lab that has one, it is the same panel once more.

    Another lab's panel under the same name is closed.
    """
    there = _panels.get(lab.name)
    if there is not None and there.lab is lab and there.comm is not None:
        return there
    if there is not None:
        there.close()
    _panels[lab.name] = ContentionPanel(lab)
    return _panels[lab.name]


class ContentionPanel(Panel):
    """Real workers that contend for the jobs of real stores, in a notebook.

    Args:
        lab: The lab; its own stores are left as they are.

    Attributes:
        found: What `contention` gave last; None before.
    """

    looking = ("sync", "pictures")

    def __init__(self, lab: Lab) -> None:
        self.found: Contention | None = None
        self._code = ""
        self._share: float | None = None
        self._what = ""
        self._number = 0
        self._stop = threading.Event()
        self._page: report.Report | None = None
        self._commands = {"measure": self._measure, "sync": lambda: None}
        self._unwatch = lab.on_change(self._noticed)
        super().__init__(lab, front.module("contention"), front.read("board.css") + front.read("contention.css"))

    def everything(self) -> dict[str, Any]:
        """Tell all there is, as a front end that has just come is told it; pictures are asked for."""
        return {
            "key": self._key,
            "number": self._number,
            "lab": self.lab.name,
            "closed": self.lab.closed,
            "problem": self._problem,
            "doing": "" if self._share is None else "it measures",
            "share": 0.0 if self._share is None or math.isnan(self._share) else self._share,
            "what": self._what,
            "classes": _classes(),
            "first": _FIRST,
            "ways": list(WAYS.items()),
            "found": None if self._page is None else self._told_of(self._page),
        }

    def close(self) -> None:
        """Stop what is being measured, and close the panel; the lab itself stays as it is."""
        if self.comm is None:
            return
        self._stop.set()
        self._unwatch()
        self._errands.forget()
        if _panels.get(self.lab.name) is self:
            del _panels[self.lab.name]
        self.layout.close()
        super().close()

    def _still(self) -> tuple[str, str]:
        shown = "<p>Nothing was measured yet.</p>" if self.found is None else self.found._repr_html_()
        return f"Contention panel of {self.lab!r}", shown

    # -- what a front end asks for --

    def _take(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        if command == "stop":
            self._stop.set()
            return
        if command == "measure":
            self._stop.clear()  # here and not when its turn comes: a stop that is asked for in between counts
        super()._take(command, arguments, id)

    def _do(self, command: Any, arguments: dict[str, Any]) -> tuple[Any, list[bytes]]:
        if command == "pictures":
            return self._pictures()
        return super()._do(command, arguments)

    def _measure(
        self, *, arms: Sequence[str], workers: Sequence[int], jobs: int, length: float, busy: bool, repeats: int
    ) -> None:
        if not arms:
            raise ValueError("no store is picked: tick at least one")
        how: dict[str, Any] = {"workers": tuple(workers), "jobs": jobs, "length": length, "repeats": repeats}
        if busy:
            how["busy"] = True
        self.found = self._page = None
        self._share, self._what = 0.0, "getting ready"
        self._tell(None, [])
        try:
            found = contention(list(arms), progress=self._going_on, stop=self._stop, **how)
            self._page = contention_report.page(found) if found.runs else None
        finally:
            self._share, self._what = None, ""
        self.found = found
        told = ", ".join(f"{name}={value!r}" for name, value in how.items())
        self._code = f"contention({list(arms)!r}, {told})"
        if not found.runs:
            raise ValueError("it was stopped before anything was measured")

    def _going_on(self, share: float, what: str) -> None:
        self._share, self._what = share, what
        self._tell(None, [])

    def _pictures(self) -> tuple[Any, list[bytes]]:
        """Draw what was found: for each picture its part and what it shows, and the picture as PNG."""
        if self._page is None:
            return [], []
        drawn = [(section.title, picture) for section in self._page.sections for picture in section.pictures]
        told = [{"part": title, "about": picture.about} for title, picture in drawn]
        return told, [report.png(picture.axes) for _, picture in drawn]

    # -- telling --

    def _noticed(self) -> None:
        if self.lab.closed:
            self._stop.set()
            self._errands.add(lambda: self._tell(None, []))

    def _told_of(self, page: report.Report) -> dict[str, Any]:
        found = self.found
        rows = [] if found is None else found.rows()
        return {
            "answer": list(page.answer),
            "notes": [] if found is None else list(found.notes),
            "interrupted": found is not None and found.interrupted,
            "columns": list(rows[0]) if rows else [],
            "rows": [[str(value) for value in row.values()] for row in rows],
            "machine": [f"{name} {value}" for name, value in page.machine.items()],
            "code": self._code,
        }

    def _tell(self, answer: dict[str, Any] | None, buffers: list[bytes]) -> None:
        with self._sending:
            self._number += 1
            self.send({"type": "told", **self.everything(), "answer": answer}, buffers)
            self._let_route()


def _classes() -> list[dict[str, Any]]:
    """Tell the arms that can be picked, by what they survive, the hardest first."""
    plain = [arm for arm in ARMS.values() if not arm.private and not arm.tcp]
    return [
        {"survives": survived, "arms": [arm.name for arm in plain if _place(arm) == place]}
        for place, survived in reversed([*enumerate(SURVIVED)])
        if any(_place(arm) == place for arm in plain)
    ]


def _place(arm: Arm) -> int:
    return _CLASSES[arm.synchronous or arm.persistence]
