"""What a store's verbs cost in simulated time; free, unless a cost is charged."""

from dataclasses import dataclass

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

    Raises:
        ValueError: A number of seconds is out of its range.
    """

    push: float = 0.0
    reserve: float = 0.0
    complete: float = 0.0
    release: float = 0.0
    fail: float = 0.0
    serial: bool = True

    def __post_init__(self) -> None:
        for verb in VERBS:
            duration(getattr(self, verb), f"Cost.{verb}")
