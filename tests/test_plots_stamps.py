"""Under a picture of a run stands what it is of: the store and the trace's digest."""

import pytest
from matplotlib.figure import Figure
from pictures import PICTURES, drawn

from qlab import Lab, frames, plots, simulate
from qlab.export import pictures
from qlab.scenario import named
from qlab.trace import Trace


@pytest.fixture(scope="module")
def run():
    return simulate("memory://", named("between_polls", seed=7))


def stamped(ax):
    return ax.texts[-1]


def test_a_stamp_says_the_store_the_seed_and_the_digest(run):
    ax = plots.stamp(plots.timeline(frames.spans(run.trace)), run)
    assert stamped(ax).get_text() == f"memory · seed 7 · trace {run.trace.digest()}"


@pytest.mark.parametrize("odd", [None, 5, "memory", Trace()])
def test_what_is_no_run_is_refused_before_anything_is_written(odd):
    ax = plots.timeline(frames.spans(Trace()))
    written = len(ax.texts)
    with pytest.raises(TypeError, match="a stamp is of a Run, such as simulate gives, .* not of"):
        plots.stamp(ax, odd)
    assert len(ax.texts) == written


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
def test_a_stamp_stands_below_any_picture_and_its_key_and_inside(picture, empty, run):
    ax = drawn(plots.stamp(picture(PICTURES[picture][empty]), run))
    box, above = stamped(ax).get_window_extent(), ax.get_legend() or ax.xaxis.label
    assert box.y1 <= above.get_window_extent().y0
    assert box.y0 >= 0
    assert ax.bbox.x0 - 1 <= box.x0
    assert box.x1 <= ax.figure.bbox.x1


def test_equal_runs_share_a_line_and_others_have_their_own(run, tmp_path):
    other = simulate(f"sqlite:///{tmp_path / 'a.db'}", named("between_polls", seed=7))
    third = simulate("memory://", named("between_polls", seed=8))
    ax = plots.stamp(plots.timeline(frames.spans(run.trace)), run, other, third)
    first, second = stamped(ax).get_text().split("\n")
    assert first.startswith("memory ≡ SQLite ")
    assert first.endswith(f"seed 7 · trace {run.trace.digest()}")
    assert second == f"memory · seed 8 · trace {third.trace.digest()}"


def test_many_runs_share_one_line_and_one_digest_for_all(run):
    def line(*digests):
        marks = [plots.Mark("memory", f"{seed}", digest) for seed, digest in enumerate(digests)]
        return stamped(plots.stamp(plots.timeline(frames.spans(run.trace)), *marks)).get_text()

    assert line(*"abcdef").startswith("memory · 6 seeds · 6 runs, their traces ")
    assert line(*"abcdef") == line(*"abcdef") != line(*"abcdeg")
    assert line(*"abcdef") != line(*"bacdef")
    assert line(*"aa") == "memory · 2 seeds · trace a"
    assert plots.mark(run) == plots.Mark("memory", "7", run.trace.digest())


def test_a_long_description_is_wrapped_and_leaves_the_axes_their_width(run):
    class Long:
        trace = run.trace
        description = "Redis 7.0.15, append-only file synced every second, layout=list, " * 4

    alone = drawn(plots.timeline(frames.spans(run.trace), ax=Figure(figsize=(4, 3), layout="constrained").subplots()))
    ax = plots.timeline(frames.spans(run.trace), ax=Figure(figsize=(4, 3), layout="constrained").subplots())
    drawn(plots.stamp(ax, Long()))
    assert stamped(ax).get_text().count("\n") >= 3
    assert ax.bbox.width == pytest.approx(alone.bbox.width, rel=0.05)


def test_every_picture_of_a_lab_is_stamped_with_its_own_sides(monkeypatch):
    told, stamp = [], plots.stamp
    monkeypatch.setattr(plots, "stamp", lambda ax, *runs: told.append(runs) or stamp(ax, *runs))
    with Lab(["memory", "sqlite"]) as lab:
        memory, sqlite = lab.sides
        assert len(pictures(lab)) == len(told)
        assert set(told) == {(memory, sqlite), (memory,), (sqlite,)}
