"""Every order of a small scenario: counted exactly, and searched for the one that breaks a promise."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import QUEUE, Servers, Store, new, only

from qlab import Explored, Policy, Queue, SimulatedClock, SystemClock, Trace, explore, frames
from qlab.driver import Driver
from qlab.drivers.memory import MemoryDriver
from qlab.explorer import SITUATIONS, Situation, hunt, small
from qlab.explorer.interleaving import Path as Way
from qlab.explorer.interleaving import State, Step, Verb
from qlab.explorer.invariants import PROMISES
from qlab.explorer.minimised import shortened
from qlab.explorer.plays import Plays
from qlab.explorer.walks import Here, TooLarge, look
from qlab.flaws import FLAWS
from qlab.job import Reservation
from qlab.scenario import Arrival, Behaviour, Scenario
from qlab.workload import Poisson, Workload

CONTRACT = "memory://"
BY_ID = FLAWS["completion by id"]
REVOKED = FLAWS["token revoked by running out"]
AT_MOST_ONCE = FLAWS["deleted at reserve"]

ONCE, TWICE, THRICE = "done once", "done, run 2x", "done, run 3x"
HELD_ONCE, HELD_TWICE = "stuck reserved although run 1x", "stuck reserved although run 2x"

COUNTS: list[tuple[Any, int, int, int, dict[str, int]]] = [
    (CONTRACT, 0, 0, 6, {ONCE: 2}),
    (CONTRACT, 1, 0, 28, {ONCE: 6, TWICE: 24}),
    (CONTRACT, 2, 0, 62, {ONCE: 6, TWICE: 96, THRICE: 228}),
    (CONTRACT, 3, 0, 84, {ONCE: 6, TWICE: 96, THRICE: 892, "failed although run 3x": 594}),
    (CONTRACT, 1, 1, 60, {ONCE: 16, TWICE: 54, HELD_TWICE: 24, HELD_ONCE: 14}),
    (BY_ID, 0, 0, 6, {ONCE: 2}),
    (BY_ID, 1, 0, 28, {ONCE: 6, TWICE: 24}),
    (BY_ID, 2, 0, 45, {ONCE: 6, TWICE: 76}),
    (BY_ID, 0, 1, 10, {ONCE: 2, HELD_ONCE: 2, "stuck reserved, never run": 2}),
    (BY_ID, 1, 1, 56, {ONCE: 30, TWICE: 78}),
    (REVOKED, 0, 0, 6, {ONCE: 2}),
    (REVOKED, 1, 0, 28, {ONCE: 2, TWICE: 32}),
    (REVOKED, 2, 0, 74, {ONCE: 2, TWICE: 32, THRICE: 596}),
    (REVOKED, 1, 1, 60, {ONCE: 12, TWICE: 62, HELD_TWICE: 32, HELD_ONCE: 22}),
    (AT_MOST_ONCE, 0, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 1, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 2, 0, 6, {ONCE: 2}),
    (AT_MOST_ONCE, 0, 1, 10, {ONCE: 4, "lost": 2}),
    (AT_MOST_ONCE, 1, 1, 10, {ONCE: 4, "lost": 2}),
]
"""Of one job and two workers: the driver, how many run-outs and crashes there may be, how many states, which outcomes.

