"""A case: what is expected of which system, and how far off it may be."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from qlab.whole import is_whole

Kind = Literal["stat", "exact", "reference", "qualitative"]
ROUNDING = 1e-9
"""How far off, relatively, a value may be that has no tolerance of its own, or none at all."""


class CaseError(ValueError):
    """A case that cannot be judged.

    Example:
        >>> from qlab import cases
        >>> cases.shipped().only("mm9")
        Traceback (most recent call last):
            ...
        qlab.cases.case.CaseError: ... has no group and no case 'mm9'; its groups are mm1, mmc, md1, ...
    """


@dataclass(frozen=True, slots=True)
class Case:
    """What is expected of which system.

    Attributes:
        id: Its name.
        group: Which family of systems it is of.
        kind: `stat` and `qualitative` are simulated with chance, `exact` without, `reference` is a closed form.
        metric: What is measured.
        params: The system, as numbers (seconds, jobs a second) and words.
        expected: What the metric should be: a number in its unit, or a word where it is qualitative.
        model: What the system is, in words.
        absolute: How far off it may be, in the same unit; None where only the relative one is given, or neither.
        relative: How far off it may be, as a part of what is expected.
        jobs: How many jobs are counted; None where that is no question.
        warmup: How many come before them, and are not.
        flaw: Whether it runs on a store with a flaw.

    Example:
        >>> from qlab import cases
        >>> case = cases.Case("mm1", "mm1", "reference", "Wq", {"lam": 0.5, "mu": 1.0}, expected=1.0, relative=0.01)
        >>> case.allowed
        0.01
        >>> case.number("lam")
        0.5
    """

    id: str
    group: str
    kind: Kind
    metric: str
    params: Mapping[str, Any]
    expected: float | str
    model: str = ""
    absolute: float | None = None
    relative: float | None = None
    jobs: int | None = None
    warmup: int = 0
    flaw: bool = field(default=False)

    @property
    def where(self) -> str:
        """How an error names it."""
        return f"case {self.id!r}"

    def wrong(self, what: str) -> CaseError:
        """Make the error that says what is wrong with it."""
        return CaseError(f"{self.where}: {what}")

    def unknown_metric(self, known: str) -> CaseError:
        """Make the error for a metric that its group has not."""
        return self.wrong(f"there is no metric {self.metric!r} in group {self.group!r}: use {known}")

    def has(self, name: str) -> bool:
        """Tell whether there is a parameter."""
        return name in self.params

    def value(self, name: str) -> Any:
        """Give a parameter.

        Raises:
            CaseError: It is not there.
        """
        if name not in self.params:
            raise self.wrong(f"it has no parameter {name!r}; it has {', '.join(map(repr, self.params)) or 'none'}")
        return self.params[name]

    def number(self, *names: str, default: float | None = None) -> float:
        """Give a parameter that is a number, under the first of several names that it has.

        Raises:
            CaseError: It is not there, or no number.
        """
        there = [name for name in names if name in self.params]
        if not there and default is not None:
            return default
        value = self.value((there or list(names))[0])
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(f"its parameter {(there or names)[0]!r} is {value!r}: use a number")
        return float(value)

    def whole(self, *names: str, default: int | None = None) -> int:
        """Give a parameter that is a whole number from 1.

        Raises:
            CaseError: It is not there, or no such number.
        """
        value = self.number(*names, default=default)
        if value < 1 or value != int(value):
            raise self.wrong(f"its parameter {names[0]!r} is {value!r}: use a whole number from 1")
        return int(value)

    def seconds(self, name: str) -> tuple[float, ...]:
        """Give a parameter that is a list of seconds.

        Raises:
            CaseError: It is not there, or no such list.
        """
        value = self.value(name)
        if not isinstance(value, list) or not all(isinstance(each, int | float) and each >= 0 for each in value):
            raise self.wrong(f"its parameter {name!r} is {value!r}: use a list of seconds")
        return tuple(map(float, value))

    def count(self) -> int:
        """Tell how many jobs are counted.

        Raises:
            CaseError: It does not say.
        """
        if self.jobs is None:
            raise self.wrong("it does not say how many jobs to simulate: give it n_jobs")
        return self.jobs

    @property
    def allowed(self) -> float:
        """How far off it may be, in the unit of what is expected."""
        assert not isinstance(self.expected, str)  # noqa: S101 - a word has no distance
        least = ROUNDING * max(1.0, abs(self.expected)) if self.kind == "exact" else ROUNDING * abs(self.expected)
        if self.absolute is not None:
            return max(self.absolute, least)
        return max((self.relative or 0.0) * abs(self.expected), least)


def parse(value: object, place: str) -> Case:
    """Read a case of a file.

    Args:
        value: What the file has.
        place: Where, for errors.

    Raises:
        CaseError: It is none.
    """
    if not isinstance(value, dict) or not isinstance(value.get("id"), str) or not value["id"]:
        raise CaseError(f"{place}: {str(value)[:60]!r} is no case: use an object with an id")
    where = f"case {value['id']!r}"
    for key, kind in (("group", str), ("metric", str), ("params", dict)):
        if not isinstance(value.get(key), kind):
            raise CaseError(f"{where}: its {key} is {value.get(key)!r}: use {'text' if kind is str else 'an object'}")
    if value.get("kind") not in get_args(Kind):
        raise CaseError(f"{where}: its kind is {value.get('kind')!r}: use {', '.join(get_args(Kind))}")
    return Case(
        id=value["id"],
        group=value["group"],
        kind=value["kind"],
        metric=value["metric"],
        params=value["params"],
        expected=_expected(value, where),
        model=str(value.get("model", "")),
        absolute=_tolerance(value, "abs", where),
        relative=_tolerance(value, "rel", where),
        jobs=_jobs(value, "n_jobs", where),
        warmup=_jobs(value, "warmup_jobs", where) or 0,
        flaw=value.get("variant") == "flaws",
    )


def level(metric: str, prefix: str) -> float | None:
    """Read the level of a quantile from a metric's name: 0.95 from `Wq_p95`, 0.999 from `Wq_p999`; None for none."""
    found = re.fullmatch(rf"{prefix}_p(\d{{2}})(\d*)(?:\.(\d+))?", metric)
    return float(f"0.{found[1]}{found[2]}{found[3] or ''}") if found else None


