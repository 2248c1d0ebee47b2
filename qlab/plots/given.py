"""What a picture is given: a frame with the columns that it draws."""

import pandas as pd

from qlab.escape import shortened


def check(frame: object, made_by: str, *columns: str, bare: bool = True) -> None:
    """Refuse what is no frame, or one of something else.

    Args:
        frame: What a picture was given.
        made_by: What gives the right one.
        columns: What it must have.
        bare: Whether a frame without any row or column is drawn as one of nothing.

    Raises:
        TypeError: It is no DataFrame.
        ValueError: It lacks a column.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{shortened(repr(frame))} is no DataFrame: draw {made_by}")
    missing = [column for column in columns if column not in frame.columns]
    if missing and not (bare and frame.shape == (0, 0)):
        there = ", ".join(map(str, frame.columns[:12])) or "none"
        raise ValueError(f"the frame has no column {missing[0]!r}; it has {there}: draw {made_by}")
