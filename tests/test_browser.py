"""The notebooks in a real JupyterLab in a real browser."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
import pytest

from qlab import handout
from qlab.clock import monotonic, pause

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SOON = 60.0
SLOW = 120.0  # seconds that a whole notebook may take on a busy machine
SHOWN = "01_dispatch_and_step.ipynb"
"""Seconds within which what must happen has happened: a deadline, not a measurement."""
SETTINGS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
)
READY = """
() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.context?.isReady && panel.sessionContext.isReady
        && panel.sessionContext.session?.kernel?.connectionStatus === 'connected';
}
"""
CONTRAST = """
element => {
    const parts = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => parts(colour).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    let behind = element;
    while (parts(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const [text, ground] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
    return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
}
"""
"""The contrast of an element's text to what is behind it (WCAG 2: 4.5 and more can be read)."""

Open = Callable[[str], Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra
    except ImportError:
        missing("playwright is not installed: pip install -e '.[browser]'")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing(f"none of {', '.join(BROWSERS)} is on PATH")
    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=quiet)
        yield started
        started.close()


def missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copies = tmp_path_factory.mktemp("notebooks")
    handout.copy_notebooks(copies)
    return copies


@pytest.fixture(scope="module")
def address(browser: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where JupyterLab answers, and its token."""
    home = tmp_path_factory.mktemp("home")
    elsewhere = {name: str(home / name) for name in SETTINGS} | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [*handout.jupyterlab(folder, browser=False), "--LabApp.expose_app_in_browser=True"]
    with subprocess.Popen(
        command,
        env=handout.settings(os.environ) | elsewhere,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        deadline = threading.Timer(SOON, process.kill)
        deadline.start()
        told = (re.search(r"(http://127\S+)/lab/tree/\S+\?token=(\w+)", line) for line in process.stdout)
        found = next(filter(None, told))
        deadline.cancel()
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        yield found[1], found[2]
        process.terminate()
        process.wait(SOON)
        reader.join()


@pytest.fixture
def opened(browser: Any, address: tuple[str, str]) -> Iterator[Open]:
    """Opens a notebook, and waits until its kernel listens."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})

    def open_one(name: str) -> Any:
        server, token = address
        wait_for(f"{server}/lab?token={token}")
        page = context.new_page()
        page.set_default_timeout(SOON * 1000)
        page.goto(f"{server}/lab/workspaces/{Path(name).stem}/tree/{name}?token={token}")
        page.wait_for_function(READY)
        return page

    yield open_one
    context.close()


def wait_for(url: str) -> None:
    """Wait until somebody answers; JupyterLab tells its address a moment before it listens there."""
    deadline = monotonic() + SOON
    while True:
        try:
            urlopen(url, timeout=SOON).close()
        except URLError:
            assert monotonic() < deadline, "nobody answers"
            pause(0.005)
        else:
            return


def execute(page: Any, command: str, arguments: str = "{}") -> None:
    """Run a command of JupyterLab, and wait until it is done; evaluating its promise would wait for ever."""
    running = f"jupyterapp.commands.execute('{command}', {arguments})"
    page.evaluate(f"() => {{ window.done = false; {running}.then(() => {{ window.done = true; }}); }}")
    page.wait_for_function("() => window.done")


@pytest.mark.parametrize("name", [path.name for path in handout.notebooks()])
def test_a_learner_runs_all_cells_and_can_read_them_in_both_themes(
    name: str, opened: Open, folder: Path, deep: bool
) -> None:
    if name != SHOWN and not deep:
        pytest.skip("one notebook in a browser stands for all, which run without one: pytest --deep")
    page = opened(name)
    page.set_default_timeout(SLOW * 1000)
    execute(page, "notebook:run-all-cells")
    execute(page, "docmanager:save")
    outputs = [
        output
        for cell in nbformat.read(folder / name, as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)

    assert page.get_by_text("official Jupyter news").count() == 0
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        execute(page, "apputils:change-theme", f"{{theme: '{theme}'}}")
        page.wait_for_function(f"() => document.body.dataset.jpThemeName === '{theme}'")
        cells = page.locator(".jp-OutputArea td, .jp-OutputArea th")
        page.evaluate("() => jupyterapp.shell.currentWidget.content.scrollToItem(10)")
        cells.first.wait_for()
        assert min(cell.evaluate(CONTRAST) for cell in cells.all()) >= 4.5
