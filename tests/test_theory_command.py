"""`qlab theory`: what it prints, and what it ends with."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from qlab.cases import Verdict
from qlab.cli import main


def stated(**changes: Any) -> dict[str, Any]:
    """A case of M/M/1 in a file, or another."""
    one = {
        "id": "a", "group": "mm1", "kind": "stat", "metric": "Wq", "params": {"lam": 0.5, "mu": 1.0}, "expected": 1.0,
        "n_jobs": 500, "warmup_jobs": 0, "tolerance": {"abs": 1.0},
    }  # fmt: skip
    return one | changes


def written(folder: Path, content: Any) -> Path:
    path = folder / "cases.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["theory", *map(str, words)])


def test_the_command_prints_each_case_and_ends_well_where_all_are_met(tmp_path: Path) -> None:
    told = run("--only", "trace")
    assert told.exit_code == 0, told.output
    head, first, *_, last = told.output.splitlines()
    assert head.split() == ["case", "expected", "got", "tolerance"]
    assert first.split() == ["trace.fifo.c1", "as", "stated", "as", "stated", "1e-09", "ok"]
    assert last == "15 cases ok"


def test_the_command_runs_a_file_and_says_what_was_missed(tmp_path: Path) -> None:
    path = written(
        tmp_path, {"cases": [stated(), stated(id="b", expected=9.0, tolerance={"rel": 0.01})], "ci_tier": ["a"]}
    )
    assert run("--cases", path).exit_code == 0
    told = run("--cases", path, "--tier", "all")
    assert told.exit_code == 1
    assert re.search(r"^b +9 +[\d.]+ +0\.09  missed$", told.output, re.MULTILINE)
    assert told.output.splitlines()[-1] == "2 cases: 1 ok, 1 missed"


def test_a_file_that_names_no_tier_is_judged_whole(tmp_path: Path) -> None:
    told = run("--cases", written(tmp_path, {"cases": [stated(), stated(id="b", expected=9.0)]}))
    assert told.exit_code == 1
    assert told.output.splitlines()[-1] == "2 cases: 1 ok, 1 missed"


@pytest.mark.parametrize("content", [{"cases": []}, {"cases": [stated()], "ci_tier": []}])
def test_nothing_is_never_said_to_be_all_right(content: Any, tmp_path: Path) -> None:
    told = run("--cases", written(tmp_path, content))
    assert told.exit_code == 2
    assert "cases.json has no case to judge: name some in its ci_tier, or use --tier all" in told.output


def test_the_command_shows_what_a_missed_trace_came_to(tmp_path: Path) -> None:
    trace = {"id": "t", "input": {"arrivals": [10, 10], "tick": 60}, "expected": {"sent": [60, 121]}}
    told = run("--cases", written(tmp_path, {"cases": [], "traces": [trace]}))
    assert told.exit_code == 1
    assert "  expected sent 60, 121\n  got sent 60, 120\n" in told.output


def test_one_case_may_be_asked_for_by_its_id_whatever_its_tier() -> None:
    told = run("--only", "amp.layers5x3")
    assert told.exit_code == 0
    assert told.output.splitlines()[-1] == "1 case ok"
    assert run("--only", "metastable.A2.lam0.5").output.splitlines()[-1] == "1 case: 1 not asserted"


def test_the_command_writes_json() -> None:
    told = run("--only", "amp.layers5x3", "--json")
    assert json.loads(told.output) == [
        {"id": "amp.layers5x3", "kind": "reference", "expected": 243.0, "got": 243.0, "word": "ok", "ok": True}
        | {"allowed": pytest.approx(2.43e-7), "closed_form": 243.0, "digest": ""}
    ]


def test_a_number_that_json_does_not_have_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Verdict("a", "stat", 1.0, math.nan, 0.1, "missed", math.inf)
    monkeypatch.setattr("qlab.cases.judge", lambda *_, **__: iter([odd]))
    told = json.loads(run("--only", "mm1", "--json").output, parse_constant=pytest.fail)[0]
    assert (told["got"], told["closed_form"], told["word"]) == (None, None, "missed")


@pytest.mark.parametrize("content", ["{", {"cases": [stated(metric="Wz")]}, {"cases": [stated(group="x")]}])
def test_the_command_ends_with_2_where_a_file_cannot_be_judged(content: Any, tmp_path: Path) -> None:
    told = run("--cases", written(tmp_path, content), "--tier", "all")
    assert told.exit_code == 2
    assert told.stderr.startswith("qlab: ")
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""
