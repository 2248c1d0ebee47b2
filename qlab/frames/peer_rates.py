"""What was measured of qlab and its peers, as a table."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd

from qlab.driver import SURVIVED

if TYPE_CHECKING:
    from qlab.peers.measuring import Compared, Round

_SURVIVES = {"NORMAL": SURVIVED[2], "FULL": SURVIVED[3], "": SURVIVED[2]}

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
        - `jobs_per_second`, `low`, `high` (float64): the median and the range of the repeats;
        - `enqueue_per_second` (float64): the median of what one process stores, one job at a time;
        - `worker_cpu` (float64, s): the workers' processor time a job; the median;
        - `lost`, `duplicated` (int64): jobs that were never handled, and those handled more than once, in all repeats;
        - `acknowledges`, `together` (bool), `retries`, `delays`, `loses`, `source` (str): what it promises, as in
          `qlab.peers.table.Peer`.
    """
    arms: dict[tuple[int, int], list[Round]] = {}
    for one in found.rounds:
        arms.setdefault((found.peers.index(one.peer), one.workers), []).append(one)
    rows = [_row(arms[key]) for key in sorted(arms)]
    columns = {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _COLUMNS.items()}
    return pd.DataFrame(columns)


def _row(rounds: list[Round]) -> dict[str, object]:
    peer, rates = rounds[0].peer, [one.jobs_per_second for one in rounds]
    return peer._asdict() | {
        "peer": peer.package,
        "version": peer.version,
        "server": rounds[0].server,
        "survives": _SURVIVES[peer.synchronous],
        "workers": rounds[0].workers,
        "runs": len(rounds),
        "jobs": rounds[0].jobs,
        "jobs_per_second": median(rates),
        "low": min(rates),
        "high": max(rates),
        "enqueue_per_second": median(one.enqueue_per_second for one in rounds),
        "worker_cpu": median(one.worker_cpu / one.jobs for one in rounds),
        "lost": sum(one.lost for one in rounds),
        "duplicated": sum(one.duplicated for one in rounds),
    }
