"""What a run is given, and what its workers give back: the same for processes and threads."""

from collections.abc import Callable
from threading import Event
from typing import NamedTuple

from qlab.clock import monotonic
from qlab.contend.arriving import Arriving
from qlab.contend.producer import Produced
from qlab.contend.worker import Worked
from qlab.errors import QlabError
from qlab.queue import Queue
from qlab.scenario import Scenario

PATIENCE = 60.0
"""How many seconds nothing may be done, beyond what jobs and rules take."""


class Stopped(Exception):
    """Somebody wants no more."""


class Killed(QlabError):
    """A worker was killed, and what it did is not known."""


class Plan(NamedTuple):
    """What all runs of a contention share.

    Attributes:
        scenario: What happens.
        coming: The jobs that it brings.
        handlers: The address of the function that registers the handlers; None where they have none.
        register: The function, where threads are to call it; None for the scenario's handlers.
        mode: `process` or `thread`.
        counts_a_second: How far one counts in a second here, undisturbed.
        stop: Set where somebody wants no more.
    """

    scenario: Scenario
    coming: Arriving
    handlers: str | None
    register: Callable[[Queue], object] | None
    mode: str
    counts_a_second: float
    stop: Event

    def check_wanted(self) -> None:
        """Raise `Stopped` where somebody wants no more."""
        if self.stop.is_set():
            raise Stopped

    def check_patience(self, last: float, done: int, jobs: int) -> None:
        """Raise an error where nothing goes on.

        Args:
            last: When something was done last, on the monotonic clock.
            done: How many jobs were done.
            jobs: How many there are.
        """
        if monotonic() > last + self.patience:
            raise QlabError(f"no job was done for {self.patience:g} s: {done} of {jobs} were until then")

    @property
    def patience(self) -> float:
        """How many seconds a pause may be: a job takes its time to come and to run, and one that failed comes again."""
        policy = self.scenario.policy
        longest = max((each.seconds + each.late_by for each in self.scenario.handlers.values()), default=0.0)
        backoff = policy.cap if callable(policy.backoff) else max(policy.backoff, default=0.0)
        return PATIENCE + self.coming.longest_gap + longest + (policy.retry_after or 0.0) + backoff


class Side(NamedTuple):
    """What the workers of a run did, and what was measured beside them.

    Attributes:
        workers: What each worker did.
        produced: What was dispatched meanwhile; None where all jobs were there before.
        epoch: When they began, in seconds of the clock.
        began: The same on the monotonic clock.
        seconds: How long it took until the last of them had told.
        others: How much processor time all but the workers took meanwhile, in seconds; None where nobody tells.
    """

    workers: list[Worked]
    produced: Produced | None
    epoch: float
    began: float
    seconds: float
    others: float | None
