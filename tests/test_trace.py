"""The trace: what it keeps, and what can be rebuilt from it."""

import math
import subprocess
import sys
import threading
from typing import Any

import pytest
from conftest import ONE_OF_EACH, outcomes, stores

from qlab import Attempt, Queue, Release
from qlab.job import JobState
from qlab.running import Ended
from qlab.trace import CODES, NOTHING, Difference, Event, Kind, Trace

store = stores(*ONE_OF_EACH)

EVENTS = [
    Event(0.0, Kind.DISPATCHED, 1, "A", until=0.0),
    Event(0.5, Kind.RESERVED, 1, "A", 1, "w", since=0.0, until=90.5),
    Event(1.0, Kind.RELEASED, 1, "A", 1, "w", until=11.0, detail="ValueError: é😀"),
    Event(1.0, Kind.MISSED, worker="w"),
    Event(11.0, Kind.RESERVED, 1, "A", 2, "w", since=11.0, until=math.inf),
    Event(12.0, Kind.COMPLETED, 1, "A", 2, "w"),
]


def test_events_come_back_as_they_were() -> None:
    trace = Trace(EVENTS)
    assert list(trace) == EVENTS
    assert len(trace) == 6
    assert trace[4] == EVENTS[4]
    assert trace[-1] == EVENTS[-1]


