"""Where paths are played: each on a store of its own, or in a queue of its own where the store is a shared one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from qlab import drivers
from qlab.clock import SimulatedClock
from qlab.driver import Driver
from qlab.explorer.interleaving import Path
from qlab.explorer.situation import Situation
from qlab.explorer.stage import Stage
from qlab.explorer.walks import Here
from qlab.queue import Queue
from qlab.tokens import Tokens

Store = Driver | str | Callable[[], Driver]
"""A driver, its address, or what makes one, such as a flaw's class."""


class Plays:
    """Plays paths of one situation on one kind of store.

    Args:
        situation: What is to be done.
        driver: A driver, which stays open; its address; or what makes one.
    """

    def __init__(self, situation: Situation, driver: Store) -> None:
        self.situation = situation
        self._driver = driver
        self._shared: Driver | None = driver if isinstance(driver, Driver) else None
        self._name = f"explore {Tokens().next()[:12]}"

    def __enter__(self) -> Self:
        if isinstance(self._driver, str) and self._shared is None:
            opened = drivers.open(self._driver)
            if not opened.url.startswith("memory:"):
                self._shared = opened
                return self
            opened.close()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shared is not None and self._shared is not self._driver:
            self._shared.close()
            self._shared = None

    @property
    def description(self) -> str:
        """What is behind it."""
        with self._opened() as driver:
            return driver.description

    def play(self, path: Path) -> Here | None:
        """Take the steps of a path, and name their jobs; None where the last of them cannot be taken."""
        with self.stage(path) as stage:
            for step in path[:-1]:
                stage.take(step, sure=True)
            try:
                last = [step._replace(job=stage.take(step).job) for step in path[-1:]]
            except ValueError:
                return None
            possible = stage.possible()
            return Here((*path[:-1], *last), stage.state(last=True), possible)

    @contextmanager
    def stage(self, path: Path) -> Iterator[Stage]:
        """Make a stage for a path."""
        with self._opened() as driver:
            queue = Queue(driver, clock=SimulatedClock(), name=self._name)
            try:
                with queue.unlogged():
                    yield Stage(self.situation, queue, path)
            finally:
                if self._shared is not None:
                    queue.clear()
                    queue.forget("all")

    @contextmanager
    def _opened(self) -> Iterator[Driver]:
        if self._shared is not None:
            yield self._shared
            return
        with _made(self._driver) as driver:
            yield driver


def _made(store: Store) -> Driver:
    if isinstance(store, Driver):
        return store
    return drivers.open(store) if isinstance(store, str) else store()
