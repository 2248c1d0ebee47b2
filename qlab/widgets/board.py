"""The board: a lab that you can see, step, break, rewind and compare."""

import json
import secrets
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from qlab import front
from qlab.actions import ACTIONS
from qlab.errors import QlabError, QueueClosed
from qlab.escape import error_text
from qlab.export import FORMS, export, pictures, still
from qlab.lab import Lab
from qlab.telling import Teller
from qlab.widgets.errands import Errands

_KEPT = 100  # errors
_SHOWN = 12  # statements of one action
_LOOKING = ("export", "payload", "plots", "save", "statements", "sync")
"""What changes nothing, so that what went wrong before stays to be read."""

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


class Board(anywidget.AnyWidget):
    """A lab in a notebook.

    What a button asks for is done on another thread than the callback's, so that a callback returns at once, whichever
    thread it comes on and however slow a handler is. What went wrong is shown in the board and kept in `errors`.

    Args:
        lab: The lab.

    Attributes:
        lab: The lab.
        errors: What went wrong, the latest last.
        branches: The boards of the labs that were branched off in this one.
    """

    told = traitlets.Dict().tag(sync=True, to_json=lambda _, board: board.everything())

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.errors: list[BaseException] = []
        self.branches: list[Board] = []
        self._key = secrets.token_hex(8)
        self._problem = ""
        self._teller = Teller(lab)
        self._errands, self._drawing = Errands(), Errands()
        self._stopped = 0
        self._soon = threading.Event()
        self._sending = threading.Lock()
        self._commands: dict[str, Callable[..., Any]] = {
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
        self._esm, self._css = front.module(), front.read("board.css")
        super().__init__()
        self.on_msg(self._heard)
        self._let_route()

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

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Add what shows the lab where there is no kernel: on a web page, in a file, in a diff."""
        shown = super()._repr_mimebundle_(**kwargs)
        if shown is None:
            return None
        data, metadata = shown
        return data | {"text/plain": f"Board of {self.lab!r}", "text/html": still(self.lab)}, metadata

    def _ipython_display_(self) -> None:
        """Show the board, and as an output of its own what stands for it, which the front end hides while it lives.

        As one output JupyterLab would choose between the two: in a notebook of one's own it chooses the board, also
        where there is no kernel or a new one, and shows an error.
        """
        data, metadata = self._repr_mimebundle_() or ({}, {})
        shown = data.pop("text/html", "")
        display(data, metadata=metadata, raw=True)
        display({"text/html": f'<div id="qlab-still-{self._key}">{shown}</div>', "text/plain": ""}, raw=True)

    # -- what a front end asks for --

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        if not isinstance(content, dict) or not isinstance(content.get("args", {}), dict):
            return
        command, arguments = content.get("cmd"), content.get("args", {})
        if command == "stop":
            self._stopped = max(self._stopped, arguments["run"])
            return
        errands = self._drawing if command in self._slow else self._errands
        errands.add(partial(self._answer, command, arguments, content.get("id")))

    def _answer(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        """Do what was asked for, and say so with what is new."""
        answer: dict[str, Any] = {"id": id}
        buffers: list[bytes] = []
        self._soon.set()  # the answer tells what this changes
        try:
            if self.lab.closed and command not in _LOOKING:
                raise QueueClosed("this lab is closed: run the cell that makes it again")
            if command in self._slow:
                answer["result"], buffers = self._slow[command](**arguments)
            elif command in self._commands:
                answer["result"] = self._commands[command](**arguments)
            else:
                raise ValueError(f"there is no command {command!r}")
            if command not in _LOOKING:
                self._problem = ""
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is told in the board, where people look
            answer["error"] = self._note(error)
        self._tell(answer, buffers)

    def _note(self, error: BaseException) -> str:
        said = str(error) if isinstance(error, QlabError | ValueError) else error_text(error)
        self.errors = [*self.errors, error][-_KEPT:]
        self._problem = said
        return said

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

    def _let_route(self) -> None:
        """Let the front end's messages go where it sends them.

        ipykernel 7.4 sends them where that message came from which was handled when this comm last spoke. Here that is
        a cell's, so they would wait for as long as any cell runs, and so would Stop.
        """
        if self.comm is not None:
            self.comm.__dict__.pop("_reply_subshell_id", None)
