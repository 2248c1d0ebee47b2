"""The commands: parse, call, print."""

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from qlab import __version__
from qlab.commands.bench import bench
from qlab.commands.calibrate import calibrate
from qlab.commands.contention import contention
from qlab.commands.course import course
from qlab.commands.doctor import doctor
from qlab.commands.explore import explore
from qlab.commands.failed import failed, forget, retry
from qlab.commands.store import (
    STOPPED,
    again,
    clear,
    counts,
    example,
    jobs,
    print_lines,
    progress_bar,
    recover,
    worker_counts,
)
from qlab.commands.theory import theory
from qlab.commands.work import work
from qlab.errors import QlabError
from qlab.escape import printable
from qlab.interrupts import no_interrupt_dropped

if TYPE_CHECKING:
    from pandas import DataFrame

    from qlab.comparison import Comparison


_DRIVERS = ("memory", "sqlite", "redis_list", "redis_zset")


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
            with no_interrupt_dropped():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (QlabError, ValueError, TypeError, OSError) as error:
            raise Problem(str(error)) from error
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(STOPPED)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("qlab compare --quick", "qlab lab"),
)
@click.version_option(__version__, prog_name="qlab", message="%(prog)s %(version)s")
def main() -> None:
    """A queue lab: compare stores of jobs, learn from notebooks, work queues and look after them."""


# -- compare --


@main.command(epilog=example("qlab compare --driver sqlite --driver redis_zset --workers 1,4"))
@click.option("--driver", "drivers", multiple=True, type=click.Choice(_DRIVERS), help="Only this one; may be repeated.")
@click.option(
    "--workers",
    metavar="N,N,...",
    callback=worker_counts,
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
        with progress_bar() as progress:
            compared = comparison.compare(drivers or None, progress=progress, **options)
        page = comparison_report.write(compared, out, command=again(ctx))
    except KeyboardInterrupt:
        click.echo("stopped; nothing was left behind", err=True)
        ctx.exit(STOPPED)
    print_lines(_compared(compared.tables(), [*comparison_report.answer(compared), *_not_measured(compared)]))
    print_lines([f"report: {page}"])


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


main.add_command(contention)
main.add_command(bench)
main.add_command(calibrate)
main.add_command(course)

# -- queues --

for each in (work, doctor, explore, counts, jobs, failed, retry, forget, recover, clear):
    main.add_command(each)


# -- theory --

main.add_command(theory)

# -- lab --


@main.command(epilog=example("qlab lab my-notebooks --no-browser"))
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
    print_lines(f"{name}: copied to {folder}" for name in copies.copied)
    print_lines(f"{name}: kept as it is in {folder}" for name in copies.kept)
    print_lines(["JupyterLab is starting, its address follows; Ctrl-C ends it."])
    command = handout.jupyterlab(folder, browser=handout.has_browser() and not no_browser, port=port, ip=ip)
    sys.exit(handout.become(command, handout.settings(os.environ)))
