"""What a person does with a notebook and a board, in words for the tests.

Nothing here waits without a limit: Playwright's own waits have one, and `ask` gives one to what is evaluated in a page.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page, expect

from qlab.clock import monotonic

LIMIT = 30.0
"""Seconds that anything in a page may take on a busy machine: ends a test that hangs, measures nothing."""

_READY = """async () => {
  await window.jupyterapp.restored;
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
}"""

_KERNEL = """async (code) => {
  const panel = window.jupyterapp.shell.currentWidget;
  const told = [];
  const asked = panel.sessionContext.session.kernel.requestExecute({ code, store_history: false });
  asked.onIOPub = (message) => {
    if (message.header.msg_type === "stream") told.push(message.content.text);
    if (message.header.msg_type === "error") told.push(message.content.traceback.join("\\n"));
  };
  const reply = await asked.done;
  return { text: told.join(""), status: reply.content.status };
}"""

_ERRORS = """() => {
  return window.jupyterapp.shell.currentWidget.content.widgets.flatMap((cell) => (cell.model.sharedModel.outputs || [])
    .filter((output) => output.output_type === "error")
    .map((output) => output.traceback.join("\\n")));
}"""


class CellFailed(AssertionError):
    """A cell of the notebook, or code that a test sent to its kernel, raised."""


def ask(where: Page | Locator, script: str, arg: Any = None, *, seconds: float = LIMIT) -> Any:
    """Evaluate a function in a page, which would have no limit by itself, and give what it returns.

    Args:
        where: A page, whose function gets `arg`, or what was found there, whose function gets the element and `arg`.
        script: The function.
        arg: Its argument, as JSON values.
        seconds: The limit.
    """
    element = "element, " if isinstance(where, Locator) else ""
    limited = f"""({element}[arg, seconds]) => Promise.race([
      ({script})({element}arg),
      new Promise((_, refuse) => setTimeout(() => refuse(new Error(`no answer for ${{seconds}} s`)), seconds * 1000)),
    ])"""
    return where.evaluate(limited, [arg, seconds])


def settle(page: Page) -> None:
    """Wait until what was asked of a page is drawn: two frames, and the end of every animation that has one."""
    ask(
        page,
        """async () => {
          const frame = () => new Promise((drawn) => requestAnimationFrame(drawn));
          await frame();
          await frame();
          const ending = document.getAnimations().filter((one) => one.effect?.getComputedTiming().endTime < 10_000);
          await Promise.allSettled(ending.map((one) => one.finished));
          await frame();
        }""",
    )


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)


def lab(drivers: str = "memory", *, name: str = "lab", more: str = "") -> str:
    """Write the cell that makes a lab and shows its board.

    Args:
        drivers: The first argument of `Lab`, as Python reads it or as a plain name.
        name: The lab's name.
        more: Lines in between.
    """
    argument = drivers if drivers.startswith("[") else repr(drivers)
    return f"from qlab.lab import Lab\nlab = Lab({argument}, name={name!r})\n{more}\nlab.board()"


class Board:
    """A board that is drawn in a page.

    Args:
        root: The board's outermost element.
    """

    def __init__(self, root: Locator) -> None:
        self.root = root
        self.page = root.page

    def button(self, name: str) -> Locator:
        """Find a button by its whole name; the board's own one comes before those of its branches."""
        return self.root.get_by_role("button", name=name, exact=True).first

    def press(self, *names: str) -> None:
        """Press buttons, one after another."""
        for name in names:
            self.button(name).click()

    def toggle(self, name: str) -> None:
        """Open or close what is folded away."""
        self.root.locator("summary").filter(has_text=re.compile(rf"^{name}")).first.click()

    def field(self, name: str) -> Locator:
        """Find a field by its whole label."""
        return self.root.get_by_label(name, exact=True).first

    def dispatch(self, handler: str = "pay", *, payload: str = "", delay: str = "0", count: int = 1) -> None:
        """Fill in the form and dispatch."""
        self.field("Handler").select_option(handler)
        self.field("Payload").fill(payload)
        self.field("Delay (s)").fill(delay)
        self.field("How many").fill(str(count))
        self.press("Dispatch")

    def lane(self, name: str) -> Locator:
        """Find a lane by the first word of its name."""
        return self.root.get_by_role("list", name=re.compile(rf"^{name}\b", re.IGNORECASE))

    def shows(self, **lanes: int) -> None:
        """Wait until lanes state how many jobs they hold."""
        for name, count in lanes.items():
            stated = self.root.get_by_role("list", name=re.compile(rf"^{name}\b\D*\b{count}\b", re.IGNORECASE))
            expect(stated.first, f"{name}: {count}").to_be_attached(timeout=LIMIT * 1000)

    def tells(self, words: str | re.Pattern[str]) -> None:
        """Wait until the board has these words somewhere to see."""
        expect(self.root.get_by_text(words).filter(visible=True).first).to_be_visible(timeout=LIMIT * 1000)


