"""The theory report: the verdict in words first, then pictures, then every case, on one page."""

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from pages import Page

from qlab import plots
from qlab.cases import Cases, Verdict
from qlab.cases import pictures as theory_pictures
from qlab.cases import report as theory_report
from qlab.cases.case import Case
from qlab.cases.pictures import Drawn
from qlab.cli import main

VERDICTS = (
    Verdict("mm1.wait", "stat", 4.0, 4.1, 0.4, "ok", 4.0, "a"),
    Verdict("mm1.tail", "stat", 12.0, 11.7, 1.0, "ok", 12.0, "b"),
    Verdict("lease.runs", "stat", 1.5, 1.9, 0.1, "missed"),
    Verdict("storm.near", "qualitative", "near threshold: not asserted", None, None, "not asserted"),
    Verdict("storm.far", "qualitative", "stuck", "stuck", None, "ok"),
    Verdict("trace.fifo", "trace", "starts 0, 3", "starts 0, 3", 1e-9, "ok"),
    Verdict("gg1.kingman", "reference", 0.5, 0.5, 1e-9, "ok", 0.5),
)
GROUPS = {"mm1": "mm1", "lease": "lease", "storm": "metastable", "trace": "trace", "gg1": "gg1"}


def cases(verdicts=VERDICTS):
    return Cases(
        "the cases of a test",
        tuple(
            Case(each.id, GROUPS.get(each.id.split(".")[0], each.id), "stat", "Wq", {}, each.expected)
            for each in verdicts
        ),
    )


def answer(*verdicts):
    return list(theory_report.answer(theory_report.told(verdicts, cases(verdicts))))


@pytest.fixture
def no_runs(monkeypatch):
    """Pictures take runs of their own, which are no part of what a page says."""
    drawn = Drawn(
        "Waiting", "It grows.", [("waiting", "The wait", plots.deviations(theory_report.told((), cases(()))))]
    )
    monkeypatch.setattr(theory_pictures, "draw", lambda progress: iter([drawn]))


def test_the_verdict_comes_first_and_in_words():
    met = [each for each in VERDICTS if each.word == "ok"]
    assert answer(*met)[0] == "All 5 cases are met."
    assert answer(*VERDICTS)[:2] == [
        "Missed: 1 of 6 cases, namely lease.runs.",
        "Not asserted, because too near a threshold for either answer: 1 more.",
    ]
    assert answer() == ["No case was judged."]


def test_the_verdict_tells_how_far_off_chance_was_and_what_was_exact():
    chance, exact = answer(*VERDICTS)[2:]
    assert "The 3 with chance were off by 1.52 of their tolerance on average" in chance
    assert "by 4.00 at most (lease.runs), and 2 of them upwards" in chance
    assert exact == "Of the 2 without chance, 2 are right to the last digit asked for."


def test_many_missed_cases_are_counted_and_the_first_named():
    many = [Verdict(f"mm1.{n}", "stat", 1.0, 2.0, 0.1, "missed") for n in range(30)]
    assert answer(*many)[0].endswith("mm1.6, mm1.7 and 22 more.")


def test_each_verdict_is_a_row_with_how_far_off_it_was():
    frame = theory_report.told(VERDICTS, cases())
    assert list(frame["id"]) == [each.id for each in VERDICTS]
    assert list(frame["group"]) == ["mm1", "mm1", "lease", "metastable", "metastable", "trace", "gg1"]
    assert frame["off"].dropna().round(9).tolist() == [0.25, -0.3, 4.0, 0.0]
    assert frame["off"].isna().tolist() == [False, False, False, True, True, True, False]
    assert frame["met"].tolist() == [True, True, False, True, True, True, True]
    empty = theory_report.told((), cases(()))
    assert list(empty.columns) == list(frame.columns)
    assert str(empty["off"].dtype) == "float64"


def test_the_page_is_one_file_that_needs_nothing_else(tmp_path, no_runs):
    page = theory_report.write(VERDICTS, cases(), tmp_path / "theory.html", command="qlab theory --tier all")
    assert [entry.name for entry in tmp_path.iterdir()] == ["theory.html"]
    told = Page(page.read_text(encoding="utf-8"))
    assert told.links == []
    assert len(told.loads) == len(told.about) == 2
    assert all(load.startswith("data:image/png;base64,") for load in told.loads)
    assert "qlab theory --tier all" in told.words
    for each in VERDICTS:
        assert each.id in told.words
    words = told.words
    assert words.index("Missed: 1 of 6") < words.index("What was missed") < words.index("How far off")
    assert words.index("How far off") < words.index("It grows.") < words.index("Every case")
    assert all(word in words for word in ("seed", "Python", "NumPy", "traces", "the cases of a test"))


def test_numbers_are_written_with_the_digits_that_a_comparison_needs(tmp_path, no_runs):
    close = (Verdict("mm1.wait", "stat", 4.60517, 4.58211, 0.3, "ok"),)
    page = theory_report.write(close, cases(close), tmp_path / "theory.html", command="")
    words = Page(page.read_text(encoding="utf-8")).words
    assert all(number in words for number in ("4.60517", "4.58211", "0.3", "−0.08"))


