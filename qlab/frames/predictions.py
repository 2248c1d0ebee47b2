"""What one worker's run says of more workers: a closed model of an arm."""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qlab.theory import Closed

_DTYPES: dict[str, type] = {
    **dict.fromkeys(("arm", "driver", "survives"), str),
    **dict.fromkeys(("think", "demand", "knee", "most"), float),
}
_EMBEDDED = ("memory", "sqlite")
_SYNCED = "a power cut"
_DELAYED = re.compile(r" \+(\d+(?:\.\d+)?) ms$")
_LEAST_THINKING = 0.001  # of a job's time: the formula divides by it


def predicted(contended: pd.DataFrame) -> pd.DataFrame:
    """Take a closed model, M/M/1//N, of each arm from what it did with one worker.

    N workers think for Z, each for itself, and then need the store for D, one after the other. Both come from the run
    of one worker, whose job takes Z + D = 1 / (jobs a second):

    - D is how long nobody else could be served. In SQLite, and in memory, that is the whole call which completes a job
      and reserves the next, for it holds the lock. So it is with a server that syncs to the disk before it
      answers, but for a round trip that was added. Any other server is busy for the processor time that a job costs.
    - Z is the rest: the handler, the worker's own processor time, and the way to a server.

    A server that syncs the writes of several clients at once beats the model, a lock that nobody holds while all who
    want it sleep falls short of it: what was measured beside what was predicted names the mechanism.

    Args:
        contended: What `frames.contention` gives.

    Returns:
        One row an arm that was run with one worker, where its demand is known:

        - `arm`, `driver`, `survives` (str): as in the frame;
        - `think`, `demand` (float64, s): Z and D;
        - `knee` (float64): from how many workers on they only wait for each other, (Z + D) / D;
        - `most` (float64, jobs/s): what no number of workers gets beyond, 1 / D.

    Example:
        >>> import pandas as pd
        >>> from qlab import frames
        >>> alone = {"arm": ["sqlite FULL"], "driver": ["sqlite"], "survives": ["a power cut"], "workers": [1]}
        >>> measured = pd.DataFrame(alone | {"jobs_per_second": [400.0], "reserve_mean": [0.0005]})
        >>> frames.predicted(measured).drop(columns="survives").round(4)
                   arm  driver  think  demand  knee    most
        0  sqlite FULL  sqlite  0.002  0.0005   5.0  2000.0
    """
    rows = [
        {"arm": m.arm, "driver": m.driver, "survives": m.survives, "think": m.think, "demand": m.demand}
        | {"knee": m.knee, "most": 1 / m.demand}
        for m in predictions(contended)
    ]
    return pd.DataFrame(rows, columns=[*_DTYPES]).astype(_DTYPES)


@dataclass(frozen=True)
class Prediction:
    """A closed model of an arm, as in `predicted`: how long a worker thinks, and then needs the store, in seconds."""

    arm: str
    driver: str
    survives: str
    think: float
    demand: float

    @property
    def knee(self) -> float:
        """From how many workers on they only wait for each other."""
        return (self.think + self.demand) / self.demand

    def at(self, workers: int) -> float:
        """Tell how many jobs a second so many workers do."""
        return Closed(clients=workers, think=self.think, service=self.demand).throughput


def predictions(contended: pd.DataFrame) -> list[Prediction]:
    """Take a closed model of each arm, as `predicted` says."""
    if "workers" not in contended:
        return []
    rows = contended[(contended["workers"] == 1) & (contended["jobs_per_second"] > 0)].to_dict("records")
    return [model for row in rows for model in _model(row)]


def round_trip_of(arm: str) -> float:
    """Tell how many seconds an arm adds to each round trip, by its name, such as `redis_zset everysec +1 ms`."""
    found = _DELAYED.search(arm)
    return float(found[1]) / 1_000 if found else 0.0


def _model(row: dict[Hashable, Any]) -> Iterator[Prediction]:
    cycle = 1 / row["jobs_per_second"]
    demand = min(_demand(row), (1 - _LEAST_THINKING) * cycle)
    if demand > 0:
        yield Prediction(str(row["arm"]), str(row["driver"]), str(row["survives"]), cycle - demand, demand)


def _demand(row: dict[Hashable, Any]) -> float:
    """Tell for how long one job keeps all others from the store, in seconds; 0 or NaN where that is not known."""
    held = row["driver"] in _EMBEDDED or row["survives"] == _SYNCED
    if not held:
        return float(row.get("server_cpu", np.nan))
    return float(row.get("reserve_mean", np.nan)) - round_trip_of(str(row["arm"]))
