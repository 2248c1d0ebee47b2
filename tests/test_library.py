"""The two job kinds of a library."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qlab import library
from qlab.clock import SimulatedClock
from qlab.library import Item, Summary, default_folder, item, python_files, summary
from qlab.queue import Queue
from qlab.trace import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = b"class A:\n    def f(self): ...\n    async def g(self): ...\n\ndef h():\n    return lambda: 1\n"


@pytest.fixture
def queue() -> Iterator[Queue]:
    with Queue("memory://", clock=SimulatedClock()) as queue:
        library.register(queue)
        yield queue


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of seven Python files, some of which are none."""
    folder = tmp_path / "library"
    for name, source in {
        "b.py": GOOD,
        "a.py": b"x = 1",
        "B/c.py": "# coding: latin-1\nname = 'é'\n".encode("latin-1"),
        "b/d.py": b"print 'Python 2'\n",
        "b/empty.py": b"",
        "b/notes.txt": b"not Python",
        "b/invalid escape.py": b"path = '\\d'\n",
        "site-packages/other.py": b"",
        "b/dist-packages/other.py": b"",
        "é/utf8.py": b"name = '\xff'\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
    return folder


FILES = ["B/c.py", "a.py", "b.py", "b/d.py", "b/empty.py", "b/invalid escape.py", "é/utf8.py"]
TOTAL = Summary(files=7, parsed=5, unparsed=2, functions=3, classes=1, lines=12)


# -- which files --


def test_files_are_sorted_by_their_paths_and_what_is_installed_is_left_out(folder: Path) -> None:
    assert python_files(folder) == FILES
    assert python_files(str(folder), limit=3) == FILES[:3]


def test_the_standard_library_is_the_default() -> None:
    files = python_files()
    assert len(files) == 500
    assert files == sorted(files)
    assert files == python_files(default_folder())
    assert "ast.py" in python_files(limit=100_000)
    assert not any("site-packages" in path for path in python_files(limit=100_000))


def test_folders_and_links_that_lead_nowhere_are_no_files(folder: Path) -> None:
    (folder / "folder.py").mkdir()
    (folder / "nowhere.py").symlink_to(folder / "missing")
    (folder / "again").symlink_to(folder)
    (folder / "linked.py").symlink_to(folder / "a.py")
    assert python_files(folder) == sorted([*FILES, "linked.py"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing", "'.*/missing', does not exist: name a folder with Python files"),
        ("library/a.py", "'.*/a.py', is no folder"),
        ("empty", "'.*/empty', has no .py file: .* or none for the standard library"),
    ],
)
def test_a_folder_that_cannot_be_scanned_is_named(folder: Path, name: str, says: str) -> None:
    (folder.parent / "empty" / "site-packages").mkdir(parents=True)
    (folder.parent / "empty" / "site-packages" / "a.py").touch()
    with pytest.raises(ValueError, match=says):
        python_files(folder.parent / name)


def test_a_folder_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions would not keep root from reading it.
    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    real = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ValueError, match=r"'.*/library/b' cannot be read \(Permission denied\)"):
        python_files(folder)


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    try:
        (folder / os.fsdecode(b"caf\xe9.py")).touch()
    except OSError:
        pytest.skip("this file system has only names that are text")
    with pytest.raises(ValueError, match=r"caf\\udce9\.py' is no Unicode text"):
        python_files(folder)


def test_a_limit_below_1_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        python_files(folder, 0)


# -- what is in them --


def test_an_item_counts_what_a_file_defines() -> None:
    assert item("a.py", GOOD) == Item("a.py", True, functions=3, classes=1, lines=6)
    assert item("a.py", b"x = 1") == Item("a.py", True, 0, 0, lines=1)
    assert item("a.py", b"") == Item("a.py", True, 0, 0, lines=0)
    assert item("a.py", "\ufeffx = 'é'\n".encode()) == Item("a.py", True, 0, 0, lines=1)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (b"print 'Python 2'\n", "SyntaxError"),
        (b"if True:\nx = 1\n", "IndentationError"),
        (b"name = '\xff'\n", "SyntaxError"),
        (b"# coding: klingon\n", "SyntaxError"),
        (b"x = 1\0\n", "Error"),
        ("x = 1\n".encode("utf-16"), "Error"),
        (b"(" * 1_000 + b")" * 1_000, "Error"),
        (b"-" * 100_000 + b"1", "Error"),
    ],
)
def test_a_file_that_does_not_parse_is_an_answer(source: bytes, error: str) -> None:
    found = item("a.py", source)
    assert (found.parsed, found.functions, found.classes) == (False, 0, 0)
    assert error in found.error.split(":")[0]


