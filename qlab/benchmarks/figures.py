"""What a benchmark is made of: the things that are done, and the numbers that come of them."""

import gc
from collections.abc import Callable
from typing import NamedTuple

from qlab.clock import monotonic, processor_time

Values = dict[str, float]


class Figure(NamedTuple):
    """One number of a benchmark.

    Attributes:
        name: What it is.
        unit: Its unit; empty for a ratio.
        aim: What it should be, in words; empty for one that only explains another.
    """

    name: str
    unit: str = ""
    aim: str = ""


class Benchmark(NamedTuple):
    """Something that is measured.

    Attributes:
        name: What it is called.
        about: What is done, in a sentence.
        figures: Its numbers.
        run: Measures it once with so many jobs, whichever run it is: a value for each figure that it could measure.
        missing: Says why some of its figures cannot be measured here; empty where they can.
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    run: Callable[[int, int], Values]
    missing: Callable[[], str] = lambda: ""


def seconds(act: Callable[..., object], *args: object) -> float:
    """Time one call, in seconds."""
    gc.collect()
    began = monotonic()
    act(*args)
    return monotonic() - began


def processor_seconds(act: Callable[..., object], *args: object) -> float:
    """Tell how many seconds of the processor one call takes in this process; for what waits for nothing."""
    gc.collect()
    began = processor_time()
    act(*args)
    return processor_time() - began
