"""Files of readable JSON, written whole or not at all, and checked when they are read."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from qlab.as_json import Classes, made_of, stated
from qlab.escape import shortened
from qlab.tokens import Tokens

AnyPath: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")

_WIDTH = 120


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
