"""Workers of a server that misbehaves: an end is known or unknown, no job is lost, and the worker goes on."""

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import racers
import redis
from conftest import QUEUE, REDIS, Servers, Store, only, outcomes, push, stores, taken
from misbehaving import HANGS, MANNERS, PASSWORD, Manner, Misbehaving, instead
from tried import Tried
from watching import Watched

from qlab import Completed, Idle, Policy, Queue, SimulatedClock, Unknown, patience
from qlab.driver import Counts, Driver
from qlab.drivers.redis_store import RedisStore
from qlab.errors import DriverUnavailable, UnexpectedReply
from qlab.job import Attempt, Release

store = stores("redis_zset-valkey", "redis_list-valkey")

Opens = Callable[..., Driver]
Makes = Callable[[str], Queue]
FOR_EVER = 1_000


@pytest.fixture
def makes(proxy: Misbehaving, behind: Opens) -> Makes:
    """Makes queues whose server may misbehave, each with a clock of its own at 0."""
    through = behind(proxy)

    def make(name: str) -> Queue:
        queue = Queue(through, name=name, clock=SimulatedClock(), policy=Policy(backoff=10.0))
        queue.handler("A")(lambda job: None)
        return queue

    return make


def each_manner(proxy: Misbehaving, makes: Makes, at: str, *, times: int = 1) -> Any:
    """Give a queue for each manner; `begin` lets the server misbehave like that from now on."""
    for name, manner in MANNERS.items():
        queue = makes(name)
        yield queue, manner, lambda manner=manner: proxy.misbehave(manner, at, times=times)
        proxy.misbehave(manner, at, times=0)


# -- dispatch --


def test_a_dispatch_is_one_job_or_is_refused_and_none(
    proxy: Misbehaving, makes: Makes, store: Store, tried: Tried
) -> None:
    for queue, manner, begin in each_manner(proxy, makes, "push"):
        begin()
        if manner.error is DriverUnavailable:
            with pytest.raises(DriverUnavailable, match=manner.means):
                queue.dispatch("A", "once")
            assert queue.jobs() == []
        else:
            job = queue.dispatch("A", "once")
            assert queue.jobs() == [job]
        assert proxy.asked.count("push") <= 2
        tried.add(store.name, "misbehaving replies")


def test_a_dispatch_that_is_never_answered_is_given_up_on_and_is_one_job_at_most(
    proxy: Misbehaving, makes: Makes
) -> None:
    for queue, manner, begin in each_manner(proxy, makes, "push", times=FOR_EVER):
        begin()
        with pytest.raises(manner.error, match=manner.means):
            queue.dispatch("A", "once")
        assert proxy.asked.count("push") <= 2 * manner.lasts
        assert len(queue.jobs()) <= 1


def test_a_dispatch_of_many_is_sent_again_by_the_chunk(proxy: Misbehaving, makes: Makes) -> None:
    queue = makes("many")
    makes("another").dispatch("A")  # the server knows the script now
    proxy.misbehave(MANNERS["drops the answer"], "push", nth=2)
    queue.dispatch_many([("A", number) for number in range(1_200)])
    assert [job.payload for job in queue.jobs()] == list(range(1_200))
    assert proxy.asked.count("push") == 4


# -- reserve --


def test_a_reserve_that_is_not_answered_rightly_loses_no_job(
    proxy: Misbehaving, makes: Makes, store: Store, tried: Tried
) -> None:
    for queue, manner, begin in each_manner(proxy, makes, "reserve"):
        queue.dispatch("A")
        begin()
        with pytest.raises(manner.error, match=manner.means):
            queue.work_once(0.0)
        assert proxy.asked.count("reserve") == manner.lasts
        said = outcomes(queue, 0.0, 89.0, 90.0, 1000.0)
        assert said in (["Completed", "Idle", "Idle", "Idle"], ["Idle", "Idle", "Completed", "Idle"])
        assert manner.error is not DriverUnavailable or said[0] == "Completed"
        tried.add(store.name, "misbehaving replies")


