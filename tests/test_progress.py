"""The bar for what takes a while."""

import sys
from types import ModuleType

import pytest

from qlab import progress


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SOON", 0.0)


def test_in_a_notebook_a_bar_does_not_look_like_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    with progress.bar(None) as shown:
        shown.show(0.5)
    told = capsys.readouterr()
    assert "50%" in told.out
    assert told.err == ""


def test_elsewhere_a_bar_stays_out_of_what_a_program_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with progress.bar(True) as shown:
        shown.show(0.5)
    told = capsys.readouterr()
    assert "50%" in told.err
    assert told.out == ""
