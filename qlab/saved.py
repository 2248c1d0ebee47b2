"""Values as readable JSON and back: a scenario with all that it is made of.

An object is written with the name of its class (`{"class": "Poisson", "rate": 2.0}`), a mapping without; a list becomes
a tuple again, but for what stands in a payload, which is any JSON value. What is read is only ever data: a class is one
of those that the caller names, and what it is given is checked as if it had been written in Python.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from qlab.errors import InvalidPayload
from qlab.escape import shortened
from qlab.payload import encode
from qlab.tokens import Tokens

Classes: TypeAlias = Mapping[str, type]
AnyPath: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")

_WIDTH = 120
_RAW = "payload"  # the field that is any JSON value already


def classes(*kinds: type) -> Classes:
    """Make the table of classes that may be saved, by name."""
    return {kind.__name__: kind for kind in kinds}


# -- files --


def save(value: object, path: AnyPath, known: Classes, version: int = 1) -> Path:
    """Write a value as readable JSON: the whole file, or none.

    Args:
        value: The value.
        path: The file, which is replaced where it is there.
        known: The classes that it may be made of.
        version: Of the form.

    Returns:
        The file.

    Raises:
        OSError: The file cannot be written; what was there before still is.
        ValueError: The value holds what no file can; nothing was written.
    """
    kind = type(value).__name__.lower()
    text = _text({"qlab": kind, "version": version, kind: stated(value, known)})
    return write(path, f"{text}\n".encode())


def load(path: AnyPath, kind: type[T], known: Classes, version: int = 1) -> T:
    """Read what `save` wrote.

    Args:
        path: The file.
        kind: Of which class it must be.
        known: The classes that it may be made of.
        version: The newest form that is known.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file, from a newer qlab, or damaged; the message names the place in it.
    """
    name = kind.__name__.lower()
    try:
        data = parsed(Path(path).read_bytes())
        check_head(data, name, version)
        return made_of(data.get(name), kind, known)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: it is nested too deeply to be a saved {name}") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def write(path: AnyPath, content: bytes) -> Path:
    """Write a file in one step: whoever looks finds what was there before, or all of this.

    Raises:
        OSError: The file cannot be written; what was there before still is.
    """
    file = Path(os.path.realpath(path))
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)} cannot be written: there is no folder {file.parent}")
    beside = file.with_name(f".{file.name[:100]}.{Tokens().next()[:8]}")
    try:
        with beside.open("xb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return Path(path)


def parsed(content: bytes) -> Any:
    """Read JSON, in which every key stands once.

    Raises:
        ValueError: It is none.
    """
    if content.startswith(b"PK"):
        raise ValueError("it is an archive: a saved run is read by Run.load, a saved scenario is text")
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_no_json)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text in UTF-8, so no saved file of qlab: {error}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is damaged, or no saved file of qlab: {error}") from error


def check_head(data: object, kind: str, version: int) -> None:
    """Refuse what is not of this kind, or of a newer form.

    Raises:
        ValueError: It is.
    """
    if not isinstance(data, dict) or not isinstance(data.get("qlab"), str):
        raise ValueError(f'it is no saved {kind}: one begins with {{"qlab": "{kind}", "version": {version}, …')
    if data["qlab"] != kind:
        raise ValueError(f"it is a saved {shortened(data['qlab'])}, and no {kind}")
    found = data.get("version")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ValueError(f"its version is {found!r}: it is damaged")
    if found > version:
        raise ValueError(f"its version is {found}, this qlab knows up to {version}: load it with a newer one")


# -- values --


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


def _stated_object(value: object, known: Classes, place: str) -> dict[str, Any]:
    said = {"class": type(value).__name__}
    for name in _fields(type(value)):
        inner, one = f"{place}.{name}" if place else name, getattr(value, name)
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
        field: one if field == _RAW else made(one, known, f"{place}.{field}" if place else field)
        for field, one in data.items()
        if field != "class"
    }
    try:
        return kind(**values)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise ValueError(f"{where}no {name} can be made of this: {error}") from error


def _fields(kind: type) -> dict[str, bool]:
    """Name the fields of a class, and tell of each whether it must be given."""
    if is_dataclass(kind):
        return {
            field.name: field.default is MISSING and field.default_factory is MISSING
            for field in fields(kind)
            if field.init
        }
    return {name: name not in kind._field_defaults for name in kind._fields}  # type: ignore[attr-defined]


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


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"it has the key {shortened(key)!r} twice in one place: use it once")
        data[key] = value
    return data


def _no_json(constant: str) -> None:
    raise ValueError(f"it has {constant}, which is no JSON: use a number")


def _text(data: Any, indent: str = "") -> str:
    """Write JSON for people: what fits stands on one line."""
    flat = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if len(flat) + len(indent) <= _WIDTH or not data or not isinstance(data, dict | list):
        return flat
    inner = indent + "  "
    if isinstance(data, list):
        lines = [_text(one, inner) for one in data]
    else:
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_text(one, inner)}" for key, one in data.items()]
    first, last = "[]" if isinstance(data, list) else "{}"
    return f"{first}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}{last}"
