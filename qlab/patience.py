"""How long a worker waits: where nothing is due, and where its store is away."""

import random

from qlab.clock import duration, monotonic
from qlab.errors import QlabError
from qlab.escape import error_text
from qlab.log import log

FIRST_WAIT = 0.1
"""How many seconds a store that has just gone is waited for, before jitter; twice as long each time."""
LONGEST_WAIT = 5.0
"""How many seconds a store that stays away is waited for at the most, before jitter."""

_chance = random.SystemRandom()  # no seed of an application's, and no two forked workers alike


class Patience:
    """The waits of one worker: each is its own length, whatever any clock says or did.

    Args:
        poll: How many seconds to wait where nothing is due.
        jitter: By which share of itself each wait is made longer or shorter, from 0 to 1.
        who: Whose waits they are, for the log.

    Attributes:
        poll: How many seconds to wait where nothing is due.
        jitter: By which share of itself each wait is made longer or shorter.
        gone: Whether the store is away.

    Raises:
        ValueError: `poll` is not above 0, or `jitter` is not from 0 to 1.
    """

    def __init__(self, poll: float, jitter: float, who: str) -> None:
        self.poll, self.jitter = duration(poll, "poll"), duration(jitter, "jitter")
        if self.poll == 0:
            raise ValueError(f"poll is {poll!r}: use a number of seconds above 0")
        if self.jitter > 1:
            raise ValueError(f"jitter is {jitter!r}: use a share of the wait, from 0 to 1")
        self._who = who
        self.gone = False
        self._gone_at = 0.0
        self._next = FIRST_WAIT

    def idle(self) -> float:
        """Tell how many seconds to wait where nothing is due."""
        return self._varied(self.poll)

    def away(self, error: Exception) -> float:
        """Tell how many seconds to wait where the store has raised an error; it is logged when it begins to."""
        if not self.gone:
            self.gone, self._gone_at, self._next = True, monotonic(), FIRST_WAIT
            if isinstance(error, QlabError):
                log.warning("worker=%s: its store is away, and is waited for: %s", self._who, error_text(error))
            else:
                log.error("worker=%s: something went wrong, and is tried again", self._who, exc_info=error)
        seconds, self._next = self._next, min(2 * self._next, LONGEST_WAIT)
        return self._varied(seconds)

    def answered(self) -> None:
        """Hear that the store answers; it is logged where it had been away."""
        if self.gone:
            log.warning("worker=%s: its store is back after %.1f s", self._who, monotonic() - self._gone_at)
            self.gone = False

    def _varied(self, seconds: float) -> float:
        return seconds * _chance.uniform(1 - self.jitter, 1 + self.jitter)
