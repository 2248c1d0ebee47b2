"""What tests read off a picture, and the frames that many of them draw."""

import pandas as pd
from contended import CLASSES, PEERS, RESERVES, SCANS, WHOLE, of_class

from qlab import frames, plots
from qlab.trace import Event, Kind, Trace


def dispatched(at, job, name="resize", delay=0.0):
    return Event(at, Kind.DISPATCHED, job, name, until=at + delay)


def reserved(at, job, attempt=1, worker="w1", since=0.0, retry_after=10.0):
    return Event(at, Kind.RESERVED, job, "", attempt, worker, since, at + retry_after)


def event(at, kind, job, attempt=1, worker="w1", until=None, detail=""):
    return Event(at, kind, job, "", attempt, worker, until=until, detail=detail)


STORY = Trace(
    [
        dispatched(0, 1),
        dispatched(0, 2, "mail", delay=4),
        dispatched(0, 3, "flaky"),
        reserved(1, 1),
        event(3, Kind.COMPLETED, 1),
        reserved(3, 3),
        event(4, Kind.RELEASED, 3, until=9, detail="ValueError: one"),
        reserved(5, 2, 1, "slow", 4),
        reserved(9, 3, 2, since=9),
        event(10, Kind.FAILED, 3, 2, detail="ValueError: two"),
        event(15, Kind.EXPIRED, 2, until=15),
        reserved(16, 2, 2, "w1", 15),
        event(18, Kind.SUPERSEDED, 2, 1, "slow", detail="complete"),
        event(20, Kind.COMPLETED, 2, 2),
    ]
)


def many(jobs, start=0.0, each=1.0):
    """Jobs that are completed one after the other, each so many seconds after the last."""
    told = [dispatched(start, job) for job in range(1, jobs + 1)]
    for job in range(1, jobs + 1):
        at = start + (job - 1) * each
        told += [reserved(at, job, since=start), event(at + each, Kind.COMPLETED, job)]
    return Trace(told)


POLLS = pd.DataFrame({"at": [0.0, 0.25, 1.0, 1.25, 2.0, 2.25], "worker": ["worker 1", "worker 2"] * 3})
LOADS = pd.DataFrame(
    {
        "utilisation": [0.5, 0.8, 0.9, 0.5, 0.9],
        "wait": [1.1, 3.9, float("nan"), 0.3, 4.2],
        "low": [1.0, 3.5, float("nan"), 0.3, 4.0],
        "high": [1.2, 4.3, float("nan"), 0.4, 4.5],
        "closed_form": [1.0, 4.0, 9.0, 0.33, 4.26],
        "band_low": [0.9, 3.6, 7.0, 0.3, 3.5],
        "band_high": [1.1, 4.4, 11.0, 0.36, 5.0],
        "model": ["M/M/1", "M/M/1", "M/M/1", "M/M/2", "M/M/2"],
    }
)
RUNS = pd.DataFrame(
    {
        "retry_after": [1.0, 2.0, 1.0, 2.0],
        "runs": [1.58, 1.16, 1.42, 1.14],
        "closed_form": [1.582, 1.157, 1.42, 1.138],
        "completion": ["by token", "by token", "by id", "by id"],
    }
)
STORMS = pd.DataFrame(
    [(1, 0.2, 0.0), (1, 0.4, 0.0), (2, 0.2, 0.0), (2, 0.4, 0.25), (2, 0.6, 1.0)],
    columns=["attempts", "arrival_rate", "stuck"],
).assign(service_rate=1.0)
CASES = pd.DataFrame(
    [
        ("mm1.wait", "mm1", 1.0, 1.02, 0.1, True),
        ("mm1.tail", "mm1", 4.6, 4.5, 0.2, True),
        ("lease.runs", "lease", 1.5, 1.8, 0.2, False),
        ("lease.far", "lease", 1.5, 99.0, 0.2, False),
    ],
    columns=["id", "group", "expected", "got", "tolerance", "met"],
)
RATES = pd.DataFrame(
    [
        *(("sqlite", 1, 100.0, 90.0, 120.0), ("sqlite", 2, 150.0, 140.0, 155.0), ("sqlite", 4, 60.5, 50.0, 70.0)),
        *(("redis_list", 1, 400.0, 390.0, 401.0), ("redis_list", 2, 800.0, 790.0, 820.0)),
        ("redis_list", 4, 1234.4, 1200.0, 1300.0),
    ],
    columns=["driver", "workers", "jobs_per_second", "low", "high"],
)


