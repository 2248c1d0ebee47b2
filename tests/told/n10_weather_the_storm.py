import re
from ast import literal_eval

from qlab import theory


def told(shown: dict[str, str]) -> None:
    ways = rows(shown["contention"])
    assert 24 <= ways["at once"][0] / 100 < 25
    assert 0.7 < ways["backoff"][0] / ways["at once"][0] < 0.8
    assert 0.3 < ways["full jitter"][0] / ways["at once"][0] < 0.36
    assert 28 < ways["backoff"][2] / ways["at once"][2] < 35
    assert 2 < ways["full jitter"][2] / ways["at once"][2] < 2.7
    assert all(abs(writes / published - 1) < 0.03 for writes, published, *_ in ways.values())
    assert all(abs(took / published - 1) < 0.06 for *_, took, published in ways.values())

    disk = rows(shown["busy"])  # how many writes there are is the machine's
    assert disk["at once"][1] > 2 * disk["1 to 3 ms"][1]
    assert disk["1 to 3 ms"][1] < 3

    assert round(theory.Outage(0.5, 1.0, 100.0).drain) == 102
    flows = rows(shown["storm-flows"])
    assert all(abs(before[0] - before[2]) < 0.01 for before in flows.values())
    assert abs(flows["answers in time"][1] - 0.5) < 0.05
    assert flows["answers in time"][3] == 0
    assert abs(flows["jobs completed"][3] - 1) < 0.1
    assert abs(flows["jobs dispatched"][3] - 2) < 0.1
    assert {name: share for name, (share, _) in rows(shown["remedies"]).items()} == {
        "at once": 0.0,
        "backoff": 0.0,
        "full jitter": 0.0,
        "budget of a tenth": 1.0,
        "refuse above 15": 1.0,
    }
    assert {name for name, (_, jobs) in rows(shown["remedies"]).items() if jobs > 1.5} == {*ways} - {"equal jitter"}
    ended = literal_eval(shown["by-hand"])
    assert ended[0.3] == 8
    assert 0 < ended[0.6] < 4

    rates = [float(word) for word in shown["map"].splitlines()[0].split()[1:]]
    for attempts, stuck in list(rows(shown["map"]).items())[1:]:
        limit = theory.vulnerable_from(int(attempts), 1.0)
        assert stuck == [float(rate > limit) for rate in rates]
    toppled, spontaneous, late = literal_eval(shown["trigger"]).values()
    assert toppled == {0: 0, 10: 0, 20: 0, 30: 3, 60: 8}
    assert 0 < spontaneous < 8
    assert late == {0.5: 0.00005, 0.8: 0.01832}
    factors = rows(shown["amplification"])
    assert factors["0.01"] == [1.01, 1.01]
    assert factors["1.00"] == [4.0, 1.0]
    assert max(budget for _, budget in factors.values()) <= 1.1


def rows(table: str) -> dict[str, list[float]]:
    """The rows of a shown frame that have numbers, by their names; what is no number is left out."""
    found = (re.match(r"(.+?)((?:\s{2,}(?:-?\d[\d.]*|not told))+)\s*$", line) for line in table.splitlines())
    return {
        each[1].strip(): [float(word) for word in re.findall(r"(?<=\s)-?\d[\d.]*", each[2])] for each in found if each
    }
