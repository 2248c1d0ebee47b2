"""What real workers on a real store reached, beside the trace of what they did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One run in real time: the figures that no trace has.

    Attributes:
        arm: What was run, in a few words, such as `sqlite FULL`: the runs of an arm differ in workers and repeat only.
        workers: How many workers there were.
        repeat: Which repeat it was, from 0.
        mode: Whether the workers were a `process` or a `thread` each.
        seconds: From the moment at which all could begin to the end of the last job.
        per_worker: How many jobs each worker completed, in the order of the workers.
        reserves: How long each call took that brought a worker its job, in microseconds, in no order.
        completes: How long each call took that completed a job, in microseconds; one that did both counts in both.
        waits: How long each job waited for its first attempt, in microseconds, from its dispatch (or the start, where
            it was there before) to the end of the call that reserved it.
        dispatches: How long each dispatch took that was made while workers worked, in microseconds.
        behind: How late the latest of those began, in seconds.
        locked: How many calls waited for the store's lock for over a millisecond.
        locked_seconds: How long they did, together.
        lock_errors: How many calls were given up: of SQLite because of its lock, of a server because it did not answer.
        lost: How many jobs were dispatched, and are neither completed, failed nor in the store.
        duplicated: How many jobs were completed more than once, or given out twice as the same attempt.
        worker_cpu: The workers' processor time, in seconds.
        server_cpu: The server's, in seconds; 0 where there is none.
        disk_bytes: What the store's files take at the end.
        noise: How much longer the same counting took beside and after the run than on the quietest occasion; 1 for a
            quiet machine.
    """

    arm: str
    workers: int
    repeat: int
    mode: str
    seconds: float
    per_worker: tuple[int, ...]
    reserves: tuple[int, ...] = ()
    completes: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    dispatches: tuple[int, ...] = ()
    behind: float = 0.0
    locked: int = 0
    locked_seconds: float = 0.0
    lock_errors: int = 0
    lost: int = 0
    duplicated: int = 0
    worker_cpu: float = 0.0
    server_cpu: float = 0.0
    disk_bytes: int = 0
    noise: float = 1.0

    @property
    def jobs_per_second(self) -> float:
        """How many jobs were completed in a second."""
        return sum(self.per_worker) / self.seconds if self.seconds else 0.0