EMPTY = Trace()
PICTURES = {
    plots.timeline: (frames.spans(STORY), frames.spans(EMPTY), ("time (s)", "job"), "no jobs yet"),
    plots.depth: (frames.depth(STORY), frames.depth(EMPTY), ("time (s)", "jobs"), "no jobs yet"),
    plots.attempts: (frames.jobs(STORY), frames.jobs(EMPTY), ("attempts", "jobs"), "no jobs yet"),
    plots.backoff: (
        frames.jobs(STORY),
        frames.jobs(EMPTY),
        ("attempts", "time in backoff (s)"),
        "no job has ended yet",
    ),
    plots.throughput: (frames.events(STORY), frames.events(EMPTY), ("time (s)", "jobs completed"), "no jobs yet"),
    plots.waits: (
        *(frames.waits(STORY), frames.waits(EMPTY)),
        *(("wait (s)", "waits that were over (%)"), "no job has waited yet"),
    ),
    plots.workers: (frames.attempts(STORY), frames.attempts(EMPTY), ("time (s)", "worker"), "no attempts yet"),
    plots.rates: (RATES, RATES[:0], ("workers", "jobs per second"), "no jobs yet"),
    plots.wait_by_utilisation: (LOADS, LOADS[:0], ("utilisation (%)", "mean wait (s)"), "no runs yet"),
    plots.runs_by_retry_after: (RUNS, RUNS[:0], ("retry_after (s)", "runs per job"), "no runs yet"),
    plots.storm_map: (
        *(STORMS, STORMS[:0]),
        *(("arrival rate λ (requests per second)", "attempts of a request"), "no runs yet"),
    ),
    plots.poll_phases: (
        *(POLLS, frames.polls(EMPTY)),
        *(("when in the interval a worker polls (s)", "time (s), outward"), "no polls yet"),
    ),
    plots.throughput_by_workers: (
        *(of_class(WHOLE, CLASSES[2]), WHOLE[:0]),
        *(("workers", "jobs per second"), "no runs yet"),
    ),
    plots.fairness_by_workers: (
        *(of_class(WHOLE, CLASSES[3]), WHOLE[:0]),
        *(("workers", "fewest / most jobs"), "no runs yet"),
    ),
    plots.reserve_ecdf: (RESERVES, RESERVES[:0], ("time of a reserve", "reserves that were over (%)"), "no runs yet"),
    plots.crossover: (WHOLE, WHOLE[:0], ("workers", "Redis / SQLite, jobs per second"), "no runs yet"),
    plots.durability_cost: (WHOLE, WHOLE[:0], ("driver", "jobs per second"), "no runs yet"),
    plots.scan_wait: (SCANS, SCANS[:0], ("wait of a dispatch", "scan stored in"), "no runs yet"),
    plots.peers_bars: (PEERS, PEERS[:0], ("jobs per second", "queue"), "no runs yet"),
    plots.deviations: (CASES, CASES[:0], ("(got − expected) / tolerance", "group of cases"), "no cases yet"),
}
"""Each picture: a frame, one without rows, what its axes say, and what it says when there is nothing."""


def drawn(ax):
    """Lay the picture out, so that places and texts are final."""
    ax.figure.draw_without_rendering()
    return ax


def labels(axis):
    """The tick labels that can be seen, in order."""
    low, high = sorted(axis.get_view_interval())
    shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1.get_text() for tick in shown]


def key(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def by_label(artists):
    return {artist.get_label(): artist for artist in artists}
