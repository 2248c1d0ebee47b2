"""Frames tell what a trace says: exact on small traces, and never at odds with `Trace.at`."""

import math
from collections import Counter
from itertools import pairwise

import pandas as pd
import pytest
from walk import Walk, moments

from qlab import frames
from qlab.driver import Counts
from qlab.job import JobState
from qlab.trace import Event, Kind, Trace

NAN, NEVER = math.nan, math.inf
FRAMES = (
    *(frames.events, frames.jobs, frames.depth, frames.spans, frames.waits),
    *(frames.attempts, frames.oldest, frames.polls),
)


def rows(frame, *columns):
    """The frame as tuples, NaN as None so that rows can be compared."""
    told = (frame[list(columns)] if columns else frame).itertuples(index=False, name=None)
    return [tuple(None if pd.isna(value) else value for value in row) for row in told]


def dispatched(at, job, name="resize", until=None):
    return Event(at, Kind.DISPATCHED, job, name, until=at if until is None else until)


def reserved(at, job, attempt=1, worker="w1", since=0.0, until=NEVER):
    return Event(at, Kind.RESERVED, job, "resize", attempt, worker, since, until)


def expired(at, job, attempt, until):
    return Event(at, Kind.EXPIRED, job, "resize", attempt, until=until)


def event(at, kind, job, attempt=1, worker="w1", until=None, detail=""):
    return Event(at, kind, job, "resize", attempt, worker, until=until, detail=detail)


PLAIN = Trace([dispatched(0, 1), reserved(2, 1), event(5, Kind.COMPLETED, 1)])

TWO_FAILURES = Trace(
    [
        dispatched(0, 1, until=4),
        reserved(5, 1, 1, "w1", 4, 95),
        event(6, Kind.RELEASED, 1, 1, until=16, detail="ValueError: one"),
        reserved(16, 1, 2, "w2", 16, 106),
        event(16, Kind.RELEASED, 1, 2, "w2", 76, "ValueError: two"),
        reserved(80, 1, 3, "w1", 76, 170),
        event(83, Kind.FAILED, 1, 3, detail="ValueError: three"),
    ]
)

LATE = Trace(
    [
        dispatched(0, 1),
        reserved(0, 1, 1, "slow", 0, 10),
        expired(12, 1, 1, 10),
        reserved(12, 1, 2, "quick", 10, 22),
        event(15, Kind.SUPERSEDED, 1, 1, "slow", detail="complete"),
        event(16, Kind.COMPLETED, 1, 2, "quick"),
    ]
)

SETTLED_LATE = Trace(
    [
        dispatched(0, 1),
        reserved(1, 1, since=0, until=11),
        event(15, Kind.EXTENDED, 1, until=25),
        event(26, Kind.COMPLETED, 1),
    ]
)

CRASHED = Trace(
    [
        dispatched(0, 1),
        reserved(0, 1, 1, "w1", 0, 10),
        event(1, Kind.CRASHED, 1, 1, "w1"),
        reserved(10, 1, 2, "w1", 10, 20),
        event(10, Kind.FAILED, 1, 1, detail="AttemptsExhausted: every attempt was used up"),
        Event(30, Kind.MISSED, worker="w1"),
    ]
)

RECOVERED = Trace(
    [
        dispatched(0, 1),
        reserved(0, 1, 1, "gone", 0, 10),
        event(14, Kind.RECOVERED, 1, 1, "", until=14),
        reserved(17, 1, 2, "w1", 14, 27),
        event(18, Kind.RELEASED, 1, 2, until=23),
        reserved(23, 1, 3, "w1", 23, 33),
        event(24, Kind.COMPLETED, 1, 3),
    ]
)

CLEARED = Trace(
    [
        dispatched(0, 1),
        dispatched(0, 2),
        dispatched(0, 3, until=9),
        reserved(0, 1, until=10),
        event(1, Kind.COMPLETED, 1),
        reserved(1, 2, until=11),
        Event(4, Kind.CLEARED, detail="2"),
        event(6, Kind.SUPERSEDED, 2, detail="complete"),
        dispatched(7, 4),
    ]
)


