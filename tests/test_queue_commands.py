"""The commands that look at a queue and look after it, by its address or as an application makes it."""

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import QUEUE, only

from qlab import Policy, Queue, SimulatedClock
from qlab.cli import main

Run = Callable[..., Result]
stores = only("sqlite", "redis_list-valkey", "redis_zset-valkey")
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the commands run; what they import is forgotten."""
    monkeypatch.delenv("QLAB_URL", raising=False)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    before = set(sys.modules)
    yield working
    for name in set(sys.modules) - before:
        if hasattr(found := sys.modules.pop(name), "application"):
            found.application.close()


@pytest.fixture
def run() -> Run:
    """Runs a command, which raises nothing."""

    def run_one(*words: object, **settings: Any) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words], **settings)
        assert isinstance(result.exception, SystemExit | None), result.exception
        return result

    return run_one


@pytest.fixture
def at(run: Run, address: str) -> Run:
    """Runs a command on the test's queue."""
    return lambda name, *words: run(name, *words, "--url", address, "--queue", QUEUE)


def made_by(folder: Path, queue: str) -> str:
    """An application in the folder that makes this queue; gives its `MODULE:QUEUE`."""
    name = f"application{next(_numbers)}"
    (folder / f"{name}.py").write_text(
        f"from qlab import Policy, Queue, SimulatedClock\napplication = {queue}\n"
        "application.handler('send', tries=1)(lambda job: 1 / 0)\n"
    )
    return f"{name}:application"


def fill(address: str, **policy: Any) -> None:
    """Dispatch a job that is reserved, one that is ready, and one that is delayed."""
    with Queue(address, name=QUEUE, policy=Policy(**policy)) as queue:
        queue.handler("send")(lambda job: None)
        queue.dispatch("send", {"to": "Ann"})
        assert queue.reserve() is not None
        queue.dispatch("send", [1, 2])
        queue.dispatch_later("send", None, delay=3600.0)


# -- jobs --


@stores
def test_jobs_are_listed_with_their_states(at: Run, address: str) -> None:
    fill(address, retry_after=1000.0)
    lines = at("jobs").stdout.splitlines()
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
    assert lines[0] == "id  state     attempts  available at          handler"
    assert re.fullmatch(rf" 2  ready            0  {moment}  send", lines[1])
    assert lines[2] == "    [1,2]"
    assert re.fullmatch(rf" 1  reserved         1  {moment}  send", lines[3])
    assert lines[4] == '    {"to":"Ann"}'
    assert re.fullmatch(rf" 3  delayed          0  {moment}  send", lines[5])
    only_delayed = at("jobs", "--state", "delayed").stdout.splitlines()
    assert [line.split() for line in only_delayed[1:3]] == [lines[5].split(), ["null"]]
    first = at("jobs", "--limit", 1).stdout.splitlines()
    assert (first[1].split(), first[2:4]) == (lines[1].split(), [lines[2], "and 2 more"])
    assert at("jobs", "--state", "failed").exit_code == 2


