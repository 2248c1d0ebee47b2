"""A person at the keyboard: a Ctrl-C may be heard in good order, or wait for a moment."""

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_A_MOMENT = 0.02  # seconds


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


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Let a SIGTERM be heard as a Ctrl-C, so that nothing is left behind; also where Ctrl-C itself is ignored.

    Nothing changes where it cannot, in a thread other than the main one, or where the application handles SIGTERM.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def hear(number: int, frame: FrameType | None) -> None:
        usual = signal.getsignal(signal.SIGINT)
        (usual if callable(usual) else signal.default_int_handler)(number, frame)

    signal.signal(signal.SIGTERM, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def no_interrupt_dropped() -> Iterator[None]:
    """Let a Ctrl-C that came in the middle of a `__del__`, where Python drops what is raised, come again soon."""
    usual = sys.unraisablehook

    def hear(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is KeyboardInterrupt:
            threading.Timer(_A_MOMENT, _interrupt).start()  # in here it would be dropped again
        else:
            usual(dropped)

    sys.unraisablehook = hear
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # also where it waits for something


def let_through(error: BaseException) -> None:
    """Raise a caught error again where it is the interrupt of a person at the keyboard.

    Anything else is some other code's error, also a `KeyboardInterrupt` in a thread that no keyboard reaches.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


class Deferred:
    """A context in which a Ctrl-C waits until it ends, so that what stands in it is done whole or not begun.

    For a few instructions that wait for nothing: it takes some 10 µs. Nothing changes in a thread that no keyboard
    reaches.
    """

    def __enter__(self) -> None:
        self._heard: tuple[int, FrameType | None] | None = None
        reached = threading.current_thread() is threading.main_thread()
        self._usual = signal.getsignal(signal.SIGINT) if reached else None
        if callable(self._usual):
            signal.signal(signal.SIGINT, self._hear)

    def __exit__(self, *exc: object) -> None:
        if callable(self._usual):
            signal.signal(signal.SIGINT, self._usual)
            if self._heard is not None:
                self._usual(*self._heard)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = number, frame