def test_events_are_the_events():
    trace = Trace([*TWO_FAILURES, Event(90, Kind.MISSED, worker="w1"), dispatched(91, 2, until=NEVER)])
    told = frames.events(trace)
    assert list(told.columns) == list(Event._fields)
    assert rows(told) == [tuple(e) for e in trace]
    assert told["until"].iloc[-1] == NEVER


def test_text_columns_have_only_their_own_texts_as_categories():
    told = frames.events(TWO_FAILURES)
    assert list(told["worker"].cat.categories) == ["", "w1", "w2"]
    assert list(told["name"].cat.categories) == ["resize"]
    assert list(told["kind"].cat.categories) == list(Kind)


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_and_dtypes_do_not_depend_on_what_happened(frame):
    def kinds(trace):
        return {name: "category" if kind == "category" else str(kind) for name, kind in frame(trace).dtypes.items()}

    assert len(frame(Trace())) == 0
    assert kinds(Trace()) == kinds(TWO_FAILURES) == kinds(CLEARED)
    assert kinds(Trace([Event(1, Kind.MISSED)])) == kinds(Trace())


@pytest.mark.parametrize("frame", FRAMES)
def test_dtypes_are_those_of_the_docstring(frame):
    lines = [line for line in frame.__doc__.splitlines() if line.strip().startswith("- ")]
    for name, kind in frame(TWO_FAILURES).dtypes.items():
        told = next(line for line in lines if f"`{name}`" in line)
        assert ("category" if kind == "category" else str(kind)) in told


def test_a_plain_job_waits_and_is_served():
    assert rows(frames.jobs(PLAIN)) == [
        (1, "resize", "done", 1, 1, 0.0, 2.0, 5.0, 2.0, 3.0, 0.0, 5.0, "w1", 0, ""),
    ]
    assert list(frames.jobs(PLAIN).columns) == [
        *("job", "name", "state", "attempts", "runs", "dispatched_at", "first_reserved_at", "finished_at"),
        *("wait", "service", "backoff", "sojourn", "worker", "superseded", "error"),
    ]


def test_a_failing_job_adds_up_its_attempts():
    assert rows(frames.jobs(TWO_FAILURES)) == [
        (1, "resize", "failed", 3, 3, 0.0, 5.0, 83.0, 5.0, 4.0, 70.0, 9.0, "w1", 0, "ValueError: three"),
    ]


def test_a_superseded_reservation_is_served_until_it_runs_out():
    told = frames.jobs(LATE)
    assert rows(told, "attempts", "runs", "wait", "service", "worker", "superseded") == [(2, 2, 2.0, 14.0, "quick", 1)]


def test_a_worker_too_late_to_extend_may_still_settle():
    late = Trace([*LATE, event(17, Kind.SUPERSEDED, 1, 1, "slow", detail="extend")])
    assert rows(frames.jobs(late), "superseded") == [(1,)]


def test_a_job_settled_after_its_reservation_ran_out_was_served_all_along():
    assert rows(frames.jobs(SETTLED_LATE), "wait", "service", "sojourn") == [(1.0, 25.0, 26.0)]


def test_a_reservation_with_attempts_used_up_is_no_run():
    assert rows(frames.jobs(CRASHED), "state", "attempts", "runs", "service") == [("failed", 2, 1, 10.0)]


def test_a_recovered_job_waits_from_where_it_ran_out():
    assert rows(frames.jobs(RECOVERED), "wait", "service", "backoff", "finished_at") == [(7.0, 12.0, 0.0, 24.0)]


def test_cleared_jobs_are_told_apart():
    assert rows(frames.jobs(CLEARED), "job", "state", "wait", "service", "superseded") == [
        (1, "done", 0.0, 1.0, 0),
        (2, "cleared", 1.0, 3.0, 1),
        (3, "cleared", None, None, 0),
        (4, "ready", None, None, 0),
    ]


def test_what_has_not_happened_is_nan():
    trace = Trace([dispatched(0, 1, until=50), dispatched(0, 2), reserved(3, 2, until=93), Event(5, Kind.MISSED)])
    times = ("dispatched_at", "first_reserved_at", "finished_at", "wait", "service", "backoff", "sojourn")
    assert rows(frames.jobs(trace), "state", *times) == [
        ("delayed", 0.0, None, None, None, None, 0.0, None),
        ("reserved", 0.0, 3.0, None, 3.0, None, 0.0, None),
    ]


