"""Histories: what a killed process was told can be read, forged faults are named, and sound histories have none."""

import json
from pathlib import Path

import pytest
from conftest import QUEUE

from qlab import Queue, SimulatedClock, simulate
from qlab.driver import Driver
from qlab.history import Journal, Record, joined, sequential, written
from qlab.history.promises import Broken, Fault, broken
from qlab.scenario import named
from qlab.trace import Event, Kind, Trace

# -- the words of forged histories --


def dispatched(job: int, at: float = 0.0, *, until: float | None = None) -> Event:
    return Event(at, Kind.DISPATCHED, job, "send", until=at if until is None else until)


def reserved(
    job: int, worker: str, at: float, *, attempt: int = 1, since: float = 0.0, until: float | None = None
) -> Event:
    return Event(at, Kind.RESERVED, job, "send", attempt, worker, since, at + 90.0 if until is None else until)


def did(kind: str, job: int, worker: str, at: float, *, attempt: int = 1, until: float | None = None) -> Event:
    return Event(at, Kind(kind), job, "send", attempt, worker, until=until)


def superseded(job: int, worker: str, at: float, *, attempt: int = 1, verb: str = "complete") -> Event:
    return Event(at, Kind.SUPERSEDED, job, "send", attempt, worker, detail=verb)


def crashed(worker: str, at: float) -> Event:
    return Event(at, Kind.CRASHED, worker=worker)


D1, D2 = dispatched(1), dispatched(2)
A1 = reserved(1, "a", 1.0)
B2 = reserved(1, "b", 91.0, attempt=2, since=91.0)
DONE = did("completed", 1, "a", 2.0)
FAILED = did("failed", 1, "a", 2.0)
RELEASED = did("released", 1, "a", 2.0, until=12.0)


def faults(*events: Event, left: tuple[int, ...] | None = None, failed: tuple[int, ...] = (), **how: object) -> list:
    found = broken(sequential(events), left=left, failed=failed, **how)  # type: ignore[arg-type]
    return [(each.fault.value, each.job) for each in found]


# -- forged faults --

