"""Intervals cover the truth about as often as they say, and where they could not there is none but the reason."""

import math

import numpy as np
import pytest
from recursions import mm1_waits, poisson

from qlab import metrics
from qlab.metrics.curves import Number
from qlab.metrics.estimates import IN_SLICES, averages, of_slices, rates
from qlab.metrics.intervals import BATCHES, REPLICATIONS


def covers(found, truth):
    return found.low <= truth <= found.high


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        *((0.975, 1, 12.7062047), (0.975, 2, 4.3026527), (0.975, 3, 3.1824463), (0.975, 4, 2.7764451)),
        *((0.975, 19, 2.0930241), (0.995, 7, 3.4994833), (0.9, 10, 1.3721836), (0.95, 30, 1.6972609)),
        *((0.975, 1000, 1.9623391), (0.5, 6, 0.0)),
    ],
)
def test_the_quantiles_of_student_s_t_are_those_of_the_tables(probability, freedom, quantile):
    assert metrics.t_quantile(probability, freedom) == pytest.approx(quantile, abs=5e-8)


def test_an_interval_is_student_s_around_the_mean():
    runs = metrics.replicated([1.0, 2.0, 3.0, 4.0, 5.0])
    assert runs[:3] == pytest.approx((3.0, 1.0367568, 4.9632432))
    assert runs[3:] == (5, "")
    values = np.random.default_rng(2).normal(size=400)
    half = 2.0930241 * values.reshape(20, 20).mean(axis=1).std(ddof=1) / math.sqrt(20)
    found = metrics.batch_means(values)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))
    naive = metrics.naive_interval(values)
    assert naive.high - naive.value == pytest.approx(1.9599640 * values.std(ddof=1) / 20)


@pytest.fixture(scope="module")
def mm1():
    """200 runs of 20,000 jobs at a utilisation of 0.8, where the mean wait is 4."""
    return mm1_waits(200, 20_000, 0.8, warmup=2_000)


def test_the_naive_interval_lies_and_that_of_batch_means_does_not(mm1):
    naive = [metrics.naive_interval(waits) for waits in mm1]
    batched = [metrics.batch_means(waits) for waits in mm1]
    assert np.mean([covers(found, 4.0) for found in naive]) < 0.25  # it says 0.95
    given = [found for found in batched if not found.why]
    assert len(given) > 0.95 * len(batched)
    assert np.mean([covers(found, 4.0) for found in given]) > 0.88
    assert {found.value for found in naive} == {found.value for found in batched}
    assert "one run of seven" in " ".join(metrics.naive_interval.__doc__.split())


def test_more_batches_cover_as_well_where_the_run_is_long_enough(mm1):
    given = [found for found in (metrics.batch_means(waits, batches=25) for waits in mm1) if not found.why]
    assert len(given) > 0.8 * len(mm1)
    assert np.mean([covers(found, 4.0) for found in given]) > 0.87


def test_intervals_of_a_higher_level_are_wider_and_cover_more(mm1):
    low, high = ([metrics.batch_means(waits, level=level) for waits in mm1] for level in (0.5, 0.99))
    assert 0.4 < np.mean([covers(found, 4.0) for found in low if not found.why]) < 0.6
    assert np.mean([covers(found, 4.0) for found in high if not found.why]) > 0.95


@pytest.mark.parametrize("jobs", [300, 1_000, 3_000, 10_000])
def test_a_wrong_interval_is_seldom_shown_however_short_the_run_is(jobs):
    found = [metrics.batch_means(waits) for waits in mm1_waits(300, jobs, 0.8, warmup=2_000, seed=jobs)]
    wrong = [one for one in found if not one.why and not covers(one, 4.0)]
    assert len(wrong) <= 0.15 * len(found)  # of all runs; without the reasons it would be up to a half


def test_intervals_of_what_changes_over_time_cover_as_well():
    covered = {"Lq": [], "utilisation": [], "throughput": []}
    for seed in range(100):
        arrivals, services = poisson(12_000, 0.8, seed=seed)
        walk = np.cumsum(np.append(0.0, services[:-1] - np.diff(arrivals)))
        starts = arrivals + walk - np.minimum.accumulate(walk)
        came, began, left = ((at * 1e6).astype(np.int64) for at in (arrivals, starts, starts + services))
        edges = np.linspace(came[2_000], came[-1], BATCHES * IN_SLICES + 1).round().astype(np.int64)
        sliced = {"Lq": averages(Number(came, began), edges), "utilisation": averages(Number(began, left), edges)}
        for name, slices in (sliced | {"throughput": rates(left, edges)}).items():
            found = of_slices(slices, slices.mean(), 10_000, BATCHES, 0.95)
            covered[name] += [] if found.why else [covers(found, 3.2 if name == "Lq" else 0.8)]
    assert {name: len(there) > 75 for name, there in covered.items()} == dict.fromkeys(covered, True)
    assert {name: np.mean(there) > 0.85 for name, there in covered.items()} == dict.fromkeys(covered, True)


def test_the_runs_that_are_asked_for_are_long_enough():
    (short,) = mm1_waits(1, 3_000, 0.8, warmup=2_000, seed=5)
    why = metrics.batch_means(short).why
    assert "a batch is worth" in why
    jobs = int(why.split("try ")[1].split(" jobs")[0].replace(",", ""))
    assert 4_000 < jobs < 50_000
    (longer,) = mm1_waits(1, 2 * jobs, 0.8, warmup=2_000, seed=6)
    assert metrics.batch_means(longer).why == ""


