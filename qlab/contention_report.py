"""What `contention` found, as a page: the answer in words, then pictures of arms that survive the same, then tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from qlab import contention_tables as tables
from qlab import frames, plots, report
from qlab.contend import Contention
from qlab.contend.scans import ScanWait, in_words
from qlab.contention_answer import answer, details
from qlab.contention_limits import Class, classes_of, rows_of
from qlab.driver import SURVIVED
from qlab.frames.predictions import round_trip_of
from qlab.report import Picture, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CROSSED = (
    "Each Redis arm by the fastest SQLite arm that survives the same, with as many workers. The line at a point "
    "goes from Redis' slowest repeat by SQLite's fastest to the opposite: where it touches 1, neither is clearly "
    "the faster."
)
_COST = (
    "By how much each arm is slower than the fastest of its driver that survives less: the price of what the table "
    "says. It is drawn for the fewest workers that there were."
)
_MODEL = (
    "The closed model, M/M/1//N, foretells many workers from what one did alone: N workers think for Z (the "
    "handler, their own processor time, the way to a server), and then need the store for D (the lock of a SQLite "
    "file, the processor time of a server, or its sync to the disk), one after the other. Its knee is at (Z + D) / "
    "D workers, its limit 1 / D. Where what was measured lies below it, the store stood idle while workers slept "
    "before its lock, or all processors were busy; where it lies above, one sync to the disk served several."
)
_SCANS = (
    "A scan that stores its rows in one transaction holds a SQLite file's lock for as long. Chunks alone help little: "
    "whoever waits for the lock asks again in a millisecond or so, and between two chunks it is free for microseconds. "
    "A pause between them, longer than others wait, lets everybody in. A wait counts from the moment at which a "
    "dispatch was due."
)
_PEERS = (
    "The same jobs, which do nothing, through other queues with their documented settings, each in processes of its "
    "own. What they do not promise is a column: a queue without acknowledgement loses the job in the hands of a "
    "killed worker, whatever its store survives."
)
_HOW = (
    "Each run has a store of its own. Its jobs are dispatched; its workers, each with its own connection, get "
    "ready, begin at one moment, and end when nothing is left. Arms, numbers of workers and repeats come in an "
    "order of chance, so that a machine that warms up or slows down favours none. A rate is the median of the "
    "repeats, its range from the slowest to the fastest. A wait counts from a job's dispatch, or from the start "
    "where it was there before: with all jobs there from the start it is mostly the line before a job. A reserve is "
    "one call that brings a worker its job; in a worker's loop the same call completes the one before. Noise is how "
    "much longer the same counting took than on the quietest occasion."
)
_ALIKE = (
    "Arms are set beside each other only where they survive the same: one that is faster may be so because it "
    "promises less. What survives a power cut but for the last moments is SQLite with synchronous=NORMAL, and an "
    "append-only file that is synced every second; what survives all of it, synchronous=FULL, and a sync at each write."
)
_READ = (
    "Absolute figures are this machine's on this occasion; ratios of one run hold better. Workers and server share "
    "its processors, and a local socket flatters a server: elsewhere each job has a round trip more."
)
_UNTOLD = ("load", "queue-lab", "SQLite", "pandas", "matplotlib")  # what no picture depends on, or its store tells


def write(
    found: Contention,
    out: str | Path,
    *,
    command: str = "",
    rate: float | None = None,
    peers: pd.DataFrame | None = None,
    scans: Sequence[ScanWait] = (),
) -> Path:
    """Write the page of a contention, whole or not at all.

    Args:
        found: What `qlab.contention` gave.
        out: Where: a file that ends with `.html`, or a folder, which gets the pictures and tables beside the page. It
            is new, or an earlier report, which is replaced.
        command: The command that makes it again; none by default.
        rate: How many jobs come in a second, if that is known: what is enough for them comes first.
        peers: What `frames.peers` gives, of other queues at the same work.
        scans: What `qlab.contend.scans.scan_wait` gave: how long a dispatch waits while a large scan is stored.

    Returns:
        The page.

    Raises:
        ValueError: The file or folder is something else, or the rate is not above 0.
    """
    made = page(found, rate=rate, peers=peers, scans=scans)
    return (report.write_page if _is_page(out) else report.write)(made, out, command=command)


def check(out: str | Path) -> None:
    """Refuse a file or folder that a report must not replace, before anything is measured.

    Raises:
        ValueError: It is something else, or cannot be written.
    """
    (report.check_page if _is_page(out) else report.check_folder)(out)


def _is_page(out: str | Path) -> bool:
    return Path(out).suffix.lower() in (".html", ".htm")


def page(
    found: Contention,
    *,
    rate: float | None = None,
    peers: pd.DataFrame | None = None,
    scans: Sequence[ScanWait] = (),
) -> Report:
    """Make the page, as `write` says."""
    frame, said = frames.contention(found), [*answer(found, rate=rate), *filter(None, [in_words(scans)])]
    done = frame[frame["jobs_per_second"] > 0]
    classes, calls = classes_of(rows_of(done)), frames.reserves(found)
    parts = [(each.survives, done[done["survives"].astype(str) == each.survives]) for each in classes]
    return Report(
        title="SQLite or Redis: which is enough until when",
        subtitle=_subtitle(frame),
        answer=said,
        sections=[
            *(_class(found, mine, calls, each) for each, (_, mine) in zip(classes, parts, strict=True)),
            *_crossed(found, done),
            *_cost(found, done),
            *_scans(found, scans),
            *_peers(found, peers),
            *_foretold(parts),
            _figures(parts),
            Section("How it was measured", [_HOW, _ALIKE, _READ, *found.notes]),
        ],
        machine=_machine(found, frame),
        tables={"contention": frame} | ({} if peers is None else {"peers": peers}),
    )


def _subtitle(frame: pd.DataFrame) -> str:
    arms = ", ".join(dict.fromkeys(frame["arm"].astype(str)))
    workers = ", ".join(map(str, sorted(set(frame["workers"]))))
    return f"{arms}; workers: {workers}" if len(frame) else "nothing was run to its end"


def _class(found: Contention, mine: pd.DataFrame, calls: pd.DataFrame, arms: Class) -> Section:
    """Draw the arms that survive the same."""
    nth = SURVIVED.index(arms.survives)
    calls = calls[calls["arm"].astype(str).isin({*mine["arm"].astype(str)})].assign(survives=arms.survives)
    drawn = {
        "throughput": ("Jobs a second, and dashed what 1 worker's run foretells", plots.throughput_by_workers(mine)),
        "fairness": (
            "The worst reserve; below it the fewest jobs of a worker by the most of one, where 1 is fair",
            plots.fairness_by_workers(mine),
        ),
        "reserves": (
            "Which share of the reserves was over within how long, with the most workers",
            plots.reserve_ecdf(calls),
        ),
    }
    pictures = [
        Picture(f"{name}-{nth}", f"{about}; all survive {arms.survives}", _stamped(found, mine["server"], axes))
        for name, (about, axes) in drawn.items()
    ]
    return Section(f"To survive {arms.survives}", details(arms), [], pictures)


def _crossed(found: Contention, frame: pd.DataFrame) -> Iterator[Section]:
    drivers = set(frame["driver"].astype(str))
    if "sqlite" not in drivers or not drivers & {"redis_zset", "redis_list"}:
        return
    about = "Redis' jobs a second by SQLite's, where both survive the same: above 1 Redis is the faster"
    pictures = [Picture("crossover", about, _stamped(found, frame["server"], plots.crossover(frame)))]
    if any(round_trip_of(str(arm)) for arm in frame["arm"]):
        drawn = _stamped(found, frame["server"], plots.crossover(frame, by="round_trip"))
        pictures.append(Picture("round-trip", "The same, by the round trip on the way to Redis", drawn))
    yield Section("Which is the faster", [_CROSSED], [], pictures)


def _cost(found: Contention, frame: pd.DataFrame) -> Iterator[Section]:
    near = frame[[not round_trip_of(str(arm)) for arm in frame["arm"]]]
    if len(near):
        drawn = _stamped(found, near["server"], plots.durability_cost(near))
        about = "Jobs a second by driver and by what an arm survives; divided by how much"
        table = ("What each arm survives, and what it loses when …", tables.survival(frame))
        yield Section("What durability costs", [_COST], [table], [Picture("durability", about, drawn)])


def _scans(found: Contention, scans: Sequence[ScanWait]) -> Iterator[Section]:
    if scans:
        about = "How long a dispatch waits while a large scan is stored, in one transaction and in chunks"
        told = pd.DataFrame(scans)
        drawn = _stamped(found, told["store"], plots.scan_wait(told))
        yield Section("What waits for a large scan", [_SCANS], [(about, told)], [Picture("scan", about, drawn)])


def _peers(found: Contention, peers: pd.DataFrame | None) -> Iterator[Section]:
    if peers is not None and len(peers):
        pictures, rates = [], []
        for nth, survives in reversed([*enumerate(SURVIVED)]):
            mine = peers[peers["survives"].astype(str) == survives]
            if len(mine):
                about = f"Jobs a second of qlab and other queues, on stores that survive {survives}"
                drawn = _stamped(found, mine["server"], plots.peers_bars(mine))
                pictures.append(Picture(f"peers-{nth}", about, drawn))
                rates.append((about, tables.other_queues(mine)))
        yield Section("Other queues", [_PEERS], [], pictures)
        promises = ("What each queue promises, whatever its store survives", tables.promises(peers))
        yield Section("Other queues in figures", [], [promises, *rates])


def _foretold(parts: Iterable[tuple[str, pd.DataFrame]]) -> Iterator[Section]:
    told = [
        (f"The model of each arm; by workers, measured by foretold; all survive {survives}", tables.foretold(mine))
        for survives, mine in parts
    ]
    if there := [each for each in told if len(each[1])]:
        yield Section("What one worker foretells", [_MODEL], there)


def _figures(parts: Iterable[tuple[str, pd.DataFrame]]) -> Section:
    told = []
    for survives, mine in parts:
        for about, table in (
            ("How fast", tables.speed(mine)),
            ("How evenly, and what it took", tables.evenness(mine)),
            ("How much was run; lost and done twice are of all runs", tables.soundness(mine)),
        ):
            told.append((f"{about}; all survive {survives}", table))
    return Section("The figures", [], told)


def _stamped(found: Contention, servers: Iterable[str], axes: Axes) -> Axes:
    told = {name: value for name, value in found.machine.items() if name not in _UNTOLD}
    return plots.stamp_machine(axes, servers, told)


def _machine(found: Contention, frame: pd.DataFrame) -> dict[str, str]:
    servers = " · ".join(dict.fromkeys(frame["server"].astype(str)))
    return {"stores": servers or "none", **_work(found), **found.machine, "took": f"{found.elapsed:,.0f} s"}


def _work(found: Contention) -> dict[str, str]:
    """Tell what there was to do: all runs of a contention have the same scenario."""
    if not found.runs:
        return {}
    run = found.runs[0]
    told = [
        f"{name} takes {behaviour.seconds * 1_000:g} ms{' of the processor' if behaviour.busy else ''}"
        if behaviour.seconds
        else f"{name} does nothing"
        for name, behaviour in run.scenario.handlers.items()
    ]
    mode = run.measured.mode if run.measured is not None else ""
    return {
        "workers": {"process": "a process each", "thread": "threads of one process"}.get(mode, "unknown"),
        "jobs": "; ".join(told) or "handlers of the reader's own",
        "seed": f"{run.scenario.seed}",
    }
