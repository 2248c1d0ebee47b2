"""How a board looks, and who can use it: themes, contrast, axe's rules, the keyboard, narrow screens, less motion."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.looks import audit, unreadable
from browser.pages import LIMIT, Board, Notebook, ask, lab, settle

Open = Callable[..., Notebook]

FOLDS = ("Policy", "Scenario", "Statements", "Ledger", "Plots", "Jobs", "Files")

FOCUSABLE = "button, input, select, textarea, a[href], summary, [tabindex]:not([tabindex='-1'])"


WIDER = """(root) => {
  const area = root.closest(".jp-OutputArea-output") || root.parentElement;
  const right = area.getBoundingClientRect().right + 1, wider = [];
  const scrolls = (element) => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(element).overflowX);
  for (const element of [root, ...root.querySelectorAll("*")]) {
    if (!element.checkVisibility() || element.getBoundingClientRect().right <= right) continue;
    let parent = element.parentElement;
    while (parent !== area && !scrolls(parent)) parent = parent.parentElement;
    if (parent === area) wider.push(element.outerHTML.slice(0, 120));
  }
  if (area.scrollWidth > area.clientWidth + 1) wider.push(`${area.scrollWidth} px in ${area.clientWidth} px`);
  return wider;
}"""

CUT_OFF = """(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const cut = [], board = element.closest("[role=group][aria-label^='qlab board']");
  for (let parent = element; parent !== board; parent = parent.parentElement) {
    const frame = parent.getBoundingClientRect();
    const out = [...range.getClientRects()].filter((box) => box.height && box.bottom > frame.bottom + 4);
    if (out.length && getComputedStyle(parent).overflow !== "visible") cut.push(parent.outerHTML);
  }
  return cut;
}"""

ROWS = "(group) => new Set([...group.children].map((one) => one.getBoundingClientRect().top)).size"

MOVING = """async (root) => {
  let most = 0;
  for (let i = 0; i < 30; i++) {
    await new Promise((drawn) => requestAnimationFrame(drawn));
    most = Math.max(most, document.getAnimations().filter((one) => root.contains(one.effect.target)).length);
  }
  return most;
}"""


def busy(notebook: Notebook) -> Board:
    """Bring a board into a state with a job in every lane, and open all that it can show."""
    board = notebook.board()
    board.dispatch("broken")
    board.press("Step worker 1", "Jump to next event", "Step worker 1", "Jump to next event", "Step worker 1")
    board.shows(failed=1)
    board.dispatch(count=3)
    board.press("Step worker 1", "Reserve worker 1")
    board.dispatch("slow", delay="20")
    board.shows(delayed=1, ready=1, done=1, failed=1)
    for fold in FOLDS:
        board.toggle(fold)
    expect(board.root.get_by_role("img").first).to_be_visible(timeout=LIMIT * 1000)
    return board


def test_is_readable_in_both_themes_and_on_a_narrow_screen(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook = open_notebook(lab("sqlite"), viewport={"width": 1280, "height": 2600}, device_scale_factor=2)
    notebook.run_all()
    board = busy(notebook)
    for theme in ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        with subtests.test("contrast", theme=theme):
            assert unreadable(board.root) == []
        with subtests.test("axe", theme=theme):
            found = audit(board.root)
            assert found.violations == []
            assert len(found.passes) > 10
    with subtests.test("a worker's buttons stand in one row, whatever the last one says"):
        for press in ("Pause worker 1", "Resume worker 1", "Crash worker 1", "Restart worker 1"):
            assert ask(board.button("Step worker 1").locator(".."), ROWS) == 1, press
            board.press(press)
    with subtests.test("narrow"):
        # Beside the file browser there is no room: a person on a small screen closes it.
        ask(notebook.page, "() => window.jupyterapp.shell.collapseLeft()")
        notebook.page.set_viewport_size({"width": 400, "height": 900})
        settle(notebook.page)
        assert ask(notebook.board().root, WIDER) == []
    with subtests.test("the latest event is told whole"):
        latest = notebook.board().root.get_by_role("list", name="what happened").get_by_role("listitem").first
        expect(latest).to_contain_text("worker 1 was restarted")
        assert ask(latest, CUT_OFF) == []


SIZES = """(root) => {
  const small = [];
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, box = element.getBoundingClientRect();
    if (!walk.currentNode.data.trim() || !element.checkVisibility() || box.width < 2) continue;
    const size = parseFloat(getComputedStyle(element).fontSize) * (element.currentCSSZoom ?? 1);
    if (size < 12) small.push(`${walk.currentNode.data.trim()}: ${size} px`);
  }
  return small;
}"""

SEEN_AT_ONCE = "(root) => [...root.querySelectorAll('.lanes, .log')].map((one) => one.getBoundingClientRect().height)"

LARGE = "(one) => parseFloat(getComputedStyle(one).fontSize) * (one.currentCSSZoom ?? 1)"


@pytest.mark.parametrize(
    ("width", "height", "scale"), [(1280, 720, 1.5), (1024, 768, 1), (1920, 1080, 1)], ids=["150 %", "1024", "1920"]
)
def test_is_read_from_a_projector(open_notebook: Open, width: int, height: int, scale: float) -> None:
    """A screen of 1920 points at 150 % has room for 1280."""
    notebook = open_notebook(lab("sqlite"), viewport={"width": width, "height": height}, device_scale_factor=scale)
    notebook.run_all()
    ask(notebook.page, "() => window.jupyterapp.shell.collapseLeft()")
    board = busy(notebook)
    settle(notebook.page)
    assert ask(board.root, WIDER) == []
    assert ask(board.root, SIZES) == []
    for one, least in ((board.root.get_by_role("timer"), 27), (board.root.locator(".lines li").first, 14)):
        assert ask(one, LARGE) >= least
    # What a class looks at, the lanes and what has just happened, fits the screen below JupyterLab's own bars.
    assert sum(ask(board.root, SEEN_AT_ONCE)) < height - 150
    rows = board.root.get_by_role("group", name="worker 1", exact=True).get_by_role("button").all()
    assert len({round((row.bounding_box() or {"y": 0.0})["y"]) for row in rows}) == 1


def test_lanes_stay_as_they_are_however_many_jobs_there_are(open_notebook: Open) -> None:
    notebook = open_notebook(lab("memory"))
    notebook.run_all()
    board = notebook.board()
    board.shows(ready=0)
    heights = [ask(board.root, SEEN_AT_ONCE)]
    there = 0
    for jobs, told in (
        (10, "and 5 more"),
        (329, "and 324 more"),
        (330, "325 more, 2 a dot"),
        (5_000, "4,995 more, 20 a dot"),
    ):
        board.dispatch(count=jobs - there)
        there = jobs
        board.tells(told)
        settle(notebook.page)
        heights.append(ask(board.root, SEEN_AT_ONCE))
    assert [one for one in heights if one != heights[0]] == []
    assert ask(board.root, WIDER) == []
    assert unreadable(board.root) == []


PLACE = "(one) => Object.values(one.getBoundingClientRect().toJSON())"


def test_nothing_moves_under_the_hand(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()
    fixed = [
        board.root,
        *(board.button(name) for name in ("Reset", "Run", "Step back")),
        board.root.get_by_text("Files"),
    ]

    def places() -> list[list[float]]:
        settle(notebook.page)
        return [ask(one, PLACE) for one in fixed]

    def look(name: str) -> str:
        settle(notebook.page)
        return ask(board.button(name), "(one) => getComputedStyle(one).backgroundColor")

    board.dispatch(payload='{"amount": 10}')
    board.press("Reserve worker 1", "+60 s", "+60 s", "Step worker 2")
    board.shows(done=1)
    first = places()
    with subtests.test("a job ran twice"):
        board.press("Complete worker 1")
        board.tells(re.compile(r"job 1 ran twice.* the balance is 20, expected 10"))
        assert places() == first
    with subtests.test("the past"):
        board.press("Step back")
        board.tells("the past")
        assert places() == first
        board.press("Now")
    with subtests.test("it runs"):
        board.press("Run")
        board.tells("running")
        hovered = look("Run")
        assert places() == first
        notebook.page.mouse.move(0, 0)
        assert look("Run") == hovered, "a button that cannot be used looks as if it could, under the mouse"
        board.press("Stop")
    with subtests.test("the keys of the help are whole"):
        board.press("Key help")
        lines = [ask(key, "(one) => one.getClientRects().length") for key in board.root.locator("kbd").all()]
        assert set(lines) == {1}


def test_keys_stay_in_the_board(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite"), "'the cell below'", "'the last cell'")
    notebook.run_all()
    board = busy(notebook)
    cells = notebook.cells
    for control in board.root.locator(FOCUSABLE).all():
        if control.is_visible() and control.is_enabled():
            name = ask(control, "(element) => element.outerHTML")
            control.focus()
            for key in ("a", "x", "d", "d"):
                notebook.page.keyboard.press(key)
            assert notebook.cells == cells, name
    # What is meant for JupyterLab still reaches it: otherwise the browser would offer to save its page.
    board.button("+1 s").focus()
    notebook.page.keyboard.press("Control+s")
    notebook.page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=LIMIT * 1000
    )


def test_is_for_everyone(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()

    with subtests.test("the keyboard alone"):
        focused = "(root) => root.contains(document.activeElement) ? document.activeElement.textContent.trim() : null"
        board.root.locator(FOCUSABLE).first.focus()
        reached = []
        while (name := ask(board.root, focused)) is not None and len(reached) < 80:
            reached.append(name)
            notebook.page.keyboard.press("Tab")
        buttons = """(root) => [...root.querySelectorAll("button:enabled, summary")]
          .filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())"""
        assert set(ask(board.root, buttons)) <= set(reached)
        board.button("Dispatch").press("Enter")
        board.shows(ready=1)
        board.button("Step worker 1").press(" ")
        board.shows(done=1)
        expect(board.button("Step worker 1")).to_be_focused()

    with subtests.test("less motion"):
        settle(notebook.page)
        notebook.page.emulate_media(reduced_motion="reduce")
        board.dispatch(count=5)
        board.press("Step worker 1")
        assert ask(board.root, MOVING) == 0
        board.shows(done=2)

    with subtests.test("one voice, and not at every change"):
        spoken = board.root.locator("[aria-live='polite'], [role='status']")
        expect(spoken).to_have_count(1)
        ask(
            spoken,
            """(region) => {
              window.qlabSpoken = [];
              new MutationObserver(() => window.qlabSpoken.push(region.textContent))
                .observe(region, { subtree: true, childList: true, characterData: true });
            }""",
        )
        notebook.kernel("lab.dispatch('pay', count=20)\nfor _ in range(20):\n    lab.step(1)")
        board.shows(done=22)
        notebook.page.wait_for_function("() => window.qlabSpoken.length > 0", timeout=LIMIT * 1000)
        assert ask(notebook.page, "() => window.qlabSpoken.length") <= 4
