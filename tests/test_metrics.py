"""Metrics are the numbers that the events say, with an interval or the reason why there is none."""

import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from recursions import poisson, trace_of
from walk import Walk

from qlab import frames, metrics, simulate
from qlab.queue import Queue
from qlab.scenario import named
from qlab.simulation.requests import Requests
from qlab.trace import Event, Kind, Trace

NAN = math.nan


def did(at, kind, job, worker="w1", *, name="resize", attempt=1, since=None, until=None, detail=""):
    return Event(at, kind, job, name, attempt, worker, since, until, detail)


SMALL = Trace(
    [
        did(0, Kind.DISPATCHED, 1, "", until=0),
        did(0, Kind.RESERVED, 1, "w1", since=0, until=50),
        did(1, Kind.DISPATCHED, 2, "", until=1),
        did(2, Kind.RESERVED, 2, "w2", since=1, until=50),
        did(3, Kind.DISPATCHED, 3, "", until=3, name="crop"),
        did(4, Kind.COMPLETED, 1, "w1"),
        did(4, Kind.RESERVED, 3, "w1", since=3, until=50, name="crop"),
        did(6, Kind.RELEASED, 3, "w1", until=8, detail="ValueError: no", name="crop"),
        did(7, Kind.COMPLETED, 2, "w2"),
        did(9, Kind.RESERVED, 3, "w2", since=8, until=50, attempt=2, name="crop"),
        did(10, Kind.FAILED, 3, "w2", attempt=2, detail="ValueError: no", name="crop"),
    ]
)
"""Job 1 is served from 0 to 4, job 2 from 2 to 7, job 3 from 4 to 6 and, after a backoff, from 9 to 10: it fails."""

TWICE = Trace(
    [
        did(0, Kind.DISPATCHED, 1, "", until=0),
        did(0, Kind.RESERVED, 1, "w1", since=0, until=5),
        did(5, Kind.EXPIRED, 1, "w2", until=5),
        did(6, Kind.RESERVED, 1, "w2", since=5, until=50, attempt=2),
        did(8, Kind.SUPERSEDED, 1, "w1", detail="complete"),
        did(9, Kind.COMPLETED, 1, "w2", attempt=2),
        did(9, Kind.DISPATCHED, 2, "", until=9),
        did(9, Kind.RESERVED, 2, "w2", since=9, until=50),
        did(10, Kind.COMPLETED, 2, "w2"),
    ]
)


def values(trace, *names, **how):
    told = metrics.summary(trace, **how)
    return {name: told.at[name, "value"] for name in names} if names else told["value"].to_dict()


def test_a_small_trace_has_the_numbers_that_one_counts_by_hand():
    assert values(SMALL, workers=2) == pytest.approx(
        {
            "measured_from": 0,
            "removed": 0,
            "jobs": 3,
            "wait": 0.75,
            "wait_sd": math.sqrt(3) / 4,
            "wait_p50": 1,
            "wait_p95": 1,
            "wait_p99": 1,
            "wait_max": 1,
            "p_wait": 0.75,
            "wait_per_job": 1,
            "service": 3,
            "sojourn": 5,
            "backoff": 2 / 3,
            "time_to_end": 17 / 3,
            "attempts": 4 / 3,
            "runs": 4 / 3,
            "duplicates": 0,
            "p_duplicate": 0,
            "failed": 1 / 3,
            "lost": 0,
            "arrivals": 0.3,
            "throughput": 0.3,
            "goodput": 0.2,
            "rejected": 0,
            "utilisation": 0.6,
            "depth": 1.7,
            "L": 1.5,
            "Lq": 0.3,
            "in_flight": 1.2,
            "delayed": 0,
            "in_backoff": 0.2,
            "oldest_age": 0.15,
            "oldest_age_max": 1,
            "fairness": 1,
            "fewest_to_most": 1,
        }
    )


