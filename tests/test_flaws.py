"""Each flaw breaks its promise and no other: what it does in small scenarios, beside the memory driver."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import test_contract as contract
from conftest import QUEUE, fail, failed_one, new, outcomes, push, take, taken, told

from qlab import Queue, SimulatedClock, drivers
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.flaws import FLAWS, CompletesById, CountsFailures, RecoversInPlace, ReleasesInPlace, together
from qlab.job import Reservation
from qlab.policy import Policy

Scenario = Callable[[Driver], Any]


def by(driver: Driver, worker: str, now: float) -> Driver:
    """Say who calls next, to a driver that wants to know."""
    if hasattr(driver, "hear"):
        driver.hear(worker, now=now)
    return driver


def superseded(driver: Driver) -> tuple[Reservation, Reservation]:
    """A reservation that was released, and the one that followed it."""
    push(driver, "a")
    first = take(driver)
    driver.release(first, now=0.0)
    return first, take(driver, now=0.0)


def left(driver: Driver, now: float) -> list[tuple[str, str]]:
    return [(job.name, str(job.state(now))) for job in driver.jobs(QUEUE, now=now)]


def recovered(driver: Driver, *, now: float, force: bool) -> list[str]:
    return [job.name for job in driver.recover(QUEUE, now=now, force=force)]


def superseded_completes(driver: Driver) -> Any:
    first, second = superseded(driver)
    return driver.complete(first, now=1.0), driver.complete(second, now=2.0), left(driver, 2.0)


def superseded_completes_and_reserves(driver: Driver) -> Any:
    first, second = superseded(driver)
    completed, following = driver.complete_and_reserve(first, now=1.0, retry_after=90.0)
    return completed, following, driver.complete(second, now=2.0)


def superseded_releases(driver: Driver) -> Any:
    first, second = superseded(driver)
    return driver.complete(second, now=1.0), driver.release(first, now=2.0), left(driver, 2.0)


def superseded_releases_what_another_holds(driver: Driver) -> Any:
    first, second = superseded(driver)
    return driver.release(first, now=1.0), taken(driver, now=1.0), driver.complete(second, now=2.0)


def superseded_extends_and_fails(driver: Driver) -> Any:
    first, _ = superseded(driver)
    return driver.extend(first, now=1.0, seconds=500.0), fail(driver, first, now=1.0), driver.failed(QUEUE)


def late_worker_settles(driver: Driver) -> Any:
    push(driver, *"abcd")
    a, b, c, d = driver.reserve(QUEUE, now=0.0, retry_after=90.0, limit=4)
    settled = driver.complete(a, now=95.0), driver.release(b, now=95.0), fail(driver, c, now=95.0)
    return *settled, driver.extend(d, now=95.0, seconds=1.0), [row.name for row in driver.failed(QUEUE)]


def worker_dies(driver: Driver) -> Any:
    push(driver, "a")
    take(driver)
    driver.recover(QUEUE, now=100.0, force=True)
    return [held.job.attempts for held in driver.reserve(QUEUE, now=100.0, retry_after=90.0)]


def held_job_is_looked_for(driver: Driver) -> Any:
    push(driver, "a", "b")
    take(driver)
    return left(driver, 0.0), driver.counts(QUEUE, now=0.0), driver.clear(QUEUE, now=0.0)


def reservation_runs_out(driver: Driver) -> Any:
    push(driver, "a")
    take(driver)
    return taken(driver, now=89.999999), driver.next_due(QUEUE, now=1.0), taken(driver, now=90.0)


def extended_reservation_runs_out(driver: Driver) -> Any:
    push(driver, "a")
    extended = driver.extend(take(driver), now=50.0, seconds=60.0)
    return extended, taken(driver, now=109.999999), taken(driver, now=110.0)


def job_is_released(driver: Driver) -> Any:
    push(driver, *"abc")
    released = driver.release(take(driver), now=1.0)
    return released, taken(driver, now=1.0)


def job_is_released_with_a_delay(driver: Driver) -> Any:
    push(driver, *"abc")
    driver.release(take(driver), now=0.0, delay=10.0)
    return taken(driver, now=9.999999, limit=1), taken(driver, now=10.0)


def job_is_recovered(driver: Driver) -> Any:
    push(driver, *"abc")
    take(driver)
    return recovered(driver, now=100.0, force=True), taken(driver, now=100.0)


def another_worker_recovers_soon(driver: Driver) -> Any:
    push(driver, "a")
    take(by(driver, "worker 1", 0.0))
    return recovered(by(driver, "worker 2", 1.0), now=1.0, force=True)


def another_worker_recovers_at_last(driver: Driver) -> Any:
    push(driver, "a")
    take(by(driver, "worker 1", 0.0))
    return recovered(by(driver, "worker 2", 60.0), now=60.0, force=True)


def another_of_the_same_name_recovers(driver: Driver) -> Any:
    push(driver, "a")
    take(by(driver, "worker 1", 0.0))
    return recovered(by(driver, "worker 1", 5.0), now=5.0, force=True), recovered(driver, now=5.0, force=True)


def live_worker_is_left_alone(driver: Driver) -> Any:
    push(driver, "a")
    held = take(by(driver, "worker 1", 0.0))
    return recovered(by(driver, "worker 2", 1.0), now=1.0, force=False), driver.complete(held, now=2.0)


def a_week_without_trouble(driver: Driver) -> Any:
    push(driver, *"abcd")
    driver.push(QUEUE, [new("e", at=5.0, uid="e"), new("e", uid="e")], now=0.0)
    done, following = driver.complete_and_reserve(take(driver), now=1.0, retry_after=90.0)
    ends = driver.release(following, now=2.0, delay=30.0), fail(driver, take(driver, now=2.0), now=3.0)
    (row,) = driver.failed(QUEUE)
    ((_, again),) = driver.retry(QUEUE, [row.id], now=4.0)
    order = [(held.job.name, held.job.attempts) for held in driver.reserve(QUEUE, now=40.0, retry_after=90.0, limit=9)]
    failed_one(driver, "f", now=41.0)
    return (
        done,
        *ends,
        again.name,
        order,
        driver.forget(QUEUE, driver.failed_ids(QUEUE)),
        driver.counts(QUEUE, now=41.0).failed,
        driver.check(QUEUE, now=41.0),
    )


SCENARIOS: tuple[Scenario, ...] = (
    superseded_completes,
    superseded_completes_and_reserves,
    superseded_releases,
    superseded_releases_what_another_holds,
    superseded_extends_and_fails,
    late_worker_settles,
    worker_dies,
    held_job_is_looked_for,
    reservation_runs_out,
    extended_reservation_runs_out,
    job_is_released,
    job_is_released_with_a_delay,
    job_is_recovered,
    another_worker_recovers_soon,
    another_worker_recovers_at_last,
    another_of_the_same_name_recovers,
    live_worker_is_left_alone,
    a_week_without_trouble,
)

_NOTHING_RUNS_OUT = {reservation_runs_out, extended_reservation_runs_out}
_NOBODY_RECOVERS = {another_worker_recovers_soon, another_worker_recovers_at_last, another_of_the_same_name_recovers}

DIFFERS: dict[str, set[Scenario]] = {
    "completion by id": {superseded_completes, superseded_completes_and_reserves},
    "superseded release re-inserts": {superseded_releases, superseded_releases_what_another_holds},
    "token revoked by running out": {late_worker_settles},
    "attempts counted at failure": {worker_dies},
    "deleted at reserve": {
        *(worker_dies, held_job_is_looked_for, job_is_recovered, *_NOTHING_RUNS_OUT, *_NOBODY_RECOVERS),
    },
    "no running out": _NOTHING_RUNS_OUT,
    "release in place": {job_is_released},
    "recover in place": {job_is_recovered},
    "sweep of one's own": {*_NOTHING_RUNS_OUT, another_worker_recovers_soon, another_worker_recovers_at_last},
    "sweep of dead owners": {*_NOTHING_RUNS_OUT, another_worker_recovers_soon, another_of_the_same_name_recovers},
}
"""In which scenarios a flaw does not do what the memory driver does: in all others it must."""


def promised(name: str) -> Callable[[Driver], object]:
    """The test that a driver keeps this promise."""
    return lambda flaw: contract.test_every_driver_keeps_its_promise(flaw, type(flaw), name)


BROKEN: dict[str, Callable[[Driver], object]] = {
    "completion by id": lambda flaw: contract.test_a_superseded_worker_changes_nothing(flaw, "release"),
    "superseded release re-inserts": lambda flaw: contract.test_a_superseded_worker_changes_nothing(flaw, "complete"),
    "token revoked by running out": lambda flaw: contract.test_completing_after_the_deadline_deletes_the_job(
        flaw, False
    ),
    "attempts counted at failure": contract.test_recovered_jobs_keep_their_attempts_and_wait,
    "deleted at reserve": promised("reserve tells the job as it stands from then on"),
    "no running out": promised("a job in hand is given to nobody until it runs out"),
    "release in place": promised("a released job goes behind its peers"),
    "recover in place": promised("recovered jobs go behind those that wait"),
    "sweep of one's own": promised("recover takes what has run out and by force everything"),
    "sweep of dead owners": contract.test_force_recovers_also_what_never_runs_out,
}
"""A test of the contract that each flaw does not pass."""


@pytest.fixture(params=FLAWS)
def flaw(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with closing(FLAWS[request.param]()) as driver:
        yield driver


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_flaw_breaks_its_promise_and_keeps_the_others(flaw: Driver, scenario: Scenario) -> None:
    with closing(MemoryDriver()) as memory:
        seen = scenario(flaw), scenario(memory)
    assert (seen[0] != seen[1]) == (scenario in DIFFERS[flaw.name]), seen


def test_a_flaw_fails_the_contract(flaw: Driver) -> None:
    with closing(MemoryDriver()) as memory:
        BROKEN[flaw.name](memory)
    with pytest.raises((AssertionError, ValueError)):  # the latter where no job is there to be taken
        BROKEN[flaw.name](flaw)


def test_a_flaw_says_what_it_breaks_and_who_shipped_it(flaw: Driver) -> None:
    kind = FLAWS[flaw.name]
    assert kind.promise.endswith(".")
    assert kind.does.endswith(".")
    assert "#" in kind.__doc__ or "RabbitMQ" in kind.__doc__
    assert flaw.description == f"memory with a flaw: {flaw.name}"


def test_no_address_opens_a_flaw(flaw: Driver) -> None:
    with pytest.raises(ValueError, match="a broken queue, for the lab only, which no address opens"):
        drivers.open(flaw.url)
    with pytest.raises(ValueError, match="names no driver"):
        drivers.open(flaw.name)


def test_a_closed_flaw_raises_on_use(flaw: Driver) -> None:
    promised(contract.CLOSES)(flaw)


def test_a_token_is_revoked_at_its_deadline_and_not_a_microsecond_before() -> None:
    with closing(FLAWS["token revoked by running out"]()) as flaw:
        push(flaw, "a", "b")
        first, second = take(flaw), take(flaw)
        assert flaw.complete(first, now=89.999999)
        assert not flaw.complete(second, now=90.0)
        assert [held.job.attempts for held in flaw.reserve(QUEUE, now=90.0, retry_after=90.0)] == [2]


def test_a_job_that_was_brought_back_may_be_retried_beside_itself() -> None:
    with closing(FLAWS["superseded release re-inserts"]()) as flaw:
        push(flaw, "a")
        held = take(flaw)
        fail(flaw, held)
        flaw.retry(QUEUE, flaw.failed_ids(QUEUE), now=1.0)
        assert flaw.release(held, now=2.0)
        both = flaw.reserve(QUEUE, now=3.0, retry_after=90.0, limit=9)
        assert [flaw.complete(each, now=4.0) for each in both] == [True, True]
        assert flaw.jobs(QUEUE, now=4.0) == []


# -- on a queue --


@pytest.fixture
def queue_on() -> Iterator[Callable[..., Queue]]:
    """Makes queues on drivers, and closes them."""
    with ExitStack() as opened:
        yield lambda driver, **policy: opened.enter_context(
            Queue(driver, clock=SimulatedClock(), policy=Policy(**policy))
        )


def test_the_queue_tells_a_flaw_who_reserves_and_who_recovers() -> None:
    clock = SimulatedClock()
    with Queue(FLAWS["sweep of one's own"](), clock=clock) as queue:
        queue.handler("a")(lambda job: None)
        queue.dispatch("a")
        queue.reserve(worker="worker 1")
        assert queue.recover(force=True, worker="worker 2") == []
        assert [job.name for job in queue.recover(worker="worker 1")] == ["a"]


def test_two_flaws_together_break_both_promises() -> None:
    both = together(CompletesById, ReleasesInPlace)
    assert both.name == "completion by id and release in place"
    for scenario in SCENARIOS:
        with closing(MemoryDriver()) as memory, closing(both()) as flaw:
            differs = scenario in DIFFERS["completion by id"] | DIFFERS["release in place"]
            assert (scenario(flaw) != scenario(memory)) == differs, scenario
    with pytest.raises(ValueError, match="given no flaw"):
        together()


def test_completed_by_id_a_job_is_done_by_the_worker_that_was_superseded(queue_on: Callable[..., Queue]) -> None:
    queue = queue_on(CompletesById(), retry_after=5.0)

    @queue.handler("a")
    def a(job):
        yield 7.0

    queue.dispatch("a")
    first, second = queue.reserve(0.0), queue.reserve(5.0)
    queue.finish(first, 0.0)
    queue.finish(second, 5.0)
    assert told(queue, "reserved", "completed", "superseded") == [
        (0.0, "reserved", 1),
        (5.0, "reserved", 1),
        (7.0, "completed", 1),
        (12.0, "superseded", 1),
    ]


def poisoned(queue: Queue, until: float = 100.0) -> Queue:
    """One worker; a job that kills it after a second, each time, before three good jobs; it is back 4 seconds later."""
    clock = queue.clock
    for name in ("poison", "good"):
        queue.handler(name)(lambda job: (yield 1.0))
    for name in ("poison", "good", "good", "good"):
        queue.dispatch(name)
    while clock.now() < until and (held := queue.reserve(worker="worker 1")) is not None:
        if held.job.name == "poison" and held.job.attempts <= 3:
            clock.advance(1.0)
            queue.crash(held, worker="worker 1")
            clock.advance(4.0)
            queue.recover(force=True, worker="worker 1")
        else:
            queue.finish(held, worker="worker 1")
    return queue


def test_recovered_in_place_a_killer_is_dead_before_any_good_job_has_its_turn(queue_on: Callable[..., Queue]) -> None:
    queue = poisoned(queue_on(RecoversInPlace(), tries=3))
    assert [at for at, _, job in told(queue, "reserved") if job == 1] == [0.0, 5.0, 10.0, 15.0]
    assert told(queue, "failed") == [(15.0, "failed", 1)]
    assert [at for at, _, job in told(queue, "reserved") if job != 1] == [15.0, 16.0, 17.0]


def test_recovered_by_the_contract_a_killer_goes_behind_the_good_jobs(queue_on: Callable[..., Queue]) -> None:
    queue = poisoned(queue_on(MemoryDriver(), tries=3))
    assert [at for at, _, _ in told(queue, "completed")] == [6.0, 7.0, 8.0]
    assert told(queue, "failed") == [(18.0, "failed", 1)]


def test_counted_at_failure_a_killer_is_never_used_up(queue_on: Callable[..., Queue]) -> None:
    queue = poisoned(queue_on(together(CountsFailures, RecoversInPlace)(), tries=3))
    assert len(told(queue, "reserved")) == 20
    assert told(queue, "completed", "failed") == []


def test_released_in_place_a_job_that_always_fails_keeps_the_good_ones_waiting(queue_on: Callable[..., Queue]) -> None:
    queue = queue_on(ReleasesInPlace(), tries=3, backoff=(0.0,))

    @queue.handler("bad")
    def bad(job):
        raise RuntimeError("always")

    queue.handler("good")(lambda job: None)
    queue.dispatch("bad")
    queue.dispatch("good")
    assert outcomes(queue, 0.0, 1.0, 2.0, 3.0) == ["Retrying", "Retrying", "Failed", "Completed"]
