"""Frames of contention made by hand, with what `limits` on a machine of two cores are like."""

import pandas as pd

from qlab.contend import Contention
from qlab.contend.scans import ScanWait
from qlab.driver import LAST_MOMENTS, Durability
from qlab.driver import SURVIVED as CLASSES
from qlab.measured import Measured
from qlab.scenario import Behaviour, Scenario
from qlab.simulation import Run
from qlab.trace import Trace

SERVERS = {"sqlite": "SQLite 3.40.1, WAL, synchronous=", "redis_zset": "Redis 7.0.15, AOF ", "memory": "memory"}
MACHINE = {"machine": "x86_64, 2 cores, Linux 6.1", "Python": "CPython 3.11.7", "stores on": "/tmp (ext4)"}


def arm(name, survives, rates, reserve, *, workers=(1, 2, 4, 8), fewest_most=1.0, worst=None, server_cpu=0.0, **told):
    """One row a number of workers: `rates` and `worst` one each, the rest the same in all."""
    driver, _, setting = name.partition(" ")
    rows = pd.DataFrame({"workers": workers, "jobs_per_second": [float(rate) for rate in rates]})
    rows["low"], rows["high"] = 0.9 * rows["jobs_per_second"], 1.1 * rows["jobs_per_second"]
    worst = worst or [20 * reserve * count for count in workers]
    given = {
        "arm": name, "driver": driver, "server": SERVERS.get(driver, driver) + setting, "survives": survives,
        "worker_killed": "nothing", "store_killed": "nothing", "power_cut": "nothing", "runs": 3, "jobs": 20_000,
        "wait_p50": 0.5, "wait_p95": 0.9, "wait_p99": 0.95, "wait_max": 1.0, "reserve_mean": reserve,
        "reserve_p50": reserve, "reserve_p95": 2 * reserve, "reserve_p99": 4 * reserve, "reserve_max": worst,
        "complete_p50": reserve,
        "complete_p95": 2 * reserve, "complete_p99": 4 * reserve, "complete_max": worst, "fewest_most": fewest_most,
        "jain": 0.99, "locked": 3, "lock_errors": 0, "locked_s": 0.01, "lost": 0, "duplicated": 0,
        "worker_cpu": 30e-6, "server_cpu": server_cpu, "disk_bytes": 4_000_000, "noise": 1.02,
    } | told  # fmt: skip
    return rows.assign(**given)


def together(*arms):
    """Put arms into one frame, with the categories that `frames.contention` has."""
    frame = pd.concat(arms, ignore_index=True)
    for name in ("arm", "driver"):
        frame[name] = pd.Categorical(frame[name], categories=list(dict.fromkeys(frame[name])))
    frame["survives"] = pd.Categorical(frame["survives"], categories=CLASSES, ordered=True)
    return frame


SQLITE = arm("sqlite NORMAL", CLASSES[2], [31_000, 29_000, 24_000, 22_000], 26e-6, worst=[0.01, 0.03, 0.05, 0.07],
             fewest_most=[1.0, 0.95, 0.9, 0.7])  # fmt: skip
FULL = arm("sqlite FULL", CLASSES[3], [1_500, 2_800, 2_500, 2_980], 0.6e-3, worst=[0.02, 0.05, 0.1, 0.2],
           fewest_most=[1.0, 0.9, 0.8, 0.69])  # fmt: skip
DELETE = arm("sqlite DELETE", CLASSES[3], [435, 402, 367, 240], 2.2e-3, fewest_most=0.5)
EVERYSEC = arm("redis_zset everysec", CLASSES[2], [8_400, 19_400, 25_900, 24_000], 100e-6, server_cpu=38e-6)
ALWAYS = arm("redis_zset always", CLASSES[3], [1_660, 1_874, 2_778, 4_700], 0.55e-3, server_cpu=80e-6)
LIST = arm("redis_list everysec", CLASSES[2], [8_100, 18_000, 23_000, 23_500], 102e-6, server_cpu=40e-6)
NONE = arm("redis_zset none", CLASSES[1], [9_000, 20_400, 26_900, 25_000], 95e-6, server_cpu=36e-6)
OFF = arm("sqlite OFF", CLASSES[1], [33_000, 31_000, 26_000, 23_000], 24e-6)
MEMORY = arm("memory", CLASSES[0], [90_000, 60_000, 40_000, 30_000], 9e-6)

WHOLE = together(SQLITE, FULL, DELETE, EVERYSEC, ALWAYS, LIST, NONE, OFF, MEMORY)


