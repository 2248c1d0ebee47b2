"""One picture a function: `f(frame, *, ax=None) -> Axes`.

Without `ax` a function draws into a `Picture` of its own. An `Axes` does not show itself: a cell ends with its figure,
as in `plots.timeline(spans).figure`; a program calls `.figure.savefig("timeline.png")`. Several pictures in one:

    picture = plots.Picture(figsize=(14, 4))
    left, right = picture.subplots(1, 2)
    plots.timeline(one, ax=left)
    plots.timeline(other, ax=right)
    picture

Nothing is registered with pyplot. Axes say their units. Coordinates are seconds: those of the frame, or, where they are
a machine clock's, from the frame's first moment on. Colours are Okabe and Ito's (https://jfly.uni-koeln.de/color/), and
what differs in colour differs in height, hatch, dashes or marker too. What theory says is dashed. A picture
of a frame without rows says so.
"""

from qlab.drawing import COLOURS, Picture
from qlab.plots.bars import rates
from qlab.plots.circle import poll_phases
from qlab.plots.gantt import workers
from qlab.plots.laws import runs_by_retry_after, wait_by_utilisation
from qlab.plots.maps import storm_map
from qlab.plots.one_run import attempts, backoff, depth, timeline
from qlab.plots.stairs import throughput, waits
from qlab.plots.stamps import Mark, mark, stamp
from qlab.plots.verdict import deviations

__all__ = [
    "COLOURS",
    "Mark",
    "Picture",
    "attempts",
    "backoff",
    "depth",
    "deviations",
    "mark",
    "poll_phases",
    "rates",
    "runs_by_retry_after",
    "stamp",
    "storm_map",
    "throughput",
    "timeline",
    "wait_by_utilisation",
    "waits",
    "workers",
]
