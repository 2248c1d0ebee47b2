"""`qlab theory`: theory's cases, computed by the simulator and judged."""

import json
import math
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qlab.commands.store import progress_bar
from qlab.escape import printable, shortened

if TYPE_CHECKING:
    from qlab.cases import Cases, Verdict

_AFTER = """\b
Exit codes:
  0  every case is met
  1  one is missed
  2  the file, or a case in it, cannot be judged

\b
Example:
  qlab theory
  qlab theory --cases cases.json --tier all --only mm1
  qlab theory --tier all --report theory.html
"""
_EXACT = ("trace", "interleavings")
_WIDTHS = (11, 11, 10)  # of what is expected, what was got, and how far off that may be


@click.command(epilog=_AFTER)
@click.option(
    "--cases",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A JSON file of cases.  [default: the cases that come with qlab]",
)
@click.option(
    "--tier",
    type=click.Choice(["ci", "all"]),
    default="ci",
    show_default=True,
    help="Those for every day, in minutes, or all, in half an hour.",
)
@click.option("--only", metavar="GROUP|ID", help="Only the cases of a group, or one by its id.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for machines.")
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what was found as one HTML page too, with pictures of runs beside theory: a minute more.",
)
def theory(path: Path | None, tier: str, only: str | None, as_json: bool, page: Path | None) -> None:
    """Hold the simulator against theory: exact cases, exact traces, and what chance allows.

    Each case is a system with a known answer. It is simulated on the real driver in memory, with a fixed seed, and
    what comes out is compared with the answer within the tolerance that its number of jobs gives. Only what is called
    a reference is worked out by its formula.
    """
    from qlab.cases import CaseError

    try:
        if page is not None:
            _check_page(page)
        chosen = _chosen(path, tier, only)
        verdicts = list(_judged(chosen, quiet=as_json))
    except CaseError as error:
        click.echo(f"qlab: {printable(' '.join(str(error).split()))}", err=True)
        sys.exit(2)
    missed = sum(not verdict.ok for verdict in verdicts)
    if as_json:
        told = [{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts]
        click.echo(json.dumps([{key: _in_json(value) for key, value in one.items()} for one in told], indent=2))
    else:
        click.echo(f"\n{_summary(verdicts, missed)}")
    if page is not None:
        _write_page(page, verdicts, chosen, _again(path, tier, only, page))
        click.echo(f"report: {printable(str(page.absolute()))}", err=as_json)
    sys.exit(missed > 0)


def _chosen(path: Path | None, tier: str, only: str | None) -> "Cases":
    """Read the cases, and keep those that were asked for."""
    from qlab import cases

    chosen = cases.shipped() if path is None else cases.read(path)
    if only is None:
        chosen = chosen.tier(tier)
    else:
        kept = chosen.tier(tier).names
        chosen = chosen.tier(tier if only in {*kept, *kept.values()} else "all").only(only)
    if not chosen.names:
        raise cases.CaseError(f"{chosen.source} has no case to judge: name some in its ci_tier, or use --tier all")
    return chosen


def _judged(chosen: "Cases", *, quiet: bool) -> "Iterator[Verdict]":
    """Judge the cases, and print each as it is judged."""
    from qlab import cases

    with progress_bar() as progress:
        verdicts = cases.judge(chosen, progress=progress)
        width = max(map(len, ["case", *chosen.names]))
        if not quiet:
            _say(_line(width, "case", "expected", "got", "tolerance", ""))
        for verdict in verdicts:
            if not quiet:
                for line in _lines(width, verdict):
                    _say(line)
            yield verdict


def _say(line: str) -> None:
    """Print a line above the bar."""
    from tqdm import tqdm

    with tqdm.external_write_mode():
        click.echo(printable(line))


# -- the page --


def _check_page(page: Path) -> None:
    from qlab import report

    try:
        report.check_page(page)
    except ValueError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--report") from error


def _write_page(page: Path, verdicts: "list[Verdict]", chosen: "Cases", command: str) -> None:
    from qlab.cases import report as theory_report

    with progress_bar() as progress:
        theory_report.write(verdicts, chosen, page, command=command, progress=progress)


def _again(path: Path | None, tier: str, only: str | None, page: Path) -> str:
    """Give the command that makes the page again."""
    told = ["qlab", "theory", "--tier", tier]
    told += [] if path is None else ["--cases", f"{path}"]
    told += [] if only is None else ["--only", only]
    return shlex.join([*told, "--report", f"{page}"])


# -- lines --


def _lines(width: int, verdict: "Verdict") -> Iterator[str]:
    if verdict.kind in _EXACT:
        told = ("as stated", "as stated" if verdict.ok else "otherwise")
    else:
        told = (_number(verdict.expected), _number(verdict.got))
    yield _line(width, verdict.id, *told, _number(verdict.allowed), verdict.word)
    if verdict.kind in _EXACT and not verdict.ok:
        yield f"  expected {verdict.expected}"
        yield f"  got {verdict.got}"


def _line(width: int, case: str, expected: str, got: str, allowed: str, word: str) -> str:
    numbers = (text.rjust(size) for text, size in zip((expected, got, allowed), _WIDTHS, strict=True))
    return "  ".join([case.ljust(width), *numbers, word]).rstrip()


def _number(value: float | str | None) -> str:
    if value is None:
        return "-"
    return shortened(value, _WIDTHS[0]) if isinstance(value, str) else f"{value:.6g}"


def _in_json(value: object) -> object:
    """Give null for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _summary(verdicts: "list[Verdict]", missed: int) -> str:
    counts = {word: sum(verdict.word == word for verdict in verdicts) for word in ("ok", "missed", "not asserted")}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    cases = "1 case" if len(verdicts) == 1 else f"{len(verdicts)} cases"
    return f"{cases}: {said}" if missed or counts["not asserted"] else f"{cases} ok"
