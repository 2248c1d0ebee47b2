"""Pictures of real workers on real stores: what they reached, what a model says, and which store was the faster."""

import numpy as np
import pandas as pd
import pytest
from contended import (
    ALWAYS,
    CLASSES,
    DELETE,
    EVERYSEC,
    FULL,
    LIST,
    MACHINE,
    OFF,
    PEERS,
    RESERVES,
    SCANS,
    SQLITE,
    WHOLE,
    of_class,
    together,
)  # fmt: skip
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer
from pictures import drawn, key, labels

from qlab import frames, plots, theory
from qlab.show import rounded


def points(container):
    return [*zip(*container[0].get_data(), strict=True)]


def measured(ax):
    """The points of each arm: what its entry of the key begins with, and [(x, y)]."""
    there = [container for container in ax.containers if isinstance(container, ErrorbarContainer)]
    return {container.get_label().split(":")[0]: points(container) for container in there}


def lines(ax, label):
    return [line for line in ax.lines if line.get_label() == label]


def rows(frame, *names):
    return [*frame[[*names]].itertuples(index=False, name=None)]


# -- throughput --


def test_each_arm_is_drawn_where_it_was_measured_with_the_range_of_its_repeats():
    mine = of_class(WHOLE, CLASSES[3])
    ax = plots.throughput_by_workers(mine)
    assert measured(ax) == {
        each["arm"].iloc[0]: rows(each, "workers", "jobs_per_second") for each in (FULL, DELETE, ALWAYS)
    }
    (first, *_) = (container for container in ax.containers if isinstance(container, ErrorbarContainer))
    ends = [tuple(path[:, 1]) for path in first[2][0].get_segments()]
    assert ends == [pytest.approx(pair) for pair in rows(FULL, "low", "high")]


def test_the_dashed_curve_is_the_closed_model_of_theory_and_the_bar_across_it_its_knee():
    ax = plots.throughput_by_workers(of_class(WHOLE, CLASSES[2]))
    models = {model.arm: model for model in frames.predicted(of_class(WHOLE, CLASSES[2])).itertuples()}
    curves = lines(ax, "_model")
    assert len(curves) == len(models) == 3
    for curve, model in zip(curves, models.values(), strict=True):
        assert curve.get_linestyle() == "--"
        x, y = curve.get_data()
        assert list(x) == [*range(1, 9)]
        assert list(y) == [
            pytest.approx(theory.Closed(clients=int(n), think=model.think, service=model.demand).throughput) for n in x
        ]
        assert y[0] == pytest.approx(1 / (model.think + model.demand))
    knees = [float(line.get_xdata()[0]) for line in lines(ax, "_knee")]
    assert knees == [pytest.approx(model.knee) for model in models.values()]


def test_a_knee_beyond_the_picture_is_told_and_not_drawn():
    slow = SQLITE.assign(jobs_per_second=[200.0, 400, 800, 1_600])
    ax = plots.throughput_by_workers(slow)
    assert lines(ax, "_knee") == []
    assert "knee 192" in key(ax)[0]


def test_the_picture_says_that_the_model_is_a_prediction_and_from_what():
    assert "closed model, predicted from the run with 1 worker" in key(plots.throughput_by_workers(SQLITE))
    several = plots.throughput_by_workers(SQLITE[SQLITE["workers"] > 1])
    assert [entry for entry in key(several) if "model" in entry or "knee" in entry] == []


def test_a_range_is_explained_where_there_is_one():
    assert "range of the repeats" in key(plots.throughput_by_workers(SQLITE))
    once = SQLITE.assign(low=SQLITE["jobs_per_second"], high=SQLITE["jobs_per_second"])
    assert "range of the repeats" not in key(plots.throughput_by_workers(once))


def test_the_key_tells_the_most_and_with_how_many_workers():
    assert key(plots.throughput_by_workers(EVERYSEC))[0].startswith("redis_zset everysec: 25,900 at most (4 workers)")


