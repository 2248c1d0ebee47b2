"""`qlab work`: real processes, real signals, and what becomes of the jobs."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import QUEUE, only
from tried import Tried
from working import ROOT, Shop, Working

from qlab import Queue, supervisor
from qlab.driver import Counts
from qlab.library import register
from qlab.supervisor import Supervisor

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals, nor named pipes"),
    pytest.mark.timeout(300),
]

stores = only("sqlite", "redis_list-valkey")
QUICKLY = ("--poll", "0.05")


@pytest.fixture
def shop(address: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop", address)
    yield shop
    shop.close()


@pytest.fixture
def queue(address: str) -> Iterator[Queue]:
    """The application's queue, as the test sees it."""
    with Queue(address, name=QUEUE) as queue:
        for name in ("hold", "lock and hold", "quick", "look around"):
            queue.handler(name)(lambda job: None)
        yield queue


def attempts(queue: Queue) -> list[int]:
    return [job.attempts for job in queue.jobs()]


def begun(working: Working, times: int = 1) -> list[tuple[int, int, int]]:
    """The process, the job and the attempt of each handler that has begun."""
    lines = working.until("begun ", times)
    return [(int(pid), int(job), int(number)) for _, pid, job, number in (line.split() for line in lines)]


# -- the first signal --


def to_the_supervisor(number: signal.Signals) -> Callable[[Working, int], None]:
    return lambda working, worker: working.signal(number)


def to_both(working: Working, worker: int) -> None:
    """As systemd does, and others that end a whole group."""
    os.kill(worker, signal.SIGTERM)
    working.signal(signal.SIGTERM)


@stores
@pytest.mark.parametrize(
    "ask",
    [to_the_supervisor(signal.SIGTERM), to_the_supervisor(signal.SIGINT), to_both],
    ids=["SIGTERM", "SIGINT", "both"],
)
def test_the_first_signal_finishes_the_job_in_hand_and_takes_no_other(shop: Shop, queue: Queue, ask: Any) -> None:
    queue.dispatch("hold")
    queue.dispatch("hold")
    with shop.work(*QUICKLY) as working:
        ((worker, job, _),) = begun(working)
        ask(working, worker)
        working.until(f"finishing={job} handler=hold worker=worker-1")
        shop.open_gate()
        assert working.end() == 0
        assert len(begun(working)) == 1
        assert working.said(f"outcome=completed job={job} ")
    assert queue.counts() == Counts(ready=1)
    assert attempts(queue) == [0]


@only("sqlite")
def test_a_signal_while_it_starts_ends_it_with_nothing_taken(shop: Shop, queue: Queue) -> None:
    queue.dispatch("hold")
    (shop.folder / "shop.py").write_text(
        "print('importing', flush=True); import fcntl; fcntl.flock(open('gate'), fcntl.LOCK_SH)"
    )
    with shop.work("--workers", 2) as working:
        working.until("importing")
        working.signal(signal.SIGTERM)
        assert working.end() == 0
    assert attempts(queue) == [0]


# -- the second signal, and the grace --


@stores
@pytest.mark.parametrize(
    ("unfinished", "code", "counts"), [("release", 3, Counts(ready=1)), ("expire", 4, Counts(reserved=1))]
)
@pytest.mark.parametrize("why", ["the second signal", "the grace"])
def test_then_the_job_in_hand_is_given_back_or_left_and_its_attempt_counts(
    why: str, unfinished: str, code: int, counts: Counts, shop: Shop, queue: Queue
) -> None:
    queue.dispatch("hold")
    grace = "0.1" if why == "the grace" else "3000"
    with shop.work(*QUICKLY, "--grace", grace, "--unfinished", unfinished) as working:
        begun(working)
        working.signal(signal.SIGTERM)
        if why == "the second signal":
            working.until("stopping=SIGTERM")
            working.signal(signal.SIGINT)
        assert working.end() == code
        assert working.said("leaving=")
        assert bool(working.said("outcome=released")) == (unfinished == "release")
        assert bool(working.said("left=1 ")) == (unfinished == "expire")
    assert queue.counts() == counts
    assert attempts(queue) == [1]
    with shop.work(*QUICKLY, "--force") as working:
        assert [number for _, _, number in begun(working)] == [2]
        shop.open_gate()
        working.until("outcome=completed")
        working.signal(signal.SIGTERM)
        assert working.end() == 0
    assert queue.counts() == Counts()


