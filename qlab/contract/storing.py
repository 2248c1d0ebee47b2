"""What is promised of jobs that are stored, read and cleared."""

import math
from functools import partial

from qlab.contract.promised import Hands, Promise, Steps, new, promise, raised
from qlab.driver import Counts
from qlab.job import Job, JobState

_NASTY = "é😀\u2028 a\\b'c\"d {}:%*?[x] ; -- \n\t"


def a_queue_that_was_never_used_is_empty(on: Hands) -> Steps:
    """Every reading verb has an answer for it, and no verb finds anything to change."""
    driver, queue = on.driver, on.queue
    yield "what is in a queue that was never used", on.all(now=5.0), (Counts(), [], [], None)
    yield "what is reserved there", driver.reserve(queue, now=5.0, retry_after=90.0), []
    yield "what is recovered there", driver.recover(queue, now=5.0), []
    yield "what is recovered there by force", driver.recover(queue, now=5.0, force=True), []
    yield "how many jobs are cleared there", driver.clear(queue, now=5.0), 0
    yield "the ids of failed jobs there", driver.failed_ids(queue), []
    yield "what is retried there", driver.retry(queue, [1], now=5.0), []
    yield "what is forgotten there", driver.forget(queue, [1]), []


def push_tells_the_jobs_as_they_are_stored(on: Hands) -> Steps:
    """Each is given its id, and what `jobs` lists is the same."""
    first, later = new("a", at=3.0), new("b", at=9.0, body="[1]")
    jobs = on.driver.push(on.queue, [first, later], now=3.0)
    wanted = [
        Job(0, first.uid, on.queue, "a", "null", attempts=0, dispatched_at=3.0, available_at=3.0),
        Job(0, later.uid, on.queue, "b", "[1]", attempts=0, dispatched_at=3.0, available_at=9.0),
    ]
    yield "two jobs, but for their ids", [job._replace(id=0) for job in jobs], wanted
    yield "whether their ids differ", len({job.id for job in jobs}), 2
    yield "what jobs lists", on.driver.jobs(on.queue, now=3.0), jobs


def names_and_payloads_come_back_as_they_were(on: Hands) -> Steps:
    """A driver reads neither, so nothing in them has a meaning."""
    on.driver.push(on.queue, [new(_NASTY, body=_NASTY)], now=0.0)
    held = on.take()
    yield "name and payload of the job", (held.job.name, held.job.body), (_NASTY, _NASTY)
    on.driver.fail(held, now=0.0, attempts=1, error=_NASTY, traceback=_NASTY)
    told = [(row.name, row.body, row.error, row.traceback) for row in on.failed()]
    yield "name, payload, error and traceback of the failed job", told, [(_NASTY,) * 4]


def a_moment_in_the_past_counts_as_now(on: Hands) -> Steps:
    """Else who dispatches with an old moment would overtake all who wait."""
    (job,) = on.push("a", now=10.0, at=4.0)
    yield "from when a job for 4 s may be reserved that is pushed at 10 s", job.available_at, 10.0
    yield "since when it was claimable", on.take(now=10.0).claimable_since, 10.0


def moments_are_whole_microseconds(on: Hands) -> Steps:
    """Rounded once, where they come in, so that every comparison is exact."""
    (job,) = on.push("a", at=0.1 + 0.2)
    yield "0.1 + 0.2 seconds", job.available_at, 0.3
    yield "what is reserved half a microsecond too early", on.names(now=0.2999994), []
    yield "when it is reserved at 0.3 s, give or take less than that", on.take(now=0.2999996).job.reserved_at, 0.3


def push_stores_all_or_none(on: Hands) -> Steps:
    """Of several jobs of which one is refused, none is there."""
    for moment in (math.nan, -math.inf, 1e300):
        jobs = [new("a"), new("b", at=moment)]
        said = raised(partial(on.driver.push, on.queue, jobs, now=0.0))
        yield f"what a push for the moment {moment} raises", said, "ValueError"
        yield "what is there afterwards", on.all(now=0.0), (Counts(), [], [], None)


def a_push_that_is_repeated_changes_nothing(on: Hands) -> Steps:
    """The uid tells it: whoever had no reply sends the same again, and the job stays as it is."""
    first = new("a", at=5.0)
    jobs, other = on.driver.push(on.queue, [first], now=0.0), first._replace(available_at=1.0, body="[]")
    before = on.all(now=2.0)
    for resent in (False, True):
        yield "what it gives", on.driver.push(on.queue, [other], now=2.0, resent=resent), jobs
        yield "what is there", on.all(now=2.0), before
    held = on.take(now=5.0)
    before = on.all(now=6.0)
    for resent in (False, True):
        yield "what it gives, of a job in hand", on.driver.push(on.queue, [other], now=6.0, resent=resent), [held.job]
        yield "what is there, with the job in hand", on.all(now=6.0), before
    yield "whether the job is still in its worker's hands", on.driver.complete(held, now=7.0), True