def test_the_table_has_a_row_for_each_metric_with_its_unit_and_what_it_counts():
    told = metrics.summary(SMALL, workers=2)
    assert list(told.columns) == ["value", "low", "high", "unit", "n", "why"]
    assert [str(kind) for kind in told.dtypes[["value", "low", "high", "n"]]] == ["float64"] * 3 + ["int64"]
    assert list(told.index) == [name for name in metrics.METRICS if name not in ("answered", "asks", "response")]
    assert {name: metrics.METRICS[name].unit for name in told.index} == told["unit"].to_dict()
    assert told.loc[["wait", "service", "sojourn", "depth", "fairness"], "n"].to_list() == [4, 4, 3, 3, 2]
    assert all(metric.about for metric in metrics.METRICS.values())


def test_every_number_has_an_interval_or_a_reason():
    for trace in (Trace(), SMALL, TWICE, trace_of(*poisson(3_000, 0.5))):
        told = metrics.summary(trace)
        assert (told["low"].isna() == (told["why"] != "")).all()
        assert (told["low"].isna() == told["high"].isna()).all()
        there = told[told["low"].notna()]
        assert ((there["low"] < there["value"]) & (there["value"] < there["high"])).all()


def test_a_run_beside_a_late_worker_is_a_duplicate():
    names = ("attempts", "runs", "duplicates", "p_duplicate", "service", "wait", "sojourn")
    assert values(TWICE, *names) == {
        "attempts": 1.5,
        "runs": 1.5,
        "duplicates": 0.5,
        "p_duplicate": 0.5,
        "service": 3.0,  # 5 until it ran out, 3, 1
        "wait": 1 / 3,
        "sojourn": 5.0,
    }


def test_a_late_worker_is_busy_until_it_is_told():
    assert values(TWICE, "utilisation", workers=2) == {"utilisation": (8 + 4) / 20}
    assert values(TWICE, "in_flight") == {"in_flight": (5 + 3 + 1) / 10}


def test_a_worker_that_has_crashed_is_not_busy():
    trace = Trace(
        [
            *(did(0, Kind.DISPATCHED, 1, "", until=0), did(0, Kind.RESERVED, 1, since=0, until=10)),
            *(did(2, Kind.CRASHED, 1), did(10, Kind.EXPIRED, 1, until=10)),
            *(did(10, Kind.RESERVED, 1, since=10, until=20, attempt=2), did(12, Kind.COMPLETED, 1, attempt=2)),
        ]
    )
    assert values(trace, "utilisation", "duplicates", workers=1) == {"utilisation": 4 / 12, "duplicates": 1.0}


def test_a_worker_with_several_jobs_in_hand_is_busy_once():
    trace = Trace(
        [
            *(did(0, Kind.DISPATCHED, job, "", until=0) for job in (1, 2, 3)),
            *(did(0, Kind.RESERVED, job, since=0, until=90) for job in (1, 2, 3)),
            *(did(2, Kind.COMPLETED, 1), did(3, Kind.COMPLETED, 2), did(6, Kind.COMPLETED, 3)),
            did(12, Kind.MISSED, None),
        ]
    )
    assert values(trace, "utilisation", "in_flight", workers=1) == {"utilisation": 0.5, "in_flight": 11 / 12}


def test_an_attempt_without_a_try_left_is_no_run():
    trace = Trace(
        [
            *(did(0, Kind.DISPATCHED, 1, "", until=0), did(0, Kind.RESERVED, 1, since=0, until=10)),
            *(did(0, Kind.CRASHED, 1), did(11, Kind.RESERVED, 1, since=10, until=20, attempt=2)),
            did(11, Kind.FAILED, 1, detail="AttemptsExhausted: every attempt was used up"),
        ]
    )
    told = values(trace, "attempts", "runs", "duplicates", "service")
    assert told == {"attempts": 2.0, "runs": 1.0, "duplicates": 0.0, "service": 10.0}


def test_shares_of_workers_are_compared_with_all_there_are():
    assert values(SMALL, "fairness", "fewest_to_most", workers=4) == {"fairness": 0.5, "fewest_to_most": 0.0}
    asked = Trace([*SMALL, did(10, Kind.MISSED, None, "w3")])
    assert values(asked, "fairness", "fewest_to_most") == {"fairness": pytest.approx(2 / 3), "fewest_to_most": 0.0}
    assert metrics.jain([5, 5, 5]) == 1.0
    assert metrics.jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert math.isnan(metrics.jain([0, 0]))
    assert math.isnan(metrics.jain([]))


