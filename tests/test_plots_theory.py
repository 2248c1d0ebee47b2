"""Pictures that set runs beside theory: curves, maps, the circle of polls, and how far each case was off."""

import math
import random

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import Circle
from pictures import CASES, LOADS, POLLS, RUNS, STORMS, drawn, key, labels

from qlab import plots


def dots(ax):
    """The points of each line: [(x, y)]."""
    lines = [container for container in ax.containers if isinstance(container, ErrorbarContainer)]
    return {line.get_label(): [*zip(*line[0].get_data(), strict=True)] for line in lines}


def dashed(ax):
    return [[*zip(*line.get_data(), strict=True)] for line in ax.lines if line.get_linestyle() == "--"]


# -- curves --


def test_the_closed_form_is_dashed_and_runs_are_points_with_their_interval():
    ax = drawn(plots.wait_by_utilisation(LOADS))
    assert dots(ax) == {"M/M/1": [(0.5, 1.1), (0.8, 3.9)], "M/M/2": [(0.5, 0.3), (0.9, 4.2)]}
    assert dashed(ax) == [[(0.5, 1.0), (0.8, 4.0), (0.9, 9.0)], [(0.5, 0.33), (0.9, 4.26)]]
    ranges = [container[2][0].get_segments() for container in ax.containers if isinstance(container, ErrorbarContainer)]
    ends = [tuple(path[:, 1].round(9).tolist()) for lines in ranges for path in lines]
    assert ends == [(1.0, 1.2), (3.5, 4.3), (0.3, 0.4), (4.0, 4.5)]


def test_the_band_of_sampling_error_is_drawn_around_the_closed_form():
    bands = [area.get_paths()[0].vertices for area in plots.wait_by_utilisation(LOADS).collections[:2]]
    assert [(band[:, 1].min(), band[:, 1].max()) for band in bands] == [(0.9, 11.0), (0.3, 5.0)]


def test_utilisation_is_written_in_percent():
    ax = drawn(plots.wait_by_utilisation(LOADS))
    assert labels(ax.xaxis) == ["0", "25", "50", "75", "100"]
    assert ax.get_ylim()[0] == 0


def test_a_curve_explains_what_it_shows_and_nothing_else():
    told = ["interval of the mean", "closed form", "sampling error of such a run"]
    assert key(plots.wait_by_utilisation(LOADS)) == ["M/M/1", "M/M/2", *told]
    assert key(plots.wait_by_utilisation(LOADS[["utilisation", "wait"]])) == ["simulated"]
    assert key(plots.runs_by_retry_after(RUNS)) == ["by token", "by id", "closed form"]


def test_drivers_have_their_colours_and_share_one_closed_form():
    one = LOADS[LOADS["model"] == "M/M/1"].drop(columns="model")
    told = pd.concat([one.assign(driver=driver, wait=one["wait"] + i) for i, driver in enumerate(plots.COLOURS)])
    ax = plots.wait_by_utilisation(told)
    lines = [container for container in ax.containers if isinstance(container, ErrorbarContainer)]
    assert {line.get_label(): to_hex(line[0].get_color()).upper() for line in lines} == plots.COLOURS
    assert len({line[0].get_marker() for line in lines}) == len(plots.COLOURS)
    assert len(dashed(ax)) == 1
    both = plots.wait_by_utilisation(told.assign(model="M/M/1"))
    assert key(both)[0] == "memory, M/M/1"


def test_points_that_lie_on_each_other_are_seen_beneath_each_other():
    same = LOADS[LOADS["model"] == "M/M/1"]
    ax = plots.wait_by_utilisation(pd.concat([same, same.assign(model="the same")]))
    first, second = (container[0] for container in ax.containers if isinstance(container, ErrorbarContainer))
    assert first.get_markersize() > second.get_markersize()
    assert first.get_marker() != second.get_marker()


def test_rows_of_a_curve_may_come_in_any_order():
    ax = plots.wait_by_utilisation(LOADS.sample(frac=1, random_state=1))
    assert sorted(dashed(ax)) == [[(0.5, 0.33), (0.9, 4.26)], [(0.5, 1.0), (0.8, 4.0), (0.9, 9.0)]]


