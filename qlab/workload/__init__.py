"""What a system is given to do: when jobs come, how long they take, how often they fail, and who waits for them.

A `Workload` is made of its parts:

| part | is one of |
|---|---|
| `Arrivals` | `Poisson`, `Every`, `Renewal`, `Bursts`, `Varying`, `Recorded` (read by `recorded`), `Closed` |
| `Distribution` | `Fixed`, `Exponential`, `Lognormal`, `Erlang`, `Empirical`, or a class of your own |
| `Failures` | `Never`, `Always`, `Chance`, `FirstAttempts` |
| `Clients` | who asks again, within a `Budget` |

Times are in seconds, rates a second. Whatever is drawn begins at the run's seed: the same seed, the same moments.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import Any, get_args

from qlab.escape import shortened
from qlab.whole import is_whole
from qlab.workload.arrivals import (
    Arrivals,
    Bursts,
    Closed,
    Every,
    Poisson,
    Renewal,
    Varying,
)
from qlab.workload.clients import Budget, Clients
from qlab.workload.distributions import (
    Distribution,
    Empirical,
    Erlang,
    Exponential,
    Fixed,
    Lognormal,
    distribution,
    number_in,
)
from qlab.workload.failures import Always, Chance, Failures, FirstAttempts, Never
from qlab.workload.recording import Recorded, RecordedJob, recorded

__all__ = [
    "Always",
    "Arrivals",
    "Budget",
    "Bursts",
    "Chance",
    "Clients",
    "Closed",
    "Distribution",
    "Empirical",
    "Erlang",
    "Every",
    "Exponential",
    "Failures",
    "FirstAttempts",
    "Fixed",
    "Lognormal",
    "Never",
    "Poisson",
    "Recorded",
    "RecordedJob",
    "Renewal",
    "Varying",
    "Workload",
    "recorded",
]

_AT_ONCE, _NEVER = Fixed(0.0), Never()


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """What a system is given to do.

    Attributes:
        arrivals: When jobs come.
        service: How long an attempt takes: a distribution for all, or one for each name.
        failures: Which attempts fail: one way for all, or one for each name; a name that is left out never fails.
        names: The names of the jobs: some, each as likely as the other, or how likely each is, by name.
        jobs: How many arrivals there are at most; None for no limit. Jobs of clients that ask again do not count.
        capacity: How many jobs the system holds at most, waiting or running: it rejects who finds so many. None for
            no limit.
        clients: Who waits for the jobs and asks again; None for nobody.
        redraw: Whether each attempt of a job takes a time of its own; False for the same at each attempt.
        payload: What each job carries, any JSON value; a recorded job that has its own carries that.

    Raises:
        TypeError: A value is of another type.
        ValueError: A value is out of its range, or does not fit the others.

    Example:
        >>> from qlab import simulate
        >>> from qlab.workload import Chance, Fixed, Poisson, Workload
        >>> work = Workload(Poisson(rate=0.5), Fixed(1.0), Chance(0.2), names={"mail": 3, "report": 1}, jobs=10)
        >>> work.handlers, work.ends
        (('mail', 'report'), True)
        >>> simulate("memory://", workload=work, seed=7).trace.at(5.0).counts()
        Counts(ready=1, delayed=0, reserved=1, failed=0)
    """

    arrivals: Arrivals
    service: Distribution | Mapping[str, Distribution] = _AT_ONCE
    failures: Failures | Mapping[str, Failures] = _NEVER
    names: Sequence[str] | Mapping[str, float] = ("job",)
    jobs: int | None = None
    capacity: int | None = None
    clients: Clients | None = None
    redraw: bool = True
    payload: Any = None

    def __post_init__(self) -> None:
        _check(self.arrivals, Arrivals, "arrivals", "Poisson(rate=2.0)")
        object.__setattr__(self, "names", _names(self.names))
        object.__setattr__(self, "service", self._by_name("service"))
        object.__setattr__(self, "failures", self._by_name("failures"))
        for name in ("jobs", "capacity"):
            if getattr(self, name) is not None and not is_whole(getattr(self, name), least=1):
                raise ValueError(f"{name} is {getattr(self, name)!r}: use a whole number from 1, or None for no limit")
        if self.clients is not None:
            _check(self.clients, Clients, "clients", "Clients(timeout=20.0, attempts=4), or None")
            if isinstance(self.arrivals, Closed):
                raise ValueError("arrivals is Closed, whose clients wait as long as it takes: leave clients out")
        if not isinstance(self.redraw, bool):
            raise TypeError(f"redraw is {self.redraw!r}: use True or False")

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names that a job can have: those of a recording, and `names` where a job has none of its own."""
        if not isinstance(self.arrivals, Recorded):
            return tuple(self.names)
        own = dict.fromkeys(job.name for job in self.arrivals.jobs)
        return tuple(dict.fromkeys([*(self.names if "" in own else ()), *(name for name in own if name)]))

    @property
    def ends(self) -> bool:
        """Whether its arrivals are known to come to an end by themselves."""
        arrivals = self.arrivals
        if isinstance(arrivals, Bursts):
            return self.jobs is not None or arrivals.every is None
        if isinstance(arrivals, Varying) and not callable(arrivals.rate):
            return self.jobs is not None or not arrivals.rate[-1][1]
        return self.jobs is not None or isinstance(arrivals, Recorded)

    def service_of(self, name: str) -> Distribution:
        """Tell how long an attempt of a job takes, by its name."""
        return self.service[name] if isinstance(self.service, Mapping) else self.service

    def failures_of(self, name: str) -> Failures:
        """Tell which attempts of a job fail, by its name."""
        return self.failures.get(name, Never()) if isinstance(self.failures, Mapping) else self.failures

    def namer(self, random: Random) -> Callable[[], str]:
        """Make the function that names the next job: one number a name, none where there is one name only."""
        names = tuple(self.names)
        if len(names) == 1:
            return lambda: names[0]
        weights = self.names.values() if isinstance(self.names, Mapping) else [1.0] * len(names)
        *bounds, total = accumulate(weights)
        number = random.random
        return lambda: names[bisect_right(bounds, number() * total)]

    def _by_name(self, field: str) -> Any:
        """Check a field that says one thing for all names, or one for each."""
        value = getattr(self, field)
        check = distribution if field == "service" else _failures
        if not isinstance(value, Mapping):
            return check(value, field)
        handlers = self.handlers
        for name in value:
            if name not in handlers:
                raise ValueError(f"{field} names {name!r}: {_near(name, handlers)}")
        if field == "service" and (missing := [name for name in handlers if name not in value]):
            raise ValueError(
                f"service does not say how long {missing[0]!r} takes: name {', '.join(map(repr, missing))}"
            )
        return MappingProxyType({name: check(one, f"{field}[{name!r}]") for name, one in value.items()})

    def _stated(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}

    def __repr__(self) -> str:
        stated = self._stated()
        if (payload := stated.pop("payload")) is not None:
            stated["payload"] = shortened(repr(payload))
        return f"Workload({', '.join(f'{name}={value!r}' for name, value in stated.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._stated().values())


