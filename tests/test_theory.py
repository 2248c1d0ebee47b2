"""The closed forms: what they say of each other, at their limits, and where they have no answer."""

import math
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlab import theory
from qlab.theory import distributions
from qlab.theory.bulk import Bulk
from qlab.workload import Budget

LOADS = st.floats(0.01, 0.97)
SERVICES = st.floats(0.001, 1_000.0)
WORKERS = st.integers(1, 12)


def same(got: float, expected: float, rel: float = 1e-9) -> None:
    assert got == pytest.approx(expected, rel=rel, abs=1e-12)


def stations(load: float, service: float, workers: int) -> Iterator[theory.Station]:
    yield theory.MMc(load * workers / service, service, workers)
    yield theory.MDc(load * workers / service, service, workers)
    yield theory.MG1.lognormal(load / service, service, 1.7)
    yield theory.GIM1.every(load / service, service)
    yield theory.GIM1.erlang(load / service, service, 3)


def integral(f: Callable[[float], float], end: float, steps: int = 20_000) -> float:
    """By the rule of the middle."""
    width = end / steps
    return math.fsum(f((i + 0.5) * width) for i in range(steps)) * width


# -- what holds at every station --


@given(LOADS, SERVICES, WORKERS)
def test_littles_law_joins_what_waits_and_how_long(load: float, service: float, workers: int) -> None:
    for station in stations(load, service, workers):
        same(station.waiting, station.rate * station.wait)
        same(station.depth, station.waiting + station.load)
        same(station.sojourn, station.wait + service)
        same(station.utilisation, load)
        assert 0 <= station.p_wait <= 1


@given(LOADS, SERVICES, WORKERS, st.floats(0.01, 100))
def test_time_may_be_told_in_other_units(load: float, service: float, workers: int, factor: float) -> None:
    for station, slower in zip(
        stations(load, service, workers), stations(load, service * factor, workers), strict=True
    ):
        same(slower.wait, station.wait * factor, 1e-7)
        same(slower.p_wait, station.p_wait, 1e-7)
        same(slower.depth, station.depth, 1e-7)


@given(LOADS, SERVICES)
def test_the_general_forms_hold_mm1(load: float, service: float) -> None:
    rate = load / service
    plain = theory.MMc(rate, service)
    same(plain.wait, load / (1 / service - rate))
    same(plain.p_wait, load)
    for general in (theory.MG1.exponential(rate, service), theory.MG1.erlang(rate, service, 1)):
        same(general.wait, plain.wait)
        same(general.wait_sd, plain.wait_sd)
        same(general.sojourn_sd, plain.sojourn_sd)
    memoryless = theory.GIM1.erlang(rate, service, 1)
    same(memoryless.wait, plain.wait, 1e-7)
    same(memoryless.wait_sd, plain.wait_sd, 1e-7)
    same(memoryless.wait_tail(service), plain.wait_tail(service), 1e-7)
    same(memoryless.sojourn_quantile(0.9), plain.sojourn_quantile(0.9), 1e-7)
    same(theory.kingman(load, service, 1, 1), plain.wait)


@given(LOADS, SERVICES)
def test_the_general_forms_hold_md1(load: float, service: float) -> None:
    rate = load / service
    fixed = theory.MDc(rate, service)
    same(fixed.wait, theory.MG1.fixed(rate, service).wait)
    same(fixed.wait, theory.kingman(load, service, 1, 0))
    same(fixed.wait, theory.MMc(rate, service).wait / 2)
    same(theory.MG1.lognormal(rate, service, 0).wait_sd, fixed.wait_sd)
    assert theory.MG1.erlang(rate, service, 10**9).wait == pytest.approx(fixed.wait, rel=1e-6)


@given(LOADS, SERVICES, st.floats(0, 4))
def test_kingman_is_exact_for_poisson_arrivals(load: float, service: float, cv: float) -> None:
    same(theory.kingman(load, service, 1, cv), theory.MG1(load / service, service, cv).wait)