@pytest.mark.parametrize("name", ["$x^2$", "_private_", "画像", "x" * 200])
def test_a_line_may_have_any_name(name):
    entry = key(drawn(plots.wait_by_utilisation(LOADS.assign(model=name))))[0]
    assert entry.strip()
    assert len(entry) < 60


def test_runs_begin_at_one():
    ax = drawn(plots.runs_by_retry_after(RUNS))
    assert 0.9 < ax.get_ylim()[0] < 1
    assert dots(ax)["by id"] == [(1.0, 1.42), (2.0, 1.14)]


# -- the map --


def cells(ax):
    (mesh,) = [collection for collection in ax.collections if isinstance(collection, QuadMesh)]
    return mesh.get_coordinates(), mesh.get_array()


def test_a_cell_stands_around_its_rate_and_has_its_share():
    corners, shares = cells(plots.storm_map(STORMS))
    assert corners[0, :, 0].round(9).tolist() == [0.1, 0.3, 0.5, 0.7]
    assert corners[:, 0, 1].tolist() == [-0.5, 0.5, 1.5]
    assert shares.filled(-1).tolist() == [[0, 0, -1], [0, 0.25, 1]]


def test_runs_of_a_cell_are_averaged():
    several = pd.concat([STORMS.assign(stuck=0.0), STORMS.assign(stuck=1.0), STORMS.assign(stuck=1.0)])
    assert np.unique(cells(plots.storm_map(several))[1].compressed()).tolist() == [2 / 3]


def test_shares_are_written_where_there_is_room():
    ax = drawn(plots.storm_map(STORMS))
    assert sorted(text.get_text() for text in ax.texts) == ["0 %", "0 %", "0 %", "100 %", "25 %"]
    fine = pd.DataFrame(
        [(a, lam, 0.5) for a in (1, 2) for lam in np.linspace(0.01, 1, 100)], columns=STORMS.columns[:3]
    )
    assert len(plots.storm_map(fine).texts) == 0


def test_the_line_is_where_the_rate_is_the_rate_of_service_by_the_attempts():
    (line,) = plots.storm_map(STORMS).lines
    assert [*zip(*line.get_data(), strict=True)] == [(1, -0.5), (1, 0.5), (0.5, 0.5), (0.5, 1.5)]
    assert line.get_linestyle() == "--"
    assert len(plots.storm_map(STORMS.drop(columns="service_rate")).lines) == 0


def test_a_map_explains_what_was_not_run():
    told = ["none stuck", "half stuck", "all stuck"]
    assert key(plots.storm_map(STORMS)) == [*told, "not run", "λ = μ / A"]
    assert key(plots.storm_map(STORMS.dropna().query("attempts == 2"))) == [*told, "λ = μ / A"]


# -- the circle --


def place(moment, interval=1.0):
    turn = 2 * math.pi * moment / interval
    return round(math.sin(turn), 6), round(math.cos(turn), 6)


def last_dots(ax):
    return [(round(float(x), 6), round(float(y), 6)) for line in ax.lines if line.get_marker() == "o"
            for x, y in zip(*line.get_data(), strict=True)]  # fmt: skip


def test_each_worker_is_a_dot_where_it_polled_last():
    ax = plots.poll_phases(POLLS)
    assert last_dots(ax) == [place(0), place(0.25)]
    late = pd.DataFrame({"at": [0.0, 1.0, 2.5, 3.5], "worker": "worker 1"})
    assert last_dots(plots.poll_phases(late, interval=2.0)) == [place(1.5, 2.0)]


def test_time_goes_outward():
    trail = plots.poll_phases(POLLS).collections[0].get_offsets()
    radius = np.hypot(trail[:, 0], trail[:, 1])
    assert (np.diff(radius) > 0).all()
    assert radius[0] == pytest.approx(0.3)
    assert max(radius) < 1


def test_the_circle_is_a_circle_that_says_its_interval():
    ax = drawn(plots.poll_phases(POLLS, interval=0.2))
    assert ax.get_aspect() == 1
    assert [text.get_text() for text in ax.texts][:4] == ["0 ms", "50 ms", "100 ms", "150 ms"]
    assert max(patch.radius for patch in ax.patches if isinstance(patch, Circle)) == 1
    box = ax.get_window_extent()
    assert all(box.x0 <= text.get_window_extent().x0 for text in ax.texts)


