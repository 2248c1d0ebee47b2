"""Real workers in real time: one arm of a comparison is a store, a number of worker processes, and work to do."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from qlab.clock import monotonic
from qlab.crew import Crew, Message
from qlab.driver import Durability
from qlab.errors import QlabError
from qlab.library import DEFAULT_LIMIT, Item, Summary, default_folder, python_files, summary
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.tokens import Tokens
from qlab.trace import Event, Kind, Trace
from qlab.whole import is_whole

POLL = 0.02
"""How many seconds a worker that finds nothing waits, give or take half of it."""

POLICY = Policy(backoff=(0.1, 1.0))
"""An arm's rules, unless it is given others: the usual ones, but a file that cannot be read is soon tried again."""

_PROGRESS_EVERY = 0.25  # seconds
_PATIENCE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Arm:
    """What one store and a number of workers did.

    A job ran when its handler was started: one that a worker left unfinished runs again, as does one that failed. Jobs
    are told apart by what they are about, the scan and each file, so one that was dispatched twice ran twice.

    Attributes:
        driver: The driver's family: `sqlite`, `redis_list` or `redis_zset`.
        description: Product, version and settings of the store.
        durability: What the store promises.
        workers: How many worker processes there were.
        folder: What was scanned.
        jobs: How many jobs there were: the scan, and one for each file.
        seconds: From the start to the end of the last job.
        cpu_seconds: How much processor time the workers took.
        once: How many jobs ran once.
        twice: How many ran more than once.
        never: How many did not run.
        failed: How many are in `failed_jobs`.
        killed: How many workers somebody killed.
        per_worker: How many jobs each worker completed.
        waits: The seconds from the dispatch of each job to the start of its first run, in no order.
        gaps: The seconds from the end of a handler to the start of the same worker's next, where a job was ready: what
            it takes to complete a job and reserve another.
        results: What came of it, equal for each arm on the same folder.
        trace: What happened, from the start at 0 s.
    """

    driver: str
    description: str
    durability: Durability
    workers: int
    folder: Path
    jobs: int
    seconds: float
    cpu_seconds: float
    once: int
    twice: int
    never: int
    failed: int
    killed: int
    per_worker: tuple[int, ...]
    waits: tuple[float, ...]
    gaps: tuple[float, ...]
    results: Summary
    trace: Trace

    @property
    def jobs_per_second(self) -> float:
        """How many jobs were completed in a second."""
        return sum(self.per_worker) / self.seconds

    def __repr__(self) -> str:
        ran = f"once {self.once}, twice {self.twice}, never {self.never}"
        return f"<Arm {self.description}, {self.workers} workers: {self.jobs} jobs in {self.seconds:.2f} s, {ran}>"


def run_arm(
    url: str,
    *,
    workers: int,
    folder: str | os.PathLike[str] | None = None,
    limit: int = DEFAULT_LIMIT,
    queue: str | None = None,
    policy: Policy = POLICY,
    handlers: str = "qlab.library:register",
    progress: Callable[[int], None] | None = None,
) -> Arm:
    """Let worker processes scan a folder and enrich each of its files, as fast as they can.

    They all start at the same moment, when each is ready. No process is left when it returns or raises.

    Args:
        url: The address of a store that several processes can open.
        workers: How many processes, from 1.
        folder: The standard library by default.
        limit: How many files at the most.
        queue: The name of the queue to use, in which nothing may be; a new one by default.
        policy: The queue's rules.
        handlers: The function that registers both handlers on a queue, as `module:function`; workers import it.
        progress: Told how many jobs are done, at most four times a second.

    Raises:
        ValueError: The folder, the limit, the number of workers or the store is none for an arm; nothing was stored.
        QlabError: A worker ended by itself, or all were killed, or nothing went on; the queue was cleared.
    """
    if not is_whole(workers, 1):
        raise ValueError(f"workers is {workers!r}: use a number from 1")
    if callable(policy.backoff):
        raise ValueError("an arm's backoff is a function, which workers cannot be sent: use a list of seconds")
    top = Path(default_folder() if folder is None else folder).absolute()
    files = python_files(top, limit)
    with Queue(url, name=queue or f"arm {Tokens().next()[:12]}", policy=policy) as arm:
        _check_store(arm)
        _function(handlers)(arm)
        setup = {"url": arm.driver.url, "queue": arm.name, "policy": asdict(policy), "handlers": handlers, "poll": POLL}
        crew = Crew("qlab.contend.scan_worker", [setup | {"worker": f"worker {i + 1}"} for i in range(workers)])
        tally = _Tally(workers)
        try:
            with crew:
                arm.dispatch("scan_library", {"folder": str(top), "limit": limit})
                epoch, tally.began = arm.clock.now(), crew.go()
                _listen(crew, tally, policy, progress or (lambda done: None))  # noqa: ARG005 - nobody is told
            if left := arm.counts().depth:
                killed = f"{len(crew.killed)} of {workers} were killed"
                raise QlabError(f"no worker is left ({killed}), but {left} jobs are, in the queue {arm.name!r}")
        except BaseException:
            with suppress(QlabError):
                arm.clear()
            raise
        return _arm(arm, tally, top, files, killed=len(crew.killed), epoch=epoch)


