"""The pictures of the theory report: runs of their own, drawn beside the closed forms that they should follow."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from qlab import frames, metrics, plots, theory
from qlab.cases import Cases, judge
from qlab.cases.case import Case
from qlab.cases.plans import SEED
from qlab.policy import Policy
from qlab.scenario import Poll
from qlab.simulation import Run, simulate
from qlab.workload import Chance, Exponential, Fixed, Poisson, Workload

_JOBS, _WARMUP = 20_000, 2_000  # of the waits
_RETRIED, _SEEN, _POLLED = 10_000, 8_000, 3_000  # jobs of the other pictures
_LOADS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
_SURE = 1.96  # standard deviations that 95 % of such means are within
_TRIES, _FAILS, _BACKOFF = 4, 0.3, (10.0, 60.0, 300.0)
_AFTER = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
_WORKERS, _INTERVAL = 8, 1.0
_RATES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6)
_ATTEMPTS = (1, 2, 3, 4)
_ENDLESS = Policy(retry_after=None)


class Drawn(NamedTuple):
    """A section of pictures.

    Attributes:
        title: What they are about.
        text: What is to be seen.
        pictures: Name, caption and picture.
    """

    title: str
    text: str
    pictures: list[tuple[str, str, Axes]]


def draw(progress: Callable[[float, str], object] | None = None) -> Iterator[Drawn]:
    """Run and draw them all, one section after another.

    Args:
        progress: Told how far it is, from 0 to 1, and what comes next.
    """
    tell = progress or (lambda *_: None)
    sections = (_waiting, _retrying, _reserving, _polling, _storming)
    for i, section in enumerate(sections):
        tell(i / len(sections), (section.__doc__ or "").splitlines()[0])
        yield section()
    tell(1.0, "")


def _waiting() -> Drawn:
    """Draw the wait against utilisation."""
    watched = _Watched()
    rows = [_wait(watched, workers, load) for workers in (1, 4) for load in _LOADS]
    curves = [_expected_wait(workers, load) for workers in (1, 4) for load in np.arange(0.02, 0.931, 0.01)]
    caption = (
        f"Mean wait of {_JOBS:,} jobs with a mean service of 1 s, and its 95 % interval from batch means, against how "
        "busy the workers are. Dashed: Erlang's formula. Grey: within which 95 % of such means should be (one worker)."
    )
    return Drawn(
        "Waiting",
        "A queue's wait grows slowly and then all at once. Four workers at the same utilisation keep jobs waiting far "
        "less than one. Near saturation even many jobs give a mean that is far off, and an interval that is wide: that "
        "is chance, not a fault.",
        [("waiting", caption, watched.stamp(plots.wait_by_utilisation(pd.DataFrame([*rows, *curves]), ax=_axes())))],
    )


def _wait(watched: "_Watched", workers: int, load: float) -> dict[str, object]:
    """Measure the mean wait at a load."""
    workload = Workload(Poisson(load * workers), Exponential(1.0), jobs=_JOBS + _WARMUP)
    run = watched(
        "memory://", workers=workers, workload=workload, poll=None, policy=_ENDLESS, seed=SEED, record_polls=False,
        progress=False,
    )  # fmt: skip
    wait = metrics.summary(run, warmup=_WARMUP).loc["wait"]
    return _expected_wait(workers, load) | {"wait": wait["value"], "low": wait["low"], "high": wait["high"]}


def _expected_wait(workers: int, load: float) -> dict[str, object]:
    wait = theory.MMc(load * workers, 1.0, workers).wait
    off = _SURE * theory.wait_error(load, _JOBS) if workers == 1 else math.nan
    return {
        "utilisation": load,
        "wait": math.nan,
        "low": math.nan,
        "high": math.nan,
        "closed_form": wait,
        "band_low": wait - off,
        "band_high": wait + off,
        "model": f"M/M/{workers}",
    }


def _retrying() -> Drawn:
    """Draw attempts and time in backoff."""
    workload = Workload(Poisson(1.0), Fixed(0.1), failures=Chance(_FAILS), jobs=_RETRIED)
    run = simulate(
        "memory://", workers=8, workload=workload, poll=None, seed=SEED, record_polls=False, progress=False,
        policy=Policy(tries=_TRIES, backoff=_BACKOFF, retry_after=None),
    ).whole()  # fmt: skip
    jobs = frames.jobs(run.trace)
    told = f"{jobs['runs'].mean():.4g} attempts a job ({theory.attempts(_FAILS, _TRIES):.4g} by theory)"
    failed = (
        f"{100 * (jobs['state'] == 'failed').mean():.3g} % failed ({100 * theory.failed_share(_FAILS, _TRIES):.3g} %)"
    )
    backoff = plots.backoff(jobs, closed_form=theory.time_in_backoff(_FAILS, _TRIES, _BACKOFF), ax=_axes())
    return Drawn(
        "Retries",
        f"Each attempt fails with probability {_FAILS}, a job has {_TRIES} tries and backoff 10, 60 and 300 s. "
        "Few jobs need the last attempt, and nearly all of the time in backoff is theirs.",
        [
            (
                "attempts",
                f"Jobs by how many attempts they took: {told}; {failed}",
                plots.stamp(plots.attempts(jobs, ax=_axes()), run),
            ),
            ("backoff", "Time in backoff of a job, by how many attempts it took", plots.stamp(backoff, run)),
        ],
    )


def _reserving() -> Drawn:
    """Draw runs per job against retry_after."""
    ways = {"by token": "starts_ack_by_token", "by id": "starts_ack_by_id"}
    cases = [
        Case(f"{way}, {after} s", "lease", "stat", metric, {"service": "exponential mean 1", "retry_after": after}, 1.0,
             jobs=_SEEN)
        for way, metric in ways.items() for after in _AFTER
    ]  # fmt: skip
    watched = _Watched()
    found = {verdict.id: verdict.got for verdict in judge(_only(cases), simulate=watched)}
    rows = [
        {"retry_after": after, "runs": found.get(f"{way}, {after} s"), "closed_form": _expected_runs(way, after)}
        | {"completion": way}
        for way in ways for after in sorted({*_AFTER, *np.arange(0.5, 5.01, 0.05).round(2).tolist()})
    ]  # fmt: skip
    picture = plots.runs_by_retry_after(pd.DataFrame(rows).astype({"runs": float}), ax=_axes())
    caption = "Runs of a job whose service is exponential with a mean of 1 s, against how long a reservation holds"
    return Drawn(
        "Reservations",
        "A reservation that is too short runs out while the job is at work, and the job runs again. A queue in which "
        "any worker may complete a job by its id runs it less often than one in which only the latest reservation "
        "counts, and pays for that with state that a late worker can change. By id runs on a broken queue (a flaw), by "
        "token on the contract's.",
        [("reservations", caption, watched.stamp(picture))],
    )


def _expected_runs(way: str, after: float) -> float:
    run_out = math.exp(-after)
    return theory.runs_by_token(run_out) if way == "by token" else theory.runs_by_id(lambda t: math.exp(-t), after)


def _polling() -> Drawn:
    """Draw when workers poll."""
    pictures = []
    for jitter, word in ((0.0, "no jitter"), (0.1, "a jitter of 10 %")):
        workload = Workload(Poisson(0.4), Fixed(0.01), jobs=_POLLED)
        run = simulate(
            "memory://", workers=_WORKERS, workload=workload, poll=Poll(_INTERVAL, jitter=jitter), seed=SEED,
            policy=_ENDLESS, progress=False,
        ).whole()  # fmt: skip
        late = frames.waits(run.trace)["wait"].tail(_POLLED // 2).mean()
        best = theory.idle_wait(_INTERVAL, _WORKERS)
        caption = (
            f"With {word}: the last {_POLLED // 2} jobs waited {late:.3g} s on average; {best:.3g} s if the workers "
            f"were apart by chance, {_INTERVAL / 2:.3g} s if they all asked at once"
        )
        picture = plots.poll_phases(frames.polls(run.trace), interval=_INTERVAL)
        pictures.append((f"polling-{100 * jitter:.0f}", caption, plots.stamp(picture, run)))
    return Drawn(
        "Polling",
        "Eight workers ask once a second, and at once again after a job. The worker behind the largest gap takes most "
        "jobs, each job sets its clock back a little, and so the gap grows, until all ask at the same moment, as buses "
        "bunch. A little jitter keeps them apart.",
        pictures,
    )


def _storming() -> Drawn:
    """Draw where a retry storm stays."""
    states = [(attempts, rate) for attempts in _ATTEMPTS for rate in _RATES]
    cases = [
        Case(f"{attempts} {rate}", "metastable", "stat", "fraction_stuck_of_8_seeds",
             {"A": attempts, "lam": rate, "mu": 1.0, "timeout": 20, "outage": 200, "horizon": 3000}, 0.0)
        for attempts, rate in states
    ]  # fmt: skip
    watched = _Watched()
    verdicts = judge(_only(cases), simulate=watched)
    rows = [(*state, verdict.got, 1.0) for state, verdict in zip(states, verdicts, strict=True)]
    frame = pd.DataFrame(rows, columns=["attempts", "arrival_rate", "stuck", "service_rate"])
    caption = (
        "Share of 8 runs that were still stuck 2,300 s after an outage of 200 s: one worker, a mean service of 1 s, a "
        "timeout of 20 s"
    )
    return Drawn(
        "A retry storm",
        "Clients that waited too long ask again, while the work of before goes on. After an outage the queue is so "
        "long that every request is late, so each is asked for as often as a client may: the load stays above what "
        "the worker can do, though the outage is over.",
        [("storm", caption, watched.stamp(plots.storm_map(frame.astype({"stuck": float}), ax=_axes())))],
    )


class _Watched:
    """A simulator that remembers what its runs were, for the stamp of a picture of all of them."""

    def __init__(self) -> None:
        self._marks: list[plots.Mark] = []

    def __call__(self, queue: Any, /, **stated: Any) -> Run:
        run = simulate(queue, **stated).whole()
        self._marks.append(plots.mark(run))
        return run

    def stamp(self, ax: Axes) -> Axes:
        return plots.stamp(ax, *self._marks)


def _axes() -> Axes:
    """Make a picture that can be read on a phone too."""
    return plots.Picture(figsize=(6.4, 3.8)).add_subplot()


def _only(cases: list[Case]) -> Cases:
    return Cases("the report's pictures", tuple(cases))
