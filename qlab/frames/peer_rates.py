"""What was measured of qlab and its peers, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from qlab.driver import SURVIVED

if TYPE_CHECKING:
    from qlab.peers.rounds import Compared

_COLUMNS: dict[str, Any] = {
    "peer": "category",
    "version": str,
    "store": pd.CategoricalDtype(["SQLite", "Redis"]),
    "server": str,
    "survives": pd.CategoricalDtype([*SURVIVED], ordered=True),
    **dict.fromkeys(("workers", "runs", "jobs"), "int64"),
    **dict.fromkeys(("jobs_per_second", "low", "high", "enqueue_per_second", "worker_cpu"), "float64"),
    **dict.fromkeys(("lost", "duplicated"), "int64"),
    **dict.fromkeys(("acknowledges", "together"), bool),
    **dict.fromkeys(("retries", "delays", "loses", "source"), str),
}


def peers(found: Compared) -> pd.DataFrame:
    """Tell how fast qlab and its peers were, and what each promises.

    Args:
        found: What `qlab.peers.measuring.measure` gave.

    Returns:
        One row a queue and number of workers, in the order of the table of peers; none where nothing was measured:

        - `peer` (category): the package, such as `qlab` or `huey`;
        - `version` (str): its version;
        - `store` (category): `SQLite` or `Redis`;
        - `server` (str): product, version and settings of the store;
        - `survives` (ordered category, `qlab.driver.SURVIVED`): what the jobs in it survive;
        - `workers`, `runs`, `jobs` (int64): processes; repeats; jobs of each repeat;
        - `jobs_per_second`, `low`, `high` (float64, jobs/s): the median and the range of the repeats;
        - `enqueue_per_second` (float64, jobs/s): the median of what one process stores, one job at a time;
        - `worker_cpu` (float64, s): the workers' processor time a job; the median;
        - `lost`, `duplicated` (int64): jobs that were never handled, and those handled more than once, in all repeats;
        - `acknowledges`, `together` (bool), `retries`, `delays`, `loses`, `source` (str): what it promises, as in
          `qlab.peers.table.Peer`.

    Example:
        >>> from qlab import frames
        >>> from qlab.peers.rounds import Compared, Round
        >>> from qlab.peers.table import OURS
        >>> rounds = [Round(OURS[1], "SQLite", 1, 2_000, rate, 3_500.0, 0.5, 0, 0) for rate in (3_900.0, 4_100.0)]
        >>> frames.peers(Compared((OURS[1],), rounds))[["peer", "store", "runs", "jobs_per_second", "low"]]
           peer   store  runs  jobs_per_second     low
        0  qlab  SQLite     2           4000.0  3900.0
    """
    rows = found.rows()
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _COLUMNS.items()})
