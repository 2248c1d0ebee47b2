"""The notebooks as a reader gets them: copies in a folder of theirs, and JupyterLab on it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from qlab.errors import UnusableStore

_PACKAGE = Path(__file__).parent
_SETTINGS = _PACKAGE / "static" / "jupyter"


class Copies(NamedTuple):
    """What `copy_notebooks` did, as the files' names.

    Attributes:
        copied: Those that were not there yet.
        kept: Those that were there, and were left as they are.
    """

    copied: list[str]
    kept: list[str]


def notebooks() -> list[Path]:
    """Find the notebooks that came with qlab, in their order: in the package, or beside it in a checkout."""
    for folder in (_PACKAGE / "notebooks", _PACKAGE.parent / "notebooks"):
        if found := sorted(folder.glob("*.ipynb")):
            return found
    raise UnusableStore(f"no notebooks came with this installation ({_PACKAGE}): install queue-lab again")


def copy_notebooks(folder: Path) -> Copies:
    """Copy the notebooks into a folder, never over a file that is there.

    Args:
        folder: Where; made where it is not there.
    """
    copies = Copies([], [])
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in notebooks():
        copied = add(folder / notebook.name, notebook.read_bytes())
        (copies.copied if copied else copies.kept).append(notebook.name)
    return copies


def add(path: Path, data: bytes) -> bool:
    """Write a file where none is, whole or not at all.

    Returns:
        Whether it was written; one that is there stays.
    """
    try:
        made = path.open("xb")
    except FileExistsError:
        return False
    try:
        with made:
            made.write(data)
    except BaseException:  # half a file would stay for ever
        path.unlink()
        raise
    return True


def jupyterlab(folder: Path, *, browser: bool, port: int | None = None, ip: str | None = None) -> list[str]:
    """Write the command that starts JupyterLab on a folder, with the first notebook open.

    Args:
        folder: What it shows.
        browser: Whether it opens a browser; otherwise it prints its address.
        port: Where it listens; by default the first free port from 8888 on.
        ip: On which address it listens; by default only this machine reaches it.
    """
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.absolute()}"]
    # Not as an argument that names the file: the address that is printed for another browser would not open it.
    command.append(f"--LabApp.default_url=/lab/tree/{notebooks()[0].name}")
    # Ctrl-C ends it without a question, and of its log only the address and what goes wrong are shown.
    command += ["--ServerApp.answer_yes=True", "--Application.log_level=WARN"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    if ip is not None:
        command.append(f"--ServerApp.ip={ip}")
    return command


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Add to an environment what lets JupyterLab ask nothing about news and updates, and use this Python's kernel."""
    paths = [str(_SETTINGS), environment.get("JUPYTER_CONFIG_PATH", "")]
    return {
        "JUPYTER_PREFER_ENV_PATH": "1",
        **environment,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(path for path in paths if path),
    }


def has_browser() -> bool:
    """Tell whether a browser can be opened here: not in a container, nor on a Linux without a screen."""
    if any(Path(sign).exists() for sign in ("/.dockerenv", "/run/.containerenv")):
        return False
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def become(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command in the place of this process, so that it gets this one's signals."""
    if os.name == "posix":
        sys.stdout.flush()
        os.execve(command[0], command, environment)  # noqa: S606 - the command is this module's, without a shell
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the command got it too, and ends by itself
                continue
