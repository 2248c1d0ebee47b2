"""Workers that can be watched: tests wait for what they do, never for time to go by."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from qlab import Queue, Worker
from qlab.driver import Driver

PATIENCE = 60.0
"""How many seconds a test waits for what must happen; it measures nothing."""


class Watched(Worker):
    """A worker that can be waited for; it polls fast, unless the test says otherwise.

    Attributes:
        waits: How many seconds it meant to wait, each time.
    """

    def __init__(self, queue: Queue, *, poll: float = 0.002, **how: Any) -> None:
        super().__init__(queue, poll=poll, **how)
        self.waits: list[float] = []
        self._round_ended = threading.Condition()

    def _round(self) -> float:
        seconds = super()._round()
        with self._round_ended:
            self.waits.append(seconds)
            self._round_ended.notify_all()
        return seconds

    def until_idle(self) -> None:
        """Wait until it has asked and found nothing due: of two more rounds the second begins after this call."""
        self.until_round(len(self.waits) + 2)

    def until_round(self, number: int) -> None:
        """Wait until it has asked so often, in all."""
        with self._round_ended:
            assert self._round_ended.wait_for(lambda: len(self.waits) >= number, PATIENCE)


class Gate:
    """A handler that stands still: it says that it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, job: object) -> None:
        self.begun.set()
        assert self.may_end.wait(PATIENCE)

    def until_begun(self) -> None:
        assert self.begun.wait(PATIENCE)


class Heard(logging.Handler):
    """What qlab logs, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.said.append(record.getMessage())
            self._more.notify_all()

    def count(self, text: str) -> int:
        return sum(text in said for said in self.said)

    def until(self, text: str, times: int = 1) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.count(text) >= times, PATIENCE), self.said


@contextmanager
def heard() -> Iterator[Heard]:
    """Listen to what qlab logs."""
    logger, listener = logging.getLogger("qlab"), Heard()
    logger.addHandler(listener)
    try:
        yield listener
    finally:
        logger.removeHandler(listener)


def spy_on(driver: Driver, verb: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note each time that a driver is asked for a verb."""
    real = getattr(driver, verb)

    def spy(*args: Any, **how: Any) -> Any:
        asked.append(verb)
        return real(*args, **how)

    monkeypatch.setattr(driver, verb, spy)


def eventually(happened: threading.Event) -> bool:
    """Wait for what must happen."""
    return happened.wait(PATIENCE)
