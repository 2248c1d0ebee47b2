"""Runs of an outbox: one mail a tick, so many a day, a burst at its pace."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np

from qlab import drivers, frames
from qlab.cases.case import Case
from qlab.cases.laws import positive
from qlab.cases.observed import Numbers, numbers
from qlab.cases.plans import SEED, Plan, Simulate, key_of, pick, simulated
from qlab.clock import SimulatedClock
from qlab.job import Attempt
from qlab.scenario import Arrival, Poll
from qlab.systems.outbox import mail_outbox
from qlab.workload import Fixed, Poisson, Workload

DAY = 86_400.0
_DAYS_A_RUN = 2_000  # so that a trace does not grow beyond what memory has
_DAYS_BEFORE = 100  # until the first day that counts

_Left: TypeAlias = Numbers


def outbox(case: Case) -> Plan:
    """Plan an outbox, by what the metric asks of it."""
    plans = {"mean_wait_s": _ticks, "last_sent_s": _burst, "left_over": _days, "P_left": _days}
    if case.metric not in plans:
        raise case.unknown_metric(", ".join(plans))
    return plans[case.metric](case)


def _ticks(case: Case) -> Plan:
    """Plan a worker that a cron starts at every tick, for one mail."""
    tick = positive(case, "tick_s")
    workload = Workload(Poisson(positive(case, "lam_per_min") / 60), Fixed(0.0), jobs=case.count() + case.warmup)

    def run(simulate: Simulate) -> Numbers:
        done = simulated(
            simulate,
            workload=workload,
            poll=Poll(tick, phase=0.0, beat=True),
        )
        return numbers(frames.jobs(done.trace)["wait"])[case.warmup :]

    return Plan(key_of(case), run, lambda waits: float(waits.mean()))


def _send(_: Attempt) -> None:
    """Send nothing: the moment is what matters."""


def _burst(case: Case) -> Plan:
    """Plan the mail outbox itself: a burst at midnight, its pace and its cap."""
    mails, pace, cap = case.whole("N"), case.number("pace_s"), case.whole("cap")

    def run(simulate: Simulate) -> float:
        clock = SimulatedClock(epoch=datetime(2030, 1, 1, tzinfo=UTC))
        store = drivers.open("memory://")
        with store:
            outbox = mail_outbox(store, _send, pace=pace, daily_cap=cap, clock=clock)  # which starts no worker
            burst = [Arrival(0.0, "mail", n) for n in range(mails)]
            done = simulated(simulate, outbox.queue, arrivals=burst)
        return float(numbers(frames.jobs(done.trace)["first_reserved_at"]).max())

    return Plan(key_of(case), run, float)


# -- a cap a day --


def _days(case: Case) -> Plan:
    """Plan a worker that comes once at each day's end, and takes no more than the cap."""
    return Plan(key_of(case), lambda simulate: _left(case, simulate), pick(case, _METRICS))


def _left(case: Case, simulate: Simulate) -> _Left:
    """Tell how many mails were left at the end of each day."""
    rate, cap, days = positive(case, "lam_per_day"), case.whole("cap"), case.count()
    parts = []
    for n, first in enumerate(range(0, days, _DAYS_A_RUN)):
        count = min(_DAYS_A_RUN, days - first)
        until = (_DAYS_BEFORE + count) * DAY
        done = simulated(
            simulate,
            workload=Workload(Poisson(rate / DAY), Fixed(0.0)),
            batch=cap,
            poll=Poll(DAY, phase=0.0, beat=True),
            seed=SEED + n,
            until=until,
        )
        jobs = frames.jobs(done.trace)
        ends = DAY * np.arange(_DAYS_BEFORE + 1, _DAYS_BEFORE + count + 1)
        come = np.searchsorted(np.sort(numbers(jobs["dispatched_at"])), ends, side="right")
        gone = np.searchsorted(np.sort(numbers(jobs["finished_at"])), ends, side="right")
        parts.append(come - gone)
    return np.concatenate(parts).astype(np.float64)


_METRICS: dict[str, Callable[[_Left], float]] = {
    "left_over": lambda left: float(left.mean()),
    "P_left": lambda left: float((left > 0).mean()),
}
