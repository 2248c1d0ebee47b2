"""What is promised of the order in which jobs are reserved, and of reservations."""

import math

from qlab.contract.promised import Hands, Promise, Steps, promise
from qlab.driver import Counts
from qlab.job import Reservation


def reserve_tells_the_job_as_it_stands_from_then_on(on: Hands) -> Steps:
    """Its attempt is counted, and when the reservation runs out."""
    (job,) = on.push("a", now=2.0)
    held = on.take(now=5.0, retry_after=30.0)
    stands = job._replace(attempts=1, reserved_at=5.0, available_at=35.0)
    yield "the reservation", held, Reservation(stands, held.token, claimable_since=2.0, ran_out=False)
    yield "what jobs lists", on.driver.jobs(on.queue, now=5.0), [stands]


def a_job_is_due_at_its_moment_and_not_before(on: Hands) -> Steps:
    """Every bound is inclusive."""
    on.push("a", at=10.0)
    yield "what is reserved a microsecond before", on.names(now=9.999999), []
    yield "since when what is reserved at 10 s was claimable", on.take(now=10.0).claimable_since, 10.0


def a_job_in_hand_is_given_to_nobody_until_it_runs_out(on: Hands) -> Steps:
    """At its deadline, not a microsecond before, the next who asks gets it."""
    on.push("a")
    on.take(now=0.0, retry_after=90.0)
    yield "what is reserved a microsecond before", on.names(now=89.999999), []
    again = on.take(now=90.0)
    told = again.claimable_since, again.ran_out, again.job.attempts
    yield "since when it was claimable, whether it ran out, and its attempts", told, (90.0, True, 2)


def a_reservation_may_be_for_ever(on: Hands) -> Steps:
    """With `retry_after=None` it never runs out."""
    on.push("a")
    held = on.take(retry_after=None)
    yield "when it runs out", held.reserved_until, math.inf
    for now in (1e6, 9e9):
        yield f"what is there after {now:g} s", on.all(now=now), (Counts(reserved=1), [held.job], [], None)
        yield "what is reserved then", on.names(now=now), []
        yield "what is recovered then", on.driver.recover(on.queue, now=now), []
    yield "whether its worker can complete it then", on.driver.complete(held, now=9e9), True


def reserve_takes_up_to_its_limit(on: Hands) -> Steps:
    """The first so many, each with a token of its own."""
    on.push("a", "b", "c")
    batch = on.driver.reserve(on.queue, now=0.0, retry_after=90.0, limit=2)
    yield "two of three jobs", [held.job.name for held in batch], ["a", "b"]
    yield "how many tokens they have", len({held.token for held in batch}), 2
    yield "what comes next", on.names(now=0.0, limit=2), ["c"]
    yield "what comes last", on.names(now=0.0, limit=2), []


def no_two_reservations_have_one_token(on: Hands) -> Steps:
    """Also not those of one job."""
    on.push(*"abcde")
    tokens = [
        held.token
        for now in range(60)
        for held in on.driver.reserve(on.queue, now=float(now), retry_after=1.0, limit=5)
    ]
    yield "how many reservations five jobs have had, and how many tokens", (len(tokens), len(set(tokens))), (300, 300)


def the_job_that_has_been_claimable_longest_goes_first(on: Hands) -> Steps:
    """Whatever came when: a delayed job stands where its moment says."""
    on.push("c", at=4.0)
    on.push("a", at=2.0)
    on.push("b", at=3.0)
    yield "three delayed jobs", on.names(now=9.0), ["a", "b", "c"]
    on.push("fell due", now=10.0, at=15.0)
    on.push("fresh", now=16.0)
    wanted = ["fell due", "fresh"] if on.driver.order == "available_at" else ["fresh", "fell due"]
    yield "one that fell due before another was dispatched, and nobody polled", on.names(now=16.0), wanted


def jobs_of_one_moment_go_in_the_order_of_dispatch(on: Hands) -> Steps:
    """Ties go by a serial number."""
    wanted = [f"job {number}" for number in range(12)]
    for name in wanted:
        on.push(name, at=10.0)
    yield "twelve jobs that fall due at once", on.names(now=10.0), wanted


def a_released_job_goes_behind_its_peers(on: Hands) -> Steps:
    """Else a job that always fails is always next."""
    on.push("a", "b", "c")
    on.driver.release(on.take(), now=0.0)
    yield "three jobs of which the first was released", on.names(now=0.0), ["b", "c", "a"]


def recovered_jobs_go_behind_those_that_wait(on: Hands) -> Steps:
    """In the order in which they ran out."""
    on.push("a", "b", "c")
    on.take(retry_after=50.0)
    on.take(retry_after=40.0)
    yield "what is recovered", [job.name for job in on.driver.recover(on.queue, now=50.0)], ["b", "a"]
    yield "in which order they go", on.names(now=50.0), ["c", "b", "a"]


def recover_takes_what_has_run_out_and_by_force_everything(on: Hands) -> Steps:
    """Who held it is superseded; the attempt stays counted."""
    on.push("a", "b", "waiting", "delayed", now=0.0)
    gone, alive = on.take(retry_after=10.0), on.take(retry_after=10.000001)
    yield "what is recovered a microsecond before", on.driver.recover(on.queue, now=9.999999), []
    stands = gone.job._replace(available_at=10.0, reserved_at=None)
    yield "what is recovered", on.driver.recover(on.queue, now=10.0), [stands]
    yield "whether its worker can complete it", on.driver.complete(gone, now=10.0), False
    yield "what is recovered then", on.driver.recover(on.queue, now=10.0), []
    yield "whether the other still has its job", on.driver.extend(alive, now=10.0, seconds=90.0), True
    told = [job.name for job in on.driver.recover(on.queue, now=10.0, force=True)]
    yield "what is recovered by force", told, ["b"]
    yield "whether its worker can complete it", on.driver.complete(alive, now=10.0), False
    yield "what is there", on.counts(now=10.0), Counts(ready=4)


TAKING: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            reserve_tells_the_job_as_it_stands_from_then_on,
            a_job_is_due_at_its_moment_and_not_before,
            a_job_in_hand_is_given_to_nobody_until_it_runs_out,
            a_reservation_may_be_for_ever,
            reserve_takes_up_to_its_limit,
            no_two_reservations_have_one_token,
            the_job_that_has_been_claimable_longest_goes_first,
            jobs_of_one_moment_go_in_the_order_of_dispatch,
            a_released_job_goes_behind_its_peers,
            recovered_jobs_go_behind_those_that_wait,
            recover_takes_what_has_run_out_and_by_force_everything,
        ),
    )
)
"""What is promised of the order in which jobs are reserved, and of reservations."""
