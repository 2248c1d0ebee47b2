"""saq on Redis: its asyncio worker in burst mode, with its ten jobs at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from saq import Worker
from saq.queue.redis import RedisQueue

from qlab.peers.handled import handle

_READ_TIMEOUT = 0.1  # seconds that a read waits where nothing is left: after the last job, which ends what is measured


async def job(_context: Any, *, number: int) -> None:
    """Handle a job."""
    handle(number)


def enqueue(address: str, numbers: Iterable[int]) -> None:
    """Store a job for each number, one at a time."""

    async def store() -> None:
        async with _open(address) as queue:
            for number in numbers:
                await queue.enqueue("job", number=number)

    asyncio.run(store())


def worker(address: str) -> Callable[[], None]:
    """Open the queue; what is returned works until nothing is left.

    The queue is swept before. A worker does that at its start, unless somebody did within a minute, and may then take a
    job that it has reserved just now for one that is stuck: it would run twice.
    """

    async def sweep() -> None:
        async with _open(address) as queue:
            await queue.sweep()

    async def work() -> None:
        async with _open(address) as queue:
            await Worker(queue, [job], burst=True, dequeue_timeout=_READ_TIMEOUT).start()

    asyncio.run(sweep())
    return lambda: asyncio.run(work())


def left(address: str) -> int:
    """Count the jobs that the store knows of, held or not."""

    async def count() -> int:
        async with _open(address) as queue:
            return int(await queue.count("incomplete"))

    return asyncio.run(count())


@asynccontextmanager
async def _open(address: str) -> AsyncIterator[Any]:
    queue = RedisQueue.from_url(address)
    try:
        yield queue
    finally:
        await queue.disconnect()
