"""What stands before another driver, and changes some of its verbs: all others go through as they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from qlab.driver import Counts, Driver, Durability, Mark, Statement
from qlab.job import FailedJob, Job, NewJob, Reservation


class Before(Driver):
    """A driver that stands before another one.

    Args:
        store: The driver that keeps the jobs; it closes with this one.
    """

    def __init__(self, store: Driver) -> None:
        super().__init__()
        self._store = store
        self.url, self.name, self.order, self.wakes = store.url, store.name, store.order, store.wakes

    @property
    def store(self) -> Driver:
        return self._store.store

    @property
    def description(self) -> str:
        return self._store.description

    @property
    def private(self) -> bool:
        return self._store.private

    @property
    def durability(self) -> Durability:
        return self._store.durability

    def push(self, queue: str, jobs: Sequence[NewJob], *, now: float, resent: bool = False) -> list[Job]:
        return self._store.push(queue, jobs, now=now, resent=resent)

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        return self._store.reserve(queue, now=now, retry_after=retry_after, limit=limit)

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return self._store.complete(reservation, now=now)

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        return self._store.complete_and_reserve(reservation, now=now, retry_after=retry_after)

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        return self._store.release(reservation, now=now, delay=delay)

    def extend(self, reservation: Reservation, *, now: float, seconds: float) -> bool:
        return self._store.extend(reservation, now=now, seconds=seconds)

    def progress(self, reservation: Reservation, *, now: float, done: int, total: int) -> None:
        self._store.progress(reservation, now=now, done=done, total=total)

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        return self._store.fail(reservation, now=now, attempts=attempts, error=error, traceback=traceback)

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        return self._store.recover(queue, now=now, force=force)

    def clear(self, queue: str, *, now: float) -> int:
        return self._store.clear(queue, now=now)

    def failed(self, queue: str, *, after: int = 0, limit: int | None = None) -> list[FailedJob]:
        return self._store.failed(queue, after=after, limit=limit)

    def failed_ids(self, queue: str, *, before: float | None = None) -> list[int]:
        return self._store.failed_ids(queue, before=before)

    def retry(self, queue: str, ids: Sequence[int], *, now: float, body: str | None = None) -> list[tuple[int, Job]]:
        return self._store.retry(queue, ids, now=now, body=body)

    def forget(self, queue: str, ids: Sequence[int]) -> list[int]:
        return self._store.forget(queue, ids)

    def counts(self, queue: str, *, now: float) -> Counts:
        return self._store.counts(queue, now=now)

    def jobs(self, queue: str, *, now: float) -> list[Job]:
        return self._store.jobs(queue, now=now)

    def next_due(self, queue: str, *, now: float) -> float | None:
        return self._store.next_due(queue, now=now)

    def check(self, queue: str, *, now: float) -> list[str]:
        return self._store.check(queue, now=now)

    def wait(self, queue: str, seconds: float) -> bool:
        return self._store.wait(queue, seconds)

    def mark(self, queue: str, mark: Mark) -> None:
        self._store.mark(queue, mark)

    def unmark(self, queue: str, kind: str, name: str) -> None:
        self._store.unmark(queue, kind, name)

    def marks(self, queue: str) -> list[Mark]:
        return self._store.marks(queue)

    def blocked(self) -> float:
        return self._store.blocked()

    def listen(self, tell: Callable[[Statement], None]) -> None:
        self._store.listen(tell)

    @contextmanager
    def statements(self) -> Iterator[list[Statement]]:
        with self._store.statements() as seen:
            yield seen

    def close(self) -> None:
        self._store.close()
