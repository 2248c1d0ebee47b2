"""Scenarios and runs as files: they come back as they were, and what is damaged is told."""

import copy
import json
import math
import pickle
import resource
import zipfile
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from conftest import only
from test_workload import ARRIVALS, DISTRIBUTIONS, OTHERS

from qlab import Policy, Run, Trace, saved, simulate
from qlab.cost import Cost
from qlab.driver import Driver
from qlab.faults import Away, Crash, Drain, Fault, Locked, LostReply, Pause, Restart, Skew
from qlab.scenario import KINDS, NAMED, Arrival, Behaviour, Poll, Scenario, named
from qlab.trace import Kind
from qlab.workload import Budget, Chance, Clients, Exponential, Fixed, Poisson, Recorded, RecordedJob, Varying, Workload

FAULTS: list[Any] = [
    Crash("resize", back_after=5.0, when="completing", times=None),
    Crash(at=Poisson(0.01), worker=2, recover="all"),
    Pause(30.0, at=12.5),
    LostReply("push", at=3.0, times=2, handler="resize"),
    Locked(10.0, 2.5),
    Away(20.0, 1.0),
    Skew(1, -0.25),
    Restart(Poisson(0.001), back_after=5.0, what="server"),
    Drain(60.0, grace=10.0, then="leave", back_after=None),
]
ODD = {
    "class": "Poisson",
    "nested": [{"class": ["é", "\u2028", "😀", 'a "quote"', "\\", "\x00"]}, [], {}, None, True, 1.5, 10**400, -0.0],
}
SCENARIO = Scenario(
    "everything at once",
    (Arrival(0.1, "resize", ODD), Arrival(7.0, "class", None, 2.5)),
    {"resize": Behaviour(1.0, fails=None, error="no « such » order"), "class": Behaviour()},
    about="A handler may be called class.",
    workers=3,
    poll=Poll(0.5, jitter=0.1, phase=0.0),
    batch=4,
    faults=tuple(FAULTS),
    policy=Policy(tries=None, backoff=(), retry_after=None, jitter=0.5, seed=-(2**80)),
    seed=2**80,
)


