"""The judge: files of cases, closed forms beside them, and that a simulator which is wrong is told so."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qlab import cases, simulation
from qlab.cases import Case, CaseError, Cases, Verdict
from qlab.cases.case import ROUNDING, bound, level
from qlab.cases.files import parsed
from qlab.cases.forms import FORMS, closed_form
from qlab.cases.groups import RUNS, plan
from qlab.cases.laws import intervals, named_law
from qlab.cases.observed import Observed, reader
from qlab.cases.plans import close
from qlab.clock import us
from qlab.trace import together
from qlab.workload import Recorded, RecordedJob
from qlab.workload.streams import Streams

SHIPPED = cases.shipped()

CUT_OFF = {"outbox.cap100.lam90.left", "outbox.cap100.lam95.left"}
"""Their numbers in the file are right to 2e-8 only; Spitzer's identity and the zeros agree on the digits after."""


def case(**changes: Any) -> Case:
    """A case of M/M/1, or another."""
    one: dict[str, Any] = {
        "id": "one", "group": "mm1", "kind": "stat", "metric": "Wq", "params": {"lam": 0.5, "mu": 1.0}, "expected": 1.0,
        "absolute": 0.2, "jobs": 4_000, "warmup": 100,
    }  # fmt: skip
    return Case(**(one | changes))


def judged(*stated: Case, simulate: Any = None) -> list[Verdict]:
    return list(cases.judge(Cases("here", stated), simulate=simulate))