def test_arms_of_unlike_durability_are_never_drawn_together():
    for picture in (plots.throughput_by_workers, plots.fairness_by_workers):
        with pytest.raises(ValueError, match=r"survive different things .*a killed worker.*a power cut.*frame\[frame"):
            picture(WHOLE)
    with pytest.raises(ValueError, match="survive different things"):
        plots.peers_bars(pd.concat([PEERS, PEERS.assign(survives=CLASSES[1])]))
    with pytest.raises(ValueError, match="survive different things"):
        plots.reserve_ecdf(pd.concat([RESERVES.assign(survives=CLASSES[1]), RESERVES.assign(survives=CLASSES[2])]))
    assert plots.throughput_by_workers(SQLITE).get_title("left") == f"Each survives {CLASSES[2]}"


def test_workers_stand_where_each_doubling_is_as_far_as_the_last():
    ax = drawn(plots.throughput_by_workers(SQLITE))
    assert labels(ax.xaxis) == ["1", "2", "4", "8"]
    places = ax.transData.transform([(count, 0) for count in (1, 2, 4, 8)])[:, 0]
    assert np.diff(places) == pytest.approx([np.diff(places)[0]] * 3)


def test_a_driver_has_its_colour_in_every_class_and_what_is_alike_in_grey_another_shape():
    for survives in CLASSES:
        mine = of_class(WHOLE, survives)
        ax = plots.throughput_by_workers(mine)
        drawn_lines = {
            container.get_label().split(":")[0]: container[0]
            for container in ax.containers
            if isinstance(container, ErrorbarContainer)
        }
        for arm, line in drawn_lines.items():
            assert to_hex(line.get_color()).upper() == plots.COLOURS[arm.split()[0]]
        assert len({line.get_marker() for line in drawn_lines.values()}) == len(drawn_lines)


def test_one_driver_has_other_markers_where_it_survives_other_things():
    def marker(rows):
        (container,) = (
            each for each in plots.throughput_by_workers(rows).containers if isinstance(each, ErrorbarContainer)
        )
        return container[0].get_marker()

    assert len({marker(each) for each in (SQLITE, FULL, OFF)}) == 3


def test_an_arm_looks_the_same_in_each_picture_whatever_the_order_of_rows():
    mine = of_class(WHOLE, CLASSES[3])
    calls = pd.DataFrame({"arm": mine["arm"], "workers": 8, "repeat": 0, "reserve": 0.001}).assign(survives=CLASSES[3])
    there = plots.throughput_by_workers(mine).containers
    looks = {
        each.get_label().split(":")[0]: each[0].get_marker() for each in there if isinstance(each, ErrorbarContainer)
    }
    drawn_calls = plots.reserve_ecdf(calls[::-1]).lines
    assert {line.get_label().split(":")[0]: line.get_marker() for line in drawn_calls} == looks


# -- the worst call, and fairness under it --


def test_the_worst_reserve_stands_above_the_fairness_on_the_same_workers():
    ax = drawn(plots.fairness_by_workers(of_class(WHOLE, CLASSES[3])))
    above, below = sorted(ax.figure.axes, key=lambda each: -each.get_position().y0)
    assert below is ax
    assert above.get_xlim() == below.get_xlim()
    assert above.get_yscale() == "log"
    assert [[*line.get_ydata()] for line in above.lines] == [[*each["reserve_max"]] for each in (FULL, DELETE, ALWAYS)]
    assert [[*line.get_ydata()] for line in below.lines] == [[*each["fewest_most"]] for each in (FULL, DELETE, ALWAYS)]
    assert below.get_ylim()[0] <= 0
    assert key(ax)[0] == "sqlite FULL: 200 ms (8 workers)"
    assert "ms" in labels(above.yaxis)[0]


def test_fairness_takes_no_more_room_than_it_is_given():
    picture = plots.Picture(figsize=(12, 4))
    left, right = picture.subplots(1, 2)
    plots.fairness_by_workers(FULL, ax=left)
    plots.fairness_by_workers(SQLITE, ax=right)
    picture.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in picture.axes]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    placed = plots.Picture(layout="none").add_axes((0.1, 0.2, 0.8, 0.7))
    plots.fairness_by_workers(FULL, ax=placed)
    above = next(axes for axes in placed.figure.axes if axes is not placed)
    assert placed.get_position().y1 < above.get_position().y0
    assert above.get_position().y1 == pytest.approx(0.9)


