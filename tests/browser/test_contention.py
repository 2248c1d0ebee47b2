"""The contention panel in a browser: pick stores, measure, see the pictures; stop; both themes; a narrow column."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.looks import audit, unreadable
from browser.pages import LIMIT, Board, Notebook, ask, settle
from browser.test_board_looks import FOCUSABLE, WIDER

Open = Callable[..., Notebook]

CELL = "from qlab.lab import Lab\nlab = Lab('memory')\nlab.contention()"


def opened(open_notebook: Open, **options: object) -> tuple[Notebook, Board]:
    notebook = open_notebook(CELL, **options)
    notebook.run_all()
    return notebook, notebook.board(kind="contention")


def fill(panel: Board, **values: str) -> None:
    for name, value in values.items():
        panel.field(name.replace("_", " ")).fill(value)


def test_measures_with_the_keyboard_alone_and_draws_what_was_found(open_notebook: Open) -> None:
    notebook, panel = opened(open_notebook)
    panel.tells("Tick stores that survive the same")
    box = panel.root.get_by_label("redis_zset everysec")
    box.focus()
    notebook.page.keyboard.press(" ")
    expect(box).not_to_be_checked()
    fill(panel, Workers="1, 2", Jobs="50")
    panel.field("Jobs").press("Enter")
    panel.tells(re.compile("measuring"))
    images = panel.root.get_by_role("img")
    expect(images.first).to_be_visible(timeout=LIMIT * 2_000)
    assert images.count() >= 4
    assert all(image.get_attribute("alt") for image in images.all())
    panel.toggle("Figures")
    expect(panel.root.get_by_role("cell", name="sqlite NORMAL").first).to_be_visible()
    panel.toggle("How")
    code = panel.root.get_by_text(re.compile(r"^contention\(")).inner_text()
    told = notebook.kernel(f"from qlab import contention\nfound = {code}\nprint(len(found.runs))")
    assert told.strip().endswith("2")


def test_says_what_it_cannot_do_and_stops(open_notebook: Open, subtests: pytest.Subtests) -> None:
    _, panel = opened(open_notebook)
    panel.root.get_by_label("redis_zset everysec").uncheck()
    with subtests.test("nothing is ticked"):
        panel.root.get_by_label("sqlite NORMAL").uncheck()
        panel.tells("Tick at least one store.")
        expect(panel.button("Measure")).to_have_attribute("aria-disabled", "true")
        panel.root.get_by_label("sqlite NORMAL").check()
    with subtests.test("no number of workers"):
        fill(panel, Workers="1, none")
        panel.tells(re.compile("Workers: write numbers from 1 to 64"))
        fill(panel, Workers="1")
    with subtests.test("a measurement that is stopped"):
        fill(panel, Jobs="1000000")
        panel.press("Measure")
        panel.tells(re.compile("measuring"))
        panel.press("Stop")
        panel.tells("it was stopped before anything was measured")
        expect(panel.button("Measure")).not_to_have_attribute("aria-disabled", "true")


def test_can_be_read_in_each_theme_and_in_a_narrow_column(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook, panel = opened(open_notebook)
    panel.root.get_by_label("redis_zset everysec").uncheck()
    fill(panel, Workers="1, 2", Jobs="50")
    panel.press("Measure")
    expect(panel.root.get_by_role("img").first).to_be_visible(timeout=LIMIT * 2_000)
    panel.toggle("Figures")
    panel.press("Key help")
    for theme in ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        with subtests.test("contrast", theme=theme):
            assert unreadable(panel.root) == []
        with subtests.test("axe", theme=theme):
            found = audit(panel.root)
            assert found.violations == []
            assert len(found.passes) > 10
    ask(notebook.page, "() => window.jupyterapp.shell.collapseLeft()")
    with subtests.test("the table of figures is seen whole"):
        notebook.page.set_viewport_size({"width": 1150, "height": 1000})
        settle(notebook.page)
        figures = panel.root.get_by_role("region", name="figures")
        assert ask(figures, "(table) => table.scrollWidth <= table.clientWidth")
    with subtests.test("narrow"):
        notebook.page.set_viewport_size({"width": 400, "height": 900})
        settle(notebook.page)
        assert ask(notebook.board(kind="contention").root, WIDER) == []


def test_keys_stay_in_the_panel(open_notebook: Open) -> None:
    notebook = open_notebook(CELL, "'the cell below'")
    notebook.run_all()
    panel = notebook.board(kind="contention")
    cells = notebook.cells
    for control in panel.root.locator(FOCUSABLE).all():
        if control.is_visible() and control.is_enabled():
            control.focus()
            for key in ("a", "x", "d", "d"):
                notebook.page.keyboard.press(key)
            assert notebook.cells == cells, ask(control, "(element) => element.outerHTML")
