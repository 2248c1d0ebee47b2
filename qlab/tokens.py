"""Random names that nobody else makes: of jobs (uids) and of reservations (tokens)."""

import os
import weakref
from collections.abc import Iterator

_BLOCK = 256
_SLICES = [slice(i, i + 16) for i in range(16, 16 + 16 * _BLOCK, 16)]
_all: "weakref.WeakSet[Tokens]" = weakref.WeakSet()


class Tokens:
    """A source of 32 random hexadecimal digits; the random bytes are drawn in blocks, and a forked child draws its own.

    Those of a block begin with the same 16 digits: in an index they lie side by side, so a table that has a million of
    them is written at few places. Two are as little likely to be the same as if all digits were each one's own.

    Safe to use from several threads: taking one from a block is a single step.
    """

    def __init__(self) -> None:
        self._ready: Iterator[str] = iter(())
        _all.add(self)

    def next(self) -> str:
        """Give 32 hexadecimal digits that were never given before."""
        try:
            return next(self._ready)
        except StopIteration:
            drawn = os.urandom(8 + 8 * _BLOCK).hex()
            block = map(drawn[:16].__add__, map(drawn.__getitem__, _SLICES))
            self._ready = block
            return next(block)


def _after_fork() -> None:
    for tokens in list(_all):
        tokens._ready = iter(())  # noqa: SLF001 - what was drawn is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
