"""The closed form of each case that has one."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from qlab import theory
from qlab.cases.case import Case, bound, level
from qlab.cases.laws import gap_stages, intervals, mean_service, named_law, positive, station_law

STATION = {
    "Wq": "wait",
    "W": "sojourn",
    "Lq": "waiting",
    "L": "depth",
    "P_wait": "p_wait",
    "util": "utilisation",
    "Wq_sd": "wait_sd",
    "W_sd": "sojourn_sd",
    "P_block": "p_block",
    "throughput": "throughput",
    "X": "throughput",
    "R": "sojourn",
}
"""What a station calls a metric."""


def closed_form(case: Case) -> float | None:
    """Tell what theory says of a case; None where no closed form is known.

    Raises:
        CaseError: Its group or a parameter is missing, or has no such value.
    """
    try:
        form = FORMS.get(case.group)
        return None if form is None else form(case)
    except ValueError as error:
        raise error if str(error).startswith(case.where) else case.wrong(str(error)) from error


# -- stations --


def _station(case: Case) -> float | None:
    return read_station(case, _made(case))


def read_station(case: Case, station: object) -> float | None:
    """Read a metric from a station's closed forms; None where it has none."""
    if (q := level(case.metric, "Wq")) is not None:
        return _called(station, "wait_quantile", q)
    if (q := level(case.metric, "W")) is not None:
        return _called(station, "sojourn_quantile", q)
    if (t := bound(case.metric, "P_wq")) is not None:
        return _called(station, "wait_tail", t)
    if (t := bound(case.metric, "P_w")) is not None:
        return _called(station, "sojourn_tail", t)
    value = getattr(station, STATION.get(case.metric, ""), None)
    return None if value is None else float(value)


def _called(station: object, name: str, value: float) -> float | None:
    method = getattr(station, name, None)
    return None if method is None else float(method(value))


def _made(case: Case) -> object:
    rate, law = positive(case, "lam"), station_law(case)
    if case.group in ("mm1", "mmc"):
        return theory.MMc(rate, law.mean, case.whole("c", default=1))
    if case.group == "mg1":
        return theory.MG1.lognormal(rate, law.mean, law.cv)
    if case.group == "mmck":
        return theory.MMcK(rate, law.mean, case.whole("c", default=1), case.whole("K"))
    return theory.MDc(rate, law.mean, case.whole("c", default=1))


def _gg1(case: Case) -> float | None:
    rate, service, stages = positive(case, "lam"), mean_service(case), gap_stages(case)
    if case.metric == "Wq_kingman":
        square = 0.0 if stages is None else 1 / stages
        return theory.kingman(
            rate * service, service, case.number("ca2", default=square) ** 0.5, case.number("cs2", default=1.0) ** 0.5
        )
    made = theory.GIM1.every(rate, service) if stages is None else theory.GIM1.erlang(rate, service, stages)
    return read_station(case, made)


def _closed(case: Case) -> float | None:
    closed = theory.Closed(case.whole("N"), positive(case, "Z"), mean_service(case), case.whole("c", default=1))
    if case.metric in ("N_star", "knee"):
        return closed.knee
    return closed.most if case.metric == "X_max" else read_station(case, closed)


# -- retries --


def _retry(case: Case) -> float | None:
    p, tries = case.number("p"), case.whole("tries")
    return {"attempts": theory.attempts(p, tries), "P_dead": theory.failed_share(p, tries)}.get(case.metric)


def _backoff(case: Case) -> float | None:
    tries, backoff = case.whole("tries"), case.seconds("backoff")
    if case.metric == "time_to_dead_s":
        return theory.time_to_failed(
            tries, backoff, service=case.number("s", "service", default=0.0), poll=case.number("poll", default=0.0)
        )
    p = case.number("p")
    if case.metric == "mean_backoff_s_success":
        return theory.time_in_backoff_if_done(p, tries, backoff)
    return theory.time_in_backoff(p, tries, backoff) if case.metric == "mean_backoff_s" else None


def _retry_queue(case: Case) -> float | None:
    queue = theory.RetryQueue(
        positive(case, "lam"),
        mean_service(case),
        case.whole("c", default=1),
        case.number("p"),
        case.whole("tries"),
        case.seconds("backoff"),
    )
    return {
        "time_to_final_state": queue.time_to_end,
        "Wq_per_attempt": queue.wait,
        "P_wait_per_attempt": queue.station.p_wait,
        "L_delayed": queue.in_backoff,
        "attempts": queue.attempts,
        "util": queue.station.utilisation,
    }.get(case.metric)


# -- reservations --


def _lease(case: Case) -> float | None:
    if case.metric == "redeliveries_before_eta":
        return float(theory.runs_while_held(positive(case, "eta_s"), positive(case, "visibility_s")))
    law, after = named_law(case), positive(case, "retry_after")
    if case.metric == "P_duplicate" and case.has("batch"):
        return theory.run_out_in_batch(case.whole("batch"), after, law.mean) if law.name == "exponential" else None
    if case.metric == "starts_ack_by_id":
        return theory.runs_by_id(law.tail, after)
    if case.metric == "starts_ack_by_id_same_S":
        return theory.runs_by_id_same_service(law.tail, after)
    if case.metric == "starts_ack_by_token":
        return theory.runs_by_token(law.tail(after))
    return law.tail(after) if case.metric in ("P_duplicate", "P_dead_despite_success") else None


