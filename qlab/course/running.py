"""A notebook executed in a kernel and in folders of its own, of which nothing is left."""

import copy
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

import qlab
from qlab.course.exercises import Notebook
from qlab.course.shown import PANEL
from qlab.errors import QlabError
from qlab.escape import shortened

_LIMIT = 600  # seconds of one cell
_KERNEL = "python3"
_TOLD = 300  # characters of an error


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
        CellFailed: A cell raised, or took longer than ten minutes.
    """
    done = copy.deepcopy(notebook)
    cells, done.cells = done.cells, [_code("begin"), *done.cells, _code("end")]
    client = NotebookClient(
        done, timeout=_LIMIT, kernel_name=_KERNEL, coalesce_streams=True, extra_arguments=["--log-level=ERROR"]
    )
    # This Python's kernel, and not one of that name which somebody has installed for another.
    client.create_kernel_manager().kernel_spec_manager.kernel_dirs = []
    # The name is short because the path of a socket may not be long.
    with TemporaryDirectory(prefix="q", ignore_cleanup_errors=True) as private:
        working = Path(private) / "notebook"
        working.mkdir()
        with client.setup_kernel(cwd=str(working), env=_environment(private)):
            try:
                for index, cell in enumerate(done.cells):
                    _run(client, cell, index)
            except KeyboardInterrupt:
                client.shutdown_kernel = "immediate"
                raise
    panels = next(output.data[PANEL] for output in done.cells[-1].outputs if PANEL in output.get("data", {}))
    done.cells = cells
    return Executed(done, panels)


def _environment(private: str) -> dict[str, str]:
    """Let what is temporary be in a folder, which has no user's settings; and let the kernel find this qlab."""
    places = [str(Path(qlab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "TMPDIR": private,
        "IPYTHONDIR": str(Path(private) / "ipython"),
        "PYTHONPATH": os.pathsep.join(place for place in places if place),
    }


def _code(what: str) -> Any:
    source = f"from qlab.course import shown as _shown\n_shown.{what}()"
    return nbformat.v4.new_code_cell(source, id=what)  # type: ignore[no-untyped-call] # nbformat has no types


def _run(client: NotebookClient, cell: Any, index: int) -> None:
    try:
        client.execute_cell(cell, index)
    except CellExecutionError as error:
        raise CellFailed(f"{shortened(f'{error.ename}: {error.evalue}', _TOLD)}, in {_named(cell, index)}") from error
    except CellTimeoutError as error:
        raise CellFailed(f"{_named(cell, index)} took longer than {_LIMIT // 60} minutes") from error
    except DeadKernelError as error:
        raise CellFailed(f"its kernel died in {_named(cell, index)}") from error


def _named(cell: Any, index: int) -> str:
    return f"the cell {cell.id!r}" if "id" in cell else f"cell {index}"  # older notebooks name no cells
