"""A queue named as `MODULE:QUEUE`, the way uvicorn names an application."""

import difflib
import os
import pkgutil
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from qlab import drivers
from qlab.clock import SimulatedClock
from qlab.errors import DriverUnavailable, MissingRequirement, UnknownQueue
from qlab.escape import error_text, without_password
from qlab.queue import Queue

ADDRESS = "QLAB_URL"
"""The name in the environment of the address that a queue is worked at instead of its own."""

_SUFFIX = ".py"


class Target(NamedTuple):
    """The name of a queue.

    Attributes:
        module: The module that makes it.
        variable: The variable that holds it there; dots lead into objects, and with a number into a list.
    """

    module: str
    variable: str


def parse(text: str) -> Target:
    """Read `MODULE:QUEUE`.

    Raises:
        ValueError: It is something else, or names the notebook or script that runs here.
    """
    module, colon, variable = text.partition(":")
    if module == "__main__":
        raise ValueError(
            f"{text!r}: what a notebook or a script defines is seen by its own process alone: move the queue and its "
            "handlers into a module (%%writefile shop.py in a cell), and write shop:queue"
        )
    if module.endswith(_SUFFIX) and variable:
        dotted = module.removesuffix(_SUFFIX).replace("/", ".").replace("\\", ".").strip(".")
        raise ValueError(f"{text!r}: name the module, not its file: {dotted}:{variable}")
    first, *within = variable.split(".")
    names = [*module.split("."), first, *(name for name in within if not _is_place(name))]
    if not colon or not all(name.isidentifier() for name in names):
        raise ValueError(
            f"{text!r} names no queue: write MODULE:QUEUE, as in shop:queue for `queue = Queue(…)` in shop.py"
        )
    return Target(module, variable)


def load(text: str, url: str | None = None) -> Queue:
    """Import a module and give the queue that it made; the current folder is searched first.

    Args:
        text: `MODULE:QUEUE`.
        url: The store at which it is to be instead of its own: the module finds it in the environment as `QLAB_URL`,
            and where its queue is elsewhere all the same, one like it takes its place there.

    Raises:
        ValueError: It is no such name, or `url` is no address.
        UnknownQueue: The module cannot be imported (its own error is the cause), or has no such queue; near names are
            suggested.
        DriverUnavailable: The module did not reach its store, or `url` is not reached.
        MissingRequirement: It needs what is not installed.
    """
    target = parse(text)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _imported(target.module) if url is None else _imported_for(target, url)
    found = _followed(module, target)
    if not isinstance(found, Queue):
        raise UnknownQueue(f"{text!r} is {_kind(found)}: name a variable that holds a Queue")
    return found if url is None else _moved(found, module, target, url)


def shared(text: str, url: str | None = None) -> Queue:
    """Load a queue that other processes see too; `url` as in `load`.

    Raises:
        ValueError: Only the process that opened its store sees it.
    """
    queue = load(text, url)
    if queue.driver.private:
        queue.close()
        raise ValueError(
            f"{text!r} is a store that only the process sees which opens it ({queue.driver!r}): use "
            "sqlite:///jobs.db or a redis:// address, or workers(queue, 4) in the process that dispatches"
        )
    return queue


def for_processes(text: str, url: str | None = None) -> Queue:
    """Load a queue that several processes are to work; `url` as in `load`.

    Raises:
        ValueError: Only the process that opened its store sees it, or its time is simulated.
    """
    queue = shared(text, url)
    if isinstance(queue.clock, SimulatedClock):
        queue.close()
        raise ValueError(
            f"{text!r} has a SimulatedClock, which stands still in every worker process: make the Queue without clock="
        )
    return queue


def _imported_for(target: Target, url: str) -> ModuleType:
    """Import a module that may ask for the address of a store."""
    os.environ[ADDRESS] = url
    try:
        return _imported(target.module)
    except DriverUnavailable as error:
        if without_password(url.partition("?")[0]) in str(error):
            raise
        raise DriverUnavailable(
            f"the module {target.module!r} opens a store of its own before its queue is at another: let it take its "
            f"address from the environment, Queue(os.environ.get({ADDRESS!r}, …)); {error}"
        ) from error


def _moved(queue: Queue, module: ModuleType, target: Target, url: str) -> Queue:
    driver = drivers.open(url)
    if driver.url == queue.driver.url:
        driver.close()
        return queue
    moved = queue.on(driver)
    around, _, name = target.variable.rpartition(".")
    owner: Any = _followed(module, Target(target.module, around)) if around else module
    if _is_place(name):
        owner[int(name)] = moved
    else:
        setattr(owner, name, moved)
    return moved


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (DriverUnavailable, MissingRequirement):
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        near = _near(name, _modules_beside(name))
        raise UnknownQueue(f"there is no module {name!r} in {Path.cwd()} or on Python's path{near}") from None
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> UnknownQueue:
    return UnknownQueue(f"the module {name!r} cannot be imported: {error_text(error)}")


def _modules_beside(name: str) -> list[str]:
    """List the modules where one of this name would be: in the current folder, or in its package."""
    package, dot, _ = name.rpartition(".")
    try:
        places: Iterable[str] = import_module(package).__path__ if dot else [str(Path.cwd())]
    except (ImportError, AttributeError):
        places, dot = [str(Path.cwd())], ""
    return [f"{package}.{found.name}" if dot else found.name for found in pkgutil.iter_modules(places)]


def _followed(module: ModuleType, target: Target) -> object:
    found: object = module
    for name in target.variable.split("."):
        if _is_place(name):
            found = _at(found, int(name), target)
            continue
        if not hasattr(found, name):
            queues = [each for each, value in vars(module).items() if isinstance(value, Queue)]
            near = _near(name, queues) or _near(name, list(vars(module)))
            there = near or (f"; its queues are {', '.join(map(repr, queues))}" if queues else "; it makes no queue")
            where = getattr(module, "__file__", None) or "built in"
            raise UnknownQueue(f"the module {target.module!r} ({where}) has no {target.variable!r}{there}")
        found = getattr(found, name)
    return found


def _at(found: object, place: int, target: Target) -> object:
    if not isinstance(found, list | tuple):
        raise UnknownQueue(f"{target.module}:{target.variable} takes a place in a list of what is {_kind(found)}")
    if place >= len(found):
        raise UnknownQueue(f"{target.module}:{target.variable} is one too many: there are {len(found)}, from 0")
    return found[place]


def _is_place(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _near(name: str, there: list[str]) -> str:
    near = difflib.get_close_matches(name, there, n=3)
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def _kind(found: object) -> str:
    return f"of type {type(found).__name__}" if not isinstance(found, type) else f"the class {found.__name__}"