def test_a_state_at_the_last_moment_counts_what_ran_out_by_then():
    trace = Trace([dispatched(0, 1), reserved(0, 1, until=10), dispatched(0, 2, until=10), Event(10, Kind.MISSED)])
    assert rows(frames.jobs(trace), "state", "service") == [("ready", 10.0), ("ready", None)]
    assert rows(frames.depth(trace))[-1] == (10.0, 2, 0, 0, 0, 0, 2)


def test_a_retried_job_is_another_row():
    again = [Event(90, Kind.RETRIED, 1, "resize", detail="failed job 1"), dispatched(90, 2)]
    trace = Trace([*TWO_FAILURES, *again])
    assert rows(frames.jobs(trace), "job", "state", "dispatched_at") == [(1, "failed", 0.0), (2, "ready", 90.0)]
    assert rows(frames.depth(trace))[-1] == (90.0, 1, 0, 0, 0, 0, 1)


def test_a_forgotten_job_is_counted_no_more():
    trace = Trace([*TWO_FAILURES, Event(90, Kind.FORGOTTEN, 1, detail="failed job 1")])
    assert rows(frames.depth(trace))[-1] == (90.0, 0, 0, 0, 0, 0, 0)


def test_a_job_that_the_trace_first_sees_reserved_has_waited():
    trace = Trace([reserved(100, 7, 2, since=40, until=190), event(101, Kind.COMPLETED, 7, 2)])
    told = frames.jobs(trace)
    assert rows(told, "job", "attempts", "dispatched_at", "wait", "service") == [(7, 1, None, 60.0, 1.0)]


def test_a_wait_that_began_on_a_faster_clock_is_none():
    trace = Trace([reserved(100, 7, since=100.5), event(101, Kind.COMPLETED, 7)])
    assert rows(frames.jobs(trace), "wait", "sojourn") == [(0.0, 1.0)]


def test_a_reservation_that_does_not_say_when_it_runs_out_never_does():
    trace = Trace([dispatched(0, 1), reserved(1, 1, until=None), Event(500, Kind.MISSED)])
    assert rows(frames.jobs(trace), "state") == [("reserved",)]


def test_depth_has_a_row_where_time_alone_changes_it():
    assert rows(frames.depth(TWO_FAILURES)) == [
        (0.0, 0, 1, 0, 0, 0, 1),
        (4.0, 1, 0, 0, 0, 0, 1),
        (5.0, 0, 0, 1, 0, 0, 1),
        (6.0, 0, 1, 0, 0, 0, 1),
        (76.0, 1, 0, 0, 0, 0, 1),
        (80.0, 0, 0, 1, 0, 0, 1),
        (83.0, 0, 0, 0, 1, 0, 0),
    ]
    assert rows(frames.depth(LATE), "at", "ready", "reserved", "done") == [
        *((0.0, 0, 1, 0), (10.0, 1, 0, 0)),
        *((12.0, 0, 1, 0), (16.0, 0, 0, 1)),
    ]


def test_what_is_lost_has_left_as_what_was_cleared_has():
    lost = [Event(4, Kind.LOST, 2), Event(4, Kind.LOST, 3)]
    trace = Trace(event for told in CLEARED for event in (lost if told.kind is Kind.CLEARED else [told]))
    assert rows(frames.depth(trace)) == rows(frames.depth(CLEARED))
    columns = ("job", "state", "wait", "service", "superseded")
    cleared = rows(frames.jobs(CLEARED), *columns)
    assert rows(frames.jobs(trace), *columns) == [
        (job, "lost" if state == "cleared" else state, *rest) for job, state, *rest in cleared
    ]


def test_depth_forgets_what_was_cleared_and_keeps_what_was_done():
    assert rows(frames.depth(CLEARED)) == [
        (0.0, 1, 1, 1, 0, 0, 3),
        (1.0, 0, 1, 1, 0, 1, 2),
        (4.0, 0, 0, 0, 0, 1, 0),
        (7.0, 1, 0, 0, 0, 1, 1),
    ]


