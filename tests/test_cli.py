"""The commands: what they say, what they end with, and what they leave alone."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError

import click
import pytest
from click.testing import CliRunner, Result
from conftest import QUEUE, only

import qlab
from qlab import Policy, Queue, comparison, comparison_report, drivers, handout, terminal
from qlab.cli import main
from qlab.clock import monotonic, pause

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(main.commands)
SOON = 60.0
"""Seconds within which what must happen has happened: a deadline, not a measurement."""

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run; their environment says nothing."""
    monkeypatch.delenv("QLAB_URL", raising=False)
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return working


@pytest.fixture
def run() -> Run:
    """Runs a command; an argument with spaces is one word."""

    def run_one(*words: object, **settings: Any) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words], **settings)
        assert isinstance(result.exception, SystemExit | None), result.exception
        return result

    return run_one


def fail_jobs(url: str, count: int, *, name: str = "send", error: str = "boom", payload: Any = None) -> None:
    """Make a store in which this many jobs have failed."""
    with Queue(url, name=QUEUE, policy=Policy(tries=1)) as queue:

        @queue.handler(name)
        def run(job: Any) -> None:
            raise ValueError(error)

        for _ in range(count):
            queue.dispatch(name, payload)
        queue.drain()


stores = only("sqlite", "redis_list-valkey", "redis_zset-valkey")


# -- help --


def contexts() -> list[click.Context]:
    top = click.Context(main, info_name="qlab")
    return [top, *(click.Context(main.commands[name], info_name=name, parent=top) for name in COMMANDS)]


@pytest.mark.parametrize("context", contexts(), ids=lambda context: context.info_name)
def test_help_has_an_example_and_says_what_each_option_does(context: click.Context, run: Run) -> None:
    words = [] if context.parent is None else [context.info_name]
    told = run(*words, "--help")
    assert told.exit_code == 0
    assert "  Example:\n    qlab " in told.output
    assert max(map(len, told.output.splitlines())) <= 80
    for option in context.command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.opts[-1] in told.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_the_help_can_be_typed(name: str, run: Run) -> None:
    _, _, examples = run(name, "--help").output.partition("Example:\n")
    lines = re.findall(r"^ +qlab (.+)$", examples, re.MULTILINE)
    assert lines
    for line in lines:
        named, *words = shlex.split(line)
        assert named == name
        main.commands[name].make_context(name, words)


