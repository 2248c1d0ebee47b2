"""Real workers in real time: what they did adds up, and none of them is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from conftest import only

from qlab import crew, drivers
from qlab.clock import monotonic, pause
from qlab.contend.scanning import _trace, run_arm
from qlab.crew import Crew
from qlab.errors import DriverUnavailable, QlabError
from qlab.library import Summary
from qlab.outcome import Completed
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.trace import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform == "win32":
    pytest.skip("these tests need FIFOs and signals", allow_module_level=True)

ROOT = Path(__file__).parent.parent
NO_WAIT = Policy(backoff=(0.0,))
on_each_store = only("sqlite", "redis_zset-valkey", "redis_list-valkey")
on_a_file = only("sqlite")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty Python files, two of which are none."""
    folder = tmp_path / "library"
    folder.mkdir()
    for i in range(18):
        (folder / f"f{i:02}.py").write_text("def f(): ...\n" * (i + 1))
    (folder / "python2.py").write_text("print 'x'\n")
    (folder / "bytes.py").write_bytes(b"name = '\xff'\n")
    return folder


RESULTS = Summary(files=20, parsed=18, unparsed=2, functions=171, classes=0, lines=173)


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The worker processes that a test starts here; none may be left at its end."""
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if "-m" in self.args:  # type: ignore[operator]  # a list; the embedded server's is another
                started.append(self)

    monkeypatch.setattr(crew.subprocess, "Popen", Popen)
    yield started
    assert [process for process in started if process.returncode is None] == []
    assert [thread for thread in threading.enumerate() if "_listen" in thread.name] == []


class Handlers:
    """Handlers of a test's own, in a module that workers can import, and a FIFO through which they call."""

    def __init__(self, folder: Path, enrich: str) -> None:
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        self.name = f"handlers_{folder.name.replace('-', '_')}"
        source = f"""
            import os, signal, sys
            from qlab import library

            def register(queue):
                library.register(queue)
                queue.handler("enrich_item")(enrich)

            def call():
                with open({str(self.fifo)!r}, "w") as fifo:
                    print(os.getpid(), file=fifo)

            def enrich(job):
                first = job.payload["path"] == "f05.py" and job.number == 1
            """
        text = dedent(source) + "".join(f"    {line}\n" for line in dedent(enrich).splitlines())
        (folder / f"{self.name}.py").write_text(f"{text}    return library.enrich_item(job)\n")
        self.address = f"{self.name}:register"

    def caller(self) -> int:
        """The number of the process that calls; it waits until it is heard."""
        return int(self.fifo.read_text())

    def when_called(self, act: Callable[[int], None]) -> threading.Thread:
        thread = threading.Thread(target=lambda: act(self.caller()), daemon=True)
        thread.start()
        return thread


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Handlers]:
    monkeypatch.syspath_prepend(tmp_path)
    return lambda enrich: Handlers(tmp_path, enrich)


HOLD_THE_FIRST = """
    if first:
        call()
        signal.pause()
"""


# -- what an arm tells --


@on_each_store
@pytest.mark.parametrize("workers", [1, 3])
def test_every_job_runs_once(address: str, folder: Path, workers: int) -> None:
    arm = run_arm(address, workers=workers, folder=folder)
    assert (arm.jobs, arm.once, arm.twice, arm.never, arm.failed, arm.killed) == (21, 21, 0, 0, 0, 0)
    assert arm.results == RESULTS
    assert (arm.workers, len(arm.per_worker), sum(arm.per_worker)) == (workers, workers, 21)
    assert arm.folder == folder
    assert arm.seconds > 0
    assert arm.jobs_per_second == pytest.approx(21 / arm.seconds)
    assert len(arm.waits) == 21
    assert min(arm.waits) >= 0
    assert 1 <= len(arm.gaps) <= 20
    assert min(arm.gaps) > 0
    with drivers.open(address) as driver:
        assert (arm.driver, arm.description, arm.durability) == (driver.name, driver.description, driver.durability)
    assert repr(arm).startswith(f"<Arm {arm.description}, {workers} workers: 21 jobs in ")


