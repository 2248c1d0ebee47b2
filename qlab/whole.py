"""Whole numbers, as a caller gives them."""

import math


def is_whole(number: object, least: int, most: float = math.inf) -> bool:
    """Tell whether something is a whole number in a range.

    Args:
        number: What a caller gave; True and False are no numbers.
        least: The smallest that will do.
        most: The largest that will do.
    """
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most
