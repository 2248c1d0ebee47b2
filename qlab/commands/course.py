"""`qlab course`: the notebooks as pages to read, and their exercises made anew from the solutions."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from qlab.commands.store import STOPPED, example, print_lines
from qlab.escape import printable
from qlab.interrupts import ended_as_interrupted


@click.command(epilog=example("qlab course --html qlab-course", "qlab course --exercises notebooks"))
@click.option(
    "--html",
    "pages",
    type=click.Path(file_okay=False, path_type=Path),
    help="Execute the notebooks, and write each as a page into this folder, with an index: for readers without Python.",
)
@click.option(
    "--only", multiple=True, metavar="NAME", help="With --html: only this notebook, as in 04; may be repeated."
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --html: the folder of the notebooks.  [default: those that came with qlab]",
)
@click.option(
    "--copy",
    "copies",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy the notebooks into this folder, as a learner gets them; a file that is there stays.",
)
@click.option(
    "--exercises",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make the exercises of this folder's notebooks anew from their solutions.",
)
@click.option(
    "--solved",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the notebooks with their exercises solved into this folder; a file that is there stays.",
)
@click.pass_context
def course(
    ctx: click.Context,
    pages: Path | None,
    only: tuple[str, ...],
    source: Path | None,
    copies: Path | None,
    folder: Path | None,
    solved: Path | None,
) -> None:
    """Work on the course: its pages, its notebooks, its exercises, its solutions.

    The pages hold pictures, tables and boards, and load nothing from elsewhere: open index.html with any browser, also
    without a network. The folder may be new, empty, or hold earlier pages, which are replaced once all are made. The
    exit code is 1 where a notebook did not run; the others have their pages.

    In a notebook an exercise is made of its solution, which is folded below it: whoever writes one changes the
    solution, and makes the exercises anew.
    """
    if (only or source) and pages is None:
        raise click.UsageError("--only and --from say of which notebooks there are pages: say --html FOLDER, too")
    if pages is None and copies is None and folder is None and solved is None:
        raise click.UsageError("say --html FOLDER, --copy FOLDER, --solved FOLDER or --exercises FOLDER")
    if copies is not None:
        _copy(copies)
    if folder is not None:
        _make_exercises(folder)
    if solved is not None:
        _solve(solved)
    if pages is not None:
        try:
            with ended_as_interrupted():
                failed = _write_pages(pages, source, only)
        except KeyboardInterrupt:
            click.echo("stopped; nothing was left behind", err=True)
            ctx.exit(STOPPED)
        ctx.exit(1 if failed else 0)


def _write_pages(folder: Path, source: Path | None, only: Sequence[str]) -> bool:
    """Write the pages, and tell whether a notebook did not run."""
    from qlab import handout
    from qlab.course.pages import build

    chosen = _chosen(handout.notebooks() if source is None else _in(source), only)
    tell = partial(click.echo, nl=False, err=True)
    lessons = build(chosen, folder, tell=lambda said: tell(printable(said)))
    print_lines([f"course: {folder.absolute() / 'index.html'}"])
    failed = [lesson.name for lesson in lessons if lesson.executed is None]
    if failed:
        click.echo(f"qlab: not all of it: {', '.join(failed)} did not run", err=True)
    return bool(failed)


def _chosen(notebooks: Sequence[Path], only: Sequence[str]) -> list[Path]:
    """Choose notebooks by their names, or by what these begin with.

    Raises:
        ValueError: A name is none of theirs.
    """
    for name in only:
        if not any(path.stem.startswith(name) for path in notebooks):
            raise ValueError(f"there is no notebook {name!r}: use one of {', '.join(path.stem for path in notebooks)}")
    return [path for path in notebooks if not only or path.stem.startswith(tuple(only))]


def _in(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise ValueError(f"there is no notebook in {folder}: name the folder that has them")
    return paths


def _copy(folder: Path) -> None:
    from qlab import handout

    copied, kept = handout.copy_notebooks(folder)
    print_lines([*(f"{name}: copied" for name in copied), *(f"{name}: was there, and stays" for name in kept)])


def _make_exercises(folder: Path) -> None:
    from qlab.course import exercises

    opened = [(path, exercises.opened(exercises.read(path))) for path in _in(folder)]  # all, before one is written
    for path, notebook in opened:
        made = exercises.write(notebook, path)
        print_lines([f"{path.name}: {'made anew' if made else 'as it was'}"])


def _solve(folder: Path) -> None:
    from qlab import handout
    from qlab.course import exercises

    folder.mkdir(parents=True, exist_ok=True)
    for path in handout.notebooks():
        text = exercises.text(exercises.solved(exercises.read(path)))
        added = handout.add(folder / path.name, text.encode("utf-8"))
        print_lines([f"{path.name}: {f'solved in {folder}' if added else 'was there, and stays'}"])
