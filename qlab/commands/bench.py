"""`qlab bench`: how fast qlab is on this machine, as ratios."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qlab.commands.store import STOPPED, example, print_lines, progress_bar
from qlab.errors import QlabError

if TYPE_CHECKING:
    from qlab.benchmarks import Report


@click.command(epilog=example("qlab bench simulate sqlite", "qlab bench --runs 9 --json figures.json"))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--jobs", type=click.IntRange(100), default=100_000, show_default=True, help="How many jobs.")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="How often each is measured.")
@click.option(
    "--json",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write machine, versions, settings and every run into this file, too.",
)
def bench(names: tuple[str, ...], jobs: int, runs: int, file: Path | None) -> None:
    """Measure how fast workers, simulating and their stores are here, and qlab beside other queues.

    Each figure is the median of some runs, with its range. A ratio is made of two things that are measured in turn, so
    it says more than either: compare ratios between machines, not figures. All of it takes some minutes; NAME chooses
    some: simulate, growth, simulate_sqlite, trace, memory_loop, trace_on, sqlite, sqlite_full, sqlite_eight,
    sqlite_eight_full, sqlite_dispatch, sqlite_file, redis, redis_four, redis_dispatch, sqlite_growth, redis_growth,
    memory, peers_sqlite, peers_redis, shards, classroom.
    """
    from qlab import benchmarks

    with _kept(file), progress_bar() as progress:
        report = benchmarks.measure(names, jobs=jobs, runs=runs, progress=progress)
    print_lines(_lines(report))
    if file is not None:
        file.write_text(report.json() + "\n", encoding="utf-8")
        print_lines(["", f"written: {file}"])
    if report.interrupted:
        click.echo("stopped; this is what was measured until then", err=True)
        click.get_current_context().exit(STOPPED)
    if report.problems:
        raise QlabError(" · ".join(report.problems))


@contextmanager
def _kept(file: Path | None) -> Iterator[None]:
    """Make a file before minutes of measuring, if it cannot be written; an empty one is not left where those fail."""
    made = file is not None and not file.exists()
    if file is not None:
        file.touch()
    try:
        yield
    except BaseException:
        if file is not None and made:
            file.unlink(missing_ok=True)
        raise


def _lines(report: "Report") -> Iterator[str]:
    from qlab import terminal

    rows = [each.row() for each in report.measured]
    yield from terminal.table(list(rows[0]), [list(row.values()) for row in rows])
    yield ""
    settings = ", ".join(f"{name} {value:,}" for name, value in report.settings.items())
    yield from terminal.paragraph("; ".join([*(f"{k} {v}" for k, v in report.machine.items()), settings]))
