"""What a scan costs those who dispatch: it is measured whole, and leaves nothing."""

from __future__ import annotations

import re
import signal
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from qlab import Queue
from qlab.clock import monotonic
from qlab.contend import scan_wait
from qlab.contend.scan_parts import TABLE, Pace, scan
from qlab.contend.scans import ScanWait, in_words
from qlab.systems.parts import AppDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(tmp_path: Path) -> Iterator[tuple[Queue, AppDatabase, Path]]:
    """A queue and an application's table in one file, and a folder of sixty files."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(60):
        (folder / f"f{number:02}").write_text("x" * number)
    path = str(tmp_path / "app.db")
    with Queue(f"sqlite:///{path}") as queue, closing(AppDatabase(path)) as database:
        queue.handler("enrich_item")(lambda job: None)
        database.execute(TABLE)
        yield queue, database, folder


@pytest.mark.parametrize("chunk", [60, 20, 7, 1])
def test_a_scan_stores_every_file_with_its_job(app: tuple[Queue, AppDatabase, Path], chunk: int) -> None:
    queue, database, folder = app
    files = sorted(file.name for file in folder.iterdir())
    scan(queue, database, str(folder), files, chunk, 0.0)
    assert database.execute("SELECT path, bytes FROM items ORDER BY path") == [(f"f{i:02}", i) for i in range(60)]
    assert [job.payload["path"] for job in queue.jobs()] == files


@pytest.mark.parametrize(("chunk", "stored"), [(60, 0), (20, 40), (7, 42)])
def test_a_scan_that_is_cut_off_has_stored_whole_chunks(
    app: tuple[Queue, AppDatabase, Path], chunk: int, stored: int
) -> None:
    queue, database, folder = app
    files = sorted(file.name for file in folder.iterdir())
    (folder / files[45]).unlink()
    with pytest.raises(FileNotFoundError):
        scan(queue, database, str(folder), files, chunk, 0.0)
    assert database.execute("SELECT count(*) FROM items") == [(stored,)]
    assert queue.counts().ready == stored


def test_what_falls_due_before_the_end_is_dispatched_and_counts_from_when_it_was_due(app: Any) -> None:
    queue, *_ = app
    pace = Pace(queue, 0.001)
    end = monotonic() + 0.05
    pace.end(str(end))
    done = pace.dispatch()
    dues = [due for due, _ in done]
    assert dues[-1] <= end < dues[-1] + 0.001
    assert all(later - earlier == pytest.approx(0.001) for earlier, later in pairwise(dues))
    assert queue.counts().ready == len(done)


def test_each_way_to_scan_is_measured_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        waits = scan_wait(rows=60, chunk=20, apart=0.002, repeats=1, progress=told.append)
        assert list(Path(folder).iterdir()) == []
    assert [(each.scan, each.rows, each.chunk, each.apart_s) for each in waits] == [
        ("no scan", 0, 0, 0.0),
        ("one transaction", 60, 60, 0.0),
        ("chunks of 20", 60, 20, 0.0),
        ("chunks of 20, 2 ms apart", 60, 20, 0.002),
    ]
    for each in waits:
        assert each.scan_s > 0
        assert "WAL, synchronous=NORMAL" in each.store
        if each.dispatches:
            assert 0 < each.p50_s <= each.p95_s <= each.max_s
    assert waits[0].dispatches > 0
    assert told == sorted(told)
    assert all(0 <= share <= 1 for share in told)


def test_ctrl_c_ends_it_with_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(share: float) -> None:
        if share:
            signal.raise_signal(signal.SIGINT)

    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        assert len(scan_wait(rows=4, chunk=2, repeats=1, progress=interrupted)) == 1
        assert list(Path(folder).iterdir()) == []


def test_a_scan_may_be_stopped_before_its_end() -> None:
    stop = Event()
    waits = scan_wait(rows=4, chunk=2, repeats=2, stop=stop, progress=lambda share: share and stop.set())
    assert len(waits) == 1


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"store": "redis_zset"}, "store is 'redis_zset everysec': use an arm of SQLite in a file"),
        ({"store": "sqlite:///:memory:"}, "use an arm of SQLite in a file"),
        ({"store": "postgres"}, "there is no arm 'postgres'"),
        ({"rows": 0}, "rows is 0: use a whole number from 1"),
        ({"chunk": 1.5}, "chunk is 1.5"),
        ({"repeats": True}, "repeats is True"),
        ({"rows": 10, "chunk": 10}, "chunk is 10, of 10 rows: use fewer"),
        ({"apart": 0}, "apart is 0: use a number of seconds above 0"),
        ({"apart": -1}, "apart is -1 s"),
    ],
)
def test_what_cannot_be_measured_is_refused_first(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        scan_wait(**how)


def test_the_waits_are_told_in_a_sentence() -> None:
    def row(scan: str, rows: int, took: float, half: float, worst: float) -> ScanWait:
        return ScanWait(scan, rows, 100, 0.0, took, 50, half, half, worst, "SQLite")

    found = [
        row("no scan", 0, 0.25, 0.001, 0.002),
        row("one transaction", 2000, 0.6, 0.3, 0.7),
        row("chunks of 100", 2000, 0.65, 0.25, 0.5),
    ]
    assert in_words(found) == (
        "While a scan stores 2,000 rows, a dispatch waits: in one transaction (which takes 600 ms) 300 ms at the "
        "median and 700 ms at the worst; in chunks of 100 (which takes 650 ms) 250 ms at the median and 500 ms at the "
        "worst."
    )
    assert in_words(found[:1]) == in_words([]) == ""
