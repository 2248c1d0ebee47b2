"""The explorer in a browser: pick a flaw, browse the orders, replay the one that breaks a promise."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.looks import audit, unreadable
from browser.pages import LIMIT, Board, Notebook, ask, settle
from browser.test_board_looks import FOCUSABLE, WIDER

Open = Callable[..., Notebook]

CELL = "from qlab.lab import Lab\nlab = Lab('memory')\nlab.explorer()"
BESIDE = "beside the memory driver, which keeps every promise"


def opened(open_notebook: Open, **options: object) -> tuple[Notebook, Board]:
    notebook = open_notebook(CELL, **options)
    notebook.run_all()
    return notebook, notebook.board(kind="explorer")


def steps(explorer: Board) -> list[str]:
    return explorer.root.get_by_role("list", name="the steps of this order").get_by_role("listitem").all_inner_texts()


def test_finds_with_the_keyboard_alone_what_a_flaw_breaks_and_replays_it(open_notebook: Open) -> None:
    notebook, explorer = opened(open_notebook)
    explorer.tells("Pick a queue and a scenario")
    keys = notebook.page.keyboard
    explorer.field("Queue").focus()
    keys.type("superseded rel")
    for name in ("Scenario", "Orders", "Explore", "Find what breaks"):
        keys.press("Tab")
        expect(explorer.field(name) if name in ("Scenario", "Orders") else explorer.button(name)).to_be_focused()
    keys.press("Enter")
    explorer.tells(re.compile("A promise is broken: “superseded workers change nothing”"))
    expect(explorer.field("Scenario")).to_have_value("takes_two")
    assert any("That breaks a promise, superseded workers change nothing" in line for line in steps(explorer))
    explorer.button("Replay on a board").press("Enter")
    explorer.tells("step 0 of 5")
    explorer.button("Next step").press("Enter")
    explorer.tells("step 1 of 5")
    expect(explorer.button("Next step")).to_be_focused()
    expect(explorer.root.locator("[aria-current=step]")).to_contain_text("Worker 1 reserves job 1")
    explorer.button("All steps").press(" ")
    explorer.tells("step 5 of 5")
    board = notebook.board()
    board.tells(re.compile("job 1: attempt 1 failed"))
    assert notebook.kernel("print([str(e.kind) for e in lab.explorer().replay.lab.trace][-1])") == "released"
    explorer.button("Close replay").press("Enter")
    expect(explorer.root.get_by_role("group", name=re.compile("^qlab board"))).to_have_count(0)


def test_every_order_of_an_outcome_can_be_browsed(open_notebook: Open) -> None:
    notebook, explorer = opened(open_notebook)
    explorer.field("Queue").select_option("token revoked by running out")
    explorer.field("Run-outs").press("Enter")
    explorer.tells(re.compile("34 orders of 2 workers, 1 job, with 1 run-out: 28 states, on memory with a flaw"))
    explorer.press("done, run 2x")
    explorer.tells("Order 1 of 32: done, run 2x")
    seen = {tuple(steps(explorer))}
    for number in range(2, 33):
        explorer.press("Next order")
        explorer.tells(f"Order {number} of 32: done, run 2x")
        seen.add(tuple(steps(explorer)))
    assert len(seen) == 32
    expect(explorer.button("Next order")).to_have_attribute("aria-disabled", "true")
    slider = explorer.field("Order")
    slider.press("Home")
    explorer.tells("Order 1 of 32: done, run 2x")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    explorer.tells("Order 3 of 32: done, run 2x")
    explorer.press("all orders")
    explorer.tells("Order 1 of 34")
    code = explorer.root.get_by_text(re.compile(r"^lab\.explore\(")).inner_text()
    told = notebook.kernel(f"found = {code}\nprint(found.paths, found.outcomes['done, run 2x'])")
    assert told == "34 32"


def test_a_replay_beside_a_sound_queue_shows_where_they_part_and_goes_on_by_hand(open_notebook: Open) -> None:
    notebook, explorer = opened(open_notebook)
    explorer.field("Queue").select_option("completion by id")
    explorer.press("Explore")
    explorer.root.get_by_label(BESIDE).check()
    explorer.press("Replay on a board")
    explorer.tells("step 0 of 5")
    for step in range(1, 5):
        explorer.press("Next step")
        explorer.tells(f"step {step} of 5")
    board = notebook.board()
    board.tells("Same as completion by id up to here: every event.")
    board.press("Complete worker 1")
    board.tells(re.compile("First difference, at event 5: on completion by id job 1 was completed by worker 1"))
    board.press("Step back")
    board.tells("the past")
    board.press("Now")
    board.toggle("Plots")
    timeline = board.root.get_by_role("img", name="what each job was in over time, on completion by id")
    expect(timeline).to_be_visible(timeout=LIMIT * 1000)
    explorer.press("done once")
    expect(explorer.root.get_by_role("group", name=re.compile("^qlab board"))).to_have_count(0)


def test_says_what_it_cannot_do_and_goes_on(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook, explorer = opened(open_notebook)
    with subtests.test("a number that is none"):
        explorer.field("Workers").fill("0")
        explorer.tells("Workers: use a whole number from 1 to 8.")
        expect(explorer.button("Explore")).to_have_attribute("aria-disabled", "true")
        explorer.field("Workers").fill("3")
        explorer.tells(re.compile("The scenario: Two workers and one job.* Its numbers are changed below."))
        explorer.field("Workers").fill("2")
        expect(explorer.button("Explore")).not_to_have_attribute("aria-disabled", "true")
    with subtests.test("a scenario that the kernel refuses"):
        explorer.root.get_by_label("reservations run out at all").uncheck()
        explorer.press("Explore")
        explorer.tells(re.compile("reservations that never run out"))
        explorer.root.get_by_label("reservations run out at all").check()
        explorer.press("Explore")
        explorer.tells(re.compile("No order breaks a promise"))
    with subtests.test("an exploration that is stopped"):
        for name, value in (("Workers", "4"), ("Jobs", "3"), ("Run-outs", "2")):
            explorer.field(name).fill(value)
        explorer.press("Explore")
        explorer.tells(re.compile(r"exploring: [1-9]"))
        explorer.press("Stop")
        explorer.tells("The exploration was stopped: there is nothing to browse.")
    with subtests.test("a flaw that another scenario shows"):
        explorer.field("Scenario").select_option("one_job")
        explorer.field("Queue").select_option("release in place")
        explorer.press("Explore")
        explorer.tells(re.compile("This flaw shows in another scenario: press Find what breaks"))
        explorer.press("Find what breaks")
        explorer.tells(re.compile("A promise is broken: “nobody starves”"))
    with subtests.test("a driver that keeps every promise"):
        explorer.field("Queue").select_option("sqlite")
        explorer.press("Find what breaks")
        explorer.tells(re.compile(r"No order of any scenario breaks a promise: [\d,]+ orders of \d+ scenarios"))
    with subtests.test("a lab that is closed"):
        notebook.kernel("lab.close()")
        explorer.tells("closed")
        explorer.button("Explore").press("Enter")
        explorer.tells("this lab is closed: run the cell that makes it again")


def test_shows_what_it_showed_when_the_page_is_loaded_again(open_notebook: Open) -> None:
    notebook, explorer = opened(open_notebook)
    stands_for_it = notebook.page.get_by_text("Nothing was explored in lab yet.")
    expect(stands_for_it).to_be_hidden()
    explorer.field("Queue").select_option("deleted at reserve")
    explorer.press("Find what breaks")
    explorer.tells(re.compile("nothing lost"))
    explorer.press("Replay on a board")
    explorer.tells(re.compile(r"step 0 of \d"))
    before = steps(explorer)
    notebook.reload()
    explorer = notebook.board(kind="explorer")
    explorer.tells(re.compile(r"step 0 of \d"))
    assert steps(explorer) == before
    expect(notebook.board().root).to_be_visible()


def test_is_readable_in_both_themes_and_on_a_narrow_screen(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook, explorer = opened(open_notebook, viewport={"width": 1280, "height": 2600}, device_scale_factor=2)
    with subtests.test("nothing is explored yet"):
        assert audit(explorer.root).violations == []
        assert unreadable(explorer.root) == []
    explorer.field("Queue").select_option("completion by id")
    explorer.press("Explore")
    explorer.press("Replay on a board", "Next step", "Next step", "Next step")
    explorer.tells("step 3 of 5")
    explorer.press("Key help")
    for theme in ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        with subtests.test("contrast", theme=theme):
            assert unreadable(explorer.root) == []
        with subtests.test("axe", theme=theme):
            found = audit(explorer.root)
            assert found.violations == []
            assert len(found.passes) > 10
    with subtests.test("narrow"):
        ask(notebook.page, "() => window.jupyterapp.shell.collapseLeft()")
        notebook.page.set_viewport_size({"width": 400, "height": 900})
        settle(notebook.page)
        assert ask(notebook.board(kind="explorer").root, WIDER) == []


def test_keys_stay_in_the_explorer(open_notebook: Open) -> None:
    notebook = open_notebook(CELL, "'the cell below'")
    notebook.run_all()
    explorer = notebook.board(kind="explorer")
    explorer.press("Explore")
    explorer.tells(re.compile("No order breaks a promise"))
    cells = notebook.cells
    for control in explorer.root.locator(FOCUSABLE).all():
        if control.is_visible() and control.is_enabled():
            control.focus()
            for key in ("a", "x", "d", "d"):
                notebook.page.keyboard.press(key)
            assert notebook.cells == cells, ask(control, "(element) => element.outerHTML")
