"""The picture of the workers: bars, late parts, crashes and pauses, read off the artists."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from pictures import STORY, by_label, dispatched, drawn, event, key, labels, many, reserved

from qlab import frames, plots, simulate
from qlab.scenario import named
from qlab.trace import Event, Kind, Trace


def boxes(ax):
    """What is drawn of each way to end: (row, start, end)."""
    return {
        label: sorted(
            (round(float(path.vertices[:, 1].mean())), path.vertices[:, 0].min(), path.vertices[:, 0].max())
            for path in collection.get_paths()
        )
        for label, collection in by_label(c for c in ax.collections if isinstance(c, PolyCollection)).items()
    }


def marks(ax):
    return by_label(c for c in ax.collections if isinstance(c, PathCollection))


def stars(ax):
    """Where a crash is marked: (row, moment)."""
    return [(round(float(y)), float(x)) for x, y in marks(ax)["crashed"].get_offsets()]


def test_each_worker_is_a_row_and_each_attempt_a_bar_of_its_end():
    ax = drawn(plots.workers(frames.attempts(STORY)))
    assert labels(ax.yaxis) == ["slow", "w1"]
    assert boxes(ax) == {
        "completed": [(1, 1, 3), (1, 16, 20)],
        "attempt failed": [(1, 3, 4)],
        "failed": [(1, 9, 10)],
        "taken by another worker": [(0, 5, 18)],
        "late": [(0, 15, 18)],
    }


def test_the_key_explains_what_there_is_and_nothing_else():
    ended = ["completed", "attempt failed", "failed", "taken by another worker"]
    assert key(plots.workers(frames.attempts(STORY))) == [*ended, "after its reservation had ended"]
    assert key(plots.workers(frames.attempts(many(2)))) == ["completed"]


def test_ends_differ_in_more_than_colour():
    ax = plots.workers(frames.attempts(STORY))
    shapes = {label: mark.get_paths()[0].vertices.tobytes() for label, mark in marks(ax).items()}
    assert set(shapes) == {"attempt failed", "failed", "superseded"}
    assert len(set(shapes.values())) == 3
    assert by_label(ax.collections)["late"].get_hatch()


def test_workers_are_in_the_order_of_their_numbers():
    trace = Trace(
        [dispatched(0, job) for job in range(12)] + [reserved(1, n, worker=f"worker {n + 1}") for n in range(12)]
    )
    ax = drawn(plots.workers(frames.attempts(trace)))
    assert labels(ax.yaxis) == [f"worker {number}" for number in range(1, 13)]


def test_what_goes_on_is_drawn_to_the_end():
    trace = Trace([dispatched(0, 1), reserved(1, 1, retry_after=90), dispatched(0, 2), reserved(4, 2, worker="w2")])
    assert boxes(plots.workers(frames.attempts(trace)))["in hand"] == [(0, 1, 4), (1, 4, 4)]


def test_crashes_and_pauses_are_marked():
    trace = Trace(
        [
            dispatched(0, 1),
            reserved(1, 1, worker="w1"),
            event(3, Kind.CRASHED, 1, worker="w1"),
            Event(4, Kind.CRASHED, worker="w2"),
            Event(5, Kind.PAUSED, worker="w3"),
            Event(7, Kind.RESUMED, worker="w3", detail="after a pause"),
            Event(8, Kind.RESUMED, worker="w2", detail="after a crash"),
            event(11, Kind.EXPIRED, 1, until=11),
            reserved(11, 1, 2, "w2", 11),
            event(12, Kind.COMPLETED, 1, 2, "w2"),
        ]
    )
    alone = plots.workers(frames.attempts(trace))
    assert stars(alone) == [(0, 3)]
    assert key(alone) == ["completed", "broken off by a crash", "crashed"]
    ax = drawn(plots.workers(frames.attempts(trace), events=frames.events(trace)))
    assert labels(ax.yaxis) == ["w1", "w2", "w3"]
    assert stars(ax) == [(0, 3), (1, 4)]
    assert boxes(ax)["away"] == [(0, 3, 12), (1, 4, 8), (2, 5, 7)]
    assert key(ax)[0] == "paused or gone"
    assert key(ax)[-1] == "crashed"


def test_events_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"no column 'at'; .*: draw frames\.events"):
        plots.workers(frames.attempts(STORY), events=frames.jobs(STORY))


def test_a_reservation_that_was_no_run_is_not_drawn():
    trace = Trace(
        [dispatched(0, 1), reserved(0, 1), reserved(10, 1, 2), event(10, Kind.FAILED, 1, 1, detail="AttemptsExhausted")]
    )
    assert boxes(plots.workers(frames.attempts(trace))) == {"taken by another worker": [(0, 0, 10)]}


def test_jobs_in_one_hand_at_the_same_time_do_not_cover_each_other():
    trace = Trace(
        [dispatched(0, job) for job in (1, 2, 3)]
        + [reserved(1, job) for job in (1, 2, 3)]
        + [event(1 + job, Kind.COMPLETED, job) for job in (1, 2, 3)]
    )
    bars = by_label(plots.workers(frames.attempts(trace)).collections)["completed"]
    spans = sorted((path.vertices[:, 1].min(), path.vertices[:, 1].max()) for path in bars.get_paths())
    assert len(spans) == 3
    assert all(above[1] <= below[0] for above, below in pairwise(spans))


def test_a_bar_tells_its_job_where_there_is_room():
    trace = Trace(
        [
            *(dispatched(0, 1, "resize"), reserved(0, 1, retry_after=200), event(90, Kind.COMPLETED, 1)),
            *(dispatched(0, 2, "mail"), reserved(91, 2), event(95, Kind.COMPLETED, 2)),
            *(dispatched(0, 3, "x"), reserved(96, 3), event(96.1, Kind.COMPLETED, 3)),
        ]
    )
    ax = drawn(plots.workers(frames.attempts(trace)))
    assert [text.get_text() for text in ax.texts] == ["1 resize", "2", ""]
    for text in ax.texts:
        assert text.get_window_extent().x1 <= ax.bbox.x1


@pytest.mark.parametrize("name", ["$x^2$", "a\x1b[31mred\0", "two\nlines", "画像", "", "_private_", "x" * 200])
def test_a_worker_may_have_any_name(name):
    trace = Trace([dispatched(0, 1, name), reserved(1, 1, worker=name), event(60, Kind.COMPLETED, 1, worker=name)])
    ax = drawn(plots.workers(frames.attempts(trace)))
    (label,) = labels(ax.yaxis)
    assert label
    assert len(label) < 40
    assert label.isprintable()


def test_very_many_attempts_are_drawn_without_words():
    at = np.arange(100_000) // 8 * 1.0
    told = pd.DataFrame({"worker": np.arange(100_000) % 8, "job": range(100_000), "name": "resize", "how": "completed"})
    told = told.assign(reserved_at=at, left_at=at + 0.8, ended_at=at + 0.8, late=0.0)
    ax = plots.workers(told)
    assert len(by_label(ax.collections)["completed"].get_paths()) == 100_000
    assert len(ax.texts) == 0


def test_few_workers_in_a_tall_place_stay_slim():
    ax = Figure(figsize=(5, 6)).subplots()
    plots.workers(frames.attempts(many(2)), ax=ax)
    bottom, top = ax.get_ylim()
    assert ax.bbox.height / (bottom - top) <= 46 / 72 * ax.figure.dpi + 1e-9


def test_a_simulated_run_shows_its_crash_its_late_worker_and_every_run():
    run = simulate("memory://", named("all_kinds", seed=7))
    told = frames.attempts(run.trace)
    ax = plots.workers(told, events=frames.events(run.trace))
    bars = {label: mine for label, mine in boxes(ax).items() if label not in ("late", "away")}
    assert sum(map(len, bars.values())) == frames.jobs(run.trace)["runs"].sum()
    assert len(stars(ax)) == 1
    assert len(boxes(ax)["late"]) == 1
