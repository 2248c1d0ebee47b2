"""The course as pages: read in a browser without a network, with the keyboard, in both themes, narrow and on paper."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import ROOT
from browser.looks import audit, unreadable
from browser.pages import Board, ask


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first notebook of the course as a page, with its index."""
    folder = tmp_path_factory.mktemp("course")
    subprocess.run(
        [sys.executable, "-m", "qlab", "course", "--html", folder, "--only", "00"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    return folder


def test_the_course_is_read_without_a_network(
    course: Path, new_page: Callable[..., Page], subtests: pytest.Subtests
) -> None:
    page = new_page(offline=True, viewport={"width": 1200, "height": 1000})
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto((course / "index.html").as_uri())
    reads(page, subtests)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Meet the lab")

    with subtests.test("a board's scrubber goes back with the keyboard"):
        board = Board(page.get_by_role("group", name=re.compile("^qlab board")).first)
        board.shows(done=1)
        scrubber = board.field("Time travel")
        scrubber.press("Home")
        board.shows(done=0, ready=0)
        scrubber.press("ArrowRight")
        board.shows(ready=1)
        board.tells("event 1 of 6")
        assert unreadable(board.root) == []
    with subtests.test("what is folded opens with the keyboard"):
        solution = page.locator("details").filter(has_text=re.compile(r"^\s*Solution")).first
        code = solution.locator(".highlight")
        expect(code).to_have_count(1)
        expect(code).to_be_hidden()
        solution.locator("summary").press("Enter")
        expect(code).to_be_visible()
        assert unreadable(code) == []
    reads(page, subtests)
    with subtests.test("on paper what is folded is open"):
        page.emulate_media(media="print", color_scheme="light")
        for folded in page.locator(".prose > details").all():
            expect(folded.locator(":scope > :not(summary)").first).to_be_visible()
            assert (folded.bounding_box() or {"height": 0})["height"] > 60
        expect(page.get_by_role("navigation").first).to_be_hidden()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def reads(page: Page, subtests: pytest.Subtests) -> None:
    """Hold a page to what can be measured, in both themes and at a phone's width."""
    main = page.locator("main")
    with subtests.test("axe finds nothing", page=page.title()):
        assert audit(page.locator("body")).violations == []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        with subtests.test("the text can be read", page=page.title(), scheme=scheme):
            texts = main.locator(":scope > .prose, :scope > .cell > .highlight, :scope > ol").all()[:6]
            assert [low for each in texts for low in unreadable(each)] == []
    page.set_viewport_size({"width": 400, "height": 900})
    with subtests.test("a phone scrolls in one direction", page=page.title()):
        assert ask(page, "() => document.documentElement.scrollWidth") <= 400
        assert audit(page.locator("body")).violations == []
    page.set_viewport_size({"width": 1200, "height": 1000})
