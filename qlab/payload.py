"""How a payload is encoded: once, at dispatch, by one function for every driver.

A payload is any JSON value. Tuples become lists. Integers keep their exact value, whatever their size up to Python's
own limit of 4,300 digits.
"""

import json
import math
from typing import Any

from qlab.errors import InvalidPayload

LIMIT = 1024 * 1024
"""How many bytes of UTF-8 an encoded payload may have, unless a queue says otherwise (1 MiB)."""

_LARGEST = 10**4300

DEPTH = 100
"""How deep lists and objects may be nested."""

_SHORT = 4_000  # bytes: no integer in it is too large
_FLAT = frozenset((str, int, float, bool, type(None)))

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_decoder = json.JSONDecoder()


def encode(value: object, *, what: str = "payload", limit: int = LIMIT) -> str:
    """Encode a payload as JSON text.

    Args:
        value: The payload.
        what: Whose payload it is (handler and queue), for the message.
        limit: The most bytes that the text may have.

    Raises:
        InvalidPayload: It is no JSON value (NaN, bytes, sets, datetimes, keys that are not text, lone surrogates,
            cycles, nesting over 100), or over the limit; the message names the place in the value.
    """
    problem = _problem(value, "payload", (), [limit])
    if problem:
        raise InvalidPayload(
            f"{what}: {problem}" if len(problem) < 600 else f"{what}: {problem[:300]} … {problem[-200:]}"
        )
    text = _encoder.encode(value)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit:
        raise InvalidPayload(
            f"{what}: the payload has {size:,} bytes, the limit is {limit:,}: "
            "store the data elsewhere and dispatch its address, or raise Queue(payload_limit=…)"
        )
    return text


def encode_flat(value: object, limit: int = LIMIT) -> str | None:
    """Encode a short object of text, numbers, booleans and None, as most payloads are, in less time than `encode`.

    Returns:
        The text that `encode` gives; None where the value takes a closer look.
    """
    if type(value) is not dict:
        return None
    for key, item in value.items():
        if type(key) is not str or type(item) not in _FLAT:
            return None
    try:
        text = _encoder.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except ValueError:  # NaN, a lone surrogate
        return None
    return text if size <= min(limit, _SHORT) else None


def decode(text: str) -> Any:
    """Decode a payload's JSON text; every call gives a new value, None for a payload that its server has lost."""
    if not text:
        return None
    try:
        value, end = _decoder.raw_decode(text)  # to look for white space around takes as long as a short payload
    except json.JSONDecodeError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


def _problem(value: object, place: str, above: tuple[int, ...], left: list[int]) -> str | None:
    left[0] -= 1  # every value takes a byte at least; one that is shared is written as often as it is met
    if left[0] < 0:
        return "the payload has more values than its limit has bytes: store the data elsewhere and dispatch its address"
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _text_problem(value, place)
    if isinstance(value, int):
        return None if -_LARGEST < value < _LARGEST else f"{place} is an integer of more than 4,300 digits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value!r}, which JSON does not have: use None or text"
    if not isinstance(value, list | tuple | dict):
        return f"{place} is {_article(type(value).__name__)}, which JSON does not have: {_way_out(value)}"
    if id(value) in above:
        return f"{place} contains itself"
    if len(above) == DEPTH:
        return f"{place[:60]}… is nested more than {DEPTH} deep"
    return _inner_problem(value, place, (*above, id(value)), left)


def _inner_problem(
    value: list[Any] | tuple[Any, ...] | dict[Any, Any], place: str, above: tuple[int, ...], left: list[int]
) -> str | None:
    if not isinstance(value, dict):
        found = (_problem(item, f"{place}[{i}]", above, left) for i, item in enumerate(value))
        return next(filter(None, found), None)
    for key, item in value.items():
        if not isinstance(key, str):
            return f"{place} has the key {key!r}, which is no text: use {str(key)!r}"
        problem = _text_problem(key, f"a key of {place}") or _problem(item, f"{place}[{key!r}]", above, left)
        if problem:
            return problem
    return None


def _text_problem(text: str, place: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return (
            f"{place} has a lone surrogate ({text[error.start]!r}) at character {error.start}, which is no Unicode text"
        )
    return None


def _article(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _way_out(value: object) -> str:
    ways = {
        "bytes": "use base64 text, or dispatch where the data is",
        "set": "use a sorted list",
        "frozenset": "use a sorted list",
        "datetime": "use .isoformat()",
        "date": "use .isoformat()",
        "Decimal": "use text",
    }
    return ways.get(type(value).__name__, "use numbers, text, booleans, None, lists and objects of them")
