"""Serve JupyterLab or marimo while the standard input is open: so the server ends with the tests, however they end.

Run as `python serve.py jupyter FOLDER` or `python serve.py marimo FILE`. It writes its address when it can be asked.
"""

import os
import runpy
import signal
import socket
import sys
from pathlib import Path
from threading import Thread

from qlab.clock import pause


def jupyter(folder: Path) -> None:
    """Serve JupyterLab, and with it Notebook 7 and Voila, on a folder."""
    from jupyterlab.labapp import LabApp  # noqa: PLC0415 - one of two

    server = LabApp.initialize_server(
        argv=[
            f"--ServerApp.root_dir={folder}",
            f"--ServerApp.port={_free_port()}",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_root=True",
            "--ServerApp.disable_check_xsrf=True",
            "--ServerApp.terminals_enabled=False",
            "--IdentityProvider.token=",
            "--KernelManager.shutdown_wait_time=1",
            "--LanguageServerManager.autodetect=False",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
            "--LabApp.extension_manager=readonly",
            "--JupyterNotebookApp.expose_app_in_browser=True",
        ]
    )
    server.io_loop.add_callback(_announce, server.connection_url)
    server.start()


def marimo(file: Path) -> None:
    """Serve a marimo notebook as an application."""
    port = _free_port()
    Thread(target=_announce_when_it_listens, args=[port], daemon=True).start()
    sys.argv = ["marimo", "-q", "run", str(file), "--headless", "--no-token", f"--port={port}", "--host=127.0.0.1"]
    runpy.run_module("marimo", run_name="__main__", alter_sys=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _announce_when_it_listens(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            pause(0.05)
        else:
            return _announce(f"http://127.0.0.1:{port}/")


def _announce(url: str) -> None:
    print(url, flush=True)  # noqa: T201 - the tests read it


def _end_with_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=_end_with_input, daemon=True).start()
    {"jupyter": jupyter, "marimo": marimo}[sys.argv[1]](Path(sys.argv[2]))
