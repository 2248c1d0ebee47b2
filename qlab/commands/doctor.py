"""`qlab doctor`: what is wrong with a queue, and what to do."""

import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from qlab.commands.store import Where, on_one_store, print_lines

if TYPE_CHECKING:
    from qlab.checkup import Checkup

_AFTER = """\b
Exit codes:
  0  nothing is wrong
  1  something is, or there is no such queue

\b
Example:
  qlab doctor shop:queue
  qlab doctor --url redis://localhost --json
"""
_INDENT = 21
"""Columns before a finding's text: how bad it is, what it is about."""


@click.command(epilog=_AFTER)
@on_one_store
def doctor(where: Where, as_json: bool) -> None:
    """Look at a queue, its store and its workers, and say what is wrong and what to do.

    Each line says whether what was looked at is fine, to be minded, or wrong. It changes nothing. Of a queue that is
    given as MODULE:QUEUE, the handlers and the policy are known too.
    """
    checkup = _looked_at(where)
    if as_json:
        click.echo(checkup.json())
    else:
        print_lines(_lines(checkup))
    sys.exit(bool(checkup.wrong))


def _looked_at(where: Where) -> "Checkup":
    from qlab import checkup, target
    from qlab.errors import DriverUnavailable, MissingRequirement

    if where.target is None:
        return checkup.doctor(where.url, name=where.name)
    try:
        queue = target.load(where.target)
    except (DriverUnavailable, MissingRequirement) as error:
        return checkup.Checkup([*checkup.here(), checkup.away(error)], where.target, "")
    with queue:
        return checkup.doctor(queue)


def _lines(checkup: "Checkup") -> Iterator[str]:
    from qlab import terminal

    room = max(terminal.width() - _INDENT, 30)
    for finding in checkup:
        head = f"{finding.level:<7}{finding.about}".ljust(_INDENT)
        said = textwrap.wrap(finding.says, room, break_on_hyphens=False)
        said += textwrap.wrap(finding.advice, room, initial_indent="> ", subsequent_indent="  ", break_on_hyphens=False)
        for number, line in enumerate(said):
            yield f"{' ' * _INDENT if number else head}{line}"
    found = len(checkup.wrong)
    yield ""
    yield f"{found} {'thing is' if found == 1 else 'things are'} wrong" if found else "nothing is wrong"
