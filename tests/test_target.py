"""`MODULE:QUEUE`: the queue is found, and whatever is in the way is told with the way out."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qlab import Queue, target
from qlab.contend import contention
from qlab.errors import DriverUnavailable, UnknownQueue

SHOP = """
from types import SimpleNamespace
from qlab import Queue

mails = Queue("sqlite:///mails.db")
app = SimpleNamespace(queue=mails)
count = 3
shards = [Queue("sqlite:///mails.db", name=f"mail-{number}") for number in range(3)]


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
            for queue in (found.mails, *found.shards):
                queue.close()


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
        ("shopfront:0", "names no queue"),
        ("shopfront:shards.-1", "names no queue"),
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
        ("shopfront:shards.3", r"shopfront:shards\.3 is one too many: there are 3, from 0"),
        ("shopfront:app.0", "takes a place in a list of what is of type SimpleNamespace"),
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
        contention("sqlite", workers=1, handlers="__main__:register")


# -- at another store --


@pytest.mark.parametrize("text", ["shopfront:mails", "shopfront:app.queue", "shopfront:shards.1"])
def test_a_queue_is_moved_to_the_address_with_its_handlers_and_takes_its_own_place(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(target.ADDRESS, "sqlite:///of-somebody-else.db")
    before = target.load(text)
    module = sys.modules["shopfront"]
    made = [module.mails, *module.shards]
    before.handler("mail", tries=7)(lambda job: None)
    with target.load(text, "sqlite:///there.db") as queue:
        assert queue.driver.url == f"sqlite:///{folder}/there.db"
        assert (queue.name, queue.tries_of("mail")) == (before.name, 7)
        assert target.load(text) is queue
        assert os.environ[target.ADDRESS] == "sqlite:///there.db"
    assert not (folder / "of-somebody-else.db").exists()
    for each in made:
        each.close()


def test_a_module_that_asks_for_the_address_makes_its_queue_there_and_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(target.ADDRESS, "")
    (folder / "stall.py").write_text(
        "import os\nfrom qlab import Queue\nmails, shards = Queue(os.environ['QLAB_URL']), []\nfirst = mails\n"
    )
    queue = target.load("stall:mails", "sqlite:///there.db")
    assert queue is sys.modules["stall"].first


@pytest.mark.parametrize("asks", [False, True])
def test_a_module_whose_own_store_is_away_is_told_how_to_be_given_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    monkeypatch.setenv(target.ADDRESS, "")
    own = "os.environ['QLAB_URL']" if asks else "'redis://127.0.0.1:1'"
    (folder / "stall.py").write_text(f"import os\nfrom qlab import Queue\nmails = Queue({own})\n")
    with pytest.raises(DriverUnavailable) as refused:
        target.load("stall:mails", "redis://127.0.0.1:2?failed_jobs=sqlite:///:memory:")
    assert ("Queue(os.environ.get('QLAB_URL', …))" in str(refused.value)) != asks