def fewer(one: Case, part: int) -> Case:
    """The same with so many times fewer jobs, and the tolerance that these allow."""
    assert one.jobs
    jobs, absolute = math.ceil(one.jobs / part), (one.absolute or 0.0) * math.sqrt(part)
    return replace(one, jobs=jobs, warmup=one.warmup // part, absolute=absolute, relative=None)


# -- what the package comes with --


@pytest.mark.parametrize(
    "one", [each for each in SHIPPED.cases if closed_form(each) is not None], ids=lambda one: one.id
)
def test_a_case_expects_what_its_closed_form_says(one: Case) -> None:
    if one.kind != "qualitative":
        assert closed_form(one) == pytest.approx(one.expected, rel=2e-8 if one.id in CUT_OFF else 1e-9)


def test_every_case_but_the_qualitative_ones_has_a_closed_form() -> None:
    assert [one.id for one in SHIPPED.cases if closed_form(one) is None and one.kind != "qualitative"] == []


def test_the_shipped_cases_are_of_every_group_and_kind() -> None:
    assert {one.group for one in SHIPPED.cases} == set(FORMS) == {*RUNS, "backup"}
    assert {one.kind for one in SHIPPED.cases} == {"stat", "exact", "reference", "qualitative"}
    assert len(SHIPPED.cases) == 234
    assert len(SHIPPED.traces) == 15
    assert len(SHIPPED.interleavings) == 16


def test_the_tier_for_every_day_has_a_few_of_the_cases_and_every_trace() -> None:
    often = SHIPPED.tier("ci")
    assert {one.id for one in often.cases} == SHIPPED.ci_tier
    assert often.traces == SHIPPED.traces
    assert SHIPPED.tier("all") == SHIPPED


def test_every_exact_trace_case_and_count_of_orders_is_met() -> None:
    kept = tuple(one for one in SHIPPED.cases if one.kind in ("exact", "reference"))
    for verdict in cases.judge(Cases("here", kept, SHIPPED.traces, SHIPPED.interleavings)):
        assert verdict.word == "ok", verdict


CHEAP = (
    *("mm1.rho0.5.Wq", "mmc.c2.rho0.5.Wq_p95", "md1.rho0.5.P_wq_gt_1", "mdc.c4.rho0.5.Wq"),
    *("mg1.lognormal.cv0.5.rho0.5.P_wait", "gi.e2m1.rho0.8.Wq", "poll.mm1.sleep5.0.rho0.5.Wq"),
    *("mmck.lam3.2.c4.K4.P_block", "closed.N10.c2.R", "retry.p0.3.N4.attempts", "backoff.p0.9.N3.mean_delay"),
    *("bcmp.c1.lam0.4.p0.3.T", "lease.exp.R1.starts_token_ack", "lease.exp.R1.starts_id_ack_same_service"),
    *("lease.exp.R2.token_same_service_dead", "lease.lognormal.cv1.R1.5.P_dup", "lease.prefetch10.P_dup"),
    *("poll.w4.p95", "poll.jitter.w2.mean", "shutdown.lognormal.cv0.5.G1", "crash.exp.alpha0.1.runs"),
    *("crash.expiry.R60.0.lag", "outbox.tick.lam0.5", "outage.rho0.5.D100.drain", "outbox.cap100.lam90.left"),
)


@pytest.mark.parametrize("id", CHEAP)
def test_a_case_of_each_group_is_met_with_fewer_jobs(id: str) -> None:
    (one,) = SHIPPED.only(id).cases
    few = fewer(one, 20)
    if one.group == "outage":
        few = replace(few, params={**one.params, "n_outages": 100})
    (verdict,) = judged(few)
    assert verdict.word == "ok", verdict


@pytest.mark.parametrize("id", ["metastable.A2.lam0.6", "metastable.A4.lam0.2", "poll.bunch.w4.jitter0"])
def test_a_storm_and_a_bunch_are_met(id: str) -> None:
    (verdict,) = cases.judge(SHIPPED.only(id))
    assert verdict.word == "ok", verdict


def test_what_lies_near_a_threshold_is_not_asserted() -> None:
    (verdict,) = cases.judge(SHIPPED.only("metastable.A2.lam0.5"))
    assert verdict.word == "not asserted"
    assert verdict.got is None
    assert verdict.ok


# -- the simulator behind it --


def test_no_case_but_a_reference_is_told_by_its_formula() -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise LookupError("simulated")

    for one in SHIPPED.cases:
        if one.kind == "reference" or str(one.expected).startswith("near"):
            assert judged(one, simulate=refuse)
        else:
            with pytest.raises(LookupError, match="simulated"):
                judged(one, simulate=refuse)
    for trace in SHIPPED.traces:
        with pytest.raises(LookupError, match="simulated"):
            list(cases.judge(Cases("here", (), (trace,)), simulate=refuse))


Simulate = Callable[..., Any]


def slower(queue: Any, **stated: Any) -> Any:
    """A simulator whose workers look only now and then."""
    return simulation.simulate(queue, **(stated | {"poll": stated.get("poll") or 0.7}))


def one_stream(queue: Any, **stated: Any) -> Any:
    """A simulator in which a job takes as long as the gap before it: arrivals and services are of one stream."""
    workload = stated["workload"]
    moments = workload.arrivals.moments(Streams(stated["seed"]).of("arrivals"))
    jobs = [RecordedJob(b, service=b - a) for a, b in pairwise(chain([0.0], islice(moments, workload.jobs)))]
    return simulation.simulate(queue, **(stated | {"workload": replace(workload, arrivals=Recorded(jobs), jobs=None)}))


def fewer_workers(queue: Any, **stated: Any) -> Any:
    """A simulator that forgets a worker."""
    return simulation.simulate(queue, **(stated | {"workers": max(1, stated["workers"] - 1)}))


@pytest.mark.parametrize(
    ("simulate", "id"),
    [
        (slower, "mm1.rho0.5.Wq"),
        (slower, "md1.rho0.5.P_wq_gt_1"),
        (one_stream, "mm1.rho0.5.Wq"),
        (fewer_workers, "mmc.c4.rho0.5.W"),
        (fewer_workers, "trace.crash.expiry"),
        (slower, "trace.fifo.c1"),
        (slower, "backoff.N3.time_to_dead"),
    ],
)
def test_a_simulator_that_is_wrong_is_told_so(simulate: Simulate, id: str) -> None:
    chosen = SHIPPED.only(id)
    few = Cases("here", tuple(fewer(one, 10) if one.kind == "stat" else one for one in chosen.cases), chosen.traces)
    assert [verdict.word for verdict in cases.judge(few, simulate=simulate)] == ["missed"]


def test_a_trace_that_is_missed_says_what_was_expected_and_what_came() -> None:
    (verdict,) = cases.judge(SHIPPED.only("trace.crash.expiry"), simulate=fewer_workers)
    assert verdict.expected == "starts 0, 90; final_at 100"
    assert verdict.got == "starts 0; final_at None" or "starts" in str(verdict.got)


def test_cases_of_one_system_share_one_run() -> None:
    runs: list[Any] = []

    def counted(queue: Any, **stated: Any) -> Any:
        runs.append(stated)
        return simulation.simulate(queue, **stated)

    metrics = ("Wq", "W", "L", "Lq", "util", "P_wait", "Wq_sd", "W_sd", "Wq_p50", "W_p95", "P_wq_gt_1", "throughput")
    same = [case(id=metric, metric=metric, absolute=1e9) for metric in metrics]
    told = judged(*same, case(id="another", params={"lam": 0.4, "mu": 1.0}), simulate=counted)
    assert [verdict.word for verdict in told] == ["ok"] * 13
    assert len(runs) == 2
    got = {verdict.id: verdict.got for verdict in told}
    assert got["W"] == pytest.approx(got["Wq"] + 1, rel=0.1)
    assert got["L"] == pytest.approx(0.5 * got["W"], rel=0.1)
    assert got["util"] == pytest.approx(0.5, rel=0.1)


def test_each_verdict_tells_the_digest_of_what_it_was_read_from() -> None:
    runs: list[str] = []

    def noted(queue: Any, **stated: Any) -> Any:
        run = simulation.simulate(queue, **stated)
        runs.append(run.digest)
        return run

    told = judged(
        case(), case(id="W", metric="W"), case(id="L", params={"lam": 0.4, "mu": 1.0}, metric="L"), simulate=noted
    )
    assert [verdict.digest for verdict in told] == [runs[0], runs[0], runs[1]]
    (trace,) = cases.judge(SHIPPED.only("trace.memory.restart"), simulate=noted)
    assert trace.digest == together(runs[2:])
    assert len(runs) > 3
    (formula,) = cases.judge(SHIPPED.only("amp.layers5x3"), simulate=noted)
    assert formula.digest == ""


def test_digits_stand_for_traces_in_their_order() -> None:
    assert together([]) == ""
    assert together(["a"]) == "a"
    assert together(["a", "b"]) == together(iter(["a", "b"])) != together(["b", "a"])
    assert len(together(["a", "b"])) == 16


def test_a_waiting_line_is_followed_to_the_microsecond() -> None:
    """Every start is what Kiefer and Wolfowitz's recursion says of the same arrivals and services."""
    one = case(group="mmc", params={"lam": 2.4, "mu": 1.0, "c": 3}, jobs=3_000, warmup=0, absolute=1e9)
    seen = plan(one).run(simulation.simulate)
    free = [0, 0, 0]
    for arrived, reserved, finished in zip(seen.arrived, seen.reserved, seen.finished, strict=True):
        start = max(us(arrived), free[0])
        assert us(reserved) == start
        free = sorted([*free[1:], us(finished)])


# -- systems that no shipped case has --

MMC = {"lam": 2.1, "mu": 1.0, "c": 3}
BOUNDED = {"lam": 1.2, "mu": 1.0, "K": 5}
FIXED = {"service": "fixed mean 2", "grace": 1}
MM1 = {"lam": 0.8, "mu": 1.0}
IN_PHASE = {"poll_interval": 1.0, "workers": 3, "phases": "equal"}
APART = {"poll_interval": 2.0, "workers": 2, "phases": "independent uniform"}
OTHERS = [
    case(id="rate", params={"lam": 5.0, "mu": 10.0}, expected=0.1, absolute=0.01, jobs=40_000),
    case(id="three", group="mmc", metric="P_w_gt_1", params=MMC, expected=0.558, absolute=0.03, jobs=40_000),
    case(id="fixed", group="mdc", metric="util", params={"lam": 3.0, "D": 0.5, "c": 3}, expected=0.5, absolute=0.05),
    case(id="even", group="gg1", model="D/M/1", params=MM1, expected=1.6927, absolute=0.8),
    case(id="even, by ca2", group="gg1", params=MM1 | {"ca2": 0}, expected=1.6927, absolute=0.8),
    case(id="X", group="closed", metric="X", params={"N": 4, "Z": 10, "S": 1}, expected=0.3526, absolute=0.05),
    case(id="full", group="mmck", metric="throughput", params=BOUNDED, expected=0.8993, absolute=0.1),
    case(id="p50", group="polling", metric="p50_latency_s", params=APART, expected=0.5858, absolute=0.1),
    case(id="in phase", group="polling", metric="mean_latency_s", params=IN_PHASE, expected=0.5, absolute=0.1),
    case(id="fixed cut", group="shutdown", metric="P_killed", params=FIXED, expected=0.5),
    case(id="relative", absolute=None, relative=0.3),
    case(id="batches", group="lease", metric="P_duplicate", params={
        "service": "fixed mean 1", "batch": 4, "retry_after": 2.5}, expected=0.5, absolute=0.01, jobs=400),
    case(id="held", group="lease", kind="exact", metric="redeliveries_before_eta", params={
        "eta_s": 10, "visibility_s": 3}, expected=3.0, absolute=0.0),
    case(id="asks", group="polling", kind="exact", metric="polls_per_s", params={
        "poll_interval": 0.5, "workers": 3}, expected=6.0, absolute=0.0),
]  # fmt: skip


@pytest.mark.parametrize("one", OTHERS, ids=lambda one: one.id)
def test_other_systems_of_the_groups_are_judged_too(one: Case) -> None:
    form = closed_form(one)
    (verdict,) = judged(one)
    assert verdict.word == "ok", verdict
    assert form is None or form == pytest.approx(float(one.expected), rel=0.03)


FORMS_ONLY = {
    "a tail of wait and service": (case(metric="P_w_gt_2"), math.exp(-1)),
    "a spread of wait and service": (case(metric="W_sd"), 2.0),
    "the knee": (case(group="closed", metric="knee", params={"N": 4, "Z": 10, "S": 1}), 11.0),
    "attempts in a queue": (
        case(group="retry_queue", metric="attempts", params={
            "lam": 1, "mu": 1, "c": 4, "p": 0.5, "tries": 2, "backoff": [1]}), 1.5),
    "failing attempts": (case(group="metastable", metric="load_factor", params={"f": 0.5, "attempts": 2}), 1.5),
    "a budget": (case(group="metastable", metric="load_factor", params={"f": 0.5, "A": 4, "budget": 0.1}), 1 / 0.95),
    "a budget's threshold": (
        case(group="metastable", metric="lambda_threshold", params={"budget": 0.25, "mu": 2.0}), 1.6),
    "lost by a backup": (
        case(group="backup", metric="E_lost", params={"lam": 2, "delta": 1e9, "m": 1.0}), 2.0),
    "jobs cut": (case(group="shutdown", metric="jobs_cut", params={
        "service": "exponential", "grace": 0, "workers": 4, "rho": 0.5}), 2.0),
    "one outage": (case(group="outage", metric="drain_time_sd", params={"lam": 0.5, "mu": 1, "D": 100}), 28.6356),
    "jobs hurt": (case(group="outage", metric="jobs_hurt", params={"lam": 0.8, "mu": 1, "D": 100}), 400.0),
    "a wait and its poll": (case(group="polling", metric="L", params={"lam": 0.5, "mu": 1.0, "V": 2.0}), 1.5),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS_ONLY)
def test_a_reference_is_judged_by_its_closed_form(name: str) -> None:
    one, value = FORMS_ONLY[name]
    (verdict,) = judged(replace(one, kind="reference", expected=value, absolute=None, relative=1e-5))
    assert verdict.word == "ok", verdict
    (verdict,) = judged(replace(one, kind="reference", expected=value * 1.001, absolute=None))
    assert verdict.word == "missed"


# -- files --


def written(folder: Path, content: Any) -> Path:
    path = folder / "cases.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def stated(**changes: Any) -> dict[str, Any]:
    one = {
        "id": "a", "group": "mm1", "kind": "stat", "metric": "Wq", "params": {"lam": 0.5, "mu": 1.0}, "expected": 1.0,
        "n_jobs": 500, "warmup_jobs": 0, "tolerance": {"abs": 1.0, "rel": 1.0, "meaning": "wide"}, "unit": "",
    }  # fmt: skip
    return one | changes


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in stated().items() if name != key}


