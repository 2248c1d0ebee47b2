"""What a store's verbs cost: what is measured and told, and that nothing of it is left."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import ONE_OF_EACH, QUEUE, Store, only, push, snapshot

from qlab import Cost, calibrate, simulate
from qlab.calibration import Calibration, Measured
from qlab.cli import main
from qlab.driver import Driver, Durability
from qlab.drivers.paced import PacedDriver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.troubled import Troubled
from qlab.errors import DriverUnavailable, QlabError
from qlab.faults import Away
from qlab.workload import Every, Fixed, Workload

VERBS = ["push", "reserve", "complete", "complete_and_reserve", "release", "fail"]


def measured(**seconds: float) -> Calibration:
    """A calibration by hand; each round of a verb took so long, but for the last, which took twice as long."""
    verbs = tuple(Measured(verb, each, each, each * 2) for verb, each in seconds.items())
    return Calibration("sqlite", "SQLite 3.40.1", Durability("a", "b", "c"), verbs, 10, 3, 2.5, 2)


def left_on(driver: Driver) -> Any:
    """What a store holds besides a queue's jobs."""
    if isinstance(driver, RedisStore):
        return sorted(driver._client.scan_iter(match=f"{driver.prefix}:*"))  # noqa: SLF001 - no verb tells of other queues
    return driver.failed("")


def test_each_verb_is_measured_on_each_driver_and_nothing_is_left(driver: Driver, store: Store) -> None:
    push(driver, "A", "B", now=1.0)
    before, keys = snapshot(driver, now=1.0), left_on(driver)
    told: list[float] = []
    found = calibrate(driver, jobs=3, repeats=2, progress=told.append)
    assert [each.verb for each in found.verbs] == VERBS
    for each in found.verbs:
        assert 0 < each.least <= each.seconds <= each.most < math.inf
    assert (found.driver, found.description, found.durability) == (driver.name, driver.description, driver.durability)
    assert told == [0.5, 1.0]
    assert (snapshot(driver, now=1.0), left_on(driver)) == (before, keys)


@only(*ONE_OF_EACH)
def test_a_store_may_be_named_by_its_address(address: str, open_again: Callable[[], Driver]) -> None:
    assert calibrate(address, jobs=2, repeats=1).description == open_again().description


@only(*ONE_OF_EACH)
@pytest.mark.parametrize("verb", ["reserve", "complete_and_reserve", "release", "fail", "forget"])
def test_nothing_is_left_where_it_is_interrupted(driver: Driver, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real, calls = left_on(driver), getattr(driver, verb), []

    def interrupted(*args: Any, **how: Any) -> Any:
        calls.append(verb)
        if len(calls) == 13:
            raise KeyboardInterrupt
        return real(*args, **how)

    monkeypatch.setattr(driver, verb, interrupted)
    queues: list[str] = []
    pushed = driver.push
    monkeypatch.setattr(driver, "push", lambda queue, *args, **how: queues.append(queue) or pushed(queue, *args, **how))
    with pytest.raises(KeyboardInterrupt):
        calibrate(driver, jobs=1 if verb == "forget" else 20, repeats=50)
    (queue,) = set(queues)
    assert queue != QUEUE
    assert snapshot(driver, now=3.0, queue=queue) == snapshot(driver, now=3.0, queue="never used")
    assert left_on(driver) == before


@only("memory")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"jobs": 0}, "jobs is 0: use a number from 1"),
        ({"jobs": 1.5}, "jobs is 1.5: use a number from 1"),
        ({"repeats": True}, "repeats is True: use a number from 1"),
    ],
)
def test_what_is_no_number_is_refused(driver: Driver, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        calibrate(driver, **more)


@only("memory")
def test_a_store_that_is_slowed_down_or_away_is_no_store_to_measure(driver: Driver) -> None:
    paced = PacedDriver(driver, pace=60.0, cap=None, day_ends=lambda at: at + 86_400.0)
    with pytest.raises(QlabError, match="gave no job although some wait"):
        calibrate(paced)
    with pytest.raises(DriverUnavailable):
        calibrate(Troubled(driver, [Away(0.0, 100.0)]))


def test_the_cost_is_the_medians() -> None:
    found = measured(push=1e-4, reserve=2e-4, complete=3e-4, complete_and_reserve=4e-4, release=5e-4, fail=6e-4)
    assert found.cost == Cost(1e-4, 2e-4, 3e-4, 5e-4, 6e-4, serial=True, about="SQLite 3.40.1")


@only(*ONE_OF_EACH)
def test_a_measured_cost_is_what_a_simulated_run_pays(driver: Driver) -> None:
    cost = calibrate(driver, jobs=2, repeats=1).cost
    work = Workload(Every(1.0), Fixed(0.5), jobs=3)
    run = simulate("memory://", workload=work, cost=cost, poll=None)
    assert run.cost == cost
    assert run.until > simulate("memory://", workload=work, poll=None).until


def test_a_cost_is_saved_and_loaded_as_it_was(tmp_path: Path) -> None:
    cost = Cost(push=1e-4, fail=0.25, serial=False, about="SQLite 3.40.1, WAL, synchronous=FULL")
    assert Cost.load(cost.save(tmp_path / "cost.json")) == cost


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("0.25", "-0.25"), "Cost.fail is -0.25"),
        (lambda text: text.replace('"fail"', '"fall"'), "fall"),
        (lambda text: text.replace('"qlab": "cost"', '"qlab": "run"'), "it is a saved run, and no cost"),
        (lambda text: text[:-10], "it is damaged"),
    ],
)
def test_a_damaged_cost_is_refused_by_name(change: Callable[[str], str], says: str, tmp_path: Path) -> None:
    file = Cost(fail=0.25).save(tmp_path / "cost.json")
    file.write_text(change(file.read_text()))
    with pytest.raises(ValueError, match=says) as refused:
        Cost.load(file)
    assert str(file) in str(refused.value)


