"""Flaws of recovery: it goes by the name of a worker."""

from qlab.clock import us
from qlab.flaws.flaw import those
from qlab.flaws.holding import NeverRunsOut
from qlab.job import Job, Reservation


class _Sweeps(NeverRunsOut):
    """What the two sweeps share: no reservation runs out, since a sweep is to bring back what a dead worker held.

    Whoever steps a worker says so first (`hear`), because no verb of the contract tells who calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self._caller = ""
        self._owned: dict[tuple[str, int], tuple[str, Reservation]] = {}

    def hear(self, worker: str, *, now: float) -> None:
        """Learn who reserves, settles or recovers next, and when, in seconds."""
        self._caller = worker

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            self._owned |= {(queue, held.job.id): (self._caller, held) for held in found}
            return found

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        with self._lock:
            held = [held for owner, held in self._owned.values() if held.job.queue == queue and self._takes(owner, now)]
            swept = [each.job for each in held if self.release(each, now=now)]
            return those(self.jobs(queue, now=now), swept)

    def _takes(self, owner: str, now: float) -> bool:
        raise NotImplementedError


class SweepsItsOwn(_Sweeps):
    """A worker that starts brings back what a worker of the same name held, at once, and nothing else ever does.

    Sidekiq's reliable fetch kept a list for each process name (sidekiq/sidekiq#1573, #2595). It is quick and robs
    nobody; where the name changes with the restart, as a container's does, the job is an orphan for ever.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("renamed", driver=flaws.SweepsItsOwn).first_broken.says
        'job 1 is reserved, nobody has it, and nobody will ever get it'
    """

    name = "sweep of one's own"
    promise = "Recovery goes by the reservation alone: whoever recovers finds what a dead worker held."
    does = "A sweep takes what a worker of the caller's name holds, and nothing else; nothing runs out."

    def _takes(self, owner: str, now: float) -> bool:
        return owner == self._caller


class SweepsDeadOwners(_Sweeps):
    """A sweep brings back what workers held that were not heard of for a minute, by their names.

    Oban and Procrastinate look for producers or workers that are gone (oban-bg/oban#862,
    procrastinate-org/procrastinate#1518). Where a worker dies and another starts under its name in time, the name is
    alive, and its job is an orphan for ever.

    Args:
        silent_for: After how many seconds without a word a name counts as dead.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("restart", driver=flaws.SweepsDeadOwners).first_broken.says
        'job 1 is reserved, nobody has it, and nobody will ever get it'
    """

    name = "sweep of dead owners"
    promise = "Recovery goes by the reservation alone, and not by whether a worker of some name is alive."
    does = "A sweep takes what workers hold whose name was not heard of for a minute; nothing runs out."

    def __init__(self, silent_for: float = 60.0) -> None:
        super().__init__()
        self._silent_for = us(silent_for)
        self._heard: dict[str, int] = {}

    def hear(self, worker: str, *, now: float) -> None:
        super().hear(worker, now=now)
        self._heard[worker] = us(now)

    def _takes(self, owner: str, now: float) -> bool:
        return self._heard.get(owner, 0) + self._silent_for <= us(now)
