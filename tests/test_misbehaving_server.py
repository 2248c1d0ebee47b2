"""A server that answers too late, half, wrongly or not at all: the caller is told what happened, and no job is lost."""

import shutil
import ssl
import subprocess
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from conftest import QUEUE, Servers, Store, fail, new, program, push, stores, take
from misbehaving import HANGS, MANNERS, PASSWORD, Exchange, Manner, Misbehaving, instead
from redis._parsers import _HiredisParser, _RESP2Parser, _RESP3Parser
from redis.backoff import NoBackoff
from redis.retry import Retry
from tried import Tried

from qlab import drivers
from qlab.clock import monotonic
from qlab.driver import Counts, Driver
from qlab.drivers.redis_store import RedisStore
from qlab.drivers.redis_zset import RedisZsetDriver
from qlab.drivers.server import EmbeddedServer
from qlab.drivers.statements import script
from qlab.errors import DriverUnavailable, ReplyLost, UnexpectedReply

store = stores("redis_zset-valkey", "redis_list-valkey")

Opens = Callable[..., Driver]


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
    assert str(error).isprintable()
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


def test_an_answer_that_comes_after_nonsense_is_no_other_question_s(
    driver: Driver, proxy: Misbehaving, behind: Opens
) -> None:
    def one_behind(exchange: Exchange) -> bool:
        late = exchange.work()
        exchange.near.sendall(b"+OK\r\n")
        exchange.next()
        exchange.near.sendall(late)
        return True

    two(driver, QUEUE)
    through = behind(proxy)
    proxy.misbehave(Manner(one_behind, ""), "reserve")
    with pytest.raises(UnexpectedReply):
        take(through)
    held = take(through)
    assert held.job.name == "b"
    assert through.complete(held, now=0.0)


PARSERS: dict[str, tuple[type, int]] = {
    "hiredis, RESP3": (_HiredisParser, 3),
    "Python, RESP2": (_RESP2Parser, 2),
    "Python, RESP3": (_RESP3Parser, 3),
}


@pytest.mark.parametrize(("parser", "protocol"), PARSERS.values(), ids=PARSERS)
def test_whatever_the_application_s_client_reads_with_the_caller_is_told(
    driver: Driver, proxy: Misbehaving, parser: type, protocol: int
) -> None:
    assert isinstance(driver, RedisStore)
    settings = {
        "host": "127.0.0.1",
        "port": proxy.port,
        "password": PASSWORD,
        "parser_class": parser,
        "protocol": protocol,
    }
    with (
        redis.Redis.from_pool(redis.ConnectionPool(**settings)) as client,
        type(driver)(client, prefix=driver.prefix, failed_jobs=driver.failed_jobs.url) as through,
    ):
        for number, (name, manner) in enumerate(MANNERS.items()):
            with named(name):
                for verb in ("push", "reserve", "complete"):
                    spoil(CASES[verb], verb, manner, f"{verb}-{number}", driver, proxy, through)


# -- the script runs once --


def test_a_script_whose_answer_is_lost_runs_once_where_redis_py_would_run_it_again_and_again(
    driver: Driver, proxy: Misbehaving, store: Store
) -> None:
    two(driver, QUEUE)
    assert isinstance(driver, RedisStore)
    again = Retry(NoBackoff(), 10)
    with redis.Redis(port=proxy.port, password=PASSWORD, retry=again, retry_on_error=[redis.ResponseError]) as client:
        proxy.misbehave(MANNERS["drops the answer"], "counts", times=100)
        with pytest.raises(redis.ConnectionError):
            client.eval(script(driver.layout, "counts"), len(driver.keys(QUEUE)), *driver.keys(QUEUE), 0)
        assert proxy.asked.count("counts") == 11
        with type(driver)(client, prefix=driver.prefix, failed_jobs=driver.failed_jobs.url) as ours:
            proxy.misbehave(MANNERS["drops the answer"], "reserve", times=100)
            with pytest.raises(ReplyLost):
                ours.reserve(QUEUE, now=0.0, retry_after=90.0)
    assert proxy.asked.count("reserve") == 1
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1, reserved=1)


