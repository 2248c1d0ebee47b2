"""The panels' front end as one module and as many, and its own tests."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qlab import front

IMPORTED = re.compile(r'^import \{([^}]*)\} from "(\.\.?)/([\w/]+)\.mjs";$', re.MULTILINE)
EXPORTED = re.compile(r"^export (?:const|function|class) (\w+)", re.MULTILINE)
OWN = re.compile(r"(?:const|let|function|class) (\w+)")
CALLED = re.compile(r"(?:(?<=\.\.\.)|(?<![\w.$]))(\w+)\(")


def node(*arguments: object, told: str = "") -> "subprocess.CompletedProcess[str]":
    program = shutil.which("node")
    if program is None:
        reason = "there is no node on PATH, which runs the front end's own tests"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return subprocess.run([program, *map(str, arguments)], input=told, capture_output=True, text=True, check=False)


def test_the_front_end() -> None:
    ran = node("--test", Path(__file__).with_name("board_test.mjs"))
    assert ran.returncode == 0, ran.stdout + ran.stderr


PANELS = {"board": "function function function", "explorer": "function function undefined"}
"""For each panel, what its module has of `render`, `initialize` and `mount`."""


def test_every_module_belongs_to_a_panel() -> None:
    static = Path(front.__file__).parent / "static"
    there = {str(path.relative_to(static).with_suffix("")) for path in static.glob("*/*.mjs")}
    assert there == {name for names in front.MODULES.values() for name in names}


@pytest.mark.parametrize("panel", PANELS)
def test_the_modules_of_a_panel_make_one_that_imports_nothing(panel: str) -> None:
    joined = front.module(panel)
    assert re.findall(r"^import .*", joined, re.MULTILINE) == []
    assert len(re.findall(r"^export default", joined, re.MULTILINE)) == 1
    kinds = "typeof render, typeof initialize, typeof mount"
    ran = node("--input-type=module", "-", told=f"{joined}\nconsole.log({kinds});")
    assert (ran.stdout, ran.stderr) == (f"{PANELS[panel]}\n", "")


@pytest.mark.parametrize("panel", PANELS)
def test_each_module_of_a_panel_imports_what_it_calls_from_those_before_it(panel: str) -> None:
    home: dict[str, str] = {}
    for name in front.MODULES[panel]:
        text = front.read(f"{name}.mjs")
        folder = name.split("/")[0]
        imported = {
            one: f"{folder}/{source}" if place == "." else source
            for names, place, source in IMPORTED.findall(text)
            for one in re.findall(r"\w+", names)
        }
        own, called = (set(found.findall(text)) for found in (OWN, CALLED))
        assert {one: source for one, source in imported.items() if home.get(one) != source} == {}, name
        assert (called & set(home)) - own - set(imported) == set(), name
        assert [one for one in imported if len(re.findall(rf"\b{one}\b", text)) < 2] == [], name
        home |= dict.fromkeys(EXPORTED.findall(text), name)
