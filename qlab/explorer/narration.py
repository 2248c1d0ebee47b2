"""An order of steps, told in sentences."""

from qlab.explorer.interleaving import Did, State, Verb

_THIRD = {"complete": "completes", "release": "releases", "fail": "fails"}


def opening(state: State) -> str:
    """Say what is there before the first step."""
    jobs, workers = len(state.jobs), len(state.workers)
    are = "1 job is" if jobs == 1 else f"{jobs} jobs are"
    return f"{are} dispatched, for {workers} worker{'' if workers == 1 else 's'}."


def sentence(did: Did, before: State, after: State) -> str:
    """Say what a step did.

    Args:
        did: What it did.
        before: What there was before it.
        after: What there is after it.
    """
    who, job = f"Worker {did.step.worker}", f"job {did.job}"
    match did.step.verb:
        case Verb.RESERVE:
            return _reserved(did, before, who, job)
        case Verb.FINISH:
            return f"{who} has run {job}." if did.accepted else f"{who} has run {job}: the handler raises."
        case Verb.SETTLE:
            return _settled(did, after, who, job)
        case Verb.CRASH:
            return f"{who} crashes with {job} in hand."
        case Verb.RESTART:
            return _restarted(did, before, after, who)
        case Verb.RUN_OUT:
            return _ran_out(did, before, job)


def ending(state: State, over: bool) -> str:
    """Say how it ended, where no promise was broken.

    Args:
        state: What there is at last.
        over: Whether no step is possible any more.
    """
    return f"{'In the end' if over else 'So far'}: {state.outcome}. No promise is broken."


def verdict(promise: str, says: str) -> str:
    """Say which promise was broken, and how."""
    return f"That breaks a promise, {promise}: {says}."


def _reserved(did: Did, before: State, who: str, job: str) -> str:
    if did.exhausted:
        tries = "only try is" if before.tries == 1 else f"{before.tries} tries are"
        return f"{who} reserves {job}, whose {tries} used up: it fails, and is not run."
    if not before.jobs[did.job - 1].started:
        return f"{who} reserves {job}."
    return f"{who} reserves {job} again, as attempt {did.attempt}."


def _restarted(did: Did, before: State, after: State, who: str) -> str:
    old, new = (state.workers[did.step.worker - 1].name for state in (before, after))
    name = "" if old == new else f" under the name {new!r}"
    jobs = " and ".join(f"job {number}" for number in did.recovered)
    return f"{who} is started again{name}, and recovers {jobs or 'nothing'}."


def _settled(did: Did, after: State, who: str, job: str) -> str:
    if did.superseded and not did.accepted:
        rest = "and yet the store is another now" if did.changed else "and nothing changes"
        return f"{who} comes too late to {did.verb} {job}: its reservation was superseded, {rest}."
    if did.superseded:
        return f"{who}, whose reservation was superseded, {_THIRD[did.verb]} {job} all the same."
    if not did.accepted:
        return f"{who} wants to {did.verb} {job}, and is refused."
    if did.verb == "release":
        return f"{who} releases {job}: it is {after.jobs[did.job - 1].place} again."
    if did.verb == "fail":
        return f"{who} fails {job}: its tries are used up."
    return f"{who} completes {job}."


def _ran_out(did: Did, before: State, job: str) -> str:
    has = [worker.number for worker in before.holders(did.job) if not worker.superseded]
    still = f", while worker {has[0]} still has it" if has else ""
    return f"The reservation of {job} runs out{still}."