@only("sqlite")
def test_a_job_that_cannot_be_given_back_is_left_and_said(
    shop: Shop, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own handler holds the lock that this needs, and goes on holding it."""
    monkeypatch.setenv("SHOP_RETRY_AFTER", "")
    queue.dispatch("lock and hold")
    with shop.work(*QUICKLY, "--grace", "0.1") as working:
        begun(working)
        working.signal(signal.SIGTERM)
        assert working.end() == 4
        assert working.said('left=1 handler="lock and hold" worker=worker-1')
    assert queue.counts() == Counts(reserved=1)
    assert attempts(queue) == [1]


@only("sqlite")
def test_the_exit_code_is_that_of_the_worst_of_all_workers(shop: Shop, queue: Queue) -> None:
    """One that has nothing in hand ends at once; the others cannot."""
    queue.dispatch("hold")
    queue.dispatch("hold")
    with shop.work(*QUICKLY, "--workers", 3, "--grace", 3000) as working:
        (killed, *_), _ = begun(working, 2)
        working.signal(signal.SIGTERM)
        working.until("stopping=")
        os.kill(killed, signal.SIGKILL)
        working.until('ended="by SIGKILL"')
        working.signal(signal.SIGTERM)
        assert working.end() == 4
    assert queue.counts() == Counts(ready=1, reserved=1)


# -- death --


@stores
def test_a_worker_that_is_killed_is_said_and_started_again(shop: Shop, queue: Queue) -> None:
    queue.dispatch("hold")
    with shop.work(*QUICKLY) as working:
        ((first, *_),) = begun(working)
        os.kill(first, signal.SIGKILL)
        (line,) = working.until("ended=")
        assert line.endswith(f'WARNING worker=worker-1 process={first} ended="by SIGKILL" again_in=0.5s')
        queue.dispatch("hold")
        second = begun(working, 2)[1][0]
        assert second != first
        shop.open_gate()
        working.until("outcome=completed")
        working.signal(signal.SIGTERM)
        assert working.end() == 0
    assert queue.counts() == Counts(reserved=1)


@stores
def test_no_worker_outlives_a_supervisor_that_is_killed(shop: Shop, queue: Queue) -> None:
    queue.dispatch("hold")
    with shop.work(*QUICKLY, "--workers", 3, "--grace", "0.1") as working:
        begun(working)
        working.signal(signal.SIGKILL)
        assert working.end() == -signal.SIGKILL
    assert queue.counts() == Counts(ready=1)
    assert attempts(queue) == [1]


@only("sqlite")
def test_the_job_in_hand_is_finished_where_the_supervisor_is_killed(shop: Shop, queue: Queue) -> None:
    queue.dispatch("hold")
    queue.dispatch("hold")
    with shop.work(*QUICKLY, "--grace", 3000) as working:
        begun(working)
        working.signal(signal.SIGKILL)
        working.until("finishing=1 ")
        shop.open_gate()
        assert working.end() == -signal.SIGKILL
    assert attempts(queue) == [0]


def test_a_worker_that_keeps_dying_is_started_less_and_less_often_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(supervisor, "monotonic", lambda: now[0])
    boss = Supervisor({"unfinished": "release"}, count=1, name="w", grace=1.0)
    (post,) = boss._posts  # noqa: SLF001 - what is tested
    waits = []
    for lived in [0.1] * 9 + [31.0, 0.1, 0.1]:
        post._began, now[0] = now[0], now[0] + lived  # noqa: SLF001
        boss._note_end(post, 1)  # noqa: SLF001
        waits.append(round(post.again_at - now[0], 6))
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 0.5, 0.5, 1]


@only("sqlite")
def test_a_store_that_is_away_at_the_start_is_tried_again(shop: Shop) -> None:
    shop.url = "redis://127.0.0.1:1?prefix=none"
    with shop.work("--workers", 2) as working:
        working.until("its store is away, so it cannot begin", 2)
        working.signal(signal.SIGTERM)
        assert working.end() == 0


# -- its work --


@stores
def test_four_processes_share_the_jobs_and_each_runs_once(shop: Shop, queue: Queue) -> None:
    queue.dispatch_many([("hold", None)] * 4)
    queue.dispatch_many([("quick", number) for number in range(60)])
    with shop.work(*QUICKLY, "--workers", 4, "--name", "w") as working:
        assert len({pid for pid, *_ in begun(working, 4)}) == 4
        shop.open_gate()
        working.until("outcome=completed", 64)
        working.signal(signal.SIGTERM)
        assert working.end() == 0
        assert Counter(line for line in working.lines if line.startswith("ran ")) == Counter(
            f"ran {number}" for number in range(60)
        )
        workers = {line.partition("worker=")[2].split()[0] for line in working.said("outcome=")}
    assert workers == {"w-1", "w-2", "w-3", "w-4"}
    assert queue.counts() == Counts()


@stores
def test_reservations_are_taken_by_force_only_where_that_is_asked_for_and_only_once(shop: Shop, queue: Queue) -> None:
    queue.dispatch("hold")
    assert queue.reserve() is not None
    with shop.work(*QUICKLY, "--workers", 2, "--force") as working:
        ((first, _, number),) = begun(working)
        assert number == 2
        os.kill(first, signal.SIGKILL)
        working.until("ended=")
        queue.dispatch("hold")
        assert begun(working, 2)[1][1:] == (2, 1)
        shop.open_gate()
        working.until("outcome=completed")
        working.signal(signal.SIGTERM)
        assert working.end() == 0
        assert len(working.said("recovers every reservation")) == 1
    assert queue.counts() == Counts(reserved=1)


@only("sqlite")
def test_payloads_are_logged_only_where_that_is_asked_for(shop: Shop, queue: Queue) -> None:
    for words, shown in (((), False), (("--log-payloads",), True)):
        queue.dispatch("quick", {"card": "4111"})
        with shop.work(*QUICKLY, *words) as working:
            (line,) = working.until("outcome=completed")
            working.signal(signal.SIGTERM)
            assert working.end() == 0
        assert ("4111" in line) == shown


@only("sqlite")
def test_a_handler_s_input_is_empty_and_its_environment_the_supervisor_s(shop: Shop, queue: Queue) -> None:
    queue.dispatch("look around")
    with shop.work(*QUICKLY, "--quiet") as working:
        (line,) = working.until("input ")
        assert line == f"input '' path {ROOT}"
        working.signal(signal.SIGTERM)
        assert working.end() == 0
        assert working.lines == [line]


@pytest.mark.timeout(1800)
@stores
def test_each_of_many_jobs_is_done_once_though_the_workers_were_stopped_and_started_twice(
    shop: Shop, address: str, deep: bool, tried: Tried
) -> None:
    jobs = 10_000 if deep else 200
    for number in range(jobs):
        file = shop.folder / "library" / f"{number % 100:02}" / f"module_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def one():\n    return {number}\n")
    (shop.folder / "shop.py").write_text(
        "import os\nfrom qlab import Queue\nfrom qlab.library import register\n"
        f"queue = Queue(os.environ['SHOP_URL'], name={QUEUE!r})\nregister(queue)\n"
    )
    done: list[str] = []
    with Queue(address, name=QUEUE) as queue:
        register(queue)
        queue.dispatch("scan_library", {"folder": str(shop.folder / "library"), "limit": jobs})
        for wanted in (jobs // 3, 2 * jobs // 3, jobs + 1):
            with shop.work(*QUICKLY, "--workers", 4, "--grace", 3000) as working:
                working.until("working=shop:queue workers=4")
                working.until("outcome=", wanted - len(done), patience=600.0)
                working.signal(signal.SIGTERM)
                assert working.end(patience=600.0) == 0
                done += working.said("outcome=")
        assert queue.counts() == Counts()
    assert all("outcome=completed" in line and " attempt=1 " in line for line in done)
    assert Counter(line.partition(" job=")[2].split()[0] for line in done) == Counter(map(str, range(1, jobs + 2)))
    tried.add(queue.driver.name, "jobs", jobs + 1)


# -- what cannot be worked --


@only("sqlite")
@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("Queue('memory://')", "use sqlite:///jobs.db or a redis:// address, or workers(queue, 4)"),
        ("Queue('sqlite:///:memory:')", "is a store that only the process sees which opens it"),
        ("Queue('sqlite:///a.db', clock=SimulatedClock())", "has a SimulatedClock, which stands still"),
        ("1 / 0", "the module 'shop' cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_what_processes_cannot_work_is_said_and_nothing_is_left(made: str, says: str, shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(f"from qlab import Queue, SimulatedClock\nqueue = {made}\n")
    with shop.work("--workers", 2) as working:
        assert working.end() == 1
    assert working.lines[-1].startswith("qlab: ")
    assert says in working.lines[-1]
    assert bool(working.said('File "' + str(shop.folder / "shop.py") + '", line 2')) == (made == "1 / 0")


@only("sqlite")
def test_a_store_that_can_wake_nobody_is_refused_once_where_workers_are_to_be_woken(shop: Shop) -> None:
    with shop.work("--workers", 2, "--wait", "notify") as working:
        assert working.end() == 1
    assert working.lines[-1].startswith("qlab: sqlite cannot wake a worker")
    assert not working.said("Traceback")
    assert not working.said("again_in=")
