"""`qlab explore`: every order of a small scenario, and the one that breaks a promise."""

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from qlab.commands.store import Command, print_lines

if TYPE_CHECKING:
    from qlab.explorer import Explored
    from qlab.flaws import Flaw

_AFTER = """\b
Exit codes:
  0  no promise is broken
  1  one is, or the orders could not be taken

\b
Example:
  qlab explore --expiries 2
  qlab explore --flaw "completion by id"
  qlab explore --driver sqlite:///:memory:
"""
_SHAPE = ("workers", "jobs", "tries", "fails")
_WRONG = ("expiries", "crashes", "restarts")
_SHOWN = 20
"""How many outcomes are shown."""


def _named(_ctx: click.Context, _option: click.Parameter, value: str | None) -> "type[Flaw] | None":
    """Find a flaw by its name, however its words are joined."""
    if value is None:
        return None
    from qlab.flaws import FLAWS

    asked = _plain(value)
    for name, flaw in FLAWS.items():
        if _plain(name) == asked:
            return flaw
    raise click.BadParameter(f"{value!r} is no flaw: use one of {', '.join(FLAWS)}")


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _count(name: str, most: int, text: str, least: int = 0) -> Callable[[Command], Command]:
    return click.option(f"--{name}", type=click.IntRange(least, most), help=text)


@click.command(epilog=_AFTER)
@click.option("--flaw", callback=_named, metavar="NAME", help="A broken queue to explore, such as 'release in place'.")
@click.option("--all-flaws", is_flag=True, help="Look for what is broken in each flaw of the lab.")
@click.option("--driver", metavar="URL", help="The store to explore.  [default: memory://]")
@click.option("--scenario", metavar="NAME", help="A small scenario that has a name, such as crash.")
@_count("workers", 8, "How many workers.  [default: 2]", 1)
@_count("jobs", 8, "How many jobs.  [default: 1]", 1)
@_count("tries", 100, "How many attempts each job has.  [default: 3]", 1)
@_count("fails", 100, "How many of its attempts fail before one does not.  [default: 0]")
@_count("expiries", 100, "How many reservations run out, at the most.  [default: 1]")
@_count("crashes", 100, "How many workers crash, at the most.  [default: 0]")
@_count("restarts", 100, "How many of those are started again, at the most.  [default: 0]")
@click.option("--sample", type=click.Choice(("random", "pct")), help="Choose orders by chance, where all are too many.")
@click.option("--samples", type=click.IntRange(1), default=1_000, show_default=True, help="How many to choose.")
@click.option("--seed", type=int, default=0, show_default=True, help="Where chance starts.")
@click.option("--story", is_flag=True, help="Tell one order of each outcome, or how each flaw breaks its promise.")
def explore(all_flaws: bool, story: bool, **options: Any) -> None:
    """Take the steps of a small scenario in every order.

    Workers reserve jobs, run them and settle them; reservations run out under them, and they crash. Counts how the
    orders end, and tells the shortest that breaks a promise. Without a scenario, a flaw or a driver is put through all
    that have a name, the smallest first.
    """
    given = {name: options[name] for name in options if options[name] is not None}
    _check(given, all_flaws)
    if all_flaws:
        print_lines(_flaws(story=story))
        sys.exit(1)
    store = given.get("flaw", given.get("driver"))
    alone = not {"scenario", "sample", *_SHAPE, *_WRONG} & {*given}
    explored = _all(store) if store is not None and alone else [_one(store or "memory://", given)]
    print_lines(_told(explored, story=story))
    sys.exit(explored[-1].first_broken is not None)


def _check(given: Mapping[str, Any], all_flaws: bool) -> None:
    shape = [f"--{name}" for name in _SHAPE if name in given]
    if "scenario" in given and shape:
        raise click.UsageError(f"--scenario names a whole scenario: leave out {', '.join(shape)}")
    if "flaw" in given and "driver" in given:
        raise click.UsageError("--flaw is a store, and so is --driver: leave out one of them")
    others = [f"--{name}" for name in given if name not in ("samples", "seed")]
    if all_flaws and others:
        raise click.UsageError(f"--all-flaws has its own scenarios and stores: leave out {', '.join(others)}")


def _all(store: Any) -> "Sequence[Explored]":
    from qlab import explorer

    return explorer.hunt(store)


def _one(store: Any, given: Mapping[str, Any]) -> "Explored":
    from qlab import explorer
    from qlab.explorer import small

    scenario: Any = given.get("scenario", "one_job")
    shape = {name: given[name] for name in _SHAPE if name in given}
    if shape:
        scenario = small("yours", **shape)
    chosen = {name: given[name] for name in (*_WRONG, "sample", "samples", "seed") if name in given}
    return explorer.explore(scenario, driver=store, **chosen)


# -- what is printed --


def _told(explored: "Sequence[Explored]", *, story: bool) -> Iterator[str]:
    from qlab import terminal

    last = explored[-1]
    if len(explored) > 1 and last.first_broken is None:
        rows = [each.row() for each in explored]
        yield from (f"on {last.driver}", "", *terminal.table(list(rows[0]), (list(row.values()) for row in rows)))
        yield from ("", "No promise is broken.")
        return
    yield from terminal.paragraph(f"{last.situation.name} on {last.driver}: {last.says}")
    if last.bound is not None:
        probability = f"a probability of {last.bound:.2g}, at least"
        yield from terminal.paragraph(f"One order finds what takes 3 choices with {probability}.")
    outcomes = list(last.outcomes.items())
    yield from ("", *terminal.table(["outcome", "orders"], outcomes[:_SHOWN]))
    if len(outcomes) > _SHOWN:
        yield f"and {len(outcomes) - _SHOWN} more outcomes"
    for outcome, _ in outcomes[:_SHOWN] if story else ():
        yield from ("", f"{outcome}:", *_steps(last.story(next(last.paths_of(outcome)))))
    yield ""
    if last.first_broken is None:
        yield "No promise is broken."
    else:
        yield f"A promise is broken, {last.first_broken.promise}:"
        yield from _steps(last.story(last.first_broken.path))


def _steps(sentences: Sequence[str]) -> Iterator[str]:
    from qlab import terminal

    for number, each in enumerate(sentences):
        head = f"{number:>3}  " if number else "     "
        yield from textwrap.wrap(each, terminal.width(), initial_indent=head, subsequent_indent="     ")


def _flaws(*, story: bool) -> Iterator[str]:
    from qlab import explorer, terminal
    from qlab.flaws import FLAWS

    found = {name: explorer.hunt(flaw)[-1] for name, flaw in FLAWS.items()}
    rows = [(name, each.situation.name, *_shortest(each)) for name, each in found.items()]
    yield from terminal.table(["flaw", "scenario", "steps", "broken promise"], rows)
    for name, each in found.items() if story else ():
        if each.first_broken is not None:
            yield from ("", f"{name}:", *_steps(each.story(each.first_broken.path)))
    if not story:
        yield from ("", "qlab explore --flaw NAME tells how.")


def _shortest(explored: "Explored") -> tuple[object, str]:
    broken = explored.first_broken
    return ("–", "none") if broken is None else (len(broken.path), broken.promise)
