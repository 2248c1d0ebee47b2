"""`qlab contention`: real workers on real stores, as fast as they can."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qlab.commands.store import STOPPED, again, example, print_lines, progress_bar, worker_counts
from qlab.escape import printable

if TYPE_CHECKING:
    from qlab.contend import Contention
    from qlab.contend.scans import ScanWait
    from qlab.peers.rounds import Compared

_QUICK = {"workers": (1, 2, 4), "jobs": 1_000, "repeats": 1}


@click.command(
    epilog=example(
        "qlab contention --quick",
        "qlab contention --arm 'sqlite FULL' --arm 'redis_zset always'",
        "qlab contention --rate 200 --report found.html",
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
@click.option("--scans", is_flag=True, help="Then how long a dispatch waits while a large scan is stored in SQLite.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="JOBS",
    help="How many jobs you have in a second: says which store is enough for them.",
)
@click.option(
    "--report",
    "out",
    type=click.Path(path_type=Path),
    help="Write a page with pictures: a file that ends with .html, or a folder, for pictures and tables beside it.",
)
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
def contention(ctx: click.Context, /, *, scans: bool, peers: bool, rate: float | None, **options: Any) -> None:
    """Let real workers contend for the jobs of real stores.

    Workers are processes that begin together, each with its own connection, and work until nothing is left. Prints what
    each store reached with how many of them, store by store that survive the same; and at last, in words, which store
    is enough until when. The exit code is 1 where a job was lost or done twice.

    With --peers, other queues and qlab then work jobs that do nothing, about a second each time, with their documented
    settings, each in processes of its own: 1 and 4, or as many as --workers says.
    """
    from qlab import contend

    kept = {name: options.pop(name) for name in ("save", "file", "out")}
    _check_kept(**kept)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where the reader's handlers may lie
    with progress_bar() as progress:
        found = contend.contention(progress=progress, **_asked(ctx, options))
    waits, stopped = _scan_waits() if scans and not found.interrupted else ((), found.interrupted)
    print_lines(_lines(found, waits, rate))
    compared = _compared(ctx, options) if peers and not stopped else None
    if found.runs:
        print_lines(_keep(again(ctx), found, waits, compared, rate, **kept))
    if stopped or (compared and compared.interrupted):
        click.echo("stopped; nothing was left behind", err=True)
        ctx.exit(STOPPED)
    ctx.exit(any(run.measured.lost or run.measured.duplicated for run in found.runs if run.measured))


def _check_kept(save: Path | None, file: Path | None, out: Path | None) -> None:
    """Refuse what cannot be written, before anything is measured."""
    from qlab import contention_report

    for each in (save, file):
        if each is not None and not each.absolute().parent.is_dir():
            raise click.UsageError(f"there is no folder {each.absolute().parent} for {each}")
    if out is not None:
        try:
            contention_report.check(out)
        except ValueError as error:
            raise click.BadParameter(printable(str(error)), param_hint="--report") from error


def _keep(
    command: str,
    found: "Contention",
    waits: "Sequence[ScanWait]",
    compared: "Compared | None",
    rate: float | None,
    *,
    save: Path | None,
    file: Path | None,
    out: Path | None,
) -> Iterator[str]:
    """Write what was asked for, and tell where."""
    from qlab import contention_report, frames

    if save is not None:
        yield f"saved: {found.save(save)}"
    if file is not None:
        file.write_text(_json(found, compared), encoding="utf-8")
        yield f"written: {file}"
    if out is not None:
        peers = None if compared is None else frames.peers(compared)
        page = contention_report.write(found, out, command=command, rate=rate, scans=waits, peers=peers)
        yield f"report: {page}"


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


def _scan_waits() -> "tuple[Sequence[ScanWait], bool]":
    """Measure what waits for a large scan; tell, too, whether somebody ended it before its end."""
    from qlab.contend.scans import scan_wait

    try:
        with progress_bar() as progress:
            return scan_wait(progress=lambda share: progress(share, "a large scan")), False
    except KeyboardInterrupt:
        return (), True


def _is_default(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE


def _lines(found: "Contention", waits: "Sequence[ScanWait]", rate: float | None) -> Iterator[str]:
    from qlab import terminal
    from qlab.contend.scans import in_words
    from qlab.contention_answer import answer
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
    machine = "; ".join(f"{name} {value}" for name, value in found.machine.items())
    for each in filter(None, [*answer(found, rate=rate), in_words(waits), machine]):
        yield from (*terminal.paragraph(each), "")


def _json(found: "Contention", compared: "Compared | None") -> str:
    from qlab import frames

    rows = json.loads(frames.contention(found).to_json(orient="records"))
    said = {name: getattr(found, name) for name in ("skipped", "machine", "notes", "interrupted", "elapsed")}
    if compared is not None:
        said |= {"peers": compared.rows(), "peers_left_out": compared.missing}
    return json.dumps({"arms": rows, **said}, indent=2, ensure_ascii=False) + "\n"