Independent enumerations of a model, in which no driver has a part, gave the same numbers.
"""

TWO_JOBS = Situation(small("two jobs", jobs=2))
ON_EACH = only("memory", "memory-arrival", "sqlite", "redis_zset-valkey", "redis_list-valkey")


# -- how many --


@pytest.mark.parametrize(("driver", "expiries", "crashes", "states", "outcomes"), COUNTS)
def test_the_orders_of_one_job_and_two_workers_are_counted_exactly(
    driver: str | Callable[[], Driver], expiries: int, crashes: int, states: int, outcomes: dict[str, int]
) -> None:
    explored = explore("one_job", driver=driver, expiries=expiries, crashes=crashes)
    assert dict(explored.outcomes) == outcomes
    assert explored.paths == sum(outcomes.values())
    assert explored.states == states


def one_by_one(plays: Plays, path: Way = ()) -> Counter[str]:
    """Count outcomes with no states merged: each order is taken from its start."""
    here = plays.play(path)
    assert here is not None
    if not here.possible:
        return Counter([here.state.outcome])
    return sum((one_by_one(plays, (*here.path, step)) for step in here.possible), Counter())


BY_ARRIVAL = "memory://?order=arrival"
SMALL = [
    (store, SITUATIONS[name]) for store in (CONTRACT, BY_ARRIVAL, *FLAWS) for name in SITUATIONS if name != "beside"
]


@pytest.mark.parametrize(("store", "situation"), [*SMALL, (CONTRACT, TWO_JOBS), (BY_ARRIVAL, TWO_JOBS)])
def test_merging_states_changes_no_count(store: str, situation: Situation) -> None:
    driver = FLAWS.get(store, store)
    with Plays(situation, driver) as plays:
        assert dict(explore(situation, driver=driver).outcomes) == dict(one_by_one(plays))


def steps(text: str) -> Way:
    """Read a path: `r1 f1 s1 c1 b1` are steps of worker 1, and `o2` is that the reservation of job 2 runs out."""
    verbs = dict(zip("rfscb", (Verb.RESERVE, Verb.FINISH, Verb.SETTLE, Verb.CRASH, Verb.RESTART), strict=True))
    return tuple(
        Step(Verb.RUN_OUT, job=int(word[1])) if word[0] == "o" else Step(verbs[word[0]], int(word[1]))
        for word in text.split()
    )


def taken(plays: Plays, text: str) -> Here:
    """Take a path step by step."""
    here = plays.play(())
    for step in steps(text):
        assert here is not None
        here = plays.play((*here.path, step))
    assert here is not None
    return here


ALIKE = [
    # Who was released first comes first.
    (CONTRACT, {"jobs": 2, "fails": 1}, "r1 r2 f1 f2 s1 s2", "r1 r2 f1 f2 s2 s1", "r1", (1, 2)),
    # What has run out stands in the list of such a store only since somebody asked.
    (BY_ARRIVAL, {"jobs": 3, "workers": 3, "fails": 1}, "r1 r2 o1 r3", "r1 r2 r3 o1", "f2 s2 r2", (1, 2)),
    # Whose reservation has run out is superseded once another has had the job.
    (CONTRACT, {"tries": 3}, "r1 o1 r2 f2", "r2 o1 r1 f2", "s2", (1, 1)),
]


@pytest.mark.parametrize(("driver", "how", "one", "other", "then", "jobs"), ALIKE)
def test_states_with_different_futures_are_not_merged(
    driver: str, how: dict[str, Any], one: str, other: str, then: str, jobs: tuple[int, int]
) -> None:
    with Plays(Situation(small("alike", **how)), driver) as plays:
        assert taken(plays, one).state != taken(plays, other).state
        after = [taken(plays, f"{path} {then}").state for path in (one, other)]
    assert tuple(state.did.job for state in after if state.did is not None) == jobs
    assert after[0] != after[1]


def test_states_are_merged_that_came_about_in_another_order() -> None:
    with Plays(Situation(small("alike", jobs=2)), CONTRACT) as plays:
        assert taken(plays, "r1 r2 f1 f2").state == taken(plays, "r1 r2 f2 f1").state
        assert taken(plays, "r1 f1 r2").state == taken(plays, "r1 r2 f1").state


def test_who_restarts_beside_another_recovers_only_what_has_run_out() -> None:
    with Plays(SITUATIONS["beside"], CONTRACT) as plays:
        beside = taken(plays, "r1 r2 c2 b2").state
        assert beside.did is not None
        assert (beside.did.recovered, beside.workers[0].superseded) == ((), False)
        ran_out = taken(plays, "r1 r2 c2 o1 b2 f1 s1").state
        assert ran_out.did is not None
        assert (ran_out.did.superseded, ran_out.did.accepted, ran_out.line) == (True, False, (1,))
        assert look(taken(plays, "r1 r2 c2 o1 b2 f1 s1"), PROMISES) is None


@pytest.mark.parametrize("driver", [CONTRACT, BY_ID, REVOKED])
def test_the_paths_of_an_outcome_are_as_many_as_were_counted_and_each_ends_so(driver: Any) -> None:
    explored = explore("one_job", driver=driver, expiries=2)
    every = []
    with Plays(explored.situation, driver) as plays:
        for outcome, count in explored.outcomes.items():
            paths = list(explored.paths_of(outcome))
            assert len(set(paths)) == count
            for path in paths:
                there = plays.play(path)
                assert there is not None
                assert (there.state.outcome, there.possible) == (outcome, [])
            every += paths
    assert sorted(explored.paths_of()) == sorted(every)
    assert list(explored.paths_of(ONCE, limit=1)) == [next(explored.paths_of(ONCE))]


def test_one_reservation_runs_out_without_another_the_older_or_the_younger() -> None:
    explored = explore(TWO_JOBS)
    reserved = (Step(Verb.RESERVE, 1, 1), Step(Verb.RESERVE, 2, 2))
    ran_out = {path[2] for path in explored.paths_of() if path[:2] == reserved and path[2].verb is Verb.RUN_OUT}
    assert ran_out == {*steps("o1 o2")}
    with Plays(explored.situation, CONTRACT) as plays:
        for step in ran_out:
            jobs = taken(plays, f"r1 r2 o{step.job}").state.jobs
            assert {job.number: job.place for job in jobs} == {step.job: "ready", 3 - step.job: "reserved"}


# -- what is broken --

STORIES = """
completion by id, in one_job
    1 job is dispatched, for 2 workers.
    Worker 1 reserves job 1.
    The reservation of job 1 runs out, while worker 1 still has it.
    Worker 2 reserves job 1 again, as attempt 2.
    Worker 1 has run job 1.
    Worker 1, whose reservation was superseded, completes job 1 all the same.
    That breaks a promise, superseded workers change nothing: job 1 is nowhere now, while worker 2 still has it in hand.

