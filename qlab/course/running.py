"""A notebook executed in a kernel and in folders of its own, of which nothing is left."""

import asyncio
import copy
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbclient.util import ensure_async

import qlab
from qlab.course.exercises import Notebook
from qlab.course.shown import PANEL
from qlab.errors import QlabError
from qlab.escape import shortened, storable

_LIMIT = 600  # seconds of one cell
_TOLD = 300  # characters of an error
_PRINTED = 100_000  # characters of what a cell prints


class CellFailed(QlabError):
    """A cell of a notebook did not run."""


class Executed(NamedTuple):
    """A notebook that was executed.

    Attributes:
        notebook: The notebook, with what its cells show; a panel is an output of the type `PANEL`.
        panels: What each panel shows when all cells have run, as its `kept` tells it, by the name in its output.
    """

    notebook: Notebook
    panels: dict[str, Any]


def execute(notebook: Notebook) -> Executed:
    """Execute a notebook with this Python.

    Args:
        notebook: The notebook, which is left as it is.

    Raises:
        CellFailed: A cell raised, took longer than ten minutes, or ended its kernel or what it displays;
            or its kernel did not start.
    """
    done = copy.deepcopy(notebook)
    cells, done.cells = done.cells, [_code("begin"), *done.cells, _code("end")]
    # The name is short because the path of a socket may not be long.
    with TemporaryDirectory(prefix="q", ignore_cleanup_errors=True) as private:
        asyncio.run(_run(done, Path(private)))
    told = [output.data[PANEL] for output in done.cells[-1].outputs if PANEL in output.get("data", {})]
    if not told:
        raise CellFailed("nothing that it displays arrives any more after its last cell")
    done.cells = cells
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return Executed(done, told[0])


async def _run(notebook: Notebook, private: Path) -> None:
    """Run all cells in a kernel, which ends in good order, or at once where a person at the keyboard says so."""
    options: dict[str, Any] = {"extra_arguments": ["--log-level=ERROR"]}
    client = NotebookClient(notebook, timeout=_LIMIT, kernel_name="python3", **options)
    manager = client.create_kernel_manager()
    manager.connection_file = str(private / "kernel.json")
    # This Python's kernel, and not one of that name which somebody has installed for another.
    manager.kernel_spec_manager.kernel_dirs = []
    working = private / "notebook"
    working.mkdir()
    at_once = False
    try:
        await client.async_start_new_kernel(cwd=str(working), env=_environment(private))
        await client.async_start_new_kernel_client()
        for index, cell in enumerate(notebook.cells):
            await _cell(client, cell, index)
    except asyncio.CancelledError:
        at_once = True
        raise
    except RuntimeError as error:  # nbclient's, where a kernel dies before it has begun
        at_once = True
        raise CellFailed(f"its kernel did not start: {error}") from error
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
        await ensure_async(manager.shutdown_kernel(now=at_once))


def _environment(private: Path) -> dict[str, str]:
    """Let what is temporary be in a folder, which has no user's settings; and let the kernel find this qlab."""
    places = [str(Path(qlab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "TMPDIR": str(private),
        "IPYTHONDIR": str(private / "ipython"),
        "PYTHONPATH": os.pathsep.join(place for place in places if place),
    }


def _code(what: str) -> Any:
    source = f"from qlab.course import shown as _shown\n_shown.{what}()"
    return nbformat.v4.new_code_cell(source, id=what)  # type: ignore[no-untyped-call] # nbformat has no types


async def _cell(client: NotebookClient, cell: Any, index: int) -> None:
    try:
        await client.async_execute_cell(cell, index)
    except CellExecutionError as error:
        raise CellFailed(f"{shortened(f'{error.ename}: {error.evalue}', _TOLD)}, in {_named(cell, index)}") from error
    except CellTimeoutError as error:
        raise CellFailed(f"{_named(cell, index)} took longer than {_LIMIT // 60} minutes") from error
    except DeadKernelError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # which nbclient takes for a death
            raise asyncio.CancelledError from error
        raise CellFailed(f"its kernel died in {_named(cell, index)}") from error


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """Make one output of all that a cell prints; nbclient, which can, takes minutes for a line of a megabyte."""
    printed: dict[str, list[str]] = {}
    kept = []
    for output in outputs:
        if output.output_type != "stream" or output.name not in printed:
            kept.append(output)
        if output.output_type == "stream":
            printed.setdefault(output.name, []).append(output.text)
    for output in kept:
        if output.output_type == "stream":
            lines = storable("".join(printed[output.name]), _PRINTED).split("\n")
            output.text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return kept


def _named(cell: Any, index: int) -> str:
    return f"the cell {cell.id!r}" if "id" in cell else f"cell {index}"  # older notebooks name no cells
