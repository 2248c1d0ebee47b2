"""Little's law holds on every trace: who is there, counted moment by moment and job by job, is the same."""

import math
from itertools import pairwise

import pytest
from conftest import ONE_OF_EACH, only
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test
from recursions import poisson, trace_of
from test_queue_agreement import Bench, Work, new_queue
from walk import Walk

from qlab import metrics, simulate
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.flaws import FLAWS, Flaw
from qlab.scenario import NAMED, named
from qlab.trace import Event, Kind, Trace

PLACES = ("ready", "reserved", "delayed", "backoff")


def holds(told):
    """Whether it holds in every place, and the places add up to the system."""
    total = told.loc[list(PLACES), "area"].sum()
    return bool(told["holds"].all()) and total == told.at["system", "area"] == told.at["system", "spent"]


def test_a_small_trace_has_the_numbers_that_one_counts_by_hand():
    trace = Trace(
        [
            Event(0, Kind.DISPATCHED, 1, until=0),
            Event(1, Kind.RESERVED, 1, attempt=1, worker="w1", since=0, until=90),
            Event(3, Kind.DISPATCHED, 2, until=8),
            Event(5, Kind.RELEASED, 1, attempt=1, worker="w1", until=7, detail="ValueError: no"),
            Event(7, Kind.RESERVED, 1, attempt=2, worker="w1", since=7, until=90),
            Event(9, Kind.COMPLETED, 1, attempt=2, worker="w1"),
            Event(10, Kind.MISSED),
        ]
    )
    told = metrics.little(trace)
    assert list(told.index) == ["system", *PLACES]
    assert told["visits"].to_list() == [2, 3, 2, 1, 1]
    assert told["spent"].to_list() == [16_000_000, 3_000_000, 6_000_000, 5_000_000, 2_000_000]
    assert told["L"].to_list() == pytest.approx([1.6, 0.3, 0.6, 0.5, 0.2])
    assert told["rate"].to_list() == pytest.approx([0.2, 0.3, 0.2, 0.1, 0.1])
    assert told["W"].to_list() == pytest.approx([8, 1, 3, 5, 2])
    assert holds(told)


def test_l_is_lambda_times_w_and_all_are_those_of_the_summary():
    trace = trace_of(*poisson(2_000, 0.8))
    told, summary = metrics.little(trace), metrics.summary(trace)["value"]
    assert (told["rate"] * told["W"]).dropna().to_list() == pytest.approx(told["L"][told["visits"] > 0].to_list())
    assert told.loc[["system", "ready", "reserved"], "L"].to_list() == pytest.approx(
        summary[["L", "Lq", "in_flight"]].to_list()
    )
    assert told.loc[["system", "ready", "reserved"], "W"].to_list() == pytest.approx(
        summary[["sojourn", "wait", "service"]].to_list()
    )
    assert holds(told)


def test_it_holds_where_nothing_happens():
    told = metrics.little(Trace())
    assert holds(told)
    assert (told["visits"] == 0).all()
    assert told[["L", "rate", "W"]].isna().all(axis=None)
    assert holds(metrics.little(Trace([Event(5, Kind.DISPATCHED, 1, until=5)])))


def test_it_holds_on_a_machine_s_clock_too():
    now = 1_790_000_000.0
    assert holds(metrics.little(Trace(event._replace(at=event.at + now) for event in trace_of(*poisson(500, 0.8)))))


@pytest.mark.parametrize("seed", range(20))
def test_it_holds_on_a_walk_and_its_areas_are_those_of_the_moments(seed):
    walk = Walk(seed)
    for _ in range(120):
        walk.step()
    told, trace = metrics.little(walk.trace), walk.trace
    assert holds(told)
    last = trace[len(trace) - 1].at
    cuts = sorted({time for e in trace for time in (e.at, e.until) if time is not None and time <= last})
    areas = dict.fromkeys(("system", "ready", "reserved", "delayed"), 0.0)
    for a, b in pairwise(cuts):
        counts = trace.at(a).counts()
        for place, count in zip(areas, (counts.depth, counts.ready, counts.reserved, counts.delayed), strict=True):
            areas[place] += count * (b - a)
    assert told.at["system", "area"] == round(areas["system"] * 1e6)
    assert told.at["ready", "area"] == round(areas["ready"] * 1e6)
    assert told.at["reserved", "area"] == round(areas["reserved"] * 1e6)
    assert told.at["delayed", "area"] + told.at["backoff", "area"] == round(areas["delayed"] * 1e6)


@pytest.mark.parametrize("order", ["available_at", "arrival"])
@pytest.mark.timeout(3600)  # with --deep
def test_it_holds_after_each_step_of_random_programs(order: str, deep: bool) -> None:
    class Balanced(Work):
        @invariant()
        def littles_law_holds(self) -> None:
            assert holds(metrics.little(self.first.queue))

    run_state_machine_as_test(
        lambda: Balanced([Bench(order, new_queue(MemoryDriver(order)))], lambda _: None),
        settings=settings(max_examples=300 if deep else 20, stateful_step_count=50),
    )


@pytest.mark.parametrize("name", NAMED)
@only(*ONE_OF_EACH)
def test_it_holds_in_every_named_scenario(driver: Driver, name: str) -> None:
    told = metrics.little(simulate(driver, named(name, seed=3)))
    assert holds(told)
    assert told.at["system", "visits"] > 0


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=list(FLAWS))
def test_it_holds_also_where_a_queue_is_broken(flaw: type[Flaw]) -> None:
    with flaw() as driver:
        assert holds(metrics.little(simulate(driver, named("all_kinds", seed=3), until=600.0)))


@pytest.mark.parametrize("until", [10.0, 60.0, math.inf])
def test_it_holds_up_to_where_a_run_was_stopped(until: float) -> None:
    run = simulate("memory://", named("all_kinds", seed=5), until=until)
    told = metrics.little(run)
    assert holds(told)
    first = run.trace[0].at
    assert told.at["system", "L"] == pytest.approx(told.at["system", "area"] / 1e6 / (run.until - first))