def test_a_call_that_took_no_time_has_no_place_on_a_log_axis_and_stops_nothing():
    drawn(plots.fairness_by_workers(FULL.assign(reserve_max=0.0)))
    drawn(plots.fairness_by_workers(FULL.assign(reserve_max=float("nan"))))


# -- the distribution of reserves --


def test_the_share_of_reserves_that_were_over_is_of_all_repeats_of_the_most_workers():
    ax = plots.reserve_ecdf(RESERVES)
    mine = RESERVES[RESERVES["workers"] == 8]
    for line, (arm, rows) in zip(ax.lines, mine.groupby("arm", sort=False), strict=True):
        x, y = line.get_data()
        assert [*x] == sorted(rows["reserve"])
        assert [*y] == pytest.approx([100 * (i + 1) / 600 for i in range(600)])
        assert line.get_label().startswith(arm)
    assert ax.get_title("left") == "8 workers"
    assert ax.get_xscale() == "log"


def test_the_key_tells_the_half_the_slowest_of_a_hundred_and_the_slowest():
    told = pd.DataFrame(
        {"arm": "sqlite FULL", "workers": 2, "repeat": 0, "reserve": [i / 1_000 for i in range(1, 102)]}
    )
    assert key(plots.reserve_ecdf(told)) == ["sqlite FULL: half within 51 ms, 99 % 100 ms, all 101 ms"]


def test_a_number_of_workers_can_be_chosen_and_one_that_is_not_there_is_refused():
    ax = plots.reserve_ecdf(RESERVES, workers=1)
    assert (
        max(ax.lines[0].get_xdata())
        == RESERVES[RESERVES["arm"] == "sqlite NORMAL"].query("workers == 1")["reserve"].max()
    )
    with pytest.raises(ValueError, match=r"nothing was run with 3 workers: use one of 1, 8"):
        plots.reserve_ecdf(RESERVES, workers=3)


def test_many_calls_are_thinned_and_the_slowest_is_kept():
    many = pd.DataFrame({"arm": "sqlite FULL", "workers": 1, "repeat": 0, "reserve": np.arange(1, 100_001) / 1e6})
    (line,) = plots.reserve_ecdf(many).lines
    assert len(line.get_xdata()) <= 3_000
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (0.1, 100)


# -- the crossover --


def test_redis_is_held_against_the_fastest_sqlite_of_its_class():
    found = measured(plots.crossover(together(FULL, DELETE, ALWAYS)))
    assert list(found) == ["redis_zset always / sqlite FULL"]
    (told,) = found.values()
    assert [x for x, _ in told] == [1, 2, 4, 8]
    expected = (ALWAYS["jobs_per_second"] / FULL["jobs_per_second"]).tolist()
    assert [y for _, y in told] == pytest.approx(expected)


def test_a_ratio_reaches_from_the_slowest_by_the_fastest_to_the_opposite():
    ax = plots.crossover(together(FULL, ALWAYS))
    (container,) = (each for each in ax.containers if isinstance(each, ErrorbarContainer))
    ratio = (ALWAYS["jobs_per_second"] / FULL["jobs_per_second"]).to_numpy()
    ends = [path[:, 1] for path in container[2][0].get_segments()]
    assert np.array(ends) == pytest.approx(np.stack([ratio * 0.9 / 1.1, ratio * 1.1 / 0.9], axis=1))


def test_only_what_survives_the_same_is_compared():
    told = list(measured(plots.crossover(WHOLE)))
    assert told == [
        "redis_zset everysec / sqlite NORMAL",
        "redis_list everysec / sqlite NORMAL",
        "redis_zset always / sqlite FULL",
        "redis_zset none / sqlite OFF",
    ]
    ax = plots.crossover(together(SQLITE, ALWAYS))
    assert [text.get_text() for text in ax.texts] == ["nothing to compare: no SQLite and Redis of like durability"]


def test_the_line_at_one_parts_who_is_faster():
    ax = drawn(plots.crossover(WHOLE))
    assert [[*line.get_ydata()] for line in ax.lines if len(line.get_xdata()) == 2] == [[1, 1]]
    places = {text.get_text(): text.get_window_extent().y0 for text in ax.texts}
    assert places["Redis faster"] > places["SQLite faster"]
    assert ax.get_yscale() == "log"