def test_jobs_that_a_full_system_refuses_are_a_share_of_those_that_come():
    trace = Trace([*SMALL, did(10, Kind.REJECTED, None, ""), did(10, Kind.REJECTED, None, "", name="crop")])
    assert values(trace, "rejected", "arrivals") == {"rejected": 0.4, "arrivals": 0.3}
    told = metrics.summary(trace, by="name")["value"]
    assert told[:, "rejected"].to_dict() == {"crop": 0.5, "resize": pytest.approx(1 / 3)}


def test_jobs_that_a_store_forgets_are_a_share_of_those_that_came():
    forgotten = [did(11, Kind.DISPATCHED, 4, "", until=11), did(12, Kind.LOST, 4, ""), did(12, Kind.LOST, 3, "")]
    told = values(Trace([*SMALL, *forgotten]), "lost", "failed", "jobs")
    assert told == {"lost": 0.5, "failed": pytest.approx(1 / 3), "jobs": 3.0}  # job 3 had failed, and is gone even so


def test_what_clients_see_is_told_where_there_are_clients():
    requests = Requests()
    for at in (0, 1_000_000, 2_000_000, 9_000_000):
        requests.ask(requests.begin(at))
    requests.ask(1)
    requests.answer(0, 4_000_000)
    requests.answer(1, 7_000_000)
    requests.give_up(2, 8_000_000)
    run = type("Run", (), {"trace": SMALL, "requests": requests, "until": 10.0})()
    told = values(run, "answered", "asks", "response", "goodput")
    assert told == {"answered": pytest.approx(2 / 3), "asks": pytest.approx(4 / 3), "response": 5.0, "goodput": 0.2}
    seen = frames.requests(run)
    pd.testing.assert_frame_equal(seen, frames.requests(requests))
    assert list(zip(seen["started_at"], seen["asked"], strict=True)) == [(0, 1), (1, 2), (2, 1), (9, 1)]
    assert seen["response"].to_list()[:2] == [4.0, 6.0]
    assert seen["given_up_at"].notna().to_list() == [False, False, True, False]
    assert len(frames.requests(Requests())) == 0


# -- what is measured --


def test_what_came_before_the_warm_up_does_not_count_and_is_shown():
    told = metrics.summary(SMALL, warmup=2)
    assert told.loc[["measured_from", "removed", "jobs"], "value"].to_list() == [3.0, 2.0, 1.0]
    assert told.at["measured_from", "why"] == "2 of 3 jobs came before, and are left out"
    assert told.loc[["wait", "service", "sojourn", "failed"], "value"].to_list() == [1.0, 1.5, 5.0, 1.0]
    # Jobs that came before are there all the same: job 1 until 4, job 2 until 7.
    assert told.loc[["in_flight", "depth", "throughput"], "value"].to_list() == pytest.approx([8 / 7, 12 / 7, 3 / 7])
    later = metrics.summary(SMALL, warmup_seconds=0.5)
    assert later.loc[["measured_from", "removed", "depth"], "value"].to_list() == [0.5, 1.0, pytest.approx(16.5 / 9.5)]


def test_jobs_that_come_at_once_are_removed_one_by_one():
    trace = trace_of(np.zeros(50), np.ones(50))
    assert values(trace, "jobs", "wait", warmup=30) == {"jobs": 20.0, "wait": sum(range(30, 50)) / 20}


def test_mser_5_finds_the_warm_up_or_nothing_has_an_interval():
    arrivals, services = poisson(6_000, 0.7)
    arrivals = np.concatenate([np.zeros(100), arrivals])
    told = metrics.summary(trace_of(arrivals, np.concatenate([np.ones(100), services])), warmup="mser5")
    assert 100 <= told.at["removed", "value"] <= 1_500
    assert told.at["wait", "why"] == ""
    never = metrics.summary(trace_of(*poisson(6_000, 1.5)), warmup="mser5")
    assert never.at["removed", "value"] == 0
    assert never.at["wait", "why"].startswith(("MSER-5 finds no steady part", "too short"))
    assert never["low"].isna().all()


