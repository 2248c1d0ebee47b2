"""A classroom: kernels with a lab each. No speed is asserted."""

from collections.abc import Iterator

import psutil
import pytest

from qlab import benchmarks
from qlab.benchmarks import classroom
from qlab.errors import MissingRequirement


@pytest.fixture(autouse=True)
def three_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "LEARNERS", 3)


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
    assert 1.5 * one < every * 1e3 < 6 * one


def test_a_kernel_that_fails_is_told_and_the_room_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "_OPEN", "1 / 0")
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert report.problems == (
        "classroom, run 1: QlabError: a learner's kernel says ZeroDivisionError: division by zero",
    )


def test_where_there_is_no_server_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> None:
        raise MissingRequirement("there is no server")

    monkeypatch.setattr(classroom, "EmbeddedServer", nowhere)
    report = benchmarks.measure(["classroom"], jobs=10_000, runs=1)
    assert {each.skipped for each in report.measured} == {"there is no server"}
