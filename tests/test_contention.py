"""Real workers on real stores, measured: every job is accounted for, and nothing is left."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from conftest import new

import qlab
from qlab import crew, drivers, frames
from qlab.clock import SystemClock, monotonic, pause
from qlab.contend import Contention, contention, noise
from qlab.contend.merging import merged, tally
from qlab.contend.timed import Timed
from qlab.driver import SURVIVED, Durability
from qlab.drivers.memory import MemoryDriver
from qlab.errors import DriverUnavailable, QlabError
from qlab.measured import Measured
from qlab.policy import Policy
from qlab.scenario import Arrival, Behaviour, Scenario, named
from qlab.simulation import Run
from qlab.trace import Event, Kind, Trace
from qlab.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qlab.queue import Queue

if sys.platform == "win32":
    pytest.skip("these tests need sockets that are files, and signals", allow_module_level=True)

ARMS = ("sqlite NORMAL", "redis_zset everysec", "redis_list none")
JOBS = 40
ROOT = Path(__file__).parents[1]
SOON = Policy(backoff=(0.0,), retry_after=2.0)


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that a test starts here, workers and watchdogs of servers; none may be left at its end."""
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(crew.subprocess, "Popen", Popen)
    yield started
    assert [process for process in started if process.poll() is None] == []
    assert [thread.name for thread in threading.enumerate() if "contention" in thread.name] == []


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where stores are made; none may be left at the end."""
    folder = tmp_path / "stores"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def found() -> Contention:
    """Three arms with one worker and with two, twice each, which the tests below only look at."""
    return contention(ARMS, workers=(2, 1), jobs=JOBS, repeats=2, payload=100, progress=False)


def measured(run: Run) -> Measured:
    assert run.measured is not None
    return run.measured


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a module that worker processes can import, with a handler of the name `mine`; gives its address."""

    def write(body: str, *, registering: str = "pass") -> str:
        name = f"own_{tmp_path.name.replace('-', '_')}"
        lines = [
            "import os, pathlib, signal, sys, time",
            f"FOLDER = pathlib.Path({str(tmp_path)!r})",
            "def register(queue):",
            f"    {registering}",
            "    queue.handler('mine')(run)",
            "def run(job):",
            *(f"    {line}" for line in dedent(body).splitlines()),
        ]
        (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(tmp_path)
        return f"{name}:register"

    return write


# -- what happened --


def test_no_arm_loses_or_doubles_a_job(found: Contention) -> None:
    assert len(found.runs) == len(ARMS) * 2 * 2
    for run in found.runs:
        for kind in (Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED):
            assert sorted(event.job for event in run.trace if event.kind is kind) == list(range(1, JOBS + 1))
        assert (measured(run).lost, measured(run).duplicated) == (0, 0)
        assert sum(measured(run).per_worker) == JOBS
        assert run.at(run.until).counts().depth == 0


def test_the_trace_of_all_workers_is_one_from_the_moment_at_which_they_began(found: Contention) -> None:
    for run in found.runs:
        told = [(event.at, event.kind) for event in run.trace]
        assert told[:JOBS] == [(0.0, Kind.DISPATCHED)] * JOBS
        assert [at for at, _ in told] == sorted(at for at, _ in told)
        assert 0 < told[-1][0] <= run.until < 60
        workers = {event.worker for event in run.trace if event.worker}
        assert workers <= {f"worker {i + 1}" for i in range(run.scenario.workers)}


def test_each_call_is_measured_and_each_wait(found: Contention) -> None:
    for run in found.runs:
        figures = measured(run)
        assert (len(figures.reserves), len(figures.completes), len(figures.waits)) == (JOBS, JOBS, JOBS)
        assert min(*figures.reserves, *figures.completes, *figures.waits) > 0
        assert max(figures.waits) <= (figures.seconds + 0.1) * 1_000_000
        assert (figures.disk_bytes > 0) == (figures.arm != "redis_list none")
        assert figures.noise >= 1
        assert (figures.server_cpu > 0) == run.driver.startswith("redis")


def test_arms_workers_and_repeats_come_in_an_order_of_chance(found: Contention) -> None:
    def order(found: Contention) -> list[tuple[str, int, int]]:
        return [(measured(run).arm, measured(run).workers, measured(run).repeat) for run in found.runs]

    grid = [(arm, workers, repeat) for arm in ARMS for workers in (1, 2) for repeat in (0, 1)]
    assert order(found) != grid
    assert sorted(order(found)) == sorted(grid)
    told: list[list[str]] = []
    for seed in (0, 0, 1):
        says: list[str] = []
        contention("memory", mode="thread", workers=range(1, 6), jobs=1, repeats=1, seed=seed, progress=collect(says))
        told.append(list(dict.fromkeys(says)))
    assert told[0] == told[1] != told[2]


def collect(says: list[str]) -> Callable[[float, str], None]:
    return lambda _, what: says.append(what)


def test_all_workers_are_ready_before_the_first_begins(module: Callable[..., str], tmp_path: Path) -> None:
    mine = module(
        "(FOLDER / f'run-{os.getpid()}-{job.id}').write_text(str(time.monotonic()))",
        registering="(FOLDER / f'ready-{os.getpid()}').write_text(str(time.monotonic()))",
    )
    contention("sqlite", workers=3, jobs=3, repeats=1, handlers=mine)
    ready = [float(file.read_text()) for file in tmp_path.glob("ready-*") if file.name != f"ready-{os.getpid()}"]
    ran = [float(file.read_text()) for file in tmp_path.glob("run-*")]
    assert (len(ready), len(ran)) == (3, 3)
    assert max(ready) < min(ran)


def test_progress_is_told_up_to_the_end() -> None:
    told: list[float] = []
    contention("sqlite", workers=2, jobs=JOBS, repeats=2, progress=lambda share, _: told.append(share))
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_a_scenario_says_how_handlers_behave(mode: Any) -> None:
    arrivals = [Arrival(0.0, "poor", {"n": 1}), Arrival(0.0, "late"), Arrival(0.0, "busy"), Arrival(0.0, "lost")]
    behaviours = {
        "poor": Behaviour(fails=1),
        "late": Behaviour(0.01, late_by=0.02),
        "busy": Behaviour(0.01, busy=True),
        "lost": Behaviour(fails=None, error="no such order"),
    }
    scenario = Scenario("mixed", arrivals, behaviours, policy=Policy(backoff=(0.2,)), poll=0.01)
    (run,) = contention("sqlite", scenario, workers=2, mode=mode, repeats=1).runs
    jobs = frames.jobs(run.trace).set_index("name")
    assert dict(jobs["attempts"]) == {"poor": 2, "late": 1, "busy": 1, "lost": 3}
    assert dict(jobs["state"]) == {"poor": "done", "late": "done", "busy": "done", "lost": "failed"}
    assert jobs.at["lost", "error"] == "RuntimeError: no such order"
    assert jobs.at["late", "service"] >= 0.03
    assert (measured(run).lost, measured(run).duplicated, sum(measured(run).per_worker)) == (0, 0, 3)
    assert (len(measured(run).reserves), len(measured(run).waits)) == (7, 4)  # a job waits for its first start once


def test_a_workload_s_times_and_failures_are_drawn() -> None:
    workload = Workload(qlab.workload.Bursts(10, every=None), qlab.workload.Fixed(0.005), jobs=10, payload=[1])
    scenario = Scenario("drawn", workload=replace(workload, failures=qlab.workload.FirstAttempts(1)), policy=SOON)
    (run,) = contention("sqlite", scenario, workers=2, repeats=1).runs
    jobs = frames.jobs(run.trace)
    assert (jobs["attempts"] == 2).all()
    assert (jobs["service"] >= 0.01).all()


def test_handlers_may_be_said_to_behave() -> None:
    (run,) = contention("sqlite", jobs=20, workers=2, repeats=1, handlers={"a": Behaviour(), "b": Behaviour()}).runs
    assert {event.name for event in run.trace if event.name} == {"a", "b"}


def test_handlers_of_your_own_get_the_payload(module: Callable[..., str]) -> None:
    mine = module("assert job.payload == 'x' * 98, job.payload")
    (run,) = contention("sqlite", workers=2, jobs=4, payload=100, repeats=1, handlers=mine).runs
    assert [event.name for event in run.trace if event.kind is Kind.COMPLETED] == ["mine"] * 4


def test_what_a_handler_prints_is_no_message(module: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    mine = module("print('[\"done\", 1000]', flush=True); os.write(1, b'x' * 100_000)")
    (run,) = contention("sqlite", workers=2, jobs=10, repeats=1, handlers=mine, progress=False).runs
    assert sum(measured(run).per_worker) == 10
    assert capfd.readouterr() == ("", "")


# -- threads --


def test_threads_contend_as_processes_do(processes: list[Any]) -> None:
    arms = ("memory", "sqlite:///:memory:", *ARMS)
    found = contention(arms, workers=(1, 3), jobs=JOBS, repeats=1, mode="thread")
    assert [each for each in processes if "qlab.contend.worker" in each.args] == []
    frame = frames.contention(found)
    assert list(frame["arm"].unique()) == [*arms]
    assert (frame["lost"] + frame["duplicated"] == 0).all()
    assert {measured(run).mode for run in found.runs} == {"thread"}
    assert "interpreter lock" in found.notes[0]
    assert sorted(e.job for r in found.runs for e in r.trace if e.kind is Kind.COMPLETED) == sorted(
        [*range(1, JOBS + 1)] * 10
    )


def test_threads_take_a_function_of_a_cell() -> None:
    ran: list[int] = []

    def register(queue: Queue) -> None:
        queue.handler("mine")(lambda job: ran.append(job.id))

    contention("sqlite", workers=2, jobs=10, repeats=1, mode="thread", handlers=register)
    assert sorted(ran) == list(range(1, 11))


def test_a_thread_that_cannot_begin_is_an_error() -> None:
    calls: list[int] = []

    def register(queue: Queue) -> None:
        calls.append(1)
        if len(calls) > 2:
            raise ZeroDivisionError("not today")
        queue.handler("mine")(print)

    with pytest.raises(QlabError, match=r"worker 1 ended by itself: ZeroDivisionError: not today"):
        contention("memory", workers=1, jobs=10, repeats=1, mode="thread", handlers=register)


# -- what is refused --


BAD = [
    ({"workers": 0}, ValueError, "workers is 0: use numbers from 1 to 64"),
    ({"workers": [1, 65]}, ValueError, "workers is 65"),
    ({"workers": [True]}, ValueError, "workers is True"),
    ({"workers": []}, ValueError, "workers is empty"),
    ({"workers": 1.5}, TypeError, "workers is 1.5: use a number from 1 to 64, or several"),
    ({"workers": None}, TypeError, "workers is None"),
    ({"drivers": "sqlite FULLY"}, ValueError, "there is no arm 'sqlite FULLY'"),
    ({"drivers": []}, ValueError, "there is no arm to run"),
    ({"drivers": 7}, TypeError, "drivers is 7: use names"),
    ({"drivers": [7]}, TypeError, "an arm is 7"),
    ({"drivers": "memory"}, ValueError, "memory is in the memory of one process.*mode='thread'"),
    ({"drivers": "memory://"}, ValueError, "memory is in the memory of one process"),
    ({"drivers": "sqlite:///:memory:"}, ValueError, "sqlite:///:memory: is in the memory of one process"),
    ({"jobs": 0}, ValueError, "jobs is 0: use a whole number from 1"),
    ({"jobs": 1.5}, ValueError, "jobs is 1.5"),
    ({"length": -1}, ValueError, "length is -1 s"),
    ({"payload": 1}, ValueError, "payload is 1: use a number of bytes from 2"),
    ({"busy": "yes"}, TypeError, "busy is 'yes'"),
    ({"repeats": 0}, ValueError, "repeats is 0"),
    ({"mode": "fork"}, ValueError, "mode is 'fork': use 'process' or 'thread'"),
    ({"job": 7}, TypeError, "contention takes no 'job': use jobs, length, busy, payload, enqueue, name"),
    ({"scenario": "all_kinds"}, TypeError, "scenario is 'all_kinds': use a Scenario"),
    ({"scenario": Scenario("x"), "jobs": 7}, TypeError, "there is a scenario, and jobs beside it"),
    ({"scenario": Scenario("x")}, ValueError, "scenario 'x' brings no job"),
    ({"scenario": named("all_kinds")}, ValueError, "'all_kinds' has faults, which happen in simulated time only"),
    ({"scenario": Scenario("x", [Arrival(0.0, "y")])}, ValueError, "'x' does not say how 'y' behaves"),
    ({"handlers": "shop"}, ValueError, "handlers is 'shop': write module:function"),
    ({"handlers": "no_such_shop:register"}, ValueError, "'no_such_shop:register', which cannot be imported"),
    ({"handlers": "json:none"}, ValueError, "'json:none', which cannot be imported"),
    ({"handlers": "json:decoder"}, ValueError, "name a function of a queue"),
    ({"handlers": "__main__:register"}, ValueError, "(?s)a notebook or a script defines.*%%writefile shop.py"),
    ({"handlers": lambda queue: None}, ValueError, "has no name of its own in a module"),
    ({"handlers": "builtins:print"}, ValueError, "which registers none"),
    ({"handlers": 7}, TypeError, "handlers is 7"),
    ({"handlers": {}}, ValueError, "handlers is {}"),
    ({"handlers": {"mail": 7}}, TypeError, r"handlers\['mail'\] is 7: use Behaviour"),
    ({"handlers": {"mail": Behaviour()}, "length": 1.0}, TypeError, "handlers of your own, and length beside them"),
    ({"arrivals": [Arrival(0.0, "mail")], "jobs": 7}, TypeError, "arrivals or a workload, and jobs beside them"),
    ({"arrivals": [Arrival(0.0, "mail")]}, ValueError, "does not say how 'mail' behaves"),
    ({"scenario": Scenario("x"), "handlers": {"y": Behaviour()}}, TypeError, "and handlers that only behave beside it"),
]


@pytest.mark.parametrize(("wrong", "kind", "says"), BAD, ids=[says[:40] for _, _, says in BAD])
def test_what_cannot_be_run_is_refused_before_anything_is_made(
    wrong: dict[str, Any], kind: type[Exception], says: str, processes: list[Any]
) -> None:
    with pytest.raises(kind, match=says):
        contention(**wrong)
    assert processes == []


def test_a_function_of_a_notebook_s_cell_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def register(queue: Queue) -> None: ...

    monkeypatch.setattr(register, "__module__", "__main__")
    with pytest.raises(ValueError, match=r"%%writefile shop.py in a cell.*mode='thread'"):
        contention("sqlite", handlers=register)


def test_a_scenario_must_fit_the_handlers(module: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="does not say how 'yours' runs: register a handler of it"):
        contention("sqlite", Scenario("x", [Arrival(0.0, "yours")]), handlers=module("pass"))


# -- when it is stopped --


@pytest.mark.parametrize("mode", ["process", "thread"])
@pytest.mark.parametrize("how", ["event", "interrupt"])
def test_a_stop_keeps_what_was_measured_and_leaves_nothing(mode: Any, how: str, processes: list[Any]) -> None:
    stop, told = threading.Event(), []

    def progress(share: float, what: str) -> None:
        told.append(what)
        if share >= 0.5:
            stop.set() if how == "event" else signal.raise_signal(signal.SIGINT)
            told.append("went on")  # the first Ctrl-C breaks nothing off half way

    found = contention(ARMS[:2], workers=2, jobs=10, length=0.01, repeats=1, mode=mode, stop=stop, progress=progress)
    assert (found.interrupted, told[-1]) == (True, "went on")
    assert len(found.runs) == 1
    assert "interrupted" in repr(found)
    assert "interrupted" in found._repr_html_()
    assert [each for each in processes if each.poll() is None] == []


def test_a_stop_in_the_middle_of_a_long_job_is_heard(module: Callable[..., str], tmp_path: Path) -> None:
    fifo, stop = tmp_path / "fifo", threading.Event()
    os.mkfifo(fifo)
    mine = module("open(FOLDER / 'fifo', 'w').close()\nsignal.pause()")
    hearing = threading.Thread(target=lambda: (fifo.read_text(), stop.set()))
    hearing.start()
    found = contention("sqlite", workers=1, jobs=10, handlers=mine, stop=stop)
    hearing.join()
    assert repr(found) == "<Contention of nothing: 0 runs, interrupted>"


def test_threads_that_wait_hear_of_a_stop() -> None:
    stop, began = threading.Event(), monotonic()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    found = contention("sqlite", workers=2, jobs=10, length=600.0, mode="thread", stop=stop)
    timer.join()
    assert (found.interrupted, found.runs) == (True, ())
    assert monotonic() - began < 300


def test_what_is_stopped_before_it_begins_finds_nothing(processes: list[Any]) -> None:
    stop = threading.Event()
    stop.set()
    assert contention("sqlite", jobs=10, stop=stop).runs == ()
    assert processes == []


def test_an_error_of_who_is_told_leaves_nothing(processes: list[Any]) -> None:
    def progress(share: float, what: str) -> None:
        if share:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        contention(ARMS, workers=2, jobs=10, repeats=1, progress=progress)
    assert processes


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_started_them(
    how: signal.Signals, module: Callable[..., str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    mine = module("(FOLDER / 'fifo').write_text(str(os.getpid()))\nsignal.pause()")
    script = f"""if True:
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from qlab import contention
        contention({f"sqlite:///{tmp_path}/jobs.db"!r}, workers=1, jobs=1, repeats=1, handlers={mine!r})
    """
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        worker = int((tmp_path / "fifo").read_text())
        assert _runs(worker)
    finally:
        parent.send_signal(how)
        parent.wait()
    deadline = monotonic() + 60.0
    while _runs(worker):
        assert monotonic() < deadline, "it did not end"
        pause(0.005)


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_worker_that_does_not_react_to_a_stop_is_killed(
    module: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qlab.crew._GRACE", 0.01)
    os.mkfifo(tmp_path / "fifo")
    stop = threading.Event()
    mine = module("(FOLDER / 'fifo').write_text(str(os.getpid()))\nsignal.pause()")

    def freeze() -> None:
        os.kill(int((tmp_path / "fifo").read_text()), signal.SIGSTOP)
        stop.set()

    freezing = threading.Thread(target=freeze)
    freezing.start()
    assert contention("sqlite", workers=2, jobs=1, repeats=1, handlers=mine, stop=stop).interrupted
    freezing.join()


# -- when workers die --


def test_a_worker_that_cannot_get_ready_is_an_error(module: Callable[..., str], processes: list[Any]) -> None:
    mine = module("pass", registering=f"if os.getpid() != {os.getpid()}: raise ImportError('not here')")
    with pytest.raises(QlabError, match=r"(?s)worker process \d ended by itself \(exit code 1\): .*not here"):
        contention("sqlite", workers=3, jobs=1, handlers=mine)
    assert len([each for each in processes if "qlab.contend.worker" in each.args]) == 3  # beside who tidies up


def test_a_killed_worker_is_told_and_its_run_left_out(module: Callable[..., str]) -> None:
    mine = module("""
        if not (FOLDER / "killed").exists():
            (FOLDER / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    found = contention("sqlite", workers=2, jobs=10, repeats=2, handlers=mine)
    assert len(found.runs) == 1
    ((what, why),) = found.skipped.items()
    assert what in ("sqlite NORMAL, 2 workers, repeat 1", "sqlite NORMAL, 2 workers, repeat 2")
    assert "of 2 was killed, so what it did is not known" in why
    assert what in found._repr_html_()


def test_where_every_run_is_left_out_it_is_an_error(module: Callable[..., str]) -> None:
    mine = module("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(QlabError, match="nothing was measured: sqlite NORMAL, 1 worker, repeat 1: worker 1 of 1 was"):
        contention("sqlite", workers=1, jobs=2, repeats=1, handlers=mine)


def test_a_worker_that_ends_by_itself_is_an_error_with_its_last_words(module: Callable[..., str]) -> None:
    mine = module("print('my last words', flush=True); os._exit(7)")
    with pytest.raises(QlabError, match=r"worker process \d ended by itself \(exit code 7\): my last words"):
        contention("sqlite", workers=2, jobs=4, repeats=1, handlers=mine)


def test_a_worker_that_ends_by_itself_later_costs_only_its_run(module: Callable[..., str]) -> None:
    mine = module("""
        runs = len(list(FOLDER.glob("run-*")))
        (FOLDER / f"run-{runs}").touch()
        if runs == 3:
            os._exit(7)
    """)
    found = contention("sqlite", workers=1, jobs=2, repeats=3, handlers=mine)
    assert len(found.runs) == 2
    assert [why.partition(":")[0] for why in found.skipped.values()] == [
        "worker process 1 ended by itself (exit code 7)"
    ]


def test_a_run_that_stands_still_is_an_error(module: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qlab.contend.sides.PATIENCE", 0.1)
    policy = Policy(retry_after=0.5, backoff=())
    with pytest.raises(QlabError, match=r"no job was done for 0.6 s: 0 of 1 were until then"):
        contention("sqlite", workers=1, jobs=1, repeats=1, policy=policy, handlers=module("signal.pause()"))


# -- tables and files --


def test_the_frame_has_a_row_for_each_arm_and_number_of_workers(found: Contention) -> None:
    frame = frames.contention(found)
    assert list(zip(frame["arm"], frame["workers"], frame["runs"], frame["jobs"], strict=True)) == [
        (arm, workers, 2, JOBS) for arm in ARMS for workers in (1, 2)
    ]
    assert list(frame["survives"].unique()) == [SURVIVED[2], SURVIVED[1]]
    assert (frame["low"] <= frame["jobs_per_second"]).all()
    assert (frame["jobs_per_second"] <= frame["high"]).all()
    for call in ("wait", "reserve", "complete"):
        parts = [frame[f"{call}_{part}"] for part in ("p50", "p95", "p99", "max")]
        assert all((less <= more).all() for less, more in pairwise(parts))
    assert (frame.loc[frame["workers"] == 1, ["fewest_most", "jain"]] == 1).all(axis=None)
    calls = [name for name in frame.columns if name.startswith("dispatch")]
    assert frame[calls].isna().all(axis=None)  # all jobs were there before
    assert not frame.drop(columns=calls).isna().any(axis=None)
    assert frames.contention(found.runs).shape == frame.shape


def test_each_frame_has_its_columns_and_dtypes_also_when_it_is_empty(found: Contention) -> None:
    for make in (frames.contention, frames.reserves):
        full, empty = make(found), make(Contention(()))
        assert (len(empty), list(empty.columns)) == (0, list(full.columns))
        for name in full.columns:
            if isinstance(full[name].dtype, pd.CategoricalDtype):
                assert empty[name].dtype.ordered == full[name].dtype.ordered
            else:
                assert empty[name].dtype == full[name].dtype
    assert frames.contention(found)["survives"].dtype.ordered
    assert list(frames.contention(found)["survives"].dtype.categories) == [*SURVIVED]
    assert str(frames.contention(found)["server"].dtype) == "str"


def test_each_reservation_is_told(found: Contention) -> None:
    frame = frames.reserves(found)
    assert len(frame) == len(found.runs) * JOBS
    assert frame.groupby(["arm", "workers", "repeat"], observed=True).size().unique().tolist() == [JOBS]
    longest = frames.contention(found).set_index(["arm", "workers"])["reserve_max"]
    told = frame.groupby(["arm", "workers"], observed=True)["reserve"].max()
    assert told.sort_index().to_list() == pytest.approx(longest.sort_index().to_list())


def test_figures_are_medians_and_sums_of_the_repeats() -> None:
    runs = [
        made(per_worker=(30, 10), seconds=1.0, locked=1, lost=1, worker_cpu=4.0, reserves=(1_000, 3_000)),
        made(per_worker=(20, 20), seconds=2.0, locked=2, lost=0, worker_cpu=2.0, reserves=(2_000, 9_000)),
        made(per_worker=(40, 0), seconds=4.0, locked=4, lost=0, worker_cpu=1.0, reserves=(5_000, 5_000)),
    ]
    (row,) = frames.contention(runs).to_dict("records")
    assert (row["jobs_per_second"], row["low"], row["high"]) == (20.0, 10.0, 40.0)
    assert (row["fewest_most"], row["jain"]) == pytest.approx((1 / 3, 0.8))
    assert (row["locked"], row["lost"], row["worker_cpu"]) == (7, 1, 0.05)
    assert (row["reserve_p50"], row["reserve_max"]) == pytest.approx((0.005, 0.009))
    assert pd.isna(row["complete_p50"])


def made(**figures: Any) -> Run:
    """A run as it would be if these had been measured."""
    durability = Durability("nothing", "nothing", "nothing")
    told = Measured(arm="sqlite FULL", workers=2, repeat=0, mode="process", **figures)
    return Run(Trace(), Scenario("x"), "sqlite", "available_at", "SQLite", durability, 1.0, measured=told)


def test_a_simulated_run_is_none_of_a_contention() -> None:
    simulated = qlab.simulate("memory://", Scenario("x", [Arrival(0.0, "y")], {"y": Behaviour()}))
    with pytest.raises(ValueError, match="is a simulated run"):
        frames.contention([simulated])
    for wrong in (7, [7], simulated):
        with pytest.raises(TypeError, match="this frame is made of what qlab.contention gives"):
            frames.reserves(wrong)  # type: ignore[arg-type]


def test_it_shows_itself_in_short_and_as_a_table(found: Contention) -> None:
    assert repr(found) == f"<Contention of {', '.join(ARMS)} with 1, 2 workers: 12 runs>"
    shown = found._repr_html_()
    assert all(each in shown for each in (*ARMS, *SURVIVED[1:3], "jobs/s", "12 runs in"))
    assert qlab.contention is contention
    assert qlab.Contention is Contention


def test_its_rows_have_the_same_columns_and_stand_in_the_order_of_the_arms(found: Contention) -> None:
    rows = found.rows()
    assert [(row["arm"], row["workers"]) for row in rows] == [(arm, workers) for arm in ARMS for workers in (1, 2)]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert all(row["slowest"] <= row["jobs/s"] <= row["fastest"] for row in rows)


def test_it_is_saved_and_loaded_as_it_was(found: Contention, tmp_path: Path) -> None:
    file = found.save(tmp_path / "found.qlab")
    assert Contention.load(file) == found
    assert repr(Contention.load(file)) == repr(found)
    empty = Contention((), skipped={"redis": "is not there"}, notes=("noisy",), interrupted=True)
    assert Contention.load(empty.save(file)) == empty


@pytest.mark.parametrize("content", [b"", b"{}", b"PK", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_saved_contention_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "found.qlab"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="found.qlab: it is damaged, or no saved contention"):
        Contention.load(file)


def test_a_newer_contention_is_refused(tmp_path: Path) -> None:
    file = Contention(()).save(tmp_path / "found.qlab")
    with zipfile.ZipFile(file) as archive:
        head = json.loads(archive.read("contention.json"))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("contention.json", json.dumps(head | {"version": 2}))
    with pytest.raises(ValueError, match="its version is 2, this qlab knows up to 1"):
        Contention.load(file)


def test_a_real_run_is_saved_and_loaded_as_it_was(found: Contention, tmp_path: Path) -> None:
    for run in found.runs[:3]:
        assert Run.load(run.save(tmp_path / "run")) == run


def test_a_run_saved_before_runs_were_measured_is_still_loaded(tmp_path: Path) -> None:
    run = qlab.simulate("memory://", Scenario("x", [Arrival(0.0, "y")], {"y": Behaviour()}))
    file = run.save(tmp_path / "run")
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(entries["run.json"])
    del head["measured"]
    with zipfile.ZipFile(file, "w") as archive:
        for name, entry in (entries | {"run.json": json.dumps(head).encode()}).items():
            archive.writestr(name, entry)
    assert Run.load(file) == run


# -- the parts --


def test_what_was_before_the_start_happens_at_0_and_a_reservation_after_its_dispatch() -> None:
    before = Trace([Event(90.0, Kind.DISPATCHED, 1, "y", until=90.0)])
    one = Trace([Event(100.1, Kind.RESERVED, 1, "y", 1, "worker 1", since=90.0, until=190.1)])
    two = Trace(
        [
            Event(100.2, Kind.RESERVED, 2, "z", 1, "worker 2", since=100.3, until=190.2),
            Event(100.28, Kind.COMPLETED, 2, "z", 1, "worker 2"),
            Event(100.25, Kind.BLOCKED, worker="worker 2", since=100.05),
        ]
    )
    late = Trace([Event(100.3, Kind.DISPATCHED, 2, "z", until=100.3)])
    told = merged([before, one, two, late], 100.0)
    assert [(event.at, event.kind, event.job, event.worker, event.since) for event in told] == [
        (0.0, Kind.DISPATCHED, 1, "", None),
        (0.1, Kind.RESERVED, 1, "worker 1", 0.0),
        (0.25, Kind.BLOCKED, None, "worker 2", 0.05),
        (0.3, Kind.DISPATCHED, 2, "", None),
        (0.3, Kind.RESERVED, 2, "worker 2", 0.3),
        (0.3, Kind.COMPLETED, 2, "worker 2", None),
    ]
    assert tally(told, [])[2:] == (1, pytest.approx(0.2))


def test_jobs_that_vanished_or_were_done_twice_are_counted() -> None:
    def happened(kind: Kind, *jobs: int, attempt: int = 1) -> list[Event]:
        return [Event(float(job), kind, job, attempt=attempt) for job in jobs]

    events = [
        *happened(Kind.DISPATCHED, *range(1, 9)),
        *happened(Kind.RESERVED, 1, 2, 3, 4, 5, 6),
        *happened(Kind.COMPLETED, 1, 2, 6),
        *happened(Kind.FAILED, 3),
        *happened(Kind.RESERVED, 4),
        *happened(Kind.RESERVED, 2, attempt=2),
        *happened(Kind.COMPLETED, 2, attempt=2),
    ]
    counted = tally(Trace(sorted(events, key=lambda event: event.at)), left=[4, 6, 7])
    assert counted.lost == 2  # 5 and 8
    assert counted.duplicated == 3  # 2 was completed twice, 4 given out twice, 6 is still there


def test_a_worker_goes_on_when_its_store_is_away_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = itertools.count(1)
    usual = MemoryDriver.complete_and_reserve

    def now_and_then(self: MemoryDriver, *args: Any, **how: Any) -> Any:
        if next(answers) % 3 == 0:
            raise DriverUnavailable("locked for long")
        return usual(self, *args, **how)

    monkeypatch.setattr(MemoryDriver, "complete_and_reserve", now_and_then)
    (run,) = contention("memory", workers=2, mode="thread", jobs=30, repeats=1).runs
    assert measured(run).lock_errors >= 10
    assert (sum(measured(run).per_worker), measured(run).lost, measured(run).duplicated) == (30, 0, 0)


def test_a_store_that_stays_away_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count(1)

    def away(self: MemoryDriver, *args: Any, **how: Any) -> Any:
        if next(calls) > 1:  # it was there while workers got ready
            raise DriverUnavailable("it is gone")
        return []

    monkeypatch.setattr("qlab.contend.worker._PATIENCE", 0.1)
    monkeypatch.setattr(MemoryDriver, "reserve", away)
    with pytest.raises(QlabError, match="worker 1 ended by itself: DriverUnavailable: it is gone"):
        contention("memory", workers=1, mode="thread", jobs=30, repeats=1)
    assert next(calls) > 3


def test_what_went_wrong_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a broken queue, which no address opens: what a worker completes stays there, and comes again."""
    monkeypatch.setattr(MemoryDriver, "complete_and_reserve", _forgetful)
    policy = Policy(retry_after=0.05)
    found = contention("memory", workers=1, mode="thread", jobs=5, repeats=1, policy=policy, progress=False)
    assert measured(found.runs[0]).duplicated >= 1
    assert found.notes[0].startswith("Jobs went wrong (memory, 1 worker, repeat 1: 0 lost, ")
    assert "was completed by worker 1 at" in found.notes[0]


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_handlers_of_your_own_that_fail_are_told_in_words(mode: Any, module: Callable[..., str]) -> None:
    handlers = module("""
    if job.id % 2:
        raise ZeroDivisionError("not today")
    """)
    once = Policy(tries=1)
    found = contention("sqlite OFF", workers=1, jobs=4, repeats=1, mode=mode, handlers=handlers, policy=once)
    told = "Your handlers failed 2 jobs for good in 1 of 1 runs (mine: ZeroDivisionError: not today)"
    assert [note for note in found.notes if note.startswith(told)]
    assert measured(found.runs[0]).lost == 0


def _forgetful(self: MemoryDriver, reservation: Any, *, now: float, retry_after: float | None) -> Any:
    following = self.reserve(reservation.job.queue, now=now, retry_after=retry_after)
    done = reservation.job.attempts > 1 and self.complete(reservation, now=now)
    return done or reservation.job.attempts == 1, following[0] if following else None


def test_a_call_that_is_given_up_because_of_the_lock_is_counted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with drivers.open(url) as holder, drivers.open(f"{url}?lock_wait=0.01") as driver:
        holder.push("work", [new()], now=0.0)
        timed = Timed(driver, SystemClock(), lambda done: None)

        def reserve(_: object) -> None:
            with pytest.raises(DriverUnavailable):
                timed.reserve("work", now=0.0, retry_after=None)

        holder.database.transact(reserve)  # type: ignore[attr-defined]
        assert (timed.lock_errors, len(timed.reserves)) == (1, 0)
        assert len(timed.reserve("work", now=0.0, retry_after=None)) == 1
        assert (timed.lock_errors, len(timed.reserves), len(timed.waits)) == (1, 1, 1)


def test_a_noisy_machine_is_told_in_words_and_a_quiet_one_is_not() -> None:
    assert noise.in_words([1.0, 1.1], [0.0, 0.1]) == []
    spins, others = noise.in_words([1.0, 2.0, 3.04], [0.0, 1.5, 0.1])
    assert spins.startswith("The machine was noisy in 2 of 3 runs: the same counting took up to 3.0 times as long")
    assert others.startswith("Other processes took up to 1.5 processors in 1 of 3 runs")


@pytest.mark.parametrize(
    ("url", "survives"),
    [
        ("memory://", 0),
        ("sqlite:///:memory:", 0),
        ("sqlite:///{folder}/a.db?synchronous=OFF", 1),
        ("sqlite:///{folder}/b.db", 2),
        ("sqlite:///{folder}/c.db?synchronous=FULL", 3),
        ("sqlite:///{folder}/d.db?synchronous=EXTRA", 3),
        ("sqlite:///{folder}/e.db?synchronous=FULL&journal=DELETE", 3),
        ("sqlite:///{folder}/f.db?synchronous=NORMAL&journal=DELETE", 1),
        ("redis+embedded://?persistence=none", 1),
        ("redis+embedded://?persistence=everysec", 2),
        ("redis+embedded://?persistence=always&layout=list", 3),
    ],
)
def test_each_store_says_what_it_survives_as_a_class(url: str, survives: int, tmp_path: Path) -> None:
    with drivers.open(url.format(folder=tmp_path)) as driver:
        assert driver.durability.survives == SURVIVED[survives]
