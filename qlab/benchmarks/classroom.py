"""Thirty learners on one machine: each a kernel with a lab, its board and a private server; what they take together."""

import statistics
import sys
from ast import literal_eval
from contextlib import ExitStack
from queue import Empty
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped] # it has no types; it comes with ipykernel, as jupyter_client does
from jupyter_client.manager import KernelManager

from qlab import drivers
from qlab.benchmarks.figures import Benchmark, Figure, Values
from qlab.clock import monotonic
from qlab.drivers.server import EmbeddedServer
from qlab.errors import MissingRequirement, QlabError

LEARNERS = 30
_PATIENCE = 600.0  # seconds: thirty kernels that start at once on two cores take their time

_OPEN = """
import os
from qlab import Lab
from qlab.clock import monotonic
lab = Lab(["sqlite", "redis"], seed=7)
board = lab.board()

def step(times):
    took = []
    for _ in range(times):
        began = monotonic()
        lab.dispatch("pay", {"amount": 10})
        lab.step(worker=1)
        took.append(monotonic() - began)
    return took
"""


class Learner:
    """A kernel as a notebook has it, while the context is open."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="q")  # a short name: the path of a socket may not be long
        # By sockets in there: of some hundred ports that are free when they are chosen, one is taken now and then.
        self._manager = KernelManager(transport="ipc", connection_file=f"{self._folder.name}/kernel.json")
        # This Python's kernel, and not one of that name which somebody has installed for another.
        self._manager.kernel_spec_manager.kernel_dirs = []

    def __enter__(self) -> Self:
        self._manager.start_kernel(extra_arguments=["--log-level=ERROR"])
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=kind is not None)
        self._folder.cleanup()

    def run(self, code: str, result: str = "None") -> None:
        """Let the kernel begin with a cell."""
        self._asked = self._client.execute(code, store_history=False, user_expressions={"result": result})

    def result(self) -> Any:
        """Wait for the cell's end, and give what `result` was then."""
        content = self._reply()
        if content["status"] != "ok":
            raise QlabError(f"a learner's kernel says {content['ename']}: {content['evalue']}")
        return literal_eval(content["user_expressions"]["result"]["data"]["text/plain"])

    def _reply(self) -> Any:
        until = monotonic() + _PATIENCE
        while monotonic() < until:
            try:
                reply = self._client.get_shell_msg(timeout=1.0)
            except Empty:
                if not self._manager.is_alive():
                    raise QlabError("a learner's kernel has ended: is there memory enough for all?") from None
            else:
                if reply["parent_header"].get("msg_id") == self._asked:
                    return reply["content"]
        raise QlabError(f"a learner's kernel has said nothing for {_PATIENCE:g} s")


def memory(pid: int) -> int:
    """Tell how many bytes a process and what it has started take; of what several share, their share."""
    kernel = psutil.Process(pid)
    return sum(each.memory_full_info().pss for each in (kernel, *kernel.children(recursive=True)))


def missing() -> str:
    """Say why this cannot be measured here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "only Linux tells what a process shares with others"
    try:
        drivers.require_redis()
        EmbeddedServer().close()
    except MissingRequirement as error:
        return str(error)
    return ""


def _classroom(jobs: int, _: int) -> Values:
    if missing():
        return {}
    steps = max(jobs // 5_000, 2)
    with Learner() as alone:
        _all([alone], _OPEN)
        (one,) = _all([alone], "", f"step({steps})")
    with ExitStack() as room:
        began = monotonic()
        learners = [room.enter_context(Learner()) for _ in range(LEARNERS)]
        kernels = _all(learners, _OPEN, "os.getpid()")
        opened = monotonic() - began
        took = [seconds for each in _all(learners, "", f"step({steps})") for seconds in each]
        taken = [memory(kernel) for kernel in kernels]
    return {
        "memory of a learner": statistics.median(taken) / 1e6,
        "memory of all": sum(taken) / 1e9,
        "all have their board": opened,
        "a step, alone": statistics.median(one) * 1e3,
        "a step, all at once": statistics.median(took) * 1e3,
        "the slowest in twenty": statistics.quantiles(took, n=20)[-1] * 1e3,
    }


def _all(learners: list[Learner], code: str, result: str = "None") -> list[Any]:
    """Let all run a cell at once."""
    for learner in learners:
        learner.run(code, result)
    return [learner.result() for learner in learners]


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "classroom",
        f"{LEARNERS} kernels on this machine, each with a lab of SQLite and Redis and its board; all step at once",
        (
            Figure("memory of a learner", "MB"), Figure("memory of all", "GB"), Figure("all have their board", "s"),
            Figure("a step, alone", "ms"), Figure("a step, all at once", "ms"), Figure("the slowest in twenty", "ms"),
        ),
        _classroom,
        missing,
    ),
)  # fmt: skip
"""What is measured of a classroom."""
