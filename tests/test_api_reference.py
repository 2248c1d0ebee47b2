"""The reference: `python -m pydoc qlab.Queue`, or `Queue?` in a notebook, is enough to use any public name.

What has no docstring that a reader could ask for is told by its module's docstring instead: a value, which has the
docstring of its type, and an alias of types likewise; a pytest fixture, which is had by naming it in a test of one's
own and so has no example that runs here (test_testing.py runs them).
"""

import doctest
import gc
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import pytest

import qlab
from qlab import testing

BESIDE = ("contract", "course", "errors", "explorer", "scenario", "testing")
"""Public modules that are imported by their own names."""

MODULES = [name for name in qlab.__all__ if isinstance(getattr(qlab, name), ModuleType)]
PUBLIC = [*MODULES, *BESIDE]


def modules() -> Iterator[ModuleType]:
    yield qlab
    for name in PUBLIC:
        yield importlib.import_module(f"qlab.{name}")


def has_docstring(thing: Any) -> bool:
    is_fixture = isinstance(thing, type(testing.qlab_clock))
    return isinstance(thing, type) or (inspect.isfunction(inspect.unwrap(thing)) and not is_fixture)


def names(*, documented: bool) -> list[str]:
    found = [(f"{module.__name__}.{name}", getattr(module, name)) for module in modules() for name in module.__all__]
    return [name for name, thing in found if has_docstring(thing) is documented and not isinstance(thing, ModuleType)]


DOCUMENTED = names(documented=True)


def first_line_of(thing: Any) -> str:
    """The first line of a docstring; empty where it is not one clause that stands alone and ends with a period."""
    first, _, rest = (inspect.getdoc(thing) or "").partition("\n")
    alone = not rest or rest.startswith("\n")
    return first if alone and first.endswith(".") and ". " not in first else ""


def sections_of(thing: Any) -> dict[str, str]:
    """The sections of a docstring, `Args` and the like, by name, in their order."""
    parts = re.split(r"^([A-Z]\w+):\n(?=    )", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named_in(section: str) -> set[str]:
    """The names that a section explains: `    rate: …`, or `    low, high: …`."""
    heads = re.findall(r"^    ([*\w][*\w, ]*):", section, flags=re.MULTILINE)
    return {name.strip("* ") for head in heads for name in head.split(",")}


def arguments_of(thing: Any) -> set[str]:
    if not isinstance(thing, type):
        return set(inspect.signature(thing).parameters)
    if issubclass(thing, Enum):
        return set(thing.__members__)
    if getattr(thing, "_is_protocol", False) or inspect.isabstract(thing) or issubclass(thing, BaseException):
        return set()  # nobody makes one, or it is raised with what there is to say
    return {name for name in inspect.signature(thing).parameters if not name.startswith("_")}


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class has of qlab's own; its fields are under `Attributes`."""
    own = {name for each in kind.__mro__ if each.__module__.startswith("qlab") for name in vars(each)}
    for name in sorted(name for name in own if not name.startswith("_")):
        found = inspect.getattr_static(kind, name)
        if hasattr(type(found), "__get__") and not inspect.ismemberdescriptor(found):
            yield name, found


def with_examples() -> list[str]:
    kinds = [(name, kind) for name in DOCUMENTED if isinstance(kind := resolve_name(name), type)]
    members = [(f"{name}.{member}", found) for name, kind in kinds for member, found in members_of(kind)]
    return [*DOCUMENTED, *(name for name, found in members if "Example" in sections_of(found))]


@pytest.fixture(scope="module")
def garbage() -> Iterator[None]:
    """Makes collecting quick, so that what an example leaves open is found in its own test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_every_public_module_says_what_is_public() -> None:
    assert [module.__name__ for module in modules() if not hasattr(module, "__all__")] == []
    assert [module.__name__ for module in modules() if not first_line_of(module)] == []
    assert len(DOCUMENTED) > 40


def test_the_package_names_all_it_has_where_pydoc_shows_it() -> None:
    missing = [name for name in (*qlab.__all__, *BESIDE) if not re.search(rf"`(qlab\.)?{name}`", qlab.__doc__ or "")]
    assert missing == []


@pytest.mark.parametrize("name", names(documented=False))
def test_what_has_no_docstring_is_told_by_its_module(name: str) -> None:
    module, _, own = name.rpartition(".")
    assert re.search(rf"`(\w+\.)*{own}\b", inspect.getdoc(importlib.import_module(module)) or "")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_docstring_says_what_it_is_what_it_takes_and_what_one_does_with_it(name: str) -> None:
    thing = resolve_name(name)
    sections = sections_of(thing)
    assert first_line_of(thing), "the first line is one clause, ends with a period and stands alone"
    explained = named_in(sections.get("Args", "")) | named_in(sections.get("Attributes", ""))
    assert arguments_of(thing) - explained == set()
    if isinstance(thing, type):
        assert [member for member, found in members_of(thing) if not inspect.getdoc(found)] == []


@pytest.mark.parametrize("name", with_examples())
def test_the_example_runs_as_it_stands(
    name: str, garbage: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = sections_of(resolve_name(name))
    assert list(sections)[-1:] == ["Example"], "an example is the last section"
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    example = doctest.DocTestParser().get_doctest(sections["Example"], {}, name, None, None)
    assert example.examples, "an example begins with >>>"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    said: list[str] = []
    try:
        runner.run(example, out=said.append)
    finally:
        plt.close("all")
        gc.collect()
    assert "".join(said) == ""
    assert list(tmp_path.iterdir()) == [], "an example leaves no file"
