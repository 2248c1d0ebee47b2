"""The handlers of a worker in real time: what a scenario says that they do, or the reader's own."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from random import Random
from typing import Any

from qlab.as_json import made, stated
from qlab.job import Attempt
from qlab.queue import Queue
from qlab.scenario import KINDS, Behaviour, Scenario
from qlab.workload.failures import Failures

Spend = Callable[[float], object]

_AWAY = "move it into a module (%%writefile shop.py in a cell), and write handlers='shop:register'"


def part_of(scenario: Scenario) -> dict[str, Any]:
    """Say as JSON what a worker must know of a scenario to act in it."""
    workload = scenario.workload
    names = () if workload is None else workload.handlers
    drawn = {name: (workload.service_of(name), workload.failures_of(name)) for name in names if workload is not None}
    told: dict[str, Any] = stated({"behaviours": dict(scenario.handlers), "drawn": drawn, "seed": scenario.seed}, KINDS)
    return told


def act(queue: Queue, part: Mapping[str, Any], wait: Spend, counts_a_second: float, *, worker: int) -> None:
    """Register a scenario's handlers on a worker's queue.

    Args:
        queue: The worker's queue.
        part: What `part_of` gave.
        wait: Waits for so many seconds, or until nobody wants the worker any more.
        counts_a_second: How far one counts in a second, undisturbed.
        worker: Which worker it is, from 0: each draws numbers of its own.
    """
    known = made(part, KINDS)
    random = Random(f"{known['seed']} services {worker}")
    for name, (service, failures) in known["drawn"].items():
        queue.handler(name)(_drawing(service.sampler(random), failures, random, wait))
    for name, behaviour in known["behaviours"].items():
        queue.handler(name)(_behaving(behaviour, _counting(counts_a_second) if behaviour.busy else wait))


def address_of(handlers: object) -> str:
    """Give the address of the function that registers the reader's handlers, which worker processes can import.

    Args:
        handlers: `module:function`, or a function that lies in a module.

    Raises:
        TypeError: It is neither.
        ValueError: No other process can import it.
    """
    if isinstance(handlers, str):
        module, _, name = handlers.partition(":")
        if not module or not name:
            raise ValueError(f"handlers is {handlers!r}: write module:function, as in 'shop:register'")
    elif callable(handlers):
        module, name = getattr(handlers, "__module__", "") or "", getattr(handlers, "__qualname__", "")
        if module != "__main__" and (not module or not name.isidentifier()):
            raise ValueError(
                f"handlers is {handlers!r}, which has no name of its own in a module, so no worker process can import "
                "it: use a function at a module's top that registers on the queue that it is given"
            )
    else:
        raise TypeError(f"handlers is {handlers!r}: use 'module:function', or a function that lies in a module")
    if module == "__main__":
        raise ValueError(
            f"handlers is {handlers!r}: worker processes do not see what a notebook or a script defines; {_AWAY}, or "
            "use mode='thread'"
        )
    return f"{module}:{name}"


def function_at(address: str) -> Callable[[Queue], object]:
    """Import the function at an address.

    Raises:
        ValueError: There is none.
    """
    module, _, name = address.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"handlers is {address!r}, which cannot be imported: {error}. Modules are looked for in "
            f"{', '.join(place or '.' for place in sys.path[:3])} …"
        ) from error
    if not callable(function):
        raise ValueError(f"handlers is {address!r}, which is {function!r}: name a function of a queue")
    registers: Callable[[Queue], object] = function
    return registers


# -- what handlers do --


def _behaving(behaviour: Behaviour, spend: Spend) -> Callable[[Attempt], None]:
    seconds, fails, late_by, error = behaviour[:4]
    if not seconds and not fails and not late_by and fails is not None:
        return _nothing

    def behave(job: Attempt) -> None:
        job.payload  # noqa: B018 - it is decoded when it is read, as every handler does
        spend(seconds + (late_by if job.number == 1 else 0.0))
        if fails is None or job.number <= fails:
            raise RuntimeError(error)

    return behave


def _drawing(draw: Callable[[], int], failures: Failures, random: Random, wait: Spend) -> Callable[[Attempt], None]:
    def behave(job: Attempt) -> None:
        job.payload  # noqa: B018 - as above
        if taking := draw():
            wait(taking / 1_000_000)
        if failures.fails(job.number, random):
            raise RuntimeError("no luck this time")

    return behave


def _nothing(job: Attempt) -> None:
    job.payload  # noqa: B018 - as above


def _counting(counts_a_second: float) -> Spend:
    """Spend time on the processor: so much counting that it takes the seconds where nobody else wants it."""

    def spend(seconds: float) -> None:
        for _ in range(round(seconds * counts_a_second)):
            pass

    return spend