def test_what_a_queue_grows_by_for_ever_has_no_interval():
    told = metrics.summary(trace_of(*poisson(20_000, 1.5)), workers=1)
    assert all(told.at[name, "why"] for name in ("wait", "sojourn", "depth", "L", "Lq", "oldest_age"))
    assert told.at["service", "why"] == told.at["throughput", "why"] == ""


def test_a_run_goes_on_after_its_last_event_and_knows_its_workers():
    run = type("Run", (), {"trace": SMALL, "until": 20.0, "scenario": type("S", (), {"workers": 2})})()
    assert values(run, "depth", "utilisation") == {"depth": 0.85, "utilisation": 0.3}
    simulated = simulate("memory://", named("all_kinds", seed=7))
    told = metrics.summary(simulated)
    assert told.at["jobs", "value"] == len(frames.jobs(simulated.trace).dropna(subset="finished_at"))
    assert 0 < told.at["utilisation", "value"] < 1
    assert told.at["failed", "value"] > 0
    with Queue("memory://") as queue:
        assert values(queue, "jobs") == {"jobs": 0.0}


def test_nothing_has_no_numbers_and_says_so():
    told = metrics.summary(Trace())
    assert told["value"].notna().sum() == 4  # what is measured, and the age of no job
    assert told.at["wait", "why"] == "there is nothing to count"
    assert told.at["depth", "why"] == "no time goes by"
    assert told.at["utilisation", "why"] == "say how many workers there are: workers=…"


def test_too_few_jobs_say_how_many_it_takes():
    told = metrics.summary(trace_of(*poisson(150, 0.5)), workers=1)["why"]
    assert told["wait"] == told["depth"] == "150 are too few: an interval needs 20 batches of 10, so 200"
    assert told["wait_p99"] == "150 are too few: an interval needs 20 batches of 200, so 4,000"
    assert told["wait_max"] == "it is one number of the whole run: repeat the run for an interval"


def test_more_busy_workers_than_there_are_is_a_contradiction():
    told = metrics.summary(SMALL, workers=1).loc["utilisation"]
    assert (math.isnan(told["value"]), told["why"]) == (True, "more than 1 were busy at once: there were more workers")


# -- against what the frames say --


@pytest.fixture(params=range(8))
def walked(request):
    walk = Walk(request.param)
    for _ in range(120):
        walk.step()
    return walk.trace


@pytest.fixture(params=[0.0, 17.25])
def after(request):
    return request.param


def averaged(moments, heights, start, end):
    """The average of a step function between two moments."""
    cuts = sorted({start, end, *(m for m in moments if start < m < end)})
    total = 0.0
    for a, b in pairwise(cuts):
        place = np.searchsorted(moments, a, side="right") - 1
        total += (b - a) * (heights[place] if place >= 0 else 0)
    return total / (end - start)


def test_averages_over_time_are_those_of_the_depth(walked, after):
    depth, start, end = frames.depth(walked), walked[0].at + after, walked[len(walked) - 1].at
    told = values(walked, "depth", "L", "Lq", "in_flight", "delayed", "in_backoff", warmup_seconds=after)
    at = depth["at"].to_numpy()
    states = ("depth", "ready", "reserved", "delayed")
    by_hand = {state: averaged(at, depth[state].to_numpy(), start, end) for state in states}
    assert told["depth"] == pytest.approx(by_hand["depth"])
    assert told["Lq"] == pytest.approx(by_hand["ready"])
    assert told["in_flight"] == pytest.approx(by_hand["reserved"])
    assert told["L"] == pytest.approx(by_hand["ready"] + by_hand["reserved"])
    assert told["delayed"] + told["in_backoff"] == pytest.approx(by_hand["delayed"])


def test_the_average_age_is_that_of_the_oldest(walked, after):
    oldest, start, end = frames.oldest(walked), walked[0].at + after, walked[len(walked) - 1].at
    from_, to = oldest["start"].clip(lower=start), oldest["end"].clip(lower=start)
    since = oldest["start"] - oldest["age"]
    area = (((to - since) ** 2 - (from_ - since) ** 2) / 2).sum()
    told = values(walked, "oldest_age", "oldest_age_max", warmup_seconds=after)
    assert told["oldest_age"] == pytest.approx(area / (end - start))
    assert told["oldest_age_max"] == pytest.approx((to - since)[to > start].max())


