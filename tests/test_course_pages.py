"""The course as pages: what they show, that nothing is fetched, and what happens where something goes wrong."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner, Result
from nbclient import NotebookClient
from pages import Page

from qlab import whole_folder
from qlab.cli import main
from qlab.course import cells, running
from qlab.course.exercises import read
from qlab.course.pages import FORM
from qlab.course.shown import PANEL

ROOT = Path(__file__).parents[1]
SOON = 60.0  # seconds: ends a test that hangs, measures nothing

FIRST = """# Meet <b>

Who is *first*?

**You will** look.

**You need** a `minute`.

Then [the second](02_second.ipynb#end), or `02_second.ipynb`; [not here](09_none.ipynb); [far](https://example.org/x.ipynb)."""

FOLDED = "<details>\n<summary><b>Solution</b></summary>\n\n```python\nanswer = 3\n```\n\n</details>"

LAB = """import os, tempfile
from pathlib import Path
from qlab import Lab, frames, plots
lab = Lab("sqlite", name="</script><i>")
lab.board()"""

WHERE = 'print("at", os.getpid(), os.getcwd(), tempfile.gettempdir(), get_ipython().ipython_dir, sep="|")'

Cell = tuple[str, str]


def write(folder: Path, name: str, *sources: Cell) -> None:
    """Write a notebook of `(id, source)`: an id in capitals is of text."""
    made = [
        (nbformat.v4.new_markdown_cell if id.isupper() else nbformat.v4.new_code_cell)(source, id=id)
        for id, source in sources
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=made), folder / f"{name}.ipynb")


def course(*words: object) -> Result:
    return CliRunner().invoke(main, ["course", *map(str, words)])


def shown(folder: Path, name: str) -> Page:
    return Page((folder / f"{name}.html").read_text(encoding="utf-8"))


