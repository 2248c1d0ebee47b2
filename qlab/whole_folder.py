"""A folder of pages that a command makes: whole or not at all, and never in the place of something else."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

INDEX = "index.html"


class Form(NamedTuple):
    """What such a folder holds.

    Attributes:
        name: What it is: `report`.
        generator: What its index has as the page's generator, which tells it from another's folder.
        endings: The endings of its files.
    """

    name: str
    generator: str
    endings: tuple[str, ...]

    def is_made(self, page: Path) -> bool:
        """Tell whether a page is of this form."""
        return f'content="{self.generator}"' in page.read_text(encoding="utf-8", errors="replace")


def check(folder: str | Path, form: Form) -> None:
    """Refuse a folder that must not be replaced.

    Raises:
        ValueError: It is a file, cannot be made or moved, or holds something that is not of this form.
    """
    target = _place(folder)
    if target.is_dir():
        if os.path.ismount(target) or Path.cwd().is_relative_to(target):
            why = "is mounted" if os.path.ismount(target) else "is where you are"
            raise ValueError(f"{target} {why}, so it cannot be replaced: name a folder in it, as {target / form.name}")
        index = target / INDEX
        ours = index.is_file() and form.is_made(index)
        strange = [
            entry.name for entry in target.iterdir() if not (ours and entry.suffix in form.endings and entry.is_file())
        ]
        if strange:
            raise ValueError(
                f"{target} holds {strange[0]!r}, which is of no {form.name}: name a folder that is new or empty, or "
                f"that holds an earlier {form.name} and nothing else"
            )
    elif target.exists() or target.is_symlink():
        raise ValueError(f"{target} is no folder: name a folder for the {form.name}")
    check_writable(target)


def _place(folder: str | Path) -> Path:
    """Find the folder that is meant, also behind a link."""
    target = Path(folder).absolute()
    return target.resolve() if target.is_dir() else target


def check_writable(target: Path) -> None:
    """Refuse a place where nothing can be written.

    Raises:
        ValueError: What is above it is no folder, or one that this user cannot write.
    """
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"{target} cannot be made: {above} cannot be written")


@contextmanager
def making(folder: str | Path, form: Form) -> Iterator[Path]:
    """Give an empty folder to fill; what fills it without an error takes the place of the folder that is meant.

    Args:
        folder: One that is not there yet, is empty, or holds an earlier one of this form, which is replaced.
        form: What it is to hold.

    Raises:
        ValueError: The folder holds something else.
    """
    target = _place(folder)
    check(target, form)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as private:
        made, earlier = Path(private) / target.name, Path(private) / "earlier"
        made.mkdir()
        yield made
        if target.exists():
            target.rename(earlier)
        try:
            made.rename(target)
        except BaseException:
            if earlier.exists() and not target.exists():
                earlier.rename(target)
            raise
