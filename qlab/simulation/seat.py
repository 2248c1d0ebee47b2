"""A worker's place in simulated time."""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field

from qlab.job import Reservation
from qlab.running import Ended


@dataclass(slots=True)
class Seat:
    """A worker's place.

    Attributes:
        name: Who sits here, as the trace tells it.
        held: The job in its hands.
        until: When its handler's present step ends, in seconds; None while no handler runs.
        paused: Whether it stands still, with whatever it holds.
        gone: Whether it has crashed, or has left.
        leaving: Whether it was told to stop: it takes no further job.
        behind: What it has reserved beside, and runs next.
        ahead: How far its clock is ahead, in seconds.
        planned: The serial number of what is planned for the job in its hands; 0 for nothing.
        asking: The serial number of its next poll; 0 where none is planned.
        beat: The first moment at which it asks, in microseconds, where it asks at a beat.
        ended: How its handler ended, where the store is not told yet.
        steps: Its handler as a generator; None where only the time goes by that it takes.
        telling: Whether the store is being told how its handler ended.
        judged: Whether chance has had its say on how its handler ends.
        still: The serial number of the end of its pause; 0 where none is planned.
        still_since: Since when it stands still, in seconds.
        still_until: Until when it stands still, in seconds, where that is planned.
        back: The serial number of its return; 0 where none is planned.
        grace: The serial number of the end of the grace that it was given when it was told to stop; 0 for none.
    """

    name: str
    held: Reservation | None = None
    until: float | None = None
    paused: bool = False
    gone: bool = False
    leaving: bool = False
    behind: deque[Reservation] = field(default_factory=deque)
    ahead: float = 0.0
    planned: int = 0
    asking: int = 0
    beat: int = 0
    ended: Ended | None = field(default=None, repr=False)
    steps: Generator[float, None, Ended] | None = field(default=None, repr=False)
    telling: bool = False
    judged: bool = False
    still: int = 0
    still_since: float = 0.0
    still_until: float = 0.0
    back: int = 0
    grace: int = 0

    @property
    def free(self) -> bool:
        """Whether it can take a job."""
        return self.held is None and not self.paused and not self.gone and not self.leaving

    @property
    def holding(self) -> bool:
        """Whether it could begin to run the job that it holds."""
        return self.held is not None and self.until is None and not (self.steps or self.paused or self.telling)
