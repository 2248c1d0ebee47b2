"""An outbox that sends at a pace and no more than so many a day."""

from dataclasses import dataclass

from qlab.theory.bulk import Bulk
from qlab.theory.checks import not_negative, positive, stable, whole

DAY = 86_400.0


def wait_for_tick(rate: float, tick: float = 60.0) -> float:
    """Tell how many seconds a mail waits on average where a tick sends one: T/2 + T rho/(2 (1 - rho)).

    M/D/1 whose server takes a vacation of one tick whenever there is nothing to send (Cooper, 1970; Takagi, 1991).

    Args:
        rate: How many mails are posted in a second, below one in a tick, as a Poisson process.
        tick: In seconds.

    Raises:
        ValueError: A number is out of its range, or a mail or more is posted in a tick.

    Example:
        >>> from qlab import theory
        >>> theory.wait_for_tick(rate=30 / 3600)
        60.0
    """
    load = positive(rate, "rate") * positive(tick, "tick")
    stable(load, 1)
    return tick / 2 / (1 - load)


@dataclass(frozen=True)
class DailyCap:
    """Mails that are posted as a Poisson process, of which at most so many leave in a day: Bailey's bulk queue (1954).

    Attributes:
        rate: How many mails are posted in a day on average, below the cap.
        cap: How many leave in a day at the most.

    Raises:
        ValueError: A number is out of its range, or more mails are posted than may leave.

    Example:
        >>> from qlab import theory
        >>> quiet, busy = theory.DailyCap(rate=80, cap=100), theory.DailyCap(rate=95, cap=100)
        >>> round(quiet.p_left, 3), round(busy.p_left, 2), round(busy.left, 1)
        (0.014, 0.44, 5.1)
    """

    rate: float
    cap: int

    def __post_init__(self) -> None:
        stable(positive(self.rate, "rate"), whole(self.cap, "cap"))

    @property
    def left(self) -> float:
        """How many mails are left at the end of a day on average."""
        return Bulk(self.rate, self.cap).mean

    @property
    def p_left(self) -> float:
        """The probability that a day ends with mails left."""
        return Bulk(self.rate, self.cap).some_left


def burst_end(mails: int, pace: float = 60.0, cap: int | None = None, day: float = DAY) -> float:
    """Tell when the last of so many mails leaves that are posted at once at midnight, the first leaving at once.

    Args:
        mails: How many, from 1.
        pace: How many seconds lie between two.
        cap: How many leave in a day at the most; None for no cap.
        day: How long it is, in seconds; one on which clocks change is an hour shorter or longer.

    Returns:
        Seconds after that midnight.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.burst_end(500, pace=60, cap=500), theory.burst_end(501, pace=60, cap=500)
        (29940.0, 86400.0)
    """
    last = whole(mails, "mails") - 1
    seconds, length = not_negative(pace, "pace"), positive(day, "day")
    if cap is None or whole(cap, "cap") * seconds >= length:  # the pace alone lets no more leave in a day
        return last * seconds
    days, nth = divmod(last, cap)
    return days * length + nth * seconds
