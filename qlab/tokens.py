"""Random names that nobody else makes: of jobs (uids) and of reservations (tokens)."""

import os

_BLOCK = 256


class Tokens:
    """A source of 32 random hexadecimal digits; the random bytes are drawn in blocks, and a forked child draws its own.

    Safe to use from several threads: taking one from a block is a single step.
    """

    def __init__(self) -> None:
        self._ready: list[str] = []
        self._pid = os.getpid()

    def next(self) -> str:
        """Give 32 hexadecimal digits that were never given before."""
        if self._pid != os.getpid():
            self._ready, self._pid = [], os.getpid()
        try:
            return self._ready.pop()
        except IndexError:
            drawn = os.urandom(16 * _BLOCK).hex()
            block = [drawn[i : i + 32] for i in range(0, len(drawn), 32)]
            self._ready = block
            return block.pop()
