"""A worker in asyncio: runs `async def` handlers, several at a time, in a loop that is already running or its own."""

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Self, TypeVar

from qlab.async_attempt import AsyncAttempt, Errands
from qlab.errors import InternalHandlerError, QueueClosed
from qlab.interrupts import first_interrupt, let_through
from qlab.job import Attempt, Release, Reservation
from qlab.log import log
from qlab.outcome import Outcome
from qlab.patience import Patience
from qlab.policy import Backoff
from qlab.queue import Queue
from qlab.registry import Tries
from qlab.running import Ended
from qlab.signs import Signs
from qlab.whole import is_whole
from qlab.worker import Recover, Recovery, Worked

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class WorkerService:
    """Works a queue inside asyncio: `async def` handlers run in the loop, `def` handlers in threads.

    `await service.serve()` or `async with service:` in a loop that is already running, as a notebook's; `service.run()`
    makes its own. No call of a driver is made in the loop's thread. A service serves once.

    Cancelling `serve` is a stop in good order: the jobs in hand are finished, and no other is taken. Cancelled once
    more, it cancels the `async def` handlers, whose jobs are given back with their attempts counted; a `def` handler
    cannot be stopped, and is left to itself.

    Args:
        queue: The queue. Its clock tells the time of jobs; the waits are in real time with any clock.
        concurrency: How many jobs are in hand at the most, from 1.
        name: What the trace and the log call it; each place has this name and a number.
        poll: After how many seconds it asks again where nothing is due; it asks once for all places.
        jitter: By which share of itself each wait is made longer or shorter, from 0 to 1.
        recover: What it makes ready again before it begins: `"expired"`, `"force"` or None, as a `Worker` does.

    Attributes:
        queue: The queue.
        name: What the trace and the log call it.
        concurrency: How many jobs are in hand at the most.

    Raises:
        TypeError: It is given no queue.
        ValueError: A number is out of its range, or `recover` is none of its choices.

    Example:
        >>> from qlab import Queue, WorkerService
        >>> service = WorkerService(Queue("memory://"), concurrency=2)
        >>> @service.handler("mail")
        ... async def mail(job):
        ...     service.stop()
        >>> _ = service.queue.dispatch("mail")
        >>> service.run().completed
        1
    """

    def __init__(
        self,
        queue: Queue,
        *,
        concurrency: int = 4,
        name: str = "service",
        poll: float = 1.0,
        jitter: float = 0.5,
        recover: Recover = "expired",
    ) -> None:
        if not isinstance(queue, Queue):
            raise TypeError(f"a service works a Queue, not {queue!r}")
        if not is_whole(concurrency, 1):
            raise ValueError(f"concurrency is {concurrency!r}: use how many jobs are in hand at once, from 1")
        self.queue = queue
        self.name = name
        self.concurrency = concurrency
        self._recovery = Recovery(queue, recover)
        self._patience = Patience(poll, jitter, name)
        self._signs = Signs(queue, name, self._patience.poll * (1 + self._patience.jitter))
        self._tally: Counter[str] = Counter()
        self._async_names: set[str] = set()
        self._places = [f"{name} {number}" for number in range(concurrency, 0, -1)]
        self._stopping = self._leaving = False
        self._serving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._changed: asyncio.Future[None] | None = None
        self._in_hand: dict[asyncio.Future[Outcome], str] = {}
        self._handlers: set[asyncio.Task[Any]] = set()

    @property
    def worked(self) -> Worked:
        """What it has done so far."""
        return Worked(*(self._tally[how] for how in Worked._fields))

    def handler(
        self, name: str, *, tries: Tries = "policy", backoff: Backoff | Literal["policy"] = "policy"
    ) -> Callable[[Decorated], Decorated]:
        """Register the function below as the handler of a name: an `async def` or a `def`; run again, the latest wins.

        An `async def` takes an `AsyncAttempt`, a `def` takes an `Attempt`; else like `Queue.handler`.

        Args:
            name: The handler's name.
            tries: How many attempts its jobs have; the policy's by default.
            backoff: How long its jobs wait between attempts; the policy's by default.

        Raises:
            TypeError: It is no function, or an asynchronous generator.
        """
        register = self.queue.handler(name, tries=tries, backoff=backoff)

        def chosen(run: Decorated) -> Decorated:
            is_async = inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(type(run).__call__)
            register(self._in_the_loop(run) if is_async else run)
            (self._async_names.add if is_async else self._async_names.discard)(name)
            return run

        return chosen

    # -- its life --

    async def serve(self) -> Worked:
        """Work in the running loop until `stop` is called, the queue is closed, or this is cancelled.

        Returns:
            What it did.

        Raises:
            RuntimeError: It serves, or has served, already.
        """
        self._begin()
        await self._until_ended()
        return self.worked

    def run(self) -> Worked:
        """Work in a loop of its own until `stop` is called from another thread, or the queue is closed.

        The first Ctrl-C is a `stop`, the second interrupts.

        Returns:
            What it did.

        Raises:
            RuntimeError: A loop runs in this thread already; or it serves, or has served, already.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with first_interrupt(self.stop):
                return asyncio.run(self.serve())
        raise RuntimeError("a loop runs in this thread already: use `await service.serve()`")

    def stop(self) -> None:
        """Let the jobs in hand be finished and no other be taken; from any thread, for good, and waits for nothing."""
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, so the service has ended
                self._loop.call_soon_threadsafe(self._wake)

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stop()
        await self._until_ended()

    def __repr__(self) -> str:
        return f"<WorkerService {self.name!r} of {self.queue!r}, {self.concurrency} at a time>"

    def _begin(self) -> None:
        if self._serving is not None:
            raise RuntimeError(f"{self!r} serves, or has served, already: make another WorkerService")
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._serving = self._loop.create_task(self._serve(), name=f"qlab {self.name}")

    async def _until_ended(self) -> None:
        """Wait for the end: a cancellation is a stop, and the next one cancels the handlers."""
        cancelled: asyncio.CancelledError | None = None
        while self._serving is not None and not self._serving.done():
            try:
                await asyncio.wait([self._serving])
            except asyncio.CancelledError as error:
                cancelled = error
                self._leave() if self._stopping else self.stop()
        if cancelled is not None:
            raise cancelled
        if self._serving is not None:
            self._serving.result()

    # -- the loop --

    async def _serve(self) -> None:
        threads = ThreadPoolExecutor(self.concurrency + 1, thread_name_prefix=f"qlab {self.name}")
        try:
            while not self._stopping:
                self._changed = asyncio.get_running_loop().create_future()
                seconds = await self._round(threads) if self._places else None
                if seconds != 0 and not self._stopping:
                    await self._until([self._changed], seconds)
            while finishing := [attempt for attempt, name in self._in_hand.items() if self._waits_for(name)]:
                await self._until(finishing)
            for left in list(self._in_hand):
                left.cancel()  # its thread goes on, and settles the job if its handler ends after all
            await self._until([asyncio.get_running_loop().run_in_executor(threads, self._signs.gone)])
        finally:
            threads.shutdown(wait=False)

    async def _round(self, threads: ThreadPoolExecutor) -> float:
        """Take the next job, and tell how many seconds to wait before asking again."""
        place = self._places[-1]
        asking = asyncio.get_running_loop().run_in_executor(threads, self._reserve, place)
        while not asking.done():  # what it reserves must not be lost
            await self._until([asking])
        try:
            held = asking.result()
        except QueueClosed:
            log.warning("worker=%s: its queue is closed, so it ends", self.name)
            self._stopping = True
            return 0
        except Exception as error:  # noqa: BLE001 - a service outlives whatever its store, clock or trace raises
            return self._patience.away(error)
        self._patience.answered()
        if held is None:
            return self._patience.idle()
        self._places.pop()
        attempt = asyncio.get_running_loop().run_in_executor(threads, self._attempt, held, place)
        self._in_hand[attempt] = held.job.name
        attempt.add_done_callback(partial(self._ended, place))
        return 0

    def _reserve(self, place: str) -> Reservation | None:
        self._recovery.make()
        self._signs.alive()
        return None if self._stopping else self.queue.reserve(worker=place)

    def _attempt(self, held: Reservation, place: str) -> Outcome:
        if self._leaving:
            return self.queue.settle(held, Ended(Release()), worker=place)
        return self.queue.finish(held, worker=place, holding=lambda _: self._signs.ran(held))

    def _ended(self, place: str, attempt: "asyncio.Future[Outcome]") -> None:
        del self._in_hand[attempt]
        self._places.append(place)
        self._wake()
        if attempt.cancelled():
            return
        if error := attempt.exception():
            log.error("worker=%s: something went wrong after a handler ended", place, exc_info=error)
        else:
            self._tally[type(attempt.result()).__name__.lower()] += 1

    async def _until(self, changes: "Collection[asyncio.Future[Any]]", seconds: float | None = None) -> None:
        """Wait for the first of some changes; who cancels this very task is ending the loop."""
        try:
            await asyncio.wait(changes, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave()

    def _waits_for(self, name: str) -> bool:
        return not self._leaving or name in self._async_names

    def _leave(self) -> None:
        self._stopping = self._leaving = True
        for handler in self._handlers:
            handler.cancel()
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # -- handlers in the loop --

    def _in_the_loop(self, run: Callable[..., Any]) -> Callable[[Attempt], Any]:
        """Make a handler that lets the loop run an async one, and does meanwhile what that asks for."""

        def handler(attempt: Attempt) -> Any:
            if self._loop is None or self._loop.is_closed() or threading.get_ident() == self._loop_thread:
                raise InternalHandlerError(
                    f"the handler of {attempt.name!r} is an async function: its WorkerService runs it while it serves, "
                    "and no step by hand can"
                )
            errands = Errands()
            handled = asyncio.run_coroutine_threadsafe(self._handle(run, AsyncAttempt(attempt, errands)), self._loop)
            handled.add_done_callback(lambda _: errands.end())
            errands.do()
            ended = handled.result()
            if ended.error is not None:
                raise ended.error
            return ended.returned

        return handler

    async def _handle(self, run: Callable[..., Any], attempt: AsyncAttempt) -> Ended:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that was given to a loop runs in a task
        self._handlers.add(task)
        try:
            return Ended(Release() if self._leaving else await run(attempt))
        except asyncio.CancelledError as error:
            return Ended(Release()) if task.cancelling() else Ended(error=error)  # from outside, or its own doing
        except BaseException as error:  # noqa: BLE001 - a SystemExit would end the loop, and not only its attempt
            let_through(error)
            return Ended(error=error)
        finally:
            self._handlers.discard(task)