def test_what_came_to_no_number_says_so(tmp_path, no_runs):
    none = (Verdict("mm1.wait", "exact", 4.0, float("nan"), 0.3, "missed"),)
    page = theory_report.write(none, cases(none), tmp_path / "theory.html", command="")
    assert "no number" in Page(page.read_text(encoding="utf-8")).words


def test_equal_runs_have_equal_digits_and_others_have_not():
    def digits(*verdicts):
        return theory_report.page(verdicts, cases(verdicts)).machine["traces"]

    assert digits(*VERDICTS) == digits(*VERDICTS)
    assert digits(replace(VERDICTS[0], digest="c"), *VERDICTS[1:]) != digits(*VERDICTS)
    assert digits(*VERDICTS[-1:]).startswith("none ")


def test_what_a_file_of_cases_says_is_escaped(tmp_path, no_runs):
    odd = (Verdict("<script>alert(1)</script>", "stat", "<b>bold", "\x1b[31mred", None, "missed"),)
    page = theory_report.write(odd, cases(odd), tmp_path / "theory.html", command="<command>")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<(script|b|command)>", text)
    assert "\x1b" not in text


def test_a_file_that_is_something_else_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(theory_pictures, "draw", lambda progress: pytest.fail("it ran"))
    (tmp_path / "notes.html").write_text("mine")
    with pytest.raises(ValueError, match="is no report"):
        theory_report.write(VERDICTS, cases(), tmp_path / "notes.html", command="")


def test_its_pictures_are_of_runs_beside_their_closed_forms(monkeypatch):
    for name, small in {
        "_JOBS": 1_000, "_WARMUP": 100, "_LOADS": (0.5, 0.8), "_AFTER": (1.0, 3.0), "_SEEN": 300,
        "_ATTEMPTS": (1, 3), "_RATES": (0.2, 0.6), "_RETRIED": 1_000, "_POLLED": 600,
    }.items():  # fmt: skip
        monkeypatch.setattr(theory_pictures, name, small)
    told: list[tuple[float, str]] = []
    drawn = list(theory_pictures.draw(lambda share, what: told.append((share, what))))
    assert [each.title for each in drawn] == ["Waiting", "Retries", "Reservations", "Polling", "A retry storm"]
    names = [name for each in drawn for name, _, _ in each.pictures]
    assert names == ["waiting", "attempts", "backoff", "reservations", "polling-0", "polling-10", "storm"]
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[-1] == (1.0, "")
    pictures = {name: ax for each in drawn for name, _, ax in each.pictures}
    assert [name for name, ax in pictures.items() if any(line.get_linestyle() == "--" for line in ax.lines)] == [
        "waiting", "backoff", "reservations", "storm",
    ]  # fmt: skip
    stamps = {name: ax.texts[-1].get_text().replace("\n", " ") for name, ax in pictures.items()}
    assert all(
        re.search(r"^memory.* · (seed \d+|8 seeds) · .*(trace|traces) [0-9a-f]{16}$", text) for text in stamps.values()
    )
    assert " · 32 runs, their traces " in stamps["storm"]


# -- the command --


@pytest.fixture
def one_case(tmp_path):
    """A file with one case that is worked out at once."""
    case = {"id": "amp.<b>", "group": "metastable", "model": "", "kind": "reference", "metric": "lambda_threshold"}
    case |= {"params": {"attempts": 2, "mu": 1.0}, "expected": 0.5, "tolerance": {"abs": 1e-9}}
    file = tmp_path / "cases of mine.json"
    file.write_text(json.dumps({"cases": [case]}))
    return file


def test_the_command_writes_the_page_and_says_where(one_case, tmp_path, no_runs):
    page = tmp_path / "theory.html"
    done = CliRunner().invoke(main, ["theory", "--cases", f"{one_case}", "--tier", "all", "--report", f"{page}"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"1 case ok\nreport: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "The only case is met." in text
    assert "&lt;b&gt;" in text
    again = f"qlab theory --tier all --cases '{one_case}' --report {page}"
    assert again in Page(text).words


def test_the_command_writes_json_and_the_page(one_case, tmp_path, no_runs):
    page = tmp_path / "theory.html"
    told = ["theory", "--cases", f"{one_case}", "--tier", "all", "--json", "--report", f"{page}"]
    done = CliRunner().invoke(main, told)
    assert [each["id"] for each in json.loads(done.stdout)] == ["amp.<b>"]
    assert page.is_file()


def test_the_command_refuses_a_file_that_is_something_else_before_it_judges(one_case, tmp_path, monkeypatch):
    monkeypatch.setattr("qlab.cases.judge", lambda *_, **__: pytest.fail("it judged"))
    done = CliRunner().invoke(main, ["theory", "--cases", f"{one_case}", "--tier", "all", "--report", f"{one_case}"])
    assert done.exit_code == 2
    assert "--report" in done.output
    assert "does not end with .html" in " ".join(done.output.split())
    assert json.loads(one_case.read_text())["cases"]
