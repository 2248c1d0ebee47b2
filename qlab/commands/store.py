"""The commands that look at a queue and look after it, and what they share with those for failed jobs."""

import functools
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import click

from qlab.clock import SimulatedClock, SystemClock, is_simulated
from qlab.errors import UnknownQueue
from qlab.escape import printable, shortened, traceback_text, without_password

if TYPE_CHECKING:
    from qlab.clock import Clock
    from qlab.job import Job
    from qlab.queue import Queue

STOPPED = 130
"""What a shell says of a command that SIGINT ended."""

Which = tuple[int, ...] | Literal["all"]
Command = TypeVar("Command", bound=Callable[..., Any])


class Where(NamedTuple):
    """Which queue is meant: one that a module makes, or one of a store.

    Attributes:
        target: `MODULE:QUEUE`; None for a store's.
        url: The store.
        name: The queue's name there.
    """

    target: str | None
    url: str
    name: str


class Asked(NamedTuple):
    """What the arguments name.

    Attributes:
        target: The `MODULE:QUEUE` among them; None where there is none.
        which: The ids of failed jobs, or `all`.
    """

    target: str | None
    which: Which


def example(*lines: str) -> str:
    """Write examples as the end of a command's help."""
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))


def is_number(text: str) -> bool:
    """Tell whether text is a whole number from 0 in plain digits."""
    return text.isascii() and text.isdigit()


def print_lines(lines: Iterable[str]) -> None:
    """Print lines in which nothing can move the cursor."""
    for line in lines:
        click.echo(printable(line))


@contextmanager
def progress_bar() -> Iterator[Callable[[float, str], None]]:
    """Show a bar on a terminal: what is yielded takes the share that is done, and what comes next."""
    from tqdm import tqdm

    bar_format = "{percentage:3.0f}% |{bar}| {elapsed} {desc}"
    # nrows, because a terminal in a container may say that it has none; disable=None shows it only at a terminal.
    with tqdm(total=1.0, bar_format=bar_format, ncols=78, nrows=20, leave=False, disable=None) as bar:

        def progress(done: float, what: str) -> None:
            bar.n = min(done, 1.0)
            bar.set_description_str(shortened(what, 22).ljust(22))

        yield progress


def again(ctx: click.Context) -> str:
    """Write the command as it was given, without a password."""
    words = ["qlab", str(ctx.command.name)]
    for option in ctx.command.params:
        name = str(option.name)
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[name]
        for each in value if option.multiple else [value]:
            words += option.opts[:1] if each is True else [option.opts[0], _word(each)]
    return shlex.join(words)


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return without_password(str(value))


