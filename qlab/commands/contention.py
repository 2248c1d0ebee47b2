"""`qlab contention`: real workers on real stores, as fast as they can."""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qlab.commands.store import STOPPED, example, print_lines, progress_bar, worker_counts

if TYPE_CHECKING:
    from qlab.contend import Contention
    from qlab.peers.rounds import Compared

_QUICK = {"workers": (1, 2, 4), "jobs": 1_000, "repeats": 1}


@click.command(
    epilog=example(
        "qlab contention --quick",
        "qlab contention --arm 'sqlite FULL' --arm 'redis_zset always'",
        "qlab contention --length 0.005 --workers 1,4,16 --save found.qlab",
    )
)
@click.option(
    "--arm",
    "drivers",
    metavar="ARM",
    multiple=True,
    help="A store, such as sqlite, 'sqlite FULL', 'redis_zset always' or an address; may be repeated.  [default: "
    "sqlite, redis_zset]",
)
@click.option(
    "--workers",
    metavar="N,N,...",
    callback=worker_counts,
    default="1,2,4,8",
    show_default=True,
    help="Numbers of workers.",
)
@click.option("--jobs", type=click.IntRange(1), default=10_000, show_default=True, help="How many jobs a run has.")
@click.option("--length", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="How long each takes.")
@click.option("--busy", is_flag=True, help="They take their time on the processor, instead of waiting.")
@click.option(
    "--enqueue",
    type=float,
    metavar="RATE",
    help="How many jobs a second come while workers work, inf for as fast as can be.  [default: all are there before]",
)
@click.option("--payload", type=click.IntRange(2), metavar="BYTES", help="What each carries.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="How often each arm runs.")
@click.option(
    "--mode",
    type=click.Choice(["process", "thread"]),
    default="process",
    show_default=True,
    help="What a worker is; threads share Python's interpreter lock.",
)
@click.option("--handlers", metavar="MODULE:FUNCTION", help="What registers handlers of your own on a queue.")
@click.option("--redis", metavar="URL", help="The Redis or Valkey to use.  [default: private ones, which end too]")
@click.option("--seed", type=int, default=0, show_default=True, help="Where the order of runs starts.")
@click.option(
    "--peers", is_flag=True, help="Then jobs that do nothing through qlab and other queues: pip install '.[peers]'."
)
@click.option("--quick", is_flag=True, help="1,000 jobs, four workers at the most, and each arm once.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for all of it, which qlab.Contention.load reads.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table as JSON into this file, all times in seconds.",
)
@click.pass_context
def contention(ctx: click.Context, /, *, save: Path | None, file: Path | None, peers: bool, **options: Any) -> None:
    """Let real workers contend for the jobs of real stores.

    Workers are processes that begin together, each with its own connection, and work until nothing is left. Prints what
    each store reached with how many of them, store by store that survive the same.

    With --peers, other queues and qlab then work jobs that do nothing, about a second each time, with their documented
    settings, each in processes of its own: 1 and 4, or as many as --workers says.
    """
    from qlab import contend

    for each in (save, file):
        if each is not None and not each.absolute().parent.is_dir():
            raise click.UsageError(f"there is no folder {each.absolute().parent} for {each}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where the reader's handlers may lie
    with progress_bar() as progress:
        found = contend.contention(progress=progress, **_asked(ctx, options))
    print_lines(_lines(found))
    compared = _compared(ctx, options) if peers and not found.interrupted else None
    if save is not None and found.runs:
        print_lines([f"saved: {found.save(save)}"])
    if file is not None and found.runs:
        file.write_text(_json(found, compared), encoding="utf-8")
        print_lines([f"written: {file}"])
    if found.interrupted or (compared and compared.interrupted):
        click.echo("stopped; nothing was left behind", err=True)
        ctx.exit(STOPPED)


def _asked(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Say it as `contention` is asked: where it is to be quick, with less of what was not said."""
    from qlab.contend.arms import on_server
    from qlab.contend.contending import DRIVERS

    options = {**options}
    drivers, redis = options.pop("drivers"), options.pop("redis")
    if options.pop("quick"):
        usual = {name: value for name, value in _QUICK.items() if _is_default(ctx, name)}
        options |= usual
    if redis is not None:
        drivers = [on_server(each, redis) for each in drivers or DRIVERS]
    if options["handlers"] is not None:
        for name in ("length", "busy"):
            if not _is_default(ctx, name):
                raise click.UsageError(f"--{name} says how long the usual jobs take: your own --handlers say it")
    return options | {"drivers": drivers or None}


def _compared(ctx: click.Context, options: dict[str, Any]) -> "Compared":
    """Measure other queues, and print what came of it."""
    from qlab.commands import peer_tables
    from qlab.peers.measuring import WORKERS, measure

    quick = options["quick"]
    how = {
        "workers": WORKERS if _is_default(ctx, "workers") else options["workers"],
        "repeats": 1 if quick and _is_default(ctx, "repeats") else options["repeats"],
        "seconds": 0.2 if quick else 1.0,
        "seed": options["seed"],
    }
    with progress_bar() as progress:
        compared = measure(progress=progress, **how)
    print_lines(peer_tables.lines(compared))
    return compared


def _is_default(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE


def _lines(found: "Contention") -> Iterator[str]:
    from qlab import terminal
    from qlab.driver import SURVIVED

    rows = sorted(found.rows(), key=lambda row: -SURVIVED.index(row["survives"]))
    for survives, alike in groupby(rows, key=lambda row: row["survives"]):
        table = [{name: value for name, value in row.items() if name != "survives"} for row in alike]
        yield f"Survives {survives}:"
        yield from terminal.table(list(table[0]), [list(row.values()) for row in table])
        yield ""
    if found.runs:
        yield "What is lost when …"
        stores = {run.measured.arm: (run.description, *run.durability) for run in found.runs if run.measured}
        heads = ["arm", "store", "worker killed", "store killed", "power cut"]
        yield from terminal.table(heads, [(name, *stores[name]) for name in dict.fromkeys(row["arm"] for row in rows)])
        yield ""
    said = [*found.notes, *(f"Left out: {what}: {why}" for what, why in found.skipped.items())]
    for each in [*said, "; ".join(f"{name} {value}" for name, value in found.machine.items())]:
        yield from (*terminal.paragraph(each), "")


def _json(found: "Contention", compared: "Compared | None") -> str:
    from qlab import frames

    rows = json.loads(frames.contention(found).to_json(orient="records"))
    said = {name: getattr(found, name) for name in ("skipped", "machine", "notes", "interrupted", "elapsed")}
    if compared is not None:
        said |= {"peers": compared.rows(), "peers_left_out": compared.missing}
    return json.dumps({"arms": rows, **said}, indent=2, ensure_ascii=False) + "\n"
