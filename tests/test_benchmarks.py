"""`qlab bench`: what it measures is the same thing on both sides, and what it says is whole. No speed is asserted."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from qlab import Queue, benchmarks
from qlab.benchmarks import redis
from qlab.benchmarks.figures import Benchmark, Figure
from qlab.cli import main
from qlab.driver import Counts
from qlab.errors import QlabError
from qlab.peers import raw_memory, simulators
from qlab.theory import waiting

APART = ("classroom", "peers", "redis", "shards", "sqlite")  # those that begin so have test files of their own
NAMES = [each.name for each in benchmarks.BENCHMARKS if not each.name.startswith(APART)]
FIGURES = [(each.name, figure.name) for each in benchmarks.BENCHMARKS if each.name in NAMES for figure in each.figures]


def bench(*words: str) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["bench", *words], terminal_width=200)


def test_everything_is_measured_as_often_as_asked_and_written_as_json(tmp_path: Path) -> None:
    done = bench(*NAMES, "--jobs", "100", "--runs", "2", "--json", str(tmp_path / "figures.json"))
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [(each["benchmark"], each["figure"]) for each in told["measured"]] == FIGURES
    assert told["settings"] == {"jobs": 100, "runs": 2}
    assert {"machine", "Python", "qlab", "SQLite", "stores on"} <= set(told["machine"])
    assert redis.missing() or {"Redis", "Valkey"} & set(told["machine"])
    for each in told["measured"]:
        if each["skipped"]:
            assert (each["median"], each["runs"]) == (None, [])
        else:
            assert len(each["runs"]) == (1 if each["figure"] == "memory" else 2)
            assert each["least"] == min(each["runs"]) <= each["median"] <= max(each["runs"]) == each["most"]
            assert 0 < each["median"] < math.inf
    for benchmark, figure in FIGURES:
        assert benchmark in done.output
        assert figure in done.output
    assert f"written: {tmp_path / 'figures.json'}" in done.output


def test_the_help_names_every_benchmark() -> None:
    every = [each.name for each in benchmarks.BENCHMARKS]
    assert len(set(every)) == len(every)
    assert f": {', '.join(every)}." in " ".join(bench("--help").output.split())


def test_one_benchmark_may_be_chosen() -> None:
    assert {each.benchmark for each in benchmarks.measure(["trace"], jobs=100, runs=1).measured} == {"trace"}
    assert "simulate" not in bench("trace", "--jobs", "100", "--runs", "1").output


def test_what_is_not_installed_is_skipped_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "simpy", lambda: None)
    qlab, simpy, ratio = benchmarks.measure(["simulate"], jobs=100, runs=1).measured
    assert qlab.median is not None
    assert simpy.skipped == ratio.skipped == "SimPy is not installed: pip install simpy"
    assert "SimPy is not installed" in " ".join(bench("simulate", "--jobs", "100", "--runs", "1").output.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["speed"], f"there is no benchmark 'speed': use {', '.join(each.name for each in benchmarks.BENCHMARKS)}"),
        (["--jobs", "99"], "99 is not in the range x>=100"),
        (["--runs", "0"], "0 is not in the range x>=1"),
        (["--jobs", "many"], "'many' is not a valid integer range"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(words: list[str], said: str) -> None:
    done = bench(*words)
    assert done.exit_code != 0
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize("wrong", [{"jobs": 99}, {"jobs": True}, {"jobs": 1e5}, {"runs": 0}], ids=str)
def test_numbers_out_of_range_are_refused_from_python_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*: use a whole number from"):
        benchmarks.measure(["trace"], **wrong)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    done = bench("--json", str(tmp_path / "no" / "figures.json"))  # all of it would take minutes
    assert done.exit_code != 0
    assert "figures.json" in done.output


@pytest.mark.parametrize("before", [None, "{}"])
@pytest.mark.parametrize("problem", [KeyboardInterrupt, ZeroDivisionError])
def test_measuring_that_does_not_end_leaves_the_file_as_it_was(
    problem: type[BaseException], before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*args: Any, **kwargs: Any) -> None:
        raise problem

    monkeypatch.setattr("qlab.benchmarks.measure", measure)
    file = tmp_path / "figures.json"
    if before is not None:
        file.write_text(before)
    assert bench("trace", "--json", str(file)).exit_code != 0
    assert (file.read_text() if file.exists() else None) == before


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[tuple[float, str]] = []
    benchmarks.measure(["trace", "growth"], jobs=100, runs=2, progress=lambda done, what: told.append((done, what)))
    assert told == [(0.0, "trace"), (0.25, "trace"), (0.5, "growth"), (0.75, "growth"), (1.0, "")]


def test_a_report_is_a_table_in_a_notebook() -> None:
    html = benchmarks.measure(["simulate_sqlite"], jobs=100, runs=1)._repr_html_()
    assert "qlab / sqlite3" in html
    assert "at least 0.5" in html


# -- the same thing on both sides --


@pytest.mark.parametrize("trace", [False, True])
def test_the_bare_loop_and_ours_handle_the_same_payloads_each_once(trace: bool, tmp_path: Path) -> None:
    """And nothing is left on either side."""
    payloads = [{**raw_memory.PAYLOAD, "id": number} for number in range(200)]
    bare, ours = raw_memory.Bare(payloads), raw_memory.Ours(payloads, f"sqlite:///{tmp_path / 'jobs.db'}", trace=trace)
    handled: tuple[list[Any], list[Any]] = [], []
    assert (bare.work(handled[0].append), ours.work(handled[1].append)) == (200, 200)
    assert handled == (payloads, payloads)
    assert bare.work() == 0
    with Queue(ours.queue.driver.url) as again:
        assert again.counts() == Counts()
    assert len(ours.queue.trace) == (3 * 201 if trace else 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_peer_simulates_the_same_queue(seed: int) -> None:
    run = simulators.qlab(500, seed)
    assert simulators.raw_sqlite(500, seed) == pytest.approx(simulators.waits(run), abs=1e-9)
    on_sqlite = simulators.qlab(500, seed, "sqlite:///:memory:")
    assert on_sqlite.trace == run.trace
    if (simpy := simulators.simpy()) is None:
        reason = "SimPy is not installed (the extra peers)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert simulators.simpy_queue(simpy, 500, seed) == pytest.approx(simulators.waits(run), abs=1e-6)


def test_the_queue_that_all_simulate_is_the_one_that_theory_knows() -> None:
    """Over ten runs of 2,000 jobs, within 15 %: the seeds are fixed, so it is passed always or never."""
    expected = waiting.MMc(3.2, 1.0, 4).wait
    mean = sum(simulators.raw_sqlite(2_000, seed) for seed in range(10)) / 10
    assert mean == pytest.approx(expected, rel=0.15)


def going_wrong(error: BaseException, after: int) -> Benchmark:
    """A benchmark of which so many runs go well."""

    def run(jobs: int, run: int) -> dict[str, float]:
        if run >= after:
            raise error
        return {"figure": float(run)}

    return Benchmark("wrong", "what goes wrong", (Figure("figure"),), run)


@pytest.mark.parametrize("after", [0, 2])
def test_what_goes_wrong_in_one_benchmark_is_told_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    wrong = going_wrong(QlabError("no disk"), after)
    monkeypatch.setattr(benchmarks, "BENCHMARKS", (wrong, going_wrong(QlabError("never"), 9)._replace(name="right")))
    report = benchmarks.measure(jobs=100, runs=3)
    assert [(each.benchmark, len(each.runs)) for each in report.measured] == [("wrong", after), ("right", 3)]
    assert report.problems == (f"wrong, run {after + 1}: QlabError: no disk",)
    assert ("no disk" in report.measured[0].skipped) == (after == 0)
    done = bench("--jobs", "100", "--runs", "3")
    assert done.exit_code == 1
    assert "right" in done.stdout
    assert "no disk" in done.stderr


def test_ctrl_c_keeps_what_was_measured_until_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = going_wrong(QlabError("never"), 9)._replace(name="right")
    ended = going_wrong(KeyboardInterrupt(), 1)
    monkeypatch.setattr(benchmarks, "BENCHMARKS", (right, ended, right._replace(name="never")))
    done = bench("--jobs", "100", "--runs", "3", "--json", str(tmp_path / "figures.json"))
    assert (done.exit_code, done.stderr) == (130, "stopped; this is what was measured until then\n")
    told = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [(each["benchmark"], len(each["runs"])) for each in told["measured"]] == [("right", 3), ("wrong", 1)]
    assert told["interrupted"] is True


def test_ctrl_c_before_anything_was_measured_is_a_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "BENCHMARKS", (going_wrong(KeyboardInterrupt(), 0),))
    with pytest.raises(KeyboardInterrupt):
        benchmarks.measure(jobs=100, runs=1)