superseded release re-inserts, in takes_two
    1 job is dispatched, for 2 workers.
    Worker 1 reserves job 1.
    The reservation of job 1 runs out, while worker 1 still has it.
    Worker 2 reserves job 1 again, as attempt 2.
    Worker 1 has run job 1: the handler raises.
    Worker 1, whose reservation was superseded, releases job 1 all the same.
    That breaks a promise, superseded workers change nothing: job 1 is ready now, while worker 2 still has it in hand.

token revoked by running out, in one_job
    1 job is dispatched, for 2 workers.
    Worker 1 reserves job 1.
    The reservation of job 1 runs out, while worker 1 still has it.
    Worker 1 has run job 1.
    Worker 1 wants to complete job 1, and is refused.
    That breaks a promise, holders can settle: nobody else had job 1, and yet what worker 1 did counts for nothing.

attempts counted at failure, in one_try
    1 job is dispatched, for 2 workers.
    Worker 1 reserves job 1.
    The reservation of job 1 runs out, while worker 1 still has it.
    Worker 2 reserves job 1 again, as attempt 1.
    That breaks a promise, attempts bounded: job 1 has 1 try, and was started 2 times.

deleted at reserve, in restart
    2 jobs are dispatched, for 1 worker.
    Worker 1 reserves job 1.
    Worker 1 crashes with job 1 in hand.
    That breaks a promise, nothing lost: job 1 was never done, nobody has it, and the store does not know it.

no running out, in crash
    1 job is dispatched, for 2 workers.
    Worker 1 reserves job 1.
    Worker 1 crashes with job 1 in hand.
    That breaks a promise, nothing stranded: job 1 is reserved, nobody has it, and nobody will ever get it.

release in place, in two_jobs
    2 jobs are dispatched, for 1 worker.
    Worker 1 reserves job 1.
    Worker 1 has run job 1: the handler raises.
    Worker 1 releases job 1: it is ready again.
    Worker 1 reserves job 1 again, as attempt 2.
    That breaks a promise, nobody starves: job 2 was ready all the while, and job 1 went before it twice.

recover in place, in restart
    2 jobs are dispatched, for 1 worker.
    Worker 1 reserves job 1.
    Worker 1 crashes with job 1 in hand.
    Worker 1 is started again, and recovers job 1.
    Worker 1 reserves job 1 again, as attempt 2.
    That breaks a promise, nobody starves: job 2 was ready all the while, and job 1 went before it twice.

sweep of one's own, in renamed
    2 jobs are dispatched, for 1 worker.
    Worker 1 reserves job 1.
    Worker 1 crashes with job 1 in hand.
    Worker 1 is started again under the name 'worker 1 (again)', and recovers nothing.
    That breaks a promise, nothing stranded: job 1 is reserved, nobody has it, and nobody will ever get it.

sweep of dead owners, in restart
    2 jobs are dispatched, for 1 worker.
    Worker 1 reserves job 1.
    Worker 1 crashes with job 1 in hand.
    Worker 1 is started again, and recovers nothing.
    That breaks a promise, nothing stranded: job 1 is reserved, nobody has it, and nobody will ever get it.
