"""One picture a function: `f(frame, *, ax=None) -> Axes`.

Without `ax` a function draws into a `Picture` of its own. An `Axes` does not show itself: a cell ends with its figure,
as in `plots.timeline(spans).figure`; a program calls `.figure.savefig("timeline.png")`. Several pictures in one:

    picture = plots.Picture(figsize=(14, 4))
    left, right = picture.subplots(1, 2)
    plots.timeline(one, ax=left)
    plots.timeline(other, ax=right)
    picture

Nothing is registered with pyplot. Axes say their units. Coordinates are seconds: those of the frame, or, where they are
a machine clock's, from the frame's first moment on. Colours are Okabe and Ito's (https://jfly.uni-koeln.de/color/), one
for each driver in every picture (`COLOURS`), and what differs in colour differs in height, hatch, dashes or marker too.
What theory says is dashed. A picture of a frame without rows says so.
"""

from qlab.drawing import COLOURS, Picture
from qlab.plots.bars import rates
from qlab.plots.circle import poll_phases
from qlab.plots.contended import fairness_by_workers, reserve_ecdf, throughput_by_workers
from qlab.plots.duels import crossover
from qlab.plots.durable import durability_cost
from qlab.plots.gantt import workers
from qlab.plots.laws import runs_by_retry_after, wait_by_utilisation
from qlab.plots.maps import storm_map
from qlab.plots.one_run import attempts, backoff, depth, timeline
from qlab.plots.peers import peers_bars
from qlab.plots.scanned import scan_wait
from qlab.plots.stairs import throughput, waits
from qlab.plots.stamps import Mark, mark, stamp, stamp_machine
from qlab.plots.verdict import deviations

__all__ = [
    "COLOURS",
    "Mark",
    "Picture",
    "attempts",
    "backoff",
    "crossover",
    "depth",
    "deviations",
    "durability_cost",
    "fairness_by_workers",
    "mark",
    "peers_bars",
    "poll_phases",
    "rates",
    "reserve_ecdf",
    "runs_by_retry_after",
    "scan_wait",
    "stamp",
    "stamp_machine",
    "storm_map",
    "throughput",
    "throughput_by_workers",
    "timeline",
    "wait_by_utilisation",
    "waits",
    "workers",
]
