"""What the judge found, as one page: the verdict in words, pictures of runs beside theory, and every case."""

import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from qlab import __version__, plots, report
from qlab.cases import Cases, Verdict
from qlab.cases import pictures as drawing
from qlab.cases.plans import SEED
from qlab.report import Picture, Report, Section
from qlab.trace import together

_ABOUT = (
    "A case says what a queue should do, by a closed form or by stepping through it exactly. Each was computed from "
    "a run of the simulator on a real driver and held against that; only a reference is a formula held against a "
    "number. The tolerance of a case with chance is four standard deviations of its estimate, so that a right "
    "simulator misses about one in 16,000."
)
_SPREAD = (
    "Each point is a case, drawn as many of its tolerances off as it was: most of them in the middle half of the band "
    "is what chance gives. Cases that read one run, or runs with the same arrivals, lean to one side together, for all "
    "of them start with one seed. A group that leans as far with another seed is off by more than chance."
)


def write(
    verdicts: Sequence[Verdict],
    cases: Cases,
    file: str | Path,
    *,
    command: str,
    progress: Callable[[float, str], object] | None = None,
) -> Path:
    """Write the page, whole or not at all. Its pictures are runs of their own, which take about a minute.

    Args:
        verdicts: What the judge found.
        cases: What it judged.
        file: Where: a file that is new, or an earlier page, which is replaced.
        command: The command that makes it again.
        progress: Told how far the pictures are, from 0 to 1, and which comes next.

    Returns:
        The page.

    Raises:
        ValueError: The file is something else.
    """
    report.check_page(file)
    return report.write_page(page(verdicts, cases, [*drawing.draw(progress)]), file, command=command)


def page(verdicts: Sequence[Verdict], cases: Cases, drawn: Sequence[drawing.Drawn] = ()) -> Report:
    """Make the page."""
    frame = told(verdicts, cases)
    pictures = [Section(each.title, [each.text], [], [Picture(*one) for one in each.pictures]) for each in drawn]
    return Report(
        title="The simulator and theory",
        subtitle=f"{len(frame):,} of {cases.source}, seed {SEED}",
        answer=list(answer(frame)),
        sections=[*_missed(frame), _off(frame), *pictures, _all(frame)],
        machine=_machine(frame),
        tables={},
    )


def told(verdicts: Sequence[Verdict], cases: Cases) -> pd.DataFrame:
    """Tell every verdict, as a table.

    Returns:
        One row a case:

        - `id`, `group`, `kind` (str): the case; its kind is how it was computed;
        - `expected`, `got` (object): numbers or words, in the case's own unit; None where nothing was computed;
        - `tolerance` (float64): how far off it may be; NaN where it is words;
        - `off` (float64): how far off it was, in tolerances; NaN where that is no number;
        - `met` (bool): whether it was not missed;
        - `verdict` (str): `ok`, `missed`, `not asserted`;
        - `trace` (str): digits that stand for the trace it was read from, or for several; empty where there was none.
    """
    groups = {case.id: case.group for case in cases.cases} | {trace.id: trace.group for trace in cases.traces}
    return pd.DataFrame(
        [
            {
                "id": verdict.id,
                "group": groups.get(verdict.id, ""),
                "kind": verdict.kind,
                "expected": verdict.expected,
                "got": verdict.got,
                "tolerance": verdict.allowed,
                "off": _tolerances_off(verdict),
                "met": verdict.ok,
                "verdict": verdict.word,
                "trace": verdict.digest,
            }
            for verdict in verdicts
        ],
        columns=["id", "group", "kind", "expected", "got", "tolerance", "off", "met", "verdict", "trace"],
    ).astype({"tolerance": float, "off": float, "met": bool})


def _tolerances_off(verdict: Verdict) -> float | None:
    got, expected = verdict.got, verdict.expected
    if isinstance(got, str) or got is None or isinstance(expected, str) or not verdict.allowed:
        return None
    return (got - expected) / verdict.allowed


