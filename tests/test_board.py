"""The board as its front end meets it: what it is told, what it may ask for, and what it leaves behind. No browser."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

from qlab.actions import ACTIONS
from qlab.errors import MissingRequirement
from qlab.explanation import agreement
from qlab.export import FORMS, still
from qlab.job import Attempt, JobState
from qlab.lab import Lab
from qlab.show import seconds
from qlab.telling import packed
from qlab.trace import Trace
from qlab.widgets.board import Board
from qlab.widgets.errands import Errands

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
DEADLINE = 20.0  # seconds, for what other threads do: ends a test that hangs


class Front:
    """A front end: it says what people press, and keeps what it is told."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.told: list[dict[str, Any]] = []
        self.buffers: list[list[bytes]] = []
        board.send = self._hear

    def _hear(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        self.told.append(json.loads(json.dumps(content, allow_nan=False)))
        self.buffers.append(buffers or [])

    def say(self, command: str, **arguments: Any) -> None:
        """Send a command as the browser does."""
        content = {"cmd": command, "args": arguments, "id": f"{len(self.told)}"}
        self.board._handle_custom_msg(content, [])  # noqa: SLF001 - it is how ipywidgets hands a message over

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.say(command, **arguments)
        assert self.board.wait(DEADLINE)
        return next(told["answer"] for told in reversed(self.told) if told.get("answer"))


@pytest.fixture
def labs() -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(*args: Any, **options: Any) -> Lab:
        made.append(Lab(*args, **options))
        return made[-1]

    yield make
    for lab in made:
        lab.board().close()
        lab.close()


@pytest.fixture
def front(labs: Callable[..., Lab]) -> Front:
    return Front(labs("sqlite").board())


# -- what it is told --


def _assembled(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Put together what came in pieces."""
    head: dict[str, Any] = {}
    sides: list[dict[str, Any]] = []
    layout = None
    for message in told:
        if message["layout"] != layout:
            layout, sides = message["layout"], [{"events": [], "texts": [], "ledger": []} for _ in message["sides"]]
        head |= message["head"]
        for known, piece in zip(sides, message["sides"], strict=True):
            events = piece.pop("events")
            assert events.pop("from") == len(known["events"])
            assert events.pop("texts_from") == len(known["texts"])
            known["texts"] += events.pop("texts")
            known["events"] += zip(*(events[name] for name in sorted(events)), strict=True)
            assert piece.pop("ledger_from") == len(known["ledger"])
            known["ledger"] += piece.pop("ledger")
            known.update(piece)
    return {"head": head, "layout": layout, "sides": sides}


def test_the_pieces_make_up_the_whole(labs: Callable[..., Lab]) -> None:
    front = Front(labs(["memory", "sqlite"]).board())
    front.ask("dispatch_text", handler="broken", payload="", count=3)
    front.ask("dispatch_text", handler="slow", payload='{"amount": 2}', delay=5)
    front.ask("run", seconds=200, run=1)
    front.ask("retry", which=2)
    front.ask("reset")
    front.ask("play", scenario="all_kinds")
    front.ask("run", seconds=90, run=2)
    front.ask("restart")
    front.ask("run", seconds=300, run=3)
    whole = json.loads(json.dumps(front.board.everything()))
    assert _assembled(front.told) == _assembled([whole])


def test_a_step_sends_what_is_new_only(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="", count=1000)
    front.ask("step", worker=1)
    assert front.told[-1]["head"] == {}
    assert len(json.dumps(front.told[-1])) < 600


def test_many_changes_from_a_cell_are_told_together(front: Front) -> None:
    lab, hear, sending, gate = front.board.lab, front.board.send, threading.Event(), threading.Event()

    def slow(*told: Any) -> None:
        sending.set()
        gate.wait(DEADLINE)
        hear(*told)

    front.board.send = slow
    lab.dispatch("pay")
    assert sending.wait(DEADLINE)
    for _ in range(50):
        lab.dispatch("pay")
    gate.set()
    assert front.board.wait(DEADLINE)
    assert [len(told["sides"][0]["events"]["at"]) for told in front.told] == [1, 50]


def test_a_new_front_end_gets_everything_with_the_state(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="", count=3)
    front.ask("step", worker=1)
    state = front.board.get_state()["told"]
    assert len(state["sides"][0]["events"]["at"]) == 5
    assert front.board.get_state("told")["told"]["head"]["now"] == 0


def test_each_failed_job_is_told_with_its_row(labs: Callable[..., Lab]) -> None:
    for driver in ("memory", "sqlite"):
        lab = labs(driver, name=driver)
        front = Front(lab.board())
        lab.change_policy(tries=1)
        lab.dispatch("broken", count=4)
        lab.run(0)
        lab.retry(2)
        lab.forget(3)
        lab.run(0)
        present = front.board.everything()["sides"][0]["failed"]
        assert present == [[1, 1], [4, 4], [5, 5]]
        front.ask("retry", which=dict(present)[4])
        assert front.board.everything()["sides"][0]["failed"] == [[1, 1], [5, 5]]


def test_a_memory_that_forgets_numbers_its_failed_jobs_anew(labs: Callable[..., Lab]) -> None:
    lab = labs("memory")
    board = lab.board()
    lab.change_policy(tries=1)
    lab.dispatch("broken", count=3)
    lab.run(0)
    assert len(board.everything()["sides"][0]["failed"]) == 3
    lab.restart()
    assert board.everything()["sides"][0]["failed"] == []
    lab.dispatch("broken")
    lab.run(0)
    assert [row for _, row in board.everything()["sides"][0]["failed"]] == [1]


def test_a_failed_job_gets_its_own_row_though_nobody_looked_before_all_was_lost(labs: Callable[..., Lab]) -> None:
    lab = labs("memory")
    lab.change_policy(tries=1)
    lab.dispatch("broken", count=3)
    lab.run(0)
    lab.restart()
    lab.dispatch("pay")
    lab.dispatch("broken")
    lab.run(0)
    assert lab.board().everything()["sides"][0]["failed"] == [[2, 1]]


def test_the_first_difference_is_found_piece_by_piece(labs: Callable[..., Lab]) -> None:
    lab = labs(["sqlite", "memory://?order=arrival"])
    front = Front(lab.board())
    lab.play("between_polls", seed=7)
    for _ in range(40):
        front.ask("run", seconds=1, run=1)
    found = front.board.everything()["sides"][1]["difference"]
    whole = agreement(lab.sides[0], lab.sides[1])
    assert whole.difference is not None
    assert (found["place"], found["why"]) == (whole.difference.place, whole.why)
    assert front.board.everything()["sides"][0]["difference"] is None


# -- what it may ask for --


ASKED: dict[str, dict[str, Any]] = {
    "advance": {"seconds": 1},
    "change_policy": {"tries": 2},
    "complete": {"worker": 1},
    "crash": {"worker": 1},
    "dispatch": {"handler": "pay", "payload": None, "count": 2},
    "forget": {"which": "all"},
    "pause": {"worker": 2},
    "perform": {"worker": 1},
    "play": {"scenario": "all_kinds"},
    "recover": {"worker": 1, "force": True},
    "reserve": {"worker": 1},
    "reset": {},
    "restart": {},
    "restart_server": {},
    "resume": {"worker": 1},
    "retry": {"which": "all"},
    "run": {"seconds": 1, "run": 1},
    "step": {"worker": 1},
    "step_all": {},
}


@pytest.mark.parametrize("driver", ["memory", "sqlite", "redis"])
def test_every_action_works_from_this_thread_and_from_another(labs: Callable[..., Lab], driver: str) -> None:
    try:
        front = Front(labs(driver).board())
    except MissingRequirement as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    assert set(ASKED) == set(ACTIONS)
    first = ("dispatch", "reserve", "perform", "complete", "crash", "resume")
    order = (*first, *sorted(set(ASKED) - set(first)))
    for action in order:
        refused = action == "restart_server" and driver != "redis"
        assert ("error" in front.ask(action, **ASKED[action])) == refused, action
        if action != "complete":  # which has nothing to complete the second time
            other = threading.Thread(target=front.say, args=(action,), kwargs=ASKED[action])
            other.start()
            other.join()
            assert front.board.wait(DEADLINE)
    refused = ("already", "no server of the lab's own")
    assert [str(error) for error in front.board.errors if not any(why in str(error) for why in refused)] == []


def test_a_callback_returns_while_a_handler_is_still_at_work(front: Front) -> None:
    entered, gate = threading.Event(), threading.Event()

    @front.board.lab.handler("wait")
    def wait(job: Attempt) -> None:
        entered.set()
        gate.wait(DEADLINE)

    front.ask("dispatch_text", handler="wait", payload="")
    front.say("step", worker=1)
    assert entered.wait(DEADLINE)
    front.say("stop", run=1)
    assert not gate.is_set()
    gate.set()
    assert front.board.wait(DEADLINE)
    assert front.board.lab.trace.at(0).jobs[1].settled is JobState.DONE


def test_a_run_that_was_stopped_before_it_began_does_nothing(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="")
    front.say("stop", run=7)
    front.ask("run", seconds=1, run=7)
    assert front.board.lab.now == 0
    front.ask("run", seconds=1, run=8)
    assert front.board.lab.now == 1


def test_stop_ends_a_run_between_two_jobs_and_on_every_driver_alike(labs: Callable[..., Lab]) -> None:
    lab = labs(["memory", "sqlite"])
    front, ran = Front(lab.board()), []

    @lab.handler("stop")
    def stop(job: Attempt) -> None:
        ran.append(job.id)
        if len(ran) == 5:
            front.say("stop", run=1)

    front.ask("dispatch_text", handler="stop", payload="", count=20)
    front.ask("run", seconds=1, run=1)
    assert ran == [1, 2, 3, 4, 5] * 2
    assert lab.agreements[0].difference is None
    front.ask("branch")
    assert front.board.branches[0].lab.trace == lab.trace
    front.ask("run", seconds=1, run=2)
    assert [side.ledger.balance for side in lab.sides] == [20, 20]


def test_nothing_runs_when_nothing_is_asked_for(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="")
    assert [thread for thread in threading.enumerate() if thread.name == "qlab-board"] == []


SAVED = {"qlab_lab": 1, "drivers": ["memory"], "seed": 0, "workers": 1, "policy": {}}


@pytest.mark.parametrize(
    ("command", "arguments", "says"),
    [
        ("step", {"worker": 9}, "worker is 9: there are 1 to 2"),
        ("complete", {"worker": 1}, "worker 1 holds no job: let it reserve one first"),
        ("dispatch_text", {"handler": "pey", "payload": ""}, "did you mean 'pay'?"),
        ("dispatch_text", {"handler": "pay", "payload": "{"}, "Expecting property name"),
        ("dispatch_text", {"handler": "pay", "payload": "NaN"}, "nan"),
        ("retry", {"which": 99}, "no failed job 99"),
        ("close", {}, "there is no command 'close'"),
        ("step", {"nonsense": 1}, "unexpected keyword argument"),
        ("load", {"text": "[]"}, "holds no saved lab"),
        ("load", {"text": json.dumps(SAVED | {"actions": [["close", {}]]})}, "'close' is no action of a lab"),
    ],
)
def test_what_goes_wrong_is_told_and_kept(front: Front, command: str, arguments: dict[str, Any], says: str) -> None:
    assert says in front.ask(command, **arguments)["error"]
    assert says in front.board.everything()["head"]["problem"]
    assert says in str(front.board.errors[-1])
    front.ask("statements")
    assert front.board.everything()["head"]["problem"] != ""
    front.ask("advance", seconds=1)
    assert front.board.everything()["head"]["problem"] == ""


def test_a_large_integer_survives_the_browser(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload=str(2**63 + 1))
    assert front.board.lab.queue.jobs()[0].payload == 2**63 + 1
    assert front.ask("payload", side=0, job=1)["result"] == str(2**63 + 1)


def test_what_a_store_has_deleted_has_no_payload(front: Front) -> None:
    front.board.lab.change_policy(tries=1)
    front.ask("dispatch_text", handler="pay", payload='"gone"')
    front.ask("dispatch_text", handler="broken", payload='"kept"')
    front.ask("run", seconds=0, run=1)
    assert "deleted" in front.ask("payload", side=0, job=1)["result"]
    assert front.ask("payload", side=0, job=2)["result"] == '"kept"'


def test_the_statements_of_the_last_action(labs: Callable[..., Lab]) -> None:
    front = Front(labs(["sqlite", "memory"]).board())
    front.ask("dispatch_text", handler="pay", payload="")
    front.ask("reserve", worker=1)
    sqlite, memory = front.ask("statements")["result"]
    assert [(verb, language) for verb, language, _, _ in sqlite] == [("reserve", "SQL")]
    assert memory == []


def test_pictures_and_files_come_as_bytes(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="")
    captions = front.ask("plots")["result"]
    shown = ("completed", "waits", "ready", "attempts", "what each job was in", "what each worker had in hand")
    assert len(front.buffers[-1]) == len(captions) == len(shown)
    assert [word in caption for word, caption in zip(shown, captions, strict=True)] == [True] * len(shown)
    assert all(picture.startswith(b"\x89PNG") for picture in front.buffers[-1])
    front.ask("export", form="csv")
    assert front.buffers[-1][0].startswith(b"driver,at,kind,job")
    assert "use one of" in front.ask("export", form="exe")["error"]


def test_a_lab_is_saved_and_loaded_in_place(front: Front) -> None:
    lab = front.board.lab
    front.ask("dispatch_text", handler="flaky", payload="")
    front.ask("run", seconds=100, run=1)
    saved, digest = front.ask("save")["result"], lab.trace.digest()
    front.ask("reset")
    assert len(lab.trace) == 0
    front.ask("load", text=saved)
    assert lab.trace.digest() == digest
    assert front.board.lab is lab


# -- branches, and what is left behind --


def test_a_branch_goes_its_own_way(front: Front) -> None:
    lab = front.board.lab
    front.ask("dispatch_text", handler="pay", payload="", count=2)
    front.ask("step", worker=1)
    front.ask("branch", events=2)
    (branch,) = front.board.branches
    assert front.board.everything()["head"]["branches"] == [[branch.model_id, "lab, branched at 2"]]
    assert (len(branch.lab.trace), len(lab.trace)) == (2, 4)
    branch.lab.step(2)
    assert branch.lab.trace != lab.trace
    front.ask("branch", events=2)
    front.ask("branch", events=2)
    assert [one.lab.name for one in front.board.branches] == [
        "lab, branched at 2",
        "lab, branched at 2 (2)",
        "lab, branched at 2 (3)",
    ]
    for one in front.board.branches[1:]:
        front.ask("close_branch", branch=one.model_id)
    assert len(branch.lab.trace) == 4
    front.ask("close_branch", branch=branch.model_id)
    assert front.board.branches == []
    assert branch.comm is None
    assert branch.lab.closed


def models() -> int:
    """Count the widgets that are alive."""
    return len(ipywidgets.widgets.widget._instances)  # noqa: SLF001 - there is no other way to count them


def test_one_lab_has_one_board_and_a_name_has_one_too(labs: Callable[..., Lab]) -> None:
    lab = labs("memory")
    assert lab.board() is lab.board()
    before = models()
    for _ in range(20):
        again = labs("memory")
        again.dispatch("pay")
        again.board()
    assert models() == before


def test_closing_leaves_nothing(labs: Callable[..., Lab]) -> None:
    before = models()
    for number in range(50):
        lab = labs("memory", name=f"lab {number % 2}")
        Front(lab.board()).ask("branch")
        lab.board().close()
        lab.board().close()
    for number in range(2):
        lab = labs("memory", name=f"lab {number}")
        lab.board().close()
    assert models() == before


def test_a_closed_lab_is_told_as_closed(front: Front) -> None:
    front.ask("dispatch_text", handler="pay", payload="")
    front.board.lab.close()
    assert front.board.wait(DEADLINE)
    assert front.told[-1]["head"] == {"closed": True}
    assert "closed" in front.ask("step", worker=1)["error"]
    assert len(front.board.everything()["sides"][0]["events"]["at"]) == 1


def test_errands_go_on_after_one_that_raises() -> None:
    errands, done = Errands(), threading.Event()
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        errands.add(lambda: 1 // 0)
        assert errands.wait(DEADLINE)
        errands.add(done.set)
        assert errands.wait(DEADLINE)
    finally:
        threading.excepthook = hook
    assert done.is_set()


# -- without a kernel --


def test_the_static_form(labs: Callable[..., Lab]) -> None:
    lab = labs(["sqlite", "memory"])
    lab.handler("<b>&")(lambda job: None)
    lab.dispatch("<b>&", count=60)
    lab.run(0)
    data, _ = lab.board()._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert len(data["text/plain"]) < 200
    assert data["text/html"] == still(lab)
    assert data["text/html"].count("<img") == data["text/html"].count("<table") == 2
    assert "<svg" not in data["text/html"]  # which a page that is cleaned of scripts would lose
    assert "&lt;b&gt;&amp;" in data["text/html"]
    assert "<b>&" not in data["text/html"]
    assert 'alt="sqlite: 0 delayed, 0 ready, 0 reserved, 60 done, 0 failed"' in data["text/html"]


def test_a_page_fetches_nothing_and_no_text_ends_its_script(labs: Callable[..., Lab], tmp_path: Path) -> None:
    lab = labs("sqlite")
    lab.handler("</script><!--")(lambda job: None)
    lab.dispatch("</script><!--", "</script><script>alert(1)</script>")
    text = lab.export(tmp_path / "lab.html").read_text(encoding="utf-8")
    assert text.count("</script>") == text.count("<script") == 2
    assert "alert(1)" in text
    links = [part.split('"')[0] for mark in ('src="', 'href="', "url(") for part in text.split(mark)[1:]]
    assert [link for link in links if link.startswith(("http", "//"))] == []


def test_every_form_can_be_written(labs: Callable[..., Lab], tmp_path: Path) -> None:
    lab = labs(["memory", "sqlite"])
    lab.dispatch("broken", "=1+1")
    lab.run(100)
    starts = {".csv": b"driver,", ".html": b"<!doctype html>", ".png": b"\x89PNG", ".svg": b"<?xml"}
    assert {*starts, ".parquet"} == set(FORMS)
    for ending, start in starts.items():
        assert lab.export(tmp_path / f"lab{ending}").read_bytes().startswith(start)
    if find_spec("pyarrow") is None:
        with pytest.raises(MissingRequirement, match="needs pyarrow"):
            lab.export(tmp_path / "lab.parquet")
    else:
        assert lab.export(tmp_path / "lab.parquet").read_bytes().startswith(b"PAR1")
    with pytest.raises(ValueError, match=r"use one of \.csv, \.html"):
        lab.export(tmp_path / "lab.docx")


def test_a_closed_lab_can_be_exported(labs: Callable[..., Lab], tmp_path: Path) -> None:
    lab = labs("sqlite")
    lab.dispatch("pay")
    lab.close()
    assert "pay" in lab.export(tmp_path / "lab.html").read_text(encoding="utf-8")


# -- the front end's reducer, held equal to Trace.at by vectors that both read --


def _late() -> Trace:
    """Runs a job twice, fails and retries, extends, gives back, restarts, forgets."""
    with Lab("memory", name="vectors") as lab:

        @lab.handler("long")
        def long(job: Attempt) -> Iterator[float]:
            yield 60
            job.progress(1, 2)
            job.extend(100)
            yield 60

        lab.dispatch("pay", {"amount": 5}, count=2)
        lab.dispatch("pay", delay=30)
        lab.reserve(1)
        lab.pause(1)
        lab.resume(1)
        lab.crash(1)
        lab.resume(1)
        lab.pause(2)
        lab.resume(2)
        lab.crash(2)
        lab.resume(2)
        lab.reserve(1)
        lab.advance(95)
        lab.step(2)
        lab.step(2)
        lab.complete(1)
        lab.dispatch("long")
        lab.dispatch("broken", count=2)
        lab.run(200)
        lab.retry(1)
        lab.forget(2)
        lab.reserve(1)
        lab.restart()
        lab.dispatch("pay")
        lab.step(1)
        lab.dispatch("broken", count=2)
        lab.run(200)
        lab.restart()
        lab.dispatch("pay", count=3)
        return lab.trace


def _played(scenario: str, driver: str) -> Trace:
    with Lab(driver, name="vectors", seed=7) as lab:
        lab.play(scenario)
        lab.run(400)
        return lab.trace


TRACES: dict[str, Callable[[], Trace]] = {
    "all_kinds": lambda: _played("all_kinds", "memory"),
    "between_polls": lambda: _played("between_polls", "memory://?order=arrival"),
    "late": _late,
}


def _vector(trace: Trace) -> dict[str, Any]:
    moments = sorted({event.at for event in trace} | {event.until for event in trace if event.until is not None})
    chosen = [0.0, *(moment for moment in moments if moment < 1e6)][:: max(1, len(moments) // 16)]
    return {"events": packed(trace), "moments": [_moment(trace, at) for at in [*chosen, 1e6]]}


def _moment(trace: Trace, at: float) -> dict[str, Any]:
    moment = trace.at(at)
    jobs = [
        [seen.id, seen.name, seen.attempts, seen.available_at, seen.worker, seen.reserved, seen.settled, seen.detail,
         seen.state(at)]
        for seen in (*moment.before, *moment.jobs.values())
    ]  # fmt: skip
    return {"at": at, "jobs": jobs, "counts": list(moment.counts())}


def _seconds() -> list[list[Any]]:
    values = [0.0, 0.000004, 0.1, 0.0999, 1.0, 12.5, 37.565, 90.0, 1_234.0, 86_400.0, 0.123456]
    return [[value, seconds(value)] for value in values]


def test_the_vectors_are_what_python_says() -> None:
    """Run with QLAB_WRITE_VECTORS=1 to write them again."""
    made = {f"trace_{name}": _vector(make()) for name, make in TRACES.items()} | {"seconds": _seconds()}
    for name, vector in made.items():
        file = VECTORS / f"{name}.json"
        if os.environ.get("QLAB_WRITE_VECTORS"):
            file.write_text(json.dumps(vector, separators=(",", ":")) + "\n", encoding="utf-8")
        assert json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(vector)), name
