"""`qlab calibrate`: what a store's verbs cost on this disk and server."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from qlab.commands.store import example, print_lines

if TYPE_CHECKING:
    from qlab.calibration import Calibration


@click.command(epilog=example("qlab calibrate", "qlab calibrate --url sqlite:///jobs.db --save cost.json"))
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    help="The store, such as sqlite:///jobs.db; may be repeated.  [default: a new SQLite file in this folder, and a "
    "Redis or Valkey of its own where there is one]",
)
@click.option("--jobs", type=click.IntRange(1), default=100, show_default=True, help="Calls of each verb in a round.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="How many rounds.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for what simulate(cost=Cost.load(FILE)) charges; for one store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, all times in seconds.")
def calibrate(urls: tuple[str, ...], jobs: int, repeats: int, save: Path | None, as_json: bool) -> None:
    """Measure what a store's verbs cost on this disk and server.

    One client calls each verb again and again, in a queue of its own of which nothing is left. Whoever else uses the
    store is slowed down meanwhile. Numbers are seconds of this machine at this hour: compare them with each other.
    """
    from qlab import calibration

    if save is not None and len(urls) != 1:
        raise click.UsageError("--save keeps the cost of one store: say which, with one --url")
    if save is not None and not save.absolute().parent.is_dir():
        raise click.UsageError(f"--save {save}: there is no folder {save.absolute().parent}")
    found = []
    with ExitStack() as opened:
        for url in urls or _usual(opened):
            found.append(calibration.calibrate(url, jobs=jobs, repeats=repeats))
            if not as_json:
                print_lines(_lines(found[-1]))
    if as_json:
        click.echo(json.dumps([json.loads(each.json()) for each in found], indent=2, ensure_ascii=False))
    if save is not None:
        found[0].cost.save(save)
        click.echo(f"saved in {save}", err=as_json)


def _usual(opened: ExitStack) -> Iterator[str]:
    """Give the stores of no address: a file on this folder's disk, and a server that ends with the command."""
    from qlab.drivers import require_redis
    from qlab.drivers.server import EmbeddedServer
    from qlab.errors import MissingRequirement

    folder = opened.enter_context(TemporaryDirectory(prefix="qlab-calibrate-", dir="."))
    yield f"sqlite:///{folder}/jobs.db"
    try:
        require_redis()
        server = opened.enter_context(EmbeddedServer(persistence="everysec"))
    except MissingRequirement as problem:
        click.echo(f"left out: {problem}", err=True)
        return
    yield f"{server.url}?layout=zset&prefix=qlab&failed_jobs=sqlite:///{folder}/failed.db"


def _lines(calibration: "Calibration") -> Iterator[str]:
    from qlab import terminal

    rows = calibration.rows()
    yield calibration.description
    for event, lost in calibration.durability._asdict().items():
        yield from terminal.paragraph(f"what a {_EVENTS[event]} loses: {lost}")
    yield from ("", *terminal.table(tuple(rows[0]), [tuple(row.values()) for row in rows]), "")
    note = f"medians of {calibration.repeats} rounds, each {calibration.jobs} calls of each verb by one client"
    yield from terminal.paragraph(f"{note}{f'; {calibration.noise}' if calibration.noise else ''}")
    yield ""


_EVENTS = {"worker_killed": "killed worker", "store_killed": "killed store", "power_cut": "power cut"}
