"""What a contention found."""

from dataclasses import dataclass, field

from qlab.simulation import Run


@dataclass(frozen=True, slots=True)
class Contention:
    """What real workers reached on each arm: stores and numbers of workers, in one session on one machine.

    Attributes:
        runs: Each repeat of each arm with each number of workers, in the order in which they ran; each has `measured`.
        skipped: What was left out, with the reason.
        machine: Versions and settings, by name.
        interrupted: Whether somebody ended it before its end.
        elapsed: How long all of it took, in seconds.
        notes: What disturbed it, in words; nothing where nothing did.
        arms: The names of the arms, in the order in which they were asked for.
    """

    runs: tuple[Run, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    elapsed: float = 0.0
    notes: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