def test_workers_are_busy_while_they_have_a_job(walked, after):
    attempts, start, end = frames.attempts(walked), walked[0].at + after, walked[len(walked) - 1].at
    left = attempts["left_at"].fillna(end)
    cuts = np.unique(np.clip([start, end, *attempts["reserved_at"], *left], start, end))
    busy = 0.0
    for a, b in pairwise(cuts):
        there = attempts[(attempts["reserved_at"] <= a) & (b <= left)]
        busy += (b - a) * there["worker"].nunique()
    assert values(walked, "utilisation", warmup_seconds=after, workers=3) == {
        "utilisation": pytest.approx(busy / (end - start) / 3)
    }


def test_jobs_and_waits_are_those_of_the_frames(walked):
    jobs = frames.jobs(walked).dropna(subset=["finished_at", "wait"])
    told = values(walked, "jobs", "sojourn", "backoff", "attempts", "failed", "wait", "p_wait", "time_to_end")
    waits = frames.attempts(walked)["wait"]
    assert told == pytest.approx(
        {
            "jobs": len(jobs),
            "sojourn": jobs["sojourn"].mean(),
            "backoff": jobs["backoff"].mean(),
            "attempts": jobs["attempts"].mean(),
            "failed": (jobs["state"] == "failed").mean(),
            "wait": waits.mean(),
            "p_wait": (waits > 0).mean(),
            "time_to_end": (jobs["finished_at"] - jobs["dispatched_at"]).mean(),
        }
    )


def test_quantiles_are_those_of_the_waits():
    trace = trace_of(*poisson(8_000, 0.5))
    told, waits = metrics.summary(trace), frames.waits(trace)["wait"]
    names = {"wait_p50": 0.5, "wait_p95": 0.95, "wait_p99": 0.99}
    assert told.loc[list(names), "value"].to_list() == pytest.approx(waits.quantile(list(names.values())).to_list())
    assert told.at["wait_sd", "value"] == pytest.approx(waits.std(ddof=0))
    assert told.at["wait_max", "value"] == waits.max()
    for name in (*names, "wait_sd"):
        assert told.at[name, "low"] < told.at[name, "value"] < told.at[name, "high"]


# -- by handler, by worker, over runs --


def test_the_parts_of_a_run_add_up_to_it():
    trace = trace_of(*poisson(3_000, 1.4), workers=2, names=("crop", "resize"))
    whole = metrics.summary(trace, workers=2, warmup=100)["value"]
    by_name = metrics.summary(trace, workers=2, warmup=100, by="name")
    assert list(by_name.index.names) == ["name", "metric"]
    parts = by_name["value"].unstack("name")
    assert list(parts.columns) == ["crop", "resize"]
    for metric in ("jobs", "removed", "arrivals", "throughput", "utilisation", "depth", "L", "Lq", "in_flight"):
        assert parts.loc[metric].sum() == pytest.approx(whole[metric])
    assert parts.loc["wait"].mean() == pytest.approx(whole["wait"], rel=1e-3)
    by_worker = metrics.summary(trace, workers=2, warmup=100, by="worker")
    assert by_worker["value"][:, "utilisation"].mean() == pytest.approx(whole["utilisation"])
    assert by_worker["value"][:, "throughput"].sum() == pytest.approx(whole["throughput"])
    assert by_worker["n"][:, "wait"].sum() == 2_900
    assert {metric for _, metric in by_worker.index} < set(whole.index)


def test_several_runs_give_intervals_of_what_one_run_has_none_of():
    runs = [trace_of(*poisson(400, 0.8, seed=seed)) for seed in range(12)]
    told = metrics.summary(runs, workers=1)
    assert told.loc["wait_max", ["n", "why"]].to_list() == [12, ""]
    assert told.at["wait", "value"] == pytest.approx(np.mean([values(run, "wait")["wait"] for run in runs]))
    assert told.at["wait", "low"] < 4.0 < told.at["wait", "high"] + 1.5  # they begin empty, and are short
    assert told.at["jobs", "why"] == "it is a count"
    assert metrics.summary(runs[:4]).at["wait", "why"] == "4 runs are too few: an interval needs 5"
    by_name = metrics.summary([SMALL, TWICE], by="name")
    assert by_name.at[("crop", "wait"), "why"] == "1 of the 2 runs have no value"


