"""A function over a grid, on one machine or on many, as one frame.

It stands as high as the frames, since a frame is what it gives. What runs in a worker process is `points`, which needs
no pandas, so that a process is soon ready.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from qlab.escape import error_text
from qlab.interrupts import Deferred
from qlab.log import log
from qlab.progress import bar
from qlab.sweeps.points import ERROR, Given, Grid, Point, call, check_call, inner, key, name_of, points
from qlab.sweeps.processes import NotReady, Processes
from qlab.sweeps.resuming import SweepFile
from qlab.whole import is_whole


def sweep(
    function: Callable[..., Any],
    grid: Grid,
    *,
    executor: Executor | Literal["processes", "threads"] = "processes",
    workers: int | None = None,
    seed: int | None = None,
    repeats: int = 1,
    resume: str | os.PathLike[str] | None = None,
    version: str | None = None,
    progress: bool | Callable[[float], object] | None = None,
) -> pd.DataFrame:
    """Call a function with each point of a grid, and put what it returns in one frame.

    A point that fails does not stop the others. A Ctrl-C does, and what is finished is in the frame all the same.

    Args:
        function: It takes the grid's names as arguments, and returns a number, a mapping from columns to values, or
            several of them (a list, a frame). Processes import it: it must be in a module, or in a script that starts
            its work under `if __name__ == "__main__":`.
        grid: A mapping from names to values, of which every combination is a point; or a list of points, each a
            mapping from names to values.
        executor: Where the calls run: `processes` on this machine; `threads` of this process, also for functions from a
            notebook's cell; or any executor, such as the one that `dask.distributed.Client.get_executor()` gives. An
            executor is not shut down.
        workers: How many processes or threads; by default as many as this process may use processors.
        seed: Given to each call as `seed`, the same at each point, so that points differ in nothing but the grid.
        repeats: Calls each point so many times, with the seeds `seed`, `seed + 1`, …; from 0 where there is no seed.
        resume: A file that keeps each finished point; the points that are in it already are not run again, and those
            that failed are. Results must be JSON values then.
        version: What stands for the function's version in that file; by default a digest of the function's source.
        progress: Whether to show a bar; by default at a terminal and in a notebook. Or a function that is told which
            share of the points is finished.

    Returns:
        One row for each thing that a call returned, in the grid's order: the grid's names, `seed` (int64) where there
        is one, then what was returned (a single value as `value`), and `error` (str) in one line, empty where the point
        did not fail.

    Raises:
        TypeError: The function cannot be called with the grid's names, or not in another process.
        ValueError: The grid has no points, or a value is out of its range, or the file is another function's.
        QlabError: The processes could not begin to work.

    Example:
        >>> from qlab import sweep, theory
        >>> sweep(lambda rate: theory.MMc(rate, 0.5, 1).wait, {"rate": [0.5, 1.0]}, executor="threads")
           rate     value error
        0   0.5  0.166667
        1   1.0  0.500000
    """
    listed = points(grid, seed=seed, repeats=repeats)
    check_call(function, listed)
    with ExitStack() as opened:
        keep, found = _kept(opened, function, listed, resume, version)
        left = {number: point for number, point in enumerate(listed) if number not in found}
        shown = opened.enter_context(bar(progress))
        try:
            with _pool(function, executor, workers, len(left)) as pool:
                for number, given in _given(pool, function, left, kept=resume is not None):
                    with Deferred():
                        found[number] = given
                        keep(number, given)
                    shown.show(len(found) / len(listed))
        except KeyboardInterrupt:
            log.warning("the sweep was stopped: %s of %s points are in the frame", len(found), len(listed))
    if failed := [found[number].error for number in sorted(found) if found[number].error]:
        log.warning("%s of %s points failed, the first with %s", len(failed), len(listed), failed[0])
    return _frame(listed, found)


Keep = Callable[[int, Given], None]


def _kept(
    opened: ExitStack,
    function: Callable[..., Any],
    listed: Sequence[Point],
    path: str | os.PathLike[str] | None,
    version: str | None,
) -> tuple[Keep, dict[int, Given]]:
    """Tell what keeps a point, and what was kept of this grid before."""
    if path is None:
        return lambda *_: None, {}
    numbers: dict[str, int] = {}
    for number, point in enumerate(listed):
        if numbers.setdefault(key(point), number) != number:
            raise ValueError(f"the grid has the point {point} twice: to run each point again, use repeats=")
    keys = list(numbers)
    file = opened.enter_context(SweepFile(path, function, version))
    if strange := len(set(file.finished) - set(keys)):
        log.warning("%s keeps %s points that are not in this grid; they are left alone", os.fspath(path), strange)
    found = {numbers[each]: Given(rows) for each, rows in file.finished.items() if each in numbers}
    return lambda number, given: file.add(keys[number], given), found


@contextmanager
def _pool(
    function: Callable[..., Any], executor: Executor | str, workers: int | None, points: int
) -> Iterator[Executor]:
    """Open what the calls run in; where it is ours, nothing of it is left."""
    if isinstance(executor, Executor):
        if workers is not None:
            raise ValueError("workers= is for processes and threads of this machine: an executor has its own number")
        yield executor
        return
    if executor not in ("processes", "threads"):
        raise ValueError(f"executor is {executor!r}: use 'processes', 'threads', or an executor")
    if workers is not None and not is_whole(workers, 1):
        raise ValueError(f"workers is {workers!r}: use a number from 1")
    most = max(1, min(workers or _processors(), points))
    if executor == "processes":
        _check_importable(function)
    pool = Processes(most, function) if executor == "processes" else ThreadPoolExecutor(most)
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _given(
    pool: Executor, function: Callable[..., Any], left: Mapping[int, Point], *, kept: bool
) -> Iterator[tuple[int, Given]]:
    """Call a function with each point, and tell what each gave as it ends."""
    futures: dict[Future[Given], int] = {}
    try:
        for number, point in left.items():
            futures[pool.submit(call, function, point, kept)] = number
        for future in as_completed(futures):
            yield futures[future], _outcome(future)
    finally:
        for future in futures:
            future.cancel()


def _outcome(future: Future[Given]) -> Given:
    try:
        return future.result()
    except NotReady:
        raise
    except (Exception, CancelledError) as error:  # noqa: BLE001 - what became of the call's process, or of its answer
        return Given([], error_text(error))


def _check_importable(function: Callable[..., Any]) -> None:
    """Refuse a function that another process cannot find.

    Raises:
        TypeError: It is a notebook's, a lambda, or a function within another.
    """
    way_out = (
        "move it into a module (%%writefile study.py in a cell, then from study import …), "
        'or run it in this process with executor="threads"'
    )
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if inner(function).__module__ == "__main__" and not (script and Path(script).exists()):
        raise TypeError(f"{name_of(function)} is defined in a notebook, where no other process finds it: {way_out}")
    try:
        pickle.dumps(function)
    except Exception as error:  # noqa: BLE001 - pickling runs code of anybody's
        raise TypeError(
            f"{name_of(function)} cannot be sent to another process ({error_text(error)}): {way_out}"
        ) from None


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _frame(listed: Sequence[Point], found: Mapping[int, Given]) -> pd.DataFrame:
    """Put together what is there, in the grid's order."""
    names = list(dict.fromkeys(name for point in listed for name in point))
    rows = [
        listed[number] | row | {ERROR: given.error}
        for number, given in sorted(found.items())
        for row in (given.rows or ([{}] if given.error else []))
    ]
    returned = dict.fromkeys(name for row in rows for name in row if name not in {*names, ERROR})
    return pd.DataFrame(rows, columns=[*names, *returned, ERROR]).astype({ERROR: str})
