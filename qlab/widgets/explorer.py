"""The explorer: every order of a small scenario, on a sound queue or a broken one, to browse and to replay."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from qlab import front
from qlab.errors import QlabError
from qlab.escape import html
from qlab.explorer import SITUATIONS, Broken, Explored, Situation, small
from qlab.explorer.interleaving import Path, State
from qlab.explorer.invariants import PROMISES
from qlab.explorer.narration import verdict
from qlab.flaws import FLAWS
from qlab.lab import Lab
from qlab.replay import Replay
from qlab.side import NAMES
from qlab.widgets.board import Board, board
from qlab.widgets.panel import Panel

ALL, BROKEN = "!all", "!broken"
"""Beside an outcome: which orders are browsed."""

_OFTEN = 200  # states; how often it is told how far an exploration is

_explorers: dict[str, "Explorer"] = {}


def explorer(lab: Lab) -> "Explorer":
    """Make the explorer of a lab; of a lab that has one, it is the same explorer once more.

    Another lab's explorer under the same name is closed.
    """
    there = _explorers.get(lab.name)
    if there is not None and there.lab is lab and there.comm is not None:
        return there
    if there is not None:
        there.close()
    _explorers[lab.name] = Explorer(lab)
    return _explorers[lab.name]


class Stopped(QlabError):
    """The exploration was stopped: there is nothing to browse."""


class Order(NamedTuple):
    """The order of steps that is shown.

    Attributes:
        which: Of which orders it is one: an outcome, `ALL` or `BROKEN`.
        number: Which of them, from 1.
        path: Its steps.
        sentences: What is told of it.
        broken: Where it breaks a promise, and which; None where it breaks none.
    """

    which: str
    number: int
    path: Path
    sentences: list[str]
    broken: Broken | None


class Explorer(Panel):
    """Every order of a small scenario, in a notebook.

    Args:
        lab: The lab, whose first driver is looked at unless another is picked.

    Attributes:
        explored: What `lab.explore` gave; None before.
        order: The order that is shown.
        replay: The replay that is shown on a board; None where none is.
    """

    def __init__(self, lab: Lab) -> None:
        self.explored: Explored | None = None
        self.order: Order | None = None
        self.replay: Replay | None = None
        self._code = self._driver = ""
        self._first = {"redis": "redis_zset"}.get(lab.drivers[0], lab.drivers[0])
        drivers = dict.fromkeys([*NAMES, *(() if self._first in FLAWS else (self._first,))])
        self._queues = [
            *([name, "", ""] for name in drivers),
            *([name, f.promise, f.does] for name, f in FLAWS.items()),
        ]
        self._number = 0
        self._looked: int | None = None
        self._stop = threading.Event()
        self._read: dict[str, tuple[list[Path], Iterator[Path]]] = {}
        self._commands = {
            "explore": self._explore,
            "hunt": self._hunt,
            "look": self._look,
            "replay": self._replay,
            "next": lambda: self._replayed().next(),
            "rest": lambda: self._replayed().rest(),
            "close_replay": self._close_replay,
            "sync": lambda: None,
        }
        self._unwatch = lab.on_change(self._noticed)
        super().__init__(lab, front.module("explorer"), front.read("board.css") + front.read("explorer.css"))

    def everything(self) -> dict[str, Any]:
        """Tell all there is, as a front end that has just come is told it."""
        return {
            "key": self._key,
            "number": self._number,
            "lab": self.lab.name,
            "closed": self.lab.closed,
            "problem": self._problem,
            "looked": self._looked,
            "doing": "" if self._looked is None else "it explores",
            "queues": self._queues,
            "driver": self._first,
            "situations": [_fields(situation) for situation in SITUATIONS.values()],
            "found": None if self.explored is None else self._told_of(self.explored),
            "order": None if self.order is None else _told(self.order),
            "replay": None if self.replay is None else self._board_told(self.replay),
        }

    def close(self) -> None:
        """Close the explorer, and its replay with its lab; the lab itself stays as it is."""
        if self.comm is None:
            return
        self._stop.set()
        self._unwatch()
        self._errands.forget()
        self._close_replay()
        if _explorers.get(self.lab.name) is self:
            del _explorers[self.lab.name]
        self.layout.close()
        super().close()

    def _still(self) -> tuple[str, str]:
        shown = f"<p>Nothing was explored in {html(self.lab.name)} yet.</p>"
        if self.explored is not None:
            shown = self.explored._repr_html_()
        return f"Explorer of {self.lab!r}", shown

    # -- what a front end asks for --

    def _take(self, command: Any, arguments: dict[str, Any], id: Any) -> None:
        if command == "stop":
            self._stop.set()
            return
        super()._take(command, arguments, id)

    def _explore(self, *, driver: str, sample: Literal["random", "pct"] | None = None, **fields: Any) -> None:
        with self._exploring():
            promises = (*PROMISES, self._going_on)
            explored = self.lab.explore(_situation(fields), driver=driver, promises=promises, sample=sample)
        self._show(explored, driver, _code(fields, driver, sample))

    def _hunt(self, driver: str) -> dict[str, Any]:
        """Explore one scenario after another, until an order breaks a promise; tell which, and how many there were."""
        with self._exploring():
            explored = self.lab.hunt(driver, promises=(*PROMISES, self._going_on))
        found = explored[-1]
        self._show(found, driver, _code(_fields(found.situation), driver, None))
        return {
            "scenario": found.situation.name,
            "broken": found.first_broken is not None,
            "orders": sum(each.paths for each in explored),
            "scenarios": len(explored),
        }

    @contextmanager
    def _exploring(self) -> Iterator[None]:
        self._close_replay()
        self._stop.clear()
        self.explored = self.order = None
        self._looked = 0
        self._tell(None, [])
        try:
            yield
        finally:
            self._looked = None

    def _show(self, explored: Explored, driver: str, code: str) -> None:
        """Show what was explored, at first the order that breaks a promise."""
        self.explored, self._driver, self._code, self._read = explored, driver, code, {}
        self._look(BROKEN if explored.first_broken else next(iter(explored.outcomes)), 1)

    def _going_on(self, _: State) -> None:
        """Tell how far an exploration is, and end it where that was asked for: it is called for each state."""
        if self._looked is None:
            return
        if self._stop.is_set():
            raise Stopped()
        self._looked += 1
        if self._looked % _OFTEN == 0:
            self._tell(None, [])

    def _look(self, which: str, number: int) -> None:
        explored = self._found()
        if which == BROKEN and explored.first_broken is not None:
            path, number = explored.first_broken.path, 1
        else:
            path = self._path(explored, which, number)
        self._close_replay()
        self.order = Order(which, number, path, explored.story(path), explored.breaks(path))

    def _path(self, explored: Explored, which: str, number: int) -> Path:
        if which not in self._read:
            self._read[which] = [], explored.paths_of(None if which == ALL else which)
        read, others = self._read[which]
        read += itertools.islice(others, max(0, number - len(read)))
        if not 1 <= number <= len(read):
            raise ValueError(f"number is {number}: there are orders 1 to {len(read)}")
        return read[number - 1]

    def _found(self) -> Explored:
        if self.explored is None:
            raise ValueError("nothing was explored yet: press Explore first")
        return self.explored

    # -- the replay --

    def _replay(self, *, beside: bool = False) -> None:
        explored = self._found()
        if self.order is None:
            raise ValueError("no order is shown: pick one first")
        self._close_replay()
        drivers = [self._driver, "memory"] if beside else self._driver
        self.replay = Replay(explored, self.order.path, driver=drivers, name=f"{self.lab.name}, replay")

    def _replayed(self) -> Replay:
        if self.replay is None:
            raise ValueError("nothing is replayed: press Replay on a board first")
        return self.replay

    def _close_replay(self) -> None:
        if self.replay is not None:
            self._board(self.replay).close()
            self.replay.lab.close()
            self.replay = None

    def _board(self, replay: Replay) -> Board:
        return board(replay.lab)

    def _board_told(self, replay: Replay) -> dict[str, Any]:
        return {"board": self._board(replay).model_id, "taken": replay.taken, "of": len(replay.path)}

    # -- telling --

    def _noticed(self) -> None:
        """Close the replay, and say so, where the lab was closed."""
        if self.lab.closed:
            self._stop.set()
            self._errands.add(self._end)

    def _end(self) -> None:
        self._close_replay()
        self._tell(None, [])

    def _told_of(self, explored: Explored) -> dict[str, Any]:
        broken = explored.first_broken
        return {
            "driver": explored.driver,
            "flaw": self._driver in FLAWS,
            "says": explored.says,
            "paths": explored.paths,
            "states": explored.states,
            "bound": explored.bound,
            "outcomes": list(explored.outcomes.items()),
            "broken": None if broken is None else {"promise": broken.promise, "says": broken.says},
            "code": self._code,
        }

    def _tell(self, answer: dict[str, Any] | None, buffers: list[bytes]) -> None:
        with self._sending:
            self._number += 1
            self.send({"type": "told", **self.everything(), "answer": answer}, buffers)
            self._let_route()


def _fields(situation: Situation) -> dict[str, Any]:
    """Tell what a person may change of a situation."""
    scenario = situation.scenario
    return {
        "name": situation.name,
        "about": situation.about,
        "workers": scenario.workers,
        "jobs": len(scenario.arrivals),
        "tries": scenario.policy.tries,
        "fails": next(iter(scenario.handlers.values())).fails,
        "runs_out": scenario.policy.retry_after is not None,
        "expiries": situation.expiries,
        "crashes": situation.crashes,
        "restarts": situation.restarts,
        "renamed": situation.renamed,
    }


def _situation(fields: dict[str, Any]) -> Situation:
    """Make the situation that a person asks for."""
    named = SITUATIONS.get(fields["name"])
    if named is not None and fields == _fields(named):
        return named
    how = {name: fields[name] for name in ("workers", "jobs", "tries", "fails", "runs_out")}
    most = {name: fields[name] for name in ("expiries", "crashes", "restarts", "renamed")}
    return Situation(small(fields["name"], fields["about"], **how), **most)


def _code(fields: dict[str, Any], driver: str, sample: str | None) -> str:
    """Write the call that explores the same without a panel."""
    named = SITUATIONS.get(fields["name"])
    usual = {} if named is None else _fields(named)
    changed = {name: value for name, value in fields.items() if name != "about" and usual.get(name, ...) != value}
    more = [f"{name}={changed[name]!r}" for name in ("expiries", "crashes", "restarts") if name in changed]
    imports = ""
    if changed.keys() <= {"expiries", "crashes", "restarts"}:
        scenario = repr(fields["name"])
    else:
        imports = "from qlab.explorer import Situation, small\n"
        how = [f"{name}={fields[name]!r}" for name in ("workers", "jobs", "tries", "fails", "runs_out")]
        most = [f"{name}={fields[name]!r}" for name in ("expiries", "crashes", "restarts", "renamed")]
        scenario, more = f"Situation(small('mine', {', '.join(how)}), {', '.join(most)})", []
    sampled = [] if sample is None else [f"sample={sample!r}"]
    return f"{imports}lab.explore({', '.join([scenario, f'driver={driver!r}', *more, *sampled])})"


def _told(order: Order) -> dict[str, Any]:
    return {
        "which": order.which,
        "number": order.number,
        "sentences": order.sentences[:-1],
        "kinds": ["", *(str(step.verb) for step in order.path)],
        "broken_at": None if order.broken is None else len(order.broken.path),
        "end": order.sentences[-1] if order.broken is None else verdict(order.broken.promise, order.broken.says),
    }
