"""A server that answers too late, half, wrongly or not at all: the caller is told what happened, and no job is lost."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest
from conftest import Servers, Store, fail, new, push, stores, take
from misbehaving import HANGS, MANNERS, PASSWORD, Manner, Misbehaving
from tried import Tried

from qlab import drivers
from qlab.driver import Counts, Driver
from qlab.drivers.redis_store import RedisStore
from qlab.errors import DriverUnavailable

store = stores("redis_zset-valkey", "redis_list-valkey")

Opens = Callable[..., RedisStore]


@pytest.fixture
def proxy(servers: Servers, store: Store) -> Iterator[Misbehaving]:
    between = Misbehaving(servers[store.server].socket)
    yield between
    between.close()


@pytest.fixture
def behind(address: str, servers: Servers, store: Store) -> Iterator[Opens]:
    """Opens drivers on the test's store that reach it through a misbehaving server."""
    with ExitStack() as opened:

        def open_one(proxy: Misbehaving, *, password: str = PASSWORD, wait: float = 60.0) -> RedisStore:
            at = f"redis://:{password}@127.0.0.1:{proxy.port}"
            driver = drivers.open(address.replace(servers[store.server].url, at) + f"&reply_wait={wait}")
            assert isinstance(driver, RedisStore)
            return opened.enter_context(driver)

        yield open_one


# -- each verb, each way to misbehave --


class Case(NamedTuple):
    """A verb of the contract, asked of a server that will misbehave.

    Attributes:
        begin: Makes what the verb needs, at moment 0; gives what it acts on.
        act: Asks for the verb, at moment 1, a second time perhaps.
        ends: The counts at moment 1000, once it was asked for until it was answered.
        at: Which of its questions may be spoiled.
        done: Those after which the verb is done, whatever their answer: it says so, and the rest is done later.
    """

    begin: Callable[[Driver, str], Any]
    act: Callable[[Driver, str, Any], object]
    ends: Counts
    at: tuple[str, ...]
    done: tuple[str, ...] = ()


def two(driver: Driver, queue: str) -> None:
    push(driver, "a", "b", queue=queue)


def held(driver: Driver, queue: str) -> Any:
    two(driver, queue)
    return take(driver, queue=queue, retry_after=None)


def expired(driver: Driver, queue: str) -> None:
    two(driver, queue)
    driver.reserve(queue, now=0.0, retry_after=0.5, limit=2)


def failed(driver: Driver, queue: str) -> list[int]:
    assert fail(driver, held(driver, queue))
    return driver.failed_ids(queue)


def unwritten(driver: Driver, queue: str) -> None:
    """A failure whose row is not written yet, as a dead process leaves it."""
    assert driver._stage(held(driver, queue), 0, 1, "boom", "")  # type: ignore[attr-defined]  # noqa: SLF001


def pushed_again(driver: Driver, queue: str, job: Any) -> object:
    return driver.push(queue, [job], now=1.0, resent=True)


STAGES = ("failing", "SMEMBERS")
COMMANDS = ("SMEMBERS", "SREM", "UNLINK")
"""What is asked without a script; so a server has none to miss."""

CASES = {
    "push": Case(lambda driver, queue: two(driver, queue) or new(at=1.0), pushed_again, Counts(ready=3), ("push",)),
    "reserve": Case(two, lambda d, q, _: d.reserve(q, now=1.0, retry_after=90.0), Counts(ready=2), ("reserve",)),
    "complete": Case(held, lambda d, q, job: d.complete(job, now=1.0), Counts(ready=1), ("complete",)),
    "complete_and_reserve": Case(
        held,
        lambda d, q, job: d.complete_and_reserve(job, now=1.0, retry_after=90.0),
        Counts(ready=1),
        ("complete_and_reserve",),
    ),
    "release": Case(held, lambda d, q, job: d.release(job, now=1.0, delay=5.0), Counts(ready=2), ("release",)),
    "extend": Case(held, lambda d, q, job: d.extend(job, now=1.0, seconds=5.0), Counts(ready=2), ("extend",)),
    "fail": Case(
        held,
        lambda d, q, job: fail(d, job, now=1.0),
        Counts(ready=1, failed=1),
        ("fail", "failing", "unstage"),
        done=("failing", "unstage"),
    ),
    "recover": Case(expired, lambda d, q, _: d.recover(q, now=1.0), Counts(ready=2), ("recover",)),
    "clear": Case(held, lambda d, q, _: d.clear(q, now=1.0), Counts(), ("clear",)),
    "failed": Case(failed, lambda d, q, _: d.failed(q), Counts(ready=1, failed=1), STAGES),
    "failed_ids": Case(unwritten, lambda d, q, _: d.failed_ids(q), Counts(ready=1, failed=1), ("failing", "unstage")),
    "retry": Case(
        failed, lambda d, q, ids: d.retry(q, ids, now=1.0), Counts(ready=2), (*STAGES, "retry", "SREM"), done=("SREM",)
    ),
    "forget": Case(failed, lambda d, q, ids: d.forget(q, ids), Counts(ready=1), STAGES),
    "counts": Case(failed, lambda d, q, _: d.counts(q, now=1.0), Counts(ready=1, failed=1), (*STAGES, "counts")),
    "jobs": Case(held, lambda d, q, _: d.jobs(q, now=1.0), Counts(ready=1, reserved=1), ("jobs",)),
    "next_due": Case(held, lambda d, q, _: d.next_due(q, now=1.0), Counts(ready=1, reserved=1), ("next_due",)),
    "check": Case(held, lambda d, q, _: d.check(q, now=1.0), Counts(ready=1, reserved=1), ("check",)),
    "delete": Case(held, lambda d, q, _: d.delete(q), Counts(), ("UNLINK",)),  # type: ignore[attr-defined]
}

