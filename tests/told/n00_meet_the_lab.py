from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert shown["double"] == "[1]"
    assert "its reservation was superseded" in literal_eval(shown["story"])[-1]
    assert literal_eval(shown["past"]) == {0: "reserved", 89: "reserved", 90: "ready", 91: "done"}
    doubled, equal = literal_eval(shown["two-stores-story"])
    assert list(doubled.values()) == [[1], [1]]
    assert equal is True
