"""What was measured of other queues, as tables for a terminal."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlab.peers.rounds import Compared


def lines(compared: "Compared") -> Iterator[str]:
    """Tell how fast each was, those together that survive the same, and what each promises."""
    from qlab import terminal
    from qlab.driver import SURVIVED

    rows = sorted(compared.rows(), key=lambda row: -SURVIVED.index(row["survives"]))
    for survives, alike in groupby(rows, key=lambda row: row["survives"]):
        shown = [_shown(row) for row in alike]
        yield f"Other queues, on stores that survive {survives}:"
        yield from terminal.table(list(shown[0]), [list(row.values()) for row in shown])
        yield ""
    if rows:
        yield "What each promises:"
        promises = list({row["peer"]: _promised(row) for row in rows}.values())
        yield from terminal.table(list(promises[0]), [list(row.values()) for row in promises])
        yield ""
    for name, why in compared.missing.items():
        yield from (*terminal.paragraph(f"Left out: {name}: {why}"), "")


def _shown(row: dict[str, Any]) -> dict[str, object]:
    return {
        "queue": f"{row['peer']} {row['version']}",
        "store": row["store"],
        "workers": row["workers"],
        "jobs/s": round(row["jobs_per_second"]),
        "range": f"{row['low']:,.0f} to {row['high']:,.0f}",
        "stored/s": round(row["enqueue_per_second"]),
        "CPU µs/job": round(row["worker_cpu"] * 1e6),
        "lost": row["lost"],
        "duplicated": row["duplicated"],
    }


def _promised(row: dict[str, Any]) -> dict[str, object]:
    return {
        "queue": row["peer"],
        "a killed worker loses": row["loses"],
        "tries again": row["retries"],
        "delays": row["delays"],
        "several processes": "yes" if row["together"] else "no: two may take one job",
    }
