"""The board's front end as one module and as many, and its own tests."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qlab import front

IMPORTED = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.mjs";$', re.MULTILINE)
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


def test_the_modules_of_the_front_end_make_one_that_imports_nothing() -> None:
    joined = front.module()
    assert {path.stem for path in Path(front.__file__).parent.glob("static/board/*.mjs")} == set(front.MODULES)
    assert re.findall(r"^import .*", joined, re.MULTILINE) == []
    ran = node(
        "--input-type=module", "-", told=f"{joined}\nconsole.log(typeof render, typeof initialize, typeof mount);"
    )
    assert (ran.stdout, ran.stderr) == ("function function function\n", "")


def test_each_module_of_the_front_end_imports_what_it_calls_from_those_before_it() -> None:
    home: dict[str, str] = {}
    for name in front.MODULES:
        text = front.read(f"board/{name}.mjs")
        imported = {one: source for names, source in IMPORTED.findall(text) for one in re.findall(r"\w+", names)}
        own, called = (set(found.findall(text)) for found in (OWN, CALLED))
        assert {one: source for one, source in imported.items() if home.get(one) != source} == {}, name
        assert (called & set(home)) - own - set(imported) == set(), name
        assert [one for one in imported if len(re.findall(rf"\b{one}\b", text)) < 2] == [], name
        home |= dict.fromkeys(EXPORTED.findall(text), name)
