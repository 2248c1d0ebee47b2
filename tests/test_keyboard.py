"""A Ctrl-C that comes at a bad moment."""

import signal
import sys
import threading

import pytest

from qlab.interrupts import no_interrupt_dropped


class Interrupted:
    """Is interrupted while it is deleted, where Python drops what is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def wait_after_a_deletion() -> None:
    thing = Interrupted()
    del thing
    threading.Event().wait(60.0)


def test_a_ctrl_c_that_comes_while_something_is_deleted_comes_again() -> None:
    with pytest.raises(KeyboardInterrupt), no_interrupt_dropped():
        wait_after_a_deletion()
    assert sys.unraisablehook.__module__ != "qlab.interrupts"


def test_what_else_a_deletion_raises_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("broken")

    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    with no_interrupt_dropped():
        thing = Broken()
        del thing
    assert told == [ValueError]
