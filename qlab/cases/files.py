"""Files of cases: what they are made of, and the one that comes with the package."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from qlab.cases.case import Case, CaseError, parse
from qlab.whole import is_whole


@dataclass(frozen=True, slots=True)
class StatedTrace:
    """What exactly is to happen where nothing is left to chance.

    Attributes:
        id: Its name.
        input: What is done: the system, in numbers and words.
        expected: What is to come of it, by what is observed.
        allowed: How far off a number may be, in its own unit.
        flaw: Whether it runs on a store with a flaw.
        group: `trace`.

    Example:
        >>> from qlab import cases
        >>> trace = cases.shipped().traces[0]
        >>> trace.id, trace.input["workers"], len(trace.expected["jobs"])
        ('trace.fifo.c1', 1, 8)
    """

    id: str
    input: Mapping[str, Any]
    expected: Mapping[str, Any]
    allowed: float
    flaw: bool = False
    group: str = "trace"

    @property
    def where(self) -> str:
        """How an error names it."""
        return f"trace {self.id!r}"

    def wrong(self, what: str) -> CaseError:
        """Make the error that says what is wrong with it."""
        return CaseError(f"{self.where}: {what}")


@dataclass(frozen=True, slots=True)
class StatedOrders:
    """How many orders of steps there are of one job and two workers, and how they end.

    Attributes:
        id: Its name.
        mode: Which reservation completes a job.
        expiries: How many reservations run out, at the most.
        crashes: How many workers crash, at the most.
        tries: How many attempts the job has.
        expected: `interleavings`, `outcomes` and, if stated, `states`.
        group: `interleavings`.

    Example:
        >>> from qlab import cases
        >>> orders = cases.shipped().interleavings[0]
        >>> orders.mode, orders.expiries, orders.expected
        ('ack_id', 0, {'interleavings': 2, 'states': 6, 'outcomes': {'done once': 2}})
    """

    id: str
    mode: str
    expiries: int
    crashes: int
    tries: int
    expected: Mapping[str, Any]
    group: str = "interleavings"

    def wrong(self, what: str) -> CaseError:
        """Make the error that says what is wrong with it."""
        return CaseError(f"{self.id}: {what}")


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a file.

    Attributes:
        source: Where they were read from.
        cases: What is expected of systems, in the file's order.
        traces: What exactly is to happen.
        interleavings: How many orders of steps there are, and how they end.
        ci_tier: The cases that are judged often, by id; all where the file does not say.

    Example:
        >>> from qlab import cases
        >>> shipped = cases.shipped()
        >>> len(shipped.tier("ci").cases) < len(shipped.cases)
        True
        >>> shipped.only("mm1").cases[0].id
        'mm1.rho0.5.Wq'
    """

    source: str
    cases: tuple[Case, ...]
    traces: tuple[StatedTrace, ...] = ()
    interleavings: tuple[StatedOrders, ...] = ()
    ci_tier: frozenset[str] = frozenset()

    @property
    def names(self) -> dict[str, str]:
        """The group of each case, trace and count of orders, by its id."""
        stated: list[Case | StatedTrace | StatedOrders] = [*self.cases, *self.traces, *self.interleavings]
        return {each.id: each.group for each in stated}

    def tier(self, tier: str) -> "Cases":
        """Keep the cases of a tier: `ci` for those that are judged often, and all that is exact; or `all`."""
        if tier == "all":
            return self
        kept = tuple(case for case in self.cases if case.id in self.ci_tier)
        return Cases(self.source, kept, self.traces, self.interleavings, self.ci_tier)

    def only(self, name: str) -> "Cases":
        """Keep what is of a group, or the one of an id.

        Raises:
            CaseError: There is none.
        """
        cases = tuple(case for case in self.cases if name in (case.group, case.id))
        traces = tuple(trace for trace in self.traces if name in (trace.group, trace.id))
        orders = tuple(each for each in self.interleavings if name in (each.group, each.id))
        if not cases and not traces and not orders:
            groups = ", ".join(dict.fromkeys(self.names.values()))
            raise CaseError(f"{self.source} has no group and no case {name!r}; its groups are {groups}")
        return Cases(self.source, cases, traces, orders, self.ci_tier)


