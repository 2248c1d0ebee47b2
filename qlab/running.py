"""Running a handler: what it returns, raises or yields, and nothing that it does ends its worker."""

import inspect
import os
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NoReturn

from qlab.clock import duration
from qlab.errors import InternalHandlerError
from qlab.escape import error_text
from qlab.forks import generation
from qlab.interrupts import let_through
from qlab.job import Attempt, Release
from qlab.log import log
from qlab.registry import Handler


@dataclass(frozen=True, slots=True)
class Ended:
    """How a handler ended.

    Attributes:
        returned: What it returned.
        error: What it raised; None where it returned.
    """

    returned: Any = None
    error: BaseException | None = None


RETURNED = Ended()
"""How a handler ended that returned nothing: nearly all do."""


def called(run: Handler, attempt: Attempt) -> Ended:
    """Call a handler; whatever it raises is its attempt's failure, never the worker's."""
    process = generation()
    try:
        returned = run(attempt)
        ended = RETURNED if returned is None else _returned(returned)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and its worker must live
        let_through(error)
        ended = Ended(error=error)
    if generation() != process:
        _end_child(ended)
    return ended


def stepped(steps: Generator[Any, Any, Any]) -> float | Ended:
    """Take a generator handler's next step: the seconds that it spends, or how it ended."""
    process = generation()
    step: float | Ended
    try:
        step = _spent(next(steps))
    except StopIteration as stop:
        step = _returned(stop.value)
    except BaseException as error:  # noqa: BLE001 - as above
        let_through(error)
        step = Ended(error=error)
    if generation() != process:
        _end_child(step)
    return step


def close(steps: Generator[Any, Any, Any]) -> None:
    """Stop a generator handler, which is perhaps half way."""
    try:
        steps.close()
    except BaseException as error:  # noqa: BLE001 - as above
        let_through(error)
        log.warning("a handler that was stopped half way raised %s", error_text(error))


def _returned(value: Any) -> Ended:
    try:
        return Ended(_checked(value))
    except BaseException as error:  # noqa: BLE001 - as above
        let_through(error)
        return Ended(error=error)


def _end_child(ended: object) -> NoReturn:
    """End a process that a handler has forked and that came back out of it: it would become a second worker.

    It skips what is done at an exit, as each fork should: that is the parent's to do.
    """
    error = ended.error if isinstance(ended, Ended) else None
    code = error.code if isinstance(error, SystemExit) else "it came back from the handler that had forked it"
    log.error("process %s ends: %s", os.getpid(), error_text(error) if error else code)
    os._exit(code if isinstance(code, int) else code is not None)


def _spent(seconds: Any) -> float:
    try:
        return duration(seconds, "what the handler yields")
    except (TypeError, ValueError) as error:
        raise InternalHandlerError(f"a generator handler yields the seconds that it spends: {error}") from error


def _checked(returned: Any) -> Any:
    if inspect.iscoroutine(returned):
        returned.close()
    if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
        raise InternalHandlerError("the handler returned a coroutine, which nobody awaits: use def, not async def")
    if isinstance(returned, Release):
        return Release(duration(returned.delay, "the delay of Release"))
    return returned
