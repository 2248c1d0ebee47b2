"""What a scenario may be made of."""

import math
from typing import Any

import pytest

from qlab import Policy
from qlab.faults import Crash
from qlab.scenario import Arrival, Behaviour, Poll, Scenario
from qlab.workload import Poisson, Workload

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"arrivals": [(0.0, "a")]}, TypeError, "arrivals[0] is (0.0, 'a'): use Arrival"),
    ({"arrivals": [Arrival(0.0, "a"), Arrival("1", "a")]}, TypeError, "arrivals[1].at is '1': use a number of seconds"),
    ({"arrivals": [Arrival(-1.0, "a")]}, ValueError, "arrivals[0].at is -1.0 s"),
    ({"arrivals": [Arrival(0.0, None)]}, TypeError, "arrivals[0].name is None: use str"),
    ({"arrivals": [Arrival(0.0, "a", delay=math.inf)]}, ValueError, "arrivals[0].delay is inf s"),
    ({"arrivals": [Arrival(0.0, "b")]}, ValueError, "names ['b'], there are the handlers ['a']"),
    ({"handlers": {"a": 1.0}}, TypeError, "handlers['a'] is 1.0: use Behaviour"),
    ({"handlers": {"a": Behaviour(-1.0)}}, ValueError, "handlers['a'].seconds is -1.0 s"),
    ({"handlers": {"a": Behaviour(late_by=math.nan)}}, ValueError, "handlers['a'].late_by is nan s"),
    ({"handlers": {"a": Behaviour(fails=-1)}}, ValueError, "handlers['a'].fails is -1: use a whole number from 0"),
    ({"handlers": {"a": Behaviour(fails=True)}}, ValueError, "handlers['a'].fails is True"),
    ({"handlers": {"a": Behaviour(error=KeyError("b"))}}, TypeError, "handlers['a'].error is KeyError('b'): use str"),
    ({"workers": 0}, ValueError, "workers is 0: use a number from 1"),
    ({"batch": 1.5}, ValueError, "batch is 1.5: use a number from 1"),
    ({"poll": 0}, ValueError, "poll is 0 s: use a number of seconds from 0.000001"),
    ({"poll": "1"}, TypeError, "poll is '1': use Poll or int or float or None"),
    ({"poll": True}, TypeError, "poll is True: use a number of seconds"),
    ({"faults": [Crash]}, TypeError, "faults[0] is <class 'qlab.faults.Crash'>: use Crash or Pause or LostReply"),
    ({"faults": [Crash("b")]}, ValueError, "names ['b'], there are the handlers ['a']"),
    ({"policy": {"tries": 3}}, TypeError, "policy is {'tries': 3}: use Policy"),
    ({"workload": Poisson(1.0)}, TypeError, "workload is Poisson(rate=1.0): use Workload or None"),
    ({"seed": 1.0}, TypeError, "seed is 1.0: use an integer"),
    ({"seed": True}, TypeError, "seed is True: use an integer"),
]


@pytest.mark.parametrize(("fields", "kind", "says"), BAD, ids=[says for _, _, says in BAD])
def test_a_scenario_of_something_else_is_refused(fields: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as refusal:
        Scenario(**({"name": "bad", "handlers": {"a": Behaviour()}} | fields))
    assert says in str(refusal.value)


def test_what_a_scenario_is_made_of_is_its_own() -> None:
    handlers, arrivals = {"a": Behaviour()}, [Arrival(0.0, "a")]
    scenario = Scenario("own", arrivals, handlers)  # type: ignore[arg-type]
    handlers["b"], arrivals[0] = Behaviour(), Arrival(1.0, "b")
    assert scenario == Scenario("own", (Arrival(0.0, "a"),), {"a": Behaviour()}, policy=Policy())
    assert Scenario("poll", poll=2).poll == Poll(2.0)
    assert Scenario("work", workload=Workload(Poisson(1.0))).handlers == {}


@pytest.mark.parametrize("field", ["arrivals", "faults"])
@pytest.mark.parametrize("one", [Crash(at=3.0), 5, None])
def test_one_where_a_list_belongs_is_refused_by_its_name(field: str, one: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{field} is .*: use a list, as in {field}="):
        Scenario("one", **{field: one})
