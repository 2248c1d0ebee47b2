"""How payloads are encoded, and what is refused; that each driver refuses alike is in test_scenarios_payloads.py."""

import enum
import json
import math
from collections import OrderedDict
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from qlab import payload
from qlab.errors import InvalidPayload, QlabError


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e22, "1e+22"),
        (2**70, "1180591620717411303424"),
        ("", '""'),
        ('é😀"\\\n\0\u2028', '"é😀\\"\\\\\\n\\u0000\u2028"'),
        ([], "[]"),
        ({}, "{}"),
        ({"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        ((1, (2, 3)), "[1,[2,3]]"),
        (Point(1, 2), "[1,2]"),
        (OrderedDict(z=1, a=2), '{"z":1,"a":2}'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        ({Colour.RED: Level.HIGH}, '{"red":3}'),
    ],
    ids=repr,
)
def test_a_value_is_encoded_as_compact_json(value: object, text: str) -> None:
    assert payload.encode(value) == text
    assert json.loads(text) == (list(value) if isinstance(value, Point) else json.loads(json.dumps(value)))


SCALARS = [
    None, True, 0, -1, 2**70, 10**3990, 10**4290, 10**4300, -0.0, 1e22, math.nan, math.inf, "", "é😀\0", "\ud800",
    "x" * 4_000, b"x", [], [1], {}, {"a": 1}, (), {1}, object(), Colour.RED, Level.HIGH,
]  # fmt: skip


@pytest.mark.parametrize("limit", [10, 1_000, payload.LIMIT])
@pytest.mark.parametrize(
    "key", ["a", "", "é", "\ud800", "x" * 4_000, 1, None, Colour.RED], ids=lambda key: repr(key)[:20]
)
def test_the_fast_way_gives_what_the_thorough_one_gives_or_leaves_it_to_it(key: Any, limit: int) -> None:
    fast = 0
    for value in (item for scalar in SCALARS for item in (scalar, {key: scalar}, {"b": 1.5, key: scalar, "c": "d"})):
        text = payload.encode_flat(value, limit)
        fast += text is not None
        assert text is None or text == payload.encode(value, limit=limit)
    assert fast >= (10 if key == "a" and limit > 10 else 0)


def test_the_same_value_may_stand_in_two_places() -> None:
    shared = [1]
    assert payload.encode({"a": shared, "b": [shared, shared]}) == '{"a":[1],"b":[[1],[1]]}'


def test_decoding_gives_a_new_value_each_time() -> None:
    assert payload.decode("[1]") is not payload.decode("[1]")


def deep(depth: int, around: Any = None) -> Any:
    value: Any = [] if around is None else around
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_nesting_has_a_limit() -> None:
    assert payload.decode(payload.encode(deep(100))) == deep(100)
    for depth in (101, 150, 900, 100_000):
        with pytest.raises(InvalidPayload, match="is nested more than 100 deep"):
            payload.encode(deep(depth))


def test_the_place_of_what_is_wrong_is_told_in_python() -> None:
    value = {"users": [{"name": "Ada"}, {"name": "Eve", "tags": ({"x"},)}]}
    with pytest.raises(InvalidPayload) as refusal:
        payload.encode(value, what="handler 'A', queue 'mail'")
    said = str(refusal.value)
    assert said.startswith(
        "handler 'A', queue 'mail': payload['users'][1]['tags'][0] is a set, which JSON does not have:"
    )
    assert said.endswith("use a sorted list")


@pytest.mark.parametrize(
    "value", [b"x", bytearray(b"x"), {1}, frozenset(), Decimal(1), 1j, object(), range(3), iter([])]
)
def test_each_kind_that_json_does_not_have_is_refused_with_a_way_out(value: object) -> None:
    with pytest.raises(
        InvalidPayload, match=f"payload is an? {type(value).__name__}, which JSON does not have: use |dispatch"
    ):
        payload.encode(value)


@pytest.mark.parametrize("key", [1, 1.5, None, True, (1,), b"a"])
def test_a_key_is_text(key: object) -> None:
    with pytest.raises(InvalidPayload, match="payload has the key .*, which is no text: use"):
        payload.encode({key: 1})


def test_keys_that_json_would_make_one_stay_apart() -> None:
    with pytest.raises(InvalidPayload):
        payload.encode({"1": "text", 1: "number"})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, float("-nan")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(InvalidPayload, match="use None or text"):
        payload.encode([number])


@pytest.mark.parametrize("number", [10**4299, 10**4300 - 1, -(10**4300) + 1], ids=["small", "large", "negative"])
def test_whole_numbers_are_exact_up_to_python_s_own_limit(number: int) -> None:
    assert payload.decode(payload.encode(number)) == number


@pytest.mark.parametrize("number", [10**4300, -(10**4300), 1 << 100_000], ids=["just", "negative", "far"])
def test_a_whole_number_that_could_not_be_read_back_is_refused(number: int) -> None:
    with pytest.raises(InvalidPayload, match="more than 4,300 digits"):
        payload.encode({"n": number})


@pytest.mark.parametrize(("text", "place"), [("\ud800", 0), ("ab\udfff", 2), ("😀\ud83d", 1)])
def test_half_a_character_is_refused_with_its_place(text: str, place: int) -> None:
    with pytest.raises(InvalidPayload, match=f"at character {place}, which is no Unicode text"):
        payload.encode(text)


def test_size_is_counted_in_bytes() -> None:
    assert payload.encode("é" * 9, limit=20) == '"' + "é" * 9 + '"'
    with pytest.raises(InvalidPayload, match="the payload has 22 bytes, the limit is 20"):
        payload.encode("é" * 10, limit=20)
    assert payload.LIMIT == 1024 * 1024


def test_a_refusal_is_a_value_error_of_the_family() -> None:
    assert issubclass(InvalidPayload, ValueError)
    assert issubclass(InvalidPayload, QlabError)


def test_a_refusal_stays_short_whatever_the_value() -> None:
    for value in ({"k" * 100_000: b""}, [{"a": {("x" * 100_000,): 1}}], deep(101, ["y" * 100_000])):
        with pytest.raises(InvalidPayload) as refusal:
            payload.encode(value)
        assert len(str(refusal.value)) < 2_000
