"""The short cut of a simulation: what it does is what the usual way does."""

from dataclasses import replace
from typing import Any

import pytest

from qlab import Policy, Run, SimulatedClock, simulate
from qlab.drivers.memory import MemoryDriver
from qlab.faults import Crash, Drain, Fault, Pause, Restart
from qlab.queue import Queue
from qlab.scenario import Scenario
from qlab.simulation import simulator
from qlab.simulation.engine import Engine
from qlab.workload import Bursts, Chance, Every, Exponential, Fixed, Lognormal, Poisson, Workload, recorded

FAULTS: dict[str, tuple[Fault, ...]] = {
    "none": (),
    "crashes": (Crash(at=Poisson(0.02), back_after=3.0, recover="expired"),),
    "sweeps": (Crash(at=Poisson(0.05), back_after=1.0, recover="all"),),
    "pauses": (Pause(15.0, at=Poisson(0.02)),),
    "drains": (Drain(at=Every(37.0), grace=0.5, back_after=4.0),),
    "restarts": (Restart(at=Every(101.0), back_after=1.0),),
}
WORK = {
    "steady": Workload(Poisson(3.2), Exponential(1.0), jobs=1_500),
    "names": Workload(Poisson(2.0), {"a": Fixed(0.5), "b": Lognormal(1.5, cv=2.0)}, names={"a": 3, "b": 1}, jobs=1_000),
    "bursts": Workload(Bursts(30, every=20.0), Exponential(1.0), jobs=900),
    "same": Workload(Poisson(3.0), Exponential(1.0), jobs=1_000, redraw=False),
    "recorded": Workload(recorded([{"at": i // 7 * 1.5, "service": i % 5 * 0.4} for i in range(700)])),
    "failing": Workload(Poisson(2.0), Exponential(1.0), Chance(0.1), jobs=500),
}


def scenario(work: str, faults: str, **changes: Any) -> Scenario:
    rules = Policy(retry_after=4, backoff=(0, 3), tries=5)
    stated = {"workers": 4, "poll": None, "policy": rules, "seed": 3, "faults": FAULTS[faults]} | changes
    return Scenario("express", workload=WORK[work], **stated)


class Usual(MemoryDriver):
    """Takes no short cut."""


def usual(chosen: Scenario) -> Run:
    with Usual() as driver:
        return simulate(driver, chosen)


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("work", WORK)
def test_a_trace_is_the_same_with_the_short_cut_and_without(work: str, faults: str) -> None:
    chosen = scenario(work, faults)
    short, long = simulate("memory://", chosen), usual(chosen)
    assert short.trace.difference(long.trace) is None
    assert short.digest == long.digest
    assert short.until == long.until


@pytest.mark.parametrize("at", [0.0, 33.3, 150.0])
def test_a_run_that_was_stopped_goes_on_the_same(at: float) -> None:
    chosen = scenario("steady", "pauses")
    assert simulate("memory://", chosen).branch(at, {}).digest == usual(chosen).digest


def test_it_is_taken_where_nothing_but_the_usual_is_to_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    end = Engine._end_step  # noqa: SLF001 - who goes the long way is what this is about

    def counted(self: Engine, *args: Any) -> None:
        taken.append(1)
        end(self, *args)

    monkeypatch.setattr(Engine, "_end_step", counted)
    simulate("memory://", scenario("steady", "none"))
    assert len(taken) < 20
    for other in (
        scenario("failing", "none"),
        scenario("steady", "none", poll=1.0),
        scenario("steady", "none", batch=2),
        replace(scenario("steady", "none"), faults=(Crash("job"),)),
    ):
        taken.clear()
        simulate("memory://", other)
        assert len(taken) >= 400


def test_a_handler_of_ones_own_is_called_all_the_same() -> None:
    called: list[int] = []
    with Queue("memory://", clock=SimulatedClock(), policy=Policy(retry_after=None)) as queue:
        queue.handler("job")(lambda job: called.append(job.id))
        simulate(queue, poll=None, workload=Workload(Poisson(1.0), Exponential(0.5), jobs=50))
    assert sorted(called) == list(range(1, 51))


def test_who_listens_to_outcomes_hears_of_each() -> None:
    heard: list[int] = []
    with Queue("memory://", clock=SimulatedClock()) as queue:
        queue.listen(lambda held, outcome: heard.append(outcome.job))
        simulate(queue, poll=None, workload=Workload(Poisson(1.0), Exponential(0.5), jobs=50))
    assert sorted(heard) == list(range(1, 51))


def test_the_store_is_free_when_a_run_is_over() -> None:
    assert simulator.hurry is not None
    with MemoryDriver() as driver:
        simulate(driver, scenario("steady", "none"))
        assert driver._lock.acquire(blocking=False)  # noqa: SLF001 - as another thread needs it
        driver._lock.release()  # noqa: SLF001
        assert driver.check("simulation", now=1e6) == []
