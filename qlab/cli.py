"""The commands: parse, call, print."""

import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import click

from qlab import __version__
from qlab.clock import SimulatedClock, SystemClock, from_us, us
from qlab.doctor_command import doctor
from qlab.errors import QlabError, UnknownFailedJob, UnusableStore
from qlab.escape import printable, shortened, without_password
from qlab.work_command import work

if TYPE_CHECKING:
    from pandas import DataFrame

    from qlab.clock import Clock
    from qlab.comparison import Comparison
    from qlab.job import FailedJob
    from qlab.queue import Queue
    from qlab.trace import Trace

Command = TypeVar("Command", bound=Callable[..., Any])
One = int | Literal["all"]
Which = tuple[int, ...] | Literal["all"]

_DRIVERS = ("memory", "sqlite", "redis_list", "redis_zset")
_STOPPED = 130  # what a shell says of a command that SIGINT ended


class Problem(click.ClickException):
    """What went wrong, in one line and without a traceback."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it to the standard error."""
        click.echo(f"qlab: {printable(' '.join(self.message.split()))}", file, err=True)


class Commands(click.Group):
    """Commands whose errors are one line each."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (QlabError, ValueError, TypeError, OSError) as error:
            raise Problem(str(error)) from error
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(_STOPPED)


def _example(*lines: str) -> str:
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_example("qlab compare --quick", "qlab lab"),
)
@click.version_option(__version__, prog_name="qlab", message="%(prog)s %(version)s")
def main() -> None:
    """A queue lab: compare stores of jobs, learn from notebooks, look after failed jobs."""


# -- compare --


def _workers(_ctx: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    counts = [part.strip() for part in value.split(",")]
    if not all(_is_number(count) and int(count) for count in counts):
        raise click.BadParameter(f"{value!r}: write numbers from 1 up with commas between them, as in 1,2,4")
    return tuple(int(count) for count in counts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@main.command(epilog=_example("qlab compare --driver sqlite --driver redis_zset --workers 1,4"))
@click.option("--driver", "drivers", multiple=True, type=click.Choice(_DRIVERS), help="Only this one; may be repeated.")
@click.option(
    "--workers",
    metavar="N,N,...",
    callback=_workers,
    default="1,2,4",
    show_default=True,
    help="Numbers of worker processes.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The Python files that the workers read.  [default: the standard library]",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Where random numbers start.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="qlab-report",
    show_default=True,
    help="The folder for the report.",
)
@click.option("--redis", metavar="URL", help="The Redis or Valkey to use.  [default: a private one, which ends too]")
@click.option("--quick", is_flag=True, help="Fewer files, and two workers at the most.")
@click.pass_context
def compare(ctx: click.Context, /, drivers: tuple[str, ...], out: Path, **options: Any) -> None:
    """Compare drivers, in simulated and in real time.

    One scenario in simulated time tells what happens, real workers on real work tell how fast. Prints the main tables,
    and writes a page with tables and pictures into a folder.
    """
    try:
        from qlab import comparison, comparison_report, report

        logging.getLogger("qlab").addHandler(logging.NullHandler())  # the jobs that fail in the scenario are meant to
        report.check_folder(out)
        with _progress_bar() as progress:
            compared = comparison.compare(drivers or None, progress=progress, **options)
        page = comparison_report.write(compared, out, command=_again(ctx))
    except KeyboardInterrupt:
        click.echo("stopped; nothing was left behind", err=True)
        ctx.exit(_STOPPED)
    _print(_compared(compared.tables(), [*comparison_report.answer(compared), *_not_measured(compared)]))
    _print([f"report: {page}"])


@contextmanager
def _progress_bar() -> Iterator[Callable[[float, str], None]]:
    from tqdm import tqdm

    bar_format = "{percentage:3.0f}% |{bar}| {elapsed} {desc}"
    # nrows, because a terminal in a container may say that it has none; disable=None shows it only at a terminal.
    with tqdm(total=1.0, bar_format=bar_format, ncols=78, nrows=20, leave=False, disable=None) as bar:

        def progress(done: float, what: str) -> None:
            bar.n = min(done, 1.0)
            bar.set_description_str(shortened(what, 22).ljust(22))

        yield progress


def _compared(tables: "Iterable[tuple[str, DataFrame]]", answer: Iterable[str]) -> Iterator[str]:
    from qlab import terminal

    for title, frame in tables:
        if not frame.empty:
            yield from (title, *terminal.table(list(frame.columns), frame.itertuples(index=False, name=None)), "")
    for sentence in answer:
        yield from (*terminal.paragraph(sentence), "")


def _not_measured(compared: "Comparison") -> Iterator[str]:
    if not compared.arms:
        yield "Nothing was measured in real time: memory has no worker processes to measure."


def _again(ctx: click.Context) -> str:
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


# -- a store --


def _on_a_store(command: Command) -> Command:
    """Add the options that say which queue is meant."""
    options = (
        click.option(
            "--url",
            metavar="URL",
            required=True,
            envvar="QLAB_URL",
            show_envvar=True,
            help="The store, as in sqlite:///jobs.db or redis://host.",
        ),
        click.option("--queue", "name", default="default", show_default=True, help="Which queue of the store."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON; times are in seconds."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command(epilog=_example("qlab counts --url sqlite:///jobs.db"))
@_on_a_store
def counts(url: str, name: str, as_json: bool) -> None:
    """Count the jobs of a queue by state."""
    with _opened(url, name) as queue:
        found = queue.counts()
        told = found._asdict() | {"depth": found.depth}
        _tell(queue, as_json, told, [f"{state:9} {count:8}" for state, count in told.items()])


@main.command(epilog=_example("qlab failed --url 'redis://localhost?failed_jobs=sqlite:///jobs.db'"))
@_on_a_store
def failed(url: str, name: str, as_json: bool) -> None:
    """List the failed jobs of a queue, the oldest first."""
    with _opened(url, name) as queue:
        found = queue.failed()
        lines = _failed_lines(found) if found else ["no failed jobs"]
        _tell(queue, as_json, {"failed": [_failed_values(job) for job in found]}, lines)


def _failed_values(job: "FailedJob") -> dict[str, Any]:
    values = {field: value for field, value in job._asdict().items() if field not in ("queue", "body")}
    return values | {"payload": job.payload}


def _failed_lines(found: "Iterable[FailedJob]") -> Iterator[str]:
    """Give each job a row, and below it what it was to do and its error."""
    from qlab import terminal

    jobs = list(found)
    told = [
        (job.row()["failed id"], job.attempts, terminal.moment(job.failed_at), shortened(job.name, 40)) for job in jobs
    ]
    head, *rows = terminal.table(("failed id", "attempts", "failed at", "handler"), told)
    yield head
    for row, job in zip(rows, jobs, strict=True):
        yield row
        yield from (f"    {shortened(text, terminal.width() - 4)}" for text in (job.body, job.error))


def _which(_ctx: click.Context, _argument: click.Parameter, values: tuple[str, ...]) -> Which:
    if "all" in values:
        if len(set(values)) > 1:
            raise click.BadParameter("name ids, or all, not both")
        return "all"
    for value in values:
        if not _is_number(value) or int(value) >= 2**63:
            raise click.BadParameter(f"{value!r}: write ids as `qlab failed` lists them, or all")
    return tuple(dict.fromkeys(int(value) for value in values))


_ids = click.argument("which", metavar="ID...|all", nargs=-1, required=True, callback=_which)


@main.command(epilog=_example("qlab retry 3 4 --url sqlite:///jobs.db", "qlab retry all --url sqlite:///jobs.db"))
@_ids
@_on_a_store
def retry(which: Which, url: str, name: str, as_json: bool) -> None:
    """Move failed jobs back to their queue.

    They have all their attempts again, and a new id. A failed id that is not there is told, and stops no other.
    """
    from qlab.queue import Queue

    with _opened(url, name) as opened:
        clock = _clock_of(job for job in opened.failed() if which == "all" or job.id in which)
        queue = Queue(opened.driver, name=name, clock=clock)
        count, missing = _each(queue, which, queue.retry)
        again = list(_again_in_queue(queue.trace))
        told = {"retried": count, "not_found": missing, "jobs": [{"failed_id": old, "id": new} for old, new in again]}
        lines = [_so_many(count, "retried")] if count or missing else ["no failed jobs: nothing was retried"]
        lines += [f"failed job {old} is job {new} again" for old, new in again]
        _tell_each(queue, as_json, told, lines, missing)


def _clock_of(jobs: "Iterable[FailedJob]") -> "Clock":
    """Give the clock that the jobs' times are of: a simulated one stands where the last of them failed."""
    from qlab import terminal

    last = max((job.failed_at for job in jobs), default=None)
    return SystemClock() if last is None or not terminal.is_simulated(last) else SimulatedClock(last)


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


