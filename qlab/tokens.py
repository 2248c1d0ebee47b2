"""Random names that nobody else makes: of jobs (uids) and of reservations (tokens)."""

import os
import weakref
from collections.abc import Iterator

_BLOCK = 256
_SLICES = [slice(i, i + 32) for i in range(0, 32 * _BLOCK, 32)]
_all: "weakref.WeakSet[Tokens]" = weakref.WeakSet()


class Tokens:
    """A source of 32 random hexadecimal digits; the random bytes are drawn in blocks, and a forked child draws its own.

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
            block = map(os.urandom(16 * _BLOCK).hex().__getitem__, _SLICES)
            self._ready = block
            return next(block)


def _after_fork() -> None:
    for tokens in list(_all):
        tokens._ready = iter(())  # noqa: SLF001 - what was drawn is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
