from ast import literal_eval

from qlab import theory
from qlab.theory.distributions import lognormal_residual_tail


def told(shown: dict[str, str]) -> None:
    assert shown["drain"] == "(1, [('ready', 0), ('ready', 0)])"
    assert literal_eval(shown["grace"]) == {
        (25, "release"): [(30.0, "attempt 1")],
        (15, "release"): [(55.0, "attempt 2")],
        (15, "leave"): [(120.0, "attempt 2")],
    }
    assert shown["real"] == "(3, Counts(ready=1, delayed=0, reserved=0, failed=0))"
    met = literal_eval(shown["met"])
    assert all(abs(each["jobs in hand"] - 4 * 0.8) < 0.1 for each in met.values())
    assert 2.3 < met["lognormal, cv 2"]["to go"] < 2.7
    assert abs(met["exponential"]["to go"] - 1) < 0.1
    assert literal_eval(shown["residual"]) == {"lognormal, cv 2": 2.5, "exponential": 1.0}
    _cuts(literal_eval(shown["cut"]), literal_eval(shown["threads"]))
    again = literal_eval(shown["again"])
    assert again["release"]["mean"] == 0.2
    assert again["release"]["longest"] <= 1
    assert again["leave"]["mean"] == 84.5
    assert again["leave"]["longest"] < 90
    end, parts = literal_eval(shown["afternoon"])
    assert end[1] == "failed"
    assert [parts.count(part) for part in (1, 7, 8, 12)] == [3, 2, 0, 0]
    assert shown["try-rolling"] == "14.5"
    assert theory.cut_by_shutdown(lognormal_residual_tail(9 * 60, 10.0, 2.0), 8, 0.75) > 0.01


def _cuts(cut: dict[str, dict[int, tuple[float, str, float]]], real: dict[int, int]) -> None:
    long = cut["lognormal, cv 2"]
    assert all(abs(seen - said) < 0.05 for each in cut.values() for seen, _, said in each.values())
    assert [round(long[grace][0], digits) for grace, digits in ((5, 1), (10, 2))] == [0.4, 0.15]
    assert 6 < 1 / long[10][0] < 7
    assert round(cut["exponential"][5][2], 2) == 0.02
    assert real[0] > 100  # a few may be between two jobs
    # In real time, on whatever machine: only that a longer grace cuts no more.
    assert [*real.values()] == sorted(real.values(), reverse=True)
