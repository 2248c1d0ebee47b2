"""What a trace tells, as tables: one frame a question.

Every time in a frame is in seconds: NaN where something did not happen, inf for never. A frame has the same columns and
dtypes also when the trace is empty. Text columns are categories, with an empty text where there is nothing to say.

`SPANS` and `MARKS` are what a job can be in for a while, and what can happen to it at a moment, in `spans`; `ENDS` is
how a reservation can have ended, in `attempts`.

`jobs`, `depth` and `spans` tell what had happened by the trace's last moment. They follow the order of the trace: a
clock that was set back counts as one that stood still, so no duration is negative.
"""

from qlab.frames.asks import polls, requests
from qlab.frames.columns import events
from qlab.frames.contended import contention, reserves
from qlab.frames.job_attempts import ENDS, attempts
from qlab.frames.job_spans import MARKS, SPANS, oldest, spans, waits
from qlab.frames.job_totals import depth, jobs
from qlab.frames.peer_rates import peers
from qlab.frames.predictions import predicted

__all__ = [
    "ENDS",
    "MARKS",
    "SPANS",
    "attempts",
    "contention",
    "depth",
    "events",
    "jobs",
    "oldest",
    "peers",
    "polls",
    "predicted",
    "requests",
    "reserves",
    "spans",
    "waits",
]
