"""The contract of `qlab.driver` as small programs, for whoever writes a driver.

`judge(MyDriver)` holds a driver against each of `PROMISES` and gives a table of what it keeps and of how it breaks the
rest; in a test, `qlab.testing.assert_contract(MyDriver)` says the same.

A promise is named as a sentence, and begins on a store, or in a queue, in which nothing is. Its moments are its own,
from 0 s on, for drivers read no clock. `promise` makes one of a function of yours.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from qlab import drivers
from qlab.contract.failing import FAILING
from qlab.contract.promised import Hands, Promise, new, promise
from qlab.contract.serving import SERVING
from qlab.contract.settling import SETTLING
from qlab.contract.storing import STORING
from qlab.contract.taking import TAKING
from qlab.driver import Driver
from qlab.escape import error_text
from qlab.explorer.plays import Store
from qlab.show import Table

__all__ = ["PROMISES", "Hands", "Judged", "Promise", "Verdict", "judge", "new", "promise"]

PROMISES: tuple[Promise, ...] = (*STORING, *TAKING, *SETTLING, *FAILING, *SERVING)
"""All that is held against a driver."""


class Verdict(NamedTuple):
    """Whether a driver keeps a promise.

    Attributes:
        promise: The promise, as a sentence.
        kept: Whether it is kept.
        says: How it is broken; empty where it is kept.

    Example:
        >>> from qlab.contract import Verdict
        >>> Verdict("an id is never given twice", kept=False, says="how many ids four jobs have had: 3")
        ✗ an id is never given twice: how many ids four jobs have had: 3
    """

    promise: str
    kept: bool
    says: str = ""

    def row(self) -> dict[str, object]:
        """Tell the verdict as one row of a table for people."""
        return {"promise": self.promise, "kept": "✓" if self.kept else "✗", "how it is broken": self.says}

    def __repr__(self) -> str:
        return f"✓ {self.promise}" if self.kept else f"✗ {self.promise}: {self.says}"


class Judged(Table[Verdict]):
    """The verdicts, which show themselves as a table in a notebook; otherwise a list.

    Args:
        iterable: The verdicts.

    Example:
        >>> from qlab.contract import PROMISES, judge
        >>> judged = judge("memory://", promises=PROMISES[:3])
        >>> judged.kept, judged.broken
        (3, [])
    """

    @property
    def broken(self) -> "Judged":
        """Those that are broken."""
        return Judged(each for each in self if not each.kept)

    @property
    def kept(self) -> int:
        """How many are kept."""
        return len(self) - len(self.broken)


def judge(driver: Store, *, promises: Sequence[Promise] = PROMISES) -> Judged:
    """Hold a driver against the contract.

    Args:
        driver: What makes one, such as its class; its address; or a driver, which stays open, and in which the promises
            use queues of their own that are emptied afterwards.
        promises: Which promises; all by default.

    Returns:
        A verdict for each promise, in their order. What the driver raises breaks the promise, and is told there; what
        making it raises, is raised.

    Raises:
        TypeError: What makes one is a class that lacks a verb of the contract, or makes none.

    Example:
        >>> from qlab.contract import PROMISES, judge
        >>> from qlab.flaws import FLAWS
        >>> late = [each for each in PROMISES if each.name == "a superseded worker completes nothing"]
        >>> judge(FLAWS["completion by id"], promises=late)
        [✗ a superseded worker completes nothing: what a superseded worker's complete says: True, where False ...]
    """
    return Judged(_verdict(driver, each) for each in promises)


def _verdict(store: Store, promise: Promise) -> Verdict:
    said: list[str] = []
    with _opened(store, said) as driver, _told(said):
        hands = Hands(driver, store)
        try:
            said += filter(None, [promise.broken(hands)])
        finally:
            _empty(hands)
    return Verdict(promise.name, not said, "; ".join(said))


@contextmanager
def _opened(store: Store, said: list[str]) -> Iterator[Driver]:
    """Make a driver, where none is given, and close it; what closing raises is said."""
    if isinstance(store, Driver):
        yield store
        return
    if not (isinstance(store, str) or callable(store)):
        raise TypeError(f"{store!r} makes no driver: use a driver's class, a driver, or an address as 'memory://'")
    driver = drivers.open(store) if isinstance(store, str) else store()
    if not isinstance(driver, Driver):
        raise TypeError(f"{store!r} makes no driver but {driver!r}: its class must be a qlab.driver.Driver")
    try:
        yield driver
    finally:
        with _told(said):
            driver.close()


@contextmanager
def _told(said: list[str]) -> Iterator[None]:
    """Say what a driver raises, for that breaks its promise."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a driver's code may raise anything
        said.append(error_text(error))


def _empty(hands: Hands) -> None:
    """Leave nothing in queues of a store that others may see."""
    with suppress(Exception):  # a driver that cannot was told so by a promise, and a closed one has nothing left here
        for queue in (hands.queue, hands.other):
            hands.driver.clear(queue, now=0.0)
            hands.driver.forget(queue, hands.driver.failed_ids(queue))
