"""Work that a widget's callback hands over, so that the callback itself returns at once."""

import threading
from collections import deque
from collections.abc import Callable

Errand = Callable[[], None]


class Errands:
    """Does one thing after another on a thread of its own, which ends when there is nothing left to do.

    An errand tells its own errors: nobody else hears of them here.
    """

    def __init__(self) -> None:
        self._waiting: deque[Errand] = deque()
        self._lock = threading.Lock()
        self._done = threading.Condition(self._lock)
        self._busy = False

    def add(self, errand: Errand) -> None:
        """Do this when what was added before is done."""
        with self._lock:
            self._waiting.append(errand)
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="qlab-board", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to do; tell whether that came in time."""
        with self._done:
            return self._done.wait_for(lambda: not self._busy, seconds)

    def forget(self) -> None:
        """Drop what has not been begun."""
        with self._lock:
            self._waiting.clear()

    def _work(self) -> None:
        try:
            while (errand := self._next()) is not None:
                errand()
        except BaseException:
            with self._done:  # this thread ends here; what waits gets another one with the next errand
                self._busy = False
                self._done.notify_all()
            raise

    def _next(self) -> Errand | None:
        with self._done:
            if self._waiting:
                return self._waiting.popleft()
            self._busy = False
            self._done.notify_all()
            return None
