"""What is promised of failed jobs."""

import math

from qlab.contract.promised import Hands, Promise, Steps, new, promise
from qlab.driver import Counts


def fail_moves_a_job_with_its_error(on: Hands) -> Steps:
    """It is in one place at each moment, and once."""
    (job,) = on.driver.push(on.queue, [new("a", at=1.0, body="[1]")], now=1.0)
    held = on.take(now=2.0)
    said = on.driver.fail(held, now=4.5, attempts=7, error="ValueError: boom", traceback="Traceback …")
    yield "what fail says", said, True
    rows = [tuple(row)[1:] for row in on.failed()]
    told = (job.uid, on.queue, "a", "[1]", 7, "ValueError: boom", "Traceback …", 1.0, 4.5)
    yield "the failed job, but for its id", rows, [told]
    yield "what is there", on.all(now=1e6), (Counts(failed=1), [], on.failed(), None)


def failed_jobs_are_listed_by_id_and_page_by_page(on: Hands) -> Steps:
    """The oldest first; `before` is inclusive."""
    on.push("d", "c", "b", "a")
    for now, held in enumerate(reversed(on.driver.reserve(on.queue, now=0.0, retry_after=90.0, limit=4))):
        on.fail(held, now=float(now))
    rows = on.failed()
    ids = [row.id or 0 for row in rows]
    yield "their ids", ids, sorted(set(ids))
    yield "their names, in the order in which they failed", [row.name for row in rows], ["a", "b", "c", "d"]
    yield "the first page, of two", on.driver.failed(on.queue, limit=2), rows[:2]
    yield "the page after the first row, of two", on.driver.failed(on.queue, after=ids[0], limit=2), rows[1:3]
    yield "the page after the third row, of two", on.driver.failed(on.queue, after=ids[2], limit=2), rows[3:]
    yield "what comes after the last", on.driver.failed(on.queue, after=ids[3]), []
    yield "a page of none", on.driver.failed(on.queue, limit=0), []
    yield "the ids of all", on.driver.failed_ids(on.queue), ids
    for before, count in ((-1.0, 0), (1.999999, 2), (2.0, 3), (math.inf, 4)):
        yield f"those that failed by {before} s", on.driver.failed_ids(on.queue, before=before), ids[:count]


def a_retried_job_begins_anew_and_keeps_its_uid(on: Hands) -> Steps:
    """Exactly once, with a new id, no attempts, and another payload where one is given."""
    row = on.failed_one()
    on.push("b", now=8.0)
    moved = on.driver.retry(on.queue, [row.id or 0, row.id or 0, -1], now=8.0, body="[1]")
    told = [(id, job.uid, job.body, job.attempts, job.dispatched_at, job.available_at) for id, job in moved]
    yield "what is moved", told, [(row.id, row.uid, "[1]", 0, 8.0, 8.0)]
    yield "what is there", on.counts(now=8.0), Counts(ready=2)
    yield "in which order they go", on.names(now=8.0), ["b", "a"]


def retry_takes_the_ids_in_their_order(on: Hands) -> Steps:
    """And says which of them were there."""
    ids = [on.failed_one(name).id or 0 for name in "abc"]
    moved = on.driver.retry(on.queue, [ids[2], max(ids) + 999, ids[0], -1], now=1.0)
    yield "the ids and names", [(id, job.name) for id, job in moved], [(ids[2], "c"), (ids[0], "a")]
    yield "what is left", [row.name for row in on.failed()], ["b"]
    yield "in which order they go", on.names(now=1.0), ["c", "a"]


def forget_deletes_failed_jobs(on: Hands) -> Steps:
    """And says which of the ids were there."""
    ids = [on.failed_one(name).id or 0 for name in "abc"]
    yield "what is forgotten", on.driver.forget(on.queue, [ids[2], max(ids) + 999, ids[0], ids[0]]), [ids[2], ids[0]]
    yield "what is left", on.driver.failed_ids(on.queue), [ids[1]]
    yield "what is retried of them", on.driver.retry(on.queue, [ids[0]], now=1.0), []


FAILING: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            fail_moves_a_job_with_its_error,
            failed_jobs_are_listed_by_id_and_page_by_page,
            a_retried_job_begins_anew_and_keeps_its_uid,
            retry_takes_the_ids_in_their_order,
            forget_deletes_failed_jobs,
        ),
    )
)
"""What is promised of failed jobs."""
