"""One run of an `async def` handler, whose verbs are awaited: what it asks for is done beside its loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from qlab.job import Attempt, Job, Reservation

Answer = TypeVar("Answer")


class Errands:
    """What an `async def` handler asks its queue for: done in the thread of its attempt, never in the loop's."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._over = False

    async def ask(self, act: Callable[[], Answer]) -> Answer:
        """Have something done, and wait for the answer."""
        if self._over:
            raise RuntimeError("the handler has returned, and its attempt is over: await all that it starts")
        answer: Future[Answer] = Future()

        def fulfil() -> None:
            try:
                answer.set_result(act())
            except BaseException as error:  # noqa: BLE001 - it is raised where the handler awaits
                answer.set_exception(error)

        self._asked.put(fulfil)
        return await asyncio.shield(asyncio.wrap_future(answer))

    def end(self) -> None:
        """Take no more."""
        self._over = True
        self._asked.put(None)

    def do(self) -> None:
        """Do what is asked for, one after another, until the end."""
        while (act := self._asked.get()) is not None:
            act()


class AsyncAttempt:
    """One run of an `async def` handler on a job: an `Attempt` whose verbs are awaited.

    Attributes:
        id: The job's id.
        name: The handler's name.
        number: Which attempt this is, from 1.
        context: What the application gave the queue, usually its database.
        reservation: What the service holds.
    """

    def __init__(self, attempt: Attempt, errands: Errands) -> None:
        self.id = attempt.id
        self.name = attempt.name
        self.number = attempt.number
        self.context = attempt.context
        self.reservation: Reservation = attempt.reservation
        self._attempt = attempt
        self._ask = errands.ask

    @property
    def payload(self) -> Any:
        """The payload; every attempt gets its own."""
        return self._attempt.payload

    async def extend(self, seconds: float) -> bool:
        """Make the reservation run out this many seconds from now; False means that the job is another's now."""
        return await self._ask(lambda: self._attempt.extend(seconds))

    async def progress(self, done: int, total: int) -> None:
        """Record how far the job has come, for those who watch."""
        await self._ask(lambda: self._attempt.progress(done, total))

    async def dispatch(self, name: str, payload: Any = None, *, delay: float = 0.0) -> Job:
        """Dispatch another job to the same queue; `delay` in seconds."""
        return await self._ask(lambda: self._attempt.dispatch(name, payload, delay=delay))

    def __repr__(self) -> str:
        return f"AsyncAttempt(job={self.id}, name={self.name!r}, number={self.number})"