class _Tally:
    """What the workers told, as it comes in."""

    def __init__(self, workers: int) -> None:
        self.began = 0.0
        self.last_done: float | None = None
        self.completed = [0] * workers
        self.failed = 0
        self.runs: Counter[str] = Counter()
        self.waits: list[float] = []
        self.gaps: list[float] = []
        self.items: list[Item] = []
        self.events: list[Event] = []
        self.cpu_seconds = 0.0

    @property
    def done(self) -> int:
        """How many jobs were completed or have failed for good."""
        return sum(self.completed) + self.failed

    @property
    def seconds(self) -> float:
        """How long it has taken up to the end of the last job that is done."""
        return (self.last_done or self.began) - self.began

    def add(self, worker: int, message: Message) -> None:
        """Take in a message of `qlab.contend.scan_worker`."""
        match message:
            case ["event", moment, at, kind, *fields]:
                self._add_event(worker, moment, Event(at, Kind(kind), *fields))
            case ["ran", about, wait, gap]:
                if not self.runs[about]:
                    self.waits.append(wait)
                if gap is not None:
                    self.gaps.append(gap)
                self.runs[about] += 1
            case ["item", *fields]:
                self.items.append(Item(*fields))
            case ["end", cpu_seconds]:
                self.cpu_seconds += cpu_seconds

    def _add_event(self, worker: int, moment: float, event: Event) -> None:
        self.events.append(event)
        if event.kind in (Kind.COMPLETED, Kind.FAILED):
            self.last_done = max(self.last_done or self.began, moment)
            self.completed[worker] += event.kind is Kind.COMPLETED
            self.failed += event.kind is Kind.FAILED


def _listen(crew: Crew, tally: _Tally, policy: Policy, progress: Callable[[int], None]) -> None:
    patience = _patience(policy)
    told, told_at = 0, 0.0
    for message in crew.messages():
        if message is not None:
            tally.add(*message)
        now = monotonic()
        if crew.killed and policy.retry_after is None:
            raise QlabError("a worker was killed, and without retry_after the job in its hands never comes back")
        if now > (tally.last_done or tally.began) + patience:
            raise QlabError(f"no job was done for {patience:g} s: {tally.done} were until then")
        if tally.done != told and now >= told_at + _PROGRESS_EVERY:
            told, told_at = tally.done, now
            progress(told)
    progress(tally.done)


def _patience(policy: Policy) -> float:
    """Tell how long a pause may be: a killed worker's job comes back, and one that failed is tried again."""
    backoff = () if callable(policy.backoff) else policy.backoff
    return _PATIENCE + (policy.retry_after or 0.0) + max(backoff, default=0.0)


def _arm(queue: Queue, tally: _Tally, folder: Path, files: Sequence[str], *, killed: int, epoch: float) -> Arm:
    ran = [tally.runs[about] for about in ("", *files)]
    driver = queue.driver
    return Arm(
        driver=driver.name,
        description=driver.description,
        durability=driver.durability,
        workers=len(tally.completed),
        folder=folder,
        jobs=len(ran),
        seconds=tally.seconds,
        cpu_seconds=tally.cpu_seconds,
        once=ran.count(1),
        twice=sum(times > 1 for times in ran),
        never=ran.count(0),
        failed=queue.counts().failed,
        killed=killed,
        per_worker=tuple(tally.completed),
        waits=tuple(tally.waits),
        gaps=tuple(tally.gaps),
        results=summary(tally.items),
        trace=_trace([*queue.trace, *tally.events], epoch),
    )


def _trace(events: Iterable[Event], epoch: float) -> Trace:
    """Put what several processes saw in the order of time, from 0 s at the start; at one moment, dispatches first.

    A worker may have read the clock a few microseconds before the job that it then got was dispatched by another.
    """
    shifted = [_shifted(event, epoch) for event in events]
    begun = {event.job: event.at for event in shifted if event.kind is Kind.DISPATCHED}
    ordered = (event._replace(at=max(event.at, begun.get(event.job, event.at))) for event in shifted)
    return Trace(sorted(ordered, key=lambda event: (event.at, event.kind is not Kind.DISPATCHED)))


def _shifted(event: Event, epoch: float) -> Event:
    since = None if event.since is None else event.since - epoch
    until = None if event.until is None else event.until - epoch
    # A worker reads the clock before it asks for a job, which may be dispatched in between.
    at = event.at - epoch if since is None else max(event.at - epoch, since)
    return event._replace(at=at, since=since, until=until)


def _check_store(queue: Queue) -> None:
    if queue.driver.name == "memory" or queue.driver.url.startswith("sqlite:///:memory:"):
        raise ValueError(f"{queue.driver} is in the memory of one process: workers need a file or a server")
    if depth := queue.counts().depth:
        raise ValueError(f"the queue {queue.name!r} has {depth} jobs: an arm needs an empty one")


def _function(name: str) -> Callable[[Queue], object]:
    module, _, function = name.partition(":")
    if module == "__main__":
        raise ValueError(
            f"handlers is {name!r}: worker processes do not see what a notebook or a script defines; move the function "
            "into a module (%%writefile shop.py in a cell), and write 'shop:register'"
        )
    found: Callable[[Queue], object] = getattr(import_module(module), function)
    return found