class Made(SimpleNamespace):
    folder: Path
    result: Result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three notebooks as pages, of which the second raises, and a file that is none."""
    notebooks, folder = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("out") / "course"
    write(
        notebooks,
        "01_first",
        ("TITLE", FIRST),
        ("board", LAB),
        ("act", 'lab.dispatch("pay", {"note": "</script>"})\nlab.step(worker=1)'),
        ("again", "lab.board()"),
        ("explorer", "lab.explorer()"),
        ("picture", "plots.timeline(frames.spans(lab.trace)).figure"),
        ("table", "frames.jobs(lab.trace)"),
        ("text", 'lab.close()\nprint("a\\x1b[1mbold\\x1b[0m <u>")'),
        ("skip", 'print("Skipped, there is no Redis here: none")'),
        ("where", WHERE),
        ("SOLUTION", FOLDED),
    )
    (notebooks / "00_torn.ipynb").write_text("{", encoding="utf-8")
    write(notebooks, "02_boom", ("before", "1"), ("boom", 'raise ValueError("<q>no")'), ("after", "2"))
    write(notebooks, "02_second", ("TITLE", "# Second\n\nWhat?"), ("three", "3"), ("empty", ""))
    return Made(folder=folder, result=course("--html", folder, "--from", notebooks))


# -- what is made --


def test_a_notebook_that_raises_is_told_and_the_others_have_their_pages(made: Made) -> None:
    assert made.result.exit_code == 1
    assert sorted(path.name for path in made.folder.iterdir()) == ["01_first.html", "02_second.html", "index.html"]
    assert made.result.stdout == f"course: {made.folder / 'index.html'}\n"
    torn, first, boom, second, end = made.result.stderr.splitlines()
    assert torn.startswith("1/4 00_torn: did not run: 00_torn.ipynb cannot be read as a notebook: ")
    assert re.fullmatch(r"2/4 01_first: \d+\.\d s; Skipped, there is no Redis here: none", first)
    assert boom == "3/4 02_boom: did not run: ValueError: <q>no, in the cell 'boom'"
    assert second.startswith("4/4 02_second: ")
    assert end == "qlab: not all of it: 00_torn, 02_boom did not run"
    index = shown(made.folder, "index")
    assert "did not run: ValueError: <q>no, in the cell 'boom'" in index.words


def test_the_index_is_made_of_the_notebooks_first_cells(made: Made) -> None:
    index = shown(made.folder, "index")
    assert index.links == ["01_first.html", "02_second.html"]
    words = " ".join(index.words.split())
    assert "01 Meet <b> Who is first? You need a minute. Skipped, there is no Redis here: none 02 02_boom" in words
    assert "02 Second What?" in words


def test_each_page_leads_to_its_neighbours_that_are_there(made: Made) -> None:
    first, second = shown(made.folder, "01_first"), shown(made.folder, "02_second")
    assert set(first.links) - {"https://example.org/x.ipynb", "09_none.ipynb"} == {
        "index.html",
        "02_second.html",
        "02_second.html#end",
    }
    assert second.links == ["index.html", "01_first.html"] * 2


def test_a_page_shows_what_the_cells_show(made: Made) -> None:
    text = (made.folder / "01_first.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "Something is missing on this page: Skipped, there is no Redis here: none" in page.words
    assert any(about.startswith("job against time (s): ") for about in page.about)
    assert '<table border="1" class="dataframe">' in text
    assert "<th></th>" not in text
    assert '<span class="ansi-bold">bold</span> &lt;u&gt;' in text
    assert re.search(r"<details>\s*<summary><b>Solution</b></summary>.*?answer.*?</details>", text, re.DOTALL)
    assert "Nothing was explored" in page.words


def test_a_board_is_there_once_for_all_its_cells_as_it_stands_at_the_end(made: Made) -> None:
    text = (made.folder / "01_first.html").read_text(encoding="utf-8")
    assert re.findall(r'data-board="([\w-]+)"', text) == ["panel-1", "panel-1"]
    (told,) = re.findall(r'<script type="application/json" id="panel-1">(.*?)</script>', text)
    assert '"number": ' in told
    assert "<" not in told
    assert text.count("sqlite: 0 delayed, 0 ready, 0 reserved, 1 done, 0 failed") == 2  # for who has no scripts
    assert "data-board" not in (made.folder / "02_second.html").read_text(encoding="utf-8")


def test_nothing_is_left_of_the_kernels(made: Made) -> None:
    (line,) = re.findall(r"at\|.*", shown(made.folder, "01_first").words)
    _, process, *folders = line.split("|")
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)
    assert [folder for folder in folders if Path(folder).exists()] == []
    assert folders[2].startswith(folders[1])
    assert [path.name for path in made.folder.parent.iterdir()] == ["course"]


# -- nothing is fetched --


FETCHES = re.compile(
    r"""url\((?!["']?data:)|@import|\bimport\s*\(|\bfrom\s*["']|\bfetch\(["']|XMLHttpRequest|WebSocket"""
)


def fetched(text: str) -> list[str]:
    """Find what a page may ask a browser to load."""
    page = Page(text)
    insides = "".join(re.findall(r"<(?:style|script(?! type=\"application/json\"))[^>]*>(.*?)</", text, re.DOTALL))
    loads = [load for load in page.loads if not load.startswith("data:")]
    return loads + re.findall(r"srcset|<(?:iframe|object|embed|base)\b", text) + FETCHES.findall(insides)


def test_no_page_loads_anything(made: Made) -> None:
    for path in made.folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert fetched(text) == []
        assert "default-src 'none'; img-src data: blob:;" in text  # whatever a notebook shows, a browser refuses


@pytest.mark.parametrize(
    "loads",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="x.css">',
        "<style>@import 'x.css'; </style>",
        "<style>p { background: url(https://a.example/b.png) }</style>",
        '<script type="module">import { a } from "./a.mjs";</script>',
        '<img src="picture.png">',
        '<iframe src="x.html"></iframe>',
    ],
)
def test_what_would_be_loaded_is_found(loads: str) -> None:
    assert fetched(loads)


def test_no_notebook_writes_a_formula_that_only_a_script_could_set() -> None:
    texts = {
        path.name: "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    }
    assert [name for name, text in texts.items() if re.search(r"\$[^\s$][^$\n]*\$|\\\(|\\\[|```mermaid", text)] == []


def test_every_notebook_of_the_course_becomes_a_page(tmp_path: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("executes the whole course, some minutes; one notebook is read in a browser: pytest --deep")
    result = course("--html", tmp_path / "course")
    assert result.exit_code == 0, result.output
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "course").iterdir()}
    assert len(pages) == len([*(ROOT / "notebooks").glob("*.ipynb")]) + 1
    index = Page(pages["index"])
    assert index.words.count("You need") == len(pages) - 1
    for text in pages.values():
        assert fetched(text) == []
        assert {link for link in Page(text).links if not link.startswith(("https://", "#"))} <= {
            f"{name}.html" for name in pages
        }


# -- cells --


def output(**data: Any) -> Any:
    return nbformat.v4.new_output("display_data", {name.replace("_", "/"): value for name, value in data.items()})


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (output(text_html="<b>", image_png="AA==", text_plain="x"), "html"),
        (output(image_png="AA==", text_plain="x"), "picture"),
        (output(**{"image/svg+xml": "<svg><script>é</script></svg>"}, text_plain="x"), "picture"),
        (output(text_markdown="*x*", text_plain="x"), "html"),
        (output(text_plain="x"), "result"),
        (output(**{PANEL: "panel-1"}), "panel"),
        (nbformat.v4.new_output("stream", name="stderr", text="x"), "stderr"),
        (nbformat.v4.new_output("stream", text="Skipped, because"), "skipped"),
        (nbformat.v4.new_output("error", traceback=["\x1b[31mx"]), "stderr"),
        (nbformat.v4.new_output("stream", text=" \n"), None),
        (output(application_javascript="alert()"), None),
    ],
)
def test_each_result_has_the_form_that_a_page_shows_best(output: Any, kind: str | None) -> None:
    cell = nbformat.v4.new_code_cell("x", outputs=[output])
    (one,) = cells.cells(nbformat.v4.new_notebook(cells=[cell]), {"panel-1": {"html": "<p>"}})
    assert [shown["kind"] for shown in one["outputs"]] == [kind] * (kind is not None)


def test_a_heading_that_says_nothing_is_a_cell() -> None:
    assert "</th>" not in cells.prose("| | |\n|---|--:|\n| 1 | 2 |")


def test_a_notebook_that_says_nothing_of_itself_is_called_by_its_name() -> None:
    for first in ([], [nbformat.v4.new_code_cell("1")], [nbformat.v4.new_markdown_cell("**You will** see")]):
        assert cells.about(nbformat.v4.new_notebook(cells=first), "01_x") == ("01_x", "", "")


# -- where --


Prepare = Callable[[Path], None]


def foreign(folder: Path) -> None:
    (folder / "notes.txt").write_text("years of work")


def report(folder: Path) -> None:
    (folder / "index.html").write_text('<meta name="generator" content="qlab">')


@pytest.mark.parametrize(
    ("prepare", "said"),
    [(foreign, "holds 'notes.txt', which is of no course"), (report, "holds 'index.html', which is of no course")],
)
def test_a_folder_that_holds_something_else_is_refused_before_anything_runs(
    prepare: Prepare, said: str, tmp_path: Path
) -> None:
    prepare(tmp_path)
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    result = course("--html", tmp_path)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "1/" not in result.stderr
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "x", "--only", "99"], "there is no notebook '99': use one of 00_meet_the_lab, "),
        (["--only", "00"], "say --html FOLDER, too"),
        (["--from", "."], "say --html FOLDER, too"),
        (["--html", "x", "--from", "."], "there is no notebook in ."),
        ([], "say --html FOLDER, "),
    ],
)
def test_what_cannot_be_made_is_told(
    words: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = course(*words)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["index", "Index"])
def test_a_notebook_with_the_name_of_the_index_is_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    write(tmp_path, name, ("one", "1"))
    result = course("--html", tmp_path / "course", "--from", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith("qlab: a notebook named 'index' has no page")
    assert not (tmp_path / "course").exists()


def test_what_a_cell_prints_is_one_text_of_a_size_that_can_be_read(tmp_path: Path) -> None:
    prints = (
        "import sys\n"
        "print('beg', end='in\\n')\nsys.stdout.flush()\nprint('err', file=sys.stderr, flush=True)\ndisplay(1)\n"
        "print('10 %\\r50 %\\rdone')\nprint('x' * 1_000_000)\nprint('y\\n' * 1_000_000, 'end')"
    )
    write(tmp_path, "01_loud", ("loud", prints))
    assert course("--html", tmp_path / "course", "--from", tmp_path).exit_code == 0
    text = (tmp_path / "course" / "01_loud.html").read_text(encoding="utf-8")
    (printed,) = re.findall('<pre class="stdout">(.*?)</pre>', text, re.DOTALL)
    assert printed.startswith("begin\ndone\nxxx")
    assert re.search(r"\n… 29000\d\d characters cut …\n", printed)
    assert printed.endswith("y\n end")
    assert len(printed) < 101_000


def test_a_kernel_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.setattr(running, "_environment", lambda _: os.environ | {"PYTHONPATH": str(tmp_path)})
    write(tmp_path, "01_x", ("x", "1"))
    result = course("--html", tmp_path / "course", "--from", tmp_path)
    assert result.exit_code == 1
    assert "1/1 01_x: did not run: its kernel did not start: Kernel died" in result.stderr
    assert result.stderr.endswith("qlab: no page was made, because no notebook ran\n")


def test_a_notebook_that_silences_its_kernel_is_told_as_one_that_did_not_run(tmp_path: Path) -> None:
    write(tmp_path, "01_mute", ("mute", "get_ipython().display_pub.publish = lambda *some, **more: None"))
    result = course("--html", tmp_path / "course", "--from", tmp_path)
    assert result.exit_code == 1
    assert "1/1 01_mute: did not run: nothing that it displays arrives any more" in result.stderr


@pytest.mark.parametrize(("name", "here"), [(".", "."), ("..", "in"), ("../link", ".")])
def test_the_folder_one_is_in_is_never_pulled_away(
    name: str, here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    (mine / here).mkdir(parents=True)
    (tmp_path / "link").symlink_to(mine)
    monkeypatch.chdir(mine / here)
    result = course("--html", name)
    assert result.exit_code == 1
    assert f"{mine} is where you are, so it cannot be replaced: name a folder in it, as " in result.stderr


def test_a_link_to_a_folder_stays_and_the_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "served")
    with whole_folder.making(tmp_path / "link", FORM) as made:
        (made / "index.html").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "served" / "index.html").read_text() == "new"


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a folder that is mounted")
def test_a_folder_that_is_mounted_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ValueError, match="/dev/shm is mounted"):
        whole_folder.check("/dev/shm", FORM)


def test_where_no_notebook_runs_the_earlier_pages_stay(made: Made, tmp_path: Path) -> None:
    write(tmp_path, "01_boom", ("boom", "import os\nos._exit(3)"))
    before = {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()}
    result = course("--html", made.folder, "--from", tmp_path)
    assert result.exit_code == 1
    assert "did not run: its kernel died in the cell 'boom'\n" in result.stderr
    assert result.stderr.endswith("qlab: no page was made, because no notebook ran\n")
    assert {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()} == before
    assert [path.name for path in made.folder.parent.iterdir()] == ["course"]


@pytest.mark.skipif(os.name == "nt", reason="a pipe with a name, and Ctrl-C for another process, are POSIX's")
@pytest.mark.parametrize(
    ("number", "ctrl_c"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),
    ],
    ids=["ctrl-c", "sigterm", "sigterm in the background of a shell"],
)
def test_who_stops_it_leaves_neither_half_a_page_nor_a_kernel(
    number: int, ctrl_c: Any, made: Made, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waits = f'import os, threading\nopen({str(pipe)!r}, "w").write(str(os.getpid()))\nthreading.Event().wait()'
    write(tmp_path, "01_waits", ("waits", waits))
    before = {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()}
    kernels: list[int] = []

    def interrupt() -> None:
        kernels.append(int(pipe.read_text()))
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    usual = signal.signal(signal.SIGINT, ctrl_c)
    try:
        result = course("--html", made.folder, "--from", tmp_path)
    finally:
        signal.signal(signal.SIGINT, usual)
    thread.join(SOON)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "1/1 01_waits: stopped; nothing was left behind\n"
    with pytest.raises(ProcessLookupError):
        os.kill(kernels[0], 0)
    assert {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()} == before
    assert [path.name for path in made.folder.parent.iterdir()] == ["course"]


def test_an_interrupt_while_a_kernel_starts_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: list[int] = []

    async def interrupted(client: Any) -> None:
        kernels.append(client.km.provisioner.pid)
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(NotebookClient, "async_start_new_kernel_client", interrupted)
    write(tmp_path, "01_x", ("x", "1"))
    assert course("--html", tmp_path / "course", "--from", tmp_path).exit_code == 130
    with pytest.raises(ProcessLookupError):
        os.kill(kernels[0], 0)
    assert [path.name for path in tmp_path.iterdir()] == ["01_x.ipynb"]


def test_an_interrupt_in_the_last_moment_brings_back_the_earlier_pages(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == target.name:
            raise KeyboardInterrupt
        return rename(path, target)

    before = {path.name for path in made.folder.iterdir()}
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_folder.making(made.folder, FORM) as new:
        (new / "index.html").write_text("new")
    assert {path.name for path in made.folder.iterdir()} == before
    assert [path.name for path in made.folder.parent.iterdir()] == ["course"]