FORGED: dict[str, tuple[list[Event], dict[str, object], tuple[str, int]]] = {
    "a job that vanished before anybody had it": ([D1], {"left": ()}, ("lost", 1)),
    "a job that vanished after it was given back": ([D1, A1, RELEASED], {"left": ()}, ("lost", 1)),
    "a job that vanished in the hands of a worker that lives": ([D1, A1], {"left": ()}, ("lost", 1)),
    "a failed job that vanished": ([D1, A1, FAILED], {"left": ()}, ("lost", 1)),
    "a job that vanished when it had been taken from its worker": (
        [D1, A1, superseded(1, "a", 2.0), crashed("a", 3.0)],
        {"left": ()},
        ("lost", 1),
    ),
    "a job that vanished after its worker had gone on to another and died with that": (
        [D1, D2, A1, reserved(2, "a", 3.0), crashed("a", 4.0)],
        {"left": (2,)},
        ("lost", 1),
    ),
    "an id that two jobs got": ([D1, D1], {}, ("duplicated", 1)),
    "an attempt that two workers got": ([D1, A1, reserved(1, "b", 1.0)], {}, ("duplicated", 1)),
    "a job that was completed twice": (
        [D1, A1, B2, did("completed", 1, "b", 92.0, attempt=2), did("completed", 1, "a", 93.0)],
        {},
        ("duplicated", 1),
    ),
    "a job that was completed and failed": ([D1, A1, DONE, FAILED], {}, ("duplicated", 1)),
    "an attempt that ended twice": ([D1, A1, DONE, RELEASED], {}, ("duplicated", 1)),
    "a job that is in two places": ([D1, A1, FAILED], {"left": (), "failed": (1, 1)}, ("duplicated", 1)),
    "a job that is in the queue twice": ([D1], {"left": (1, 1)}, ("duplicated", 1)),
    "a job that ran more often than it was reserved": ([D1, A1, DONE], {"runs": {1: 2}}, ("duplicated", 1)),
    "a job that nobody dispatched": ([A1, DONE], {}, ("unexpected", 1)),
    "a job in the queue that nobody dispatched": ([], {"left": (1,)}, ("unexpected", 1)),
    "a failed job that nobody dispatched": ([], {"left": (), "failed": (1,)}, ("unexpected", 1)),
    "a failed job that nobody failed": ([D1], {"left": (), "failed": (1,)}, ("unexpected", 1)),
    "a job that was reserved before it was due": ([dispatched(1, until=5.0), A1], {}, ("unexpected", 1)),
    "a job that was completed without a reservation": ([D1, DONE], {}, ("unexpected", 1)),
    "a job that was completed by another than who had it": (
        [D1, A1, did("completed", 1, "b", 2.0)],
        {},
        ("unexpected", 1),
    ),
    "a job that was released by another than who had it": (
        [D1, A1, did("released", 1, "b", 2.0, until=2.0)],
        {},
        ("unexpected", 1),
    ),
    "a reservation that nobody was told of, though nobody died": ([D1, B2], {}, ("unexpected", 1)),
    "a job that was run again after it was done": ([D1, A1, DONE, B2], {}, ("recovered", 1)),
    "a job that was run again after it had failed": ([D1, A1, FAILED, B2], {}, ("recovered", 1)),
    "a job that was recovered after it was done": (
        [D1, A1, DONE, did("recovered", 1, "", 95.0, until=95.0)],
        {},
        ("recovered", 1),
    ),
    "a job that is in the queue though it is done": ([D1, A1, DONE], {"left": (1,)}, ("recovered", 1)),
    "a job that is in failed_jobs though it is done": (
        [D1, A1, DONE],
        {"left": (), "failed": (1,)},
        ("recovered", 1),
    ),
    "a job that is in the queue though it has failed": (
        [D1, A1, FAILED],
        {"left": (1,)},
        ("recovered", 1),
    ),
    "a job that was taken from a worker that held it": (
        [D1, A1, reserved(1, "b", 90.0, attempt=2, since=0.0)],
        {},
        ("recovered", 1),
    ),
    "a job that was taken from a worker that had extended it": (
        [D1, A1, did("extended", 1, "a", 2.0, until=200.0), B2],
        {},
        ("recovered", 1),
    ),
    "a job that was run again before its backoff was over": (
        [D1, A1, RELEASED, reserved(1, "b", 11.0, attempt=2, since=12.0)],
        {},
        ("recovered", 1),
    ),
    "a job that went before one that was dispatched earlier": (
        [D1, D2, reserved(2, "a", 1.0), A1],
        {"order": "available_at"},
        ("order broken", 2),
    ),
    "a job that went before one that still waits": (
        [D1, D2, reserved(2, "a", 1.0)],
        {"order": "available_at", "left": (1, 2)},
        ("order broken", 2),
    ),
    "a job that went before one whose reservation had run out": (
        [D1, A1, dispatched(2, 92.0), reserved(2, "b", 93.0, since=92.0), B2._replace(at=94.0)],
        {"order": "available_at"},
        ("order broken", 2),
    ),
    "a job that went before one whose backoff was over": (
        [
            *(D1, A1, RELEASED, dispatched(2, 13.0), reserved(2, "b", 14.0, since=13.0)),
            reserved(1, "a", 14.0, attempt=2, since=12.0),
        ],
        {"order": "available_at"},
        ("order broken", 2),
    ),
    "a job that went before one that had arrived earlier": (
        [D1, dispatched(2, 1.0), reserved(2, "a", 1.0, since=1.0), A1],
        {"order": "arrival"},
        ("order broken", 2),
    ),
}


@pytest.mark.parametrize(("events", "how", "fault"), FORGED.values(), ids=FORGED)
def test_each_forged_fault_is_named(events: list[Event], how: dict[str, object], fault: tuple[str, int]) -> None:
    found = faults(*events, **how)  # type: ignore[arg-type]
    assert fault in found
    assert {job for _, job in found} == {fault[1]}


def test_each_kind_of_fault_is_forged() -> None:
    assert {fault for _, _, (fault, _) in FORGED.values()} == set(Fault)


