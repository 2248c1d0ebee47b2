"""What a checkup looks at in a store: SQLite's file, a Redis server, the disk, the table of failed jobs."""

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast

from qlab.checkup.finding import Finding, fine, mind, wrong
from qlab.clock import SystemClock, monotonic
from qlab.driver import Driver
from qlab.drivers.failed_jobs import StagedFailures
from qlab.drivers.files import MEMORY
from qlab.drivers.sqlite import SqliteDriver
from qlab.queue import Queue
from qlab.show import seconds

if TYPE_CHECKING:
    from qlab.drivers.redis_store import RedisStore

SKEW = 2.0
"""By how many seconds this machine's clock and a server's may differ."""
SLOW = 0.05
"""How many seconds a disk may take to write something for good."""
NEARLY_FULL = 0.9
"""Which share of its memory a server may have used."""

_FSYNCS = 5
_PERSIST = "run CONFIG SET appendonly yes on it, and write appendonly yes into its configuration"


def store_of(queue: Queue) -> Iterator[Finding]:
    """Look at the store of a queue."""
    driver = queue.driver.store
    if isinstance(driver, SqliteDriver):
        yield from _sqlite(driver)
    elif driver.name.startswith("redis"):
        yield from _redis(cast("RedisStore", driver), queue)
    else:
        yield mind(
            "store", f"{driver.description}: it is this process's alone, and forgotten with it", "use sqlite:///jobs.db"
        )
    if isinstance(driver, StagedFailures):
        yield from _failed_jobs(driver, queue.name)
    file = driver.database.path if isinstance(driver, SqliteDriver) else _failed_jobs_file(driver)
    if file and file != MEMORY:
        yield disk(Path(file).parent)


# -- SQLite --


def _sqlite(driver: SqliteDriver) -> Iterator[Finding]:
    database = driver.database
    if database.path == MEMORY:
        yield mind("SQLite", f"{database.description}: forgotten with this process", "use a file, sqlite:///jobs.db")
        return
    yield fine("SQLite", f"{database.description}, {database.path}")
    if database.journal != "WAL":
        yield mind(
            "journal",
            f"the journal is {database.journal}: whoever reads keeps workers from writing",
            "run PRAGMA journal_mode=WAL on the file once, unless it lies on a network's disk",
        )
    if database.synchronous == "OFF":
        yield wrong(
            "synchronous",
            "synchronous is OFF: a power cut loses recent jobs, and maybe the whole file",
            "take synchronous=OFF out of the address",
        )


# -- Redis --


def _redis(driver: "RedisStore", queue: Queue) -> Iterator[Finding]:
    began, asked_at = monotonic(), queue.clock.now()
    told = driver.facts()
    took = monotonic() - began
    yield fine("server", driver.description)
    yield _persistence(driver)
    yield from _saving(told)
    yield from _memory(told)
    if told.get("role") == "slave":
        yield wrong(
            "replica",
            f"this server is a replica of {told.get('master_host')}:{told.get('master_port')}: it takes no jobs",
            "use the address of the primary",
        )
    elif "+sentinel://" in driver.url:
        yield _replicas(int(told.get("connected_slaves", 0)))
    if isinstance(queue.clock, SystemClock) and "server_time_usec" in told:
        yield _skew(int(told["server_time_usec"]) / 1e6 - asked_at - took / 2, took)


def _persistence(driver: "RedisStore") -> Finding:
    kept = driver.persistence
    if kept == "no persistence":
        says = "the server forgets every job when it restarts or is killed"
        if driver.private:
            return mind("persistence", f"{says}; it is this process's own", "write persistence=everysec to keep them")
        return wrong("persistence", says, _PERSIST)
    if kept == "persistence unknown":
        return mind("persistence", "the server does not tell whether it keeps jobs", "allow this user CONFIG|GET")
    lost = driver.durability.store_killed
    if kept.startswith("snapshots"):
        return mind("persistence", f"{kept}: when the server is killed it loses {lost}", _PERSIST)
    return fine("persistence", f"{kept}: when the server is killed it loses {lost}")


