"""What ADR-006 accepted, measured: how long a dispatch waits while a scan stores its rows in the same SQLite file."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import nan
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, NamedTuple

from qlab.clock import duration, monotonic
from qlab.contend.arms import Arm, arm
from qlab.contend.stores import Store, Stores
from qlab.crew import Crew
from qlab.drivers.failed_jobs import file_of
from qlab.errors import QlabError
from qlab.interrupts import first_interrupt
from qlab.progress import bar
from qlab.show import Table, rounded
from qlab.whole import is_whole

ROWS = 2_000
CHUNK = 100
APART = 0.005  # seconds
REPEATS = 3

_MODULE = "qlab.contend.scan_parts"
_EVERY = 0.005  # seconds
_IDLE = 0.25  # seconds
_PATIENCE = 120.0  # seconds


class ScanWait(NamedTuple):
    """How long dispatches waited during a scan.

    Attributes:
        scan: How the scan stored its rows: `no scan`, `one transaction`, `chunks of 100`, or those `5 ms apart`.
        rows: How many rows it stored, each with its job.
        chunk: How many in one transaction; 0 for no scan.
        apart_s: How long it paused between two transactions, in seconds.
        scan_s: How long it took, in seconds: the median of the repeats.
        dispatches: How many dispatches fell due meanwhile, in all repeats.
        p50_s: The median of their waits, in seconds from when each was due to when it was stored.
        p95_s: What 95 % of them waited at the most, in seconds.
        max_s: The longest wait, in seconds.
        store: Product, version and settings.
    """

    scan: str
    rows: int
    chunk: int
    apart_s: float
    scan_s: float
    dispatches: int
    p50_s: float
    p95_s: float
    max_s: float
    store: str


def scan_wait(
    store: str | Arm = "sqlite",
    *,
    rows: int = ROWS,
    chunk: int = CHUNK,
    apart: float = APART,
    repeats: int = REPEATS,
    progress: bool | Callable[[float], object] | None = None,
    stop: Event | None = None,
) -> Table[ScanWait]:
    """Measure how long a dispatch waits while a scan writes to the same SQLite file.

    A scan takes the files of a folder into a table, each with its job: in one transaction, in chunks one right after
    the other, and in chunks with a pause between. Another process dispatches a job every 5 ms. A wait counts from when
    the dispatch was due, so that all that a long transaction holds up count, and not only the one that it caught.

    Args:
        store: An arm of SQLite, by name or address.
        rows: How many files the scan takes in.
        chunk: How many rows a transaction stores where the scan is cut into chunks.
        apart: How many seconds a scan pauses between two chunks, where it lets others in.
        repeats: How often each is measured, in an order of chance.
        progress: Whether there is a bar; by default in a terminal or a notebook. Or a function that is told what share
            is over, from 0 to 1.
        stop: Set it, from any thread, to end; what was measured until then is returned. A Ctrl-C does the same.

    Returns:
        One row for each way to scan: `pd.DataFrame(scan_wait())` is a frame.

    Raises:
        ValueError: The arm is not of SQLite, or a number is out of its range; nothing was stored.
        QlabError: A process ended by itself.
    """
    chosen = _checked(store, rows, chunk, apart, repeats)
    ways = [_Way(0, 0.0), _Way(rows, 0.0), _Way(chunk, 0.0), _Way(chunk, apart)]
    order = [way for way in ways for _ in range(repeats)]
    Random("scans").shuffle(order)
    seen: dict[_Way, list[_Seen]] = {way: [] for way in ways}
    description, asked = "", Event() if stop is None else stop
    with (
        first_interrupt(asked.set),
        suppress(_Stopped),
        Stores() as stores,
        TemporaryDirectory(prefix="qlab-scan-") as folder,
        bar(progress) as shown,
    ):
        files = _make(Path(folder), rows)
        for done, way in enumerate(order):
            shown.show(done / len(order))
            with stores.store(chosen) as opened:
                description = opened.driver.description
                seen[way].append(_measured(opened, folder, files, way, asked))
    return Table(_row(way, rows, found, description) for way, found in seen.items() if found)


def in_words(waits: Sequence[ScanWait]) -> str:
    """Say what each way to scan means for a dispatch, in a sentence; empty where no scan was measured."""
    scans = [each for each in waits if each.rows]
    if not scans:
        return ""
    told = [
        f"in {each.scan} (which takes {rounded(each.scan_s)}) {rounded(each.p50_s)} at the median and "
        f"{rounded(each.max_s)} at the worst"
        for each in scans
    ]
    return f"While a scan stores {scans[0].rows:,} rows, a dispatch waits: {'; '.join(told)}."


class _Stopped(Exception):
    """Somebody wants no more."""


class _Way(NamedTuple):
    """How a scan is cut: how many rows a transaction stores, and how many seconds lie between two."""

    chunk: int
    apart: float

    def told(self, rows: int) -> str:
        if not self.chunk:
            return "no scan"
        if self.chunk >= rows:
            return "one transaction"
        return f"chunks of {self.chunk:,}" + (f", {rounded(self.apart)} apart" if self.apart else "")


class _Seen(NamedTuple):
    """What one scan took, and how long each dispatch that was due meanwhile waited, in seconds."""

    seconds: float
    waits: list[float]


def _measured(store: Store, folder: str, files: list[str], way: _Way, stop: Event) -> _Seen:
    def check() -> None:
        if stop.is_set():
            raise _Stopped

    check()
    shared: dict[str, Any] = {"url": store.url, "queue": store.queue}
    path, synchronous = file_of(store.url.partition("?")[0]), store.arm.synchronous
    scans = {"part": "scan", "path": path, "synchronous": synchronous, "folder": folder, "files": files}
    setups = [
        shared | scans | {"chunk": way.chunk, "apart": way.apart, "idle": _IDLE},
        shared | {"part": "dispatch", "every": _EVERY},
    ]
    span, dispatched = (0.0, 0.0), []
    with Crew(_MODULE, setups, check=check) as crew:
        began = crew.go()
        for message in crew.messages():
            check()
            if crew.killed:
                raise QlabError("a process of the scan was killed, so what it did is not known")
            if monotonic() > began + _PATIENCE:
                raise QlabError(f"the scan was not over after {_PATIENCE:g} s")
            match message:
                case (_, ["scanned", start, end]):
                    span = start, end
                    crew.say(str(end))
                case (_, ["dispatched", told]):
                    dispatched = told
    first, last = span
    return _Seen(last - first, [done - due for due, done in dispatched if first <= due <= last])


def _row(way: _Way, rows: int, seen: Sequence[_Seen], description: str) -> ScanWait:
    waits = sorted(wait for each in seen for wait in each.waits) or [nan]
    took = median(each.seconds for each in seen)
    half, most = median(waits), waits[round(0.95 * (len(waits) - 1))]
    count = sum(len(each.waits) for each in seen)
    shown = way.told(rows), rows if way.chunk else 0, way.chunk, way.apart
    return ScanWait(*shown, took, count, half, most, waits[-1], description)


def _make(folder: Path, rows: int) -> list[str]:
    """Make the files that are scanned."""
    names = [f"module_{number:06}.py" for number in range(rows)]
    for name in names:
        (folder / name).touch()
    return names


def _checked(store: str | Arm, rows: int, chunk: int, apart: float, repeats: int) -> Arm:
    chosen = arm(store)
    if chosen.driver != "sqlite" or chosen.private:
        raise ValueError(f"store is {chosen.name!r}: use an arm of SQLite in a file, where scan and queue share one")
    for what, number in (("rows", rows), ("chunk", chunk), ("repeats", repeats)):
        if not is_whole(number, 1):
            raise ValueError(f"{what} is {number!r}: use a whole number from 1")
    if chunk >= rows:
        raise ValueError(f"chunk is {chunk}, of {rows} rows: use fewer, for all in one transaction are measured anyway")
    if not duration(apart, "apart"):
        raise ValueError("apart is 0: use a number of seconds above 0, for chunks without a pause are measured anyway")
    return chosen