def spans(trace, *columns):
    return rows(frames.spans(trace), *(columns or ("span", "start", "end", "attempt", "worker")))


def test_spans_of_a_failing_job():
    assert spans(TWO_FAILURES) == [
        ("delayed", 0.0, 4.0, 0, ""),
        ("waiting", 4.0, 5.0, 0, ""),
        ("reserved", 5.0, 6.0, 1, "w1"),
        ("retrying", 6.0, 6.0, 1, "w1"),
        ("backoff", 6.0, 16.0, 1, ""),
        ("reserved", 16.0, 16.0, 2, "w2"),
        ("retrying", 16.0, 16.0, 2, "w2"),
        ("backoff", 16.0, 76.0, 2, ""),
        ("waiting", 76.0, 80.0, 2, ""),
        ("reserved", 80.0, 83.0, 3, "w1"),
        ("failed", 83.0, 83.0, 3, "w1"),
    ]


def test_spans_show_a_late_worker_beside_the_one_that_has_the_job():
    assert spans(LATE) == [
        ("reserved", 0.0, 10.0, 1, "slow"),
        ("waiting", 10.0, 12.0, 1, ""),
        ("late", 10.0, 15.0, 1, "slow"),
        ("reserved", 12.0, 16.0, 2, "quick"),
        ("superseded", 15.0, 15.0, 1, "slow"),
        ("done", 16.0, 16.0, 2, "quick"),
    ]


def test_spans_show_a_worker_that_extends_and_settles_late():
    assert spans(SETTLED_LATE, "span", "start", "end") == [
        ("waiting", 0.0, 1.0),
        ("reserved", 1.0, 11.0),
        ("waiting", 11.0, 15.0),
        ("late", 11.0, 15.0),
        ("reserved", 15.0, 25.0),
        ("waiting", 25.0, 26.0),
        ("late", 25.0, 26.0),
        ("done", 26.0, 26.0),
    ]


def test_a_worker_that_settles_at_its_deadline_is_not_late():
    trace = Trace([dispatched(0, 1), reserved(0, 1, until=10), event(10, Kind.COMPLETED, 1)])
    assert spans(trace, "span", "start", "end") == [("reserved", 0.0, 10.0), ("done", 10.0, 10.0)]


def test_a_worker_that_tries_twice_is_late_once():
    trace = Trace([*LATE, event(17, Kind.SUPERSEDED, 1, 1, "slow", detail="fail")])
    assert [span for span in spans(trace, "span", "start", "end") if span[0] in ("late", "superseded")] == [
        ("late", 10.0, 17.0),
        ("superseded", 15.0, 15.0),
        ("superseded", 17.0, 17.0),
    ]


def test_spans_show_a_crash_inside_its_reservation():
    assert spans(CRASHED) == [
        ("reserved", 0.0, 10.0, 1, "w1"),
        ("crashed", 1.0, 1.0, 1, "w1"),
        ("reserved", 10.0, 10.0, 2, "w1"),
        ("failed", 10.0, 10.0, 1, "w1"),
    ]


def test_a_job_given_back_without_an_error_is_delayed_not_backing_off():
    assert spans(RECOVERED, "span", "start", "end")[-5:] == [
        ("reserved", 17.0, 18.0),
        ("released", 18.0, 18.0),
        ("delayed", 18.0, 23.0),
        ("reserved", 23.0, 24.0),
        ("done", 24.0, 24.0),
    ]


def test_spans_end_where_the_queue_was_cleared():
    assert spans(CLEARED, "job", "span", "start", "end") == [
        (1, "reserved", 0.0, 1.0),
        (1, "done", 1.0, 1.0),
        (2, "waiting", 0.0, 1.0),
        (2, "reserved", 1.0, 4.0),
        (2, "late", 4.0, 6.0),
        (2, "superseded", 6.0, 6.0),
        (3, "delayed", 0.0, 4.0),
        (4, "waiting", 7.0, 7.0),
    ]


