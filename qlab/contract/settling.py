"""What is promised of the verbs that settle a job, and of workers that are late."""

from collections.abc import Callable

from qlab.contract.promised import Hands, Promise, Steps, promise
from qlab.driver import Counts
from qlab.job import Reservation


def complete_deletes_a_job_once(on: Hands) -> Steps:
    """Done is gone: only a trace remembers it."""
    on.push("a", "b")
    held = on.take()
    yield "what complete says", on.driver.complete(held, now=1.0), True
    yield "what it says again", on.driver.complete(held, now=2.0), False
    yield "what is there", on.counts(now=2.0), Counts(ready=1)
    yield "what jobs lists", [job.name for job in on.driver.jobs(on.queue, now=2.0)], ["b"]


def completing_may_take_the_next_job(on: Hands) -> Steps:
    """In one step; a late worker completes nothing and gets the next all the same."""
    on.push("a", "b", "c")
    held = on.take(retry_after=10.0)
    done, following = on.driver.complete_and_reserve(held, now=1.0, retry_after=90.0)
    yield "what complete_and_reserve says, and which job follows", (done, following and following.job.name), (True, "b")
    done, following = on.driver.complete_and_reserve(held, now=2.0, retry_after=90.0)
    yield "the same with the token that was used", (done, following and following.job.name), (False, "c")
    yield "what is there", on.counts(now=2.0), Counts(reserved=2)


def a_released_job_waits_for_its_delay(on: Hands) -> Steps:
    """It keeps its attempts."""
    (job,) = on.push("a")
    yield "what release says", on.driver.release(on.take(), now=5.0, delay=10.0), True
    stands = job._replace(attempts=1, available_at=15.0)
    yield "what jobs lists", on.driver.jobs(on.queue, now=5.0), [stands]
    yield "what is there before", on.counts(now=14.999999), Counts(delayed=1)
    yield "what is there at 15 s", on.counts(now=15.0), Counts(ready=1)
    yield "its attempts, when it is reserved again", on.take(now=15.0).job.attempts, 2


def extend_moves_the_deadline(on: Hands) -> Steps:
    """From now on, earlier or later, also of a reservation that has run out."""
    on.push("a")
    held = on.take(retry_after=90.0)
    yield "what extend says, to an earlier one", on.driver.extend(held, now=3.0, seconds=5.0), True
    yield "what is reserved before the earlier one", on.names(now=7.999999), []
    yield "what is ready at the earlier one", on.counts(now=8.0), Counts(ready=1)
    yield "what extend says, of one that has run out", on.driver.extend(held, now=20.0, seconds=10.0), True
    yield "what is reserved before the new deadline", on.names(now=29.999999), []
    yield "whether it has run out at the new deadline", on.take(now=30.0).ran_out, True


def running_out_ends_nothing_by_itself(on: Hands) -> Steps:
    """A late worker still settles its job, as long as nobody else has it."""
    on.push("a", "b", "c")
    done, released, failed = on.driver.reserve(on.queue, now=0.0, retry_after=10.0, limit=3)
    yield "what a late complete says", on.driver.complete(done, now=20.0), True
    yield "what a late release says", on.driver.release(released, now=20.0), True
    yield "what a late fail says", on.fail(failed, now=20.0), True
    yield "what is there", on.counts(now=20.0), Counts(ready=1, failed=1)


def _superseded(on: Hands, verb: str, settle: Callable[[Reservation], object]) -> Steps:
    on.push("a")
    late, held = on.take(now=0.0), on.take(now=90.0)
    before = on.all(now=95.0)
    yield f"what a superseded worker's {verb} says", settle(late), False
    yield "what is there afterwards", on.all(now=95.0), before
    yield "whether who holds the job can complete it", on.driver.complete(held, now=96.0), True
    yield f"what {verb} says when the job is gone", settle(late), False
    yield "what is there at last", on.counts(now=96.0), Counts()


def a_superseded_worker_completes_nothing(on: Hands) -> Steps:
    """By its token, for the job's id is the same."""
    return _superseded(on, "complete", lambda late: on.driver.complete(late, now=95.0))


def a_superseded_worker_releases_nothing(on: Hands) -> Steps:
    """Else it brings a job back that another has in hand, or has done."""
    return _superseded(on, "release", lambda late: on.driver.release(late, now=95.0))


def a_superseded_worker_extends_nothing(on: Hands) -> Steps:
    """The reservation is the other one's."""
    return _superseded(on, "extend", lambda late: on.driver.extend(late, now=95.0, seconds=500.0))


def a_superseded_worker_fails_nothing(on: Hands) -> Steps:
    """What it could not do, another may be doing."""
    return _superseded(on, "fail", lambda late: on.fail(late, now=95.0))


SETTLING: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            complete_deletes_a_job_once,
            completing_may_take_the_next_job,
            a_released_job_waits_for_its_delay,
            extend_moves_the_deadline,
            running_out_ends_nothing_by_itself,
            a_superseded_worker_completes_nothing,
            a_superseded_worker_releases_nothing,
            a_superseded_worker_extends_nothing,
            a_superseded_worker_fails_nothing,
        ),
    )
)
"""What is promised of the verbs that settle a job, and of workers that are late."""