def a_push_that_is_sent_again_finds_the_failed_job(on: Hands) -> Steps:
    """A job that has failed by then is not run once more; without `resent` it is a new one."""
    first, other = new("a"), new("b")
    on.driver.push(on.queue, [first], now=0.0)
    on.fail(on.take())
    again = on.driver.push(on.queue, [first, other], now=2.0, resent=True)
    told = [(job.uid, job.id == 0, job.name) for job in again]
    yield "whether it has no id, beside another", told, [(first.uid, True, "a"), (other.uid, False, "b")]
    yield "what waits", [job.name for job in on.driver.jobs(on.queue, now=2.0)], ["b"]
    yield "what is there", on.counts(now=2.0), Counts(ready=1, failed=1)
    anew = on.driver.push(on.queue, [first], now=2.0)
    yield "whether it has no id when it was not sent before", [job.id == 0 for job in anew], [False]
    yield "what is there then", on.counts(now=2.0), Counts(ready=2, failed=1)


def an_id_is_never_given_twice(on: Hands) -> Steps:
    """People call a job by its id, also when it is gone."""
    ids = [job.id for job in on.push("a", "b")]
    on.driver.complete(on.take(), now=0.0)
    ids += [job.id for job in on.push("c")]
    on.driver.clear(on.queue, now=0.0)
    ids += [job.id for job in on.push("d")]
    yield "the ids of four jobs, one after another", ids, sorted(ids)
    on.fail(on.take())
    ids += [job.id for _, job in on.driver.retry(on.queue, on.driver.failed_ids(on.queue), now=0.0)]
    yield "how many ids they have had, of which one was retried", len(set(ids)), 5


def counts_jobs_and_next_due_agree(on: Hands) -> Steps:
    """State is a function of the row and of the moment, whoever has asked before."""
    on.push("a")
    on.push("b", at=40.0)
    on.take(retry_after=30.0)
    for now, due in ((0.0, 30.0), (29.999999, 30.0), (30.0, 30.0), (39.0, 39.0), (40.0, 40.0)):
        states = [job.state(now) for job in on.driver.jobs(on.queue, now=now)]
        told = Counts(*(states.count(each) for each in (JobState.READY, JobState.DELAYED, JobState.RESERVED)))
        yield f"the counts at {now:g} s", on.counts(now=now), told
        yield f"what is due next at {now:g} s", on.driver.next_due(on.queue, now=now), due
    on.take(now=40.0, retry_after=None)
    on.take(now=40.0, retry_after=None)
    yield "what is due next when all is reserved for ever", on.driver.next_due(on.queue, now=40.0), None


def clear_deletes_what_waits_and_what_is_reserved(on: Hands) -> Steps:
    """Failed jobs and other queues stay, and who held a job is told so."""
    row = on.failed_one()
    on.push("b", "c")
    on.push("d", at=50.0)
    on.push("theirs", queue=on.other)
    held = on.take()
    yield "how many jobs are cleared", on.driver.clear(on.queue, now=1.0), 3
    yield "what is left", on.all(now=1.0), (Counts(failed=1), [], [row], None)
    yield "whether the job in hand can be completed", on.driver.complete(held, now=1.0), False
    yield "what is in the other queue", on.counts(now=1.0, queue=on.other), Counts(ready=1)
    yield "what is reserved here later", on.names(now=1000.0), []
    yield "how many jobs are cleared again", on.driver.clear(on.queue, now=1000.0), 0


def queues_of_one_store_do_not_meet(on: Hands) -> Steps:
    """No verb of one reaches a job of the other."""
    on.push("theirs", "theirs too", "failed", queue=on.other)
    on.take(queue=on.other, retry_after=1.0)
    on.driver.fail(on.take(queue=on.other), now=0.0, attempts=1, error="boom")
    before = on.all(now=5.0, queue=on.other)
    yield "what is here", on.all(now=5.0), (Counts(), [], [], None)
    yield "the ids of failed jobs here", on.driver.failed_ids(on.queue), []
    yield "what is reserved here", on.names(now=5.0), []
    yield "what is recovered here", on.driver.recover(on.queue, now=5.0, force=True), []
    theirs = [row.id or 0 for row in on.failed(on.other)]
    yield "what is retried here", on.driver.retry(on.queue, theirs, now=5.0), []
    yield "what is forgotten here", on.driver.forget(on.queue, theirs), []
    yield "how many jobs are cleared here", on.driver.clear(on.queue, now=5.0), 0
    yield "what is in the other queue", on.all(now=5.0, queue=on.other), before


STORING: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            a_queue_that_was_never_used_is_empty,
            push_tells_the_jobs_as_they_are_stored,
            names_and_payloads_come_back_as_they_were,
            a_moment_in_the_past_counts_as_now,
            moments_are_whole_microseconds,
            push_stores_all_or_none,
            a_push_that_is_repeated_changes_nothing,
            a_push_that_is_sent_again_finds_the_failed_job,
            an_id_is_never_given_twice,
            counts_jobs_and_next_due_agree,
            clear_deletes_what_waits_and_what_is_reserved,
            queues_of_one_store_do_not_meet,
        ),
    )
)
"""What is promised of jobs that are stored, read and cleared."""