def test_what_a_reserve_of_many_has_is_given_when_the_server_goes_away_half_way(
    driver: Driver, proxy: Misbehaving, behind: Opens
) -> None:
    """redis_list appends 100 a call of those that have fallen due, and asks again; redis_zset asks once."""
    through = behind(proxy)
    assert taken(through, now=0.0) == []  # the server knows the script now
    push(driver, *("a",) * 150)
    push(driver, *("late",) * 150, at=1.0)
    proxy.misbehave(MANNERS["LOADING"], "reserve", nth=2)
    first = taken(through, now=5.0, limit=300)
    assert (len(first), proxy.left) == ((250, 0) if driver.order == "arrival" else (300, 1))
    assert driver.counts(QUEUE, now=5.0) == Counts(ready=300 - len(first), reserved=len(first))


# -- settle --

ENDS: dict[str, tuple[Callable[[Attempt], Any], str, Counts]] = {
    "complete": (lambda job: None, "Completed", Counts()),
    "release": (lambda job: Release(5.0) if job.number == 1 else None, "Released", Counts()),
    "fail": (lambda job: 1 / 0, "Failed", Counts(failed=1)),
}


@pytest.mark.parametrize("times", [1, FOR_EVER], ids=["once", "for ever"])
@pytest.mark.parametrize("verb", ENDS)
def test_an_end_whose_answer_is_wrong_is_told_again_and_is_unknown_or_true(
    proxy: Misbehaving, makes: Makes, store: Store, tried: Tried, verb: str, times: int
) -> None:
    handler, true, left = ENDS[verb]
    for queue, manner, begin in each_manner(proxy, makes, verb, times=times):
        queue.handler("A", tries=1 if verb == "fail" else 3)(handler)
        queue.dispatch("A")
        held = queue.reserve(0.0)
        assert held
        begin()
        said = queue.finish(held, 0.0)
        assert type(said).__name__ in (true, "Unknown")
        assert 1 <= proxy.asked.count(verb) <= 3 * manner.lasts
        if times == FOR_EVER:
            assert isinstance(said, Unknown)
            assert said.error.startswith(f"{manner.error.__name__}: ")
            assert PASSWORD not in said.error
        proxy.misbehave(manner, verb, times=0)
        queue.dispatch("A", "the next")
        queue.drain(until=1000.0)
        two = Counts(failed=2 * left.failed)
        assert queue.counts() == two
        assert len({row.uid for row in queue.failed()}) == two.failed
        tried.add(store.name, "misbehaving replies", min(times, 3))


@pytest.mark.parametrize("times", [1, FOR_EVER], ids=["once", "for ever"])
def test_a_drain_whose_answer_is_wrong_goes_on_and_loses_no_job(
    proxy: Misbehaving, makes: Makes, store: Store, tried: Tried, times: int
) -> None:
    for queue, manner, begin in each_manner(proxy, makes, "complete_and_reserve", times=times):
        ran: list[int] = []
        queue.handler("A")(lambda job, ran=ran: ran.append(job.payload))
        queue.dispatch_many([("A", number) for number in range(4)])
        begin()
        said = Counter(type(outcome).__name__ for outcome in queue.drain(until=1000.0))
        assert sorted(set(ran)) == [0, 1, 2, 3]
        assert said.keys() <= {"Completed", "Unknown"}
        assert queue.counts() == Counts()
        assert manner.error is not DriverUnavailable or said == {"Completed": 4}
        tried.add(store.name, "misbehaving replies")


def test_a_handler_does_not_fail_for_an_extend_whose_answer_is_lost(proxy: Misbehaving, makes: Makes) -> None:
    for queue, manner, begin in each_manner(proxy, makes, "extend"):

        def handler(job: Attempt, begin: Callable[[], None] = begin) -> None:
            begin()
            assert job.extend(500.0)

        queue.handler("A")(handler)
        queue.dispatch("A")
        said = queue.work_once(0.0)
        refused = manner.error is DriverUnavailable
        assert type(said).__name__ == ("Retrying" if refused else "Completed")
        assert not refused or said.error.startswith("DriverUnavailable: ")  # type: ignore[attr-defined]


# -- workers --


