"""Which jobs a store has lost: those that a trace knows of, and the store does not."""

from qlab.job import JobState
from qlab.queue import Queue
from qlab.trace import Kind, Moment, Trace


class Losses:
    """Looks for what a store has lost, and records it.

    Args:
        trace: What happened.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._seen = 0
        self._known = Moment()

    def look(self, queue: Queue, *, failed: bool = False) -> list[int]:
        """Find the jobs that a queue's store has lost.

        Args:
            queue: The queue.
            failed: Whether the store has lost every failed job, too.

        Raises:
            DriverUnavailable: The store does not answer.
        """
        while self._seen < len(self._trace):
            self._known.apply(self._trace[self._seen])
            self._seen += 1
        known = self._known.jobs.values()
        waiting = [seen.id for seen in known if seen.settled is None]
        # To count is cheap, and nearly always enough.
        there = {job.id for job in queue.jobs()} if len(waiting) > queue.counts().depth else waiting
        gone = [seen.id for seen in known if failed and seen.settled is JobState.FAILED]
        return sorted({*waiting} - {*there} | {*gone})

    def record(self, lost: list[int], now: float, detail: str = "") -> None:
        """Record that jobs are lost.

        Args:
            lost: Which ones.
            now: The moment, in seconds.
            detail: How, where that is not sure.
        """
        for job in lost:
            seen = self._known.jobs[job]
            self._trace.record(now, Kind.LOST, job, seen.name, seen.attempts, detail=detail)
