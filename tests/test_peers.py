"""qlab's peers: what is measured of them is the same work, and what is said of them is what they do."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import dying_peer
import pandas as pd
import pytest
from click.testing import CliRunner
from pages import Page

from qlab import frames
from qlab.benchmarks import measure as bench
from qlab.benchmarks import peers as ratios
from qlab.cli import main
from qlab.crew import Crew
from qlab.driver import SURVIVED
from qlab.drivers import server
from qlab.errors import MissingRequirement, QlabError
from qlab.peers import measuring
from qlab.peers.measuring import measure, measure_once, store
from qlab.peers.rounds import Compared, Round
from qlab.peers.table import OURS, PEERS, Peer

if sys.platform == "win32":
    pytest.skip("these tests need signals and a server's socket", allow_module_level=True)

ALL = {peer.name: peer for peer in (*OURS, *PEERS)}
SYNCHRONOUS = ("OFF", "NORMAL", "FULL")
HEADS = (
    *(f"Other queues, on stores that survive {survives}" for survives in (SURVIVED[3], SURVIVED[2])),
    "What each promises",
)
NORMAL, FULL, HUEY = ALL["qlab SQLite NORMAL"], ALL["qlab SQLite FULL"], ALL["huey SQLite"]


@pytest.fixture(params=ALL)
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each of the table, where it is installed; one that could be and is not is an error in CI."""
    peer = ALL[request.param]
    if reason := peer.missing():
        if os.environ.get("CI") and sys.version_info[:2] >= peer.python:
            pytest.fail(reason)
        pytest.skip(reason)
    return peer


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No process of a test is left at its end, and no file."""
    started: list[subprocess.Popen[bytes]] = []
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    yield
    assert [process for process in started if process.returncode is None] == []
    assert list(folder.iterdir()) == []


def module_of(peer: Peer) -> Any:
    return import_module(f"qlab.peers.{peer.module}")


def run_crew(module: str, peer: Peer, address: str, workers: int) -> tuple[list[int], list[int]]:
    """Let workers work; which jobs they handled, and who of them was killed."""
    with Crew(module, [{"module": peer.module, "address": address}] * workers) as crew:
        crew.go()
        handled = [number for told in crew.messages() if told is not None for number in told[1][1]]
        return sorted(handled), crew.killed


def round_of(peer: Peer, workers: int = 1, rate: float = 100.0, **more: Any) -> Round:
    counts = {"jobs": 20, "lost": 0, "duplicated": 0}
    rates = {"jobs_per_second": rate, "enqueue_per_second": 5.0, "worker_cpu": 0.4}
    return Round(**{"peer": peer, "server": "a store", "workers": workers} | counts | rates | more)


# -- the same work --


def test_two_workers_handle_every_job_once(peer: Peer) -> None:
    with store(peer) as (address, _):
        module_of(peer).enqueue(address, range(200))
        assert module_of(peer).left(address) == 200
        handled, _ = run_crew("qlab.peers.worker", peer, address, 2)
        assert module_of(peer).left(address) == 0
    assert sorted(set(handled)) == [*range(200)]
    assert not peer.together or len(handled) == 200


def test_a_killed_workers_job_is_in_the_store_unless_the_table_says_otherwise(peer: Peer) -> None:
    with store(peer) as (address, _):
        module_of(peer).enqueue(address, range(dying_peer.LAST + 1))
        assert run_crew("dying_peer", peer, address, 1) == ([], [0])
        left = module_of(peer).left(address)  # with the jobs in the hands of its other threads
    assert bool(left) == peer.acknowledges


@pytest.mark.parametrize("peer", [peer.name for peer in PEERS if peer.synchronous], indirect=True)
def test_a_store_in_a_file_is_as_durable_as_it_is_said_to_be(peer: Peer) -> None:
    with store(peer) as (address, server):
        journal, synchronous = module_of(peer).settings(address)
    assert (journal, SYNCHRONOUS[synchronous]) == ("wal", peer.synchronous)
    assert server.endswith(f"WAL, synchronous={peer.synchronous}")


@pytest.mark.parametrize("peer", ["qlab SQLite FULL", "huey Redis"], indirect=True)
def test_what_is_measured_is_whole(peer: Peer) -> None:
    measured = measure_once(peer, 2, 250)  # more than are stored one by one
    assert (measured.workers, measured.jobs, measured.lost, measured.duplicated) == (2, 250, 0, 0)
    assert measured.jobs_per_second > 0
    assert measured.enqueue_per_second > 0
    assert measured.worker_cpu > 0
    assert measured.server.startswith("SQLite 3." if peer.store == "SQLite" else ("Redis ", "Valkey "))


# -- in turn --


def noted(
    monkeypatch: pytest.MonkeyPatch, failing: str = "", error: str = "database is locked"
) -> list[tuple[str, int, int]]:
    """Note who would be measured with how many workers and jobs, and measure nothing."""
    asked: list[tuple[str, int, int]] = []

    def once(peer: Peer, workers: int, jobs: int) -> Round:
        asked.append((peer.name, workers, jobs))
        if peer.name == failing:
            raise QlabError(error)
        return round_of(peer, workers)

    monkeypatch.setattr(measuring, "measure_once", once)
    return asked


def test_each_repeat_measures_all_in_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    told: list[tuple[float, str]] = []
    names = ["qlab SQLite FULL", "qlab SQLite NORMAL"]
    compared = measure(names, workers=(1, 2, 4), repeats=4, progress=lambda *at: told.append(at))
    repeats = [asked[i : i + 6] for i in range(0, 24, 6)]
    assert {tuple(sorted(each)) for each in repeats} == {tuple(sorted(repeats[0]))}
    assert len({tuple(each) for each in repeats}) > 1
    assert [each.name for each in compared.peers] == ["qlab SQLite NORMAL", "qlab SQLite FULL"]
    assert [at for at, _ in told] == pytest.approx([i / 24 for i in range(25)])
    again = noted(monkeypatch)
    measure(names, workers=(1, 2, 4), repeats=4)
    assert again == asked


def test_how_long_a_measurement_takes_tells_how_many_jobs_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    for seconds in (2.0, 0.000_001):
        measure([FULL.name], workers=(1,), repeats=1, seconds=seconds)
    assert [jobs for _, _, jobs in asked] == [2 * FULL.pace, 20]


def test_one_that_cannot_be_measured_is_told_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(
        monkeypatch, failing=FULL.name, error="it ended: Traceback (most recent call last):\n  File x\nlocked"
    )
    compared = measure([FULL.name, NORMAL.name], workers=(1, 4), repeats=2)
    assert compared.missing == {FULL.name: "it ended: Traceback (most recent call last): … locked"}
    assert [each.peer.name for each in compared.rounds] == [NORMAL.name] * 4
    assert [name for name, *_ in asked].count(FULL.name) == 1


def test_what_is_not_installed_is_told_and_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    other = HUEY._replace(package="no-such-queue")
    future = HUEY._replace(name="future", python=(9, 9))
    monkeypatch.setattr(measuring, "PEERS", (other, future))
    assert measure([other.name, "future"]).missing == {
        other.name: "no-such-queue is not installed: pip install no-such-queue",
        "future": "huey needs Python 9.9 or newer",
    }
    assert asked == []


def test_without_a_server_those_on_redis_are_told_and_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> str:
        raise MissingRequirement("no server here")

    noted(monkeypatch)
    monkeypatch.setattr(server, "_find", none)
    assert measure(["qlab Redis", NORMAL.name], repeats=1).missing == {"qlab Redis": "no server here"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"names": ["celery"]}, "there is no peer 'celery': use qlab SQLite NORMAL, .*, saq"),
        ({"workers": ()}, r"workers is \(\): use whole numbers from 1"),
        ({"workers": (1, 0)}, r"workers is \(1, 0\): use whole numbers from 1"),
        ({"repeats": 0}, r"repeats is \(0,\): use whole numbers from 1"),
        ({"seconds": 0}, "seconds is 0: use a number above 0"),
        ({"seconds": float("nan")}, "seconds is nan: use a number above 0"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        measure(**wrong)


def test_an_interrupt_leaves_no_process_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Crew) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Crew, "messages", interrupt)
    for peer in ("qlab SQLite NORMAL", "qlab Redis"):
        with pytest.raises(KeyboardInterrupt):
            measure_once(ALL[peer], 2, 20)


def test_what_was_measured_before_a_ctrl_c_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    noted(monkeypatch)

    def progress(done: float, _: str) -> None:
        if done > 0.4:
            raise KeyboardInterrupt

    compared = measure([FULL.name], workers=(1, 2, 3, 4), repeats=1, progress=progress)
    assert (compared.interrupted, len(compared.rounds)) == (True, 2)
    assert not measure([FULL.name], repeats=1).interrupted


# -- as ratios --


def test_each_ratio_is_of_qlab_on_a_store_that_is_as_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"qlab SQLite NORMAL": 70.0, "qlab SQLite FULL": 50.0, "qlab Redis": 30.0}
    monkeypatch.setattr(measuring, "measure_once", lambda peer, n, _: round_of(peer, n, rates.get(peer.name, 10.0)))
    monkeypatch.setattr(measuring, "reasons", lambda _: {})
    monkeypatch.setattr(ratios, "reasons", lambda _: {"rq": "rq is not installed: pip install rq"})
    measured = bench(["peers_sqlite", "peers_redis"], runs=2).measured
    told = {each.figure: each for each in measured if "huey" not in each.figure}
    of = {"litequeue": 7, "persist-queue": 5, "rq": None, "dramatiq": 3, "saq": 3}
    assert {name: each.median for name, each in told.items()} == {
        f"qlab / {package}, {workers}": ratio for package, ratio in of.items() for workers in (1, 4)
    }
    assert [each.skipped for each in told.values() if each.skipped] == ["rq is not installed: pip install rq"] * 2
    huey = [(each.benchmark, each.median, each.aim) for each in measured if each.figure == "qlab / huey, 1"]
    assert huey == [("peers_sqlite", 5, "at least 1.4"), ("peers_redis", 3, "at least 2")]


@pytest.mark.parametrize("wrong", [{"lost": 1}, {"duplicated": 1}], ids=str)
def test_no_ratio_is_made_of_jobs_that_qlab_lost_or_did_twice(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int]
) -> None:
    monkeypatch.setattr(measuring, "measure_once", lambda peer, n, _: round_of(peer, n, **wrong))
    monkeypatch.setattr(measuring, "reasons", lambda _: {})
    monkeypatch.setattr(ratios, "reasons", lambda _: {})
    (problem,) = bench(["peers_sqlite"], runs=1).problems
    assert re.search(r"qlab SQLite .* with . processes: . jobs were lost and . done twice, of 20", problem)


def test_where_qlab_itself_cannot_be_measured_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(peer: Peer, workers: int, _: int) -> Round:
        if peer.package == "qlab":
            raise QlabError("worker process 2 ended by itself")
        return round_of(peer, workers)

    monkeypatch.setattr(measuring, "measure_once", measured)
    monkeypatch.setattr(measuring, "reasons", lambda _: {})
    monkeypatch.setattr(ratios, "reasons", lambda _: {})
    (problem,) = bench(["peers_sqlite"], runs=1).problems
    assert re.search(r"qlab SQLite .* was not measured: worker process 2 ended by itself", problem)


def test_what_the_ratios_are_of_is_measured() -> None:
    for each in bench(["peers_sqlite"], jobs=100, runs=1).measured:
        assert each.skipped or 0 < each.runs[0] < float("inf"), each


# -- by the command --


def command(*words: str) -> Any:
    return CliRunner().invoke(main, ["contention", "--arm", "sqlite", "--jobs", "20", *words], terminal_width=120)


def test_the_command_tells_of_other_queues_on_stores_that_survive_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing = next((peer for peer in reversed(PEERS) if not peer.missing()), None)
    if failing is None:
        pytest.skip("no other queue is installed (the extra peers)")
    monkeypatch.setenv("COLUMNS", "140")
    asked = noted(monkeypatch, failing=failing.name)
    done = command("--peers", "--quick", "--json", str(tmp_path / "found.json"))
    assert done.exit_code == 0, done.output
    assert {workers for _, workers, _ in asked} == {1, 4}
    assert max(jobs for _, _, jobs in asked) == NORMAL.pace / 5
    full, normal, promises = (done.output.index(f"{head}:") for head in HEADS)
    assert full < normal < promises
    there = [peer for peer in PEERS if not peer.missing() and peer is not failing]
    for peer in there:
        assert f"{peer.package} {peer.version}" in done.output[full:promises]
        assert f"\n{peer.package} " in done.output[promises:]
    assert f"Left out: {failing.name}: database is locked" in done.output
    said = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert {row["peer"] for row in said["peers"]} == {"qlab", *(peer.package for peer in there)}
    assert said["peers_left_out"][failing.name] == "database is locked"


def test_without_the_option_the_command_measures_no_other_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    assert "Other queues" not in command("--workers", "1", "--repeats", "1").output
    assert asked == []


def test_the_command_takes_what_was_said_of_workers_and_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    assert command("--peers", "--workers", "1,3", "--repeats", "2").exit_code == 0
    assert sorted((workers, jobs) for name, workers, jobs in asked if name == FULL.name) == [
        (workers, FULL.pace) for workers in (1, 1, 3, 3)
    ]


def test_the_page_has_a_picture_of_other_queues_for_each_class_and_what_each_promises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noted(monkeypatch)
    done = command("--peers", "--quick", "--workers", "1", "--report", str(tmp_path / "report"))
    assert done.exit_code == 0, done.output
    assert {"peers-2.png", "peers-3.png", "peers.csv"} <= {each.name for each in (tmp_path / "report").iterdir()}
    words = Page((tmp_path / "report" / "index.html").read_text(encoding="utf-8")).words
    assert "What each queue promises" in words
    for peer in PEERS:
        assert peer.missing() or all(each in words for each in (peer.loses, peer.source, peer.version)), peer.name


def test_a_ctrl_c_among_other_queues_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> Round:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measure_once", interrupt)
    done = command("--peers", "--quick", "--json", str(tmp_path / "found.json"))
    assert (done.exit_code, done.stderr) == (130, "stopped; nothing was left behind\n")
    assert len(json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["arms"]) == 3


# -- the table --


def test_readme_tells_of_each_what_the_table_does() -> None:
    readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    for peer in (ALL["qlab Redis"], *PEERS):
        together = "yes" if peer.together else "no: two may take one job"
        row = (peer.loses, peer.retries, peer.delays, together, f"`{peer.source}`")
        assert f"| {' | '.join(row)} |" in readme, row


def test_the_frame_tells_the_median_and_the_range_of_the_repeats() -> None:
    peers = (NORMAL, HUEY)
    rounds = [round_of(HUEY, 4, rate, lost=1, duplicated=2) for rate in (10.0, 40.0, 20.0)]
    frame = frames.peers(Compared(peers, [round_of(HUEY, 1), *rounds, round_of(NORMAL, 4)]))
    assert [*zip(frame["peer"], frame["workers"], strict=True)] == [("qlab", 4), ("huey", 1), ("huey", 4)]
    told = frame.iloc[2]
    assert (told["jobs_per_second"], told["low"], told["high"], told["runs"]) == (20.0, 10.0, 40.0, 3)
    assert (told["enqueue_per_second"], told["worker_cpu"]) == (5.0, pytest.approx(0.02))
    assert (told["lost"], told["duplicated"], told["server"]) == (3, 6, "a store")
    assert [*frame["survives"]] == [SURVIVED[2], SURVIVED[3], SURVIVED[3]]
    assert [*frame["acknowledges"]] == [True, False, False]


def test_the_frame_has_the_same_columns_where_nothing_was_measured() -> None:
    full, empty = frames.peers(Compared((HUEY,), [round_of(HUEY)])), frames.peers(Compared(()))
    assert empty.empty
    pd.testing.assert_index_equal(full.columns, empty.columns)
    for name in set(full) - {"peer"}:
        assert full[name].dtype == empty[name].dtype, name
