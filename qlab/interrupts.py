"""A person at the keyboard: the first Ctrl-C may be heard in good order, the second interrupts."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def first_interrupt(hear: Callable[[], object]) -> Iterator[None]:
    """Let the first Ctrl-C call a function, and the next interrupt as ever.

    Nothing changes where it cannot, in a thread other than the main one, or where the application handles Ctrl-C.

    Args:
        hear: What is called, between any two instructions of the main thread.
    """
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        hear()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is first:
            signal.signal(signal.SIGINT, usual)


def let_through(error: BaseException) -> None:
    """Raise a caught error again where it is the interrupt of a person at the keyboard.

    Anything else is some other code's error, also a `KeyboardInterrupt` in a thread that no keyboard reaches.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