class Crowd:
    """Jobs of which each tenth never succeeds, and a server that spoils about a third of all answers.

    Attributes:
        ran: How often each payload was run.
        spoiled: What was asked where an answer was spoiled.
    """

    def __init__(self, queue: Queue, proxy: Misbehaving, jobs: int) -> None:
        self.ran, self.spoiled, self.jobs = Counter[int](), list[str](), jobs
        self._queue, self._proxy, self._chance = queue, proxy, random.Random(7)
        queue.policy = Policy(tries=5, backoff=10.0)
        queue.handler("B")(self._run)
        queue.dispatch_many([("B", number) for number in range(jobs)])
        proxy.choose = self._choose

    def _run(self, job: Attempt) -> None:
        self.ran[job.payload] += 1
        if job.payload % 10 == 0:
            raise ValueError("always")

    def _choose(self, verb: str) -> Manner | None:
        if self._chance.random() > 0.3:
            return None
        self.spoiled.append(verb)
        return self._chance.choice(list(MANNERS.values()))

    def look(self, tried: Tried, store: Store) -> None:
        """Nothing is lost and nothing doubled: each job was run, or is in `failed_jobs` once, or both."""
        self._proxy.choose = lambda verb: None
        queue = self._queue
        ids = queue.driver.failed_ids(QUEUE)
        failed = Counter(row.payload for row in queue.failed())
        assert len(ids) == failed.total()
        assert queue.counts() == Counts(failed=failed.total())
        assert [number for number in range(self.jobs) if not self.ran[number] and not failed[number]] == []
        assert set(range(0, self.jobs, 10)) <= failed.keys()
        assert max(failed.values()) == 1
        tried.add(store.name, "jobs", self.jobs)
        tried.add(store.name, "misbehaving replies", len(self.spoiled))
        again = sum(self.ran[number] - 1 for number in self.ran if number % 10)
        tried.add(store.name, "attempts that ran a job once more", again)
        tried.add(store.name, "lost", 0)
        tried.add(store.name, "in two places", 0)


def test_threads_that_step_a_server_that_misbehaves_all_the_time_lose_no_job(
    driver: Driver, proxy: Misbehaving, makes: Makes, store: Store, tried: Tried, deep: bool
) -> None:
    workers = 3
    queue = makes(QUEUE)
    crowd = Crowd(queue, proxy, 1_000 if deep else 60)

    def work() -> bool:
        for _ in range(crowd.jobs * 1_000):
            with suppress(DriverUnavailable):
                queue.work_once()
            queue.clock.spend(1.0)
            if driver.counts(QUEUE, now=queue.clock.now()).depth == 0:
                return True
        return False

    with ThreadPoolExecutor(workers) as threads:
        ended = [threads.submit(work) for _ in range(workers)]
        assert [each.result(timeout=100.0) for each in ended] == [True] * workers
    crowd.look(tried, store)


