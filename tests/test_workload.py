"""What a system is given to do: distributions keep their moments, streams are each other's strangers, and bad input."""

import copy
import json
import math
import pickle
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from qlab import workload
from qlab.workload import (
    Always,
    Budget,
    Bursts,
    Chance,
    Clients,
    Closed,
    Distribution,
    Empirical,
    Erlang,
    Every,
    Exponential,
    FirstAttempts,
    Fixed,
    Lognormal,
    Never,
    Poisson,
    Recorded,
    RecordedJob,
    Renewal,
    Varying,
    Workload,
    recorded,
)
from qlab.workload.streams import PURPOSES, Streams

DISTRIBUTIONS: list[Distribution] = [
    Fixed(2.5),
    Exponential(2.5),
    Lognormal(2.5, 0.5),
    Lognormal(0.25, 2.0),
    Erlang(1, 2.5),
    Erlang(3, 2.5),
    Erlang(40, 2.5),
    Empirical([1.0, 1.0, 7.5]),
]
STEPS = ((0.0, 2.0), (100.0, 0.0), (200.0, 10.0), (300.0, 0.0))
ARRIVALS: list[Any] = [
    Poisson(4.0),
    Every(0.25, first=3.0),
    Renewal(Erlang(2, 0.25)),
    Bursts(8, 2.0, first=1.0, spread=2.0),
    Bursts(8, 2.0),
    Bursts(8, None),
    Varying(STEPS),
    Varying(STEPS, most=10.0),
    Recorded([RecordedJob(1.0, "resize", 2.0, 3.0, {"image": 1}), RecordedJob(0.5)]),
    Closed(4, Exponential(10.0)),
]
OTHERS: list[Any] = [
    Never(),
    Always(),
    Chance(0.25),
    FirstAttempts(2),
    Budget(0.1, start=5.0, most=50.0),
    Clients(20.0, 4, (20, 40, 80), "full", cap=60.0, budget=Budget()),
    Workload(Poisson(1.0)),
    Workload(
        Poisson(1.0),
        service={"a": Fixed(1), "b": Exponential(2)},
        failures={"b": Chance(0.5)},
        names={"a": 1, "b": 3},
        jobs=100,
        capacity=10,
        clients=Clients(20.0, 4),
        redraw=False,
    ),
]


def stream(purpose: str = "services", seed: int = 7) -> Random:
    return Streams(seed).of(purpose)


def first(count: int, moments: Iterator[float]) -> list[float]:
    return list(islice(moments, count))


# -- distributions --


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=repr)
def test_a_distribution_has_the_mean_and_the_cv_that_it_says(one: Distribution) -> None:
    draw, n = one.sampler(stream()), 40_000
    values = [draw() / 1e6 for _ in range(n)]
    mean = math.fsum(values) / n
    squares = [(value - mean) ** 2 for value in values]
    variance = math.fsum(squares) / n
    error = math.sqrt(variance / n)
    assert abs(mean - one.mean) <= 4 * error
    wobble = math.sqrt((math.fsum(square**2 for square in squares) / n - variance**2) / n)
    assert abs(variance - (one.cv * one.mean) ** 2) <= 4 * wobble + 1e-12


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=repr)
def test_both_ways_to_draw_give_the_same(one: Distribution) -> None:
    fast, slow = one.sampler(stream()), stream()
    assert [fast() for _ in range(100)] == [round(one.draw(slow) * 1e6) for _ in range(100)]


def test_an_exponential_forgets_how_long_it_has_lasted() -> None:
    draw = Exponential(2.0).sampler(stream())
    values = [draw() / 1e6 for _ in range(40_000)]
    late = [value - 3.0 for value in values if value > 3.0]
    for left in (values, late):
        share = sum(value > 2.0 for value in left) / len(left)
        assert abs(share - math.exp(-1)) < 4 * math.sqrt(0.25 / len(left))