def test_what_still_goes_on_ends_at_the_last_moment():
    trace = Trace([dispatched(0, 1, until=300), dispatched(0, 2), reserved(1, 2, until=91), Event(20, Kind.MISSED)])
    assert spans(trace, "job", "span", "start", "end") == [
        (1, "delayed", 0.0, 20.0),
        (2, "waiting", 0.0, 1.0),
        (2, "reserved", 1.0, 20.0),
    ]


def test_every_job_has_a_span_where_it_is_now():
    trace = Trace([dispatched(0, 1), dispatched(0, 2, until=9), dispatched(0, 3), reserved(0, 3, until=9)])
    assert spans(trace, "job", "span") == [(1, "waiting"), (2, "delayed"), (3, "reserved")]


def test_a_clock_that_was_set_back_makes_nothing_negative():
    trace = Trace([dispatched(1000, 1), reserved(400, 1, since=400, until=490), event(1000, Kind.COMPLETED, 1)])
    assert rows(frames.jobs(trace), "first_reserved_at", "wait", "service") == [(1000.0, 0.0, 0.0)]
    assert rows(frames.depth(trace), "at", "done", "depth") == [(1000.0, 1, 0)]


def waits(trace):
    return rows(frames.waits(trace), "attempt", "since", "reserved_at", "wait", "worker")


def test_a_job_waits_once_for_each_attempt_and_not_in_its_backoff():
    assert waits(TWO_FAILURES) == [(1, 4.0, 5.0, 1.0, "w1"), (2, 16.0, 16.0, 0.0, "w2"), (3, 76.0, 80.0, 4.0, "w1")]


def test_a_job_waits_from_where_its_reservation_ran_out():
    assert waits(LATE) == [(1, 0.0, 0.0, 0.0, "slow"), (2, 10.0, 12.0, 2.0, "quick")]
    assert waits(RECOVERED)[1] == (2, 10.0, 17.0, 7.0, "w1")


def test_a_worker_that_settles_late_let_nothing_wait():
    assert waits(SETTLED_LATE) == [(1, 0.0, 1.0, 1.0, "w1")]


def test_a_wait_that_goes_on_lasts_until_the_last_moment():
    trace = Trace(
        [
            *(dispatched(0, 1), dispatched(0, 2), dispatched(0, 3, until=99), dispatched(0, 4)),
            *(reserved(1, 1, until=5), reserved(1, 4, until=NEVER)),
            *(event(2, Kind.RELEASED, 4, until=2, detail="E: no"), Event(9, Kind.MISSED)),
        ]
    )
    assert rows(frames.waits(trace), "job", "attempt", "since", "reserved_at", "wait", "worker") == [
        *((1, 1, 0.0, 1.0, 1.0, "w1"), (1, 2, 5.0, None, 4.0, "")),
        (2, 1, 0.0, None, 9.0, ""),
        *((4, 1, 0.0, 1.0, 1.0, "w1"), (4, 2, 2.0, None, 7.0, "")),
    ]


def test_a_wait_that_a_clearing_cut_off_is_none():
    assert rows(frames.waits(CLEARED), "job", "wait") == [(1, 0.0), (2, 1.0), (4, 0.0)]


def test_a_job_that_the_trace_first_sees_reserved_has_a_wait():
    late = Trace([reserved(100, 7, 2, since=40, until=190), event(101, Kind.COMPLETED, 7, 2)])
    assert waits(late) == [(2, 40.0, 100.0, 60.0, "w1")]
    assert waits(Trace([reserved(100, 7, since=100.5)])) == [(1, 100.0, 100.0, 0.0, "w1")]
    assert waits(Trace([reserved(100, 7, since=100)])) == [(1, 100.0, 100.0, 0.0, "w1")]


@pytest.fixture(params=range(12))
def walked(request):
    walk = Walk(request.param)
    for _ in range(120):
        walk.step()
    return walk.trace


def test_depth_agrees_with_the_trace_at_every_moment(walked):
    told = frames.depth(walked)
    for t in moments(walked):
        at = walked.at(t)
        done = sum(seen.settled is JobState.DONE for seen in (*at.before, *at.jobs.values()))
        before = told[told["at"] <= t]
        seen = before.iloc[-1] if len(before) else dict.fromkeys(told.columns, 0)
        assert (t, Counts(*(seen[state] for state in Counts._fields)), seen["done"]) == (t, at.counts(), done)
        assert seen["depth"] == at.counts().depth