def test_it_may_be_against_the_length_of_a_job_or_a_round_trip_each_number_of_workers_a_line():
    several = pd.concat([together(SQLITE, EVERYSEC).assign(length=length) for length in (0.0, 0.001, 0.005)])
    ax = drawn(plots.crossover(several[several["workers"].isin([1, 8])]))
    assert ax.get_xlabel() == "length of a job"
    assert labels(ax.xaxis) == ["0 s", "1 ms", "5 ms"]
    assert list(measured(ax)) == [
        "redis_zset everysec / sqlite NORMAL, 1 worker",
        "redis_zset everysec / sqlite NORMAL, 8 workers",
    ]
    markers = [each[0].get_marker() for each in ax.containers if isinstance(each, ErrorbarContainer)]
    assert len(set(markers)) == 2
    far = plots.crossover(several.rename(columns={"length": "round_trip"}))
    assert far.get_xlabel() == "round trip added on the way to the server"
    assert plots.crossover(several, by="workers").get_xlabel() == "workers"


def test_a_round_trip_is_told_by_the_name_of_an_arm_and_sqlite_has_none():
    def far(milliseconds):
        rates = EVERYSEC["jobs_per_second"] / (1 + milliseconds)
        return EVERYSEC.assign(arm=f"redis_zset everysec +{milliseconds} ms", jobs_per_second=rates)

    told = pd.concat([together(SQLITE, EVERYSEC, far(0.5), far(2)), LIST])
    ax = drawn(plots.crossover(told[told["workers"].isin([1, 8])], by="round_trip"))
    assert labels(ax.xaxis) == ["0 s", "500 µs", "2 ms"]
    found = measured(ax)
    assert list(found) == [
        "redis_zset everysec / sqlite NORMAL, 1 worker",
        "redis_zset everysec / sqlite NORMAL, 8 workers",
    ]
    ratio = 8_400 / 31_000
    (one, _) = found.values()
    assert one == [(0, pytest.approx(ratio)), (0.0005, pytest.approx(ratio / 1.5)), (0.002, pytest.approx(ratio / 3))]


def test_a_round_trip_is_compared_with_none_over_tcp_where_that_was_run():
    tcp = EVERYSEC.assign(arm="redis_zset everysec tcp", jobs_per_second=6_200.0)
    far = EVERYSEC.assign(arm="redis_zset everysec +1 ms", jobs_per_second=900.0)
    told = together(SQLITE, EVERYSEC, tcp, far)
    (line,) = measured(plots.crossover(told[told["workers"] == 1], by="round_trip")).values()
    assert line == [(0, pytest.approx(0.2)), (0.001, pytest.approx(900 / 31_000))]


def test_an_axis_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="by is 'payload': use one of workers, length, round_trip"):
        plots.crossover(WHOLE, by="payload")
    with pytest.raises(ValueError, match=r"has no column 'length'.*frame\.assign\(length=0\.001\)"):
        plots.crossover(WHOLE, by="length")
    with pytest.raises(ValueError, match="has no column 'round_trip'"):
        plots.crossover(WHOLE, by="round_trip")
    plots.crossover(WHOLE[:0], by="round_trip")


# -- what durability costs --


def bars(ax):
    return [(round(bar.get_height()), to_hex(bar.get_facecolor()).upper(), bar.get_hatch()) for bar in ax.patches]


def test_each_driver_has_its_arms_side_by_side_what_survives_least_first():
    ax = drawn(plots.durability_cost(WHOLE))
    blue, orange, red, black = (plots.COLOURS[name] for name in ("sqlite", "redis_zset", "redis_list", "memory"))
    assert [(height, colour) for height, colour, _ in bars(ax)] == [
        *((33_000, blue), (31_000, blue), (1_500, blue), (435, blue)),
        *((9_000, orange), (8_400, orange), (1_660, orange), (8_100, red), (90_000, black)),
    ]  # fmt: skip
    assert labels(ax.xaxis) == ["sqlite", "redis_zset", "redis_list", "memory"]
    assert ax.get_yscale() == "log"
    sqlite = [hatch for _, _, hatch in bars(ax)[:4]]
    assert len(set(sqlite)) == 3
    assert sqlite[2] == sqlite[3]


