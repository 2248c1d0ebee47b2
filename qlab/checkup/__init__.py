"""The checkup of a queue: what is well, what is not, and what to do about it."""

import json
import platform
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

from qlab import __version__, drivers
from qlab.checkup import queue_checks, store_checks
from qlab.checkup.finding import WRONG, Finding, fine, mind, wrong
from qlab.errors import DriverUnavailable, MissingRequirement, QlabError, UnusableStore
from qlab.escape import without_password
from qlab.queue import Queue
from qlab.show import Table

__all__ = ["Checkup", "Finding", "away", "doctor", "here"]

_SUBSHELLS = 7  # the version of ipykernel that has them
_WAYS_OUT = (
    (MissingRequirement, "install what is missing"),
    (DriverUnavailable, "let the store answer, or correct the address; then ask again"),
    (UnusableStore, "correct the address, or put the store right"),
    (ValueError, "correct the address"),
)


class Checkup(Table[Finding]):
    """The findings, in the order in which they were made.

    Args:
        findings: What was found.
        queue: The queue's name.
        url: The store's address.

    Attributes:
        queue: The queue's name.
        url: The store's address, without a password.

    Example:
        >>> from qlab import doctor
        >>> checkup = doctor("memory://")
        >>> checkup.wrong
        []
        >>> checkup[-1].says
        'by default they last 90 s'
    """

    def __init__(self, findings: Iterable[Finding], queue: str, url: str) -> None:
        super().__init__(findings)
        self.queue = queue
        self.url = without_password(url)

    @property
    def wrong(self) -> list[Finding]:
        """What is to be put right."""
        return [finding for finding in self if finding.level == WRONG]

    def json(self) -> str:
        """Write it for machines."""
        told = {"queue": self.queue, "url": self.url, "wrong": len(self.wrong)}
        return json.dumps(told | {"findings": [finding._asdict() for finding in self]}, indent=2)


def doctor(queue: Queue | str, *, name: str = "default") -> Checkup:
    """Look at a queue, its store, its workers and this Python, and say what is wrong and what to do.

    It changes nothing, and raises nothing for what it finds: a store that is away is a finding.

    Args:
        queue: The queue; or a store's address, and then its handlers and policy are not known.
        name: With an address: which queue of the store.

    Returns:
        The findings; `.wrong` are those to be put right.

    Example:
        >>> from qlab import doctor
        >>> [(finding.about, finding.advice) for finding in doctor("sqlite:///not-there.db").wrong]
        [('store', 'correct the address, or put the store right')]
    """
    if isinstance(queue, Queue):
        return Checkup([*here(), *_of(queue, known=True)], queue.name, queue.driver.url)
    try:
        with Queue(drivers.open(queue, create=False), name=name) as opened:
            return Checkup([*here(), *_of(opened, known=False)], name, queue)
    except (QlabError, ValueError) as error:
        return Checkup([*here(), away(error)], name, queue)


def here() -> Iterator[Finding]:
    """Look at this Python: versions, and what the kernel of its notebooks can do."""
    yield fine("qlab", f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    if redis := _version("redis"):
        yield fine("redis-py", redis)
    kernel = _version("ipykernel")
    if kernel is None:
        yield fine("kernel", "no ipykernel: this Python runs no notebooks")
    elif int(kernel.split(".")[0]) < _SUBSHELLS:
        yield mind(
            "kernel",
            f"ipykernel {kernel} does one thing at a time: the board answers only when no cell runs",
            "install ipykernel>=7",
        )
    else:
        yield fine("kernel", f"ipykernel {kernel}: the board answers while a cell runs")


def away(error: Exception) -> Finding:
    """Make a finding of a store, or a queue, that cannot be had."""
    advice = next((advice for kind, advice in _WAYS_OUT if isinstance(error, kind)), "put that right, then ask again")
    return wrong("store", str(error), advice)


def _of(queue: Queue, *, known: bool) -> Iterator[Finding]:
    looks: list[Callable[[Queue], Iterator[Finding]]] = [
        store_checks.store_of,
        queue_checks.jobs_of,
        queue_checks.workers_of,
        lambda queue: queue_checks.runs_of(queue, known=known),
    ]
    if known:
        looks.append(queue_checks.handlers_of)
    said: set[Finding] = set()
    for look in looks:
        try:
            yield from look(queue)
        except QlabError as error:
            found = away(error)
            if found not in said:
                said.add(found)
                yield found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