def text_of(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# -- scenarios --


@pytest.mark.parametrize("name", NAMED)
def test_a_named_scenario_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    scenario = named(name, seed=7)
    file = scenario.save(tmp_path / "scenario.json")
    assert Scenario.load(file) == scenario
    assert Scenario.load(str(file)) == scenario
    assert files(tmp_path) == ["scenario.json"]


def test_a_scenario_with_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    back = Scenario.load(SCENARIO.save(tmp_path / "scenario.json"))
    assert back == SCENARIO
    assert repr(back) == repr(SCENARIO)
    assert back.save(tmp_path / "again.json").read_bytes() == (tmp_path / "scenario.json").read_bytes()


WORKLOADS = [
    *(one for one in OTHERS if isinstance(one, Workload)),
    *(Workload(arrivals, jobs=10) for arrivals in ARRIVALS),
    *(Workload(Poisson(1.0), service) for service in DISTRIBUTIONS),
    *(Workload(Poisson(1.0), failures=one) for one in OTHERS if hasattr(one, "fails")),
    Workload(Recorded([RecordedJob(0.0, payload=ODD)])),
    Workload(Poisson(1.0), {"class": Fixed(1.0)}, names={"class": 2}),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
def test_every_workload_comes_back_as_it_was(tmp_path: Path, workload: Workload) -> None:
    back = saved.load(saved.save(workload, tmp_path / "workload.json", KINDS), Workload, KINDS)
    assert back == workload
    assert repr(back) == repr(workload)


def test_every_kind_that_can_be_saved_was_tried() -> None:
    text = repr((SCENARIO, WORKLOADS, OTHERS))
    assert [name for name in KINDS if f"{name}(" not in text] == []
    assert {type(fault) for fault in FAULTS} == set(get_args(Fault))


def test_the_file_is_for_people(tmp_path: Path) -> None:
    file = Scenario("plain", (Arrival(1.5, "résumé"),), {"résumé": Behaviour(2.0)}).save(tmp_path / "plain.json")
    lines = file.read_text("utf-8").splitlines()
    assert lines[:4] == ["{", '  "qlab": "scenario",', '  "version": 1,', '  "scenario": {']
    assert '      {"class": "Arrival", "at": 1.5, "name": "résumé", "payload": null, "delay": 0.0}' in lines or (
        '    "arrivals": [{"class": "Arrival", "at": 1.5, "name": "résumé", "payload": null, "delay": 0.0}],' in lines
    )


def test_what_is_left_out_by_hand_is_as_in_python(tmp_path: Path) -> None:
    file = tmp_path / "short.json"
    short = {"class": "Scenario", "name": "short", "arrivals": [], "handlers": {}, "poll": 2}
    file.write_text("\ufeff" + json.dumps({"qlab": "scenario", "version": 1, "scenario": short}), "utf-8")
    assert Scenario.load(file) == Scenario("short", (), {}, poll=2.0)


class Coin(Fixed):
    """A distribution of somebody's own."""


def rate(now: float) -> float:
    return 1.0


UNSAVABLE: list[tuple[Any, str]] = [
    (Scenario("a", (), {}, policy=Policy(backoff=rate)), "policy.backoff is <function rate"),
    (Scenario("a", (), {}, policy=Policy(backoff=rate)), "state the backoff as seconds, such as (10.0, 60.0, 300.0)"),
    (Workload(Varying(rate, most=2.0)), "state the rate as steps ((from second, rate), …)"),
    (
        Workload(Poisson(1.0), Coin(1.0)),
        "service is Coin(seconds=1.0), which cannot be saved: use one of Always, Arrival",
    ),
    (Workload(Poisson(1.0), {"job": Coin(1.0)}), "service['job'] is Coin(seconds=1.0)"),
    (Scenario("a", (Arrival(0.0, "b", {"x": {1}}),), {"b": Behaviour()}), "arrivals[0].payload: payload['x']"),
    (Scenario("a", (Arrival(0.0, "b", math.nan),), {"b": Behaviour()}), "arrivals[0].payload"),
    (Behaviour(seconds=math.inf), "seconds is inf, which cannot be saved"),
    (Scenario("a\ud800", (), {}), "name has 'a\\ud800', which is no text that a file can hold"),
]


@pytest.mark.parametrize(("value", "says"), UNSAVABLE, ids=[says for _, says in UNSAVABLE])
def test_what_no_file_can_hold_is_refused_before_anything_is_written(tmp_path: Path, value: Any, says: str) -> None:
    file = tmp_path / "file.json"
    file.write_text("what was there before")
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        saved.save(value, file, KINDS)
    assert says in str(refusal.value)
    assert file.read_text() == "what was there before"
    assert files(tmp_path) == ["file.json"]


def change(*place: Any, to: Any) -> Callable[[Any], Any]:
    def changed(data: Any) -> Any:
        *way, last = place
        inner = data
        for step in way:
            inner = inner[step]
        if to is KeyError:
            del inner[last]
        else:
            inner[last] = to
        return data

    return changed


S = "scenario"
DAMAGED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda data: [], 'it is no saved scenario: one begins with {"qlab": "scenario", "version": 1'),
    (lambda data: {}, "it is no saved scenario"),
    (change("qlab", to="run"), "it is a saved run, and no scenario"),
    (change("version", to=2), "its version is 2, this qlab knows up to 1: load it with a newer one"),
    (change("version", to="1"), "its version is '1': it is damaged"),
    (change("version", to=0), "its version is 0: it is damaged"),
    (change(S, to=KeyError), "it has no scenario: it is damaged"),
    (change(S, to=None), "it has no scenario: it is damaged"),
    (change(S, to={"class": "Fixed", "seconds": 1}), "it has no scenario: it is damaged"),
    (change(S, "class", to="Szenario"), "there is no class 'Szenario': did you mean 'Scenario'? use one of Always"),
    (change(S, "policy", "class", to="os.system"), "policy: there is no class 'os.system': use one of Always"),
    (change(S, "wrokers", to=3), "Scenario has no 'wrokers': it has name, arrivals"),
    (change(S, "name", to=KeyError), "Scenario needs name: say what it is"),
    (change(S, "arrivals", 1, "at", to=KeyError), "arrivals[1]: Arrival needs at: say what it is"),
    (change(S, "workers", to=0), "no Scenario can be made of this: workers is 0: use a number from 1"),
    (change(S, "policy", "tries", to=0), "policy: no Policy can be made of this: tries is 0: use an integer from 1"),
    (change(S, "policy", to={"class": "Budget"}), "no Scenario can be made of this: policy is Budget("),
    (
        change(S, "faults", 1, to={"class": "Always"}),
        "no Scenario can be made of this: faults[1] is Always()",
    ),
    (change(S, "arrivals", 1, "at", to="soon"), "no Scenario can be made of this: arrivals[1].at is 'soon'"),
    (change(S, "poll", "jitter", to=2), "poll: no Poll can be made of this: Poll.jitter is 2"),
    (change(S, "faults", 2, "seconds", to="x"), "faults[2]: no Pause can be made of this: Pause.seconds is 'x'"),
    (change(S, "faults", 1, "at", "rate", to=-1), "faults[1].at: no Poisson can be made of this: rate is -1"),
]


