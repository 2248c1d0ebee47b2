"""Every order of one job and two workers, counted by the explorer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from qlab.cases.files import StatedOrders
from qlab.driver import Driver
from qlab.explorer import Situation, explore, small
from qlab.flaws import CompletesById, DeletesAtReserve, RevokesOnRunningOut

if TYPE_CHECKING:
    from qlab.explorer import Explored

_STORES: Mapping[str, str | Callable[[], Driver]] = {
    "ack_token": "memory://",
    "ack_id": CompletesById,
    "token_revoked": RevokesOnRunningOut,
    "delete_on_reserve": DeletesAtReserve,
}


def count(stated: StatedOrders) -> Callable[[], Mapping[str, Any]]:
    """Plan to count the orders, and how they end.

    Raises:
        CaseError: Nothing is known that works so.
    """
    if stated.mode not in _STORES:
        raise stated.wrong(f"its mode is {stated.mode!r}: use {', '.join(_STORES)}")
    try:
        situation = Situation(small("one job", tries=stated.tries), stated.expiries, stated.crashes)
    except (TypeError, ValueError) as error:
        raise stated.wrong(str(error)) from error
    return lambda: _counted(explore(situation, driver=_STORES[stated.mode]))


def _counted(explored: "Explored") -> Mapping[str, Any]:
    outcomes = {name.lower(): count for name, count in explored.outcomes.items()}
    return {"interleavings": explored.paths, "states": explored.states, "outcomes": outcomes}