class Notebook:
    """A notebook that is open in a page.

    Args:
        page: The page.
        path: Where the notebook's file is.
    """

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path

    def wait_until_ready(self) -> None:
        """Wait for the document, the session and the kernel: to run a cell earlier would wait for ever."""
        self.page.wait_for_function(
            "(name) => window.jupyterapp?.shell?.currentWidget?.context?.path === name",
            arg=self.path.name,
            timeout=LIMIT * 1000,
        )
        ask(self.page, _READY)

    def run_all(self) -> None:
        """Run every cell.

        Raises:
            CellFailed: One raised.
        """
        ask(self.page, "() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self._refuse_errors()

    def restart(self) -> None:
        """Restart the kernel, and wait until it answers: to restart it again before would break its connection."""
        ask(
            self.page,
            """async () => {
              const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
              await kernel.restart();
              await kernel.requestKernelInfo();
            }""",
        )

    def restart_and_run_all(self) -> None:
        """Restart the kernel and run every cell, as the menu does."""
        self.begin("notebook:restart-run-all")
        self.page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
        self.end()

    def run_cell(self, index: int) -> None:
        """Run one cell, from 0, and wait until it has ended."""
        self.begin_cell(index)
        self.end()

    def begin_cell(self, index: int) -> None:
        """Begin to run one cell, from 0; `end` waits for its end."""
        ask(self.page, "(index) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", index)
        self.begin("notebook:run-cell")

    def begin(self, command: str) -> None:
        """Begin a command; `end` waits for its end."""
        ask(self.page, "(command) => { window.qlabTest = window.jupyterapp.commands.execute(command); }", command)

    def end(self) -> None:
        """Wait for the end of what `begin` began.

        Raises:
            CellFailed: A cell raised.
        """
        ask(self.page, "async () => { await window.qlabTest; }")
        self._refuse_errors()

    def kernel(self, code: str) -> str:
        """Run code in the kernel, and give what it printed.

        Raises:
            CellFailed: It raised.
        """
        told = ask(self.page, _KERNEL, code)
        if told["status"] != "ok":
            raise CellFailed(told["text"])
        return told["text"].strip()

    def wait_for(self, condition: str) -> None:
        """Ask the kernel until an expression is true; each time it can do in between what else it was asked for."""
        deadline = monotonic() + LIMIT
        while self.kernel(f"print(bool({condition}))") != "True":
            assert monotonic() < deadline, f"not {condition} within {LIMIT:g} s"

    def board(self, *, cell: int = 0, nth: int = 0, kind: str = "board") -> Board:
        """Scroll to a cell, since JupyterLab draws only what is near, and find a board in it.

        Args:
            cell: The cell, from 0.
            nth: Which of its boards: the first, or that of a branch.
            kind: `board`, or `explorer` for one of those.
        """
        ask(self.page, "(cell) => window.jupyterapp.shell.currentWidget.content.scrollToItem(cell)", cell)
        shown = self.page.locator(f'.jp-Cell[data-windowed-list-index="{cell}"]')
        boards = shown.get_by_role("group", name=re.compile(f"^qlab {kind}"))
        expect(boards.nth(nth)).to_be_visible(timeout=LIMIT * 1000)
        return Board(boards.nth(nth))

    def save(self) -> None:
        """Save the notebook with its outputs."""
        ask(self.page, "() => window.jupyterapp.commands.execute('docmanager:save')")

    def reload(self) -> None:
        """Save, and load the page again; the kernel lives on."""
        self.save()
        self.page.reload()
        self.wait_until_ready()

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme, and wait until it is drawn."""
        ask(self.page, "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        self.page.wait_for_function(
            "(name) => document.body.dataset.jpThemeName === name", arg=name, timeout=LIMIT * 1000
        )
        settle(self.page)

    @property
    def cells(self) -> list[str]:
        """The sources of all cells, also of those that are not drawn."""
        return ask(
            self.page,
            """() => window.jupyterapp.shell.currentWidget.content.widgets
              .map((cell) => cell.model.sharedModel.getSource())""",
        )

    def _refuse_errors(self) -> None:
        if errors := ask(self.page, _ERRORS):
            raise CellFailed(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(errors)))
