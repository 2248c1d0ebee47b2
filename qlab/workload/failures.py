"""Which attempts of a simulated job fail."""

from dataclasses import dataclass
from random import Random

from qlab.whole import is_whole
from qlab.workload.distributions import number_in


@dataclass(frozen=True, slots=True)
class Never:
    """No attempt fails.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Never
        >>> Never().fails(1, Random(7))
        False
    """

    def fails(self, attempt: int, random: Random) -> bool:  # noqa: ARG002 - nothing is drawn
        """Tell whether an attempt fails, which is counted from 1."""
        return False


@dataclass(frozen=True, slots=True)
class Always:
    """Every attempt fails.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Always
        >>> Always().fails(1, Random(7))
        True
    """

    def fails(self, attempt: int, random: Random) -> bool:  # noqa: ARG002 - nothing is drawn
        """Tell whether an attempt fails, which is counted from 1."""
        return True


@dataclass(frozen=True, slots=True)
class Chance:
    """An attempt fails with a probability, whatever happened before.

    One random number is drawn for an attempt.

    Attributes:
        p: The probability, from 0 to 1.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of its range.

    Example:
        >>> from random import Random
        >>> from qlab.workload import Chance
        >>> random = Random(7)
        >>> sum(Chance(0.1).fails(1, random) for _ in range(1000))
        108
    """

    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", number_in(self.p, "p", most=1))

    def fails(self, attempt: int, random: Random) -> bool:  # noqa: ARG002 - each is as likely
        """Tell whether an attempt fails, which is counted from 1."""
        return random.random() < self.p


@dataclass(frozen=True, slots=True)
class FirstAttempts:
    """The first attempts of each job fail, the next one succeeds.

    Attributes:
        n: How many, from 0.

    Raises:
        ValueError: It is no such number.

    Example:
        >>> from random import Random
        >>> from qlab.workload import FirstAttempts
        >>> [FirstAttempts(2).fails(attempt, Random(7)) for attempt in (1, 2, 3)]
        [True, True, False]
    """

    n: int

    def __post_init__(self) -> None:
        if not is_whole(self.n, least=0):
            raise ValueError(f"n is {self.n!r}: use a whole number of attempts from 0")

    def fails(self, attempt: int, random: Random) -> bool:  # noqa: ARG002 - nothing is drawn
        """Tell whether an attempt fails, which is counted from 1."""
        return attempt <= self.n


Failures = Never | Always | Chance | FirstAttempts
"""Any of the ways in which attempts fail."""
