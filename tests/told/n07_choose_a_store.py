import re
from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert [app["failed jobs in the file"] for app in literal_eval(shown["two-drivers"])] == [1]
    assert "SET state = 'running'" in shown["reserve"]
    assert "ORDER BY available_at, seq LIMIT 1" in shown["reserve"]
    assert "ZRANGEBYSCORE', AVAILABLE, '-inf', now, 'LIMIT', 0" in shown["reserve"]
    assert "ZADD', AVAILABLE, deadline" in shown["reserve"]
    assert "RPUSH', READY" in shown["reserve-list"]
    assert re.findall(r"^(\S+) +(\[\d, \d\]) +(\[\d, \d\])$", shown["order"], re.MULTILINE) == [
        ("memory", "[1, 2]", "[1, 2]"),
        ("sqlite", "[1, 2]", "[1, 2]"),
        ("memory://?order=arrival", "[2, 1]", "[1, 2]"),
    ]
    assert {way: list(left.values()) for way, left in literal_eval(shown["ways"]).items()} == {
        "together": [0, 0],
        "row_first": [1, 0],
        "job_first": [0, 1],
    }
    together, row_first, job_first = shown["quick"].splitlines()
    assert "has to wait" in together
    assert "Idle(" in row_first
    assert "Retrying(" in job_first
    assert "LookupError: no order 1', available_at=10.0" in job_first
    assert numbers(shown["copies"]) == [[0, 0, 0], [5, 10, 0], [10, 0, 5], [0, 0, 0]]
    for _, lost, again, dangling, law, between in numbers(shown["apart"], 6):
        assert abs(lost - law) < 0.05
        assert abs(max(again, dangling) - law) < 0.05
        assert min(again, dangling) == 0
        assert law in (0.0, 0.79, 2.0)
        assert abs(between - 60) < 1 or law < 2
    assert numbers(shown["restart"], 2) == [[3, 3], [0, 3], [3, 0]]
    kept = re.findall(r"^(memory|SQLite, \w+) +(\d+) +(-?\d+) ", shown["kill"], re.MULTILINE)
    (_, acknowledged, gone), *files = kept
    assert int(acknowledged) == int(gone) >= 50
    assert [gone in ("0", "-1") for _, _, gone in files] == [True, True]
    ends = literal_eval(shown["outbox"])
    assert {mail: said["left after"] for mail, said in ends.items() if said["left after"] == said["closed form"]} == {
        1: "0 d 0 h 0 min",
        500: "0 d 8 h 19 min",
        501: "1 d 0 h 0 min",
        2_000: "3 d 8 h 19 min",
    }
    for _, ticks, law_of_ticks, apart, law in numbers(shown["waits"], 5):
        assert law_of_ticks - law == 30
        assert abs(ticks - law_of_ticks) < 10
        assert abs(apart - law) < 10
        assert abs(ticks - apart - 30) < 3
    assert literal_eval(shown["cap"]) == {"SQLite": 2, "memory": 4}


def numbers(table: str, last: int = 3) -> list[list[float]]:
    """The last words of each line of a table, where they all are numbers."""
    words = [line.split()[-last:] for line in table.splitlines()]
    return [[float(word) for word in line] for line in words if all(re.fullmatch(r"-?[\d.]+", word) for word in line)]