@given(LOADS)
def test_kingman_is_above_regular_arrivals_and_close_in_heavy_traffic(load: float) -> None:
    assert theory.kingman(load, 1, 0, 1) > theory.GIM1.every(load, 1).wait
    near = theory.GIM1.every(0.999, 1).wait
    assert theory.kingman(0.999, 1, 0, 1) == pytest.approx(near, rel=1e-3)


@given(LOADS, st.floats(0.5, 0.9))
def test_kingman_is_no_bound_for_arrivals_in_bursts(load: float, more: float) -> None:
    def burst(s: float) -> float:  # the next arrival comes at once with this probability
        return more + (1 - more) * math.exp(-s / load / (1 - more))

    cv = math.sqrt(more / (1 - more))
    assert theory.GIM1(load, 1.0, burst).wait > theory.kingman(load, 1.0, cv, 1.0)


# -- tails and quantiles --


@given(LOADS, WORKERS, st.floats(0.01, 0.999))
def test_a_quantile_is_where_the_tail_is_what_is_left(load: float, workers: int, q: float) -> None:
    station = theory.MMc(load * workers, 1.0, workers)
    if waited := station.wait_quantile(q):
        same(station.wait_tail(waited), 1 - q, 1e-6)
    else:
        assert station.p_wait <= (1 - q) * (1 + 1e-9)
    same(station.sojourn_tail(station.sojourn_quantile(q)), 1 - q, 1e-6)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_the_tails_add_up_to_the_means(load: float, workers: int) -> None:
    plain, fixed = theory.MMc(load * workers, 1.0, workers), theory.MDc(load * workers, 1.0, workers)
    same(integral(plain.wait_tail, 60), plain.wait, 1e-4)
    same(integral(plain.sojourn_tail, 90), plain.sojourn, 1e-4)
    same(2 * integral(lambda t: t * plain.wait_tail(t), 120), plain.wait_sd**2 + plain.wait**2, 1e-4)
    same(integral(fixed.wait_tail, 16, 320), fixed.wait, 4e-3)
    same(2 * integral(lambda t: t * fixed.wait_tail(t), 16, 320), fixed.wait_sd**2 + fixed.wait**2, 2e-2)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 2.5, 5.0])
def test_fixed_services_wait_as_erlang_said_in_1909(load: float, t: float) -> None:
    terms = [(-load * (t - k)) ** k / math.factorial(k) * math.exp(load * (t - k)) for k in range(math.floor(t) + 1)]
    same(theory.MDc(load, 1.0).wait_tail(t), 1 - (1 - load) * math.fsum(terms), 1e-9)


def test_the_tail_of_fixed_services_keeps_its_digits_far_out() -> None:
    station = theory.MDc(0.8, 1.0)
    decay = station.wait_tail(31) / station.wait_tail(30)
    assert 0 < station.wait_tail(31) < 1e-5
    assert decay == pytest.approx(station.wait_tail(21) / station.wait_tail(20), rel=1e-4)
    same(station.wait_tail(station.wait_quantile(0.99)), 0.01)


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
@pytest.mark.parametrize("load", [1e-12, 0.3, 0.999, 1 - 1e-6])
def test_every_form_has_an_answer_however_empty_or_full_the_queue_is(load: float, workers: int) -> None:
    every: list[theory.MMc | theory.MDc | theory.GIM1] = [
        theory.MMc(load * workers, 1.0, workers),
        theory.MDc(load * workers, 1.0, workers),
        theory.GIM1.every(load, 1.0),
    ]
    for station in every:
        left = station.wait_tail(0.0)
        assert math.isclose(left, station.p_wait)
        for t in (0.5, 40.0, 1e3, 1e7):
            left, before = station.wait_tail(t), left
            assert 0 <= left <= before
        for q in (0.5, 0.999):
            waited = station.wait_quantile(q)
            assert station.wait_tail(waited) == pytest.approx(1 - q, rel=1e-6) if waited else station.p_wait <= 1 - q
            assert waited <= station.sojourn_quantile(q) < math.inf


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("load", [0.3, 0.9, 0.999])
def test_what_is_done_late_is_what_waited_and_then_took_long(load: float, workers: int) -> None:
    station = theory.MMc(load * workers, 1.0, workers)
    spare = workers * (1 - load)
    for t in (0.5, 5.0, 60.0):
        steps, h = 20_000, t / 20_000
        points = (station.p_wait * spare * math.exp(-spare * i * h - (t - i * h)) for i in range(1, steps))
        ends = station.p_wait * spare * (math.exp(-t) + math.exp(-spare * t)) / 2
        waited = (math.fsum(points) + ends) * h
        same(station.sojourn_tail(t), (1 - station.p_wait) * math.exp(-t) + waited + station.wait_tail(t), 1e-5)
    assert 0 <= station.sojourn_tail(1e9) < 1e-9