SOUND: dict[str, tuple[list[Event], dict[str, object]]] = {
    "nothing happened": ([], {"left": ()}),
    "a job that waits": ([D1], {"left": (1,)}),
    "a job that is done": ([D1, A1, DONE], {"left": (), "runs": {1: 1}}),
    "a job that failed": ([D1, A1, FAILED], {"left": (), "failed": (1,)}),
    "a job that ran again after its reservation ran out": (
        [D1, A1, B2, superseded(1, "a", 95.0), did("completed", 1, "b", 96.0, attempt=2)],
        {"left": (), "runs": {1: 2}},
    ),
    "a job whose worker was late, but alone": ([D1, A1, DONE._replace(at=500.0)], {"left": ()}),
    "a job that was given back and ran again": (
        [D1, A1, RELEASED, reserved(1, "b", 12.0, attempt=2, since=12.0)],
        {"left": (1,)},
    ),
    "a job that was recovered and ran again": (
        [D1, A1, did("recovered", 1, "", 5.0, until=5.0), reserved(1, "b", 6.0, attempt=2, since=5.0)],
        {"left": (1,)},
    ),
    "a job that was extended for less, and ran again": (
        [D1, A1, did("extended", 1, "a", 2.0, until=3.0), reserved(1, "b", 3.0, attempt=2, since=3.0)],
        {"left": (1,)},
    ),
    "a job whose worker died after completing it": ([D1, A1, crashed("a", 2.0)], {"left": ()}),
    "a job whose worker died after failing it": ([D1, A1, crashed("a", 2.0)], {"left": (), "failed": (1,)}),
    "a job whose worker died with it": ([D1, A1, crashed("a", 2.0)], {"left": (1,)}),
    "a job whose worker died after giving it back": (
        [D1, A1, crashed("a", 2.0), reserved(1, "b", 3.0, attempt=2, since=2.5)],
        {"left": (1,)},
    ),
    "a job whose worker died before it was told that it had it": (
        [D1, crashed("a", 2.0), reserved(1, "b", 91.0, attempt=2, since=91.0)],
        {"left": (1,)},
    ),
    "a job that failed for it had used up its tries": (
        [D1, A1, B2, did("failed", 1, "b", 92.0)],
        {"left": (), "failed": (1,), "runs": {1: 1}},
    ),
    "a failed job that was retried, in the process in which it failed": (
        [D1, A1, FAILED, did("retried", 1, "", 3.0), dispatched(2, 3.0)],
        {"left": (2,)},
    ),
    "a failed job that was forgotten, in another process": (
        [D1, A1, FAILED, Event(3.0, Kind.FORGOTTEN)],
        {"left": ()},
    ),
    "a queue that was cleared": ([D1, D2, A1, Event(3.0, Kind.CLEARED)], {"left": ()}),
    "a job whose worker came too late to fail it, got it again and died with it": (
        [
            *(D1, A1, B2, superseded(1, "a", 95.0, verb="fail")),
            *(reserved(1, "a", 181.0, attempt=3, since=181.0), crashed("a", 182.0)),
        ],
        {"left": ()},
    ),
    "a job that went with one that was given back for the same moment": (
        [
            *(D1, A1, RELEASED, dispatched(2, 12.0), reserved(2, "b", 13.0, since=12.0)),
            reserved(1, "a", 13.0, attempt=2, since=12.0),
        ],
        {"left": (1, 2)},
    ),
    "jobs in the order of their due times": (
        [dispatched(1, until=5.0), dispatched(2, until=4.0), reserved(2, "a", 6.0, since=4.0)],
        {"left": (1, 2)},
    ),
}


@pytest.mark.parametrize(("events", "how"), SOUND.values(), ids=SOUND)
def test_a_sound_history_breaks_no_promise(events: list[Event], how: dict[str, object]) -> None:
    assert faults(*events, order="available_at", **how) == []  # type: ignore[arg-type]


def test_jobs_of_one_moment_go_in_the_order_in_which_they_were_dispatched() -> None:
    assert faults(D1, D2, A1, reserved(2, "b", 1.0), order="available_at") == []
    assert faults(D2, D1, A1, reserved(2, "b", 1.0), order="available_at") == []
    assert faults(D1, D2, reserved(2, "b", 1.0), A1, order="available_at") == [("order broken", 2)]


def test_order_is_judged_only_where_it_is_promised() -> None:
    later = [dispatched(1, until=5.0), dispatched(2, until=6.0), reserved(2, "a", 7.0, since=6.0)]
    assert faults(*later, left=(1, 2), order="available_at") == [("order broken", 2)]
    assert faults(*later, left=(1, 2), order="arrival") == []
    assert faults(*later, left=(1, 2)) == []


def test_where_nobody_looked_nothing_is_said_of_where_jobs_are() -> None:
    assert faults(D1, A1) == []


def test_the_first_that_breaks_a_promise_comes_first_and_says_which_in_words() -> None:
    history = sequential([D1, D2, A1, DONE, reserved(2, "b", 3.0), B2, did("completed", 1, "b", 92.0, attempt=2)])
    first, second, third = broken(history, left=())
    assert first == Broken(
        Fault.RECOVERED,
        1,
        "job 1 was reserved by b at 91 s, after it was completed by a at 2 s",
        history[3],
        history[5],
    )
    assert (second.fault, second.seen) == (Fault.DUPLICATED, history[6])
    assert third.says == "job 2 is nowhere: the last that is known of it is that it was reserved by b at 3 s"
    assert (third.fault, third.promised, third.seen) == (Fault.LOST, history[4], None)


# -- what overlaps --


def told(event: Event, at: float) -> Record:
    """An event that was told at a moment, and asked for when it says."""
    return Record(event, event.at, at, at)