@pytest.mark.scenario("B20")
def test_a_script_that_the_server_forgot_runs_once_at_every_verb(
    driver: Driver, proxy: Misbehaving, behind: Opens, servers: Servers, store: Store
) -> None:
    """Between asking and executing, as in a pipeline; qlab itself sends none, for a cluster allows no scripts there."""
    through = behind(proxy)
    with redis.Redis(unix_socket_path=servers[store.server].socket) as client:

        def flush_before(at: str) -> None:
            flushes = iter([client.script_flush])
            proxy.before = lambda verb: [flush() for flush in flushes] if verb == at else None

        for verb, at in SPOILED:
            case, queue = CASES[verb], f"{verb} {at}"
            thing = case.begin(driver, queue)
            flush_before(at)
            proxy.asked.clear()
            case.act(through, queue, thing)
            if verb == at:
                assert proxy.asked.count(at) == 2
            case.act(through, queue, thing)
            assert driver.counts(queue, now=1000.0) == case.ends


# -- a connection that cannot be made --


@pytest.mark.parametrize("at", ["AUTH", "CLIENT", "INFO"])
def test_whatever_happens_while_it_connects_the_caller_is_told(proxy: Misbehaving, behind: Opens, at: str) -> None:
    """The library does not mind what CLIENT is answered, so long as it is an answer; and AUTH is answered OK."""
    for name, manner in MANNERS.items():
        with named(name):
            proxy.misbehave(manner, at)
            try:
                behind(proxy)
            except DriverUnavailable as error:
                told_well(error, proxy)
            else:
                assert at == "CLIENT" or (at, name) == ("AUTH", "text")
            proxy.misbehave(manner, at, times=0)
            behind(proxy).close()


@pytest.mark.parametrize("manner", HANGS.values(), ids=HANGS)
def test_a_server_that_hangs_while_it_connects_is_given_up_on(
    proxy: Misbehaving, behind: Opens, manner: Manner
) -> None:
    proxy.misbehave(manner, "AUTH")
    began = monotonic()
    with pytest.raises(DriverUnavailable, match="did not answer INFO") as refused:
        behind(proxy, wait=0.5)
    assert monotonic() - began < 10.0  # as it was asked for, and not the usual wait
    told_well(refused.value, proxy)


def test_a_wrong_password_is_told_and_not_shown(proxy: Misbehaving, behind: Opens) -> None:
    wrong = PASSWORD[::-1]
    with pytest.raises(DriverUnavailable, match="refused the user or the password") as refused:
        behind(proxy, password=wrong)
    assert wrong not in "".join(traceback.format_exception(refused.value))


def test_a_password_that_is_changed_while_a_driver_is_open_is_told_at_the_next_connection(
    proxy: Misbehaving, behind: Opens
) -> None:
    driver = behind(proxy)
    proxy.misbehave(MANNERS["closes before it is asked"], "counts")
    with pytest.raises(ReplyLost):
        driver.counts(QUEUE, now=0.0)
    proxy.misbehave(MANNERS["WRONGPASS"], "AUTH")
    with pytest.raises(DriverUnavailable, match="the server refused the user or the password") as no:
        driver.counts(QUEUE, now=0.0)
    told_well(no.value, proxy)
    assert driver.counts(QUEUE, now=0.0) == Counts()


def test_a_server_that_refuses_connections_is_told_with_its_address_once(proxy: Misbehaving, behind: Opens) -> None:
    driver = behind(proxy)
    proxy.close()
    for _ in range(2):
        with pytest.raises(DriverUnavailable) as refused:
            driver.reserve(QUEUE, now=0.0, retry_after=90.0)
        told_well(refused.value, proxy)
    assert not isinstance(refused.value, ReplyLost)
    assert str(refused.value) == (
        f"redis://:***@127.0.0.1:{proxy.port} does not answer (Connection refused): is a server running there? "
        "redis+embedded:// needs none"
    )


def test_a_server_that_is_gone_is_told_with_its_socket_once(tmp_path: Path) -> None:
    with pytest.raises(DriverUnavailable) as refused:
        drivers.open(f"unix://{tmp_path}/server.sock?failed_jobs=sqlite:///elsewhere.db")
    assert str(refused.value) == (
        f"unix://{tmp_path}/server.sock does not answer (No such file or directory): is a server running there? "
        "redis+embedded:// needs none"
    )


def test_a_port_without_tls_says_so_to_whoever_wants_it(proxy: Misbehaving, behind: Opens) -> None:
    with pytest.raises(DriverUnavailable, match="does its port speak TLS.? Without it, write redis://") as refused:
        behind(proxy, scheme="rediss", wait=0.5)
    told_well(refused.value, proxy)
    assert not isinstance(refused.value, ReplyLost)


