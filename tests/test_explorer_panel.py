"""The explorer as its front end meets it: what it is told, and what it may ask for. No browser."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_board import DEADLINE, Front

from qlab.errors import QueueClosed
from qlab.explorer import SITUATIONS, Explored, explore
from qlab.flaws import FLAWS
from qlab.lab import Lab
from qlab.widgets.explorer import ALL, BROKEN, Explorer, Stopped

ONE_JOB = {
    "name": "one_job", "about": SITUATIONS["one_job"].about, "workers": 2, "jobs": 1, "tries": 3, "fails": 0,
    "runs_out": True, "renamed": False, "expiries": 1, "crashes": 0, "restarts": 0,
}  # fmt: skip


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab("memory", name="explored") as made:
        yield made
    made.explorer().close()


@pytest.fixture
def front(lab: Lab) -> Front:
    return Front(lab.explorer())  # type: ignore[arg-type]  # it is any panel


def last(front: Front) -> dict[str, Any]:
    return front.told[-1]


def test_it_tells_what_lab_explore_gives(front: Front, lab: Lab) -> None:
    answer = front.ask("explore", driver="token revoked by running out", **ONE_JOB)
    assert "error" not in answer
    twin = lab.explore("one_job", driver="token revoked by running out")
    found = last(front)["found"]
    assert (found["paths"], found["states"], dict(found["outcomes"])) == (twin.paths, twin.states, twin.outcomes)
    assert found["broken"] == {"promise": twin.first_broken.promise, "says": twin.first_broken.says}
    order = last(front)["order"]
    assert (order["which"], order["sentences"]) == (BROKEN, twin.story(twin.first_broken.path)[:-1])
    assert (order["broken_at"], order["end"]) == (len(twin.first_broken.path), twin.story(twin.first_broken.path)[-1])
    assert len(order["kinds"]) == len(order["sentences"])


@pytest.mark.parametrize(
    ("changed", "driver", "sample"),
    [
        ({}, "memory", None),
        ({"expiries": 2}, "completion by id", None),
        ({"workers": 3, "fails": None, "tries": 2}, "memory", None),
        ({"crashes": 1, "restarts": 1, "renamed": True}, "sweep of one's own", None),
        ({}, "memory", "random"),
    ],
)
def test_the_call_that_it_shows_explores_the_same(
    front: Front, lab: Lab, changed: dict[str, Any], driver: str, sample: str | None
) -> None:
    assert "error" not in front.ask("explore", driver=driver, sample=sample, **(ONE_JOB | changed))
    found = last(front)["found"]
    imports, _, call = found["code"].rpartition("\n")
    names: dict[str, Any] = {"lab": lab}
    exec(imports, names)
    twin: Explored = eval(call, names)
    assert dict(found["outcomes"]) == twin.outcomes
    assert (found["broken"] is None) == (twin.first_broken is None)


def test_each_order_is_shown_once_by_its_number(front: Front, lab: Lab) -> None:
    front.ask("explore", driver="memory", **ONE_JOB)
    seen = set()
    for number in range(1, 25):
        assert "error" not in front.ask("look", which="done, run 2x", number=number)
        seen.add(tuple(last(front)["order"]["sentences"]))
    assert len(seen) == 24
    assert "there are orders 1 to 24" in front.ask("look", which="done, run 2x", number=25)["error"]
    assert "there are orders" in front.ask("look", which=ALL, number=0)["error"]
    front.ask("look", which=ALL, number=30)
    assert last(front)["order"]["number"] == 30
    assert "no path ends in 'gone'" in front.ask("look", which="gone", number=1)["error"]


@pytest.mark.parametrize("flaw", FLAWS)
def test_it_finds_what_each_flaw_breaks(front: Front, flaw: str) -> None:
    answer = front.ask("hunt", driver=flaw)
    assert answer["result"]["broken"]
    assert last(front)["order"]["which"] == BROKEN
    assert answer["result"]["scenario"] in last(front)["found"]["code"]
    front.ask("replay", beside=True)
    front.ask("rest")
    assert last(front)["replay"]["taken"] == last(front)["replay"]["of"] > 0
    assert last(front)["order"]["broken_at"] == last(front)["replay"]["of"]


@pytest.mark.parametrize("driver", ["memory", "sqlite"])
def test_it_finds_nothing_that_a_driver_breaks(front: Front, driver: str) -> None:
    answer = front.ask("hunt", driver=driver)
    assert (answer["result"]["broken"], answer["result"]["scenarios"]) == (False, len(SITUATIONS))
    assert answer["result"]["orders"] == sum(explore(each).paths for each in SITUATIONS)


def test_a_replay_goes_step_by_step_on_a_board_of_its_own(front: Front, lab: Lab) -> None:
    panel: Explorer = lab.explorer()
    front.ask("hunt", driver="completion by id")
    front.ask("replay")
    assert panel.replay is not None
    board = panel.replay.lab.board()
    assert last(front)["replay"] == {"board": board.model_id, "taken": 0, "of": 5}
    front.ask("next")
    assert last(front)["replay"]["taken"] == 1
    assert len(panel.replay.lab.trace) == 2
    front.ask("rest")
    assert [str(event.kind) for event in panel.replay.lab.trace][-1] == "completed"
    replayed = panel.replay.lab
    front.ask("look", which=BROKEN, number=1)
    assert last(front)["replay"] is None
    assert replayed.closed
    assert board.comm is None
    assert "nothing is replayed" in front.ask("next")["error"]


def test_nothing_can_be_browsed_before_something_was_explored(front: Front) -> None:
    assert "nothing was explored yet" in front.ask("look", which=ALL, number=1)["error"]
    assert "nothing was explored yet" in front.ask("replay")["error"]
    assert "there is no command" in front.ask("dance")["error"]
    assert last(front)["found"] is None
    assert last(front)["problem"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"workers": 9}, "9 workers: explore takes 8"),
        ({"jobs": 0}, "jobs is 0: use a number from 1"),
        ({"expiries": -1}, "expiries is -1: use a number from 0"),
        ({"runs_out": False}, "never run out"),
    ],
)
def test_what_cannot_be_explored_is_refused_with_the_reason(front: Front, changed: dict[str, Any], why: str) -> None:
    assert why in front.ask("explore", driver="memory", **(ONE_JOB | changed))["error"]
    assert (last(front)["found"], last(front)["looked"]) == (None, None)
    assert "error" not in front.ask("explore", driver="memory", **ONE_JOB)
    assert last(front)["problem"] == ""


def test_an_exploration_is_told_as_it_goes_and_can_be_stopped(front: Front, lab: Lab) -> None:
    panel: Explorer = lab.explorer()
    far = threading.Event()
    hear: Callable[..., None] = panel.send

    def listen(content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        hear(content, buffers)
        if content["looked"] or 0:
            far.set()

    panel.send = listen
    front.say("explore", driver="memory", **(ONE_JOB | {"workers": 4, "jobs": 3, "expiries": 2}))
    assert far.wait(DEADLINE)
    front.say("stop")
    assert panel.wait(DEADLINE)
    assert isinstance(panel.errors[-1], Stopped)
    assert last(front)["problem"] == "The exploration was stopped: there is nothing to browse."
    assert (last(front)["found"], last(front)["looked"]) == (None, None)


def test_a_lab_has_one_explorer_which_ends_with_it(lab: Lab) -> None:
    front = Front(lab.explorer())  # type: ignore[arg-type]  # as above
    panel = lab.explorer()
    assert panel is lab.explorer()
    front.ask("hunt", driver="deleted at reserve")
    front.ask("replay")
    replayed = panel.replay.lab
    lab.close()
    assert panel.wait(DEADLINE)
    assert last(front)["closed"]
    assert replayed.closed
    assert "this lab is closed" in front.ask("explore", driver="memory", **ONE_JOB)["error"]
    assert isinstance(panel.errors[-1], QueueClosed)


def test_what_stands_for_it_without_a_kernel_is_what_was_found(front: Front, lab: Lab) -> None:
    panel = lab.explorer()
    data, _ = panel._repr_mimebundle_()
    assert "Nothing was explored in explored yet" in data["text/html"]
    front.ask("hunt", driver="completion by id")
    data, _ = panel._repr_mimebundle_()
    assert "superseded workers change nothing" in data["text/html"]
    assert data["text/plain"].startswith("Explorer of <Lab 'explored'")


def test_it_offers_the_address_of_a_lab_that_has_one(tmp_path: Any) -> None:
    address = f"sqlite:///{tmp_path}/mine.db"
    with Lab(address, name="mine") as lab:
        panel = lab.explorer()
        told = panel.everything()
        assert told["driver"] == address
        assert [address, "", ""] in told["queues"]
        front = Front(panel)  # type: ignore[arg-type]  # as above
        assert "error" not in front.ask("explore", driver=address, **ONE_JOB)
        assert lab.queue.counts().depth == 0
        panel.close()
