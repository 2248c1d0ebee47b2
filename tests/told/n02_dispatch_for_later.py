from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert shown["delay"].startswith("(Idle(at=299.999999), Completed(")
    one = literal_eval(shown["one-worker"])
    assert one["theory"] == 0.5
    assert 0.47 < one["measured"] < 0.53
    eight = literal_eval(shown["eight-workers"])
    assert eight["theory"] == 0.111
    assert eight["first 10 jobs"] < 0.2
    assert 0.45 < eight["last 500 jobs"] < 0.55
    assert literal_eval(shown["jitter"])["theory"] == 0.111
    assert 0.1 < literal_eval(shown["jitter"])["last 500 jobs"] < 0.12
    cost = literal_eval(shown["cost"])
    assert 18 < cost["polling"]["asks per job"] < 22
    assert cost["woken"] == {"asks per job": 1.0, "mean wait": 0.0}
    delayed = literal_eval(shown["delayed"])
    assert delayed["theory"] == (3_000, 54.8)
    assert abs(delayed["mean"] - 3_000) < 150
