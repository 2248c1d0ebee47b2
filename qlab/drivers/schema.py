"""The tables of qlab in a SQLite file: whether those that are there are this qlab's, and what makes the others."""

import re
from collections.abc import Iterator, Mapping, Sequence

from qlab.drivers.statements import sql
from qlab.errors import NoQueueThere, UnusableStore

_MADE = re.compile(r"CREATE (?:TABLE|INDEX) (\w+)")


class Schema:
    """Some of the files `sql/schema_<table>.sql`.

    Args:
        tables: The names of the tables.
        folder: Where the files are, below `sql/`.
    """

    def __init__(self, tables: Sequence[str], folder: str = "") -> None:
        self.tables = tuple(tables)
        self._folder = folder

    def missing(self, there: Mapping[str, str]) -> list[str]:
        """Name the tables that a file has not, in the order in which they are made."""
        return [table for table in self.tables if table not in there]

    def check(self, path: str, there: Mapping[str, str], *, create: bool) -> None:
        """Refuse a file that cannot hold the tables as they are.

        Args:
            path: The file, for the message.
            there: What makes each table, index and view of the file, by its name in lower case.
            create: Whether tables may be made.

        Raises:
            NoQueueThere: A table is missing, and may not be made.
            UnusableStore: Something else has the name of a table or an index.
        """
        missing = self.missing(there)
        if missing and not create:
            raise NoQueueThere(f"{path} has no table {missing[0]!r} of qlab: is it the right file? nothing was changed")
        for name, made in self._made():
            if name in there and _squeezed(there[name]) != _squeezed(made):
                raise UnusableStore(
                    f"{path} has a table, view or index {name!r} that is not this qlab's (another application's, or "
                    "another version's, such as a newer qlab's): use a file without one; nothing was changed"
                )

    def _made(self) -> Iterator[tuple[str, str]]:
        for table in self.tables:
            for statement in sql(f"schema_{table}", self._folder):
                if made := _MADE.match(statement):
                    yield made[1], statement.removesuffix(";")


def _squeezed(text: str) -> str:
    return "".join("".join(line.split("--")[0] for line in text.splitlines()).split()).lower()
