"""What a checkup looks at in a queue: its jobs, its workers, its handlers, its reservations."""

from collections import Counter
from collections.abc import Iterator

from qlab.checkup.finding import Finding, fine, mind, wrong
from qlab.clock import SystemClock, is_simulated
from qlab.driver import Driver, Mark
from qlab.queue import Queue
from qlab.show import seconds
from qlab.signs import ALIVE, RUN

NEAR = 0.8
"""From which share of its reservation on a run is worth telling."""

_NAMED = 5


def jobs_of(queue: Queue) -> Iterator[Finding]:
    """Look at the jobs: how many are where, whether any stands in the wrong place or has an odd time."""
    counts = queue.counts()
    yield fine("jobs", f"{counts.ready} ready, {counts.delayed} delayed, {counts.reserved} reserved")
    if counts.failed:
        has = _many(counts.failed, "job has", "jobs have")
        yield mind("failed", f"{has} failed", "`qlab failed` says why; `qlab retry` and `qlab forget` clear them away")
    problems = queue.driver.check(queue.name, now=queue.clock.now())
    for problem in problems[:_NAMED]:
        yield wrong("store", problem, _mend(queue.driver))
    if len(problems) > _NAMED:
        yield wrong("store", f"and {len(problems) - _NAMED} more such problems", _mend(queue.driver))
    if not problems:
        yield fine("store", "nothing in it is inconsistent")
    simulated = sum(is_simulated(job.dispatched_at) for job in queue.jobs())
    if simulated and isinstance(queue.clock, SystemClock):
        yield wrong(
            "times",
            f"{_many(simulated, 'job has', 'jobs have')} times of a simulated clock, which mean nothing to a machine's",
            "use one kind of clock for a store: clear the queue, or work it under the simulated clock",
        )


def workers_of(queue: Queue) -> Iterator[Finding]:
    """Look at the workers: whether any is alive, and whether jobs wait for one."""
    if type(queue.driver).marks is Driver.marks:
        yield mind("workers", "this store keeps no note of its workers", "look whether their processes run")
        return
    now, counts = queue.clock.now(), queue.counts()
    alive = [mark for mark in _marks(queue, ALIVE) if mark.value >= now]
    waits = _many(counts.ready, "job waits", "jobs wait")
    if alive:
        names = ", ".join(mark.name for mark in alive[:_NAMED]) + (", …" if len(alive) > _NAMED else "")
        yield fine("workers", f"{_many(len(alive), 'is', 'are')} alive: {names}; {waits}")
    elif counts.reserved and counts.ready:
        yield mind(
            "workers",
            f"none has told of itself lately, but {_many(counts.reserved, 'job is', 'jobs are')} reserved; {waits}",
            "wait for the handlers that run; if nothing changes, run `qlab work MODULE:QUEUE`",
        )
    elif counts.ready:
        yield wrong("workers", f"none runs, and {waits}", "run `qlab work MODULE:QUEUE`, or `Worker(queue).run()`")
    else:
        yield fine("workers", f"none is known to run; {waits}")


def handlers_of(queue: Queue) -> Iterator[Finding]:
    """Look at the handlers: whether each name that waits has one."""
    waiting = Counter(job.name for job in queue.jobs())
    missing = [name for name in sorted(waiting) if name not in queue.handlers]
    for name in missing[:_NAMED]:
        yield wrong(
            "handlers",
            f"{_many(waiting[name], 'job waits', 'jobs wait')} for a handler {name!r}, which this queue has not",
            f"register it with @queue.handler({name!r}), or import the module that does",
        )
    if len(missing) > _NAMED:
        yield wrong("handlers", f"and {len(missing) - _NAMED} more names have no handler", "register them likewise")
    if not missing:
        yield fine("handlers", ", ".join(queue.handlers) or "this queue has none")


def runs_of(queue: Queue, *, known: bool) -> Iterator[Finding]:
    """Look at how long handlers took beside how long a reservation lasts.

    Args:
        queue: The queue.
        known: Whether its policy is the workers'; else it is only the usual one.
    """
    lasts = queue.policy.retry_after
    runs = _marks(queue, RUN)
    whose = "its reservation lasts" if known else "by default a reservation lasts"
    if lasts is None:
        yield mind(
            "reservations",
            "they never run out: what a killed worker held comes back at a recover(force=True) alone",
            "let the first worker that boots recover with force, or set retry_after",
        )
        return
    for run in sorted(runs, key=lambda run: -run.value):
        says = f"the longest run of {run.name!r} took {seconds(run.value)}, {whose} {seconds(lasts)}"
        advice = "make retry_after longer than any run, or call job.extend(seconds) on the way"
        if run.value >= lasts:
            again = f"{says}: another worker may take such a job while it runs"
            yield wrong("reservations", again, advice) if known else mind("reservations", again, advice)
        elif run.value >= NEAR * lasts:
            yield mind("reservations", says, advice)
    if all(run.value < NEAR * lasts for run in runs):
        longest = f", the longest run took {seconds(max(run.value for run in runs))}" if runs else ""
        yield fine("reservations", f"{'they last' if known else 'by default they last'} {seconds(lasts)}{longest}")


def _marks(queue: Queue, kind: str) -> list[Mark]:
    return [mark for mark in queue.driver.marks(queue.name) if mark.kind == kind]


def _mend(driver: Driver) -> str:
    if driver.store.name.startswith("redis"):
        return (
            "run `qlab recover`, with --force where no worker is alive: it puts back what stands in no set; "
            "were keys deleted, or evicted?"
        )
    return "stop the workers, and restore the file from a backup (or save what is left with sqlite3 FILE .recover)"


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
