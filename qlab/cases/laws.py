"""The laws that a case's parameters name: of services, of gaps between arrivals, of polls."""

import re
from dataclasses import dataclass

from qlab.cases.case import Case
from qlab.theory import distributions as forms
from qlab.workload import Distribution, Erlang, Exponential, Fixed, Lognormal

_MEANS = ("S", "ES", "D", "mean_service", "s", "mean")
"""What files call a mean service time."""


@dataclass(frozen=True, slots=True)
class Law:
    """How long a service takes.

    Attributes:
        name: `exponential`, `lognormal` or `fixed`.
        mean: In the case's unit.
        cv: The standard deviation over the mean.
    """

    name: str
    mean: float
    cv: float

    def tail(self, t: float) -> float:
        """Tell the probability that it takes longer than t."""
        if self.name == "exponential":
            return forms.exponential_tail(t, self.mean)
        return forms.lognormal_tail(t, self.mean, self.cv)

    def residual_tail(self, t: float) -> float:
        """Tell the probability that more than t is left of it at a random moment."""
        if self.name == "exponential":
            return forms.exponential_residual_tail(t, self.mean)
        return forms.lognormal_residual_tail(t, self.mean, self.cv)

    @property
    def distribution(self) -> Distribution:
        """What a workload draws."""
        if self.name == "exponential":
            return Exponential(self.mean)
        return Lognormal(self.mean, self.cv) if self.cv else Fixed(self.mean)


def named_law(case: Case) -> Law:
    """Read the law of a service that a case names, such as `lognormal mean 1` beside a `cv`.

    Raises:
        CaseError: It names none.
    """
    text = str(case.value("service"))
    found = re.fullmatch(r"(exponential|lognormal|fixed|deterministic)(?: mean ([\d.]+))?", text)
    if not found:
        raise case.wrong(f"its service is {text!r}: use exponential, lognormal or fixed, as in 'lognormal mean 1'")
    mean = float(found[2]) if found[2] else case.number("mean", default=1.0)
    if found[1] == "exponential":
        return Law("exponential", mean, 1.0)
    return Law("lognormal", mean, case.number("cv")) if found[1] == "lognormal" else Law("fixed", mean, 0.0)


def station_law(case: Case) -> Law:
    """Read the law of a station's services: exponential by `mu` or `S`, fixed by `D`, lognormal by `ES` and `cv`.

    Raises:
        CaseError: It has none of them.
    """
    if case.group in ("md1", "mdc"):
        return Law("fixed", case.number("D"), 0.0)
    if case.group == "mg1":
        return Law("lognormal", case.number("ES"), case.number("cv"))
    return Law("exponential", mean_service(case), 1.0)


def mean_service(case: Case) -> float:
    """Give the mean service time.

    Raises:
        CaseError: It has none.
    """
    if case.has("mu"):
        return 1 / positive(case, "mu")
    there = [name for name in _MEANS if case.has(name)]
    return positive(case, *(there or ["mu"]))


def gaps(case: Case) -> Distribution:
    """Read what lies between arrivals from the model's name: `D/M/1`, `E2/M/1`, `M/M/1`; or from `ca2`.

    Raises:
        CaseError: It is none of these.
    """
    mean, stages = 1 / positive(case, "lam"), gap_stages(case)
    return Fixed(mean) if stages is None else Erlang(stages, mean)


def gap_stages(case: Case) -> int | None:
    """Tell of how many exponential stages a gap is; None for one that is fixed.

    Raises:
        CaseError: It is neither.
    """
    found = re.match(r"(?:(D)|(M)|E(\d+))/M/1", case.model)
    if found:
        return None if found[1] else int(found[3] or 1)
    if case.has("ca2"):
        square = case.number("ca2")
        if square == 0:
            return None
        if abs(1 / square - round(1 / square)) < 1e-9:
            return round(1 / square)
    raise case.wrong(f"its model is {case.model!r}, which does not tell its arrivals: use D/M/1, E2/M/1 or M/M/1")


def intervals(case: Case) -> tuple[float, float]:
    """Read the interval of polls and its jitter, from a number or from text such as `U(0.5,1.5)`.

    Raises:
        CaseError: It is neither.
    """
    value = case.value("poll_interval")
    found = re.fullmatch(r"U\(\s*([\d.]+)\s*,\s*([\d.]+)\s*\)", value) if isinstance(value, str) else None
    if not found:
        return positive(case, "poll_interval"), case.number("jitter", default=0.0)
    low, high = float(found[1]), float(found[2])
    if not 0 <= low < high:
        raise case.wrong(f"its poll_interval is {value!r}: use U(least,most)")
    return (low + high) / 2, (high - low) / (high + low)


def positive(case: Case, *names: str) -> float:
    """Give a parameter that is above 0.

    Raises:
        CaseError: It is not there, or not above 0.
    """
    value = case.number(*names)
    if value <= 0:
        raise case.wrong(f"its parameter {names[0]!r} is {value!r}: use a number above 0")
    return value