def test_independent_values_have_an_interval_from_200_on():
    random = np.random.default_rng(3)
    means = [metrics.batch_means(random.normal(7.0, 2.0, 200)) for _ in range(300)]
    assert sum(not found.why for found in means) > 0.95 * len(means)
    assert np.mean([covers(found, 7.0) for found in means if not found.why]) > 0.91
    assert metrics.batch_means(random.normal(size=199)).why == (
        "199 are too few: an interval needs 20 batches of 10, so 200"
    )


def test_any_statistic_has_an_interval(mm1):
    medians = [metrics.batch_means(waits, statistic=np.median, least=100) for waits in mm1]
    truth = math.log(0.8 / 0.5) / 0.2
    assert np.mean([covers(found, truth) for found in medians if not found.why]) > 0.85
    assert medians[0].value == np.median(mm1[0])


def test_batches_of_a_run_that_grows_and_grows_give_none():
    growing = np.arange(10_000.0) + np.random.default_rng(4).normal(0, 30_000, 10_000)
    assert "a batch is like the next" in metrics.batch_means(growing).why
    assert "a batch is worth" in metrics.batch_means(np.arange(10_000.0)).why


def test_values_that_are_all_the_same_tell_nothing_of_how_sure_they_are():
    found = metrics.batch_means(np.zeros(1_000))
    assert (found.value, found.n) == (0.0, 1_000)
    assert found.why == "nothing differs, so nothing tells how sure this is"
    assert metrics.batch_means([]).why == "there is nothing to count"
    assert math.isnan(metrics.batch_means([]).value)


def test_every_value_is_in_one_batch():
    values = np.random.default_rng(7).normal(size=211)
    assert metrics.batch_means(values).value == values.mean()
    tight = metrics.batch_means(np.append(values, 1e6))
    assert tight.value == pytest.approx((values.sum() + 1e6) / 212)


# -- several runs --


def test_runs_with_seeds_of_their_own_give_an_interval_that_covers(mm1):
    found = [metrics.replicated(part.mean(axis=1)) for part in np.split(mm1, 20)]
    assert all(not one.why for one in found)
    assert np.mean([covers(one, 4.0) for one in found]) >= 0.85
    assert found[0].n == 10


def test_too_few_runs_have_none():
    assert metrics.replicated([1.0, 2.0, 3.0, 4.0]).why == "4 runs are too few: an interval needs 5"
    assert metrics.replicated([2.0] * 9).why == "every run gave the same"
    assert metrics.replicated([1.0, math.nan, 2.0, 3.0, 4.0, 5.0]).why == "1 of the 6 runs have no value"
    assert metrics.replicated([]).why == "0 of the 0 runs have no value"


# -- the start of a run --


def test_mser_5_leaves_out_a_start_that_is_not_like_the_rest():
    random = np.random.default_rng(8)
    values = random.normal(5.0, 1.0, 4_000)
    values[:200] += np.linspace(50, 0, 200)
    assert 150 <= metrics.mser5(values) <= 260
    assert metrics.mser5(random.normal(size=4_000)) < 1_000


def test_mser_5_says_so_where_no_part_is_steady():
    assert metrics.mser5(np.arange(4_000.0) ** 2) is None
    assert metrics.mser5(np.ones(49)) is None
    assert metrics.mser5(np.ones(50)) == 0


def test_mser_5_leaves_out_the_crowd_that_a_queue_begins_with():
    removed = [metrics.mser5(waits) for waits in mm1_waits(40, 20_000, 0.8, first=100.0)]
    steady = [one for one in removed if one is not None]
    assert len(steady) > 30
    assert 200 < np.median(steady) < 1_500  # the crowd is served after about 500 s, in which 400 jobs come


# -- bad input --


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan, True, "0.95"])
@pytest.mark.parametrize("make", [metrics.batch_means, metrics.replicated, metrics.naive_interval])
def test_a_level_that_is_none_is_refused(make, level):
    with pytest.raises(ValueError, match="level is .*: use a number between 0 and 1, such as 0.95"):
        make([1.0, 2.0], level=level)


MAKERS = [metrics.batch_means, metrics.naive_interval, metrics.mser5]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_none_is_named_and_never_an_interval_without_a_reason(make, odd):
    with pytest.raises(ValueError, match=rf"values\[7\] is {odd}: leave out what has no value"):
        make([1.0] * 7 + [odd] + [2.0] * 400)
    runs = metrics.replicated([1.0, 2.0, 3.0, 4.0, odd])
    assert (runs.n, runs.why) == (5, "1 of the 5 runs have no value")


@pytest.mark.parametrize("make", [*MAKERS, metrics.replicated])
@pytest.mark.parametrize("values", [None, 5, "wait", ["wait"], [[1.0, 2.0]] * 400, {"wait": 1.0}])
def test_what_is_no_list_of_numbers_is_refused_by_name(make, values):
    with pytest.raises(TypeError, match=r"^values are .*: use a list of numbers"):
        make(values)


@pytest.mark.parametrize("batches", [19, 0, -1, 20.0, True])
def test_fewer_batches_than_20_are_refused(batches):
    with pytest.raises(ValueError, match=r"batches is .*: use a whole number from 20"):
        metrics.batch_means([1.0], batches=batches)


def test_the_limits_are_those_that_the_page_tells():
    assert (BATCHES, REPLICATIONS) == (20, 5)
