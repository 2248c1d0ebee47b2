"""Text comes from anywhere and runs nowhere; files and sockets are their owner's alone."""

import ast
import io
import logging
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ONE_OF_EACH, QUEUE, only, outcomes, program

import qlab
from qlab import Lab, Queue, SimulatedClock, Superseded, Unknown, drivers, frames, plots
from qlab.drivers.server import EmbeddedServer
from qlab.errors import QlabError
from qlab.export import still
from qlab.job import Attempt
from qlab.show import Table

PACKAGE = Path(qlab.__file__).parent

# -- what could run --

RUNS_WHAT_IT_READS = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "xmlrpc", "multiprocessing", "yaml"),
    *("eval", "exec", "compile", "__import__", "read_pickle", "to_pickle", "system", "popen"),
}


TO_ITS_OWN_PROCESSES = {
    "sweeps/processes.py": {"pickle", "multiprocessing"},  # over pipes, to and from processes that it has started
    "sweeps/sweeping.py": {"pickle"},  # asks whether a function could go there
}


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_nothing_that_is_read_is_run(file: Path) -> None:
    """No pickle, no eval, no shell: a store, a file or a socket can never make qlab run what stands in it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    words = {
        word
        for node in ast.walk(tree)
        for word in (
            *(alias.name.split(".")[0] for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)),
            *([(node.module or "").split(".")[0]] if isinstance(node, ast.ImportFrom) else []),
            *([node.func.id] if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else []),
            *([node.func.attr] if isinstance(node, ast.Call) and _owner(node) in ("os", "pd") else []),
        )
    }
    allowed = TO_ITS_OWN_PROCESSES.get(file.relative_to(PACKAGE).as_posix(), set())
    assert words & RUNS_WHAT_IT_READS == allowed
    shells = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "shell"]
    assert shells == []


def _owner(call: ast.Call) -> str:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""


def test_a_job_can_be_worked_without_anything_being_unpickled() -> None:
    """The interpreter itself says so, whichever library asks."""
    script = """
import sys
from qlab import Queue, SimulatedClock

seen = []
sys.addaudithook(lambda event, args: seen.append(event))
for url in ("memory://", "sqlite:///:memory:"):
    with Queue(url, clock=SimulatedClock()) as queue:
        queue.handler("A", tries=1)(lambda job: 1 / job.payload)
        queue.dispatch_many([("A", 0), ("A", 1)])
        queue.drain()
        queue.retry("all")
        queue.drain()
        assert len(queue.failed()) == 1
print("pickle.find_class" in seen)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


# -- what is shown --

HARMLESS = "some text of people "
HOSTILE = {
    "HTML": "</td></table><script>alert(1)</script><img src=x onerror=alert(1)>\"'><!--",
    "terminal": "\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\u2028\n2026-01-01 ERROR forged",
    "formula": '=cmd|"/c calc"!A1',
    "Markdown": "[x](javascript:alert(1)) **bold** `code` | cell |\n# head",
    "mathtext": r"$\frac{$ \unknown _x^",
    "format": "%s %n {0.__class__} {{7*7}} {% raw %}",
}


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Tags(HTMLParser):
    """The elements and attributes of a text, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


def played(driver: Any, text: str) -> Queue:
    """A queue in which everything that people can name is this text, and everything has happened."""
    queue = Queue(driver, clock=SimulatedClock(), name=text)

    def handler(job: Attempt) -> None:
        job.progress(1, 2)
        raise ValueError(text)

    queue.handler(text, tries=2)(handler)
    queue.dispatch(text, {text: [text]})
    queue.dispatch_later(text, text, delay=100.0)
    queue.dispatch(text, text)
    assert outcomes(queue, 0.0, 10.0, 10.0)[1:] == ["Retrying", "Failed"] or queue.failed()
    held = queue.reserve(200.0, worker=text)
    assert held
    queue.crash(held, 201.0, worker=text)
    return queue


def everything(queue: Queue, text: str) -> Iterator[Any]:
    """All that shows itself."""
    with queue.statements() as statements:
        job = queue.dispatch(text, text)
        held = queue.reserve(300.0, worker=text)
    assert held
    yield from (job, held, queue, queue.driver, queue.trace, queue.counts(), queue.policy, *statements)
    yield from (queue.finish(held, 300.0, worker=text), Superseded(1, text, 1, 0.0, text))
    yield Unknown(1, text, 1, 0.0, text, 1.0)
    yield from (queue.jobs(), *queue.jobs(), queue.failed(), *queue.failed(), Table([text]))


@only(*ONE_OF_EACH)
def test_no_text_becomes_markup_wherever_it_is_shown(driver: Any, hostile: str) -> None:
    def shown(text: str) -> list[Any]:
        queue = played(driver, text)
        return [Tags(each._repr_html_()).found for each in everything(queue, text) if hasattr(each, "_repr_html_")]

    assert shown(hostile) == shown(HARMLESS)


@only(*ONE_OF_EACH)
def test_no_text_moves_a_terminal_s_cursor_wherever_it_is_shown(driver: Any, hostile: str) -> None:
    queue = played(driver, hostile)
    for each in everything(queue, hostile):
        for told in (repr(each), str(each)):
            assert [c for c in told if not c.isprintable() and c != "\n"] == [], told


@only("memory", "sqlite")
def test_a_log_line_is_one_line_whatever_people_write(driver: Any, hostile: str) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logging.getLogger("qlab").addHandler(handler)
    try:
        queue = played(driver, hostile)
        queue.recover(force=True)
    finally:
        logging.getLogger("qlab").removeHandler(handler)
    lines = out.getvalue().splitlines()
    assert len(lines) >= len(queue.failed()) + 1
    assert [line for line in lines if not (line.isprintable() and re.match(r"\w+=", line))] == []


@only("memory", "sqlite")
def test_an_error_message_is_safe_to_print(driver: Any, hostile: str) -> None:
    queue = played(driver, hostile)
    for act in (
        lambda: queue.dispatch(hostile + "x"),
        lambda: queue.dispatch(hostile, {hostile: {1}}),
        lambda: queue.handler(hostile)(hostile),  # type: ignore[type-var]  # what is no function
        lambda: drivers.open(hostile),
        lambda: drivers.open(f"sqlite:///x?{hostile}=1"),
        lambda: Lab(hostile),
    ):
        with pytest.raises((QlabError, ValueError, TypeError, OSError)) as refusal:
            act()
        assert [c for c in str(refusal.value) if not c.isprintable() and c != "\n"] == []


def lab_of(text: str, name: str) -> Lab:
    lab = Lab(["memory", "sqlite"], name=name)

    def handler(job: Attempt) -> None:
        raise ValueError(text)

    lab.handler(text)(handler)
    lab.dispatch(text, {text: text}, count=3)
    lab.run(100)
    return lab


def test_no_text_becomes_markup_in_a_lab_or_on_its_page(hostile: str, tmp_path: Path) -> None:
    def shown(text: str) -> list[Any]:
        with lab_of(text, text) as lab:
            page = lab.export(tmp_path / "lab.html").read_text(encoding="utf-8")
            return [Tags(page).found, Tags(still(lab)).found, page.count("<script"), page.count("</script")]

    assert shown(hostile) == shown(HARMLESS)


def test_no_cell_of_an_exported_table_is_a_formula(hostile: str, tmp_path: Path) -> None:
    with lab_of(hostile, "lab") as lab:
        cells = pd.read_csv(lab.export(tmp_path / "lab.csv"), dtype=str, keep_default_na=False)
    texts = [cell for cell in cells.to_numpy().ravel() if cell]
    assert any(hostile.strip("\n")[:5] in cell for cell in texts)
    assert [cell for cell in texts if cell[0] in "=+-@\t\r" and not cell[1:].replace(".", "").isdigit()] == []


@only("memory")
def test_every_picture_can_be_drawn_whatever_people_write(driver: Any, hostile: str) -> None:
    queue = played(driver, hostile)
    for draw, frame in (
        (plots.timeline, frames.spans(queue.trace)),
        (plots.workers, frames.attempts(queue.trace)),
        (plots.attempts, frames.jobs(queue.trace)),
        (plots.depth, frames.depth(queue.trace)),
        (plots.throughput, frames.events(queue.trace).assign(driver=hostile)),
    ):
        picture = plots.Picture()
        draw(frame, ax=picture.add_subplot())
        picture.savefig(io.BytesIO(), format="svg")


# -- whose it is --


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """What is private is so by itself, not by the user's mask."""
    mask = os.umask(0)
    yield
    os.umask(mask)


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): f"{stat.S_IMODE(path.stat().st_mode):o}" for path in folder.rglob("*")}


