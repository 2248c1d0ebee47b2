"""A function over a grid: which points there are, what comes back, and what is kept when it is stopped."""

import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import studies
from studies import IN_A_SCRIPT, STOPPED, UNGUARDED, Record, Result, ends_its_process, logged, mean, odd_fails, total

from qlab import Policy, sweep
from qlab.errors import QlabError
from qlab.sweeps.points import points
from qlab.sweeps.processes import Processes

THREADS: Any = {"executor": "threads", "workers": 2}
GRID = {"a": [1, 2, 3], "b": [10, 20]}


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict("records")  # type: ignore[return-value]  # its names are text


# -- points and rows --


def test_every_combination_is_a_point_and_the_last_name_changes_fastest() -> None:
    frame = sweep(total, GRID, **THREADS)
    assert list(frame.columns) == ["a", "b", "value", "error"]
    assert frame[["a", "b"]].to_numpy().tolist() == [[1, 10], [1, 20], [2, 10], [2, 20], [3, 10], [3, 20]]
    assert frame.value.tolist() == [11, 21, 12, 22, 13, 23]
    assert frame.value.dtype == np.int64
    assert frame.error.tolist() == [""] * 6


@pytest.mark.parametrize(
    "grid", [[{"a": 1}, {"b": 5, "a": 2}], iter([{"a": 1}, {"b": 5, "a": 2}])], ids=["list", "iterator"]
)
def test_points_one_by_one_may_have_different_names(grid: Any) -> None:
    frame = sweep(total, grid, **THREADS)
    assert frame.columns.tolist() == ["a", "b", "value", "error"]
    assert frame.value.tolist() == [1, 7]
    assert frame.b.isna().tolist() == [True, False]


def test_the_rows_of_a_frame_are_points_too() -> None:
    grid = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert sweep(total, grid, **THREADS).value.tolist() == [4, 6]  # type: ignore[arg-type]  # it has rows, as said


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (5, [{"value": 5}]),
        (0.5, [{"value": 0.5}]),
        ("fine", [{"value": "fine"}]),
        (None, [{"value": None}]),
        (np.float64(0.5), [{"value": 0.5}]),
        ({"mean": np.int64(3), "name": "x"}, [{"mean": 3, "name": "x"}]),
        (Result(0.5, 3), [{"mean": 0.5, "jobs": 3}]),
        (Record(0.5, 3), [{"mean": 0.5, "jobs": 3}]),
        (pd.Series({"mean": 0.5, "jobs": 3.0}), [{"mean": 0.5, "jobs": 3.0}]),
        ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 2}]),
        ((Result(0.5, 3), Result(1.5, 4)), [{"mean": 0.5, "jobs": 3}, {"mean": 1.5, "jobs": 4}]),
        (pd.DataFrame({"n": [1, 2]}), [{"n": 1}, {"n": 2}]),
        ([1, 2], [{"value": 1}, {"value": 2}]),
        ([], []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_call_returns_a_value_or_a_row_or_several(returned: Any, expected: list[Any], tmp_path: Path) -> None:
    frame = sweep(lambda a: returned, {"a": [7]}, **THREADS)
    assert rows(frame.astype(object)) == [{"a": 7} | row | {"error": ""} for row in expected]
    kept = sweep(lambda a: returned, {"a": [7]}, resume=tmp_path / "points.jsonl", **THREADS)
    pd.testing.assert_frame_equal(kept, frame)


def test_a_generator_gives_several_rows() -> None:
    frame = sweep(lambda a: ({"n": n} for n in range(a)), {"a": [1, 2]}, **THREADS)
    assert frame[["a", "n"]].to_numpy().tolist() == [[1, 0], [2, 0], [2, 1]]


def test_a_name_of_the_grid_may_come_back_as_it_was_given() -> None:
    assert rows(sweep(lambda a: {"a": a, "n": 1}, {"a": [7]}, **THREADS)) == [{"a": 7, "n": 1, "error": ""}]


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (object, "TypeError: it returned a type: return a number, a mapping from columns to values"),
        ({"a": 8}, "ValueError: it returned 'a', which is a column of the sweep already"),
        ({"error": "x"}, "ValueError: it returned 'error', which is a column of the sweep already"),
    ],
)
def test_what_a_call_returns_and_no_frame_can_hold_is_its_points_error(returned: Any, error: str) -> None:
    (row,) = rows(sweep(lambda a: returned, {"a": [7]}, **THREADS))
    assert row["error"].startswith(error)


