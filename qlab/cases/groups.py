"""Which run computes a case, by its group."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from qlab.cases.case import Case
from qlab.cases.forms import FORMS
from qlab.cases.plans import Plan
from qlab.cases.run_faults import crash, outage, shutdown
from qlab.cases.run_outbox import outbox
from qlab.cases.run_polls import bunching, polling
from qlab.cases.run_reservations import lease
from qlab.cases.run_retries import backoff, retry, retry_queue
from qlab.cases.run_stations import closed_station, open_station
from qlab.cases.run_storms import storm

RUNS: Mapping[str, Callable[[Case], Plan]] = MappingProxyType(
    {
        **dict.fromkeys(("mm1", "mmc", "md1", "mdc", "mg1", "gg1", "mmck"), open_station),
        "closed": closed_station,
        "retry": retry,
        "backoff": backoff,
        "retry_queue": retry_queue,
        "lease": lease,
        "outage": outage,
        "crash": crash,
        "shutdown": shutdown,
        "polling": polling,
        "polling_bunching": bunching,
        "outbox": outbox,
        "metastable": storm,
    }
)
"""What plans the run of a case, by group."""


def plan(case: Case) -> Plan:
    """Plan the run of a case.

    Raises:
        CaseError: Its group, its metric or a parameter is not there, or has no such value.
    """
    if case.group not in RUNS:
        if case.group in FORMS:
            raise case.wrong(f"group {case.group!r} has closed forms only: its kind must be reference")
        raise case.wrong(f"there is no group {case.group!r}: use {', '.join(sorted({*RUNS, *FORMS}))}")
    try:
        return RUNS[case.group](case)
    except (TypeError, ValueError) as error:
        raise error if str(error).startswith(case.where) else case.wrong(str(error)) from error
