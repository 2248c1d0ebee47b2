"""One order in which workers take their steps, and what the jobs and the workers are like after it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Verb(StrEnum):
    """What a step does."""

    RESERVE = "reserve"
    """A worker reserves the next job; one whose tries are used up fails at once, and is not run."""
    FINISH = "finish"
    """A worker's handler ends: it returns or raises."""
    SETTLE = "settle"
    """A worker tells the store how its handler ended: it completes, releases or fails the job."""
    CRASH = "crash"
    """A worker vanishes with a job in hand."""
    RESTART = "restart"
    """A worker that crashed is started again, and recovers what its queue has reserved."""
    RUN_OUT = "run out"
    """The reservation of a job runs out, while its worker still has it."""


class Step(NamedTuple):
    """One thing that happens.

    Attributes:
        verb: What.
        worker: Whose step it is, from 1; 0 for a reservation that runs out, which is nobody's.
        job: Which job it is about, by the order in which jobs were dispatched, from 1; 0 where it is about none.
    """

    verb: Verb
    worker: int = 0
    job: int = 0

    def __str__(self) -> str:
        about = f" job {self.job}" if self.job else ""
        if self.verb is Verb.RUN_OUT:
            return f"job {self.job} runs out"
        return f"worker {self.worker} {_THIRD[self.verb]}{about}"


_THIRD = {
    Verb.RESERVE: "reserves",
    Verb.FINISH: "finishes",
    Verb.SETTLE: "settles",
    Verb.CRASH: "crashes with",
    Verb.RESTART: "restarts",
}

Path = tuple[Step, ...]
"""One order of steps, from the dispatch of the jobs on."""


class JobView(NamedTuple):
    """A job, as it is after some steps.

    Attributes:
        number: Which, by the order of dispatch, from 1.
        places: Where the store has it: `ready`, `delayed`, `reserved` or `failed`; empty where it is gone, and more
            than one where something is wrong.
        attempts: How many attempts the store has counted; 0 where it is gone.
        reserved: How often it was reserved.
        holder: Which of these reservations is good still, by their number from 1; 0 for none.
        started: How often its handler was started.
        ended: How often its handler ended.
        succeeded: How often its handler returned.
        completed: How often the store accepted its completion.
        passed: The jobs that were reserved while this one was ready and waited, as often as they were. It tells, too,
            whether somebody has asked since: a store whose order is that of arrival puts it into its list only then.
    """

    number: int
    places: tuple[str, ...]
    attempts: int = 0
    reserved: int = 0
    holder: int = 0
    started: int = 0
    ended: int = 0
    succeeded: int = 0
    completed: int = 0
    passed: tuple[int, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return " and ".join(self.places) or "nowhere"


class WorkerView(NamedTuple):
    """A worker, as it is after some steps.

    Attributes:
        number: Which, from 1.
        doing: `idle`, `runs` (its handler), `ended` (its handler has, and the store is not told yet) or `crashed`.
        job: The job that it holds; 0 for none.
        reservation: Which reservation of that job it holds, by their number from 1; 0 for none.
        attempt: Which attempt it was told that it is; 0 for none.
        superseded: Whether its job has left its hands: reserved by another, recovered, or settled.
        name: What it is called.
    """

    number: int
    doing: str = "idle"
    job: int = 0
    reservation: int = 0
    attempt: int = 0
    superseded: bool = False
    name: str = ""


class Did(NamedTuple):
    """What the last step did.

    Attributes:
        step: The step.
        verb: The verb of the store that it called: `reserve`, `complete`, `release`, `fail`, `recover`; else empty.
        job: The job that it was about; 0 for none.
        attempt: The attempt that it was about.
        accepted: Whether the store said yes.
        superseded: Whether the worker had been superseded before.
        changed: Whether the store is another than before it: looked at only where a superseded worker settles.
        exhausted: Whether a job was reserved whose tries are used up, and failed.
        recovered: The jobs that were recovered.
    """

    step: Step
    verb: str = ""
    job: int = 0
    attempt: int = 0
    accepted: bool = True
    superseded: bool = False
    changed: bool = False
    exhausted: bool = False
    recovered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that can be seen after some steps. Equal states have equal futures, however they came about.

    Attributes:
        jobs: The jobs, by number.
        workers: The workers, by number.
        line: The numbers of the jobs that are ready, in the order in which they would be reserved.
        run_out: How many reservations have run out.
        crashes: How many workers have crashed.
        restarts: How many have been started again.
        tries: How many attempts a job has; None for no limit.
        did: What the last step did; None before the first.
        stranded: The jobs that nobody would ever get, were all that is reserved to run out.
    """

    jobs: tuple[JobView, ...]
    workers: tuple[WorkerView, ...]
    line: tuple[int, ...] = ()
    run_out: int = 0
    crashes: int = 0
    restarts: int = 0
    tries: int | None = 3
    did: Did | None = field(default=None, compare=False)
    stranded: tuple[int, ...] = field(default=(), compare=False)

    def holders(self, job: int) -> list[WorkerView]:
        """Give the workers that have a job in hand, superseded or not."""
        return [worker for worker in self.workers if worker.job == job]

    @property
    def outcome(self) -> str:
        """How the jobs have ended, in words; of several, how many have ended how."""
        ends = Counter(map(_ended, self.jobs))
        if len(self.jobs) == 1:
            return next(iter(ends))
        return "; ".join(f"{count} {end}" for end, count in sorted(ends.items()))


def _ended(job: JobView) -> str:
    if not job.places and not job.succeeded:
        return "lost"
    if not job.places:
        return "done once" if job.ended == 1 else f"done, run {job.ended}x"
    where = job.place if job.places == ("failed",) else f"stuck {job.place}"
    if not job.ended:
        return f"{where}, never run"
    return f"{where}{' although' if job.succeeded else ','} run {job.ended}x"
