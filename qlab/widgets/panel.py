"""What the panels of a lab share: how they hear a front end, answer it, and are shown."""

import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import anywidget
import traitlets
from IPython.display import display

from qlab.errors import QlabError, QueueClosed
from qlab.escape import error_text
from qlab.lab import Lab
from qlab.widgets.errands import Errands

_KEPT = 100  # errors


class Panel(anywidget.AnyWidget):
    """A panel of a lab in a notebook.

    What a button asks for is done on another thread than the callback's, so that a callback returns at once, whichever
    thread it comes on and however long it takes. What went wrong is shown in the panel and kept in `errors`.

    Attributes:
        lab: The lab.
        errors: What went wrong, the latest last.
        looking: The commands that change nothing, so that what went wrong before stays to be read.
    """

    looking: ClassVar[tuple[str, ...]] = ("sync",)

    _commands: dict[str, Callable[..., Any]]

    told = traitlets.Dict().tag(sync=True, to_json=lambda _, panel: panel.everything())

    def __init__(self, lab: Lab, module: str, css: str) -> None:
        self.lab = lab
        self.errors: list[BaseException] = []
        self._key = secrets.token_hex(8)
        self._problem = ""
        self._errands = Errands()
        self._sending = threading.Lock()
        self._esm, self._css = module, css
        super().__init__()
        self.on_msg(self._heard)
        self._let_route()

    def everything(self) -> dict[str, Any]:
        """Tell all there is, as a front end that has just come is told it."""
        raise NotImplementedError

    def wait(self, seconds: float = 10.0) -> bool:
        """Wait until everything that was asked for is done; tell whether that came in time."""
        return self._errands.wait(seconds)

    # -- being shown --

    def kept(self) -> dict[str, Any]:
        """Tell what a page shows of it that has no kernel, as JSON values: `html` is for one without scripts, too."""
        return {"html": self._still()[1]}

    def _still(self) -> tuple[str, str]:
        """Tell what stands for the panel where it cannot live, as text and as HTML."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Add what shows the lab where there is no kernel: on a web page, in a file, in a diff."""
        shown = super()._repr_mimebundle_(**kwargs)
        if shown is None:
            return None
        data, metadata = shown
        text, html = self._still()
        return data | {"text/plain": text, "text/html": html}, metadata

    def _ipython_display_(self) -> None:
        """Show the panel, and as an output of its own what stands for it, which the front end hides while it lives.

        As one output JupyterLab would choose between the two: in a notebook of one's own it chooses the panel, also
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
        self._take(content.get("cmd"), content.get("args", {}), content.get("id"))

    def _take(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        """Have a command done soon."""
        self._errands.add(partial(self._answer, command, arguments, id))

    def _answer(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        """Do what was asked for, and say so with what is new."""
        answer: dict[str, Any] = {"id": id}
        buffers: list[bytes] = []
        try:
            if self.lab.closed and command not in self.looking:
                raise QueueClosed("this lab is closed: run the cell that makes it again")
            answer["result"], buffers = self._do(command, arguments)
            if command not in self.looking:
                self._problem = ""
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is told in the panel, where people look
            answer["error"] = self._note(error)
        self._tell(answer, buffers)

    def _do(self, command: Any, arguments: dict[str, Any]) -> tuple[Any, list[bytes]]:
        if command not in self._commands:
            raise ValueError(f"there is no command {command!r}")
        return self._commands[command](**arguments), []

    def _note(self, error: BaseException) -> str:
        said = str(error) if isinstance(error, QlabError | ValueError) else error_text(error)
        self.errors = [*self.errors, error][-_KEPT:]
        self._problem = said
        return said

    def _tell(self, answer: dict[str, Any] | None, buffers: list[bytes]) -> None:
        """Tell the front end what is new."""
        raise NotImplementedError

    def _let_route(self) -> None:
        """Let the front end's messages go where it sends them.

        ipykernel 7.4 sends them where that message came from which was handled when this comm last spoke. Here that is
        a cell's, so they would wait for as long as any cell runs, and so would Stop.
        """
        if self.comm is not None:
            self.comm.__dict__.pop("_reply_subshell_id", None)
