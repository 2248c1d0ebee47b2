"""What `compare` found, as a page."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from qlab import frames, plots, report
from qlab.comparison import Comparison
from qlab.report import Picture, Report, Section, shown

_SIMULATED = (
    "One seeded scenario, in simulated time: plain jobs, delayed jobs, a handler that fails twice (webhook), one that "
    "always fails (broken), a worker that dies with a job in hand (crasher), and a worker that comes back after its "
    "reservation has run out (report). The same driver code runs here as in production; only the clock is another one. "
    "Many of the events are polls that found nothing."
)
_REAL = (
    "Worker processes that start at once, each with its own connection: scan_library walks a folder and dispatches "
    "one enrich_item a file, whose handler reads and parses it. The arms run in an order of chance, on one machine; a "
    "bar is the median of an arm's runs, its line goes from the slowest to the fastest. Most of a job's time here is "
    "the parsing, so the stores look more alike than they are: the gap between two jobs of a worker, the one call that "
    "completes a job and reserves the next, is the store's part. All jobs are there from the start, so a wait is "
    "mostly the line before a job. More workers than cores bring little."
)
_ALIKE = (
    "Speed is compared at like durability: SQLite in WAL mode with synchronous=NORMAL and an append-only file that is "
    "synced every second may both lose the last moments at a power cut, and nothing when a worker is killed."
)
_NOT_ALIKE = (
    "These stores do NOT survive the same: the table below says what each loses. The faster one may be faster because "
    "it promises less."
)


def write(compared: Comparison, folder: str | Path, *, command: str) -> Path:
    """Write the page of a comparison into a folder, with its pictures and its events, whole or not at all.

    Args:
        compared: What `compare` found.
        folder: Where: a folder that is new, empty, or holds an earlier report, which is replaced.
        command: The command that makes it again.

    Returns:
        The page.

    Raises:
        ValueError: The folder holds something else.
    """
    return report.write(page(compared), folder, command=command)


def page(compared: Comparison) -> Report:
    """Make the page of a comparison."""
    names = ", ".join(run.driver for run in compared.runs)
    events = compared.events()
    return Report(
        title="One queue, several stores",
        subtitle=f"{names}; scenario {compared.scenario.name}, seed {compared.scenario.seed}",
        answer=list(answer(compared)),
        sections=[_simulated(compared), *_timelines(compared), _real(compared)],
        machine=compared.machine,
        tables={"events": events, "simulated": compared.simulated(), "real": compared.real()},
    )


def answer(compared: Comparison) -> Iterator[str]:
    """Say in sentences what was found."""
    same = [each.driver for each in compared.agreements if each.difference is None]
    if same:
        reference = compared.runs[0]
        yield f"{_and([reference.driver, *same])} did the same, event by event (trace {reference.trace.digest()})."
    for each in compared.agreements:
        if each.difference is not None:
            yield f"{each.driver} differs from {each.reference} first at event {each.difference.place}. {each.why}"
    real = compared.real()
    if len(real):
        odd = int(real["twice"].sum()), int(real["never"].sum())
        yield f"Of {int((real['jobs'] * real['runs']).sum()):,} real jobs, {odd[0]} ran twice and {odd[1]} never."
        yield from _fastest(real)
    for name, reason in compared.skipped.items():
        yield f"{name} was left out: {reason}"


def _fastest(real: pd.DataFrame) -> Iterator[str]:
    for workers, arms in real.groupby("workers"):
        if len(arms) < 2:
            continue
        best, other = arms.nlargest(2, "jobs_per_second").to_dict("records")
        several = f"With {workers} worker{'s' if workers != 1 else ''}"
        gaps = _and([f"{arm['driver']} {shown(arm['gap_p50_ms'])} ms" for arm in arms.to_dict("records")])
        yield f"{several}, the store's own part of a job (median gap between two jobs of a worker): {gaps}."
        if best["runs"] < 2:
            yield f"{several}, jobs a second: {_rate(best)}, {_rate(other)}; too few runs to tell them apart."
        elif best["low"] > other["high"]:
            ratio = best["jobs_per_second"] / other["jobs_per_second"]
            yield f"{several}, jobs a second: {_rate(best)}, {_rate(other)} (ratio {ratio:.2f})."
        else:
            yield f"{several}, jobs a second: {_rate(best)}, {_rate(other)}: no clear difference, the runs overlap."


def _rate(arm: dict[Hashable, Any]) -> str:
    ran = f" ({shown(arm['low'])} to {shown(arm['high'])})" if arm["runs"] > 1 else ""
    return f"{arm['driver']} {shown(arm['jobs_per_second'])}{ran}"


def _equal_as_one(compared: Comparison) -> pd.DataFrame:
    """Give the events with one line for drivers whose traces are the same."""
    together: dict[str, list[str]] = {}
    for run in compared.runs:
        together.setdefault(run.trace.digest(), []).append(run.driver)
    events = compared.events()
    first = {names[0]: " = ".join(names) for names in together.values()}
    return events[events["driver"].isin(first)].assign(driver=lambda kept: kept["driver"].map(first))


def _simulated(compared: Comparison) -> Section:
    first = compared.runs[0]
    return Section(
        "What happens",
        [_SIMULATED],
        [("One row a driver; equal traces have the same digits", compared.simulated())],
        [
            Picture(
                "throughput",
                "Jobs completed over simulated time",
                plots.stamp(plots.throughput(_equal_as_one(compared)), *compared.runs),
            ),
            Picture(
                "attempts",
                f"How many attempts the jobs needed ({first.driver})",
                plots.stamp(plots.attempts(frames.jobs(first.trace)), first),
            ),
            Picture(
                "depth",
                f"How many jobs were ready, delayed and reserved ({first.driver})",
                plots.stamp(plots.depth(frames.depth(first.trace)), first),
            ),
            Picture(
                "workers",
                f"What each worker had in hand, and how it ended ({first.driver})",
                plots.stamp(plots.workers(frames.attempts(first.trace), events=frames.events(first.trace)), first),
            ),
        ],
    )


def _timelines(compared: Comparison) -> Iterator[Section]:
    pictures: dict[str, tuple[list[str], Picture]] = {}
    for run in compared.runs:
        told = pictures.get(run.trace.digest())
        if told is None:
            same = [other for other in compared.runs if other.trace.digest() == run.trace.digest()]
            drawn = plots.stamp(plots.timeline(frames.spans(run.trace)), *same)
            pictures[run.trace.digest()] = ([run.driver], Picture(f"timeline-{run.driver}", "", drawn))
        else:
            told[0].append(run.driver)
    drawn_pictures = [
        Picture(picture.name, f"{_and(drivers)}: each job a row, against simulated time", picture.axes)
        for drivers, picture in pictures.values()
    ]
    yield Section("Job by job", ["Drivers whose traces are the same share a picture."], [], drawn_pictures)


def _real(compared: Comparison) -> Section:
    real = compared.real()
    if not len(real):
        return Section("How fast", ["No driver that was compared can be used by several processes."])
    where = f"The folder is {compared.folder}, its first {compared.files} .py files in sorted order."
    ran = ["driver", "workers", "runs", "jobs", "once", "twice", "never"]
    fast = [
        "driver",
        "workers",
        "jobs_per_second",
        "low",
        "high",
        "gap_p50_ms",
        "gap_p95_ms",
        "wait_p50_ms",
        "wait_p95_ms",
    ]
    stores = real.drop_duplicates("driver")[["driver", "store"]]
    return Section(
        "How fast",
        [_REAL, where, _ALIKE if _alike(compared) else _NOT_ALIKE],
        [
            (
                "How fast: medians of the runs; gap: the call between two jobs; wait: from dispatch to start",
                real[fast],
            ),
            (
                "Whether every job ran: jobs of one run, and how many of all runs ran once, more than once, never",
                real[ran],
            ),
            ("What was measured", stores),
            ("What is lost when …", compared.survival()),
        ],
        [Picture("rates", "Jobs a second by number of workers, with real processes", plots.rates(real))],
    )


def _alike(compared: Comparison) -> bool:
    usual = ("WAL, synchronous=NORMAL", "AOF everysec")
    return all(any(setting in arm.description for setting in usual) for arm in compared.arms)


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
