"""What the tests of sweeps sweep: functions that another process can import, and scripts."""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Result(NamedTuple):
    mean: float
    jobs: int


@dataclasses.dataclass
class Record:
    mean: float
    jobs: int


def total(a: int, b: int = 0, seed: int = 0) -> int:
    return a + b + seed


def mean(a: int) -> dict[str, float]:
    return {"mean": a / 4, "jobs": a}


def odd_fails(a: int) -> int:
    if a % 2:
        raise ValueError(f"{a} is odd")
    return a


def ends_its_process(a: int) -> int:
    if a == 1:
        os._exit(7)
    if a == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return a


def returns_what_cannot_be_sent(a: int) -> dict[str, Callable[[], int]]:
    return {"call": lambda: a}


def imported(a: int) -> str:
    return ", ".join(sorted({"pandas", "matplotlib", "tqdm", "redis"} & set(sys.modules)))


def logged(folder: str, a: int) -> dict[str, Any]:
    """Write down that it runs; the point that is asked for says so, and then never ends."""
    ran = Path(folder, f"ran-{a}")
    ran.write_text(ran.read_text() + "x" if ran.exists() else "x")
    if Path(folder, f"stay-{a}").exists():
        os.write(1, b"reached\n")
        signal.pause()
    return {"square": a * a, "half": a / 2}


def stays(begun: str) -> None:
    """Say that it has begun, and never end."""
    Path(begun).write_text("begun")
    signal.pause()


STOPPED = """
import sys
from qlab import sweep
from studies import logged


def kept(share):
    print("kept", flush=True)


if __name__ == "__main__":
    folder, file = sys.argv[1:]
    frame = sweep(logged, {"folder": [folder], "a": range(6)}, workers=1, resume=file or None, progress=kept)
    print(frame[["a", "square", "error"]].to_csv(index=False), flush=True)
"""

UNGUARDED = """
from qlab import sweep
from studies import total

print(sweep(total, {"a": [1, 2]}, workers=1))
"""

IN_A_SCRIPT = """
from qlab import sweep


def double(a):
    return 2 * a


if __name__ == "__main__":
    print(sweep(double, {"a": [1, 2]}, workers=1).value.tolist())
"""
