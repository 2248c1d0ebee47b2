"""The panels' front end: modules that Node's tests import as they are, and one module of them all for a browser."""

import json
import re
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_SHARED = (
    *("board/state", "board/words", "board/ledger", "board/kernel", "board/store", "board/elements", "board/frame"),
    *("board/dispatch", "board/cards", "board/lanes", "board/time", "board/folded", "board/records", "board/board"),
)

MODULES = MappingProxyType(
    {
        "board": (*_SHARED, "board/widget"),
        "explorer": (*_SHARED, "board/session", "explorer/form", "explorer/orders", "explorer/explorer"),
        "contention": (*_SHARED, "board/session", "contention/form", "contention/found", "contention/contention"),
    }
)
"""The modules of each panel; each imports only from those before it, so that they can be joined; no two have a name in
common."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\.\.?/(?:\w+/)?\w+\.mjs";\n', re.MULTILINE)


@cache
def module(panel: str = "board") -> str:
    """Join the modules of a panel to one, as a widget takes it: in a notebook there is no address to import from."""
    return "\n".join(_IMPORT.sub("", read(f"{name}.mjs")) for name in MODULES[panel])


@cache
def read(name: str) -> str:
    """Read a file of the front end."""
    return (files("qlab") / "static" / name).read_text(encoding="utf-8")


def in_script(told: object) -> str:
    """Write JSON values for a script element of a page, which only `<` could end, or begin a comment in."""
    return json.dumps(told).replace("<", "\\u003c")
