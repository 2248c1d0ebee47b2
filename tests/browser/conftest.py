"""One JupyterLab and one Chromium for all tests of this folder; for each test a page, a workspace and a kernel."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import Request, urlopen

import pytest

from browser.needs import chromium, refuse_without

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from browser.pages import Notebook

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent

_PRIVATE = (
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
)
_SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_START_DEADLINE = 90.0  # seconds
_END_DEADLINE = 20.0  # seconds

_numbers = itertools.count(1)


class Tab(NamedTuple):
    """What a failed test shows of a page.

    Attributes:
        page: The page.
        errors: What it threw, and what it wrote to its console as an error.
    """

    page: "Page"
    errors: list[str]


_TABS = pytest.StashKey[list[Tab]]()
_PICTURES = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: every test of tests/browser; needs the extra `browser` and Chromium")


def pytest_collect_file() -> None:
    """Refuse the whole folder where something is missing, before a module of it imports that."""
    refuse_without()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> "Iterator[None]":
    report = yield
    if call.when == "call" and report.failed:
        for number, tab in enumerate(item.stash.get(_TABS, [])):
            picture = item.stash[_PICTURES] / f"{item.name}-{number}.png"
            report.sections.append((f"page {number}", "\n".join([_photograph(tab.page, picture), *tab.errors])))
    return report


def _photograph(page: "Page", picture: Path) -> str:
    from playwright.sync_api import Error  # noqa: PLC0415 - it is not everywhere

    try:
        page.screenshot(path=picture, timeout=10_000)
    except Error as error:
        return f"no picture: {error}"
    return f"picture: {picture}"


class Server(NamedTuple):
    """A JupyterLab that runs.

    Attributes:
        url: Its address, with a slash at the end.
        folder: Where its notebooks are.
        settings: Where its user's settings are.
    """

    url: str
    folder: Path
    settings: Path

    def delete_kernels(self) -> None:
        """End every kernel, and with it its session."""
        for kernel in self._call("GET", "api/kernels"):
            self._call("DELETE", f"api/kernels/{kernel['id']}")

    def forget_settings(self) -> None:
        """Go back to the settings of a new user."""
        shutil.rmtree(self.settings, ignore_errors=True)

    def _call(self, method: str, path: str) -> Any:
        with urlopen(Request(self.url + path, method=method), timeout=_END_DEADLINE) as answer:
            return json.loads(answer.read() or "null")


@pytest.fixture(scope="package")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab in a folder of its own, with this Python's kernel and this checkout's qlab."""
    folder = tmp_path_factory.mktemp("jupyter")
    private = {name: str(folder / name.lower()) for name in _PRIVATE}
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    page_config = Path(private["JUPYTER_CONFIG_DIR"], "labconfig", "page_config.json")
    page_config.parent.mkdir(parents=True)
    page_config.write_text('{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}')
    with serving("jupyter", notebooks, folder / "log", **private, JUPYTER_PREFER_ENV_PATH="1") as url:
        yield Server(url, notebooks, Path(private["JUPYTERLAB_SETTINGS_DIR"]))


@contextmanager
def serving(what: str, path: Path, log: Path, **environment: str) -> Iterator[str]:
    """Run a server on a path, and give its address once it can be asked."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(FOLDER / "serve.py"), what, str(path)],
            env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        try:
            yield _first_line(process, log)
        finally:
            process.stdin.close()  # it ends with its input, so also where these tests are killed
            try:
                process.wait(_END_DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()


def _first_line(process: "subprocess.Popen[str]", log: Path) -> str:
    """Wait for the address that a server writes."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put("")

    Thread(target=read, daemon=True).start()
    try:
        line = lines.get(timeout=_START_DEADLINE).strip()
    except Empty:
        line = ""
    if not line:
        pytest.fail(f"the server did not start within {_START_DEADLINE:g} s:\n{log.read_text()}")
    return line


@pytest.fixture
def server(running_server: Server) -> Iterator[Server]:
    """JupyterLab without kernels, and with a new user's settings."""
    yield running_server
    running_server.delete_kernels()
    running_server.forget_settings()


@pytest.fixture(scope="package")
def browser() -> "Iterator[Browser]":
    # Not for the whole session: while it is open this thread has an event loop, and other tests could start none.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it is not everywhere

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=_SWITCHES)
        yield opened
        opened.close()


@pytest.fixture
def new_page(
    browser: "Browser", request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Callable[..., Page]]":
    """Opens a page of its own, with the options of a browser context."""
    request.node.stash[_PICTURES] = tmp_path_factory.getbasetemp()
    request.node.stash[_TABS] = tabs = []
    contexts: list[BrowserContext] = []

    def open_one(**options: Any) -> "Page":
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 1000}} | options)
        contexts.append(context)
        tab = Tab(context.new_page(), [])
        tabs.append(tab)
        tab.page.on("pageerror", lambda error: tab.errors.append(f"thrown: {error}"))
        tab.page.on("console", lambda said: tab.errors.append(said.text) if said.type == "error" else None)
        tab.page.on("dialog", lambda dialog: dialog.accept())
        return tab.page

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture
def open_notebook(
    server: Server, new_page: "Callable[..., Page]", request: pytest.FixtureRequest
) -> "Iterator[Callable[..., Notebook]]":
    """Writes a notebook of these cells, opens it in a workspace of its own, and waits until it can be run.

    At the end, a page of JupyterLab must not have thrown anything, nor complained in its console.
    """
    from browser.pages import Notebook, write_notebook  # noqa: PLC0415 - Playwright is not everywhere

    quiet: list[Page] = []

    def open_one(*cells: str, app: str = "lab", **options: Any) -> "Notebook":
        number = next(_numbers)
        path = server.folder / f"board-{number}.ipynb"
        write_notebook(path, cells)
        places = {"lab": f"lab/workspaces/w{number}/tree/{path.name}", "notebook": f"notebooks/{path.name}"}
        notebook = Notebook(new_page(**options), path)
        if app == "lab":
            quiet.append(notebook.page)
        notebook.page.goto(server.url + places[app])
        notebook.wait_until_ready()
        return notebook

    yield open_one
    complaints = [error for tab in request.node.stash[_TABS] if tab.page in quiet for error in tab.errors]
    # What JupyterLab was waiting for when a test restarted the kernel.
    assert [told for told in complaints if "Canceled future" not in told] == []