@stores
def test_jobs_as_json_have_a_state_and_no_infinity(at: Run, address: str) -> None:
    fill(address, retry_after=None)
    told = json.loads(at("jobs", "--json").stdout, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert [(job["id"], job["state"], job["payload"]) for job in told["jobs"]] == [
        (2, "ready", [1, 2]),
        (3, "delayed", None),
        (1, "reserved", {"to": "Ann"}),
    ]
    assert told["jobs"][2]["available_at"] is None
    assert told["queue"] == QUEUE


@stores
def test_a_queue_without_jobs_is_said_to_have_none(at: Run, address: str) -> None:
    assert at("clear").exit_code == (1 if address.startswith("sqlite") else 0)
    fill(address)
    assert at("clear").stdout.startswith("3 jobs deleted\n")
    assert at("jobs").stdout.startswith("no jobs\n")
    assert at("jobs", "--state", "ready").stdout.startswith("no jobs are ready\n")
    assert at("clear").stdout.startswith("no jobs: nothing was deleted\n")


@pytest.mark.parametrize("columns", ["80", "20"])
def test_a_long_name_is_cut_and_its_job_is_listed_all_the_same(columns: str, run: Run) -> None:
    """Wrapped, one job's row was taken for two, and nothing was listed."""
    with Queue("sqlite:///jobs.db", policy=Policy(tries=1)) as queue:
        queue.handler("a long name " * 20)(lambda job: 1 / 0)
        for _ in range(2):
            queue.dispatch("a long name " * 20)
        queue.drain()
        queue.dispatch("a long name " * 20)
    for command, jobs in (("failed", 2), ("jobs", 1)):
        told = run(command, "--url", "sqlite:///jobs.db", env={"COLUMNS": columns})
        assert (told.exit_code, told.stderr) == (0, "")
        assert len(re.findall("a long.*…$", told.stdout, re.MULTILINE)) == jobs
        assert columns == "20" or max(map(len, told.stdout.splitlines())) <= 80


# -- recover and clear --


@stores
def test_recover_takes_what_has_run_out_and_by_force_every_reservation(at: Run, address: str) -> None:
    with Queue(address, name=QUEUE, policy=Policy(retry_after=0.000_001)) as queue:
        queue.handler("send")(lambda job: None)
        queue.dispatch_many([("send", None)] * 2)
        queue.reserve()
        queue.policy = Policy(retry_after=1000.0)
        queue.reserve()
    first = at("recover")
    assert (first.exit_code, len(first.stdout.splitlines()) > 0) == (0, True)
    assert re.match(r"job [12] is ready again: send\n", first.stdout)
    assert at("recover").stdout.startswith("no reservation has run out: nothing was recovered\n")
    assert len(json.loads(at("recover", "--force", "--json").stdout)["recovered"]) == 1
    assert at("recover", "--force").stdout.startswith("there is no reservation: nothing was recovered\n")
    assert json.loads(at("counts", "--json").stdout)["ready"] == 2


@stores
def test_what_was_reserved_in_simulated_time_is_recovered_in_simulated_time(at: Run, address: str) -> None:
    """Else it would be ready from a moment on that no simulated clock comes to."""
    clock = SimulatedClock()
    with Queue(address, name=QUEUE, clock=clock, policy=Policy(retry_after=10.0)) as queue:
        queue.handler("send")(lambda job: None)
        queue.dispatch_many([("send", None)] * 3)
        queue.reserve()
        clock.advance(9.0)
        queue.reserve()
        assert at("recover").stdout.startswith("no reservation has run out")
        assert len(at("recover", "--force").stdout.splitlines()) >= 2
        assert [job.available_at for job in queue.jobs()] == [0.0, 9.0, 9.0]


@stores
def test_clear_leaves_failed_jobs(at: Run, address: str) -> None:
    with Queue(address, name=QUEUE, policy=Policy(tries=1)) as queue:
        queue.handler("send")(lambda job: 1 / 0)
        queue.dispatch("send")
        queue.drain()
        queue.dispatch("send")
    assert at("clear").stdout.startswith("1 job deleted\n")
    assert json.loads(at("counts", "--json").stdout)["failed"] == 1


# -- one failed job --


@pytest.fixture
def broken(address: str) -> None:
    """Two jobs that failed of what they were given."""
    with Queue(address, name=QUEUE, policy=Policy(tries=1), clock=SimulatedClock(70.0)) as queue:

        @queue.handler("pay")
        def pay(job: Any) -> None:
            raise ValueError(f"no amount\x1b[2J: {job.payload['amount']}")

        queue.dispatch("pay", {"amount": "two", "to": "é"})
        queue.dispatch("pay", {"amount": "three"})
        queue.drain()


@stores
def test_all_of_a_failed_job_is_shown_with_its_traceback(at: Run, broken: None) -> None:
    told = at("failed", "--show", 1)
    assert (told.exit_code, told.stderr) == (0, "")
    assert re.search(
        r"^failed id      1\nhandler        pay\nattempts       1\ndispatched at  70 s\nfailed at      70 s\n"
        r"uid            [0-9a-f]{32}\nerror          ValueError: no amount\\x1b\[2J: two\n\npayload\n"
        r'\{\n  "amount": "two",\n  "to": "é"\n\}\n\ntraceback\nTraceback \(most recent call last\):\n',
        told.stdout,
    )
    assert '    raise ValueError(f"no amount\\x1b[2J: {job.payload[' in told.stdout
    assert told.stdout.replace("\n", "").isprintable()
    (job,) = json.loads(at("failed", "--show", 2, "--json").stdout)["failed"]
    assert (job["id"], job["payload"]) == (2, {"amount": "three"})
    assert job["traceback"].startswith("Traceback")


@stores
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_failed_job_that_is_not_there_cannot_be_shown(words: tuple[str, ...], at: Run, broken: None) -> None:
    told = at("failed", "--show", 7, *words)
    assert (told.exit_code, told.stderr) == (1, f"qlab: there is no failed job 7 in the queue '{QUEUE}'\n")
    assert (json.loads(told.stdout)["failed"] == []) if words else (told.stdout == "")


@stores
def test_a_failed_job_s_payload_is_corrected_and_retried(at: Run, address: str, broken: None) -> None:
    told = at("retry", 1, "--payload", '{"amount": 2}')
    assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "1 failed job retried")
    with Queue(address, name=QUEUE) as queue:
        assert [(job.name, job.payload, job.attempts) for job in queue.jobs()] == [("pay", {"amount": 2}, 0)]
        assert [job.payload for job in queue.failed()] == [{"amount": "three"}]


