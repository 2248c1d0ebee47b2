"""`qlab contention`: what it prints and writes, what it refuses, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import contended
import pytest
from click.testing import CliRunner

from qlab import Contention, Queue, drivers
from qlab.cli import main
from qlab.clock import monotonic, pause
from qlab.contend import scans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result
    from conftest import Servers

if sys.platform == "win32":
    pytest.skip("these tests need sockets that are files, and signals", allow_module_level=True)

ROOT = Path(__file__).parents[1]
SMALL = ("--jobs", 20, "--repeats", 1, "--workers", "1,2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the command runs; where it makes its stores, nothing may be left."""
    working, stores = tmp_path / "working", tmp_path / "stores"
    working.mkdir()
    stores.mkdir()
    monkeypatch.chdir(working)
    monkeypatch.setattr(tempfile, "tempdir", str(stores))
    monkeypatch.setenv("COLUMNS", "120")
    yield working
    assert list(stores.iterdir()) == []


def run(*words: object) -> Result:
    result = CliRunner().invoke(main, ["contention", *map(str, words)])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def test_it_prints_a_table_for_each_class_of_durability_and_what_each_store_loses() -> None:
    told = run("--arm", "sqlite OFF", "--arm", "sqlite FULL", *SMALL)
    assert (told.exit_code, told.stderr) == (0, "")
    full, off = told.stdout.index("Survives a power cut:"), told.stdout.index("Survives a killed worker:")
    assert full < told.stdout.index("sqlite FULL") < off < told.stdout.index("sqlite OFF")
    assert "recent jobs, and maybe the file" in told.stdout
    assert "synchronous=FULL" in told.stdout
    assert "cores" in told.stdout


def test_it_keeps_what_it_found_in_files(folder: Path) -> None:
    told = run("--arm", "sqlite", *SMALL, "--save", "found.qlab", "--json", "found.json")
    assert told.stdout.endswith("saved: found.qlab\nwritten: found.json\n")
    found = Contention.load(folder / "found.qlab")
    assert len(found.runs) == 2
    said = json.loads((folder / "found.json").read_text())
    assert [(each["arm"], each["workers"], each["jobs"]) for each in said["arms"]] == [
        ("sqlite NORMAL", 1, 20),
        ("sqlite NORMAL", 2, 20),
    ]
    assert said["machine"] == found.machine


def test_jobs_may_come_while_workers_work(folder: Path) -> None:
    told = run("--arm", "sqlite", *SMALL, "--enqueue", "inf", "--json", "found.json")
    assert (told.exit_code, told.stderr) == (0, "")
    assert json.loads((folder / "found.json").read_text())["arms"][0]["dispatch_max"] > 0


def test_it_says_in_words_which_store_is_enough_and_writes_a_page(folder: Path) -> None:
    told = run("--arm", "sqlite FULL", *SMALL, "--rate", "0.5", "--report", "page.html")
    assert told.exit_code == 0, told.output
    words = " ".join(told.stdout.split())
    assert "At 0.5 jobs/s, to survive a power cut: SQLite is enough. sqlite FULL with 1 worker (" in words
    assert "Nothing can be said of Redis where a power cut is to be survived: it was not run." in words
    assert told.stdout.endswith(f"report: {folder / 'page.html'}\n")
    page = (folder / "page.html").read_text(encoding="utf-8")
    again = "qlab contention --arm &#39;sqlite FULL&#39; --workers 1,2 --jobs 20 --repeats 1 --rate 0.5"
    assert f"{again} --report page.html" in page
    assert "At 0.5 jobs/s, to survive a power cut" in page


def test_it_measures_what_waits_for_a_large_scan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = scans.scan_wait
    monkeypatch.setattr(scans, "scan_wait", lambda **how: measure(rows=200, chunk=50, repeats=1, **how))
    told = run("--arm", "sqlite", *SMALL, "--scans", "--report", "report")
    assert told.exit_code == 0, told.output
    assert "While a scan stores 200 rows" in " ".join(told.stdout.split())
    assert (folder / "report" / "scan.png").is_file()


def test_ctrl_c_during_a_scan_keeps_what_was_measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scans, "scan_wait", ended)
    told = run("--arm", "sqlite", *SMALL, "--scans", "--save", "found.qlab")
    assert (told.exit_code, told.stderr) == (130, "stopped; nothing was left behind\n")
    assert "sqlite NORMAL" in told.stdout
    assert len(Contention.load("found.qlab").runs) == 2