def test_depth_rows_are_moments_at_which_a_count_changed(walked):
    told = frames.depth(walked)
    assert told["at"].is_monotonic_increasing
    assert told["at"].is_unique
    counted = told.drop(columns="at")
    assert (counted >= 0).all(axis=None)
    assert counted.diff().iloc[1:].any(axis=1).all()


def test_jobs_end_in_the_states_that_the_trace_tells(walked):
    told = frames.jobs(walked)
    moment = walked.at(math.inf)
    last = walked[len(walked) - 1].at
    states = {id: str(seen.state(last)) for id, seen in moment.jobs.items()}
    assert dict(rows(told[told["state"] != "cleared"], "job", "state")) == states
    assert len(told) == sum(e.kind is Kind.DISPATCHED for e in walked)


def test_jobs_count_what_the_events_say(walked):
    told = frames.jobs(walked).set_index("job")
    kinds = Counter((e.job, e.kind) for e in walked)
    for job, row in told.iterrows():
        assert row["attempts"] == row["runs"] == kinds[job, Kind.RESERVED]
        assert row["superseded"] == kinds[job, Kind.SUPERSEDED]


def test_a_finished_job_has_waited_been_served_or_been_delayed_all_its_life(walked):
    told, drawn = frames.jobs(walked).set_index("job"), frames.spans(walked)
    delayed = drawn[drawn["span"] == "delayed"]
    delays = (delayed["end"] - delayed["start"]).groupby(delayed["job"]).sum().reindex(told.index, fill_value=0.0)
    lives = told["finished_at"] - told["dispatched_at"]
    assert (told["sojourn"] == told["wait"] + told["service"])[lives.notna()].all()
    assert (lives - told["sojourn"] - told["backoff"] - delays).dropna().abs().max() == pytest.approx(0)
    assert lives.notna().any()


def test_waits_are_those_that_the_reservations_tell(walked):
    recovered = {e.job for e in walked if e.kind is Kind.RECOVERED}  # that ends a wait of which no reservation tells
    waits = Counter()
    for e in walked:
        if e.kind is Kind.RESERVED and e.job not in recovered:
            waits[e.job] += e.at - e.since
    told = rows(frames.jobs(walked).dropna(subset="wait"), "job", "wait")
    assert {job: wait for job, wait in told if job not in recovered} == waits


def test_spans_of_a_job_follow_each_other_without_a_gap(walked):
    drawn = frames.spans(walked)
    states = drawn[drawn["span"].isin(["delayed", "waiting", "reserved", "backoff"])]
    assert (drawn["end"] >= drawn["start"]).all()
    for _, mine in states.groupby("job"):
        assert list(mine["start"].iloc[1:]) == list(mine["end"].iloc[:-1])


def test_spans_cover_the_depth(walked):
    drawn, told = frames.spans(walked), frames.depth(walked)
    for a, b in pairwise(told.itertuples()):
        t = (a.at + b.at) / 2
        there = Counter(drawn["span"][(drawn["start"] <= t) & (t < drawn["end"])])
        drawn_in = there["waiting"], there["delayed"] + there["backoff"], there["reserved"]
        assert drawn_in == (a.ready, a.delayed, a.reserved)


def test_the_waits_of_a_settled_job_add_up(walked):
    told = frames.jobs(walked).dropna(subset="finished_at").set_index("job")
    summed = frames.waits(walked).groupby("job")["wait"].sum()
    assert len(told) > 0
    assert summed[told.index].to_dict() == told["wait"].to_dict()


def test_each_reservation_ends_one_wait_and_each_ready_job_is_in_one(walked):
    told = frames.waits(walked)
    over = told[told["reserved_at"].notna()]
    reservations = sorted((e.job, e.attempt, e.at, e.worker) for e in walked if e.kind is Kind.RESERVED)
    assert sorted(rows(over, "job", "attempt", "reserved_at", "worker")) == reservations
    at = walked.at(walked[len(walked) - 1].at)
    ready = sorted((seen.id, seen.attempts + 1) for seen in at.jobs.values() if seen.state(at.at) is JobState.READY)
    assert rows(told[told["reserved_at"].isna()], "job", "attempt") == ready
    assert (told["wait"] >= 0).all()