def test_the_wait_for_many_workers_falls_with_the_load_and_not_with_rounding() -> None:
    station = theory.MDc(0.1, 1.0, 10)  # who waits has found ten or more of a Poisson number
    same(station.p_wait, math.exp(-0.1) * sum(0.1**n / math.factorial(n) for n in range(10, 20)), 1e-6)


@given(st.floats(0.05, 0.97), st.integers(1, 40))
def test_what_is_left_behind_is_the_same_by_both_ways(load: float, most: int) -> None:
    bulk = Bulk(load * most, most)
    if load < 0.8:
        left = [bulk.left(n) for n in range(301)]
        same(math.fsum(left), 1.0)
        assert math.fsum(n * p for n, p in enumerate(left)) == pytest.approx(bulk.mean, rel=1e-6, abs=1e-9)
        assert 1 - left[0] == pytest.approx(bulk.some_left, abs=1e-11)
    assert 0 <= bulk.some_left <= 1
    assert bulk.mean >= bulk.some_left - 1e-11


# -- bounded and closed --


@given(LOADS, WORKERS)
def test_a_capacity_that_is_never_reached_changes_nothing(load: float, workers: int) -> None:
    free, bounded = theory.MMc(load * workers, 1.0, workers), theory.MMcK(load * workers, 1.0, workers, 1_500)
    same(bounded.wait, free.wait, 1e-6)
    same(bounded.p_wait, free.p_wait, 1e-6)
    same(bounded.depth, free.depth, 1e-6)
    same(bounded.throughput, free.rate)


@given(st.floats(0.01, 50), WORKERS, st.integers(0, 30))
def test_a_bounded_station_keeps_its_balance(rate: float, workers: int, room: int) -> None:
    bounded = theory.MMcK(rate, 0.7, workers, workers + room)
    same(bounded.throughput, rate * (1 - bounded.p_block), 1e-7)
    same(bounded.depth, bounded.waiting + bounded.throughput * 0.7)
    same(bounded.sojourn, bounded.wait + 0.7)
    assert 0 <= bounded.p_wait <= 1
    assert 0 <= bounded.utilisation <= 1 + 1e-9
    if not room:
        same(bounded.p_block, theory.erlang_b(workers, rate * 0.7))


def test_a_bounded_station_under_a_huge_load_is_full() -> None:
    full = theory.MMcK(1e9, 1.0, 3, 200)
    same(full.throughput, 3.0, 1e-6)
    same(full.depth, 200.0, 1e-6)


@given(st.integers(1, 400), st.floats(0.1, 100), st.floats(0.1, 100), st.integers(1, 8))
def test_a_closed_station_stays_below_its_asymptotes(clients: int, think: float, service: float, workers: int) -> None:
    closed = theory.Closed(clients, think, service, workers)
    assert closed.throughput <= closed.most * (1 + 1e-9)
    same(closed.sojourn, clients / closed.throughput - think, 1e-6)
    same(closed.sojourn, closed.wait + service, 1e-6)
    assert closed.utilisation <= 1 + 1e-9
    if clients <= workers:
        same(closed.throughput, clients / (think + service))


