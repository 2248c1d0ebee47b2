import re
from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    """Hold what is certain: how fast the machine is that runs it, nobody knows."""
    survives = {arm: said[1] for arm, said in literal_eval(shown["promises"]).items()}
    assert survives == {
        "sqlite OFF": "a killed worker",
        "sqlite NORMAL": "a power cut but for the last moments",
        "sqlite FULL": "a power cut",
        "sqlite DELETE": "a power cut",
    }
    assert literal_eval(shown["promises"])["sqlite FULL"][0] == "nothing"
    assert re.findall(r"^sqlite (\w+) .*%$", shown["commit"], re.MULTILINE) == ["NORMAL", "FULL"]
    paper = literal_eval(shown["paper"])
    assert {workers: said["theory"] for workers, said in paper.items()} == {1: 91, 4: 353, 8: 662, 11: 837, 20: 998}
    assert paper[11] == {"bound": 1_000, "theory": 837, "simulated": 1_000}
    assert all(abs(said["simulated"] - said["bound"]) <= 2 for said in paper.values())
    assert shown["idle-jobs"] == "<Contention of sqlite NORMAL with 1, 4 workers: 2 runs>"
    assert literal_eval(shown["idle-told"]) == {"lost": 0, "done twice": 0}
    assert shown["measure"] == "<Contention of sqlite FULL with 1, 4, 8 workers: 3 runs>"
    assert [line.split()[1:3] for line in shown["foretold"].splitlines()[1:]] == [["sqlite", "FULL"]]