KINDS: tuple[type, ...] = (
    *(Workload, Clients, Budget, RecordedJob),
    *(Fixed, Exponential, Lognormal, Erlang, Empirical),
    *get_args(Arrivals),
    *get_args(Failures),
)
"""What a workload can be made of, and saved."""


def _names(names: Sequence[str] | Mapping[str, float]) -> Sequence[str] | Mapping[str, float]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"names is {names!r}: use a list of names, such as ({names!r},)")
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"names has {name!r}: use text that is not empty")
    if isinstance(names, Mapping):
        weights = {name: number_in(weight, f"names[{name!r}]") for name, weight in names.items()}
        if not sum(weights.values()):
            raise ValueError(f"names is {dict(names)!r}: use at least one name with a number above 0")
        return MappingProxyType(weights)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"names is {names!r}: use at least one, and each once, or a mapping to how likely each is")
    return tuple(names)


def _failures(value: object, what: str) -> object:
    return _check(value, Failures, what, "Chance(0.1), FirstAttempts(2), Never() or Always()")


def _check(value: object, kind: Any, what: str, such: str) -> object:
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {value!r}: use {such if ' or ' in such else f'what is one, such as {such}'}")
    return value


def _near(name: object, names: Sequence[str]) -> str:
    near = get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}the jobs are named {', '.join(map(repr, names))}"
