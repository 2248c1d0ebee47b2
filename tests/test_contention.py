"""Real workers on real stores, measured: every job is accounted for, and nothing is left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from qlab import frames
from qlab.contend import Contention, contention
from qlab.driver import SURVIVED
from qlab.trace import Kind

if TYPE_CHECKING:
    from qlab.simulation import Run

if sys.platform == "win32":
    pytest.skip("these tests need sockets in files, and signals", allow_module_level=True)

JOBS = 40


@pytest.fixture(scope="module")
def found() -> Contention:
    """A contention of two arms, which the tests below only look at."""
    return contention(("sqlite", "redis_zset"), workers=(1, 2), jobs=JOBS, repeats=2, progress=False)


def measured(run: Run) -> object:
    assert run.measured is not None
    return run.measured


def test_no_arm_loses_or_doubles_a_job(found: Contention) -> None:
    for run in found.runs:
        told = [event.job for event in run.trace if event.kind is Kind.COMPLETED]
        assert sorted(told) == list(range(1, JOBS + 1))
        assert (run.measured.lost, run.measured.duplicated) == (0, 0)
        assert sum(run.measured.per_worker) == JOBS


def test_the_frame_has_a_row_for_each_arm_and_number_of_workers(found: Contention) -> None:
    frame = frames.contention(found)
    assert list(zip(frame["arm"], frame["workers"], frame["runs"], frame["jobs"], strict=True)) == [
        (arm, workers, 2, JOBS) for arm in ("sqlite NORMAL", "redis_zset everysec") for workers in (1, 2)
    ]
    assert (frame["survives"] == SURVIVED[2]).all()
    assert not frame.isna().any(axis=None)


def test_an_empty_frame_has_the_same_columns(found: Contention) -> None:
    for make in (frames.contention, frames.reserves):
        full, empty = make(found), make([])
        assert list(empty.columns) == list(full.columns)
        kinds = [isinstance(each, pd.CategoricalDtype) or each for each in full.dtypes]
        assert [isinstance(each, pd.CategoricalDtype) or each for each in empty.dtypes] == kinds