@stores
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["1", "--payload", "{amount: 2}"], 2, "'{amount: 2}' is no JSON"),
        (["1", "--payload", ""], 2, "'' is no JSON"),
        (["1", "--payload", "[" * 100_000], 2, "is no JSON"),
        (["1", "--payload", "NaN"], 1, "nan"),
        (["all", "--payload", "1"], 2, "--payload goes with one id"),
        (["1", "2", "--payload", "1"], 2, "--payload goes with one id"),
        (["7", "--payload", "1"], 1, "there is no failed job 7"),
    ],
)
def test_a_correction_that_is_none_is_said_and_changes_nothing(
    words: list[str], code: int, says: str, at: Run, address: str, broken: None
) -> None:
    told = at("retry", *words)
    assert told.exit_code == code
    assert says in " ".join(told.stderr.split())
    with Queue(address, name=QUEUE) as queue:
        assert [job.payload["amount"] for job in queue.failed()] == ["two", "three"]
        assert queue.jobs() == []


# -- a queue as an application makes it --


@stores
def test_every_command_takes_a_queue_that_an_application_makes(run: Run, address: str, folder: Path) -> None:
    target = made_by(folder, f"Queue({address!r}, name={QUEUE!r}, payload_limit=100)")
    with Queue(address, name=QUEUE, policy=Policy(tries=1)) as queue:
        queue.handler("send")(lambda job: 1 / 0)
        queue.dispatch_many([("send", number) for number in range(4)])
        queue.drain()
        environment = {"QLAB_URL": "sqlite:///another.db"}
        assert json.loads(run("counts", target, "--json", env=environment).stdout)["failed"] == 4
        assert run("failed", target).stdout.count("ZeroDivisionError") == 4
        assert run("failed", target, "--show", 2).stdout.startswith("failed id      2\n")
        for words in (["retry", target, 1], ["retry", 2, target, "--payload", "22"], ["forget", target, 3, 4]):
            assert run(*words).exit_code == 0, words
        assert [job.payload for job in queue.jobs()] == [0, 22]
        assert run("retry", target, 9).exit_code == 1
        assert run("jobs", target).stdout.count("send") == 2
        queue.reserve()
        assert run("recover", target, "--force").stdout.startswith("job ")
        assert run("clear", target).stdout.startswith("2 jobs deleted\n")


@only("sqlite")
def test_the_application_s_limit_holds_for_a_corrected_payload(run: Run, address: str, folder: Path) -> None:
    target = made_by(folder, f"Queue({address!r}, name={QUEUE!r}, payload_limit=10)")
    with Queue(address, name=QUEUE, policy=Policy(tries=1)) as queue:
        queue.handler("send")(lambda job: 1 / 0)
        queue.dispatch("send")
        queue.drain()
    told = run("retry", target, 1, "--payload", '"more than ten bytes"')
    assert told.exit_code == 1
    assert "the limit is 10" in told.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["counts"], 2, "which queue? Write MODULE:QUEUE, or --url URL, or set QLAB_URL."),
        (["counts", "shop:queue", "--url", "sqlite:///jobs.db"], 2, "'shop:queue' is a queue already: leave --url and"),
        (["jobs", "shop:queue", "--queue", "mail"], 2, "'shop:queue' is a queue already"),
        (["retry", "a:b", "c:d", "1"], 2, "name one MODULE:QUEUE, not 2"),
        (["retry", "shop:queue"], 2, "name ids as `qlab failed` lists them, or all"),
        (["counts", "jobs.db"], 1, "'jobs.db' names no queue: write MODULE:QUEUE"),
        (["clear", "nothing_like_it:queue"], 1, "there is no module 'nothing_like_it'"),
        (["forget", "__main__:queue", "all"], 1, "%%writefile shop.py"),
        (["failed", "--show", "0"], 2, "0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_names_no_queue_is_said(words: list[str], code: int, says: str, run: Run, folder: Path) -> None:
    told = run(*words)
    assert (told.exit_code, told.stdout) == (code, "")
    assert says in " ".join(told.stderr.split())
    assert list(folder.iterdir()) == []


def test_an_application_that_cannot_be_imported_is_told_with_its_traceback(run: Run, folder: Path) -> None:
    (folder / "broken_application.py").write_text("1 / 0\n")
    told = run("counts", "broken_application:queue")
    assert told.exit_code == 1
    assert told.stderr.startswith("Traceback (most recent call last):\n")
    assert told.stderr.splitlines()[-1] == (
        "qlab: the module 'broken_application' cannot be imported: ZeroDivisionError: division by zero"
    )


def test_a_queue_that_only_its_own_process_sees_is_refused(run: Run, folder: Path) -> None:
    told = run("counts", made_by(folder, "Queue('memory://')"))
    assert told.exit_code == 1
    assert "is a store that only the process sees which opens it" in told.stderr