@pytest.mark.parametrize("filters", ["always", "error"])
def test_what_a_parser_warns_of_is_neither_shown_nor_an_error(filters: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(filters)  # type: ignore[arg-type]
        assert item("a.py", b"path = '\\d'\nassert (1, 'text')\nx = 1or 2\n").parsed
        assert warnings.filters[0][0] == filters
    assert capfd.readouterr().err == ""


def test_a_file_read_twice_counts_once() -> None:
    items = [item("a.py", GOOD), item("b.py", b"?"), item("a.py", GOOD)]
    assert summary(items) == Summary(files=2, parsed=1, unparsed=1, functions=3, classes=1, lines=7)
    assert summary([]) == Summary(0, 0, 0, 0, 0, 0)


# -- as jobs --


def test_a_scan_dispatches_one_job_for_each_file(queue: Queue, folder: Path) -> None:
    queue.dispatch("scan_library", {"folder": str(folder), "limit": 500})
    assert queue.work_once().says == "job 1 is done"
    assert [(job.name, job.payload["path"]) for job in queue.jobs()] == [("enrich_item", path) for path in FILES]
    assert _details(queue, Kind.PROGRESSED) == ["7 of 7"]
    assert _details(queue, Kind.COMPLETED) == [""]
    assert [outcome.says for outcome in queue.drain()] == [f"job {i} is done" for i in range(2, 9)]


def test_a_scan_takes_the_standard_library_unless_it_is_told(queue: Queue) -> None:
    queue.dispatch("scan_library")
    queue.work_once()
    assert queue.counts().ready == 500
    assert _details(queue, Kind.PROGRESSED) == [f"{done} of 500" for done in range(50, 501, 50)]


def test_a_relative_folder_is_that_of_the_scan(queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    queue.dispatch("scan_library", {"folder": folder.name})
    queue.work_once()
    monkeypatch.chdir("/")
    assert {type(outcome).__name__ for outcome in queue.drain()} == {"Completed"}


def test_a_bad_folder_is_an_error_before_anything_is_stored(queue: Queue, tmp_path: Path) -> None:
    queue.dispatch("scan_library", {"folder": str(tmp_path / "missing")})
    queue.work_once()
    assert queue.counts().depth == 1
    assert "does not exist" in _details(queue, Kind.RELEASED)[0]


def test_a_scan_that_runs_twice_changes_nothing_but_the_time_it_takes(folder: Path) -> None:
    found: list[Item] = []
    with Queue("memory://", clock=SimulatedClock()) as queue:
        library.register(queue)
        queue.handler("enrich_item")(lambda job: found.append(library.enrich_item(job)))
        queue.dispatch("scan_library", {"folder": str(folder)})
        held = queue.reserve()
        assert held
        list(queue.steps(held))  # It dispatches all of them, and the worker vanishes before it says so.
        queue.crash(held)
        queue.clock.spend(100.0)
        queue.drain()
        assert queue.counts().depth == 0
    assert len(found) == 14
    assert summary(found) == TOTAL


def test_a_file_that_has_gone_is_a_failure(queue: Queue, folder: Path) -> None:
    queue.dispatch("scan_library", {"folder": str(folder)})
    queue.work_once()
    shutil.rmtree(folder)
    queue.work_once()
    assert "FileNotFoundError" in _details(queue, Kind.RELEASED)[0]


def _details(queue: Queue, kind: Kind) -> list[str]:
    return [event.detail for event in queue.trace if event.kind is kind]
