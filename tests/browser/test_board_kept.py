"""A board without a kernel: one HTML page, and what a saved notebook shows."""

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Server
from browser.looks import audit, unreadable
from browser.pages import LIMIT, Board, Notebook, ask, lab
from qlab.lab import Lab

PLAYED = lab("sqlite", more="lab.dispatch('pay', count=3)\nlab.step(1)")

OPEN = """async ([path, kernel]) => {
  await window.jupyterapp.restored;
  const kernelPreference = { autoStartDefault: kernel, shouldStart: kernel, canStart: true };
  const panel = await window.jupyterapp.commands.execute("docmanager:open", { path, kernelPreference });
  await panel.context.ready;
  await panel.sessionContext.ready;
}"""


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


def test_a_saved_notebook_shows_a_table_as_a_web_page(
    open_notebook: Callable[..., Notebook], new_page: Callable[..., Page], tmp_path: Path
) -> None:
    from nbconvert import HTMLExporter  # noqa: PLC0415 - it takes a second

    notebook = open_notebook(PLAYED)
    notebook.run_all()
    notebook.board().shows(ready=2, done=1)
    notebook.save()
    board, still = nbformat.read(notebook.path, 4).cells[0].outputs
    assert len(board.data["text/plain"]) < 500
    assert "<table" in still.data["text/html"]
    text, _ = HTMLExporter().from_filename(str(notebook.path))
    (tmp_path / "static.html").write_text(text, encoding="utf-8")
    page = new_page(offline=True)
    page.goto((tmp_path / "static.html").as_uri(), wait_until="domcontentloaded")
    shows_what_stood_there(page)


def test_a_notebook_that_is_opened_again_shows_what_stood_in_it(
    open_notebook: Callable[..., Notebook],
    new_page: Callable[..., Page],
    server: Server,
    subtests: pytest.Subtests,
) -> None:
    notebook = open_notebook(PLAYED)
    notebook.run_all()
    notebook.board().shows(ready=2, done=1)
    expect(notebook.page.get_by_role("table").filter(visible=True)).to_have_count(0)  # beside a board that lives
    notebook.save()
    notebook.page.close()
    elsewhere = server.folder / "elsewhere.ipynb"  # nobody on this server has run it, so it is not trusted
    elsewhere.write_text(notebook.path.read_text(encoding="utf-8").replace("13", "14"), encoding="utf-8")
    for file, kernel in ((notebook.path, True), (notebook.path, False), (elsewhere, True), (elsewhere, False)):
        with subtests.test(file=file.name, kernel=kernel):
            server.delete_kernels()
            page = new_page()
            page.goto(f"{server.url}lab/workspaces/again-{file.stem}-{kernel}")
            page.wait_for_function("() => window.jupyterapp", timeout=LIMIT * 1000)
            ask(page, OPEN, [file.name, kernel])
            shows_what_stood_there(page)
            has = "() => Boolean(window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel)"
            assert ask(page, has) is kernel


def shows_what_stood_there(page: Page) -> None:
    expect(page.get_by_role("table").filter(has_text="done")).to_be_visible(timeout=LIMIT * 1000)
    picture = page.get_by_role("img", name="sqlite: 0 delayed, 2 ready, 0 reserved, 1 done, 0 failed")
    expect(picture).to_be_visible(timeout=LIMIT * 1000)
    assert ask(picture, "(image) => image.decode().then(() => image.naturalWidth)") > 500