@main.command(
    epilog=_example(
        "qlab forget 3 --url sqlite:///jobs.db", "qlab forget all --before 2026-01-31T12:00Z --url sqlite:///jobs.db"
    )
)
@_ids
@click.option(
    "--before",
    metavar="MOMENT",
    callback=_moment,
    help="With all: those that failed at this moment or earlier; as in 2026-01-31T12:00Z, or in seconds.",
)
@_on_a_store
def forget(which: Which, before: float | datetime | None, url: str, name: str, as_json: bool) -> None:
    """Delete failed jobs for good.

    A failed id that is not there is told, and stops no other.
    """
    if before is not None and which != "all":
        raise click.UsageError("--before goes with all")
    with _opened(url, name) as queue:
        count, missing = _each(queue, which, lambda one: queue.forget(one, before=before))
        said = _so_many(count, "forgotten") if count or missing else _none_forgotten(queue, before)
        _tell_each(queue, as_json, {"forgotten": count, "not_found": missing}, [said], missing)


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


def _tell_each(queue: "Queue", as_json: bool, told: dict[str, Any], lines: Iterable[str], missing: list[One]) -> None:
    _tell(queue, as_json, told, lines)
    for one in missing:
        click.echo(printable(f"qlab: there is no failed job {one} in the queue {queue.name!r}"), err=True)
    if missing:
        sys.exit(1)