def _shutdown(case: Case) -> float | None:
    left = named_law(case).residual_tail(case.number("grace"))
    if case.metric == "jobs_cut":
        return theory.cut_by_shutdown(left, case.whole("workers", "w"), case.number("rho", default=1.0))
    return left if case.metric == "P_killed" else None


def _crash(case: Case) -> float | None:
    if case.metric == "recovery_lag":
        return theory.time_to_ready(positive(case, "retry_after"), mean_service(case))
    if case.metric != "runs_per_job":
        return None
    return theory.runs_under_crashes(case.number("alpha"), mean_service(case), fixed=case.has("s"))


# -- outages, storms, copies --


def _outage(case: Case) -> float | None:
    outage = theory.Outage(positive(case, "lam"), mean_service(case), case.number("D"))
    return {
        "drain_time": outage.drain,
        "drain_time_sd": outage.drain_sd,
        "drain_time_fluid": outage.drain_fluid,
        "jobs_hurt": outage.jobs_hurt,
        "mean_wait_fluid": outage.extra_wait_fluid,
    }.get(case.metric)


def _metastable(case: Case) -> float | None:
    if case.metric == "load_factor" and case.has("f"):
        budget = case.number("budget") if case.has("budget") else None
        return theory.load_factor(case.number("f"), case.whole("attempts", "A"), budget=budget)
    if case.metric == "load_factor":
        return float(theory.load_factor_of_layers(case.whole("layers", default=1), case.whole("attempts", "A")))
    if case.metric != "lambda_threshold":
        return None
    if case.has("budget"):
        return theory.vulnerable_from_with_budget(case.number("budget"), mean_service(case))
    return theory.vulnerable_from(case.whole("attempts", "A"), mean_service(case))


def _backup(case: Case) -> float | None:
    rate, seconds = case.number("lam"), case.number("delta")
    if case.metric == "E_orphan_rows_upper":
        return theory.rows_without_job(rate, seconds)
    if case.metric.removeprefix("E_") in ("lost", "lost_jobs", "rerun", "rerun_jobs"):
        return theory.lost_by_backup(rate, seconds, positive(case, "m", "W"))
    return None


# -- polls and outboxes --


def _polling(case: Case) -> float | None:
    if case.has("V"):
        return _vacation(case)
    (interval, jitter), workers = intervals(case), case.whole("workers", default=1)
    if case.metric == "polls_per_s":
        return theory.polls_a_second(interval, workers)
    if case.metric == "mean_latency_s":
        if case.params.get("phases") == "equal":
            return theory.idle_wait_in_phase(interval)
        return theory.idle_wait_jittered(interval, workers, jitter)
    q = latency_level(case)
    return None if q is None or jitter else theory.idle_wait_quantile(q, interval, workers)


def latency_level(case: Case) -> float | None:
    """Read the level from a metric such as `p95_latency_s`."""
    return level("_" + case.metric.removesuffix("_latency_s"), "") if case.metric.endswith("_latency_s") else None


def _vacation(case: Case) -> float | None:
    plain = theory.MMc(positive(case, "lam"), mean_service(case))
    wait = theory.wait_with_polls(plain.wait, positive(case, "V"))
    return {
        "Wq": wait,
        "W": wait + plain.service,
        "Lq": wait * plain.rate,
        "L": (wait + plain.service) * plain.rate,
        "util": plain.utilisation,
    }.get(case.metric)


def _bunching(case: Case) -> float | None:
    interval, workers = positive(case, "T"), case.whole("workers")
    return theory.idle_wait(interval, workers) if case.number("jitter") else theory.idle_wait_in_phase(interval)


def _outbox(case: Case) -> float | None:
    if case.metric == "mean_wait_s":
        tick = positive(case, "tick_s")
        return theory.wait_for_tick(positive(case, "lam_per_min") / 60, tick)
    if case.metric == "last_sent_s":
        return theory.burst_end(case.whole("N"), case.number("pace_s"), case.whole("cap"))
    cap = theory.DailyCap(positive(case, "lam_per_day"), case.whole("cap"))
    return {"left_over": cap.left, "P_left": cap.p_left}.get(case.metric)


FORMS: Mapping[str, Callable[[Case], float | None]] = MappingProxyType(
    {
        "mm1": _station,
        "mmc": _station,
        "md1": _station,
        "mdc": _station,
        "mg1": _station,
        "gg1": _gg1,
        "mmck": _station,
        "closed": _closed,
        "retry": _retry,
        "backoff": _backoff,
        "retry_queue": _retry_queue,
        "lease": _lease,
        "outage": _outage,
        "polling": _polling,
        "polling_bunching": _bunching,
        "shutdown": _shutdown,
        "crash": _crash,
        "outbox": _outbox,
        "backup": _backup,
        "metastable": _metastable,
    }
)
"""What tells the closed form, by group."""