SPOILED = [(verb, at) for verb, case in CASES.items() for at in case.at]


def spoil(case: Case, at: str, manner: Manner, queue: str, sound: Driver, proxy: Misbehaving, driver: Driver) -> None:
    """Ask a driver for a verb of a server that misbehaves; whatever happens, nothing is lost and nothing doubled."""
    thing = case.begin(sound, queue)
    before = places(sound, queue)
    proxy.misbehave(manner, at)
    if at in case.done:
        case.act(driver, queue, thing)
    else:
        with pytest.raises(manner.error, match=manner.means) as refused:
            case.act(driver, queue, thing)
        told_well(refused.value, proxy)
    assert proxy.over.wait(60.0)
    assert proxy.left == 0
    assert proxy.asked.count(at) == manner.lasts
    after = places(sound, queue)
    assert max(after.values(), default=1) == 1
    if manner.error is DriverUnavailable and at not in case.done:
        assert after == before
    case.act(driver, queue, thing)
    assert sound.check(queue, now=1.0) == []
    sound.failed_ids(queue)
    assert sound.counts(queue, now=1000.0) == case.ends
    assert max(places(sound, queue).values(), default=1) == 1


def places(driver: Driver, queue: str) -> Counter[str]:
    """In how many places each job is."""
    return Counter([job.uid for job in driver.jobs(queue, now=0.0)] + [job.uid for job in driver.failed(queue)])


def told_well(error: DriverUnavailable, proxy: Misbehaving) -> None:
    """An error says where it was, in no more words than a person reads, and never the password."""
    assert str(error).count(f"127.0.0.1:{proxy.port}") >= 1
    assert len(str(error)) < 450
    assert PASSWORD not in "".join(traceback.format_exception(error))


@contextmanager
def named(manner: str) -> Iterator[None]:
    """Let a failure tell the manner in which the server misbehaved."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the server misbehaved like this: {manner}")
        raise


@pytest.mark.scenario("B17")
@pytest.mark.parametrize(("verb", "at"), SPOILED)
def test_whatever_a_server_answers_the_caller_is_told_and_no_job_is_lost(
    driver: Driver, proxy: Misbehaving, behind: Opens, store: Store, verb: str, at: str, tried: Tried
) -> None:
    through = behind(proxy)
    manners = {name: each for name, each in MANNERS.items() if each.lasts == 1 or at not in COMMANDS}
    for number, (name, manner) in enumerate(manners.items()):
        with named(name):
            spoil(CASES[verb], at, manner, f"queue-{number}", driver, proxy, through)
    tried.add(store.name, "misbehaving replies", len(manners))


@pytest.mark.scenario("B11")
@pytest.mark.parametrize("manner", HANGS.values(), ids=HANGS)
def test_a_server_that_never_answers_is_given_up_on_whatever_it_was_asked(
    driver: Driver, servers: Servers, behind: Opens, store: Store, manner: Manner, tried: Tried
) -> None:
    """Each verb waits in a thread of its own: one wait for all of them."""
    proxies = [Misbehaving(servers[store.server].socket) for _ in SPOILED]
    through = [behind(proxy, wait=1.0) for proxy in proxies]
    with ThreadPoolExecutor(len(SPOILED)) as threads:
        ended = [
            threads.submit(spoil, CASES[verb], at, manner, f"{verb} {at}", driver, proxy, asking)
            for (verb, at), proxy, asking in zip(SPOILED, proxies, through, strict=True)
        ]
        problems = [each.exception(timeout=60.0) for each in ended]
    for proxy in proxies:
        proxy.close()
    assert [problem for problem in problems if problem] == []
    tried.add(store.name, "misbehaving replies", len(SPOILED))
