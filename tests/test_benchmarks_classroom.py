"""A classroom: kernels with a lab each. No speed is asserted."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from qlab import benchmarks
from qlab.benchmarks import classroom
from qlab.errors import MissingRequirement


@pytest.fixture(autouse=True)
def two_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "LEARNERS", 2)


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """Lets each test end without a process of its own; servers of other tests may be there."""
    before = {*psutil.Process().children(recursive=True)}
    yield
    assert {*psutil.Process().children(recursive=True)} - before == set()


def test_each_learner_is_measured() -> None:
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert {each.figure for each in report.measured if each.median} == {
        figure.name for figure in classroom.BENCHMARKS[0].figures
    }
    one, every = (each.median or 0 for each in report.measured[:2])
    assert 1.2 * one < every * 1e3 < 4 * one


def test_a_kernel_that_fails_is_told_and_the_room_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "_OPEN", "1 / 0")
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert report.problems == (
        "classroom, run 1: QlabError: a learner's kernel says ZeroDivisionError: division by zero",
    )


def test_a_kernel_that_ends_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "_OPEN", "import os\nos._exit(9)")
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert report.problems == (
        "classroom, run 1: QlabError: a learner's kernel has ended: is there memory enough for all?",
    )


def test_a_kernel_is_this_python_s_whatever_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "kernels" / "python3" / "kernel.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"argv": ["no-such-python", "{connection_file}"], "display_name": "x", "language": "python"}')
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    with classroom.Learner() as learner:
        learner.run("import sys", "sys.executable")
        assert learner.result() == sys.executable


def test_where_there_is_no_server_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> None:
        raise MissingRequirement("there is no server")

    monkeypatch.setattr(classroom, "EmbeddedServer", nowhere)
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert {each.skipped for each in report.measured} == {"there is no server"}