def test_a_closed_station_has_its_knee_where_the_asymptotes_meet() -> None:
    closed = theory.Closed(11, 10.0, 1.0)
    assert closed.knee == 11
    same(theory.Closed(11, 10.0, 1.0).most, 1.0)
    same(theory.Closed(5, 10.0, 1.0).most, 5 / 11)
    same(theory.Closed(2_000, 10.0, 1.0).throughput, 1.0)


# -- retries --


@given(st.floats(0, 0.95), st.integers(1, 20))
def test_attempts_are_counted_from_their_ends(p: float, tries: int) -> None:
    ends = [(k, (1 - p) * p ** (k - 1)) for k in range(1, tries)] + [(tries, p ** (tries - 1))]
    same(theory.attempts(p, tries), math.fsum(k * chance for k, chance in ends))
    same(theory.failed_share(p, tries), p**tries)
    assert theory.attempts(p, 10_000) == pytest.approx(theory.attempts(p))
    assert theory.failed_share(p) == 0


def test_the_last_backoff_repeats_and_an_empty_one_is_no_wait() -> None:
    assert theory.gaps(6, (10, 60, 300)) == [10, 60, 300, 300, 300]
    assert theory.gaps(3, ()) == [0, 0]
    assert theory.gaps(1, (10,)) == []
    assert [theory.time_to_failed(n, (10, 60, 300)) for n in range(2, 7)] == [10, 70, 370, 670, 970]
    assert theory.time_to_failed(3, (10, 60, 300), service=2, poll=1) == 77


@given(st.floats(0, 0.95), st.integers(1, 8))
def test_time_in_backoff_is_shared_among_done_and_failed(p: float, tries: int) -> None:
    backoff = (10, 60, 300)
    done, failed = 1 - theory.failed_share(p, tries), theory.failed_share(p, tries)
    both = done * theory.time_in_backoff_if_done(p, tries, backoff) + failed * theory.time_to_failed(tries, backoff)
    same(theory.time_in_backoff(p, tries, backoff), both)


@given(LOADS, WORKERS, st.floats(0, 0.9))
def test_a_queue_without_failures_is_the_plain_one(load: float, workers: int, p: float) -> None:
    queue = theory.RetryQueue(load * workers, 1.0, workers, 0.0, 4, (10, 60))
    same(queue.time_to_end, theory.MMc(load * workers, 1.0, workers).sojourn)
    assert queue.in_backoff == 0
    once = theory.RetryQueue(load * workers, 1.0, workers, p, 1, (10, 60))
    same(once.time_to_end, queue.time_to_end)


def test_jobs_in_backoff_are_part_of_the_depth() -> None:
    queue = theory.RetryQueue(2.0, 1.0, 4, 0.3, 4, (10, 60, 300))
    same(queue.in_backoff, 33.0)
    same(queue.time_to_end, 18.454, 1e-4)
    same(queue.depth, queue.in_backoff + queue.station.depth)


# -- reservations, crashes, shutdowns --


@given(st.floats(0.3, 12))
def test_exponential_services_run_as_often_as_their_series_says(retry_after: float) -> None:
    def tail(t: float) -> float:
        return distributions.exponential_tail(t, 1.0)

    q = math.exp(-retry_after)
    by_id = theory.runs_by_id(tail, retry_after)
    same(by_id, math.fsum(q ** (k * (k + 1) / 2) for k in range(60)))
    same(theory.runs_by_token(q), 1 / (1 - q))
    same(theory.runs_by_id_same_service(tail, retry_after), theory.runs_by_token(q))
    assert by_id <= theory.runs_by_token(q)
    assert theory.runs_by_token(q, 3) <= theory.runs_by_token(q)


