"""Who takes part in an order of steps: workers, jobs, and the handler that runs them."""

from collections.abc import Sequence
from dataclasses import dataclass

from qlab.explorer.interleaving import JobView, WorkerView
from qlab.job import Attempt, Reservation
from qlab.registry import Handler
from qlab.running import Ended
from qlab.scenario import Behaviour


@dataclass(slots=True)
class Hand:
    """A worker, what it has in hand, and how its handler ended.

    Attributes:
        name: What it is called.
        alive: Whether it has not crashed.
        held: What it holds.
        job: The number of that job; 0 for none.
        reservation: Which reservation of the job it is, from 1; 0 for none.
        ended: How its handler ended; None while it runs.
    """

    name: str
    alive: bool = True
    held: Reservation | None = None
    job: int = 0
    reservation: int = 0
    ended: Ended | None = None

    @property
    def reserved(self) -> Reservation:
        """What it holds, where it is known to hold something."""
        assert self.held is not None  # noqa: S101 - only a step that is possible is taken
        return self.held

    def take(self, held: Reservation, job: int, reservation: int) -> None:
        """Take a job in hand."""
        self.held, self.job, self.reservation, self.ended = held, job, reservation, None

    def drop(self) -> None:
        """Have nothing in hand any more."""
        self.held, self.job, self.reservation, self.ended = None, 0, 0, None

    def view(self, number: int, superseded: bool) -> WorkerView:
        """Show it."""
        if self.held is None:
            return WorkerView(number, "idle" if self.alive else "crashed", name=self.name)
        doing, attempt = "runs" if self.ended is None else "ended", self.held.job.attempts
        return WorkerView(number, doing, self.job, self.reservation, attempt, superseded, self.name)


@dataclass(slots=True)
class Card:
    """What is known of a job that its store does not tell; the attributes are those of `JobView`."""

    reserved: int = 0
    holder: int = 0
    started: int = 0
    ended: int = 0
    succeeded: int = 0
    completed: int = 0
    passed: tuple[int, ...] = ()

    def back(self) -> None:
        """Have it in nobody's hands any more."""
        self.holder, self.passed = 0, ()

    def view(self, number: int, places: Sequence[tuple[str, int]]) -> JobView:
        """Show it.

        Args:
            number: Which job it is.
            places: Where the store has it, each with the attempts that it counts there.
        """
        return JobView(
            number, tuple(sorted(place for place, _ in places)), max((attempts for _, attempts in places), default=0),
            self.reserved, self.holder, self.started, self.ended, self.succeeded, self.completed, self.passed,
        )  # fmt: skip


def handler(behaviour: Behaviour) -> Handler:
    """Make the handler that fails in as many attempts as a scenario says."""

    def run(job: Attempt) -> None:
        if behaviour.fails is None or job.number <= behaviour.fails:
            raise RuntimeError(behaviour.error)

    return run
