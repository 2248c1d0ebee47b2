"""The SQL and Lua files of the verbs: one name for each verb, whatever the store."""

from functools import cache
from importlib.resources import files

_HERE = files("qlab.drivers")


@cache
def sql(name: str, folder: str = "") -> tuple[str, ...]:
    """Read the statements of `sql/<folder>/<name>.sql`, in order; of `sql/<name>.sql` where the folder has none."""
    own = _HERE / "sql" / folder / f"{name}.sql"
    text = (own if own.is_file() else _HERE / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    return tuple(part.strip() + ";" for part in text.split(";\n") if part.strip())


@cache
def lua(layout: str, verb: str) -> str:
    """Read `lua/<layout>/<verb>.lua`, or `lua/<verb>.lua` where both layouts share it."""
    own = _HERE / "lua" / layout / f"{verb}.lua"
    return (own if own.is_file() else _HERE / "lua" / f"{verb}.lua").read_text(encoding="utf-8")


@cache
def script(layout: str, verb: str) -> str:
    """Build the script of a verb: the shared head, then the verb's file.

    `complete_and_reserve` is made of the two files that it is named after.
    """
    head = lua(layout, "head") + "\n" + lua(layout, "row")
    if verb != "complete_and_reserve":
        return f"{head}\n{lua(layout, verb)}"
    return (
        f"{head}\nlocal function complete(ARGV)\n{lua(layout, 'complete')}\nend\n"
        f"local function reserve(ARGV)\n{lua(layout, 'reserve')}\nend\n"
        "return {complete({ARGV[1], ARGV[2]}), reserve({ARGV[3], ARGV[4], ARGV[5], ARGV[6]})}\n"
    )
