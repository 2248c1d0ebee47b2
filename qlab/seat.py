"""A worker's place at the bench."""

from collections.abc import Generator
from dataclasses import dataclass, field

from qlab.job import Reservation
from qlab.steps import Ended


@dataclass(slots=True)
class Seat:
    """A worker's place.

    Attributes:
        name: Who sits here, as the trace tells it.
        held: The job in its hands.
        until: When its handler's present step ends, in seconds; None while no handler runs.
        paused: Whether it stands still, with whatever it holds.
        gone: Whether it has crashed.
    """

    name: str
    held: Reservation | None = None
    until: float | None = None
    paused: bool = False
    gone: bool = False
    steps: Generator[float, None, Ended] | None = field(default=None, repr=False)

    @property
    def free(self) -> bool:
        """Whether it can take a job."""
        return self.held is None and not self.paused and not self.gone

    @property
    def holding(self) -> bool:
        """Whether it could begin to run the job that it holds."""
        return self.held is not None and self.steps is None and not self.paused