def test_the_kinds_of_events_are_these() -> None:
    assert [str(kind) for kind in Kind] == [
        "dispatched", "reserved", "extended", "completed", "released", "failed", "expired", "superseded",
        "retried", "forgotten", "recovered", "cleared", "missed", "blocked", "crashed", "progressed",
        "paused", "resumed", "restarted", "lost", "rejected",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_says_itself_in_words(kind: Kind) -> None:
    assert kind is Kind.MISSED or "job 7" in Event(0.0, kind, 7, "A", 1, "w", 0.0, 1.0, "detail").says or kind in (
        Kind.CLEARED, Kind.BLOCKED, Kind.RESTARTED, Kind.REJECTED,
    )  # fmt: skip
    assert Event(0.0, kind).says


@pytest.mark.parametrize(
    "bad",
    [{"until": math.nan}, {"since": -math.inf}, {"until": 1e300}, {"job": "one"}, {"job": 2**70}, {"attempt": -1}],
    ids=str,
)
def test_an_event_that_cannot_be_recorded_leaves_the_trace_as_it_was(bad: dict[str, Any]) -> None:
    trace = Trace(EVENTS)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        trace.record(13.0, Kind.RESERVED, **{"job": 2, "name": "B", "worker": "v", **bad})
    assert list(trace) == EVENTS
    trace.record(14.0, Kind.DISPATCHED, 3, "C", until=14.0)
    assert list(trace) == [*EVENTS, Event(14.0, Kind.DISPATCHED, 3, "C", until=14.0)]


def test_the_columns_are_copies_of_small_values() -> None:
    trace = Trace(EVENTS)
    columns, texts = trace.columns()
    assert {len(column) for column in columns.values()} == {6}
    assert [texts[code] for code in columns["worker"]] == ["", "w", "w", "w", "w", "w"]
    assert columns["job"][3] == -(2**62)
    columns["at"][0] = 99
    assert trace[0].at == 0.0


def test_equal_traces_are_equal_and_have_one_digest() -> None:
    assert Trace(EVENTS) == Trace(EVENTS)
    assert Trace(EVENTS).digest() == Trace(EVENTS).digest()
    assert len(Trace().digest()) == 16
    for place, event in enumerate(EVENTS):
        changed = [*EVENTS[:place], event._replace(at=event.at + 0.000001), *EVENTS[place + 1 :]]
        assert Trace(changed) != Trace(EVENTS)
        assert Trace(changed).digest() != Trace(EVENTS).digest()
    with pytest.raises(TypeError):
        hash(Trace())


def test_a_digest_is_the_same_in_every_process() -> None:
    script = (
        "from qlab.trace import Event, Kind, Trace\n"
        "print(Trace([Event(0.0, Kind.DISPATCHED, 1, 'é', until=0.1)]).digest())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == Trace([Event(0.0, Kind.DISPATCHED, 1, "é", until=0.1)]).digest()


def test_a_trace_longer_than_what_waits_to_become_columns_keeps_every_event() -> None:
    """However often it is read in between."""
    told = [Event(float(at), Kind.RESERVED, at, f"A{at % 3}", 1, f"w{at}", float(at), at + 0.5) for at in range(10_000)]
    trace, read = Trace(), Trace()
    for event in told:
        trace.record(*event)
        read.record(*event)
        assert read[-1] == event
    assert list(trace) == told
    assert (len(trace), trace[0], trace[9_999], trace[-10_000]) == (10_000, told[0], told[9_999], told[0])
    assert trace == read
    assert trace.digest() == read.digest()
    with pytest.raises(IndexError):
        trace[10_000]


def test_an_event_in_microseconds_is_the_one_in_seconds() -> None:
    trace = Trace(EVENTS[:2])
    assert CODES[Kind.REJECTED] == len(Kind) - 1
    trace.record_us(1_000_000, CODES[Kind.RELEASED], 1, "A", 1, "w", NOTHING, 11_000_000, "ValueError: é😀")
    trace.record_us(1_000_000, CODES[Kind.MISSED], NOTHING, "", 0, "w")
    assert list(trace) == EVENTS[:4]


def test_a_digest_does_not_tell_in_which_order_texts_came_first() -> None:
    """Two threads: one is stopped after its text has got a number, before its event is there."""
    usual, odd = Trace(EVENTS), Trace()
    for text in ("w", "never seen", "A"):
        odd._number(text)  # noqa: SLF001 - as a thread does
    for event in EVENTS:
        odd.record(*event)
    assert odd == usual
    assert odd.digest() == usual.digest()
    assert Trace([EVENTS[0]._replace(name="B")]).digest() != Trace([EVENTS[0]]).digest()


def test_the_first_difference_of_long_traces_is_told_wherever_it_is() -> None:
    told = [Event(float(at), Kind.DISPATCHED, at, "A", until=float(at)) for at in range(5_000)]
    for place in (0, 1, 2_499, 4_095, 4_096, 4_999):
        changed = told[place]._replace(detail="other")
        other = Trace([*told[:place], changed, *told[place + 1 :]])
        assert Trace(told).difference(other) == Difference(place, told[place], changed)


def test_the_first_difference_of_two_traces_is_told() -> None:
    changed = [*EVENTS[:3], EVENTS[3]._replace(worker="v"), *EVENTS[4:]]
    assert Trace(EVENTS).difference(Trace(EVENTS)) is None
    assert Trace(EVENTS).difference(Trace(changed)) == Difference(3, EVENTS[3], changed[3])
    assert Trace(EVENTS).difference(Trace(EVENTS[:5])) == Difference(5, EVENTS[5], None)
    assert Trace(EVENTS[:5]).difference(Trace(EVENTS)) == Difference(5, None, EVENTS[5])


def test_threads_may_record_together() -> None:
    trace = Trace()

    def record(worker: str) -> None:
        for number in range(500):
            trace.record(number, Kind.PROGRESSED, number, "A", 1, worker, detail=f"{worker} {number}")

    threads = [threading.Thread(target=record, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(trace) == 2_000
    assert all(event.detail == f"{event.worker} {event.job}" for event in trace)


def test_html_shows_the_last_events() -> None:
    trace = Trace()
    for number in range(60):
        trace.record(number, Kind.DISPATCHED, number, "A", until=number)
    html = trace._repr_html_()
    assert "60 events, the last 50" in html
    assert "job 59 (A) was dispatched" in html
    assert "job 9 (A)" not in html
    assert repr(trace) == f"<Trace of 60 events, {trace.digest()}>"


# -- what was where, at any moment --


def test_the_state_at_any_moment_is_rebuilt() -> None:
    trace = Trace(EVENTS)
    states = {moment: trace.at(moment).jobs[1].state(moment) for moment in (0.0, 0.5, 1.0, 10.9, 11.0, 11.5, 12.0)}
    assert states == {
        0.0: JobState.READY,
        0.5: JobState.RESERVED,
        1.0: JobState.DELAYED,
        10.9: JobState.DELAYED,
        11.0: JobState.RESERVED,
        11.5: JobState.RESERVED,
        12.0: JobState.DONE,
    }
    assert trace.at(-1.0).jobs == {}
    assert trace.at(11.5).jobs[1].worker == "w"


def test_what_the_trace_tells_is_what_the_store_counts(queue: Queue) -> None:
    """Everything that can happen, and after each step the trace and the store agree."""

    def handler(job: Attempt) -> Release | None:
        if job.payload == "back":
            return Release(7.0)
        if job.payload == "fail" or (job.payload == "retry" and job.number == 1):
            raise ValueError("boom")
        if job.payload == "extend":
            job.extend(200.0)
        return None

    queue.handler("A", tries=2, backoff=(4.0,))(handler)
    queue.dispatch_many([("A", kind) for kind in ("ok", "back", "retry", "fail", "extend", "crash")])
    queue.dispatch_later("A", "later", delay=30.0)

    def agree() -> None:
        now = queue.clock.now()
        told, stored = queue.trace.at(now), queue.counts()
        assert told.counts(now)[:3] == stored[:3]
        assert told.counts(now).failed == stored.failed
        assert {id for id, seen in told.jobs.items() if not seen.settled} == {job.id for job in queue.jobs()}
        for job in queue.jobs():
            seen = told.jobs[job.id]
            assert (seen.name, seen.attempts, seen.available_at) == (job.name, job.attempts, job.available_at)
            assert seen.state(now) == job.state(now)

    agree()
    for _ in range(5):
        queue.work_once(worker="w1")
        agree()
    crashed = queue.reserve(worker="w2")
    assert crashed
    queue.crash(crashed)
    for seconds in (4.0, 3.0, 10.0, 20.0, 60.0, 10.0, 100.0):
        queue.clock.spend(seconds)
        agree()
        queue.drain(worker="w3")
        agree()
    queue.settle(crashed, Ended())
    agree()
    queue.dispatch("A", "ok")
    held = queue.reserve(worker="w4")
    assert held
    queue.recover(force=True)
    agree()
    queue.clear()
    agree()


def test_a_retry_takes_the_job_out_of_the_failed_ones(queue: Queue) -> None:
    queue.handler("A", tries=1)(lambda job: 1 / 0)
    queue.dispatch_many([("A", 1), ("A", 2)])
    outcomes(queue, 0.0, 0.0)
    queue.retry(queue.failed()[0].id or 0)
    assert queue.trace.at(0.0).counts() == queue.counts()
    queue.forget("all")
    assert queue.trace.at(0.0).counts() == queue.counts()


def test_a_lost_job_is_counted_nowhere_and_its_id_may_be_given_again() -> None:
    first = [event for event in EVENTS if event.kind is not Kind.MISSED]
    lost = [Event(13.0, Kind.DISPATCHED, 2, "A", until=13.0), Event(14.0, Kind.LOST, 2, "A")]
    again = [Event(15.0, Kind.DISPATCHED, id, "B", until=15.0) for id in (1, 2)]
    moment = Trace([*first, *lost]).at(14.0)
    assert (moment.jobs[2].settled, tuple(moment.counts())) == (JobState.LOST, (0, 0, 0, 0))
    anew = Trace([*first, *lost, *again]).at(15.0)
    assert [(seen.id, seen.settled) for seen in anew.before] == [(1, JobState.DONE), (2, JobState.LOST)]
    assert tuple(anew.counts()) == (2, 0, 0, 0)


def test_a_moment_is_rebuilt_also_where_steps_were_taken_out_of_order(queue: Queue) -> None:
    queue.handler("A")(lambda job: None)
    queue.dispatch("A")
    queue.work_once(100.0)
    queue.dispatch("A")  # at the clock's 0
    assert set(queue.trace.at(50.0).jobs) == {1, 2}
    assert queue.trace.at(50.0).jobs[1].settled is None