def beginning(one: Any) -> list[int]:
    """The first thousand numbers, in microseconds."""
    if isinstance(one, Distribution):
        draw = one.sampler(stream())
        return [draw() for _ in range(1_000)]
    return [round(moment * 1e6) for moment in islice(one.moments(stream("arrivals")), 1_000)]


def digest(values: Any) -> str:
    return sha256(repr(values).encode()).hexdigest()[:12]


BEGINS = [
    [2500000, 2500000, "d52168b8494c"],
    [530184, 6704117, "8aa30f0f2b22"],
    [2957508, 2455231, "c2ddceceb920"],
    [236919, 143718, "436de44f4c38"],
    [530184, 6704117, "8aa30f0f2b22"],
    [2454511, 3553652, "a532375af36d"],
    [2550011, 2131122, "f6f48ca3f97c"],
    [1000000, 7500000, "637d319ac42f"],
    [132695, 239056, "95b348b2b804"],
    [3000000, 3250000, "d616fb3940c5"],
    [119528, 295956, "4ce33058b59d"],
    [1693046, 1780533, "9ef695e638e1"],
    [0, 0, "3dbbdd0c9005"],
    [0, 0, "c14bc7d02c76"],
    [265389, 478113, "01c95d483e50"],
    [265389, 478113, "01c95d483e50"],
    [500000, 1000000, "8006b684e32f"],
]


@pytest.mark.parametrize(("one", "starts"), list(zip([*DISTRIBUTIONS, *ARRIVALS[:-1]], BEGINS, strict=True)))
def test_the_same_seed_draws_the_same_numbers_on_every_python(one: Any, starts: list[Any]) -> None:
    values = beginning(one)
    assert [*values[:2], digest(values)] == starts


# -- streams --


@pytest.mark.parametrize(("seed", "starts"), [(7, "985e1fe5f060"), (-1, "b293414c561b"), (2**70, "aa09a781163e")])
def test_a_stream_starts_at_the_same_place_on_every_python(seed: int, starts: str) -> None:
    assert digest([Streams(seed).of(purpose).random() for purpose in PURPOSES]) == starts


@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_is_drawn_for_one_purpose_moves_no_other(purpose: str) -> None:
    alone, beside = Streams(7), Streams(7)
    for other in PURPOSES:
        if other != purpose:
            [beside.of(other).random() for _ in range(100)]
    assert [alone.of(purpose).random() for _ in range(20)] == [beside.of(purpose).random() for _ in range(20)]


def test_no_two_streams_of_near_seeds_are_alike() -> None:
    starts = {Streams(seed).of(purpose).random() for seed in range(-50, 50) for purpose in PURPOSES}
    assert len(starts) == 100 * len(PURPOSES)


def test_the_arms_of_a_comparison_meet_the_same_arrivals_though_their_services_differ() -> None:
    arms = []
    for service in (Exponential(1.0), Lognormal(1.0, 2.0)):
        streams = Streams(11)
        moments, draw = Poisson(0.8).moments(streams.of("arrivals")), service.sampler(streams.of("services"))
        arms.append([(next(moments), draw()) for _ in range(100)])
    left, right = arms
    assert [moment for moment, _ in left] == [moment for moment, _ in right]
    assert [service for _, service in left] != [service for _, service in right]


def test_a_stream_goes_on_where_it_was_left() -> None:
    streams = Streams(7)
    assert streams.of("polls") is streams.of("polls")
    assert streams.of("polls").random() != streams.of("polls").random()
    assert repr(streams) == "Streams(7)"


def test_a_stream_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="drawn for 'arrival': use one of arrivals, services"):
        Streams(7).of("arrival")
    for seed in ("7", 7.0, True, None):
        with pytest.raises(TypeError, match=f"seed is {seed!r}: use an integer"):
            Streams(seed)  # type: ignore[arg-type]


# -- arrivals --