# -- what people read --


def test_it_shows_itself_as_a_table_in_microseconds() -> None:
    found = measured(push=44.123e-6, fail=0.0012345)
    assert found.rows() == [
        {"verb": "push", "median µs": 44.1, "least µs": 44.1, "most µs": 88.2, "calls a second": 22664},
        {"verb": "fail", "median µs": 1230, "least µs": 1230, "most µs": 2470, "calls a second": 810},
    ]
    assert repr(found) == "<Calibration of SQLite 3.40.1: push 44.1 µs, fail 1230 µs>"
    shown = found._repr_html_()
    assert all(text in shown for text in ("SQLite 3.40.1", "44.1", "1230", "calls a second"))


def test_rounds_that_differ_are_told_with_what_the_machine_did() -> None:
    noisy = measured(push=1e-5)
    assert noisy.noise == (
        "push took from 10.0 to 20.0 µs, the machine or its disk was busy with something else (load 2.5 on 2 "
        "processors): measure again when it is not, and trust ratios more than numbers"
    )
    quiet = Calibration(
        "sqlite", "SQLite", Durability("", "", ""), (Measured("push", 1e-5, 1e-5, 1.4e-5),), 1, 3, None, 2
    )
    assert quiet.noise == ""


# -- the command --


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["calibrate", "--jobs", "2", "--repeats", "1", *map(str, words)])


def test_without_an_address_the_command_measures_this_disk_and_a_server_and_leaves_nothing(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    said = run()
    assert said.exit_code == 0
    for text in (
        "SQLite",
        "WAL, synchronous=NORMAL",
        "what a power cut loses:",
        "calls a second",
        "complete_and_reserve",
    ):
        assert text in said.stdout
    assert "layout=zset" in said.stdout or "left out:" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_json_and_saves_what_a_run_is_charged(run: Callable[..., Result], tmp_path: Path) -> None:
    said = run("--url", "sqlite:///:memory:", "--json", "--save", "cost.json")
    assert said.exit_code == 0
    (told,) = json.loads(said.stdout)
    assert list(told["verbs"]) == VERBS
    assert told["jobs"] == 2
    assert told["durability"]["store_killed"] == "everything"
    assert Cost.load(tmp_path / "cost.json").push == pytest.approx(told["verbs"]["push"]["seconds"], abs=1e-9)
    assert said.stderr == "saved in cost.json\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--save", "cost.json"], 2, "--save keeps the cost of one store: say which, with one --url"),
        (["--save", "c.json", "--url", "memory://", "--url", "memory://"], 2, "say which, with one --url"),
        (["--save", "nowhere/cost.json", "--url", "memory://"], 2, "there is no folder"),
        (["--url", "jobs.db"], 1, "'jobs.db' names no driver"),
        (["--jobs", "0"], 2, "0 is not in the range"),
    ],
)
def test_the_command_refuses_before_it_measures(
    run: Callable[..., Result], tmp_path: Path, words: list[str], code: int, says: str
) -> None:
    said = run(*words)
    assert (said.exit_code, said.stdout) == (code, "")
    assert says in said.stderr
    assert list(tmp_path.iterdir()) == []
