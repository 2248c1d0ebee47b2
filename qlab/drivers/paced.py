"""Any driver, slowed down: at most one job in so many seconds, and so many in a day.

What may be taken are tickets, which are jobs themselves, in queues of their own in the same store. To take one is to
reserve it until it may be taken again, and nobody ever settles it: a ticket comes back by running out. So pace and cap
hold for every process, and survive a restart as the store's jobs do. A worker that dies with a ticket has used it.
"""

import hashlib
from collections.abc import Callable, Sequence

from qlab.clock import from_us, us
from qlab.driver import Driver
from qlab.drivers.before import Before
from qlab.job import NewJob, Reservation


class PacedDriver(Before):
    """A driver whose jobs are reserved no faster than a pace, and no more of them in a day than a cap.

    Each attempt counts, also one that fails.

    Args:
        store: The driver that keeps the jobs; it closes with this one.
        pace: How many seconds at least are between two reservations of a queue; 0 for no pace.
        cap: How many reservations of a queue there are in a day at the most; None for no cap.
        day_ends: Tells, for a moment in seconds, when its day ends, in seconds.

    Example:
        >>> from qlab import Queue, SimulatedClock, drivers
        >>> from qlab.systems import PacedDriver
        >>> store = PacedDriver(drivers.open("memory://"), pace=60, cap=None, day_ends=lambda moment: moment + 86_400)
        >>> queue = Queue(store, clock=SimulatedClock())
        >>> _ = queue.handler("mail")(lambda job: None)
        >>> _ = queue.dispatch_many([("mail", None)] * 3)
        >>> [outcome.at for outcome in queue.drain(until=300)]
        [0.0, 60.0, 120.0]
    """

    def __init__(self, store: Driver, *, pace: float, cap: int | None, day_ends: Callable[[float], float]) -> None:
        super().__init__(store)
        self.name = f"paced {store.name}"
        self._pace, self._cap, self._day_ends = pace, cap, day_ends
        self._ready: set[str] = set()

    # -- what is paced --

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        reservations: list[Reservation] = []
        while len(reservations) < limit and (held := self._reserve_one(queue, now, retry_after)):
            reservations.append(held)
        return reservations

    def complete_and_reserve(
        self, reservation: Reservation, *, now: float, retry_after: float | None
    ) -> tuple[bool, Reservation | None]:
        completed = self.complete(reservation, now=now)
        return completed, self._reserve_one(reservation.job.queue, now, retry_after)

    def next_due(self, queue: str, *, now: float) -> float | None:
        due = self._store.next_due(queue, now=now)
        if due is None:
            return None
        self._make_tickets(queue, now)
        tickets = [self._store.next_due(tickets, now=now) for tickets in self._tickets(queue)]
        return max([due, *(ticket for ticket in tickets if ticket is not None)])

    def left(self, queue: str, *, now: float) -> int | None:
        """Tell how many jobs of a queue may still be reserved this day; None without a cap."""
        if self._cap is None:
            return None
        self._make_tickets(queue, now)
        free = [job.payload for job in self._store.jobs(_caps(queue), now=now) if job.available_at <= now]
        return len([number for number in free if number < self._cap])

    def _reserve_one(self, queue: str, now: float, retry_after: float | None) -> Reservation | None:
        due = self._store.next_due(queue, now=now)
        if due is None or due > now:  # no ticket is touched where nothing waits
            return None
        self._make_tickets(queue, now)
        tickets = self._take_tickets(queue, now)
        found = self._store.reserve(queue, now=now, retry_after=retry_after) if tickets is not None else []
        if not found:
            self._give_back(tickets or [], now)
        return found[0] if found else None

    # -- tickets --

    def _tickets(self, queue: str) -> list[str]:
        return [*([_paces(queue)] if self._pace else []), *([_caps(queue)] if self._cap is not None else [])]

    def _make_tickets(self, queue: str, now: float) -> None:
        """Make those that are not there, each under a uid that it always has."""
        if queue in self._ready:
            return
        for tickets, count in ((_paces(queue), 1 if self._pace else 0), (_caps(queue), self._cap or 0)):
            if count:
                self._store.push(
                    tickets, [NewJob(_uid(tickets, n), "ticket", str(n), now) for n in range(count)], now=now
                )
        self._ready.add(queue)

    def _take_tickets(self, queue: str, now: float) -> list[Reservation] | None:
        """Take one of each kind, or none."""
        taken: list[Reservation] = []
        if self._pace:
            taken += self._store.reserve(_paces(queue), now=now, retry_after=self._pace)
            if not taken:
                return None
        if self._cap is not None:
            of_the_day = self._take_of_the_day(queue, now)
            if of_the_day is None:
                self._give_back(taken, now)
                return None
            taken.append(of_the_day)
        return taken

    def _take_of_the_day(self, queue: str, now: float) -> Reservation | None:
        # In whole microseconds, as stores keep them: no ticket is back before midnight.
        rest = from_us(us(self._day_ends(now)) - us(now))
        while found := self._store.reserve(_caps(queue), now=now, retry_after=rest):
            if self._cap is not None and found[0].job.payload < self._cap:
                return found[0]
            self._store.complete(found[0], now=now)  # made when the cap was higher
        return None

    def _give_back(self, tickets: Sequence[Reservation], now: float) -> None:
        for ticket in tickets:
            self._store.release(ticket, now=now)

    def check(self, queue: str, *, now: float) -> list[str]:
        own = [self._store.check(each, now=now) for each in (queue, _paces(queue), _caps(queue))]
        return [problem for problems in own for problem in problems]


def _paces(queue: str) -> str:
    return f"{queue}: pace"


def _caps(queue: str) -> str:
    return f"{queue}: day"


def _uid(tickets: str, number: int) -> str:
    return hashlib.sha256(f"{tickets} {number}".encode()).hexdigest()[:32]
