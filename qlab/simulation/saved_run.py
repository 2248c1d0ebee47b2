"""A run as one file: its trace and requests as columns, and what they were made of."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from qlab import archive
from qlab.as_json import Classes, made, stated
from qlab.saved import AnyPath
from qlab.simulation.requests import Requests
from qlab.trace import Kind, Trace

Fields: TypeAlias = Mapping[str, type | tuple[type, ...]]


def save(path: AnyPath, trace: Trace, requests: Requests, facts: Mapping[str, Any], known: Classes) -> Path:
    """Write a run: the whole file, or none.

    Args:
        path: The file, which is replaced where it is there.
        trace: What happened.
        requests: What clients saw.
        facts: What else there is to say; an infinite number is written as null.
        known: The classes that facts may be made of.

    Returns:
        The file.

    Raises:
        OSError: The file cannot be written; what was there before still is.
        ValueError: The facts hold what no file can; nothing was written.
    """
    said = {name: stated(None if value == math.inf else value, known, name) for name, value in facts.items()}
    columns, texts = trace.columns()
    said |= {"digest": trace.digest(), "kinds": [str(kind) for kind in Kind], "texts": texts}
    return archive.save(path, said, {"trace": columns, "requests": requests.columns()})


def load(path: AnyPath, expected: Fields, known: Classes) -> tuple[Trace, Requests, dict[str, Any]]:
    """Read what `save` wrote.

    Args:
        path: The file.
        expected: The facts that must be there, and of which class each is; null for a number is an infinite one.
        known: The classes that facts may be made of.

    Returns:
        What happened, what clients saw, and the facts.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no run, from a newer qlab, or damaged; the message says what is wrong.
    """
    said, tables = archive.load(path)
    try:
        _check_kinds(said.get("kinds"))
        trace = _trace(tables.get("trace", {}), said.get("texts"))
        if trace.digest() != said.get("digest"):
            raise ValueError(f"its trace is {trace.digest()} and was {said.get('digest')}: it is damaged")
        requests = Requests.of_columns(tables.get("requests", {}))
        return trace, requests, {name: _fact(said, name, kind, known) for name, kind in expected.items()}
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _trace(columns: archive.Table, texts: Any) -> Trace:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("it does not say which texts its events have: it is damaged")
    return Trace.of_columns(columns, texts)


def _check_kinds(kinds: Any) -> None:
    """Refuse events whose kinds have other numbers than here; a later qlab has more of them, at the end."""
    here = [str(kind) for kind in Kind]
    if not isinstance(kinds, list):
        raise ValueError("it does not say which kinds of events it has: it is damaged")
    if kinds != here[: len(kinds)]:
        unknown = [kind for kind in kinds if kind not in here] or kinds
        raise ValueError(
            f"it has events that this qlab does not know, such as {unknown[0]!r}: load it with a newer one"
        )


def _fact(said: Mapping[str, Any], name: str, kind: type | tuple[type, ...], known: Classes) -> Any:
    value = made(said.get(name), known, name)
    if kind is float and name in said:
        value = math.inf if value is None else float(value) if isinstance(value, int) else value
    if not isinstance(value, kind):
        raise ValueError(f"its {name} is {value!r}: it is damaged")
    return value
