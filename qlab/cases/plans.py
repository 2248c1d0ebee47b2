"""What computes a case: one run of the simulator, and what is read from it."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from qlab.cases.case import Case
from qlab.policy import Policy

if TYPE_CHECKING:
    from qlab.simulation import Run

SEED = 7
"""Where every run's chance starts, so that a case that passes once passes always."""


ENDLESS = Policy(retry_after=None, backoff=())
"""Reservations that never run out: most workers neither vanish nor are late."""


class Simulate(Protocol):
    """What runs a scenario, as `qlab.simulate` does."""

    def __call__(self, queue: Any, /, **stated: Any) -> "Run":
        """Run it on a queue or a store, or on the one of an address."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a case is computed.

    Attributes:
        key: Cases with equal keys read one and the same run.
        run: Simulates it, and gives what was observed.
        read: Reads the metric from that.
    """

    key: Hashable
    run: Callable[[Simulate], Any]
    read: Callable[[Any], float | str]


def simulated(simulate: Simulate, store: Any = "memory://", /, **stated: Any) -> "Run":
    """Run it quietly, by default with one worker that wakes at once, and reservations that never run out."""
    usual = {"workers": 1, "poll": None, "policy": ENDLESS, "seed": SEED, "progress": False, "record_polls": False}
    return simulate(store, **(usual | stated))


def key_of(case: Case) -> Hashable:
    """Give what two cases of one run have in common."""
    return case.group, case.model, repr(sorted(case.params.items())), case.jobs, case.warmup, case.flaw


def pick(case: Case, metrics: Mapping[str, Callable[[Any], float]]) -> Callable[[Any], float]:
    """Give what reads a case's metric.

    Raises:
        CaseError: Its group has no such metric.
    """
    if case.metric not in metrics:
        raise case.unknown_metric(", ".join(metrics))
    return metrics[case.metric]


def close(got: Any, expected: Any, allowed: float) -> bool:
    """Tell whether something observed is what was expected: numbers within so much, lists and objects part by part."""
    if isinstance(expected, bool) or not isinstance(expected, int | float | list | Mapping):
        return bool(got == expected)
    if isinstance(expected, list):
        return (
            isinstance(got, list)
            and len(got) == len(expected)
            and all(close(one, other, allowed) for one, other in zip(got, expected, strict=True))
        )
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(close(got.get(key), each, allowed) for key, each in expected.items())
    return isinstance(got, int | float) and not isinstance(got, bool) and abs(got - expected) <= allowed
