"""The tables of a contention's page."""

from typing import Any

import pandas as pd

from qlab.frames.predictions import Prediction, predictions

_CALLS = tuple(f"{call}_{part}" for call in ("wait", "reserve", "complete") for part in ("p50", "p95", "p99", "max"))
_LOSES = {
    "a killed worker loses": "worker_killed",
    "a killed store loses": "store_killed",
    "a power cut loses": "power_cut",
}


def speed(frame: pd.DataFrame) -> pd.DataFrame:
    """Tell how fast each arm was: rates in jobs a second, times in milliseconds."""
    rates = {"jobs/s": frame["jobs_per_second"], "slowest": frame["low"], "fastest": frame["high"]}
    times = {f"{name.replace('_', ' ')} (ms)": 1_000 * frame[name] for name in _CALLS}
    return pd.DataFrame({**_who(frame), **rates, **times})


def evenness(frame: pd.DataFrame) -> pd.DataFrame:
    """Tell how evenly workers shared the jobs, and what the arm took."""
    return pd.DataFrame(
        {
            **_who(frame),
            "fewest / most": frame["fewest_most"],
            "Jain": frame["jain"],
            "lock waits": frame["locked"],
            "lock errors": frame["lock_errors"],
            "lock waits (s)": frame["locked_s"],
            "worker (µs a job)": 1e6 * frame["worker_cpu"],
            "server (µs a job)": 1e6 * frame["server_cpu"],
            "on disk (MB)": frame["disk_bytes"] / 1e6,
        }
    )


def soundness(frame: pd.DataFrame) -> pd.DataFrame:
    """Tell how much was run, how quiet the machine was, and whether a job was lost or done twice."""
    columns = {"runs": "runs", "jobs of a run": "jobs", "lost": "lost", "done twice": "duplicated", "noise": "noise"}
    return pd.DataFrame({**_who(frame), **{title: frame[name] for title, name in columns.items()}})


def survival(frame: pd.DataFrame) -> pd.DataFrame:
    """Tell what each arm is, and what it loses when."""
    stores = frame.drop_duplicates("arm")
    columns = {"arm": "arm", "store": "server", "survives": "survives"} | _LOSES
    return pd.DataFrame({title: stores[name] for title, name in columns.items()})


def foretold(frame: pd.DataFrame) -> pd.DataFrame:
    """Tell each arm's closed model, and what was measured by what it foretells."""
    return pd.DataFrame([_model(frame, model) for model in predictions(frame)])


def other_queues(peers: pd.DataFrame) -> pd.DataFrame:
    """Tell how fast qlab and its peers were: rates in jobs a second."""
    columns = {
        "queue": "peer", "version": "version", "store": "store", "workers": "workers",
        "jobs/s": "jobs_per_second", "slowest": "low", "fastest": "high", "stored/s": "enqueue_per_second",
        "runs": "runs", "jobs of a run": "jobs", "lost": "lost", "done twice": "duplicated",
    }  # fmt: skip
    told = pd.DataFrame({title: peers[name] for title, name in columns.items()})
    told.insert(8, "worker (µs a job)", 1e6 * peers["worker_cpu"])
    return told


def promises(peers: pd.DataFrame) -> pd.DataFrame:
    """Tell what each queue promises, and where that stands."""
    each = peers.drop_duplicates("peer")
    columns = {"queue": "peer", "a killed worker loses": "loses", "tries again": "retries", "delays": "delays"}
    told = pd.DataFrame({title: each[name] for title, name in columns.items()})
    told["several processes"] = ["yes" if safe else "no: two may take one job" for safe in each["together"]]
    told["where that stands"] = each["source"]
    return told


def _model(frame: pd.DataFrame, model: Prediction) -> dict[str, Any]:
    mine = frame[(frame["arm"].astype(str) == model.arm) & (frame["workers"] > 1)]
    told: dict[str, Any] = {"arm": model.arm, "Z (µs)": 1e6 * model.think, "D (µs)": 1e6 * model.demand}
    told |= {"knee (workers)": model.knee, "limit (jobs/s)": 1 / model.demand}
    measured = zip(mine["workers"], mine["jobs_per_second"], strict=True)
    return told | {f"{count} workers": rate / model.at(int(count)) for count, rate in measured}


def _who(frame: pd.DataFrame) -> dict[str, Any]:
    return {"arm": frame["arm"], "workers": frame["workers"]}