def of_class(frame, survives):
    return frame[frame["survives"] == survives]


RESERVES = pd.DataFrame(
    [
        (name, workers, repeat, seconds * (1 + (i * 37 % 101) / 60) * workers)
        for name, seconds in (("sqlite NORMAL", 26e-6), ("redis_zset everysec", 100e-6), ("redis_list everysec", 9e-5))
        for workers in (1, 8)
        for repeat in (0, 1)
        for i in range(300)
    ],
    columns=["arm", "workers", "repeat", "reserve"],
)
WAITS = (
    ScanWait("no scan", 0, 0, 0.0, 0.5, 240, 0.0001, 0.0002, 0.003, "SQLite 3.40.1"),
    ScanWait("one transaction", 2_000, 2_000, 0.0, 0.9, 420, 0.41, 0.8, 0.86, "SQLite 3.40.1"),
    ScanWait("chunks of 100", 2_000, 100, 0.0, 1.1, 500, 0.004, 0.02, 0.041, "SQLite 3.40.1"),
)
SCANS = pd.DataFrame(WAITS)
PEERS = pd.DataFrame(
    [
        ("qlab", "SQLite", "sqlite", 1, 6_000.0, 5_500.0, 6_200.0, True),
        ("qlab", "SQLite", "sqlite", 4, 5_600.0, 5_300.0, 5_900.0, True),
        ("huey", "SQLite", "", 1, 4_070.0, 4_000.0, 4_100.0, False),
        ("huey", "SQLite", "", 4, 4_010.0, 3_900.0, 4_200.0, False),
        ("persist-queue", "SQLite", "", 1, 2_470.0, 2_400.0, 2_500.0, True),
        ("persist-queue", "SQLite", "", 4, 2_280.0, 2_200.0, 2_300.0, True),
    ],
    columns=["peer", "store", "driver", "workers", "jobs_per_second", "low", "high", "acknowledges"],
).assign(survives=CLASSES[3])
ALL_OF_PEERS = PEERS.assign(
    version="1.2",
    server="SQLite 3.40.1, WAL, synchronous=FULL",
    runs=3,
    jobs=900,
    enqueue_per_second=700.0,
    worker_cpu=0.000_2,
    lost=0,
    duplicated=[0, 0, 0, 0, 0, 7],
    retries="by hand",
    delays="no",
    loses="the run",
    together=PEERS["peer"] != "persist-queue",
    source="its source",
)
"""The same with every column that `frames.peers` has."""


# -- the same as runs --

LOSES = {
    CLASSES[0]: Durability("everything", "everything", "everything"),
    CLASSES[1]: Durability("nothing", "everything", "everything"),
    CLASSES[2]: Durability("nothing", "nothing", LAST_MOMENTS[0]),
    CLASSES[3]: Durability("nothing", "nothing", "nothing"),
}


def found(frame, **told):
    """What `contention` would have given, of three repeats: a slow one, a middle one, a fast one."""
    runs = [
        run(row, repeat, rate)
        for row in frame.to_dict("records")
        for repeat, rate in enumerate([row["low"], row["jobs_per_second"], row["high"]][: row["runs"]])
    ]
    arms = tuple(dict.fromkeys(frame["arm"].astype(str)))
    return Contention(tuple(runs), **{"machine": MACHINE, "arms": arms, "elapsed": 321.0} | told)


def run(row, repeat, rate):
    workers, jobs = row["workers"], row["jobs"]
    most = round(jobs / (row["fewest_most"] + workers - 1))
    per_worker = (jobs - most * (workers - 1), *[most] * (workers - 1))
    reserve = round(1e6 * row["reserve_mean"])
    slowest = round(1e6 * row["reserve_max"])
    measured = Measured(
        arm=row["arm"], workers=workers, repeat=repeat, mode="process", seconds=sum(per_worker) / rate,
        per_worker=per_worker, reserves=(*[reserve] * 10_000, slowest), completes=(reserve,) * 100,
        waits=(500_000, 900_000),
        locked=row["locked"], lost=row["lost"], duplicated=row["duplicated"], worker_cpu=jobs * row["worker_cpu"],
        server_cpu=jobs * row["server_cpu"], disk_bytes=row["disk_bytes"], noise=row["noise"],
    )  # fmt: skip
    durability = LOSES[str(row["survives"])]
    scenario = Scenario("contention", handlers={"job": Behaviour(0.001, busy=True)}, seed=7)
    return Run(
        Trace(), scenario, str(row["driver"]), "available_at", row["server"], durability, 1.0, measured=measured
    )  # fmt: skip
