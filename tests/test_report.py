"""A report as one page with nothing beside it."""

import re
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from pages import Page

from qlab import report


@pytest.fixture
def told():
    odd = pd.DataFrame({"text": ["<script>alert(1)</script>", "=1+1", "\x1b[31mred"], "number": [1, 2, 3]})
    pictures = [report.Picture("<q>", "<q>a picture", Figure().subplots())]
    section = report.Section("<b>title", ["<i>text"], [("<u>caption", odd)], pictures)
    return report.Report("<s>head", "", ["<p>answer"], [section], {"<m>": "<v>"}, {"odd": odd})


def test_a_page_is_one_file_that_needs_nothing_else(told, tmp_path):
    page = report.write_page(told, tmp_path / "new" / "page.html", command="qlab theory")
    assert page == tmp_path / "new" / "page.html"
    assert [entry.name for entry in page.parent.iterdir()] == ["page.html"]
    seen = Page(page.read_text(encoding="utf-8"))
    assert seen.links == []
    assert seen.about == ["<q>a picture"]
    assert [load[:22] for load in seen.loads] == ["data:image/png;base64,"]
    assert "qlab theory" in seen.words


def test_what_anybody_said_is_escaped(told, tmp_path):
    text = report.write_page(told, tmp_path / "page.html", command="<command>").read_text(encoding="utf-8")
    assert not re.search(r"<(script|b|i|u|s|m|v|q|command)>", text)
    assert "\x1b" not in text


def test_a_page_replaces_an_earlier_one_and_nothing_else(told, tmp_path):
    target, notes, folder = (tmp_path / name for name in ("page.html", "notes.html", "folder.html"))
    report.write_page(told, target, command="first")
    report.write_page(told, target, command="second")
    assert "second" in target.read_text(encoding="utf-8")
    notes.write_text("<p>years of work</p>")
    folder.mkdir()
    for file, why in (
        (notes, "is no report: name a file that is new, or an earlier report"),
        (folder, "is a folder: name a file for the page"),
        (tmp_path / "page.pdf", "does not end with .html"),
        (target / "page.html", "cannot be made"),
    ):
        with pytest.raises(ValueError, match=why):
            report.write_page(told, file, command="third")
    assert notes.read_text() == "<p>years of work</p>"
    assert {entry.name for entry in tmp_path.iterdir()} == {"page.html", "notes.html", "folder.html"}


def test_a_page_that_cannot_be_finished_leaves_what_was_there(told, tmp_path, monkeypatch):
    target = report.write_page(told, tmp_path / "page.html", command="first")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "png", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.write_page(told, target, command="second")
    assert "first" in target.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_page_that_does_not_fit_on_the_disk_leaves_what_was_there(told, tmp_path, monkeypatch):
    target = report.write_page(told, tmp_path / "page.html", command="first")

    def full(file, text, **_):
        with file.open("w") as half:
            half.write(text[:100])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space left"):
        report.write_page(told, target, command="second")
    assert "first" in target.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