# -- attempts, asks, and the oldest job --

WHEN = ("since", "reserved_at", "ended_at", "how", "left_at", "wait", "service", "late")


def test_attempts_tell_what_came_of_each_reservation():
    assert rows(frames.attempts(TWO_FAILURES), "attempt", "worker", *WHEN) == [
        (1, "w1", 4.0, 5.0, 6.0, "retrying", 6.0, 1.0, 1.0, 0.0),
        (2, "w2", 16.0, 16.0, 16.0, "retrying", 16.0, 0.0, 0.0, 0.0),
        (3, "w1", 76.0, 80.0, 83.0, "failed", 83.0, 4.0, 3.0, 0.0),
    ]
    assert rows(frames.attempts(CLEARED), "job", "how", "ended_at") == [(1, "completed", 1.0), (2, "cleared", 4.0)]


def test_a_worker_that_comes_too_late_lets_go_when_it_is_told():
    assert rows(frames.attempts(LATE), *WHEN) == [
        (0.0, 0.0, 10.0, "superseded", 15.0, 0.0, 10.0, 5.0),
        (10.0, 12.0, 16.0, "completed", 16.0, 2.0, 4.0, 0.0),
    ]
    still = Trace([*LATE, event(17, Kind.SUPERSEDED, 1, 1, "slow", detail="extend")])
    assert rows(frames.attempts(still), "left_at") == [(15.0,), (16.0,)]


def test_a_worker_that_crashes_lets_go_of_a_job_that_stays_reserved():
    assert rows(frames.attempts(CRASHED), "ended_at", "how", "left_at", "service") == [
        (10.0, "superseded", 1.0, 10.0),
        (10.0, "exhausted", 10.0, 0.0),
    ]


def test_an_attempt_that_is_extended_and_settled_late_is_one():
    assert rows(frames.attempts(SETTLED_LATE), "until", *WHEN) == [
        (25.0, 0.0, 1.0, 26.0, "completed", 26.0, 1.0, 25.0, 5.0)
    ]


def test_an_attempt_may_be_recovered_given_back_lost_go_on_or_run_out():
    assert rows(frames.attempts(RECOVERED), "since", "ended_at", "how") == [
        (0.0, 10.0, "recovered"),
        (10.0, 18.0, "released"),
        (23.0, 24.0, "completed"),
    ]
    trace = Trace(
        [
            *(dispatched(0, 1), dispatched(0, 2), dispatched(0, 3)),
            *(reserved(0, 1, until=5), reserved(0, 2, until=50), reserved(0, 3, until=50)),
            *(Event(7, Kind.LOST, 3), Event(9, Kind.MISSED)),
        ]
    )
    assert rows(frames.attempts(trace), "job", "ended_at", "how", "left_at", "service") == [
        (1, 5.0, "ran out", 5.0, 5.0),
        (2, None, "reserved", None, None),
        (3, 7.0, "lost", 7.0, 7.0),
    ]


def test_an_ask_finds_nothing_or_some_jobs():
    trace = Trace(
        [
            *(dispatched(0, job) for job in (1, 2, 3, 4)),
            Event(0, Kind.MISSED, worker="w2"),
            *(reserved(1, 1, until=9), expired(1, 2, 1, 1), reserved(1, 2, 2), reserved(1, 3, worker="w2")),
            *(event(2, Kind.COMPLETED, 1), reserved(2, 4), event(2, Kind.COMPLETED, 4), Event(2, Kind.MISSED)),
        ]
    )
    assert rows(frames.polls(trace)) == [(0.0, "w2", 0), (1.0, "w1", 2), (1.0, "w2", 1), (2.0, "w1", 1), (2.0, "", 0)]


def test_the_oldest_job_grows_older_until_it_is_reserved():
    trace = Trace(
        [
            *(dispatched(0, 1), dispatched(1, 2), dispatched(2, 3), reserved(3, 3), reserved(4, 1)),
            *(reserved(6, 2, until=7), dispatched(8, 4, until=20), Event(9, Kind.MISSED)),
        ]
    )
    assert rows(frames.oldest(trace)) == [
        (1, 0.0, 4.0, 0.0, 4.0),
        (2, 4.0, 6.0, 3.0, 5.0),
        (2, 7.0, 9.0, 0.0, 2.0),
    ]