@pytest.fixture
def certificate(tmp_path: Path) -> str:
    """A certificate that vouches for itself; its key is beside it."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl on PATH to make a certificate with")
    key, file = f"{tmp_path}/key.pem", f"{tmp_path}/certificate.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", file)
    subprocess.run([*make, *names], capture_output=True, check=True)
    return file


@pytest.fixture
def safe(certificate: str, servers: Servers, store: Store) -> Iterator[Misbehaving]:
    """A proxy that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, Path(certificate).with_name("key.pem"))
    between = Misbehaving(servers[store.server].socket, tls=context)
    yield between
    between.close()


def test_a_server_with_tls_is_used_like_any_other(safe: Misbehaving, behind: Opens, certificate: str) -> None:
    driver = behind(safe, scheme="rediss", more=f"&ssl_ca_certs={certificate}")
    two(driver, QUEUE)
    safe.misbehave(MANNERS["drops the answer"], "reserve")
    with pytest.raises(ReplyLost) as lost:
        driver.reserve(QUEUE, now=0.0, retry_after=90.0)
    told_well(lost.value, safe)
    assert driver.counts(QUEUE, now=0.0) == Counts(ready=1, reserved=1)


@pytest.mark.parametrize("checked", [True, False])
def test_a_client_with_tls_and_a_password_has_an_address_that_opens_the_same_store(
    safe: Misbehaving, certificate: str, checked: bool, tmp_path: Path
) -> None:
    trusted: dict[str, Any] = {"ssl_ca_certs": certificate} if checked else {"ssl_cert_reqs": ssl.CERT_NONE}
    tls = trusted | {"ssl": True, "ssl_check_hostname": checked}
    client = redis.Redis(host="127.0.0.1", port=safe.port, password=PASSWORD, **tls)
    with RedisZsetDriver(client, prefix=str(tmp_path), failed_jobs=f"sqlite:///{tmp_path}/failed.db") as driver:
        push(driver, "a")
        with drivers.open(driver.url) as again:
            assert again.counts(QUEUE, now=0.0) == Counts(ready=1)
        assert PASSWORD not in f"{driver!r} {driver}"


def test_a_certificate_that_nobody_vouches_for_is_told(safe: Misbehaving, behind: Opens) -> None:
    with pytest.raises(
        DriverUnavailable, match=r"not trusted \(self-signed certificate\): .*ssl_ca_certs=FILE"
    ) as refused:
        behind(safe, scheme="rediss")
    told_well(refused.value, safe)


def test_a_port_with_tls_says_so_to_whoever_asks_without(safe: Misbehaving, behind: Opens) -> None:
    with pytest.raises(DriverUnavailable, match="write rediss://") as refused:
        behind(safe)
    told_well(refused.value, safe)


def test_an_alert_of_tls_says_so_too(proxy: Misbehaving, behind: Opens) -> None:
    proxy.misbehave(Manner(instead(b"\x15\x03\x01\x00\x02\x02\x46"), ""), "AUTH")
    with pytest.raises(UnexpectedReply, match="it speaks TLS: write rediss://") as refused:
        behind(proxy)
    told_well(refused.value, proxy)


# -- a real server that refuses --


@pytest.mark.parametrize(
    ("refuse", "admit", "means"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "nothing was stored"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "use the address of the primary"),
    ],
    ids=["memory is full", "a replica"],
)
def test_a_real_server_that_refuses_a_write_leaves_each_verb_whole(
    store: Store, tmp_path: Path, refuse: tuple[str, ...], admit: tuple[str, ...], means: str
) -> None:
    with EmbeddedServer(**program(store.server)) as server:
        layout = "list" if "list" in store.name else "zset"
        with (
            redis.Redis(unix_socket_path=server.socket) as client,
            drivers.open(f"{server.url}?layout={layout}&prefix=own&failed_jobs=sqlite:///{tmp_path}/own.db") as driver,
        ):
            for verb, case in CASES.items():
                thing = case.begin(driver, verb)
                client.execute_command(*refuse)
                try:
                    case.act(driver, verb, thing)
                except DriverUnavailable as error:
                    assert means in str(error)  # noqa: PT017 - it need not raise: what frees memory may be done
                client.execute_command(*admit)
                assert driver.check(verb, now=1.0) == []
                case.act(driver, verb, thing)
                driver.failed_ids(verb)
                assert driver.counts(verb, now=1000.0) == case.ends