def test_the_key_tells_the_longest_time_without_a_poll():
    assert key(plots.poll_phases(POLLS)) == [
        "each of 2 workers, at last",
        "before, from the start",
        "longest without a poll, at first: 0.75 s",
        "longest without a poll, at last: 0.75 s",
    ]
    assert key(plots.poll_phases(POLLS[POLLS["worker"] == "worker 1"]))[-1].endswith(": 1 s")


def test_workers_that_drift_together_are_seen_to():
    told = key(plots.poll_phases(bunching(), interval=1.0))
    first, last = (float(entry.split(": ")[1].removesuffix(" s")) for entry in told[-2:])
    assert first < 0.5
    assert last > 0.9


def bunching():
    """Eight workers that wait a second after each empty poll, and not at all after a job of 10 ms."""
    chance = random.Random("1 polls")
    due, told, job = [chance.random() for _ in range(8)], [], chance.expovariate(0.4)
    while min(due) < 3_000:
        worker = due.index(min(due))
        told.append((due[worker], f"worker {worker + 1}"))
        if job <= due[worker]:
            job += chance.expovariate(0.4)
            due[worker] += 0.01
        else:
            due[worker] += 1.0
    return pd.DataFrame(told, columns=["at", "worker"])


def test_polls_have_their_drivers_colour():
    ax = plots.poll_phases(POLLS.assign(driver="redis_list"))
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert {to_hex(line.get_markerfacecolor()).upper() for line in dots} == {plots.COLOURS["redis_list"]}


@pytest.mark.parametrize("interval", [0, -1.0, math.nan, math.inf])
def test_an_interval_that_is_none_is_refused(interval):
    with pytest.raises(ValueError, match=f"interval is {interval} s: use a number of seconds above 0"):
        plots.poll_phases(POLLS, interval=interval)


def test_an_interval_that_cannot_be_found_must_be_said():
    with pytest.raises(ValueError, match="no worker polled twice: say the interval"):
        plots.poll_phases(POLLS[:2])


# -- how far off --


def test_each_case_stands_in_its_groups_row_as_many_tolerances_off():
    ax = drawn(plots.deviations(CASES))
    assert labels(ax.yaxis) == ["mm1", "lease"]
    met, missed = (points.get_offsets() for points in ax.collections)
    assert met[:, 0].round(9).tolist() == [0.2, -0.5]
    assert met[:, 1].round().tolist() == [0, 0]
    assert missed[:, 0].round(9).tolist() == [1.5, 2.0]
    assert missed[:, 1].round().tolist() == [1, 1]


def test_missed_cases_are_named_and_said_how_far_off_where_they_do_not_fit():
    ax = drawn(plots.deviations(CASES))
    assert [text.get_text() for text in ax.texts] == ["lease.runs", "lease.far (+488)"]
    assert all(ax.bbox.x0 <= text.get_window_extent().x0 for text in ax.texts)
    assert all(text.get_window_extent().x1 <= ax.bbox.x1 for text in ax.texts)
    assert key(ax) == ["within the tolerance", "met: 2", "missed: 2"]
    assert key(plots.deviations(CASES[:2])) == ["within the tolerance", "met: 2"]


def test_cases_without_a_number_or_a_tolerance_are_left_out():
    odd = pd.DataFrame(
        [("a", "traces", "stuck", "stuck", math.nan, True), ("b", "mm1", 1.0, None, 0.1, False)], columns=CASES.columns
    )
    exact = CASES[:1].assign(tolerance=0.0)
    ax = plots.deviations(pd.concat([CASES.astype(object), odd, exact]))
    assert sum(len(points.get_offsets()) for points in ax.collections) == len(CASES)
    assert labels(drawn(ax).yaxis) == ["mm1", "lease"]
    assert key(ax)[-1] == "missed: 3, 1 of them without a number"


def test_the_band_of_met_cases_is_one_tolerance_wide():
    (band,) = plots.deviations(CASES).patches
    assert (band.get_x(), band.get_width()) == (-1, 2)
