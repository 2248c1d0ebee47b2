"""The contention panel as its front end meets it: what it is told, and what it may ask for. No browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from test_board import DEADLINE, Front

from qlab.contend.arms import ARMS, arm
from qlab.driver import SURVIVED
from qlab.errors import QueueClosed
from qlab.lab import Lab
from qlab.widgets.contention import WAYS, ContentionPanel

SMALL: dict[str, Any] = {"workers": [1, 2], "jobs": 20, "length": 0.0, "busy": False, "repeats": 1}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab("memory", name="contended") as made:
        yield made
    made.contention().close()


@pytest.fixture
def front(lab: Lab) -> Front:
    return Front(lab.contention())  # type: ignore[arg-type]  # it is any panel


def last(front: Front) -> dict[str, Any]:
    return front.told[-1]


def test_each_store_can_be_picked_under_what_it_survives(front: Front) -> None:
    classes = front.board.everything()["classes"]
    assert [each["survives"] for each in classes] == [*reversed(SURVIVED)][:3]
    names = [name for each in classes for name in each["arms"]]
    assert set(names) == {name for name, each in ARMS.items() if not each.private and not each.tcp}
    for end in WAYS:
        assert [arm(name + end) for name in names if name.startswith("redis")]


def test_it_measures_what_contention_does_and_gives_the_code(front: Front, lab: Lab) -> None:
    answer = front.ask("measure", arms=["sqlite NORMAL"], **SMALL)
    assert "error" not in answer
    found = last(front)["found"]
    panel: ContentionPanel = lab.contention()
    assert panel.found is not None
    assert [(run.measured.workers, sum(run.measured.per_worker)) for run in panel.found.runs if run.measured] in (
        [(1, 20), (2, 20)],
        [(2, 20), (1, 20)],
    )
    assert found["code"] == "contention(['sqlite NORMAL'], workers=(1, 2), jobs=20, length=0.0, repeats=1)"
    assert found["answer"]
    assert [row[0] for row in found["rows"]] == ["sqlite NORMAL"] * 2
    assert last(front)["doing"] == ""


def test_its_pictures_are_asked_for_and_told_in_words(front: Front) -> None:
    assert front.ask("pictures")["result"] == []
    front.ask("measure", arms=["sqlite NORMAL"], **SMALL)
    told = front.ask("pictures")
    assert len(told["result"]) >= 4
    assert all(each["about"] and each["part"] for each in told["result"])


def test_a_stop_ends_it_and_leaves_what_there_was_before_alone(front: Front, lab: Lab) -> None:
    panel: ContentionPanel = lab.contention()
    began = front.board.everything()["number"]
    front.say("measure", arms=["sqlite NORMAL"], **{**SMALL, "jobs": 100_000})
    front.say("stop")
    assert front.board.wait(DEADLINE)
    assert last(front)["number"] > began
    assert last(front)["doing"] == ""
    assert panel.found is None or panel.found.interrupted


@pytest.mark.parametrize(
    ("wrong", "way"),
    [
        ({"arms": []}, "tick at least one"),
        ({"arms": ["sqlite FUL"]}, "sqlite FULL"),
        ({"workers": [0]}, "workers"),
        ({"jobs": 0}, "jobs"),
        ({"length": -1.0}, "length"),
    ],
)
def test_what_cannot_be_measured_is_said(front: Front, wrong: dict[str, Any], way: str) -> None:
    answer = front.ask("measure", **({"arms": ["sqlite NORMAL"], **SMALL} | wrong))
    assert way in answer["error"]
    assert last(front)["problem"] == answer["error"]
    assert (last(front)["doing"], last(front)["found"]) == ("", None)


def test_a_lab_has_one_panel_and_a_closed_lab_s_measures_nothing(front: Front, lab: Lab) -> None:
    assert lab.contention() is front.board
    lab.close()
    assert "closed" in front.ask("measure", arms=["sqlite NORMAL"], **SMALL)["error"]
    assert isinstance(front.board.errors[-1], QueueClosed)


def test_where_there_is_no_kernel_stands_what_was_measured(front: Front) -> None:
    panel: Any = front.board
    assert "Nothing was measured yet" in panel._still()[1]  # noqa: SLF001 - what a page without a kernel shows
    front.ask("measure", arms=["sqlite NORMAL"], **SMALL)
    assert "sqlite NORMAL" in panel._still()[1]  # noqa: SLF001 - as above
