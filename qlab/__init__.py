"""qlab: a queue lab.

Dispatch jobs, step workers with `work_once` under a clock that only moves when you move it, and look at what happened.

| about | names |
|---|---|
| jobs | `Queue`, `Policy`; `Job`, `JobState`, `Counts`, `FailedJob` |
| handlers | `Attempt`, `Release` |
| how a step ends | `Outcome`: `Completed`, `Released`, `Retrying`, `Failed`, `Superseded`, `Unknown`, `Idle` |
| time | `Clock`, `SimulatedClock`, `SystemClock` |
| stores | `drivers`, `Driver`, `Reservation`; `flaws`; `calibrate`, `Calibration`, `Cost` |
| workers | `Worker`, `workers`, `WorkerService`; `systems`; `doctor`, `Checkup`, `Finding` |
| a lab | `Lab`; `explore`, `Explored` |
| what happened | `Trace`, `Event`; `frames`, `plots`, `metrics` |
| simulated runs | `simulate`, `Run`, `Scenario`, `workload`, `faults`; `sweep`; `theory`, `cases` |
| real runs | `contention`, `Contention`; `compare`, `Comparison` |

Imported by their names are `qlab.contract`, `qlab.course`, `qlab.errors`, `qlab.explorer`, `qlab.scenario` and
`qlab.testing`. `python -m pydoc qlab.Queue`, or `Queue?` in a notebook, says what a name takes, gives and raises, with
units and an example.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlab import cases, drivers, faults, flaws, frames, metrics, plots, systems, theory, workload
    from qlab.calibration import Calibration, calibrate
    from qlab.checkup import Checkup, Finding, doctor
    from qlab.clock import Clock, SimulatedClock, SystemClock
    from qlab.comparison import Comparison, compare
    from qlab.contend import Contention, contention
    from qlab.cost import Cost
    from qlab.driver import Counts, Driver
    from qlab.explorer import Explored, explore
    from qlab.job import Attempt, FailedJob, Job, JobState, Release, Reservation
    from qlab.lab import Lab
    from qlab.outcome import Completed, Failed, Idle, Outcome, Released, Retrying, Superseded, Unknown
    from qlab.policy import Policy
    from qlab.queue import Queue
    from qlab.scenario import Scenario
    from qlab.service import WorkerService
    from qlab.simulation import Run, simulate
    from qlab.sweeps.sweeping import sweep
    from qlab.team import workers
    from qlab.trace import Event, Trace
    from qlab.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Attempt",
    "Calibration",
    "Checkup",
    "Clock",
    "Comparison",
    "Completed",
    "Contention",
    "Cost",
    "Counts",
    "Driver",
    "Event",
    "Explored",
    "Failed",
    "FailedJob",
    "Finding",
    "Idle",
    "Job",
    "JobState",
    "Lab",
    "Outcome",
    "Policy",
    "Queue",
    "Release",
    "Released",
    "Reservation",
    "Retrying",
    "Run",
    "Scenario",
    "SimulatedClock",
    "Superseded",
    "SystemClock",
    "Trace",
    "Unknown",
    "Worker",
    "WorkerService",
    "calibrate",
    "cases",
    "compare",
    "contention",
    "doctor",
    "drivers",
    "explore",
    "faults",
    "flaws",
    "frames",
    "metrics",
    "plots",
    "simulate",
    "sweep",
    "systems",
    "theory",
    "workers",
    "workload",
]

_MODULES = ("cases", "drivers", "faults", "flaws", "frames", "metrics", "plots", "systems", "theory", "workload")
_NAMES = {
    "calibration": ("Calibration", "calibrate"),
    "checkup": ("Checkup", "Finding", "doctor"),
    "clock": ("Clock", "SimulatedClock", "SystemClock"),
    "comparison": ("Comparison", "compare"),
    "contend": ("Contention", "contention"),
    "cost": ("Cost",),
    "driver": ("Counts", "Driver"),
    "explorer": ("Explored", "explore"),
    "lab": ("Lab",),
    "job": ("Attempt", "FailedJob", "Job", "JobState", "Release", "Reservation"),
    "outcome": ("Completed", "Failed", "Idle", "Outcome", "Released", "Retrying", "Superseded", "Unknown"),
    "policy": ("Policy",),
    "queue": ("Queue",),
    "scenario": ("Scenario",),
    "service": ("WorkerService",),
    "simulation": ("Run", "simulate"),
    "sweeps.sweeping": ("sweep",),
    "team": ("workers",),
    "trace": ("Event", "Trace"),
    "worker": ("Worker",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Resolve a name when it is first used, so that `import qlab` needs none of the packages behind it."""
    if name in _MODULES:
        return import_module(f"qlab.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'qlab' has no attribute {name!r}")
    value = getattr(import_module(f"qlab.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
