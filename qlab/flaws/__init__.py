"""Broken queues to learn from: the memory driver with one promise broken in each.

They are for the lab only. No address opens one: make it, as in `FLAWS["completion by id"]()`, and give it to a lab, a
queue or a simulation. Each says which promise it breaks (`promise`), and what it does instead (`does`); who shipped the
same is in its docstring. `together` makes one of several.
"""

from collections.abc import Mapping
from types import MappingProxyType

from qlab.flaws.counting import CountsFailures
from qlab.flaws.fence import CompletesById, ReleasesSuperseded, RevokesOnRunningOut
from qlab.flaws.flaw import Flaw
from qlab.flaws.holding import DeletesAtReserve, NeverRunsOut
from qlab.flaws.order import RecoversInPlace, ReleasesInPlace
from qlab.flaws.sweeping import SweepsDeadOwners, SweepsItsOwn

__all__ = [
    "FLAWS",
    "CompletesById",
    "CountsFailures",
    "DeletesAtReserve",
    "Flaw",
    "NeverRunsOut",
    "RecoversInPlace",
    "ReleasesInPlace",
    "ReleasesSuperseded",
    "RevokesOnRunningOut",
    "SweepsDeadOwners",
    "SweepsItsOwn",
    "together",
]

FLAWS: Mapping[str, type[Flaw]] = MappingProxyType(
    {
        flaw.name: flaw
        for flaw in (
            CompletesById,
            ReleasesSuperseded,
            RevokesOnRunningOut,
            CountsFailures,
            DeletesAtReserve,
            NeverRunsOut,
            ReleasesInPlace,
            RecoversInPlace,
            SweepsItsOwn,
            SweepsDeadOwners,
        )
    }
)
"""The flaws by name."""


def together(*flaws: type[Flaw]) -> type[Flaw]:
    """Make a flaw that breaks the promises of several, as real queues do.

    Args:
        flaws: The flaws; where two turn one verb, the first is asked first.

    Returns:
        A class, as those in `FLAWS` are; calling it makes the store.

    Raises:
        ValueError: There is none.

    Example:
        >>> from qlab import flaws
        >>> both = flaws.together(flaws.CompletesById, flaws.NeverRunsOut)
        >>> both().description
        'memory with a flaw: completion by id and no running out'
    """
    if not flaws:
        raise ValueError("together() was given no flaw: name those to put together, as in qlab.flaws.FLAWS")
    parts = {part: {getattr(flaw, part): None for flaw in flaws} for part in ("name", "promise", "does")}
    said = {"name": " and ".join(parts["name"]), "promise": " ".join(parts["promise"]), "does": " ".join(parts["does"])}
    return type("Together", flaws, said)
