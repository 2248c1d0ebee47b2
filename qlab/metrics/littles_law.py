"""Little's law on a trace: an identity, if nobody miscounts."""

import numpy as np
import pandas as pd

from qlab.frames.job_steps import DELAYED, FAILED, READY, RESERVED, Steps
from qlab.frames.job_totals import counts
from qlab.metrics.curves import Number
from qlab.metrics.measures import measure, source_of, visits
from qlab.trace import Kind


def little(what: object) -> pd.DataFrame:
    """Tell whether L = λW holds on a whole trace, exactly: for the system, and for each place in it.

    Both sides are counted apart, in whole microseconds: the area under the number of jobs at each moment, and the time
    that each visit of a job lasts. A job that is still there at the last moment is there until then.

    Args:
        what: A Run, a Trace or a Queue.

    Returns:
        One row a place, indexed by `place`: `system` (ready, reserved or delayed, in backoff too), `ready`, `reserved`,
        `delayed` (by its dispatch or its handler), `backoff` (after a failed attempt):

        - `L` (float64, jobs): how many jobs were there on average;
        - `rate` (float64, 1/s): λ, how many came there a second;
        - `W` (float64, s): how long each stayed on average;
        - `visits` (int64): how many came;
        - `area` (int64, job microseconds): the area under the number of jobs there;
        - `spent` (int64, job microseconds): the time of all visits;
        - `holds` (bool): whether the two are equal, and so L = λW.

        L, rate and W are NaN where no time went by, or nobody came.

    Raises:
        TypeError: It is not what has a trace.

    Source: Little, J. D. C., "A proof for the queuing formula: L = λW", Operations Research 9 (1961).

    Example:
        >>> from qlab import metrics, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(3), jobs=10), poll=None)
        >>> metrics.little(run).loc[["system", "ready"], ["L", "rate", "W", "holds"]].round(3)
                  L   rate    W  holds
        place
        system  2.5  0.333  7.5   True
        ready   1.5  0.333  4.5   True
    """
    source = source_of(what)
    part = measure(source.trace, until=source.until)
    where = visits(part.steps)
    lasts = {"system": _in_the_system(part.steps)} | where
    areas = _areas(part.steps, where["backoff"], part.end)
    length = (part.end - part.start) / 1e6
    rows = []
    for place, lasting in lasts.items():
        area, spent, visited = areas[place], int((lasting.end - lasting.start).sum()), len(lasting.start)
        rows.append(
            {
                "place": place,
                "L": area / 1e6 / length if length else np.nan,
                "rate": visited / length if length else np.nan,
                "W": spent / 1e6 / visited if visited else np.nan,
                "visits": visited,
                "area": area,
                "spent": spent,
                "holds": area == spent,
            }
        )
    return pd.DataFrame(rows).set_index("place")


def _areas(steps: Steps, backoff: Number, last: int) -> dict[str, int]:
    """Count the jobs in each place at each moment, and give the areas under these counts."""
    moments, counted = counts(steps)
    lengths = np.diff(np.append(moments, last))
    ready, delayed, reserved = (int(counted[:, place] @ lengths) for place in (READY, DELAYED, RESERVED))
    times, place = np.unique(np.append(backoff.start, backoff.end), return_inverse=True)
    signs = np.repeat([1, -1], [len(backoff.start), len(backoff.end)])
    in_backoff = np.cumsum(np.bincount(place, signs, minlength=len(times)).astype(np.int64))
    off = int(in_backoff @ np.diff(np.append(times, times[-1:]))) if len(times) else 0
    system = ready + delayed + reserved
    return {"system": system, "ready": ready, "reserved": reserved, "delayed": delayed - off, "backoff": off}


def _in_the_system(steps: Steps) -> Number:
    """Tell from when to when each job was in the system: from its dispatch until it had left."""
    there = steps.begun < FAILED
    stays = there[:-1] & there[1:] & (steps.row[:-1] == steps.row[1:]) & ~steps.ended_by(Kind.CLEARED)[:-1]
    comes, leaves = there.copy(), there.copy()
    comes[1:] &= ~stays
    leaves[:-1] &= ~stays
    return Number(steps.at[comes], steps.end[leaves])
