"""`qlab explore`: what it prints, what it ends with, what it refuses."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import only

from qlab import explore
from qlab.cli import main
from qlab.explorer.situation import SITUATIONS
from qlab.flaws import FLAWS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8").split("## Every order of one job")[1].split("\n## ")[0]

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `qlab explore` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_one(*words: str) -> Result:
        result = CliRunner().invoke(main, ["explore", *words])
        assert isinstance(result.exception, SystemExit | None), result.exception
        return result

    return run_one


def test_without_options_it_counts_the_orders_of_one_job(run: Run) -> None:
    told = run()
    assert told.output.splitlines() == [
        "one_job on memory: 30 orders of 2 workers, 1 job, with 1 run-out",
        "",
        "outcome       orders",
        "done, run 2x      24",
        "done once          6",
        "",
        "No promise is broken.",
    ]
    assert told.exit_code == 0


def test_a_flaw_is_told_as_in_readme_and_ends_with_1(run: Run) -> None:
    (shown,) = re.findall(r"```console\n\$ qlab explore (.*?)\n(.*?)```", README, re.DOTALL)
    told = run("--flaw", shown[0].removeprefix("--flaw ").strip('"'))
    assert told.output == shown[1]
    assert told.exit_code == 1


def test_the_table_in_readme_is_what_is_counted() -> None:
    head, _, *rows = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in README.splitlines() if line[:1] == "|"
    ]
    assert len(rows) == 7
    for row in rows:
        told = dict(zip(head, row, strict=True))
        driver: Any = FLAWS.get(told["store"], "memory://")
        explored = explore("one_job", driver=driver, expiries=int(told["run-outs"]), crashes=int(told["crashes"]))
        outcomes = dict(explored.outcomes)
        stuck = [outcomes.pop(outcome) for outcome in [*outcomes] if outcome.startswith("stuck")]
        counted = {"orders": explored.paths, "stuck": sum(stuck), **outcomes}
        numbers = {name: int(cell.replace(",", "")) for name, cell in told.items() if cell[:1].isdigit()}
        del numbers["run-outs"], numbers["crashes"]
        assert numbers == {name: count for name, count in counted.items() if count}


@pytest.mark.parametrize("name", ["release-in-place", "Release In Place", "release_in_place", "releaseinplace"])
def test_the_words_of_a_flaw_may_be_joined_in_any_way(name: str, run: Run) -> None:
    told = run("--flaw", name)
    assert "two_jobs on memory with a flaw: release in place" in told.output
    assert told.exit_code == 1


def test_every_flaw_is_found_in_a_table_that_fits_a_terminal(run: Run) -> None:
    told = run("--all-flaws")
    assert all(f"\n{name}  " in told.output for name in FLAWS)
    assert "none" not in told.output
    assert max(map(len, told.output.splitlines())) <= 80
    assert told.exit_code == 1
    with_stories = run("--all-flaws", "--story")
    assert with_stories.output.startswith(told.output.partition("\n\n")[0])
    assert with_stories.output.count("That breaks a promise, ") == len(FLAWS)


@only("memory", "sqlite")
def test_a_driver_is_put_through_every_scenario_and_keeps_its_promises(address: str, run: Run) -> None:
    told = run("--driver", address)
    named = [line.split()[0] for line in told.output.splitlines() if line.endswith("  none")]
    assert named == [*SITUATIONS]
    assert told.output.endswith("\nNo promise is broken.\n")
    assert told.exit_code == 0


def test_a_scenario_is_named_or_made_of_numbers(run: Run) -> None:
    assert run("--scenario", "crash").output.startswith(
        "crash on memory: 108 orders of 2 workers, 1 job, with 1 run-out, 1 crash\n"
    )
    told = run("--workers", "1", "--jobs", "2", "--tries", "2", "--fails", "2", "--expiries", "0")
    assert told.output.startswith("yours on memory: 1 order of 1 worker, 2 jobs, with nothing that goes wrong\n")
    assert "2 failed, run 2x       1" in told.output


def test_a_story_of_each_outcome_is_told_when_asked_for(run: Run) -> None:
    told = run("--story").output
    assert "\ndone once:\n     1 job is dispatched, for 2 workers.\n  1  Worker 1 reserves job 1.\n" in told
    assert "In the end: done, run 2x. No promise is broken.\n" in told


def test_a_sample_says_how_sure_it_is(run: Run) -> None:
    told = run("--jobs", "2", "--sample", "pct", "--samples", "50", "--seed", "3").output
    assert told.startswith("yours on memory: a sample of 50 orders of 2 workers, 2 jobs, with 1 run-out\n")
    assert "One order finds what takes 3 choices with a probability of 0.0025, at least." in told
    assert told == run("--jobs", "2", "--sample", "pct", "--samples", "50", "--seed", "3").output
    assert "probability" not in run("--sample", "random", "--samples", "5").output


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--flaw", "nope"], "'nope' is no flaw: use one of completion by id, ", 2),
        (["--scenario", "nope"], "there is no scenario 'nope' to explore: use one of one_job, ", 1),
        (["--scenario", "crash", "--jobs", "2"], "--scenario names a whole scenario: leave out --jobs", 2),
        (["--flaw", "release in place", "--driver", "memory://"], "leave out one of them", 2),
        (["--all-flaws", "--jobs", "2"], "--all-flaws has its own scenarios and stores: leave out --jobs", 2),
        (["--driver", "nope://x"], "'nope://x' names no driver", 1),
        (["--driver", "flaw:release"], "make it from qlab.flaws.FLAWS", 1),
        (["--workers", "0"], "0 is not in the range 1<=x<=8", 2),
        (["--jobs", "9"], "9 is not in the range 1<=x<=8", 2),
        (["--expiries", "-1"], "-1 is not in the range", 2),
        (["--tries", "two"], "'two' is not a valid integer", 2),
        (["--restarts", "1"], "restarts is 1, and there are 0 crashes", 1),
        (["--scenario", "restart", "--expiries", "1"], "reservations that never run out", 1),
        (["--sample", "luck"], "'luck' is not one of 'random', 'pct'", 2),
        (["extra"], "unexpected extra argument", 2),
    ],
)
def test_what_cannot_be_meant_is_said(words: list[str], said: str, code: int, run: Run) -> None:
    told = run(*words)
    assert said in " ".join(told.output.split())
    assert told.exit_code == code


def test_nothing_but_plain_text_is_written_and_nothing_into_the_log(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "60"}
    command = [sys.executable, "-m", "qlab", "explore", "--flaw", "sweep of one's own", "--story"]
    told = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (1, "")
    assert told.stdout.isascii() or "–" in told.stdout
    assert "\x1b" not in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 60
    assert [*tmp_path.iterdir()] == []
