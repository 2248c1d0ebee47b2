"""A board in other places than JupyterLab."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from browser.conftest import Server, serving
from browser.pages import LIMIT, Board, Notebook, lab, write_notebook

MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo
    from qlab.lab import Lab

    lab = Lab("sqlite")
    marimo.ui.anywidget(lab.board())
    return
"""


def test_works_in_notebook_7(open_notebook: Callable[..., Notebook]) -> None:
    notebook = open_notebook(lab("sqlite"), app="notebook")
    notebook.run_all()
    steps_five_times(notebook.board())


def test_works_in_voila(server: Server, new_page: Callable[..., Page]) -> None:
    write_notebook(server.folder / "voila.ipynb", [lab("sqlite")])
    page = new_page()
    page.goto(f"{server.url}voila/render/voila.ipynb", timeout=LIMIT * 1000)
    steps_five_times(only_board(page))


def test_works_in_marimo(new_page: Callable[..., Page], tmp_path: Path) -> None:
    pytest.importorskip("marimo", reason="marimo is large, and not in the extra `browser`: pip install marimo")
    file = tmp_path / "board.py"
    file.write_text(MARIMO)
    with serving("marimo", file, tmp_path / "log") as url:
        page = new_page()
        page.goto(url, timeout=LIMIT * 1000)
        steps_five_times(only_board(page))


def only_board(page: Page) -> Board:
    return Board(page.get_by_role("group", name=re.compile("^qlab board")))


def steps_five_times(board: Board) -> None:
    board.dispatch(count=5)
    for steps in range(1, 6):
        board.press("Step worker 1")
        board.shows(ready=5 - steps, done=steps)
