"""What one worker's run predicts of more workers: the two numbers of a closed model."""

import pytest
from contended import ALWAYS, EVERYSEC, SQLITE, WHOLE, together

from qlab import frames


def test_the_demand_on_sqlite_is_the_call_that_holds_its_lock_and_the_rest_is_thinking():
    (model,) = frames.predicted(SQLITE).itertuples()
    assert model.demand == 26e-6
    assert model.think == pytest.approx(1 / 31_000 - 26e-6)
    assert model.knee == pytest.approx((1 / 31_000) / 26e-6)
    assert model.most == pytest.approx(1 / 26e-6)


def test_the_demand_on_a_server_is_its_processor_time_and_with_a_sync_before_each_answer_the_call():
    told = frames.predicted(together(EVERYSEC, ALWAYS)).set_index("arm")["demand"]
    assert told.to_dict() == {"redis_zset everysec": 38e-6, "redis_zset always": 0.55e-3}


def test_an_added_round_trip_is_thinking_also_where_the_whole_call_counts():
    far = ALWAYS.assign(arm="redis_zset always +1 ms", jobs_per_second=600.0, reserve_mean=1.6e-3)
    (model,) = frames.predicted(far).itertuples()
    assert model.demand == pytest.approx(0.6e-3)


def test_nothing_is_predicted_where_nobody_worked_alone_or_the_demand_is_not_known():
    assert frames.predicted(SQLITE[SQLITE["workers"] > 1]).empty
    assert frames.predicted(EVERYSEC.assign(server_cpu=0.0)).empty
    assert frames.predicted(EVERYSEC.assign(server_cpu=float("nan"))).empty
    assert frames.predicted(SQLITE.assign(jobs_per_second=0.0)).empty
    empty = frames.predicted(WHOLE[:0])
    assert list(empty.columns) == ["arm", "driver", "survives", "think", "demand", "knee", "most"]
    assert list(empty.dtypes) == list(frames.predicted(SQLITE).dtypes) == ["str"] * 3 + ["float64"] * 4


def test_a_worker_that_does_nothing_but_call_the_store_thinks_hardly_at_all():
    (model,) = frames.predicted(SQLITE.assign(reserve_mean=1.0)).itertuples()
    assert 0 < model.think < 0.01 * model.demand
