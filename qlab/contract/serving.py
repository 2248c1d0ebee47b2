"""What is promised of a driver as a whole: to several threads, in every order of steps, and once it is closed."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qlab.contract.promised import Hands, Promise, Steps, new, promise, raised
from qlab.driver import Counts
from qlab.escape import error_text
from qlab.explorer import hunt
from qlab.job import Reservation


def one_job_is_never_given_to_two_threads(on: Hands) -> Steps:
    """A driver serves whichever thread calls it; here they take turns as often as they can."""
    jobs, together = 400, threading.Barrier(4)
    on.push(*map(str, range(jobs)))
    seen: list[int] = []
    settled: list[bool] = []
    errors: list[str] = []

    def work() -> None:
        together.wait(60.0)
        try:
            for _ in range(jobs + 1):
                for held in on.driver.reserve(on.queue, now=0.0, retry_after=90.0):
                    seen.append(held.job.id)
                    settled.append(on.driver.complete(held, now=0.0))
        except Exception as error:  # noqa: BLE001 - told by the promise, in its own thread
            errors.append(error_text(error))

    with _often():
        crew = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for each in crew:
            each.start()
        for each in crew:
            each.join(60.0)
    yield "what calls of four threads raise", errors, []
    yield "how many jobs they reserve, and how many different ones", (len(seen), len(set(seen))), (jobs, jobs)
    yield "how many they complete", sum(settled), jobs
    yield "what is there", on.counts(now=0.0), Counts()


@contextmanager
def _often() -> Iterator[None]:
    """Let Python's threads take turns every microsecond, if they can, instead of every five milliseconds."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def no_order_of_a_few_workers_breaks_anything(on: Hands) -> Steps:
    """The steps of small scenarios in every order, as `qlab explore` takes them."""
    last = hunt(on.store)[-1]
    found = last.first_broken
    says = "nothing" if found is None else f"{found.promise}, in {last.situation.name}: {found.says}"
    yield "what is broken in some order", says, "nothing"


def a_closed_driver_raises_and_may_be_closed_again(on: Hands) -> Steps:
    """Where it was opened for this."""
    if on.store is on.driver:
        return
    on.push("a")
    held = on.take()
    on.driver.complete(held, now=0.0)  # nothing may stay in a store that cannot be emptied any more
    on.driver.close()
    on.driver.close()
    on.open = False
    for verb, use in _uses(on, held).items():
        yield f"what {verb} raises after close", raised(use), "QueueClosed"


def _uses(on: Hands, held: Reservation) -> dict[str, Callable[[], object]]:
    """Every verb of the contract."""
    driver, queue = on.driver, on.queue
    return {
        "push": lambda: on.push("b"),
        "push of what was sent before": lambda: driver.push(queue, [new()], now=0.0, resent=True),
        "reserve": lambda: driver.reserve(queue, now=0.0, retry_after=90.0),
        "complete": lambda: driver.complete(held, now=0.0),
        "complete_and_reserve": lambda: driver.complete_and_reserve(held, now=0.0, retry_after=90.0),
        "release": lambda: driver.release(held, now=0.0),
        "extend": lambda: driver.extend(held, now=0.0, seconds=1.0),
        "fail": lambda: on.fail(held),
        "recover": lambda: driver.recover(queue, now=0.0),
        "clear": lambda: driver.clear(queue, now=0.0),
        "failed": on.failed,
        "failed_ids": lambda: driver.failed_ids(queue),
        "retry": lambda: driver.retry(queue, [1], now=0.0),
        "forget": lambda: driver.forget(queue, [1]),
        "counts": lambda: on.counts(now=0.0),
        "jobs": lambda: driver.jobs(queue, now=0.0),
        "next_due": lambda: driver.next_due(queue, now=0.0),
        "check": lambda: driver.check(queue, now=0.0),
    }


SERVING: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            one_job_is_never_given_to_two_threads,
            no_order_of_a_few_workers_breaks_anything,
            a_closed_driver_raises_and_may_be_closed_again,
        ),
    )
)
"""What is promised of a driver as a whole."""
