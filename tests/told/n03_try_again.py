from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert literal_eval(shown["attempts"]) == [
        (0.0, "reserved"),
        (10.0, "reserved"),
        (70.0, "reserved"),
        (70.0, "failed"),
    ]
    assert literal_eval(shown["time-to-failed"])[4] == 370
    chance = literal_eval(shown["chance"])
    assert chance["attempts"][2] == 1.39
    assert abs(chance["attempts"][0] - 1.39) < 0.02
    assert chance["failed"][2] == 0.027
    assert abs(chance["failed"][0] - 0.027) < 0.003
    assert "the amount is 'ten'" in shown["failed"]
    again, corrected = shown["retry"].split("],\n")
    assert "Failed(" in again
    assert "Completed(" in corrected
    assert literal_eval(shown["poison"]) == {"good": [2.0, 3.0, 4.0], "bad": 6.0}
    assert literal_eval(shown["killer"]) == {"good": [6.0, 7.0, 8.0], "bad": 18.0}