@pytest.mark.parametrize("one", ARRIVALS[:-1], ids=repr)
def test_moments_are_in_order_and_end_at_the_moment_that_is_asked_for(one: Any) -> None:
    all_of_them = first(2_000, one.moments(stream("arrivals")))
    assert all_of_them == sorted(all_of_them)
    assert all_of_them[0] >= 0
    until = all_of_them[len(all_of_them) // 2]
    up_to = list(one.moments(stream("arrivals"), until))
    assert up_to == [moment for moment in all_of_them if moment <= until]


@pytest.mark.parametrize(
    "one",
    [Poisson(4.0), Renewal(Exponential(0.25)), Varying(((0.0, 4.0),)), Varying(lambda now: 4.0, most=16.0)],
    ids=["Poisson", "Renewal", "steps", "function"],
)
def test_a_poisson_process_by_any_name_has_its_mean_and_its_variance(one: Any) -> None:
    windows = [0] * 4_000
    for moment in one.moments(stream("arrivals"), until=4_000.0 - 1e-9):
        windows[int(moment)] += 1
    mean = sum(windows) / len(windows)
    variance = sum((count - mean) ** 2 for count in windows) / len(windows)
    assert abs(mean - 4) < 4 * math.sqrt(4 / len(windows))
    assert abs(variance - 4) < 4 * math.sqrt((4 + 2 * 16) / len(windows))


def test_a_clock_does_not_drift() -> None:
    assert first(100_001, Every(0.1).moments(stream()))[-1] == pytest.approx(10_000.0, abs=1e-9)


def test_bursts_come_together_and_are_spread_over_their_spread() -> None:
    assert first(7, Bursts(3, 10.0, first=5.0).moments(stream())) == [5.0, 5.0, 5.0, 15.0, 15.0, 15.0, 25.0]
    spread = first(300, Bursts(100, 10.0, spread=4.0).moments(stream()))
    for i in range(3):
        burst = [moment - 10 * i for moment in spread[100 * i : 100 * i + 100]]
        assert 0 <= min(burst) < 0.4
        assert 3.6 < max(burst) <= 4.0
    assert list(Bursts(10_000, None, first=36_000.0).moments(stream())) == [36_000.0] * 10_000


def test_a_rate_in_steps_gives_each_step_its_share_and_ends_where_it_is_0() -> None:
    shares = [0, 0, 0, 0]
    for seed in range(40):
        for moment in Varying(STEPS).moments(stream("arrivals", seed)):
            shares[int(moment // 100)] += 1
    assert shares[1] == shares[3] == 0
    assert abs(shares[0] - 8_000) < 4 * math.sqrt(8_000)
    assert abs(shares[2] - 40_000) < 4 * math.sqrt(40_000)


def test_a_rate_in_steps_may_begin_late_and_go_on() -> None:
    moments = first(100, Varying(((50.0, 10.0),)).moments(stream()))
    assert 50 < moments[0] < moments[-1] < 75


def test_a_rate_that_is_a_function_is_followed() -> None:
    day = Varying(lambda now: 10 * (1 + math.sin(now)), most=20.0)
    rising, falling = 0, 0
    for moment in day.moments(stream("arrivals"), until=1_000 * math.tau):
        rising, falling = rising + (moment % math.tau < math.pi), falling + (moment % math.tau >= math.pi)
    for counted, mean in ((rising, 10 * (math.pi + 2)), (falling, 10 * (math.pi - 2))):
        assert abs(counted - 1_000 * mean) < 4 * math.sqrt(1_000 * mean)


@pytest.mark.parametrize("wrong", [21.5, -1.0, math.nan])
def test_a_rate_that_it_cannot_be_is_refused_with_its_moment(wrong: float) -> None:
    moments = Varying(lambda now: 1.0 if now < 50 else wrong, most=20.0).moments(stream())
    with pytest.raises(ValueError, match=rf"the rate at 50\.\d+ s is {wrong!r}: use one from 0 to most, which is 20.0"):
        list(moments)


def test_a_rate_that_stays_0_is_told_and_hangs_nobody() -> None:
    moments = Varying(lambda now: 5.0 if now < 60 else 0.0, most=5.0).moments(stream())
    with pytest.raises(ValueError, match=r"between 59\.\d+ s and .* none was taken: .* state it as steps"):
        list(moments)


# -- failures, clients, budget --


def test_failures_are_what_they_say() -> None:
    random = stream("failures")
    assert [FirstAttempts(2).fails(attempt, random) for attempt in (1, 2, 3, 4)] == [True, True, False, False]
    assert not any(one.fails(1, random) for one in (Never(), FirstAttempts(0), Chance(0.0)) for _ in range(50))
    assert all(one.fails(99, random) for one in (Always(), Chance(1)) for _ in range(50))
    share = sum(Chance(0.3).fails(1, random) for _ in range(20_000)) / 20_000
    assert abs(share - 0.3) < 4 * math.sqrt(0.21 / 20_000)


def test_a_client_waits_as_its_backoff_says_up_to_the_cap() -> None:
    clients = Clients(20.0, 9, (10, 60, 300), cap=100.0)
    assert [clients.wait(asked, stream("clients")) for asked in (1, 2, 3, 4, 5)] == [10, 60, 100, 100, 100]
    assert Clients(20.0, 2).wait(1, stream("clients")) == 0


@pytest.mark.parametrize(("jitter", "least"), [("full", 0.0), ("equal", 30.0)])
def test_jitter_is_spread_evenly_from_its_least_up_to_the_backoff(jitter: Any, least: float) -> None:
    random, clients = stream("clients"), Clients(20.0, 9, 60.0, jitter)
    waits = [clients.wait(1, random) for _ in range(20_000)]
    assert least <= min(waits) < least + 0.1
    assert 59.9 < max(waits) < 60
    sd = (60 - least) / math.sqrt(12)
    assert abs(sum(waits) / len(waits) - (60 + least) / 2) < 4 * sd / math.sqrt(len(waits))


def test_a_budget_counts_to_the_token() -> None:
    purse = Budget(ratio=0.1, start=2.0, most=3.0).purse()
    assert [purse.spend() for _ in range(3)] == [True, True, False]
    for _ in range(9):
        purse.earn()
    assert not purse.spend()
    purse.earn()
    assert purse.tokens == 1.0
    assert purse.spend()
    assert purse.tokens == 0.0
    for _ in range(1_000):
        purse.earn()
    assert purse.tokens == 3.0


def test_a_budget_bounds_how_often_all_ask_again() -> None:
    purse, again = Budget(ratio=0.1, start=10.0).purse(), 0
    for _ in range(10_000):
        purse.earn()
        again += purse.spend()
    assert again == 10 + 1_000


def test_the_purse_of_one_run_is_not_that_of_another() -> None:
    budget = Budget(start=1.0)
    assert budget.purse().spend()
    assert budget.purse().spend()


# -- the workload --


def test_names_are_drawn_as_likely_as_they_are_said_to_be() -> None:
    namer = Workload(Poisson(1.0), names={"a": 1, "never": 0, "b": 3}).namer(stream("names"))
    drawn = [namer() for _ in range(20_000)]
    assert set(drawn) == {"a", "b"}
    assert abs(drawn.count("b") - 15_000) < 4 * math.sqrt(20_000 * 0.25 * 0.75)
    alike = Workload(Poisson(1.0), names=["a", "b", "c"]).namer(stream("names"))
    assert abs([alike() for _ in range(30_000)].count("c") - 10_000) < 4 * math.sqrt(30_000 * 2 / 9)


def test_where_there_is_one_name_no_number_is_drawn_for_it() -> None:
    random = stream("names")
    before = random.getstate()
    assert Workload(Poisson(1.0)).namer(random)() == "job"
    assert random.getstate() == before


def test_each_name_has_its_own_service_and_failures() -> None:
    work = Workload(
        Poisson(1.0), {"a": Fixed(1.0), "b": Fixed(2.0)}, {"b": Always()}, names=("a", "b"), jobs=5, capacity=2
    )
    assert [work.service_of(name) for name in work.handlers] == [Fixed(1.0), Fixed(2.0)]
    assert [work.failures_of(name) for name in work.handlers] == [Never(), Always()]
    plain = Workload(Poisson(1.0), Fixed(3.0), Chance(0.5))
    assert (plain.service_of("job"), plain.failures_of("job")) == (Fixed(3.0), Chance(0.5))


def test_the_names_of_a_recording_are_names_too() -> None:
    both = Recorded([RecordedJob(0.0, "resize"), RecordedJob(1.0), RecordedJob(2.0, "resize")])
    assert Workload(both).handlers == ("job", "resize")
    assert Workload(Recorded([RecordedJob(0.0, "resize")])).handlers == ("resize",)
    with pytest.raises(ValueError, match="service does not say how long 'job' takes"):
        Workload(both, service={"resize": Fixed(1.0)})


@pytest.mark.parametrize("one", [*DISTRIBUTIONS, *ARRIVALS, *OTHERS], ids=repr)
def test_what_is_printed_makes_the_same_again(one: Any) -> None:
    assert eval(repr(one), vars(workload)) == one
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one


def test_a_mapping_that_was_given_can_be_changed_without_harm() -> None:
    given = {"job": Fixed(1.0)}
    work = Workload(Poisson(1.0), given)
    given["job"] = Fixed(2.0)
    assert work.service_of("job") == Fixed(1.0)
    with pytest.raises(TypeError):
        work.service["job"] = Fixed(2.0)  # type: ignore[index]


def test_a_distribution_of_your_own_will_do() -> None:
    class Coin:
        mean, cv = 1.0, 1.0

        def draw(self, random: Random) -> float:
            return 2.0 * (random.random() < 0.5)

        def sampler(self, random: Random) -> Any:
            return lambda: round(self.draw(random) * 1e6)

    assert Workload(Renewal(Coin()), Coin()).service_of("job").mean == 1.0


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: Fixed(-1.0), ValueError, "seconds is -1.0 s: use a number of seconds from 0"),
    (lambda: Fixed(math.nan), ValueError, "seconds is nan"),
    (lambda: Fixed("1"), TypeError, "seconds is '1': use a number of seconds"),
    (lambda: Exponential(0.0), ValueError, "mean is 0.0 s: use a number of seconds from 0.000001, or Fixed(0.0)"),
    (lambda: Exponential(math.inf), ValueError, "mean is inf s"),
    (lambda: Exponential(True), TypeError, "mean is True"),
    (lambda: Lognormal(1.0, -0.1), ValueError, "cv is -0.1: use a number from 0 to 1,000"),
    (lambda: Lognormal(1.0, math.nan), ValueError, "cv is nan"),
    (lambda: Lognormal(0.0, 1.0), ValueError, "mean is 0.0 s"),
    (lambda: Lognormal(1.0, "2"), TypeError, "cv is '2': use a number"),
    (lambda: Erlang(0, 1.0), ValueError, "k is 0: use a whole number of stages from 1"),
    (lambda: Erlang(1.5, 1.0), ValueError, "k is 1.5"),
    (lambda: Empirical([]), ValueError, "values is empty"),
    (lambda: Empirical([1.0, -2.0]), ValueError, "values[1] is -2.0 s"),
    (lambda: Empirical("123"), TypeError, "values is '123': use a list of seconds"),
    (lambda: Empirical(3), TypeError, "values is 3: use a list of seconds"),
    (lambda: Poisson(0.0), ValueError, "rate is 0.0: use a number of arrivals a second above 0"),
    (lambda: Poisson(-1), ValueError, "rate is -1: use a number from 0"),
    (lambda: Poisson(math.inf), ValueError, "rate is inf: use a number from 0"),
    (lambda: Poisson(None), TypeError, "rate is None: use a number"),
    (lambda: Every(0), ValueError, "interval is 0 s: use a number of seconds from 0.000001"),
    (lambda: Every(1, first=-1), ValueError, "first is -1 s"),
    (lambda: Renewal(Fixed(0.0)), ValueError, "between is Fixed(seconds=0.0): use one with a mean above 0"),
    (lambda: Renewal(1.0), TypeError, "between is 1.0: use a distribution, such as Fixed(1.0)"),
    (lambda: Renewal(Exponential), TypeError, "use a distribution"),
    (lambda: Bursts(0, 1.0), ValueError, "size is 0: use a whole number of jobs from 1"),
    (lambda: Bursts(5, 0.0), ValueError, "every is 0.0 s"),
    (lambda: Bursts(5, 10.0, spread=11.0), ValueError, "spread is 11.0 s: use at most every, which is 10.0 s"),
    (lambda: Varying(lambda now: 1.0), ValueError, "most is None: say the highest rate that it ever gives"),
    (lambda: Varying(lambda now: 1.0, most=0.0), ValueError, "most is 0.0: use a number of arrivals a second above 0"),
    (lambda: Varying(((0, 1), (10, 30)), most=20), ValueError, "the rate at 10 s is 30.0: use one from 0 to most"),
    (lambda: Varying(((10, 1), (10, 2))), ValueError, "the step at 10 s after the one at 10 s: use steps in order"),
    (lambda: Varying(((0, 0), (10, 0))), ValueError, "use at least one step with a rate above 0"),
    (lambda: Varying(()), ValueError, "rate is (): use at least one step"),
    (lambda: Varying((0, 1)), TypeError, "rate[0] is 0: use (from second, rate)"),
    (lambda: Varying(((0, -1),)), ValueError, "rate[0], rate is -1"),
    (lambda: Varying(3.0), TypeError, "rate is 3.0: use a function of the moment, or steps"),
    (lambda: Closed(0, Fixed(1.0)), ValueError, "clients is 0: use a whole number from 1"),
    (lambda: Closed(1, 5.0), TypeError, "think is 5.0: use a distribution"),
    (lambda: Recorded([]), ValueError, "the recording has no jobs"),
    (lambda: Recorded([(1.0, "a")]), TypeError, "job 1 is (1.0, 'a'): use RecordedJob(at=…, …), or recorded(…)"),
    (lambda: Recorded([RecordedJob(0.0), RecordedJob(-1.0)]), ValueError, "job 2, at is -1.0 s"),
    (lambda: Recorded([RecordedJob(0.0, payload={1})]), ValueError, "job 1, payload"),
    (lambda: Recorded([RecordedJob(0.0, name=None)]), TypeError, "job 1, name is None: use text"),
    (lambda: Chance(1.1), ValueError, "p is 1.1: use a number from 0 to 1"),
    (lambda: Chance(math.nan), ValueError, "p is nan"),
    (lambda: FirstAttempts(-1), ValueError, "n is -1: use a whole number of attempts from 0"),
    (lambda: Budget(ratio=-0.1), ValueError, "ratio is -0.1"),
    (lambda: Budget(start=200.0), ValueError, "start is 200.0: use at most what is kept, most=100.0"),
    (lambda: Clients(0.0, 1), ValueError, "timeout is 0.0 s: use a number of seconds above 0"),
    (lambda: Clients(1.0, 0), ValueError, "attempts is 0: use a whole number from 1"),
    (lambda: Clients(1.0, 2, ()), ValueError, "backoff is empty: use 0.0"),
    (lambda: Clients(1.0, 2, (1.0, -1.0)), ValueError, "backoff[1] is -1.0 s"),
    (lambda: Clients(1.0, 2, jitter="half"), ValueError, "jitter is 'half': use one of none, full, equal"),
    (lambda: Clients(1.0, 2, cap=-1), ValueError, "cap is -1 s"),
    (lambda: Clients(1.0, 2, budget=0.1), TypeError, "budget is 0.1: use a Budget, or None"),
    (lambda: Workload(2.0), TypeError, "arrivals is 2.0: use what is one, such as Poisson(rate=2.0)"),
    (lambda: Workload(Poisson), TypeError, "arrivals is <class"),
    (lambda: Workload(Poisson(1.0), 1.0), TypeError, "service is 1.0: use a distribution"),
    (lambda: Workload(Poisson(1.0), {"jop": Fixed(1)}), ValueError, "service names 'jop': did you mean 'job'?"),
    (lambda: Workload(Poisson(1.0), {"job": 1}), TypeError, "service['job'] is 1: use a distribution"),
    (lambda: Workload(Poisson(1.0), failures=0.1), TypeError, "failures is 0.1: use Chance(0.1), FirstAttempts(2)"),
    (
        lambda: Workload(Poisson(1.0), failures={"a": Never()}),
        ValueError,
        "failures names 'a': the jobs are named",
    ),
    (lambda: Workload(Poisson(1.0), names="job"), TypeError, "names is 'job': use a list of names, such as ('job',)"),
    (lambda: Workload(Poisson(1.0), names=()), ValueError, "names is (): use at least one"),
    (lambda: Workload(Poisson(1.0), names=("a", "a")), ValueError, "each once"),
    (lambda: Workload(Poisson(1.0), names=("a", "")), TypeError, "names has '': use text that is not empty"),
    (lambda: Workload(Poisson(1.0), names={"a": -1}), ValueError, "names['a'] is -1"),
    (lambda: Workload(Poisson(1.0), names={"a": 0}), ValueError, "at least one name with a number above 0"),
    (lambda: Workload(Poisson(1.0), jobs=0), ValueError, "jobs is 0: use a whole number from 1, or None for no limit"),
    (lambda: Workload(Poisson(1.0), capacity=-1), ValueError, "capacity is -1"),
    (
        lambda: Workload(Poisson(1.0), clients=4),
        TypeError,
        "clients is 4: use Clients(timeout=20.0, attempts=4), or None",
    ),
    (
        lambda: Workload(Closed(1, Fixed(1)), clients=Clients(1, 1)),
        ValueError,
        "arrivals is Closed",
    ),
    (lambda: Workload(Poisson(1.0), redraw=None), TypeError, "redraw is None: use True or False"),
]


@pytest.mark.parametrize(("make", "kind", "says"), BAD, ids=[says for _, _, says in BAD])
def test_what_cannot_be_is_refused_with_its_value_and_the_way_out(make: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as refusal:
        make()
    assert says in str(refusal.value)


# -- recordings --

TABLE = [
    {"at": 4.0, "name": "resize", "service": 2.5, "payload": {"image": 1, "tags": ["a", "é"]}},
    {"at": 0.5, "name": None, "service": None, "delay": 10.0, "payload": None},
    {"at": 4.0, "name": "mail", "service": 0.25, "delay": None, "payload": "text, with a comma"},
]
JOBS = (
    RecordedJob(0.5, delay=10.0),
    RecordedJob(4.0, "resize", 2.5, payload={"image": 1, "tags": ["a", "é"]}),
    RecordedJob(4.0, "mail", 0.25, payload="text, with a comma"),
)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_a_recording_is_the_same_from_a_list_a_frame_and_a_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(TABLE)
    assert recorded(TABLE) == recorded(frame) == recorded(iter(TABLE)) == Recorded(JOBS)
    text = frame.assign(payload=[json.dumps(row["payload"]) for row in TABLE]).to_csv(index=False)
    for encoding in ("utf-8", "utf-8-sig"):
        path = write(tmp_path / "jobs.csv", text, encoding)
        assert recorded(path) == recorded(str(path)) == Recorded(JOBS)


def test_a_frame_of_whole_numbers_and_of_missing_ones_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"at": [3, 1], "delay": pd.array([None, 2], dtype="Int64"), "name": ["a", pd.NA]})
    assert recorded(frame).jobs == (RecordedJob(1.0, delay=2.0), RecordedJob(3.0, "a"))
    seconds = pd.DataFrame({"at": pd.to_timedelta([1.5, 0.5], unit="s")})
    assert [job.at for job in recorded(seconds).jobs] == [0.5, 1.5]