# -- how many jobs --


def test_half_as_wide_an_interval_needs_four_times_as_many_jobs():
    trace = trace_of(*poisson(20_000, 0.5))
    one, other = (metrics.jobs_needed(trace, precision, warmup=1_000) for precision in (0.04, 0.02))
    assert other == pytest.approx(4 * one, rel=1e-3)
    assert 700 < metrics.jobs_needed(trace, 0.05, metric="service") < 3_500  # (2.09 / 0.05)² = 1,752
    assert metrics.jobs_needed(trace, 0.05, metric="utilisation", workers=1) > 0
    runs = [trace_of(*poisson(400, 0.5, seed=seed)) for seed in range(10)]
    assert 5 < metrics.jobs_needed(runs, 0.05) < 1_000


def test_as_many_jobs_as_are_needed_are_as_precise_as_was_asked():
    needed = metrics.jobs_needed(trace_of(*poisson(10_000, 0.5, seed=3)), 0.05)
    found = metrics.summary(trace_of(*poisson(needed, 0.5, seed=4))).loc["wait"]
    assert (found["high"] - found["low"]) / 2 / found["value"] == pytest.approx(0.05, rel=0.7)


# -- two arms --


def test_arms_that_share_their_jobs_show_a_difference_that_the_numbers_hide():
    arrivals, services = poisson(12_000, 0.6)
    a, b = trace_of(arrivals, services), trace_of(arrivals, services * 0.98)
    told = metrics.compare(a, b, warmup=500, workers=(1, 1)).loc["wait_per_job"]
    alone = [metrics.summary(arm, warmup=500).loc["wait"] for arm in (a, b)]
    assert told["difference"] == pytest.approx(alone[1]["value"] - alone[0]["value"])
    assert (told["a"], told["b"], told["n"]) == (alone[0]["value"], alone[1]["value"], 11_500)
    assert told["high"] < 0  # shorter services, shorter waits: sure
    assert alone[0]["low"] < alone[1]["value"]  # which neither interval would say
    assert told["high"] - told["low"] < 0.35 * (alone[0]["high"] - alone[0]["low"])
    assert told["correlation"] > 0.9


def test_one_worker_and_two_differ_by_what_theory_says():
    arrivals, services = poisson(30_000, 0.8, seed=2)
    told = metrics.compare(trace_of(arrivals, services), trace_of(arrivals, services, 2), warmup=2_000, workers=(1, 2))
    truth = 0.190476 - 4.0  # M/M/2 and M/M/1
    assert told.at["wait_per_job", "low"] < truth < told.at["wait_per_job", "high"]
    assert told.at["Lq", "low"] < 0.8 * truth < told.at["Lq", "high"]
    assert told.at["utilisation", "difference"] == pytest.approx(-0.4, abs=0.02)
    assert list(told.columns) == ["a", "b", "difference", "low", "high", "unit", "correlation", "n", "why"]
    assert (told["low"].isna() == (told["why"] != "")).all()


def test_lists_of_runs_are_compared_pair_by_pair():
    pairs = [poisson(500, 0.8, seed=seed) for seed in range(10)]
    a = [trace_of(arrivals, services) for arrivals, services in pairs]
    b = [trace_of(arrivals, services * 0.9) for arrivals, services in pairs]
    told = metrics.compare(a, b, workers=(1, 1)).loc["wait"]
    mean = np.mean([values(two, "wait")["wait"] - values(one, "wait")["wait"] for one, two in zip(a, b, strict=True)])
    assert (told["difference"], told["n"]) == (pytest.approx(mean), 10)
    assert told["high"] < 0
    unpaired = [metrics.summary(arm).loc["wait"] for arm in (a, b)]
    assert told["high"] - told["low"] < sum(one["high"] - one["low"] for one in unpaired) / 3


def test_arms_that_do_not_differ_say_so():
    trace = trace_of(*poisson(1_000, 0.5))
    told = metrics.compare(trace, trace)
    assert set(told["difference"].dropna()) == {0.0}
    assert told.at["sojourn", "why"] == "nothing differs, so nothing tells how sure this is"
    assert metrics.compare(SMALL, SMALL).at["sojourn", "why"].startswith("3 are too few")
    assert metrics.compare(Trace(), Trace())["why"].all()


