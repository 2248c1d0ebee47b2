"""What notebooks do to a board: cells run again, kernels restart, pages reload, other cells are busy."""

import re
from collections.abc import Callable
from importlib.metadata import version

import pytest

from browser.pages import Notebook, ask, lab

Open = Callable[..., Notebook]

RESTING = """async (root) => {
  const changes = [], watch = new MutationObserver((seen) => changes.push(...seen));
  watch.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
  for (let i = 0; i < 60; i++) await new Promise((drawn) => requestAnimationFrame(drawn));
  watch.disconnect();
  const running = document.getAnimations().filter((one) => root.contains(one.effect.target));
  return [changes.length, running.length];
}"""


LIVING = """
import gc, threading, ipywidgets
lab.board().wait()
gc.collect()
labs = [one for one in gc.get_objects() if type(one) is Lab and not one.closed]
threads = [one.name for one in threading.enumerate() if "qlab" in one.name]
print(len(ipywidgets.widgets.widget._instances), len(labs), threads)
"""


def test_two_views_agree_and_survive_a_reload(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite"), "lab.board()")
    notebook.run_all()
    one, other = notebook.board(), notebook.board(cell=1)
    one.dispatch(count=3)
    other.press("Step worker 1")
    for board in (one, other):
        board.shows(ready=2, done=1)
    one.press("Step worker 2")
    other.shows(ready=1, done=2)
    notebook.reload()
    notebook.board().shows(ready=1, done=2)
    notebook.board(cell=1).press("Step worker 1")
    for cell in range(2):
        notebook.board(cell=cell).shows(ready=0, done=3)


def test_a_cell_that_is_run_again_leaves_nothing_behind(open_notebook: Open) -> None:
    notebook = open_notebook(lab("memory"))
    notebook.run_all()
    notebook.board().press("+1 s")
    once = living(notebook)
    for _ in range(20):
        notebook.run_cell(0)
    board = notebook.board()
    board.dispatch()
    board.press("Step worker 1")
    board.shows(done=1)
    assert living(notebook) == once
    notebook.restart()
    board.press("+1 s")
    board.tells(re.compile("run the cell again"))
    notebook.restart_and_run_all()
    board = notebook.board()
    board.shows(done=0)
    board.dispatch()
    board.press("Step worker 1")
    board.shows(done=1)


def living(notebook: Notebook) -> tuple[str, list[int]]:
    """Count what is alive: widgets, open labs, threads; on the page boards, and the styles that they brought."""
    of_page = ["[aria-label^='qlab board']", "style[data-qlab-still]"]
    counts = "(all) => all.map((one) => document.querySelectorAll(one).length)"
    return notebook.kernel(LIVING), ask(notebook.page, counts, of_page)


@pytest.mark.skipif(version("ipykernel").startswith("6."), reason="ipykernel 6 does one thing at a time: no subshells")
def test_answers_while_another_cell_is_busy(open_notebook: Open) -> None:
    opener = """
import threading
gate = threading.Event()
@lab.handler("open the gate")
def open_it(job):
    gate.set()
"""
    notebook = open_notebook(lab("sqlite", more=opener), "lab.advance(1)\nassert gate.wait(60)")
    notebook.run_cell(0)
    board = notebook.board()
    notebook.begin_cell(1)
    board.dispatch("pay")
    board.press("Step worker 1")
    board.shows(done=1)
    board.dispatch("open the gate")
    board.press("Step worker 1")
    notebook.end()
    board.shows(done=2)


def test_rests_while_nothing_happens_and_out_of_sight(open_notebook: Open, subtests: pytest.Subtests) -> None:
    filler = "for i in range(100):\n    print(i)"
    notebook = open_notebook(lab("sqlite"), *[filler] * 4)
    notebook.run_all()
    board = notebook.board()
    board.dispatch(count=3)
    board.press("Step worker 1")
    board.shows(done=1, ready=2)

    with subtests.test("nothing happens"):
        threads = (
            "import threading\nlab.board().wait()\nprint([t.name for t in threading.enumerate() if 'qlab' in t.name])"
        )
        assert notebook.kernel(threads) == "[]"
        ask(board.root, RESTING)  # what the last press has set in motion may end
        assert ask(board.root, RESTING) == [0, 0]

    with subtests.test("out of sight, and back"):
        ask(notebook.page, "() => window.jupyterapp.shell.currentWidget.content.scrollToItem(4)")
        notebook.kernel("lab.step(1)")
        board = notebook.board()
        board.shows(ready=1, done=2)
        board.press("Step worker 2")
        board.shows(ready=0, done=3)