@pytest.mark.parametrize(("change", "says"), DAMAGED, ids=[says for _, says in DAMAGED])
def test_a_scenario_that_cannot_be_is_refused_with_its_place(tmp_path: Path, change: Any, says: str) -> None:
    file = SCENARIO.save(tmp_path / "scenario.json")
    file.write_text(json.dumps(change(text_of(file))), "utf-8")
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        Scenario.load(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is damaged, or no saved file of qlab"),
        (b"\x80\x04\x95.", "it is no text in UTF-8"),
        (b"PK\x03\x04", "it is an archive: a saved run is read by Run.load"),
        (b'{"qlab": "scenario", "version": 1, "version": 1}', "it has the key 'version' twice in one place"),
        (b'{"qlab": "scenario", "version": NaN}', "it has NaN, which is no JSON"),
        (b'{"qlab": "scenario", "version": 1, "scenario": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"qlab": "scenario", "version": 1, "scenario": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
        (b'{"qlab": "scenario", "version": 1' + b"0" * 5_000 + b"}", "4300 digits"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(content)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        Scenario.load(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert says in str(refusal.value)


def test_a_file_that_was_damaged_anywhere_is_refused_or_is_another_scenario(tmp_path: Path) -> None:
    file = SCENARIO.save(tmp_path / "scenario.json")
    whole, random, refused = file.read_bytes(), Random(7), 0
    for _ in range(600):
        place = random.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place : place + random.randrange(3)] = random.randbytes(random.randrange(3))
        file.write_bytes(damaged)
        with suppress(ValueError):  # and nothing else is raised
            refused += 1
            assert isinstance(Scenario.load(file), Scenario)
            refused -= 1
    assert refused > 100


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    file = named("between_polls").save(tmp_path / "scenario.json")
    before = file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            named("all_kinds").save(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    assert files(tmp_path) == ["scenario.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none"):
        SCENARIO.save(tmp_path / "none" / "scenario.json")
    with pytest.raises(FileNotFoundError):
        Scenario.load(tmp_path / "none.json")


def test_a_link_stays_one_and_a_new_file_has_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    named("all_kinds").save(tmp_path / "link.json")
    (tmp_path / "usual").touch()
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").stat().st_mode == (tmp_path / "usual").stat().st_mode


# -- runs --

BUSY = replace(
    SCENARIO,
    name="busy",
    faults=(Crash("resize", back_after=5.0), Pause(100.0, at=30.0, worker=2), Away(50.0, 10.0)),
    policy=Policy(retry_after=20.0, backoff=(5.0,)),
    workload=Workload(
        Poisson(0.5),
        Exponential(3.0),
        Chance(0.2),
        names={"mail": 1, "résumé": 2},
        jobs=60,
        capacity=8,
        clients=Clients(10.0, 3, (5.0,), "full", budget=Budget()),
    ),
)


def busy(until: float = math.inf, **how: Any) -> Run:
    return simulate("memory://", BUSY, until=until, **how)


@pytest.mark.parametrize("name", NAMED)
def test_the_run_of_a_named_scenario_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    run = simulate("memory://", named(name, seed=7))
    back = Run.load(run.save(tmp_path / "one.run"))
    assert back == run
    assert back.trace.difference(run.trace) is None
    assert repr(back) == repr(run)


@only("memory", "sqlite", "redis_list-redis", "redis_zset-redis")
def test_a_run_on_any_store_says_afterwards_on_which(driver: Driver, tmp_path: Path) -> None:
    run = simulate(driver, named("all_kinds", seed=7))
    back = Run.load(run.save(tmp_path / "one.run"))
    assert back == run
    assert (back.driver, back.description, back.durability) == (driver.name, driver.description, driver.durability)


def test_a_run_with_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    run = busy(until=200.0, cost=Cost(reserve=0.25), record_polls=False)
    assert len(run.requests) == 60
    assert {Kind.REJECTED, Kind.CRASHED, Kind.PAUSED, Kind.SUPERSEDED} <= {event.kind for event in run.trace}
    back = Run.load(run.save(tmp_path / "one.run"))
    assert back == run
    assert (back.digest, back.requests, back.cost) == (run.digest, run.requests, run.cost)
    assert back.at(100.0) == run.at(100.0)
    assert back.save(tmp_path / "two.run").read_bytes() == (tmp_path / "one.run").read_bytes()
    assert files(tmp_path) == ["one.run", "two.run"]


def test_a_run_that_was_loaded_can_be_branched(tmp_path: Path) -> None:
    run = busy()
    back = Run.load(run.save(tmp_path / "one.run"))
    assert back.planned_until == math.inf
    assert back.branch(60.0, {"retry_after": 5.0}).digest == run.branch(60.0, {"retry_after": 5.0}).digest
    assert back.branch(60.0, {}).digest == run.digest


def test_a_scenario_and_its_run_travel_to_another_process() -> None:
    run = busy()
    assert pickle.loads(pickle.dumps(SCENARIO)) == copy.deepcopy(SCENARIO) == SCENARIO
    back = pickle.loads(pickle.dumps(run))
    assert back == run
    assert (back.digest, back.queue) == (run.digest, None)


def test_the_trace_of_a_run_that_was_loaded_goes_on() -> None:
    whole = busy().trace
    again = Trace.of_columns(*whole.columns())
    for trace in (whole, again):
        trace.record(1_000.0, Kind.DISPATCHED, 99, "new", worker="worker 1")
    assert again == whole
    assert again.digest() == whole.digest()


def test_a_run_without_an_event_comes_back_too(tmp_path: Path) -> None:
    run = simulate("memory://", name="nothing")
    assert len(run.trace) == 0
    assert Run.load(run.save(tmp_path / "one.run")) == run


def test_a_scenario_that_no_file_can_hold_is_told_before_a_run_is_written(tmp_path: Path) -> None:
    run = simulate("memory://", workload=Workload(Varying(rate, most=2.0), jobs=3))
    with pytest.raises(ValueError, match=r"^scenario.workload.arrivals.rate is .* state the rate as steps"):
        run.save(tmp_path / "one.run")
    assert files(tmp_path) == []


def test_the_columns_can_be_read_without_qlab(tmp_path: Path) -> None:
    run = busy()
    with zipfile.ZipFile(run.save(tmp_path / "one.run")) as archive:
        head = json.loads(archive.read("run.json"))
        at = archive.read("trace/at")
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}  # equal runs, equal files
    assert head["digest"] == run.digest
    assert head["tables"]["trace"]["at"] == ["q", len(run.trace)]
    moments = [int.from_bytes(at[i : i + 8], "little", signed=True) / 1e6 for i in range(0, len(at), 8)]
    assert moments == [event.at for event in run.trace]


def test_kinds_of_events_keep_their_numbers_in_files() -> None:
    assert [str(kind) for kind in Kind][:21] == [
        *("dispatched", "reserved", "extended", "completed", "released", "failed", "expired", "superseded", "retried"),
        *("forgotten", "recovered", "cleared", "missed", "blocked", "crashed", "progressed", "paused", "resumed"),
        *("restarted", "lost", "rejected"),
    ]


def rewritten(file: Path, changes: dict[str, Any]) -> Path:
    """Change entries of an archive: bytes as they are, a function on what `run.json` says, None for none."""
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for name, to in changes.items():
        if to is None:
            del entries[name]
        else:
            entries[name] = to if isinstance(to, bytes) else json.dumps(to(json.loads(entries[name]))).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file


H = "run.json"
DAMAGED_RUNS: list[tuple[dict[str, Any], str]] = [
    ({H: None}, "it is damaged, or no saved run: \"There is no item named 'run.json' in the archive\""),
    ({H: b"[]"}, "it is no saved run: one begins with"),
    ({H: b"["}, "it is damaged, or no saved file of qlab"),
    ({H: change("qlab", to="scenario")}, "it is a saved scenario, and no run"),
    ({H: change("version", to=2)}, "its version is 2, this qlab knows up to 1"),
    ({H: change("digest", to="0" * 16)}, "and was 0000000000000000: it is damaged"),
    ({H: change("texts", 1, to="another")}, "it is damaged"),
    ({H: change("texts", to=[""])}, "the column 'name' has the number"),
    ({H: change("texts", 1, to="")}, "the texts do not begin with the empty one, or one stands there twice"),
    ({H: change("texts", to=None)}, "it does not say which texts its events have"),
    ({H: change("kinds", 2, to="exploded")}, "events that this qlab does not know, such as 'exploded'"),
    ({H: change("kinds", to=None)}, "it does not say which kinds of events it has"),
    ({H: change("driver", to=7)}, "its driver is 7: it is damaged"),
    ({H: change("until", to=KeyError)}, "its until is None: it is damaged"),
    ({H: change("scenario", to=None)}, "its scenario is None: it is damaged"),
    ({H: change("scenario", "workers", to=0)}, "scenario: no Scenario can be made of this: workers is 0"),
    ({H: change("scenario", "policy", "class", to="os.system")}, "scenario.policy: there is no class 'os.system'"),
    ({H: change("tables", "trace", "at", to=KeyError)}, "the column 'at' is missing"),
    ({H: change("tables", "requests", "asked", to=KeyError)}, "the column 'asked' is missing"),
    ({H: change("tables", to=KeyError)}, "it is damaged, or no saved run: 'tables'"),
    ({H: change("tables", "trace", "at", 1, to=10**9)}, "its trace/at has not the length that run.json says"),
    ({H: change("tables", "trace", "at", 0, to="u")}, "its trace/at is of the type 'u'"),
    ({"trace/at": None}, "no item named 'trace/at'"),
    ({"trace/kind": b"\xff"}, "its trace/kind has not the length"),
]


@pytest.mark.parametrize(("changes", "says"), DAMAGED_RUNS, ids=[says for _, says in DAMAGED_RUNS])
def test_a_run_that_cannot_be_is_refused_with_its_place(tmp_path: Path, changes: Any, says: str) -> None:
    file = rewritten(busy().save(tmp_path / "one.run"), changes)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        Run.load(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert says in str(refusal.value)


def test_an_event_that_was_changed_is_noticed(tmp_path: Path) -> None:
    run = busy()
    for name, column in run.trace.columns()[0].items():
        changed = array(column.typecode, column)
        changed[len(changed) // 2] ^= 1
        file = rewritten(run.save(tmp_path / "one.run"), {f"trace/{name}": changed.tobytes()})
        with pytest.raises(ValueError, match=f"and was {run.digest}: it is damaged"):
            Run.load(file)


def test_a_run_that_was_damaged_anywhere_is_refused_or_is_the_same(tmp_path: Path) -> None:
    run, random, refused = busy(), Random(7), 0
    file = run.save(tmp_path / "one.run")
    whole = file.read_bytes()
    for _ in range(600):
        damaged = bytearray(whole)
        if random.random() < 0.2:
            del damaged[random.randrange(len(whole)) :]
        else:
            damaged[random.randrange(len(whole))] = random.randrange(256)
        file.write_bytes(damaged)
        with suppress(ValueError):  # and nothing else is raised
            refused += 1
            assert Run.load(file) == run
            refused -= 1
    assert refused > 400


def test_a_file_that_is_no_run_is_told_what_it_is(tmp_path: Path) -> None:
    file = SCENARIO.save(tmp_path / "scenario.json")
    with pytest.raises(ValueError, match="it is text: a saved scenario is read by Scenario.load"):
        Run.load(file)
    with pytest.raises(ValueError, match="it is an archive: a saved run is read by Run.load"):
        Scenario.load(busy().save(tmp_path / "one.run"))
    file.write_bytes(pickle.dumps(print))
    with pytest.raises(ValueError, match="no saved run"):
        Run.load(file)
    with pytest.raises(FileNotFoundError):
        Run.load(tmp_path / "none.run")
