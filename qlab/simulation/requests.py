"""What clients saw: each request, how many times it was asked, and when it was answered."""

from array import array
from collections.abc import Mapping

NOTHING = -(2**62)
"""The microsecond that stands for one that never came."""


class Requests:
    """Every request of a run's clients, in the order in which they came.

    Attributes:
        started_at: When each came, in microseconds.
        asked: How many times its client asked.
        answered_at: When its job was done in time, in microseconds; `NOTHING` where it was not.
        given_up_at: When its client gave up, in microseconds; `NOTHING` where it did not.
    """

    COLUMNS = ("started_at", "asked", "answered_at", "given_up_at")

    def __init__(self) -> None:
        self.started_at, self.asked = array("q"), array("q")
        self.answered_at, self.given_up_at = array("q"), array("q")

    def begin(self, now: int) -> int:
        """Write down a request that comes at a microsecond. Returns its place."""
        for column, value in zip(self.columns().values(), (now, 0, NOTHING, NOTHING), strict=True):
            column.append(value)
        return len(self) - 1

    def ask(self, request: int) -> None:
        """Write down that its client asks."""
        self.asked[request] += 1

    def answer(self, request: int, now: int) -> None:
        """Write down that its job is done in time, at a microsecond."""
        self.answered_at[request] = now

    def give_up(self, request: int, now: int) -> None:
        """Write down that its client gives up, at a microsecond."""
        self.given_up_at[request] = now

    def columns(self) -> "dict[str, array[int]]":
        """Give the columns, by name."""
        return {name: getattr(self, name) for name in self.COLUMNS}

    @classmethod
    def of_columns(cls, columns: "Mapping[str, array[int]]") -> "Requests":
        """Make of columns what gives them.

        Raises:
            ValueError: These are no columns of requests.
        """
        requests = cls()
        for name, column in requests.columns().items():
            given = columns.get(name)
            if given is None or given.typecode != "q" or len(given) != len(columns[cls.COLUMNS[0]]):
                raise ValueError(f"the column {name!r} is missing, or not as long as the others, or of another type")
            column.extend(given)
        return requests

    def __len__(self) -> int:
        return len(self.started_at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requests) and self.columns() == other.columns()

    __hash__ = None  # type: ignore[assignment]  # it grows, so it cannot be a key

    def __repr__(self) -> str:
        answered = sum(at != NOTHING for at in self.answered_at)
        return f"<{len(self):,} requests, {answered:,} answered>"
