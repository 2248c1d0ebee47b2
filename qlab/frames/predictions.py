"""What one worker's run says of more workers: a closed model of an arm."""

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from qlab.theory import Closed

_COLUMNS = ("arm", "driver", "survives", "think", "demand", "knee", "most")
_EMBEDDED = ("memory", "sqlite")
_SYNCED = "a power cut"
_LEAST_THINKING = 0.001  # of a job's time: the formula divides by it


def predicted(contended: pd.DataFrame) -> pd.DataFrame:
    """Take a closed model, M/M/1//N, of each arm from what it did with one worker.

    N workers think for Z, each for itself, and then need the store for D, one after the other. Both come from the run
    of one worker, whose job takes Z + D = 1 / (jobs a second):

    - D is how long nobody else could be served. In SQLite, and in memory, that is the whole call which completes a job
      and reserves the next, for it holds the lock (its median). So it is with a server that syncs to the disk before it
      answers. Any other server is busy for the processor time that a job costs it.
    - Z is the rest: the handler, the worker's own processor time, and the way to a server.

    A server that syncs the writes of several clients at once beats the model, a lock that nobody holds while all who
    want it sleep falls short of it: what was measured beside what was predicted names the mechanism.

    Args:
        contended: What `frames.contention` gives.

    Returns:
        One row an arm that was run with one worker, where its demand is known:

        - `arm`, `driver`, `survives`: as in the frame;
        - `think`, `demand` (float64, s): Z and D;
        - `knee` (float64): from how many workers on they only wait for each other, (Z + D) / D;
        - `most` (float64, jobs a second): what no number of workers gets beyond, 1 / D.
    """
    alone = contended[contended["workers"] == 1] if "workers" in contended else contended[:0]
    told = pd.DataFrame([*_models(alone)], columns=[*_COLUMNS])
    return told.astype(dict.fromkeys(_COLUMNS[3:], float))


def expected(model: Any, workers: int) -> float:
    """Tell how many jobs a second so many workers do, by a row of `predicted`."""
    return Closed(clients=int(workers), think=model.think, service=model.demand).throughput


def _models(alone: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in alone.to_dict("records"):
        if not row["jobs_per_second"] > 0:
            continue
        cycle = 1 / row["jobs_per_second"]
        demand = min(_demand(row), (1 - _LEAST_THINKING) * cycle)
        if demand > 0:
            model = {"think": cycle - demand, "demand": demand, "knee": cycle / demand, "most": 1 / demand}
            yield {name: row[name] for name in _COLUMNS[:3]} | model


def _demand(row: dict[Hashable, Any]) -> float:
    """Tell for how long one job keeps all others from the store, in seconds; 0 or NaN where that is not known."""
    held = row["driver"] in _EMBEDDED or row["survives"] == _SYNCED
    return float(row.get("reserve_p50" if held else "server_cpu", np.nan))
