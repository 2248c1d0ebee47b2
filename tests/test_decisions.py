"""Each sentence of the two decisions is held by tests that are there, or says why it does not apply here."""

import ast
from functools import cache
from pathlib import Path

import pytest
from decisions import DECISIONS, Sentence

from qlab.contract import PROMISES

HERE = Path(__file__).parent
EVERY = [
    pytest.param(sentence, id=f"{decision}: {sentence.says[:60]}")
    for decision, sentences in DECISIONS.items()
    for sentence in sentences
]


@cache
def names_in(module: str) -> frozenset[str]:
    """The tests of a module; or the promises, each of which is a test on every driver."""
    if module == "promise":
        return frozenset(each.name for each in PROMISES)
    tree = ast.parse((HERE / f"test_{module}.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _runs(node))


def _runs(node: ast.FunctionDef) -> bool:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return node.name.startswith("test_") and not any(mark.startswith("pytest.mark.skip(") for mark in marks)


@pytest.mark.parametrize("sentence", EVERY)
def test_each_sentence_is_held_by_tests_that_are_there_or_says_why_not(sentence: Sentence) -> None:
    assert bool(sentence.tests) != bool(sentence.elsewhere)
    for name in sentence.tests:
        module, _, test = name.partition("::")
        assert test in names_in(module), f"{name} is not there"


def test_no_sentence_is_told_twice() -> None:
    said = [sentence.says for sentences in DECISIONS.values() for sentence in sentences]
    assert len(set(said)) == len(said)
    assert all(DECISIONS.values())