def test_an_id_that_is_given_again_is_another_job():
    anew = [
        Event(20, Kind.LOST, 2),
        dispatched(30, 1),
        reserved(32, 1),
        event(33, Kind.SUPERSEDED, 1, 7, detail="fail"),
    ]
    trace = Trace([*PLAIN, dispatched(6, 2), *anew, event(39, Kind.COMPLETED, 1)])
    assert rows(frames.jobs(trace), "job", "state", "dispatched_at", "finished_at", "wait", "superseded") == [
        (1, "done", 0.0, 5.0, 2.0, 0),
        (1, "done", 30.0, 39.0, 2.0, 1),
        (2, "lost", 6.0, None, None, 0),
    ]
    assert rows(frames.depth(trace), "at", "done")[-1] == (39.0, 2)
    again = Trace([*CLEARED, dispatched(8, 2), reserved(9, 2)])
    assert rows(frames.jobs(again), "job", "state", "service") == [
        (1, "done", 1.0),
        (2, "cleared", 3.0),
        (2, "reserved", None),
        *((3, "cleared", None), (4, "ready", None)),
    ]


def test_attempts_add_up_to_the_jobs_and_are_the_waits(walked):
    told, jobs, waits = frames.attempts(walked), frames.jobs(walked), frames.waits(walked)
    summed = told.groupby("job")[["wait", "service"]].sum().reindex(jobs["job"])
    settled = jobs["finished_at"].notna().to_numpy()
    assert settled.any()
    assert summed["wait"].to_numpy()[settled].tolist() == jobs["wait"].to_numpy()[settled].tolist()
    assert summed["service"].to_numpy()[settled].tolist() == jobs["service"].to_numpy()[settled].tolist()
    over = waits[waits["reserved_at"].notna()]
    columns = ("job", "attempt", "since", "reserved_at", "wait", "worker")
    assert rows(told, *columns) == rows(over.sort_values(["job", "reserved_at", "attempt"]), *columns)


def test_attempts_are_late_for_as_long_as_spans_say(walked):
    drawn = frames.spans(walked)
    drawn = drawn[drawn["span"] == "late"]
    lasted = (drawn["end"] - drawn["start"]).groupby([drawn["job"], drawn["attempt"]]).sum()
    told = frames.attempts(walked).set_index(["job", "attempt"])["late"]
    assert told[told > 0].to_dict() == lasted.sort_index().to_dict()


def test_every_ask_of_a_walk_is_told(walked):
    kinds = Counter(e.kind for e in walked)
    told = frames.polls(walked)
    assert (told["found"] == 0).sum() == kinds[Kind.MISSED]
    assert told["found"].sum() == kinds[Kind.RESERVED]


def test_the_oldest_is_the_first_of_those_that_wait(walked):
    told, waits = frames.oldest(walked), frames.waits(walked)
    for t in moments(walked):
        waiting = waits[(waits["since"] <= t) & (waits["reserved_at"].isna() | (t < waits["reserved_at"]))]
        waiting = waiting[(waiting["since"] + waiting["wait"] > t)]
        there = told[(told["start"] <= t) & (t < told["end"])]
        assert list(there["age"] + t - there["start"]) == ([t - waiting["since"].min()] if len(waiting) else [])


@pytest.mark.parametrize("seed", range(6))
def test_depth_agrees_with_the_trace_where_ids_are_given_again(seed):
    walk = Walk(seed)
    for _ in range(3):
        for _ in range(50):
            walk.step()
        for job in sorted({*walk.waiting, *walk.held}):
            walk.record(Kind.LOST, job)
        walk.waiting, walk.held, walk.late, walk.last = {}, {}, [], 0
    test_depth_agrees_with_the_trace_at_every_moment(walk.trace)
    told = frames.jobs(walk.trace)
    assert len(told) == sum(e.kind is Kind.DISPATCHED for e in walk.trace)
    assert told["job"].duplicated().any()