def shipped() -> Cases:
    """Give the cases that come with the package.

    Example:
        >>> from qlab import cases
        >>> shipped = cases.shipped()
        >>> shipped.cases[0].id, shipped.cases[0].model
        ('mm1.rho0.5.Wq', 'M/M/1: Poisson arrivals, exponential services, one worker, in order of arrival')
    """
    text = resources.files("qlab.cases").joinpath("cases.json").read_text(encoding="utf-8")
    return parsed(text, "qlab's file of cases")


def read(path: str | Path) -> Cases:
    """Read a file of cases.

    Args:
        path: A JSON file: an object with `cases`, and if it has them `traces`, `interleavings` and `ci_tier`.

    Raises:
        CaseError: There is no such file, it is no JSON, or something in it is no case; the message names it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from qlab import cases
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine = Path(folder, "mine.json")
        ...     _ = mine.write_text('{"cases": []}')
        ...     cases.read(mine).cases
        ()
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise CaseError(f"{path} cannot be read: {reason}") from error
    return parsed(text, str(path))


def parsed(text: str, source: str) -> Cases:
    """Make cases of a file's text.

    Raises:
        CaseError: It is no JSON, or something in it is no case.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{source} is no JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise CaseError(f"{source} is no file of cases: it needs an object with a list named cases")
    cases = tuple(parse(each, f"{source}, case {n}") for n, each in enumerate(content["cases"], 1))
    traces = tuple(_trace(each, f"{source}, trace {n}") for n, each in enumerate(_list(content, "traces", source), 1))
    orders = content.get("interleavings")
    stated = _list(orders, "cases", f"{source}, interleavings") if isinstance(orders, dict) else []
    counts = tuple(_orders(each, f"{source}, interleavings {n}") for n, each in enumerate(stated, 1))
    ids = Counter([*(case.id for case in cases), *(trace.id for trace in traces), *(each.id for each in counts)])
    if twice := [each for each, count in ids.items() if count > 1]:
        raise CaseError(f"{source} has {twice[0]!r} twice: give each its own id")
    tier = _list(content, "ci_tier", source) if "ci_tier" in content else list(ids)
    if unknown := [each for each in tier if each not in ids]:
        raise CaseError(f"{source} has no case {unknown[0]!r}, which its ci_tier names")
    return Cases(source, cases, traces, counts, frozenset(tier))


def _list(content: Mapping[str, Any], key: str, source: str) -> list[Any]:
    value = content.get(key) or []
    if not isinstance(value, list):
        raise CaseError(f"{source}: its {key} is {str(value)[:60]!r}: use a list")
    return value


def _trace(value: object, place: str) -> StatedTrace:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise CaseError(f"{place}: {str(value)[:60]!r} is no trace: use an object with an id")
    where, tolerance = f"trace {value['id']!r}", value.get("tolerance") or {}
    if isinstance(value.get("jobs"), list):  # arrivals and services are given, and beside each what is to come of it
        given = {"jobs": value["jobs"], "workers": value.get("workers", 1)}
        expected = {"jobs": value["jobs"], **({"little": value["little"]} if "little" in value else {})}
    else:
        given, expected = value.get("input") or {}, value.get("expected") or {}
    if (
        not given
        or not expected
        or not isinstance(given, dict)
        or not isinstance(expected, dict)
        or not isinstance(tolerance, dict)
    ):
        raise CaseError(f"{where}: it needs jobs, or an input and what is expected, as objects")
    allowed = tolerance.get("abs", 1e-9)
    if not isinstance(allowed, int | float):
        raise CaseError(f"{where}: its tolerance.abs is {allowed!r}: use a number")
    return StatedTrace(value["id"], given, expected, float(allowed), value.get("variant") == "flaws")


def _orders(value: object, place: str) -> StatedOrders:
    if not isinstance(value, dict) or not isinstance(value.get("outcomes"), dict):
        raise CaseError(f"{place}: {str(value)[:60]!r} are no orders: use an object with a mode and outcomes")
    numbers = {name: value.get(name, least) for name, least in (("expiries", 0), ("crashes", 0), ("tries", 3))}
    for name, number in numbers.items():
        if not is_whole(number, least=0):
            raise CaseError(f"{place}: its {name} is {number!r}: use a whole number from 0")
    mode = str(value.get("mode"))
    expected = {name: value[name] for name in ("interleavings", "states") if name in value}
    expected["outcomes"] = {str(name).lower(): count for name, count in value["outcomes"].items()}
    id = f"interleavings.{mode}.E{numbers['expiries']}.C{numbers['crashes']}.N{numbers['tries']}"
    return StatedOrders(id, mode, **numbers, expected=expected)