@only("sqlite", "redis_zset-valkey", "redis_list-valkey")
def test_every_file_of_a_store_is_its_owner_s_alone(open_to_all: None, address: str, tmp_path: Path) -> None:
    with closing(drivers.open(address)) as driver:
        played(driver, "A")
        found = modes(tmp_path)
        assert found
        assert set(found.values()) == {"600"}


def test_the_folder_of_a_lab_is_its_owner_s_alone(open_to_all: None, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Lab(["sqlite", "redis"]) as lab:
        lab.dispatch("pay")
        made = [path for path in tmp_path.iterdir() if path.is_dir()]
        assert made
        assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ["redis", "valkey", "redis8"])
def test_another_user_cannot_reach_the_embedded_server(open_to_all: None, kind: str) -> None:
    script = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
tried = (lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[1]), lambda: os.listdir(os.path.dirname(sys.argv[1])))
for act in tried:
    try:
        act()
        print("reached")
    except PermissionError:
        print("refused")
"""
    with EmbeddedServer(**program(kind)) as server:
        with closing(socket.socket(socket.AF_UNIX)) as ours:
            ours.connect(server.socket)  # its owner can
        told = subprocess.run(
            [sys.executable, "-S", "-W", "ignore", "-c", script, server.socket],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert told.stdout.split() == ["refused", "refused"]


URLS: tuple[Callable[[str], str], ...] = (
    lambda word: f"redis://user:{word}@127.0.0.1:1/0",
    lambda word: f"redis://:{word}@127.0.0.1:1",
    lambda word: f"rediss://user:{word}@127.0.0.1:1",
    lambda word: f"redis://127.0.0.1:1?password={word}",
    lambda word: f"unix://user:{word}@/nowhere.sock",
)


@pytest.mark.parametrize("url", URLS, ids=lambda url: url("…"))
@pytest.mark.parametrize("word", ["s3cret", "a%40b%3Ac", "p+w d", "'\"<"])
def test_no_message_and_no_log_shows_a_password(
    url: Callable[[str], str], word: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    address = url(word)
    address += f"{'&' if '?' in address else '?'}failed_jobs=sqlite:///{tmp_path}/f.db&reply_wait=1"
    said = []
    try:
        with closing(drivers.open(address)) as driver:
            said += [repr(driver), driver.description]
            queue = Queue(driver, name=QUEUE)
            said.append(repr(queue))
            queue.counts()
    except (QlabError, ValueError) as refusal:
        said += [str(refusal), repr(refusal), repr(refusal.__cause__)]
    assert said
    for text in (*said, caplog.text):
        assert word not in text
