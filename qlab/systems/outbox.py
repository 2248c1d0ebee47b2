"""The mail outbox beside ADR 0019: one mail a minute, and so many a day, whatever was restarted meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from qlab import drivers
from qlab.clock import Clock, SystemClock, duration
from qlab.driver import Driver
from qlab.drivers.paced import PacedDriver
from qlab.job import Attempt, Job
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.systems.parts import System
from qlab.whole import is_whole

_KNOWN_DAY = datetime(1970, 1, 1, tzinfo=UTC)


class Outbox(System):
    """Mails that leave at a pace, and no more in a day than a cap; `mail_outbox` makes one.

    Args:
        queue: The queue, on a `PacedDriver`; it closes with the system.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.
        recover: What is made ready again before they begin, as a `Worker` takes it.

    Attributes:
        queue: The queue: dispatch to it, step it, look into it.

    Example:
        >>> from datetime import UTC, datetime
        >>> from qlab import SimulatedClock
        >>> from qlab.systems import mail_outbox
        >>> clock = SimulatedClock(epoch=datetime(2030, 1, 1, tzinfo=UTC))
        >>> outbox = mail_outbox("memory://", lambda job: None, clock=clock)
        >>> outbox.post({"to": "ada@example.org"})
        Job(id=1, name='mail', payload={"to":"ada@example.org"}, attempts=0, available_at=0)
        >>> _ = outbox.queue.work_once()
        >>> outbox.left_today()
        499
    """

    def post(self, mail: Any) -> Job:
        """Put a mail into the outbox.

        Args:
            mail: Any JSON value: what `send` gets as `job.payload`.
        """
        return self.queue.dispatch("mail", mail)

    def left_today(self) -> int | None:
        """Tell how many mails may still leave today; None without a cap."""
        assert isinstance(self.queue.driver, PacedDriver)  # noqa: S101 - `mail_outbox` has made it
        return self.queue.driver.left(self.queue.name, now=self.queue.clock.now())


def mail_outbox(
    store: Driver | str,
    send: Callable[[Attempt], Any],
    *,
    pace: float = 60.0,
    daily_cap: int | None = 500,
    zone: str | tzinfo = "UTC",
    policy: Policy | None = None,
    clock: Clock | None = None,
    workers: int = 1,
    poll: float = 1.0,
) -> Outbox:
    """Set up an outbox for mails on any driver: one a minute, and at most so many a day.

    Pace and cap are kept in the store, so they hold for all processes that have it open, and after a restart. Each
    attempt counts, also one that fails: the mail may have left. Workers work inside `with outbox:`.

    Args:
        store: The driver, or its address such as `sqlite:///outbox.db`.
        send: What sends a mail, which is its `job.payload`.
        pace: How many seconds at least are between two attempts; 0 for no pace.
        daily_cap: How many attempts there are in a day at the most; None for no cap.
        zone: Where the day begins at midnight, such as `Europe/Paris`: a day there may have 23 or 25 hours.
        policy: Tries, backoff and reservations; ADR 0019's by default.
        clock: Where the time of mails comes from; the machine's clock by default. With a cap it must know days:
            `SimulatedClock(epoch=…)`.
        workers: How many threads `start` makes.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.

    Raises:
        ValueError: A number is out of its range, there is no such time zone, or the clock knows no days.
        TypeError: `zone` is neither a name nor a tzinfo.

    Example:
        >>> from datetime import UTC, datetime
        >>> from qlab import SimulatedClock
        >>> from qlab.systems import mail_outbox
        >>> clock = SimulatedClock(epoch=datetime(2030, 1, 1, tzinfo=UTC))
        >>> outbox = mail_outbox("memory://", lambda job: None, daily_cap=2, clock=clock)
        >>> _ = [outbox.post({"number": number}) for number in (1, 2, 3)]
        >>> [outcome.at for outcome in outbox.queue.drain(until=172_800)]
        [0.0, 60.0, 86400.0]
    """
    clock = clock or SystemClock()
    pace = duration(pace, "pace")
    if daily_cap is not None and not is_whole(daily_cap, 1):
        raise ValueError(f"daily_cap is {daily_cap!r}: use how many mails leave in a day, from 1, or None for no cap")
    days = Days(clock, _zone(zone))
    if daily_cap is not None:
        days.end(clock.now())  # a clock without days says so here
    opened = drivers.open(store) if isinstance(store, str) else store
    paced = PacedDriver(opened, pace=pace, cap=daily_cap, day_ends=days.end)
    try:
        outbox = Outbox(Queue(paced, policy=policy, clock=clock, name="mail_outbox"), workers=workers, poll=poll)
        outbox.queue.handler("mail")(send)
    except BaseException:
        if isinstance(store, str):
            opened.close()
        raise
    return outbox


class Days:
    """The days of a clock, in a time zone.

    Args:
        clock: The clock.
        zone: The time zone.
    """

    def __init__(self, clock: Clock, zone: tzinfo) -> None:
        self._clock, self._zone = clock, zone

    def end(self, moment: float) -> float:
        """Tell when the day of a moment ends, both in the clock's seconds.

        Raises:
            ValueError: The clock knows no days.
        """
        since = timedelta(seconds=moment - self._clock.moment(_KNOWN_DAY))
        today = (_KNOWN_DAY + since).astimezone(self._zone).date()
        midnight = datetime.combine(today + timedelta(days=1), time(), self._zone)
        end = self._clock.moment(midnight)
        # Where clocks go back over midnight, it comes twice, and the first may be over.
        return end if end > moment else self._clock.moment(midnight.replace(fold=1))


def _zone(zone: str | tzinfo) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    if not isinstance(zone, str):
        raise TypeError(f"zone is {zone!r}: use a time zone's name, such as Europe/Paris, or a tzinfo")
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"zone is {zone!r}: use a time zone's name, such as Europe/Paris ({error})") from error
