"""Values as what JSON can hold, and back: a scenario with all that it is made of.

An object is written with the name of its class (`{"class": "Poisson", "rate": 2.0}`), a mapping without; a list becomes
a tuple again, but for what stands in a payload, which is any JSON value. What is read is only ever data: a class is one
of those that the caller names, and what it is given is checked as if it had been written in Python.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType
from typing import Any, TypeAlias, TypeVar

from qlab.errors import InvalidPayload
from qlab.escape import shortened
from qlab.payload import encode

Classes: TypeAlias = Mapping[str, type]
T = TypeVar("T")

_PLAIN = (bool, int, NoneType)
_RAW = "payload"  # the field that is any JSON value already


def classes(*kinds: type) -> Classes:
    """Make the table of classes that may be saved, by name."""
    return {kind.__name__: kind for kind in kinds}


def stated(value: object, known: Classes, place: str = "") -> Any:
    """Turn a value into what JSON can hold.

    Raises:
        ValueError: It holds what no file can: a function, an object of an unknown class, NaN; the message names the
            place.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _checked_text(value, place)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value!r}, which cannot be saved: use a number")
        return value
    if known.get(type(value).__name__) is type(value):
        return _stated_object(value, known, place)
    if isinstance(value, Mapping):
        return {_checked_text(key, place): stated(one, known, f"{place}[{key!r}]") for key, one in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [stated(one, known, f"{place}[{i}]") for i, one in enumerate(value)]
    if callable(value) and not isinstance(value, type):
        raise ValueError(f"{place or 'it'} is {value!r}: a function cannot be saved; {_instead(place)}")
    raise ValueError(f"{place or 'it'} is {value!r}, which cannot be saved: use one of {', '.join(sorted(known))}")


def made_of(data: Any, kind: type[T], known: Classes) -> T:
    """Make a value that must be of one class.

    Raises:
        ValueError: It says what no such value can be; the message names the place.
    """
    value = made(data, known)
    if not isinstance(value, kind):
        raise ValueError(f"it has no {kind.__name__.lower()}: it is damaged")
    return value


def made(data: Any, known: Classes, place: str = "") -> Any:
    """Make a value of what `stated` gave.

    Raises:
        ValueError: It says what no value can be; the message names the place.
    """
    if isinstance(data, list):
        return tuple(made(one, known, f"{place}[{i}]") for i, one in enumerate(data))
    if not isinstance(data, dict):
        return data
    if not isinstance(data.get("class"), str):
        return {key: made(one, known, f"{place}[{key!r}]") for key, one in data.items()}
    return _made_object(data, known, place)


def _stated_object(value: Any, known: Classes, place: str) -> dict[str, Any]:
    kind = type(value).__name__
    said = {"class": kind}
    for name in _fields(known[kind]):
        one = getattr(value, name)
        if _is_plain(one):
            said[name] = one
            continue
        inner = f"{place}.{name}" if place else name
        said[name] = _raw(one, inner) if name == _RAW else stated(one, known, inner)
    return said


def _made_object(data: dict[str, Any], known: Classes, place: str) -> Any:
    where = f"{place}: " if place else ""
    name = data["class"]
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"{where}there is no class {shortened(name)!r}: {hint}use one of {', '.join(sorted(known))}")
    kind, allowed = known[name], _fields(known[name])
    if unknown := [field for field in data if field not in allowed and field != "class"]:
        raise ValueError(f"{where}{name} has no {shortened(unknown[0])!r}: it has {', '.join(allowed) or 'nothing'}")
    if missing := [field for field, needed in allowed.items() if needed and field not in data]:
        raise ValueError(f"{where}{name} needs {', '.join(missing)}: say what it is")
    values = {
        field: one
        if field == _RAW or not isinstance(one, dict | list)
        else made(one, known, f"{place}.{field}" if place else field)
        for field, one in data.items()
        if field != "class"
    }
    try:
        return kind(**values)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise ValueError(f"{where}no {name} can be made of this: {error}") from error


def _is_plain(value: Any) -> bool:
    """Tell at once of most values that they are as in JSON: a recording has a million of them."""
    kind = type(value)
    return kind in _PLAIN or (kind is float and math.isfinite(value)) or (kind is str and value.isascii())


@cache
def _fields(kind: type) -> dict[str, bool]:
    """Name the fields of a class, and tell of each whether it must be given."""
    if is_dataclass(kind):
        return {
            field.name: field.default is MISSING and field.default_factory is MISSING
            for field in fields(kind)
            if field.init
        }
    return {name: name not in kind._field_defaults for name in kind._fields}  # type: ignore[attr-defined]  # a NamedTuple


def _raw(value: object, place: str) -> Any:
    try:
        return json.loads(encode(value, what=place, limit=2**53))
    except InvalidPayload as error:
        raise ValueError(str(error)) from error


def _checked_text(text: object, place: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{place} has the key {text!r}, which cannot be saved: use text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place} has {text!r}, which is no text that a file can hold: {error.reason}") from error
    return text


def _instead(place: str) -> str:
    if place.endswith("rate"):
        return "state the rate as steps ((from second, rate), …)"
    if place.endswith("backoff"):
        return "state the backoff as seconds, such as (10.0, 60.0, 300.0)"
    return "keep it in the code that makes this, and save what it is made with"
