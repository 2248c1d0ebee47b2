"""A program: interrupts each verb with a real SIGINT wherever Python would hear one, and says what was left half done.

`python interrupted.py URL EVERY`: at each EVERY-th such place, each time on a queue of its own. Its output is how many
places that were, then a line for each that left something half done.
"""

import dis
import itertools
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import CodeType, FrameType
from typing import Any

from verbs import READING, WRITING, new, prepared, state

from qlab import drivers
from qlab.driver import Driver

HEARS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME")
"""At these instructions Python looks whether a signal has come."""

TRACED = ("/qlab/", "contextlib.py")
"""Whose instructions count."""

VERBS = WRITING | READING


class Interrupt:
    """A trace function that raises SIGINT at one place.

    Args:
        place: Which of the places where Python hears a signal, from 0.

    Attributes:
        where: Where that is; empty where it did not come to it.
    """

    def __init__(self, place: int) -> None:
        self._left = place
        self._last: dict[FrameType, int] = {}
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> "Interrupt | None":
        file = frame.f_code.co_filename
        if not any(part in file for part in TRACED):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and not self.where:
            if (last := self._last.get(frame)) is not None and hears(frame.f_code, last, frame.f_lasti):
                self._count(frame)
            self._last[frame] = frame.f_lasti
        return self

    def _count(self, frame: FrameType) -> None:
        if self._left == 0:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        self._left -= 1


@cache
def hears(code: CodeType, last: int, following: int) -> bool:
    """Whether Python looks for signals at an instruction, so that one raised at the following is handled alike.

    What contextlib handles is no interrupt.
    """
    alike = code.co_filename.endswith("contextlib.py") or _handler(code, last) == _handler(code, following)
    return alike and dis.opname[code.co_code[last]] in HEARS


def _handler(code: CodeType, at: int) -> int | None:
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # noqa: SLF001 - nobody else reads it
    return next((entry.target for entry in table if entry.start <= at < entry.end), None)


def interrupted(driver: Driver, verb: str, place: int) -> tuple[str, list[Any]]:
    """Interrupt a verb at a place; gives where that was, and the states before and after it."""
    queue, interrupt = f"{verb} {place}", Interrupt(place)
    held = prepared(driver, queue)
    before, heard = state(driver, queue), None
    try:
        sys.settrace(interrupt)
        VERBS[verb](driver, queue, held)
    except KeyboardInterrupt as interruption:
        heard = interruption  # a notebook keeps its traceback, and with it whatever was open
    finally:
        sys.settrace(None)
    assert heard or not interrupt.where, f"the interrupt at {interrupt.where} was swallowed"
    with_others(driver, queue)
    return interrupt.where, [before, state(driver, queue)]


def with_others(driver: Driver, queue: str) -> None:
    """Let another thread use the store, which must find nothing locked."""
    other = f"{queue}, another"
    another.submit(driver.push, other, [new(other, "z")], now=1.0).result(60.0)
    another.submit(driver.failed_ids, other).result(60.0)


def problems(driver: Driver, verb: str, every: int) -> Iterator[str]:
    """Interrupt a verb at one place after the other; an empty text for each that left nothing half done."""
    _, may_be = interrupted(driver, verb, sys.maxsize)
    if driver.name == "memory" and verb == "complete_and_reserve":  # which no transaction joins there
        may_be += interrupted(driver, "complete", sys.maxsize - 1)[1]
    for place in itertools.count(0, every):
        where, (_, after) = interrupted(driver, verb, place)
        if not where:
            return
        said = [] if after in may_be else [f"{verb} at {where}: {after}"]
        yield "\n".join(said + driver.check(f"{verb} {place}", now=1.0))


def main(url: str, every: str) -> None:
    with drivers.open(url) as driver:
        said = [problem for verb in VERBS for problem in problems(driver, verb, int(every))]
    sys.stdout.write("\n".join([str(len(said)), *filter(None, said)]))
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    another = ThreadPoolExecutor(1)
    main(*sys.argv[1:])
