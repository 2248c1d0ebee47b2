"""The board's front end: modules that Node's tests import as they are, and one module of them all for a browser."""

import re
from functools import cache
from importlib.resources import files

MODULES = (
    *("state", "words", "ledger", "store", "elements"),
    *("dispatch", "cards", "lanes", "time", "folded", "records", "board"),
)
"""Each imports only from those before it, so that they can be joined; no two have a name in common."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.mjs";\n', re.MULTILINE)


@cache
def module() -> str:
    """Join the modules to one, as a widget takes it: in a notebook there is no address to import others from."""
    return "\n".join(_IMPORT.sub("", read(f"board/{name}.mjs")) for name in MODULES)


@cache
def read(name: str) -> str:
    """Read a file of the front end."""
    return (files("qlab") / "static" / name).read_text(encoding="utf-8")
