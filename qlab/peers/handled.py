"""The handler that every queue runs when it is measured: it only notes its job, which shows that each ran once."""

from qlab.clock import monotonic


class Handled:
    """What one worker process handled.

    Attributes:
        numbers: The numbers of the jobs, in order.
        last: When the last was handled, on the machine's monotonic clock, in seconds.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.last = 0.0

    def note(self, number: int) -> None:
        """Note a job, and the moment."""
        self.numbers.append(number)
        self.last = monotonic()


HANDLED = Handled()
"""What this process handled."""


def handle(number: int) -> None:
    """Handle a job."""
    HANDLED.note(number)
