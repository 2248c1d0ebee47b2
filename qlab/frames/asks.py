"""Who asked when: workers for jobs, and clients for answers."""

import numpy as np
import pandas as pd

from qlab.frames.columns import CODES, NOTHING, columns_of, seconds, text
from qlab.simulation.requests import Requests
from qlab.trace import Kind, Trace


def polls(trace: Trace) -> pd.DataFrame:
    """Tell each time that a worker asked for a job.

    Args:
        trace: What happened. Where its polls that found nothing were not recorded, only those that found one are told.

    Returns:
        One row an ask, in the order of the trace:

        - `at` (float64, s): when;
        - `worker` (category): who asked;
        - `found` (int64): how many jobs it got: 0 for none. What one worker reserves at one moment, one directly after
          the other, counts as one ask.

    Raises:
        TypeError: It is no Trace.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Every, Fixed, Workload
        >>> run = simulate("memory://", workload=Workload(Every(2), Fixed(1), jobs=2), poll=1.5)
        >>> frames.polls(run.trace)
                at    worker  found
        0  0.29855  worker 1      1
        1  1.29855  worker 1      0
        2  2.79855  worker 1      1
        3  3.79855  worker 1      0
    """
    columns = columns_of(trace)
    told = np.flatnonzero(columns.kind != CODES[Kind.EXPIRED])  # it stands before the reservation that finds the job
    at, worker = columns.at[told], columns.worker[told]
    found = columns.kind[told] == CODES[Kind.RESERVED]
    more = np.append(False, found[1:] & found[:-1] & (at[1:] == at[:-1]) & (worker[1:] == worker[:-1]))[: len(told)]
    asks = (found & ~more) | (columns.kind[told] == CODES[Kind.MISSED])
    each = np.cumsum(asks) - 1
    return pd.DataFrame(
        {
            "at": seconds(at[asks]),
            "worker": text(worker[asks], columns.texts),
            "found": np.bincount(each[found], minlength=asks.sum()),
        }
    )


def requests(run: object) -> pd.DataFrame:
    """Tell what clients saw of each request: a client asks again where its job is not done in time, or gives up.

    Args:
        run: A Run, or its `requests`.

    Returns:
        One row a request, in the order in which they came:

        - `started_at` (float64, s): when its client first asked;
        - `asked` (int64): how many times it has asked;
        - `answered_at` (float64, s): when its job was done in time; NaN where it was not;
        - `given_up_at` (float64, s): when its client gave up; NaN where it did not;
        - `response` (float64, s): from the first time that it asked until it was answered; NaN where it was not.

    Raises:
        TypeError: It is neither.

    Example:
        >>> from qlab import frames, simulate
        >>> from qlab.workload import Clients, Every, Fixed, Workload
        >>> work = Workload(Every(2), Fixed(3), jobs=4, clients=Clients(timeout=4, attempts=2))
        >>> run = simulate("memory://", workload=work, poll=None)
        >>> frames.requests(run)
           started_at  asked  answered_at  given_up_at  response
        0         0.0      1          3.0          NaN       3.0
        1         2.0      1          6.0          NaN       4.0
        2         4.0      2          NaN         12.0       NaN
        3         6.0      2          NaN         14.0       NaN
    """
    seen = getattr(run, "requests", run)
    if not isinstance(seen, Requests):
        raise TypeError(f"this frame is made of a Run, or of run.requests, not of {run!r}")
    columns = {name: np.asarray(column) for name, column in seen.columns().items()}
    started, answered = columns["started_at"], columns["answered_at"]
    return pd.DataFrame(
        {
            "started_at": seconds(started),
            "asked": columns["asked"].astype(np.int64),
            "answered_at": seconds(answered),
            "given_up_at": seconds(columns["given_up_at"]),
            "response": seconds(np.where(answered == NOTHING, NOTHING, answered - started)),
        }
    )