def answer(frame: pd.DataFrame) -> Iterator[str]:
    """Say in sentences what was found."""
    if frame.empty:
        yield "No case was judged."
        return
    asserted = frame[frame["verdict"] != "not asserted"]
    missed = asserted[~asserted["met"]]
    if missed.empty:
        yield "The only case is met." if len(asserted) == 1 else f"All {len(asserted):,} cases are met."
    else:
        yield f"Missed: {len(missed):,} of {len(asserted):,} cases, namely {_named(missed)}."
    if left := len(frame) - len(asserted):
        yield f"Not asserted, because too near a threshold for either answer: {left:,} more."
    chance = asserted[(asserted["kind"] == "stat") & asserted["off"].notna()]
    if len(chance):
        off = chance["off"].abs()
        far = chance["id"].iloc[int(off.argmax())]
        up = int((chance["off"] > 0).sum())
        yield (
            f"The {len(chance):,} with chance were off by {off.mean():.2f} of their tolerance on average (a right "
            f"simulator: about 0.20), by {off.max():.2f} at most ({far}), and {up:,} of them upwards."
        )
    exact = asserted[asserted["kind"].isin(["exact", "trace", "reference"])]
    if len(exact):
        right = int(exact["met"].sum())
        yield f"Of the {len(exact):,} without chance, {right:,} are right to the last digit asked for."


def _named(frame: pd.DataFrame, most: int = 8) -> str:
    names = [*frame["id"].head(most)]
    return ", ".join(names) + (f" and {len(frame) - most:,} more" if len(frame) > most else "")


def _missed(frame: pd.DataFrame) -> Iterator[Section]:
    missed = frame[~frame["met"]]
    if len(missed):
        yield Section("What was missed", [], [("Missed cases", _shown(missed))])


def _off(frame: pd.DataFrame) -> Section:
    about = "How far each case with a number was off, in its own tolerance"
    return Section(
        "How far off",
        [_ABOUT, _SPREAD],
        [("By group; off: in tolerances", _by_group(frame))],
        [Picture("deviations", about, plots.deviations(frame))],
    )


def _by_group(frame: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "group": group,
            "cases": len(mine),
            "met": int((mine["verdict"] == "ok").sum()),
            "missed": int((mine["verdict"] == "missed").sum()),
            "not asserted": int((mine["verdict"] == "not asserted").sum()),
            "mean off": mine["off"].mean(),
            "farthest off": mine["off"].abs().max(),
        }
        for group, mine in frame.groupby("group", sort=False)
    ]
    return pd.DataFrame(rows)


def _all(frame: pd.DataFrame) -> Section:
    text = (
        "Times are in mean services where a case gives no unit. Wq is the wait and W the sojourn, Lq how many wait and "
        "L how many are there, P a share; sd is a standard deviation, p95 what 95 % are within."
    )
    return Section("Every case", [text], [("Every case; off: in tolerances", _shown(frame))])


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Write numbers with the digits that a comparison needs."""
    return pd.DataFrame(
        {
            "case": frame["id"],
            "kind": frame["kind"],
            "expected": frame["expected"].map(_digits),
            "got": frame["got"].map(_digits),
            "tolerance": frame["tolerance"].map(lambda allowed: "–" if pd.isna(allowed) else f"{allowed:.3g}"),
            "off": frame["off"].map(lambda off: "–" if pd.isna(off) else f"{off:+.2f}".replace("-", "−")),
            "verdict": frame["verdict"],
            "trace": frame["trace"].where(frame["trace"] != "", "–"),
        }
    )


def _digits(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and pd.isna(value):
        return "no number"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _machine(frame: pd.DataFrame) -> dict[str, str]:
    traces = list(dict.fromkeys(trace for trace in frame["trace"] if trace))
    return {
        "seed": f"{SEED}; seeds of their own where a case needs several runs",
        "driver": "memory; what is marked so in its file, a broken variant of it",
        "traces": f"{together(traces) or 'none'} (equal digits: every run was the same, event by event)",
        "qlab": __version__,
        "Python": platform.python_version(),
        "NumPy": version("numpy"),
        "pandas": version("pandas"),
    }
