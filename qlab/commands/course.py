"""`qlab course`: the notebooks as pages to read, and their exercises made anew from the solutions."""

from pathlib import Path

import click

from qlab.commands.store import example, print_lines


@click.command(epilog=example("qlab course --exercises notebooks"))
@click.option(
    "--exercises",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make the exercises of this folder's notebooks anew from their solutions.",
)
@click.option(
    "--solved",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the notebooks with their exercises solved into this folder.",
)
def course(folder: Path | None, solved: Path | None) -> None:
    """Work on the course: its exercises, its solutions.

    In a notebook an exercise is made of its solution, which is folded below it: whoever writes one changes the
    solution, and makes the exercises anew.
    """
    from qlab import handout
    from qlab.course import exercises

    if folder is None and solved is None:
        raise click.UsageError("say --exercises FOLDER or --solved FOLDER")
    if folder is not None:
        paths = sorted(folder.glob("*.ipynb"))
        if not paths:
            raise ValueError(f"there is no notebook in {folder}: name the folder that has them")
        for path in paths:
            made = exercises.write(exercises.opened(exercises.read(path)), path)
            print_lines([f"{path.name}: {'made anew' if made else 'as it was'}"])
    if solved is not None:
        solved.mkdir(parents=True, exist_ok=True)
        for path in handout.notebooks():
            exercises.write(exercises.solved(exercises.read(path)), solved / path.name)
            print_lines([f"{path.name}: solved in {solved}"])