def test_the_frame_is_in_the_grids_order_whatever_ends_first() -> None:
    last = threading.Event()

    def run(a: int) -> int:
        if a == 0:
            assert last.wait(60)
        last.set()
        return a

    assert sweep(run, {"a": [0, 1, 2, 3]}, **THREADS).value.tolist() == [0, 1, 2, 3]


def test_each_point_gets_the_same_seeds() -> None:
    frame = sweep(total, {"a": [100, 200]}, seed=7, repeats=2, **THREADS)
    assert frame[["a", "seed", "value"]].to_numpy().tolist() == [
        [100, 7, 107],
        [100, 8, 108],
        [200, 7, 207],
        [200, 8, 208],
    ]
    assert sweep(total, {"a": [100]}, repeats=2, **THREADS).seed.tolist() == [0, 1]
    assert sweep(total, {"a": [100]}, seed=7, **THREADS).seed.tolist() == [7]


@pytest.mark.parametrize(
    ("grid", "more", "error", "says"),
    [
        ({}, {}, ValueError, "the grid has no points"),
        ([], {}, ValueError, "the grid has no points"),
        ({"a": []}, {}, ValueError, "the grid's 'a' has no values"),
        ({"a": "abc"}, {}, TypeError, "the grid's 'a' is 'abc': use a list of values, as in ['abc']"),
        ({"a": 5}, {}, TypeError, "the grid's 'a' is 5: use a list of values, as in [5]"),
        ([5], {}, TypeError, "a point of the grid is 5: use a mapping"),
        ({5: [1]}, {}, TypeError, "a name in the grid is 5: use text"),
        ({"a": [1], "c": [2]}, {}, TypeError, "cannot be called with a, c: got an unexpected keyword argument 'c'"),
        ({"b": [1]}, {}, TypeError, "cannot be called with b: missing a required argument: 'a'"),
        ({"a": [1], "error": [2]}, {}, ValueError, "the grid has a name 'error', which the sweep gives itself"),
        ({"a": [1], "seed": [2]}, {"seed": 1}, ValueError, "the grid has a name 'seed', which the sweep gives itself"),
        ({"a": [1]}, {"seed": 0.5}, ValueError, "seed is 0.5: use a whole number from 0"),
        ({"a": [1]}, {"repeats": 0}, ValueError, "repeats is 0: use a number from 1"),
        ({"a": [1]}, {"workers": 0}, ValueError, "workers is 0: use a number from 1"),
        (
            {"a": [1]},
            {"executor": "dask"},
            ValueError,
            "executor is 'dask': use 'processes', 'threads', or an executor",
        ),
        ({"a": [1]}, {"executor": None}, ValueError, "executor is None: use 'processes'"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(
    grid: Any, more: dict[str, Any], error: type[Exception], says: str
) -> None:
    ran = []

    def run(a: int, b: int = 0, *, seed: int = 0) -> None:
        ran.append(a)

    with pytest.raises(error) as refused:
        sweep(total if "executor" not in more else run, grid, **THREADS | more)
    assert says in str(refused.value)
    assert ran == []


def test_an_executor_has_its_own_number_of_workers() -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="an executor has its own number"):
        sweep(total, {"a": [1]}, executor=executor, workers=2)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="what is swept is 5: use a function"):
        sweep(5, {"a": [1]})  # type: ignore[arg-type]  # on purpose


# -- failures --


def test_a_point_that_fails_is_kept_beside_its_parameters_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = sweep(odd_fails, {"a": range(5)}, **THREADS)
    assert frame.error.tolist() == ["", "ValueError: 1 is odd", "", "ValueError: 3 is odd", ""]
    assert frame.value.dropna().tolist() == [0, 2, 4]
    assert caplog.messages == ["2 of 5 points failed, the first with ValueError: 1 is odd"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_call_raises_fails_its_point_alone(error: BaseException) -> None:
    def run(a: int) -> int:
        if a == 1:
            raise error
        return a

    frame = sweep(run, {"a": [0, 1, 2]}, **THREADS)
    assert [bool(text) for text in frame.error] == [False, True, False]


def test_a_grid_of_which_every_point_fails_is_a_frame_too() -> None:
    frame = sweep(odd_fails, {"a": [1, 3]}, **THREADS)
    assert frame.columns.tolist() == ["a", "error"]
    assert len(frame) == 2


# -- where it runs --


@contextmanager
def standard_processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@contextmanager
def cluster() -> Iterator[Executor]:
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 - it is an extra
    except ImportError:
        reason = "the package distributed is not installed (the extra cluster)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL) as here,
        Client(here) as client,
        client.get_executor() as executor,
    ):
        yield executor


EXECUTORS: dict[str, Callable[[], Any]] = {
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": standard_processes,
    "cluster": cluster,
}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_any_executor_runs_a_sweep_and_is_left_open(executor: str, tmp_path: Path) -> None:
    with EXECUTORS[executor]() as opened:
        for _ in range(2):
            frame = sweep(odd_fails, {"a": range(4)}, executor=opened, resume=tmp_path / "points.jsonl")
            assert frame.error.tolist() == ["", "ValueError: 1 is odd", "", "ValueError: 3 is odd"]
            assert frame.value.dropna().tolist() == [0, 2]
        assert opened.submit(total, 1, 2).result(60) == 3


def test_a_clusters_workers_run_a_notebooks_function_too() -> None:
    with cluster() as executor:
        assert sweep(lambda a: 2 * a, {"a": [1, 2]}, executor=executor).value.tolist() == [2, 4]


def test_local_processes_run_it_by_default_and_end_with_it() -> None:
    before = multiprocessing.active_children()
    frame = sweep(total, GRID)
    assert frame.value.tolist() == [11, 21, 12, 22, 13, 23]
    assert multiprocessing.active_children() == before
    assert [thread for thread in threading.enumerate() if thread.name.startswith("qlab-processes")] == []


def test_a_function_with_arguments_bound_beforehand_runs_in_processes() -> None:
    assert sweep(partial(total, b=10), {"a": [1]}, workers=1).value.tolist() == [11]


def test_a_worker_process_is_soon_ready() -> None:
    assert sweep(studies.imported, {"a": [1]}, workers=1).value.tolist() == [""]


def test_a_process_that_dies_fails_its_point_alone() -> None:
    frame = sweep(ends_its_process, {"a": range(5)}, workers=1)
    died = "ProcessDied: the process that ran it ended with "
    assert frame.error.tolist() == [
        "",
        f"{died}exit code 7",
        f"{died}signal SIGKILL: was there enough memory?",
        "",
        "",
    ]
    assert frame.value.dropna().tolist() == [0, 3, 4]


def test_an_executor_that_breaks_leaves_what_it_did(tmp_path: Path) -> None:
    with standard_processes() as executor:
        frame = sweep(ends_its_process, {"a": [1, 3]}, executor=executor)
        assert frame.error.str.startswith("BrokenProcessPool").iloc[0]


def test_what_cannot_be_sent_back_is_its_points_error() -> None:
    frame = sweep(studies.returns_what_cannot_be_sent, {"a": [1, 2]}, workers=1)
    assert (frame.error != "").all()


def test_what_cannot_be_sent_there_is_its_points_error() -> None:
    frame = sweep(total, {"a": [1, threading.Lock()]}, workers=1)
    assert frame.error.iloc[0] == ""
    assert "cannot pickle" in frame.error.iloc[1]


@pytest.mark.parametrize("where", ["lambda", "inside another"])
def test_a_function_that_no_process_can_import_is_refused_with_the_way_out(where: str) -> None:
    def inside(a: int) -> int:
        return a

    function = inside if where == "inside another" else lambda a: a
    with pytest.raises(
        TypeError, match="move it into a module.*, or run it in this process with executor=.threads."
    ) as no:
        sweep(function, {"a": [1]})
    assert "cannot be sent to another process" in str(no.value)
    assert sweep(function, {"a": [1]}, executor="threads").value.tolist() == [1]


ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
"""For scripts whose processes import what the tests can."""


def said_by(text: str, path: Path | None = None) -> tuple[int, str, str]:
    """Run a script, from its standard input where it has no file; gives its exit code and what it wrote."""
    if path is not None:
        path.write_text(text)
    command = [sys.executable, "-" if path is None else str(path)]
    ended = subprocess.run(
        command, check=False, input="" if path else text, capture_output=True, text=True, env=ENVIRONMENT, timeout=100
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_function_of_a_cell_is_refused_with_the_way_out() -> None:
    code, _, said = said_by("from qlab import sweep\ndef run(a): return a\nsweep(run, {'a': [1]})")
    assert code == 1
    assert "TypeError: __main__.run is defined in a notebook, where no other process finds it: move it into" in said
    cell = "from qlab import sweep\ndef run(a): return a\nprint(sweep(run, {'a': [1]}, executor='threads').value[0])"
    assert said_by(cell) == (0, "1\n", "")


def test_a_function_of_a_script_runs_in_processes(tmp_path: Path) -> None:
    assert said_by(IN_A_SCRIPT, tmp_path / "study.py") == (0, "[2, 4]\n", "")


def test_a_script_without_its_guard_is_told_so(tmp_path: Path) -> None:
    code, out, said = said_by(UNGUARDED, tmp_path / "study.py")
    assert (code, out) == (1, "")
    assert 'a script must start its work under if __name__ == "__main__":' in said.splitlines()[-1]


def test_processes_that_cannot_import_the_function_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total, "__module__", "nowhere")
    monkeypatch.setitem(sys.modules, "nowhere", studies)
    with pytest.raises(QlabError, match="could not begin to work: ModuleNotFoundError: No module named 'nowhere'"):
        sweep(total, GRID)


# -- stopped, and resumed --


def ran(folder: Path) -> list[int]:
    """How often each point ran."""
    return [len(path.read_text()) if (path := folder / f"ran-{a}").exists() else 0 for a in range(6)]


def stopped(folder: Path, file: Path | None, by: Callable[[subprocess.Popen[str]], None]) -> tuple[str, str]:
    """Stop a sweep of `logged` at its fourth point; gives what it wrote once no process of it is left."""
    (folder / "stay-3").touch()
    (folder / "study.py").write_text(STOPPED)
    command = [sys.executable, str(folder / "study.py"), str(folder), str(file or "")]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=ENVIRONMENT, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout
            assert sorted(process.stdout.readline() for _ in range(4)) == ["kept\n"] * 3 + ["reached\n"]
            by(process)
            written = process.communicate(timeout=60)  # its processes hold its output open, too
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    (folder / "stay-3").unlink()
    return written


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()


def interrupted(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to its processes, too


def test_a_sweep_that_was_killed_goes_on_without_the_points_that_were_finished(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    stopped(tmp_path, file, killed)
    assert len(file.read_text().splitlines()) == 1 + 3
    assert ran(tmp_path) == [1, 1, 1, 1, 0, 0]
    grid = {"folder": [str(tmp_path)], "a": range(6)}
    frame = sweep(logged, grid, workers=1, resume=file)
    assert ran(tmp_path) == [1, 1, 1, 2, 1, 1]
    pd.testing.assert_frame_equal(frame, sweep(logged, grid, **THREADS))
    pd.testing.assert_frame_equal(frame, sweep(logged, grid, workers=1, resume=file))


@pytest.mark.parametrize("kept", [True, False])
def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path: Path, kept: bool) -> None:
    out, said = stopped(tmp_path, tmp_path / "points.jsonl" if kept else None, interrupted)
    assert out.splitlines() == ["a,square,error", "0,0,", "1,1,", "2,4,", ""]
    assert said == "the sweep was stopped: 3 of 6 points are in the frame\n"


def test_points_that_are_finished_are_not_run_again_and_those_that_failed_are(tmp_path: Path) -> None:
    file, runs, broken = tmp_path / "points.jsonl", [], [1, 3]

    def run(a: int) -> int:
        runs.append(a)
        if a in broken:
            raise ValueError(f"{a} is broken")
        return a * 10

    options: Any = THREADS | {"resume": file, "workers": 1}
    errors = sweep(run, {"a": [0, 1, 2, 3]}, **options).error.tolist()
    assert errors == ["", "ValueError: 1 is broken", "", "ValueError: 3 is broken"]
    broken.remove(3)
    assert sweep(run, {"a": [0, 1, 2, 3]}, **options).error.tolist() == ["", "ValueError: 1 is broken", "", ""]
    broken.clear()
    assert sweep(run, {"a": [0, 1, 2, 3]}, **options).value.tolist() == [0, 10, 20, 30]
    assert runs == [0, 1, 2, 3, 1, 3, 1]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[2]["point"] == '{"a": 1}'
    assert "ValueError: 1 is broken" in lines[2]["traceback"]


def test_a_grid_that_has_grown_runs_what_is_new_and_one_that_has_changed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, runs = tmp_path / "points.jsonl", []

    def run(a: int) -> int:
        runs.append(a)
        return a

    sweep(run, {"a": [1, 2]}, resume=file, **THREADS)
    assert sweep(run, {"a": [3, 2, 1]}, resume=file, **THREADS).value.tolist() == [3, 2, 1]
    assert runs == [1, 2, 3]
    assert caplog.messages == []
    assert sweep(run, {"a": [1]}, resume=file, **THREADS).value.tolist() == [1]
    assert caplog.messages == [f"{file} keeps 2 points that are not in this grid; they are left alone"]
    assert runs == [1, 2, 3]


def test_points_are_told_apart_by_what_they_are_given(tmp_path: Path) -> None:
    runs = []
    values = [1, 1.0, "1", True, None, [1], (2,), {"x": 1}, np.float64(0.5), Policy(tries=1), Policy(tries=2)]

    def run(a: Any, seed: int) -> int:
        runs.append(a)
        return len(runs)

    frame = sweep(
        run, {"a": values}, seed=1, repeats=2, resume=tmp_path / "points.jsonl", executor="threads", workers=1
    )
    assert len(runs) == 22
    again = sweep(run, {"a": values}, seed=1, repeats=2, resume=tmp_path / "points.jsonl", **THREADS)
    assert len(runs) == 22
    assert again.value.tolist() == frame.value.tolist() == list(range(1, 23))


@pytest.mark.parametrize(
    ("values", "says"),
    [([1, 1], r"the grid has the point \{'a': 1\} twice"), ([object()], "the grid's 'a' is <object object at")],
)
def test_points_that_a_file_cannot_tell_apart_are_refused(values: list[Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        sweep(total, {"a": values}, resume=tmp_path / "points.jsonl", **THREADS)
    assert not (tmp_path / "points.jsonl").exists()


def test_a_result_that_a_file_cannot_keep_is_its_points_error(tmp_path: Path) -> None:
    frame = sweep(lambda a: {"x": {1, 2}}, {"a": [1]}, resume=tmp_path / "points.jsonl", **THREADS)
    assert frame.error[0].startswith("TypeError: it returned a set as 'x', which the file to resume from cannot keep")


def test_another_version_of_the_function_is_refused_unless_it_is_said_to_be_the_same(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"

    def first() -> Callable[[int], int]:
        def run(a: int) -> int:
            return a

        return run

    def second() -> Callable[[int], int]:
        def run(a: int) -> int:
            return a + 1

        return run

    runs: list[Any] = [first(), second()]
    for run in runs:
        run.__qualname__ = "run"
    sweep(runs[0], {"a": [1]}, resume=file, **THREADS)
    kept = file.read_bytes()
    with pytest.raises(ValueError, match="has points of another version of test_sweeps.run") as refused:
        sweep(runs[1], {"a": [1]}, resume=file, **THREADS)
    assert file.read_bytes() == kept
    version = str(refused.value).rpartition("version=")[2].strip("'")
    assert sweep(runs[1], {"a": [1, 2]}, resume=file, version=version, **THREADS).value.tolist() == [1, 3]
    with pytest.raises(ValueError, match="has points of test_sweeps.run, this sweep is of studies.total: use another"):
        sweep(total, {"a": [1]}, resume=file, **THREADS)
    with pytest.raises(ValueError, match="another version of test_sweeps.run"):
        sweep(runs[0], {"a": [1]}, resume=file, version="2", **THREADS)


def test_arguments_that_were_bound_beforehand_are_part_of_the_version(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    sweep(partial(total, b=1), {"a": [1]}, resume=file, **THREADS)
    assert sweep(partial(total, b=1), {"a": [2]}, resume=file, **THREADS).value.tolist() == [3]
    with pytest.raises(ValueError, match="another version of studies.total"):
        sweep(partial(total, b=2), {"a": [1]}, resume=file, **THREADS)


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_half_a_line_is_taken_away_and_its_point_runs_again(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "points.jsonl"
    whole = sweep(mean, {"a": [1, 2]}, resume=file, executor="threads", workers=1)
    text = file.read_bytes()
    file.write_bytes(text[:-cut])
    pd.testing.assert_frame_equal(sweep(mean, {"a": [1, 2]}, resume=file, executor="threads", workers=1), whole)
    assert file.read_bytes() == text


def test_half_a_first_line_is_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    sweep(mean, {"a": [1]}, resume=file, **THREADS)
    text = file.read_bytes()
    for begun in (b"", text[:1], text[:20]):
        file.write_bytes(begun)
        sweep(mean, {"a": [1]}, resume=file, **THREADS)
        assert file.read_bytes() == text


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "notes", "[1]\n", '{"sweep": 2}\n', "\n", "{}\n"])
def test_a_file_that_is_no_sweeps_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match="is no file of a sweep, and is left as it is"):
        sweep(mean, {"a": [1]}, resume=file, **THREADS)
    assert file.read_text() == text


@pytest.mark.parametrize("line", ["{", "[1]", "{}", ""])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "points.jsonl"
    sweep(mean, {"a": [1, 2]}, resume=file, **THREADS)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, lines[2], ""]))
    with pytest.raises(ValueError, match="line 2 of .* is damaged: take it out, and its point runs again"):
        sweep(mean, {"a": [1, 2]}, resume=file, **THREADS)


@pytest.mark.parametrize(("path", "error"), [("nowhere/points.jsonl", FileNotFoundError), (".", IsADirectoryError)])
def test_a_file_that_cannot_be_written_is_an_error_before_anything_runs(
    tmp_path: Path, path: str, error: type[Exception]
) -> None:
    runs: list[Any] = []
    with pytest.raises(error):
        sweep(lambda a: runs.append(a), {"a": [1]}, resume=tmp_path / path, **THREADS)  # noqa: PLW0108 - it takes a name
    assert runs == []


# -- progress --


def test_progress_is_the_share_of_the_points_that_are_finished(tmp_path: Path) -> None:
    told: list[float] = []
    for until in (2, 4):
        sweep(mean, {"a": range(until)}, progress=told.append, resume=tmp_path / "points.jsonl", **THREADS)
    assert told == [0.5, 1.0, 0.75, 1.0]


def test_a_short_sweep_shows_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    sweep(mean, {"a": range(3)}, **THREADS)
    assert capsys.readouterr() == ("", "")


# -- the processes by themselves --


def test_processes_that_are_to_end_at_once_leave_a_call_undone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    pool = Processes(1, total)
    running, waiting = pool.submit(studies.stays, str(tmp_path / "begun")), pool.submit(total, 1)
    assert (tmp_path / "begun").read_text() == "begun"
    pool.shutdown(cancel_futures=True)
    assert isinstance(running.exception(60), QlabError)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError):
        pool.submit(total, 1)


def test_what_a_call_raises_is_raised_by_its_future() -> None:
    with Processes(1, total) as pool:
        assert str(pool.submit(odd_fails, 3).exception(60)) == "3 is odd"
        assert pool.submit(odd_fails, 2).result(60) == 2


def test_points_are_listed_once() -> None:
    assert points({"a": iter([1, 2]), "b": (3,)}, seed=None, repeats=1) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