def test_a_fixed_service_runs_once_for_each_reservation_that_it_outlasts() -> None:
    def tail(t: float) -> float:
        return distributions.fixed_tail(t, 7.0)

    assert theory.runs_by_id(tail, 5) == theory.runs_by_id_same_service(tail, 5) == 2
    assert theory.runs_by_token(tail(5), 3) == 3
    assert theory.runs_while_held(86_400, 3_600) == 23
    assert theory.runs_while_held(10, 90) == 0


def test_a_batch_of_one_runs_out_as_a_job_does() -> None:
    same(theory.run_out_in_batch(1, 5, 1), math.exp(-5))
    shares = [theory.run_out_in_batch(batch, 5, 1) for batch in range(1, 30)]
    assert shares == sorted(shares)


@given(st.floats(0.01, 10), st.floats(0.1, 3), st.floats(0, 20))
def test_what_is_left_is_the_integral_of_the_tail(mean: float, cv: float, t: float) -> None:
    left = distributions.lognormal_residual_tail(t, mean, cv)
    assert 0 <= left <= 1
    assert left >= distributions.lognormal_residual_tail(t + 1, mean, cv) - 1e-12


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_the_residual_tails_add_up_to_the_mean_residual(cv: float) -> None:
    whole = integral(lambda t: distributions.lognormal_residual_tail(t, 1.0, cv), 3_000, 200_000)
    assert whole == pytest.approx(distributions.mean_residual(1.0, cv), rel=1e-2)
    begun = integral(lambda t: distributions.lognormal_tail(t, 1.0, cv), 2.0)
    same(distributions.lognormal_residual_tail(2.0, 1.0, cv), 1 - begun, 1e-4)


def test_a_lognormal_without_spread_is_fixed() -> None:
    assert distributions.lognormal_tail(0.9, 1.0, 0) == 1
    assert distributions.lognormal_tail(1.0, 1.0, 0) == 0
    same(distributions.lognormal_residual_tail(0.4, 1.0, 0), 0.6)
    assert distributions.lognormal_tail(0.0, 1.0, 2) == distributions.lognormal_residual_tail(0.0, 1.0, 2) == 1


def test_crashes_and_shutdowns() -> None:
    same(theory.runs_under_crashes(0.1, 2.0), 1.2)
    same(theory.runs_under_crashes(0.5, 2.0, fixed=True), math.e)
    same(theory.time_to_ready(60, 1), 59 + math.exp(-60))
    assert theory.time_to_ready(0.001, 1) == pytest.approx(0.0005 * 0.001, rel=1e-3)
    same(theory.cut_by_shutdown(0.1, 4, 0.5), 0.2)


# -- outages and amplification --


def test_an_outage_drains_as_the_surplus_allows() -> None:
    outage = theory.Outage(0.5, 1.0, 100)
    same(outage.drain, 102)
    same(outage.drain_fluid, 100)
    same(outage.jobs_hurt, 100)
    assert outage.extra_wait_fluid == 50
    assert [round(theory.Outage(rho, 1, 100).drain_sd, 1) for rho in (0.5, 0.8, 0.95)] == [28.6, 146.3, 1403.0]
    same(theory.Outage(0.5, 1.0, 0).drain, 2.0)


@given(st.floats(0, 1), st.integers(1, 6))
def test_a_budget_bounds_the_amplification(failing: float, attempts: int) -> None:
    free, bound = theory.load_factor(failing, attempts), theory.load_factor(failing, attempts, budget=0.1)
    assert bound <= min(free, 1.1)
    assert theory.load_factor(1.0, attempts) == attempts
    same(theory.load_factor(0.0, attempts), 1.0)


@pytest.mark.parametrize(("failing", "budget"), [(0.2, 0.1), (0.5, 0.5), (0.8, 0.5), (0.1, 0.5)])
def test_clients_with_a_budget_amplify_as_the_form_says(failing: float, budget: float) -> None:
    random, purse, requests, asked = Random(7), Budget(budget, start=0).purse(), 20_000, 0
    for _ in range(requests):
        for attempt in range(4):
            if attempt and not purse.spend():
                break
            asked += 1
            if random.random() >= failing:
                purse.earn()
                break
    same(asked / requests, theory.load_factor(failing, 4, budget=budget), 0.01)


