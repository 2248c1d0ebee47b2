"""The lab without its board: every button is a method."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from qlab import Attempt, Policy
from qlab.drivers.server import EmbeddedServer
from qlab.errors import DriverUnavailable, QueueClosed, UnknownFailedJob, UnknownHandler
from qlab.faults import Crash, Locked, Restart
from qlab.lab import Lab
from qlab.outcome import Completed, Failed, Idle, Retrying, Superseded
from qlab.scenario import Scenario
from qlab.simulation import simulate
from qlab.trace import Kind
from qlab.workload import Chance, Exponential, Poisson, Workload


@pytest.fixture(params=["memory", "sqlite", "redis", "redis_list"])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(request.param, seed=7) as made:
        yield made


@pytest.fixture
def quick() -> Iterator[Lab]:
    with Lab("memory", seed=7) as made:
        yield made


def told(lab: Lab, side: int = 0) -> list[tuple[float, str, int | None]]:
    return [(event.at, str(event.kind), event.job) for event in lab.sides[side].trace]


def test_a_job_can_be_made_to_run_twice_and_the_ledger_shows_it(lab: Lab) -> None:
    lab.dispatch("pay", {"amount": 10})
    lab.reserve(1)
    lab.advance(91.0)
    assert [type(outcome) for outcome in lab.step(2)] == [Completed]
    assert [type(outcome) for outcome in lab.complete(1)] == [Superseded]
    ledger = lab.sides[0].ledger
    assert (ledger.balance, ledger.expected, ledger.doubled) == (20, 10, [1])
    assert [entry.worker for entry in ledger.entries] == ["worker 2", "worker 1"]
    assert told(lab) == [
        (0.0, "dispatched", 1),
        (0.0, "reserved", 1),
        (91.0, "expired", 1),
        (91.0, "reserved", 1),
        (91.0, "completed", 1),
        (91.0, "superseded", 1),
    ]


def test_the_ledger_knows_a_job_by_its_uid(lab: Lab) -> None:
    lab.change_policy(tries=1)
    lab.dispatch("pay")
    lab.reserve(1)
    lab.advance(91.0)
    lab.reserve(2)  # it finds the attempts used up
    lab.complete(2)
    lab.complete(1)
    lab.retry()
    lab.step(1)
    ledger = lab.sides[0].ledger
    assert [entry.effect for entry in ledger.entries] == [1, 2]
    assert (ledger.balance, ledger.expected, ledger.doubled) == (2, 1, [2])


def test_a_worker_may_die_after_its_handler_has_run_and_before_the_store_is_told(lab: Lab) -> None:
    lab.dispatch("slow", {"amount": 10})
    lab.reserve(1)
    lab.perform(1)
    assert (lab.now, lab.queue.counts().reserved, lab.sides[0].ledger.balance) == (10.0, 1, 10)
    with pytest.raises(ValueError, match="worker 1 has run job 1 already"):
        lab.perform(1)
    with lab.branch() as other:
        assert [type(outcome) for outcome in other.complete(1)] == [Completed]
        assert other.sides[0].ledger.balance == 10
    lab.crash(1)
    lab.advance(80.0)
    assert [type(outcome) for outcome in lab.step(2)] == [Completed]
    assert (lab.sides[0].ledger.balance, lab.sides[0].ledger.doubled) == (20, [1])
    with pytest.raises(ValueError, match="worker 2 holds no job"):
        lab.perform(2)


def test_a_worker_that_has_run_its_handler_tells_the_store_when_time_goes_on(lab: Lab) -> None:
    lab.dispatch("pay", count=2)
    lab.reserve(1)
    lab.perform(1)
    lab.run(1.0)
    assert (lab.queue.counts().depth, lab.sides[0].ledger.balance) == (0, 2)


def test_a_worker_recovers_what_has_run_out_or_everything_by_force(lab: Lab) -> None:
    lab.dispatch("pay", count=2)
    lab.reserve(1)
    lab.advance(90.0)
    lab.reserve(2)
    lab.recover(2)
    assert [kind for _, kind, _ in told(lab) if kind == "recovered"] == ["recovered"]
    lab.recover(2, force=True)
    assert [event[1:] for event in told(lab) if event[1] == "recovered"] == [("recovered", 1), ("recovered", 2)]
    assert lab.queue.counts().ready == 2


def test_a_lab_takes_a_flaw_by_its_name_beside_a_driver() -> None:
    with Lab(["completion by id", "memory"]) as lab:
        lab.dispatch("pay")
        lab.reserve(1)
        lab.advance(90.0)
        lab.reserve(2)
        assert [type(outcome) for outcome in lab.complete(1)] == [Completed, Superseded]
        assert "completion by id" in lab.agreements[0].why
        lab.restart()
        assert [kind for _, kind, _ in told(lab) if kind == "lost"] == []
        lab.dispatch("pay")
        lab.restart()
        assert [job for _, kind, job in told(lab) if kind == "lost"] == [1]


def test_what_a_flaw_loses_with_its_worker_is_told() -> None:
    with Lab(["deleted at reserve", "memory"], name="loses") as loses:
        loses.dispatch("pay", count=2)
        loses.reserve(1)
        loses.crash(1)
        assert [job for _, kind, job in told(loses) if kind == "lost"] == [1]
        assert loses.trace[-1].detail == "it was nowhere but in the worker's hands"
        assert [kind for _, kind, _ in told(loses, side=1)][-1] == "crashed"
        assert loses.trace.at(loses.now).counts() == loses.queue.counts()


def test_a_flaw_that_goes_by_names_is_told_who_recovers() -> None:
    with Lab("sweep of one's own") as lab:
        lab.dispatch("pay")
        lab.reserve(1)
        lab.crash(1)
        lab.recover(2, force=True)
        with lab.branch() as other:
            other.resume(1, renamed=True)
            other.recover(1, force=True)
            assert other.queue.counts().reserved == 1
            other.dispatch("pay")
            other.step_all()
            reserved = told(other).index((0.0, "reserved", 2)) + 1
            with other.branch(reserved, name="third") as third:
                assert list(third.trace) == list(other.trace)[:reserved]
        assert lab.queue.counts().reserved == 1
        lab.resume(1)
        lab.recover(1)
        assert lab.queue.counts().ready == 1


def test_stepping_tries_again_and_fails_in_the_end(lab: Lab) -> None:
    lab.dispatch("broken")
    kinds = []
    for _ in range(3):
        kinds += [type(outcome) for outcome in lab.step()]
        lab.jump()
    assert kinds == [Retrying, Retrying, Failed]
    assert (lab.queue.counts().failed, lab.now) == (1, 70.0)
    assert lab.retry() == 1
    assert lab.queue.counts().ready == 1
    with pytest.raises(UnknownFailedJob):
        lab.retry(1)


def test_jumping_goes_to_the_next_change_and_no_further(lab: Lab) -> None:
    assert lab.jump() is None
    lab.dispatch("pay", delay=5.0)
    lab.reserve(1)
    assert lab.jump() == 5.0
    assert lab.jump() is None
    lab.reserve(1)
    assert lab.jump() == 95.0


def test_workers_work_by_themselves_while_it_runs(lab: Lab) -> None:
    lab.dispatch("slow", count=3)
    lab.run(15.0)
    assert lab.now == 15.0
    assert [kind for at, kind, _ in told(lab) if kind == "completed" and at == 10.0] == ["completed", "completed"]
    assert [seat.until for seat in lab.sides[0].bench.seats if seat.held] == [16.0]
    lab.run(10.0)
    assert lab.sides[0].ledger.balance == 3


def test_a_run_stops_between_two_jobs_and_is_repeated_as_far(lab: Lab) -> None:
    lab.dispatch("pay", count=10)
    asked = iter([False, True])
    lab.run(5.0, stopping=lambda: next(asked))
    assert (lab.now, lab.queue.counts().ready) == (0.0, 9)
    with lab.branch() as other:
        assert other.trace == lab.trace
        assert other.queue.counts() == lab.queue.counts()
    lab.run(5.0)
    assert (lab.now, lab.queue.counts().ready) == (5.0, 0)


def test_a_run_may_stop_before_any_worker_s_turn_and_is_repeated_byte_for_byte(tmp_path: Path) -> None:
    for workers, turns in ((1, 1), (3, 3), (12, 12)):
        for stop in range(turns + 2):
            with Lab("memory", workers=workers, name="stopped") as lab:
                lab.dispatch("pay", count=20)
                lab.dispatch("slow", delay=1.0, count=20)
                asked = iter([False] * stop)
                lab.run(5.0, stopping=lambda asked=asked: next(asked, True))
                assert lab.queue.counts().ready == 20 - stop, "one worker, one job, one question"
                lab.run(15.0)
                file = lab.save(tmp_path / "lab.json")
                with lab.branch() as other, Lab.load(file, name="again") as again:
                    assert other.trace == again.trace == lab.trace
                    assert other.actions == again.actions == lab.actions


@pytest.mark.parametrize("others", [0, 3])
def test_a_run_finishes_what_a_worker_was_let_reserve(lab: Lab, others: int) -> None:
    lab.dispatch("pay")
    lab.reserve(1)
    if others:
        lab.dispatch("pay", count=others)
    lab.run(1.0)
    assert [kind for _, kind, _ in told(lab)].count("completed") == 1 + others
    assert lab.sides[0].ledger.doubled == []
    with lab.branch() as other:
        assert other.trace == lab.trace


def test_a_run_leaves_alone_what_a_worker_holds_that_is_paused_or_gone(lab: Lab) -> None:
    lab.dispatch("pay", count=2)
    lab.reserve(1)
    lab.pause(1)
    lab.reserve(2)
    lab.crash(2)
    lab.run(1.0)
    assert lab.queue.counts()[:3] == (0, 0, 2)
    lab.resume(1)
    lab.advance(1.0)
    assert lab.queue.counts()[:3] == (0, 0, 2), "time alone starts no handler"
    lab.run(0.0)
    assert lab.queue.counts()[:3] == (0, 0, 1)


def test_a_worker_that_crashed_or_is_paused_does_nothing_until_it_is_resumed(lab: Lab) -> None:
    lab.dispatch("pay", count=2)
    lab.reserve(1)
    lab.crash(1)
    lab.pause(2)
    lab.run(5.0)
    assert lab.queue.counts().ready == 1
    for act, why in ((lab.step, "worker 1 has crashed"), (lambda: lab.reserve(2), "worker 2 is paused")):
        with pytest.raises(ValueError, match=why):
            act()
    lab.resume(1)
    lab.resume(2)
    assert [type(outcome) for outcome in lab.step_all()] == [Completed, Idle]


@pytest.mark.parametrize("held", [1, None])
def test_each_crash_pause_and_resume_leaves_an_event_and_changes_no_job(lab: Lab, held: int | None) -> None:
    lab.dispatch("pay", count=2)
    if held:
        lab.reserve(1)
    before = lab.trace.at(0.0)
    for act in (lab.pause, lab.resume, lab.crash, lab.resume):
        act(1)
    assert told(lab)[-4:] == [
        (0.0, "paused", held),
        (0.0, "resumed", held),
        (0.0, "crashed", held),
        (0.0, "resumed", None),
    ]
    assert [event.detail for event in lab.trace][-3::2] == ["after a pause", "after a crash"]
    assert lab.trace.at(0.0) == before
    assert before.counts() == lab.queue.counts()
    with lab.branch() as other:
        assert other.trace == lab.trace


def test_what_a_worker_is_already_is_refused_and_leaves_no_event(quick: Lab) -> None:
    with pytest.raises(ValueError, match="worker 1 is at work already"):
        quick.resume(1)
    quick.pause(1)
    with pytest.raises(ValueError, match="worker 1 is paused already: resume it first"):
        quick.pause(1)
    quick.crash(1)
    for act in (quick.crash, quick.pause):
        with pytest.raises(ValueError, match="worker 1 has crashed already"):
            act(1)
    assert [kind for _, kind, _ in told(quick)] == ["paused", "crashed"]


def test_a_restart_is_told_and_a_scenario_goes_on_after_it(quick: Lab) -> None:
    quick.play("all_kinds")
    quick.run(20.0)
    quick.pause(1)
    quick.crash(2)
    quick.restart()
    assert [(seat.paused, seat.gone, seat.held) for seat in quick.sides[0].bench.seats] == [(False, False, None)] * 3
    assert "restarted" in [kind for _, kind, _ in told(quick)]
    quick.run(400.0)
    kinds = [kind for _, kind, _ in told(quick)]
    assert kinds.count("dispatched") == 18


def test_a_restart_loses_what_is_in_memory_and_nothing_else(lab: Lab) -> None:
    lab.dispatch("pay", count=2)
    lab.reserve(1)
    lab.restart()
    if lab.drivers == ("memory",):
        assert (lab.queue.counts().depth, lab.queue.jobs()) == (0, [])
        assert told(lab)[-3:] == [(0.0, "restarted", None), (0.0, "lost", 1), (0.0, "lost", 2)]
    else:
        assert lab.queue.counts()[:3] == (1, 0, 1)
        lab.run(91.0)
        assert lab.sides[0].ledger.doubled == []
        assert lab.sides[0].ledger.balance == 2


@pytest.fixture(params=["redis", "redis_list"])
def served(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(request.param, seed=7) as made:
        yield made


def server_of(lab: Lab) -> EmbeddedServer:
    return next(iter(lab._stores._servers.values()))  # noqa: SLF001 - people kill it from outside


def agree(lab: Lab) -> None:
    for side in lab.sides:
        assert side.trace.at(lab.now).counts() == side.queue.counts()


@pytest.mark.parametrize("how", ["killed", "emptied", "asked"])
def test_what_a_server_has_lost_is_told_and_no_id_of_it_doubles_another_job(
    served: Lab, how: str, tmp_path: Path
) -> None:
    lab = served
    lab.dispatch("pay", count=4)
    lab.step(1)
    lab.reserve(1)
    if how == "killed":
        server_of(lab).kill()
        server_of(lab).restart()
    elif how == "emptied":
        lab.queue.driver.clear(lab.queue.name, now=0.0)  # which no trace tells of
    else:
        lab.restart_server()
    lab.dispatch("pay", count=2)
    new = [1, 2] if how != "emptied" else [5, 6]
    assert told(lab)[-6:] == [
        (0.0, "restarted", None),
        *((0.0, "lost", job) for job in (2, 3, 4)),
        *((0.0, "dispatched", job) for job in new),
    ]
    agree(lab)
    assert [type(outcome) for outcome in lab.complete(1)] == [Superseded]
    lab.run(1.0)
    assert lab.sides[0].ledger.doubled == []
    assert (lab.sides[0].ledger.balance, lab.sides[0].ledger.expected) == (4, 4)
    if how != "emptied":
        file = lab.save(tmp_path / "lab.json")
        with lab.branch() as other, Lab.load(file, name="again") as again:
            assert other.trace == again.trace == lab.trace


def test_a_store_of_somebody_else_may_have_been_worked_on(tmp_path: Path) -> None:
    with EmbeddedServer() as server, Lab(f"{server.url}?failed_jobs=sqlite:///{tmp_path}/failed.db") as lab:
        lab.dispatch("pay", count=2)
        lab.step(1)
        lab.queue.driver.reserve(lab.queue.name, now=0.0, retry_after=90.0)
        lab.advance(1.0)
        assert told(lab)[-1][1] == "completed"
        server.kill()
        server.restart()
        lab.advance(1.0)
        assert told(lab)[-1] == (1.0, "lost", 2)
        assert "another program took it" in lab.trace[-1].says
        agree(lab)


def test_only_the_driver_that_lost_its_jobs_tells_of_it() -> None:
    for drivers in (["redis", "sqlite"], ["memory", "redis"]):
        with Lab(drivers, seed=7) as lab:
            lab.dispatch("pay", count=2)
            server_of(lab).kill()
            server_of(lab).restart()
            lab.advance(1.0)
            lost = [[job for _, kind, job in told(lab, i) if kind == "lost"] for i in range(2)]
            assert lost[drivers.index("redis")] == [1, 2]
            assert lost[1 - drivers.index("redis")] == []
            agree(lab)
            with lab.branch() as other:
                assert [side.trace for side in other.sides] == [side.trace for side in lab.sides]


def test_a_failed_job_stays_though_its_id_is_given_again(served: Lab) -> None:
    lab = served
    lab.change_policy(tries=1)
    lab.dispatch("broken", count=2)
    lab.run(0.0)
    lab.restart_server()
    lab.dispatch("pay", count=2)
    agree(lab)
    assert lab.queue.counts()[0::3] == (2, 2)
    lab.retry(1)
    agree(lab)
    lab.forget("all")
    agree(lab)
    assert lab.queue.counts()[0::3] == (3, 0)


def test_a_server_that_does_not_answer_is_told_in_a_few_words_and_can_be_restarted(served: Lab) -> None:
    served.dispatch("pay")
    server_of(served).kill()
    with pytest.raises(DriverUnavailable) as caught:
        served.step()
    assert "does not answer: restart the server" in str(caught.value)
    assert "server.sock" not in str(caught.value)
    served.restart_server()
    served.dispatch("pay")
    assert [type(outcome) for outcome in served.step()] == [Completed]
    agree(served)


def test_what_has_no_server_restarts_none() -> None:
    with Lab(["memory", "sqlite"]) as lab:
        for side in (None, 1, 2):
            with pytest.raises(ValueError, match="has no server of the lab's own"):
                lab.restart_server(side)
        with pytest.raises(ValueError, match="side is 3: there are 1 to 2"):
            lab.restart_server(3)
        assert len(lab.trace) == 0


def test_rules_change_on_the_fly_and_back(quick: Lab) -> None:
    quick.dispatch("broken", count=2)
    quick.change_policy(tries=1, retry_after=5.0)
    assert [type(outcome) for outcome in quick.step()] == [Failed]
    quick.reserve(1)
    assert quick.jump() == 5.0
    quick.change_policy()
    assert quick.policy == Policy(seed=7)


def test_a_branch_repeats_the_past_and_goes_its_own_way(lab: Lab) -> None:
    lab.dispatch("flaky", count=2)
    lab.step(1)
    here = len(lab.trace)
    lab.advance(30.0)
    lab.step(2)
    with lab.branch(here) as other:
        assert told(other) == told(lab)[:here]
        other.step(2)
        assert told(other)[here:] != told(lab)[here:]
        assert len(lab.trace) > here
    with lab.branch(name="whole") as whole:
        assert whole.trace == lab.trace


def story(driver: str) -> Lab:
    """Everything that people do, with several workers, runs that are stopped, and long actions."""
    lab = Lab(driver, seed=7, workers=3, name="story")

    @lab.handler("long")
    def long(job: Attempt) -> Iterator[float]:
        for done in range(1, 3):
            yield 4.0
            job.progress(done, 2)
        job.extend(100.0)
        yield 120.0

    lab.dispatch("flaky", count=4)
    lab.dispatch("pay", delay=30.0, count=3)
    lab.step_all()
    lab.reserve(2)
    lab.dispatch("long")
    lab.advance(20.0)
    lab.dispatch("broken", count=2)
    asked = iter([False] * 5)
    lab.run(60.0, stopping=lambda: next(asked, True))
    lab.pause(3)
    lab.run(200.0)
    lab.jump()
    lab.resume(3)
    lab.step_all()
    lab.run(400.0)
    lab.retry()
    lab.run(3.0)
    lab.crash(1)
    lab.restart()
    lab.dispatch("pay", count=2)
    lab.step(2)
    return lab


@pytest.mark.parametrize(("driver", "every"), [("memory", 1), ("sqlite", 11)])
def test_a_branch_at_any_event_is_what_was_there_event_by_event(driver: str, every: int, tmp_path: Path) -> None:
    with story(driver) as lab:
        events = list(lab.trace)
        for asked in range(0, len(events) + 1, every):
            begins = lab.begins_at(asked)
            with lab.branch(asked) as other:
                assert list(other.trace) == events[:begins], f"at {asked}"
                assert other.name == f"story, branched at {begins}"
                if 0 < begins == asked < len(events):
                    assert other.now == events[begins - 1].at, f"at {asked}"
                assert other.trace.at(other.now).counts() == other.queue.counts()
                if begins < asked:
                    assert events[asked - 1].kind not in ("reserved", "missed"), f"at {asked}"
                if asked % 7 == 0:
                    file = other.save(tmp_path / "lab.json")
                    own = {"long": lab._handlers["long"][0]}  # noqa: SLF001 - a saved lab has no handlers
                    with Lab.load(file, name="load", handlers=own) as loaded, other.branch() as again:
                        assert loaded.trace == again.trace == other.trace
        exact = [asked for asked in range(len(events) + 1) if lab.begins_at(asked) == asked]
        assert len(exact) > 0.8 * len(events)


def test_a_branch_inside_a_run_goes_on_as_the_run_did() -> None:
    for scenario in ("all_kinds", "between_polls"):
        with Lab("memory", name="run") as lab:
            lab.play(scenario, seed=3)
            lab.run(400.0)
            whole = list(lab.trace)
            for asked in range(1, len(whole), 29):
                with lab.branch(asked) as other:
                    other.run(400.0 - other.now)
                    assert list(other.trace)[:asked] == whole[:asked]
                    ends = [(event.kind, event.job) for event in other.trace if event.kind in ("completed", "failed")]
                    assert ends == [(event.kind, event.job) for event in whole if event.kind in ("completed", "failed")]


def test_drivers_in_lockstep_are_cut_alike() -> None:
    with Lab(["sqlite", "memory"], workers=3, name="two") as lab:
        lab.dispatch("flaky", count=5)
        lab.step_all()
        lab.run(100.0)
        for asked in range(len(lab.trace) + 1):
            with lab.branch(asked) as other:
                assert other.sides[0].trace == other.sides[1].trace


def test_a_refused_action_is_repeated_as_refused(quick: Lab) -> None:
    quick.dispatch("pay")
    with pytest.raises(UnknownHandler):
        quick.dispatch("pya")
    with pytest.raises(ValueError, match="holds no job"):
        quick.complete(1)
    quick.step()
    with quick.branch() as other:
        assert other.trace == quick.trace


def test_a_saved_lab_is_made_again(tmp_path: Path) -> None:
    with Lab(["memory", "sqlite"], seed=3, workers=3, policy=Policy(tries=2, retry_after=7.0)) as lab:
        lab.dispatch("flaky", {"amount": 2}, count=3)
        lab.reserve(2)
        lab.run(200.0)
        lab.retry()
        file = lab.save(tmp_path / "lab.json")
        with Lab.load(file, name="again") as again:
            assert again.trace == lab.trace
            assert again.policy == lab.policy
            assert [side.driver for side in again.sides] == ["memory", "sqlite"]
    for odd in ("{}", "[]", "no json", '{"qlab_lab": 99}', "\udcff"):
        file.write_text(odd, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(ValueError, match="holds no saved lab|its form is 99"):
            Lab.load(file, name="again")


def test_drivers_in_lockstep_agree_until_the_list_goes_by_arrival() -> None:
    with Lab(["sqlite", "redis", "redis_list"], seed=7) as lab:
        lab.dispatch("pay", "first", delay=5.0)
        lab.advance(6.0)
        lab.dispatch("pay", "second")
        lab.step()
        assert [each.difference is None for each in lab.agreements] == [True, False]
        assert "job 2 was appended when it was dispatched" in lab.agreements[1].why
        assert len(lab.statements) == 3
        assert [seen[0].language for seen in lab.statements] == ["SQL", "Lua", "Lua"]


def test_what_only_one_driver_can_do_is_done_there() -> None:
    with Lab(["memory", "memory://?order=arrival"]) as lab:
        lab.dispatch("broken", delay=5.0)
        lab.advance(6.0)
        lab.dispatch("pay")
        lab.change_policy(tries=1)
        assert [type(outcome) for outcome in lab.step()] == [Failed, Completed]
        assert lab.retry(1) == 1
        assert [side.queue.counts().ready for side in lab.sides] == [2, 1]


def test_a_scenario_is_played_and_reset(quick: Lab) -> None:
    quick.play("all_kinds")
    quick.run(200.0)
    whole = quick.trace
    quick.reset()
    assert (len(quick.trace), quick.now) == (0, 0.0)
    quick.run(100.0)
    quick.run(100.0)
    assert quick.trace == whole


def test_a_handler_of_ones_own_is_on_every_driver() -> None:
    with Lab(["memory", "sqlite"]) as lab:
        seen = []
        lab.handler("mine", tries=1)(lambda job: seen.append(job.payload))
        lab.dispatch("mine", 5)
        lab.step()
        lab.restart()
        lab.dispatch("mine", 6)
        lab.step()
        assert seen == [5, 5, 6, 6]


def test_a_second_lab_of_the_same_name_closes_the_first() -> None:
    first = Lab("sqlite", name="cell")
    folder = Path(first.queue.driver.database.path).parent
    with Lab("sqlite", name="cell"):
        assert not folder.exists()
        with pytest.raises(QueueClosed):
            first.dispatch("pay")
        first.close()


def test_closing_leaves_no_server_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = []
    real = EmbeddedServer

    def started(*args: object, **how: object) -> EmbeddedServer:
        servers.append(real(*args, **how))  # type: ignore[arg-type]
        return servers[-1]

    monkeypatch.setattr("qlab.side.EmbeddedServer", started)
    with Lab("redis"):
        assert Path(servers[0].socket).exists()
    assert not Path(servers[0].folder).exists()
    lab = Lab("redis", name="forgotten")
    del lab
    gc.collect()
    assert not Path(servers[1].folder).exists()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"driver": "postgres"}, "use redis, memory, sqlite"),
        ({"driver": []}, "use redis, memory, sqlite"),
        ({"workers": 0}, "workers is 0: use a number from 1 to 12"),
        ({"workers": True}, "workers is True"),
    ],
)
def test_a_lab_that_cannot_be_is_refused(how: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Lab(**how)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1, 5_001, 1.5, True])
def test_how_many_is_checked_before_anything_is_stored(quick: Lab, count: int) -> None:
    with pytest.raises(ValueError, match="use a number from 1 to 5,000"):
        quick.dispatch("pay", count=count)
    assert quick.queue.counts().depth == 0


def mixed(**changes: object) -> Scenario:
    workload = Workload(Poisson(0.5), Exponential(1.0), Chance(0.2), jobs=20)
    faults = (Crash(at=12.0, worker=1, back_after=3.0), Locked(6.0, 2.0), Restart(at=25.0))
    stated: dict[str, object] = {"workload": workload, "faults": faults, "workers": 2, "policy": Policy(backoff=(2,))}
    return Scenario("mixed", **(stated | changes))  # type: ignore[arg-type]


def test_a_scenario_of_ones_own_is_played_as_it_is_simulated(tmp_path: Path) -> None:
    with Lab(["memory", "sqlite"]) as lab:
        lab.play(mixed())
        lab.run(200.0)
        alone = simulate(f"sqlite:///{tmp_path}/jobs.db", mixed())
        assert [event for event in lab.sides[1].trace if event.at <= alone.until][: len(alone.trace)] == [*alone.trace]
        assert {event.kind for event in lab.trace} >= {Kind.CRASHED, Kind.RESTARTED, Kind.RELEASED, Kind.LOST}
        with Lab.load(lab.save(tmp_path / "lab.json"), name="again") as again, lab.branch() as branch:
            assert again.trace == branch.trace == lab.trace
        lab.reset()
        lab.run(200.0)
        assert lab.trace.difference(again.trace) is None


def test_a_scenario_that_a_lab_cannot_play_is_refused() -> None:
    with Lab("memory") as lab:
        lab.dispatch("pay")
        with pytest.raises(ValueError, match="has 13 workers: a lab has at most 12"):
            lab.play(mixed(workers=13))
        with pytest.raises(ValueError, match="the lab has none of its own"):
            lab.play(mixed(faults=(Restart(at=1.0, what="server"),)))
        assert lab.queue.counts().ready == 1, "what was there still is"
