from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert "Idle(at=30.0)], 90.0, [Completed(" in shown["crash"]
    assert literal_eval(shown["sweep"]) == {
        "run out": {"run by worker 2": 0, "twice": []},
        "force": {"run by worker 2": 2, "twice": [2]},
    }
    crashes = literal_eval(shown["crashes"])
    assert crashes["theory"] == 89.0
    assert abs(crashes["run out"] - 89) < 1
    assert abs(crashes["swept"] - 5) < 1
    robbed = literal_eval(shown["robbed"])
    assert robbed["theory"] == (1.5, "to", 2.0)
    assert robbed["run out"] == 0
    assert 1.5 < robbed["swept"] < 2.1
    runs = literal_eval(shown["runs"])
    assert runs[100][2] == 2.72
    assert abs(runs[100][0] - 2.72) < 0.1