def _saving(told: dict[str, Any]) -> Iterator[Finding]:
    failed = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if told.get(name, "ok") != "ok"]
    if failed:
        yield wrong(
            "saving",
            f"the server could not write to its disk the last time ({', '.join(failed)})",
            "look into its log; is its disk full, or its folder gone?",
        )


def _memory(told: dict[str, Any]) -> Iterator[Finding]:
    policy, limit, used = told.get("maxmemory_policy"), int(told.get("maxmemory", 0)), int(told.get("used_memory", 0))
    if policy is None:
        return
    shown = f"maxmemory-policy is {policy}"
    keep = "run CONFIG SET maxmemory-policy noeviction, and write it into its configuration"
    if str(policy).startswith("allkeys"):
        evicted = int(told.get("evicted_keys", 0))
        already = f"; it has thrown away {evicted} keys already" if evicted else ""
        if limit:
            yield wrong("eviction", f"{shown}: when its memory is full the server throws jobs away{already}", keep)
        else:
            yield mind("eviction", f"{shown}: jobs would be thrown away as soon as somebody sets a maxmemory", keep)
    else:
        yield fine("eviction", f"{shown}: no job is thrown away")
    if limit and used > NEARLY_FULL * limit:
        yield wrong(
            "memory",
            f"{used:,} of {limit:,} bytes are used: when it is full, no job can be dispatched",
            "raise its maxmemory, or work the jobs off",
        )


def _replicas(count: int) -> Finding:
    """Judge how many replicas a server has that sentinels are to replace by one."""
    if count:
        return fine("replicas", f"{count} {'copies' if count == 1 else 'copy'} this server, of which one takes over")
    way_out = "start one, or look into its log why it does not copy"
    return wrong("replicas", "none copies this server: when it is gone nobody can take over", way_out)


def _skew(ahead: float, took: float) -> Finding:
    """Judge by how much the server's clock is ahead; the answer's way back may have taken all of its time."""
    if abs(ahead) <= SKEW + took:
        return fine("clocks", f"this machine's clock and the server's differ by less than {seconds(SKEW + took)}")
    side = "behind" if ahead > 0 else "ahead of"
    return wrong(
        "clocks",
        f"this machine's clock is {seconds(round(abs(ahead), 1))} {side} the server's: where machines differ, delays, "
        "backoffs and reservations end at other moments",
        "let a time service (NTP) set the clocks of all machines",
    )


# -- files --


def _failed_jobs_file(driver: Driver) -> str:
    return driver.failed_jobs.path if isinstance(driver, StagedFailures) else ""


def _failed_jobs(driver: StagedFailures, queue: str) -> Iterator[Finding]:
    path = driver.failed_jobs.path
    if path == MEMORY:
        yield mind("failed jobs", "failed jobs are forgotten with this process", "write failed_jobs=sqlite:///FILE")
        return
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        yield wrong(
            "failed jobs",
            f"their file {path} cannot be made: there is no such folder, or it may not be written",
            "make the folder, or write failed_jobs=sqlite:///FILE into the address",
        )
        return
    waiting = sum(job.id is None for job in driver.failed(queue))
    if waiting:
        yield mind(
            "failed jobs",
            f"{waiting} failed jobs wait for their rows in {path}",
            "`qlab retry` or the next job that fails writes them; is this the workers' address?",
        )
    yield fine("failed jobs", f"they are in {path}{'' if Path(path).exists() else ', which the first one makes'}")


def disk(folder: Path) -> Finding:
    """Measure how long a folder's disk takes to write a page for good: what a durable commit costs."""
    try:
        took = fsync_seconds(folder)
    except OSError as error:
        return mind("disk", f"{folder} cannot be tried: {error.strerror}", "look after the folder's permissions")
    says = f"{folder} writes a page for good in {took * 1000:.2g} ms"
    if took > SLOW:
        return mind("disk", f"{says}, which is slow", "put the file on a local disk; close what else writes there")
    return fine("disk", says)


def fsync_seconds(folder: Path) -> float:
    """Measure one page and its fsync in seconds, the median of five."""
    taken = []
    with TemporaryFile(dir=folder) as file:
        for _ in range(_FSYNCS):
            began = monotonic()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            taken.append(monotonic() - began)
    return median(taken)
