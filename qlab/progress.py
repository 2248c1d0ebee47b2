"""A bar for what takes a while."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from qlab.clock import monotonic

_SOON = 1.0  # seconds without a bar
_OFTEN = 0.25  # seconds between two drawings: a notebook's page draws each


class Bar(Protocol):
    """What is told how far something is."""

    def show(self, share: float, /) -> None:
        """Hear what share of it is over, from 0 to 1; NaN where nobody knows."""


class _Function:
    def __init__(self, tell: Callable[[float], object]) -> None:
        self._tell = tell

    def show(self, share: float) -> None:
        """Tell it the function."""
        self._tell(share)


class _Nothing:
    def show(self, share: float) -> None:
        """Hear it, and keep it to oneself."""


class _Tqdm:
    """A bar that appears when what it is for has taken a while."""

    def __init__(self, disabled: bool | None) -> None:
        self._disabled = disabled
        self._next = monotonic() + _SOON
        self._bar: Any = None

    def show(self, share: float) -> None:
        """Show what share is over, and how long it may still take."""
        if monotonic() < self._next:
            return
        self._next = monotonic() + _OFTEN
        if self._bar is None:
            from tqdm import tqdm  # noqa: PLC0415 - what is over in a second needs none

            form = "running for {elapsed}" if math.isnan(share) else "{l_bar}{bar}| {elapsed}<{remaining}"
            # What a notebook finds in stderr it shows in red, as an error, and a line of it when the bar is gone.
            file = sys.stdout if "ipykernel" in sys.modules else sys.stderr
            self._bar = tqdm(total=1.0, bar_format=form, ncols=78, leave=False, disable=self._disabled, file=file)
        self._bar.n = 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
        self._bar.refresh()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def bar(wanted: bool | Callable[[float], object] | None) -> Iterator[Bar]:
    """Show a bar while something goes on.

    Args:
        wanted: Whether there is one; None for in a terminal or a notebook. Or a function that is told instead.
    """
    if wanted is False:
        yield _Nothing()
    elif wanted is None or wanted is True:
        shown = _Tqdm(disabled=False if wanted or "ipykernel" in sys.modules else None)
        try:
            yield shown
        finally:
            shown.close()
    else:
        yield _Function(wanted)
