"""Closed forms: what a queue should do on average, each with its source.

| file | what it tells |
|---|---|
| `waiting`, `fixed`, `general` | M/M/c, M/D/c, M/G/1, GI/M/1, Kingman: waits, their spread and tails, how many wait |
| `bounded` | M/M/c/K, which refuses arrivals, and closed M/M/c//N, whose clients wait |
| `retries` | attempts, failed jobs, time in backoff, a queue with retries |
| `reservations` | runs of a job whose reservation runs out; shutdowns and crashes |
| `outages` | outage and drain, amplification by retries, copies made at two moments |
| `polling` | how late idle workers find a job |
| `outbox` | one mail a tick, and so many a day |
| `sampling` | how far a simulated mean is from the truth |
| `distributions` | how likely a service takes longer than a while: the tails that `reservations` asks for |

Formulas only, in plain Python. Times are in seconds and rates per second; a station takes `rate` (jobs a second) and
`service` (mean seconds).
"""

from qlab.theory.bounded import Closed, MMcK
from qlab.theory.fixed import MDc
from qlab.theory.general import GIM1, MG1, kingman
from qlab.theory.outages import (
    Outage,
    load_factor,
    load_factor_of_layers,
    lost_by_backup,
    rows_without_job,
    vulnerable_from,
    vulnerable_from_with_budget,
)
from qlab.theory.outbox import DailyCap, burst_end, wait_for_tick
from qlab.theory.polling import (
    idle_wait,
    idle_wait_in_phase,
    idle_wait_jittered,
    idle_wait_quantile,
    polls_a_second,
    wait_with_polls,
)
from qlab.theory.reservations import (
    cut_by_shutdown,
    run_out_in_batch,
    runs_by_id,
    runs_by_id_same_service,
    runs_by_token,
    runs_under_crashes,
    runs_while_held,
    time_to_ready,
)
from qlab.theory.retries import (
    RetryQueue,
    attempts,
    failed_share,
    gaps,
    time_in_backoff,
    time_in_backoff_if_done,
    time_to_failed,
)
from qlab.theory.sampling import jobs_for, jobs_for_share, wait_error, wait_variance
from qlab.theory.station import Station
from qlab.theory.waiting import MMc, erlang_b, erlang_c

__all__ = [
    "GIM1",
    "MG1",
    "Closed",
    "DailyCap",
    "MDc",
    "MMc",
    "MMcK",
    "Outage",
    "RetryQueue",
    "Station",
    "attempts",
    "burst_end",
    "cut_by_shutdown",
    "erlang_b",
    "erlang_c",
    "failed_share",
    "gaps",
    "idle_wait",
    "idle_wait_in_phase",
    "idle_wait_jittered",
    "idle_wait_quantile",
    "jobs_for",
    "jobs_for_share",
    "kingman",
    "load_factor",
    "load_factor_of_layers",
    "lost_by_backup",
    "polls_a_second",
    "rows_without_job",
    "run_out_in_batch",
    "runs_by_id",
    "runs_by_id_same_service",
    "runs_by_token",
    "runs_under_crashes",
    "runs_while_held",
    "time_in_backoff",
    "time_in_backoff_if_done",
    "time_to_failed",
    "time_to_ready",
    "vulnerable_from",
    "vulnerable_from_with_budget",
    "wait_error",
    "wait_for_tick",
    "wait_variance",
    "wait_with_polls",
]
