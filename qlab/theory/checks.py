"""What a formula refuses, in words that name the value."""

import math


def positive(value: float, name: str) -> float:
    """Give a finite number above 0.

    Raises:
        ValueError: It is none.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}: use a number above 0")
    return float(value)


def not_negative(value: float, name: str) -> float:
    """Give a finite number from 0.

    Raises:
        ValueError: It is none.
    """
    if not _is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}: use a number from 0")
    return float(value)


def share(value: float, name: str, *, below_one: bool = False) -> float:
    """Give a probability.

    Raises:
        ValueError: It is none; or it is 1, where that has no answer.
    """
    if not _is_number(value) or not 0 <= value <= 1 or (below_one and value == 1):
        raise ValueError(f"{name} is {value!r}: use a number from 0 {'up to, but not,' if below_one else 'to'} 1")
    return float(value)


def inside(value: float, name: str) -> float:
    """Give a probability that is neither 0 nor 1.

    Raises:
        ValueError: It is none.
    """
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} is {value!r}: use a number between 0 and 1, such as 0.95")
    return float(value)


def whole(value: int, name: str, least: int = 1) -> int:
    """Give a whole number from `least`.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}: use a whole number from {least}")
    return value


def tries_or_none(tries: int | None) -> int | None:
    """Give a number of tries; None for no limit.

    Raises:
        ValueError: It is neither.
    """
    return None if tries is None else whole(tries, "tries")


def stable(load: float, workers: int) -> None:
    """Refuse more work than the workers can do, for then the wait grows without end.

    Args:
        load: The work that arrives in a second, in seconds.
        workers: How many workers there are.

    Raises:
        ValueError: The utilisation is 1 or more.
    """
    if load >= workers:
        raise ValueError(
            f"utilisation is {load / workers:.4g}, so the wait grows without end: use fewer arrivals, a shorter "
            f"service, or more than {math.floor(load)} workers; with a capacity or clients that wait, MMcK or Closed"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
