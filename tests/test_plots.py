"""Pictures show what their frames say: counted in artists, not in pixels."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from pictures import RATES, STORY, by_label, dispatched, drawn, event, key, labels, many, reserved

from qlab import frames, plots
from qlab.trace import Event, Kind, Trace

DRIVERS = ("memory", "sqlite", "redis_list", "redis_zset")


def test_a_picture_shows_itself_in_a_notebook_without_pyplot():
    figure = plots.timeline(frames.spans(STORY)).figure
    shown, about = DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
    width, height = figure.get_size_inches() * figure.dpi
    told = about["image/png"].pop("alt")
    assert about["image/png"] == {"width": round(width), "height": round(height)}
    assert told.startswith("job against time (s): delayed, waiting,")


def test_a_picture_of_several_says_what_each_shows():
    picture = plots.Picture()
    left, right = picture.subplots(1, 2)
    plots.timeline(frames.spans(STORY), ax=left).set_title("one", loc="left")
    right.set(xlabel="time (s)")
    assert picture.about().split(": ")[0] == "one"
    assert picture.about().endswith("; time (s)")
    assert plots.Picture().about() == "a picture"
    drawing = plots.Picture()
    drawing.subplots().text(0, 0, "a box")
    assert drawing.about() == "a box"


@pytest.mark.parametrize(
    ("picture", "frame"),
    [(plots.timeline, frames.spans), (plots.depth, frames.depth), (plots.workers, frames.attempts)],
)
def test_a_machine_clock_is_read_from_the_start_on(picture, frame):
    ax = drawn(picture(frame(many(3, start=1_767_225_600.25))))
    assert ax.get_xlabel() == "time since the start (s)"
    assert -1 < ax.get_xlim()[0] < 0
    assert 3 < ax.get_xlim()[1] < 4


@pytest.mark.parametrize(
    ("each", "unit", "last"), [(0.04, "ms", "120"), (1, "s", "3"), (3600, "h", "3"), (86_400, "d", "3")]
)
def test_time_is_written_in_the_unit_that_suits(each, unit, last):
    ax = drawn(plots.timeline(frames.spans(many(3, each=each))))
    assert ax.get_xlabel() == f"time ({unit})"
    assert last in labels(ax.xaxis)
    assert ax.get_xlim()[1] == pytest.approx(3 * each * 1.03)


# -- timeline --


def bars(ax):
    """What is drawn of each kind of span: (row, start, end)."""
    return {
        label: [
            (round(float(path.vertices[:, 1].mean())), path.vertices[:, 0].min(), path.vertices[:, 0].max())
            for path in collection.get_paths()
        ]
        for label, collection in by_label(ax.collections).items()
        if not isinstance(collection, PathCollection)
    }


def marks(ax):
    """What is drawn of each kind of moment: (row, moment)."""
    return {
        label: [(round(float(y)), float(x)) for x, y in collection.get_offsets()]
        for label, collection in by_label(ax.collections).items()
        if isinstance(collection, PathCollection)
    }


def test_a_timeline_draws_each_span_in_its_row():
    assert bars(plots.timeline(frames.spans(STORY))) == {
        "waiting": [(0, 0, 1), (1, 4, 5), (1, 15, 16), (2, 0, 3)],
        "delayed": [(1, 0, 4)],
        "reserved": [(0, 1, 3), (1, 5, 15), (1, 16, 20), (2, 3, 4), (2, 9, 10)],
        "backoff": [(2, 4, 9)],
        "late worker": [(1, 15, 18)],
    }


def test_a_timeline_marks_what_happened():
    assert marks(plots.timeline(frames.spans(STORY))) == {
        "done": [(0, 3), (1, 20)],
        "failed": [(2, 10)],
        "attempt failed": [(2, 4)],
        "superseded": [(1, 18)],
    }


def test_a_timeline_explains_what_it_shows_and_nothing_else():
    spans = ["delayed", "waiting", "backoff", "reserved", "late worker"]
    assert key(plots.timeline(frames.spans(STORY))) == [*spans, "attempt failed", "superseded", "failed", "done"]
    assert key(plots.timeline(frames.spans(many(1)))) == ["reserved", "done"]


def test_spans_differ_in_more_than_colour():
    ax = plots.timeline(frames.spans(STORY))
    spans = [collection for label, collection in by_label(ax.collections).items() if label in bars(ax)]
    shapes = {(round(float(np.ptp(s.get_paths()[0].vertices[:, 1])), 3), s.get_hatch() or "") for s in spans}
    assert len(shapes) == len(spans) == 5
    assert len({handle.get_marker() for handle in ax.get_legend().legend_handles[-4:]}) == 4


def test_rows_are_labelled_from_the_top():
    ax = drawn(plots.timeline(frames.spans(STORY)))
    assert labels(ax.yaxis) == ["1 resize", "2 mail", "3 flaky"]
    bottom, top = ax.get_ylim()
    assert bottom > 2
    assert top < 0


@pytest.mark.parametrize("jobs", [1, 2, 20, 60])
def test_up_to_sixty_rows_have_labels_that_can_be_read(jobs):
    ax = drawn(plots.timeline(frames.spans(many(jobs))))
    assert len(labels(ax.yaxis)) == jobs
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    assert min(label.get_fontsize() for label in ax.get_yticklabels()) >= 6
    assert ax.figure.get_figheight() < 13


def test_more_rows_are_thin_lines_with_few_labels():
    ax = drawn(plots.timeline(frames.spans(many(1000))))
    assert 10 < len(labels(ax.yaxis)) < 60
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    assert len(bars(ax)["reserved"]) == 1000
    assert ax.figure.get_figheight() < 10


def test_few_rows_in_a_tall_place_stay_slim():
    ax = Figure(figsize=(5, 6)).subplots()
    plots.timeline(frames.spans(many(2)), ax=ax)
    bottom, top = ax.get_ylim()
    assert ax.bbox.height / (bottom - top) <= 30 / 72 * ax.figure.dpi + 1e-9


def test_an_attempt_that_takes_no_time_can_be_seen():
    trace = Trace([dispatched(0, 1), reserved(0, 1), event(0, Kind.COMPLETED, 1), dispatched(0, 2)])
    ax = plots.timeline(frames.spans(trace))
    assert bars(ax) == {"reserved": [(0, 0, 0)], "waiting": [(1, 0, 0)]}
    assert marks(ax) == {"done": [(0, 0)]}
    assert all(width > 0 for collection in ax.collections for width in collection.get_linewidths())


def test_the_rows_follow_the_frame():
    spans = frames.spans(STORY).sort_values("job", ascending=False, kind="stable")
    ax = drawn(plots.timeline(spans))
    assert labels(ax.yaxis) == ["3 flaky", "2 mail", "1 resize"]
    assert marks(ax)["failed"] == [(0, 10)]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("$x^2$ and $y", r"1 \$x^2\$ and \$y"),
        ("a\x1b[31mred\0", r"1 a\x1b[31mred\x00"),
        ("two\nlines", "1 two lines"),
        ("x" * 200, "1 " + "x" * 25 + "…"),
        ("画像", r"1 \u753b\u50cf"),
        ("\u202egpj", r"1 \u202egpj"),
        ("_private_", "1 _private_"),
    ],
)
def test_text_from_anywhere_is_only_text(name, label):
    ax = drawn(plots.timeline(frames.spans(Trace([dispatched(0, 1, name)]))))
    assert labels(ax.yaxis) == [label]


# -- depth --


def test_depth_is_stacked_and_its_edge_is_the_depth():
    told = frames.depth(STORY)
    ax = plots.depth(told)
    line = by_label(ax.lines)["depth"]
    assert list(line.get_xdata()[:-1]) == list(told["at"])
    assert list(line.get_ydata()[:-1]) == list(told["depth"])
    assert line.get_drawstyle() == "steps-post"
    assert [area.get_label() for area in ax.collections] == ["reserved", "ready", "delayed"]
    tops = [max(path.vertices[:, 1].max() for path in area.get_paths()) for area in ax.collections]
    stacked = [told["reserved"], told["reserved"] + told["ready"], told["depth"]]
    assert tops == [edge.max() for edge in stacked]


def test_depth_tells_failed_jobs_where_there_are_any():
    failed = by_label(plots.depth(frames.depth(STORY)).lines)["failed"]
    assert [*zip(failed.get_xdata(), failed.get_ydata(), strict=True)][:2] == [(9, 0), (10, 1)]
    assert key(plots.depth(frames.depth(many(2)))) == ["reserved", "ready", "delayed", "depth"]


def test_depth_of_very_many_rows_keeps_the_peaks():
    told = pd.DataFrame({"at": np.arange(50_000.0), "ready": 0, "delayed": 1, "reserved": 0, "failed": 0, "depth": 1})
    told.loc[31_337, ["ready", "depth"]] = 98, 99
    line = by_label(plots.depth(told.set_index(told.index + 7)).lines)["depth, at its deepest"]
    assert len(line.get_xdata()) < 5_000
    assert (31_337, 99) in [*zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_depth_of_very_many_rows_draws_what_was_there_on_average_over_time():
    ready = np.arange(100_000) % 5
    at = np.append(0, np.cumsum(np.where(ready == 4, 9.0, 1.0))[:-1])  # 4 last nine times as long as any other number
    told = pd.DataFrame({"at": at, "ready": ready, "delayed": 3, "reserved": 2, "failed": 0}).assign(depth=ready + 5)
    areas = by_label(plots.depth(told).collections)
    edge = areas["ready"].get_paths()[0].vertices
    tops = edge[edge[:, 1] > 2][:, 1]
    assert 500 < len(tops) < 5_000
    assert np.median(tops) == pytest.approx(2 + (0 + 1 + 2 + 3 + 4 * 9) / 13, abs=0.05)


# -- attempts --


def test_attempts_are_counted_by_how_the_jobs_ended():
    jobs = pd.DataFrame({"runs": [1, 1, 1, 3, 3, 0], "state": ["done", "done", "ready", "done", "failed", "delayed"]})
    ax = drawn(plots.attempts(jobs))
    told = {
        bars.get_label(): {round(bar.get_x() + bar.get_width() / 2): (bar.get_y(), bar.get_height()) for bar in bars}
        for bars in ax.containers
    }
    assert told == {
        "done": {0: (0, 0), 1: (0, 2), 3: (0, 1)},
        "failed": {0: (0, 0), 1: (2, 0), 3: (1, 1)},
        "not finished": {0: (0, 1), 1: (2, 1), 3: (2, 0)},
    }
    assert [text.get_text() for text in ax.texts] == ["1", "3", "2"]
    assert labels(ax.xaxis) == ["0", "1", "2", "3"]


def test_attempts_leave_out_a_reservation_that_was_no_run():
    exhausted = Trace(
        [dispatched(0, 1), reserved(0, 1), reserved(10, 1, 2), event(10, Kind.FAILED, 1, 1, detail="AttemptsExhausted")]
    )
    (bars,) = plots.attempts(frames.jobs(exhausted)).containers
    assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars] == [(1, 1)]


# -- backoff --


def test_backoff_is_the_mean_and_the_reach_of_the_jobs_that_have_ended():
    jobs = pd.DataFrame(
        {
            "runs": [1, 2, 2, 4, 2],
            "state": ["done", "done", "failed", "done", "delayed"],
            "backoff": [0.0, 10.0, 14.0, 370.0, 999.0],
        }
    )
    ax = drawn(plots.backoff(jobs, closed_form=90.0))
    bars, reach = ax.containers
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars} == {1: 0, 2: 12, 4: 370}
    assert [path[:, 1].tolist() for path in reach[2][0].get_segments()] == [[0, 0], [10, 14], [370, 370]]
    assert [text.get_text() for text in ax.texts] == ["0", "12", "370"]
    assert {line.get_label(): list(line.get_ydata()) for line in ax.lines if "mean" in line.get_label()} == {
        "mean of all 4 jobs: 98.5 s": [98.5, 98.5]
    }
    assert by_label(ax.lines)["closed form: 90 s"].get_linestyle() == "--"
    assert all(text.get_window_extent().y1 <= ax.bbox.y1 for text in ax.texts)


def test_backoff_of_jobs_that_go_on_says_that_none_has_ended():
    waiting = pd.DataFrame({"runs": [1], "state": ["delayed"], "backoff": [10.0]})
    assert [text.get_text() for text in plots.backoff(waiting).texts] == ["no job has ended yet"]


# -- throughput --


def test_throughput_is_the_staircase_of_completions():
    for frame in (frames.events(STORY), frames.jobs(STORY)):
        (line,) = plots.throughput(frame).lines
        assert [*zip(line.get_xdata(), line.get_ydata(), strict=True)] == [(0, 0), (3, 1), (20, 2), (20, 2)]
        assert line.get_drawstyle() == "steps-post"
        assert line.get_label() == "0.1 jobs/s"


def test_throughput_before_anything_is_done():
    waiting = Trace([dispatched(0, 1), Event(5, Kind.MISSED)])
    ax = plots.throughput(frames.events(waiting))
    assert list(ax.lines[0].get_ydata()) == [0, 0]
    assert key(ax) == ["none completed"]
    assert key(plots.throughput(frames.events(many(2, each=0)))) == ["2 at once"]


def test_drivers_keep_their_colours_and_dashes():
    told = pd.concat([frames.events(many(9, each=1 + i)).assign(driver=name) for i, name in enumerate(DRIVERS)])
    ax = plots.throughput(told)
    assert [line.get_color() for line in ax.lines] == [plots.COLOURS[name] for name in DRIVERS]
    assert len({str(line._dash_pattern) for line in ax.lines}) == len(DRIVERS)  # noqa: SLF001 - nothing public tells it
    assert key(ax) == ["memory: 1 jobs/s", "sqlite: 0.5 jobs/s", "redis_list: 0.333 jobs/s", "redis_zset: 0.25 jobs/s"]


def test_a_driver_without_a_colour_of_its_own_takes_none_of_theirs():
    told = pd.concat([frames.events(many(2, each=i)).assign(driver=name) for i, name in ((1, "_$a"), (2, "b"))])
    ax = plots.throughput(told)
    colours = [line.get_color() for line in ax.lines]
    assert len({*colours, *plots.COLOURS.values()}) == 6
    assert key(ax) == [r" _\$a: 1 jobs/s", "b: 0.5 jobs/s"]


def test_lines_that_coincide_are_seen_beneath_each_other():
    same, other = frames.events(many(3)), frames.events(many(3, each=2))
    told = [same.assign(driver="memory"), same.assign(driver="sqlite"), other.assign(driver="redis_list")]
    assert [line.get_linewidth() for line in plots.throughput(pd.concat(told)).lines] == [4, 2, 2]


def test_runs_on_a_machine_clock_start_together():
    told = [frames.events(many(3, start=1.7e9 + 100 * i)).assign(driver=name) for i, name in enumerate(DRIVERS)]
    ax = plots.throughput(pd.concat(told))
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0, 1, 2, 3, 3]] * 4
    assert ax.get_xlabel() == "time since the start (s)"


def test_a_long_staircase_is_thinned_but_for_its_ends():
    at = np.arange(100_000.0)
    told = pd.DataFrame({"at": at, "kind": "completed"})
    (line,) = plots.throughput(told).lines
    assert len(line.get_xdata()) <= 3_000
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (99_999, 100_000)


# -- waits --


def waiting(waits, still=0, **columns):
    """A frame of waits in seconds, of which so many more go on."""
    told = pd.DataFrame({"wait": [*waits, *[9.0] * still], "reserved_at": [*waits, *[math.nan] * still]})
    return told.assign(**columns)


def points(line):
    return [*zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_waits_rise_with_each_wait_that_was_over():
    (line,) = plots.waits(waiting([3, 1, 4, 1])).lines
    assert points(line)[:-1] == [(0, 0), (1, 25), (1, 50), (3, 75), (4, 100)]
    assert line.get_drawstyle() == "steps-post"
    assert points(line)[-1] == (line.axes.get_xlim()[1], 100)
    assert line.axes.get_xlim()[1] > 4


def test_waits_that_go_on_keep_the_line_below_the_whole():
    ax = plots.waits(waiting([1, 2], still=2))
    assert points(ax.lines[0])[-2:] == [(2, 50), (ax.get_xlim()[1], 50)]
    assert key(ax) == ["half within 2 s, 2 of 4 still wait"]
    assert key(plots.waits(waiting([1], still=2))) == ["2 of 3 still wait"]
    assert key(plots.waits(waiting([], still=2))) == ["2 of 2 still wait"]
    assert ax.get_ylim()[1] > 100


def test_waits_tell_the_middle_and_the_longest():
    assert key(plots.waits(waiting([5, 1, 3]))) == ["half within 3 s, all within 5 s"]
    assert key(plots.waits(waiting([0.02, 0.4]))) == ["half within 20 ms, all within 400 ms"]
    assert key(plots.waits(waiting([0, 0]))) == ["none waited"]


def test_waits_of_drivers_stand_side_by_side():
    told = pd.concat([waiting([0, 1 + i], driver=name) for i, name in enumerate(DRIVERS)])
    ax = drawn(plots.waits(told))
    assert [line.get_color() for line in ax.lines] == [plots.COLOURS[name] for name in DRIVERS]
    assert key(ax)[3] == "redis_zset: half within 0 s, all within 4 s"
    assert len({line.get_xdata()[-1] for line in ax.lines}) == 1
    box = ax.get_legend().get_window_extent()
    assert box.x1 <= ax.figure.bbox.x1
    assert ax.bbox.width > 0.8 * ax.figure.bbox.width


def test_equal_waits_are_seen_beneath_each_other_and_others_are_not_taken_for_them():
    one, more = waiting([1, 2]), waiting([1, 2], still=1)
    told = [one.assign(driver="memory"), one.assign(driver="sqlite"), more.assign(driver="redis_list")]
    assert [line.get_linewidth() for line in plots.waits(pd.concat(told)).lines] == [4, 2, 2]


def test_very_many_waits_are_thinned_but_for_their_ends():
    (line,) = plots.waits(waiting(np.arange(50_000.0))).lines
    assert len(line.get_xdata()) <= 3_000
    assert points(line)[0] == (0, 0)
    assert points(line)[-1][1] == 100


def test_a_closed_form_of_waits_is_dashed_from_edge_to_edge():
    ax = plots.waits(waiting([0, 1, 2, 4], driver="memory"), closed_form=lambda wait: 1 - math.exp(-wait))
    line = by_label(ax.lines)["closed form"]
    assert line.get_linestyle() == "--"
    assert points(line)[0] == (0, 0)
    assert points(line)[-1] == (ax.get_xlim()[1], 100 * (1 - math.exp(-ax.get_xlim()[1])))
    assert key(ax)[-1] == "closed form"
    assert ax.get_ylim() == (0, 106)


# -- rates --


def test_rates_are_bars_from_zero_in_the_drivers_colours():
    ax = drawn(plots.rates(RATES))
    drivers = by_label(container for container in ax.containers if isinstance(container, BarContainer))
    heights = {driver: [bar.get_height() for bar in bars] for driver, bars in drivers.items()}
    assert heights == {"sqlite": [100, 150, 60.5], "redis_list": [400, 800, 1234.4]}
    for driver, bars in drivers.items():
        assert {to_hex(bar.get_facecolor()).upper() for bar in bars} == {plots.COLOURS[driver]}
    assert ax.get_ylim()[0] == 0
    assert labels(ax.xaxis) == ["1", "2", "4"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("workers", "jobs per second")
    assert key(ax) == ["sqlite", "redis_list"]


def test_rates_are_written_above_their_bars_and_ranges():
    ax = drawn(plots.rates(RATES))
    assert [text.get_text() for text in ax.texts] == ["100", "150", "60.5", "400", "800", "1,234"]
    assert [text.xy[1] for text in ax.texts] == [120, 155, 70, 401, 820, 1300]
    assert all(text.get_window_extent().y1 <= ax.bbox.y1 for text in ax.texts)
    ranges = [container[2][0] for container in ax.containers if isinstance(container, ErrorbarContainer)]
    ends = [tuple(path[:, 1].tolist()) for lines in ranges for path in lines.get_segments()]
    assert ends == [*zip(RATES["low"], RATES["high"], strict=True)]


def test_rates_without_a_range_or_a_value():
    told = RATES[["driver", "workers", "jobs_per_second"]].copy()
    told.loc[0, "jobs_per_second"] = math.nan
    ax = drawn(plots.rates(told))
    assert [text.get_text() for text in ax.texts] == ["–", "150", "60.5", "400", "800", "1,234"]
    assert not any(isinstance(container, ErrorbarContainer) for container in ax.containers)
    assert [text.get_text() for text in plots.rates(RATES[:0]).texts] == ["no jobs yet"]


def test_many_drivers_turn_the_numbers_upright():
    arms = pd.concat([RATES.assign(driver=RATES["driver"] + f" {arm}") for arm in range(6)])
    ax = drawn(plots.rates(arms))
    assert {text.get_rotation() for text in ax.texts} == {90}
    assert all(text.get_window_extent().y1 <= ax.bbox.y1 for text in ax.texts)
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.x0)
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))