@on_each_store
def test_the_trace_of_all_workers_is_one(address: str, folder: Path) -> None:
    arm = run_arm(address, workers=2, folder=folder)
    kinds = [event.kind for event in arm.trace]
    for kind in (Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED):
        assert kinds.count(kind) == 21
    assert [event.at for event in arm.trace] == sorted(event.at for event in arm.trace)
    assert (kinds[0], arm.trace[0].name) == (Kind.DISPATCHED, "scan_library")
    assert arm.trace[0].at <= 0 < arm.trace[1].at < 60
    assert {event.worker for event in arm.trace if event.kind is Kind.RESERVED} <= {"worker 1", "worker 2"}
    for job in range(1, 22):
        told = [event.kind for event in arm.trace if event.job == job and event.kind is not Kind.PROGRESSED]
        assert told == [Kind.DISPATCHED, Kind.RESERVED, Kind.COMPLETED]
    assert all(event.since is None or event.since <= event.at for event in arm.trace)
    assert arm.trace.at(60.0).counts().depth == 0


@on_a_file
def test_progress_is_told_up_to_the_last_job(address: str, folder: Path) -> None:
    told: list[int] = []
    run_arm(address, workers=2, folder=folder, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 21


@on_each_store
def test_two_arms_on_one_store_do_not_meet(address: str, folder: Path) -> None:
    with Queue(address, name="mine") as queue:
        queue.handler("scan_library")(lambda job: None)
        queue.dispatch("scan_library")
        assert run_arm(address, workers=1, folder=folder, queue="one").once == 21
        assert run_arm(address, workers=1, folder=folder, queue="two").once == 21
        assert run_arm(address, workers=1, folder=folder).once == 21
        assert queue.counts().ready == 1


@on_a_file
def test_what_a_handler_prints_is_no_message(
    address: str, folder: Path, handlers: Callable[[str], Handlers], capfd: pytest.CaptureFixture[str]
) -> None:
    mine = handlers("print('[\"ran\", 1]', flush=True); os.write(1, b'x' * 100_000)")
    assert run_arm(address, workers=2, folder=folder, handlers=mine.address).once == 21
    assert capfd.readouterr() == ("", "")


def test_an_embedded_server_lives_as_long_as_its_arm(folder: Path) -> None:
    arm = run_arm("redis+embedded://?persistence=everysec", workers=2, folder=folder)
    assert (arm.once, arm.results) == (21, RESULTS)
    assert "AOF everysec" in arm.description


def test_a_job_is_reserved_after_its_dispatch_though_the_worker_looked_at_the_clock_before() -> None:
    seen = [
        Event(100.2, Kind.RESERVED, 1, since=100.3, until=190.2),
        Event(100.4, Kind.COMPLETED, 1),
        Event(100.3, Kind.DISPATCHED, 1, until=100.3),
    ]
    assert [(event.at, event.kind, event.since) for event in _trace(seen, epoch=100.0)] == [
        (0.3, Kind.DISPATCHED, None),
        (0.3, Kind.RESERVED, 0.3),
        (0.4, Kind.COMPLETED, None),
    ]


# -- when jobs fail --


@on_each_store
def test_a_job_that_fails_once_runs_twice(address: str, folder: Path, handlers: Callable[[str], Handlers]) -> None:
    mine = handlers("if first: raise OSError('no luck')")
    arm = run_arm(address, workers=2, folder=folder, handlers=mine.address, policy=NO_WAIT)
    assert (arm.once, arm.twice, arm.never, arm.failed, arm.results) == (20, 1, 0, 0, RESULTS)
    assert len(arm.waits) == 21


@on_each_store
def test_a_job_that_always_fails_is_told(address: str, folder: Path, handlers: Callable[[str], Handlers]) -> None:
    mine = handlers("if job.payload['path'] == 'f05.py': raise OSError('no luck')")
    told: list[int] = []
    arm = run_arm(address, workers=2, folder=folder, handlers=mine.address, policy=NO_WAIT, progress=told.append)
    assert (arm.once, arm.twice, arm.never, arm.failed) == (20, 1, 0, 1)
    assert told[-1] == 21
    assert (arm.results.files, sum(arm.per_worker)) == (19, 20)


# -- when workers die --


@on_each_store
def test_a_killed_worker_loses_nothing(address: str, folder: Path, handlers: Callable[[str], Handlers]) -> None:
    mine = handlers(HOLD_THE_FIRST)
    killer = mine.when_called(lambda pid: os.kill(pid, signal.SIGKILL))
    arm = run_arm(address, workers=2, folder=folder, handlers=mine.address, policy=Policy(retry_after=3.0))
    killer.join()
    assert (arm.once, arm.twice, arm.never, arm.killed) == (20, 1, 0, 1)
    assert arm.results == RESULTS
    assert [event.attempt for event in arm.trace if event.kind is Kind.EXPIRED] == [1]


@on_a_file
def test_without_a_deadline_a_killed_worker_is_an_error_at_once(
    address: str, folder: Path, handlers: Callable[[str], Handlers]
) -> None:
    mine = handlers(HOLD_THE_FIRST)
    mine.when_called(lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(QlabError, match="a worker was killed, and without retry_after"):
        run_arm(address, workers=2, folder=folder, handlers=mine.address, policy=Policy(retry_after=None))


@on_a_file
def test_when_all_are_killed_it_is_an_error_and_nothing_is_left(
    address: str, folder: Path, handlers: Callable[[str], Handlers]
) -> None:
    mine = handlers(HOLD_THE_FIRST)
    mine.when_called(lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(QlabError, match=r"no worker is left \(1 of 1 were killed\), but \d+ jobs are"):
        run_arm(address, workers=1, folder=folder, handlers=mine.address, queue="mine")
    with Queue(address, name="mine") as queue:
        assert queue.counts().depth == 0


@on_a_file
def test_a_worker_that_ends_by_itself_is_an_error_with_its_last_words(
    address: str, folder: Path, handlers: Callable[[str], Handlers]
) -> None:
    mine = handlers("if first: print('my last words', file=sys.stderr, flush=True); os._exit(7)")
    with pytest.raises(QlabError, match=r"worker process \d ended by itself \(exit code 7\): my last words"):
        run_arm(address, workers=2, folder=folder, handlers=mine.address)


@on_a_file
def test_a_worker_that_cannot_get_ready_is_an_error(
    address: str, folder: Path, handlers: Callable[[str], Handlers], processes: list[Any]
) -> None:
    mine = handlers("")
    source = folder.parent / f"{mine.name}.py"
    source.write_text(source.read_text() + f"\nif os.getpid() != {os.getpid()}: raise ImportError('not here')\n")
    with pytest.raises(QlabError, match=r"(?s)worker process \d ended by itself \(exit code 1\): .*not here"):
        run_arm(address, workers=3, folder=folder, handlers=mine.address)
    assert len(processes) == 3


@on_a_file
def test_an_arm_that_stands_still_is_an_error(
    address: str, folder: Path, handlers: Callable[[str], Handlers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qlab.contend.scanning._PATIENCE", 0.0)
    mine = handlers("signal.pause()")
    policy = Policy(retry_after=3.0, backoff=())
    with pytest.raises(QlabError, match="no job was done for 3 s: 1 were until then"):
        run_arm(address, workers=1, folder=folder, handlers=mine.address, policy=policy)


# -- when it is stopped --


@on_each_store
def test_an_interrupt_leaves_no_process_and_no_job(
    address: str, folder: Path, handlers: Callable[[str], Handlers], processes: list[Any]
) -> None:
    sessions: list[int] = []

    def interrupt(pid: int) -> None:
        sessions.append(os.getsid(pid))
        signal.raise_signal(signal.SIGINT)

    mine = handlers(HOLD_THE_FIRST)
    mine.when_called(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_arm(address, workers=3, folder=folder, handlers=mine.address, queue="mine")
    assert len(processes) == 3
    assert sessions != [os.getsid(0)]  # A Ctrl-C at the terminal does not reach them.
    with Queue(address, name="mine") as queue:
        assert queue.counts().depth == 0


@on_a_file
def test_an_error_of_the_progress_bar_leaves_no_process(address: str, folder: Path, processes: list[Any]) -> None:
    def progress(done: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_arm(address, workers=2, folder=folder, progress=progress)
    assert len(processes) == 2


@on_a_file
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_started_them(
    address: str, folder: Path, handlers: Callable[[str], Handlers], how: signal.Signals
) -> None:
    mine = handlers(HOLD_THE_FIRST)
    script = f"""if True:
        import sys
        sys.path.insert(0, {str(folder.parent)!r})
        from qlab.contend.scanning import _trace, run_arm
        run_arm({address!r}, workers=1, folder={str(folder)!r}, handlers={mine.address!r})
    """
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        worker = mine.caller()
        assert _runs(worker)
    finally:
        parent.send_signal(how)
        parent.wait()
    _until(lambda: not _runs(worker))


@on_a_file
def test_a_worker_that_does_not_react_is_killed(
    address: str, folder: Path, handlers: Callable[[str], Handlers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qlab.crew._GRACE", 0.01)

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        signal.raise_signal(signal.SIGINT)

    mine = handlers(HOLD_THE_FIRST)
    mine.when_called(stop)
    with pytest.raises(KeyboardInterrupt):
        run_arm(address, workers=2, folder=folder, handlers=mine.address)


# -- what is refused --


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_a_number_of_workers_that_is_none_is_refused(workers: Any, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"workers is {workers!r}"):
        run_arm(f"sqlite:///{tmp_path}/jobs.db", workers=workers, folder=folder)
    assert not (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused(url: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="in the memory of one process: workers need a file or a server"):
        run_arm(url, workers=1, folder=folder)


def test_a_bad_folder_is_named_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing', does not exist"):
        run_arm(f"sqlite:///{tmp_path}/jobs.db", workers=1, folder=tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


@on_each_store
def test_a_queue_that_is_in_use_is_refused_and_left_alone(address: str, folder: Path) -> None:
    with Queue(address, name="mine") as queue:
        queue.handler("send")(lambda job: None)
        queue.dispatch("send")
        with pytest.raises(ValueError, match="the queue 'mine' has 1 jobs: an arm needs an empty one"):
            run_arm(address, workers=1, folder=folder, queue="mine")
        assert isinstance(queue.work_once(), Completed)


@on_a_file
def test_a_backoff_that_cannot_be_sent_is_refused(address: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="backoff is a function"):
        run_arm(address, workers=1, folder=folder, policy=Policy(backoff=lambda attempts: 1.0))


def test_a_server_that_does_not_answer_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DriverUnavailable):
        run_arm(f"unix://{tmp_path}/no.sock", workers=1, folder=folder)


# -- the crew --


def test_a_torn_last_line_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "torn.py").write_text(
        dedent("""
        import os, signal, sys
        setup = sys.stdin.readline()
        print('["ready"]', flush=True)
        sys.stdin.readline()
        print(f'["told", {setup.strip()}]\\n["to', end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    )
    with Crew("torn", [{"number": 7}]) as workers:
        assert workers.go() <= monotonic()
        assert [told for told in workers.messages() if told] == [(0, ["told", {"number": 7}])]
    assert workers.killed == [0]


def test_silence_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "silent.py").write_text("print('[\"ready\"]', flush=True)\nimport sys; sys.stdin.read()")
    with Crew("silent", [{}]) as workers:
        workers.go()
        assert next(workers.messages()) is None


def _runs(pid: int) -> bool:
    """Tells whether a process exists and is no zombie, which a machine's first process may leave for a while."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        ask = ["ps", "-o", "stat=", "-p", str(pid)]
        state = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
        return not state.startswith("Z")
    return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 60.0
    while not condition():
        assert monotonic() < deadline, "it did not come about"
        pause(0.005)


def test_no_reservation_stands_before_its_dispatch_though_a_worker_read_the_clock_early() -> None:
    reserved = Event(10.0, Kind.RESERVED, 1, "scan", 1, "worker 2", since=10.0, until=100.0)
    told = _trace([reserved, Event(10.5, Kind.DISPATCHED, 1, "scan", until=10.5)], 10.0)
    assert [(event.at, str(event.kind)) for event in told] == [(0.5, "dispatched"), (0.5, "reserved")]
