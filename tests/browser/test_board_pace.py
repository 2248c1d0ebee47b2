"""How often a board draws its plots, and how long its callbacks take: what is measured is printed, not asserted."""

from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import expect

from browser.pages import LIMIT, Notebook, ask, lab

Open = Callable[..., Notebook]

WATCH = """(image) => {
  window.qlabDrawn = [];
  new MutationObserver(() => window.qlabDrawn.push(performance.now()))
    .observe(image, { attributes: true, attributeFilter: ["src"] });
}"""

# Drawn once, and given again at once: only the board itself keeps the pace then, not matplotlib.
DRAWN_ALREADY = """
import qlab.widgets.board as module
drawn, asked = module.pictures(lab), []
module.pictures = lambda lab: asked.append(lab.now) or drawn
"""

GATED = """
import threading
from qlab.clock import monotonic
entered, gate, heard = threading.Event(), threading.Event(), []
@lab.handler("gated")
def gated(job):
    entered.set()
    assert gate.wait(60)
def timed(message, handle=lab.board()._handle_msg):
    began = monotonic()
    handle(message)
    heard.append(monotonic() - began)
lab.board().comm.on_msg(timed)
"""


def test_draws_its_plots_at_most_four_times_a_second_and_only_while_they_are_open(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    notebook.kernel(DRAWN_ALREADY)
    board = notebook.board()
    board.dispatch(count=5)
    board.toggle("Plots")
    image = board.root.get_by_role("img").first
    expect(image).to_be_visible(timeout=LIMIT * 1000)
    ask(image, WATCH)
    board.press("Run")
    notebook.page.wait_for_function("() => window.qlabDrawn.length > 8", timeout=LIMIT * 1000)
    board.toggle("Plots")
    moments = ask(notebook.page, "() => window.qlabDrawn")
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert min(gaps) >= 245  # ms; a browser may round down what a timer waited
    print(f"{len(moments)} drawings, every {sum(gaps) / len(gaps):.0f} ms")  # noqa: T201 - a record for people

    notebook.kernel("lab.board().wait()\nasked.clear()\nbefore = lab.now")
    notebook.wait_for("lab.now > before + 5")
    board.press("Stop")
    assert notebook.kernel("lab.board().wait()\nprint(asked)") == "[]"


def test_every_callback_returns_while_a_handler_is_still_at_work(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite", more=GATED))
    notebook.run_all()
    board = notebook.board()
    board.dispatch("gated", count=2)
    board.press("Step worker 1")
    notebook.wait_for("entered.is_set()")
    before = int(notebook.kernel("print(len(heard))"))
    board.toggle("Plots")
    board.press("Reserve worker 2", "+1 s", "Run", "Stop", "Crash worker 2")
    notebook.wait_for(f"len(heard) >= {before} + 6")
    assert notebook.kernel("print(gate.is_set())") == "False"
    longest = notebook.kernel("gate.set()\nprint(round(1000 * max(heard), 1), len(heard))").split()
    board.shows(done=1)
    board.tells("worker 2 crashed with job 2 in hand")
    print(f"the longest of {longest[1]} callbacks took {longest[0]} ms")  # noqa: T201 - a record for people
