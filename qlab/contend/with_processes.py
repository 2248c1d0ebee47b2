"""The workers of a run as processes, each fresh, with connections of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from qlab.clock import SystemClock, monotonic
from qlab.contend.noise import Meter
from qlab.contend.sides import Killed, Plan, Side
from qlab.contend.worker import LAST, Worked
from qlab.crew import Crew

MODULE = "qlab.contend.worker"


def work_in_processes(setups: Sequence[dict[str, Any]], plan: Plan, jobs: int, tell: Callable[[float], object]) -> Side:
    """Let processes work until nothing is left; none of them is there when it returns or raises.

    Args:
        setups: What each of them must know.
        plan: What happens.
        jobs: How many jobs there are.
        tell: Told which share of them is done.

    Raises:
        Stopped: Somebody wants no more.
        Killed: One was killed.
        QlabError: One ended by itself, or nothing went on.
    """
    crew, done = Crew(MODULE, setups, check=plan.check_wanted), [0] * len(setups)
    worked: dict[int, Worked] = {}
    with crew:
        meter, taken = Meter(), 0.0
        epoch = SystemClock().now()
        began = last = crew.go(epoch)
        crew.say(LAST)
        for message in crew.messages():
            plan.check_wanted()
            _check(crew, len(setups))
            plan.check_patience(last, sum(done), jobs)
            match message:
                case (number, ["done", count]):
                    done[number], last = count, monotonic()
                    tell(sum(done) / jobs)
                case (number, ["worked", told]):
                    worked[number] = Worked.heard(told)
                case (_, ["end", cpu]):
                    taken += cpu
        _check(crew, len(setups))
        seconds, others = meter.read()
    workers = [worked[number] for number in range(len(setups))]
    return Side(workers, epoch, began, seconds, None if others is None else max(0.0, others - taken))


def _check(crew: Crew, workers: int) -> None:
    if crew.killed:
        raise Killed(f"worker {crew.killed[0] + 1} of {workers} was killed, so what it did is not known")