BAD_FILES = [
    ("", "has no rows"),
    ("at\n", "has no rows: use one for each job"),
    ("at\n1\nsoon\n", "row 2, column at is 'soon': use a number of seconds, with a point"),
    ("at\n1\n-2\n", "row 2, column at is -2.0 s: use a number of seconds from 0"),
    ("at,service\n1,inf\n", "row 1, column service is inf s"),
    ("at,service\n1,nan\n", "row 1, column service is nan s"),
    ("at,delay\n1,0\n,3\n", "row 2 has no at"),
    ("service\n1\n", "row 1 has no at: say in each row when the job comes"),
    ("at,delays\n1,2\n", "row 1 has the column 'delays': did you mean 'delay'? use at, name, service, delay, payload"),
    ("at;name\n1;a\n", "row 1 has the column 'at;name': separate the cells with commas"),
    ("at,at\n1,2\n", "has the columns ['at'] twice: use each once"),
    ("at,name\n1,a,b\n", "row 1 has more cells than the head has columns"),
    ("at,payload\n1,plain text\n", "row 1, column payload is 'plain text': use JSON, in which text stands between"),
    ("at,payload\n1,NaN\n", "payload is 'NaN': use JSON"),
    ('at,name\n1,"a\n', "is no line of a CSV file"),
]


