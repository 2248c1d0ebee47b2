"""The peers: who else works jobs from a SQLite file or a Redis server, with which settings, and what each promises."""

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from qlab import __version__


class Peer(NamedTuple):
    """A queue that is measured.

    Attributes:
        name: What it is called here; a package that has two stores is two peers.
        package: The distribution; `qlab` for qlab itself.
        module: The module of `qlab.peers` that works it.
        store: `SQLite` or `Redis`.
        synchronous: What its connections to SQLite are set to, with a WAL; empty on Redis.
        pace: Roughly how many jobs a second a worker does: it only tells how many jobs to measure with.
        acknowledges: Whether a job stays in the store until its handler has ended.
        retries: When a job that failed is tried again.
        delays: Whether a job can be put off.
        loses: What a worker that is killed loses.
        together: Whether several processes may work one queue.
        source: Where that stands, beside its documentation.
        python: The oldest Python that its newest release takes.
    """

    name: str
    package: str
    module: str
    store: str
    synchronous: str
    pace: int
    acknowledges: bool
    retries: str
    delays: str
    loses: str
    source: str
    together: bool = True
    python: tuple[int, int] = (3, 11)

    @property
    def version(self) -> str:
        """Its version here; empty where it is not installed."""
        if self.package == "qlab":
            return __version__
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""

    def missing(self) -> str:
        """Say why it cannot be measured here; empty where it can."""
        if sys.version_info[:2] < self.python:
            return "{} needs Python {}.{} or newer".format(self.package, *self.python)
        return "" if self.version else f"{self.package} is not installed: pip install {self.package}"


_QLAB = Peer(
    name="qlab SQLite FULL",
    package="qlab",
    module="ours",
    store="SQLite",
    synchronous="FULL",
    pace=4_000,
    acknowledges=True,
    retries="twice, after 10 s and 60 s",
    delays="yes",
    loses="nothing: it runs again after 90 s",
    source="qlab/driver.py",
)

_HUEY = Peer(
    name="huey SQLite",
    package="huey",
    module="huey",
    store="SQLite",
    synchronous="FULL",
    pace=3_000,
    acknowledges=False,
    retries="if asked for",
    delays="yes, looked for each second",
    loses="the job, which is deleted before it runs",
    source="huey/storage.py: dequeue",
)

OURS = (
    _QLAB._replace(name="qlab SQLite NORMAL", synchronous="NORMAL", pace=15_000),
    _QLAB,
    _QLAB._replace(name="qlab Redis", store="Redis", synchronous="", pace=7_000),
)
"""qlab itself, as durable as each of its peers."""

PEERS = (
    Peer(
        name="litequeue",
        package="litequeue",
        module="litequeue",
        store="SQLite",
        synchronous="NORMAL",
        pace=6_000,
        acknowledges=True,
        retries="by hand",
        delays="no",
        loses="nothing, where somebody calls retry_expired",
        source="litequeue/__init__.py: pop, done",
        python=(3, 12),
    ),
    Peer(
        name="persist-queue",
        package="persist-queue",
        module="persist_queue",
        store="SQLite",
        synchronous="FULL",
        pace=1_500,
        acknowledges=True,
        retries="by hand",
        delays="no",
        loses="nothing, where somebody opens the queue again",
        source="persistqueue/sqlackqueue.py: _pop, resume_unack_tasks",
        together=False,
    ),
    _HUEY,
    _HUEY._replace(name="huey Redis", store="Redis", synchronous="", pace=2_500),
    Peer(
        name="rq",
        package="rq",
        module="rq",
        store="Redis",
        synchronous="",
        pace=300,
        acknowledges=True,
        retries="if asked for",
        delays="yes, with its scheduler",
        loses="the run: the job counts as failed some minutes later",
        source="rq/registry.py: StartedJobRegistry.cleanup",
    ),
    Peer(
        name="dramatiq",
        package="dramatiq",
        module="dramatiq",
        store="Redis",
        synchronous="",
        pace=2_000,
        acknowledges=True,
        retries="20 times, ever later",
        delays="yes, by up to 7 days",
        loses="nothing: it runs again, a minute later or more",
        source="dramatiq/brokers/redis/dispatch.lua: maintenance",
    ),
    Peer(
        name="saq",
        package="saq",
        module="saq",
        store="Redis",
        synchronous="",
        pace=1_200,
        acknowledges=True,
        retries="if asked for",
        delays="yes",
        loses="the run: the job counts as aborted a minute later",
        source="saq/queue/redis.py: sweep",
    ),
)
"""The others."""
