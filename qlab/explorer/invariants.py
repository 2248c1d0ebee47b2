"""What a queue promises of every state that its workers can bring it into, whatever the order of their steps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from qlab.explorer.interleaving import State, Verb

Kept = Callable[[State], "str | bool | None"]
"""A promise: a function of a state that says in words how it is broken, or False; True or None where it is kept."""


class Promise(NamedTuple):
    """A promise.

    Attributes:
        name: What it is called.
        kept: The function that looks at a state.
    """

    name: str
    kept: Kept

    def broken(self, state: State) -> str | None:
        """Say how a state breaks it; None where it does not."""
        said = self.kept(state)
        if isinstance(said, str):
            return said
        return None if said is None or said else "it is not kept"


def promise(kept: "Kept | Promise") -> Promise:
    """Make a promise of a function, named as the function is."""
    if isinstance(kept, Promise):
        return kept
    if not callable(kept):
        raise TypeError(f"a promise is {kept!r}: use a function that takes a State")
    return Promise(getattr(kept, "__name__", repr(kept)).replace("_", " "), kept)


def first_broken(promises: Sequence[Promise], state: State) -> tuple[Promise, str] | None:
    """Find the first promise that a state breaks, and say how."""
    for each in promises:
        said = each.broken(state)
        if said is not None:
            return each, said
    return None


def nothing_lost(state: State) -> str | None:
    """A job is in the store or in a worker's hands until it is done."""
    for job in state.jobs:
        if not job.places and not job.succeeded and not state.holders(job.number):
            return f"job {job.number} was never done, nobody has it, and the store does not know it"
    return None


def one_place_at_a_time(state: State) -> str | None:
    """A job is in one place, and in none once it is done."""
    for job in state.jobs:
        if len(job.places) > 1:
            return f"job {job.number} is in two places: {job.place}"
        if job.completed and job.places:
            return f"job {job.number} was completed, and is {job.place} again"
    return None


def no_double_completion(state: State) -> str | None:
    """A job is completed once at the most."""
    for job in state.jobs:
        if job.completed > 1:
            return f"job {job.number} was completed {job.completed} times"
    return None


def superseded_workers_change_nothing(state: State) -> str | None:
    """Who settles a job that has left its hands is told so, and changes nothing."""
    did = state.did
    if did is None or did.step.verb is not Verb.SETTLE or not did.superseded or not (did.accepted or did.changed):
        return None
    others = " and ".join(f"worker {worker.number}" for worker in state.holders(did.job))
    still = f", while {others} still has it in hand" if others else ""
    return f"job {did.job} is {state.jobs[did.job - 1].place} now{still}"


def holders_can_settle(state: State) -> str | None:
    """Running out ends nothing by itself: whoever was not superseded settles its job."""
    did = state.did
    if did is None or did.step.verb is not Verb.SETTLE or did.superseded or did.accepted:
        return None
    return f"nobody else had job {did.job}, and yet what worker {did.step.worker} did counts for nothing"


def attempts_bounded(state: State) -> str | None:
    """A job's handler is started as often as it has tries, at the most."""
    for job in state.jobs:
        if state.tries is not None and job.started > state.tries:
            tries = f"{state.tries} {'try' if state.tries == 1 else 'tries'}"
            return f"job {job.number} has {tries}, and was started {job.started} times"
    return None


def nobody_starves(state: State) -> str | None:
    """While a job is ready, no other is reserved twice."""
    for job in state.jobs:
        twice = [other for other in job.passed if job.passed.count(other) > 1]
        if twice:
            return f"job {job.number} was ready all the while, and job {twice[0]} went before it twice"
    return None


def nothing_stranded(state: State) -> str | None:
    """What a dead worker held comes back."""
    for job in state.stranded:
        place = state.jobs[job - 1].place
        return f"job {job} is {place}, nobody has it, and nobody will ever get it"
    return None


PROMISES: tuple[Promise, ...] = tuple(
    map(
        promise,
        (
            nothing_lost,
            one_place_at_a_time,
            no_double_completion,
            superseded_workers_change_nothing,
            holders_can_settle,
            attempts_bounded,
            nobody_starves,
            nothing_stranded,
        ),
    )
)
"""What every driver promises."""
