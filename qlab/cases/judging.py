"""The judge: each case computed, and held against what is expected.

A `reference` is a closed form. Everything else is computed from simulated runs, never from its formula.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from qlab import simulation
from qlab.cases.case import Case
from qlab.cases.files import Cases, StatedOrders, StatedTrace
from qlab.cases.forms import closed_form
from qlab.cases.groups import plan
from qlab.cases.orders import count
from qlab.cases.plans import Plan, Simulate, close
from qlab.cases.run_traces import watch
from qlab.show import seconds as in_seconds
from qlab.trace import together

Word = Literal["ok", "missed", "not asserted"]
NOT_ASSERTED = "near threshold"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case.

    Attributes:
        id: The case.
        kind: How it was computed: `stat`, `exact`, `qualitative`, `reference`, `trace` or
            `interleavings`.
        expected: What it was to be: a number or words.
        got: What it was; None where nothing was computed.
        allowed: How far off it may be; None where it is words.
        word: `ok`, `missed`, or `not asserted` for what lies too near a threshold.
        closed_form: What theory says; None where there is no closed form.
        digest: Digits that stand for the trace it was read from, or for several together; empty where there was none.

    Example:
        >>> from qlab import cases
        >>> verdict = next(cases.judge(cases.shipped().only("backup.skew.rows_without_job")))
        >>> verdict.word, verdict.expected, verdict.got
        ('ok', 60.0, 60.0)
    """

    id: str
    kind: str
    expected: float | str
    got: float | str | None
    allowed: float | None
    word: Word
    closed_form: float | None = None
    digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was not missed."""
        return self.word != "missed"


def judge(
    cases: Cases, *, simulate: Simulate | None = None, progress: Callable[[float, str], None] | None = None
) -> Iterator[Verdict]:
    """Judge cases, one after another; what cannot be judged is said before any is run.

    Args:
        cases: The cases.
        simulate: The simulator to judge, in place of `qlab.simulate`.
        progress: Told how far it is, from 0 to 1, and with which case.

    Returns:
        One verdict a case, trace and count of orders, in their order; each is computed when it is asked for.

    Raises:
        CaseError: A group, a metric or a parameter is not there; the message names the case.

    Example:
        >>> from qlab import cases
        >>> [(verdict.id, verdict.word) for verdict in cases.judge(cases.shipped().only("trace.fifo.c1"))]
        [('trace.fifo.c1', 'ok')]
    """
    planned = [(case, _planned(case)) for case in cases.cases]
    exact: list[_Exact] = [(trace, watch(trace)) for trace in cases.traces]
    exact += [(orders, _counting(orders)) for orders in cases.interleavings]
    return _judged(planned, exact, simulate or _simulate, progress or (lambda *_: None))


def _simulate(queue: Any, /, **stated: Any) -> simulation.Run:
    return simulation.simulate(queue, **stated).whole()


def _planned(case: Case) -> Plan | float | None:
    """Give what computes a case; a closed form at once, and None for what is not asserted."""
    form = closed_form(case)
    if case.kind == "reference":
        if form is None:
            raise case.unknown_metric("one that has a closed form")
        return form
    planned = plan(case)
    return None if _near_threshold(case) else planned


def _near_threshold(case: Case) -> bool:
    return isinstance(case.expected, str) and case.expected.startswith(NOT_ASSERTED)


def _judged(
    planned: list[tuple[Case, Plan | float | None]],
    exact: list["_Exact"],
    simulate: Simulate,
    progress: Callable[[float, str], None],
) -> Iterator[Verdict]:
    total, memory = len(planned) + len(exact), _Memory(simulate)
    for n, (case, how) in enumerate(planned):
        progress(n / total, case.id)
        yield _verdict(case, how, memory)
    for n, (stated, observe) in enumerate(exact, len(planned)):
        progress(n / total, stated.id)
        noted = _Noted(simulate)
        verdict = _exact_verdict(stated, observe(noted))
        yield replace(verdict, digest=together(noted.digests) if noted.digests else "")
    progress(1.0, "")


class _Noted:
    """A simulator that notes the digest of each run."""

    def __init__(self, simulate: Simulate) -> None:
        self._simulate = simulate
        self.digests: list[str] = []

    def __call__(self, queue: Any, /, **stated: Any) -> simulation.Run:
        run = self._simulate(queue, **stated)
        self.digests.append(run.digest)
        return run


class _Memory:
    """The last run, for the cases that read several metrics of one system."""

    def __init__(self, simulate: Simulate) -> None:
        self._simulate = simulate
        self._key: Hashable = None
        self._observed: Any = None
        self.digest = ""

    def read(self, plan: Plan) -> float | str:
        if plan.key != self._key:
            self._key, self._observed = None, None
            noted = _Noted(self._simulate)
            self._observed = plan.run(noted)
            self._key, self.digest = plan.key, together(noted.digests)
        return plan.read(self._observed)


def _verdict(case: Case, planned: Plan | float | None, memory: _Memory) -> Verdict:
    if planned is None:
        return Verdict(case.id, case.kind, case.expected, None, None, "not asserted")
    got = memory.read(planned) if isinstance(planned, Plan) else planned
    form, digest = closed_form(case), memory.digest if isinstance(planned, Plan) else ""
    if isinstance(case.expected, str) or isinstance(got, str):
        return Verdict(case.id, case.kind, case.expected, got, None, _word(got == case.expected), form, digest)
    ok = math.isfinite(got) and abs(got - case.expected) <= case.allowed
    return Verdict(case.id, case.kind, case.expected, got, case.allowed, _word(ok), form, digest)


def _word(ok: bool) -> Word:
    return "ok" if ok else "missed"


# -- what is exact: traces, and counts of orders --

_Exact: TypeAlias = tuple[StatedTrace | StatedOrders, Callable[[Simulate], Mapping[str, Any]]]


def _counting(orders: StatedOrders) -> Callable[[Simulate], Mapping[str, Any]]:
    counted = count(orders)
    return lambda _: counted()


def _exact_verdict(stated: StatedTrace | StatedOrders, observed: Mapping[str, Any]) -> Verdict:
    allowed = stated.allowed if isinstance(stated, StatedTrace) else 0.0
    if unknown := [name for name in stated.expected if name not in observed]:
        raise stated.wrong(f"nothing tells {unknown[0]!r}; there is {', '.join(observed)}")
    wrong = [name for name, value in stated.expected.items() if not close(observed.get(name), value, allowed)]
    shown = wrong or list(stated.expected)
    return Verdict(
        stated.id,
        stated.group,
        "; ".join(f"{name} {_told(stated.expected[name])}" for name in shown),
        "; ".join(f"{name} {_told(observed.get(name))}" for name in shown),
        allowed,
        _word(not wrong),
    )


def _told(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value)) if len(value) <= 4 else f"{len(value)} values"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_told(each)}" for name, each in value.items())
    return in_seconds(value).removesuffix(" s") if isinstance(value, float) else str(value)