def test_readme_names_each_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`qlab {name}" not in readme] == []


def test_version(run: Run) -> None:
    assert run("--version").output == f"qlab {qlab.__version__}\n"


def test_python_m_qlab_is_the_command() -> None:
    command = [sys.executable, "-m", "qlab", "--version"]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert told.stdout == f"qlab {qlab.__version__}\n"


def environment(**more: str) -> dict[str, str]:
    """For a process of its own that runs elsewhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


# -- failed jobs --


@pytest.mark.scenario("B42")
@stores
def test_a_second_retry_finds_nothing(address: str, run: Run) -> None:
    fail_jobs(address, 1)
    first, second = (run("retry", 1, "--url", address, "--queue", QUEUE) for _ in range(2))
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.startswith("1 failed job retried\nfailed job 1 is job 2 again\n")
    assert (second.exit_code, second.stderr) == (1, f"qlab: there is no failed job 1 in the queue '{QUEUE}'\n")
    assert counts(run, address) == {"ready": 1, "delayed": 0, "reserved": 0, "failed": 0, "depth": 1}


@pytest.mark.scenario("B44")
@stores
@pytest.mark.parametrize(("command", "done"), [("retry", "retried"), ("forget", "forgotten")])
def test_an_id_that_is_not_there_is_no_success_and_stops_no_other(
    command: str, done: str, address: str, run: Run
) -> None:
    fail_jobs(address, 3)
    missing = run(command, 999, "--url", address, "--queue", QUEUE)
    assert (missing.exit_code, missing.stderr) == (1, f"qlab: there is no failed job 999 in the queue '{QUEUE}'\n")
    mixed = run(command, 1, 999, 2, 1, "--url", address, "--queue", QUEUE)
    assert (mixed.exit_code, mixed.stderr) == (1, missing.stderr)
    assert mixed.stdout.startswith(f"2 failed jobs {done}\n")
    assert [job["id"] for job in failed(run, address)] == [3]
    assert counts(run, address)["ready"] == (2 if command == "retry" else 0)


def counts(run: Run, address: str) -> dict[str, int]:
    told = json.loads(run("counts", "--url", address, "--queue", QUEUE, "--json").stdout)
    return {state: count for state, count in told.items() if isinstance(count, int)}


def failed(run: Run, address: str) -> list[dict[str, Any]]:
    return json.loads(run("failed", "--url", address, "--queue", QUEUE, "--json").stdout)["failed"]


@stores
@pytest.mark.parametrize(("command", "done"), [("retry", "retried"), ("forget", "forgotten")])
def test_all_of_nothing_is_said_and_is_a_success(command: str, done: str, address: str, run: Run) -> None:
    fail_jobs(address, 2)
    first, second = (run(command, "all", "--url", address, "--queue", QUEUE) for _ in range(2))
    assert (first.exit_code, first.stdout.splitlines()[0]) == (0, f"2 failed jobs {done}")
    assert (second.exit_code, second.stdout.splitlines()[0]) == (0, f"no failed jobs: nothing was {done}")


@stores
def test_all_means_the_jobs_of_this_queue(address: str, run: Run) -> None:
    fail_jobs(address, 1)
    assert run("forget", "all", "--url", address).stdout.startswith("no failed jobs")
    assert len(failed(run, address)) == 1


@stores
def test_a_retry_tells_the_new_ids(address: str, run: Run) -> None:
    fail_jobs(address, 3)
    told = run("retry", 3, 1, "--url", address, "--queue", QUEUE).stdout.splitlines()
    assert told[:3] == ["2 failed jobs retried", "failed job 3 is job 4 again", "failed job 1 is job 5 again"]
    assert run("retry", "all", "--url", address, "--queue", QUEUE).stdout.splitlines()[:2] == [
        "1 failed job retried",
        "failed job 2 is job 6 again",
    ]


@stores
@pytest.mark.parametrize(("words", "since"), [(["all"], 51.0), (["1", "2"], 50.0), (["1"], 49.0)])
def test_a_job_that_failed_in_simulated_time_is_retried_in_simulated_time(
    words: list[str], since: float, address: str, run: Run
) -> None:
    fail_at(address, 49.0, 50.0, 51.0)
    assert run("retry", *words, "--url", address).exit_code == 0
    with Queue(address, clock=qlab.SimulatedClock(since)) as queue:
        assert {job.available_at for job in queue.jobs()} == {since}
        assert queue.reserve() is not None


@stores
def test_a_job_that_failed_in_real_time_is_retried_in_real_time(address: str, run: Run) -> None:
    fail_at(address, 50.0)
    with Queue(address, policy=Policy(tries=1)) as queue:
        queue.handler("send")(lambda job: 1 / 0)
        queue.dispatch("send")
        queue.work_once()
        assert run("retry", "all", "--url", address).exit_code == 0
        assert min(job.available_at for job in queue.jobs()) > 1.7e9


def fail_at(address: str, *moments: float) -> None:
    """Let a job fail at each moment of a simulated clock."""
    with drivers.open(address) as driver:
        for at in moments:
            queue = Queue(driver, clock=qlab.SimulatedClock(at), policy=Policy(tries=1))
            queue.handler("send")(lambda job: 1 / 0)
            queue.dispatch("send")
            queue.work_once()


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:50Z", "1970-01-01T01:00:50+01:00", "50", "50.0"])
def test_forget_before_a_moment(moment: str, run: Run) -> None:
    fail_at("sqlite:///jobs.db", 49.0, 50.0, 51.0)
    assert run("forget", "all", "--before", moment, "--url", "sqlite:///jobs.db").stdout == "2 failed jobs forgotten\n"


def test_forget_before_a_moment_at_which_none_had_failed(run: Run) -> None:
    fail_at("sqlite:///jobs.db", 49.0, 50.0)
    words = ["forget", "all", "--before", "48.5", "--url", "sqlite:///jobs.db"]
    none = run(*words)
    assert (none.exit_code, none.stdout) == (
        0,
        "none of the 2 failed jobs failed at or before 48.5 s: nothing was forgotten\n",
    )
    run("forget", 1, "--url", "sqlite:///jobs.db")
    assert run(*words).stdout == "the one failed job did not fail at or before 48.5 s: nothing was forgotten\n"
    run("forget", 2, "--url", "sqlite:///jobs.db")
    assert run(*words).stdout == "no failed jobs: nothing was forgotten\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["retry"], "Missing argument"),
        (["retry", "one"], "'one'"),
        (["retry", "1", "all"], "not both"),
        (["retry", "--", "-1"], "'-1'"),
        (["retry", "1.0"], "'1.0'"),
        (["retry", str(2**63)], str(2**63)),
        (["forget", "1", "--before", "5"], "--before goes with all"),
        (["forget", "all", "--before", "yesterday"], "'yesterday'"),
        (["forget", "all", "--before", "nan"], "'nan'"),
        (["forget", "all", "--before", "2026-01-31"], "2026-01-31T00:00Z"),
        (["compare", "--workers", "1,0"], "'1,0'"),
        (["compare", "--workers", "two"], "'two'"),
        (["compare", "--driver", "kafka"], "'kafka'"),
        (["lab", "--port", "0"], "0"),
        (["counts", "--url"], "--url"),
        (["work", "shop:queue", "--grace", "nan"], "nan is no number of seconds"),
        (["work", "shop:queue", "--poll", "NaN"], "NaN is no number of seconds"),
        (["work", "shop:queue", "--poll", "0"], "0.0 is not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_said_and_does_nothing(words: list[str], said: str, run: Run, folder: Path) -> None:
    fail_jobs("sqlite:///jobs.db", 1)
    told = run(*words, env={"QLAB_URL": "sqlite:///jobs.db"})
    assert told.exit_code == 2
    assert said in told.stderr
    assert [job["id"] for job in failed(run, "sqlite:///jobs.db")] == [1]


def test_a_url_is_needed(run: Run) -> None:
    told = run("counts")
    assert told.exit_code == 2
    assert "QLAB_URL" in told.stderr


def test_the_url_may_come_from_the_environment(run: Run) -> None:
    fail_jobs("sqlite:///jobs.db", 1)
    assert run("counts", "--queue", QUEUE, env={"QLAB_URL": "sqlite:///jobs.db"}).stdout == (
        "ready            0\ndelayed          0\nreserved         0\nfailed           1\ndepth            0\n"
    )


# -- JSON --


@stores
def test_json_has_the_same_keys_on_every_driver(address: str, run: Run, tmp_path: Path) -> None:
    fail_jobs(address, 1, payload={"n": 2**70})
    told = {
        name: json.loads(run(*words, "--url", address, "--queue", QUEUE, "--json").stdout)
        for name, *words in (
            ("counts", "counts"),
            ("failed", "failed"),
            ("retry", "retry", 1, 999),
            ("forget", "forget", "all"),
        )
    }
    with drivers.open(address) as driver:
        url = driver.url
    file = str(tmp_path / ("failed.db" if address.startswith("unix") else "jobs.db"))
    where = {"queue": QUEUE, "url": url, "failed_jobs_file": file}
    job = told["failed"]["failed"][0]
    assert told["counts"] == where | {"ready": 0, "delayed": 0, "reserved": 0, "failed": 1, "depth": 0}
    assert told["failed"] == where | {"failed": [job]}
    assert told["retry"] == where | {"retried": 1, "not_found": [999], "jobs": [{"failed_id": 1, "id": 2}]}
    assert told["forget"] == where | {"forgotten": 0, "not_found": []}
    assert list(job) == [
        "id",
        "uid",
        "name",
        "attempts",
        "error",
        "traceback",
        "dispatched_at",
        "failed_at",
        "payload",
    ]
    assert (job["id"], job["name"], job["attempts"], job["error"]) == (1, "send", 1, "ValueError: boom")
    assert job["payload"] == {"n": 2**70}
    assert 1.7e9 < job["dispatched_at"] <= job["failed_at"]


# -- what is shown --


def test_nothing_in_a_failed_job_can_move_the_cursor(run: Run) -> None:
    nasty = "\x1b[2J\r\n\x07\x9b31m\u202e\u2028" + "x" * 200
    fail_jobs("sqlite:///jobs.db", 2, name=f"a{nasty}", error=nasty, payload=nasty)
    told = run("failed", "--url", "sqlite:///jobs.db", "--queue", QUEUE)
    assert told.output.replace("\n", "").isprintable()
    assert max(map(len, told.output.splitlines())) <= 80
    as_json = run("failed", "--url", "sqlite:///jobs.db", "--queue", QUEUE, "--json").stdout
    assert as_json.replace("\n", "").isprintable()
    assert json.loads(as_json)["failed"][0]["payload"] == nasty


def test_nothing_in_an_argument_can_move_the_cursor(run: Run) -> None:
    fail_jobs("sqlite:///jobs.db", 1)
    told = run("retry", 1, "--url", "sqlite:///jobs.db", "--queue", "\x1b[2J")
    assert told.exit_code == 1
    assert told.output.replace("\n", "").isprintable()


def test_failed_jobs_are_listed_with_what_they_were_to_do_and_their_error(run: Run) -> None:
    with Queue("sqlite:///jobs.db", clock=qlab.SimulatedClock(70), policy=Policy(tries=1)) as queue:
        queue.handler("mail")(lambda job: 1 / 0)
        queue.dispatch("mail", {"order": 1})
        queue.work_once()
    assert run("failed", "--url", "sqlite:///jobs.db").stdout == (
        "failed id  attempts  failed at  handler\n"
        "        1         1  70 s       mail\n"
        '    {"order":1}\n'
        "    ZeroDivisionError: division by zero\n"
    )
    assert run("failed", "--url", "sqlite:///jobs.db", "--queue", "other").stdout == "no failed jobs\n"


@only("redis_zset-valkey")
def test_on_redis_each_command_names_the_file_of_the_failed_jobs(address: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "failed.db"
    assert f"failed jobs are in {file} (not there yet)\n" in run("counts", "--url", address).stdout
    fail_jobs(address, 1)
    for words in (["counts"], ["failed"], ["retry", "all"], ["forget", "all"]):
        assert f"failed jobs are in {file}\n" in run(*words, "--url", address, "--queue", QUEUE).stdout


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@127.0.0.1:1/0",
        "redis://user:hunter2@127.0.0.1:1?failed_jobs=sqlite:///x.db",
        "redis://:p%40hunter2@127.0.0.1:1",
        "redis://:p@hunter2@127.0.0.1:1",
        "redis://:hunter2@127.0.0.1:999999",
        "redis://:hunter2@127.0.0.1:1?layout=tree",
        "redis://:hunter2@127.0.0.1:1?leyout=list",
        "rediss://:hunter2@127.0.0.1:1",
        "kafka://:hunter2@127.0.0.1",
        "redis+embedded://:hunter2@",
    ],
)
def test_a_password_is_never_shown(url: str, run: Run) -> None:
    told = run("counts", "--url", url)
    assert told.exit_code == 1
    assert "hunter2" not in told.output
    assert re.fullmatch(r"qlab: .+\n", told.stderr)


# -- nothing is made that was not there --


@pytest.mark.parametrize("words", [["counts"], ["failed"], ["retry", "1"], ["retry", "all"], ["forget", "all"]])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///typo.db", "typo.db"),
        ("sqlite:///no/such/folder.db", "folder.db"),
        ("sqlite:///:memory:", "seen only by the process"),
        ("memory://", "seen only by the process"),
        ("redis+embedded://", "seen only by the process"),
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("jobs.db", "names no driver"),
        ("", "names no driver"),
        ("redis://127.0.0.1:1", "does not answer"),
        ("unix:///no/such/socket", "does not answer"),
    ],
)
def test_a_mistyped_address_makes_nothing(words: list[str], url: str, said: str, run: Run, folder: Path) -> None:
    told = run(*words, "--url", url)
    assert (told.exit_code, told.stdout) == (1, "")
    assert re.fullmatch(r"qlab: .+\n", told.stderr)
    assert said in told.stderr
    assert list(folder.iterdir()) == []


@only("redis_zset-valkey")
@pytest.mark.parametrize("words", [["counts"], ["failed"], ["retry", "all"], ["forget", "all"], ["retry", "1"]])
def test_a_mistyped_file_of_failed_jobs_is_not_made(words: list[str], address: str, run: Run, folder: Path) -> None:
    fail_jobs(address, 1)
    run(*words, "--url", re.sub("failed_jobs=.*", "failed_jobs=sqlite:///typo.db", address), "--queue", QUEUE)
    assert list(folder.iterdir()) == []


@only("redis_zset-valkey")
@pytest.mark.parametrize("command", ["retry", "forget"])
def test_failures_that_wait_for_their_rows_make_no_file_either(
    command: str, address: str, run: Run, folder: Path
) -> None:
    waiting = re.sub("failed_jobs=.*", "failed_jobs=sqlite:///later/failed.db", address)
    fail_jobs(waiting, 1)
    (folder / "later").mkdir()
    assert counts(run, waiting)["failed"] == 1
    told = run(command, "all", "--url", waiting, "--queue", QUEUE)
    assert told.exit_code == 1
    assert "failed_jobs=sqlite:///FILE" in told.stderr
    assert list((folder / "later").iterdir()) == []


def test_a_file_that_is_no_database_is_left_as_it_is(run: Run, folder: Path) -> None:
    (folder / "notes.db").write_bytes(b"not a database" * 100)
    told = run("counts", "--url", "sqlite:///notes.db")
    assert told.exit_code == 1
    assert re.fullmatch(r"qlab: .*notes\.db is no sound SQLite database.*\n", told.stderr)
    assert (folder / "notes.db").read_bytes() == b"not a database" * 100


# -- tables in a terminal --


def test_a_table_that_is_too_wide_is_wrapped_at_words() -> None:
    rows = [("SQLite 3.40.1, WAL, synchronous=NORMAL", "nothing " * 12, 1.23456), ("x" * 100, "\x1b[2J", 22)]
    lines = terminal.table(("store", "worker_killed", "jobs_per_second"), rows)
    assert max(map(len, lines)) <= 80
    assert "".join(lines).isprintable()
    assert "1.235" in lines[1] or "1.235" in lines[2]


def test_a_table_breaks_no_word_while_another_column_can_be_wrapped() -> None:
    head = ("driver", "events", "done", "failed", "attempts", "ran_out", "superseded", "wait_s", "trace")
    lines = terminal.table(head, [("redis_zset", 313, 17, 1, 24, 2, 1, 0.462, "dd275759")])
    assert max(map(len, lines)) <= 80
    assert {"redis_zset", "superseded", "dd275759"} <= set(" ".join(lines).split())


def test_a_table_puts_numbers_to_the_right() -> None:
    assert terminal.table(("name", "jobs"), [("a", 1), ("bb", 100)]) == ["name  jobs", "a        1", "bb     100"]
    assert terminal.table(("name", "jobs"), []) == ["name  jobs"]
    assert terminal.table((), []) == []


def test_moments_are_dates_or_where_a_simulated_clock_was_used_seconds() -> None:
    assert [terminal.moment(at) for at in (0.0, 70.5, 1_769_860_800.25)] == ["0 s", "70.5 s", "2026-01-31 12:00:00Z"]


# -- compare --


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `compare` asks of the modules below it, which do nothing here."""
    asked: dict[str, Any] = {}

    class Compared:
        arms = ("one",)

        def tables(self) -> list[Any]:
            return []

    def compare(names: Any, *, progress: Callable[[float, str], None], **options: Any) -> Compared:
        progress(0.5, "half \x1b[2J")
        asked.update(options, drivers=names)
        return Compared()

    def write(compared: Any, out: Path, *, command: str) -> Path:
        asked.update(out=out, command=command)
        return out / "index.html"

    monkeypatch.setattr(comparison, "compare", compare)
    monkeypatch.setattr(comparison_report, "answer", lambda compared: ["They agree."])
    monkeypatch.setattr(comparison_report, "write", write)
    return asked


def test_compare_hands_its_options_on(compared: dict[str, Any], run: Run, folder: Path) -> None:
    (folder / "my files").mkdir()
    words = ["--driver", "sqlite", "--driver", "redis_list", "--workers", "1, 3", "--folder", "my files", "--seed", 11]
    told = run("compare", *words, "--out", "here", "--redis", "redis://u:hunter2@host/3?layout=zset", "--quick")
    assert (told.exit_code, told.stdout) == (0, f"They agree.\n\nreport: {Path('here', 'index.html')}\n")
    assert compared == {
        "drivers": ("sqlite", "redis_list"),
        "workers": (1, 3),
        "folder": Path("my files"),
        "seed": 11,
        "redis": "redis://u:hunter2@host/3?layout=zset",
        "quick": True,
        "out": Path("here"),
        "command": (
            "qlab compare --driver sqlite --driver redis_list --workers 1,3 --folder 'my files' --seed 11 --out here "
            "--redis 'redis://u:***@host/3?layout=zset' --quick"
        ),
    }


def test_compare_without_options(compared: dict[str, Any], run: Run) -> None:
    assert run("compare").exit_code == 0
    assert compared == {
        "drivers": None,
        "workers": (1, 2, 4),
        "folder": None,
        "seed": 7,
        "redis": None,
        "quick": False,
        "out": Path("qlab-report"),
        "command": "qlab compare",
    }


def test_compare_that_is_interrupted_says_so_in_one_line(
    compared: dict[str, Any], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", interrupted)
    told = run("compare")
    assert (told.exit_code, told.stdout, told.stderr) == (130, "", "stopped; nothing was left behind\n")


def test_compare_refuses_a_folder_of_others_before_it_works(compared: dict[str, Any], run: Run, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "letter.txt").write_text("dear")
    told = run("compare", "--out", "mine")
    assert told.exit_code == 1
    assert re.fullmatch(r"qlab: .+\n", told.stderr)
    assert compared == {}


@pytest.mark.parametrize("error", [ValueError("no"), TypeError("no"), qlab.errors.QlabError("no"), OSError("no")])
def test_what_goes_wrong_is_one_line_without_a_traceback(
    error: Exception, compared: dict[str, Any], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(comparison, "compare", broken)
    told = run("compare")
    assert (told.exit_code, told.stderr) == (1, "qlab: no\n")


def test_compare_really_writes_a_report_and_again_over_it(run: Run, folder: Path) -> None:
    (folder / "library").mkdir()
    for name in ("one", "two"):
        (folder / "library" / f"{name}.py").write_text("x = 1\n")
    words = ["--driver", "memory", "--driver", "sqlite", "--workers", "1", "--folder", "library", "--out", "report"]
    for _ in range(2):
        told = run("compare", *words)
        assert (told.exit_code, told.stderr) == (0, "")
        *above, last = told.stdout.splitlines()
        assert last == f"report: {folder / 'report' / 'index.html'}"
        assert max(map(len, above)) <= 80
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert f"qlab compare {' '.join(words)}" in page
    assert sorted(entry.name for entry in folder.iterdir()) == ["library", "report"]


def test_compare_of_a_driver_without_worker_processes_says_that_nothing_was_measured(run: Run, folder: Path) -> None:
    told = run("compare", "--driver", "memory", "--quick")
    assert (told.exit_code, told.stderr) == (0, "")
    title, head, row, *below = told.stdout.splitlines()
    assert title.startswith("Simulated time:")
    assert (head.split()[0], row.split()[0]) == ("driver", "memory")
    assert below == [
        "",
        "Nothing was measured in real time: memory has no worker processes to measure.",
        "",
        f"report: {folder / 'qlab-report' / 'index.html'}",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("sign", ["qlab-contend-*", "qlab-contend-3-*"], ids=["at once", "in the real part"])
def test_ctrl_c_leaves_nothing_of_a_comparison(sign: str, tmp_path: Path, folder: Path) -> None:
    with TemporaryDirectory(prefix="q") as temporary:  # short: the path of a socket may not be long
        words = ["compare", "--driver", "sqlite", "--driver", "redis_zset", "--workers", "2"]
        with at_a_terminal(tmp_path / "home", *words, TMPDIR=temporary) as (process, terminal, said):
            until(lambda: any(Path(temporary).glob(sign)))
            os.write(terminal, b"\x03")
            assert list(said) == ["stopped; nothing was left behind\n"]
            assert process.wait(SOON) == 130
        assert list(Path(temporary).iterdir()) == []
        running = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout  # and environments
        assert temporary not in running
    assert list(folder.iterdir()) == []


# -- lab --

NOTEBOOKS = [path.name for path in handout.notebooks()]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The command and the environment that `lab` wanted to become."""
    wanted: list[Any] = []

    def become(command: list[str], environment: dict[str, str]) -> int:
        wanted.append((command, environment))
        return 0

    monkeypatch.setattr(handout, "become", become)
    return wanted


def test_lab_copies_the_notebooks_and_never_over_a_file(started: list[Any], run: Run, folder: Path) -> None:
    first = run("lab")
    copies = folder / "qlab-notebooks"
    assert first.exit_code == 0
    assert sorted(path.name for path in copies.iterdir()) == NOTEBOOKS
    assert all((copies / path.name).read_bytes() == path.read_bytes() for path in handout.notebooks())
    assert f"{NOTEBOOKS[0]}: copied to qlab-notebooks\n" in first.stdout

    (copies / NOTEBOOKS[0]).write_text("mine")
    second = run("lab")
    assert f"{NOTEBOOKS[0]}: kept as it is in qlab-notebooks\n" in second.stdout
    assert (copies / NOTEBOOKS[0]).read_text() == "mine"


def test_lab_follows_no_link(started: list[Any], run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "course").mkdir()
    (folder / "course" / NOTEBOOKS[0]).symlink_to(tmp_path / "elsewhere.ipynb")
    assert run("lab", "course").exit_code == 0
    assert not (tmp_path / "elsewhere.ipynb").exists()


def test_lab_in_the_place_of_a_file_is_refused(started: list[Any], run: Run, folder: Path) -> None:
    (folder / "notes").write_text("mine")
    assert run("lab", "notes").exit_code == 2
    assert (started, (folder / "notes").read_text()) == ([], "mine")


def test_lab_starts_jupyterlab_of_this_python(
    started: list[Any], run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.setattr(handout, "has_browser", lambda: True)
    run("lab", "my course", "--port", 9999, "--ip", "0.0.0.0")
    ((command, settings),) = started
    assert command == [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder / 'my course'}",
        f"--LabApp.default_url=/lab/tree/{NOTEBOOKS[0]}",
        "--ServerApp.answer_yes=True",
        "--Application.log_level=WARN",
        "--ServerApp.port=9999",
        "--ServerApp.ip=0.0.0.0",
    ]
    assert settings["PATH"] == os.environ["PATH"]


def test_lab_as_root_and_without_a_browser(started: list[Any], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(handout, "has_browser", lambda: False)
    run("lab")
    monkeypatch.setattr(handout, "has_browser", lambda: True)
    run("lab", "--no-browser")
    run("lab")
    assert [("--allow-root" in command, "--no-browser" in command) for command, _ in started] == [
        (True, True),
        (True, True),
        (True, False),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a browser is expected")
def test_there_is_no_browser_without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = set()
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in there)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not handout.has_browser()
    monkeypatch.setenv("DISPLAY", ":0")
    assert handout.has_browser()
    there.add("/run/.containerenv")
    assert not handout.has_browser()


def test_the_settings_leave_a_learners_own_alone() -> None:
    settings = handout.settings({"JUPYTER_CONFIG_PATH": "theirs", "JUPYTER_PREFER_ENV_PATH": "0"})
    ours, theirs = settings["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert (theirs, settings["JUPYTER_PREFER_ENV_PATH"]) == ("theirs", "0")
    assert json.loads(Path(ours, "labconfig", "page_config.json").read_text())["disabledExtensions"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("end", [b"\x03", signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_lab_really_starts_answers_and_ends(end: bytes | signal.Signals, tmp_path: Path, folder: Path) -> None:
    with at_a_terminal(tmp_path / "home", "lab", "course", "--no-browser") as (process, terminal, said):
        starting = next(line for line in said if "JupyterLab" in line)
        assert starting == "JupyterLab is starting, its address follows; Ctrl-C ends it.\n"
        address = next(found[0] for line in said if (found := re.search(r"http://127\S+token=\w+", line)))
        assert f"/lab/tree/{NOTEBOOKS[0]}?" in address
        page = answer(address)
        assert "@jupyterlab/apputils-extension:announcements" in re.findall(r'"disabledExtensions": \[.*?\]', page)[0]
        listed = json.loads(answer(address.replace(f"/lab/tree/{NOTEBOOKS[0]}?", "/api/contents?")))
        assert sorted(entry["name"] for entry in listed["content"]) == NOTEBOOKS
        if isinstance(end, bytes):
            os.write(terminal, end)
        else:
            process.send_signal(end)
        assert process.wait(SOON) == 0


@contextmanager
def at_a_terminal(
    home: Path, *words: str, **settings: str
) -> Iterator[tuple["subprocess.Popen[str]", int, Iterator[str]]]:
    """Run `qlab` at a terminal of its own: give the process, what types at the terminal, and the lines that it says."""
    import fcntl  # noqa: PLC0415 - not on every platform
    import termios  # noqa: PLC0415 - not on every platform

    home.mkdir()
    elsewhere = {name: str(home / name) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    typing, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "qlab", *words],
        env=environment(**elsewhere, **settings),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - this process has one thread
    ) as process:
        deadline = threading.Timer(SOON, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None
            yield process, typing, iter(process.stdout)
        finally:
            deadline.cancel()
            process.kill()
            os.close(typing)
            os.close(terminal)


def answer(address: str) -> str:
    """Fetch a page; JupyterLab tells its address a moment before it listens there."""

    def listens() -> bool:
        with suppress(URLError), urllib.request.urlopen(address, timeout=SOON):
            return True
        return False

    until(listens)
    with urllib.request.urlopen(address, timeout=SOON) as page:
        return page.read().decode()


def until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + SOON
    while not condition():
        assert monotonic() < deadline, "it did not come about"
        pause(0.005)
