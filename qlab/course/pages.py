"""The course as pages for a reader without Python: each notebook as it ran, and an index; nothing is fetched."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

import qlab
from qlab import front, machine, whole_folder
from qlab.clock import SystemClock, monotonic
from qlab.course.cells import About, about, cells, skipped
from qlab.course.exercises import read
from qlab.course.running import CellFailed, Executed, execute
from qlab.errors import QlabError

FORM = whole_folder.Form("course", "qlab course", (".html",))


class Lesson(NamedTuple):
    """A notebook, and how it ran.

    Attributes:
        name: Its file's name, without an ending.
        about: What it says of itself.
        executed: The notebook as it ran; None where it did not.
        problem: Why it did not run; empty where it did.
    """

    name: str
    about: About
    executed: Executed | None
    problem: str

    @property
    def number(self) -> str:
        """Its number, as its name begins; empty where it does not begin with one."""
        number = self.name.partition("_")[0]
        return number if number.isdigit() else ""

    @property
    def skipped(self) -> list[str]:
        """What it says that it has skipped."""
        return [] if self.executed is None else skipped(self.executed.notebook)


def build(notebooks: Sequence[Path], folder: Path, *, tell: Callable[[str], object]) -> list[Lesson]:
    """Execute notebooks one after another, and write them as pages with an index, whole or not at all.

    Args:
        notebooks: The notebooks, in their order.
        folder: Where: a folder that is not there yet, is empty, or holds an earlier course, which is replaced.
        tell: Called with pieces of what to tell people meanwhile, lines that end.

    Returns:
        The notebooks, also those that did not run, which have no page.

    Raises:
        ValueError: The folder holds something else, or a notebook has the index's name.
        QlabError: None of them ran.
    """
    if any(f"{path.stem.lower()}.html" == whole_folder.INDEX for path in notebooks):
        raise ValueError("a notebook named 'index' has no page, for that of the course has its name: rename it")
    with whole_folder.making(folder, FORM) as made:
        lessons = [_execute(path, f"{place}/{len(notebooks)}", tell) for place, path in enumerate(notebooks, 1)]
        if not any(lesson.executed for lesson in lessons):
            raise QlabError("no page was made, because no notebook ran")
        _fill(made, lessons)
    return lessons


def _execute(path: Path, place: str, tell: Callable[[str], object]) -> Lesson:
    told, begun = About(path.stem, "", ""), monotonic()
    tell(f"{place} {path.stem}: ")
    try:
        notebook = read(path)
        told = about(notebook, path.stem)
        executed = execute(notebook)
    except (CellFailed, ValueError) as error:
        tell(f"did not run: {error}\n")
        return Lesson(path.stem, told, None, str(error))
    lesson = Lesson(path.stem, told, executed, "")
    tell("; ".join([f"{monotonic() - begun:.1f} s", *lesson.skipped]) + "\n")
    return lesson


def _fill(folder: Path, lessons: Sequence[Lesson]) -> None:
    made = [(lesson, lesson.executed) for lesson in lessons if lesson.executed is not None]
    beside = [None, *(lesson for lesson, _ in made), None]
    names = [lesson.name for lesson, _ in made]
    for (lesson, executed), before, after in zip(made, beside[:-2], beside[2:], strict=True):
        page = _page(lesson, executed, before, after, names)
        (folder / f"{lesson.name}.html").write_text(page, encoding="utf-8")
    index = _render("index", lessons=lessons, made_on=_made_on())
    (folder / whole_folder.INDEX).write_text(index, encoding="utf-8")


def _page(lesson: Lesson, executed: Executed, before: Lesson | None, after: Lesson | None, pages: Sequence[str]) -> str:
    boards = {name: front.in_script(panel["told"]) for name, panel in executed.panels.items() if "told" in panel}
    shown = list(cells(executed.notebook, executed.panels, pages))
    return _render("page", lesson=lesson, before=before, after=after, cells=shown, boards=boards)


def _made_on() -> dict[str, str]:
    """Tell when, by what and on which machine the pages were made: seconds in them are this machine's."""
    told = machine.about()
    moment = datetime.fromtimestamp(SystemClock().now(), UTC)
    return {"made": f"{moment:%Y-%m-%d %H:%MZ}", "qlab": qlab.__version__} | {
        name: told[name] for name in ("machine", "Python", "SQLite")
    }


def _render(template: str, **what: Any) -> str:
    css = front.read("course/course.css")
    return _templates().get_template(f"{template}.html.jinja").render(generator=FORM.generator, css=css, **what)


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FunctionLoader(lambda name: front.read(f"course/{name}"))
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    made.globals |= {"board_css": front.read("board.css"), "board_js": front.module()}
    return made