@contextmanager
def _opened(url: str, name: str) -> "Iterator[Queue]":
    """Open a queue that other processes use, making nothing that is not there."""
    from qlab import drivers
    from qlab.queue import Queue

    if urlsplit(url).scheme in ("memory", "redis+embedded") or url.startswith("sqlite:///:memory:"):
        raise ValueError(
            f"{without_password(url)!r} is seen only by the process that opens it: "
            "give the address of a file, or of a server that is running"
        )
    with Queue(drivers.open(url, create=False), name=name) as queue:
        yield queue


def _refuse_new_file(queue: "Queue") -> None:
    """Keep failures that still wait for their rows from making a file whose address may be mistyped."""
    file = _failed_jobs_file(queue)
    if not file.exists() and queue.failed(limit=1):
        raise UnusableStore(
            f"there is no file {file} for the failed jobs: write failed_jobs=sqlite:///FILE into the address"
        )


def _failed_jobs_file(queue: "Queue") -> Path:
    from qlab.drivers.failed_jobs import StagedFailures, file_of

    driver = queue.driver
    return Path(driver.failed_jobs.path if isinstance(driver, StagedFailures) else file_of(driver.url))


def _tell(queue: "Queue", as_json: bool, told: dict[str, Any], lines: Iterable[str]) -> None:
    """Print JSON, or lines and, where the failed jobs are not in the store itself, their file."""
    file = _failed_jobs_file(queue)
    if as_json:
        where = {"queue": queue.name, "url": without_password(queue.driver.url), "failed_jobs_file": str(file)}
        click.echo(json.dumps(where | told, indent=2))
        return
    _print(lines)
    if queue.driver.name != "sqlite":
        _print([f"failed jobs are in {file}" + ("" if file.exists() else " (not there yet)")])


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line))


# -- work and lab --

main.add_command(work)
main.add_command(doctor)


@main.command(epilog=_example("qlab lab my-notebooks --no-browser"))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="qlab-notebooks")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Where it listens.  [default: the first free from 8888]")
@click.option("--ip", help="Who reaches it; 0.0.0.0 in a container.  [default: only this machine]")
def lab(folder: Path, no_browser: bool, port: int | None, ip: str | None) -> None:
    """Open JupyterLab on copies of the notebooks, at the first of them.

    The copies are in FOLDER, by default qlab-notebooks. A file that is there is never overwritten. Ctrl-C ends
    JupyterLab.
    """
    from qlab import handout

    copies = handout.copy_notebooks(folder)
    _print(f"{name}: copied to {folder}" for name in copies.copied)
    _print(f"{name}: kept as it is in {folder}" for name in copies.kept)
    _print(["JupyterLab is starting, its address follows; Ctrl-C ends it."])
    command = handout.jupyterlab(folder, browser=handout.has_browser() and not no_browser, port=port, ip=ip)
    sys.exit(handout.become(command, handout.settings(os.environ)))