"""
"""The flaw, the smallest scenario that shows it, and its story."""


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_found_by_itself_and_told_as_a_story(flaw: str) -> None:
    *sound, explored = hunt(FLAWS[flaw])
    assert [each.first_broken for each in sound] == [None] * len(sound)
    assert explored.first_broken is not None
    told = explored.story(explored.first_broken.path)
    assert "\n    ".join([f"{flaw}, in {explored.situation.name}", *told]) in STORIES
    assert told[-1] == f"That breaks a promise, {explored.first_broken.promise}: {explored.first_broken.says}."


@ON_EACH
def test_no_promise_is_broken_on_a_real_driver(address: str) -> None:
    reference, explored = hunt(CONTRACT), hunt(address)
    assert [each.first_broken for each in explored] == [None] * len(SITUATIONS)
    assert [(each.outcomes, each.states) for each in explored] == [(each.outcomes, each.states) for each in reference]


def test_nothing_is_left_in_a_file(tmp_path: Path) -> None:
    explore(small("fails", fails=None), driver=f"sqlite:///{tmp_path}/jobs.db")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as file:
        assert [*file.execute("SELECT uid FROM jobs"), *file.execute("SELECT uid FROM failed_jobs")] == []


@only("redis_zset-valkey", "redis_list-valkey")
def test_nothing_is_left_on_a_server_but_the_counters_of_a_queue(address: str, store: Store, servers: Servers) -> None:
    explore(small("fails", fails=None), driver=address)
    with redis.Redis(unix_socket_path=servers[store.server].socket, decode_responses=True) as client:
        keys = client.keys(f"{address.split('prefix=')[1].split('&', maxsplit=1)[0]}:*")
    assert [key.rpartition(":")[2] for key in keys] == ["counters"]


def every_part(path: Way) -> list[Way]:
    """All that is left of a path when steps are left out."""
    return [part for count in range(len(path)) for part in combinations(path, count)]


@pytest.mark.parametrize("flaw", FLAWS)
def test_no_step_of_the_broken_path_can_be_left_out_and_no_shorter_path_breaks_any(flaw: str) -> None:
    explored = hunt(FLAWS[flaw])[-1]
    assert explored.first_broken is not None
    path = explored.first_broken.path
    with Plays(explored.situation, FLAWS[flaw]) as plays:
        for part in every_part(path):
            for end in range(len(part) + 1):
                there = plays.play(part[:end])
                if there is None:
                    break
                assert look(there, PROMISES) is None, part
        assert first_broken_at(plays, ()) == len(path)


def first_broken_at(plays: Plays, path: Way, most: int = 5) -> int:
    """Tell after how many steps a promise can be broken, at the soonest."""
    here = plays.play(path)
    if here is None:
        return most
    if look(here, PROMISES) is not None or len(path) == most:
        return len(path)
    ends = [first_broken_at(plays, (*here.path, step), most) for step in here.possible]
    return min(ends, default=most)


# -- each promise --


class Doubles(MemoryDriver):
    """Says yes to each completion, whatever is there."""

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        super().complete(reservation, now=now)
        return True


class Keeps(MemoryDriver):
    """Says that a job is done, and keeps it."""

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        return True


class Withholds(MemoryDriver):
    """Gives the first job of a queue, and none of the others."""

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
        return [held for held in found if held.job.id == 1]


class LosesFailures(MemoryDriver):
    """Forgets what fails."""

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        return self.complete(reservation, now=now)


class TellsLate(MemoryDriver):
    """Refuses who was superseded, and deletes the job all the same."""

    def complete(self, reservation: Reservation, *, now: float) -> bool:
        held = super().complete(reservation, now=now)
        if not held:
            self.clear(reservation.job.queue, now=now)
        return held


class KeepsFailures(MemoryDriver):
    """Puts a job that fails back into the queue, too."""

    def fail(self, reservation: Reservation, *, now: float, attempts: int, error: str, traceback: str = "") -> bool:
        failed = super().fail(reservation, now=now, attempts=attempts, error=error, traceback=traceback)
        self.push(reservation.job.queue, [new(uid=reservation.job.uid)], now=now)
        return failed


BROKEN: list[tuple[type[MemoryDriver], Situation, str, str]] = [
    (Doubles, SITUATIONS["one_job"], "no double completion", "job 1 was completed 2 times"),
    (Keeps, SITUATIONS["one_job"], "one place at a time", "job 1 was completed, and is reserved again"),
    (Withholds, Situation(small("two", jobs=2)), "nothing stranded", "job 2 is ready, nobody has it"),
    (LosesFailures, Situation(small("one", fails=None, tries=1)), "nothing lost", "job 1 was never done"),
    (
        KeepsFailures,
        Situation(small("one", fails=None, tries=1), expiries=0),
        "one place at a time",
        "job 1 is in two places",
    ),
    (TellsLate, SITUATIONS["one_job"], "superseded workers change nothing", "job 1 is nowhere now, while worker"),
]


@pytest.mark.parametrize(("driver", "situation", "promised", "says"), BROKEN)
def test_what_breaks_a_promise_in_another_way_is_found_too(
    driver: type[MemoryDriver], situation: Situation, promised: str, says: str
) -> None:
    wanted = [each for each in PROMISES if each.name == promised]
    broken = explore(situation, driver=driver, promises=wanted).first_broken
    assert broken is not None
    assert broken.promise == promised
    assert broken.says.startswith(says)


def test_every_promise_is_one_that_something_breaks() -> None:
    told = {
        promised for promised in (each.name for each in PROMISES) if f"That breaks a promise, {promised}:" in STORIES
    }
    assert told | {promised for _, _, promised, _ in BROKEN} == {each.name for each in PROMISES}


def test_orders_that_go_on_for_ever_on_a_broken_driver_are_cut_off() -> None:
    class NeverCounts(MemoryDriver):
        def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            return [held._replace(job=held.job._replace(attempts=1)) for held in found]

    explored = explore(small("fails", workers=1, fails=None, tries=2), driver=NeverCounts, expiries=0)
    assert explored.paths == 1
    assert explored.first_broken is not None
    assert explored.first_broken.says == "job 1 has 2 tries, and was started 3 times"


def test_a_user_has_promises_of_its_own() -> None:
    def runs_once(state: State) -> bool:
        return all(job.started <= 1 for job in state.jobs)

    def never_idle(state: State) -> str | None:
        idle = [worker.number for worker in state.workers if worker.doing == "idle"]
        return f"workers {idle} are idle while a job is ready" if state.line and len(idle) == 2 else None

    explored = explore("one_job", promises=[runs_once])
    assert explored.first_broken is not None
    assert explored.first_broken[1:] == ("runs once", "it is not kept")
    assert [step.verb for step in explored.first_broken.path] == [Verb.RESERVE, Verb.RUN_OUT, Verb.RESERVE]
    at_once = explore("one_job", promises=[*PROMISES, never_idle]).first_broken
    assert at_once == ((), "never idle", "workers [1, 2] are idle while a job is ready")


# -- by chance --


@pytest.mark.parametrize("how", ["random", "pct"])
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_sample_of_orders_finds_each_flaw_and_leaves_out_what_it_does_not_need(flaw: str, how: Any) -> None:
    every = hunt(FLAWS[flaw])[-1]
    explored = explore(every.situation, driver=FLAWS[flaw], sample=how, samples=200)
    assert explored.first_broken is not None
    assert every.first_broken is not None
    assert explored.first_broken.promise == every.first_broken.promise
    assert len(explored.first_broken.path) == len(every.first_broken.path)
    assert explored.paths == 200


@pytest.mark.parametrize("how", ["random", "pct"])
def test_a_sample_ends_as_orders_end_and_the_same_seed_gives_the_same(how: Any) -> None:
    situation = TWO_JOBS
    every, one = explore(situation), explore(situation, sample=how, samples=100, seed=4)
    assert set(one.outcomes) <= set(every.outcomes)
    assert one.first_broken is None
    assert one.outcomes == explore(situation, sample=how, samples=100, seed=4).outcomes
    assert one.outcomes != explore(situation, sample=how, samples=100, seed=5).outcomes
    assert set(one.paths_of()) <= set(every.paths_of())
    for outcome in one.outcomes:
        assert set(one.paths_of(outcome, 3)) <= set(every.paths_of(outcome))


def test_priorities_find_a_flaw_at_least_as_often_as_their_bound_says() -> None:
    explored = explore("one_job", driver=BY_ID, sample="pct", depth=2, samples=300)
    actors, steps = 3, explored.situation.longest  # two workers and a reservation; of one run-out
    assert explored.bound == 1 / (actors * steps)
    assert explored.outcomes[TWICE] / 300 > explored.bound


def test_what_a_path_does_not_need_is_left_out_also_where_its_jobs_change() -> None:
    with Plays(TWO_JOBS, REVOKED) as plays:
        found = look(taken(plays, "r1 f1 s1 r2 o2 f2 s2"), PROMISES)
        assert found is not None
        short = shortened(found, plays.play, PROMISES)
    assert [str(step) for step in short.path] == [
        "worker 2 reserves job 1",
        "job 1 runs out",
        "worker 2 finishes job 1",
        "worker 2 settles job 1",
    ]


# -- a path elsewhere --


def told(trace: Trace) -> list[tuple[float, str, int, str]]:
    """What happened, without the ids: a file numbers the jobs of all its queues."""
    return [(event.at, str(event.kind), event.attempt, event.worker) for event in trace]


def short_paths(explored: Explored) -> list[Way]:
    return [path for outcome in explored.outcomes for path in explored.paths_of(outcome, 4)]


def test_the_same_paths_are_taken_on_every_driver(driver: Driver) -> None:
    explored = explore("crash")
    for number, path in enumerate(short_paths(explored)):
        queue = Queue(driver, clock=SimulatedClock(), name=f"{QUEUE} {number}")
        assert list(explored.replay(path, queue)) == explored.story(path)
        assert told(queue.trace) == told(explored.trace(path))
        queue.clear()


@pytest.mark.parametrize("flaw", ["completion by id", "superseded release re-inserts", "token revoked by running out"])
def test_the_path_that_a_flaw_breaks_is_harmless_on_a_real_driver(flaw: str, driver: Driver) -> None:
    explored = hunt(FLAWS[flaw])[-1]
    assert explored.first_broken is not None
    *_, last = explored.replay(explored.first_broken.path, Queue(driver, clock=SimulatedClock(3.5), name=QUEUE))
    assert last.endswith("No promise is broken.")


def test_a_replay_takes_one_step_for_each_sentence_and_leaves_the_queues_rules_alone(lone: Queue) -> None:
    explored = explore("one_job", driver=BY_ID)
    assert explored.first_broken is not None
    policy = lone.policy = Policy(tries=7, retry_after=5.0)
    replayed = explored.replay(explored.first_broken.path, lone)
    seen = [(next(replayed), lone.clock.now(), *lone.counts()[:3]) for _ in range(4)]
    assert seen == [
        ("1 job is dispatched, for 2 workers.", 0.0, 1, 0, 0),
        ("Worker 1 reserves job 1.", 1.0, 0, 0, 1),
        ("The reservation of job 1 runs out, while worker 1 still has it.", 2.0, 1, 0, 0),
        ("Worker 2 reserves job 1 again, as attempt 2.", 3.0, 0, 0, 1),
    ]
    assert [*replayed][-1] == "So far: stuck reserved although run 1x. No promise is broken."
    assert lone.policy == policy


def test_a_path_that_another_driver_does_not_go_is_refused_at_its_step(lone: Queue) -> None:
    explored = hunt(FLAWS["release in place"])[-1]
    assert explored.first_broken is not None
    replayed = explored.replay(explored.first_broken.path, lone)
    with pytest.raises(ValueError, match="step 4, worker 1 reserves job 1: it got job 2 instead"):
        list(replayed)


def test_a_replay_needs_an_empty_queue_and_a_clock_that_is_moved(lone: Queue) -> None:
    explored = explore("one_job")
    path = next(explored.paths_of())
    with Queue("memory://", clock=SystemClock()) as real, pytest.raises(TypeError, match="SystemClock.*SimulatedClock"):
        explored.replay(path, real)
    lone.handler("send")(print)
    lone.dispatch("send")
    with pytest.raises(ValueError, match="'mail' has 1 jobs: a replay needs an empty one"):
        explored.replay(path, lone)


LATE = [Verb.RUN_OUT, Verb.RESERVE]


def test_a_path_is_a_trace_that_the_timeline_draws() -> None:
    explored = explore("one_job", driver=CONTRACT)
    path = next(path for path in explored.paths_of(TWICE) if [step.verb for step in path[1:3]] == LATE)
    trace = explored.trace(path)
    assert [(event.at, str(event.kind), event.job, event.worker) for event in trace][:4] == [
        (0.0, "dispatched", 1, ""),
        (1.0, "reserved", 1, "worker 1"),
        (3.0, "expired", 1, "worker 2"),
        (3.0, "reserved", 1, "worker 2"),
    ]
    spans = frames.spans(trace)
    assert list(spans["span"])[:5] == ["waiting", "reserved", "waiting", "late", "reserved"]


# -- what cannot be meant --


@pytest.mark.parametrize(
    ("named", "how", "said"),
    [
        ("nope", {}, "there is no scenario 'nope' to explore: use one of one_job, one_try"),
        (7, {}, "scenario is 7: use a Scenario, or one of one_job"),
        ("one_job", {"expiries": -1}, "expiries is -1: use a number from 0"),
        ("one_job", {"crashes": True}, "crashes is True: use a number from 0"),
        ("one_job", {"restarts": 1}, "restarts is 1, and there are 0 crashes"),
        ("restart", {"expiries": 1}, "reservations that never run out"),
        ("one_job", {"sample": "luck"}, "sample is 'luck': use 'random', 'pct', or None"),
        ("one_job", {"sample": "pct", "depth": 0}, "depth is 0: use a number from 1 to "),
        ("one_job", {"sample": "random", "samples": 0}, "samples is 0: use a number from 1"),
        ("one_job", {"most": 0}, "most is 0: use a number from 1"),
        ("one_job", {"driver": "nope://"}, "'nope://' names no driver"),
        ("one_job", {"promises": ["kept"]}, "a promise is 'kept': use a function"),
        (small("nine", workers=9), {}, "has 9 workers: explore takes 8 at the most"),
        (small("nine", jobs=9), {}, "has 9 jobs: explore takes 8 at the most"),
        (small("ever", fails=None, tries=None), {}, "its orders would never end"),
        (Scenario("none"), {}, "'none' dispatches nothing"),
        (Scenario("who", (Arrival(0.0, "a"),)), {}, "does not say how the handlers ['a'] behave"),
        (
            Scenario("load", (Arrival(0.0, "a"),), {"a": Behaviour()}, workload=Workload(Poisson(1.0), names=("a",))),
            {},
            "'load' has a workload or faults",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(named: Any, how: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        explore(named, **how)
    assert said in str(refused.value)


def test_a_driver_that_is_open_stays_open_and_keeps_its_jobs(driver: Driver) -> None:
    with_a_job = Queue(driver, clock=SimulatedClock(), name=QUEUE)
    with_a_job.handler("send")(print)
    with_a_job.dispatch("send")
    assert explore("one_try", driver=driver).paths == 12
    assert with_a_job.counts() == (1, 0, 0, 0)


def test_who_comes_too_late_is_told_so_in_a_story() -> None:
    late = "Worker 1 comes too late to complete job 1: its reservation was superseded, "
    sound = explore("one_job")
    path = next(path for path in sound.paths_of(TWICE) if [step.verb for step in path[1:3]] == LATE)
    assert f"{late}and nothing changes." in sound.story(path)
    broken = explore("one_job", driver=TellsLate)
    assert broken.first_broken is not None
    assert broken.story(broken.first_broken.path)[-2] == f"{late}and yet the store is another now."


def test_an_outcome_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ValueError, match="no path ends in 'lost': use one of 'done, run 2x', 'done once'"):
        explore("one_job").paths_of("lost")


def test_too_many_states_are_refused_with_the_way_out() -> None:
    with pytest.raises(TooLarge, match=r'more than 100 states: take fewer .*\(sample="random"'):
        explore(TWO_JOBS, expiries=2, most=100)


def test_no_failure_of_an_order_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    explored = explore(small("fails", fails=None), crashes=1, restarts=1)
    explored.story(next(explored.paths_of()))
    assert caplog.records == []


def test_a_notebook_shows_the_outcomes_and_the_story() -> None:
    shown = explore("one_job", driver=BY_ID)._repr_html_()
    assert "30 orders of 2 workers, 1 job, with 1 run-out" in shown
    assert "<li>Worker 1, whose reservation was superseded, completes job 1 all the same.</li>" in shown
    assert "No promise is broken." in explore("two_jobs")._repr_html_()
    assert repr(explore("two_jobs")) == "<Explored 'two_jobs' on memory: 1 order, no promise is broken>"
    assert "recover in place" in hunt(FLAWS["recover in place"])[-1]._repr_html_()