REFUSED = {
    "no JSON": ("{cases: []}", "is no JSON: Expecting property name"),
    "a list": ([], "needs an object with a list named cases"),
    "no cases": ({"traces": []}, "needs an object with a list named cases"),
    "a case without an id": ({"cases": [{"group": "mm1"}]}, "case 1: .* is no case: use an object with an id"),
    "an unknown group": ({"cases": [stated(group="mm9")]}, "case 'a': there is no group 'mm9': use backoff, backup"),
    "an unknown metric": ({"cases": [stated(metric="Wz")]}, "case 'a': there is no metric 'Wz' in group 'mm1'"),
    "an unknown kind": ({"cases": [stated(kind="guess")]}, "case 'a': its kind is 'guess': use stat, exact"),
    "a missing parameter": ({"cases": [stated(params={"mu": 1.0})]}, "case 'a': it has no parameter 'lam'; it has"),
    "text for a number": ({"cases": [stated(params={"lam": "x", "mu": 1.0})]}, "case 'a': its parameter 'lam' is 'x'"),
    "an overload": ({"cases": [stated(params={"lam": 2.0, "mu": 1.0})]}, "case 'a': utilisation is 2, so the"),
    "no number of jobs": ({"cases": [without("n_jobs")]}, "case 'a': it does not say how many jobs"),
    "half a job": ({"cases": [stated(n_jobs=0.5)]}, "case 'a': its n_jobs is 0.5"),
    "no expectation": ({"cases": [without("expected")]}, "case 'a': it expects None: use a number"),
    "no parameters": ({"cases": [without("params")]}, "case 'a': its params is None: use an object"),
    "a negative tolerance": ({"cases": [stated(tolerance={"abs": -1})]}, "case 'a': its tolerance.abs is -1"),
    "a tolerance in words": ({"cases": [stated(tolerance="small")]}, "case 'a': its tolerance is 'small'"),
    "one id twice": ({"cases": [stated(), stated()]}, "has 'a' twice: give each its own id"),
    "a tier of nothing": ({"cases": [stated()], "ci_tier": ["b"]}, "has no case 'b', which its ci_tier names"),
    "a tier in words": ({"cases": [], "ci_tier": "all"}, "its ci_tier is all: use a list|its ci_tier is 'all'"),
    "no closed form": (
        {"cases": [stated(group="mg1", kind="reference", metric="Wq_p95", params={"lam": 0.5, "ES": 1.0, "cv": 2})]},
        "case 'a': there is no metric 'Wq_p95' in group 'mg1': use one that has a closed form",
    ),
    "a run of a closed form": (
        {"cases": [stated(group="backup", metric="E_orphan_rows_upper", params={"lam": 2, "delta": 3})]},
        "case 'a': group 'backup' has closed forms only: its kind must be reference",
    ),
    "an unknown service": (
        {"cases": [stated(group="shutdown", metric="P_killed", params={"service": "slow", "grace": 1})]},
        "case 'a': its service is 'slow': use exponential, lognormal or fixed",
    ),
    "unknown arrivals": ({"cases": [stated(group="gg1", model="G/G/1")]}, "case 'a': its model is 'G/G/1'"),
    "an unknown retry policy": (
        {"cases": [stated(group="metastable", kind="qualitative", metric="outcome", expected="stuck", params={
            "A": 2, "lam": 0.3, "mu": 1.0, "timeout": 20, "outage": 10, "policy": "hope"})]},
        "case 'a': its policy is 'hope'",
    ),
    "a trace without an id": ({"cases": [], "traces": [{}]}, "trace 1: .* is no trace: use an object with an id"),
    "a trace of nothing": ({"cases": [], "traces": [{"id": "t"}]}, "trace 't': it needs jobs, or an input"),
    "orders of nothing": ({"cases": [], "interleavings": {"cases": [{}]}}, "interleavings 1: .* are no orders"),
    "half an expiry": (
        {"cases": [], "interleavings": {"cases": [{"mode": "ack_id", "expiries": 0.5, "outcomes": {"lost": 1}}]}},
        "interleavings 1: its expiries is 0.5: use a whole number from 0",
    ),
    "an unknown mode": (
        {"cases": [], "interleavings": {"cases": [{"mode": "hope", "outcomes": {"lost": 1}}]}},
        r"interleavings\.hope\.E0\.C0\.N3: its mode is 'hope': use ack_token, ack_id",
    ),
    "an unknown trace": (
        {"cases": [], "traces": [{"id": "t", "input": {"x": 1}, "expected": {"y": 1}}]},
        "trace 't': no run is known for an input of x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", REFUSED)
def test_a_file_that_cannot_be_judged_is_refused_by_the_case_that_is_wrong(bad: str, tmp_path: Path) -> None:
    content, message = REFUSED[bad]
    with pytest.raises(CaseError, match=message):
        cases.judge(cases.read(written(tmp_path, content)))


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"nowhere\.json cannot be read: No such file"):
        cases.read(tmp_path / "nowhere.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaseError, match="binary cannot be read: it is not text in UTF-8"):
        cases.read(tmp_path / "binary")


def test_an_expectation_of_a_trace_that_nothing_tells_is_refused() -> None:
    told = parsed(json.dumps({"cases": [], "traces": [{
        "id": "t", "input": {"arrivals": [1], "tick": 60}, "expected": {"posted": [1]}}]}), "here")  # fmt: skip
    with pytest.raises(CaseError, match="trace 't': nothing tells 'posted'; there is sent"):
        list(cases.judge(told))


def test_orders_that_are_miscounted_are_told_so() -> None:
    orders = {"mode": "ack_id", "expiries": 0, "crashes": 0, "interleavings": 2, "outcomes": {"done once": 3}}
    (verdict,) = cases.judge(parsed(json.dumps({"cases": [], "interleavings": {"cases": [orders]}}), "here"))
    assert (verdict.word, verdict.expected, verdict.got) == ("missed", "outcomes done once 3", "outcomes done once 2")


def test_a_group_or_case_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(CaseError, match="has no group and no case 'mm9'; its groups are mm1, mmc"):
        SHIPPED.only("mm9")


# -- small things --


def test_names_of_metrics_tell_levels_and_bounds() -> None:
    assert [level(f"Wq_{name}", "Wq") for name in ("p50", "p95", "p99", "p999", "p99.9")] == [
        0.5,
        0.95,
        0.99,
        0.999,
        0.999,
    ]
    assert level("W_p95", "Wq") is None
    assert bound("P_wq_gt_2.5", "P_wq") == 2.5
    assert bound("P_wq_lt_2", "P_wq") is None


def test_laws_are_read_from_words() -> None:
    assert named_law(case(params={"service": "lognormal mean 2.5", "cv": 2})).mean == 2.5
    assert named_law(case(params={"service": "lognormal", "cv": 2, "mean": 3.0})).tail(0) == 1
    assert named_law(case(params={"service": "deterministic mean 2"})).residual_tail(1) == 0.5
    assert intervals(case(params={"poll_interval": "U(0.5, 1.5)"})) == (1.0, 0.5)
    with pytest.raises(CaseError, match=re.escape("its poll_interval is 'U(2,1)'")):
        intervals(case(params={"poll_interval": "U(2,1)"}))


def test_a_tolerance_is_absolute_or_relative_and_exact_means_to_rounding() -> None:
    assert case(absolute=0.2, relative=9.0).allowed == 0.2
    assert case(absolute=None, relative=0.1, expected=30.0).allowed == pytest.approx(3.0)
    assert case(kind="exact", absolute=0.0, expected=1e5).allowed == pytest.approx(ROUNDING * 1e5)
    assert case(kind="reference", absolute=None, expected=0.5).allowed == pytest.approx(ROUNDING * 0.5)


def test_what_is_observed_is_compared_part_by_part() -> None:
    assert close([1.0, {"a": 2}], [1, {"a": 2.0}], 1e-9)
    assert not close([1.0], [1.0, 2.0], 1e-9)
    assert not close(True, 1, 1e-9)
    assert not close(None, 1, 1e-9)
    assert close("done", "done", 0)
    assert not close("dead", "done", 0)
    assert not close({"a": 1.1}, {"a": 1.0}, 1e-9)


def test_the_jobs_of_the_warm_up_are_not_counted() -> None:
    seen = plan(case(jobs=300, warmup=100)).run(simulation.simulate)
    assert len(seen.arrived) == 400
    assert len(seen.wait) == len(seen.service) == 300
    assert (seen.begin, seen.end) == (seen.arrived[100], seen.arrived[-1])
    bounded = case(group="mmck", params=BOUNDED, jobs=300, warmup=100)
    full = plan(bounded).run(simulation.simulate)
    assert len(full.arrived) + len(full.refused) == 400
    assert full.begin == np.sort(np.concatenate([full.arrived, full.refused]))[100]


def test_a_reader_measures_the_window_after_the_warm_up_only() -> None:
    one = np.array([0.0, 10.0, 20.0])
    seen = Observed(np.array([1.0, 3.0]), np.array([2.0, 2.0]), one, one + 1, one + 4, np.array([15.0]), 10.0, 20.0, 2)
    read = {metric: reader(case(metric=metric))(seen) for metric in ("Wq", "W", "L", "Lq", "util", "P_block", "X")}
    assert read == {"Wq": 2.0, "W": 4.0, "L": 0.4, "Lq": 0.1, "util": 0.15, "P_block": pytest.approx(1 / 3), "X": 0.1}
