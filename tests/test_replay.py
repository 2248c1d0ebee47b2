"""A path that is taken in a lab is the path that was explored."""

from collections.abc import Callable, Iterator

import pytest

from qlab.explorer import SITUATIONS, Explored, explore
from qlab.explorer.interleaving import Path, Verb
from qlab.explorer.narration import verdict
from qlab.flaws import FLAWS
from qlab.lab import Lab
from qlab.replay import Replay

ON = ("memory", *FLAWS)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab("memory", name="explores") as made:
        yield made


@pytest.fixture
def replay() -> Iterator[Callable[..., Replay]]:
    made: list[Replay] = []

    def make(*args: object, **how: object) -> Replay:
        made.append(Replay(*args, **how))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.lab.close()


def one_of_each(explored: Explored) -> list[Path]:
    paths = [next(explored.paths_of(outcome)) for outcome in explored.outcomes]
    return [*paths, *([explored.first_broken.path] if explored.first_broken else [])]


@pytest.mark.parametrize("driver", ON)
def test_a_replay_does_to_the_store_what_was_explored(
    lab: Lab, replay: Callable[..., Replay], driver: str, subtests: pytest.Subtests
) -> None:
    for situation in SITUATIONS:
        explored = lab.explore(situation, driver=driver)
        for path in one_of_each(explored):
            with subtests.test(situation, path=[str(step) for step in path]):
                replayed = replay(explored, path, driver=driver)
                assert replayed.rest() == explored.story(path)[1:-1]
                events = [event for event in replayed.lab.trace if event.kind not in ("resumed", "recovered")]
                assert events == [event for event in explored.trace(path) if event.kind != "recovered"]
                assert replayed.next() is None
                ran = sum(step.verb is Verb.FINISH for step in path)
                raised = sum("handler raises" in said for said in replayed.sentences)
                assert len(replayed.lab.sides[0].ledger.entries) == ran - raised


def test_a_path_says_at_which_step_it_breaks_a_promise(lab: Lab) -> None:
    explored = lab.explore("one_job", driver="completion by id")
    whole = next(path for path in explored.paths_of("done, run 2x") if explored.breaks(path) is not None)
    broken = explored.breaks(whole)
    assert broken is not None
    assert broken.promise == "superseded workers change nothing"
    assert explored.breaks(whole[: len(broken.path) - 1]) is None
    assert explored.story(whole)[-1] == verdict(broken.promise, broken.says)
    assert all(lab.explore("one_job").breaks(path) is None for path in explored.paths_of("done once"))


def test_a_replay_is_of_the_path_that_breaks_a_promise_unless_another_is_named(replay: Callable[..., Replay]) -> None:
    explored = explore("one_job", driver=FLAWS["completion by id"])
    assert explored.first_broken is not None
    made = replay(explored, driver="completion by id")
    assert made.path == explored.first_broken.path
    with pytest.raises(ValueError, match="no promise is broken on memory: give a path"):
        Replay(explore("one_job"))


def test_beside_a_sound_queue_a_flaw_shows_where_they_part(replay: Callable[..., Replay]) -> None:
    explored = explore("one_job", driver=FLAWS["completion by id"])
    made = replay(explored, driver=["completion by id", "memory"])
    made.rest()
    assert made.lab.agreements[0].why == (
        "on completion by id job 1 was completed by worker 1; "
        "on memory job 1 could not be settled by worker 1: its reservation was superseded (complete)"
    )


def test_one_goes_on_by_hand_from_any_step_of_a_replay(replay: Callable[..., Replay]) -> None:
    explored = explore("one_job", driver=FLAWS["deleted at reserve"], crashes=1, expiries=0)
    made = replay(explored, driver="deleted at reserve")
    assert made.next() == made.sentences[1]
    assert made.taken == 1
    made.lab.complete(1)
    assert made.lab.queue.counts().depth == 0


def test_a_lab_explores_its_own_kind_of_driver_unless_another_is_named(lab: Lab) -> None:
    assert lab.explore(expiries=2).outcomes == {"done, run 3x": 228, "done, run 2x": 96, "done once": 6}
    assert lab.explore("one_job", driver="token revoked by running out").paths == 34
    explored = lab.explore("one_job", driver="sqlite")
    assert explored.driver.startswith("SQLite")
    assert explored.story(next(explored.paths_of()))[-1] == "In the end: done once. No promise is broken."
    with pytest.raises(ValueError, match="names no driver"):
        lab.explore(driver="completion by name")


def test_a_lab_hunts_for_what_a_flaw_breaks(lab: Lab) -> None:
    *others, last = lab.hunt("attempts counted at failure")
    assert last.first_broken is not None
    assert [each.first_broken for each in others] == [None] * len(others)
    assert [each.first_broken for each in lab.hunt()] == [None] * len(SITUATIONS)