def overlapping(*, put: float = 0.9, taken: float = 3.0) -> list[Fault]:
    """Job 2 is reserved from 1 to 2; job 1, which was due earlier, is put there before some moment, and taken later."""
    history = joined(
        [told(dispatched(1, 0.5), put), told(reserved(1, "a", taken, since=0.5), 4.0)],
        [told(dispatched(2, 0.6), 0.7), told(reserved(2, "b", 1.0, since=0.6), 2.0)],
    )
    return [each.fault for each in broken(history, order="available_at")]


def test_what_overlaps_proves_no_order_and_what_does_not_does() -> None:
    assert overlapping() == [Fault.OVERTAKEN]
    assert overlapping(put=1.5) == []
    assert overlapping(taken=1.5) == []


def test_a_recovery_that_overlaps_a_completion_proves_nothing_and_a_later_one_does() -> None:
    ours = [told(D1, 0.1), told(A1, 1.1), told(DONE, 3.0)]
    assert broken(joined(ours, [told(did("recovered", 1, "", 2.5, until=2.5), 2.6)])) == []
    late = told(did("recovered", 1, "", 3.5, until=3.5), 3.6)
    assert [each.fault for each in broken(joined(ours, [late]))] == [Fault.RECOVERED]


def test_by_arrival_a_job_is_due_for_a_worker_that_asked_while_it_was_being_dispatched() -> None:
    history = [told(dispatched(1, 1.1), 1.3), told(reserved(1, "a", 1.0, since=1.0), 1.2)]
    assert broken(history, order="arrival") == []
    assert [each.fault for each in broken(history, order="available_at")] == [Fault.UNEXPECTED]
    early = [told(dispatched(1, 1.1), 1.3), told(reserved(1, "a", 0.9, since=0.9), 1.0)]
    assert [each.fault for each in broken(early, order="arrival")] == [Fault.UNEXPECTED]


# -- journals --


def test_a_journal_is_a_trace_that_can_be_read_by_others_as_it_grows(tmp_path: Path, clock: SimulatedClock) -> None:
    journal, path = Journal(tmp_path / "a.jsonl", clock), tmp_path / "a.jsonl"
    queue = Queue("memory://", clock=clock, trace=journal)
    seen: list[list[Kind]] = []
    queue.handler("A")(lambda job: seen.append([record.event.kind for record in written(path)]))
    queue.dispatch("A")
    clock.advance(1.0)
    queue.drain(worker="w")
    queue.close()
    journal.close()
    assert seen == [[Kind.DISPATCHED, Kind.RESERVED]]
    assert [record.event for record in written(path)] == list(journal)
    assert all(record.asked == record.event.at < record.told for record in written(path))
    assert journal == Trace(journal)


def test_a_journal_that_is_torn_is_read_up_to_there(tmp_path: Path, clock: SimulatedClock) -> None:
    path = tmp_path / "a.jsonl"
    journal = Journal(path, clock)
    journal.record(*D1)
    journal.record(*A1)
    journal.close()
    path.write_bytes(path.read_bytes()[:-3])
    assert [record.event for record in written(path)] == [D1]


def test_a_journal_goes_on_where_an_earlier_one_ended(tmp_path: Path, clock: SimulatedClock) -> None:
    for event in (D1, A1):
        journal = Journal(tmp_path / "a.jsonl", clock)
        journal.record(*event)
        journal.close()
    assert [record.event for record in written(tmp_path / "a.jsonl")] == [D1, A1]


# -- real histories --


@pytest.mark.parametrize("scenario", ["all_kinds", "between_polls"])
def test_a_simulation_breaks_no_promise_on_any_driver(driver: Driver, scenario: str) -> None:
    run = simulate(driver, named(scenario, seed=3), name=QUEUE)
    jobs = driver.jobs(QUEUE, now=run.until)
    failed = [event.job for event in run.trace if event.kind is Kind.FAILED and event.job]
    assert len(failed) == driver.counts(QUEUE, now=run.until).failed
    assert broken(sequential(run.trace), left=[job.id for job in jobs], failed=failed, order=run.order) == []


def test_a_history_with_an_event_left_out_is_not_sound() -> None:
    """Each event that gave or took a job is needed: without it the rest contradicts itself."""
    events = [D1, A1, B2, superseded(1, "a", 92.0), did("completed", 1, "b", 93.0, attempt=2)]
    whole = sequential(events)
    assert broken(whole, left=()) == []
    for needed in (D1, A1, B2, events[-1]):
        assert broken([record for record in whole if record.event != needed], left=()) != []


def test_a_journal_line_is_json(tmp_path: Path, clock: SimulatedClock) -> None:
    journal = Journal(tmp_path / "a.jsonl", clock)
    journal.record(*A1)
    journal.close()
    assert json.loads((tmp_path / "a.jsonl").read_text())[1:] == [1.0, "reserved", 1, "send", 1, "a", 0.0, 91.0, ""]
