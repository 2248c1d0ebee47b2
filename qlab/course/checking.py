"""Whether an exercise's answer is right; one that is not yet gets a hint, and no traceback."""

import re
from collections.abc import Callable
from typing import NamedTuple

from qlab.escape import error_text, html

Check = tuple[Callable[[], object], str]


class Checked(NamedTuple):
    """What a check says; a cell ends with it.

    Attributes:
        passed: Whether the answer is right.
        says: `Right.`, or what is not yet and a hint.

    Example:
        >>> from qlab.course import check
        >>> checked = check((lambda: 1 + 1 == 3, "Count again."))
        >>> checked.passed, checked.says
        (False, 'Not yet. Hint: Count again.')
    """

    passed: bool
    says: str

    def __repr__(self) -> str:
        return f"{'✓' if self.passed else '✗'} {self.says}"

    def _repr_html_(self) -> str:
        colour = "#009e73" if self.passed else "#d55e00"
        style = f"border-left:4px solid {colour};padding:.3em .8em;margin:.3em 0"
        says = re.sub(r"`([^`]+)`", r"<code>\1</code>", html(self.says))
        return f'<div role="status" style="{style}"><b>{"✓" if self.passed else "✗"}</b> {says}</div>'


def check(*checks: Check) -> Checked:
    """Check an answer; the first thing that is not true yet gives its hint.

    Args:
        checks: `(passed, hint)` pairs: a function without arguments, whose value says whether this is right, and what
            to look at where it is not, with code between backticks. What it raises counts as not right yet.

    Returns:
        What to show; nothing is raised for an answer, so the cells below run all the same.

    Raises:
        TypeError: A check is no such pair.

    Example:
        >>> from qlab.course import check
        >>> answer = ...
        >>> check((lambda: answer == 3, "Count the crosses."))
        ✗ Not yet. Hint: Count the crosses.
        >>> answer = 3
        >>> check((lambda: answer == 3, "Count the crosses."))
        ✓ Right.
    """
    if not checks:
        raise TypeError("check() has nothing to check: use check((lambda: answer == 3, 'a hint'))")
    for each in checks:
        if not (isinstance(each, tuple) and len(each) == 2 and callable(each[0]) and isinstance(each[1], str)):
            raise TypeError(f"{each!r} is no check: use a pair, as in (lambda: answer == 3, 'a hint')")
        passed, hint = each
        try:
            right, why = (value := passed()) is not Ellipsis and bool(value), ""
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an answer may be anything
            said = error_text(error)
            right, why = False, "" if "ellipsis" in said.lower() else f" ({said})"  # nothing was written yet
        if not right:
            return Checked(False, f"Not yet{why}. Hint: {hint}")
    return Checked(True, "Right.")
