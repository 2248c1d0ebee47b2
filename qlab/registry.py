"""The handlers of a queue, by name."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from qlab.errors import UnknownHandler
from qlab.job import Attempt
from qlab.policy import Backoff, Policy, check_backoff, check_tries

Handler = Callable[[Attempt], Any]
Tries = int | Literal["policy"] | None


class Registered(NamedTuple):
    """A handler with its rules, where it has any of its own.

    Attributes:
        run: The function.
        tries: How many attempts its jobs have; None for no limit, `policy` for the queue's.
        backoff: How long they wait in between; `policy` for the queue's.
    """

    run: Handler
    tries: Tries
    backoff: Backoff | Literal["policy"]


class Registry:
    """The handlers of a queue, by name.

    Attributes:
        get: Gives the handler of a name; None where none has it.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Registered] = {}
        self.get = self._handlers.get

    def add(self, name: str, run: Handler, tries: Tries, backoff: Backoff | Literal["policy"]) -> None:
        """Register a handler; the latest of a name wins.

        Raises:
            TypeError: It is no function, or an async one.
        """
        if not callable(run):
            raise TypeError(f"the handler of {name!r} is {run!r}: use a function that takes the job")
        if inspect.iscoroutinefunction(run) or inspect.isasyncgenfunction(run):
            raise TypeError(
                f"the handler of {name!r} is an async function, which a stepped queue cannot run: use def, "
                "or WorkerService(queue).handler"
            )
        if tries != "policy":
            check_tries(tries)
        self._handlers[name] = Registered(run, tries, "policy" if backoff == "policy" else check_backoff(backoff))

    def copy_to(self, other: "Registry") -> None:
        """Register the same handlers elsewhere."""
        for name, handler in self._handlers.items():
            other.add(name, *handler)

    def rules(self, name: str, policy: Policy) -> tuple[int | None, Backoff]:
        """Tell tries and backoff of a handler's jobs: its own, or the policy's."""
        found = self.get(name)
        tries = policy.tries if found is None or found.tries == "policy" else found.tries
        backoff = policy.backoff if found is None or found.backoff == "policy" else found.backoff
        return tries, backoff

    def find(self, name: str) -> Registered:
        """Find a handler.

        Raises:
            UnknownHandler: None has this name; near names are suggested.
        """
        found = self.get(name)
        if found is None:
            near = difflib.get_close_matches(str(name), self._handlers, n=3)
            there = ", ".join(map(repr, self.names)) or "none"
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"this queue has {there}."
            raise UnknownHandler(f"no handler is called {name!r}: {hint} Register it with @queue.handler({name!r})")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names that have a handler, sorted."""
        return tuple(sorted(self._handlers))


def checked_name(name: str, what: str) -> str:
    """Refuse a name that no store can keep.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty, longer than 255 characters, has a NUL, or a lone surrogate.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} is {name!r}: use text")
    if not name or len(name) > 255 or "\0" in name:
        raise ValueError(f"{what} is {name[:40]!r}: use 1 to 255 characters, without NUL")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {name!r}: a lone surrogate is no Unicode text") from None
    return name
