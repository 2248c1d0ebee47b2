"""The board: a lab that you can see, step, break, rewind and compare."""

import json
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from qlab import front
from qlab.actions import ACTIONS
from qlab.export import FORMS, export, pictures, still, without_kernel
from qlab.lab import Lab
from qlab.telling import Teller
from qlab.widgets.errands import Errands
from qlab.widgets.panel import Panel

_SHOWN = 12  # statements of one action

_boards: dict[str, "Board"] = {}


def board(lab: Lab) -> "Board":
    """Make the board of a lab; of a lab that has one, it is the same board once more.

    Another lab's board under the same name is closed.
    """
    there = _boards.get(lab.name)
    if there is not None and there.lab is lab and there.comm is not None:
        return there
    if there is not None:
        there.close()
    _boards[lab.name] = Board(lab)
    return _boards[lab.name]


class Board(Panel):
    """A lab in a notebook.

    Args:
        lab: The lab.

    Attributes:
        branches: The boards of the labs that were branched off in this one.
    """

    looking = ("export", "payload", "plots", "save", "statements", "sync")

    def __init__(self, lab: Lab) -> None:
        self.branches: list[Board] = []
        self._teller = Teller(lab)
        self._drawing = Errands()
        self._stopped = 0
        self._soon = threading.Event()
        self._commands = {
            **{action: partial(self._act, action) for action in ACTIONS},
            "branch": self._branch,
            "close_branch": self._close_branch,
            "dispatch_text": self._dispatch_text,
            "jump": self._jump,
            "load": self._load,
            "payload": self._payload,
            "run": self._run,
            "save": self._save,
            "statements": self._statements,
            "sync": self._sync,
        }
        self._slow: dict[str, Callable[..., tuple[Any, list[bytes]]]] = {"export": self._export, "plots": self._plots}
        self._unwatch = lab.on_change(self._changed)
        super().__init__(lab, front.module("board"), front.read("board.css"))

    def everything(self) -> dict[str, Any]:
        """Tell all there is, as a front end that has just come is told it."""
        return self._teller.everything(**self._own()) | {"board": self._key}

    def wait(self, seconds: float = 10.0) -> bool:
        """Wait until everything that was asked for is done; tell whether that came in time."""
        return self._errands.wait(seconds) and self._drawing.wait(seconds)

    def close(self) -> None:
        """Close the board, and those of its branches with their labs; the lab itself stays as it is."""
        if self.comm is None:
            return
        self._stopped = 2**53
        self._unwatch()
        for errands in (self._errands, self._drawing):
            errands.forget()
        for branch in list(self.branches):
            self._close_branch(branch.model_id)
        if _boards.get(self.lab.name) is self:
            del _boards[self.lab.name]
        self.layout.close()
        super().close()

    def kept(self) -> dict[str, Any]:
        """Tell what a page shows of it that has no kernel: `told` is all of it, for a board with a scrubber."""
        return super().kept() | {"told": without_kernel(self.lab)}

    def _still(self) -> tuple[str, str]:
        return f"Board of {self.lab!r}", still(self.lab)

    # -- what a front end asks for --

    def _take(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        if command == "stop":
            self._stopped = max(self._stopped, arguments["run"])
            return
        errands = self._drawing if command in self._slow else self._errands
        errands.add(partial(self._answer, command, arguments, id))

    def _answer(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        self._soon.set()  # the answer tells what this changes
        super()._answer(command, arguments, id)

    def _do(self, command: Any, arguments: dict[str, Any]) -> tuple[Any, list[bytes]]:
        return self._slow[command](**arguments) if command in self._slow else super()._do(command, arguments)

    def _act(self, action: str, **arguments: Any) -> None:
        getattr(self.lab, action)(**arguments)

    def _dispatch_text(self, handler: str, payload: str, **how: Any) -> None:
        """Dispatch with a payload as it was typed: read here, because a browser would round large integers."""
        self.lab.dispatch(handler, json.loads(payload) if payload.strip() else None, **how)

    def _run(self, seconds: float, run: int) -> None:
        self.lab.run(seconds, stopping=lambda: run <= self._stopped)

    def _jump(self) -> str:
        moment = self.lab.jump()
        return "" if moment is not None else "Nothing will change by itself: dispatch a job, or let a worker step."

    def _sync(self) -> None:
        with self._sending:
            self.send({"type": "told", "whole": True, **self.everything()})
            self._let_route()

    def _statements(self) -> list[list[list[str]]]:
        # Each thread opens a connection of its own: what that takes is no part of the action.
        told = [[one for one in side if one.verb != "open"][-_SHOWN:] for side in self.lab.statements]
        return [[[one.verb, one.language, one.text, one.values] for one in side] for side in told]

    def _payload(self, side: int, job: int) -> str:
        queue = self.lab.sides[side].queue
        found = [one.body for one in queue.jobs() if one.id == job]
        row = next((row for failed, row in self._teller.failed(side) if failed == job), None)
        found += [one.body for one in queue.failed() if one.id == row]
        return found[0] if found else "its store has deleted the job, and its payload with it"

    def _branch(self, events: int | None = None) -> int:
        there = [branch for branch in self.branches if branch.comm is not None]
        name = f"{self.lab.name}, branched at {self.lab.begins_at(events)}"
        taken = {branch.lab.name for branch in there}
        names = chain([name], (f"{name} ({number})" for number in count(2)))
        made = board(self.lab.branch(events, name=next(one for one in names if one not in taken)))
        self.branches = [*there, made]
        return len(made.lab.trace)

    def _close_branch(self, branch: str) -> None:
        for there in self.branches:
            if there.model_id == branch:
                there.close()
                there.lab.close()
        self.branches = [there for there in self.branches if there.comm is not None]

    def _save(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return self.lab.save(Path(folder) / "lab.json").read_text(encoding="utf-8")

    def _load(self, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lab.json"
            file.write_text(text, encoding="utf-8")
            self.lab.restore(file)

    def _plots(self) -> tuple[Any, list[bytes]]:
        drawn = pictures(self.lab)
        return [one.about for one in drawn], [one.png for one in drawn]

    def _export(self, form: str) -> tuple[Any, list[bytes]]:
        with tempfile.TemporaryDirectory() as folder:
            return None, [export(self.lab, Path(folder) / f"lab.{form}").read_bytes()]

    # -- telling --

    def _own(self) -> dict[str, Any]:
        branches = [[there.model_id, there.lab.name] for there in self.branches if there.comm is not None]
        return {"problem": self._problem, "branches": branches, "forms": [ending[1:] for ending in FORMS]}

    def _changed(self) -> None:
        """Tell the front end soon: of many changes at once, all together."""
        if not self._soon.is_set():
            self._soon.set()
            self._errands.add(partial(self._tell, None, []))

    def _tell(self, answer: dict[str, Any] | None, buffers: list[bytes]) -> None:
        with self._sending:
            self._soon.clear()
            self.send({"type": "told", **self._teller.news(**self._own()), "answer": answer}, buffers)
            self._let_route()
