"""How quiet the machine is: the same counting takes longer where others want the processor, too."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from qlab.clock import monotonic

NOISY = 1.25
"""From which factor on a run's counting tells of a noisy machine: at a quarter longer than on the quietest occasion."""

BUSY_OTHERS = 0.25
"""From how many processors on, taken by other processes, a run tells of them."""

COUNT = 300_000
"""How far a spin counts."""
_STAT = Path("/proc/stat")


def spin(count: int = COUNT) -> float:
    """Count, and tell how many seconds it took."""
    began = monotonic()
    for _ in range(count):
        pass
    return monotonic() - began


def counts_a_second() -> float:
    """Tell how far one counts in a second here, undisturbed: the best of some rounds."""
    return COUNT / min(spin() for _ in range(5))


def busy_seconds() -> float | None:
    """Tell how many seconds of processor time all processes have taken since the machine began; None if nobody does."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        user, nice, system, _, _, *rest = map(int, _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


class Meter:
    """How much processor time the machine takes from now on, this process left out."""

    def __init__(self) -> None:
        self._began, self._own, self._busy = monotonic(), own_seconds(), busy_seconds()

    def read(self) -> tuple[float, float | None]:
        """Tell for how many seconds it has measured, and how much others took; None where the system does not tell."""
        busy, took = busy_seconds(), own_seconds() - self._own
        others = None if busy is None or self._busy is None else max(0.0, busy - self._busy - took)
        return monotonic() - self._began, others


def own_seconds() -> float:
    """Tell how many seconds of processor time this process has taken."""
    times = os.times()
    return times.user + times.system


def in_words(spins: Sequence[float], others: Sequence[float]) -> list[str]:
    """Say what disturbed the runs; nothing where nothing did.

    Args:
        spins: The `noise` of each run.
        others: How many processors other processes took meanwhile, in each.
    """
    noisy, busy = [each for each in spins if each >= NOISY], [each for each in others if each >= BUSY_OTHERS]
    said = []
    if noisy:
        said.append(
            f"The machine was noisy in {len(noisy)} of {len(spins)} runs: the same counting took up to "
            f"{max(noisy):.1f} times as long as on the quietest occasion. Compare ratios, not figures of other days."
        )
    if busy:
        said.append(
            f"Other processes took up to {max(busy):.1f} processors in {len(busy)} of {len(others)} runs: end them, "
            "and measure again."
        )
    return said