def test_over_a_bar_stands_by_how_much_it_is_slower_than_what_survives_less():
    texts = [text.get_text() for text in plots.durability_cost(WHOLE).texts]
    assert texts[:4] == ["OFF\n33,000", "NORMAL\n31,000\n÷ 1.06", "FULL\n1,500\n÷ 22", "DELETE\n435\n÷ 75.9"]
    assert texts[-1] == "90,000"
    faster = together(OFF, SQLITE.assign(jobs_per_second=66_000.0))
    assert plots.durability_cost(faster).texts[1].get_text() == "NORMAL\n66,000\n× 2"


def test_the_cost_is_of_one_worker_or_of_as_many_as_are_asked_for():
    assert plots.durability_cost(WHOLE).get_title("left") == "1 worker"
    assert bars(plots.durability_cost(WHOLE, workers=8))[0][0] == 23_000
    with pytest.raises(ValueError, match="nothing was done with 3 workers: use one of 1, 2, 4, 8"):
        plots.durability_cost(WHOLE, workers=3)


# -- scans and peers --


def test_a_way_to_scan_is_a_row_with_what_half_most_and_all_dispatches_waited():
    ax = drawn(plots.scan_wait(SCANS))
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    told = [(float(line.get_xdata()[0]), int(line.get_ydata()[0])) for line in dots]
    assert told == [(wait, row) for row, waits in enumerate(rows(SCANS, "p50_s", "p95_s", "max_s")) for wait in waits]
    assert len({line.get_marker() for line in dots}) == 3
    assert labels(ax.yaxis) == ["no scan", "one transaction", "chunks of 100"]
    assert ax.texts[1].get_text() == "half within 410 ms, 95 % 800 ms, all 860 ms; the scan took 900 ms"
    assert key(ax) == ["half of them stored within", "95 % of them stored within", "all of them stored within"]


def test_peers_stand_the_fastest_first_with_qlab_in_the_colour_of_its_driver():
    ax = drawn(plots.peers_bars(PEERS))
    assert labels(ax.yaxis) == ["qlab, SQLite", "huey, SQLite", "persist-queue, SQLite"]
    assert [round(bar.get_width()) for bar in ax.patches] == [6_000, 5_600, 4_070, 4_010, 2_470, 2_280]
    assert to_hex(ax.patches[1].get_facecolor()).upper() == plots.COLOURS["sqlite"]
    grey = {to_rgb(bar.get_facecolor()[:3]) for bar in ax.patches[2:]}
    assert all(red == green == blue for red, green, blue in grey)


def test_what_does_not_acknowledge_is_hatched_and_the_key_says_what_that_means():
    ax = plots.peers_bars(PEERS)
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, False, True, True, False, False]
    assert key(ax) == ["1 worker", "4 workers", "no acknowledgement: a killed worker's job is gone"]
    assert key(plots.peers_bars(PEERS[PEERS["acknowledges"]])) == ["1 worker", "4 workers"]


# -- what stands in them and under them --


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        *((31e-6, "31 µs"), (0.00125, "1.25 ms"), (2.14159, "2.14 s"), (0.0, "0 s"), (float("nan"), "–")),
        *((999.4e-6, "999 µs"), (999.6e-6, "1 ms"), (0.9996, "1 s"), (7_200.0, "7,200 s"), (5e-8, "0.05 µs")),
        *((99.97e-6, "100 µs"), (-0.002, "-2 ms")),
    ],
)
def test_seconds_are_told_with_three_digits_in_the_unit_that_suits(seconds, told):
    assert rounded(seconds) == told


def test_under_a_picture_stand_its_stores_and_the_machine():
    ax = plots.stamp_machine(plots.throughput_by_workers(together(SQLITE, EVERYSEC, LIST)), SQLITE["server"], MACHINE)
    told = ax.texts[-1].get_text().replace("\n", " ")
    assert told == (
        "SQLite 3.40.1, WAL, synchronous=NORMAL x86_64, 2 cores, Linux 6.1 · Python CPython 3.11.7 · "
        "stores on /tmp (ext4)"
    )