@pytest.mark.parametrize(("wrong", "code"), [({}, 0), ({"lost": 1}, 1), ({"duplicated": 1}, 1)])
def test_a_job_that_was_lost_or_done_twice_is_told_to_scripts(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int], code: int
) -> None:
    monkeypatch.setattr("qlab.contend.contention", lambda **_: contended.found(contended.FULL.assign(**wrong)))
    told = run("--arm", "sqlite FULL", "--save", "found.qlab")
    assert told.exit_code == code
    assert ("WRONG: sqlite FULL with 1 worker" in told.stdout) == bool(code)
    assert Path("found.qlab").is_file()


def test_a_report_that_would_replace_something_else_is_refused_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qlab.contend.contending.contention", lambda **_: pytest.fail("it ran"))
    (folder / "notes.html").write_text("mine")
    told = run("--report", "notes.html")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "--report" in told.stderr
    assert "is no report" in " ".join(told.stderr.split())


def test_it_uses_a_server_that_is_there_and_leaves_no_key(servers: Servers) -> None:
    url = servers["redis"].url
    with drivers.open(f"{url}?prefix=mine") as driver, Queue(driver, name="mine") as queue:
        queue.handler("keep")(print)
        queue.dispatch("keep")
        before = driver.facts()["db0"]["keys"]  # type: ignore[attr-defined]
        told = run("--redis", url, "--arm", "redis_list", "--arm", "redis_zset", "--arm", "sqlite", *SMALL)
        assert told.exit_code == 0
        assert all(each in told.stdout for each in ("layout=list", "layout=zset", "sqlite NORMAL"))
        assert driver.facts()["db0"]["keys"] == before  # type: ignore[attr-defined]


def test_quick_is_less_of_what_was_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("qlab.contend.contending.contention", lambda **how: asked.append(how) or Contention(()))
    run("--quick")
    run("--quick", "--jobs", 7, "--workers", "3")
    run()
    told = [(each["jobs"], each["repeats"], each["workers"], each["drivers"]) for each in asked]
    assert told == [(1_000, 1, (1, 2, 4), None), (7, 1, (3,), None), (10_000, 3, (1, 2, 4, 8), None)]


def test_it_runs_handlers_that_lie_in_the_working_folder(folder: Path) -> None:
    (folder / "shop_of_the_command.py").write_text(
        "def register(queue):\n    queue.handler('sell')(lambda job: None)\n"
    )
    told = run("--arm", "sqlite", "--handlers", "shop_of_the_command:register", *SMALL, "--save", "found.qlab")
    assert told.exit_code == 0
    assert {event.name for event in Contention.load("found.qlab").runs[0].trace if event.name} == {"sell"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--workers", "0"], 2, "write numbers from 1 up"),
        (["--workers", "65"], 1, "qlab: workers is 65: use numbers from 1 to 64"),
        (["--jobs", "0"], 2, "0 is not in the range"),
        (["--arm", "sqlte"], 1, "qlab: there is no arm 'sqlte': did you mean 'sqlite'"),
        (["--arm", "memory"], 1, "qlab: memory is in the memory of one process"),
        (["--length", "nan"], 1, "qlab: length is nan s"),
        (["--enqueue", "0"], 1, "qlab: enqueue is 0.0: use how many jobs a second come"),
        (["--handlers", "__main__:f"], 1, "%%writefile shop.py"),
        (["--handlers", "json:loads", "--length", "1"], 2, "--length says how long the usual jobs take"),
        (["--rate", "0"], 2, "--rate"),
        (["--save", "nowhere/found.qlab"], 2, "there is no folder"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(words: list[str], code: int, says: str) -> None:
    told = run(*words)
    assert (told.exit_code, told.stdout) == (code, "")
    assert says in told.stderr


def test_ctrl_c_prints_what_was_measured_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["contention", "--arm", "sqlite", "--arm", "redis_zset", "--length", "0.001"]
    stores = tmp_path / "stores"
    script = f"""if True:
        import signal, sys
        from qlab.cli import main
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main({words!r})
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(stores)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        _until(lambda: any(stores.rglob("jobs.db")) or any(stores.rglob("failed.db")))
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, "stopped; nothing was left behind\n")
    assert "cores" in told


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 120.0
    while not condition():
        assert monotonic() < deadline, "it did not come about"
        pause(0.01)
