"""Carry what clients and a server say to each other, later by a stated time, as a network would.

Run by its path and never imported, so that it needs nothing but the standard library:

    python -I -S relay_process.py SECONDS PATH
    python -I -S relay_process.py SECONDS HOST PORT

Its first line of output is the port of 127.0.0.1 on which it listens. Everything is carried in order, half of the
seconds later each way. It ends where its standard input does, and so with whoever started it.
"""

import asyncio
import os
import selectors
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, cast

Connect = Callable[[Callable[[], "End"]], Coroutine[Any, Any, tuple[asyncio.BaseTransport, asyncio.BaseProtocol]]]


class End(asyncio.Protocol):
    """One end of a connection that is carried: what is said here is delivered at the other end, later.

    Args:
        delay: How many seconds later.
        connect: Opens a connection to the server; None at the server's end.
    """

    def __init__(self, delay: float, connect: Connect | None = None) -> None:
        self._delay = delay
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._carried: deque[tuple[float, bytes | None]] = deque()
        self._heard_all = False
        self._other: End

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; a client is not listened to before the server's end is there."""
        self._transport = cast("asyncio.Transport", transport)
        if self._connect is not None:
            self._transport.pause_reading()
            self._joining = self._loop.create_task(self._join(self._connect))

    async def _join(self, connect: Connect) -> None:
        try:
            _, other = await connect(lambda: End(self._delay))
        except OSError:
            self._transport.abort()
            return
        self._other = cast("End", other)
        self._other._other = self  # noqa: SLF001 - the two are of one class
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Carry data to the other end."""
        self._other.deliver(data)

    def eof_received(self) -> bool:
        """Carry the end of what is said here; what the other end still says is carried, too."""
        self._heard_all = True
        self._other.deliver(b"")
        return True

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio tells it
        """Carry the end of the connection."""
        if hasattr(self, "_other"):
            self._other.deliver(None)

    def pause_writing(self) -> None:
        """Do not listen to the other end while this one takes nothing."""
        self._other._transport.pause_reading()  # noqa: SLF001 - the two are of one class

    def resume_writing(self) -> None:
        """Listen again."""
        self._other._transport.resume_reading()  # noqa: SLF001 - the two are of one class

    def deliver(self, data: bytes | None) -> None:
        """Say something here in a while; nothing is the last that is said, and None ends the connection."""
        self._carried.append((self._loop.time() + self._delay, data))
        if len(self._carried) == 1:
            self._loop.call_at(self._carried[0][0], self._deliver_due)

    def _deliver_due(self) -> None:
        now = self._loop.time()
        while self._carried and self._carried[0][0] <= now:
            self._say(self._carried.popleft()[1])
        if self._carried:
            self._loop.call_at(self._carried[0][0], self._deliver_due)

    def _say(self, data: bytes | None) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)
        elif data is None or self._heard_all:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()


async def main(seconds: str, *place: str) -> None:
    """Carry until standard input ends."""
    loop = asyncio.get_running_loop()

    def connect(made: Callable[[], End]) -> Coroutine[Any, Any, tuple[asyncio.BaseTransport, asyncio.BaseProtocol]]:
        if len(place) > 1:
            return loop.create_connection(made, place[0], int(place[1]))
        return loop.create_unix_connection(made, place[0])

    server = await loop.create_server(lambda: End(float(seconds) / 2, connect), "127.0.0.1", 0)
    ended = loop.create_future()
    Thread(
        target=_read_to_the_end, args=[lambda: loop.call_soon_threadsafe(ended.set_result, None)], daemon=True
    ).start()
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await ended
    server.close()


def _read_to_the_end(ended: Callable[[], object]) -> None:
    while os.read(0, 1_024):
        pass
    ended()


if __name__ == "__main__":
    # The usual selector rounds what it waits up to whole milliseconds, which are the very times that are added here.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(main(*sys.argv[1:]))
