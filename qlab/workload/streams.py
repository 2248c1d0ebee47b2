"""Where a run's chance comes from: one stream of random numbers for each purpose, all from one seed.

Drawing more for one purpose moves no other, so two arms of a comparison meet the same arrivals. Only `random()` of a
stream is used, with formulas of our own: then every Python draws the same bytes.
"""

from random import Random

PURPOSES = ("arrivals", "services", "repeats", "failures", "polls", "faults", "clients", "jitter", "names")
"""What random numbers are drawn for."""


class Streams:
    """The streams of one run.

    Args:
        seed: Where they start; the same seed gives the same numbers.

    Raises:
        TypeError: The seed is no whole number.
    """

    def __init__(self, seed: int = 0) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"seed is {seed!r}: use an integer")
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def of(self, purpose: str) -> Random:
        """Give the stream of a purpose, which goes on where it was left.

        Args:
            purpose: One of `PURPOSES`.

        Raises:
            ValueError: Nothing is drawn for this purpose.
        """
        if purpose not in PURPOSES:
            raise ValueError(f"no random numbers are drawn for {purpose!r}: use one of {', '.join(PURPOSES)}")
        if purpose not in self._streams:
            # Never the seed plus a number: the streams of neighbouring seeds would be each other's.
            self._streams[purpose] = Random(f"{self.seed} {purpose}")
        return self._streams[purpose]

    def __repr__(self) -> str:
        return f"Streams({self.seed})"
