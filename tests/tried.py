"""What was tried: tests that try a great deal add it up here, and the run ends with a table of it."""

from collections import Counter
from collections.abc import Iterator

WHAT = (
    *("random programs", "steps of them", "jobs", "worker processes killed", "servers killed and started again"),
    *("misbehaving replies", "attempts that ran a job once more", "lost", "in two places"),
)
"""The columns, in order; `lost` and `in two places` are asserted to be 0 by the tests that count them."""


class Tried:
    """Counts, by what was tried and on which driver."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._drivers: list[str] = []

    def add(self, driver: str, what: str, count: int = 1) -> None:
        """Add to a column, in the line of a driver."""
        assert what in WHAT, what
        if driver not in self._drivers:
            self._drivers.append(driver)
        self._counts[what, driver] += count

    def lines(self) -> Iterator[str]:
        """The table, in Markdown."""
        if not self._counts:
            return
        told = [what for what in WHAT if any((what, driver) in self._counts for driver in self._drivers)]
        yield f"| on | {' | '.join(told)} |"
        yield f"|---|{'--:|' * len(told)}"
        for driver in self._drivers:
            cells = [self._counts.get((what, driver)) for what in told]
            yield f"| {driver} | {' | '.join('' if cell is None else f'{cell:,}' for cell in cells)} |"
