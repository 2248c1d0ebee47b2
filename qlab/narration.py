"""An order of steps, told in sentences."""

from qlab.interleaving import Did, State, Verb

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
            return f"{who} is started again, and recovers what it finds."
        case Verb.RUN_OUT:
            return _ran_out(did, before, job)


def _reserved(did: Did, before: State, who: str, job: str) -> str:
    if did.exhausted:
        tries = "only try is" if before.tries == 1 else f"{before.tries} tries are"
        return f"{who} reserves {job}, whose {tries} used up: it fails, and is not run."
    times = before.jobs[did.job - 1].started
    again = "" if times == 0 else " again" if times == 1 else f" once more, for the {_ordinal(times + 1)} time"
    return f"{who} reserves {job}{again}, attempt {did.attempt}."


def _settled(did: Did, after: State, who: str, job: str) -> str:
    if did.superseded and not did.accepted:
        rest = "and is told so, but changes the store" if did.changed else "and changes nothing"
        return f"{who} comes too late to {did.verb} {job}: its reservation was superseded, {rest}."
    if did.superseded:
        return f"{who} {_THIRD[did.verb]} {job}, though its reservation was superseded."
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


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