def test_amplification_multiplies_through_layers_and_moves_the_threshold() -> None:
    assert theory.load_factor_of_layers(5, 3) == 243
    assert theory.vulnerable_from(4, 0.5, workers=2) == 1
    same(theory.vulnerable_from_with_budget(0.1, 1.0), 1 / 1.1)
    same(theory.lost_by_backup(2, 1e6, 1), 2)
    assert theory.lost_by_backup(2, 0, 1) == 0
    assert theory.rows_without_job(2, 30) == 60


# -- polls and outboxes --


@given(st.floats(0.01, 100), st.integers(1, 30))
def test_polls_without_jitter_are_the_plain_ones(interval: float, workers: int) -> None:
    same(theory.idle_wait_jittered(interval, workers, 0), theory.idle_wait(interval, workers))
    same(theory.idle_wait(interval), theory.idle_wait_in_phase(interval))
    same(theory.idle_wait_jittered(interval, 1, 0.5), 13 / 24 * interval)
    same(theory.idle_wait_jittered(interval, 1, 0.5), theory.wait_with_polls(0, interval, 0.5))
    same(theory.idle_wait_quantile(0.95, interval, workers), interval * (1 - 0.05 ** (1 / workers)))


def test_the_jittered_form_is_the_integral() -> None:
    def left(x: float) -> float:
        return 1 - x if x < 0.7 else (1.3 - x) ** 2 / (2 * 0.6)

    same(theory.idle_wait_jittered(1.0, 5, 0.3), integral(lambda x: left(x) ** 5, 1.3), 1e-6)


@given(st.floats(0.01, 0.97), st.floats(0.1, 600))
def test_a_tick_is_a_vacation_as_long_as_a_service(load: float, tick: float) -> None:
    station = theory.MDc(load / tick, tick)
    same(theory.wait_for_tick(load / tick, tick), theory.wait_with_polls(station.wait, tick))


def test_a_burst_leaves_at_its_pace_and_under_its_cap() -> None:
    assert theory.burst_end(1) == 0
    assert theory.burst_end(500, cap=500) == 29_940
    assert theory.burst_end(501, cap=500) == 86_400
    assert theory.burst_end(2_000, cap=500) == 289_140
    assert theory.burst_end(1_441) == 86_400
    assert theory.burst_end(7, pace=0, cap=3) == 2 * 86_400
    assert theory.burst_end(3, pace=50_000) == theory.burst_end(3, pace=50_000, cap=2) == 100_000


def test_more_room_in_a_day_leaves_fewer_for_the_next() -> None:
    caps = [theory.DailyCap(90, cap) for cap in (91, 95, 100, 120)]
    assert [cap.left for cap in caps] == sorted((cap.left for cap in caps), reverse=True)
    assert [cap.p_left for cap in caps] == sorted((cap.p_left for cap in caps), reverse=True)
    assert 0 < theory.DailyCap(40, 100).p_left < 1e-12  # with digits where 1 - p has none


# -- sampling --


def test_a_busy_queue_needs_many_jobs_for_a_precise_mean() -> None:
    assert [round(theory.wait_variance(rho)) for rho in (0.5, 0.8, 0.95)] == [29, 1976, 607_601]
    assert theory.jobs_for(0.01, 0.5) == pytest.approx(290_000, rel=0.01)
    assert theory.jobs_for(0.01, 0.95) == pytest.approx(16_831_000, rel=0.01)
    same(theory.wait_error(0.8, theory.jobs_for(0.01, 0.8)), 0.04, 1e-5)
    same(theory.wait_error(0.8, 100, service=3.0), 3 * theory.wait_error(0.8, 100))
    assert theory.jobs_for_share(0.1, 0.5) == 100


# -- what is refused --