def test_workers_outlive_a_server_that_misbehaves_all_the_time(
    driver: Driver, proxy: Misbehaving, makes: Makes, store: Store, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(patience, "LONGEST_WAIT", 0.001)
    queue = makes(QUEUE)
    crowd = Crowd(queue, proxy, 60)
    workers = [Watched(queue, name=f"w{number}").start() for number in range(3)]
    for _ in range(5_000):
        workers[0].until_round(len(workers[0].waits) + 1)
        queue.clock.spend(1.0)
        if driver.counts(QUEUE, now=queue.clock.now()).depth == 0:
            break
    for worker in workers:
        worker.until_round(len(worker.waits) + 1)  # it is alive
        assert worker.stop(60.0)
    crowd.look(tried, store)
    assert sum(sum(worker.worked) for worker in workers) >= crowd.ran.total()


# -- scenarios of the bug catalogue --


@pytest.mark.scenario("B06")
@only(*REDIS)
def test_the_id_of_a_job_that_is_done_is_skipped_wherever_it_comes_from(
    queue: Queue, servers: Servers, store: Store
) -> None:
    driver = queue.driver
    assert isinstance(driver, RedisStore)
    queue.handler("A")(lambda job: None)
    done = queue.dispatch("A")
    assert isinstance(queue.work_once(0.0), Completed)
    keys = dict(zip(driver.key_names, driver.keys(QUEUE), strict=True))
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        if "ready" in keys:
            client.rpush(keys["ready"], f"{done.id}:1", f"{done.id}:2")
        else:
            client.zadd(keys["available"], {f"{1:016}:{done.id}": 0})
        assert outcomes(queue, 1.0) == ["Idle"]
        queue.dispatch("A", "next")
        assert outcomes(queue, 1.0, 1.0) == ["Completed", "Idle"]
        assert queue.counts() == Counts()
        assert [key for name, key in keys.items() if name != "counters" and client.exists(key)] == []


@pytest.mark.scenario("B10")
def test_a_job_whose_worker_was_killed_before_it_read_the_answer_comes_again(
    driver: Driver, proxy: Misbehaving, behind: Opens
) -> None:
    queue = Queue(driver, name=QUEUE, clock=SimulatedClock())
    ran = []
    queue.handler("A")(lambda job: ran.append(job.number))
    queue.dispatch("A")
    processes = multiprocessing.get_context("forkserver")
    worker = processes.Process(target=racers.reserve, args=(behind(proxy).url, QUEUE))
    proxy.misbehave(HANGS["never answers"], "reserve")
    worker.start()
    assert proxy.holds.wait(60.0)
    worker.kill()
    worker.join(60.0)
    assert outcomes(queue, 89.0, 90.0) == ["Idle", "Completed"]
    assert ran == [2]


@pytest.mark.scenario("B11")
@pytest.mark.parametrize("manner", HANGS.values(), ids=HANGS)
def test_a_job_whose_reservation_the_client_gave_up_on_comes_again(
    driver: Driver, proxy: Misbehaving, behind: Opens, manner: Manner
) -> None:
    queue = Queue(behind(proxy, wait=0.5), name=QUEUE, clock=SimulatedClock())
    queue.handler("A")(lambda job: None)
    push(driver, "A")
    proxy.misbehave(manner, "reserve")
    with pytest.raises(DriverUnavailable):
        queue.work_once(0.0)
    assert proxy.over.wait(60.0)
    never = manner is HANGS["never listens"]
    assert driver.counts(QUEUE, now=0.0) == (Counts(ready=1) if never else Counts(reserved=1))
    said = [queue.driver.reserve(QUEUE, now=at, retry_after=90.0) for at in (89.0, 90.0)]
    assert [len(each) for each in said] == ([1, 0] if never else [0, 1])
    assert next(held for each in said for held in each).job.attempts == (1 if never else 2)


ODD = {
    "nil": (b"$-1\r\n", Idle),
    "no list": (b"*-1\r\n", Idle),
    "false": (b"#f\r\n", Idle),
    "an empty list": (b"*0\r\n", UnexpectedReply),
    "a list of nil": (b"*1\r\n$-1\r\n", UnexpectedReply),
    "a short job": (b"*2\r\n:0\r\n*3\r\n:1\r\n$1\r\na\r\n$1\r\nb\r\n", UnexpectedReply),
    "a job of nil": (b"*2\r\n:0\r\n$-1\r\n", UnexpectedReply),
}


@pytest.mark.scenario("B17")
@pytest.mark.parametrize(("answer", "means"), ODD.values(), ids=ODD)
def test_nothing_in_answer_to_reserve_is_idle_and_half_a_job_is_an_error_that_names_the_driver(
    driver: Driver, proxy: Misbehaving, makes: Makes, answer: bytes, means: type
) -> None:
    queue = makes(QUEUE)
    queue.dispatch("A")
    proxy.misbehave(Manner(instead(answer), ""), "reserve")
    if means is Idle:
        assert queue.work_once(0.0) == Idle(0.0)
    else:
        with pytest.raises(UnexpectedReply, match=rf"{driver.name} at redis://:\*\*\*@.*: the answer to reserve is"):
            queue.work_once(0.0)
    assert outcomes(queue, 0.0) == ["Completed"]


@pytest.mark.scenario("B17")
def test_nothing_in_answer_to_a_drain_s_question_for_the_next_job_ends_it(proxy: Misbehaving, makes: Makes) -> None:
    queue = makes(QUEUE)
    queue.dispatch_many([("A", 1), ("A", 2)])
    proxy.misbehave(Manner(instead(b"*2\r\n:1\r\n$-1\r\n"), ""), "complete_and_reserve")
    assert [type(outcome) for outcome in queue.drain()] == [Completed]


@pytest.mark.scenario("B20")
def test_a_worker_goes_on_after_a_restart_that_forgot_the_scripts(
    proxy: Misbehaving, makes: Makes, servers: Servers, store: Store
) -> None:
    queue = makes(QUEUE)
    queue.dispatch_many([("A", number) for number in range(3)])
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:
        for again in (False, True, False):
            if again:
                client.script_flush()
            proxy.asked.clear()
            assert outcomes(queue, 0.0) == ["Completed"]
            if again:
                assert proxy.asked == ["reserve", "reserve", "complete", "complete"]
    assert proxy.asked == ["reserve", "complete"]
    assert outcomes(queue, 0.0) == ["Idle"]
