"""Flaws of the order: what comes back goes before what has waited since."""

from qlab.clock import us
from qlab.flaws.flaw import Flaw, those
from qlab.job import Job, Reservation


class _KeepsPlaces(Flaw):
    """What the two flaws of order share: where each job stood when it was reserved."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], tuple[int, int]] = {}

    def reserve(self, queue: str, *, now: float, retry_after: float | None, limit: int = 1) -> list[Reservation]:
        with self._lock:
            found = super().reserve(queue, now=now, retry_after=retry_after, limit=limit)
            for held in found:
                row = self._row(held.job)
                if row is not None:
                    self._places[queue, held.job.id] = us(held.claimable_since), row.seq
            return found

    def _to_its_place(self, job: Job, now: float) -> None:
        self._place(job, *self._places[job.queue, job.id], us(now))


class ReleasesInPlace(_KeepsPlaces):
    """A job that is released without a delay goes back to where it was, before all that has waited since.

    RabbitMQ puts what a consumer hands back to its first position if it can, and beanstalkd orders by id alone within a
    priority. One job that always fails is at the head again at once: the rest wait until its attempts are used up, or
    for ever where they never are.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("two_jobs", driver=flaws.ReleasesInPlace).first_broken.says
        'job 2 was ready all the while, and job 1 went before it twice'
    """

    name = "release in place"
    promise = "A released job goes behind those that are claimable by then."
    does = "A job that is released without a delay goes back to where it stood, before all others."

    def release(self, reservation: Reservation, *, now: float, delay: float = 0.0) -> bool:
        with self._lock:
            released = super().release(reservation, now=now, delay=delay)
            if released and us(delay) == 0:
                self._to_its_place(reservation.job, now)
            return released


class RecoversInPlace(_KeepsPlaces):
    """A recovered job goes back to where it was, before all that has waited since.

    A list does it to whose head a dead worker's jobs are pushed back; Sidekiq came to need a rule against jobs that
    kill one process after another (sidekiq/sidekiq#4633). A job that kills its worker kills the next one before any
    good job has had its turn.

    Example:
        >>> from qlab import explore, flaws
        >>> explore("restart", driver=flaws.RecoversInPlace).first_broken.says
        'job 2 was ready all the while, and job 1 went before it twice'
    """

    name = "recover in place"
    promise = "A recovered job goes behind those that are claimable now."
    does = "A recovered job goes back to where it stood, before all others."

    def recover(self, queue: str, *, now: float, force: bool = False) -> list[Job]:
        with self._lock:
            recovered = super().recover(queue, now=now, force=force)
            for job in recovered:
                self._to_its_place(job, now)
            return those(self.jobs(queue, now=now), recovered)