REFUSED = {
    "an overload": (lambda: theory.MMc(4.0, 1.0, 4), "utilisation is 1, .* more than 4 workers"),
    "an overload of one": (lambda: theory.MG1(1.5, 1.0, 1.0), "utilisation is 1.5"),
    "an overload by retries": (lambda: theory.RetryQueue(3.0, 1.0, 4, 0.5, 3, ()), "utilisation is 1.312"),
    "an overloaded outbox": (lambda: theory.DailyCap(100, 100), "utilisation is 1"),
    "a tick that is too slow": (lambda: theory.wait_for_tick(2 / 60), "utilisation is 2"),
    "no rate": (lambda: theory.MMc(0, 1.0), "rate is 0: use a number above 0"),
    "a rate that is none": (lambda: theory.MDc(math.nan, 1.0), "rate is nan"),
    "an endless service": (lambda: theory.MG1.fixed(0.5, math.inf), "service is inf"),
    "no worker": (lambda: theory.MMc(0.5, 1.0, 0), "workers is 0: use a whole number from 1"),
    "half a worker": (lambda: theory.MDc(0.5, 1.0, 1.5), "workers is 1.5"),
    "True workers": (lambda: theory.MMc(0.5, 1.0, True), "workers is True"),
    "text": (lambda: theory.MMc("1", 1.0), "rate is '1'"),
    "room for fewer than the workers": (lambda: theory.MMcK(1, 1, 4, 3), "capacity is 3: use a whole number from 4"),
    "no clients": (lambda: theory.Closed(0, 1, 1), "clients is 0"),
    "a negative spread": (lambda: theory.MG1(0.5, 1, -1), "cv is -1"),
    "a third moment that is not known": (lambda: theory.MG1(0.5, 1, 1).wait_sd, "third is None"),
    "a negative load": (lambda: theory.erlang_b(5, -1), "load is -1: use a number from 0"),
    "a load of text": (lambda: theory.erlang_c(5, "4"), "load is '4': use a number above 0"),
    "a service of text": (lambda: theory.MG1.fixed(0.5, "1"), "service is '1'"),
    "a cv of text": (lambda: theory.MG1.lognormal(0.5, 1, "1"), "cv is '1'"),
    "a negative third moment": (lambda: theory.MG1(0.5, 1, 1, -6), "third is -6: use a number above 0"),
    "a backoff of one number": (lambda: theory.gaps(3, 10), "backoff is 10: use a list of seconds"),
    "a share above 1": (lambda: theory.jobs_for_share(0.01, 2), "p is 2: use a number from 0 to 1"),
    "a quantile of 1": (lambda: theory.MMc(0.5, 1).wait_quantile(1), "q is 1: use a number between 0 and 1"),
    "a negative time": (lambda: theory.MMc(0.5, 1).wait_tail(-1), "t is -1"),
    "certain failure for ever": (lambda: theory.attempts(1.0), "p is 1.0"),
    "a probability above 1": (lambda: theory.failed_share(1.1, 3), "p is 1.1"),
    "no tries": (lambda: theory.attempts(0.5, 0), "tries is 0"),
    "a negative backoff": (lambda: theory.gaps(3, (10, -1)), r"backoff\[1\] is -1"),
    "a reservation of 0 s": (lambda: theory.runs_by_id(lambda t: 0.5, 0), "retry_after is 0"),
    "no run that ends": (lambda: theory.runs_by_token(1.0), "run_out is 1.0"),
    "a jitter above 1": (lambda: theory.idle_wait_jittered(1, 1, 1.5), "jitter is 1.5"),
    "half a mail": (lambda: theory.burst_end(1.5), "mails is 1.5"),
    "a cap of no mail": (lambda: theory.burst_end(2, cap=0), "cap is 0"),
}  # fmt: skip


@pytest.mark.parametrize("bad", REFUSED)
def test_bad_input_is_refused_by_its_value(bad: str) -> None:
    call, message = REFUSED[bad]
    with pytest.raises(ValueError, match=message):
        call()
