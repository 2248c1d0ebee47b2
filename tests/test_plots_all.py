"""What holds for every picture: units, places, keys, grounds, and what it says when there is nothing."""

import re
from io import BytesIO

import matplotlib.pyplot
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from pictures import PICTURES, POLLS, drawn

from qlab import plots


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    assert matplotlib.pyplot.get_fignums() == []


@pytest.fixture(params=PICTURES, ids=lambda picture: picture.__name__)
def picture(request):
    return request.param


def test_every_public_picture_is_held_to_what_follows():
    others = ("COLOURS", "Mark", "Picture", "mark", "stamp", "stamp_machine")
    public = {getattr(plots, name) for name in plots.__all__ if name not in others}
    assert public == set(PICTURES)


def test_axes_say_what_they_measure_and_in_what(picture):
    full, empty, told, _ = PICTURES[picture]
    for frame in (full, empty):
        ax = picture(frame)
        assert (ax.get_xlabel(), ax.get_ylabel()) == told


def test_an_empty_frame_makes_a_picture_that_says_so(picture):
    full, empty, _, said = PICTURES[picture]
    assert [text.get_text() for text in drawn(picture(empty)).texts] == [said]
    assert [text.get_text() for text in drawn(picture(full)).texts if text.get_text() == said] == []


def test_one_row_is_enough_for_a_picture(picture):
    if picture is plots.poll_phases:
        drawn(picture(POLLS[:1], interval=1.0))
    else:
        drawn(picture(PICTURES[picture][0][:1]))


def test_a_frame_is_left_as_it_was(picture):
    frame = PICTURES[picture][0]
    before = frame.copy()
    picture(frame)
    assert frame.equals(before)


def test_a_picture_goes_where_it_is_told(picture):
    full, empty, *_ = PICTURES[picture]
    figure = Figure(figsize=(5, 3))
    ax = figure.subplots()
    assert picture(full, ax=ax) is ax
    assert picture(empty, ax=figure.add_subplot()) in figure.axes
    assert tuple(figure.get_size_inches()) == (5, 3)


def test_the_key_covers_nothing_and_stays_inside(picture):
    ax = drawn(picture(PICTURES[picture][0]))
    box = ax.get_legend().get_window_extent()
    assert box.y1 < ax.xaxis.label.get_window_extent().y0
    assert box.y0 >= 0
    assert box.x0 >= 0
    assert box.x1 <= ax.figure.bbox.x1


def test_a_picture_has_an_opaque_white_ground(picture):
    file = BytesIO()
    picture(PICTURES[picture][0]).figure.savefig(file, format="png")
    file.seek(0)
    assert imread(file)[0, 0].tolist() == [1, 1, 1, 1]


def test_the_colours_of_drivers_differ_in_brightness_or_in_dashes():
    def brightness(colour):
        red, green, blue = to_rgb(colour)
        return 0.299 * red + 0.587 * green + 0.114 * blue

    shades = sorted(brightness(colour) for colour in plots.COLOURS.values())
    assert shades[0] < 0.1
    assert shades[-1] > 0.6


@pytest.mark.parametrize("odd", [None, 5, "waits", [1.0]])
def test_what_is_no_frame_is_refused_with_what_to_draw(picture, odd):
    with pytest.raises(TypeError, match=r"is no DataFrame: draw (frames\.|a frame as help\(plots\.)"):
        picture(odd)


def refusal(picture, frame):
    try:
        picture(frame)
    except ValueError as refused:
        return str(refused)
    return ""


def test_a_column_is_refused_by_its_name_where_it_is_missing_or_may_be_left_out(picture):
    full = PICTURES[picture][0]
    for less in (*(full.drop(columns=column) for column in full.columns), pd.DataFrame()):
        said = refusal(picture, less)
        assert not said or re.search(r"the frame has no column '(\w+)'", said)[1] not in less.columns


def test_a_frame_of_something_else_is_refused_by_the_column_that_it_lacks(picture):
    for other in (
        PICTURES[picture][0].rename(columns=lambda name: f"{name}_"),
        POLLS[["at"]].rename(columns={"at": "x"}),
    ):
        with pytest.raises(ValueError, match=r"the frame has no column '\w+'; it has \w+.*: draw "):
            picture(other)
    assert matplotlib.pyplot.get_fignums() == []