def bound(metric: str, prefix: str) -> float | None:
    """Read the bound of a tail from a metric's name: 2.5 from `P_wq_gt_2.5`; None for no tail."""
    found = re.fullmatch(rf"{prefix}_gt_(\d+(?:\.\d+)?)", metric)
    return float(found[1]) if found else None


def _expected(value: dict[str, Any], where: str) -> float | str:
    expected = value.get("expected")
    if isinstance(expected, str) and value["kind"] == "qualitative":
        return expected
    if isinstance(expected, bool) or not isinstance(expected, int | float) or not math.isfinite(expected):
        raise CaseError(f"{where}: it expects {expected!r}: use a number")
    return float(expected)


def _tolerance(value: dict[str, Any], which: str, where: str) -> float | None:
    tolerance = value.get("tolerance")
    if tolerance is None:
        return None
    if not isinstance(tolerance, dict):
        raise CaseError(f"{where}: its tolerance is {tolerance!r}: use an object with abs or rel")
    number = tolerance.get(which)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
        raise CaseError(f"{where}: its tolerance.{which} is {number!r}: use a number from 0")
    return float(number)


def _jobs(value: dict[str, Any], key: str, where: str) -> int | None:
    jobs = value.get(key)
    if jobs is None:
        return None
    if not is_whole(jobs, least=0):
        raise CaseError(f"{where}: its {key} is {jobs!r}: use a whole number from 0")
    return int(jobs)
