"""`MODULE:QUEUE`: the queue is found, and whatever is in the way is told with the way out."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qlab import Queue, target
from qlab.contend.scanning import run_arm
from qlab.errors import DriverUnavailable, UnknownQueue

SHOP = """
from types import SimpleNamespace
from qlab import Queue

mails = Queue("sqlite:///mails.db")
app = SimpleNamespace(queue=mails)
count = 3


def make():
    return mails
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with modules that no other test sees."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    (tmp_path / "shopfront.py").write_text(SHOP)
    (tmp_path / "office").mkdir()
    (tmp_path / "office" / "__init__.py").write_text("")
    (tmp_path / "office" / "jobs.py").write_text(SHOP)
    yield tmp_path
    for name in set(sys.modules) - before:
        found = sys.modules.pop(name)
        if hasattr(found, "mails"):
            found.mails.close()


@pytest.mark.parametrize("text", ["shopfront:mails", "shopfront:app.queue", "office.jobs:mails"])
def test_a_queue_is_found_in_a_module_of_the_current_folder(text: str, folder: Path) -> None:
    queue = target.load(text)
    assert isinstance(queue, Queue)
    assert queue.driver.url == f"sqlite:///{folder}/mails.db"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shopfront", "'shopfront' names no queue: write MODULE:QUEUE, as in shop:queue"),
        ("", "'' names no queue"),
        ("shopfront:", "names no queue"),
        (":mails", "names no queue"),
        ("shopfront:mails[0]", "names no queue"),
        ("shop front:mails", "names no queue"),
        ("sqlite:///jobs.db", "names no queue"),
        ("shopfront.py:mails", "name the module, not its file: shopfront:mails"),
        ("./office/jobs.py:mails", r"not its file: office\.jobs:mails"),
        ("__main__:queue", r"move the queue and its handlers into a module \(%%writefile shop.py in a cell\)"),
    ],
)
def test_what_is_no_name_of_a_queue_is_refused_before_anything_is_imported(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        target.load(text)
    assert "shopfront" not in sys.modules


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shopfronts:mails", "there is no module 'shopfronts' in .* did you mean 'shopfront'"),
        ("office.job:mails", r"there is no module 'office\.job' .* did you mean 'office\.jobs'"),
        ("offices.jobs:mails", r"there is no module 'offices\.jobs'"),
        ("nothing_like_it:mails", r"there is no module 'nothing_like_it' in \S+ or on Python's path$"),
        ("shopfront:mail", r"the module 'shopfront' \(.*shopfront\.py\) has no 'mail': did you mean 'mails'\?"),
        ("shopfront:zzz", "has no 'zzz'; its queues are 'mails'"),
        ("shopfront:app.quueue", r"has no 'app\.quueue'"),
        ("office:zzz", "has no 'zzz'; it makes no queue"),
        ("queue:queue", r"the module 'queue' \(.*queue\.py\) has no 'queue'.*'Queue'"),
        ("sys:zzz", r"the module 'sys' \(built in\) has no 'zzz'"),
        ("shopfront:count", "'shopfront:count' is of type int: name a variable that holds a Queue"),
        ("shopfront:make", "'shopfront:make' is of type function"),
        ("shopfront:Queue", "'shopfront:Queue' is the class Queue"),
    ],
)
def test_what_is_not_there_is_said_with_near_names(text: str, says: str) -> None:
    with pytest.raises(UnknownQueue, match=says):
        target.load(text)


@pytest.mark.parametrize(
    ("source", "says", "cause"),
    [
        ("1 / 0", "the module 'broken' cannot be imported: ZeroDivisionError", ZeroDivisionError),
        (
            "import nothing_like_it",
            "cannot be imported: ModuleNotFoundError: No module named 'nothing",
            ModuleNotFoundError,
        ),
        ("def x(:", "cannot be imported: SyntaxError", SyntaxError),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3", SystemExit),
        ("from qlab import Queue; Queue('sqlite://x')", "cannot be imported: ValueError: 'sqlite://x'", ValueError),
    ],
)
def test_an_error_inside_the_module_is_told_as_the_module_s(
    source: str, says: str, cause: type[BaseException], folder: Path
) -> None:
    (folder / "broken.py").write_text(source)
    with pytest.raises(UnknownQueue, match=says) as told:
        target.load("broken:queue")
    assert isinstance(told.value.__cause__, cause)


def test_a_store_that_is_away_is_no_fault_of_the_module(folder: Path) -> None:
    (folder / "away.py").write_text("from qlab import Queue; queue = Queue('redis://127.0.0.1:1?prefix=x')")
    with pytest.raises(DriverUnavailable):
        target.load("away:queue")


def test_handlers_of_a_notebook_are_refused_where_worker_processes_would_need_them(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"handlers is '__main__:register': .*%%writefile shop\.py"):
        run_arm("sqlite:///arm.db", workers=1, folder=folder, handlers="__main__:register")
