"""The commands for failed jobs: look at them, try them again, delete them."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from qlab.clock import from_us, us
from qlab.commands.store import (
    Asked,
    Where,
    Which,
    clock_of,
    example,
    failed_jobs_file,
    is_number,
    listed,
    on_a_store,
    on_one_store,
    opened,
    tell,
)
from qlab.errors import UnknownFailedJob, UnusableStore
from qlab.escape import printable, shortened

if TYPE_CHECKING:
    from qlab.job import FailedJob
    from qlab.queue import Queue
    from qlab.trace import Trace

One = int | Literal["all"]


# -- failed --


@click.command(epilog=example("qlab failed shop:queue", "qlab failed --show 3 --url sqlite:///jobs.db"))
@click.option("--show", metavar="ID", type=click.IntRange(1, 2**63 - 1), help="All of this one, with its traceback.")
@on_one_store
def failed(where: Where, as_json: bool, show: int | None) -> None:
    """List the failed jobs of a queue, the oldest first."""
    with opened(where) as queue:
        if show is None:
            found = list(queue.failed())
            lines = list(_lines(found)) if found else ["no failed jobs"]
        else:
            found = [job for job in queue.driver.failed(queue.name, after=show - 1, limit=1) if job.id == show]
            lines = [line for job in found for line in _whole(job)]
        missing: list[One] = [] if found or show is None else [show]
        if as_json or not missing:
            tell(queue, as_json, {"failed": [_values(job) for job in found]}, lines)
        _end_with(queue, missing)


def _values(job: "FailedJob") -> dict[str, Any]:
    values = {field: value for field, value in job._asdict().items() if field not in ("queue", "body")}
    return values | {"payload": job.payload}


def _lines(jobs: "list[FailedJob]") -> Iterator[str]:
    from qlab import terminal

    rows = ((job.row()["failed id"], job.attempts, terminal.moment(job.failed_at), job.name) for job in jobs)
    texts = ((job.body, job.error) for job in jobs)
    return listed(("failed id", "attempts", "failed at", "handler"), zip(rows, texts, strict=True))


def _whole(job: "FailedJob") -> Iterator[str]:
    from qlab import terminal

    yield f"failed id      {job.id}"
    yield f"handler        {job.name}"
    yield f"attempts       {job.attempts}"
    yield f"dispatched at  {terminal.moment(job.dispatched_at)}"
    yield f"failed at      {terminal.moment(job.failed_at)}"
    yield f"uid            {job.uid}"
    yield f"error          {job.error}"
    yield from ("", "payload", json.dumps(job.payload, indent=2, ensure_ascii=False))
    yield from ("", "traceback", job.traceback.rstrip("\n") or "none: no handler ran")


# -- retry and forget --


def _asked(_ctx: click.Context, _argument: click.Parameter, values: tuple[str, ...]) -> Asked:
    targets, ids = [value for value in values if ":" in value], [value for value in values if ":" not in value]
    if len(targets) > 1:
        raise click.BadParameter(f"name one MODULE:QUEUE, not {len(targets)}")
    if not ids:
        raise click.BadParameter("name ids as `qlab failed` lists them, or all")
    return Asked(targets[0] if targets else None, _which(ids))


def _which(values: list[str]) -> Which:
    if "all" in values:
        if len(set(values)) > 1:
            raise click.BadParameter("name ids, or all, not both")
        return "all"
    for value in values:
        if not is_number(value) or int(value) >= 2**63:
            raise click.BadParameter(f"{value!r}: write ids as `qlab failed` lists them, or all")
    return tuple(dict.fromkeys(int(value) for value in values))


def _payload(_ctx: click.Context, _option: click.Parameter, value: str | None) -> tuple[Any, ...]:
    if value is None:
        return ()
    try:
        return (json.loads(value),)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{shortened(value)!r} is no JSON ({error}): write it as in '{{\"n\": 1}}'") from None


_ids = click.argument("which", metavar="[MODULE:QUEUE] ID...|all", nargs=-1, required=True, callback=_asked)


@click.command(
    epilog=example(
        "qlab retry shop:queue 3 4",
        "qlab retry all --url sqlite:///jobs.db",
        "qlab retry 3 --payload '{\"amount\": 2}' --url sqlite:///jobs.db",
    )
)
@_ids
@click.option("--payload", metavar="JSON", callback=_payload, help="With one id: what the job gets instead of its own.")
@on_a_store
def retry(where: Where, as_json: bool, which: Which, payload: tuple[Any, ...]) -> None:
    """Move failed jobs back to their queue.

    They have all their attempts again, and a new id. A failed id that is not there is told, and stops no other.
    """
    from qlab.queue import Queue

    if payload and (which == "all" or len(which) > 1):
        raise click.UsageError("--payload goes with one id")
    corrected = {"payload": payload[0]} if payload else {}
    with opened(where) as found:
        clock = clock_of(job.failed_at for job in found.failed() if which == "all" or job.id in which)
        queue = Queue(found.driver, name=found.name, clock=clock, payload_limit=found.payload_limit)
        count, missing = _each(queue, which, lambda one: queue.retry(one, **corrected))
        again = list(_again_in_queue(queue.trace))
        told = {"retried": count, "not_found": missing, "jobs": [{"failed_id": old, "id": new} for old, new in again]}
        lines = [_so_many(count, "retried")] if count or missing else ["no failed jobs: nothing was retried"]
        lines += [f"failed job {old} is job {new} again" for old, new in again]
        tell(queue, as_json, told, lines)
        _end_with(queue, missing)


def _again_in_queue(trace: "Trace") -> Iterator[tuple[int, int | None]]:
    """Pair the ids of retried failed jobs with their new ids: each retry is followed by its dispatch."""
    events = list(trace)
    for retried, dispatched in zip(events[::2], events[1::2], strict=True):
        yield int(retried.detail.removeprefix("failed job ")), dispatched.job


def _moment(_ctx: click.Context, _option: click.Parameter, value: str | None) -> float | datetime | None:
    if value is None:
        return None
    with suppress(ValueError):
        return from_us(us(float(value)))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r}: write seconds, or a moment as in 2026-01-31T12:00Z") from None
    if moment.utcoffset() is None:
        raise click.BadParameter(f"{value!r}: say in which zone, as in {moment.isoformat(timespec='minutes')}Z")
    return moment


@click.command(
    epilog=example("qlab forget shop:queue 3", "qlab forget all --before 2026-01-31T12:00Z --url sqlite:///jobs.db")
)
@_ids
@click.option(
    "--before",
    metavar="MOMENT",
    callback=_moment,
    help="With all: those that failed at this moment or earlier; as in 2026-01-31T12:00Z, or in seconds.",
)
@on_a_store
def forget(where: Where, as_json: bool, which: Which, before: float | datetime | None) -> None:
    """Delete failed jobs for good.

    A failed id that is not there is told, and stops no other.
    """
    if before is not None and which != "all":
        raise click.UsageError("--before goes with all")
    with opened(where) as queue:
        count, missing = _each(queue, which, lambda one: queue.forget(one, before=before))
        said = _so_many(count, "forgotten") if count or missing else _none_forgotten(queue, before)
        tell(queue, as_json, {"forgotten": count, "not_found": missing}, [said])
        _end_with(queue, missing)


def _none_forgotten(queue: "Queue", before: float | datetime | None) -> str:
    from qlab import terminal

    there = queue.counts().failed
    if before is None or not there:
        return "no failed jobs: nothing was forgotten"
    moment = terminal.moment(queue.clock.moment(before))
    none = "the one failed job did not fail" if there == 1 else f"none of the {there} failed jobs failed"
    return f"{none} at or before {moment}: nothing was forgotten"


def _so_many(count: int, done: str) -> str:
    return f"{count} failed job{'' if count == 1 else 's'} {done}"


def _each(queue: "Queue", which: Which, act: Callable[[One], int]) -> tuple[int, list[One]]:
    """Do it to all, or to one after the other: to how many, and which were not there."""
    _refuse_new_file(queue)
    wanted: Iterable[One] = ("all",) if which == "all" else which
    count = 0
    missing: list[One] = []
    for one in wanted:
        try:
            count += act(one)
        except UnknownFailedJob:
            missing.append(one)
    return count, missing


def _end_with(queue: "Queue", missing: list[One]) -> None:
    """Say which were not there, and end with 1 where any was not."""
    for one in missing:
        click.echo(printable(f"qlab: there is no failed job {one} in the queue {queue.name!r}"), err=True)
    if missing:
        sys.exit(1)


def _refuse_new_file(queue: "Queue") -> None:
    """Keep failures that still wait for their rows from making a file whose address may be mistyped."""
    file = failed_jobs_file(queue)
    if not file.exists() and queue.failed(limit=1):
        raise UnusableStore(
            f"there is no file {file} for the failed jobs: write failed_jobs=sqlite:///FILE into the address"
        )