def test_only_jobs_that_have_ended_in_both_arms_are_compared():
    cut = Trace(event for event in SMALL if event.at < 7)
    told = metrics.compare(SMALL, cut, workers=(2, 2)).loc[["sojourn", "depth", "utilisation"]]
    assert told["a"].to_list() == [4.0, pytest.approx(12 / 6), pytest.approx(10 / 12)]
    assert told["b"].to_list() == told["a"].to_list()


def test_arms_with_other_jobs_are_refused():
    a, b = trace_of(*poisson(300, 0.5, seed=1)), trace_of(*poisson(300, 0.5, seed=2))
    with pytest.raises(ValueError, match="not get the same jobs: number 1 was 'job' at .* s and 'job' at .* s; give"):
        metrics.compare(a, b)
    c = trace_of(np.arange(3.0), np.ones(3))
    d = trace_of(np.arange(3.0), np.ones(3), names=("job", "job", "task"))
    with pytest.raises(ValueError, match=r"number 2 was 'job' at 1 s and 'task' at 1 s"):
        metrics.compare(c, d)


# -- bad input --


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"workers": 0}, "workers is 0: use a number from 1"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"by": "job"}, "by is 'job': use 'name', 'worker' or None"),
        ({"warmup": -1}, "warmup is -1: use a number of jobs from 0, or 'mser5'; for seconds, warmup_seconds"),
        ({"warmup": 1.5}, "warmup is 1.5"),
        ({"warmup": True}, "warmup is True"),
        ({"warmup": "mser"}, "warmup is 'mser'"),
        ({"warmup": 3}, "warmup is 3, but the trace has 3 jobs: use fewer, or run longer"),
        ({"warmup_seconds": 10.0}, "warmup_seconds is 10.0, but the trace lasts 10 s"),
        ({"warmup_seconds": -1.0}, "warmup_seconds is -1.0"),
        ({"warmup_seconds": 1.0, "warmup": 1}, "use one of them"),
        ({"level": 95}, "level is 95: use a number between 0 and 1"),
        ({"batches": 10}, "batches is 10: use a whole number from 20"),
    ],
)
def test_what_makes_no_summary_is_refused_by_name(how, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        metrics.summary(SMALL, **how)


def test_what_has_no_trace_is_refused():
    for wrong in (5, "memory://", None, [SMALL, 3]):
        with pytest.raises(TypeError, match="numbers are of a Run, a Trace or a Queue, or of several Runs in a list"):
            metrics.summary(wrong)
    with pytest.raises(ValueError, match="there is no run in the list"):
        metrics.summary([])
    with pytest.raises(TypeError, match=r"this frame is made of a Run, or of run.requests"):
        frames.requests(SMALL)


def test_a_comparison_of_unlike_things_is_refused():
    with pytest.raises(ValueError, match="one arm is a list of runs and the other is not"):
        metrics.compare([SMALL], SMALL)
    with pytest.raises(ValueError, match="there are 2 runs of one arm and 1 of the other"):
        metrics.compare([SMALL, TWICE], [SMALL])


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"precision": 0}, "precision is 0: use a number above 0, such as 0.05"),
        ({"precision": math.inf}, "precision is inf"),
        ({"precision": 0.1, "metric": "waits"}, "there is no metric 'waits': use one of measured_from, removed"),
        ({"precision": 0.1}, "this run does not tell how much wait varies: 4 are too few"),
        ({"precision": 0.1, "metric": "wait_max"}, "repeat the run for an interval"),
    ],
)
def test_what_tells_no_number_of_jobs_is_refused(how, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        metrics.jobs_needed(SMALL, **how)


def test_the_page_names_every_function_of_metrics_and_no_other():
    page = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    table = page.split("| function | what it tells |")[1].split("\n\n")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)", row)}
    assert named == {name for name in metrics.__all__ if name.islower()} - {"t_quantile"}


def test_frames_of_metrics_can_be_put_together():
    told = pd.concat({"a": metrics.summary(SMALL), "b": metrics.summary(TWICE)}, names=["arm"])
    assert told.index.names == ["arm", "metric"]
