"""The course: its checks, its exercises, its command."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner

from qlab.cli import main
from qlab.course import check
from qlab.course.exercises import exercises, gap, opened, read, solved
from qlab.theory import failed_share

OPEN: Any = ...
"""What stands in a gap until somebody writes there."""

SOLUTION = """def longest(waits):
    kept = [wait for wait in waits if wait]  # solution
    return max(kept)  # solution


answer = longest([1, 3])  # solution
other = 7"""
GAPS = """def longest(waits):
    return ...  # your answer


answer = ...  # your answer
other = 7"""


def notebook(solution: str = SOLUTION, *, tried: str = "") -> Any:
    folded = f"<details>\n<summary><b>Solution</b></summary>\n\n```python\n{solution}\n```\n\n</details>"
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(tried, id="try-waits"),
            nbformat.v4.new_markdown_cell(folded, id="solution-waits"),
        ]
    )


# -- checks --


def test_an_answer_is_right_where_all_of_it_is() -> None:
    checked = check((lambda: 3 == 3, "one"), (lambda: [1], "two"))
    assert (checked.passed, repr(checked)) == (True, "✓ Right.")


def test_the_first_thing_that_is_not_right_yet_gives_its_hint() -> None:
    checked = check((lambda: True, "one"), (lambda: 0, "look at <b>"), (lambda: False, "three"))
    assert (checked.passed, repr(checked)) == (False, "✗ Not yet. Hint: look at <b>")
    assert "look at &lt;b&gt;" in checked._repr_html_()


def test_code_in_a_hint_is_shown_as_code() -> None:
    checked = check((lambda: False, "look at `a < b`, and at `c`"))
    assert "look at <code>a &lt; b</code>, and at <code>c</code></div>" in checked._repr_html_()


@pytest.mark.parametrize("answer", [None, "three"], ids=["none", "text"])
def test_whatever_an_answer_raises_is_not_right_yet(answer: Any) -> None:
    checked = check((lambda: abs(answer - 3) < 1, "subtract"))
    assert not checked.passed
    assert "TypeError" in checked.says
    assert checked.says.endswith("Hint: subtract")


def test_an_answer_that_exits_is_not_right_yet() -> None:
    assert check((lambda: sys.exit(3), "return it")).says == "Not yet (SystemExit: 3). Hint: return it"


@pytest.mark.parametrize(
    "tried",
    [lambda: OPEN > 20, lambda: "b" in OPEN, lambda: failed_share(0.5, OPEN) < 0.02],
    ids=["less", "in", "theory"],
)
def test_what_a_gap_raises_is_not_told(tried: Callable[[], object]) -> None:
    assert check((tried, "fill it")).says == "Not yet. Hint: fill it"


def test_a_gap_that_is_returned_is_not_an_answer() -> None:
    assert not check((lambda: ..., "fill it")).passed


def test_an_answer_is_asked_for_once() -> None:
    asked: list[int] = []
    check((lambda: asked.append(1) or True, "no"))  # type: ignore[func-returns-value]
    assert asked == [1]


@pytest.mark.parametrize("wrong", [(), (True,), ((True, "hint"),), ((lambda: True,),), ((lambda: True, 3),)])
def test_what_is_no_check_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="lambda: answer == 3"):
        check(*wrong)


# -- exercises --


def test_an_exercise_has_a_gap_where_the_answer_was() -> None:
    assert gap(SOLUTION) == GAPS
    assert opened(notebook()).cells[0].source == GAPS


def test_a_solved_exercise_is_its_solution_without_the_marks() -> None:
    assert solved(notebook(tried=GAPS)).cells[0].source == SOLUTION.replace("  # solution", "")


@pytest.mark.parametrize("solution", ["", "answer = 3"])
def test_an_exercise_without_a_solution_is_named(solution: str) -> None:
    with pytest.raises(ValueError, match="the exercise 'try-waits'"):
        list(exercises(notebook(solution)))


# -- the command --


def test_the_command_makes_exercises_anew_and_solves_them(tmp_path: Path) -> None:
    path = tmp_path / "01_a.ipynb"
    nbformat.write(notebook(), path)
    assert CliRunner().invoke(main, ["course", "--exercises", str(tmp_path)]).output == "01_a.ipynb: made anew\n"
    assert read(path).cells[0].source == GAPS
    assert CliRunner().invoke(main, ["course", "--exercises", str(tmp_path)]).output == "01_a.ipynb: as it was\n"
    done = CliRunner().invoke(main, ["course", "--solved", str(tmp_path / "solved")])
    assert done.exit_code == 0, done.output
    assert all("# your answer" not in file.read_text(encoding="utf-8") for file in (tmp_path / "solved").iterdir())


def test_what_a_learner_has_written_is_not_solved_away(tmp_path: Path) -> None:
    mine = tmp_path / "01_dispatch_and_step.ipynb"
    mine.write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(main, ["course", "--solved", str(tmp_path)])
    assert done.exit_code == 0
    assert "01_dispatch_and_step.ipynb: was there, and stays\n" in done.output
    assert f"02_dispatch_for_later.ipynb: solved in {tmp_path}\n" in done.output
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="a limit for files is POSIX's")
@pytest.mark.parametrize("option", ["--copy", "--solved"])
def test_a_disk_that_is_full_leaves_no_half_a_notebook(option: str, tmp_path: Path) -> None:
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY)); "
    limited += "from qlab.cli import main; main()"
    words = [sys.executable, "-B", "-c", limited, "course", option, str(tmp_path / "learner")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "File too large" in done.stderr
    assert [*(tmp_path / "learner").iterdir()] == []


def test_exercises_are_made_where_cells_have_no_names_yet(tmp_path: Path) -> None:
    older = notebook()
    for cell in older.cells:
        del cell["id"]
    older.nbformat_minor = 4
    nbformat.write(older, tmp_path / "01_a.ipynb")
    done = CliRunner().invoke(main, ["course", "--exercises", str(tmp_path)])
    assert done.output.startswith("01_a.ipynb: "), done.output


@pytest.mark.parametrize("text", ["{oops", "[]", "", '{"nbformat": "four"}'])
def test_a_file_that_is_no_notebook_is_named_before_one_is_written(text: str, tmp_path: Path) -> None:
    nbformat.write(notebook(), tmp_path / "01_a.ipynb")
    before = (tmp_path / "01_a.ipynb").read_bytes()
    (tmp_path / "02_b.ipynb").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["course", "--exercises", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output.startswith("qlab: 02_b.ipynb cannot be read as a notebook: "), done.output
    assert (tmp_path / "01_a.ipynb").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "way"), [([], "--exercises"), (["--exercises", "nowhere"], "no notebook in nowhere")]
)
def test_the_command_says_what_it_needs(words: list[str], way: str) -> None:
    done = CliRunner().invoke(main, ["course", *words])
    assert done.exit_code != 0
    assert way in done.output


def test_notebooks_are_copied_for_a_learner_and_never_over_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "learner"
    folder.mkdir()
    (folder / "00_meet_the_lab.ipynb").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(main, ["course", "--copy", str(folder)])
    assert done.exit_code == 0
    first, *others = done.output.splitlines()
    assert first == "01_dispatch_and_step.ipynb: copied"
    assert others[-1] == "00_meet_the_lab.ipynb: was there, and stays"
    assert (folder / "00_meet_the_lab.ipynb").read_text(encoding="utf-8") == "mine"
    assert len([*folder.glob("*.ipynb")]) == len(others) + 1
