import re
from ast import literal_eval

BY_CHANCE = "one job is never given to two threads"
ORDER = {
    "the job that has been claimable longest goes first",
    "a released job goes behind its peers",
    "recovered jobs go behind those that wait",
}
LEFT = {
    "moments are whole microseconds",
    "push stores all or none",
    "a closed driver raises and may be closed again",
}


def told(shown: dict[str, str]) -> None:
    assert len(shown["contract"].split(", ")) == 20
    assert shown["works"].startswith("(['Completed', 'Retrying', 'Completed', 'Failed']")
    assert "failed=1" in shown["works"]
    first, fenced, in_line, once = (broken(shown[id]) for id in ("first", "fence", "order", "once"))
    assert len(first) < 20
    of_the_fence = {name for name in first if "superseded" in name or "token" in name}
    assert len(of_the_fence) == 5
    assert "completes job 1 all the same" in shown["first-story"]
    assert len(first - fenced - {BY_CHANCE}) == 6
    assert len(in_line - once - {BY_CHANCE}) == 3
    assert ORDER < fenced < first - of_the_fence | {BY_CHANCE}
    assert "nobody starves" in literal_eval(shown["starve"])[-1]
    assert in_line < fenced - ORDER | {BY_CHANCE}
    assert once - {BY_CHANCE} == LEFT
    assert shown["whole"] == "(40, 'of', 40)"
    events, equal = literal_eval(shown["same"])
    assert events > 4_000
    assert equal is True


def broken(text: str) -> set[str]:
    return set(re.findall(r"✗ ([^:]+):", text))
