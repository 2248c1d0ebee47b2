"""What a store's verbs cost in simulated time; free, unless a cost is charged."""

from dataclasses import dataclass
from pathlib import Path

from qlab import saved
from qlab.as_json import classes
from qlab.clock import duration

VERBS = ("push", "reserve", "complete", "release", "fail")
"""The verbs that cost something."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How many seconds each verb of a store takes; what it does, it does at the end of them.

    Attributes:
        push: To dispatch a job.
        reserve: To reserve a job, or to find none.
        complete: To complete a job.
        release: To release a job.
        fail: To move a job to the failed ones.
        serial: Whether the store does one of them at a time, as SQLite's writer does and a Redis server: then they
            queue up for it.
        about: What they were measured on.

    Raises:
        TypeError: A number of seconds is no number.
        ValueError: A number of seconds is out of its range.

    Example:
        >>> from qlab import Cost, simulate
        >>> from qlab.workload import Every, Workload
        >>> cost = Cost(push=0.001, reserve=0.001, complete=0.001)
        >>> simulate("memory://", workload=Workload(Every(1), jobs=1), poll=None, cost=cost).until
        0.004
    """

    push: float = 0.0
    reserve: float = 0.0
    complete: float = 0.0
    release: float = 0.0
    fail: float = 0.0
    serial: bool = True
    about: str = ""

    def __post_init__(self) -> None:
        for verb in VERBS:
            duration(getattr(self, verb), f"Cost.{verb}")

    def save(self, path: saved.AnyPath) -> Path:
        """Write it as readable JSON, the whole file or none, and tell where.

        Raises:
            OSError: The file cannot be written; what was there before still is.
        """
        return saved.save(self, path, classes(Cost))

    @classmethod
    def load(cls, path: saved.AnyPath) -> "Cost":
        """Read what `save` wrote, and what `qlab calibrate --save` writes.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no such file, from a newer qlab, or damaged.
        """
        return saved.load(path, cls, classes(Cost))