def worker_counts(_ctx: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Read numbers of workers, as an option's callback."""
    counts = [part.strip() for part in value.split(",")]
    if not all(is_number(count) and int(count) for count in counts):
        raise click.BadParameter(f"{value!r}: write numbers from 1 up with commas between them, as in 1,2,4")
    return tuple(int(count) for count in counts)


# -- which queue --


_target = click.argument("target", metavar="[MODULE:QUEUE]", required=False)


def on_a_store(command: Command) -> Command:
    """Add the options that say which queue is meant, and give the command a `Where` of them."""

    @functools.wraps(command)
    def run(*, url: str | None, name: str | None, target: str | None = None, **how: Any) -> Any:
        if isinstance(asked := how.get("which"), Asked):
            target, how["which"] = asked
        return command(_where(target, url, name), **how)

    options = (
        click.option(
            "--url",
            metavar="URL",
            envvar="QLAB_URL",
            show_envvar=True,
            help="The store, as in sqlite:///jobs.db or redis://host.",
        ),
        click.option("--queue", "name", metavar="NAME", help="Which queue of the store.  [default: default]"),
        click.option("--json", "as_json", is_flag=True, help="Print JSON; times are in seconds."),
    )
    decorated = cast("Command", run)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def on_one_store(command: Command) -> Command:
    """Do so where `MODULE:QUEUE` is the only argument."""
    return _target(on_a_store(command))


def _where(target: str | None, url: str | None, name: str | None) -> Where:
    given = click.get_current_context().get_parameter_source("url")
    if target is None:
        if url is None:
            raise click.UsageError("which queue? Write MODULE:QUEUE, or --url URL, or set QLAB_URL.")
        return Where(None, url, "default" if name is None else name)
    if given is click.core.ParameterSource.COMMANDLINE or name is not None:
        raise click.UsageError(f"{target!r} is a queue already: leave --url and --queue out")
    return Where(target, "", "")


@contextmanager
def opened(where: Where) -> "Iterator[Queue]":
    """Open a queue that other processes use, making nothing that is not there."""
    from qlab import drivers
    from qlab.queue import Queue

    if where.target is not None:
        yield _loaded(where.target)
        return
    url = where.url
    if urlsplit(url).scheme in ("memory", "redis+embedded") or url.startswith("sqlite:///:memory:"):
        raise ValueError(
            f"{without_password(url)!r} is seen only by the process that opens it: "
            "give the address of a file, or of a server that is running"
        )
    with Queue(drivers.open(url, create=False), name=where.name) as queue:
        yield queue


def _loaded(target: str) -> "Queue":
    from qlab import target as named

    try:
        return named.shared(target)
    except UnknownQueue as error:
        if error.__cause__ is not None:
            sys.stderr.write(traceback_text(error.__cause__))
        raise


def clock_of(moments: Iterable[float]) -> "Clock":
    """Give the clock that moments (in seconds) are of: a simulated one stands at the last of them."""
    last = max(moments, default=None)
    return SystemClock() if last is None or not is_simulated(last) else SimulatedClock(last)


# -- what is printed --


def tell(queue: "Queue", as_json: bool, told: dict[str, Any], lines: Iterable[str]) -> None:
    """Print JSON, or lines and, where the failed jobs are not in the store itself, their file."""
    from qlab.drivers.sqlite import SqliteDriver

    file = failed_jobs_file(queue)
    if as_json:
        where = {"queue": queue.name, "url": without_password(queue.driver.url), "failed_jobs_file": str(file)}
        click.echo(json.dumps(where | told, indent=2))
        return
    print_lines(lines)
    if not isinstance(queue.driver.store, SqliteDriver):
        print_lines([f"failed jobs are in {file}" + ("" if file.exists() else " (not there yet)")])


def failed_jobs_file(queue: "Queue") -> Path:
    """Tell where a queue's failed jobs are."""
    from qlab.drivers.failed_jobs import StagedFailures, file_of
    from qlab.drivers.sqlite import SqliteDriver

    driver = queue.driver.store
    if isinstance(driver, SqliteDriver):
        return Path(driver.database.path)
    return Path(driver.failed_jobs.path if isinstance(driver, StagedFailures) else file_of(driver.url))


def listed(head: Sequence[str], jobs: Iterable[tuple[Sequence[object], Sequence[str]]]) -> Iterator[str]:
    """Give each job a row of a table, and texts below it."""
    from qlab import terminal

    rows, below = zip(*jobs, strict=True)
    title, *lines = terminal.one_line_each(head, rows)
    yield title
    for line, texts in zip(lines, below, strict=True):
        yield line
        yield from (f"    {shortened(text, terminal.width() - 4)}" for text in texts)


# -- the commands --


@click.command(epilog=example("qlab counts shop:queue", "qlab counts --url sqlite:///jobs.db"))
@on_one_store
def counts(where: Where, as_json: bool) -> None:
    """Count the jobs of a queue by state."""
    with opened(where) as queue:
        found = queue.counts()
        told = found._asdict() | {"depth": found.depth}
        tell(queue, as_json, told, [f"{state:9} {count:8}" for state, count in told.items()])


@click.command(epilog=example("qlab jobs shop:queue --state reserved", "qlab jobs --url sqlite:///jobs.db --json"))
@click.option("--state", type=click.Choice(["ready", "delayed", "reserved"]), help="Only those in this state now.")
@click.option("--limit", type=click.IntRange(1), help="How many at the most.  [default: all]")
@on_one_store
def jobs(where: Where, as_json: bool, state: str | None, limit: int | None) -> None:
    """List the jobs that wait or are reserved, in their order.

    A job that is reserved is available again when its reservation runs out.
    """
    with opened(where) as queue:
        now, found = queue.clock.now(), queue.jobs(state)
        shown = found[:limit]
        lines = _lines(shown, now) if found else ["no jobs" if state is None else f"no jobs are {state}"]
        more = [f"and {len(found) - len(shown)} more"] if len(shown) < len(found) else []
        tell(queue, as_json, {"jobs": [_values(job, now) for job in shown]}, [*lines, *more])


def _lines(jobs: "Sequence[Job]", now: float) -> Iterator[str]:
    from qlab import terminal

    rows = ((job.id, str(job.state(now)), job.attempts, terminal.moment(job.available_at), job.name) for job in jobs)
    texts = ((job.body,) for job in jobs)
    return listed(("id", "state", "attempts", "available at", "handler"), zip(rows, texts, strict=True))


def _values(job: "Job", now: float) -> dict[str, Any]:
    values = {field: value for field, value in job._asdict().items() if field not in ("queue", "body")}
    available_at = None if job.available_at == float("inf") else job.available_at  # JSON has no infinity
    return values | {"available_at": available_at, "state": str(job.state(now)), "payload": job.payload}


@click.command(epilog=example("qlab recover shop:queue", "qlab recover --force --url sqlite:///jobs.db"))
@click.option("--force", is_flag=True, help="Take every reservation: only where no worker is alive.")
@on_one_store
def recover(where: Where, as_json: bool, force: bool) -> None:
    """Make jobs ready again whose reservation has run out.

    With --force every reservation is taken, also from a worker that is alive: its job then runs twice.
    """
    from qlab.queue import Queue

    with opened(where) as found:
        clock = clock_of(job.reserved_at for job in found.jobs() if job.reserved_at is not None)
        queue = Queue(found.driver, name=found.name, clock=clock)
        recovered = queue.recover(force=force)
        lines = [f"job {job.id} is ready again: {shortened(job.name, 40)}" for job in recovered]
        none = "there is no reservation" if force else "no reservation has run out"
        told = {"recovered": [job.id for job in recovered]}
        tell(queue, as_json, told, lines or [f"{none}: nothing was recovered"])


@click.command(epilog=example("qlab clear shop:queue", "qlab clear --url sqlite:///jobs.db"))
@on_one_store
def clear(where: Where, as_json: bool) -> None:
    """Delete every job that waits or is reserved; failed jobs stay.

    A worker that holds one goes on with it, and is too late to settle it.
    """
    with opened(where) as queue:
        cleared = queue.clear()
        many = f"{cleared} job{'' if cleared == 1 else 's'} deleted" if cleared else "no jobs: nothing was deleted"
        tell(queue, as_json, {"cleared": cleared}, [many])
