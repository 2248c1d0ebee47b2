"""A board without a kernel: one HTML page, and what a saved notebook shows."""

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
from playwright.sync_api import Page, expect
from traitlets.config import Config

from browser.looks import audit, unreadable
from browser.pages import Board, Notebook, ask, lab
from qlab.lab import Lab


def played(folder: Path) -> Path:
    """Keep a lab on two drivers, in which job 1 ran twice, as one HTML page."""
    with Lab(["sqlite", "memory"], name="kept") as made:
        made.dispatch("pay", {"amount": 5})
        made.dispatch("broken", delay=300)
        made.reserve(1)
        made.advance(120)
        made.step(2)
        made.complete(1)
        made.step(2)
        return made.export(folder / "kept.html")


def test_the_exported_page_opens_without_a_network(new_page: Callable[..., Page], tmp_path: Path) -> None:
    page = new_page(offline=True, viewport={"width": 1280, "height": 1600})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(played(tmp_path).as_uri())
    root = page.get_by_role("group", name=re.compile("^qlab board"))
    board = Board(root.first)
    board.shows(done=1)
    board.tells("worker 1 came too late to complete it")
    scrubber = board.field("Time travel")
    scrubber.press("Home")
    board.shows(done=0, ready=0, delayed=0)
    scrubber.press("ArrowRight")
    board.shows(ready=1)
    scrubber.press("End")
    board.shows(done=1)
    board.press("Step back")
    assert audit(board.root).violations == []
    assert unreadable(board.root) == []
    page.emulate_media(color_scheme="dark")
    assert unreadable(board.root) == []
    page.set_viewport_size({"width": 400, "height": 900})
    assert ask(page, "() => document.documentElement.scrollWidth") <= 400
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_a_saved_notebook_shows_a_table_without_a_kernel(
    open_notebook: Callable[..., Notebook], new_page: Callable[..., Page], tmp_path: Path
) -> None:
    from nbconvert import HTMLExporter  # noqa: PLC0415 - it takes a second

    notebook = open_notebook(lab("sqlite", more="lab.dispatch('pay', count=3)\nlab.step(1)"))
    notebook.run_all()
    notebook.board().shows(ready=2, done=1)
    notebook.save()
    (output,) = [one for one in nbformat.read(notebook.path, 4).cells[0].outputs if "data" in one]
    assert "<table" in output.data["text/html"]
    assert len(output.data["text/plain"]) < 500
    chosen = Config({"NbConvertBase": {"display_data_priority": ["text/html", "image/png", "text/plain"]}})
    text, _ = HTMLExporter(config=chosen).from_filename(str(notebook.path))
    (tmp_path / "static.html").write_text(text, encoding="utf-8")
    page = new_page(offline=True)
    page.goto((tmp_path / "static.html").as_uri(), wait_until="domcontentloaded")
    expect(page.get_by_role("table").filter(has_text=re.compile(r"done"))).to_be_visible()
