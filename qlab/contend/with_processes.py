"""The workers of a run as processes, each fresh, with connections of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from qlab.clock import SystemClock, monotonic
from qlab.contend.noise import Meter
from qlab.contend.producer import Produced
from qlab.contend.sides import Killed, Plan, Side
from qlab.contend.worker import LAST, Worked
from qlab.crew import Crew

MODULE = "qlab.contend.worker"
PRODUCER = "qlab.contend.producer"


def work_in_processes(
    setups: Sequence[dict[str, Any]],
    producing: dict[str, Any] | None,
    plan: Plan,
    tell: Callable[[float], object],
) -> Side:
    """Let processes work until nothing is left; none of them is there when it returns or raises.

    Args:
        setups: What each of them must know.
        producing: What one more must know, that dispatches meanwhile; None where all jobs are there.
        plan: What happens.
        tell: Told which share of them is done.

    Raises:
        Stopped: Somebody wants no more.
        Killed: One was killed.
        QlabError: One ended by itself, or nothing went on.
    """
    modules, members = [MODULE] * len(setups), [*setups]
    if producing is not None:
        modules, members = [*modules, PRODUCER], [*members, producing]
    crew, done, jobs = Crew(modules, members, check=plan.check_wanted), [0] * len(setups), plan.coming.jobs
    worked: dict[int, Worked] = {}
    produced: Produced | None = None
    with crew:
        meter, taken = Meter(), 0.0
        epoch = SystemClock().now()
        began = last = crew.go(epoch)
        if producing is None:
            crew.say(LAST)
        for message in crew.messages():
            plan.check_wanted()
            _check(crew, len(setups))
            plan.check_patience(last, sum(done), jobs)
            match message:
                case (number, ["done", count]):
                    done[number], last = count, monotonic()
                    tell(sum(done) / jobs)
                case (_, ["produced", told]):
                    produced = Produced.heard(told)
                    crew.say(LAST)
                case (number, ["worked", told]):
                    worked[number] = Worked.heard(told)
                case (_, ["end", cpu]):
                    taken += cpu
        _check(crew, len(setups))
        seconds, others = meter.read()
    workers = [worked[number] for number in range(len(setups))]
    return Side(workers, produced, epoch, began, seconds, None if others is None else max(0.0, others - taken))


def _check(crew: Crew, workers: int) -> None:
    if crew.killed:
        who = f"worker {crew.killed[0] + 1} of {workers}" if crew.killed[0] < workers else "the producer"
        raise Killed(f"{who} was killed, so what it did is not known")
