"""What a contention found, and how it is shown and kept."""

import io
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from qlab.measured import Measured
from qlab.saved import AnyPath, check_head, parsed, write
from qlab.show import table_html
from qlab.simulation import Run

_HEAD = "contention.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Contention:
    """What real workers reached on each arm: stores and numbers of workers, in one session on one machine.

    Attributes:
        runs: Each repeat of each arm with each number of workers, in the order in which they ran; each has `measured`.
        skipped: What was left out, with the reason.
        machine: Versions and settings, by name.
        interrupted: Whether somebody ended it before its end.
        elapsed: How long all of it took, in seconds.
        notes: What disturbed it, in words; nothing where nothing did.
        arms: The names of the arms, in the order in which they were asked for.

    Example:
        >>> from qlab import contention
        >>> found = contention("memory", jobs=20, workers=[2], repeats=1, mode="thread")
        >>> row = found.rows()[0]
        >>> row["arm"], row["workers"], row["lost"], row["done twice"]
        ('memory', 2, 0, 0)
    """

    runs: tuple[Run, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    elapsed: float = 0.0
    notes: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Tell in short what each arm reached with each number of workers, for people: units stand in the names.

        `frames.contention` tells all of it, in seconds.
        """
        return [_row(arm, workers, runs) for (arm, workers), runs in self._by_arm()]

    def save(self, path: AnyPath) -> Path:
        """Write it as one file, an archive, which `load` reads: the whole file, or none.

        Returns:
            The file.

        Raises:
            OSError: The file cannot be written; what was there before still is.
            ValueError: A scenario holds what no file can, such as a function; nothing was written.
        """
        facts = {name: getattr(self, name) for name in _FACTS}
        head = {"qlab": "contention", "version": _VERSION, "runs": len(self.runs), **facts}
        buffer = io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(_HEAD, json.dumps(head, indent=1))
            for number, run in enumerate(self.runs):
                archive.writestr(_entry(number), run.save(Path(folder, "run")).read_bytes())
        return write(path, buffer.getvalue())

    @classmethod
    def load(cls, path: AnyPath) -> "Contention":
        """Read what `save` wrote; nothing that is in the file is executed.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no contention, from a newer qlab, or damaged; the message says what is wrong.
        """
        content = Path(path).read_bytes()
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                head = parsed(archive.read(_HEAD))
                check_head(head, "contention", _VERSION)
                runs = tuple(_runs(archive, head["runs"]))
            facts = {name: head[name] for name in _FACTS}
            return cls(runs, **facts | {name: tuple(facts[name]) for name in ("notes", "arms")})
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
        except Exception as error:
            # What is damaged is met in many places of zipfile, which has an exception of its own for few of them.
            raise ValueError(f"{os.fspath(path)}: it is damaged, or no saved contention: {error}") from error

    def __repr__(self) -> str:
        arms = ", ".join(dict.fromkeys(arm for (arm, _), _ in self._by_arm())) or "nothing"
        counts = sorted({workers for (_, workers), _ in self._by_arm()})
        workers = f" with {', '.join(map(str, counts))} workers" if counts else ""
        how = ", interrupted" if self.interrupted else ""
        return f"<Contention of {arms}{workers}: {len(self.runs)} runs{how}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        caption = f"{len(self.runs)} runs in {self.elapsed:.0f} s{', interrupted' if self.interrupted else ''}"
        table = (
            table_html(list(rows[0]), [list(row.values()) for row in rows], caption) if rows else f"<p>{caption}</p>"
        )
        said = [*self.notes, *(f"Left out: {what}: {why}" for what, why in self.skipped.items())]
        return table + (table_html(["notes"], [[each] for each in said]) if said else "")

    def _by_arm(self) -> list[tuple[tuple[str, int], list[Run]]]:
        found: dict[tuple[str, int], list[Run]] = {}
        for run in self.runs:
            found.setdefault((_measured(run).arm, _measured(run).workers), []).append(run)
        asked = [*self.arms, *(arm for arm, _ in found)]
        return sorted(found.items(), key=lambda each: (asked.index(each[0][0]), each[0][1]))


_FACTS = ("skipped", "machine", "interrupted", "elapsed", "notes", "arms")


def _measured(run: Run) -> Measured:
    if run.measured is None:
        raise ValueError(f"{run!r} is a simulated run: a contention has runs in real time")
    return run.measured


def _row(arm: str, workers: int, runs: list[Run]) -> dict[str, Any]:
    measured = [_measured(run) for run in runs]
    rates = [each.jobs_per_second for each in measured]
    fair = [min(each.per_worker) / max(each.per_worker) for each in measured if any(each.per_worker)]
    worst = max((max(each.reserves, default=0) for each in measured), default=0)
    return {
        "arm": arm,
        "workers": workers,
        "jobs/s": round(median(rates)),
        "slowest": round(min(rates)),
        "fastest": round(max(rates)),
        "worst reserve (ms)": round(worst / 1_000, 1),
        "fewest / most": round(median(fair), 2) if fair else "–",
        "lost": sum(each.lost for each in measured),
        "done twice": sum(each.duplicated for each in measured),
        "survives": runs[0].durability.survives,
    }


def _entry(number: int) -> str:
    return f"runs/{number:04}.run"


def _runs(archive: zipfile.ZipFile, count: int) -> Iterator[Run]:
    with TemporaryDirectory() as folder:
        for number in range(count):
            file = Path(folder, "run")
            file.write_bytes(archive.read(_entry(number)))
            yield Run.load(file)
