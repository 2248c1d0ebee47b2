from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert literal_eval(shown["late"]) == {
        "memory": ("Superseded", "Completed"),
        "completion by id": ("Completed", "Superseded"),
    }
    rows = {line.split()[0]: [float(word) for word in line.split()[1:]] for line in shown["runs"].splitlines()[3:]}
    assert rows["1.0"][2:] == [1.42, 1.58]
    assert all(abs(runs[place] - runs[place + 2]) < 0.15 for runs in rows.values() for place in (0, 1))
    assert literal_eval(shown["tails"]) == {0.5: 2.7, 1.0: 5.0, 2.0: 8.6}
    once, twice = literal_eval(shown["heartbeat"])
    assert once == ["reserved", "completed"]
    assert (twice.count("reserved"), twice.count("superseded")) == (2, 6)
    lines = [line.split()[-5:] for line in shown["orders"].splitlines() if line.startswith(("by", "revoked"))]
    assert [line[1:] for line in lines[:2]] == [["30", "24", "6", "0"]] * 2
    assert lines[3][1:] == ["330", "96", "6", "228"]
    assert lines[4][1:] == ["82", "76", "6", "0"]
    assert [int(line[-1]) > 0 for line in lines[-3:]] == [True, False, True]
    assert all(int(line[3]) < int(line[1]) / 10 for line in lines[2:9:3])  # revoked: done once in few orders
    assert shown["idempotent"] == "20"