@pytest.mark.parametrize(("text", "says"), BAD_FILES, ids=[says for _, says in BAD_FILES])
def test_a_table_without_the_form_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path / "jobs.csv", text)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        recorded(path)
    assert str(path) in str(refusal.value)
    assert says in str(refusal.value)


def test_a_file_that_is_no_text_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no text in UTF-8 .*: save the table as UTF-8"):
        recorded(write(tmp_path / "jobs.csv", "at,name\n1,café\n", "latin-1"))
    with pytest.raises(FileNotFoundError, match="none.csv"):
        recorded(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("rows", "kind", "says"),
    [
        ([{"at": 1.0}, {"at": "soon"}], ValueError, "the table, row 2, column at is 'soon'"),
        ([{"at": 1.0}, {"at": True}], TypeError, "the table, row 2, column at is True"),
        ([{"at": 1.0, "name": 3}], TypeError, "the table, row 1, column name is 3: use text"),
        ([{"at": 1.0, "payload": {1, 2}}], ValueError, "the table, row 1, column payload"),
        ([{"at": 1.0, 7: 2}], ValueError, "the table, row 1 has the column 7"),
        ([1.0, 2.0], TypeError, "the table, row 1 is 1.0: use a mapping with the columns at, name"),
        (pd.DataFrame({"at": pd.to_datetime(["2026-10-25"])}), TypeError, "of dates, (dates - dates.min())"),
        (pd.DataFrame({"when": [1]}), ValueError, "the table, row 1 has the column 'when'"),
        (pd.DataFrame({"at": []}), ValueError, "the table has no rows"),
        ({"at": [1.0]}, TypeError, "is no table: use the path of a CSV file, a list of mappings or a DataFrame"),
        (3, TypeError, "3 is no table"),
        (b"jobs.csv", TypeError, "b'jobs.csv' is no table"),
    ],
)
def test_rows_without_the_form_are_refused_with_their_place(rows: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as refusal:
        recorded(rows)
    assert says in str(refusal.value)
