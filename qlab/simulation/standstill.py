"""Things that happen for ever while no time goes by, which no run would come out of."""

from qlab.errors import EndlessMoment
from qlab.trace import Trace

MOST = 200_000
"""How many things may happen at one moment, beside those that come at it by plan."""


class Standstill:
    """Notices that a run stands still.

    Args:
        trace: What happens.
        most: How many things may happen at one moment.
    """

    def __init__(self, trace: Trace, most: int) -> None:
        self._trace = trace
        self._most = most
        self._at = -1.0
        self._happened = 0

    def look(self, now: float, happened: int) -> None:
        """Hear, at a moment in seconds, how many things have happened since the last look.

        Raises:
            EndlessMoment: Too many of them have happened at this moment.
        """
        self._happened = self._happened + happened if now == self._at else 0
        self._at = now
        if self._happened > self._most:
            last = f", the last: {self._trace[-1].says}" if len(self._trace) else ""
            raise EndlessMoment(
                f"more than {self._most:,} things happened at {now:g} s{last}. No time goes by: give jobs a service "
                "time or a backoff above 0, or a number of tries, or say how many there are"
            )
