from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    little = rows(shown["little"])
    assert little["system"][:3] == [3.96, 0.8, 4.97]
    assert [row[-1] for row in little.values()] == [True] * 3
    assert little["reserved"][0] == 0.79
    assert literal_eval(shown["six-lines"]) == {1: 0, 2: 0, 4: 0}
    curve = [row[1:] for row in rows(shown["curve"]).values()]
    assert [row[3] for row in curve][-2:] == [4.0, 9.0]
    for wait, low, high, theory, band_low, band_high in curve:
        assert low <= theory <= high
        assert band_low <= wait <= band_high
    assert curve[0][2] - curve[0][1] < 0.1
    assert 3 < curve[-1][0] - curve[-1][1] < 4
    for utilisation, wait, six_lines, later, takes in rows(shown["real"]).values():
        assert 0.3 < utilisation <= 1
        assert wait >= six_lines
        assert later >= 0
        assert takes > 5
    shape = rows(shown["shape"])
    assert [row[3:] for row in shape.values()] == [[0.5, 2.0], [0.625, 2.5], [1.0, 4.0], [2.5, 10.0]]
    assert all(low <= theory <= high for _, low, high, theory, _ in shape.values())
    lines = literal_eval(shown["lines"])
    assert lines["one line"]["theory"] * 5 < lines["four lines"]["theory"] == 4.0
    assert lines["one line"]["simulated"] * 5 < lines["four lines"]["six lines"]
    poll = rows(shown["poll"])
    assert all(abs(difference - 1) < 0.1 for difference in poll["difference"])
    coverage = literal_eval(shown["coverage"])
    assert coverage["naive"]["intervals"] == 100
    assert 14 <= coverage["naive"]["right"] <= 20
    assert coverage["20 batches"]["right"] > 0.9 * coverage["20 batches"]["intervals"]
    assert coverage["20 batches"]["mean width"] > 5 * coverage["naive"]["mean width"]
    needed = coverage["jobs for ± 1 %"]
    assert 55 < needed[0.95] / needed[0.5] < 60
    warmup = literal_eval(shown["warmup"])
    assert warmup["theory"] == 19
    assert warmup[100] < 6
    assert warmup[1_000] < 14
    assert 17.5 < warmup[10_000] < 18.8
    wrong = rows(shown["wrong"])
    means = ("mean wait", "share that waits", "utilisation", "mean number there")
    assert all(wrong[name][0] == wrong[name][1] for name in means)
    assert all(wrong[name][1] > 2 * wrong[name][0] for name in ("standard deviation", "99th percentile"))


def rows(table: str) -> dict[str, list[float]]:
    """The rows of a table whose columns are numbers or say whether something is true."""
    lines = [line.split("  ") for line in table.splitlines()]
    told = {line[0].strip(): [word.strip() for word in line[1:] if word.strip()] for line in lines}
    words = {"True": 1.0, "False": 0.0}
    return {
        name: [words[word] if word in words else float(word) for word in row]
        for name, row in told.items()
        if name and row and all(word in words or word[0] in "-.0123456789" for word in row)
    }
